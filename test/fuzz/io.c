/* SPDX-License-Identifier: Apache-2.0 */
/* What users feed: .npy heads, .npz archives, text, JSON, pictures. The first byte chooses. */
#include "image/image.h"
#include "io/io.h"

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void archive(const uint8_t *p, size_t n, struct arena *a)
{
	struct zip z;
	unsigned char to[4096];
	struct npy h;

	if (zip_open(p, n, "x", a, &z, NULL))
		return;
	for (size_t i = 0; i < z.n && i < 16; i++) {
		size_t got = zip_peek(&z.entry[i], to, sizeof(to));
		npy_head(to, got, "x", &h, NULL);
		if (z.entry[i].size <= sizeof(to))
			zip_read(&z.entry[i], to, NULL);
	}
}

static void text(enum io_kind kind, enum dtype t, const uint8_t *p, size_t n, struct arena *a)
{
	struct text_head h;

	if (text_scan(kind, (const char *)p, n, "x", t, &h, NULL))
		return;
	struct shape s = h.shape.rank >= 0 ? h.shape : (struct shape){.rank = 1, .dim = {h.count}};
	if (!text_read(kind, (const char *)p, n, t, &s, a))
		__builtin_trap(); /* what was counted must be read */
}

static void maps(enum dtype key, const uint8_t *p, size_t n, struct arena *a)
{
	const struct type type = {
		.kind = V_SEQUENCE, .of = V_MAP, .dtype = DT_F32, .key = (uint8_t)key};

	text_maps((const char *)p, n, "x", type, a, NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct arena a = {0};
	struct image im;
	struct npy h;

	if (!size)
		return 0;
	const uint8_t *p = data + 1;
	size_t n = size - 1;
	switch (data[0] % 10) {
	case 0:
		if (!npy_head(p, n, "x", &h, NULL) && h.dtype == DT_STRING && h.bytes <= n - h.data)
			npy_strings(&h, p + h.data, &a);
		break;
	case 1: archive(p, n, &a); break;
	case 2: text(IO_JSON, DT_F32, p, n, &a); break;
	case 3: text(IO_JSON, DT_STRING, p, n, &a); break;
	case 4: text(IO_TEXT, DT_I64, p, n, &a); break;
	case 5: text(IO_TEXT, DT_STRING, p, n, &a); break;
	case 8: maps(DT_I64, p, n, &a); break;
	case 9: maps(DT_STRING, p, n, &a); break;
	default: /* heads only: the libraries fuzz themselves, and large pictures take long */
		if (!image_head(p, n, &im, E_INPUT_FORMAT, NULL) && im.width * im.height <= 1 << 16 &&
		    !image_decode(p, n, &im, E_INPUT_FORMAT, NULL)) {
			(void)image_upright(p, n, &im, NULL);
			image_free(&im);
		}
		break;
	}
	arena_free(&a);
	return 0;
}
