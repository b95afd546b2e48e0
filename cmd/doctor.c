/* SPDX-License-Identifier: Apache-2.0 */
/* infer doctor: lists the devices and libraries on this machine, and why others are missing. */
#include "base/json_write.h"
#include "cmd/options/command.h"
#include "cpu/cpu.h"
#include "gpu/driver/api.h"
#include "gpu/driver/cuda.h"
#include "cmd/output/output.h"

#include <inttypes.h>

enum { MAX_GPUS = 16 };

struct health {
	struct diag why; /* why there is no GPU; its arena owns the strings below */
	struct device_info cpu;
	struct device_facts gpu[MAX_GPUS];
	int ngpu;
	struct library_info libraries[LIBRARIES + 6];
	int nlibraries;
};

/* Opens the library in the same way as the code that uses it would, so that the result is the same. */
static void probe_library(struct health *h, const char *name, const char *use, const char *without,
			  const char *const *sonames)
{
	struct library_info *i = &h->libraries[h->nlibraries++];
	struct dl lib;

	*i = (struct library_info){.name = name, .use = use, .without = without};
	i->found = !dl_open(&lib, sonames, NULL, NULL, 0, NULL);
	if (i->found)
		snprintf(i->path, sizeof(i->path), "%s", lib.path);
	else
		i->why = fmt(&h->why, "%s", lib.tried);
}

static void probe_machine(struct health *h)
{
	static const char *const dnnl[] = {"libdnnl.so.3", NULL}, *const png[] = {"libpng16.so.16", NULL},
				 *const jpeg[] = {"libjpeg.so.8", "libjpeg.so.62", NULL},
				 *const webp[] = {"libwebp.so.7", NULL},
				 *const tiff[] = {"libtiff.so.6", "libtiff.so.5", NULL},
				 *const jp2[] = {"libopenjp2.so.7", NULL};

	cpu_backend.probe(&h->cpu, 1, NULL);
	h->ngpu = gpu_devices(h->gpu, MAX_GPUS, &h->why);
	libraries_probe(h->libraries, &h->why);
	h->nlibraries = LIBRARIES;
	probe_library(h, "oneDNN", "fast CPU kernels",
		      "the built-in kernels are used, which are several times slower", dnnl);
	probe_library(h, "libpng", "reading PNG pictures", "PNG pictures cannot be read", png);
	probe_library(h, "libjpeg", "reading JPEG pictures", "JPEG pictures cannot be read", jpeg);
	probe_library(h, "libwebp", "reading WebP pictures", "WebP pictures cannot be read", webp);
	probe_library(h, "libtiff", "reading TIFF pictures", "TIFF pictures cannot be read", tiff);
	probe_library(h, "OpenJPEG", "reading JPEG 2000 pictures",
		      "JPEG 2000 pictures cannot be read", jp2);
}

static const char *missing_gpu_reason(const struct health *h)
{
	const struct finding *f = h->why.first;

	return f ? f->message ? f->message : code_title(f->code) : "none found";
}

static const char *describe_kernels(const struct device_facts *f)
{
	bool ptx;

	if (!gpu_has_code(f, &ptx))
		return "no kernels";
	return ptx ? "only PTX code, which the driver compiles at first use," : "kernels";
}

static void print_text(const struct health *h)
{
	printf("cpu       %s, %.1f GiB of memory\n", h->cpu.name, (double)h->cpu.memory / (1 << 30));
	for (int k = 0; k < h->ngpu; k++)
		printf("cuda:%-4d %s, %.1f GiB of memory, compute capability %d.%d, %d multiprocessors\n",
		       k, h->gpu[k].name, (double)h->gpu[k].memory / (1 << 30), h->gpu[k].major,
		       h->gpu[k].minor, h->gpu[k].processors);
	for (int k = 0; k < h->ngpu; k++)
		printf("          this build has %s for cuda:%d\n", describe_kernels(&h->gpu[k]), k);
	if (!h->ngpu) {
		printf("cuda      missing: %s\n", missing_gpu_reason(h));
		if (h->why.first && h->why.first->actual)
			printf("          %s\n", h->why.first->actual);
	}
	for (int k = 0; k < h->nlibraries; k++) {
		const struct library_info *i = &h->libraries[k];
		if (i->found)
			printf("%-12s %s%s%s  (%s)\n", i->name, i->version, *i->version ? "  " : "",
			       i->path, i->use);
		else
			printf("%-12s missing, so %s\n             %s\n", i->name, i->without, i->why);
	}
}

static void print_json(struct options *o, const struct health *h, struct diag *d)
{
	struct json j;

	json_envelope_begin(&j, o, d);
	json_array(&j, "devices");
	json_object(&j, NULL);
	json_string(&j, "device", "cpu");
	json_string(&j, "name", h->cpu.name);
	json_uint(&j, "memory_bytes", h->cpu.memory);
	json_end(&j, '}');
	for (int k = 0; k < h->ngpu; k++) {
		char name[32];
		snprintf(name, sizeof(name), "cuda:%d", k);
		json_object(&j, NULL);
		json_string(&j, "device", name);
		json_string(&j, "name", h->gpu[k].name);
		json_uint(&j, "memory_bytes", h->gpu[k].memory);
		json_int(&j, "compute_major", h->gpu[k].major);
		json_int(&j, "compute_minor", h->gpu[k].minor);
		json_int(&j, "multiprocessors", h->gpu[k].processors);
		json_string(&j, "kernels", describe_kernels(&h->gpu[k]));
		json_end(&j, '}');
	}
	json_end(&j, ']');
	json_string(&j, "cuda_missing", h->ngpu ? NULL : missing_gpu_reason(h));
	json_array(&j, "libraries");
	for (int k = 0; k < h->nlibraries; k++) {
		const struct library_info *i = &h->libraries[k];
		json_object(&j, NULL);
		json_string(&j, "name", i->name);
		json_bool(&j, "found", i->found);
		json_string(&j, "path", i->found ? i->path : NULL);
		json_string(&j, "version", *i->version ? i->version : NULL);
		json_string(&j, "missing", i->why);
		json_string(&j, "used_for", i->use);
		json_string(&j, "without_it", i->without);
		json_end(&j, '}');
	}
	json_end(&j, ']');
	json_envelope_end(&j, d);
}

/* Always succeeds: a missing device or library is information, not a failure. */
int cmd_doctor(struct options *o, struct diag *d)
{
	struct health h = {0};

	probe_machine(&h);
	if (o->json)
		print_json(o, &h, d);
	else
		print_text(&h);
	diag_free(&h.why);
	return 0;
}
