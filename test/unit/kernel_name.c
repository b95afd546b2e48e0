/* SPDX-License-Identifier: Apache-2.0 */
/* Short names of kernels. */
#include "profile/kernel_name.h"
#include "test/unit/unit.h"

static void names(void)
{
	static const char *const pairs[][2] = {
		{"softmax_row", "softmax_row"},
		{"void ns::gemm<float, 3>(int*)", "ns::gemm"},
		{"void cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_128x64>(Params)",
		 "cutlass_80_tensorop_s1688gemm_128x64"},
		{"void (anonymous namespace)::fill<int>(int*)", "(anonymous namespace)::fill"},
		{"std::enable_if<!(3 > 2), void>::type internal::gemv<int, f<2>>(std::f<3>)",
		 "internal::gemv"},
		{"a::b<c>::d(int)", "a::b"},
		{"", ""},
		{"<odd>", "<odd>"}};
	struct arena a = {0};

	for (size_t i = 0; i < sizeof(pairs) / sizeof(*pairs); i++)
		CHECK_STR(kernel_short_name(pairs[i][0], &a), pairs[i][1]);
	arena_free(&a);
}

int main(void)
{
	UNIT(names);
	return unit_end();
}
