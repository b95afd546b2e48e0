/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_SAMPLE_H
#define GPU_SAMPLE_H
/*
 * Rows for tables of families whose other kernels are elsewhere: regions (pool.c), grids (resize.c),
 * Col2Im (conv.c), Einsum and Det (matmul.c), two normalisations (norm.c). All run by gpu_tasks_run.
 */
#include "gpu/job.h"

#define GPU_TASK_ROW(name, types_, how)                                                            \
	{                                                                                          \
		.op = (name), .types = (types_), .accepts = gpu_##how##_accepts,                   \
		.reshape = gpu_##how##_reshape, .run = gpu_tasks_run                               \
	}
#define GPU_TASK_OP(how)                                                                           \
	bool gpu_##how##_accepts(const struct site *s, struct why *w);                             \
	int gpu_##how##_reshape(struct site *s, struct step *step, struct diag *d)

GPU_TASK_OP(grid_sample);
GPU_TASK_OP(affine_grid);
GPU_TASK_OP(roi_align);
GPU_TASK_OP(max_roi);
GPU_TASK_OP(col2im);
GPU_TASK_OP(einsum);
GPU_TASK_OP(det);
GPU_TASK_OP(lp_norm);
GPU_TASK_OP(mvn);
GPU_TASK_OP(lrn);
GPU_TASK_OP(batch_training);
GPU_TASK_OP(group_scaled);
GPU_TASK_OP(unpool);
GPU_TASK_OP(global_lp);

#define GPU_POOL_ROWS                                                                              \
	GPU_TASK_ROW("RoiAlign", T_FLOATING, roi_align),                                           \
		GPU_TASK_ROW("MaxRoiPool", T_FLOATING, max_roi),                                   \
		GPU_TASK_ROW("MaxUnpool", T_FLOATING, unpool),                                     \
		GPU_TASK_ROW("GlobalLpPool", T_FLOATING, global_lp)
#define GPU_RESIZE_ROWS                                                                            \
	GPU_TASK_ROW("GridSample", T_NUMBERS | T_BOOL, grid_sample),                               \
		GPU_TASK_ROW("AffineGrid", T_FLOATING, affine_grid)
#define GPU_CONV_ROWS GPU_TASK_ROW("Col2Im", T_NUMBERS | T_BOOL, col2im)
#define GPU_MATMUL_ROWS                                                                            \
	GPU_TASK_ROW("Einsum", T_NUMBERS, einsum), GPU_TASK_ROW("Det", T_FLOATING, det)
#define GPU_NORM_ROWS                                                                              \
	GPU_TASK_ROW("LpNormalization", T_FLOATING, lp_norm),                                      \
		GPU_TASK_ROW("MeanVarianceNormalization", T_FLOATING, mvn),                        \
		GPU_TASK_ROW("LRN", T_FLOATING, lrn),                                              \
		GPU_TASK_ROW("BatchNormalization", T_FLOATING, batch_training),                    \
		GPU_TASK_ROW("GroupNormalization", T_FLOATING, group_scaled)

#endif
