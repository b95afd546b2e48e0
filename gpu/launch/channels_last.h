/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_LAUNCH_CHANNELS_LAST_H
#define GPU_LAUNCH_CHANNELS_LAST_H
/*
 * Support for channels-last values on the device. A value with one channel or one pixel has the same bytes in both
 * layouts; it counts as row-major, so that no step reorders it needlessly.
 */
#include "gpu/kernels/conv.h"
#include "gpu/launch/util.h"

/*
 * Returns the layout in which a kernel that reads or writes channels last declares a value of this shape. This is row-
 * major if the value has one channel or one pixel, because both layouts are then the same bytes.
 */
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
/* Sets the strides, in elements, of a value in layout LAYOUT_ROW or LAYOUT_CHANNELS_LAST. */
void gpu_layout_strides(const struct shape *s, enum layout layout, int64_t *strides);
/*
 * Gives the step arrays with the layouts of its inputs (want) and outputs (give). All layouts are row-major at first;
 * the caller changes some.
 */
void gpu_layouts(struct site *s, struct step *step, enum layout **want, enum layout **give);

/*
 * gpu_elementwise_layout() chooses and declares the layout of an elementwise step: channels last if an input with the
 * rank of the output is channels last. gpu_broadcast_as() is gpu_broadcast() for a step of that layout.
 */
enum { GPU_PW_MAX = 16 };
enum layout gpu_elementwise_layout(struct site *s, struct step *step);
bool gpu_broadcast_as(enum layout layout, const struct shape *out, int n,
		      const struct shape *const *in, struct gpu_dims *d, int64_t (*step)[GPU_DIMS]);

/* Mul of a channels-last value by a tensor [N,C,1,1], which has one number for each image and channel. */
bool gpu_scale_accepts(const struct site *s, struct why *w);
int gpu_scale_reshape(struct site *s, struct step *step, struct diag *d);
int gpu_scale_run(const struct call *c);

/* The kernel of Reorder steps. */
extern const struct kernel gpu_reorder;

#endif
