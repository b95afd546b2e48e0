/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/detect.h"

#include "ops/infer_util.h"

static int nms_infer(struct infer *c)
{
	struct shape y = shape_of(2, (int64_t[]){DIM_UNKNOWN, 3});
	const struct vinfo *v = infer_in(c, NMS_IOU);
	const struct tensor *known = v ? v->known : NULL;
	float iou = known && tensor_count(known) == 1 ? *(const float *)known->data : 0;

	if (!nms_iou_valid(iou))
		return infer_fail(c, E_VALUE, NMS_IOU, "from 0 to 1", fmt(c->diag, "%g", (double)iou));
	infer_set(c, 0, DT_I64, &y);
	return 0;
}

static const struct slot nms_in[] = {
	SLOT("boxes", NULL, T_F32, .dims = "B N 4"),
	SLOT("scores", NULL, T_F32, .dims = "B _ N"),
	SLOT_OPT("max_output_boxes_per_class", NULL, T_I64, .dims = "() | 1"),
	SLOT_OPT("iou_threshold", NULL, T_F32, .dims = "() | 1"),
	SLOT_OPT("score_threshold", NULL, T_F32, .dims = "() | 1"),
	SLOT_END};
static const struct slot nms_out[] = {SLOT("selected_indices", NULL, T_I64), SLOT_END};
static const struct field nms_attrs[] = {
	FIELD(struct nms, center_point_box, F_INT, "0", "1: boxes are centre and size"), {0}};

const struct op ops_detect[] = {{.name = "NonMaxSuppression",
				 .since = 11,
				 .in = nms_in,
				 .out = nms_out,
				 ATTRS(nms_attrs, struct nms),
				 .infer = nms_infer,
				 .flags = OP_RUN_SHAPES},
				{.name = "NonMaxSuppression", .since = 10},
				{0}};
