/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Only this file includes the headers of libsndfile and soxr. If a header was missing at build time, sound files are
 * refused with a message that says so.
 */
#include "sound/sound.h"

#include "base/dl.h"
#include "base/mem.h"

#include <math.h>
#include <string.h>

#if defined(__has_include)
#if __has_include(<sndfile.h>)
#include <sndfile.h>
#define HAVE_SNDFILE 1
#endif
#if __has_include(<soxr.h>)
#include <soxr.h>
#define HAVE_SOXR 1
#endif
#endif

static const char *format_name(const unsigned char *p, size_t n)
{
	if (n < 12)
		return NULL;
	if ((!memcmp(p, "RIFF", 4) || !memcmp(p, "RIFX", 4) || !memcmp(p, "RF64", 4)) &&
	    !memcmp(p + 8, "WAVE", 4))
		return "WAV";
	if (!memcmp(p, "fLaC", 4))
		return "FLAC";
	return memcmp(p, "OggS", 4) ? NULL : "Ogg";
}

bool sound_known(const void *p, size_t n)
{
	return format_name(p, n) != NULL;
}

/* One file to decode. */
struct job {
	const unsigned char *data;
	size_t size;
	enum code code;
	struct diag *d;
};

static int fail(const struct job *j, const char *what, const char *hint)
{
	const char *format = format_name(j->data, j->size);

	return FAIL(j->d, j->code,
		    .message = fmt(j->d, "this %s file %s", format ? format : "sound", what),
		    .hint = hint);
}

#if !defined(HAVE_SNDFILE) || !defined(HAVE_SOXR)
static int no_headers(const struct job *j, const char *headers)
{
	return fail(
		j, fmt(j->d, "cannot be read: this build had no headers of %s", headers),
		"install the library's headers (Debian: libsndfile1-dev, libsoxr-dev) and build again");
}
#endif

__attribute__((unused)) static int open_library(const struct job *j, struct dl_kept *kept,
						const char *const *sonames,
						const struct dl_symbol *symbols, void **table,
						size_t n, const char *package)
{
	int rc = dl_open_kept(kept, sonames, symbols, table, n, j->d);

	if (rc && j->d && j->d->last)
		j->d->last->hint = fmt(
			j->d,
			"install the package %s, or name the library's folder in INFER_LIBRARY_PATH",
			package);
	return rc;
}

#define FUNCTION(f) __typeof__(f) *f;
#define SYMBOL(f)   {#f, true},
#define TABLE(name, list)                                                                           \
	union name {                                                                                \
		struct {                                                                            \
			list(FUNCTION)                                                              \
		};                                                                                  \
		void *table[sizeof((struct dl_symbol[]){list(SYMBOL)}) / sizeof(struct dl_symbol)]; \
	};                                                                                          \
	static const struct dl_symbol name##_symbols[] = {list(SYMBOL)};                            \
	static union name name##_table;                                                             \
	static struct dl_kept name##_kept;

/* Takes blocks of interleaved samples and writes rows, one for each channel. */
struct rows {
	float *to;
	int channels;
	int64_t frames, at; /* a row's length, and how much of it is written */
};

/* Frames past the end, which a file that lies about its length may have, are dropped. */
__attribute__((unused)) static void add_rows(struct rows *r, const float *from, int64_t n)
{
	n = n < r->frames - r->at ? n : r->frames - r->at;
	for (int c = 0; c < r->channels; c++)
		for (int64_t i = 0; i < n; i++)
			r->to[c * r->frames + r->at + i] = from[i * r->channels + c];
	r->at += n;
}

/* ---- resampling */

enum { BLOCK = 1 << 14, MAX_RATIO = 256 };

#ifdef HAVE_SOXR
#define SOXR_LIST(X)                                                                               \
	X(soxr_create)                                                                             \
	X(soxr_process)                                                                            \
	X(soxr_delete)                                                                             \
	X(soxr_quality_spec)
TABLE(soxr_lib, SOXR_LIST)

struct resampler {
	union soxr_lib f;
	soxr_t soxr;
	float *block; /* BLOCK frames; NULL if the rate stays as it is */
};

static int resampler_open(struct resampler *r, const struct job *j, const struct sound *s)
{
	static const char *const sonames[] = {"libsoxr.so.0", "libsoxr.so", NULL};
	soxr_error_t error = NULL;

	if (s->rate == s->file_rate)
		return 0;
	int rc = open_library(j, &soxr_lib_kept, sonames, soxr_lib_symbols, soxr_lib_table.table,
			      sizeof(soxr_lib_symbols) / sizeof(*soxr_lib_symbols), "libsoxr0");
	if (rc)
		return rc;
	r->f = soxr_lib_table;
	/* the quality that librosa and the Python package soxr take unless told otherwise */
	const soxr_quality_spec_t quality = r->f.soxr_quality_spec(SOXR_HQ, 0);
	r->soxr = r->f.soxr_create((double)s->file_rate, (double)s->rate, (unsigned)s->channels,
				   &error, NULL, &quality, NULL);
	if (!r->soxr || error)
		return fail(j,
			    fmt(j->d, "cannot be resampled (soxr: %s)", error ? error : "no memory"),
			    NULL);
	r->block = mem_alloc((size_t)BLOCK * (size_t)s->channels * sizeof(float), MEM_STAGING);
	return r->block ? 0 : FAIL(j->d, E_MEMORY, .message = "no memory to resample a sound");
}

/* Resamples n frames; from: NULL at the end of the sound. */
static int resampler_add(struct resampler *r, const struct job *j, const float *from, int64_t n,
			 struct rows *to)
{
	size_t used = 0, made = 1;

	if (!r->block) {
		add_rows(to, from, from ? n : 0);
		return 0;
	}
	while (from ? n > 0 : made > 0) {
		soxr_error_t error =
			r->f.soxr_process(r->soxr, from, (size_t)n, &used, r->block, BLOCK, &made);
		if (error)
			return fail(j, fmt(j->d, "cannot be resampled (soxr: %s)", error), NULL);
		add_rows(to, r->block, (int64_t)made);
		if (from) {
			from += used * (size_t)to->channels;
			n -= (int64_t)used;
		}
	}
	return 0;
}

static void resampler_close(struct resampler *r)
{
	if (r->soxr)
		r->f.soxr_delete(r->soxr);
	mem_free(r->block);
}
#else
struct resampler {
	int unused;
};

static int resampler_open(struct resampler *r, const struct job *j, const struct sound *s)
{
	(void)r;
	return s->rate == s->file_rate ? 0 : no_headers(j, "soxr");
}

static int resampler_add(struct resampler *r, const struct job *j, const float *from, int64_t n,
			 struct rows *to)
{
	(void)r;
	(void)j;
	add_rows(to, from, from ? n : 0);
	return 0;
}

static void resampler_close(struct resampler *r)
{
	(void)r;
}
#endif

/* ---- decoding */

#ifdef HAVE_SNDFILE
#define SNDFILE_LIST(X)                                                                            \
	X(sf_open_virtual)                                                                         \
	X(sf_strerror)                                                                             \
	X(sf_seek)                                                                                 \
	X(sf_readf_float)                                                                          \
	X(sf_close)
TABLE(sndfile_lib, SNDFILE_LIST)

struct decoder {
	union sndfile_lib f;
	SNDFILE *file;
	SF_INFO info;
	const unsigned char *data;
	sf_count_t size, at;
};

static sf_count_t memory_size(void *user)
{
	return ((struct decoder *)user)->size;
}

static sf_count_t memory_seek(sf_count_t to, int from, void *user)
{
	struct decoder *x = user;
	sf_count_t base = from == SEEK_CUR ? x->at : from == SEEK_END ? x->size : 0, at;

	if (__builtin_add_overflow(base, to, &at) || at < 0 || at > x->size)
		return -1;
	return x->at = at;
}

static sf_count_t memory_read(void *to, sf_count_t n, void *user)
{
	struct decoder *x = user;

	n = n < x->size - x->at ? n : x->size - x->at;
	if (n <= 0)
		return 0;
	memcpy(to, x->data + x->at, (size_t)n);
	x->at += n;
	return n;
}

static sf_count_t memory_tell(void *user)
{
	return ((struct decoder *)user)->at;
}

static int decoder_open(struct decoder *x, const struct job *j)
{
	static const char *const sonames[] = {"libsndfile.so.1", "libsndfile.so", NULL};
	SF_VIRTUAL_IO memory = {.get_filelen = memory_size,
				.seek = memory_seek,
				.read = memory_read,
				.tell = memory_tell};

	*x = (struct decoder){.data = j->data, .size = (sf_count_t)j->size};
	int rc = open_library(
		j, &sndfile_lib_kept, sonames, sndfile_lib_symbols, sndfile_lib_table.table,
		sizeof(sndfile_lib_symbols) / sizeof(*sndfile_lib_symbols), "libsndfile1");
	if (rc)
		return rc;
	x->f = sndfile_lib_table;
	x->file = x->f.sf_open_virtual(&memory, SFM_READ, &x->info, x);
	if (!x->file)
		return fail(j, fmt(j->d, "cannot be read (libsndfile: %s)", x->f.sf_strerror(NULL)),
			    NULL);
	return 0;
}

static void decoder_close(struct decoder *x)
{
	if (x->file)
		x->f.sf_close(x->file);
}

/* Sets which frames of the file are read. */
static int choose_frames(const struct job *j, const struct sound_part *part, int64_t total,
			 struct sound *s)
{
	const double rate = (double)s->file_rate, seconds = (double)total / rate;
	const double first = round(part->start * rate), taken = round(part->duration * rate);

	if (first >= (double)total)
		return fail(j, fmt(j->d, "ends before start=%g", part->start),
			    fmt(j->d, "it has %.6g seconds", seconds));
	s->first = (int64_t)first;
	s->taken = total - s->first;
	if (part->duration > 0 && taken > (double)s->taken)
		return fail(j, fmt(j->d, "ends before duration=%g is over", part->duration),
			    fmt(j->d, "it has %.6g seconds", seconds));
	if (part->duration > 0)
		s->taken = (int64_t)taken;
	return 0;
}

static int head(const struct decoder *x, const struct job *j, const struct sound_part *part,
		struct sound *s)
{
	*s = (struct sound){.format = format_name(j->data, j->size),
			    .file_rate = x->info.samplerate,
			    .file_channels = x->info.channels};
	if (s->file_rate < 1 || s->file_channels < 1 || x->info.frames < 1)
		return fail(j, "has no samples", NULL);
	s->rate = part->rate ? part->rate : s->file_rate;
	s->channels = part->mono ? 1 : s->file_channels;
	if (s->rate / s->file_rate >= MAX_RATIO || s->file_rate / s->rate >= MAX_RATIO)
		return fail(j,
			    fmt(j->d, "has %lld samples a second, which cannot become %lld",
				(long long)s->file_rate, (long long)s->rate),
			    "rates may differ by a factor of 256");
	int rc = choose_frames(j, part, x->info.frames, s);
	if (rc)
		return rc;
	/* soxr computes the number in the same way */
	double frames = (double)s->taken / ((double)s->file_rate / (double)s->rate) + .5;
	if (frames * s->channels > SOUND_MAX_SAMPLES)
		return fail(j,
			    fmt(j->d, "says it has %lld samples a channel, which is refused",
				(long long)s->taken),
			    "up to 2^30 samples are read; take a part with start= and duration=");
	s->frames = (int64_t)frames;
	return s->frames ? 0 : fail(j, "has no samples at this rate", NULL);
}

/* Replaces the frames by the means of their samples, computed as numpy.mean does in f32. */
static void mix(float *block, int64_t n, int channels)
{
	for (int64_t i = 0; i < n; i++) {
		float sum = 0;
		for (int c = 0; c < channels; c++)
			sum += block[i * channels + c];
		block[i] = sum / (float)channels;
	}
}

static int decode(struct decoder *x, const struct job *j, const struct sound *s, float *block,
		  struct resampler *r, struct rows *to)
{
	if (s->first && x->f.sf_seek(x->file, s->first, SEEK_SET) != s->first)
		return fail(j, "is damaged or cut short", NULL);
	for (int64_t left = s->taken; left > 0;) {
		int64_t n = left < BLOCK ? left : BLOCK;
		if (x->f.sf_readf_float(x->file, block, n) != n)
			return fail(j, "is damaged or cut short", NULL);
		if (s->channels < s->file_channels)
			mix(block, n, s->file_channels);
		int rc = resampler_add(r, j, block, n, to);
		if (rc)
			return rc;
		left -= n;
	}
	int rc = resampler_add(r, j, NULL, 0, to);
	if (!rc && to->at != to->frames)
		rc = fail(j, "has another length than its head says", NULL);
	return rc;
}

int sound_head(const void *p, size_t n, const struct sound_part *part, struct sound *s,
	       enum code code, struct diag *d)
{
	const struct job j = {p, n, code, d};
	struct decoder x;
	int rc = decoder_open(&x, &j);

	rc = rc ? rc : head(&x, &j, part, s);
	decoder_close(&x);
	return rc;
}

int sound_decode(const void *p, size_t n, const struct sound *s, float *to, enum code code,
		 struct diag *d)
{
	const struct job j = {p, n, code, d};
	struct rows rows = {.to = to, .channels = s->channels, .frames = s->frames};
	struct resampler r = {0};
	struct decoder x;
	float *block =
		mem_alloc((size_t)BLOCK * (size_t)s->file_channels * sizeof(float), MEM_STAGING);
	int rc = block ? decoder_open(&x, &j)
		       : FAIL(d, E_MEMORY, .message = "no memory to decode a sound");

	if (block) {
		rc = rc ? rc : resampler_open(&r, &j, s);
		rc = rc ? rc : decode(&x, &j, s, block, &r, &rows);
		resampler_close(&r);
		decoder_close(&x);
	}
	mem_free(block);
	return rc;
}
#else
int sound_head(const void *p, size_t n, const struct sound_part *part, struct sound *s,
	       enum code code, struct diag *d)
{
	const struct job j = {p, n, code, d};

	(void)part;
	(void)s;
	return no_headers(&j, "libsndfile");
}

int sound_decode(const void *p, size_t n, const struct sound *s, float *to, enum code code,
		 struct diag *d)
{
	const struct job j = {p, n, code, d};

	(void)s;
	(void)to;
	(void)resampler_open;
	(void)resampler_add;
	(void)resampler_close;
	return no_headers(&j, "libsndfile");
}
#endif
