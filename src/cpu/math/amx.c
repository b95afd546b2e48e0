/* SPDX-License-Identifier: Apache-2.0 */
#include "cpu/math/amx.h"

#include "cpu/math/level.h"

#include <string.h>

void amx_pack_a(const uint16_t *a, int64_t row, int64_t rows, int64_t k, uint16_t *to)
{
	int64_t depth = amx_depth(k);

	for (int64_t i = 0; i < amx_rows(rows); i++, to += depth) {
		int64_t n = i < rows ? k : 0;
		if (n)
			memcpy(to, a + i * row, (size_t)n * sizeof(*to));
		memset(to + n, 0, (size_t)(depth - n) * sizeof(*to));
	}
}

#if defined(__x86_64__)
#include <cpuid.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/syscall.h>
#include <unistd.h>

static bool processor_has_amx(void)
{
	enum {
		AMX = 1 << 22 | 1 << 24 | 1 << 25 /* bf16, tiles, int8 */,
		OSXSAVE = 1 << 27,
		TILE_STATES = 3 << 17
	};
	unsigned a, b, c, d, states, high;

	if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & OSXSAVE) ||
	    !__get_cpuid_count(7, 0, &a, &b, &c, &d) || (d & AMX) != AMX)
		return false;
	__asm__("xgetbv" : "=a"(states), "=d"(high) : "c"(0));
	return (states & TILE_STATES) == TILE_STATES;
}

/* Whether the name of oneDNN's level allows instructions that levels with one of these words have. */
static bool allowed_by_user(const char *word, const char *other)
{
	const char *isa = getenv("ONEDNN_MAX_CPU_ISA");

	isa = isa ? isa : getenv("DNNL_MAX_CPU_ISA");
	return !isa || strcasestr(isa, word) || strcasestr(isa, other) || !strcasecmp(isa, "ALL") ||
	       !strcasecmp(isa, "DEFAULT");
}

/* Linux gives a process the large state of tiles only if it asks for it. */
static bool allowed_by_system(void)
{
	enum { ARCH_REQ_XCOMP_PERM = 0x1023, XFEATURE_XTILEDATA = 18 };

	return !syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA);
}

bool amx_usable(void)
{
	static _Atomic int known; /* 0: not asked yet, 1: no, 2: yes */
	int now = atomic_load_explicit(&known, memory_order_relaxed);

	if (!now) {
		now = 1 + (simd_level() == 4 && processor_has_amx() &&
			   allowed_by_user("AMX", "AMX") && allowed_by_system());
		atomic_store_explicit(&known, now, memory_order_relaxed);
	}
	return now == 2;
}

/* Levels above the one that is named for bf16 have it, too. */
static bool dots_usable(void)
{
	static _Atomic int known;
	int now = atomic_load_explicit(&known, memory_order_relaxed);

	if (!now) {
		now = 1 + (simd_level() == 4 && __builtin_cpu_supports("avx512bf16") &&
			   (allowed_by_user("BF16", "FP16") || allowed_by_user("AMX", "AVX10")));
		atomic_store_explicit(&known, now, memory_order_relaxed);
	}
	return now == 2;
}

bool bf16_usable(void)
{
	return dots_usable() || amx_usable();
}

void amx_pack_b(const uint16_t *b, int64_t step, bool transposed, int64_t k, int64_t n, uint16_t *to)
{
	amx_pack_b_v4(b, step, transposed, k, n, to);
}

void amx_multiply(const struct amx *p)
{
	amx_multiply_v4(p, true);
}

void bf16_multiply(const struct amx *p, bool backwards)
{
	if (amx_usable())
		amx_multiply_v4(p, false);
	else
		bf16_dots_v4(p, backwards);
}

float amx_exp_sum(const float *x, uint16_t *y, int64_t n, float max, float scale)
{
	return amx_exp_sum_v4(x, y, n, max, scale);
}
#else
bool amx_usable(void)
{
	return false;
}

bool bf16_usable(void)
{
	return false;
}

void amx_pack_b(const uint16_t *b, int64_t step, bool transposed, int64_t k, int64_t n, uint16_t *to)
{
	(void)b, (void)step, (void)transposed, (void)k, (void)n, (void)to;
}

void amx_multiply(const struct amx *p)
{
	(void)p;
}

void bf16_multiply(const struct amx *p, bool backwards)
{
	(void)p, (void)backwards;
}

float amx_exp_sum(const float *x, uint16_t *y, int64_t n, float max, float scale)
{
	(void)x, (void)y, (void)n, (void)max, (void)scale;
	return 0;
}
#endif
