/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_OPS_TASK_ROWS_H
#define GPU_OPS_TASK_ROWS_H
/*
 * Entries for the kernel tables of other families whose kernels are in sample.c and matrix.c: regions and pools (for
 * the table in pool.c), grids (resize.c), Col2Im and convolutions (conv.c), Einsum, Det and Inverse (matmul.c),
 * normalizations (norm.c). The only state of these kernels is their tasks, which gpu_tasks_run launches.
 */
#include "gpu/launch/job.h"

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
GPU_TASK_OP(batch_any);
GPU_TASK_OP(group_scaled);
GPU_TASK_OP(layer_any);
GPU_TASK_OP(skip_any);
GPU_TASK_OP(embed);
GPU_TASK_OP(group_any);
GPU_TASK_OP(pool_any);
GPU_TASK_OP(conv_any);
GPU_TASK_OP(deconv_any);
GPU_TASK_OP(unpool);
int gpu_inverse_reshape(struct site *s, struct step *step, struct diag *d);
GPU_TASK_OP(global_lp);
int gpu_gated_rms_reshape(struct site *s, struct step *step, struct diag *d);

#define GPU_POOL_ROWS                                                                              \
	GPU_TASK_ROW("RoiAlign", T_FLOATING, roi_align),                                           \
		GPU_TASK_ROW("MaxRoiPool", T_FLOATING, max_roi),                                   \
		GPU_TASK_ROW("MaxUnpool", T_FLOATING, unpool),                                     \
		GPU_TASK_ROW("GlobalLpPool", T_FLOATING, global_lp),                               \
		GPU_TASK_ROW("MaxPool", T_FLOATING | T_I8 | T_U8, pool_any),                       \
		GPU_TASK_ROW("AveragePool", T_FLOATING, pool_any),                                 \
		GPU_TASK_ROW("LpPool", T_FLOATING, pool_any)
#define GPU_RESIZE_ROWS                                                                            \
	GPU_TASK_ROW("GridSample", T_NUMBERS | T_BOOL, grid_sample),                               \
		GPU_TASK_ROW("AffineGrid", T_FLOATING, affine_grid)
#define GPU_CONV_ROWS                                                                              \
	GPU_TASK_ROW("Col2Im", T_NUMBERS | T_BOOL, col2im),                                        \
		GPU_TASK_ROW("Conv", T_FLOATING, conv_any),                                        \
		GPU_TASK_ROW("ConvTranspose", T_FLOATING, deconv_any)
#define GPU_FUSED_ROWS GPU_TASK_ROW("infer::Conv", T_FLOATING, conv_any)
#define GPU_MATMUL_ROWS                                                                            \
	GPU_TASK_ROW("Einsum", T_NUMBERS, einsum), GPU_TASK_ROW("Det", T_FLOATING, det),           \
	{                                                                                          \
		.op = "com.microsoft::Inverse", .types = T_FLOATING, .accepts = gpu_det_accepts,   \
		.reshape = gpu_inverse_reshape, .run = gpu_tasks_run                               \
	}
#define GPU_NORM_ROWS                                                                               \
	GPU_TASK_ROW("LpNormalization", T_FLOATING, lp_norm),                                       \
		GPU_TASK_ROW("MeanVarianceNormalization", T_FLOATING, mvn),                         \
		GPU_TASK_ROW("LRN", T_FLOATING, lrn),                                               \
		GPU_TASK_ROW("BatchNormalization", T_FLOATING, batch_any),                          \
		GPU_TASK_ROW("GroupNormalization", T_FLOATING, group_scaled),                       \
		GPU_TASK_ROW("LayerNormalization", T_FLOATING, layer_any),                          \
		GPU_TASK_ROW("RMSNormalization", T_FLOATING, layer_any),                            \
		GPU_TASK_ROW("SimplifiedLayerNormalization", T_FLOATING, layer_any),                \
		GPU_TASK_ROW("com.microsoft::LayerNormalization", T_FLOATING, layer_any),           \
		GPU_TASK_ROW("com.microsoft::SimplifiedLayerNormalization", T_FLOATING, layer_any), \
		GPU_TASK_ROW("com.microsoft::SkipLayerNormalization", T_FLOATING, skip_any),        \
		GPU_TASK_ROW("com.microsoft::SkipSimplifiedLayerNormalization", T_FLOATING,         \
			     skip_any),                                                             \
		GPU_TASK_ROW("com.microsoft::EmbedLayerNormalization", 0, embed),                   \
		{.op = "com.microsoft::GatedRMSNorm",                                               \
		 .types = T_FLOATING,                                                               \
		 .reshape = gpu_gated_rms_reshape,                                                  \
		 .run = gpu_tasks_run},                                                             \
		GPU_TASK_ROW("com.microsoft::GroupNorm", T_FLOATING, group_any)

#endif
