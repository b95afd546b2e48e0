/* SPDX-License-Identifier: Apache-2.0 */
/* Pictures of this kind, decoded whole. */
#include "image/image.h"
#include "test/fuzz/file.h"

enum { MAX_PIXELS = 1 << 16 }; /* larger ones take long and say no more */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct image im = {0};

	if (image_kind(data, size) == IMAGE_TIFF &&
	    !image_head(data, size, &im, E_INPUT_FORMAT, NULL) && im.width * im.height <= MAX_PIXELS &&
	    !image_decode(data, size, &im, E_INPUT_FORMAT, NULL))
		image_free(&im);
	return 0;
}
