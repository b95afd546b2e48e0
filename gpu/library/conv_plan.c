/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/library/conv_plan.h"

#include "base/str.h"
#include "gpu/kernels/pixel.h"
#include "gpu/launch/group.h"
#include "gpu/driver/tune.h"
#include "gpu/launch/util.h"
#include "ops/fused.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- the graph -------------------------------------------------------------------------------- */

struct maker {
	struct dn_graph *g; /* NULL if only the constants are collected */
	const struct conv_case *c;
	int64_t uid; /* id of the next virtual tensor */
	int y;	     /* number of the output tensor */
	float *consts;
	int nconst;
	const char *bad; /* the reason why cuDNN cannot express the graph, or NULL */
};

/* Adds a tensor [a, b, space...] whose dimension b (the channels) is stored last. */
static int add_tensor(struct maker *m, int64_t uid, enum dtype t, int64_t a, int64_t b,
		      const int64_t *space, bool is_virtual)
{
	struct dn_tensor d = {.uid = uid, .type = t, .rank = m->c->n + 2, .is_virtual = is_virtual};
	int64_t step = b;

	d.dim[0] = a;
	d.dim[1] = b;
	d.stride[1] = 1;
	for (int i = m->c->n - 1; i >= 0; i--) {
		d.dim[2 + i] = space[i];
		d.stride[2 + i] = step;
		step *= space[i];
	}
	d.stride[0] = step;
	return m->g ? dn_tensor(m->g, &d) : 0;
}

void conv_case_set(struct conv_case *k, const struct site *s, const struct gpu_window *win,
		   int64_t group, int64_t cin, int64_t cout)
{
	memset(k, 0, sizeof(*k));
	k->type = gpu_type(s, 0);
	k->n = gpu_window_flat(win) && !win->begin[0] ? 2 : 3;
	k->strict = k->type == DT_F32 && s->config->precision != PRECISION_TF32;
	k->batch = site_in(s, 0)->shape.dim[0];
	k->group = group;
	k->cin = cin * group;
	k->cout = cout * group;
	k->win = *win;
}

static const int64_t *space_out(const struct conv_case *c)
{
	return c->win.out + 3 - c->n;
}

static int add_virtual(struct maker *m)
{
	return add_tensor(m, m->uid++, DT_F32, m->c->batch, m->c->cout, space_out(m->c), true);
}

static int add_constant(struct maker *m, double v)
{
	struct dn_tensor d = {.type = DT_F32, .rank = m->c->n + 2, .by_value = true};

	if (m->nconst == CONV_CONSTS) {
		m->bad = "an activation of too many parts";
		return -1;
	}
	for (int i = 0; i < d.rank; i++)
		d.dim[i] = d.stride[i] = 1;
	d.uid = CONV_CONST + m->nconst;
	m->consts[m->nconst++] = (float)v;
	return m->g ? dn_tensor(m->g, &d) : 0;
}

static int add_binary(struct maker *m, enum dn_op op, int x, int b, bool last)
{
	int y = last ? m->y : add_virtual(m);
	if (m->g)
		dn_pointwise(m->g, op, x, b, -1, y, NULL);
	return y;
}

static int add_unary(struct maker *m, enum dn_op op, int x, const struct dn_arg *a, bool last)
{
	int y = last ? m->y : add_virtual(m);
	if (m->g)
		dn_pointwise(m->g, op, x, -1, -1, y, a);
	return y;
}

/*
 * Adds the operations of min(max(x, a), b), where a bound may be infinite. cuDNN's relu with an upper bound would be a
 * single operation, but its engines are slow.
 */
static void add_clip(struct maker *m, int x, double a, double b, bool last)
{
	bool low = a > -INFINITY, high = b < INFINITY;

	if (low)
		x = a == 0 ? add_unary(m, DN_RELU, x, NULL, last && !high)
			   : add_binary(m, DN_MAX, x, add_constant(m, a), last && !high);
	if (high)
		x = add_binary(m, DN_MIN, x, add_constant(m, b), last);
	if (!low && !high)
		add_unary(m, DN_IDENTITY, x, NULL, last);
}

/* cuDNN's tanh gives NaN for x above about 44. Therefore x is limited to 20, from which on tanh is 1 in every type. */
static int add_tanh(struct maker *m, int x, bool last)
{
	return add_unary(m, DN_TANH, add_binary(m, DN_MIN, x, add_constant(m, 20), false), NULL, last);
}

static void add_activation(struct maker *m, int x)
{
	double a = (double)m->c->alpha, b = (double)m->c->beta;
	struct dn_arg arg = {.alpha = a, .has_alpha = true};
	static const enum dn_op plain[ACT_COUNT] = {
		[ACT_RELU] = DN_RELU,		[ACT_SIGMOID] = DN_SIGMOID,   [ACT_GELU] = DN_GELU,
		[ACT_GELU_TANH] = DN_GELU_TANH, [ACT_SOFTPLUS] = DN_SOFTPLUS,
	};

	switch ((enum act)m->c->act) {
	case ACT_CLIP: add_clip(m, x, a, b, true); break;
	case ACT_SWISH: add_unary(m, DN_SWISH, x, &arg, true); break;
	case ACT_ELU: add_unary(m, DN_ELU, x, &arg, true); break;
	case ACT_LEAKYRELU: add_unary(m, DN_RELU, x, &(struct dn_arg){.slope = a}, true); break;
	case ACT_HARDSIGMOID:
		x = add_binary(m, DN_MUL, x, add_constant(m, a), false);
		x = add_binary(m, DN_ADD, x, add_constant(m, b), false);
		add_clip(m, x, 0, 1, true);
		break;
	/* as relu6(x + b/a) * x * a, which has two operations fewer than the definition */
	case ACT_HARDSWISH: {
		int v = add_binary(m, DN_ADD, x, add_constant(m, b / a), false);
		v = add_unary(m, DN_RELU, v,
			      &(struct dn_arg){.upper = 1 / a, .has_upper = true, .has_lower = true},
			      false);
		v = add_binary(m, DN_MUL, v, x, false);
		add_binary(m, DN_MUL, v, add_constant(m, a), true);
		break;
	}
	case ACT_MISH:
		add_binary(m, DN_MUL, add_tanh(m, add_unary(m, DN_SOFTPLUS, x, NULL, false), false),
			   x, true);
		break;
	case ACT_TANH: add_tanh(m, x, true); break;
	default:
		if (plain[m->c->act] == DN_IDENTITY)
			m->bad = "an activation that cuDNN does not have";
		else
			add_unary(m, plain[m->c->act], x, NULL, true);
	}
}

/* Collects the constants that a plan of this form gets in each run, without building the graph. */
static void conv_consts(const struct conv_case *c, enum conv_form form, float *consts, int *n)
{
	struct maker m = {.c = c, .uid = CONV_VIRTUAL, .consts = consts};

	if (c->act && form <= CONV_GENERIC)
		add_activation(&m, 0);
	*n = m.nconst;
}

static void add_convolution(struct maker *m, int y)
{
	const struct conv_case *c = m->c;
	int skip = 3 - c->n;
	struct dn_window w = {.n = c->n};

	for (int i = 0; i < c->n; i++) {
		w.begin[i] = c->win.begin[skip + i];
		w.end[i] = c->end[skip + i];
		w.stride[i] = c->win.stride[skip + i];
		w.dilation[i] = c->win.dilation[skip + i];
	}
	int x = add_tensor(m, CONV_X, c->type, c->batch, c->cin, c->win.in + skip, false);
	if (c->backward) {
		int k = add_tensor(m, CONV_W, c->type, c->cin, c->cout / c->group,
				   c->win.kernel + skip, false);
		dn_conv_back(m->g, y, k, x, &w);
	} else {
		int k = add_tensor(m, CONV_W, c->type, c->cout, c->cin / c->group,
				   c->win.kernel + skip, false);
		dn_conv(m->g, x, k, y, &w);
	}
}

struct dn_graph *conv_graph(struct dn *dn, const struct conv_case *c, enum conv_form form,
			    float *consts, int *nconst, struct why *why)
{
	static const int64_t one[3] = {1, 1, 1};
	bool act = c->act && form <= CONV_GENERIC, bias = c->bias && form <= CONV_BIAS,
	     rest = c->residual && form <= CONV_BIAS, more = form == CONV_GENERIC;
	struct maker m = {.g = dn_graph_new(dn, why), .c = c, .uid = CONV_VIRTUAL, .consts = consts};

	if (!m.g)
		return NULL;
	m.y = add_tensor(&m, CONV_Y, c->type, c->batch, c->cout, space_out(c), false);
	int v = act || bias || rest || more ? add_virtual(&m) : m.y;
	add_convolution(&m, v);
	/* cuDNN has precompiled engines only for graphs that add the residual before the bias */
	if (rest)
		v = add_binary(&m, DN_ADD, v,
			       add_tensor(&m, CONV_R, c->type, c->batch, c->cout, space_out(c), false),
			       !bias && !act && !more);
	if (bias)
		v = add_binary(&m, DN_ADD, v, add_tensor(&m, CONV_B, c->type, 1, c->cout, one, false),
			       !act && !more);
	/* an identity at the end costs nothing and makes cuDNN treat the graph as a generic one */
	if (more) {
		int y = m.y;
		m.y = act ? add_virtual(&m) : v;
		if (act)
			add_activation(&m, v);
		dn_pointwise(m.g, DN_IDENTITY, m.y, -1, -1, y, NULL);
	} else if (act) {
		add_activation(&m, v);
	}
	*nconst = m.nconst;
	if (!m.bad && dn_graph_end(m.g, why))
		return m.g;
	if (m.bad)
		refuse(why, "%s", m.bad);
	dn_graph_free(m.g);
	return NULL;
}

/* ---- running ---------------------------------------------------------------------------------- */

static int64_t volume(const int64_t *v)
{
	return v[0] * v[1] * v[2];
}

/* The tiles of our kernels: a block computes m pixels by n channels. Behind those of pixel.cu stand gpu_group_tiles. */
static const struct {
	int m, n, stages; /* stages: of those of pixel.cu */
	const char *text;
} tiles[] = {{32, 32, 3, "32x32"},
	     {64, 32, 3, "64x32"},
	     {64, 64, 3, "64x64"},
	     {128, 64, 3, "128x64"},
	     {32, 32, 8, "deep_32x32"},
	     {64, 32, 6, "deep_64x32"},
#define TILE(rows, columns, stages, in_turns) {rows, columns, 0, "group_" #rows "x" #columns},
#define SHARE(size, stages)		      {GPU_SHARE_ROWS, GPU_SHARE_COLUMNS, 0, "group_share" #size "_" #stages},
	     GPU_GROUP_TILES(TILE) GPU_GROUP_SHARES(SHARE)
#undef TILE
#undef SHARE
};
enum { TILES = sizeof(tiles) / sizeof(*tiles), FIRST_GROUP = TILES - GPU_GROUP_KINDS };

/* Whether our kernel for 1x1 convolutions supports the case. */
static bool is_pixel_case(const struct conv_case *k)
{
	bool half = k->type == DT_F16 || k->type == DT_BF16,
	     yes = !k->backward && (half || (k->type == DT_F32 && !k->strict)) && k->group == 1 &&
		   k->cin % 8 == 0 && k->cout % 8 == 0 && k->cin < INT32_MAX && k->cout < INT32_MAX;

	for (int i = 0; i < 3; i++)
		yes = yes && k->win.kernel[i] == 1 && k->win.stride[i] == 1 && !k->win.begin[i] &&
		      !k->end[i];
	return yes && k->batch * volume(k->win.out) < (int64_t)MAX_GRID_YZ * 32;
}

/* Whether a tile of our kernels suits a case for which is_pixel_case(). */
static bool suits(const struct device *device, const struct conv_case *k, int tile)
{
	return tile < FIRST_GROUP ||
	       (gpu_group_has(device, k->type) && gpu_group_acts(k->act) &&
		gpu_group_suits(device, tile - FIRST_GROUP, k->type, k->batch * volume(k->win.out),
				k->cout, k->cin));
}

static bool find_pixel_kernel(struct device *device, struct conv_plan *p)
{
	struct site s = {.device = device};
	char name[32];

	if (p->tile >= FIRST_GROUP) {
		p->own_fn = gpu_group_kernel(&s, p->tile - FIRST_GROUP, p->key.type, p->key.type);
		return p->own_fn != NULL;
	}
	snprintf(name, sizeof(name), "pixel_%s%d_%d", tiles[p->tile].stages > 3 ? "deep_" : "",
		 tiles[p->tile].m, tiles[p->tile].n);
	p->own_fn = gpu_typed(&s, "pixel", name, p->key.type, NULL);
	return p->own_fn != NULL;
}

static int run_group(const struct call *c, const struct conv_plan *p, const struct conv_args *a)
{
	const struct conv_case *k = &p->key;
	struct gpu_group_product job = {.bias = k->bias ? a->b : NULL,
					.r = k->residual ? a->r : NULL,
					.y = a->y,
					.m = k->batch * volume(k->win.out),
					.n = k->cout,
					.k = k->cin,
					.alpha = 1,
					.act = k->act,
					.act_alpha = k->alpha,
					.act_beta = k->beta,
					.b_is_weight = a->w_is_weight};

	return gpu_group_launch(c, p->own_fn, p->tile - FIRST_GROUP, k->type, &job, a->x, k->cin,
				a->w, k->cin);
}

static int run_pixel(const struct call *c, const struct conv_plan *p, const struct conv_args *a)
{
	const struct conv_case *k = &p->key;
	struct gpu_pixel job = {.x = a->x,
				.w = a->w,
				.b = k->bias ? a->b : NULL,
				.r = k->residual ? a->r : NULL,
				.y = a->y,
				.m = k->batch * volume(k->win.out),
				.n = (int)k->cout,
				.k = (int)k->cin,
				.act = k->act,
				.alpha = k->alpha,
				.beta = k->beta,
				.w_is_weight = a->w_is_weight};
	/* pixel.cu uses the same shared memory first for the inputs, then for the outputs */
	int m = tiles[p->tile].m, n = tiles[p->tile].n, in = tiles[p->tile].stages * (m + n) * 80,
	    out = m * (n + 4) * 4;
	struct gpu_grid g = {(unsigned)((job.n + n - 1) / n), (unsigned)((job.m + m - 1) / m), 1,
			     128, (unsigned)(in > out ? in : out)};

	return gpu_launch_early(c, p->own_fn, g, &job, sizeof(job));
}

bool conv_plan_rounds(const struct conv_plan *p)
{
	return p->form == CONV_OWN && p->tile >= FIRST_GROUP && p->key.type == DT_F32;
}

size_t conv_plan_workspace(const struct conv_plan *p)
{
	return p->plan ? dn_plan_workspace(p->plan) : 0;
}

/* Returns the number of elements that a thread of the tail kernel (bias, residual and activation) computes. */
static int64_t tail_step(const struct conv_case *k)
{
	int64_t vector = 16 / gpu_size(k->type);

	return k->cout % vector ? 1 : vector;
}

static bool find_tail_kernel(struct device *device, struct conv_plan *p)
{
	const struct conv_case *k = &p->key;
	struct site s = {.device = device};

	p->tail_fn = NULL;
	if (p->form == CONV_OWN)
		return find_pixel_kernel(device, p);
	if (p->form < CONV_BIAS || (!k->bias && !k->residual && !k->act))
		return true;
	p->tail = (struct gpu_tail){.n = k->batch * k->cout * volume(k->win.out),
				    .channels = (int)k->cout,
				    .act = k->act,
				    .alpha = k->alpha,
				    .beta = k->beta};
	p->tail_fn = gpu_typed(&s, "conv", tail_step(k) == 1 ? "tail_1" : "tail_v", k->type, NULL);
	return p->tail_fn != NULL;
}

static int run_tail(const struct call *c, const struct conv_plan *p, const struct conv_args *a)
{
	struct gpu_tail job = p->tail;

	job.y = a->y;
	job.b = p->form == CONV_PLAIN && p->key.bias ? a->b : NULL;
	job.r = p->form == CONV_PLAIN ? a->r : NULL;
	return gpu_launch_early(c, p->tail_fn, gpu_grid(job.n / tail_step(&p->key)), &job,
				sizeof(job));
}

int conv_plan_run(const struct call *c, const struct conv_plan *p, const struct conv_args *a)
{
	int64_t uid[5 + CONV_CONSTS] = {CONV_X, CONV_W, CONV_Y};
	void *at[5 + CONV_CONSTS] = {(void *)(uintptr_t)a->x, (void *)(uintptr_t)a->w, a->y};
	float consts[CONV_CONSTS];
	int n = 3;

	if (p->form == CONV_OWN)
		return p->tile < FIRST_GROUP ? run_pixel(c, p, a) : run_group(c, p, a);
	if (p->key.bias && p->form <= CONV_BIAS)
		uid[n] = CONV_B, at[n++] = (void *)(uintptr_t)a->b;
	if (p->key.residual && p->form <= CONV_BIAS)
		uid[n] = CONV_R, at[n++] = (void *)(uintptr_t)a->r;
	for (int i = 0; i < p->nconst; i++) {
		consts[i] = p->consts[i];
		uid[n] = CONV_CONST + i, at[n++] = &consts[i];
	}
	int err = dn_plan_run(p->plan, n, uid, at, a->workspace, c->diag);
	if (err)
		return err;
	return p->tail_fn ? run_tail(c, p, a) : gpu_launched(c);
}

/* ---- choosing --------------------------------------------------------------------------------- */

enum { MAX_TRIED = 8, MAX_LISTED = 32, MAX_COMPILED = 3, MAX_WORKSPACE = 256 << 20 };

static const char *const form_names[CONV_FORMS + 1] = {"fused", "generic", "bias", "plain", "own"};

static unsigned avoided_notes(const struct conv_case *c)
{
	unsigned avoid = DN_NOT_DETERMINISTIC;

	if (c->type == DT_F32 && c->strict)
		return avoid | DN_STRICT;
	return c->type == DT_F32 ? avoid : avoid | DN_REDUCED_SUM;
}

/* Returns whether a form gives the same graph as a form before it in enum conv_form. */
static bool is_duplicate(const struct conv_case *c, enum conv_form f)
{
	if (c->backward)
		return f != CONV_PLAIN; /* cuDNN fuses nothing with transposed convolutions */
	return (f == CONV_BIAS && !c->act) ||
	       (f == CONV_PLAIN && !c->act && !c->bias && !c->residual);
}

static void add_text(char *out, size_t room, const char *name, const int64_t *v)
{
	size_t n = strlen(out);

	snprintf(out + n, room - n, " %s%" PRId64 ",%" PRId64 ",%" PRId64, name, v[0], v[1], v[2]);
}

/* Writes the key of the tuning cache, for example "cudnn91900 conv f16 ...". */
static void conv_case_text(const struct conv_case *c, size_t version, char *out, size_t room)
{
	int n = snprintf(out, room,
			 "cudnn%zu conv6%s %s%s b%" PRId64 " g%" PRId64 " c%" PRId64 " k%" PRId64
			 " act%d,%.9g,%.9g%s%s",
			 version, c->backward ? "back" : "", dtype_name(c->type),
			 c->type != DT_F32 ? ""
			 : c->strict	   ? " strict"
					   : " tf32",
			 c->batch, c->group, c->cin, c->cout, c->act, (double)c->alpha,
			 (double)c->beta, c->bias ? " bias" : "", c->residual ? " residual" : "");

	if (n < 0 || (size_t)n >= room)
		return;
	add_text(out, room, "in", c->win.in);
	add_text(out, room, "out", c->win.out);
	add_text(out, room, "window", c->win.kernel);
	add_text(out, room, "stride", c->win.stride);
	add_text(out, room, "dilation", c->win.dilation);
	add_text(out, room, "begin", c->win.begin);
	add_text(out, room, "end", c->end);
}

struct chooser {
	struct device *device;
	struct dn *dn;
	struct conv_plan *p; /* the plan to fill, which holds the best choice so far */
	char key[512];
	struct conv_args args; /* operands to time with */
	size_t room;	       /* bytes of their workspace */
	double best, first;
	int tried;
	int lossy; /* engines that were passed over because they lose infinities or NaN */
	struct why *why;
};

/* ---- trials ----------------------------------------------------------------------------------- */

struct trial {
	const struct conv_plan *p;
	const struct conv_args *args;
	struct call call;
};

static int enqueue_trial(void *arg, struct diag *d)
{
	struct trial *t = arg;

	t->call.diag = d;
	return conv_plan_run(&t->call, t->p, t->args);
}

static size_t operand_bytes(int64_t n, int64_t size)
{
	return cuda_aligned((size_t)(n * size));
}

/* Reserves memory for all operands and a workspace to time with. */
static bool place_trial_operands(struct chooser *ch)
{
	const struct conv_case *k = &ch->p->key;
	int64_t size = gpu_size(k->type);
	size_t x = operand_bytes(k->batch * k->cin * volume(k->win.in), size),
	       y = operand_bytes(k->batch * k->cout * volume(k->win.out), size),
	       w = operand_bytes(k->cin / k->group * k->cout * volume(k->win.kernel), size),
	       b = operand_bytes(k->cout, size);

	ch->room = x + y + w < (size_t)16 << 20 ? (size_t)32 << 20 : (size_t)128 << 20;
	char *p = tune_memory(ch->device, x + 2 * y + w + b + ch->room);
	if (!p)
		return false;
	ch->args = (struct conv_args){
		p, p + x, p + x + w, p + x + w + b, p + x + w + b + y, p + x + w + b + 2 * y, true};
	return true;
}

/*
 * Some of cuDNN's engines (9.19 on an H200, in fp16) write 0 where a sum is infinite, and others spread a NaN to outputs whose
 * windows it is not in. So each is asked before it is taken: infinities or NaN in all, in every second or in few columns of the
 * first rows of x, all else small positive numbers, must show in the outputs whose windows begin there and hold one, in no other.
 */
struct probe {
	int64_t elements; /* of x that are set */
	int64_t first, n; /* elements of y that are looked at */
	int64_t column;	  /* of x, where the window of the first of them begins */
};

/* PROBE_FEW is more columns than the tiles of fast algorithms have, which mix their inputs. */
enum { PROBE_ELEMENTS = 1 << 15, PROBE_ROW = 1 << 18, PROBE_FEW = 16 };

static bool place_probe(struct probe *q, const struct conv_case *k)
{
	const struct gpu_window *w = &k->win;
	int64_t row = w->in[2] * k->cin, rows, at[3];

	if (row <= 0 || row > PROBE_ROW)
		return false;
	rows = row < PROBE_ELEMENTS ? PROBE_ELEMENTS / row : 1;
	rows = rows < w->in[1] ? rows : w->in[1];
	for (int i = 0; i < 3; i++)
		at[i] = (w->begin[i] + w->stride[i] - 1) / w->stride[i];
	int64_t depth = at[0] * w->stride[0] - w->begin[0], top = at[1] * w->stride[1] - w->begin[1],
		end = (w->in[2] + w->begin[2] + w->stride[2] - 1) / w->stride[2];
	end = end < w->out[2] ? end : w->out[2];
	if (k->backward || depth || top >= rows || at[0] >= w->out[0] || at[1] >= w->out[1] ||
	    at[2] >= end)
		return false;
	*q = (struct probe){.elements = rows * row,
			    .first = ((at[0] * w->out[1] + at[1]) * w->out[2] + at[2]) * k->cout,
			    .n = (end - at[2]) * k->cout,
			    .column = at[2] * w->stride[2] - w->begin[2]};
	q->n = q->n < PROBE_ROW ? q->n : PROBE_ROW;
	return true;
}

static bool is_unbounded(enum act act)
{
	return act == ACT_NONE || act == ACT_RELU || act == ACT_LEAKYRELU || act == ACT_ELU ||
	       act == ACT_SOFTPLUS || act == ACT_GELU || act == ACT_GELU_TANH;
}

/* Whether the window that begins in this column of x holds one of each `step`th column. */
static bool window_holds(const struct gpu_window *w, int64_t column, int64_t step)
{
	for (int64_t i = 0; i < w->kernel[2]; i++, column += w->dilation[2])
		if (column < w->in[2] && column % step == 0)
			return true;
	return false;
}

/* Runs the trial with v in each `step`th column of x. Returns false if v is missing in an output, or is in one too many. */
static bool probe_value(struct chooser *ch, struct trial *trial, const struct probe *q, double v,
			int64_t step, void *host)
{
	const struct conv_case *k = &ch->p->key;
	const size_t size = (size_t)gpu_size(k->type);
	struct stream *s = cuda_stream(ch->device);
	void *x = (void *)(uintptr_t)ch->args.x;
	/* a sum of at most PROBE_ELEMENTS small numbers does not overflow fp16 */
	bool sums_are_finite = k->cin / k->group * volume(k->win.kernel) <= PROBE_ELEMENTS;
	bool kept = true;

	memset(host, 0x3a, (size_t)q->elements * size);
	for (int64_t i = 0; i < q->elements; i++)
		if (i / k->cin % k->win.in[2] % step == 0)
			elem_set_f64(k->type, host, i, v);
	if (cuda_copy(s, x, true, host, false, (size_t)q->elements * size, NULL) ||
	    enqueue_trial(trial, NULL) ||
	    cuda_copy(s, host, false, (char *)ch->args.y + (size_t)q->first * size, true,
		      (size_t)q->n * size, NULL) ||
	    cuda_wait(s, NULL))
		return false;
	for (int64_t i = 0; kept && i < q->n; i++) {
		bool holds = window_holds(&k->win, q->column + i / k->cout * k->win.stride[2], step);
		bool finite = isfinite(elem_f64(k->type, host, i));
		kept = holds ? !finite : finite || !sums_are_finite;
	}
	return kept;
}

static bool keeps_infinities(struct chooser *ch, struct trial *trial)
{
	const struct conv_case *k = &ch->p->key;
	const enum act act = (enum act)k->act;
	struct probe q;
	bool kept = true;

	if (trial->p->form == CONV_OWN || !place_probe(&q, k))
		return true;
	void *host = malloc((size_t)PROBE_ROW * (size_t)gpu_size(k->type));
	if (!host)
		return true;
	const double values[] = {NAN, INFINITY, -INFINITY};
	const int64_t few = PROBE_FEW + k->win.kernel[2] * k->win.dilation[2];
	for (int i = 0; kept && i < 3; i++)
		if (!i || (i == 1 ? is_unbounded(act) : act == ACT_NONE || act == ACT_LEAKYRELU))
			kept = probe_value(ch, trial, &q, values[i], 1, host) &&
			       probe_value(ch, trial, &q, values[i], 2, host) &&
			       probe_value(ch, trial, &q, values[i], few, host);
	memset(host, 0x3a, (size_t)q.elements * (size_t)gpu_size(k->type));
	cuda_copy(cuda_stream(ch->device), (void *)(uintptr_t)ch->args.x, true, host, false,
		  (size_t)q.elements * (size_t)gpu_size(k->type), NULL);
	cuda_wait(cuda_stream(ch->device), NULL);
	free(host);
	ch->lossy += !kept;
	return kept;
}

/* ---- choosing without timing ------------------------------------------------------------------- */

static void take_plan(struct chooser *ch, struct dn_plan *plan, const struct conv_plan *from)
{
	if (ch->p->plan)
		dn_plan_free(ch->p->plan);
	ch->p->plan = plan;
	ch->p->form = from->form;
	ch->p->tile = from->tile;
	memcpy(ch->p->consts, from->consts, sizeof(from->consts));
	ch->p->nconst = from->nconst;
}

/* Whether a plan that is not timed keeps infinities, as far as there is memory to try it with. */
static bool may_take(struct chooser *ch, struct conv_plan *t)
{
	static const struct step none;
	struct trial trial = {t, &ch->args, {.step = &none, .stream = cuda_stream(ch->device)}};

	return !ch->args.x || conv_plan_workspace(t) > ch->room ||
	       !find_tail_kernel(ch->device, t) || keeps_infinities(ch, &trial);
}

/*
 * Takes the first of cuDNN's engines for a form that gives a plan. Engines that are compiled at run time are considered
 * only if `compile` is true.
 */
static bool first_of_form(struct chooser *ch, enum conv_form form, enum dn_list list, bool compile)
{
	struct dn_choice choice[MAX_LISTED];
	struct conv_plan t = {.form = form, .key = ch->p->key};
	struct dn_graph *g = conv_graph(ch->dn, &t.key, form, t.consts, &t.nconst, ch->why);
	int n = g ? dn_choices(g, list, avoided_notes(&ch->p->key), choice, MAX_LISTED) : 0;
	struct dn_plan *plan = NULL;

	for (int i = 0; i < n && !plan; i++) {
		if (choice[i].compiled && !compile)
			continue;
		plan = t.plan = dn_plan_new(g, &choice[i], ch->why);
		if (plan && (dn_plan_workspace(plan) > MAX_WORKSPACE || !may_take(ch, &t))) {
			dn_plan_free(plan);
			plan = NULL;
		}
		if (plan)
			snprintf(ch->p->how, sizeof(ch->p->how), "%s %.*s", form_names[form],
				 DN_TEXT, choice[i].text);
	}
	if (g && !n)
		refuse(ch->why, "cuDNN has no engine for it");
	dn_graph_free(g);
	if (plan)
		take_plan(ch, plan, &t);
	return plan != NULL;
}

/* Chooses without timing: takes our kernel if cuDNN is missing or cannot fuse the activation. */
static bool own_choice(struct chooser *ch)
{
	const struct conv_case *k = &ch->p->key;
	int64_t m = k->batch * volume(k->win.out);
	bool fuses = k->act == ACT_NONE || k->act == ACT_RELU || k->act == ACT_LEAKYRELU;

	if ((fuses && ch->dn) || !is_pixel_case(k))
		return false;
	ch->p->form = CONV_OWN;
	ch->p->tile = m * k->cout > 64 * 64 * 256 ? 2 : 0;
	snprintf(ch->p->how, sizeof(ch->p->how), "own %s", tiles[ch->p->tile].text);
	return true;
}

/*
 * Chooses without timing: prefers precompiled engines, then engines of cuDNN's list of best ones, then the form that
 * fuses most operations.
 */
static bool first_choice(struct chooser *ch)
{
	static const enum conv_form order[] = {CONV_FUSED, CONV_BIAS, CONV_PLAIN};

	for (int compile = 0; compile < 2; compile++)
		for (int list = DN_BEST; list <= DN_FALLBACK; list++)
			for (int i = 0; i < 3; i++)
				if (!is_duplicate(&ch->p->key, order[i]) &&
				    first_of_form(ch, order[i], (enum dn_list)list, compile))
					return true;
	return false;
}

/* ---- timing ----------------------------------------------------------------------------------- */

static void try_plan(struct chooser *ch, struct conv_plan *t, const char *text)
{
	static const struct step none;
	struct trial trial = {t, &ch->args, {.step = &none, .stream = cuda_stream(ch->device)}};

	if (conv_plan_workspace(t) > ch->room || !find_tail_kernel(ch->device, t) ||
	    !keeps_infinities(ch, &trial))
		return;
	double us = tune_time(ch->device, enqueue_trial, &trial, ch->best);
	if (us <= 0)
		return;
	ch->tried++;
	if (ch->first <= 0)
		ch->first = us;
	bool better = ch->best <= 0 || (us < ch->best && us < TUNE_FASTER * ch->first);
	if (!better)
		return;
	ch->best = us;
	struct dn_plan *plan = t->plan;
	t->plan = NULL;
	take_plan(ch, plan, t);
	snprintf(ch->p->how, sizeof(ch->p->how), "%s %.*s", form_names[t->form], DN_TEXT, text);
}

static void try_form(struct chooser *ch, enum conv_form form, enum dn_list list, bool compile)
{
	struct dn_choice choice[MAX_LISTED];
	struct conv_plan t = {.form = form, .key = ch->p->key};
	/* The reason for a refusal is reported for the fused form only. */
	struct why *why = form == CONV_FUSED ? ch->why : NULL;
	struct dn_graph *g = conv_graph(ch->dn, &t.key, form, t.consts, &t.nconst, why);
	int n = g ? dn_choices(g, list, avoided_notes(&t.key), choice, MAX_LISTED) : 0, most[2];

	if (g && !n)
		refuse(why, "cuDNN has no engine for it");
	most[0] = MAX_TRIED;
	most[1] = compile ? MAX_COMPILED : 0;
	for (int i = 0; i < n; i++) {
		if (most[choice[i].compiled]-- <= 0)
			continue;
		t.plan = dn_plan_new(g, &choice[i], NULL);
		if (!t.plan)
			continue;
		try_plan(ch, &t, choice[i].text);
		dn_plan_free(t.plan);
	}
	dn_graph_free(g);
}

static void try_own_tiles(struct chooser *ch)
{
	struct conv_plan t = {.form = CONV_OWN, .key = ch->p->key};

	for (t.tile = 0; t.tile < TILES; t.tile++)
		if (suits(ch->device, &t.key, t.tile))
			try_plan(ch, &t, tiles[t.tile].text);
}

static bool try_all(struct chooser *ch)
{
	const struct conv_case *k = &ch->p->key;
	bool full = tune_full(ch->device);

	if (!is_duplicate(k, CONV_FUSED))
		try_form(ch, CONV_FUSED, DN_BEST, full);
	if (full && !k->backward)
		try_form(ch, CONV_GENERIC, DN_BEST, true);
	if (!is_duplicate(k, CONV_BIAS) && k->act != ACT_RELU)
		try_form(ch, CONV_BIAS, DN_BEST, false);
	if (!ch->p->plan && !is_duplicate(k, CONV_PLAIN))
		try_form(ch, CONV_PLAIN, DN_BEST, false);
	if (is_pixel_case(k))
		try_own_tiles(ch);
	return ch->best > 0;
}

/*
 * Whether the plan that a later process reads from the JSON of this one keeps infinities as well. cuDNN's JSON (9.14 and 9.19) leaves
 * out that a relu passes NaN on, so that the plan which was asked passes NaN and its copy writes 0.
 */
static bool copy_keeps_infinities(struct chooser *ch, const char *json, size_t n)
{
	struct conv_plan t = {.form = ch->p->form, .key = ch->p->key};
	struct probe q;
	int lossy = ch->lossy;

	if (!ch->args.x || (t.key.act != ACT_NONE && !place_probe(&q, &t.key)))
		return false;
	conv_consts(&t.key, t.form, t.consts, &t.nconst);
	t.plan = dn_plan_of_json(ch->dn, json, n, NULL);
	bool kept = t.plan && conv_plan_workspace(&t) <= ch->room && may_take(ch, &t);
	dn_plan_free(t.plan);
	ch->lossy = lossy; /* the plan itself loses nothing */
	return kept;
}

/* Without the JSON a later process makes the plan anew from its text, which takes longer. */
static void store_choice(struct chooser *ch, const char *level)
{
	struct arena a = {0};
	size_t n;
	char value[sizeof(ch->p->how) + 40];

	snprintf(value, sizeof(value), "%s %.2f %s", ch->p->how, ch->best, level);
	tune_put(ch->device, ch->key, value);
	char *json = ch->p->plan ? dn_plan_save(ch->p->plan, &a, &n) : NULL;
	if (json && copy_keeps_infinities(ch, json, n))
		tune_blob_put(ch->device, arena_printf(&a, "%s = %s", ch->key, ch->p->how), json, n);
	arena_free(&a);
	if (ch->tried)
		snprintf(ch->p->how, sizeof(ch->p->how), "%.200s, the best of %d%s", value,
			 ch->tried, ch->lossy ? " that keep infinities" : "");
}

static bool take_own_from_cache(struct chooser *ch, const char *text, const char *value)
{
	struct conv_plan *p = ch->p;

	for (int i = 0; i < TILES; i++) {
		if (strcmp(tiles[i].text, text) || !is_pixel_case(&p->key) ||
		    !suits(ch->device, &p->key, i))
			continue;
		p->form = CONV_OWN;
		p->tile = i;
		snprintf(p->how, sizeof(p->how), "%.200s, from the cache", value);
		return true;
	}
	return false;
}

/* Reads "fused e41,2=5 3.10 quick": form, engine, microseconds (0 if not timed), level of the search. */
static bool take_from_cache(struct chooser *ch)
{
	const char *value = tune_get(ch->device, ch->key);
	char form[16], text[DN_TEXT], level[8];
	struct conv_plan t = {.form = CONV_FORMS, .key = ch->p->key};
	struct arena a = {0};
	size_t n;

	if (!value || sscanf(value, "%15s %239s %*s %7s", form, text, level) != 3)
		return false;
	if (tune_full(ch->device) && strcmp(level, "full"))
		return false; /* a full search may find a faster engine */
	if (!strcmp(form, form_names[CONV_OWN]))
		return take_own_from_cache(ch, text, value);
	for (int f = 0; f < CONV_FORMS; f++)
		if (!strcmp(form_names[f], form))
			t.form = (enum conv_form)f;
	if (t.form == CONV_FORMS)
		return false;
	const char *key = arena_printf(&a, "%s = %s %s", ch->key, form, text);
	char *json = tune_blob_get(ch->device, key, &a, &n);
	if (json) {
		conv_consts(&t.key, t.form, t.consts, &t.nconst);
		t.plan = dn_plan_of_json(ch->dn, json, n, NULL);
	}
	if (!t.plan) {
		struct dn_graph *g = conv_graph(ch->dn, &t.key, t.form, t.consts, &t.nconst, ch->why);
		t.plan = g ? dn_plan_of_text(g, text, ch->why) : NULL;
		dn_graph_free(g);
	}
	arena_free(&a);
	if (!t.plan)
		return false;
	take_plan(ch, t.plan, &t);
	snprintf(ch->p->how, sizeof(ch->p->how), "%.200s, from the cache", value);
	return true;
}

/*
 * Completes a chosen plan: records why cuDNN did not fuse all operations, and finds the kernel for the operations left
 * over.
 */
static bool complete_plan(struct device *device, struct conv_plan *p, const struct why *why)
{
	bool left = p->form == CONV_BIAS || p->form == CONV_PLAIN;

	if (left && why && why->text)
		snprintf(p->fell, sizeof(p->fell), "%s", why->text);
	return find_tail_kernel(device, p);
}

static bool choose_plan(struct device *device, struct dn *dn, struct conv_plan *p, struct why *why)
{
	struct chooser ch = {.device = device, .dn = dn, .p = p, .why = why};
	bool found;

	if (!dn)
		return own_choice(&ch) && complete_plan(device, p, why);
	conv_case_text(&p->key, dn_version(dn), ch.key, sizeof(ch.key));
	if (take_from_cache(&ch))
		return complete_plan(device, p, why);
	if (tune_may(device)) {
		tune_begin(device, ch.key);
		found = place_trial_operands(&ch) && try_all(&ch);
		if (found)
			store_choice(&ch, tune_full(device) ? "full" : "quick");
		tune_end(device);
		if (found)
			return complete_plan(device, p, why);
	}
	/* Here engines are asked, too, that are not worth timing, and may be the only ones that keep infinities. */
	tune_begin(device, NULL);
	place_trial_operands(&ch);
	found = own_choice(&ch) || first_choice(&ch);
	/*
	 * Also caches a choice made without timing, so that later processes do not search again unless --tune asks for
	 * it.
	 */
	if (found && tune_skipped(device))
		store_choice(&ch, "skipped");
	tune_end(device);
	if (!found) {
		if (ch.lossy)
			refuse(why, "engines of cuDNN that lose infinities or NaN");
		return false;
	}
	return complete_plan(device, p, why);
}

/* ---- plans of the device ---------------------------------------------------------------------- */

struct conv_plans {
	struct conv_plan *first;
};

static void drop_plans(struct device *device, void *p)
{
	struct conv_plans *all = p;

	(void)device;
	for (struct conv_plan *x = all->first, *next; x; x = next) {
		next = x->next;
		dn_plan_free(x->plan);
		free(x);
	}
	free(all);
}

static struct conv_plans *plans_of(struct device *device)
{
	struct conv_plans *all = gpu_slot(device, GPU_CONV);

	if (!all) {
		all = calloc(1, sizeof(*all));
		if (all)
			gpu_slot_set(device, GPU_CONV, all, drop_plans);
	}
	return all;
}

struct conv_plan *conv_plan_get(struct device *device, const struct conv_case *c, struct why *why)
{
	struct conv_plans *all = plans_of(device);
	struct dn *dn = dn_of(device, why);

	if (!all)
		return NULL;
	for (struct conv_plan *p = all->first; p; p = p->next) {
		if (!memcmp(&p->key, c, sizeof(*c))) {
			p->users++;
			return p;
		}
	}
	struct conv_plan *p = calloc(1, sizeof(*p));
	if (!p) {
		refuse(why, "no memory");
		return NULL;
	}
	p->key = *c;
	if (!choose_plan(device, dn, p, why)) {
		dn_plan_free(p->plan);
		free(p);
		return NULL;
	}
	p->users = 1;
	p->next = all->first;
	all->first = p;
	return p;
}

void conv_plan_put(struct device *device, struct conv_plan *p)
{
	struct conv_plans *all = gpu_slot(device, GPU_CONV);

	if (!p || --p->users)
		return;
	for (struct conv_plan **at = &all->first; *at; at = &(*at)->next) {
		if (*at == p) {
			*at = p->next;
			break;
		}
	}
	dn_plan_free(p->plan);
	free(p);
}

void conv_choices(struct device *device, struct str *b)
{
	const struct conv_plans *all = gpu_slot(device, GPU_CONV);
	char key[512];

	for (const struct conv_plan *p = all ? all->first : NULL; p; p = p->next) {
		conv_case_text(&p->key, 0, key, sizeof(key));
		str_addf(b, "\n        %s\n          %s", strchr(key, ' ') + 1, p->how);
	}
}
