/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/fused.h"

#include "ops/float8.h"
#include "ops/infer_util.h"
#include "ops/window.h"

#include <inttypes.h>

#define T_FUSED T_FLOATS_BF
#define SLOT_X(n)                                                                                  \
	{                                                                                          \
		.name = (n), .tvar = "T", .types = T_FUSED                                         \
	}
#define SLOT_O(n)                                                                                  \
	{                                                                                          \
		.name = (n), .tvar = "T", .types = T_FUSED, .optional = true                       \
	}

static const struct slot out_y[] = {SLOT_X("Y"), SLOT_END};

/* ---- Conv ------------------------------------------------------------------------------------ */

/* Checks input i, which is added to y. */
static int check_summand(const struct infer *c, uint32_t i, const struct shape *y)
{
	struct shape s = infer_shape(c, i);

	if (shape_broadcasts_to(&s, y))
		return 0;
	return infer_fail(c, E_SHAPE, (int)i,
			  fmt(c->diag, "a shape that broadcasts to %s", infer_shape_text(c, y)),
			  infer_shape_text(c, &s));
}

/* Input R of infer::Conv and infer::Gemm is added element by element. */
static int check_residual(const struct infer *c, const struct shape *y)
{
	struct shape r = infer_shape(c, 3);
	bool same = r.rank < 0 || r.rank == y->rank;

	for (int i = 0; same && i < r.rank; i++)
		same = r.dim[i] < 0 || y->dim[i] < 0 || r.dim[i] == y->dim[i];
	return same ? 0 : infer_fail(c, E_SHAPE, 3, infer_shape_text(c, y), infer_shape_text(c, &r));
}

static const struct slot in_conv[] = {
	{.name = "X", .tvar = "T", .types = T_FUSED, .dims = "N $group*C _ _..."},
	{.name = "W", .tvar = "T", .types = T_FUSED, .dims = "$group*M C _ _..."},
	{.name = "B", .tvar = "T", .types = T_FUSED, .optional = true, .dims = "$group*M"},
	SLOT_O("R"),
	SLOT_END};

static const struct field attrs_conv[] = {
	FIELD_ENUM(struct fused_conv, auto_pad, "NOTSET", "NOTSET|SAME_UPPER|SAME_LOWER|VALID",
		   "how pads are chosen"),
	FIELD(struct fused_conv, dilations, F_INTS, NULL, "step between kernel elements"),
	GROUP_FIELD(struct fused_conv),
	FIELD(struct fused_conv, kernel_shape, F_INTS, NULL, "spatial dims of W"),
	FIELD(struct fused_conv, pads, F_INTS, NULL, "begins, then ends"),
	FIELD(struct fused_conv, strides, F_INTS, NULL, "step between outputs"),
	FIELD_ENUM(struct fused_conv, act, "none", act_choices, "activation"),
	FIELD(struct fused_conv, act_alpha, F_FLOAT, "0", "its alpha"),
	FIELD(struct fused_conv, act_beta, F_FLOAT, "0", "its beta"),
	{0}};

static int64_t list_at(const struct ints *l, int64_t i, int64_t def)
{
	return i < l->n ? l->v[i] : def;
}

/* Output size of spatial dimension i, or DIM_UNKNOWN. */
static int64_t conv_out(const struct fused_conv *p, int i, int spatial, int64_t in, int64_t kernel)
{
	int64_t stride = list_at(&p->strides, i, 1), dilation = list_at(&p->dilations, i, 1);
	int64_t begin = 0, end = 0;

	if (kernel < 0)
		return DIM_UNKNOWN;
	if (p->auto_pad == FUSED_SAME_UPPER || p->auto_pad == FUSED_SAME_LOWER)
		return in < 0		   ? (stride == 1 ? in : DIM_UNKNOWN)
		       : stride < 1 || !in ? 0
					   : (in - 1) / stride + 1;
	if (p->auto_pad == FUSED_NOTSET) {
		begin = list_at(&p->pads, i, 0);
		end = list_at(&p->pads, i + spatial, 0);
	}
	return conv_dim(in, kernel, stride, dilation, begin, end, false);
}

/* The lists of the Conv that was replaced may have been read before its rank was known. */
static bool lists_fit(const struct fused_conv *p, int64_t spatial)
{
	return (p->strides.n <= 0 || p->strides.n == spatial) &&
	       (p->dilations.n <= 0 || p->dilations.n == spatial) &&
	       (p->pads.n <= 0 || p->pads.n == 2 * spatial);
}

static int infer_conv(struct infer *c)
{
	const struct fused_conv *p = infer_params(c);
	struct shape x = infer_shape(c, 0), w = infer_shape(c, 1), y = x;

	if (x.rank < 0 || w.rank < 0) {
		infer_set(c, 0, infer_dtype(c, 0), &SHAPE_UNKNOWN);
		return 0;
	}
	if (w.rank != x.rank)
		return infer_fail(c, E_SHAPE, 1, "W of the rank of X",
				  fmt(c->diag, "rank %d and %d", x.rank, w.rank));
	if (!lists_fit(p, x.rank - 2))
		return infer_fail(c, E_OP_ATTRIBUTE, -1, "strides, dilations and pads of each axis",
				  fmt(c->diag, "others than %d axes have", x.rank - 2));
	y.dim[1] = w.dim[0];
	for (int i = 0; i < x.rank - 2; i++) {
		int64_t n = conv_out(p, i, x.rank - 2, x.dim[i + 2], w.dim[i + 2]);

		/* an axis of no elements gives none, as in Conv */
		if (x.dim[i + 2] == 0 && w.dim[i + 2] >= 0 && n < 1)
			n = 0;
		else if (x.dim[i + 2] >= 0 && w.dim[i + 2] >= 0 && n < 1)
			return infer_fail(c, E_SHAPE, 0, "an input as large as the kernel",
					  fmt(c->diag, "output dim %d = %" PRId64, i + 2, n));
		y.dim[i + 2] = n;
	}
	infer_set(c, 0, infer_dtype(c, 0), &y);
	return check_residual(c, &y);
}

static int64_t macs_conv(const struct infer *c)
{
	const struct vinfo *y = infer_out(c, 0);
	struct shape w = infer_shape(c, 1);
	int64_t out = shape_count(&y->shape), per = shape_span(&w, 1, w.rank), n;

	if (out < 0 || per < 0 || __builtin_mul_overflow(out, per, &n))
		return 0;
	return n;
}

/* ---- Gemm ------------------------------------------------------------------------------------ */

static const struct slot in_gemm[] = {SLOT_X("A"), SLOT_X("B"), SLOT_O("C"), SLOT_O("R"), SLOT_END};

static const struct field attrs_gemm[] = {
	FIELD(struct fused_gemm, alpha, F_FLOAT, "1", "factor of the product"),
	FIELD(struct fused_gemm, beta, F_FLOAT, "1", "factor of C"),
	FIELD(struct fused_gemm, transA, F_INT, "0", "swap the last two dims of A"),
	FIELD(struct fused_gemm, transB, F_INT, "0", "swap the last two dims of B"),
	FIELD_ENUM(struct fused_gemm, act, "none", act_choices, "activation"),
	FIELD(struct fused_gemm, act_alpha, F_FLOAT, "0", "its alpha"),
	FIELD(struct fused_gemm, act_beta, F_FLOAT, "0", "its beta"),
	{0}};

static void swap_last(struct shape *s)
{
	int64_t t = s->dim[s->rank - 1];

	s->dim[s->rank - 1] = s->dim[s->rank - 2];
	s->dim[s->rank - 2] = t;
}

/* Sets *y to the shape of the product of a and b, each of rank 1 or more, after transA and transB were applied. */
static int product_shape(const struct infer *c, struct shape a, struct shape b, struct shape *y)
{
	bool vec_a = a.rank == 1, vec_b = b.rank == 1;
	struct shape batch_a, batch_b;
	int64_t k;
	int r;

	if (vec_a)
		a = shape_of(2, (int64_t[]){1, a.dim[0]});
	if (vec_b)
		b = shape_of(2, (int64_t[]){b.dim[0], 1});
	r = infer_unify(c, 1, a.dim[a.rank - 1], b.dim[b.rank - 2], &k);
	if (r)
		return r;
	batch_a = shape_of(a.rank - 2, a.dim);
	batch_b = shape_of(b.rank - 2, b.dim);
	if (!shape_broadcast(&batch_a, &batch_b, y))
		return infer_fail(c, E_SHAPE, 1, "batch dims that broadcast", infer_shape_text(c, &b));
	if (!vec_a)
		y->dim[y->rank++] = a.dim[a.rank - 2];
	if (!vec_b)
		y->dim[y->rank++] = b.dim[b.rank - 1];
	return 0;
}

static int infer_gemm(struct infer *c)
{
	const struct fused_gemm *p = infer_params(c);
	struct shape a = infer_shape(c, 0), b = infer_shape(c, 1), y = SHAPE_UNKNOWN;
	int r;

	if (a.rank >= 0 && b.rank >= 0) {
		if (a.rank < 1 + (p->transA != 0) || b.rank < 1 + (p->transB != 0))
			return infer_fail(c, E_SHAPE, 0, "a matrix", "fewer dimensions");
		if (p->transA)
			swap_last(&a);
		if (p->transB)
			swap_last(&b);
		r = product_shape(c, a, b, &y);
		if (!r)
			r = check_summand(c, 2, &y);
		if (!r)
			r = check_residual(c, &y);
		if (r)
			return r;
	}
	infer_set(c, 0, infer_dtype(c, 0), &y);
	return 0;
}

static int64_t macs_gemm(const struct infer *c)
{
	const struct fused_gemm *p = infer_params(c);
	struct shape a = infer_shape(c, 0);
	int64_t out = shape_count(&infer_out(c, 0)->shape), n;
	int64_t k = a.rank < 2 ? a.dim[0] : a.dim[p->transA ? a.rank - 2 : a.rank - 1];

	if (out < 0 || k < 0 || __builtin_mul_overflow(out, k, &n))
		return 0;
	return n;
}

/* ---- Attention ------------------------------------------------------------------------------- */

static const struct slot in_attention[] = {
	SLOT_X("Q"),
	SLOT_O("K"),
	SLOT_O("V"),
	{.name = "mask", .tvar = "M", .types = T_FUSED | T_BOOL, .optional = true},
	SLOT_END};

static const struct slot in_attention_float8[] = {SLOT("Q", NULL, T_F16), SLOT_OPT("K", NULL, T_F16),
						  SLOT_OPT("V", NULL, T_F16),
						  SLOT_OPT("mask", NULL, T_F16 | T_BOOL), SLOT_END};
static const struct slot out_attention_float8[] = {SLOT("Y", NULL, T_BIT(FLOAT8)), SLOT_END};

#define ATTENTION_FIELDS                                                                             \
	FIELD_REQ(struct fused_attention, num_heads, F_INT, "heads of Q"),                           \
		FIELD(struct fused_attention, kv_heads, F_INT, "0", "heads of K and V; 0: as many"), \
		FIELD(struct fused_attention, scale, F_FLOAT, "1", "factor of Q K^T"),               \
		FIELD(struct fused_attention, causal, F_INT, "0",                                    \
		      "1: from the first key, 2: to the last"),                                      \
		FIELD(struct fused_attention, k_transposed, F_INT, "0", "K is [B,H,D,T]"),           \
		FIELD(struct fused_attention, merged, F_INT, "1", "Y is [B,S,H*D]"),                 \
		FIELD(struct fused_attention, safe, F_INT, "0", "fully masked rows give 0")
static const struct field attrs_attention[] = {ATTENTION_FIELDS, {0}};
static const struct field attrs_attention_float8[] = {
	ATTENTION_FIELDS,
	FIELD_REQ(struct fused_attention, y_scale, F_FLOAT, "what Y is divided by"),
	{0}};

static int64_t dim_div(int64_t a, int64_t b)
{
	return a < 0 || b < 1 ? DIM_UNKNOWN : a / b;
}

static bool dims_agree(int64_t a, int64_t b)
{
	return a < 0 || b < 0 || a == b;
}

/* Reads input i as [batch, heads, rows, size of a head]; rank 3 has the heads side by side. */
static struct shape heads_apart(const struct infer *c, uint32_t i, int64_t heads, bool transposed)
{
	struct shape s = infer_shape(c, i);

	if (s.rank == 3)
		return shape_of(4, (int64_t[]){s.dim[0], heads, s.dim[1], dim_div(s.dim[2], heads)});
	if (s.rank == 4 && transposed)
		swap_last(&s);
	return s;
}

/* Refuses an input that is not `heads` heads: side by side in rank 3, in a dimension of their own in rank 4. */
static int check_heads(const struct infer *c, uint32_t i, int64_t heads)
{
	struct shape s = infer_shape(c, i);
	bool fits = s.rank == 3 ? s.dim[2] < 0 || s.dim[2] % heads == 0
				: s.rank != 4 || dims_agree(s.dim[1], heads);

	return fits ? 0
		    : infer_fail(c, E_SHAPE, (int)i, fmt(c->diag, "%" PRId64 " heads", heads),
				 infer_shape_text(c, &s));
}

/* Checks K and V against Q, and the mask against all of them: the patterns that were fused saw fewer sizes than a run does. */
static int check_attention(const struct infer *c, int64_t heads, int64_t kv)
{
	const struct fused_attention *p = infer_params(c);
	struct shape q = heads_apart(c, 0, heads, false),
		     k = heads_apart(c, 1, kv, p->k_transposed != 0),
		     v = heads_apart(c, 2, kv, false);
	struct shape score = {
		.rank = 4, .dim = {q.dim[0], heads, q.dim[2], k.rank == 4 ? k.dim[2] : DIM_UNKNOWN}};
	const struct shape *const both[] = {&k, &v};
	struct shape stored = infer_shape(c, 1);
	int err = check_heads(c, 0, heads);

	err = err ? err : check_heads(c, 1, kv);
	err = err ? err : check_heads(c, 2, kv);
	if (err)
		return err;
	if (p->k_transposed && stored.rank == 3)
		return infer_fail(c, E_SHAPE, 1, "rank 4", "rank 3");
	for (int i = 0; i < 2; i++) {
		const struct shape *s = both[i];
		struct shape given = infer_shape(c, (uint32_t)i + 1);
		bool fits = s->rank < 0 ||
			    (s->rank == 4 && dims_agree(s->dim[0], q.dim[0]) &&
			     dims_agree(s->dim[1], kv) && dims_agree(s->dim[2], score.dim[3]) &&
			     (i || dims_agree(s->dim[3], q.dim[3])));
		if (!fits)
			return infer_fail(c, E_SHAPE, i + 1,
					  fmt(c->diag, "heads that fit %s", infer_shape_text(c, &q)),
					  infer_shape_text(c, &given));
	}
	return check_summand(c, 3, &score);
}

static int infer_attention(struct infer *c)
{
	const struct fused_attention *p = infer_params(c);
	const enum dtype type = p->y_scale > 0 ? FLOAT8 : infer_dtype(c, 0);
	bool packed = infer_in(c, 1) == NULL;
	int64_t heads = p->num_heads, kv = p->kv_heads > 0 ? p->kv_heads : heads, size;
	struct shape q = infer_shape(c, 0), v = packed ? q : infer_shape(c, 2), y;

	if (heads < 1 || heads % kv)
		return infer_fail(c, E_VALUE, -1, "num_heads, a multiple of kv_heads",
				  fmt(c->diag, "%" PRId64 " and %" PRId64, heads, kv));
	if (q.rank < 0 || v.rank < 0) {
		infer_set(c, 0, type, &SHAPE_UNKNOWN);
		return 0;
	}
	if (q.rank < 3 || q.rank > 4 || v.rank < 3 || v.rank > 4 || (packed && q.rank != 3))
		return infer_fail(c, E_SHAPE, 0, "rank 3 or 4", fmt(c->diag, "rank %d", q.rank));
	int err = packed ? check_heads(c, 0, 3 * heads) : check_attention(c, heads, kv);
	if (err)
		return err;
	size = packed	     ? dim_div(q.dim[2], 3 * heads)
	       : v.rank == 4 ? v.dim[3]
			     : dim_div(v.dim[2], kv);
	if (p->merged)
		y = shape_of(3, (int64_t[]){q.dim[0], q.dim[q.rank - 2], known_product(heads, size)});
	else
		y = shape_of(4, (int64_t[]){q.dim[0], heads, q.dim[q.rank - 2], size});
	infer_set(c, 0, type, &y);
	return 0;
}

static int64_t macs_attention(const struct infer *c)
{
	const struct fused_attention *p = infer_params(c);
	struct shape q = infer_shape(c, 0), k = infer_in(c, 1) ? infer_shape(c, 1) : q;
	int64_t keys = k.dim[k.rank - (p->k_transposed ? 1 : 2)];
	int64_t out = shape_count(&infer_out(c, 0)->shape),
		n = known_product(known_product(out, keys), 2);

	return n < 0 ? 0 : n;
}

/* ---- AddLayerNorm ---------------------------------------------------------------------------- */

static const struct slot in_addnorm[] = {
	{.name = "X", .tvar = "T", .types = T_FUSED, .dims = "... D"},
	{.name = "R", .tvar = "T", .types = T_FUSED, .dims = "... D"},
	{.name = "Scale", .tvar = "T", .types = T_FUSED, .dims = "D"},
	{.name = "B", .tvar = "T", .types = T_FUSED, .optional = true, .dims = "D"},
	SLOT_END};
static const struct slot out_addnorm[] = {SLOT_X("Y"), SLOT_O("S"), SLOT_END};

static const struct field attrs_addnorm[] = {
	FIELD(struct fused_addnorm, epsilon, F_FLOAT, "1e-05", "added to the variance"), {0}};

static int infer_addnorm(struct infer *c)
{
	struct shape x = infer_shape(c, 0);

	infer_set(c, 0, infer_dtype(c, 0), &x);
	if (infer_out(c, 1))
		infer_set(c, 1, infer_dtype(c, 0), &x);
	return 0;
}

/* ---- Pointwise ------------------------------------------------------------------------------- */

static const struct slot in_pointwise[] = {
	{.name = "in", .tvar = "T", .types = T_FUSED, .variadic = true}, SLOT_END};
static const struct slot out_pointwise[] = {
	{.name = "out", .tvar = "T", .types = T_FUSED, .variadic = true}, SLOT_END};

static const struct field attrs_pointwise[] = {
	FIELD(struct fused_pointwise, code, F_INTS, NULL, "instructions, 4 numbers each"),
	FIELD(struct fused_pointwise, consts, F_FLOATS, NULL, "constants of the program"),
	FIELD(struct fused_pointwise, outs, F_INTS, NULL, "instruction of each output"),
	FIELD(struct fused_pointwise, expr, F_STRING, NULL, "the program as text"),
	{0}};

static int infer_pointwise(struct infer *c)
{
	struct vinfo y;
	int r = infer_broadcast(c);

	if (r)
		return r;
	y = *infer_out(c, 0);
	for (uint32_t i = 1; i < c->node->nout; i++)
		if (infer_out(c, i))
			infer_set(c, i, infer_dtype(c, 0), &y.shape);
	return 0;
}

const struct op ops_fused[] = {
	{"Conv", .domain = "infer", .since = 1, .reduced = REDUCED_COMPUTES, .in = in_conv,
	 .out = out_y, ATTRS(attrs_conv, struct fused_conv), .infer = infer_conv, .macs = macs_conv,
	 .flags = OP_CONVOLUTION | OP_INTERNAL},
	{"Gemm", .domain = "infer", .since = 1, .reduced = REDUCED_COMPUTES, .in = in_gemm,
	 .out = out_y, ATTRS(attrs_gemm, struct fused_gemm), .infer = infer_gemm, .macs = macs_gemm,
	 .flags = OP_PRODUCT | OP_INTERNAL},
	{"Attention", .domain = "infer", .since = 1, .reduced = REDUCED_COMPUTES, .reduced_in = 1 << 3,
	 .in = in_attention, .out = out_y, ATTRS(attrs_attention, struct fused_attention),
	 .infer = infer_attention, .macs = macs_attention, .flags = OP_INTERNAL},
	{"AttentionFloat8", .domain = "infer", .since = 1, .in = in_attention_float8,
	 .out = out_attention_float8, ATTRS(attrs_attention_float8, struct fused_attention),
	 .infer = infer_attention, .macs = macs_attention, .flags = OP_INTERNAL},
	{"AddLayerNorm", .domain = "infer", .since = 1, .reduced = REDUCED_COMPUTES,
	 .in = in_addnorm, .out = out_addnorm, ATTRS(attrs_addnorm, struct fused_addnorm),
	 .infer = infer_addnorm, .flags = OP_INTERNAL | OP_OPTIONAL_OUT},
	{"Pointwise", .domain = "infer", .since = 1, .reduced = REDUCED_COMPUTES,
	 .in = in_pointwise, .out = out_pointwise, ATTRS(attrs_pointwise, struct fused_pointwise),
	 .infer = infer_pointwise, .flags = OP_INTERNAL | OP_ELEMENTWISE},
	{0}};
