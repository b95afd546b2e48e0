// SPDX-License-Identifier: Apache-2.0
// Running sums and products along an axis whose number is in device memory.
#include "any.cuh"

extern "C" __global__ void cumulate_any(const gpu_cumulate p)
{
	const int t = p.io.it[0];
	int64_t axis = in_int(p.io, 1, 0), n = 1, inner = 1;
	axis += axis < 0 ? p.rank : 0;
	if (axis < 0 || axis >= p.rank) {
		fault(p.io);
		return;
	}
	n = p.dim[axis];
	for (int r = (int)axis + 1; r < p.rank; r++)
		inner *= p.dim[r];
	EACH(l, p.n / n)
	{
		int64_t base = l / inner * n * inner + l % inner;
		double real = p.product ? 1 : 0;
		u64 whole = p.product ? 1 : 0;
		for (int64_t k = 0; k < n; k++) {
			int64_t at = base + (p.reverse ? n - 1 - k : k) * inner;
			if (is_float(t)) {
				double v = in_real(p.io, 0, at), next = p.product ? real * v : real + v;
				out_put(p.io, 0, at, p.exclusive ? real : next);
				real = next;
			} else {
				u64 v = (u64)in_int(p.io, 0, at), next = p.product ? whole * v : whole + v;
				any_put_int(t, p.io.out[0], at, (i64)(p.exclusive ? whole : next));
				whole = next;
			}
		}
	}
}
