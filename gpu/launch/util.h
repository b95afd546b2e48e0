/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_LAUNCH_UTIL_H
#define GPU_LAUNCH_UTIL_H
/*
 * Helpers of all operator families: element types and the kernels for them, strides, addresses of operands, strided
 * copies.
 */
#include "gpu/driver/cuda.h"
#include "gpu/kernels/params.h"

#include <string.h>

#define T_FLOATING (T_F32 | T_F16 | T_BF16 | T_F64)
#define T_NUMBERS  (T_FLOATING | T_INTS)
/* types that kernels can copy: elements of 1, 2, 4, 8 or 16 bytes */
#define T_MOVED (T_ALL & ~(T_STRING | T_4BIT | T_F4 | T_2BIT))

/* Return the element type of input i or of output i. If the node does not have it, the result is DT_NONE. */
enum dtype gpu_type(const struct site *s, uint32_t i);
enum dtype gpu_out_type(const struct site *s, uint32_t i);
/* Bytes of an element. */
static inline int64_t gpu_size(enum dtype t)
{
	return (int64_t)dtype_bits(t) / 8;
}
/*
 * Finds the kernel PREFIX_TYPE of gpu/kernels/FILE.cu, for example "PREFIX_f32". Type bool uses the kernel of u8.
 * Returns NULL with a finding if there is none.
 */
void *gpu_typed(const struct site *s, const char *file, const char *prefix, enum dtype t,
		struct diag *d);
/*
 * Finds the kernel PREFIX_SIZE for elements of t's size in bytes, for example "PREFIX_4". Returns NULL with a finding
 * if there is none.
 */
void *gpu_sized(const struct site *s, const char *file, const char *prefix, enum dtype t,
		struct diag *d);
/* Returns the number of elements, or 0 if a dimension is unknown. */
int64_t gpu_count(const struct shape *s);

/*
 * Merges neighbouring dims that all nwalk operands traverse contiguously; step[k] holds the strides of operand k.
 * Returns false if more than GPU_DIMS dims remain.
 */
bool gpu_collapse(int rank, const int64_t *dim, int nwalk, int64_t (*step)[MAX_RANK],
		  struct gpu_dims *d, int64_t (*out)[GPU_DIMS]);
/*
 * Splits x's dims into dims outside the mask of axes (keep, with *n elements) and dims in the mask (red, with *m
 * elements), and sets their strides ks and rs.
 */
bool gpu_part(const struct shape *x, uint32_t mask, struct gpu_dims *keep, int64_t (*ks)[GPU_DIMS],
	      int64_t *n, struct gpu_dims *red, int64_t (*rs)[GPU_DIMS], int64_t *m);
/*
 * Sets the dims and strides of n inputs that broadcast to shape `out`. Returns false if more than GPU_DIMS dims remain.
 */
bool gpu_broadcast(const struct shape *out, int n, const struct shape *const *in,
		   struct gpu_dims *d, int64_t (*step)[GPU_DIMS]);
struct int_list;
/* Reads the integers of input i. Returns false if they are known only at run time. */
bool gpu_list(const struct site *s, uint32_t i, struct int_list *l);
/* Row-major strides. */
void gpu_strides(const struct shape *s, int64_t *strides);

/* Return the address of input i or of output i in a run, or NULL if the node does not have it. */
static inline const void *gpu_data(const struct call *c, uint32_t i)
{
	return i < c->step->nin && c->in[i] ? c->in[i]->data : NULL;
}
static inline void *gpu_out(const struct call *c, uint32_t i)
{
	return i < c->step->nout && c->out[i] ? c->out[i]->data : NULL;
}
/* Allows output `out` to use the memory of input `in`. */
static inline void gpu_inplace(struct step *step, uint8_t out, uint8_t in)
{
	if (step->ninplace < MAX_INPLACE) {
		step->inplace[step->ninplace].out = out;
		step->inplace[step->ninplace++].in = in;
	}
}

/*
 * Creates the state that an operator family keeps for a device, when it is first used. The state is zeroed; its first
 * member is a struct arena, in which the state itself is allocated. `drop` frees the state; if `drop` is NULL, only the
 * arena is freed.
 */
void *gpu_slot_new(struct device *device, enum gpu_slot slot, size_t bytes,
		   void (*drop)(struct device *device, void *state));

/* Strided copies from inputs to outputs, with one launch for each piece. */
struct gpu_piece {
	uint32_t in, out;
	int64_t from, to; /* byte offsets in the input and the output */
	struct gpu_strided job;
};
struct gpu_moves {
	void *fn;
	int count;
	struct gpu_piece *piece;
	/* the same copies with elements of 16 bytes, for operands that are aligned to them; NULL if the pieces are not */
	void *wide_fn;
	struct gpu_piece *wide;
};
/* Sets the dims and the strides, in elements, of a piece. Returns false if there are too many dims. */
bool gpu_piece(struct gpu_piece *p, int rank, const int64_t *dim, const int64_t *xs,
	       const int64_t *ys);
/* Launches the kernel "strided" of move.cu for one copy. */
int gpu_strided_run(const struct call *c, void *fn, const struct gpu_strided *job);
/* Finds the kernels for the pieces, whose elements are of the type. Returns 0 or -code. */
int gpu_moves_set(const struct site *s, struct gpu_moves *m, enum dtype t, struct diag *d);
int gpu_moves_run(const struct call *c);
/* For operators whose output has the same bytes as their input, so that usually nothing is to be copied. */
int gpu_view_reshape(struct site *s, struct step *step, struct diag *d);
int gpu_view_run(const struct call *c);

#endif
