/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decodes pictures with the system's libraries. Only this file includes the libraries' headers. If
 * a header was missing at build time, pictures of that format are refused with a message that says
 * so.
 */
#include "image/image.h"

#include "base/dl.h"
#include "base/mem.h"
#include "image/plain.h"

#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#if defined(__has_include)
#if __has_include(<png.h>)
#include <png.h>
#define HAVE_PNG 1
#endif
#if __has_include(<jpeglib.h>)
#include <jpeglib.h>
#define HAVE_JPEG 1
#endif
#if __has_include(<webp/decode.h>)
#include <webp/decode.h>
#define HAVE_WEBP 1
#endif
#if __has_include(<tiffio.h>)
#include <tiffio.h>
#define HAVE_TIFF 1
#endif
#if __has_include(<openjpeg.h>)
#include <openjpeg.h>
#define HAVE_JP2 1
#elif __has_include(<openjpeg-2.5/openjpeg.h>)
#include <openjpeg-2.5/openjpeg.h>
#define HAVE_JP2 1
#endif
#if __has_include(<libheif/heif.h>)
#include <libheif/heif.h>
#define HAVE_HEIF 1
#endif
#endif

static const char *const names[IMAGE_KINDS] = {"no picture", "PNG",  "JPEG",	  "BMP",  "PNM",
					       "WebP",	     "TIFF", "JPEG 2000", "HEIF", "AVIF"};

const char *image_kind_name(enum image_kind kind)
{
	return names[kind];
}

const char *image_channels_name(int channels)
{
	static const char *const text[] = {"?", "gray", "gray with alpha", "RGB", "RGBA"};

	return channels >= 1 && channels <= 4 ? text[channels] : text[0];
}

static bool starts(const unsigned char *p, size_t n, const char *magic, size_t len)
{
	return n >= len && memcmp(p, magic, len) == 0;
}

/*
 * The brands with which a file of the ISO base media format (ISO/IEC 14496-12) says that it is a picture: those of
 * ISO/IEC 23008-12 annex B, and of AVIF's specification.
 */
static enum image_kind kind_of_brand(const unsigned char *p, size_t n)
{
	static const char heif[][5] = {"heic", "heix", "heim", "heis",
				       "hevc", "hevx", "mif1", "msf1"};

	if (n < 12 || memcmp(p + 4, "ftyp", 4) != 0)
		return IMAGE_NONE;
	if (!memcmp(p + 8, "avif", 4) || !memcmp(p + 8, "avis", 4))
		return IMAGE_AVIF;
	for (size_t i = 0; i < sizeof(heif) / sizeof(*heif); i++)
		if (!memcmp(p + 8, heif[i], 4))
			return IMAGE_HEIF;
	return IMAGE_NONE;
}

enum image_kind image_kind(const void *data, size_t n)
{
	const unsigned char *p = data;

	if (starts(p, n, "\x89PNG\r\n\x1a\n", 8))
		return IMAGE_PNG;
	if (starts(p, n, "\xff\xd8\xff", 3))
		return IMAGE_JPEG;
	if (n >= 26 && starts(p, n, "BM", 2) && !p[6] && !p[7] && !p[8] && !p[9])
		return IMAGE_BMP;
	if (n >= 7 && p[0] == 'P' && p[1] >= '1' && p[1] <= '6' &&
	    (p[2] == ' ' || (p[2] >= '\t' && p[2] <= '\r') || p[2] == '#'))
		return IMAGE_PNM;
	if (n >= 16 && starts(p, n, "RIFF", 4) && starts(p + 8, n - 8, "WEBP", 4))
		return IMAGE_WEBP;
	if (starts(p, n, "II*\0", 4) || starts(p, n, "MM\0*", 4) || starts(p, n, "II+\0", 4) ||
	    starts(p, n, "MM\0+", 4))
		return IMAGE_TIFF;
	if (starts(p, n, "\0\0\0\x0cjP  \r\n\x87\n", 12) || starts(p, n, "\xff\x4f\xff\x51", 4))
		return IMAGE_JP2;
	return kind_of_brand(p, n);
}

int image_fail(const struct image_job *job, const char *what, const char *hint)
{
	return FAIL(job->d, job->code,
		    .message = fmt(job->d, "this %s %s",
				   image_kind_name(image_kind(job->data, job->size)), what),
		    .hint = hint);
}

int image_room(const struct image_job *job)
{
	struct image *im = job->im;

	if (im->width < 1 || im->height < 1)
		return image_fail(job, "has no pixels", NULL);
	int64_t most = (int64_t)IMAGE_MAX_BYTES / (im->channels * (im->bits / 8));
	if (im->width > IMAGE_MAX_SIDE || im->height > IMAGE_MAX_SIDE || im->width * im->height > most)
		return image_fail(job,
				  fmt(job->d, "says it is %lld x %lld pixels large, which is refused",
				      (long long)im->width, (long long)im->height),
				  "pictures of up to 65,536 pixels a side and 1 GiB decoded are read");
	if (job->head)
		return 0;
	im->pixels = mem_alloc((size_t)(im->width * im->height * im->channels * (im->bits / 8)),
			       MEM_STAGING);
	return im->pixels ? 0 : FAIL(job->d, E_MEMORY, .message = "no memory for a picture's pixels");
}

/*
 * LIBRARY(name, list) defines the type `union name` and the function open_name() from a list of
 * functions. The union has the functions as typed members and, in the same order, as an array of
 * pointers that dl_open_kept() fills.
 */
#define FUNCTION(f) __typeof__(f) *f;
#define SYMBOL(f)   {#f, true},
#define LIBRARY(name, list)                                                                         \
	union name {                                                                                \
		struct {                                                                            \
			list(FUNCTION)                                                              \
		};                                                                                  \
		void *table[sizeof((struct dl_symbol[]){list(SYMBOL)}) / sizeof(struct dl_symbol)]; \
	};                                                                                          \
	static int open_##name(union name *l, const char *const *sonames, struct diag *d)           \
	{                                                                                           \
		static const struct dl_symbol symbols[] = {list(SYMBOL)};                           \
		static struct dl_kept kept;                                                         \
		static union name all;                                                              \
		int rc = dl_open_kept(&kept, sonames, symbols, all.table,                           \
				      sizeof(symbols) / sizeof(*symbols), d);                       \
		if (!rc)                                                                            \
			*l = all;                                                                   \
		return rc;                                                                          \
	}

/* ---- PNG */

#ifdef HAVE_PNG
#define PNG_LIST(X)                                                                                \
	X(png_create_read_struct)                                                                  \
	X(png_create_info_struct)                                                                  \
	X(png_destroy_read_struct)                                                                 \
	X(png_set_longjmp_fn)                                                                      \
	X(png_set_read_fn)                                                                         \
	X(png_error)                                                                               \
	X(png_longjmp)                                                                             \
	X(png_set_user_limits)                                                                     \
	X(png_read_info)                                                                           \
	X(png_get_IHDR)                                                                            \
	X(png_set_expand)                                                                          \
	X(png_set_swap)                                                                            \
	X(png_set_interlace_handling)                                                              \
	X(png_read_update_info)                                                                    \
	X(png_get_channels)                                                                        \
	X(png_get_bit_depth)                                                                       \
	X(png_get_rowbytes)                                                                        \
	X(png_read_row)
LIBRARY(png_lib, PNG_LIST)

struct png_job {
	union png_lib f;
	const struct image_job *job;
	png_structp png;
	png_infop info;
	size_t at;
	char message[128];
	int rc;
};

/*
 * The picture that this thread decodes. libpng's callbacks get only libpng's handle, from which our
 * data could be read only by calling a function of the library.
 */
static _Thread_local struct png_job *png_now;

static void png_failed(png_structp png, png_const_charp text)
{
	snprintf(png_now->message, sizeof(png_now->message), "is damaged (libpng: %s)", text);
	png_now->f.png_longjmp(png, 1);
}

static void png_warned(png_structp png, png_const_charp text)
{
	(void)png;
	(void)text;
}

static void png_input(png_structp png, png_bytep to, size_t n)
{
	struct png_job *p = png_now;

	if (n > p->job->size - p->at) {
		snprintf(p->message, sizeof(p->message), "is cut short");
		p->f.png_longjmp(png, 1);
	}
	memcpy(to, p->job->data + p->at, n);
	p->at += n;
}

static int png_rows(struct png_job *p, int passes)
{
	struct image *im = p->job->im;
	size_t row = (size_t)(im->width * im->channels * (im->bits / 8));

	if (p->f.png_get_rowbytes(p->png, p->info) != row)
		return image_fail(p->job, "has rows of an unexpected size", NULL);
	for (int pass = 0; pass < passes; pass++)
		for (size_t y = 0; y < (size_t)im->height; y++)
			p->f.png_read_row(p->png, im->pixels + y * row, NULL);
	return 0;
}

static int png_steps(struct png_job *p)
{
	struct image *im = p->job->im;
	png_uint_32 w = 0, h = 0;
	int depth = 0, color = 0;
	const uint16_t one = 1;

	p->f.png_set_user_limits(p->png, IMAGE_MAX_SIDE, IMAGE_MAX_SIDE);
	p->f.png_set_read_fn(p->png, NULL, png_input);
	p->f.png_read_info(p->png, p->info);
	p->f.png_get_IHDR(p->png, p->info, &w, &h, &depth, &color, NULL, NULL, NULL);
	/*
	 * Expand palettes to RGB, samples of 1, 2 and 4 bits to 8 bits, and a transparent color to
	 * an alpha channel.
	 */
	p->f.png_set_expand(p->png);
	if (depth == 16 && *(const unsigned char *)&one)
		p->f.png_set_swap(p->png);
	int passes = p->f.png_set_interlace_handling(p->png);
	p->f.png_read_update_info(p->png, p->info);
	*im = (struct image){.kind = IMAGE_PNG, .width = w, .height = h};
	im->channels = p->f.png_get_channels(p->png, p->info);
	im->bits = p->f.png_get_bit_depth(p->png, p->info);
	int rc = image_room(p->job);
	return rc || p->job->head ? rc : png_rows(p, passes);
}

static int decode_png(const struct image_job *job)
{
	static const char *const sonames[] = {"libpng16.so.16", "libpng16.so", "libpng.so", NULL};
	struct png_job p = {.job = job};
	int rc = open_png_lib(&p.f, sonames, job->d);

	if (rc)
		return rc;
	png_now = &p;
	p.png = p.f.png_create_read_struct(PNG_LIBPNG_VER_STRING, NULL, png_failed, png_warned);
	p.info = p.png ? p.f.png_create_info_struct(p.png) : NULL;
	if (!p.info)
		p.rc = image_fail(job, "cannot be read: libpng does not start", NULL);
	else if (setjmp(*p.f.png_set_longjmp_fn(p.png, longjmp, sizeof(jmp_buf))))
		p.rc = image_fail(job, fmt(job->d, "%s", p.message), NULL);
	else
		p.rc = png_steps(&p);
	if (p.png)
		p.f.png_destroy_read_struct(&p.png, &p.info, NULL);
	png_now = NULL;
	return p.rc;
}
#endif

/* ---- JPEG */

#ifdef HAVE_JPEG
#define JPEG_LIST(X)                                                                               \
	X(jpeg_std_error)                                                                          \
	X(jpeg_CreateDecompress)                                                                   \
	X(jpeg_read_header)                                                                        \
	X(jpeg_calc_output_dimensions)                                                             \
	X(jpeg_start_decompress)                                                                   \
	X(jpeg_read_scanlines)                                                                     \
	X(jpeg_resync_to_restart)                                                                  \
	X(jpeg_destroy_decompress)
LIBRARY(jpeg_lib, JPEG_LIST)

struct jpeg_job {
	union jpeg_lib f;
	const struct image_job *job;
	struct jpeg_decompress_struct c;
	struct jpeg_error_mgr error;
	struct jpeg_source_mgr source;
	jmp_buf back;
	char message[JMSG_LENGTH_MAX + 32];
	int rc;
};

static struct jpeg_job *jpeg_of(j_common_ptr c)
{
	return c->client_data;
}

static void jpeg_failed(j_common_ptr c)
{
	char text[JMSG_LENGTH_MAX];

	c->err->format_message(c, text);
	snprintf(jpeg_of(c)->message, sizeof(jpeg_of(c)->message), "is damaged (libjpeg: %s)", text);
	longjmp(jpeg_of(c)->back, 1);
}

static void jpeg_silent(j_common_ptr c, int level)
{
	(void)c;
	(void)level;
}

static void jpeg_quiet(j_common_ptr c)
{
	(void)c;
}

static void jpeg_nothing(j_decompress_ptr c)
{
	(void)c;
}

/*
 * Called when libjpeg needs more data. The buffer has held the whole file from the start, so the
 * file must be truncated.
 */
static boolean jpeg_more(j_decompress_ptr c)
{
	struct jpeg_job *p = c->client_data;

	snprintf(p->message, sizeof(p->message), "is cut short");
	longjmp(p->back, 1);
}

static void jpeg_skip(j_decompress_ptr c, long n)
{
	if (n <= 0)
		return;
	if ((size_t)n > c->src->bytes_in_buffer)
		jpeg_more(c);
	c->src->next_input_byte += n;
	c->src->bytes_in_buffer -= (size_t)n;
}

static void jpeg_connect(struct jpeg_job *p)
{
	p->c.err = p->f.jpeg_std_error(&p->error);
	p->error.error_exit = jpeg_failed;
	p->error.emit_message = jpeg_silent;
	p->error.output_message = jpeg_quiet;
	p->c.client_data = p;
	p->f.jpeg_CreateDecompress(&p->c, JPEG_LIB_VERSION, sizeof(p->c));
	p->source = (struct jpeg_source_mgr){.next_input_byte = p->job->data,
					     .bytes_in_buffer = p->job->size,
					     .init_source = jpeg_nothing,
					     .fill_input_buffer = jpeg_more,
					     .skip_input_data = jpeg_skip,
					     .resync_to_restart = p->f.jpeg_resync_to_restart,
					     .term_source = jpeg_nothing};
	p->c.src = &p->source;
}

/*
 * Converts a row of CMYK pixels to RGB. In files from Adobe's programs all four inks are inverted.
 */
static void cmyk_row(unsigned char *to, const unsigned char *from, int64_t n, bool adobe)
{
	for (int64_t x = 0; x < n; x++, from += 4, to += 3)
		for (int i = 0; i < 3; i++) {
			unsigned ink = adobe ? from[i] : 255u - from[i];
			unsigned black = adobe ? from[3] : 255u - from[3];
			to[i] = (unsigned char)((ink * black + 127) / 255);
		}
}

static int jpeg_rows(struct jpeg_job *p, unsigned char *inks)
{
	struct image *im = p->job->im;

	p->f.jpeg_start_decompress(&p->c);
	while (p->c.output_scanline < p->c.output_height) {
		unsigned char *row = im->pixels + (size_t)p->c.output_scanline *
							  (size_t)(im->width * im->channels);
		JSAMPROW to = inks ? inks : row;
		p->f.jpeg_read_scanlines(&p->c, &to, 1);
		if (inks)
			cmyk_row(row, inks, im->width, p->c.saw_Adobe_marker);
	}
	return 0;
}

static int jpeg_steps(struct jpeg_job *p)
{
	struct image *im = p->job->im;

	jpeg_connect(p);
	p->f.jpeg_read_header(&p->c, TRUE);
	bool inks = p->c.num_components == 4, gray = p->c.num_components == 1;
	p->c.out_color_space = inks ? JCS_CMYK : gray ? JCS_GRAYSCALE : JCS_RGB;
	*im = (struct image){.kind = IMAGE_JPEG,
			     .width = p->c.image_width,
			     .height = p->c.image_height,
			     .channels = gray ? 1 : 3,
			     .bits = 8};
	int rc = image_room(p->job);
	if (rc || p->job->head)
		return rc;
	unsigned char *line = NULL;
	/*
	 * allocate the line from libjpeg's own pool, so that the line is also freed after an error
	 */
	if (inks)
		line = p->c.mem->alloc_large((j_common_ptr)&p->c, JPOOL_IMAGE, (size_t)im->width * 4);
	return jpeg_rows(p, line);
}

static int decode_jpeg(const struct image_job *job)
{
	struct jpeg_job p = {.job = job};
	int rc = open_jpeg_lib(&p.f, image_jpeg_names, job->d);

	if (rc)
		return rc;
	if (setjmp(p.back))
		p.rc = image_fail(job, fmt(job->d, "%s", p.message), NULL);
	else
		p.rc = jpeg_steps(&p);
	p.f.jpeg_destroy_decompress(&p.c);
	return p.rc;
}
#endif

const char *const image_jpeg_names[] = {
#ifndef HAVE_JPEG
	"libjpeg.so.62",
#elif JPEG_LIB_VERSION >= 90
	"libjpeg.so.9",
#elif JPEG_LIB_VERSION >= 80
	"libjpeg.so.8",
#else
	"libjpeg.so.62",
#endif
	NULL};

/* ---- WebP */

#ifdef HAVE_WEBP
#define WEBP_LIST(X)                                                                               \
	X(WebPGetFeaturesInternal)                                                                 \
	X(WebPDecodeRGBInto)                                                                       \
	X(WebPDecodeRGBAInto)
LIBRARY(webp_lib, WEBP_LIST)

static int decode_webp(const struct image_job *job)
{
	static const char *const sonames[] = {"libwebp.so.7", "libwebp.so", NULL};
	struct image *im = job->im;
	WebPBitstreamFeatures have;
	union webp_lib f;
	int rc = open_webp_lib(&f, sonames, job->d);

	if (rc)
		return rc;
	VP8StatusCode status =
		f.WebPGetFeaturesInternal(job->data, job->size, &have, WEBP_DECODER_ABI_VERSION);
	if (status != VP8_STATUS_OK)
		return image_fail(
			job, status == VP8_STATUS_NOT_ENOUGH_DATA ? "is cut short" : "is damaged",
			NULL);
	if (have.has_animation)
		return image_fail(job, "is an animation", "save one of its pictures");
	*im = (struct image){.kind = IMAGE_WEBP, .width = have.width, .height = have.height, .bits = 8};
	im->channels = have.has_alpha ? 4 : 3;
	rc = image_room(job);
	if (rc || job->head)
		return rc;
	int stride = (int)im->width * im->channels;
	size_t bytes = (size_t)stride * (size_t)im->height;
	__typeof__(f.WebPDecodeRGBInto) decode =
		have.has_alpha ? f.WebPDecodeRGBAInto : f.WebPDecodeRGBInto;
	if (!decode(job->data, job->size, im->pixels, bytes, stride))
		return image_fail(job, "is damaged or cut short", NULL);
	return 0;
}
#endif

/* ---- TIFF */

#ifdef HAVE_TIFF
#define TIFF_LIST(X)                                                                               \
	X(TIFFSetErrorHandler)                                                                     \
	X(TIFFSetWarningHandler)                                                                   \
	X(TIFFClientOpen)                                                                          \
	X(TIFFGetField)                                                                            \
	X(TIFFReadRGBAImageOriented)                                                               \
	X(TIFFClose)
LIBRARY(tiff_lib, TIFF_LIST)

struct tiff_file {
	const unsigned char *data;
	size_t size, at;
};

static tmsize_t tiff_read(thandle_t h, void *to, tmsize_t n)
{
	struct tiff_file *t = h;
	size_t left = t->at < t->size ? t->size - t->at : 0;

	if (n < 0)
		return 0;
	if ((size_t)n < left)
		left = (size_t)n;
	memcpy(to, t->data + t->at, left);
	t->at += left;
	return (tmsize_t)left;
}

static tmsize_t tiff_write(thandle_t h, void *p, tmsize_t n)
{
	(void)h;
	(void)p;
	(void)n;
	return -1;
}

static toff_t tiff_seek(thandle_t h, toff_t to, int from)
{
	struct tiff_file *t = h;

	if (from == SEEK_CUR)
		to += t->at;
	else if (from == SEEK_END)
		to += t->size;
	t->at = (size_t)to;
	return to;
}

static int tiff_close(thandle_t h)
{
	(void)h;
	return 0;
}

static toff_t tiff_size(thandle_t h)
{
	return ((struct tiff_file *)h)->size;
}

static int tiff_head(const struct image_job *job, const union tiff_lib *f, TIFF *t)
{
	uint32_t w = 0, h = 0;
	uint16_t bits = 1, samples = 1, photo = PHOTOMETRIC_RGB, nextra = 0, *extra = NULL;

	f->TIFFGetField(t, TIFFTAG_IMAGEWIDTH, &w);
	f->TIFFGetField(t, TIFFTAG_IMAGELENGTH, &h);
	f->TIFFGetField(t, TIFFTAG_BITSPERSAMPLE, &bits);
	f->TIFFGetField(t, TIFFTAG_SAMPLESPERPIXEL, &samples);
	f->TIFFGetField(t, TIFFTAG_PHOTOMETRIC, &photo);
	if (!f->TIFFGetField(t, TIFFTAG_EXTRASAMPLES, &nextra, &extra))
		nextra = 0;
	if (bits > 8)
		return image_fail(job,
				  fmt(job->d, "has %d bits a sample, which is not supported", bits),
				  "save it with 8 bits a sample, or as a 16-bit PNG");
	bool gray = photo == PHOTOMETRIC_MINISBLACK || photo == PHOTOMETRIC_MINISWHITE;
	int color = gray ? 1 : 3, own = gray ? 1 : photo == PHOTOMETRIC_SEPARATED ? 4 : 3;
	bool alpha = nextra && samples > own && photo != PHOTOMETRIC_PALETTE;
	*job->im = (struct image){.kind = IMAGE_TIFF, .width = w, .height = h, .bits = 8};
	job->im->channels = color + alpha;
	return image_room(job);
}

static int tiff_pixels(const struct image_job *job, const union tiff_lib *f, TIFF *t)
{
	struct image *im = job->im;
	size_t n = (size_t)(im->width * im->height);
	uint32_t *abgr = mem_alloc(n * sizeof(*abgr), MEM_STAGING);
	int c = im->channels;

	if (!abgr)
		return FAIL(job->d, E_MEMORY, .message = "no memory for a picture's pixels");
	/* The rows as they are stored: libtiff would mirror some orientations but turn none. */
	uint16_t stored = ORIENTATION_TOPLEFT;
	if (!f->TIFFGetField(t, TIFFTAG_ORIENTATION, &stored) || stored < 1 || stored > 8)
		stored = ORIENTATION_TOPLEFT;
	int ok = f->TIFFReadRGBAImageOriented(t, (uint32_t)im->width, (uint32_t)im->height, abgr,
					      stored, 1);
	for (size_t i = 0; ok && i < n; i++)
		for (int k = 0; k < c; k++) {
			int shift = c <= 2 && k == 1 ? 24 : 8 * k;
			im->pixels[i * (size_t)c + (size_t)k] = (unsigned char)(abgr[i] >> shift);
		}
	mem_free(abgr);
	return ok ? 0 : image_fail(job, "is damaged or cut short", NULL);
}

static int decode_tiff(const struct image_job *job)
{
	static const char *const sonames[] = {"libtiff.so.6", "libtiff.so.5", "libtiff.so", NULL};
	struct tiff_file file = {job->data, job->size, 0};
	union tiff_lib f;
	int rc = open_tiff_lib(&f, sonames, job->d);

	if (rc)
		return rc;
	/* Otherwise libtiff would print its messages to stderr. */
	f.TIFFSetErrorHandler(NULL);
	f.TIFFSetWarningHandler(NULL);
	TIFF *t = f.TIFFClientOpen("picture", "rm", &file, tiff_read, tiff_write, tiff_seek,
				   tiff_close, tiff_size, NULL, NULL);
	if (!t)
		return image_fail(job, "is damaged or cut short", NULL);
	rc = tiff_head(job, &f, t);
	if (!rc && !job->head)
		rc = tiff_pixels(job, &f, t);
	f.TIFFClose(t);
	return rc;
}
#endif

/* ---- JPEG 2000 */

#ifdef HAVE_JP2
#if OPJ_VERSION_MAJOR > 2 || (OPJ_VERSION_MAJOR == 2 && OPJ_VERSION_MINOR >= 5)
#define JP2_STRICT(X) X(opj_decoder_set_strict_mode)
#else
#define JP2_STRICT(X)
#endif
#define JP2_LIST(X)                                                                                \
	X(opj_create_decompress)                                                                   \
	X(opj_set_default_decoder_parameters)                                                      \
	X(opj_setup_decoder)                                                                       \
	JP2_STRICT(X)                                                                              \
	X(opj_stream_default_create)                                                               \
	X(opj_stream_set_read_function)                                                            \
	X(opj_stream_set_skip_function)                                                            \
	X(opj_stream_set_seek_function)                                                            \
	X(opj_stream_set_user_data)                                                                \
	X(opj_stream_set_user_data_length)                                                         \
	X(opj_stream_destroy)                                                                      \
	X(opj_read_header)                                                                         \
	X(opj_decode)                                                                              \
	X(opj_end_decompress)                                                                      \
	X(opj_image_destroy)                                                                       \
	X(opj_destroy_codec)
LIBRARY(jp2_lib, JP2_LIST)

struct jp2_file {
	const unsigned char *data;
	size_t size, at;
};

static OPJ_SIZE_T jp2_read(void *to, OPJ_SIZE_T n, void *user)
{
	struct jp2_file *t = user;
	size_t left = t->size - t->at;

	left = n < left ? n : left;
	if (!left)
		return (OPJ_SIZE_T)-1;
	memcpy(to, t->data + t->at, left);
	t->at += left;
	return left;
}

static OPJ_OFF_T jp2_skip(OPJ_OFF_T n, void *user)
{
	struct jp2_file *t = user;

	if (n < 0 || (size_t)n > t->size - t->at)
		return -1;
	t->at += (size_t)n;
	return n;
}

static OPJ_BOOL jp2_seek(OPJ_OFF_T to, void *user)
{
	struct jp2_file *t = user;

	if (to < 0 || (size_t)to > t->size)
		return OPJ_FALSE;
	t->at = (size_t)to;
	return OPJ_TRUE;
}

static int jp2_head(const struct image_job *job, const opj_image_t *from)
{
	if (from->numcomps < 1 || from->numcomps > 4)
		return image_fail(job, fmt(job->d, "has %u components", from->numcomps), NULL);
	const opj_image_comp_t *c = from->comps;
	for (OPJ_UINT32 i = 0; i < from->numcomps; i++)
		if (c[i].prec > 16 || c[i].prec < 1 || c[i].sgnd || c[i].prec != c[0].prec ||
		    c[i].w != c[0].w || c[i].h != c[0].h)
			return image_fail(job, "has components of kinds that are not supported",
					  "save it as PNG");
	if (from->color_space == OPJ_CLRSPC_SYCC || from->color_space == OPJ_CLRSPC_EYCC ||
	    from->color_space == OPJ_CLRSPC_CMYK)
		return image_fail(job, "is not gray, RGB or RGBA", "save it as PNG");
	*job->im = (struct image){.kind = IMAGE_JP2, .width = c->w, .height = c->h};
	job->im->channels = (int)from->numcomps;
	job->im->bits = c->prec > 8 ? 16 : 8;
	return image_room(job);
}

static int jp2_pixels(const struct image_job *job, const opj_image_t *from)
{
	struct image *im = job->im;
	size_t n = (size_t)(im->width * im->height), c = (size_t)im->channels;

	for (size_t k = 0; k < c; k++) {
		const opj_image_comp_t *comp = &from->comps[k];
		int64_t most = ((int64_t)1 << comp->prec) - 1, top = im->bits == 16 ? 65535 : 255;
		if (!comp->data || (int64_t)comp->w != im->width || (int64_t)comp->h != im->height)
			return image_fail(job, "is damaged or cut short", NULL);
		for (size_t i = 0; i < n; i++) {
			int64_t v = comp->data[i] < 0	   ? 0
				    : comp->data[i] > most ? most
							   : comp->data[i];
			v = (v * top + most / 2) / most;
			uint16_t wide = (uint16_t)v;
			if (im->bits == 16)
				memcpy(im->pixels + 2 * (i * c + k), &wide, sizeof(wide));
			else
				im->pixels[i * c + k] = (unsigned char)v;
		}
	}
	return 0;
}

static int jp2_steps(const struct image_job *job, const union jp2_lib *f, opj_codec_t *codec,
		     opj_stream_t *stream, opj_image_t **image)
{
	opj_dparameters_t how;

	f->opj_set_default_decoder_parameters(&how);
	bool ok = f->opj_setup_decoder(codec, &how);
#if OPJ_VERSION_MAJOR > 2 || (OPJ_VERSION_MAJOR == 2 && OPJ_VERSION_MINOR >= 5)
	ok = ok && f->opj_decoder_set_strict_mode(codec, OPJ_TRUE);
#endif
	if (!ok || !f->opj_read_header(stream, codec, image))
		return image_fail(job, "is damaged or cut short", NULL);
	int rc = jp2_head(job, *image);
	if (rc || job->head)
		return rc;
	if (!f->opj_decode(codec, stream, *image) || !f->opj_end_decompress(codec, stream))
		return image_fail(job, "is damaged or cut short", NULL);
	return jp2_pixels(job, *image);
}

static int decode_jp2(const struct image_job *job)
{
	static const char *const sonames[] = {"libopenjp2.so.7", "libopenjp2.so", NULL};
	struct jp2_file file = {job->data, job->size, 0};
	opj_image_t *image = NULL;
	union jp2_lib f;
	int rc = open_jp2_lib(&f, sonames, job->d);

	if (rc)
		return rc;
	opj_codec_t *codec =
		f.opj_create_decompress(job->data[0] == 0xff ? OPJ_CODEC_J2K : OPJ_CODEC_JP2);
	opj_stream_t *stream = codec ? f.opj_stream_default_create(OPJ_TRUE) : NULL;
	if (stream) {
		f.opj_stream_set_read_function(stream, jp2_read);
		f.opj_stream_set_skip_function(stream, jp2_skip);
		f.opj_stream_set_seek_function(stream, jp2_seek);
		f.opj_stream_set_user_data(stream, &file, NULL);
		f.opj_stream_set_user_data_length(stream, file.size);
		rc = jp2_steps(job, &f, codec, stream, &image);
		f.opj_stream_destroy(stream);
	} else {
		rc = image_fail(job, "cannot be read: OpenJPEG does not start", NULL);
	}
	if (image)
		f.opj_image_destroy(image);
	if (codec)
		f.opj_destroy_codec(codec);
	return rc;
}
#endif

/* ---- HEIF and AVIF */

#ifdef HAVE_HEIF
#define HEIF_LIST(X)                                                                               \
	X(heif_context_alloc)                                                                      \
	X(heif_context_free)                                                                       \
	X(heif_context_set_maximum_image_size_limit)                                               \
	X(heif_context_read_from_memory_without_copy)                                              \
	X(heif_context_get_primary_image_handle)                                                   \
	X(heif_image_handle_release)                                                               \
	X(heif_image_handle_get_width)                                                             \
	X(heif_image_handle_get_height)                                                            \
	X(heif_image_handle_has_alpha_channel)                                                     \
	X(heif_decode_image)                                                                       \
	X(heif_image_get_width)                                                                    \
	X(heif_image_get_height)                                                                   \
	X(heif_image_get_plane_readonly)                                                           \
	X(heif_image_release)
LIBRARY(heif_lib, HEIF_LIST)

struct heif_job {
	union heif_lib f;
	struct heif_context *context;
	struct heif_image_handle *handle;
	struct heif_image *decoded;
};

static int heif_failed(const struct image_job *job, struct heif_error e)
{
	return image_fail(
		job, fmt(job->d, "cannot be decoded (libheif: %s)", e.message),
		e.code == heif_error_Unsupported_filetype || e.code == heif_error_Unsupported_feature
			? "libheif decodes HEIC with libde265 and AVIF with libdav1d or libaom: "
			  "install them, or save the picture as PNG"
			: NULL);
}

static int heif_pixels(const struct image_job *job, struct heif_job *h)
{
	const struct image *im = job->im;
	const size_t row = (size_t)(im->width * im->channels);
	struct heif_error e = h->f.heif_decode_image(
		h->handle, &h->decoded, heif_colorspace_RGB,
		im->channels == 4 ? heif_chroma_interleaved_RGBA : heif_chroma_interleaved_RGB, NULL);
	int stride = 0;

	if (e.code != heif_error_Ok)
		return heif_failed(job, e);
	const unsigned char *p =
		h->f.heif_image_get_plane_readonly(h->decoded, heif_channel_interleaved, &stride);
	if (!p || stride < 0 || (size_t)stride < row ||
	    h->f.heif_image_get_width(h->decoded, heif_channel_interleaved) != im->width ||
	    h->f.heif_image_get_height(h->decoded, heif_channel_interleaved) != im->height)
		return image_fail(job, "has another size than its head says", NULL);
	for (int64_t y = 0; y < im->height; y++)
		memcpy(im->pixels + (size_t)y * row, p + (size_t)y * (size_t)stride, row);
	return 0;
}

static int heif_steps(const struct image_job *job, struct heif_job *h)
{
	h->f.heif_context_set_maximum_image_size_limit(h->context, IMAGE_MAX_SIDE);
	struct heif_error e = h->f.heif_context_read_from_memory_without_copy(h->context, job->data,
									      job->size, NULL);
	if (e.code == heif_error_Ok)
		e = h->f.heif_context_get_primary_image_handle(h->context, &h->handle);
	if (e.code != heif_error_Ok)
		return heif_failed(job, e);
	*job->im = (struct image){.kind = image_kind(job->data, job->size),
				  .width = h->f.heif_image_handle_get_width(h->handle),
				  .height = h->f.heif_image_handle_get_height(h->handle),
				  .bits = 8};
	job->im->channels = h->f.heif_image_handle_has_alpha_channel(h->handle) ? 4 : 3;
	int rc = image_room(job);
	return rc || job->head ? rc : heif_pixels(job, h);
}

static int decode_heif(const struct image_job *job)
{
	static const char *const sonames[] = {"libheif.so.1", "libheif.so", NULL};
	struct heif_job h = {0};
	int rc = open_heif_lib(&h.f, sonames, job->d);

	if (rc)
		return rc;
	h.context = h.f.heif_context_alloc();
	rc = h.context ? heif_steps(job, &h)
		       : FAIL(job->d, E_MEMORY, .message = "no memory for libheif");
	if (h.decoded)
		h.f.heif_image_release(h.decoded);
	if (h.handle)
		h.f.heif_image_handle_release(h.handle);
	h.f.heif_context_free(h.context);
	return rc;
}
#endif

/* ---- all formats */

/* What Debian calls the library of each format. */
static const char *const packages[IMAGE_KINDS] = {
	[IMAGE_PNG] = "libpng16-16", [IMAGE_JPEG] = "libjpeg62-turbo", [IMAGE_WEBP] = "libwebp7",
	[IMAGE_TIFF] = "libtiff6",   [IMAGE_JP2] = "libopenjp2-7",     [IMAGE_HEIF] = "libheif1",
	[IMAGE_AVIF] = "libheif1"};

__attribute__((unused)) static int refuse_without_library(const struct image_job *job)
{
	return image_fail(job, "cannot be read: this build had no headers of the library for it",
			  "install the library's headers and build again, or save the picture as BMP");
}

#ifndef HAVE_PNG
#define decode_png refuse_without_library
#endif
#ifndef HAVE_JPEG
#define decode_jpeg refuse_without_library
#endif
#ifndef HAVE_WEBP
#define decode_webp refuse_without_library
#endif
#ifndef HAVE_TIFF
#define decode_tiff refuse_without_library
#endif
#ifndef HAVE_JP2
#define decode_jp2 refuse_without_library
#endif
#ifndef HAVE_HEIF
#define decode_heif refuse_without_library
#endif

static int no_picture(const struct image_job *job)
{
	return FAIL(
		job->d, job->code, .message = "this is no picture of a kind that is read",
		.hint = "PNG, JPEG, BMP, PNM (.ppm, .pgm, .pbm), WebP, TIFF, JPEG 2000, HEIF and AVIF are read");
}

static int decode(const void *p, size_t n, bool head, struct image *im, enum code code, struct diag *d)
{
	static int (*const decoders[IMAGE_KINDS])(const struct image_job *) = {
		[IMAGE_NONE] = no_picture,  [IMAGE_PNG] = decode_png, [IMAGE_JPEG] = decode_jpeg,
		[IMAGE_BMP] = image_bmp,    [IMAGE_PNM] = image_pnm,  [IMAGE_WEBP] = decode_webp,
		[IMAGE_TIFF] = decode_tiff, [IMAGE_JP2] = decode_jp2, [IMAGE_HEIF] = decode_heif,
		[IMAGE_AVIF] = decode_heif,
	};
	struct image_job job = {.data = p, .size = n, .im = im, .head = head, .code = code, .d = d};

	*im = (struct image){0};
	const enum image_kind kind = image_kind(p, n);
	int rc = decoders[kind](&job);
	if (rc == -E_LIBRARY && packages[kind] && d && d->last)
		d->last->hint = fmt(
			d,
			"install the package %s, or name the library's folder in INFER_LIBRARY_PATH",
			packages[kind]);
	if (rc)
		image_free(im);
	return rc;
}

int image_head(const void *p, size_t n, struct image *im, enum code code, struct diag *d)
{
	return decode(p, n, true, im, code, d);
}

int image_decode(const void *p, size_t n, struct image *im, enum code code, struct diag *d)
{
	return decode(p, n, false, im, code, d);
}

void image_free(struct image *im)
{
	mem_free(im->pixels);
	*im = (struct image){0};
}
