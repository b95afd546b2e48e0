/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/matmul.h"

#include "ops/infer_util.h"

#include <ctype.h>
#include <inttypes.h>
#include <string.h>

/* ---- MatMul ----------------------------------------------------------------------------------- */

/* One operand as a batch of matrices: sizes, and strides in elements. */
struct side {
	int nbatch;
	int64_t batch[MAX_RANK], stride[MAX_RANK];
	int64_t rows, cols, row_step, col_step;
};

static void read_side(const struct shape *s, bool trans, bool trans_batch, bool left, struct side *o)
{
	int64_t step[MAX_RANK + 1];
	int r = s->rank, first, second;

	memset(o, 0, sizeof(*o));
	step[r] = 1;
	for (int i = r - 1; i >= 0; i--)
		step[i] = known_product(step[i + 1], s->dim[i]);
	if (r == 1) { /* a vector is a row on the left side, a column on the right side */
		o->rows = left ? 1 : s->dim[0];
		o->cols = left ? s->dim[0] : 1;
		o->row_step = left ? s->dim[0] : 1;
		o->col_step = 1;
		return;
	}
	first = trans_batch ? 0 : r - 2;
	second = r - 1;
	for (int i = 0; i < r - 1; i++)
		if (i != first) {
			o->batch[o->nbatch] = s->dim[i];
			o->stride[o->nbatch++] = step[i + 1];
		}
	o->rows = s->dim[trans ? second : first];
	o->cols = s->dim[trans ? first : second];
	o->row_step = step[(trans ? second : first) + 1];
	o->col_step = step[(trans ? first : second) + 1];
}

bool matmul_shape(const struct shape *a, const struct shape *b, const struct fused_matmul *f,
		  struct matmul_shape *s)
{
	struct side l, r;
	struct shape la = {0}, rb = {0}, batch;

	memset(s, 0, sizeof(*s));
	if (a->rank < 1 || b->rank < 1)
		return false;
	read_side(a, f && f->transA, f && f->transBatchA && a->rank > 2, true, &l);
	read_side(b, f && f->transB, f && f->transBatchB && b->rank > 2, false, &r);
	if (l.cols >= 0 && r.rows >= 0 && l.cols != r.rows)
		return false;
	la = shape_of(l.nbatch, l.batch);
	rb = shape_of(r.nbatch, r.batch);
	if (!shape_broadcast(&la, &rb, &batch))
		return false;
	s->nbatch = batch.rank;
	for (int i = 0; i < batch.rank; i++) {
		int ia = i - (batch.rank - l.nbatch), ib = i - (batch.rank - r.nbatch);
		s->batch[i] = batch.dim[i];
		s->a_batch[i] = ia < 0 || l.batch[ia] == 1 ? 0 : l.stride[ia];
		s->b_batch[i] = ib < 0 || r.batch[ib] == 1 ? 0 : r.stride[ib];
	}
	s->m = l.rows;
	s->n = r.cols;
	s->k = l.cols >= 0 ? l.cols : r.rows;
	s->a_row = l.row_step;
	s->a_col = l.col_step;
	s->b_row = r.row_step;
	s->b_col = r.col_step;
	s->out = batch;
	if (a->rank > 1)
		s->out.dim[s->out.rank++] = s->m;
	if (b->rank > 1)
		s->out.dim[s->out.rank++] = s->n;
	return true;
}

static int matmul_common(struct infer *c, const struct fused_matmul *f)
{
	struct shape a = infer_shape(c, 0), b = infer_shape(c, 1), y = SHAPE_UNKNOWN;
	struct matmul_shape s;

	if (a.rank == 0 || b.rank == 0)
		return infer_fail(c, E_SHAPE, a.rank == 0 ? 0 : 1, "rank 1 or more", "a scalar");
	if (a.rank + b.rank > MAX_RANK + 2)
		return infer_fail(c, E_RANK, 0, "ranks that fit together", infer_shape_text(c, &a));
	if (a.rank > 0 && b.rank > 0) {
		if (!matmul_shape(&a, &b, f, &s))
			return infer_fail(
				c, E_SHAPE, 1,
				fmt(c->diag, "a matrix that fits %s", infer_shape_text(c, &a)),
				infer_shape_text(c, &b));
		y = s.out;
	}
	infer_set(c, 0, infer_dtype(c, 0), &y);
	return 0;
}

static int matmul_infer(struct infer *c)
{
	return matmul_common(c, NULL);
}

static int fused_matmul_infer(struct infer *c)
{
	return matmul_common(c, infer_params(c));
}

static int64_t matmul_macs_of(const struct infer *c, const struct fused_matmul *f)
{
	struct shape a = infer_shape(c, 0), b = infer_shape(c, 1);
	struct matmul_shape s;

	if (a.rank < 1 || b.rank < 1 || !matmul_shape(&a, &b, f, &s))
		return 0;
	return known_product(shape_count(&s.out), s.k);
}

static int64_t matmul_macs(const struct infer *c)
{
	return matmul_macs_of(c, NULL);
}

static int64_t fused_matmul_macs(const struct infer *c)
{
	return matmul_macs_of(c, infer_params(c));
}

/* ---- Gemm ------------------------------------------------------------------------------------- */

static int gemm_infer(struct infer *c)
{
	const struct gemm_params *p =
		infer_params(c); /* struct fused_gemm_params begins with struct gemm_params */
	struct shape a = infer_shape(c, 0), b = infer_shape(c, 1), s = infer_shape(c, 2),
		     y = {.rank = 2};
	int64_t k;
	int rc;

	y.dim[0] = a.rank == 2 ? a.dim[p->transA ? 1 : 0] : DIM_UNKNOWN;
	y.dim[1] = b.rank == 2 ? b.dim[p->transB ? 0 : 1] : DIM_UNKNOWN;
	if (a.rank == 2 && b.rank == 2) {
		rc = infer_unify(c, 1, a.dim[p->transA ? 0 : 1], b.dim[p->transB ? 1 : 0], &k);
		if (rc)
			return rc;
	}
	if (!shape_broadcasts_to(&s, &y))
		return infer_fail(
			c, E_SHAPE, 2,
			fmt(c->diag, "a shape that broadcasts to %s", infer_shape_text(c, &y)),
			infer_shape_text(c, &s));
	infer_set(c, 0, infer_dtype(c, 0), &y);
	return 0;
}

static int64_t gemm_macs(const struct infer *c)
{
	const struct gemm_params *p = infer_params(c);
	const struct vinfo *y = infer_out(c, 0);
	struct shape a = infer_shape(c, 0);

	return y && a.rank == 2 ? known_product(shape_count(&y->shape), a.dim[p->transA ? 0 : 1]) : 0;
}

/* ---- Einsum ----------------------------------------------------------------------------------- */

/* The term of one operand in the equation, such as "bij" or "...ij". */
struct term {
	const char *s;
	int n; /* letters */
	bool ellipsis;
};

/* Reads a term up to ',', '-' or the end and moves *text there; spaces are ignored. Returns NULL, or what is wrong. */
static const char *read_term(const char **text, struct term *t)
{
	const char *s = *text;

	*t = (struct term){.s = s};
	for (; *s && *s != ',' && *s != '-'; s++) {
		if (isspace((unsigned char)*s))
			continue;
		if (*s == '.') {
			if (strncmp(s, "...", 3) || t->ellipsis)
				return "at most one ellipsis of three dots a term";
			t->ellipsis = true;
			s += 2;
		} else if (isalpha((unsigned char)*s)) {
			t->n++;
		} else {
			return "letters, commas, ... and -> only";
		}
	}
	*text = s;
	return NULL;
}

struct labels {
	int8_t of[128]; /* indexed by letter; -1 */
	/* dots: number of dims of the longest ellipsis; they have the labels 0..dots-1 */
	int count, dots;
};

static int8_t label_of(struct labels *l, char letter)
{
	int8_t *at = &l->of[(unsigned char)letter & 127];

	if (*at < 0)
		*at = (int8_t)l->count++;
	return *at;
}

/* Writes the labels of a term to `to` and returns their number; the term's ellipsis stands for `dots` dims. */
static int label_term(const struct term *t, struct labels *l, int dots, int8_t *to)
{
	int n = 0, seen = 0;

	for (const char *s = t->s; seen < t->n + (t->ellipsis ? 1 : 0); s++) {
		if (*s == '.') {
			for (int i = 0; i < dots; i++)
				to[n++] = (int8_t)(l->dots - dots + i);
			s += 2;
			seen++;
		} else if (isalpha((unsigned char)*s)) {
			to[n++] = label_of(l, *s);
			seen++;
		}
	}
	return n;
}

/* The output of an equation without "->": the ellipsis, then all letters that occur once, in alphabetical order. */
static const char *implicit_out(struct einsum_plan *p, struct labels *l)
{
	int used[EINSUM_LABELS] = {0};

	for (int k = 0; k < p->noperands; k++)
		for (int i = 0; i < p->rank[k]; i++)
			used[p->label[k][i]]++;
	for (int i = 0; i < l->dots; i++)
		p->out[p->nout++] = (int8_t)i;
	for (int ch = 'A'; ch <= 'z'; ch++)
		if (l->of[ch] >= 0 && used[l->of[ch]] == 1) {
			if (p->nout == MAX_RANK)
				return "at most 16 output dimensions";
			p->out[p->nout++] = l->of[ch];
		}
	return NULL;
}

const char *einsum_parse(const char *equation, int noperands, const int *rank,
			 struct einsum_plan *p, struct diag *d)
{
	struct term term[EINSUM_OPERANDS], out;
	struct labels l = {.count = 0};
	const char *s = equation ? equation : "", *bad;

	memset(p, 0, sizeof(*p));
	memset(l.of, -1, sizeof(l.of));
	if (noperands < 1 || noperands > EINSUM_OPERANDS)
		return fmt(d, "1 to %d operands", EINSUM_OPERANDS);
	p->noperands = noperands;
	for (int k = 0; k < noperands; k++) {
		if ((bad = read_term(&s, &term[k])))
			return bad;
		if (k + 1 < noperands ? *s++ != ',' : *s == ',')
			return fmt(d, "as many terms as the %d operands", noperands);
		int dots = rank[k] - term[k].n;
		if (dots < 0 || (dots && !term[k].ellipsis))
			return fmt(d, "%d labels for operand %d", rank[k], k);
		l.dots = dots > l.dots ? dots : l.dots;
		p->rank[k] = rank[k];
	}
	l.count = l.dots;
	for (int k = 0; k < noperands; k++)
		label_term(&term[k], &l, rank[k] - term[k].n, p->label[k]);
	if (!*s) {
		bad = implicit_out(p, &l);
		p->nlabels = l.count;
		return bad;
	}
	if (strncmp(s, "->", 2))
		return "-> before the output";
	s += 2;
	int known = l.count;
	if ((bad = read_term(&s, &out)) || *s)
		return bad ? bad : "one output term";
	if (out.n + (out.ellipsis ? l.dots : 0) > MAX_RANK)
		return "at most 16 output dimensions";
	p->nout = label_term(&out, &l, out.ellipsis ? l.dots : 0, p->out);
	p->nlabels = l.count;
	if (l.count > known)
		return "output labels that an operand has";
	for (int i = 0; i < p->nout; i++)
		for (int j = 0; j < i; j++)
			if (p->out[i] == p->out[j])
				return "each output label once";
	return NULL;
}

static int einsum_infer(struct infer *c)
{
	const struct einsum *p = infer_params(c);
	int rank[EINSUM_OPERANDS], n = (int)c->node->nin;
	int64_t size[EINSUM_LABELS];
	struct einsum_plan plan;
	struct shape y = SHAPE_UNKNOWN;
	const char *bad;

	for (int k = 0; k < n && k < EINSUM_OPERANDS; k++) {
		rank[k] = infer_shape(c, (uint32_t)k).rank;
		if (rank[k] < 0) {
			infer_set(c, 0, infer_dtype(c, 0), &y);
			return 0;
		}
	}
	bad = einsum_parse(p->equation, n, rank, &plan, c->diag);
	if (bad)
		return infer_fail(c, E_OP_ATTRIBUTE, -1, fmt(c->diag, "equation with %s", bad),
				  fmt(c->diag, "'%s'", p->equation ? p->equation : ""));
	for (int i = 0; i < EINSUM_LABELS; i++)
		size[i] = 1;
	for (int k = 0; k < n; k++) {
		struct shape s = infer_shape(c, (uint32_t)k);
		for (int i = 0; i < s.rank; i++) {
			int64_t *z = &size[plan.label[k][i]], v = s.dim[i];
			if (*z >= 0 && *z != 1 && v >= 0 && v != 1 && v != *z)
				return infer_fail(c, E_SHAPE, k,
						  fmt(c->diag, "dimension %d of %" PRId64, i, *z),
						  infer_shape_text(c, &s));
			if (v != 1 && (*z == 1 || (*z < 0 && v >= 0)))
				*z = v;
		}
	}
	y.rank = plan.nout;
	for (int i = 0; i < plan.nout; i++)
		y.dim[i] = size[plan.out[i]];
	infer_set(c, 0, infer_dtype(c, 0), &y);
	return 0;
}

static int64_t einsum_macs(const struct infer *c)
{
	const struct einsum *p = infer_params(c);
	int rank[EINSUM_OPERANDS], n = (int)c->node->nin;
	struct einsum_plan plan;
	int64_t size[EINSUM_LABELS], total = 1;

	for (int k = 0; k < n && k < EINSUM_OPERANDS; k++)
		if ((rank[k] = infer_shape(c, (uint32_t)k).rank) < 0)
			return 0;
	if (einsum_parse(p->equation, n, rank, &plan, NULL))
		return 0;
	for (int i = 0; i < EINSUM_LABELS; i++)
		size[i] = 1;
	for (int k = 0; k < n; k++)
		for (int i = 0; i < rank[k]; i++)
			if (infer_shape(c, (uint32_t)k).dim[i] != 1)
				size[plan.label[k][i]] = infer_shape(c, (uint32_t)k).dim[i];
	for (int i = 0; i < plan.nlabels; i++)
		total = known_product(total, size[i]);
	return total < 0 ? 0 : total;
}

/* ---- Det -------------------------------------------------------------------------------------- */

static int det_infer(struct infer *c)
{
	struct shape x = infer_shape(c, 0), y = x;

	if (x.rank >= 0) {
		int64_t n;
		if (x.rank < 2)
			return infer_fail(c, E_SHAPE, 0, "rank 2 or more", infer_shape_text(c, &x));
		int rc = infer_unify(c, 0, x.dim[x.rank - 2], x.dim[x.rank - 1], &n);
		if (rc)
			return rc;
		y.rank -= 2;
	}
	infer_set(c, 0, infer_dtype(c, 0), &y);
	return 0;
}

/* ---- rows ------------------------------------------------------------------------------------- */

#define T_MATMUL_OLD (T_FLOATS | T_U32 | T_U64 | T_I32 | T_I64)
#define T_MATMUL     (T_MATMUL_OLD | T_BF16)
static const struct slot matmul_in[] = {SLOT("A", "T", T_MATMUL), SLOT("B", "T", T_MATMUL), SLOT_END};
static const struct slot matmul_out[] = {SLOT("Y", "T", T_MATMUL), SLOT_END};
static const struct slot gemm_in[] = {SLOT("A", "T", T_MATMUL, .dims = "_ _"),
				      SLOT("B", "T", T_MATMUL, .dims = "_ _"),
				      SLOT_OPT("C", "T", T_MATMUL), SLOT_END};
static const struct slot gemm9_in[] = {SLOT("A", "T", T_MATMUL_OLD, .dims = "_ _"),
				       SLOT("B", "T", T_MATMUL_OLD, .dims = "_ _"),
				       SLOT("C", "T", T_MATMUL_OLD), SLOT_END};
static const struct slot einsum_in[] = {SLOT("Inputs", "T", T_NUMERIC_BF, .variadic = true), SLOT_END};
static const struct slot einsum_out[] = {SLOT("Output", "T", T_NUMERIC_BF), SLOT_END};
static int inverse_infer(struct infer *c)
{
	int err = det_infer(c);

	return err ? err : infer_same(c);
}

static const struct slot det_in[] = {SLOT("X", "T", T_FLOATS_BF), SLOT_END};
static const struct slot det_out[] = {SLOT("Y", "T", T_FLOATS_BF), SLOT_END};

#define GEMM_FIELDS(type_, prefix)                                                                 \
	{.name = "alpha",                                                                          \
	 .type = F_FLOAT,                                                                          \
	 .off = offsetof(type_, prefix alpha),                                                     \
	 .def = "1",                                                                               \
	 .help = "scale of the product"},                                                          \
		{.name = "beta",                                                                   \
		 .type = F_FLOAT,                                                                  \
		 .off = offsetof(type_, prefix beta),                                              \
		 .def = "1",                                                                       \
		 .help = "scale of C"},                                                            \
		{.name = "transA",                                                                 \
		 .type = F_INT,                                                                    \
		 .off = offsetof(type_, prefix transA),                                            \
		 .def = "0",                                                                       \
		 .help = "1: A is transposed"},                                                    \
	{                                                                                          \
		.name = "transB", .type = F_INT, .off = offsetof(type_, prefix transB),            \
		.def = "0", .help = "1: B is transposed"                                           \
	}
static const struct field gemm_attrs[] = {GEMM_FIELDS(struct gemm_params, ), {0}};
static const struct field gemm6_attrs[] = {
	GEMM_FIELDS(struct gemm_params, ),
	FIELD(struct gemm_params, broadcast, F_INT, "0", "1: C is broadcast"),
	{0}};
/* com.microsoft::FusedGemm becomes Gemm and a node for the activation. */
static int fused_gemm_upgrade(struct edit *e)
{
	const struct fused_gemm_params *p = e->node->params;

	*(struct gemm_params *)edit_become(e, "Gemm") = p->gemm;
	return edit_activation(e, 0, p->activation, p->activation_alpha, p->activation_beta);
}

static const struct field fused_gemm_attrs[] = {
	GEMM_FIELDS(struct fused_gemm_params, gemm.),
	FIELD(struct fused_gemm_params, activation, F_STRING, NULL, "activation behind the product"),
	FIELD(struct fused_gemm_params, activation_alpha, F_FLOAT, NULL, "its first parameter"),
	FIELD(struct fused_gemm_params, activation_beta, F_FLOAT, NULL, "its second parameter"),
	FIELD(struct fused_gemm_params, activation_gamma, F_FLOAT, NULL, "its third parameter"),
	{0}};
static const struct field fused_matmul_attrs[] = {
	FIELD(struct fused_matmul, alpha, F_FLOAT, "1", "scale of the product"),
	FIELD(struct fused_matmul, transA, F_INT, "0", "1: the last two dims of A are swapped"),
	FIELD(struct fused_matmul, transB, F_INT, "0", "1: the last two dims of B are swapped"),
	FIELD(struct fused_matmul, transBatchA, F_INT, "0", "1: dim 0 of A goes behind the batch dims"),
	FIELD(struct fused_matmul, transBatchB, F_INT, "0", "1: dim 0 of B goes behind the batch dims"),
	{0}};
static const struct field transpose_matmul_attrs[] = {
	FIELD(struct fused_matmul, alpha, F_FLOAT, "1", "scale of the product"),
	FIELD(struct fused_matmul, transA, F_INT, "0", "1: the last two dims of A are swapped"),
	FIELD(struct fused_matmul, transB, F_INT, "0", "1: the last two dims of B are swapped"),
	{0}};
static const struct field einsum_attrs[] = {
	FIELD_REQ(struct einsum, equation, F_STRING, "what to multiply and what to sum over"), {0}};

/* com.microsoft::FusedMatMulActivation becomes FusedMatMul and a node for the activation. */
struct activated_matmul {
	struct fused_matmul matmul;
	float activation_alpha, activation_beta, activation_gamma;
	int64_t activation_axis;
	const char *activation;
};

static int activated_matmul_upgrade(struct edit *e)
{
	const struct activated_matmul *p = e->node->params;

	*(struct fused_matmul *)edit_become(e, "com.microsoft::FusedMatMul") = p->matmul;
	return edit_activation(e, 0, p->activation, p->activation_alpha, p->activation_beta);
}

#define MATMUL_FIELD(name_, type_, def_, help_)                                                    \
	{                                                                                          \
		.name = #name_, .type = (type_),                                                   \
		.off = offsetof(struct activated_matmul, matmul.name_), .def = (def_),             \
		.help = (help_)                                                                    \
	}
static const struct field activated_matmul_attrs[] = {
	MATMUL_FIELD(alpha, F_FLOAT, "1", "scale of the product"),
	MATMUL_FIELD(transA, F_INT, "0", "1: the last two dims of A are swapped"),
	MATMUL_FIELD(transB, F_INT, "0", "1: the last two dims of B are swapped"),
	MATMUL_FIELD(transBatchA, F_INT, "0", "1: dim 0 of A goes behind the batch dims"),
	MATMUL_FIELD(transBatchB, F_INT, "0", "1: dim 0 of B goes behind the batch dims"),
	FIELD_REQ(struct activated_matmul, activation, F_STRING, "activation behind the product"),
	FIELD(struct activated_matmul, activation_alpha, F_FLOAT, NULL, "its first parameter"),
	FIELD(struct activated_matmul, activation_beta, F_FLOAT, NULL, "its second parameter"),
	FIELD(struct activated_matmul, activation_gamma, F_FLOAT, NULL, "its third parameter"),
	FIELD(struct activated_matmul, activation_axis, F_INT, NULL, "its axis"),
	{0}};

static const struct slot fast_gelu_in[] = {
	SLOT("X", "T", T_F32 | T_F16 | T_BF16), SLOT("W", "T", T_F32 | T_F16 | T_BF16),
	SLOT_OPT("bias", "T", T_F32 | T_F16 | T_BF16, .dims = "_"), SLOT_END};
static const struct slot fast_gelu_out[] = {SLOT("Y", "T", T_F32 | T_F16 | T_BF16), SLOT_END};

/* com.microsoft::MatMulInteger16: the sums have 32 bits, and a sign unless both matrices are unsigned. */
static const struct slot integer16_in[] = {SLOT("A", "T1", T_I16 | T_U16),
					   SLOT("B", "T2", T_I16 | T_U16), SLOT_END};
static const struct slot integer16_out[] = {SLOT("Y", NULL, T_I32 | T_U32), SLOT_END};

static const char *integer16_text(const struct graph *g, const struct node *n)
{
	return node_in(g, n, 0)->info.type.dtype == DT_U16 && node_in(g, n, 1)->info.type.dtype == DT_U16
		       ? "Y = MatMul(Cast(A) {to=12}, Cast(B) {to=12})"
		       : "Y = MatMul(Cast(A) {to=6}, Cast(B) {to=6})";
}

/* com.microsoft::CDist: the distances between the rows of A and those of B. */
struct cdist {
	int metric;
};
enum { CDIST_SQUARES, CDIST_EUCLIDEAN };
static const struct slot cdist_in[] = {SLOT("A", "T", T_F32 | T_F64, .dims = "_ N"),
				       SLOT("B", "T", T_F32 | T_F64, .dims = "_ N"), SLOT_END};
static const struct slot cdist_out[] = {SLOT("C", "T", T_F32 | T_F64), SLOT_END};
static const struct field cdist_attrs[] = {
	FIELD_ENUM(struct cdist, metric, "sqeuclidean", "sqeuclidean|euclidean", "which distance"),
	{0}};

static const char *cdist_text(const struct graph *g, const struct node *n)
{
	bool root = ((const struct cdist *)n->params)->metric == CDIST_EUCLIDEAN;

	return arena_printf(g->arena,
			    "lengths = Add(ReduceSumSquare(A, [1]), Transpose(ReduceSumSquare(B, [1]))); "
			    "squares = Max(Sub(lengths, Mul(MatMul(A, Transpose(B)), 2)), 0); C = %s",
			    root ? "Sqrt(squares)" : "squares");
}

/*
 * com.microsoft::GemmFloat8: scaleA and scaleB turn what is stored into numbers, scaleY is a factor of what is stored, and the
 * activation comes before it.
 */
struct stored_gemm {
	int64_t transA, transB, dtype;
	float alpha, beta;
	int activation;
};
enum { STORED_NONE, STORED_RELU, STORED_GELU };
#define T_STORED (T_BIT(DT_F8E4M3FN) | T_BIT(DT_F8E5M2) | T_F16 | T_BF16 | T_F32)
static const struct slot stored_gemm_in[] = {
	SLOT("A", "TA", T_STORED, .dims = "_ _"),
	SLOT("B", "TB", T_STORED, .dims = "_ _"),
	SLOT_OPT("C", "TC", T_F16 | T_BF16 | T_F32, .dims = "_ _ | _"),
	SLOT_OPT("scaleA", "TS", T_F32, .dims = "() | 1"),
	SLOT_OPT("scaleB", "TS", T_F32, .dims = "() | 1"),
	SLOT_OPT("scaleY", "TS", T_F32, .dims = "() | 1"),
	SLOT_END};
static const struct slot stored_gemm_out[] = {SLOT("Y", NULL, T_STORED), SLOT_END};
static const struct field stored_gemm_attrs[] = {
	FIELD(struct stored_gemm, transA, F_INT, "0", "1: A is transposed"),
	FIELD(struct stored_gemm, transB, F_INT, "0", "1: B is transposed"),
	FIELD(struct stored_gemm, dtype, F_INT, "1", "element type of Y"),
	FIELD(struct stored_gemm, alpha, F_FLOAT, "1", "factor of the product"),
	FIELD(struct stored_gemm, beta, F_FLOAT, "0", "factor of C"),
	FIELD_ENUM(struct stored_gemm, activation, "NONE", "NONE|RELU|GELU", "activation"),
	{0}};

static int stored_gemm_infer(struct infer *c)
{
	const struct stored_gemm *p = infer_params(c);
	struct shape a = infer_shape(c, 0), b = infer_shape(c, 1), bias = infer_shape(c, 2), y;
	int64_t k, ta = p->transA != 0, tb = p->transB != 0;

	if (p->dtype < 0 || p->dtype >= 64 || !(T_STORED >> p->dtype & 1))
		return infer_fail(c, E_OP_ATTRIBUTE, -1, "dtype of a float of 8, 16 or 32 bits",
				  fmt(c->diag, "%" PRId64, p->dtype));
	y = shape_of(2, (int64_t[]){DIM_UNKNOWN, DIM_UNKNOWN});
	if (a.rank == 2 && b.rank == 2) {
		int err = infer_unify(c, 1, a.dim[!ta], b.dim[tb], &k);
		if (err)
			return err;
		y = shape_of(2, (int64_t[]){a.dim[ta], b.dim[!tb]});
	}
	if (!shape_broadcasts_to(&bias, &y))
		return infer_fail_shape(
			c, 2, fmt(c->diag, "a shape that broadcasts to %s", infer_shape_text(c, &y)),
			&bias);
	infer_set(c, 0, (enum dtype)p->dtype, &y);
	return 0;
}

static const char *stored_gemm_text(const struct graph *g, const struct node *n)
{
	const struct stored_gemm *p = n->params;
	bool added = node_in(g, n, 2) && p->beta != 0;

	return arena_printf(
		g->arena,
		"p = com.microsoft::FusedMatMul(Cast(A) {to=1}, Cast(B) {to=1}) {transA=$transA, transB=$transB, "
		"alpha=$alpha}; s = Mul(Mul(p, scaleA?), scaleB?); t = %s; y = %s; "
		"Y = Cast(Mul(y, scaleY?)) {to=$dtype}",
		added ? "Add(s, Mul(Cast(C) {to=1}, $beta))" : "s",
		p->activation == STORED_RELU   ? "Relu(t)"
		: p->activation == STORED_GELU ? "Gelu(t)"
					       : "t");
}

/* com.microsoft::SparseToDenseMatMul: sparse weights are dense once they are loaded. */
struct sparse_matmul {
	int64_t transA, transB;
	float alpha;
};
#define T_SPARSE (T_F32 | T_F64 | T_I32 | T_I64 | T_U32 | T_U64)
static const struct slot sparse_matmul_in[] = {SLOT("A", "T", T_SPARSE, .dims = "_ _"),
					       SLOT("B", "T", T_SPARSE, .dims = "_ _"), SLOT_END};
static const struct slot sparse_matmul_out[] = {SLOT("Y", "T", T_SPARSE), SLOT_END};
static const struct field sparse_matmul_attrs[] = {
	FIELD(struct sparse_matmul, transA, F_INT, "0", "1: A is transposed"),
	FIELD(struct sparse_matmul, transB, F_INT, "0", "1: B is transposed"),
	FIELD(struct sparse_matmul, alpha, F_FLOAT, "1", "factor of the product"),
	{0}};

static const char *sparse_matmul_text(const struct graph *g, const struct node *n)
{
	const struct sparse_matmul *p = n->params;

	return arena_printf(g->arena, "Y = Mul(MatMul(%s, %s), %s)", p->transA ? "Transpose(A)" : "A",
			    p->transB ? "Transpose(B)" : "B", p->alpha == 1 ? "1" : "$alpha");
}

#define GEMM_OP .params_size = sizeof(struct gemm_params), .infer = gemm_infer, .macs = gemm_macs

const struct op ops_matmul[] = {
	{.name = "MatMul",
	 .since = 13,
	 .reduced = REDUCED_COMPUTES,
	 .in = matmul_in,
	 .out = matmul_out,
	 .infer = matmul_infer,
	 .macs = matmul_macs,
	 .flags = OP_PRODUCT},
	{.name = "MatMul", .since = 9, .types = T_MATMUL_OLD},
	{.name = "MatMul", .since = 1, .types = T_FLOATS},

	{.name = "Gemm",
	 .since = 13,
	 .variant = PRODUCT_GEMM,
	 .reduced = REDUCED_COMPUTES,
	 .in = gemm_in,
	 .out = matmul_out,
	 .attrs = gemm_attrs,
	 GEMM_OP,
	 .flags = OP_PRODUCT},
	{.name = "Gemm", .since = 11, .types = T_MATMUL_OLD},
	{.name = "Gemm", .since = 9, .in = gemm9_in},
	{.name = "Gemm", .since = 7, .in = gemm9_in, .types = T_FLOATS},
	{.name = "Gemm", .since = 6, .in = gemm9_in, .types = T_FLOATS, .attrs = gemm6_attrs, GEMM_OP},
	{.name = "Gemm", .since = 1, .in = gemm9_in, .types = T_FLOATS, .attrs = gemm6_attrs, GEMM_OP},

	{.name = "Einsum",
	 .since = 28,
	 .in = einsum_in,
	 .out = einsum_out,
	 ATTRS(einsum_attrs, struct einsum),
	 .infer = einsum_infer,
	 .macs = einsum_macs},
	{.name = "Einsum", .since = 12, .types = T_NUMERIC},

	{.name = "Det", .since = 22, .in = det_in, .out = det_out, .infer = det_infer},
	{.name = "Det", .since = 11, .types = T_FLOATS},
	{.name = "Inverse", MICROSOFT, .in = det_in, .out = det_out, .types = T_FLOATS, .infer = inverse_infer},

	{.name = "FusedMatMul",
	 MICROSOFT,
	 .variant = PRODUCT_FUSED_MATMUL,
	 .reduced = REDUCED_COMPUTES,
	 .in = matmul_in,
	 .out = matmul_out,
	 ATTRS(fused_matmul_attrs, struct fused_matmul),
	 .types = T_FLOATS_BF,
	 .infer = fused_matmul_infer,
	 .macs = fused_matmul_macs,
	 .flags = OP_PRODUCT},
	{.name = "TransposeMatMul",
	 MICROSOFT,
	 .variant = PRODUCT_TRANSPOSE_MATMUL,
	 .reduced = REDUCED_COMPUTES,
	 .in = matmul_in,
	 .out = matmul_out,
	 ATTRS(transpose_matmul_attrs, struct fused_matmul),
	 .types = T_FLOATS_BF,
	 .infer = fused_matmul_infer,
	 .macs = fused_matmul_macs,
	 .flags = OP_PRODUCT},
	{.name = "FusedGemm",
	 MICROSOFT,
	 .in = gemm_in,
	 .out = matmul_out,
	 ATTRS(fused_gemm_attrs, struct fused_gemm_params),
	 .upgrade = fused_gemm_upgrade,
	 .types = T_FLOATS_BF,
	 .infer = gemm_infer,
	 .macs = gemm_macs,
	 .flags = OP_PRODUCT},
	{.name = "FusedMatMulActivation",
	 MICROSOFT,
	 .in = matmul_in,
	 .out = matmul_out,
	 ATTRS(activated_matmul_attrs, struct activated_matmul),
	 .upgrade = activated_matmul_upgrade,
	 .types = T_FLOATS_BF,
	 .flags = OP_PRODUCT},
	{.name = "GemmFastGelu",
	 MICROSOFT,
	 .in = fast_gelu_in,
	 .out = fast_gelu_out,
	 .expand = "Y = com.microsoft::FastGelu(MatMul(X, W), bias?)",
	 .flags = OP_PRODUCT},
	{.name = "MatMulInteger16",
	 MICROSOFT,
	 .in = integer16_in,
	 .out = integer16_out,
	 .expand_as = integer16_text},
	{.name = "CDist",
	 MICROSOFT,
	 .in = cdist_in,
	 .out = cdist_out,
	 ATTRS(cdist_attrs, struct cdist),
	 .expand_as = cdist_text,
	 .flags = OP_PRODUCT},
	{.name = "GemmFloat8",
	 MICROSOFT,
	 .in = stored_gemm_in,
	 .out = stored_gemm_out,
	 ATTRS(stored_gemm_attrs, struct stored_gemm),
	 .infer = stored_gemm_infer,
	 .expand_as = stored_gemm_text,
	 .flags = OP_PRODUCT},
	{.name = "SparseToDenseMatMul",
	 MICROSOFT,
	 .in = sparse_matmul_in,
	 .out = sparse_matmul_out,
	 ATTRS(sparse_matmul_attrs, struct sparse_matmul),
	 .expand_as = sparse_matmul_text,
	 .flags = OP_PRODUCT},
	{0}};
