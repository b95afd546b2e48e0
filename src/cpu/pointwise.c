/* SPDX-License-Identifier: Apache-2.0 */
/*
 * infer::Pointwise in fp32. Every instruction runs over a block of elements that fits the L1 cache.
 * Operands of the full shape are read in place; operands that are broadcast are expanded into a
 * block first. The program is compiled in reshape: values whose lifetimes do not overlap share a
 * register, and constants become parameters of instructions where an instruction takes them.
 */
#include "cpu/pointwise.h"

#include "base/pool.h"
#include "cpu/math/function.h"
#include "cpu/math/simd.h"
#include "cpu/math/util.h"
#include "ops/fused.h"

#include <math.h>
#include <string.h>

enum {
	BLOCK_ELEMS = 1024, /* elements of a block */
	WORK_GRAIN = 8192,  /* least number of elements for which a thread pays off */
	NO_REG = 255,
};

enum op_kind {
	OP_SPREAD, /* converts input `a` to fp32 and broadcasts it into the register */
	OP_FILL,   /* fills the register with a constant */
	OP_MAP,	   /* applies a unary function of simd.h */
	OP_BIN,	   /* applies a binary function of simd.h */
	OP_POW,	   /* raises register a to the power of register b */
	/* computes register a * input mul + input add; both inputs are constant along a row */
	OP_ROWS,
};
enum { NO_INPUT = 255 };
struct op_code {
	enum op_kind kind;
	uint8_t fun;	   /* enum vfun, enum vbin */
	uint8_t dst, a, b; /* registers, but `a` of OP_SPREAD is the number of an input */
	uint8_t mul, add;  /* numbers of the inputs of OP_ROWS, or NO_INPUT */
	bool minus;	   /* subtract input `add` instead of adding it */
	float p[2];
};

/* Strides of an operand along the output's dimensions, which are sorted in memory order. */
struct operand_walk {
	/* the operand lies in memory like the output: element i is used for output element i */
	bool whole;
	int64_t step[MAX_RANK];
};

struct pointwise {
	int rank;
	int64_t n, dim[MAX_RANK];
	int nin, nout;
	struct operand_walk in[PW_MAX_IN];
	enum dtype dtype;
	int ncode, nreg;
	struct op_code code[2 * PW_MAX_CODE];
	/* k + 1 if the register is input k itself, 0 if it is scratch memory */
	uint8_t direct[PW_MAX_CODE + PW_MAX_IN];
	uint8_t out_reg[PW_MAX_OUT];
	bool ends_out; /* whether the last instruction writes directly to the only output */
};

/* ---- rows ------------------------------------------------------------------------------------ */

/*
 * An operand that is constant along the last dimension, such as a factor per channel of an image,
 * need not be expanded if rows are long: y = x * scale + shift then runs row by row with the
 * constants as parameters.
 */
enum { LONG_ROW = 64 };

static bool is_row_number(const struct pointwise *p, const struct op_code *o)
{
	return o->kind == OP_SPREAD && !p->in[o->a].whole && !p->in[o->a].step[p->rank - 1] &&
	       p->dim[p->rank - 1] >= LONG_ROW;
}

/* Whether the value that instruction `at` writes to register r is read by instruction `by` only. */
static bool read_once(const struct pointwise *p, int at, int by, uint8_t r)
{
	int reads = 0;

	for (int i = at + 1; i < p->ncode; i++) {
		const struct op_code *o = &p->code[i];
		if (o->kind == OP_MAP || o->kind == OP_ROWS)
			reads += o->a == r;
		else if (o->kind == OP_BIN || o->kind == OP_POW)
			reads += (o->a == r) + (o->b == r);
		if (reads && i < by)
			return false;
		if (o->dst == r)
			return reads == 1;
	}
	for (int k = 0; k < p->nout; k++)
		if (p->out_reg[k] == r)
			return false;
	return reads == 1;
}

/*
 * Returns the last instruction before i that writes register r, or -1 if r is an input that is read
 * in place.
 */
static int find_writer(const struct pointwise *p, int i, uint8_t r)
{
	while (--i >= 0 && p->code[i].dst != r)
		;
	return i;
}

static void drop_code(struct pointwise *p, int i)
{
	p->ncode--;
	memmove(&p->code[i], &p->code[i + 1], (size_t)(p->ncode - i) * sizeof(*p->code));
}

/*
 * Turns instruction i into OP_ROWS if one of its operands is constant along rows, and removes the
 * instruction that expanded that operand. Returns whether the instruction was turned into OP_ROWS.
 */
static bool convert_to_rows(struct pointwise *p, int i)
{
	struct op_code *o = &p->code[i];

	if (o->kind != OP_BIN || (o->fun != VB_MUL && o->fun != VB_ADD && o->fun != VB_SUB))
		return false;
	for (int side = 1; side >= (o->fun == VB_SUB); side--) {
		uint8_t r = side ? o->b : o->a, x = side ? o->a : o->b;
		int w = r < p->nin && p->direct[r] ? -1 : find_writer(p, i, r);
		if (w < 0 || r == x || !is_row_number(p, &p->code[w]) || !read_once(p, w, i, r))
			continue;
		uint8_t input = p->code[w].a;
		*o = (struct op_code){.kind = OP_ROWS,
				      .dst = o->dst,
				      .a = x,
				      .mul = o->fun == VB_MUL ? input : NO_INPUT,
				      .add = o->fun == VB_MUL ? NO_INPUT : input,
				      .minus = o->fun == VB_SUB};
		drop_code(p, w);
		return true;
	}
	return false;
}

/*
 * Merges an OP_ROWS that multiplies with the following OP_ROWS that adds. Returns whether two
 * instructions were merged.
 */
static bool merge_rows(struct pointwise *p, int i)
{
	struct op_code *o = &p->code[i];

	if (!i || o->kind != OP_ROWS || o->mul != NO_INPUT)
		return false;
	const struct op_code *m = &p->code[i - 1];
	if (m->kind != OP_ROWS || m->add != NO_INPUT || o->a != m->dst ||
	    (m->dst != o->dst && !read_once(p, i - 1, i, m->dst)))
		return false;
	o->a = m->a;
	o->mul = m->mul;
	drop_code(p, i - 1);
	return true;
}

static void convert_all_to_rows(struct pointwise *p)
{
	for (int i = 0; i < p->ncode; i++)
		if (convert_to_rows(p, i))
			i = -1;
	for (int i = 1; i < p->ncode; i++)
		if (merge_rows(p, i))
			i = 0;
}

/* ---- compiling the program ------------------------------------------------------------------- */

/* State of the register allocation. */
struct assign {
	const struct fused_pointwise *f;
	struct pointwise *p;
	int n;			  /* instructions */
	int last[PW_MAX_CODE];	  /* the last instruction that reads the value of instruction i */
	uint8_t reg[PW_MAX_CODE]; /* the register of the value of instruction i */
	bool used[PW_MAX_CODE + PW_MAX_IN];
	uint8_t pinned; /* registers below this number are reserved for inputs read in place */
};

static const int64_t *code_at(const struct assign *s, int i)
{
	return s->f->code.v + 4 * i;
}

static bool is_const(const struct assign *s, int64_t i, float *v)
{
	const int64_t *c = code_at(s, (int)i);
	if (c[0] != PW_CONST)
		return false;
	*v = s->f->consts.v[c[1]];
	return true;
}

static bool has_second(int64_t op)
{
	return op >= PW_ADD && op <= PW_MAX;
}

static void find_last_reads(struct assign *s)
{
	for (int i = 0; i < s->n; i++) {
		const int64_t *c = code_at(s, i);
		s->last[i] = i;
		if (c[0] >= PW_ADD)
			s->last[c[1]] = i;
		if (has_second(c[0]))
			s->last[c[2]] = i;
	}
	for (int64_t i = 0; i < s->f->outs.n; i++)
		s->last[s->f->outs.v[i]] = s->n;
}

static uint8_t take_reg(struct assign *s)
{
	for (int r = s->pinned; r < PW_MAX_CODE + PW_MAX_IN; r++)
		if (!s->used[r]) {
			s->used[r] = true;
			if (r >= s->p->nreg)
				s->p->nreg = r + 1;
			return (uint8_t)r;
		}
	return NO_REG;
}

static void free_reg(struct assign *s, int64_t value, int now)
{
	if (s->last[value] == now && s->reg[value] >= s->pinned && s->reg[value] != NO_REG)
		s->used[s->reg[value]] = false;
}

static struct op_code *emit_code(struct assign *s, enum op_kind kind, int fun, uint8_t a, uint8_t b)
{
	struct op_code *o = &s->p->code[s->p->ncode++];
	*o = (struct op_code){.kind = kind, .fun = (uint8_t)fun, .a = a, .b = b};
	return o;
}

/*
 * Returns the register of value i. A constant gets a register only here, when it is read by an
 * instruction that could not take it as a parameter.
 */
static uint8_t reg_of(struct assign *s, int64_t i)
{
	float v;
	if (s->reg[i] != NO_REG || !is_const(s, i, &v))
		return s->reg[i];
	struct op_code *o = emit_code(s, OP_FILL, 0, 0, 0);
	o->p[0] = v;
	o->dst = s->reg[i] = take_reg(s);
	return s->reg[i];
}

static struct op_code *emit_map(struct assign *s, int fun, int64_t a, float p0, float p1)
{
	struct op_code *o = emit_code(s, OP_MAP, fun, reg_of(s, a), 0);
	o->p[0] = p0;
	o->p[1] = p1;
	return o;
}

/*
 * Emits a binary instruction with a constant operand as a unary instruction with parameters. Returns
 * NULL if no operand is constant or no unary instruction does the same.
 */
static struct op_code *emit_with_const(struct assign *s, const int64_t *c)
{
	float v;
	if (is_const(s, c[2], &v)) {
		if (c[0] == PW_ADD || c[0] == PW_SUB)
			return emit_map(s, VF_AFFINE, c[1], 1, c[0] == PW_ADD ? v : -v);
		if (c[0] == PW_MUL)
			return emit_map(s, VF_AFFINE, c[1], v, -0.0f);
		if (c[0] == PW_POW && v == 2)
			return emit_map(s, VF_SQUARE, c[1], 0, 0);
		if (c[0] == PW_POW && v == 3)
			return emit_map(s, VF_CUBE, c[1], 0, 0);
	} else if (is_const(s, c[1], &v)) {
		if (c[0] == PW_ADD || c[0] == PW_SUB)
			return emit_map(s, VF_AFFINE, c[2], c[0] == PW_ADD ? 1 : -1, v);
		if (c[0] == PW_MUL)
			return emit_map(s, VF_AFFINE, c[2], v, -0.0f);
	}
	return NULL;
}

static struct op_code *emit_binary(struct assign *s, const int64_t *c)
{
	static const uint8_t fun[] = {
		[PW_ADD] = VB_ADD, [PW_SUB] = VB_SUB, [PW_MUL] = VB_MUL,
		[PW_DIV] = VB_DIV, [PW_MIN] = VB_MIN, [PW_MAX] = VB_MAX,
	};
	struct op_code *o = emit_with_const(s, c);
	if (o)
		return o;
	uint8_t a = reg_of(s, c[1]), b = reg_of(s, c[2]);
	return c[0] == PW_POW ? emit_code(s, OP_POW, 0, a, b) : emit_code(s, OP_BIN, fun[c[0]], a, b);
}

static struct op_code *emit_unary(struct assign *s, const int64_t *c)
{
	static const uint8_t fun[] = {
#define SINGLE(id, op, text) [PW_##id] = VF_##id,
#include "ops/pointwise.def"
	};
	if (c[0] != PW_ACT)
		return emit_map(s, fun[c[0]], c[1], 0, 0);
	if (c[2] == ACT_NONE)
		return emit_map(s, VF_AFFINE, c[1], 1, -0.0f);
	const float *k = &s->f->consts.v[c[3]];
	bool par = c[3] >= 0 && c[3] + 1 < s->f->consts.n;
	return emit_map(s, (int)act_function((int)c[2]), c[1], par ? k[0] : 0, par ? k[1] : 0);
}

/* Reserves registers 0..nin-1 for the inputs and marks those that can be read in place. */
static void assign_inputs(struct assign *s)
{
	struct pointwise *p = s->p;
	s->pinned = (uint8_t)p->nin;
	p->nreg = p->nin;
	for (int k = 0; k < p->nin; k++)
		p->direct[k] = p->in[k].whole && p->dtype == DT_F32 ? (uint8_t)(k + 1) : 0;
}

static void compile_program(struct assign *s)
{
	assign_inputs(s);
	find_last_reads(s);
	memset(s->reg, NO_REG, sizeof(s->reg));
	for (int i = 0; i < s->n; i++) {
		const int64_t *c = code_at(s, i);
		struct op_code *o;
		if (c[0] == PW_CONST)
			continue;
		if (c[0] == PW_INPUT && s->p->direct[c[1]]) {
			s->reg[i] = (uint8_t)c[1];
			continue;
		}
		if (c[0] == PW_INPUT)
			o = emit_code(s, OP_SPREAD, 0, (uint8_t)c[1], 0);
		else
			o = has_second(c[0]) ? emit_binary(s, c) : emit_unary(s, c);
		if (c[0] >= PW_ADD)
			free_reg(s, c[1], i);
		if (has_second(c[0]))
			free_reg(s, c[2], i);
		/* the loops work in place, so the result may reuse the register of an operand */
		o->dst = s->reg[i] = take_reg(s);
		if (s->last[i] == i)
			free_reg(s, i, i);
	}
	for (int64_t i = 0; i < s->f->outs.n; i++)
		s->p->out_reg[i] = reg_of(s, s->f->outs.v[i]);
	struct pointwise *p = s->p;
	convert_all_to_rows(p);
	p->ends_out = p->nout == 1 && p->dtype == DT_F32 && p->ncode &&
		      p->code[p->ncode - 1].dst == p->out_reg[0];
}

/* ---- shapes and layouts ---------------------------------------------------------------------- */

/*
 * Returns the layout in which the step runs: the first layout other than row-major that an input of
 * the full shape has. The step runs in row-major layout if there is no such input, or if the
 * channels do not fill whole blocks.
 */
static enum layout choose_layout(const struct site *s)
{
	const struct shape *y = &site_out(s, 0)->shape;
	enum layout found = LAYOUT_ROW;
	if (y->rank < 3 || y->rank > 5)
		return LAYOUT_ROW;
	for (uint32_t i = 0; i < s->node->nin; i++) {
		const struct vinfo *v = site_in(s, i);
		if (v && shape_equal(&v->shape, y) && found == LAYOUT_ROW)
			found = v->layout;
	}
	int64_t block = found == LAYOUT_BLOCK8 ? 8 : found == LAYOUT_BLOCK16 ? 16 : 1;
	return y->dim[1] % block ? LAYOUT_ROW : found;
}

/*
 * Writes the dimensions of output y to `dim`, in the order in which layout l stores them. Writes
 * the strides `in` of an operand, which are in the order of y's dimensions, to `step` in the order
 * of `dim`. Returns the number of dimensions.
 */
static int memory_order(enum layout l, const struct shape *y, const int64_t *in, int64_t *dim,
			int64_t *step)
{
	int rank = 0;
	int64_t block = l == LAYOUT_BLOCK8 ? 8 : l == LAYOUT_BLOCK16 ? 16 : 1;
	if (l == LAYOUT_ROW) {
		memcpy(dim, y->dim, (size_t)y->rank * sizeof(*dim));
		memcpy(step, in, (size_t)y->rank * sizeof(*step));
		return y->rank;
	}
	dim[rank] = y->dim[0];
	step[rank++] = in[0];
	if (block > 1) {
		dim[rank] = y->dim[1] / block;
		step[rank++] = in[1] * block;
	}
	for (int i = 2; i < y->rank; i++) {
		dim[rank] = y->dim[i];
		step[rank++] = in[i];
	}
	dim[rank] = block > 1 ? block : y->dim[1];
	step[rank++] = in[1];
	return rank;
}

/*
 * Drops dimensions of size 1, and merges neighbouring dimensions that every operand can walk with
 * one stride.
 */
static void merge_dims(struct pointwise *p)
{
	int k = -1;
	for (int i = 0; i < p->rank; i++) {
		bool join = k >= 0;
		if (p->dim[i] == 1)
			continue;
		for (int j = 0; j < p->nin && join; j++)
			join = p->in[j].whole || p->in[j].step[k] == p->in[j].step[i] * p->dim[i];
		if (!join)
			k++;
		p->dim[k] = join ? p->dim[k] * p->dim[i] : p->dim[i];
		for (int j = 0; j < p->nin; j++)
			p->in[j].step[k] = p->in[j].step[i];
	}
	if (k < 0)
		p->dim[k = 0] = 1;
	p->rank = k + 1;
}

static void set_operand_walks(const struct site *s, struct pointwise *p, enum layout l)
{
	struct shape y = site_out(s, 0)->shape;
	p->n = shape_count(&y);
	if (!y.rank)
		y = shape_of(1, (int64_t[]){1});
	for (int j = 0; j < p->nin; j++) {
		const struct shape *x = &site_in(s, (uint32_t)j)->shape;
		int64_t step[MAX_RANK];
		p->in[j].whole = shape_count(x) == p->n && (l == LAYOUT_ROW || shape_equal(x, &y));
		shape_broadcast_strides(x, &y, step);
		p->rank = memory_order(l, &y, step, p->dim, p->in[j].step);
	}
	merge_dims(p);
}

static void declare_layouts(struct site *s, struct step *step, enum layout l)
{
	const struct shape *y = &site_out(s, 0)->shape;
	enum layout *want = arena_new_n(s->plan_arena, enum layout, s->node->nin);
	enum layout *give = arena_new_n(s->plan_arena, enum layout, s->node->nout);
	for (uint32_t i = 0; i < s->node->nin; i++) {
		const struct vinfo *v = site_in(s, i);
		bool full = shape_equal(&v->shape, y);
		bool line = v->shape.rank >= 3 && shape_span(&v->shape, 2, v->shape.rank) == 1 &&
			    v->layout == LAYOUT_CHANNELS_LAST;
		want[i] = full ? l : line ? v->layout : LAYOUT_ROW;
		if (full && s->node->nout == 1)
			allow_inplace(step, 0, (uint8_t)i);
	}
	for (uint32_t i = 0; i < s->node->nout; i++)
		give[i] = l;
	step->want = want;
	step->give = give;
}

static int prepare_step(struct site *site, struct step *step, const struct fused_pointwise *f)
{
	struct pointwise *p = arena_new(site->plan_arena, struct pointwise);
	struct assign s = {.f = f, .p = p, .n = (int)(f->code.n / 4)};
	step->state = p;
	p->nin = (int)site->node->nin;
	p->nout = (int)f->outs.n;
	p->dtype = site_type(site, 0);
	enum layout l = choose_layout(site);
	set_operand_walks(site, p, l);
	declare_layouts(site, step, l);
	compile_program(&s);
	step->workspace = (size_t)pool_threads() * (size_t)p->nreg * BLOCK_ELEMS * sizeof(float);
	return 0;
}

int pointwise_reshape(struct site *site, struct step *step, struct diag *d)
{
	(void)d;
	return prepare_step(site, step, site_params(site));
}

bool pointwise_binary_accepts(const struct site *s, struct why *w)
{
	const struct shape *y = &site_out(s, 0)->shape;
	if (s->node->nin != 2 || choose_layout(s) == LAYOUT_ROW)
		return refuse(w, "no image in a layout of its own");
	for (uint32_t i = 0; i < 2; i++)
		if (!shape_equal(&site_in(s, i)->shape, y))
			return true;
	return refuse(w, "both are of one shape");
}

int pointwise_binary_reshape(struct site *site, struct step *step, struct diag *d)
{
	static const char *const names[] = {"Add", "Sub", "Mul", "Div"};
	static const int64_t outs[] = {2}, ops[] = {PW_ADD, PW_SUB, PW_MUL, PW_DIV};
	int64_t code[] = {PW_INPUT, 0, 0, 0, PW_INPUT, 1, 0, 0, PW_ADD, 0, 1, 0};
	struct fused_pointwise f = {.code = {code, 12}, .consts = {NULL, 0}, .outs = {outs, 1}};
	(void)d;
	for (size_t i = 0; i < sizeof(ops) / sizeof(*ops); i++)
		if (!strcmp(site->node->op->name, names[i]))
			code[8] = ops[i];
	return prepare_step(site, step, &f);
}

/* ---- running --------------------------------------------------------------------------------- */

struct pointwise_job {
	const struct pointwise *p;
	const struct call *call;
};

/* Writes the first `period` elements of dst to the rest of its n elements, again and again. */
static void repeat(float *dst, int64_t period, int64_t n)
{
	for (int64_t done = period, part; done < n; done += part) {
		part = n - done < done ? n - done : done;
		memcpy(dst + done, dst, (size_t)part * sizeof(*dst));
	}
}

/*
 * How often the row that begins at pos comes again, as with a number for each channel where channels lie side by side, in the
 * n elements from there on.
 */
static int64_t row_repeats(const struct pointwise *p, const struct operand_walk *w,
			   const int64_t *pos, int64_t n)
{
	int64_t last = p->rank - 1;

	if (last < 1 || pos[last] || w->step[last - 1])
		return 1;
	int64_t whole = n / p->dim[last], left = p->dim[last - 1] - pos[last - 1];
	return whole < 1 ? 1 : whole < left ? whole : left;
}

/* Writes the n elements of input k that output elements first..first+n-1 use to dst, as fp32. */
static void expand_input(const struct pointwise_job *j, int k, int64_t first, int64_t n, float *dst)
{
	const struct pointwise *p = j->p;
	const struct operand_walk *w = &p->in[k];
	const void *x = j->call->in[k]->data;
	int64_t pos[MAX_RANK], at = 0, rest = first, last = p->rank - 1;
	if (w->whole) {
		simd_to_f32(p->dtype, x, first, n, dst);
		return;
	}
	for (int64_t i = last; i >= 0; i--) {
		pos[i] = rest % p->dim[i];
		rest /= p->dim[i];
	}
	while (n > 0) {
		int64_t run = p->dim[last] - pos[last];
		run = run > n ? n : run;
		int64_t times = row_repeats(p, w, pos, n);
		at = 0;
		for (int64_t i = 0; i <= last; i++)
			at += pos[i] * w->step[i];
		if (w->step[last] == 1) {
			simd_to_f32(p->dtype, x, at, run, dst);
		} else if (!w->step[last]) {
			float v;
			simd_to_f32(p->dtype, x, at, 1, &v);
			for (int64_t i = 0; i < run; i++)
				dst[i] = v;
		} else {
			for (int64_t i = 0; i < run; i++)
				simd_to_f32(p->dtype, x, at + i * w->step[last], 1, dst + i);
		}
		if (times > 1) {
			repeat(dst, run, run * times);
			pos[last - 1] += times - 1;
			run *= times;
		}
		dst += run;
		n -= run;
		pos[last] = p->dim[last] -
			    1; /* the run reached the end of its row, or no elements are left */
		for (int64_t i = last; i >= 0 && ++pos[i] == p->dim[i]; i--)
			pos[i] = 0;
	}
}

/* Returns the element of input k that the output element at position pos uses. */
static float row_number(const struct pointwise_job *j, int k, const int64_t *pos)
{
	const struct operand_walk *w = &j->p->in[k];
	int64_t at = 0;
	float v;

	for (int i = 0; i < j->p->rank; i++)
		at += pos[i] * w->step[i];
	simd_to_f32(j->p->dtype, j->call->in[k]->data, at, 1, &v);
	return v;
}

static void run_rows(const struct pointwise_job *j, const struct op_code *o, int64_t first,
		     int64_t n, const float *x, float *y)
{
	const struct pointwise *p = j->p;
	int64_t pos[MAX_RANK], rest = first, last = p->rank - 1;

	for (int64_t i = last; i >= 0; i--) {
		pos[i] = rest % p->dim[i];
		rest /= p->dim[i];
	}
	for (int64_t run; n > 0; n -= run, x += run, y += run) {
		float v[2] = {1, -0.0f};
		run = p->dim[last] - pos[last] < n ? p->dim[last] - pos[last] : n;
		if (o->mul != NO_INPUT)
			v[0] = row_number(j, o->mul, pos);
		if (o->add != NO_INPUT)
			v[1] = o->minus ? -row_number(j, o->add, pos) : row_number(j, o->add, pos);
		simd()->map[VF_AFFINE](x, y, run, v);
		pos[last] = p->dim[last] -
			    1; /* the run reached the end of its row, or no elements are left */
		for (int64_t i = last; i >= 0 && ++pos[i] == p->dim[i]; i--)
			pos[i] = 0;
	}
}

static void fill_block(float *y, int64_t n, float v)
{
	for (int64_t i = 0; i < n; i++)
		y[i] = v;
}

static void power_block(const float *a, const float *b, float *y, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		y[i] = powf(a[i], b[i]);
}

static void run_block(const struct pointwise_job *j, int64_t first, int64_t n, float *const *reg)
{
	const struct pointwise *p = j->p;
	for (int i = 0; i < p->ncode; i++) {
		const struct op_code *o = &p->code[i];
		float *y = p->ends_out && i == p->ncode - 1 ? (float *)j->call->out[0]->data + first
							    : reg[o->dst];
		if (o->kind == OP_SPREAD)
			expand_input(j, o->a, first, n, y);
		else if (o->kind == OP_ROWS)
			run_rows(j, o, first, n, reg[o->a], y);
		else if (o->kind == OP_FILL)
			fill_block(y, n, o->p[0]);
		else if (o->kind == OP_MAP)
			simd()->map[o->fun](reg[o->a], y, n, o->p);
		else if (o->kind == OP_BIN)
			simd()->bin[o->fun][DT_F32](reg[o->a], reg[o->b], y, n);
		else
			power_block(reg[o->a], reg[o->b], y, n);
	}
	for (int i = 0; i < p->nout && !p->ends_out; i++) {
		struct tensor *y = j->call->out[i];
		if (y)
			simd_from_f32(p->dtype, reg[p->out_reg[i]], n, y->data, first);
	}
}

static void run_pieces(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct pointwise_job *j = arg;
	const struct pointwise *p = j->p;
	float *reg[PW_MAX_CODE + PW_MAX_IN];
	float *base = (float *)j->call->workspace + (size_t)thread * (size_t)p->nreg * BLOCK_ELEMS;
	for (int64_t at = begin; at < end; at += BLOCK_ELEMS) {
		int64_t n = end - at < BLOCK_ELEMS ? end - at : BLOCK_ELEMS;
		for (int r = 0; r < p->nreg; r++)
			reg[r] = p->direct[r] ? (float *)j->call->in[p->direct[r] - 1]->data + at
					      : base + (size_t)r * BLOCK_ELEMS;
		run_block(j, at, n, reg);
	}
}

int pointwise_run(const struct call *c)
{
	const struct pointwise *p = c->step->state;
	struct pointwise_job j = {p, c};
	pool_for(p->n, WORK_GRAIN, run_pieces, &j);
	return 0;
}

/* ---- reference ------------------------------------------------------------------------------- */

static double apply_instruction(const struct fused_pointwise *f, const int64_t *c, const double *v)
{
	double a = v[c[1]], b = has_second(c[0]) ? v[c[2]] : 0;
	switch (c[0]) {
/* clang-format off */
#define BINARY(id, op, ninputs, text, formula) case PW_##id: return formula;
#define SINGLE(id, op, text) case PW_##id: return function_f64[VF_##id](a, 0, 0);
#include "ops/pointwise.def"
		/* clang-format on */
	default: break;
	}
	bool par = c[3] >= 0 && c[3] + 1 < f->consts.n;
	act_f64((int)c[2], par ? (double)f->consts.v[c[3]] : 0,
		par ? (double)f->consts.v[c[3] + 1] : 0, &a, 1);
	return a;
}

void pointwise_element(const struct fused_pointwise *f, bool narrow, const double *in, double *out)
{
	double v[PW_MAX_CODE];

	for (int k = 0; k < (int)(f->code.n / 4); k++) {
		const int64_t *c = f->code.v + 4 * k;
		v[k] = c[0] == PW_INPUT	  ? in[c[1]]
		       : c[0] == PW_CONST ? (double)f->consts.v[c[1]]
					  : apply_instruction(f, c, v);
		v[k] = narrow ? (double)(float)v[k] : v[k];
	}
	for (int64_t k = 0; k < f->outs.n; k++)
		out[k] = v[f->outs.v[k]];
}

struct reference_job {
	const struct call *call;
	const struct fused_pointwise *f;
	struct shape y;
	int64_t step[PW_MAX_IN][MAX_RANK];
};

static void reference_element(const struct reference_job *j, int64_t i)
{
	double in[PW_MAX_IN], out[PW_MAX_OUT];
	int64_t at[PW_MAX_IN] = {0}, rest = i;
	for (int d = j->y.rank - 1; d >= 0; rest /= j->y.dim[d--])
		for (uint32_t k = 0; k < j->call->step->nin; k++)
			at[k] += rest % j->y.dim[d] * j->step[k][d];
	for (uint32_t k = 0; k < j->call->step->nin; k++)
		in[k] = elem_f64(tensor_dtype(j->call->in[k]), j->call->in[k]->data, at[k]);
	pointwise_element(j->f, tensor_dtype(j->call->in[0]) != DT_F64, in, out);
	for (int64_t k = 0; k < j->f->outs.n; k++)
		if (j->call->out[k])
			elem_set_f64(tensor_dtype(j->call->out[k]), j->call->out[k]->data, i, out[k]);
}

static void run_reference_elements(void *arg, int64_t begin, int64_t end, int thread)
{
	(void)thread;
	for (int64_t i = begin; i < end; i++)
		reference_element(arg, i);
}

int pointwise_reference_run(const struct call *c)
{
	struct reference_job j = {.call = c, .f = call_params(c), .y = c->out[0]->shape};
	for (uint32_t k = 0; k < c->step->nin; k++)
		shape_broadcast_strides(&c->in[k]->shape, &j.y, j.step[k]);
	pool_for(shape_count(&j.y), 256, run_reference_elements, &j);
	return 0;
}
