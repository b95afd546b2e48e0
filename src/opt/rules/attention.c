/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rules that recognize attention that exporters write as several nodes (MatMul, Softmax, MatMul, ...). First
 * softmax(q k^T) v on heads of rank 4 becomes infer::Attention; then scales, transposes, and the splitting and
 * merging of heads are absorbed into it.
 */
#include "opt/rules/guards.h"

enum { JOINED_BYTES = 1 << 20 };

/*
 * True if the number of heads is known, q, k and v have rank 4 and one batch, and the mask does not enlarge the scores.
 * Dims that exporters give names of their own, one an input, are taken for equal.
 */
static bool core(struct match *m)
{
	struct shape s = match_shape(m, "s"), t = match_shape(m, "t");

	if (!is_fusable(m, "q"))
		return match_why(m, "the type is not fp32, fp16 or bf16");
	if (match_rank(m, "q") != 4 || match_rank(m, "k") != 4 || match_rank(m, "v") != 4)
		return match_why(m, "q, k or v is not of rank 4");
	if (dim_at(m, "q", 1) < 1 || dim_at(m, "k", 1) != dim_at(m, "q", 1) ||
	    dim_at(m, "v", 1) != dim_at(m, "q", 1))
		return match_why(m, "the number of heads is not known or differs");
	if (!dims_agree(dim_at(m, "q", 0), dim_at(m, "k", 0)) ||
	    !dims_agree(dim_at(m, "q", 0), dim_at(m, "v", 0)))
		return match_why(m, "the batches of q, k and v may differ");
	if (!match_value(m, "t"))
		return true;
	if (t.rank != 4)
		return match_why(m, "the mask may have more dimensions than the scores");
	for (int i = 0; s.rank == 4 && i < 4; i++)
		if (!dims_agree(s.dim[i], t.dim[i]))
			return match_why(m, "the mask may be larger than the scores");
	return true;
}

static bool core_scaled(struct match *m)
{
	double v;
	return match_number(m, "c", &v) && core(m);
}

static bool scalar(struct match *m)
{
	double v;
	return match_number(m, "s", &v);
}

/* True if h [B,S,H,D] is x [B,S,H*D] split into `count` heads. */
static bool heads(struct match *m, const char *x, const char *h, double count)
{
	if (match_rank(m, x) != 3 || match_rank(m, h) != 4 ||
	    !dims_equal(dim_at(m, x, 0), dim_at(m, h, 0)) ||
	    !dims_equal(dim_at(m, x, 1), dim_at(m, h, 1)))
		return match_why(m, "the batch or sequence dimension changes");
	return (double)dim_at(m, h, 2) == count && dim_at(m, h, 3) > 0;
}

static double count_heads(const struct match *m)
{
	return match_attr(m, "a", "num_heads", 0);
}

static bool split_q(struct match *m)
{
	return heads(m, "q", "h", count_heads(m));
}

static bool split_k(struct match *m)
{
	return heads(m, "k", "h", count_heads(m));
}

static bool split_v(struct match *m)
{
	return heads(m, "v", "h", count_heads(m));
}

/* True if y [B,S,H*D] is h [B,S,H,D] with the heads merged. */
static bool merged(struct match *m)
{
	struct shape h = match_shape(m, "h"), y = match_shape(m, "y");

	if (h.rank != 4 || y.rank != 3 || !dims_equal(h.dim[0], y.dim[0]) ||
	    !dims_equal(h.dim[1], y.dim[1]))
		return match_why(m, "the batch or sequence dimension changes");
	return h.dim[2] > 0 && h.dim[3] > 0 && y.dim[2] == h.dim[2] * h.dim[3];
}

/*
 * True if y [B*S,H*D] is h [B,S,H,D] with the heads merged, and batch and sequence merged too; a Reshape then
 * remains.
 */
static bool merged_rows(struct match *m)
{
	struct shape h = match_shape(m, "h"), y = match_shape(m, "y");

	return h.rank == 4 && y.rank == 2 && h.dim[2] > 0 && h.dim[3] > 0 &&
	       y.dim[1] == h.dim[2] * h.dim[3];
}

/* True if x [B,S,3*H*D] is reshaped to f [B,S,3,H,D] and split into q, k and v of [B,H,S,D] each. */
static bool packed(struct match *m)
{
	struct shape x = match_shape(m, "x"), f = match_shape(m, "f");

	if (x.rank != 3 || f.rank != 5 || f.dim[2] != 3 || (double)f.dim[3] != count_heads(m) ||
	    f.dim[4] < 1)
		return match_why(m, "the input does not hold q, k and v of all heads");
	return (dims_equal(x.dim[1], f.dim[1]) || dims_equal(x.dim[0], f.dim[0])) &&
	       x.dim[2] == 3 * f.dim[3] * f.dim[4] && match_attr(m, "a", "kv_heads", 0) == 0;
}

/* True if q, k and v are the three equal parts of x along its last axis. */
static bool thirds(struct match *m)
{
	int64_t n = dim_at(m, "x", 2);

	return match_rank(m, "x") == 3 && n > 0 && dim_at(m, "q", 2) == n / 3 &&
	       dim_at(m, "k", 2) == n / 3 && dim_at(m, "v", 2) == n / 3 && n % 3 == 0 &&
	       match_attr(m, "a", "kv_heads", 0) == 0;
}

/* True if k is transposed by way of rank 3: [B,H,T,D] -> [B*H,T,D] -> [B*H,D,T] -> [B,H,D,T]. */
static bool through_rank3(struct match *m)
{
	struct shape x = match_shape(m, "x"), f = match_shape(m, "f"), y = match_shape(m, "y");

	if (x.rank != 4 || f.rank != 3 || y.rank != 4)
		return false;
	return dims_equal(x.dim[0], y.dim[0]) && dims_equal(x.dim[1], y.dim[1]) &&
	       dims_equal(x.dim[2], y.dim[3]) && dims_equal(x.dim[3], y.dim[2]) &&
	       dims_equal(f.dim[1], x.dim[2]) && dims_equal(f.dim[2], x.dim[3]);
}

/* Whether the mask is a constant that is true somewhere in each of its rows, as a causal one is. */
static bool leaves_keys(const struct tensor *b)
{
	int64_t n = b && b->shape.rank ? b->shape.dim[b->shape.rank - 1] : 1, seen = 0;

	for (int64_t i = 0; b && i < tensor_count(b); i++) {
		seen += ((const uint8_t *)b->data)[i] != 0;
		if ((i + 1) % n == 0 && !seen)
			return false;
		seen = (i + 1) % n ? seen : 0;
	}
	return b != NULL;
}

/*
 * True if n is at most -1e9: Where(mask, scores, n) then acts like scores + Where(mask, 0, HIDING), because in fp32 both
 * make the softmax 0 where mask is false, and equal for all keys of a row in which it is false everywhere: to HIDING a
 * score adds nothing, where -1e9 would keep what differs by 32 and more.
 */
#define HIDING "Min(n, -1e30)"
static bool huge(struct match *m)
{
	double v;

	if (!match_number(m, "n", &v) || v > -1e9 || !core_scaled(m))
		return false;
	/* in fp16 no number hides whole rows: to its least one, -65504, scores do add */
	return !match_in_f16(m) || leaves_keys(match_const(m, "b")) ||
	       match_why(m, "in fp16 the mask may hide whole rows");
}

#define ATT   "infer::Attention(q, k, v, m) {num_heads=@q[1], k_transposed=1, merged=0"
#define ATT0  "infer::Attention(q, k, v) {num_heads=@q[1], k_transposed=1, merged=0"
#define Q     "q[2,3,5,4] k[2,3,4,6] v[2,3,6,4]"
#define M     Q " m[2,1,5,6]"
#define DOT   "s = MatMul(q, k); "
#define SAFE  "p = Softmax(t) {axis=-1}; y = MatMul(Where(IsNaN(p), 0, p), v)"
#define PLAIN "y = MatMul(Softmax(t) {axis=-1}, v)"
/*
 * Makes two rules: `text` computes t from the scores s, followed in one rule by a plain softmax, in the other by one
 * that turns NaN into 0.
 */
#define CORE(n, text, to_, guard, sample_)                                                         \
	{.name = "attention-" n,                                                                   \
	 .kind = FUSE,                                                                             \
	 .from = DOT text PLAIN,                                                                   \
	 .to = "y = " to_ "}",                                                                     \
	 .when = guard,                                                                            \
	 .inexact = true,                                                                          \
	 .sample = sample_},                                                                       \
	{                                                                                          \
		.name = "attention-safe-" n, .kind = FUSE, .from = DOT text SAFE,                  \
		.to = "y = " to_ ", safe=1}", .when = guard, .inexact = true, .sample = sample_    \
	}

/*
 * Whether three products of the same x become one of the concatenated weights: always on a GPU, on the host only if the
 * weights are small, since the concatenated copy costs memory.
 */
static bool joins(struct match *m)
{
	struct shape w = match_shape(m, "w");
	int64_t bytes = shape_count(&w) < 0 ? 0 : shape_count(&w) * 4;

	if (!is_fusable(m, "x") || match_rank(m, "x") != 3 || w.rank != 2 || bytes < 1 ||
	    (bytes > JOINED_BYTES && !match_on_gpu(m)))
		return match_why(m, "the weights are large or not of rank 2");
	return match_same_shape(m, "w", "u") && match_same_shape(m, "w", "t") &&
	       match_rank(m, "b") == 1 && match_same_shape(m, "b", "c") &&
	       match_same_shape(m, "b", "d") && dim_at(m, "b", 0) == w.dim[1] &&
	       match_attr(m, "a", "kv_heads", 0) == 0;
}

#define LINEAR(w, b)                                                                               \
	"infer::Gemm(x, #" w ", #" b ") {act=none, alpha=1, beta=1, transA=0, transB=0}"
#define CUT "f = Reshape(x, z); h = Transpose(f) {perm=[2,0,3,1,4]}; "
#define KSAMPLE(perm, k)                                                                           \
	"q[2,3,5,4] " k " v[2,3,6,4] m[2,1,5,6]; "                                                 \
	"y = infer::Attention(q, Transpose(k) {perm=" perm "}, v, m) {num_heads=3, k_transposed=1}"
#define M0 "q[2,3,5,4] k[2,3,6,4] v[2,3,6,4] m[2,1,5,6]"
#define MERGED                                                                                     \
	"y = Reshape(Transpose(infer::Attention(q, k, v, m) {num_heads=3, merged=0}) {perm=[0,2,1,3]}, z)"
#define PACKED "x[2,5,36] z=[2,5,3,3,4]; " CUT

#define A(in) "y = a: infer::Attention(" in ")"

const struct rule rules_attention[] = {
	CORE("mul-mask", "t = Add(Mul(s, #c), m); ", ATT ", scale=@c*1", core_scaled, M " c=0.5"),
	CORE("div-mask", "t = Add(Div(s, #c), m); ", ATT ", scale=1/@c", core_scaled, M " c=2"),
	CORE("mask", "t = Add(s, m); ", ATT ", scale=1", core, M),
	CORE("mul", "t = Mul(s, #c); ", ATT0 ", scale=@c*1", core_scaled, Q " c=0.5"),
	CORE("div", "t = Div(s, #c); ", ATT0 ", scale=1/@c", core_scaled, Q " c=2"),
	{"attention", FUSE, "s = MatMul(q, k); y = MatMul(Softmax(s) {axis=-1}, v)",
	 "y = " ATT0 ", scale=1}", core, true, .sample = Q},
	{"attention-where-div", FUSE, DOT "t = Where(b, Div(s, #c), #n); " PLAIN,
	 "y = infer::Attention(q, k, v, Where(b, 0, " HIDING
	 ")) {num_heads=@q[1], k_transposed=1, merged=0, scale=1/@c}",
	 huge, true, .sample = Q " b[2,1,5,6]:bool c=2 n=-1e9"},
	{"attention-scaled-q", FUSE, A("Mul(q, #s), k, v, m?"),
	 "y = infer::Attention(q, k, v, m) {...a, scale=a.scale*@s}", scalar, true,
	 .sample = M
	 " s=0.5; y = infer::Attention(Mul(q, s), k, v, m) {num_heads=3, k_transposed=1, merged=0}"},
	{"attention-scaled-k", FUSE, A("q, Mul(k, #s), v, m?"),
	 "y = infer::Attention(q, k, v, m) {...a, scale=a.scale*@s}", scalar, true,
	 .sample = M
	 " s=0.5; y = infer::Attention(q, Mul(k, s), v, m) {num_heads=3, k_transposed=1, merged=0}"},
	{"attention-divided-q", FUSE, A("Div(q, #s), k, v, m?"),
	 "y = infer::Attention(q, k, v, m) {...a, scale=a.scale/@s}", scalar, true,
	 .sample = M
	 " s=0.5; y = infer::Attention(Div(q, s), k, v, m) {num_heads=3, k_transposed=1, merged=0}"},
	{"attention-divided-k", FUSE, A("q, Div(k, #s), v, m?"),
	 "y = infer::Attention(q, k, v, m) {...a, scale=a.scale/@s}", scalar, true,
	 .sample = M
	 " s=0.5; y = infer::Attention(q, Div(k, s), v, m) {num_heads=3, k_transposed=1, merged=0}"},
	{"transpose-through-rank3", RECOGNIZE,
	 "f = Reshape(x, s); y = Reshape(Transpose(f) {perm=[0,2,1]}, z)",
	 "y = Transpose(x) {perm=[0,1,3,2]}", through_rank3,
	 .sample = "x[2,3,4,5] s=[6,4,5] z=[2,3,5,4]"},
	{"attention-k-transposed", FUSE,
	 "y = a: infer::Attention(q, Transpose(k) {perm=[0,1,3,2]}, v, m?) {k_transposed=1}",
	 "y = infer::Attention(q, k, v, m) {...a, k_transposed=0}",
	 .sample = KSAMPLE("[0,1,3,2]", "k[2,3,6,4]")},
	{"attention-k-permuted", FUSE,
	 "y = a: infer::Attention(q, Transpose(k) {perm=[0,2,3,1]}, v, m?) {k_transposed=1}",
	 "y = infer::Attention(q, Transpose(k) {perm=[0,2,1,3]}, v, m) {...a, k_transposed=0}",
	 .sample = KSAMPLE("[0,2,3,1]", "k[2,6,3,4]")},
	{"attention-merge", FUSE,
	 "h = Transpose(a: infer::Attention(q, k?, v?, m?) {merged=0}) {perm=[0,2,1,3]}; y = Reshape(h, z)",
	 "y = infer::Attention(q, k, v, m) {...a, merged=1}", merged,
	 .sample = M0 " z=[2,5,-1]; " MERGED},
	{"attention-merge-rows", FUSE,
	 "h = Transpose(a: infer::Attention(q, k?, v?, m?) {merged=0}) {perm=[0,2,1,3]}; y = Reshape(h, z)",
	 "y = Reshape(infer::Attention(q, k, v, m) {...a, merged=1}, z)", merged_rows,
	 .sample = M0 " z=[10,12]; " MERGED},
	{"attention-split-q", FUSE, "h = Reshape(q, z); " A("Transpose(h) {perm=[0,2,1,3]}, k, v, m?"),
	 "y = infer::Attention(q, k, v, m) {...a}", split_q,
	 .sample = "q[2,5,12] z=[2,5,3,4] k[2,3,6,4] v[2,3,6,4]; y = infer::Attention(Transpose(Reshape(q, z)) "
		   "{perm=[0,2,1,3]}, k, v) {num_heads=3}"},
	{"attention-split-k", FUSE,
	 "h = Reshape(k, z); " A("q, Transpose(h) {perm=[0,2,1,3]}, v, m?") " {k_transposed=0}",
	 "y = infer::Attention(q, k, v, m) {...a}", split_k,
	 .sample = "q[2,3,5,4] k[2,6,12] z=[2,6,3,4] v[2,3,6,4]; y = infer::Attention(q, Transpose(Reshape(k, z)) "
		   "{perm=[0,2,1,3]}, v) {num_heads=3}"},
	{"attention-split-v", FUSE, "h = Reshape(v, z); " A("q, k, Transpose(h) {perm=[0,2,1,3]}, m?"),
	 "y = infer::Attention(q, k, v, m) {...a}", split_v,
	 .sample = "q[2,3,5,4] k[2,3,6,4] v[2,6,12] z=[2,6,3,4]; y = infer::Attention(q, k, Transpose(Reshape(v, z)) "
		   "{perm=[0,2,1,3]}) {num_heads=3}"},
	{"attention-thirds", FUSE, "q, k, v = Split(x, s?) {axis=2}; " A("q, k, v, m?"),
	 "y = infer::Attention(x, _, _, m) {...a}", thirds,
	 .sample = "x[2,5,36] s=[12,12,12]; q, k, v = Split(x, s) {axis=2}; y = infer::Attention(q, k, v) {num_heads=3}"},
	{"attention-join-qkv", FUSE,
	 A(LINEAR("w", "b") ", " LINEAR("u", "c") ", " LINEAR("t", "d") ", m?"),
	 "y = infer::Attention(infer::Gemm(x, Concat(w, u, t) {axis=1}, Concat(b, c, d) {axis=0}), _, _, m) {...a}",
	 joins,
	 .sample = "x[2,5,6] w[6,12] b[12] u[6,12] c[12] t[6,12] d[12]; y = infer::Attention("
		   "infer::Gemm(x, w, b), infer::Gemm(x, u, c), infer::Gemm(x, t, d)) {num_heads=3}"},
	{"attention-packed-split", FUSE,
	 CUT "q, k, v = Split(h, s?) {axis=0}; " A(
		 "Squeeze(q, [0]), Squeeze(k, [0]), Squeeze(v, [0]), m?") " {k_transposed=0}",
	 "y = infer::Attention(x, _, _, m) {...a}", packed,
	 .sample = PACKED
	 "q, k, v = Split(h, [1,1,1]) {axis=0}; y = infer::Attention(Squeeze(q, [0]), Squeeze(k, [0]), Squeeze(v, [0])) {num_heads=3}"},
	{"attention-packed-slice", FUSE,
	 CUT
	 "q = Slice(h, [0], [1], [0], s0?); k = Slice(h, [1], [2], [0], s1?); v = Slice(h, [2], [3], [0], s2?); " A(
		 "Squeeze(q, [0]), Squeeze(k, [0]), Squeeze(v, [0]), m?") " {k_transposed=0}",
	 "y = infer::Attention(x, _, _, m) {...a}", packed,
	 .sample = PACKED
	 "y = infer::Attention(Squeeze(Slice(h, [0], [1], [0]), [0]), Squeeze(Slice(h, [1], [2], [0]), [0]), "
	 "Squeeze(Slice(h, [2], [3], [0]), [0])) {num_heads=3}"},
	{"attention-packed-gather", FUSE,
	 CUT "q = Gather(h, 0) {axis=0}; k = Gather(h, 1) {axis=0}; v = Gather(h, 2) {axis=0}; " A(
		 "q, k, v, m?") " {k_transposed=0}",
	 "y = infer::Attention(x, _, _, m) {...a}", packed,
	 .sample = PACKED
	 "y = infer::Attention(Gather(h, 0) {axis=0}, Gather(h, 1) {axis=0}, Gather(h, 2) {axis=0}) {num_heads=3}"},
	{0}};
