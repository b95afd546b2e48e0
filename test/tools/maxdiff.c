/* SPDX-License-Identifier: Apache-2.0 */
/* maxdiff A B: the largest difference of two files of f32; exit 1 where their sizes differ. */
#include <math.h>
#include <stdio.h>

int main(int argc, char **argv)
{
	FILE *a = argc == 3 ? fopen(argv[1], "rb") : NULL, *b = a ? fopen(argv[2], "rb") : NULL;
	float x, y, most = 0;
	size_t n, m;

	if (!b)
		return 2;
	for (;;) {
		n = fread(&x, sizeof(x), 1, a);
		m = fread(&y, sizeof(y), 1, b);
		if (!n || !m)
			break;
		most = fmaxf(most, fabsf(x - y));
	}
	printf("%g\n", most);
	return n != m;
}
