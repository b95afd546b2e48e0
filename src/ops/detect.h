/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OPS_DETECT_H
#define OPS_DETECT_H
#include "ops/op.h"

struct nms {
	int64_t center_point_box; /* boxes are given by 0 corners, 1 centre and size */
};
/* ONNX's value range of iou_threshold */
static inline bool nms_iou_valid(float iou)
{
	return iou >= 0 && iou <= 1;
}
enum { NMS_BOXES, NMS_SCORES, NMS_MAX, NMS_IOU, NMS_SCORE };

#endif
