/* SPDX-License-Identifier: Apache-2.0 */
/* What of the GPU backend can be told without a GPU: index arithmetic, and how a missing device is told. */
#include "gpu/backend.h"
#include "gpu/driver/api.h"
#include "gpu/launch/util.h"
#include "test/unit/unit.h"

static void dimensions_that_lie_together_are_joined(void)
{
	const struct shape y = {4, {2, 3, 4, 5}}, bias = {3, {3, 1, 1}}, scalar = {0};
	const struct shape *const same[] = {&y, &y}, *const mixed[] = {&y, &bias, &scalar};
	struct gpu_dims d;
	int64_t step[3][GPU_DIMS];

	CHECK(gpu_broadcast(&y, 2, same, &d, step));
	CHECK_INT(d.rank, 1);
	CHECK_INT(d.dim[0], 120);
	CHECK(gpu_broadcast(&y, 3, mixed, &d, step));
	CHECK_INT(d.rank, 3);
	CHECK_INT(d.dim[2], 20);
	CHECK_INT(step[1][1], 1);
	CHECK_INT(step[1][2], 0);
	CHECK_INT(step[2][0], 0);
}

static void a_transpose_is_one_piece(void)
{
	struct gpu_piece p = {0};

	CHECK(gpu_piece(&p, 3, (int64_t[]){4, 2, 3}, (int64_t[]){1, 12, 4}, (int64_t[]){6, 3, 1}));
	CHECK_INT(p.job.n, 24);
	CHECK_INT(p.job.d.rank, 2); /* of 4 and of 2 * 3 */
	CHECK_INT(p.job.xs[1], 4);
	CHECK_INT(p.job.ys[0], 6);
}

static void grids_are_bounded(void)
{
	CHECK_INT(gpu_grid(0).x, 1);
	CHECK_INT(gpu_grid(257).x, 2);
	CHECK(gpu_grid(INT64_MAX / 2).x <= 1u << 20);
}

static void what_is_missing_is_told(void)
{
	struct library_info l[MAX_LIBRARIES];
	struct device_facts f[4];
	struct diag d = {0};

	int n = libraries_probe(l, &d);
	CHECK(n > 0);
	for (int k = 0; k < n; k++)
		CHECK(l[k].name && (l[k].found || l[k].why));
	if (!gpu_devices(f, 4, &d)) {
		CHECK(d.first && d.first->message);
		CHECK(!cuda_backend.open(0, NULL, &d));
		CHECK_INT(diag_exit(&d), 8);
	}
	diag_free(&d);
}

int main(void)
{
	UNIT(dimensions_that_lie_together_are_joined);
	UNIT(a_transpose_is_one_piece);
	UNIT(grids_are_bounded);
	UNIT(what_is_missing_is_told);
	return unit_end();
}
