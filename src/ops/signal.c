/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/signal.h"

#include "ops/infer_util.h"

#include <inttypes.h>

static const char *dims(const struct infer *c, const struct shape *s)
{
	return infer_shape_text(c, s);
}

/* The single element of input i; DIM_UNKNOWN if it is not known. */
static int64_t scalar_input(struct infer *c, uint32_t i)
{
	struct shape v;

	return infer_ints(c, i, &v) && v.rank == 1 && v.dim[0] >= 0 ? v.dim[0] : DIM_UNKNOWN;
}

static int check_not_negative(const struct infer *c, uint32_t i, const struct tensor *t)
{
	int64_t v = t && tensor_count(t) == 1 ? elem_i64(tensor_dtype(t), t->data, 0) : 0;

	return v < 0 ? infer_fail(c, E_VALUE, (int)i, "at least 0", fmt(c->diag, "%" PRId64, v)) : 0;
}

/* ---- DFT -------------------------------------------------------------------------------------- */

static int dft_infer(struct infer *c)
{
	const struct dft *p = infer_params(c);
	struct shape x = infer_shape(c, DFT_X), y = x;
	const struct tensor *at = infer_in(c, DFT_AXIS) ? infer_value(c, DFT_AXIS) : NULL;
	int64_t axis = -2, length;
	int a, rc;

	if (x.rank < 0 || (infer_in(c, DFT_AXIS) && !at)) {
		for (int i = 0; i < y.rank; i++)
			y.dim[i] = DIM_UNKNOWN;
		infer_set(c, 0, infer_dtype(c, DFT_X), &y);
		return 0;
	}
	if (x.rank < 2 || (x.dim[x.rank - 1] >= 0 && x.dim[x.rank - 1] != 1 && x.dim[x.rank - 1] != 2))
		return infer_fail(c, E_SHAPE, DFT_X,
				  "rank 2 or more and a last dimension of 1 or 2", dims(c, &x));
	/* half of the frequencies says all of a real signal only; their inverse starts from complex numbers */
	if (p->onesided && x.dim[x.rank - 1] == (p->inverse ? 1 : 2))
		return infer_fail(c, E_SHAPE, DFT_X,
				  fmt(c->diag, "a last dimension of %d, since onesided is 1",
				      p->inverse ? 2 : 1),
				  dims(c, &x));
	if (at)
		axis = elem_i64(tensor_dtype(at), at->data, 0);
	a = axis_of(axis, x.rank);
	if (a < 0 || a == x.rank - 1)
		return infer_fail(c, E_VALUE, DFT_AXIS,
				  fmt(c->diag, "an axis before the last one of rank %d", x.rank),
				  fmt(c->diag, "%" PRId64, axis));
	if (infer_in(c, DFT_LENGTH)) {
		length = scalar_input(c, DFT_LENGTH);
		if ((rc = check_not_negative(c, DFT_LENGTH, infer_in(c, DFT_LENGTH)->known)))
			return rc;
	} else {
		length = x.dim[a];
		if (p->inverse && p->onesided && length > 0)
			length = 2 * (length - 1);
	}
	y.dim[a] = length;
	if (p->onesided && !p->inverse)
		y.dim[a] = length >= 0 ? length / 2 + 1 : DIM_UNKNOWN;
	y.dim[x.rank - 1] = p->onesided && p->inverse ? 1 : 2;
	infer_set(c, 0, infer_dtype(c, DFT_X), &y);
	return 0;
}

static int dft17_upgrade(struct edit *e)
{
	const struct dft *old = e->node->params;
	struct dft *p = edit_params(e);

	p->inverse = old->inverse;
	p->onesided = old->onesided;
	if (e->node->nin < 2)
		node_set_in(e->graph, e->node, 1, NO_VALUE);
	edit_const_scalar(e, DFT_AXIS, (double)old->axis, DT_I64);
	return 0;
}

/* ---- STFT ------------------------------------------------------------------------------------- */

static int stft_infer(struct infer *c)
{
	const struct stft *p = infer_params(c);
	struct shape x = infer_shape(c, STFT_X), w = infer_shape(c, STFT_WINDOW);
	struct shape y = shape_of(4, (int64_t[]){DIM_UNKNOWN, DIM_UNKNOWN, DIM_UNKNOWN, 2});
	int64_t step = scalar_input(c, STFT_STEP), length = DIM_UNKNOWN;

	if (x.rank >= 0 && x.rank != 2 &&
	    (x.rank != 3 || (x.dim[2] >= 0 && x.dim[2] != 1 && x.dim[2] != 2)))
		return infer_fail(c, E_SHAPE, STFT_X, "[batch, length, 1 or 2]", dims(c, &x));
	if (infer_in(c, STFT_LENGTH))
		length = scalar_input(c, STFT_LENGTH);
	else if (infer_in(c, STFT_WINDOW))
		length = w.rank == 1 ? w.dim[0] : DIM_UNKNOWN;
	else if (x.rank >= 2)
		length = x.dim[1];
	if (infer_in(c, STFT_LENGTH) && length > 0 && w.rank == 1 && w.dim[0] >= 0 &&
	    w.dim[0] != length)
		return infer_fail(c, E_SHAPE, STFT_WINDOW,
				  fmt(c->diag, "[%" PRId64 "], the frame_length", length),
				  dims(c, &w));
	if (step == 0 || length == 0)
		return infer_fail(c, E_VALUE, STFT_STEP, "a frame step and length of at least 1", "0");
	if (x.rank >= 2 && x.dim[1] >= 0 && length > x.dim[1])
		return infer_fail(c, E_VALUE, STFT_LENGTH,
				  fmt(c->diag,
				      "a frame of at most %" PRId64 " samples, the signal's length",
				      x.dim[1]),
				  fmt(c->diag, "%" PRId64, length));
	if (x.rank >= 2) {
		y.dim[0] = x.dim[0];
		if (x.dim[1] >= 0 && length > 0 && step > 0)
			y.dim[1] = x.dim[1] < length ? 0 : 1 + (x.dim[1] - length) / step;
	}
	if (length > 0)
		y.dim[2] = p->onesided ? length / 2 + 1 : length;
	infer_set(c, 0, infer_dtype(c, STFT_X), &y);
	return 0;
}

/* ---- windows ---------------------------------------------------------------------------------- */

static int output_type(const struct infer *c, int64_t t)
{
	if (t < 1 || t >= DT_COUNT || !(T_BIT(t) & T_NUMERIC_BF))
		return infer_fail(c, E_OP_ATTRIBUTE, -1, "output_datatype of a number's type",
				  fmt(c->diag, "%" PRId64, t));
	return 0;
}

static int window_infer(struct infer *c)
{
	const struct signal_window *p = infer_params(c);
	int64_t n = scalar_input(c, 0);
	struct shape y = shape_of(1, &n);
	int rc = output_type(c, p->output_datatype);

	if (!rc && infer_in(c, 0))
		rc = check_not_negative(c, 0, infer_in(c, 0)->known);
	if (!rc)
		infer_set(c, 0, (enum dtype)p->output_datatype, &y);
	return rc;
}

/* The lower edge of a mel spectrum lies below the upper one. */
static int check_edges(const struct infer *c)
{
	double edge[2];

	for (uint32_t i = 0; i < 2; i++) {
		const struct tensor *t = infer_in(c, i + 3) ? infer_in(c, i + 3)->known : NULL;
		if (!t || tensor_count(t) != 1)
			return 0;
		edge[i] = elem_f64(tensor_dtype(t), t->data, 0);
	}
	if (!(edge[0] > edge[1]))
		return 0;
	return infer_fail(c, E_VALUE, 3, fmt(c->diag, "at most upper_edge_hertz, %g", edge[1]),
			  fmt(c->diag, "%g", edge[0]));
}

static int mel_infer(struct infer *c)
{
	const struct mel *p = infer_params(c);
	int64_t bins = scalar_input(c, 0), length = scalar_input(c, 1);
	struct shape y = shape_of(2, (int64_t[]){length >= 0 ? length / 2 + 1 : DIM_UNKNOWN, bins});
	int rc = output_type(c, p->output_datatype);

	for (uint32_t i = 0; !rc && i < 3; i++)
		if (infer_in(c, i))
			rc = check_not_negative(c, i, infer_in(c, i)->known);
	if (!rc)
		rc = check_edges(c);
	if (!rc)
		infer_set(c, 0, (enum dtype)p->output_datatype, &y);
	return rc;
}

/* ---- rows ------------------------------------------------------------------------------------- */

#define T_SIZE (T_I32 | T_I64)
static const struct slot dft_in[] = {SLOT("input", "T", T_FLOATS_BF),
				     SLOT_OPT("dft_length", "T2", T_SIZE, .dims = "() | 1"),
				     SLOT_OPT("axis", NULL, T_I64, .dims = "() | 1"), SLOT_END};
static const struct slot dft17_in[] = {SLOT("input", "T", T_FLOATS_BF),
				       SLOT_OPT("dft_length", "T2", T_SIZE, .dims = "() | 1"),
				       SLOT_END};
static const struct slot dft_out[] = {SLOT("output", "T", T_FLOATS_BF), SLOT_END};
static const struct slot stft_in[] = {
	SLOT("signal", "T", T_FLOATS_BF), SLOT("frame_step", "T2", T_SIZE, .dims = "() | 1"),
	SLOT_OPT("window", "T", T_FLOATS_BF, .dims = "_"),
	SLOT_OPT("frame_length", "T2", T_SIZE, .dims = "() | 1"), SLOT_END};
static const struct slot window_in[] = {SLOT("size", "T1", T_SIZE, .dims = "()"), SLOT_END};
static const struct slot window_out[] = {SLOT("output", NULL, T_NUMERIC_BF), SLOT_END};
static const struct slot mel_in[] = {SLOT("num_mel_bins", "T1", T_SIZE, .dims = "() | 1"),
				     SLOT("dft_length", "T1", T_SIZE, .dims = "() | 1"),
				     SLOT("sample_rate", "T1", T_SIZE, .dims = "() | 1"),
				     SLOT("lower_edge_hertz", "T2", T_FLOATS_BF, .dims = "() | 1"),
				     SLOT("upper_edge_hertz", "T2", T_FLOATS_BF, .dims = "() | 1"),
				     SLOT_END};

#define DFT_FIELDS                                                                                 \
	FIELD(struct dft, inverse, F_INT, "0", "1: back from frequencies"),                        \
		FIELD(struct dft, onesided, F_INT, "0", "1: of a real signal, the half that says all")
static const struct field dft_attrs[] = {DFT_FIELDS, {0}};
static const struct field dft17_attrs[] = {
	DFT_FIELDS, FIELD(struct dft, axis, F_INT, "1", "the axis"), {0}};
static const struct field stft_attrs[] = {
	FIELD(struct stft, onesided, F_INT, "1", "1: of a real signal, the half that says all"), {0}};
static const struct field window_attrs[] = {
	FIELD(struct signal_window, periodic, F_INT, "1", "0: symmetric"),
	FIELD(struct signal_window, output_datatype, F_INT, "1", "element type of the output"),
	{0}};
static const struct field mel_attrs[] = {
	FIELD(struct mel, output_datatype, F_INT, "1", "element type of the output"), {0}};

#define WINDOW(name_)                                                                              \
	{                                                                                          \
		.name = (name_), .since = 17, .in = window_in, .out = window_out,                  \
		ATTRS(window_attrs, struct signal_window), .infer = window_infer                   \
	}

/* com.microsoft::Rfft and Irfft: the transform of the last dimension of real numbers, and back. */
static const struct slot fft_in[] = {SLOT("X", "T", T_FLOATS), SLOT_END};
static const struct slot fft_out[] = {SLOT("Y", "T", T_FLOATS), SLOT_END};
struct ms_fft {
	int64_t onesided, normalized, signal_ndim;
};
static const struct field fft_attrs[] = {
	FIELD(struct ms_fft, onesided, F_INT, "1", "must be 1"),
	FIELD(struct ms_fft, normalized, F_INT, "0", "must be 0"),
	FIELD(struct ms_fft, signal_ndim, F_INT, "1", "dimensions of the signal; must be 1"),
	{0}};

static int ms_fft_infer(struct infer *c, bool inverse)
{
	const struct ms_fft *p = infer_params(c);
	struct shape x = infer_shape(c, 0), y = x;
	int last = x.rank - (inverse ? 2 : 1); /* the dimension of the signal */

	if (p->onesided != 1 || p->normalized || p->signal_ndim != 1)
		return infer_fail(c, E_OP_UNSUPPORTED, -1,
				  "onesided=1, normalized=0 and signal_ndim=1", "other attributes");
	if (x.rank >= 0 && (last < 0 || (!inverse && x.rank == MAX_RANK) ||
			    (inverse && x.dim[x.rank - 1] >= 0 && x.dim[x.rank - 1] != 2)))
		return infer_fail(c, E_SHAPE, 0,
				  inverse ? "a real and an imaginary part in the last dimension"
					  : "rank 1 or more",
				  infer_shape_text(c, &x));
	if (x.rank >= 0 && x.dim[last] >= 0 && x.dim[last] < (inverse ? 2 : 1))
		return infer_fail(c, E_SHAPE, 0, "a signal of some length", infer_shape_text(c, &x));
	if (x.rank >= 0 && inverse) {
		y.rank--;
		y.dim[last] = x.dim[last] >= 0 ? 2 * (x.dim[last] - 1) : DIM_UNKNOWN;
	} else if (x.rank >= 0) {
		y.dim[last] = x.dim[last] >= 0 ? x.dim[last] / 2 + 1 : DIM_UNKNOWN;
		y.dim[y.rank++] = 2;
	}
	infer_set(c, 0, infer_dtype(c, 0), &y);
	return 0;
}
static int rfft_infer(struct infer *c)
{
	return ms_fft_infer(c, false);
}
static int irfft_infer(struct infer *c)
{
	return ms_fft_infer(c, true);
}

#define FFT(name_, infer_, text)                                                                   \
	{                                                                                          \
		.name = (name_), MICROSOFT, .in = fft_in, .out = fft_out,                          \
		ATTRS(fft_attrs, struct ms_fft), .infer = (infer_), .expand = (text)               \
	}

/* com.microsoft::DynamicTimeWarping: the cheapest path from the first point of a matrix of costs to the last. */
static const struct slot warping_in[] = {SLOT("input", "F", T_F32, .dims = "_ _ | 1 _ _"), SLOT_END};
static const struct slot warping_out[] = {SLOT("output", "I", T_I32), SLOT_END};

static int warping_infer(struct infer *c)
{
	struct shape x = infer_shape(c, 0), y = shape_of(2, (int64_t[]){2, DIM_UNKNOWN});

	for (int i = x.rank - 2; i >= 0 && i < x.rank; i++)
		if (x.dim[i] == 0 || x.dim[i] > INT32_MAX / 2)
			return infer_fail(c, E_SHAPE, 0,
					  fmt(c->diag, "1 to %d rows and columns", INT32_MAX / 2),
					  infer_shape_text(c, &x));
	infer_set(c, 0, DT_I32, &y);
	return 0;
}

const struct op ops_signal[] = {
	{.name = "DFT",
	 .since = 20,
	 .in = dft_in,
	 .out = dft_out,
	 ATTRS(dft_attrs, struct dft),
	 .infer = dft_infer},
	{.name = "DFT", .since = 17, .in = dft17_in, ATTRS(dft17_attrs, struct dft), .upgrade = dft17_upgrade},
	{.name = "STFT",
	 .since = 17,
	 .in = stft_in,
	 .out = dft_out,
	 ATTRS(stft_attrs, struct stft),
	 .infer = stft_infer},
	WINDOW("HannWindow"),
	WINDOW("HammingWindow"),
	WINDOW("BlackmanWindow"),
	{.name = "MelWeightMatrix",
	 .since = 17,
	 .in = mel_in,
	 .out = window_out,
	 ATTRS(mel_attrs, struct mel),
	 .infer = mel_infer},
	FFT("Rfft", rfft_infer, "Y = DFT(Unsqueeze(X, [-1]), _, -2) {onesided=1}"),
	FFT("Irfft", irfft_infer, "Y = Squeeze(DFT(X, _, -2) {onesided=1, inverse=1}, [-1])"),
	{.name = "DynamicTimeWarping",
	 MICROSOFT,
	 .in = warping_in,
	 .out = warping_out,
	 .infer = warping_infer,
	 .flags = OP_RUN_SHAPES},
	{0}};
