/* SPDX-License-Identifier: Apache-2.0 */
/* The CPU backend's table of functions. Its only device is the host, and its buffers are ordinary host memory. */
#include "cpu/cpu.h"

#include "backend/observe.h"
#include "base/pool.h"
#include "cpu/math/simd.h"
#include "cpu/onednn/onednn.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct device {
	int ordinal;
};

#define FAMILY(F) extern const struct kernel cpu_##F[];
#define EXPRESSED(F)
#include "ops/families.def"
#undef FAMILY

static const struct kernel no_kernels[] = {{0}};
static const struct kernel *const families[] = {
#define FAMILY(F)    cpu_##F,
#define EXPRESSED(F) no_kernels,
#include "ops/families.def"
#undef FAMILY
};

/* Writes the processor's model name, as Linux reports it in /proc/cpuinfo, to `out`. */
static void read_cpu_name(char *out, size_t room)
{
	char line[256];
	FILE *f = fopen("/proc/cpuinfo", "re");
	snprintf(out, room, "CPU");
	while (f && fgets(line, sizeof(line), f)) {
		char *colon = strchr(line, ':');
		if (strncmp(line, "model name", 10) != 0 || !colon)
			continue;
		colon += strspn(colon, ": \t");
		colon[strcspn(colon, "\n")] = 0;
		snprintf(out, room, "%s", colon);
		break;
	}
	if (f)
		fclose(f);
}

static int cpu_probe(struct device_info *info, int max, struct diag *why)
{
	(void)why;
	if (max < 1)
		return 0;
	long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
	*info = (struct device_info){.memory = (uint64_t)pages * (uint64_t)page};
	read_cpu_name(info->name, sizeof(info->name));
	return 1;
}

static void cpu_describe(const struct device *device, struct device_description *out, struct arena *a)
{
	struct device_info info = {.name = ""};
	/* onednn_about() returns "oneDNN 3.2.0 (...)", or the reason why oneDNN cannot be used. */
	const char *dnnl = onednn_about(), *path = strstr(dnnl, " (");
	bool usable = path && !strncmp(dnnl, "oneDNN ", 7);

	(void)device;
	cpu_probe(&info, 1, NULL);
	*out = (struct device_description){
		.name = arena_str(a, info.name),
		.libraries = usable ? arena_strn(a, dnnl, (size_t)(path - dnnl)) : "no oneDNN"};
}

static struct device *cpu_open(int ordinal, const struct run_config *config, struct diag *d)
{
	/*
	 * The host has no state. Only the address of this struct is used, as the handle of the
	 * host.
	 */
	static struct device host;
	if (ordinal != 0) {
		FAIL(d, E_DEVICE, .expected = "cpu", .actual = fmt(d, "cpu:%d", ordinal));
		return NULL;
	}
	if (config && config->threads > 0)
		pool_set_threads((int)(config->threads < 4096 ? config->threads : 4096));
	return &host;
}

static void cpu_close(struct device *device)
{
	(void)device;
}

static int cpu_alloc(struct device *device, size_t bytes, enum mem_purpose purpose,
		     struct buffer *b, struct diag *d)
{
	(void)device;
	b->ptr = mem_alloc(bytes ? bytes : 1, purpose);
	b->bytes = b->ptr ? bytes
			  : 0; /* with its size, a slab that was refused would not be asked for again */
	if (!b->ptr)
		return FAIL(d, E_MEMORY,
			    .actual = fmt(d, "%zu bytes for %s", bytes, mem_purpose_name(purpose)));
	return 0;
}

static void cpu_free(struct device *device, struct buffer *b)
{
	(void)device;
	mem_free(b->ptr);
	*b = (struct buffer){0};
}

static int cpu_copy(struct stream *stream, void *dst, int dst_device, const void *src,
		    int src_device, size_t bytes, struct diag *d)
{
	(void)stream;
	if (dst_device || src_device)
		return FAIL(d, E_INTERNAL, .actual = "a copy between devices asked of the CPU");
	memcpy(dst, src, bytes);
	return 0;
}

static int cpu_wait(struct stream *stream, struct diag *d)
{
	(void)stream;
	(void)d;
	return 0;
}

static double cpu_multiply_add(int64_t rounds)
{
	float result;
	int each = simd()->multiply_add(rounds, &result);

	/* reading the result keeps the loop; it is never 0, because each chain tends to 1 */
	return result == 0 ? 0 : 2.0 * each * (double)rounds;
}

const struct backend cpu_backend = {
	.name = "cpu",
	.probe = cpu_probe,
	.open = cpu_open,
	.close = cpu_close,
	.alloc = cpu_alloc,
	.free = cpu_free,
	.copy = cpu_copy,
	.families = families,
	.reorder = &cpu_reorder,
	.wait = cpu_wait,
	.describe = cpu_describe,
	.multiply_add = cpu_multiply_add,
};
