/* SPDX-License-Identifier: Apache-2.0 */
/* Losses that compare class scores with class indices. */
#include "ops/loss.h"

#include "ops/infer_util.h"

static const struct slot nll_in[] = {SLOT("input", "T", T_FLOATS_BF),
				     SLOT("target", "Tind", T_I32 | T_I64),
				     SLOT_OPT("weight", "T", T_FLOATS_BF), SLOT_END};
static const struct slot nll_out[] = {SLOT("loss", "T", T_FLOATS_BF), SLOT_END};
static const struct slot sce_in[] = {SLOT("scores", "T", T_FLOATS_BF),
				     SLOT("labels", "Tind", T_I32 | T_I64),
				     SLOT_OPT("weights", "T", T_FLOATS_BF), SLOT_END};
static const struct slot sce_out[] = {SLOT("output", "T", T_FLOATS_BF),
				      SLOT_OPT("log_prob", "T", T_FLOATS_BF), SLOT_END};
static const struct field attrs[] = {
	FIELD_ENUM(struct loss, reduction, "mean", "none|sum|mean",
		   "what becomes of the single losses"),
	FIELD(struct loss, ignore_index, F_INT, NULL, "class that does not count"),
	{0}};

static int infer_loss(struct infer *c)
{
	const struct loss *p = infer_params(c);
	struct shape x = infer_shape(c, 0), t = infer_shape(c, 1), y = {0};
	int64_t same;

	if (x.rank >= 0 && x.rank < 2)
		return infer_fail(c, E_SHAPE, 0, "rank 2 and more", fmt(c->diag, "rank %d", x.rank));
	if (x.rank >= 0 && t.rank >= 0) {
		if (t.rank != x.rank - 1)
			return infer_fail(c, E_SHAPE, 1, fmt(c->diag, "rank %d", x.rank - 1),
					  fmt(c->diag, "rank %d", t.rank));
		for (int i = 0; i < t.rank; i++) {
			int err = infer_unify(c, 1, x.dim[i ? i + 1 : 0], t.dim[i], &same);
			if (err)
				return err;
		}
	}
	if (p->reduction == LOSS_NONE)
		y = t;
	infer_set(c, 0, infer_dtype(c, 0), &y);
	infer_set(c, 1, infer_dtype(c, 0), &x);
	return 0;
}

const struct op ops_loss[] = {{.name = "NegativeLogLikelihoodLoss",
			       .since = 22,
			       .in = nll_in,
			       .out = nll_out,
			       .types = T_FLOATS_BF,
			       ATTRS(attrs, struct loss),
			       .infer = infer_loss},
			      OLD("NegativeLogLikelihoodLoss", 13, T_FLOATS),
			      OLD("NegativeLogLikelihoodLoss", 12, T_FLOATS),
			      {.name = "SoftmaxCrossEntropyLoss",
			       .since = 13,
			       .in = sce_in,
			       .out = sce_out,
			       .types = T_FLOATS_BF,
			       ATTRS(attrs, struct loss),
			       .infer = infer_loss,
			       .flags = OP_OPTIONAL_OUT},
			      OLD("SoftmaxCrossEntropyLoss", 12, T_FLOATS),
			      {0}};
