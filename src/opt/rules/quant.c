/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rules for 8-bit networks. Quantization tools write a float operator between DequantizeLinear and QuantizeLinear ("QDQ");
 * the rules of kind QUANTIZE turn the three into one operator on codes. Where the float operator sums, sums of integers
 * are exact and those of floats are not, so that a result near a tie may be rounded to the other side. A function of one element
 * becomes a table of its 256 results, which the nodes themselves compute while constants are folded.
 */
#include "opt/rules/guards.h"

#include <math.h>

static bool is_codes(const struct match *m, const char *name)
{
	enum dtype t = match_dtype(m, name);

	return t == DT_U8 || t == DT_I8;
}

/* Scales outside of these bounds could make sums or factors of codes infinite, or lose bits of them. */
static bool is_scale(double s)
{
	return fabs(s) >= 0x1p-40 && fabs(s) <= 0x1p40;
}

/*
 * True if scale s and zero point z are constants of n elements, or of one, for codes. n is 1 for a value that has a single scale.
 * Only in blocks can scales have a rank above 1.
 */
static bool has_scales(struct match *m, const char *s, const char *z, int64_t n)
{
	const struct tensor *scale = match_const(m, s), *zero = match_const(m, z);

	if (!scale || !zero || tensor_dtype(scale) != DT_F32 || !is_codes(m, z))
		return match_why(m, "scales and zero points are no constants for 8 bits");
	int64_t count = tensor_count(scale);
	if (scale->shape.rank > 1 || zero->shape.rank > 1 || (count != 1 && count != n) ||
	    tensor_count(zero) != count)
		return match_why(m, "the scales are not one for all or one for each channel");
	for (int64_t i = 0; i < count; i++)
		if (!is_scale(elem_f64(DT_F32, scale->data, i)))
			return match_why(m, "a scale is too large or too small");
	return true;
}

/* True if y is quantized as a whole. */
static bool to_codes(struct match *m)
{
	return has_scales(m, "sy", "zy", 1) && (match_attr(m, "q", "precision", 0) == 0 ||
						match_attr(m, "q", "precision", 0) == DT_F32);
}

static bool from_codes(struct match *m)
{
	return is_codes(m, "x") && has_scales(m, "sx", "zx", 1);
}

static bool one_operand(struct match *m)
{
	return from_codes(m) && to_codes(m);
}

static bool pair_from_codes(struct match *m)
{
	return is_codes(m, "a") && is_codes(m, "b") && has_scales(m, "sa", "za", 1);
}

/* True if codes of two operands and of the result have one type, and each has a scalar scale. */
static bool two_operands(struct match *m)
{
	enum dtype t = match_dtype(m, "a");

	return pair_from_codes(m) && has_scales(m, "sb", "zb", 1) && to_codes(m) &&
	       ((t == match_dtype(m, "b") && t == match_dtype(m, "zy") && !match_rank(m, "sa") &&
		 !match_rank(m, "sb") && !match_rank(m, "sy")) ||
		match_why(m, "the codes differ in type, or a scale is no scalar"));
}

/* ---- products and convolutions ------------------------------------------------------------------------------------- */

enum {
	MAX_TERMS = 1 << 14
}; /* the sum of this number of products of codes, and a bias, fits in 32 bits */

static double scale_at(const struct tensor *t, int64_t i)
{
	return elem_f64(DT_F32, t->data, tensor_count(t) == 1 ? 0 : i);
}

/*
 * True if the bias, in units of the product of the scales sx and sw, is whole numbers that fit in 32 bits; what is lost by rounding it
 * must be far less than a code of the result, whose scale is sy (0: of a float, where nothing may be lost).
 */
static bool bias_in_units(struct match *m, const char *bias_name, const char *sx, const char *sw)
{
	const struct tensor *b = match_const(m, bias_name), *w = match_const(m, sw),
			    *y = match_const(m, "sy");
	double x = scale_at(match_const(m, sx), 0), loss = y ? fabs(scale_at(y, 0)) / 256 : 0;
	int64_t n = b ? tensor_count(b) : 0;

	if (!b || tensor_dtype(b) != DT_F32 || b->shape.rank != 1 ||
	    (tensor_count(w) != 1 && tensor_count(w) != n))
		return match_why(m, "the bias is no constant for each channel");
	for (int64_t i = 0; i < n; i++) {
		double unit = x * scale_at(w, i), v = elem_f64(DT_F32, b->data, i) / unit;
		if (!(fabs(v) < 1 << 30) ||
		    fabs(v - rint(v)) * fabs(unit) > loss + 1e-6 * fabs(v * unit))
			return match_why(m, "the bias is no multiple of the product of the scales");
	}
	return true;
}

/*
 * True if a kernel on tensor cores takes the convolution, or if it runs on the CPU. Without such a kernel a GPU is faster
 * with floats.
 */
static bool conv_is_fast(struct match *m)
{
	struct shape w = match_shape(m, "w");
	const struct tensor *z = match_const(m, "zw");

	if (!match_on_gpu(m))
		return true;
	for (int64_t i = 0; i < tensor_count(z); i++)
		if (tensor_dtype(z) != DT_I8 || elem_f64(DT_I8, z->data, i) != 0)
			return match_why(m, "the weights have zero points");
	return (w.rank == 4 && w.dim[0] % 16 == 0 && match_attr(m, "c", "group", 1) == 1 &&
		match_dtype(m, "w") == DT_I8) ||
	       match_why(m, "the GPU has no fast kernel for it");
}

static bool conv(struct match *m)
{
	struct shape w = match_shape(m, "w");
	const struct tensor *sw = match_const(m, "sw");

	if (!one_operand(m) || !is_codes(m, "w") || !shape_known(&w) || w.rank < 3 ||
	    !has_scales(m, "sw", "zw", w.dim[0]))
		return false;
	if (tensor_count(sw) != 1 && match_attr(m, "d", "axis", 1) != 0 &&
	    match_attr(m, "d", "axis", 1) != -w.rank)
		return match_why(m, "the scales of the weights are not one for each output channel");
	return conv_is_fast(m) &&
	       (shape_span(&w, 1, w.rank) <= MAX_TERMS || match_why(m, "sums may overflow 32 bits"));
}

static bool conv_bias(struct match *m)
{
	return conv(m) && bias_in_units(m, "b", "sx", "sw");
}

/*
 * True if a kernel of the GPU adds the residual r to the codes t of the convolution. The nodes before may be of a file that had codes
 * from the beginning, so that they are judged as those of a rule above are.
 */
static bool conv_residual(struct match *m)
{
	enum dtype type = match_dtype(m, "t");

	if (!match_on_gpu(m))
		return match_why(m, "the CPU has no kernel for it");
	if (match_value(m, "r") == match_value(m, "t") || !match_same_shape(m, "r", "t"))
		return match_why(m, "it is added to itself or to another shape");
	return match_const(m, "zw") && from_codes(m) && has_scales(m, "sc", "zc", 1) &&
	       has_scales(m, "sr", "zr", 1) && has_scales(m, "sy", "zy", 1) &&
	       match_dtype(m, "r") == type && match_dtype(m, "zy") == type && conv_is_fast(m);
}

/* True if b, whose last dimension but one (the last if it is turned) is summed over, has scales that a product of codes takes. */
static bool columns_scaled(struct match *m, bool turned)
{
	struct shape b = match_shape(m, "b");
	int64_t columns = b.rank == 2 ? b.dim[!turned] : 1,
		axis = (int64_t)match_attr(m, "d", "axis", 1);
	int64_t terms = b.rank >= 1 ? b.dim[b.rank > 1 && !turned ? b.rank - 2 : b.rank - 1] : -1;

	if (!pair_from_codes(m) || match_rank(m, "a") < 1 || !has_scales(m, "sb", "zb", columns))
		return false;
	if (tensor_count(match_const(m, "sb")) != 1 && (axis < 0 ? axis + 2 : axis) != !turned)
		return match_why(m, "the scales are not one for each column");
	return (terms >= 0 && terms <= MAX_TERMS) || match_why(m, "sums may overflow 32 bits");
}

static bool product(struct match *m)
{
	return to_codes(m) && columns_scaled(m, false);
}

/* True if nothing quantizes y: otherwise a rule at that QuantizeLinear does more. */
static bool stays_float(struct match *m)
{
	const struct value *y = match_value(m, "y");
	const struct graph *g = match_graph(m);

	for (uint32_t i = 0; i < y->nusers; i++)
		if (g->node[y->users[i]]->op == op_named("QuantizeLinear"))
			return match_why(m, "a QuantizeLinear follows");
	return true;
}

static bool float_product(struct match *m)
{
	return stays_float(m) && columns_scaled(m, false);
}

static bool plain_gemm(struct match *m)
{
	return columns_scaled(m, match_attr(m, "g", "transB", 0) != 0) &&
	       ((match_attr(m, "g", "alpha", 1) == 1 && match_attr(m, "g", "beta", 1) == 1) ||
		match_why(m, "factors of the product"));
}

static bool gemm(struct match *m)
{
	return to_codes(m) && plain_gemm(m);
}

static bool gemm_bias(struct match *m)
{
	return gemm(m) && bias_in_units(m, "c", "sa", "sb");
}

/* ---- what only moves or bounds codes --------------------------------------------------------------------------------- */

static bool same_type(struct match *m)
{
	return one_operand(m) && (match_dtype(m, "zx") == match_dtype(m, "zy") ||
				  match_why(m, "the codes differ in type"));
}

static bool scalar_same_type(struct match *m)
{
	return same_type(m) && ((!match_rank(m, "sx") && !match_rank(m, "sy")) ||
				match_why(m, "a scale is no scalar"));
}

static bool mean_of_picture(struct match *m)
{
	return scalar_same_type(m) && (match_rank(m, "x") == 4 || match_why(m, "the rank is not 4"));
}

/* True if each operand of a Concat has one scale. */
static bool concat(struct match *m)
{
	return to_codes(m) && pair_from_codes(m) && has_scales(m, "sb", "zb", 1);
}

/* True if larger codes mean larger numbers. */
static bool largest_first(struct match *m)
{
	return to_codes(m) &&
	       (scale_at(match_const(m, "sy"), 0) > 0 || match_why(m, "the scale is negative"));
}

static double code_of(const struct match *m, double v)
{
	const struct tensor *z = match_const(m, "zy");

	return rint((double)((float)v / (float)scale_at(match_const(m, "sy"), 0))) +
	       elem_f64(tensor_dtype(z), z->data, 0);
}

/* True if no code lies below `low` or above `high`, so that a function with these bounds does nothing before QuantizeLinear. */
static bool bounds_hold(struct match *m, double low, double high)
{
	bool is_signed = match_dtype(m, "zy") == DT_I8;

	return (scale_at(match_const(m, "sy"), 0) > 0 && code_of(m, low) <= (is_signed ? -128 : 0) &&
		code_of(m, high) >= (is_signed ? 127 : 255)) ||
	       match_why(m, "codes lie outside of the bounds");
}

static bool relu_holds(struct match *m)
{
	return to_codes(m) && bounds_hold(m, 0, (double)INFINITY);
}

static bool clip_holds(struct match *m)
{
	double low = -(double)INFINITY, high = (double)INFINITY;

	if ((match_value(m, "lo") && !match_number(m, "lo", &low)) ||
	    (match_value(m, "hi") && !match_number(m, "hi", &high)))
		return match_why(m, "the bounds are not known");
	return to_codes(m) && bounds_hold(m, low, high);
}

/* True if codes of y grow with its numbers, and the node before the bounds, which nothing else reads, computes on dequantized codes. */
static bool bounds_of_codes(struct match *m)
{
	const struct value *x = match_value(m, "x"), *in;
	const struct graph *g = match_graph(m);
	const struct node *n = value_maker(g, x);

	if (!to_codes(m) || scale_at(match_const(m, "sy"), 0) < 0 || x->nusers != 1 ||
	    x->is_output || !n)
		return false;
	in = node_in(g, n, 0);
	return (in && in->producer != NO_NODE &&
		g->node[in->producer]->op == op_named("DequantizeLinear")) ||
	       match_why(m, "what it bounds is computed in floats");
}

/* True if k is one number, so that it and a code make one of 256 results. */
static bool with_number(struct match *m)
{
	double v;

	return one_operand(m) &&
	       ((match_number(m, "k", &v) && match_rank(m, "k") <= match_rank(m, "x")) ||
		match_why(m, "the other operand is not one number"));
}

/* True if x goes through a table before and after. */
static bool tabled(struct match *m)
{
	return is_codes(m, "x") || match_why(m, "it has no codes of 8 bits");
}

static bool tabled_pair(struct match *m)
{
	return tabled(m) && match_rank(m, "t") == 1 && match_const(m, "zx") && match_const(m, "zt");
}

static bool zero_left_out(struct match *m)
{
	const struct tensor *s = match_const(m, "s");

	return (s && s->shape.rank <= 1 && tensor_dtype(s) == DT_F32 && is_codes(m, "x")) ||
	       match_why(m, "it has no codes of 8 bits");
}

static bool quantizes_to(struct match *m, enum dtype t)
{
	const struct tensor *s = match_const(m, "s");
	double as = match_attr(m, "q", "output_dtype", 0);

	return (s && s->shape.rank <= 1 && tensor_dtype(s) == DT_F32 &&
		(as == (double)t || (as == 0 && t == DT_U8))) ||
	       match_why(m, "it has no codes of 8 bits");
}

static bool quantizes_to_u8(struct match *m)
{
	return quantizes_to(m, DT_U8);
}

static bool quantizes_to_i8(struct match *m)
{
	return quantizes_to(m, DT_I8);
}

/* ---- products of integers that are scaled by nodes behind them ------------------------------------------------------------ */

/* True if a has a single scale and zero point, and b has a single one or one for each column. */
static bool scaled(struct match *m)
{
	const struct tensor *sb = match_const(m, "sb");
	struct shape a = match_shape(m, "a"), b = match_shape(m, "b"), sa = match_shape(m, "sa");
	int64_t n = tensor_count(sb);

	if (match_dtype(m, "sa") != DT_F32 || tensor_dtype(sb) != DT_F32 || b.rank != 2 || a.rank < 2)
		return match_why(m, "it is no fp32 product of a matrix with weights");
	if (shape_count(&sa) != 1 || sa.rank > 1 || sb->shape.rank > 1)
		return match_why(m, "the inputs have more than one scale");
	return n == 1 || n == b.dim[1] || match_why(m, "the scales are not one for each column");
}

static bool bias(struct match *m)
{
	const struct tensor *c = match_const(m, "c");
	struct shape b = match_shape(m, "b");

	return (tensor_dtype(c) == DT_F32 && c->shape.rank == 1 && b.rank == 2 &&
		c->shape.dim[0] == b.dim[1] && match_rank(m, "t") >= 2) ||
	       match_why(m, "the summand is no vector along the last dimension");
}

#define SAMPLE "a[2,3,8]:u8 b[8,5]:i8 za[]:u8 zb[]:i8 "

/* A dequantized operand, which other nodes may read as well; the quantized result of a node; all codes of x. */
#define DQ(x)	    "!DequantizeLinear(" x ", #s" x ", #z" x ")"
#define Q(text)	    "y = q: QuantizeLinear(" text ", #sy, #zy)"
#define ALL	    "DequantizeLinear(infer::AllCodes(zx), sx, zx)"
#define TABLE(text) "t = QuantizeLinear(" text ", sy, zy) {...q}; y = infer::CodeTable(x, t)"
#define WHOLE(text) "Cast(Round(" text ")) {to=6}"

#define S_X    "x[2,4,6,6]:u8 sx=0.02 zx[]:u8 "
#define S_Y    "sy=0.03 zy[]:u8 "
#define S_CONV S_X "w[8,4,3,3]:i8 sw+[8] zw[8]:i8 sy=3 zy[]:u8 "
#define S_CONV_TEXT(b)                                                                                \
	"y = QuantizeLinear(Conv(DequantizeLinear(x, sx, zx), DequantizeLinear(w, sw, zw) {axis=0}" b \
	"), sy, zy)"
#define S_CONV_ADD                                                                                 \
	S_X "w[16,4,3,3]:i8 sw+[16] zw=0:i8 sc=3 zc[]:u8 r[2,16,4,4]:u8 sr=0.03 "                  \
	    "zr[]:u8 " S_Y
#define S_PAIR	 "a[2,3,8]:u8 sa=0.02 za[]:u8 b[2,3,8]:u8 sb=0.03 zb[]:u8 sy=0.05 zy[]:u8"
#define S_MATRIX "a[3,8]:u8 sa=0.02 za[]:u8 b[8,5]:i8 sb=0.03 zb[]:i8 "

/* A function of one element, without and with a number as its other operand. */
#define FUNCTION(op)                                                                               \
	{                                                                                          \
		"codes-" op, QUANTIZE, Q("f: " op "(" DQ("x") ")"), TABLE(op "(" ALL ") {...f}"),  \
			one_operand, .sample = S_X S_Y                                             \
	}
#define WITH_NUMBER(op)                                                                            \
	{"codes-number-" op,                                                                       \
	 QUANTIZE,                                                                                 \
	 Q("f: " op "(" DQ("x") ", #k)"),                                                          \
	 TABLE(op "(" ALL ", k) {...f}"),                                                          \
	 with_number,                                                                              \
	 .sample = S_X S_Y "k=0.7"},                                                               \
	{                                                                                          \
		"codes-of-number-" op, QUANTIZE, Q("f: " op "(#k, " DQ("x") ")"),                  \
			TABLE(op "(k, " ALL ") {...f}"), with_number, .sample = S_X S_Y "k=0.7"    \
	}
/* An operator that moves elements; args are its other operands. If the scales differ, the codes are looked up before. */
#define MOVES(op, args, sample_)                                                                   \
	{"codes-" op,                                                                              \
	 QUANTIZE,                                                                                 \
	 "y = q: QuantizeLinear(f: " op "(!DequantizeLinear(x, #sy, #zy)" args "), #sy, #zy)",     \
	 "y = " op "(x" args ") {...f}",                                                           \
	 to_codes,                                                                                 \
	 .sample = sample_ S_Y},                                                                   \
	{                                                                                          \
		"codes-scaled-" op, QUANTIZE, Q("f: " op "(" DQ("x") args ")"),                    \
			"t = QuantizeLinear(" ALL ", sy, zy) {...q}; y = " op                      \
			"(infer::CodeTable(x, t)" args ") {...f}",                                 \
			one_operand, .sample = sample_ "sx=0.02 zx[]:u8 " S_Y                      \
	}

/* clang-format off */
const struct rule rules_quant[] = {
	{"codes-zero-point", QUANTIZE, "y = d: DequantizeLinear(x, #s)",
	 "y = DequantizeLinear(x, s, CastLike(Sub(s, s), x)) {...d}", zero_left_out,
	 .sample = "x[2,4]:i8 s=0.02"},
	{"codes-zero-point-u8", QUANTIZE, "y = q: QuantizeLinear(x, #s)",
	 "y = QuantizeLinear(x, s, Cast(Sub(s, s)) {to=2}) {...q}", quantizes_to_u8,
	 .sample = "x[2,4] s=0.02"},
	{"codes-zero-point-i8", QUANTIZE, "y = q: QuantizeLinear(x, #s) {output_dtype=3}",
	 "y = QuantizeLinear(x, s, Cast(Sub(s, s)) {to=3}) {...q}", quantizes_to_i8,
	 .sample = "x[2,4] s=0.02"},

	{"codes-relu-holds", QUANTIZE, Q("Relu(x)"), "y = QuantizeLinear(x, sy, zy) {...q}", relu_holds,
	 .sample = "x[2,8] sy=0.03 zy=0:u8"},
	{"codes-clip-holds", QUANTIZE, Q("Clip(x, #lo?, #hi?)"), "y = QuantizeLinear(x, sy, zy) {...q}",
	 clip_holds, .sample = "x[2,8] lo=0 hi=6 sy=0.02 zy=0:u8"},
	{"codes-relu-behind", QUANTIZE, Q("Relu(x)"), "y = Max(QuantizeLinear(x, sy, zy) {...q}, zy)", bounds_of_codes,
	 .sample = S_PAIR "; x = Add(DequantizeLinear(a, sa, za), DequantizeLinear(b, sb, zb)); " "y = QuantizeLinear(Relu(x), sy, zy)"},

	{"codes-clip-behind", QUANTIZE, Q("Clip(x, #lo?, #hi?)"),
	 "y = Clip(QuantizeLinear(x, sy, zy) {...q}, QuantizeLinear(lo?, sy, zy), QuantizeLinear(hi?, sy, zy))",
	 bounds_of_codes,
	 .sample = S_PAIR " lo=0.1 hi=0.7; x = Add(DequantizeLinear(a, sa, za), DequantizeLinear(b, sb, zb)); "
		   "y = QuantizeLinear(Clip(x, lo, hi), sy, zy)"},

	{"codes-conv-bias", QUANTIZE, Q("c: Conv(" DQ("x") ", d: " DQ("w") ", #b)"),
	 "y = QLinearConv(x, sx, zx, w, sw, zw, sy, zy, " WHOLE("Div(b, Mul(sx, sw))") ") {...c}",
	 conv_bias, true, .sample = S_CONV "b[8]; " S_CONV_TEXT(", b")},
	{"codes-conv", QUANTIZE, Q("c: Conv(" DQ("x") ", d: " DQ("w") ")"),
	 "y = QLinearConv(x, sx, zx, w, sw, zw, sy, zy) {...c}", conv, true, .sample = S_CONV "; " S_CONV_TEXT("")},
	{"codes-matmul", QUANTIZE, Q("MatMul(" DQ("a") ", d: " DQ("b") ")"),
	 "y = QLinearMatMul(a, sa, za, b, sb, zb, sy, zy)", product, true, .sample = S_MATRIX "sy=0.5 zy[]:u8"},
	{"codes-matmul-float", QUANTIZE, "y = MatMul(" DQ("a") ", d: " DQ("b") ")",
	 "y = com.microsoft::MatMulIntegerToFloat(a, b, sa, sb, za, zb)", float_product, true, .sample = S_MATRIX},
	{"codes-gemm-bias", QUANTIZE, Q("g: Gemm(" DQ("a") ", d: " DQ("b") ", #c)"),
	 "y = com.microsoft::QGemm(a, sa, za, b, sb, zb, " WHOLE("Div(c, Mul(sa, sb))") ", sy, zy) {...g}",
	 gemm_bias, true, .sample = S_MATRIX "c[5] sy=0.5 zy[]:u8"},
	{"codes-gemm", QUANTIZE, Q("g: Gemm(" DQ("a") ", d: " DQ("b") ")"),
	 "y = com.microsoft::QGemm(a, sa, za, b, sb, zb, _, sy, zy) {...g}", gemm, true,
	 .sample = S_MATRIX "sy=0.5 zy[]:u8"},

	{"codes-add", QUANTIZE, Q("Add(" DQ("a") ", " DQ("b") ")"),
	 "y = com.microsoft::QLinearAdd(a, sa, za, b, sb, zb, sy, zy)", two_operands, true, .sample = S_PAIR},
	{"codes-conv-add", QUANTIZE,
	 "t = c: QLinearConv(x, #sx, #zx, #w, sw, #zw, #sc, #zc, b?); "
	 "y = com.microsoft::QLinearAdd(t, #sc, #zc, r, #sr, #zr, #sy, #zy)",
	 "y = infer::QConvAdd(x, sx, zx, w, sw, zw, sc, zc, b, r, sr, zr, sy, zy) {...c}", conv_residual,
	 .sample = S_CONV_ADD},
	{"codes-add-conv", QUANTIZE,
	 "t = c: QLinearConv(x, #sx, #zx, #w, sw, #zw, #sc, #zc, b?); "
	 "y = com.microsoft::QLinearAdd(r, #sr, #zr, t, #sc, #zc, #sy, #zy)",
	 "y = infer::QConvAdd(x, sx, zx, w, sw, zw, sc, zc, b, r, sr, zr, sy, zy) {...c}", conv_residual,
	 .sample = S_CONV_ADD},
	{"codes-mul", QUANTIZE, Q("Mul(" DQ("a") ", " DQ("b") ")"),
	 "y = com.microsoft::QLinearMul(a, sa, za, b, sb, zb, sy, zy)", two_operands, true, .sample = S_PAIR},
	{"codes-average", QUANTIZE, Q("GlobalAveragePool(" DQ("x") ")"),
	 "y = com.microsoft::QLinearGlobalAveragePool(x, sx, zx, sy, zy)", scalar_same_type, true, .sample = S_X S_Y},
	{"codes-mean", QUANTIZE, Q("ReduceMean(" DQ("x") ", [2, 3]) {keepdims=1}"),
	 "y = com.microsoft::QLinearGlobalAveragePool(x, sx, zx, sy, zy)", mean_of_picture, true, .sample = S_X S_Y},
	{"codes-concat", QUANTIZE, Q("c: Concat(" DQ("a") ", " DQ("b") ")"),
	 "y = com.microsoft::QLinearConcat(sy, zy, a, sa, za, b, sb, zb) {axis=c.axis}", concat,
	 .sample = S_PAIR "; y = QuantizeLinear(Concat(DequantizeLinear(a, sa, za), DequantizeLinear(b, sb, zb)) {axis=1}, sy, zy)"},

	{"codes-same", QUANTIZE, "y = q: QuantizeLinear(!DequantizeLinear(x, #sy, #zy), #sy, #zy)", "y = x",
	 to_codes, .sample = "x[2,4]:u8 " S_Y},
	{"codes-scaled", QUANTIZE, Q(DQ("x")), TABLE(ALL), one_operand, .sample = S_X S_Y},
	{"codes-shape", QUANTIZE, "y = f: Shape(!DequantizeLinear(x, s, z))", "y = Shape(x) {...f}", tabled,
	 .sample = "x[2,4]:u8 s=0.02 z[]:u8"},
	{"codes-maxpool", QUANTIZE, "y = q: QuantizeLinear(f: MaxPool(!DequantizeLinear(x, #sy, #zy)), #sy, #zy)",
	 "y = MaxPool(x) {...f}", largest_first,
	 .sample = "x[2,4,6,6]:u8 " S_Y "; y = QuantizeLinear(MaxPool(DequantizeLinear(x, sy, zy)) {kernel_shape=[2,2]}, sy, zy)"},
	MOVES("Reshape", ", s", "x[2,6]:u8 s=[3,4] "),
	MOVES("Transpose", "", "x[2,6]:u8 "),
	MOVES("Flatten", "", "x[2,6,2]:u8 "),
	MOVES("Squeeze", ", s?", "x[2,1,6]:u8 s=[1] "),
	MOVES("Unsqueeze", ", s", "x[2,6]:u8 s=[1] "),
	MOVES("Expand", ", s", "x[2,1]:u8 s=[2,3] "),
	MOVES("Gather", ", i", "x[5,6]:u8 i=[3,1] "),
	MOVES("Slice", ", a, b, c?, d?", "x[5,6]:u8 a=[1] b=[4] c=[0] d=[2] "),
	
	FUNCTION("Sigmoid"), FUNCTION("HardSigmoid"), FUNCTION("HardSwish"), FUNCTION("Tanh"), FUNCTION("Relu"),
	FUNCTION("LeakyRelu"), FUNCTION("Elu"), FUNCTION("Gelu"), FUNCTION("Erf"), FUNCTION("Sqrt"), FUNCTION("Exp"),
	FUNCTION("Softplus"), FUNCTION("Swish"), FUNCTION("Mish"), FUNCTION("Neg"), FUNCTION("Abs"),
	WITH_NUMBER("Add"), WITH_NUMBER("Sub"), WITH_NUMBER("Mul"), WITH_NUMBER("Div"), WITH_NUMBER("Pow"),
	{"codes-clip", QUANTIZE, Q("Clip(" DQ("x") ", #lo?, #hi?)"), TABLE("Clip(" ALL ", lo, hi)"), one_operand,
	 .sample = S_X S_Y "lo=0.1 hi=0.6"},
	{"codes-erf-div", QUANTIZE, Q("Erf(Div(" DQ("x") ", #k))"), TABLE("Erf(Div(" ALL ", k))"), with_number,
	 .sample = S_X S_Y "k=1.4"},
	{"codes-sigmoid-table", QUANTIZE, "y = com.microsoft::QLinearSigmoid(x, #sx, #zx, #sy, #zy)",
	 "y = infer::CodeTable(x, com.microsoft::QLinearSigmoid(infer::AllCodes(zx), sx, zx, sy, zy))", tabled,
	 .sample = S_X S_Y},
	{"codes-times-table", QUANTIZE,
	 "y = com.microsoft::QLinearMul(x, #sx, #zx, infer::CodeTable(x, #t), #st, #zt, #sy, #zy)",
	 "y = infer::CodeTable(x, com.microsoft::QLinearMul(infer::AllCodes(zx), sx, zx, t, st, zt, sy, zy))",
	 tabled_pair, .sample = S_X "t[256]:u8 st=0.01 zt[]:u8 " S_Y},
	{"codes-table-times", QUANTIZE,
	 "y = com.microsoft::QLinearMul(infer::CodeTable(x, #t), #st, #zt, x, #sx, #zx, #sy, #zy)",
	 "y = infer::CodeTable(x, com.microsoft::QLinearMul(t, st, zt, infer::AllCodes(zx), sx, zx, sy, zy))",
	 tabled_pair, .sample = S_X "t[256]:u8 st=0.01 zt[]:u8 " S_Y},
	{"codes-two-tables", QUANTIZE, "y = infer::CodeTable(infer::CodeTable(x, #t), #u)",
	 "y = infer::CodeTable(x, infer::CodeTable(t, u))", tabled, .sample = "x[2,4]:u8 t[256]:u8 u[256]:u8"},
	/* clang-format on */

	{"integer-product-scaled", FUSE,
	 "y = Mul(Cast(MatMulInteger(a, b, za?, zb?)) {to=1}, !Mul(sa, #sb))",
	 "y = com.microsoft::MatMulIntegerToFloat(a, b, sa, sb, za?, zb?)", scaled,
	 .sample = SAMPLE "sa=0.02 sb=0.03"},
	{"integer-product-bias", FUSE,
	 "t = com.microsoft::MatMulIntegerToFloat(a, b, sa, sb, za?, zb?); y = Add(t, #c)",
	 "y = com.microsoft::MatMulIntegerToFloat(a, b, sa, sb, za?, zb?, c)", bias,
	 .sample = SAMPLE "sa=0.02 sb=0.03 c[5]"},
	{0}};
