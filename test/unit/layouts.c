/* SPDX-License-Identifier: Apache-2.0 */
/* Channels-last walks of the CUDA backend: where a kernel looks for each operand of an elementwise step. */
#include "gpu/launch/channels_last.h"
#include "test/unit/unit.h"

static const struct shape out = {.rank = 4, .dim = {2, 3, 4, 5}};

/* As a kernel does it: place i of the output in memory to an offset in operand k. */
static int64_t walked(const struct gpu_dims *d, const int64_t *step, int64_t i)
{
	int64_t at = 0;

	for (int r = d->rank - 1; r >= 0; r--) {
		at += i % d->dim[r] * step[r];
		i /= d->dim[r];
	}
	return at;
}

/* Where element (n, c, h, w) of the output is found in an operand that broadcasts to it. */
static int64_t expected(const struct shape *in, const int64_t *at)
{
	int64_t st[MAX_RANK], sum = 0;
	int skip = 4 - in->rank;

	gpu_layout_strides(in, in->rank == 4 ? gpu_channels_last(in) : LAYOUT_ROW, st);
	for (int r = 0; r < in->rank; r++)
		sum += in->dim[r] == 1 ? 0 : at[r + skip] * st[r];
	return sum;
}

static void operands_are_found_where_they_lie(void)
{
	static const struct shape in[] = {
		{.rank = 4, .dim = {2, 3, 4, 5}}, {.rank = 4, .dim = {1, 3, 1, 1}},
		{.rank = 4, .dim = {2, 3, 1, 1}}, {.rank = 4, .dim = {2, 1, 4, 5}},
		{.rank = 3, .dim = {3, 1, 1}},	  {.rank = 1, .dim = {5}},
		{.rank = 4, .dim = {1, 3, 4, 1}}, {.rank = 0},
	};
	enum { N = sizeof(in) / sizeof(*in) };
	const struct shape *operand[N];
	int64_t step[N][GPU_DIMS] = {{0}};
	struct gpu_dims d;

	for (int k = 0; k < N; k++)
		operand[k] = &in[k];
	if (!CHECK(gpu_broadcast_as(LAYOUT_CHANNELS_LAST, &out, N, operand, &d, step)))
		return;
	for (int64_t i = 0; i < 2 * 3 * 4 * 5; i++) {
		/* place i channels last: c is the fastest */
		int64_t at[4] = {i / 60, i % 3, i / 15 % 4, i / 3 % 5};
		for (int k = 0; k < N; k++)
			CHECK_INT(walked(&d, step[k], i), expected(&in[k], at));
	}
}

static void what_is_the_same_bytes_is_row_major(void)
{
	const struct shape pixel = {.rank = 4, .dim = {2, 8, 1, 1}},
			   gray = {.rank = 4, .dim = {2, 1, 4, 5}},
			   flat = {.rank = 2, .dim = {2, 8}}, line = {.rank = 3, .dim = {2, 3, 7}};

	CHECK(gpu_channels_last(&out) == LAYOUT_CHANNELS_LAST);
	CHECK(gpu_channels_last(&line) == LAYOUT_CHANNELS_LAST);
	CHECK(gpu_channels_last(&pixel) == LAYOUT_ROW);
	CHECK(gpu_channels_last(&gray) == LAYOUT_ROW);
	CHECK(gpu_channels_last(&flat) == LAYOUT_ROW);
}

static void strides_of_both_layouts(void)
{
	static const int64_t row[] = {60, 20, 5, 1}, last[] = {60, 1, 15, 3};
	int64_t st[MAX_RANK];

	gpu_layout_strides(&out, LAYOUT_ROW, st);
	CHECK(!memcmp(st, row, sizeof(row)));
	gpu_layout_strides(&out, LAYOUT_CHANNELS_LAST, st);
	CHECK(!memcmp(st, last, sizeof(last)));
}

int main(void)
{
	UNIT(operands_are_found_where_they_lie);
	UNIT(what_is_the_same_bytes_is_row_major);
	UNIT(strides_of_both_layouts);
	return unit_end();
}
