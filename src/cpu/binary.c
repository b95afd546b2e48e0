/* SPDX-License-Identifier: Apache-2.0 */
/* Element-wise operators of two or more tensors, with broadcasting. */
#include "ops/binary.h"

#include "cpu/math/broadcast.h"
#include "cpu/math/function.h"
#include "cpu/math/simd.h"
#include "cpu/math/util.h"
#include "cpu/pointwise.h"
#include "ops/unary.h"

#include <math.h>
#include <string.h>

/* ---- loops that the SIMD table lacks --------------------------------------------------------- */

#define BIN(name, TA, TB, R, expr)                                                                 \
	static void name(const void *pa, const void *pb, void *py, int64_t n)                      \
	{                                                                                          \
		const TA *va = pa;                                                                 \
		const TB *vb = pb;                                                                 \
		R *y = py;                                                                         \
		for (int64_t i = 0; i < n; i++) {                                                  \
			TA a = va[i];                                                              \
			TB b = vb[i];                                                              \
			y[i] = (R)(expr);                                                          \
		}                                                                                  \
	}

/*
 * The remainder of a division by 0 is 0, as in numpy. A divisor of -1 is tested too, because INT_MIN % -1 traps on
 * x86. In C a shift by the type's width or more is undefined; here it shifts all bits out.
 */
#define SIGNED(t, T, U)                                                                            \
	BIN(fmod_##t, T, T, T, b == 0 || b == -1 ? 0 : a % b)                                      \
	static T floor_mod_##t(T a, T b)                                                           \
	{                                                                                          \
		T r = b == 0 || b == -1 ? (T)0 : (T)(a % b);                                       \
		return r && (r < 0) != (b < 0) ? (T)(r + b) : r;                                   \
	}                                                                                          \
	BIN(mod_##t, T, T, T, floor_mod_##t(a, b))                                                 \
	BIN(shl_##t, T, T, T, (U)b >= 8 * sizeof(T) ? (U)0 : (U)((U)a << b))                       \
	BIN(shr_##t, T, T, T, (U)b >= 8 * sizeof(T) ? (a < 0 ? -1 : 0) : a >> b)
#define UNSIGNED(t, T)                                                                             \
	BIN(fmod_##t, T, T, T, b == 0 ? 0 : a % b)                                                 \
	BIN(shl_##t, T, T, T, b >= 8 * sizeof(T) ? 0 : a << b)                                     \
	BIN(shr_##t, T, T, T, b >= 8 * sizeof(T) ? 0 : a >> b)
SIGNED(i8, int8_t, uint8_t)
SIGNED(i16, int16_t, uint16_t)
SIGNED(i32, int32_t, uint32_t)
SIGNED(i64, int64_t, uint64_t)
UNSIGNED(u8, uint8_t)
UNSIGNED(u16, uint16_t)
UNSIGNED(u32, uint32_t)
UNSIGNED(u64, uint64_t)
/* A division by 0 gives 0, as in numpy; INT64_MIN / -1 would trap on x86 and wraps to INT64_MIN instead. */
BIN(div_i64, int64_t, int64_t, int64_t, b == 0 ? 0 : b == -1 ? (int64_t)(0 - (uint64_t)a) : a / b)
BIN(div_u64, uint64_t, uint64_t, uint64_t, b == 0 ? 0 : a / b)

static double floor_mod(double a, double b)
{
	double r = fmod(a, b);

	if (r == 0)
		return copysign(0, b);
	return (r < 0) != (b < 0) ? r + b : r;
}
/*
 * Computes fmodf with a single division in double. The result is exact if the quotient is below 2^28, because the
 * product of the quotient and a 24-bit float then fits into the 53 bits of a double.
 */
static inline float quick_fmodf(float a, float b)
{
	double x = (double)fabsf(a), y = (double)fabsf(b), q = x / y;

	if (!(q < 0x1p28) || isinf(b)) /* q is too large or NaN, or q * y would be 0 * infinity */
		return fmodf(a, b);
	double r = x - (double)(int64_t)q * y;
	r = r < 0 ? r + y : r; /* r is negative if the division rounded q up to an integer */
	return copysignf((float)r, a);
}
static float floor_modf(float a, float b)
{
	float r = quick_fmodf(a, b);

	if (r == 0)
		return copysignf(0, b);
	return (r < 0) != (b < 0) ? r + b : r;
}
BIN(mod_f32, float, float, float, floor_modf(a, b))
BIN(mod_f64, double, double, double, floor_mod(a, b))
BIN(fmod_f32, float, float, float, quick_fmodf(a, b))
BIN(fmod_f64, double, double, double, fmod(a, b))
BIN(pow_f32, float, float, float, powf(a, b))
BIN(pow_f64, double, double, double, pow(a, b))

/* Integer power, which wraps on overflow. A negative exponent gives a truncated fraction: 0 unless a is 1 or -1. */
static uint64_t int_pow(int64_t a, int64_t b)
{
	uint64_t r = 1, base = (uint64_t)a;

	if (b < 0)
		return a == 1 ? 1 : a == -1 ? (b & 1 ? UINT64_MAX : 1) : 0;
	for (; b; b >>= 1, base *= base)
		if (b & 1)
			r *= base;
	return r;
}
BIN(pow_i32, int32_t, int32_t, int32_t, (uint32_t)int_pow(a, b))
BIN(pow_i64, int64_t, int64_t, int64_t, int_pow(a, b))

static void bias_gelu(const void *a, const void *b, void *y, int64_t n)
{
	simd()->bias_map(a, b, y, n, VF_GELU);
}
static void bias_gelu_tanh(const void *a, const void *b, void *y, int64_t n)
{
	simd()->bias_map(a, b, y, n, VF_GELU_TANH);
}
BIN(bias_gelu_f64, double, double, double, function_f64[VF_GELU](a + b, 0, 0))
BIN(bias_gelu_tanh_f64, double, double, double, function_f64[VF_GELU_TANH](a + b, 0, 0))

/* ---- operators ------------------------------------------------------------------------------- */

#define ALL_INTS(f)                                                                                \
	[DT_I8] = f##_i8, [DT_I16] = f##_i16, [DT_I32] = f##_i32, [DT_I64] = f##_i64,              \
	[DT_U8] = f##_u8, [DT_U16] = f##_u16, [DT_U32] = f##_u32, [DT_U64] = f##_u64

/* Tells how an operator is computed: with a row of the SIMD table, or with a loop of this file for each type. */
struct how {
	const char *op;
	int bin;	 /* row of the SIMD table (enum vbin), or -1 if there is none */
	bool swap;	 /* the operands are exchanged */
	bool gives_bool; /* the output type is bool */
	bool heavy;	 /* an element costs about as much as exp */
	simd_bin *loop[DT_COUNT];
};

static const struct how op_table[] = {
	{"Add", VB_ADD, false, false, false, {NULL}},
	{"Sub", VB_SUB, false, false, false, {NULL}},
	{"Mul", VB_MUL, false, false, false, {NULL}},
	{"Div", VB_DIV, false, false, false, {[DT_I64] = div_i64, [DT_U64] = div_u64}},
	{"Max", VB_MAX, false, false, false, {NULL}},
	{"Min", VB_MIN, false, false, false, {NULL}},
	{"Sum", VB_ADD, false, false, false, {NULL}},
	{"Mean", VB_ADD, false, false, false, {NULL}},
	{"And", VB_AND, false, true, false, {NULL}},
	{"Or", VB_OR, false, true, false, {NULL}},
	{"Xor", VB_XOR, false, true, false, {NULL}},
	{"BitwiseAnd", VB_AND, false, false, false, {NULL}},
	{"BitwiseOr", VB_OR, false, false, false, {NULL}},
	{"BitwiseXor", VB_XOR, false, false, false, {NULL}},
	{"Equal", VB_EQ, false, true, false, {NULL}},
	{"Less", VB_LT, false, true, false, {NULL}},
	{"LessOrEqual", VB_LE, false, true, false, {NULL}},
	{"Greater", VB_LT, true, true, false, {NULL}},
	{"GreaterOrEqual", VB_LE, true, true, false, {NULL}},
	{"PRelu", VB_PRELU, false, false, false, {NULL}},
	{"BiasGelu", -1, false, false, true, {[DT_F32] = bias_gelu, [DT_F64] = bias_gelu_f64}},
	{"FastGelu", -1, false, false, true, {[DT_F32] = bias_gelu_tanh, [DT_F64] = bias_gelu_tanh_f64}},
	{"Pow",
	 -1,
	 false,
	 false,
	 true,
	 {[DT_F32] = pow_f32, [DT_F64] = pow_f64, [DT_I32] = pow_i32, [DT_I64] = pow_i64}},
};
static const struct how shift_left = {"", -1, false, false, false, {ALL_INTS(shl)}};
static const struct how shift_right = {"", -1, false, false, false, {ALL_INTS(shr)}};
static const struct how fmod_loops = {
	"", -1, false, false, true, {ALL_INTS(fmod), [DT_F32] = fmod_f32, [DT_F64] = fmod_f64}};
static const struct how mod_loops = {"",
				     -1,
				     false,
				     false,
				     true,
				     {[DT_I8] = mod_i8,
				      [DT_I16] = mod_i16,
				      [DT_I32] = mod_i32,
				      [DT_I64] = mod_i64,
				      [DT_U8] = fmod_u8,
				      [DT_U16] = fmod_u16,
				      [DT_U32] = fmod_u32,
				      [DT_U64] = fmod_u64,
				      [DT_F32] = mod_f32,
				      [DT_F64] = mod_f64}};

static const struct how *find_op_loops(const struct node *n)
{
	if (n->op == op_named("BitShift"))
		return ((const struct bit_shift *)n->params)->direction ? &shift_right : &shift_left;
	if (n->op == op_named("Mod"))
		return ((const struct mod *)n->params)->fmod ? &fmod_loops : &mod_loops;
	for (size_t i = 0; i < sizeof(op_table) / sizeof(*op_table); i++)
		if (!strcmp(op_table[i].op, n->op->name))
			return &op_table[i];
	return NULL;
}

struct binary {
	const struct how *how;
	simd_bin *loop;	       /* computes in type `with` */
	enum dtype ta, tb, to; /* types of the two inputs and the output */
	enum dtype with;
	int64_t grain;
};

/* The type in which operators compute on elements of type t. */
static enum dtype compute_type(enum dtype t)
{
	return computes_in_f32(t) ? DT_F32 : t;
}

static void choose_loop(struct binary *b)
{
	b->with = compute_type(b->ta);
	b->loop = b->how->loop[b->with];
	if (!b->loop && b->how->bin >= 0)
		b->loop = simd()->bin[b->how->bin][b->with];
	b->grain = b->how->heavy ? GRAIN_HEAVY : GRAIN;
}

/* Converts n elements of any numeric type t to the compute type `with`. */
static void convert_elements(enum dtype t, const void *src, int64_t n, enum dtype with, void *dst)
{
	if (with == DT_F32 && dtype_class(t) == DT_FLOAT && t != DT_F64) {
		simd_to_f32(t, src, 0, n, dst);
		return;
	}
	for (int64_t i = 0; i < n; i++) {
		if (with == DT_F32 || with == DT_F64)
			elem_set_f64(with, dst, i, elem_f64(t, src, i));
		else
			elem_set_i64(with, dst, i, elem_i64(t, src, i));
	}
}

/*
 * Computes n elements if an operand does not have the compute type: converts each block to that type, runs the loop
 * and converts the result to the output type.
 */
static void binary_loop_converted(const struct binary *b, const void *pa, const void *pb, void *y,
				  int64_t n)
{
	_Alignas(64) char a[BLOCK * 8], c[BLOCK * 8], r[BLOCK * 8];
	int64_t sa = elem_size(b->ta), sb = elem_size(b->tb), so = elem_size(b->to);

	for (int64_t i = 0, m; i < n; i += m) {
		m = n - i < BLOCK ? n - i : BLOCK;
		const void *xa = at(pa, i * sa), *xb = at(pb, i * sb);
		if (b->ta != b->with) {
			convert_elements(b->ta, xa, m, b->with, a);
			xa = a;
		}
		if (b->tb != b->with) {
			convert_elements(b->tb, xb, m, b->with, c);
			xb = c;
		}
		void *to = at_mut(y, i * so);
		if (b->how->gives_bool || b->to == b->with) {
			b->loop(xa, xb, to, m);
			continue;
		}
		b->loop(xa, xb, r, m);
		simd_from_f32(b->to, (const float *)(const void *)r, m, to, 0);
	}
}

static void binary_loop(void *arg, const void *const *in, void *out, int64_t n)
{
	const struct binary *b = arg;
	const void *x = in[b->how->swap], *y = in[!b->how->swap];

	if (b->ta == b->with && b->tb == b->with)
		b->loop(x, y, out, n);
	else
		binary_loop_converted(b, x, y, out, n);
}

static int binary_reshape(struct site *s, struct step *step, struct diag *d)
{
	struct binary *b = arena_new(s->plan_arena, struct binary);

	(void)d;
	b->how = find_op_loops(s->node);
	b->ta = site_type(s, 0);
	b->tb = site_in(s, 1) ? site_type(s, 1) : b->ta;
	b->to = site_out_type(s, 0);
	choose_loop(b);
	step->state = b;
	if (!b->how->gives_bool || elem_size(b->ta) == 1) {
		allow_inplace(step, 0, 0);
		if (b->tb == b->ta)
			allow_inplace(step, 0, 1);
	}
	return 0;
}

static int fail_mixed_layouts(const struct call *c)
{
	return call_fail(c, E_INTERNAL, "inputs of one layout", "several");
}

static int binary_run(const struct call *c)
{
	struct binary *b = c->step->state;
	const void *data[2] = {c->in[0]->data, c->in[1]->data};
	struct bcast shape;

	if (!bcast_tensors(&shape, c->out[0], c->in, 2))
		return fail_mixed_layouts(c);
	bcast_run(&shape, data, c->out[0]->data, b->grain, binary_loop, b);
	return 0;
}

static bool has_no_strings(const struct site *s, struct why *w)
{
	if (site_type(s, 0) == DT_STRING)
		return refuse(w, "strings");
	return true;
}

/* ---- Pow: mixed types, small integer exponents ----------------------------------------------- */

/*
 * Raises an integer base to a float exponent. There is no loop for these types, so each element is computed in double.
 */
static void pow_mixed(void *arg, const void *const *in, void *out, int64_t n)
{
	const struct binary *b = arg;

	for (int64_t i = 0; i < n; i++)
		elem_set_f64(b->ta, out, i, pow(elem_f64(b->ta, in[0], i), elem_f64(b->tb, in[1], i)));
}

/* Arguments of pow_piece, which raises x to a constant exponent of 2, 3 or -1. */
struct pow_job {
	const struct binary *b;
	simd_map *map;
	const void *x;
	void *y;
};
static void pow_piece(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct pow_job *j = arg;
	float buf[BLOCK];

	(void)thread;
	if (j->b->ta == DT_F32) {
		j->map((const float *)j->x + begin, (float *)j->y + begin, end - begin, NULL);
		return;
	}
	for (int64_t n; begin < end; begin += n) {
		n = end - begin < BLOCK ? end - begin : BLOCK;
		simd_to_f32(j->b->ta, j->x, begin, n, buf);
		j->map(buf, buf, n, NULL);
		simd_from_f32(j->b->ta, buf, n, j->y, begin);
	}
}

static int pow_run(const struct call *c)
{
	struct binary *b = c->step->state;
	const struct tensor *e = c->in[1];
	const void *data[2] = {c->in[0]->data, e->data};
	struct bcast shape;

	if (b->with == DT_F32 && tensor_count(e) == 1 &&
	    physical_count(c->in[0]) == physical_count(c->out[0])) {
		double v = elem_f64(b->tb, e->data, 0);
		int f = v == 2 ? VF_SQUARE : v == 3 ? VF_CUBE : v == -1 ? VF_RECIPROCAL : -1;
		struct pow_job j = {b, f < 0 ? NULL : simd()->map[f], data[0], c->out[0]->data};
		if (j.map) {
			pool_for(physical_count(c->in[0]), GRAIN, pow_piece, &j);
			return 0;
		}
	}
	if (!bcast_tensors(&shape, c->out[0], c->in, 2))
		return fail_mixed_layouts(c);
	bool whole = dtype_class(b->with) != DT_FLOAT && dtype_class(b->tb) == DT_FLOAT;
	bcast_run(&shape, data, c->out[0]->data, b->grain, whole ? pow_mixed : binary_loop, b);
	return 0;
}

/* ---- Max, Min, Sum, Mean of any number of inputs --------------------------------------------- */

static int many_reshape(struct site *s, struct step *step, struct diag *d)
{
	struct binary *b = arena_new(s->plan_arena, struct binary);
	const struct vinfo *y = site_out(s, 0);

	b->how = find_op_loops(s->node);
	b->ta = b->tb = b->to = site_type(s, 0);
	choose_loop(b);
	step->state = b;
	/*
	 * For narrow float types the intermediate result stays in fp32, in the workspace, so that the result is
	 * rounded only once.
	 */
	if (b->with != b->ta && y) {
		size_t bytes;
		if (!tensor_bytes(DT_F32, &y->shape, LAYOUT_BLOCK16, &bytes))
			return FAIL(d, E_SIZE, .node = s->node->origin->name,
				    .op = s->node->origin->op);
		step->workspace = bytes;
	}
	allow_inplace(step, 0, 0);
	return 0;
}

struct scale_job {
	float *f;
	double *d;
	double by;
	void *y;
	enum dtype to;
};
static void scale_piece(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct scale_job *j = arg;
	float p[2] = {(float)j->by, 0};

	(void)thread;
	if (j->d) {
		for (int64_t i = begin; i < end; i++)
			j->d[i] *= j->by;
		return;
	}
	if (j->by != 1)
		simd()->map[VF_AFFINE](j->f + begin, j->f + begin, end - begin, p);
	if (j->y)
		simd_from_f32(j->to, j->f + begin, end - begin, j->y, begin);
}

/* Copies the first input to the intermediate result, converted to fp32 if the types differ. */
static void copy_loop(void *arg, const void *const *in, void *out, int64_t n)
{
	const struct binary *b = arg;

	if (b->to != b->ta)
		convert_elements(b->ta, in[0], n, b->to, out);
	else if (out != in[0])
		memmove(out, in[0], (size_t)(n * elem_size(b->ta)));
}

static int many_run(const struct call *c)
{
	struct binary b = *(const struct binary *)c->step->state;
	uint32_t n = c->step->nin;
	bool wide = b.with != b.ta;
	struct tensor acc = *c->out[0];
	struct bcast shape;

	if (wide) {
		acc.data = c->workspace;
		acc.type.dtype = (uint8_t)b.with;
		b.to = b.with;
	}
	for (uint32_t i = n > 1 && !wide ? 1 : 0; i < n; i++) {
		const struct tensor *in[2] = {&acc, c->in[i]};
		bool first = i == 0, second = i == 1 && !wide;
		if (second)
			in[0] = c->in[0];
		if (first)
			in[0] = c->in[0];
		const void *data[2] = {in[0]->data, in[1]->data};
		b.ta = tensor_dtype(in[0]);
		b.tb = tensor_dtype(in[1]);
		if (!bcast_tensors(&shape, &acc, in, first ? 1 : 2))
			return fail_mixed_layouts(c);
		bcast_run(&shape, data, acc.data, b.grain, first ? copy_loop : binary_loop, &b);
	}
	double by = c->step->node->op->variant == MANY_MEAN ? 1.0 / n : 1.0;
	if (!wide && by == 1.0)
		return 0;
	struct scale_job j = {acc.data, b.with == DT_F64 ? acc.data : NULL, by,
			      wide ? c->out[0]->data : NULL, tensor_dtype(c->out[0])};
	pool_for(physical_count(&acc), GRAIN, scale_piece, &j);
	return 0;
}

/* ---- strings --------------------------------------------------------------------------------- */

static bool where_strings_accepts(const struct site *s, struct why *w)
{
	return site_type(s, 1) == DT_STRING || refuse(w, "no strings");
}

/* Returns the offset of the element that output element k reads in an operand with these broadcast strides. */
static int64_t broadcast_index(const struct shape *out, const int64_t *strides, int64_t k)
{
	int64_t off = 0;

	for (int i = out->rank - 1; i >= 0; i--) {
		off += k % out->dim[i] * strides[i];
		k /= out->dim[i];
	}
	return off;
}

static int equal_strings_run(const struct call *c)
{
	int64_t sa[MAX_RANK], sb[MAX_RANK], n = tensor_count(c->out[0]);
	const struct shape *o = &c->out[0]->shape;
	uint8_t *y = c->out[0]->data;

	shape_broadcast_strides(&c->in[0]->shape, o, sa);
	shape_broadcast_strides(&c->in[1]->shape, o, sb);
	for (int64_t i = 0; i < n; i++) {
		size_t la, lb;
		const char *a = tensor_string(c->in[0], broadcast_index(o, sa, i), &la);
		const char *b = tensor_string(c->in[1], broadcast_index(o, sb, i), &lb);
		y[i] = la == lb && !memcmp(a, b, la);
	}
	return 0;
}

static int where_strings_run(const struct call *c)
{
	int64_t st[3][MAX_RANK];
	struct shape o = c->in[0]->shape;

	for (int k = 1; k < 3; k++) {
		struct shape before = o;
		if (!shape_broadcast(&before, &c->in[k]->shape, &o))
			return call_fail(c, E_SHAPE, "shapes that broadcast", "others");
	}
	int64_t n = shape_count(&o);
	struct arena *a = call_values(c, 0);
	const char **text = arena_new_n(a, const char *, (size_t)n + 1);
	size_t *length = arena_new_n(a, size_t, (size_t)n + 1);
	for (int k = 0; k < 3; k++)
		shape_broadcast_strides(&c->in[k]->shape, &o, st[k]);
	for (int64_t i = 0; i < n; i++) {
		const uint8_t *cond = c->in[0]->data;
		int k = cond[broadcast_index(&o, st[0], i)] ? 1 : 2;
		text[i] = tensor_string(c->in[k], broadcast_index(&o, st[k], i), &length[i]);
	}
	return call_strings(c, 0, &o, text, length);
}

/* ---- Where ----------------------------------------------------------------------------------- */

/* an element of 16 bytes */
struct pair {
	uint64_t a, b;
};

static void where_loop(void *arg, const void *const *in, void *out, int64_t n)
{
	const int64_t size = *(const int64_t *)arg;
	const uint8_t *c = in[0];
	const struct pair *a = in[1], *b = in[2];
	struct pair *y = out;

	if (size <= 8) {
		simd()->where[__builtin_ctzll((uint64_t)size)](c, a, b, y, n);
		return;
	}
	for (int64_t i = 0; i < n; i++)
		y[i] = c[i] ? a[i] : b[i];
}

static int where_reshape(struct site *s, struct step *step, struct diag *d)
{
	(void)s;
	(void)d;
	allow_inplace(step, 0, 1);
	allow_inplace(step, 0, 2);
	return 0;
}

static int where_run(const struct call *c)
{
	const void *data[3] = {c->in[0]->data, c->in[1]->data, c->in[2]->data};
	int64_t size = elem_size(tensor_dtype(c->in[1]));
	struct bcast shape;

	if (!bcast_tensors(&shape, c->out[0], c->in, 3))
		return fail_mixed_layouts(c);
	bcast_run(&shape, data, c->out[0]->data, GRAIN, where_loop, &size);
	return 0;
}

/* ---- gates and biases ------------------------------------------------------------------------ */

struct gate {
	enum dtype t;
	float alpha;
};

/* SwiGLU: a * sigmoid(alpha * a) * b. Type f64 is computed in double, all other types in fp32. */
static void swiglu_loop(void *arg, const void *const *in, void *out, int64_t n)
{
	const struct gate *g = arg;
	float a[BLOCK], b[BLOCK], p[2] = {g->alpha, 0};

	if (g->t == DT_F64) {
		const double *x = in[0], *y = in[1];
		for (int64_t i = 0; i < n; i++)
			((double *)out)[i] = x[i] / (1 + exp(-(double)g->alpha * x[i])) * y[i];
		return;
	}
	for (int64_t i = 0, m; i < n; i += m) {
		m = n - i < BLOCK ? n - i : BLOCK;
		simd_to_f32(g->t, in[0], i, m, a);
		simd_to_f32(g->t, in[1], i, m, b);
		simd()->map[VF_SWISH](a, a, m, p);
		simd()->bin[VB_MUL][DT_F32](a, b, a, m);
		simd_from_f32(g->t, a, m, out, i);
	}
}

/* GatedAdd: the product is rounded to the type before it is added. */
static int gated_add_run(const struct call *c)
{
	enum dtype t = tensor_dtype(c->out[0]);
	const struct shape *x = &c->in[0]->shape;
	int64_t row = x->dim[x->rank - 1], n = tensor_count(c->out[0]);

	for (int64_t i = 0; i < n; i++) {
		double product =
			elem_f64(t, c->in[1]->data, i) * elem_f64(t, c->in[2]->data, i / row);
		elem_set_f64(t, c->out[0]->data, i, product);
		elem_set_f64(t, c->out[0]->data, i,
			     elem_f64(t, c->in[0]->data, i) + elem_f64(t, c->out[0]->data, i));
	}
	return 0;
}

static int swiglu_run(const struct call *c)
{
	const void *data[2] = {c->in[0]->data, c->in[1]->data};
	struct gate g = {tensor_dtype(c->in[0]), ((const struct alpha *)call_params(c))->alpha};
	struct bcast shape;

	if (!bcast_tensors(&shape, c->out[0], c->in, 2))
		return fail_mixed_layouts(c);
	bcast_run(&shape, data, c->out[0]->data, GRAIN_HEAVY, swiglu_loop, &g);
	return 0;
}

/* FastGelu's bias is optional: without one, a scalar zero is broadcast in its place, so that one loop serves both. */
static int fast_gelu_run(const struct call *c)
{
	struct binary *b = c->step->state;
	static const uint64_t zero;
	const struct tensor none = {.type = c->in[0]->type, .data = NULL};
	const struct tensor *in[2] = {c->in[0], c->step->nin > 1 && c->in[1] ? c->in[1] : &none};
	const void *data[2] = {in[0]->data, in[1] == &none ? (const void *)&zero : in[1]->data};
	struct bcast shape;

	if (!bcast_tensors(&shape, c->out[0], in, 2))
		return fail_mixed_layouts(c);
	bcast_run(&shape, data, c->out[0]->data, b->grain, binary_loop, b);
	return 0;
}

/* x + bias + skip */
static void add3_loop(void *arg, const void *const *in, void *out, int64_t n)
{
	enum dtype t = *(const enum dtype *)arg;
	simd_bin *add = simd()->bin[VB_ADD][DT_F32];
	float a[BLOCK], b[BLOCK];

	if (t == DT_F64) {
		simd()->bin[VB_ADD][DT_F64](in[0], in[1], out, n);
		simd()->bin[VB_ADD][DT_F64](out, in[2], out, n);
		return;
	}
	for (int64_t i = 0, m; i < n; i += m) {
		m = n - i < BLOCK ? n - i : BLOCK;
		simd_to_f32(t, in[0], i, m, a);
		for (int k = 1; k < 3; k++) {
			simd_to_f32(t, in[k], i, m, b);
			add(a, b, a, m);
		}
		simd_from_f32(t, a, m, out, i);
	}
}

static int bias_add_run(const struct call *c)
{
	const void *data[3] = {c->in[0]->data, c->in[1]->data, c->in[2]->data};
	enum dtype t = tensor_dtype(c->in[0]);
	struct bcast shape;

	if (!bcast_tensors(&shape, c->out[0], c->in, 3))
		return fail_mixed_layouts(c);
	bcast_run(&shape, data, c->out[0]->data, GRAIN, add3_loop, &t);
	return 0;
}

struct split_job {
	const struct tensor *x, *bias;
	void *y;
	int64_t half;
};
static void split_gelu_piece(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct split_job *j = arg;
	enum dtype t = tensor_dtype(j->x);
	float a[BLOCK], b[BLOCK], w[BLOCK];
	const struct simd *s = simd();

	(void)thread;
	for (int64_t r = begin; r < end; r++) {
		for (int64_t i = 0, m; i < j->half; i += m) {
			m = j->half - i < BLOCK ? j->half - i : BLOCK;
			simd_to_f32(t, j->x->data, 2 * r * j->half + i, m, a);
			simd_to_f32(t, j->bias->data, i, m, w);
			s->bin[VB_ADD][DT_F32](a, w, a, m);
			simd_to_f32(t, j->x->data, (2 * r + 1) * j->half + i, m, b);
			simd_to_f32(t, j->bias->data, j->half + i, m, w);
			s->bias_map(b, w, b, m, VF_GELU);
			s->bin[VB_MUL][DT_F32](a, b, a, m);
			simd_from_f32(t, a, m, j->y, r * j->half + i);
		}
	}
}

static int bias_split_gelu_run(const struct call *c)
{
	const struct shape *s = &c->in[0]->shape;
	int64_t d = s->rank ? s->dim[s->rank - 1] : 0;
	struct split_job j = {c->in[0], c->in[1], c->out[0]->data, d / 2};

	if (d % 2 || tensor_count(c->in[1]) != d)
		return call_fail(c, E_SHAPE, "an even last dimension and a bias as long",
				 "other sizes");
	if (d)
		pool_for(tensor_count(c->in[0]) / d, rows_grain(GRAIN_HEAVY, d), split_gelu_piece, &j);
	return 0;
}

#define PLAIN(name)                                                                                \
	{                                                                                          \
		.op = (name), .flags = K_REFERENCE | K_ANY_LAYOUT, .accepts = has_no_strings,      \
		.reshape = binary_reshape, .run = binary_run                                       \
	}
#define MANY(name)                                                                                 \
	{                                                                                          \
		.op = (name), .flags = K_REFERENCE | K_ANY_LAYOUT, .reshape = many_reshape,        \
		.run = many_run                                                                    \
	}

#define IMAGE(name)                                                                                 \
	{                                                                                           \
		.op = (name), .types = T_F32 | T_F16 | T_BF16, .accepts = pointwise_binary_accepts, \
		.reshape = pointwise_binary_reshape, .run = pointwise_run                           \
	}

const struct kernel cpu_binary[] = {
	IMAGE("Add"),
	IMAGE("Sub"),
	IMAGE("Mul"),
	IMAGE("Div"),
	PLAIN("Add"),
	PLAIN("Sub"),
	PLAIN("Mul"),
	PLAIN("Div"),
	PLAIN("Mod"),
	PLAIN("And"),
	PLAIN("Or"),
	PLAIN("Xor"),
	PLAIN("Equal"),
	PLAIN("Greater"),
	PLAIN("GreaterOrEqual"),
	PLAIN("Less"),
	PLAIN("LessOrEqual"),
	PLAIN("BitShift"),
	PLAIN("BitwiseAnd"),
	PLAIN("BitwiseOr"),
	PLAIN("BitwiseXor"),
	PLAIN("PRelu"),
	PLAIN("com.microsoft::BiasGelu"),
	{.op = "Pow", .flags = K_REFERENCE | K_ANY_LAYOUT, .reshape = binary_reshape, .run = pow_run},
	MANY("Max"),
	MANY("Min"),
	MANY("Sum"),
	MANY("Mean"),
	{.op = "Equal", .types = T_STRING, .flags = K_REFERENCE, .run = equal_strings_run},
	{.op = "Where", .flags = K_REFERENCE, .accepts = where_strings_accepts, .run = where_strings_run},
	{.op = "Where", .flags = K_REFERENCE | K_ANY_LAYOUT, .reshape = where_reshape, .run = where_run},
	{.op = "com.microsoft::GatedAdd", .flags = K_REFERENCE, .run = gated_add_run},
	{.op = "SwiGLU", .flags = K_REFERENCE | K_ANY_LAYOUT, .run = swiglu_run},
	{.op = "com.microsoft::FastGelu",
	 .flags = K_REFERENCE | K_ANY_LAYOUT,
	 .reshape = binary_reshape,
	 .run = fast_gelu_run},
	{.op = "com.microsoft::BiasAdd", .flags = K_REFERENCE | K_ANY_LAYOUT, .run = bias_add_run},
	{.op = "com.microsoft::BiasSplitGelu", .flags = K_REFERENCE, .run = bias_split_gelu_run},
	{0}};
