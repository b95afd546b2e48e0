/* SPDX-License-Identifier: Apache-2.0 */
/* infer selftest: runs the cases inside the program on each device, and compares the outputs with the stored results. */
#include "base/clock.h"
#include "base/json_write.h"
#include "cmd/options/subcommand.h"
#include "cmd/output/output.h"
#include "ir/difference.h"
#include "onnx/tensor_pb.h"
#include "session/backends.h"
#include "session/session.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/*
 * A tar archive, linked into the program: CASE/model.onnx with CASE/test_data_set_0/{input,output}_K.pb, of those cases of
 * the conformance tests that cmd/selftest.txt names.
 */
extern const unsigned char selftest_cases[], selftest_cases_end[];
enum { BLOCK = 512, MAX_DEVICES = 16 };

struct tally {
	unsigned passed, failed;
	double seconds;
};

/* Returns the size of the member whose header is at p. */
static size_t member_size(const unsigned char *p)
{
	return strtoul((const char *)p + 124, NULL, 8);
}

static const unsigned char *next_member(const unsigned char *p)
{
	return p + BLOCK + (member_size(p) + BLOCK - 1) / BLOCK * BLOCK;
}

/* Two blocks of zeros end the archive. */
static bool is_member(const unsigned char *p)
{
	return p < selftest_cases_end && *p;
}

static const unsigned char *find_member(const char *name, size_t *bytes)
{
	for (const unsigned char *p = selftest_cases; is_member(p); p = next_member(p)) {
		if (!strcmp((const char *)p, name)) {
			*bytes = member_size(p);
			return p + BLOCK;
		}
	}
	return NULL;
}

/* Sessions open models by path: one of a file in memory. */
static struct session *open_model(const char *name, const struct run_config *config, struct diag *d)
{
	size_t n = 0;
	const unsigned char *bytes = find_member(fmt(d, "%s/model.onnx", name), &n);
	struct session *s = NULL;
	int fd = memfd_create("selftest", MFD_CLOEXEC);

	if (fd < 0 || !bytes || write(fd, bytes, n) != (ssize_t)n)
		FAIL(d, E_MEMORY, .message = "a file in memory cannot be made");
	else
		s = session_open(fmt(d, "/proc/self/fd/%d", fd), config, d);
	if (fd >= 0)
		close(fd);
	return s;
}

static const struct tensor *read_value(const char *name, const char *what, uint32_t k,
				       struct type type, struct diag *d)
{
	size_t n = 0;
	const char *member = fmt(d, "%s/test_data_set_0/%s_%" PRIu32 ".pb", name, what, k);
	const void *bytes = find_member(member, &n);

	if (bytes)
		return tensor_pb_parse(bytes, n, type, &d->arena, d);
	FAIL(d, E_INTERNAL, .message = fmt(d, "the program holds no %s", member));
	return NULL;
}

/* Devices add up in different orders, and what is stored was rounded to the output's type. */
static struct tolerance tolerance_of(const struct tensor *t)
{
	if (tensor_dtype(t) == DT_BF16)
		return (struct tolerance){3e-2, 8e-3};
	if (tensor_dtype(t) == DT_F16)
		return (struct tolerance){4e-3, 1e-3};
	return (struct tolerance){1e-3, 1e-7};
}

static int run_case(struct session *s, const char *name, struct diag *d)
{
	const struct graph *g = session_model(s)->graph;
	const struct tensor **in = arena_new_n(&d->arena, const struct tensor *, g->nin + 1);
	const struct tensor **out = arena_new_n(&d->arena, const struct tensor *, g->nout + 1);

	for (uint32_t k = 0; k < g->nin; k++) {
		in[k] = read_value(name, "input", k, g->value[g->in[k]]->info.type, d);
		if (!in[k])
			return -E_INTERNAL;
	}
	int err = session_run(s, in, out, d);
	for (uint32_t k = 0; k < g->nout && !err; k++) {
		const struct tensor *want = read_value(name, "output", k, out[k]->type, d);
		struct difference x;
		if (!want)
			return -E_INTERNAL;
		if (compare_tensors(out[k], want, tolerance_of(want), &x))
			continue;
		err = FAIL(d, E_COMPARE,
			   .message = fmt(d, "%s: output '%s' differs from the stored result", name,
					  g->out_name[k]),
			   .expected = fmt(d, "%.9g", x.want),
			   .actual = fmt(d,
					 "%.9g at element %" PRId64 "; %" PRId64 " of %" PRId64
					 " differ",
					 x.got, x.first, x.beyond, x.count));
	}
	return err;
}

/* The findings of a case name the device. */
static void add_findings(const char *device, const struct diag *from, struct diag *to)
{
	for (const struct finding *f = from->first; f; f = f->next) {
		struct finding copy = *f;
		copy.slot = device;
		if (f->severity == SEV_ERROR || !diag_find(to, &copy))
			diag_add(to, &copy);
	}
}

static struct tally test_device(const char *device, struct diag *d)
{
	const struct run_config config = {.device = device,
					  .precision = PRECISION_FP32,
					  .optimize = OPTIMIZE_FULL,
					  .memory_plan = true,
					  .arena = true};
	uint64_t begin = clock_ns();
	struct tally t = {0};

	for (const unsigned char *p = selftest_cases; is_member(p); p = next_member(p)) {
		const char *slash = strstr((const char *)p, "/model.onnx");
		struct diag own = {0};
		if (!slash)
			continue;
		const char *name = fmt(&own, "%.*s", (int)(slash - (const char *)p), (const char *)p);
		struct session *s = open_model(name, &config, &own);
		bool passed = s && run_case(s, name, &own) == 0;
		t.passed += passed;
		t.failed += !passed;
		session_close(s);
		add_findings(device, &own, d);
		diag_free(&own);
	}
	t.seconds = (double)(clock_ns() - begin) / 1e9;
	return t;
}

static void report_device(struct json *j, const char *device, struct tally t)
{
	if (!j) {
		printf("%-9s %u case%s passed, %u failed, in %.1f s\n", device, t.passed,
		       t.passed == 1 ? "" : "s", t.failed, t.seconds);
		fflush(stdout);
		return;
	}
	json_object(j, NULL);
	json_string(j, "device", device);
	json_uint(j, "passed", t.passed);
	json_uint(j, "failed", t.failed);
	json_number(j, "seconds", t.seconds);
	json_end(j, '}');
}

int cmd_selftest(struct options *o, struct diag *d)
{
	struct json j;

	/* Cases are opened as /proc/self/fd/N. Without /proc all of them would fail, and the devices would seem to be at fault. */
	if (access("/proc/self/fd", X_OK))
		return FAIL(d, E_DEVICE, .message = "the self-test cannot run without /proc",
			    .expected = "a readable folder /proc/self/fd",
			    .actual = strerror(errno), .hint = "mount it: mount -t proc proc /proc");
	if (o->json) {
		json_envelope_begin(&j, o, d);
		json_array(&j, "devices");
	}
	for (int b = 0; b < BACKENDS; b++) {
		struct device_info info[MAX_DEVICES];
		struct diag why = {0};
		int n = backends[b]->probe(info, MAX_DEVICES, &why);
		diag_free(&why);
		for (int k = 0; k < n; k++) {
			const char *device = b == HOST_BACKEND
						     ? backends[b]->name
						     : fmt(d, "%s:%d", backends[b]->name, k);
			report_device(o->json ? &j : NULL, device, test_device(device, d));
		}
	}
	if (o->json) {
		json_end(&j, ']');
		json_envelope_end(&j, d);
	}
	return d->errors ? -(int)E_COMPARE : 0;
}
