/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_LAUNCH_UTIL_H
#define GPU_LAUNCH_UTIL_H
/* What kernel tables of several families need. */
#include "gpu/driver/cuda.h"
#include "gpu/kernels/params.h"

#include <string.h>

#define T_FLOATING (T_F32 | T_F16 | T_BF16 | T_F64)
#define T_NUMBERS  (T_FLOATING | T_INTS)
/* what can be moved: elements of 1, 2, 4, 8 or 16 bytes */
#define T_MOVED (T_ALL & ~(T_STRING | T_4BIT | T_F4 | T_2BIT))

enum dtype gpu_type(const struct site *s, uint32_t i);
enum dtype gpu_out_type(const struct site *s, uint32_t i);
static inline int64_t gpu_size(enum dtype t)
{
	return (int64_t)dtype_bits(t) / 8;
}
/* "PREFIX_f32": bool is u8 */
void *gpu_typed(const struct site *s, const char *file, const char *prefix, enum dtype t,
		struct diag *d);
/* "PREFIX_4": by the size of an element */
void *gpu_sized(const struct site *s, const char *file, const char *prefix, enum dtype t,
		struct diag *d);
/* Elements of output i, or of a shape: 0 where it cannot be counted. */
int64_t gpu_count(const struct shape *s);

/* dims and nwalk walks over them, joined where they lie together; false where more than GPU_DIMS are left. */
bool gpu_collapse(int rank, const int64_t *dim, int nwalk, int64_t (*step)[MAX_RANK],
		  struct gpu_dims *d, int64_t (*out)[GPU_DIMS]);
/* x's dims that are not in the mask of axes, *n elements, and those that are, *m; strides of both. */
bool gpu_part(const struct shape *x, uint32_t mask, struct gpu_dims *keep, int64_t (*ks)[GPU_DIMS],
	      int64_t *n, struct gpu_dims *red, int64_t (*rs)[GPU_DIMS], int64_t *m);
/* Inputs that broadcast to out. */
bool gpu_broadcast(const struct shape *out, int n, const struct shape *const *in,
		   struct gpu_dims *d, int64_t (*step)[GPU_DIMS]);
struct int_list;
/* The integers of input i; false where only the run knows them. */
bool gpu_list(const struct site *s, uint32_t i, struct int_list *l);
/* Row-major strides, 1 counts as any size. */
void gpu_strides(const struct shape *s, int64_t *strides);

static inline const void *gpu_data(const struct call *c, uint32_t i)
{
	return i < c->step->nin && c->in[i] ? c->in[i]->data : NULL;
}
static inline void *gpu_out(const struct call *c, uint32_t i)
{
	return i < c->step->nout && c->out[i] ? c->out[i]->data : NULL;
}
static inline void gpu_inplace(struct step *step, uint8_t out, uint8_t in)
{
	if (step->ninplace < MAX_INPLACE) {
		step->inplace[step->ninplace].out = out;
		step->inplace[step->ninplace++].in = in;
	}
}

/*
 * A device's state of a family, there or made now: zeros that begin with the arena they lie in. drop: NULL where
 * that arena is all there is to free.
 */
void *gpu_slot_new(struct device *device, enum gpu_slot slot, size_t bytes,
		   void (*drop)(struct device *device, void *state));

/* Strided copies between inputs and outputs, one launch a piece. */
struct gpu_piece {
	uint32_t in, out;
	int64_t from, to; /* bytes */
	struct gpu_strided job;
};
struct gpu_moves {
	void *fn;
	int count;
	struct gpu_piece *piece;
};
/* A piece of these dims and strides in elements of `size` bytes; false where it has too many dims. */
bool gpu_piece(struct gpu_piece *p, int rank, const int64_t *dim, const int64_t *xs,
	       const int64_t *ys);
int gpu_moves_run(const struct call *c);
/* Output 0 has the bytes of input 0: rows that need no step. */
int gpu_view_reshape(struct site *s, struct step *step, struct diag *d);
int gpu_view_run(const struct call *c);

#endif
