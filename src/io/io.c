/* SPDX-License-Identifier: Apache-2.0 */
#include "io/io.h"

#include "image/image.h"
#include "sound/sound.h"

#include <string.h>
#include <strings.h>

static const struct {
	const char *name, *text;
} kinds[IO_KINDS] = {
	[IO_RAW] = {"raw", "a raw file"},
	[IO_NPY] = {"npy", "an .npy file"},
	[IO_NPZ] = {"npz", "an .npz archive"},
	[IO_PB] = {"pb", "a protobuf tensor"},
	[IO_IMAGE] = {"image", "a picture"},
	[IO_TEXT] = {"txt", "a text file"},
	[IO_JSON] = {"json", "a JSON file"},
	[IO_SOUND] = {"sound", "a sound file"},
	[IO_SAFETENSORS] = {"safetensors", "a .safetensors file"},
};

const char *io_kind_name(enum io_kind k)
{
	return kinds[k].text;
}

int io_kind_parse(const char *name)
{
	for (int k = 0; k < IO_KINDS; k++)
		if (!strcasecmp(name, kinds[k].name))
			return k;
	return -1;
}

static const struct {
	const char *ext;
	enum io_kind kind;
} extensions[] = {
	{".npy", IO_NPY},
	{".npz", IO_NPZ},
	{".pb", IO_PB},
	{".onnx.pb", IO_PB},
	{".bin", IO_RAW},
	{".raw", IO_RAW},
	{".txt", IO_TEXT},
	{".csv", IO_TEXT},
	{".json", IO_JSON},
	{".png", IO_IMAGE},
	{".jpg", IO_IMAGE},
	{".jpeg", IO_IMAGE},
	{".bmp", IO_IMAGE},
	{".ppm", IO_IMAGE},
	{".pgm", IO_IMAGE},
	{".pbm", IO_IMAGE},
	{".pnm", IO_IMAGE},
	{".webp", IO_IMAGE},
	{".tif", IO_IMAGE},
	{".tiff", IO_IMAGE},
	{".jp2", IO_IMAGE},
	{".j2k", IO_IMAGE},
	{".heic", IO_IMAGE},
	{".heif", IO_IMAGE},
	{".avif", IO_IMAGE},
	{".wav", IO_SOUND},
	{".flac", IO_SOUND},
	{".ogg", IO_SOUND},
	{".oga", IO_SOUND},
	{".opus", IO_SOUND},
	{".safetensors", IO_SAFETENSORS},
};

const struct io_foreign *io_foreign(const void *bytes, size_t n)
{
	static const struct {
		size_t at; /* offset of magic */
		/* at8: text at offset 8, or NULL if any text may be there */
		const char *magic, *at8;
		struct io_foreign is;
	} known[] = {
		{4, "ftyp", NULL, {"a film", "take its frames: ffmpeg -i FILE frame%d.png"}},
		{0, "\x1a\x45\xdf\xa3", NULL, {"a film", "take its frames: ffmpeg -i FILE frame%d.png"}},
		{0, "\x80\x02}", NULL, {"a Python pickle", "save the array with numpy.save"}},
		{0, "\x80\x04\x95", NULL, {"a Python pickle", "save the array with numpy.save"}},
		{0, "\x80\x05\x95", NULL, {"a Python pickle", "save the array with numpy.save"}},
		{0, "GIF8", NULL, {"a GIF picture", "convert it to PNG"}},
		{0, "%PDF-", NULL, {"a PDF document", "convert the page to PNG"}},
		{0, "RIFF", "AVI ", {"a film", "take its frames: ffmpeg -i FILE frame%d.png"}},
		{0, "\x1f\x8b\x08", NULL, {"a gzip file", "unpack it first"}},
		{0,
		 "\xfd"
		 "7zXZ",
		 NULL,
		 {"an xz file", "unpack it first"}},
		{0, "PK\3\4", NULL, {"a zip archive", "add format=npz if it is one of NumPy's"}},
		{0, "\x89HDF\r\n\x1a\n", NULL, {"an HDF5 file", "save the array with numpy.save"}},
		{0, "SQLite format 3", NULL, {"a database", "save the array with numpy.save"}},
		{0,
		 "version https://git-lfs",
		 NULL,
		 {"a Git LFS pointer", "fetch the file itself: git lfs pull"}},
	};
	const unsigned char *p = bytes;

	for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++) {
		size_t len = strlen(known[i].magic);
		if (n < len + known[i].at || n < 12 ||
		    memcmp(p + known[i].at, known[i].magic, len) != 0)
			continue;
		if (!known[i].at8 || !memcmp(p + 8, known[i].at8, 4))
			return &known[i].is;
	}
	return NULL;
}

/* Returns the format according to the content alone, or -1 if the content is not recognized. */
static int kind_by_content(const unsigned char *p, size_t n)
{
	if (n >= 6 && !memcmp(p, "\x93NUMPY", 6))
		return IO_NPY;
	if (n >= 4 && (!memcmp(p, "PK\3\4", 4) || !memcmp(p, "PK\5\6", 4)))
		return IO_NPZ;
	if (sound_known(p, n))
		return IO_SOUND;
	return image_kind(p, n) != IMAGE_NONE ? IO_IMAGE : -1;
}

/*
 * Returns the format of standard input, which has no extension: text if all characters are
 * printable, else raw.
 */
static enum io_kind kind_of_nameless(const unsigned char *p, size_t n)
{
	size_t look = n < 4096 ? n : 4096, first = 0;

	for (size_t i = 0; i < look; i++)
		if ((p[i] < ' ' && (p[i] < '\t' || p[i] > '\r')) || p[i] == 0x7f)
			return IO_RAW;
	while (first < look && p[first] <= ' ')
		first++;
	if (first == look)
		return IO_RAW;
	return strchr("[{\"", p[first]) ? IO_JSON : IO_TEXT;
}

enum io_kind io_kind_of(const char *path, const void *p, size_t n)
{
	const char *ext = path_ext(path);
	int found = kind_by_content(p, n);

	for (size_t i = 0; i < sizeof(extensions) / sizeof(*extensions); i++)
		if (!strcasecmp(ext, extensions[i].ext)) {
			/*
			 * Trust the extensions .bin, .txt and .json even if the content looks
			 * different. The error is reported when the input is planned.
			 */
			enum io_kind k = extensions[i].kind;
			return found >= 0 && k != IO_RAW && k != IO_TEXT && k != IO_JSON
				       ? (enum io_kind)found
				       : k;
		}
	if (found >= 0)
		return (enum io_kind)found;
	return strcmp(path, "-") ? IO_RAW : kind_of_nameless(p, n);
}
