/* SPDX-License-Identifier: Apache-2.0 */
/* infer doctor: lists the devices and libraries on this machine, and why others are missing. */
#include "backend/observe.h"
#include "base/dl.h"
#include "base/json_write.h"
#include "cmd/options/subcommand.h"
#include "cmd/output/output.h"
#include "image/image.h"
#include "session/backends.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_DEVICES = 16, HOST_LIBRARIES = 9 };

struct health {
	struct found_devices {
		struct device_info info[MAX_DEVICES];
		int n;
		/* reasons why there is no device; also owns the strings about libraries */
		struct diag why;
	} devices[BACKENDS];
	struct library_info libraries[BACKENDS * MAX_LIBRARIES + HOST_LIBRARIES];
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
	i->how = lib.how;
	if (i->found)
		snprintf(i->path, sizeof(i->path), "%s", lib.path);
	else
		i->why = fmt(&h->devices[HOST_BACKEND].why, "%s", lib.tried);
}

static void probe_machine(struct health *h)
{
	static const char *const
		dnnl[] = {DNNL_NAME, "libdnnl.so.3", NULL},
		*const png[] = {"libpng16.so.16", NULL}, *const webp[] = {"libwebp.so.7", NULL},
		*const tiff[] = {"libtiff.so.6", "libtiff.so.5", NULL},
		*const jp2[] = {"libopenjp2.so.7", NULL}, *const heif[] = {"libheif.so.1", NULL},
		*const sndfile[] = {"libsndfile.so.1", NULL}, *const soxr[] = {"libsoxr.so.0", NULL};

	for (int b = 0; b < BACKENDS; b++) {
		struct found_devices *f = &h->devices[b];
		f->n = backends[b]->probe(f->info, MAX_DEVICES, &f->why);
		if (backends[b]->libraries)
			h->nlibraries +=
				backends[b]->libraries(&h->libraries[h->nlibraries], &f->why);
	}
	probe_library(h, "oneDNN", "fast CPU kernels",
		      "the built-in kernels are used, which are several times slower", dnnl);
	probe_library(h, "libpng", "reading PNG pictures", "PNG pictures cannot be read", png);
	probe_library(h, "libjpeg", "reading JPEG pictures", "JPEG pictures cannot be read",
		      image_jpeg_names);
	probe_library(h, "libwebp", "reading WebP pictures", "WebP pictures cannot be read", webp);
	probe_library(h, "libtiff", "reading TIFF pictures", "TIFF pictures cannot be read", tiff);
	probe_library(h, "OpenJPEG", "reading JPEG 2000 pictures",
		      "JPEG 2000 pictures cannot be read", jp2);
	probe_library(h, "libheif", "reading HEIF and AVIF pictures",
		      "HEIF and AVIF pictures cannot be read", heif);
	probe_library(h, "libsndfile", "reading sound files", "sound files cannot be read", sndfile);
	probe_library(h, "soxr", "resampling sounds", "sounds are read at their own rate only", soxr);
}

static const char *reason_for_none(const struct found_devices *f)
{
	const struct finding *first = f->why.first;

	return first ? first->message ? first->message : code_title(first->code) : "none found";
}

/* Whether this is why one of the libraries is missing. */
static bool is_told_of(const struct health *h, const char *why)
{
	for (int k = 0; k < h->nlibraries; k++)
		if (!h->libraries[k].found && h->libraries[k].why && strstr(h->libraries[k].why, why))
			return true;
	return false;
}

/*
 * Prints why a library is missing: with -v each place that was searched, otherwise those that say more than that the library is
 * not there. Returns true if places were left out.
 */
static bool print_reason(const struct options *o, const char *indent, const char *why, FILE *f)
{
	struct arena a = {0};
	const char *text = o->verbose ? why : dl_brief(why, &a);
	bool brief = strcmp(text, why) != 0;

	fprintf(f, "%s%s\n", indent, text);
	arena_free(&a);
	return brief;
}

static void print_accelerator(const struct options *o, const struct health *h, const char *name,
			      const struct found_devices *found, FILE *f)
{
	for (int k = 0; k < found->n; k++) {
		const struct device_info *i = &found->info[k];
		fprintf(f,
			"%s:%-4d %s, %.1f GiB of memory, compute capability %d.%d, %d multiprocessors\n",
			name, k, i->name, (double)i->memory / (1 << 30), i->compute_major,
			i->compute_minor, i->multiprocessors);
	}
	for (int k = 0; k < found->n; k++)
		fprintf(f, "          this build has %s for %s:%d\n", found->info[k].kernels, name, k);
	if (found->n)
		return;
	fprintf(f, "%-9s missing: %s\n", name, reason_for_none(found));
	/* where a library was searched stands with the library */
	if (found->why.first && found->why.first->actual && !is_told_of(h, found->why.first->actual))
		print_reason(o, "          ", found->why.first->actual, f);
}

/* Says which file of options is read for all runs, which a misspelt path or an empty INFER_CONFIG would otherwise hide. */
static void print_settings(FILE *f)
{
	const char *named = getenv("INFER_CONFIG");
	struct arena a = {0};
	const char *own = options_user_config(&a);

	if (named)
		fprintf(f, "settings     %s\n",
			*named ? arena_printf(&a, "%s, which INFER_CONFIG names", named)
			       : "no file is read, because INFER_CONFIG is empty");
	else if (own && !access(own, R_OK))
		fprintf(f, "settings     %s is read for all runs\n", own);
	else if (own)
		fprintf(f,
			"settings     none; options for all runs may stand in %s, as lines such as 'threads: 4'\n",
			own);
	arena_free(&a);
}

static void print_text(const struct options *o, const struct health *h, FILE *f)
{
	bool brief = false;
	const struct device_info *host = h->devices[HOST_BACKEND].info;

	fprintf(f, "%-9s %s, %.1f GiB of memory\n", host_backend()->name, host->name,
		(double)host->memory / (1 << 30));
	for (int b = FIRST_ACCELERATOR; b < BACKENDS; b++)
		print_accelerator(o, h, backends[b]->name, &h->devices[b], f);
	for (int k = 0; k < h->nlibraries; k++) {
		const struct library_info *i = &h->libraries[k];
		if (i->found)
			fprintf(f, "%-12s %s%s%s  (%s; %s)\n", i->name, i->version,
				*i->version ? "  " : "", i->path, i->use, i->how);
		else
			fprintf(f, "%-12s missing, so %s\n", i->name, i->without);
		/* libraries of one backend are often missing for the same reason, which is told with the first of them */
		if (!i->found && (!k || i[-1].found || strcmp(i[-1].why, i->why) != 0))
			brief |= print_reason(o, "             ", i->why, f);
	}
	if (brief)
		fprintf(f,
			"             (infer doctor -v lists each place where missing libraries were searched)\n");
	print_settings(f);
	fprintf(f, "\nTo see whether these devices compute correctly, run: infer selftest\n");
}

static void write_accelerator(struct json *j, const char *name, const struct found_devices *f)
{
	for (int k = 0; k < f->n; k++) {
		const struct device_info *i = &f->info[k];
		char device[32];
		snprintf(device, sizeof(device), "%s:%d", name, k);
		json_object(j, NULL);
		json_string(j, "device", device);
		json_string(j, "name", i->name);
		json_uint(j, "memory_bytes", i->memory);
		json_int(j, "compute_major", i->compute_major);
		json_int(j, "compute_minor", i->compute_minor);
		json_int(j, "multiprocessors", i->multiprocessors);
		json_string(j, "kernels", i->kernels);
		json_end(j, '}');
	}
}

static void print_json(struct options *o, const struct health *h, struct diag *d)
{
	const struct device_info *host = h->devices[HOST_BACKEND].info;
	struct printed printed;
	struct json j;

	json_envelope_begin(&j, o, d);
	print_text(o, h, printed_begin(&printed));
	printed_end(&printed, &j);
	json_array(&j, "devices");
	json_object(&j, NULL);
	json_string(&j, "device", host_backend()->name);
	json_string(&j, "name", host->name);
	json_uint(&j, "memory_bytes", host->memory);
	json_end(&j, '}');
	for (int b = FIRST_ACCELERATOR; b < BACKENDS; b++)
		write_accelerator(&j, backends[b]->name, &h->devices[b]);
	json_end(&j, ']');
	for (int b = FIRST_ACCELERATOR; b < BACKENDS; b++) {
		const struct found_devices *f = &h->devices[b];
		char key[32];
		snprintf(key, sizeof(key), "%s_missing", backends[b]->name);
		json_string(&j, key, f->n ? NULL : reason_for_none(f));
	}
	json_array(&j, "libraries");
	for (int k = 0; k < h->nlibraries; k++) {
		const struct library_info *i = &h->libraries[k];
		json_object(&j, NULL);
		json_string(&j, "name", i->name);
		json_bool(&j, "found", i->found);
		json_string(&j, "path", i->found ? i->path : NULL);
		json_string(&j, "found_by", i->how);
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
	struct health *h = arena_new(&o->arena, struct health);

	probe_machine(h);
	if (o->json)
		print_json(o, h, d);
	else
		print_text(o, h, stdout);
	for (int b = 0; b < BACKENDS; b++)
		diag_free(&h->devices[b].why);
	return 0;
}
