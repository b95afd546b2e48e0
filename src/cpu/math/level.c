/* SPDX-License-Identifier: Apache-2.0 */
#include "cpu/math/level.h"

#if defined(__x86_64__)
#include <stdatomic.h>
#include <stdlib.h>
#include <strings.h>

static int level_of_machine(void)
{
	if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") ||
	    !__builtin_cpu_supports("bmi2"))
		return 2;
	return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
			       __builtin_cpu_supports("avx512cd") &&
			       __builtin_cpu_supports("avx512dq") &&
			       __builtin_cpu_supports("avx512vl")
		       ? 4
		       : 3;
}

/* What oneDNN reads: the names of its levels, of which those with AVX-512 limit nothing here. */
static int level_allowed(void)
{
	const char *isa = getenv("ONEDNN_MAX_CPU_ISA");

	isa = isa ? isa : getenv("DNNL_MAX_CPU_ISA");
	if (isa && (!strcasecmp(isa, "SSE41") || !strcasecmp(isa, "AVX")))
		return 2;
	return isa && (!strcasecmp(isa, "AVX2") || !strcasecmp(isa, "AVX2_VNNI") ||
		       !strcasecmp(isa, "AVX2_VNNI_2"))
		       ? 3
		       : 4;
}

int simd_level(void)
{
	static _Atomic int known;
	int level = atomic_load_explicit(&known, memory_order_relaxed);

	if (!level) {
		int allowed = level_allowed();
		level = level_of_machine();
		level = allowed < level ? allowed : level;
		atomic_store_explicit(&known, level, memory_order_relaxed);
	}
	return level;
}
#else
int simd_level(void)
{
	return 0;
}
#endif
