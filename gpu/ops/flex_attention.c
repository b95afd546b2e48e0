/* SPDX-License-Identifier: Apache-2.0 */
/* FlexAttention (ai.onnx.preview): the scores are stored in the workspace, because subgraphs of the model modify them. */
#include "gpu/ops/flex_attention.h"

#include "gpu/launch/job.h"
#include "gpu/kernels/heads.h"
#include "ops/attention.h"

#include <math.h>

struct flex {
	struct gpu_flex job;
	void *scores, *softmax, *product, *retype;
	size_t score_room, narrow_room;
	enum dtype type; /* element type of the input and output of the subgraphs */
};

static enum dtype body_type(const struct flex_attention *p, enum dtype q)
{
	if (p->softmax_precision)
		return (enum dtype)p->softmax_precision;
	return q == DT_F64 ? DT_F64 : DT_F32;
}

bool gpu_flex_accepts(const struct site *s, struct why *w)
{
	const struct flex_attention *p = s->node->params;
	enum dtype q = gpu_type(s, 0), t = body_type(p, q);

	if (!(T_BIT(t) & T_FLOATING) || (t == DT_F64) != (q == DT_F64))
		return refuse(w, "softmax_precision %s for %s", dtype_name(t), dtype_name(q));
	return true;
}

static void set_sizes(const struct site *s, struct gpu_flex *j)
{
	const struct flex_attention *p = s->node->params;
	const struct shape *q = &site_in(s, 0)->shape, *k = &site_in(s, 1)->shape;

	*j = (struct gpu_flex){.batch = q->dim[0],
			       .heads = q->dim[1],
			       .kv_heads = k->dim[1],
			       .queries = q->dim[2],
			       .keys = k->dim[2],
			       .size = q->dim[3],
			       .vsize = site_in(s, 2)->shape.dim[3],
			       .type = (int)gpu_type(s, 0)};
	j->wide = j->type == DT_F64 ? DT_F64 : DT_F32;
	j->scale = isnan(p->scale) ? 1 / sqrtf((float)(j->size > 0 ? j->size : 1)) : p->scale;
}

int gpu_flex_reshape(struct site *s, struct step *step, struct diag *d)
{
	struct flex *f = arena_new(s->plan_arena, struct flex);
	struct gpu_flex *j = &f->job;

	set_sizes(s, j);
	step->state = f;
	step->no_capture = true;
	f->type = body_type(s->node->params, gpu_type(s, 0));
	size_t n = (size_t)(j->batch * j->heads * j->queries * j->keys);
	f->score_room = gpu_room(step, n * (size_t)gpu_size((enum dtype)j->wide));
	f->narrow_room = gpu_room(step, n * (size_t)gpu_size(f->type));
	f->scores = gpu_kernel(s, "heads", "flex_scores", d);
	f->softmax = gpu_kernel(s, "heads", "flex_softmax", d);
	f->product = gpu_kernel(s, "heads", "flex_product", d);
	f->retype = gpu_kernel(s, "heads", "retype", d);
	return f->scores && f->softmax && f->product && f->retype ? 0 : -E_DEVICE;
}

static int convert_scores(const struct call *c, const struct flex *f, void *to, int to_type,
			  const void *from, int from_type)
{
	const struct gpu_flex *j = &f->job;
	struct gpu_retype job = {.x = from,
				 .y = to,
				 .n = j->batch * j->heads * j->queries * j->keys,
				 .from = from_type,
				 .to = to_type};

	return job.n > 0 ? gpu_launch(c, f->retype, gpu_grid(job.n), &job, sizeof(job)) : 0;
}

/*
 * Runs subgraph k of the node on the scores; converts the scores to and from the subgraph's type. Does nothing if k is
 * negative.
 */
static int run_body(const struct call *c, const struct flex *f, int k, void *score)
{
	const struct gpu_flex *j = &f->job;
	bool as_is = (int)f->type == j->wide;
	struct tensor x = {.type = type_tensor(f->type), .device = c->out[0]->device};
	const struct tensor *in = &x, *out = NULL;

	if (k < 0)
		return 0;
	x.shape = shape_of(4, (int64_t[]){j->batch, j->heads, j->queries, j->keys});
	x.data = as_is ? score : gpu_at(c, f->narrow_room);
	if (!tensor_bytes(f->type, &x.shape, LAYOUT_ROW, &x.bytes))
		return call_fail(c, E_SIZE, NULL, NULL);
	int err = as_is ? 0 : convert_scores(c, f, x.data, (int)f->type, score, j->wide);
	if (!err)
		err = c->step->body[k]->ops->run(c->step->body[k], &in, 1, &out, 1, c->diag);
	if (err)
		return err;
	if (tensor_dtype(out) != f->type || !shape_equal(&out->shape, &x.shape))
		return call_fail(c, E_SHAPE, "a body whose output is like its input", NULL);
	if (x.bytes && out->data != x.data)
		err = cuda_copy(c->stream, x.data, x.device, out->data, out->device, x.bytes, c->diag);
	return err || as_is ? err : convert_scores(c, f, score, j->wide, x.data, (int)f->type);
}

int gpu_flex_run(const struct call *c)
{
	const struct flex_attention *p = call_params(c);
	const struct flex *f = c->step->state;
	struct gpu_flex job = f->job;
	int64_t rows = job.batch * job.heads * job.queries, n = rows * job.keys,
		ny = rows * job.vsize;

	job.q = gpu_data(c, 0);
	job.k = gpu_data(c, 1);
	job.v = gpu_data(c, 2);
	job.score = gpu_at(c, f->score_room);
	job.y = gpu_out(c, 0);
	int err = n > 0 ? gpu_launch(c, f->scores, gpu_grid(n), &job, sizeof(job)) : 0;
	if (!err)
		err = run_body(c, f, p->score_mod, job.score);
	if (!err && n > 0)
		err = gpu_launch(c, f->softmax, gpu_blocks(rows, 128), &job, sizeof(job));
	if (!err)
		err = run_body(c, f, p->prob_mod, job.score);
	return err || ny <= 0 ? err : gpu_launch(c, f->product, gpu_grid(ny), &job, sizeof(job));
}
