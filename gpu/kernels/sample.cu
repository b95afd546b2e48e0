// SPDX-License-Identifier: Apache-2.0
// GridSample, AffineGrid, RoiAlign, MaxRoiPool and Col2Im; also pools and convolutions of any rank and type.
#include "any.cuh"

// ---- GridSample --------------------------------------------------------------------------------

template <typename C> __device__ inline C reflect(C x, C low, C high)
{
	C range = high - low;
	bool below = x < low;
	if (!(x < low) && !(x > high))
		return x;
	if (range <= 0)
		return low;
	C r = (C)fmod((double)(below ? low - x : x - high), 2 * (double)range);
	r = r <= range ? r : 2 * range - r;
	return below ? low + r : high - r;
}

// Returns the element that coordinate i of an axis reads, or -1 if it reads the value 0 outside. padding is
// GPU_GRID_...
template <typename C> __device__ inline int64_t pixel(int64_t i, int64_t size, int padding, C low, C high)
{
	if (i >= 0 && i < size)
		return i;
	if (padding == GPU_GRID_ZEROS)
		return -1;
	if (padding == GPU_GRID_BORDER)
		return i < 0 ? 0 : size - 1;
	i = (int64_t)reflect((C)i, low, high);
	return i < 0 ? 0 : i >= size ? size - 1 : i;
}

template <typename C> __device__ inline void cubic(C r, C *w)
{
	const C a = C(-0.75);
	w[0] = ((a * (r + 1) - 5 * a) * (r + 1) + 8 * a) * (r + 1) - 4 * a;
	w[1] = ((a + 2) * r - (a + 3)) * r * r + 1;
	w[2] = ((a + 2) * (1 - r) - (a + 3)) * (1 - r) * (1 - r) + 1;
	w[3] = ((a * (2 - r) - 5 * a) * (2 - r) + 8 * a) * (2 - r) - 4 * a;
}

// Finds the elements of one axis that coordinate g (from -1 to 1) reads, and their weights; returns the number of
// elements.
template <typename C>
__device__ inline int grid_axis(const gpu_grid_job &p, int64_t size, C g, int64_t *index, C *weight)
{
	C low = p.align ? C(0) : C(-0.5), high = (C)size - (p.align ? C(1) : C(0.5));
	C x = p.align ? (g + 1) / 2 * (C)(size - 1) : ((g + 1) * (C)size - 1) / 2;
	const int n = p.mode == GPU_GRID_NEAREST ? 1 : p.mode == GPU_GRID_LINEAR ? 2 : 4;
	if (p.mode == GPU_GRID_NEAREST)
		x = rint(x);
	if (n < 4 && (x < low || x > high)) { // for cubic, pixel() applies the padding to each of the four elements
		if (p.padding == GPU_GRID_BORDER)
			x = x < 0 ? C(0) : x > (C)(size - 1) ? (C)(size - 1) : x;
		else if (p.padding == GPU_GRID_REFLECTION)
			x = reflect(x, low, high);
	}
	if (!(x > C(-1e9))) // a NaN lies outside, too
		x = C(-1e9);
	x = x < C(1e9) ? x : C(1e9);
	int64_t first = (int64_t)floor(x);
	C f = x - (C)first;
	weight[0] = 1;
	if (n == 2) {
		weight[1] = f;
		weight[0] = 1 - f;
	} else if (n == 4) {
		first--;
		cubic(f, weight);
	}
	for (int k = 0; k < n; k++)
		index[k] = pixel<C>(first + k, size, p.padding, low, high);
	return n;
}

template <typename C> __device__ inline void grid_place(const gpu_grid_job &p)
{
	const int64_t outputs = p.out[0] * p.out[1] * p.out[2], inputs = p.in[0] * p.in[1] * p.in[2];
	EACH(i, p.batch * outputs)
	{
		int64_t index[3][4] = {{0}}, image = i / outputs;
		C weight[3][4] = {{1}, {1}, {1}};
		int n[3] = {1, 1, 1};
		for (int d = 0; d < p.rank; d++) { // a grid entry holds the coordinate of the last axis first
			int a = 3 - p.rank + d;
			n[a] = grid_axis<C>(p, p.in[a], (C)in_real(p.io, 1, i * p.rank + p.rank - 1 - d), index[a],
					    weight[a]);
		}
		for (int64_t c = 0; c < p.channels; c++) {
			int64_t base = (image * p.channels + c) * inputs;
			C sum = 0;
			for (int a = 0; a < n[0]; a++)
				for (int b = 0; b < n[1]; b++)
					for (int e = 0; e < n[2]; e++)
						if (index[0][a] >= 0 && index[1][b] >= 0 && index[2][e] >= 0)
							sum += weight[0][a] * weight[1][b] * weight[2][e] *
							       (C)in_real(p.io, 0,
									  base + (index[0][a] * p.in[1] + index[1][b]) *
											 p.in[2] + index[2][e]);
			out_put(p.io, 0, (image * p.channels + c) * outputs + i % outputs, (double)sum);
		}
	}
}
extern "C" __global__ void grid_sample_f32(const gpu_grid_job p) { grid_place<float>(p); }
extern "C" __global__ void grid_sample_f64(const gpu_grid_job p) { grid_place<double>(p); }

// ---- AffineGrid --------------------------------------------------------------------------------

__device__ inline double grid_at(int64_t i, int64_t n, bool align)
{
	if (align)
		return n > 1 ? 2 * (double)i / (double)(n - 1) - 1 : 0;
	return (2 * (double)i + 1) / (double)n - 1;
}

// A thread computes one coordinate. p.out holds the spatial dims, right-aligned.
extern "C" __global__ void affine_grid(const gpu_grid_job p)
{
	EACH(i, p.n)
	{
		int64_t rest = i / p.rank;
		int r = (int)(i % p.rank);
		double at[3];
		for (int k = 0; k < p.rank; k++) { // the coordinate x comes first
			at[k] = grid_at(rest % p.out[2 - k], p.out[2 - k], p.align);
			rest /= p.out[2 - k];
		}
		int64_t m = (rest * p.rank + r) * (p.rank + 1);
		double v = in_real(p.io, 0, m + p.rank);
		for (int k = 1; k < p.rank; k++)
			v += in_real(p.io, 0, m + k) * at[k];
		out_put(p.io, 0, i, v + in_real(p.io, 0, m) * at[0]);
	}
}

// ---- regions -----------------------------------------------------------------------------------

__device__ inline int64_t clamped(double v, int64_t to) { return !(v > 0) ? 0 : v > (double)to ? to : (int64_t)v; }

extern "C" __global__ void max_roi_pool(const gpu_roi p)
{
	EACH(i, p.n)
	{
		int64_t px = i % p.pw, py = i / p.pw % p.ph, c = i / p.pw / p.ph % p.channels,
			k = i / p.pw / p.ph / p.channels;
		double at[4], image = in_real(p.io, 1, k * 5);
		if (!(image >= 0 && image < (double)p.batch)) { // -0.5 is no valid index of an image, as on the CPU
			fault(p.io);
			continue;
		}
		const int64_t b = (int64_t)image;
		for (int d = 0; d < 4; d++)
			at[d] = round(in_real(p.io, 1, k * 5 + 1 + d) * p.scale);
		double bin_h = fmax(at[3] - at[1] + 1, 1.0) / (double)p.ph,
		       bin_w = fmax(at[2] - at[0] + 1, 1.0) / (double)p.pw;
		int64_t ys = clamped(floor((double)py * bin_h) + at[1], p.height),
			ye = clamped(ceil((double)(py + 1) * bin_h) + at[1], p.height),
			xs = clamped(floor((double)px * bin_w) + at[0], p.width),
			xe = clamped(ceil((double)(px + 1) * bin_w) + at[0], p.width);
		double top = ys < ye && xs < xe ? -INFINITY : 0;
		for (int64_t y = ys; y < ye; y++)
			for (int64_t x = xs; x < xe; x++) {
				double v = in_real(p.io, 0, ((b * p.channels + c) * p.height + y) * p.width + x);
				top = Greatest()(top, v);
			}
		out_put(p.io, 0, i, top);
	}
}

// Finds the two cells that a sample reads along one axis, and their weights; returns false if the sample lies outside
// of the map.
template <typename C> __device__ inline bool align_axis(C at, int64_t size, int64_t *cell, C *w)
{
	if (!(at >= -1 && at <= (C)size))
		return false;
	at = at > 0 ? at : C(0);
	cell[0] = (int64_t)at;
	if (cell[0] >= size - 1) {
		cell[0] = cell[1] = size - 1;
		at = (C)cell[0];
	} else {
		cell[1] = cell[0] + 1;
	}
	w[1] = at - (C)cell[0];
	w[0] = 1 - w[1];
	return true;
}

// The samples of a bin along one axis: n of them, of which those from `from` to `to` - 1 lie in the map. The others are 0 and are
// left out, because a region may be so much larger than the map that a visit to each of them would never end.
template <typename C> struct roi_span {
	C start, bin;
	int64_t n, from, to;

	__device__ C at(int64_t k) const
	{
		return start + ((C)k + C(0.5)) * bin / (C)n;
	}
	// Finds, by halving, the first sample beyond the limit (at it, too, if `including`) in the direction in which samples follow.
	__device__ int64_t first_beyond(C limit, bool including) const
	{
		int64_t low = 0, high = n;
		while (low < high) {
			int64_t k = low + (high - low) / 2;
			C v = at(k);
			if ((bin < 0 ? v < limit : v > limit) || (including && v == limit))
				high = k;
			else
				low = k + 1;
		}
		return low;
	}
	__device__ roi_span(C first, C step, int64_t index, int64_t count, int64_t size)
		: start(first + (C)index * step), bin(step), n(count), from(0), to(0)
	{
		if (!isfinite(start) || !isfinite(bin))
			return;
		from = first_beyond(bin < 0 ? (C)size : C(-1), true);
		to = first_beyond(bin < 0 ? C(-1) : (C)size, false);
	}
};

// Adds the sample at v, u to sum, or takes the maximum of both; `any` tells whether sum has a sample.
template <typename C>
__device__ inline void roi_sample(const gpu_roi &p, int64_t base, C v, C u, bool *any, C *sum)
{
	int64_t y[2], x[2];
	C wy[2], wx[2];

	if (!align_axis(v, p.height, y, wy) || !align_axis(u, p.width, x, wx))
		return;
	for (int j = 0; j < 4; j++) {
		C q = wy[j / 2] * wx[j % 2] * (C)in_real(p.io, 0, base + y[j / 2] * p.width + x[j % 2]);
		if (!p.kind)
			*sum += q;
		else
			*sum = !*any || q > *sum ? q : *sum;
		*any = true;
	}
}

template <typename C> __device__ inline void roi_bin(const gpu_roi &p, int64_t i)
{
	int64_t px = i % p.pw, py = i / p.pw % p.ph, c = i / p.pw / p.ph % p.channels, k = i / p.pw / p.ph / p.channels;
	int64_t b = in_int(p.io, 2, k), base = (b * p.channels + c) * p.height * p.width;
	if (b < 0 || b >= p.batch) {
		fault(p.io);
		return;
	}
	C scale = (C)p.scale, off = p.half ? C(0.5) : C(0), r[4];
	for (int d = 0; d < 4; d++)
		r[d] = (C)in_real(p.io, 1, k * 4 + d) * scale - off;
	C w = r[2] - r[0], h = r[3] - r[1], sum = 0;
	if (!p.half) {
		w = w > 1 ? w : C(1);
		h = h > 1 ? h : C(1);
	}
	C bin_h = h / (C)p.ph, bin_w = w / (C)p.pw;
	int64_t grid_h = p.sampling > 0 ? p.sampling : clamped(ceil((double)bin_h), 1 << 20);
	int64_t grid_w = p.sampling > 0 ? p.sampling : clamped(ceil((double)bin_w), 1 << 20);
	roi_span<C> v(r[1], bin_h, py, grid_h, p.height), u(r[0], bin_w, px, grid_w, p.width);
	// samples that are left out take part in the maximum as 0
	bool any = (v.to - v.from) * (u.to - u.from) != grid_h * grid_w;
	for (int64_t s = v.from; s < v.to; s++)
		for (int64_t k = u.from; k < u.to; k++)
			roi_sample(p, base, v.at(s), u.at(k), &any, &sum);
	if (!p.kind && grid_h * grid_w > 1)
		sum /= (C)(grid_h * grid_w);
	out_put(p.io, 0, i, (double)sum);
}
extern "C" __global__ void roi_align_f32(const gpu_roi p)
{
	EACH(i, p.n) roi_bin<float>(p, i);
}
extern "C" __global__ void roi_align_f64(const gpu_roi p)
{
	EACH(i, p.n) roi_bin<double>(p, i);
}

// ---- Col2Im ------------------------------------------------------------------------------------

// Each pixel of the image sums up the elements of the columns that overlap it, in their order.
extern "C" __global__ void col2im(const gpu_col2im p)
{
	const int t = p.io.ot[0];
	const bool real = is_float(t);
	EACH(i, p.n)
	{
		int64_t at[GPU_DIMS], rest = i;
		for (int r = p.rank - 1; r >= 0; r--) {
			at[r] = rest % p.image[r];
			rest /= p.image[r];
		}
		double sum = 0;
		u64 whole = 0;
		for (int64_t k = 0; k < p.window; k++) {
			int64_t tap = k, from = 0, step = 1;
			bool in = true;
			for (int r = p.rank - 1; r >= 0; r--) {
				int64_t c = at[r] + p.begin[r] - tap % p.block[r] * p.dilation[r];
				tap /= p.block[r];
				in = in && c >= 0 && c % p.stride[r] == 0 && c / p.stride[r] < p.count[r];
				from += c / p.stride[r] * step;
				step *= p.count[r];
			}
			if (!in)
				continue;
			from += (rest * p.window + k) * p.positions;
			if (t == T_F32)
				sum = (double)((float)sum + ((const f32 *)p.io.in[0])[from]);
			else if (real)
				sum += in_real(p.io, 0, from);
			else
				whole += (u64)in_int(p.io, 0, from);
		}
		if (real)
			out_put(p.io, 0, i, sum);
		else
			any_put_int(t, p.io.out[0], i, (int64_t)whole);
	}
}

// Writes each element to the position that the input Indices gives. The output has been filled with zeros before.
extern "C" __global__ void max_unpool(const gpu_unpool p)
{
	EACH(i, p.n)
	{
		int64_t k = ((const i64 *)p.io.in[1])[i], o = 0, step = 1;
		if (k < 0 || k >= p.count) {
			fault(p.io);
			continue;
		}
		for (int r = p.rank - 1; r >= 0; r--) {
			o += k % p.space[r] * step;
			k /= p.space[r];
			step *= p.y[r];
		}
		any_copy(p.size, p.io.out[0], o, p.io.in[0], i);
	}
}

// A block computes one plane: the p-th root of the sum of the p-th powers.
extern "C" __global__ void global_lp(const gpu_channels p)
{
	for (int64_t o = blockIdx.x; o < p.n; o += gridDim.x) {
		double sum = 0;
		for (int64_t k = threadIdx.x; k < p.inner; k += blockDim.x)
			sum += pow(fabs(in_real(p.io, 0, o * p.inner + k)), p.alpha);
		sum = block_all(sum, AddUp());
		if (threadIdx.x == 0)
			out_put(p.io, 0, o, pow(sum, 1 / p.alpha));
	}
}

// ---- windows over any number of dims -----------------------------------------------------------

// Returns the offset in the image of the element that window element k reads for output o, or -1 if it is padding.
__device__ inline int64_t window_at(const gpu_window_any &p, int64_t o, int64_t k)
{
	int64_t at = 0, step = 1;
	for (int s = p.rank - 1; s >= 0; s--) {
		int64_t c = o % p.out[s] * p.stride[s] - p.begin[s] + k % p.kernel[s] * p.dilation[s];
		if (c < 0 || c >= p.in[s])
			return -1;
		at += c * step;
		step *= p.in[s];
		o /= p.out[s];
		k /= p.kernel[s];
	}
	return at;
}

// Returns the index of the same position when positions are counted with the first dim varying fastest.
__device__ inline int64_t column_major(const gpu_window_any &p, int64_t at)
{
	int64_t place[WINDOW_DIMS], out = 0;
	for (int s = p.rank - 1; s >= 0; s--) {
		place[s] = at % p.in[s];
		at /= p.in[s];
	}
	for (int s = p.rank - 1; s >= 0; s--)
		out = out * p.in[s] + place[s];
	return out;
}

extern "C" __global__ void pool_any(const gpu_window_any p)
{
	const bool whole = !is_float(p.io.it[0]);
	EACH(i, p.n)
	{
		int64_t o = i % p.pixels, base = i / p.pixels * p.image, best = -1, count = 0, padded = 1, rest = o;
		double v = 0;
		for (int s = p.rank - 1; s >= 0; s--) {
			int64_t first = rest % p.out[s] * p.stride[s] - p.begin[s], w = 0;
			rest /= p.out[s];
			for (int64_t k = 0; k < p.kernel[s]; k++)
				w += first + k * p.dilation[s] < p.in[s] + p.end[s];
			padded *= w;
		}
		for (int64_t k = 0; k < p.window; k++) {
			int64_t at = window_at(p, o, k);
			if (at < 0)
				continue;
			double e = in_real(p.io, 0, base + at);
			if (p.kind == GPU_POOL_LP)
				v += pow(fabs(e), p.p);
			else if (p.kind == GPU_POOL_AVERAGE)
				v += e;
			else if (best < 0 || e > v || e != e) {
				v = e;
				best = at;
			}
			count++;
		}
		if (p.kind == GPU_POOL_AVERAGE)
			v /= (double)(p.count_pad ? padded : count);
		if (p.kind == GPU_POOL_LP)
			v = pow(v, 1 / p.p);
		if (p.kind == GPU_POOL_MAX && best < 0)
			v = whole ? (p.io.it[0] == T_I8 ? -128 : 0) : -INFINITY;
		out_put(p.io, 0, i, v);
		if (p.io.out[1])
			((i64 *)p.io.out[1])[i] = base + (best < 0 ? 0 : p.column_major ? column_major(p, best) : best);
	}
}

// The inputs are x, weights, bias, and a residual that is added before the activation.
extern "C" __global__ void conv_any(const gpu_window_any p)
{
	EACH(i, p.n)
	{
		int64_t o = i % p.pixels, channel = i / p.pixels % (p.group * p.cout), b = i / p.pixels / (p.group * p.cout);
		int64_t base = (b * p.group + channel / p.cout) * p.cin;
		double v = p.io.in[2] ? in_real(p.io, 2, channel) : 0;
		for (int64_t k = 0; k < p.window; k++) {
			int64_t at = window_at(p, o, k);
			for (int64_t c = 0; c < p.cin && at >= 0; c++)
				v += in_real(p.io, 0, (base + c) * p.image + at) *
				     in_real(p.io, 1, (channel * p.cin + c) * p.window + k);
		}
		if (p.io.in[3])
			v += in_real(p.io, 3, i);
		out_put(p.io, 0, i, activate(p.act, p.act_alpha, p.act_beta, v));
	}
}

// Computes a transposed convolution: each output gathers the products that contribute to it. `in` holds the dims of x,
// `out` the dims of y.
extern "C" __global__ void deconv_any(const gpu_window_any p)
{
	EACH(i, p.n)
	{
		int64_t o = i % p.pixels, channel = i / p.pixels % (p.group * p.cout), b = i / p.pixels / (p.group * p.cout);
		int64_t g = channel / p.cout, m = channel % p.cout;
		double v = p.io.in[2] ? in_real(p.io, 2, channel) : 0;
		for (int64_t k = 0; k < p.window; k++) {
			int64_t at = 0, step = 1, rest = o, e = k;
			for (int s = p.rank - 1; s >= 0 && at >= 0; s--) {
				int64_t c = rest % p.out[s] + p.begin[s] - e % p.kernel[s] * p.dilation[s];
				rest /= p.out[s];
				e /= p.kernel[s];
				if (c < 0 || c % p.stride[s] || c / p.stride[s] >= p.in[s]) {
					at = -1;
					break;
				}
				at += c / p.stride[s] * step;
				step *= p.in[s];
			}
			for (int64_t c = 0; c < p.cin && at >= 0; c++)
				v += in_real(p.io, 0, ((b * p.group + g) * p.cin + c) * p.image + at) *
				     in_real(p.io, 1, ((g * p.cin + c) * p.cout + m) * p.window + k);
		}
		out_put(p.io, 0, i, v);
	}
}
