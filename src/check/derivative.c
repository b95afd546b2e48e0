/* SPDX-License-Identifier: Apache-2.0 */
#include "check/derivative.h"

#include "backend/weight_store.h"
#include "ops/conv.h"
#include "ops/matmul.h"
#include "ops/norm.h"
#include "ops/op.h"
#include "ops/pool.h"
#include "ops/resize.h"
#include "ops/softmax.h"
#include "opt/params.h"
#include "opt/pipeline.h"

#include <math.h>
#include <string.h>

/* One node whose derivatives are computed; the members are the arguments of derivative_of. */
struct reverse {
	struct held_run *h;
	const struct node *n;
	float *const *dy;
	const bool *want;
	float **dx;
	struct diag *d;
};

static const struct tensor *input(const struct reverse *x, uint32_t i)
{
	return i < x->n->nin ? held_value(x->h, NULL, x->n->in[i]) : NULL;
}

static const struct tensor *output(const struct reverse *x, uint32_t k)
{
	return held_value(x->h, NULL, x->n->out[k]);
}

static float *new_floats(int64_t n)
{
	size_t bytes = (size_t)n * sizeof(float);

	return mem_zalloc(bytes ? bytes : 1, MEM_STAGING);
}

/* The array for the derivative by input i, made at the first call. */
static float *slope_of(const struct reverse *x, uint32_t i)
{
	if (!x->dx[i])
		x->dx[i] = new_floats(tensor_count(input(x, i)));
	return x->dx[i];
}

/* ---- broadcasting ------------------------------------------------------------------------------ */

/* Walks over the elements of a shape and tells the element of an operand that is broadcast to this shape. */
struct walk {
	int rank;
	int64_t dim[MAX_RANK], step[MAX_RANK], index[MAX_RANK], at;
};

/* `of` may have fewer dimensions than `to`: they are aligned at the last. */
static struct walk walk_begin(const struct shape *of, const struct shape *to)
{
	struct walk w = {.rank = to->rank};
	int64_t step = 1;

	for (int i = to->rank - 1; i >= 0; i--) {
		int k = i - (to->rank - of->rank);
		int64_t n = k >= 0 ? of->dim[k] : 1;
		w.dim[i] = to->dim[i];
		w.step[i] = n > 1 ? step : 0;
		step *= n;
	}
	return w;
}

static void walk_on(struct walk *w)
{
	for (int i = w->rank - 1; i >= 0; i--) {
		w->at += w->step[i];
		if (++w->index[i] < w->dim[i])
			return;
		w->at -= w->step[i] * w->dim[i];
		w->index[i] = 0;
	}
}

/* Adds to each element of an operand what belongs to it of dy, which has the broadcast shape. */
static void add_reduced(float *to, const struct shape *of, const float *dy, const struct tensor *y)
{
	int64_t n = tensor_count(y);

	if (shape_equal(of, &y->shape)) {
		for (int64_t i = 0; i < n; i++)
			to[i] += dy[i];
		return;
	}
	struct walk w = walk_begin(of, &y->shape);
	for (int64_t i = 0; i < n; i++, walk_on(&w))
		to[w.at] += dy[i];
}

static bool broadcasts_to(const struct shape *of, const struct shape *to)
{
	for (int i = 0; i < of->rank && of->rank <= to->rank; i++) {
		int64_t n = of->dim[of->rank - 1 - i], m = to->dim[to->rank - 1 - i];
		if (n != m && n != 1)
			return false;
	}
	return of->rank <= to->rank;
}

/* ---- elementwise -------------------------------------------------------------------------------- */

static bool is_first_use(const struct reverse *x, uint32_t i)
{
	for (uint32_t k = 0; k < i; k++)
		if (x->n->in[k] == x->n->in[i])
			return false;
	return true;
}

/* How far an element is moved for the difference quotient: enough above the rounding of f32, and small beside the others. */
static float *choose_distances(const struct tensor *t)
{
	int64_t n = tensor_count(t);
	const float *v = t->data;
	float *step = new_floats(n);
	double sum = 0;

	for (int64_t i = 0; i < n; i++)
		sum += isfinite(v[i]) ? (double)v[i] * (double)v[i] : 0;
	double typical = n ? sqrt(sum / (double)n) : 0;
	float least = (float)(1e-4 * typical + 1e-30);
	for (int64_t i = 0; i < n && step; i++)
		step[i] = 1e-3F * fabsf(v[i]) + least;
	return step;
}

/* Computes the node with `sign` times the distances added to input i. */
static int run_moved(const struct reverse *x, uint32_t i, const float *step, float sign,
		     struct value_copy *out)
{
	const struct tensor *t = input(x, i);
	struct value_copy *other = mem_zalloc(x->h->g->nvalues * sizeof(*other) + 1, MEM_STAGING);
	int64_t n = tensor_count(t);
	float *moved = new_floats(n);
	int err = other && moved ? 0 : -(int)E_MEMORY;

	for (int64_t k = 0; k < n && !err; k++)
		moved[k] = ((const float *)t->data)[k] + sign * step[k];
	if (!err) {
		other[x->n->in[i]].t = *t;
		other[x->n->in[i]].t.data = moved;
		err = held_compute(x->h, x->n, other, out, x->d);
	}
	mem_free(moved);
	mem_free(other);
	return err;
}

static void add_quotients(const struct reverse *x, uint32_t i, const float *step,
			  const struct tensor *up, const struct tensor *down)
{
	const struct tensor *t = input(x, i), *y = output(x, 0);
	const float *v = t->data, *a = up->data, *b = down->data;
	struct walk w = walk_begin(&t->shape, &y->shape);
	bool same = shape_equal(&t->shape, &y->shape);
	float *to = slope_of(x, i);
	int64_t n = tensor_count(y);

	for (int64_t k = 0; k < n && to; k++) {
		int64_t at = same ? k : w.at;
		/* what the rounding of v + step has left of the distance */
		float high = v[at] + step[at], low = v[at] - step[at];
		float slope = (a[k] - b[k]) / (high - low) * x->dy[0][k];
		if (isfinite(slope))
			to[at] += slope;
		if (!same)
			walk_on(&w);
	}
}

static int quotient(const struct reverse *x, uint32_t i)
{
	const struct tensor *t = input(x, i), *y = output(x, 0);
	struct value_copy *up = mem_zalloc(2 * x->n->nout * sizeof(*up) + 1, MEM_STAGING);
	float *step = NULL;

	if (!up || !broadcasts_to(&t->shape, &y->shape)) {
		mem_free(up);
		return DERIVATIVE_NONE;
	}
	struct value_copy *down = up + x->n->nout;
	step = choose_distances(t);
	int err = step ? run_moved(x, i, step, 1, up) : -(int)E_MEMORY;
	err = err ? err : run_moved(x, i, step, -1, down);
	bool fits = !err && held_floats(&up->t) && held_floats(&down->t) &&
		    shape_equal(&up->t.shape, &y->shape) && shape_equal(&down->t.shape, &y->shape);
	if (fits)
		add_quotients(x, i, step, &up->t, &down->t);
	for (uint32_t k = 0; k < 2 * x->n->nout; k++)
		value_free(&up[k]);
	mem_free(step);
	mem_free(up);
	return fits ? DERIVATIVE_MADE : DERIVATIVE_NONE;
}

static int elementwise(const struct reverse *x)
{
	int rc = x->dy[0] ? DERIVATIVE_MADE : DERIVATIVE_NONE;

	for (uint32_t i = 0; i < x->n->nin && rc == DERIVATIVE_MADE; i++)
		if (x->want[i] && is_first_use(x, i))
			rc = quotient(x, i);
	return rc;
}

static int sum(const struct reverse *x)
{
	for (uint32_t i = 0; i < x->n->nin; i++) {
		float *to = x->want[i] ? slope_of(x, i) : NULL;
		if (to)
			add_reduced(to, &input(x, i)->shape, x->dy[0], output(x, 0));
	}
	return DERIVATIVE_MADE;
}

/* Adds dy times u, elements of another operand, to the derivative by an operand. Both are broadcast to y. */
static void add_times(float *to, const struct shape *of, const float *dy, const struct tensor *u,
		      const struct tensor *y)
{
	struct walk mine = walk_begin(of, &y->shape), other = walk_begin(&u->shape, &y->shape);
	int64_t n = tensor_count(y);
	const float *v = u->data;

	if (shape_equal(of, &y->shape) && shape_equal(&u->shape, &y->shape)) {
		for (int64_t k = 0; k < n; k++)
			to[k] += dy[k] * v[k];
		return;
	}
	for (int64_t k = 0; k < n; k++, walk_on(&mine), walk_on(&other))
		to[mine.at] += dy[k] * v[other.at];
}

static int product(const struct reverse *x)
{
	for (uint32_t i = 0; i < 2; i++) {
		float *to = x->want[i] ? slope_of(x, i) : NULL;
		if (to)
			add_times(to, &input(x, i)->shape, x->dy[0], input(x, 1 - i), output(x, 0));
	}
	return DERIVATIVE_MADE;
}

static int difference(const struct reverse *x)
{
	int64_t n = x->want[1] ? tensor_count(input(x, 1)) : 0;
	int rc = sum(x);

	for (int64_t i = 0; i < n && x->dx[1]; i++)
		x->dx[1][i] = -x->dx[1][i];
	return rc;
}

/* The statistics of a BatchNormalization that does not train are constants: a factor for each channel. */
static int batch_norm(const struct reverse *x)
{
	const struct batch_norm *p = x->n->params;
	const struct tensor *t = input(x, 0), *scale = input(x, 1), *variance = input(x, 4);
	float *to = x->want[0] ? slope_of(x, 0) : NULL;
	int64_t channels = t->shape.rank > 1 ? t->shape.dim[1] : 1, n = tensor_count(t);

	for (uint32_t i = 1; i < x->n->nin; i++)
		if (x->want[i])
			return DERIVATIVE_NONE;
	if (!to || p->training_mode || !held_floats(scale) || !held_floats(variance) ||
	    tensor_count(scale) != channels || tensor_count(variance) != channels)
		return DERIVATIVE_NONE;
	int64_t plane = n && t->shape.dim[0] ? n / t->shape.dim[0] / channels : 0;
	for (int64_t at = 0; at < n; at += plane) {
		int64_t c = at / plane % channels;
		float by = ((const float *)scale->data)[c] /
			   sqrtf(((const float *)variance->data)[c] + p->epsilon);
		for (int64_t i = at; i < at + plane; i++)
			to[i] = x->dy[0][i] * by;
	}
	return DERIVATIVE_MADE;
}

static int rectify(const struct reverse *x)
{
	const struct tensor *t = input(x, 0);
	float *to = slope_of(x, 0);
	int64_t n = tensor_count(t);

	for (int64_t k = 0; k < n && to; k++)
		to[k] = ((const float *)t->data)[k] > 0 ? x->dy[0][k] : 0;
	return DERIVATIVE_MADE;
}

/* ---- operators that move elements ---------------------------------------------------------------- */

/* Elements are numbered from 1 in two digits of this base, which f32 has exactly; 0 is what the operator fills in. */
enum { BASE = 1 << 24 };

/* Whether the operator moves elements of this input: those of its output's type variable, not the scales of a Resize. */
static bool is_moved(const struct reverse *x, uint32_t i)
{
	const struct op row = op_resolved(x->n->op);
	const struct slot *from = slot_at(row.in, i), *to = slot_at(row.out, 0);

	return held_floats(input(x, i)) && is_first_use(x, i) && from && to && from->tvar &&
	       to->tvar && !strcmp(from->tvar, to->tvar);
}

static int run_numbered(const struct reverse *x, bool high, struct value_copy *out)
{
	struct value_copy *other = mem_zalloc(x->h->g->nvalues * sizeof(*other) + 1, MEM_STAGING);
	int64_t first = 1;
	int err = other ? 0 : -(int)E_MEMORY;

	for (uint32_t i = 0; i < x->n->nin && !err; i++) {
		const struct tensor *t = input(x, i);
		if (!is_moved(x, i))
			continue;
		int64_t n = tensor_count(t);
		float *number = new_floats(n);
		for (int64_t k = 0; k < n && number; k++)
			number[k] = (float)(high ? (first + k) / BASE : (first + k) % BASE);
		err = number ? 0 : -(int)E_MEMORY;
		other[x->n->in[i]].t = *t;
		other[x->n->in[i]].t.data = other[x->n->in[i]].own = number;
		first += n;
	}
	err = err ? err : held_compute(x->h, x->n, other, out, x->d);
	for (uint32_t i = 0; i < x->n->nin && other; i++)
		if (x->n->in[i] != NO_VALUE)
			value_free(&other[x->n->in[i]]);
	mem_free(other);
	return err;
}

static int64_t count_inputs(const struct reverse *x)
{
	int64_t n = 1;

	for (uint32_t i = 0; i < x->n->nin; i++)
		n += is_moved(x, i) ? tensor_count(input(x, i)) : 0;
	return n;
}

/* The inputs whose elements move: the number of the first element of each, and where their derivatives are added. */
struct span {
	int64_t first, end;
	float *to; /* NULL if it is not wanted */
};

static uint32_t find_spans(const struct reverse *x, struct span *span)
{
	int64_t first = 1;
	uint32_t n = 0;

	for (uint32_t i = 0; i < x->n->nin; i++) {
		if (!is_moved(x, i))
			continue;
		int64_t count = tensor_count(input(x, i));
		span[n++] = (struct span){first, first + count, x->want[i] ? slope_of(x, i) : NULL};
		first += count;
	}
	return n;
}

/* Gives the inputs the derivatives of one output, whose elements are numbers of theirs in one digit or two. */
static void give_back(const struct span *span, uint32_t n, const struct tensor *low,
		      const struct tensor *high, const float *dy)
{
	const float *a = low->data, *b = high ? high->data : NULL;
	int64_t count = tensor_count(low);
	uint32_t k = 0;

	for (int64_t i = 0; i < count && n; i++) {
		int64_t number = (b ? (int64_t)b[i] * BASE : 0) + (int64_t)a[i];
		/* neighbours mostly come from the same input */
		for (uint32_t tries = 0; tries < n; tries++) {
			if (number >= span[k].first && number < span[k].end)
				break;
			k = (k + 1) % n;
		}
		if (number >= span[k].first && number < span[k].end && span[k].to)
			span[k].to[number - span[k].first] += dy[i];
	}
}

static int move(const struct reverse *x)
{
	struct value_copy *low = mem_zalloc(2 * x->n->nout * sizeof(*low) + 1, MEM_STAGING);
	struct arena a = {0};
	int err = low ? run_numbered(x, false, low) : -(int)E_MEMORY;

	if (!low)
		return err;
	struct value_copy *high = low + x->n->nout;
	bool two = count_inputs(x) >= BASE;
	if (!err && two)
		err = run_numbered(x, true, high);
	struct span *span = arena_new_n(&a, struct span, x->n->nin + 1);
	uint32_t n = err ? 0 : find_spans(x, span);
	for (uint32_t k = 0; k < x->n->nout && !err; k++) {
		if (!x->dy[k])
			continue;
		if (held_floats(&low[k].t) && (!two || held_floats(&high[k].t)) &&
		    shape_equal(&low[k].t.shape, &output(x, k)->shape))
			give_back(span, n, &low[k].t, two ? &high[k].t : NULL, x->dy[k]);
		else
			err = -(int)E_OP_UNSUPPORTED;
	}
	for (uint32_t k = 0; k < 2 * x->n->nout; k++)
		value_free(&low[k]);
	mem_free(low);
	arena_free(&a);
	return err ? DERIVATIVE_NONE : DERIVATIVE_MADE;
}

/* Elements stay in their order. */
static int view(const struct reverse *x)
{
	float *to = x->want[0] ? slope_of(x, 0) : NULL;

	if (!to || tensor_count(input(x, 0)) != tensor_count(output(x, 0)))
		return DERIVATIVE_NONE;
	memcpy(to, x->dy[0], (size_t)tensor_count(output(x, 0)) * sizeof(*to));
	return DERIVATIVE_MADE;
}

static int resize(const struct reverse *x)
{
	return ((const struct resize *)x->n->params)->mode == RESIZE_NEAREST ? move(x)
									     : DERIVATIVE_NONE;
}

/* ---- products -------------------------------------------------------------------------------------- */

/* Adds a graph of one node with two inputs to the model. Returns the node's params. */
static void *one_node(struct model *m, const char *op, const struct tensor *const *in)
{
	struct graph *g = m->graph = graph_new(&m->arena, m, "derivative");
	const struct op *row = op_named(op);
	void *params = params_new(row, &m->arena);

	g->in = arena_new_n(&m->arena, uint32_t, 2);
	for (g->nin = 0; g->nin < 2; g->nin++) {
		struct value *v = graph_add_value(g, g->nin ? "b" : "a");
		v->is_input = true;
		v->info.type = in[g->nin]->type;
		v->info.shape = in[g->nin]->shape;
		g->in[g->nin] = v->id;
	}
	struct value *y = graph_add_value(g, "y");
	struct node *n = graph_add_node(g, row, params, g->in, 2, &y->id, 1,
					origin_new(&m->arena, "derivative", op, row->since));
	n->type = row->name;
	n->domain = row->domain ? row->domain : "";
	n->version = row->since;
	y->is_output = true;
	g->out = arena_dup(&m->arena, &y->id, sizeof(y->id));
	g->out_name = arena_new_n(&m->arena, const char *, 1);
	g->out_name[0] = "y";
	g->nout = 1;
	return params;
}

/* Runs the model of one_node and keeps its output. */
static int run_one_node(const struct reverse *x, struct model *m, const struct tensor *const *in,
			struct value_copy *out)
{
	struct runtime rt = *x->h->rt;
	const struct tensor *y = NULL;
	const struct call none = {0};

	rt.arena = &m->arena;
	rt.store = store_new(NULL, NULL);
	rt.uploads = NULL;
	rt.observer = NULL;
	int err = graph_sort(m->graph, x->d);
	err = err ? err : opt_run(m, rt.cpu, rt.config, x->d);
	if (!err) {
		struct instance *i = instance_new(m->graph, &rt);
		err = instance_run(i, in, &y, x->d);
		err = err ? err : value_fetch(&rt, &none, y, true, out, x->d);
		instance_free(i);
	}
	store_free(rt.store);
	arena_free(&m->arena);
	return err;
}

/* A tensor of the shape of output 0 with its derivative. */
static struct tensor slopes(const struct reverse *x)
{
	struct tensor t = *output(x, 0);

	t.data = x->dy[0];
	t.bytes = (size_t)tensor_count(&t) * sizeof(float);
	return t;
}

/* op(a) op(b) times alpha, each transposed or not, is added to the derivative by input i. */
static int add_product(const struct reverse *x, uint32_t i, const struct tensor *a, bool turn_a,
		       const struct tensor *b, bool turn_b, float alpha)
{
	const struct tensor *in[2] = {a, b};
	struct model m = {0};
	struct value_copy out = {0};
	struct fused_matmul *p = one_node(&m, "com.microsoft::FusedMatMul", in);

	p->alpha = alpha;
	p->transA = turn_a;
	p->transB = turn_b;
	int err = run_one_node(x, &m, in, &out);
	float *to = err ? NULL : slope_of(x, i);
	if (to && held_floats(&out.t) && broadcasts_to(&input(x, i)->shape, &out.t.shape))
		add_reduced(to, &input(x, i)->shape, out.t.data, &out.t);
	else
		err = err ? err : -(int)E_SHAPE;
	value_free(&out);
	return err ? DERIVATIVE_NONE : DERIVATIVE_MADE;
}

static int matmul(const struct reverse *x)
{
	const struct tensor *a = input(x, 0), *b = input(x, 1), dy = slopes(x);
	int rc = a->shape.rank < 2 || b->shape.rank < 2 ? DERIVATIVE_NONE : DERIVATIVE_MADE;

	if (rc == DERIVATIVE_MADE && x->want[0])
		rc = add_product(x, 0, &dy, false, b, true, 1);
	if (rc == DERIVATIVE_MADE && x->want[1])
		rc = add_product(x, 1, a, true, &dy, false, 1);
	return rc;
}

static int gemm(const struct reverse *x)
{
	const struct gemm_params *p = x->n->params;
	const struct tensor *a = input(x, 0), *b = input(x, 1), dy = slopes(x);
	bool turned_a = p->transA != 0, turned_b = p->transB != 0;
	int rc = DERIVATIVE_MADE;

	if (x->want[0])
		rc = turned_a ? add_product(x, 0, b, turned_b, &dy, true, p->alpha)
			      : add_product(x, 0, &dy, false, b, !turned_b, p->alpha);
	if (rc == DERIVATIVE_MADE && x->want[1])
		rc = turned_b ? add_product(x, 1, &dy, true, a, turned_a, p->alpha)
			      : add_product(x, 1, a, !turned_a, &dy, false, p->alpha);
	if (rc == DERIVATIVE_MADE && x->n->nin > 2 && x->want[2]) {
		float *to = slope_of(x, 2);
		if (to)
			add_reduced(to, &input(x, 2)->shape, x->dy[0], output(x, 0));
		for (int64_t k = 0; to && k < tensor_count(input(x, 2)); k++)
			to[k] *= p->beta;
	}
	return rc;
}

static struct ints list_of(struct arena *a, const int64_t *v, int n)
{
	int64_t *copy = arena_new_n(a, int64_t, (size_t)n + 1);

	memcpy(copy, v, (size_t)n * sizeof(*v));
	return (struct ints){copy, n};
}

/* Sets the window of a convolution or transposed convolution. */
static void set_window(struct arena *a, struct window_attrs *to, const struct window *w)
{
	int64_t pads[2 * MAX_RANK];

	for (int i = 0; i < w->n; i++) {
		pads[i] = w->begin[i];
		pads[w->n + i] = w->end[i];
	}
	to->strides = list_of(a, w->stride, w->n);
	to->dilations = list_of(a, w->dilation, w->n);
	to->kernel_shape = list_of(a, w->kernel, w->n);
	to->pads = list_of(a, pads, 2 * w->n);
}

static int take_convolved(const struct reverse *x, struct model *m, const struct tensor *const *in)
{
	const struct tensor *t = input(x, 0);
	struct value_copy out = {0};
	int err = run_one_node(x, m, in, &out);
	float *to = err ? NULL : slope_of(x, 0);
	bool fits = to && held_floats(&out.t) && shape_equal(&out.t.shape, &t->shape);

	if (fits)
		memcpy(to, out.t.data, out.t.bytes);
	value_free(&out);
	return fits ? DERIVATIVE_MADE : DERIVATIVE_NONE;
}

/* Whether the input alone is wanted, and the weights are floats. */
static bool wants_input_alone(const struct reverse *x)
{
	return x->want[0] && !x->want[1] && (x->n->nin < 3 || !x->want[2]) &&
	       held_floats(input(x, 1));
}

/* By the input of a convolution: the transposed convolution of dy with the same weights and window. */
static int convolution(const struct reverse *x)
{
	const struct conv *p = x->n->params;
	const struct tensor *t = input(x, 0), *weight = input(x, 1), dy = slopes(x);
	const struct tensor *in[2] = {&dy, weight};
	struct window w;
	int64_t extra[MAX_RANK];

	if (!wants_input_alone(x) ||
	    window_set(&w, &p->window, &t->shape, &weight->shape, false, x->d))
		return DERIVATIVE_NONE;
	for (int i = 0; i < w.n; i++) {
		extra[i] = w.in[i] - ((w.out[i] - 1) * w.stride[i] +
				      (w.kernel[i] - 1) * w.dilation[i] + 1 - w.begin[i] - w.end[i]);
		if (extra[i] < 0)
			return DERIVATIVE_NONE;
	}
	struct model m = {0};
	struct conv_transpose *q = one_node(&m, "ConvTranspose", in);
	q->group = p->group;
	set_window(&m.arena, &q->window, &w);
	q->output_padding = list_of(&m.arena, extra, w.n);
	return take_convolved(x, &m, in);
}

static int transposed(const struct reverse *x)
{
	const struct conv_transpose *p = x->n->params;
	const struct tensor *weight = input(x, 1), dy = slopes(x);
	const struct tensor *in[2] = {&dy, weight};
	struct window w;

	if (!wants_input_alone(x) ||
	    conv_transpose_window(&w, p, &input(x, 0)->shape, &weight->shape, x->d))
		return DERIVATIVE_NONE;
	struct model m = {0};
	struct conv *q = one_node(&m, "Conv", in);
	q->group = p->group;
	set_window(&m.arena, &q->window, &w);
	return take_convolved(x, &m, in);
}

/* ---- rows ------------------------------------------------------------------------------------------ */

static int64_t extent(const struct shape *s, int from, int to)
{
	int64_t n = 1;

	for (int i = from; i < to; i++)
		n *= s->dim[i];
	return n;
}

static void softmax_row(float *to, const float *v, const float *dy, int64_t n, int64_t step, bool logs)
{
	double most = -INFINITY, all = 0, dot = 0;

	for (int64_t i = 0; i < n; i++)
		most = fmax(most, (double)v[i * step]);
	for (int64_t i = 0; i < n; i++)
		all += exp((double)v[i * step] - most);
	for (int64_t i = 0; i < n; i++)
		dot += (double)dy[i * step] * (logs ? 1 : exp((double)v[i * step] - most) / all);
	for (int64_t i = 0; i < n; i++) {
		double p = exp((double)v[i * step] - most) / all, g = (double)dy[i * step];
		double slope = logs ? g - p * dot : p * (g - dot);
		to[i * step] += isfinite(slope) ? (float)slope : 0;
	}
}

static int softmax(const struct reverse *x)
{
	const struct tensor *t = input(x, 0);
	int axis = (int)((const struct softmax *)x->n->params)->axis, rank = t->shape.rank;
	bool logs = x->n->op->variant == SOFTMAX_LOG;
	float *to = slope_of(x, 0);

	axis += axis < 0 ? rank : 0;
	if (x->n->op->variant == SOFTMAX_HARD || axis < 0 || axis >= rank || !to)
		return DERIVATIVE_NONE;
	int64_t n = t->shape.dim[axis], inner = extent(&t->shape, axis + 1, rank);
	int64_t outer = extent(&t->shape, 0, axis);
	for (int64_t o = 0; o < outer; o++)
		for (int64_t i = 0; i < inner; i++) {
			int64_t at = o * n * inner + i;
			softmax_row(to + at, (const float *)t->data + at, x->dy[0] + at, n, inner,
				    logs);
		}
	return DERIVATIVE_MADE;
}

static void norm_row(float *to, const float *v, const float *dy, const float *scale, int64_t n,
		     double epsilon)
{
	double mean = 0, square = 0, sum = 0, dot = 0;

	for (int64_t i = 0; i < n; i++)
		mean += (double)v[i] / (double)n;
	for (int64_t i = 0; i < n; i++)
		square += ((double)v[i] - mean) * ((double)v[i] - mean) / (double)n;
	double by = 1 / sqrt(square + epsilon);
	for (int64_t i = 0; i < n; i++) {
		double g = (double)dy[i] * (scale ? (double)scale[i] : 1);
		sum += g / (double)n;
		dot += g * ((double)v[i] - mean) * by / (double)n;
	}
	for (int64_t i = 0; i < n; i++) {
		double g = (double)dy[i] * (scale ? (double)scale[i] : 1);
		to[i] += (float)(by * (g - sum - ((double)v[i] - mean) * by * dot));
	}
}

static int layer_norm(const struct reverse *x)
{
	const struct layer_norm *p = x->n->params;
	const struct tensor *t = input(x, 0), *scale = input(x, 1);
	int axis = (int)p->axis + (p->axis < 0 ? t->shape.rank : 0);
	float *to = slope_of(x, 0);

	if (axis < 0 || axis >= t->shape.rank || !to || x->want[1] || (x->n->nin > 2 && x->want[2]))
		return DERIVATIVE_NONE;
	int64_t n = extent(&t->shape, axis, t->shape.rank), rows = extent(&t->shape, 0, axis);
	if (scale && (!held_floats(scale) || tensor_count(scale) != n))
		return DERIVATIVE_NONE;
	for (int64_t i = 0; i < rows && n; i++)
		norm_row(to + i * n, (const float *)t->data + i * n, x->dy[0] + i * n,
			 scale ? scale->data : NULL, n, (double)p->epsilon);
	return DERIVATIVE_MADE;
}

/* ---- reductions and pools --------------------------------------------------------------------------- */

/* The shape of the output of a reduction with its reduced dimensions kept. False if the axes are not known. */
static bool kept_shape(const struct reverse *x, struct shape *s)
{
	const struct tensor *t = input(x, 0), *axes = input(x, 1), *y = output(x, 0);

	*s = t->shape;
	if (y->shape.rank == s->rank) {
		*s = y->shape;
		return broadcasts_to(s, &t->shape);
	}
	bool given = axes && tensor_dtype(axes) == DT_I64 && tensor_count(axes) > 0;
	for (int i = 0; i < s->rank && !given; i++)
		s->dim[i] = 1;
	for (int64_t i = 0; given && i < tensor_count(axes); i++) {
		int64_t a = ((const int64_t *)axes->data)[i];
		a += a < 0 ? s->rank : 0;
		if (a < 0 || a >= s->rank)
			return false;
		s->dim[a] = 1;
	}
	return extent(s, 0, s->rank) == tensor_count(y);
}

/* A mean or a sum: each input gets the derivative of its output, for a mean divided by the number of inputs. */
static int spread(const struct reverse *x, bool mean)
{
	const struct tensor *t = input(x, 0);
	struct shape kept;
	float *to = slope_of(x, 0);

	if (!kept_shape(x, &kept) || !to)
		return DERIVATIVE_NONE;
	int64_t n = tensor_count(t), m = extent(&kept, 0, kept.rank);
	float by = mean && n ? (float)m / (float)n : 1;
	struct walk w = walk_begin(&kept, &t->shape);
	for (int64_t i = 0; i < n; i++, walk_on(&w))
		to[i] = x->dy[0][w.at] * by;
	return DERIVATIVE_MADE;
}

static int mean(const struct reverse *x)
{
	return spread(x, true);
}

static int total(const struct reverse *x)
{
	return spread(x, false);
}

/* The largest or smallest of several elements: the derivative goes to the element that equals it. */
static int extreme(const struct reverse *x)
{
	const struct tensor *t = input(x, 0);
	struct shape kept;
	struct value_copy y = {0};
	float *to = slope_of(x, 0);

	if (x->n->nout != 1 || !kept_shape(x, &kept) || !to ||
	    held_compute(x->h, x->n, NULL, &y, x->d))
		return DERIVATIVE_NONE;
	int64_t n = tensor_count(t);
	const float *v = t->data, *best = y.t.data;
	struct walk w = walk_begin(&kept, &t->shape);
	for (int64_t i = 0; i < n; i++, walk_on(&w))
		to[i] = v[i] == best[w.at] ? x->dy[0][w.at] : 0;
	value_free(&y);
	return DERIVATIVE_MADE;
}

/* What one window of a pool gives back to its inputs. `v` and `to` are planes, y is the output's derivative. */
struct pooling {
	const struct window *w;
	bool max, count_pads;
	const float *v;
	float *to;
};

static void give_window(const struct pooling *p, const int64_t *at, float dy)
{
	const struct window *w = p->w;
	int64_t tap[MAX_RANK] = {0}, inside = 0, taps = 0, best = -1;

	for (int pass = 0; pass < (p->max ? 1 : 2); pass++) {
		for (int64_t k = 0; k < window_size(w); k++) {
			int64_t rest = k, place = 0;
			bool in = true, counted = true;
			for (int i = w->n - 1; i >= 0; i--) {
				tap[i] = rest % w->kernel[i];
				rest /= w->kernel[i];
			}
			for (int i = 0; i < w->n; i++) {
				int64_t c =
					at[i] * w->stride[i] - w->begin[i] + tap[i] * w->dilation[i];
				in &= c >= 0 && c < w->in[i];
				counted &= c < w->in[i] + w->end[i];
				place = place * w->in[i] + c;
			}
			taps += !pass && counted;
			inside += !pass && in;
			if (in && p->max && (best < 0 || p->v[place] > p->v[best]))
				best = place;
			if (in && pass)
				p->to[place] += dy / (float)(p->count_pads ? taps : inside);
		}
	}
	if (best >= 0)
		p->to[best] += dy;
}

static int pool(const struct reverse *x)
{
	const struct pool *p = x->n->params;
	const struct tensor *t = input(x, 0), *y = output(x, 0);
	struct window w;
	float *to = slope_of(x, 0);

	if (window_set(&w, &p->window, &t->shape, NULL, p->ceil_mode != 0, x->d) || !to)
		return DERIVATIVE_NONE;
	int64_t planes = t->shape.dim[0] * t->shape.dim[1], in = window_inputs(&w);
	int64_t out = window_outputs(&w);
	if (planes * out != tensor_count(y))
		return DERIVATIVE_NONE;
	for (int64_t c = 0; c < planes; c++) {
		struct pooling one = {&w, x->n->op->variant == POOL_MAX, p->count_include_pad != 0,
				      (const float *)t->data + c * in, to + c * in};
		for (int64_t k = 0; k < out; k++) {
			int64_t at[MAX_RANK] = {0}, rest = k;
			for (int i = w.n - 1; i >= 0; i--) {
				at[i] = rest % w.out[i];
				rest /= w.out[i];
			}
			if (x->dy[0][c * out + k] != 0)
				give_window(&one, at, x->dy[0][c * out + k]);
		}
	}
	return DERIVATIVE_MADE;
}

/* ---- choosing the rule ------------------------------------------------------------------------------- */

/* Rules of operators whose row (ops/op.h) does not tell enough for a general rule, and quicker rules of some others. */
static const struct {
	const char *op;
	int (*rule)(const struct reverse *);
} rules[] = {
	{"Add", sum},
	{"AveragePool", pool},
	{"BatchNormalization", batch_norm},
	{"Clip", elementwise},
	{"Conv", convolution},
	{"ConvTranspose", transposed},
	{"Gemm", gemm},
	{"GlobalAveragePool", mean},
	{"GlobalMaxPool", extreme},
	{"LayerNormalization", layer_norm},
	{"LogSoftmax", softmax},
	{"MatMul", matmul},
	{"MaxPool", pool},
	{"Mul", product},
	{"ReduceMax", extreme},
	{"ReduceMean", mean},
	{"ReduceMin", extreme},
	{"ReduceSum", total},
	{"Relu", rectify},
	{"Resize", resize},
	{"Softmax", softmax},
	{"Sub", difference},
	{"Sum", sum},
	{"Where", elementwise},
};

/* Only output 0 of these operators has a derivative; statistics and indices beside it must not be asked for. */
static int apply(int (*rule)(const struct reverse *), const struct reverse *x)
{
	for (uint32_t k = 1; k < x->n->nout; k++)
		if (x->dy[k])
			return DERIVATIVE_NONE;
	return x->dy[0] ? rule(x) : DERIVATIVE_NONE;
}

int derivative_of(struct held_run *h, const struct node *n, float *const *dy, const bool *want,
		  float **dx, struct diag *d)
{
	const struct reverse x = {h, n, dy, want, dx, d};

	if (!n->op || n->nsub)
		return DERIVATIVE_NONE;
	for (uint32_t i = 0; i < n->nin; i++)
		if (want[i] && !held_floats(input(&x, i)))
			return DERIVATIVE_NONE;
	for (uint32_t k = 0; k < n->nout; k++)
		if (dy[k] && !held_floats(output(&x, k)))
			return DERIVATIVE_NONE;
	for (size_t i = 0; i < sizeof(rules) / sizeof(*rules); i++)
		if (op_named(rules[i].op) == n->op)
			return apply(rules[i].rule, &x);
	if (n->op->flags & OP_VIEW)
		return apply(view, &x);
	if (n->op->reduced == REDUCED_MOVES)
		return move(&x);
	return n->op->flags & OP_ELEMENTWISE ? apply(elementwise, &x) : DERIVATIVE_NONE;
}
