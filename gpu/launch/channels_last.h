/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_LAUNCH_CHANNELS_LAST_H
#define GPU_LAUNCH_CHANNELS_LAST_H
/*
 * Channels-last values on the device. With one channel or one pixel both layouts are the same bytes; such a value counts as
 * row-major, so that no step reorders it needlessly.
 */
#include "gpu/kernels/conv.h"
#include "gpu/launch/util.h"

/* The layout that a kernel which reads or writes channels last declares for a value of this shape. */
static inline enum layout gpu_channels_last(const struct shape *s)
{
	int64_t pixels = 1;

	if (s->rank < 3 || s->rank > 5)
		return LAYOUT_ROW;
	for (int i = 2; i < s->rank; i++)
		pixels *= s->dim[i];
	return pixels == 1 || s->dim[1] == 1 ? LAYOUT_ROW : LAYOUT_CHANNELS_LAST;
}
/* Whether input i is channels last. */
static inline bool gpu_is_last(const struct site *s, uint32_t i)
{
	const struct vinfo *v = site_in(s, i);
	return v && v->layout == LAYOUT_CHANNELS_LAST;
}
/* Strides in elements of a value in a layout: ROW or CHANNELS_LAST. */
void gpu_layout_strides(const struct shape *s, enum layout layout, int64_t *strides);
/* Gives the step arrays of layouts for its inputs (want) and outputs (give), all row-major; the caller changes some. */
void gpu_layouts(struct site *s, struct step *step, enum layout **want, enum layout **give);

/*
 * The layout of an elementwise step: channels last if an input of the output's rank is; declares it for the step.
 * gpu_broadcast_as() is gpu_broadcast() for a step of that layout.
 */
enum { GPU_PW_MAX = 16 };
enum layout gpu_elementwise_layout(struct site *s, struct step *step);
bool gpu_broadcast_as(enum layout layout, const struct shape *out, int n,
		      const struct shape *const *in, struct gpu_dims *d, int64_t (*step)[GPU_DIMS]);

/* Mul of a channels-last value by [N,C,1,1], one number for each image and channel. */
bool gpu_scale_accepts(const struct site *s, struct why *w);
int gpu_scale_reshape(struct site *s, struct step *step, struct diag *d);
int gpu_scale_run(const struct call *c);

/* The kernel of Reorder steps. */
extern const struct kernel gpu_reorder;

#endif
