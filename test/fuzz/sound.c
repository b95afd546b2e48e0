/* SPDX-License-Identifier: Apache-2.0 */
/* Sounds, decoded whole and resampled. */
#include "sound/sound.h"
#include "test/fuzz/file.h"

#include <stdlib.h>

enum { MAX_SAMPLES = 1 << 18 }; /* longer ones take long and say no more */

/* libsndfile 1.2 loses what libvorbis has allocated when it refuses the head of an Ogg file. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
	return "leak:libvorbis\nleak:libsndfile\n";
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct sound_part parts[] = {
		{0}, {.rate = 16000, .mono = true}, {.start = 0.01, .duration = 0.01}};

	for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++) {
		struct sound s;
		if (!sound_known(data, size) ||
		    sound_head(data, size, &parts[i], &s, E_INPUT_FORMAT, NULL) ||
		    s.taken * s.file_channels > MAX_SAMPLES || s.frames * s.channels > MAX_SAMPLES)
			continue;
		float *to = malloc((size_t)(s.frames * s.channels) * sizeof(*to));
		if (to)
			(void)sound_decode(data, size, &s, to, E_INPUT_FORMAT, NULL);
		free(to);
	}
	return 0;
}
