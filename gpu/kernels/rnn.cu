// SPDX-License-Identifier: Apache-2.0
// Recurrent layers. The kernels first compute the products of the gates' weights with the inputs of all time steps,
// then compute one step after the other.
#include "any.cuh"
#include "rnn.h"

// Applies an activation that an attribute names (gpu_act), including those that cannot be fused.
template <typename C> __device__ inline C named_activation(int act, C a, C b, C x)
{
	switch (act) {
#define NAMED_ACTIVATION(id, op, nparams, alpha, beta) \
	case GPU_ACT_##id: return fn_##id(x, a, b);
#include "ops/unary.def"
	default: return activate(act, a, b, x);
	}
}

template <typename T> struct Layer {
	typedef typename Wide<T>::type C;
	const gpu_rnn &p;
	int dir;
	int64_t wide; // gates * hidden

	__device__ Layer(const gpu_rnn &p, int dir) : p(p), dir(dir), wide(p.gates * p.hidden) {}
	__device__ const T *in(int k) const { return (const T *)p.io.in[k]; }
	__device__ C act(int k, C x) const
	{
		k += GPU_CELL_FUNCTIONS * dir;
		return named_activation<C>(p.act[k], (C)p.alpha[k], (C)p.beta[k], x);
	}
	__device__ C clipped(C v) const
	{
		const C c = (C)p.clip;
		return !p.clipped ? v : v > c ? c : v < -c ? -c : v;
	}
	// k is 0 for the bias added with the inputs, 1 for the bias added with the state
	__device__ C bias(int k, int64_t j) const
	{
		return in(3) ? up(in(3)[(2 * dir + k) * wide + j]) : C(0);
	}
	__device__ C peep(int k, int64_t j) const { return up(in(7)[(3 * dir + k) * p.hidden + j]); }
	// Returns the input position of sequence b at this step, or -1 if the sequence has already ended.
	__device__ int64_t time(int64_t b) const
	{
		int64_t len = p.io.in[4] ? ((const i32 *)p.io.in[4])[b] : p.seq;
		len = len < p.seq ? len : p.seq; // rnn_start has already reported lengths beyond seq
		if (p.step >= len)
			return -1;
		return p.reverse || dir == 1 ? len - 1 - p.step : p.step;
	}
	__device__ int64_t state(int64_t b, int64_t j) const // offset in Y_h, Y_c, initial_h and initial_c
	{
		return (p.layout ? b * p.dirs + dir : dir * p.batch + b) * p.hidden + j;
	}
	__device__ C *held(int64_t at) const { return (C *)((char *)p.io.work + at) + dir * p.batch * p.hidden; }
	__device__ C *gates(int64_t t, int64_t b) const
	{
		return (C *)((char *)p.io.work + p.at_xg) + ((dir * p.seq + t) * p.batch + b) * wide;
	}
};

// Computes xg = X * W^T for all steps, in tiles of 32 rows (pairs of step and sequence) by 32 gates. blockIdx.z is the
// direction.
template <typename T> __device__ inline void rnn_inputs(const gpu_rnn &p)
{
	typedef typename Wide<T>::type C;
	__shared__ C a[32][33], w[32][33];
	const int64_t rows = p.seq * p.batch, wide = p.gates * p.hidden;
	const int tx = threadIdx.x % 32, ty = threadIdx.x / 32;
	const T *x = (const T *)p.io.in[0], *weight = (const T *)p.io.in[1] + blockIdx.z * wide * p.input;
	const int64_t col = blockIdx.y * 32 + tx;
	for (int64_t tile = blockIdx.x; tile * 32 < rows; tile += gridDim.x) {
		C sum[4] = {0, 0, 0, 0};
		for (int64_t k = 0; k < p.input; k += 32) {
			__syncthreads();
			for (int r = ty; r < 32; r += 8) {
				int64_t row = tile * 32 + r, t = row / p.batch, b = row % p.batch, gate = blockIdx.y * 32 + r;
				int64_t from = p.layout ? b * p.seq + t : row;
				bool in = k + tx < p.input;
				a[r][tx] = in && row < rows ? up(x[from * p.input + k + tx]) : C(0);
				w[r][tx] = in && gate < wide ? up(weight[gate * p.input + k + tx]) : C(0);
			}
			__syncthreads();
			for (int e = 0; e < 32; e++)
				for (int r = 0; r < 4; r++)
					sum[r] += a[ty + 8 * r][e] * w[tx][e];
		}
		for (int r = 0; r < 4; r++) {
			int64_t row = tile * 32 + ty + 8 * r;
			if (row < rows && col < wide)
				((C *)((char *)p.io.work + p.at_xg))[(blockIdx.z * rows + row) * wide + col] = sum[r];
		}
	}
}

template <typename T> __device__ inline void rnn_start(const gpu_rnn &p)
{
	typedef typename Wide<T>::type C;
	EACH(i, p.dirs * p.batch * p.hidden)
	{
		int64_t j = i % p.hidden, b = i / p.hidden % p.batch;
		Layer<T> l(p, (int)(i / p.hidden / p.batch));
		int64_t at = l.state(b, j);
		l.held(p.at_h[0])[b * p.hidden + j] = l.in(5) ? up(l.in(5)[at]) : C(0);
		if (p.cell == GPU_CELL_LSTM)
			l.held(p.at_c)[b * p.hidden + j] = l.in(6) ? up(l.in(6)[at]) : C(0);
		if (j == 0 && p.io.in[4]) {
			i32 len = ((const i32 *)p.io.in[4])[b];
			if (len < 0 || len > p.seq)
				fault(p.io);
		}
	}
	if (p.io.out[0] && p.io.in[4])
		EACH(i, p.seq * p.dirs * p.batch * p.hidden) ((T *)p.io.out[0])[i] = down<T>(C(0));
}

// Sets sum[g] to the product of the state with the row of R for unit j of gate first + g. The lanes of the warp share
// the work, and all of them get the sums.
template <typename T, int G>
__device__ inline void recurrent_sums(const Layer<T> &l, const typename Wide<T>::type *h, int64_t j, int first,
			     typename Wide<T>::type *sum)
{
	const int64_t n = l.p.hidden;
	const T *r = l.in(2) + l.dir * l.wide * n;
	for (int g = 0; g < G; g++)
		sum[g] = 0;
	for (int64_t k = threadIdx.x % 32; k < n; k += 32) {
		auto v = h[k];
		for (int g = 0; g < G; g++)
			sum[g] += v * up(r[((first + g) * n + j) * n + k]);
	}
	for (int g = 0; g < G; g++)
		for (int o = 16; o; o >>= 1)
			sum[g] += __shfl_xor_sync(0xffffffffu, sum[g], o);
}

template <typename T>
__device__ inline void store_state(const Layer<T> &l, int64_t t, int64_t b, int64_t j, typename Wide<T>::type h)
{
	const gpu_rnn &p = l.p;
	l.held(p.at_h[!p.now])[b * p.hidden + j] = h;
	if (p.io.out[0] && t >= 0) {
		int64_t at = p.layout ? ((b * p.seq + t) * p.dirs + l.dir) * p.hidden + j
				      : ((t * p.dirs + l.dir) * p.batch + b) * p.hidden + j;
		((T *)p.io.out[0])[at] = down<T>(h);
	}
}

template <typename T> __device__ inline void lstm_unit(const Layer<T> &l, int64_t t, int64_t b, int64_t j,
							 const typename Wide<T>::type *r)
{
	typedef typename Wide<T>::type C;
	const gpu_rnn &p = l.p;
	const int64_t n = p.hidden;
	const C *x = l.gates(t, b);
	C *cell = &l.held(p.at_c)[b * n + j], g[4];
	for (int k = 0; k < 4; k++) {
		g[k] = x[k * n + j];
		if (p.io.in[7] && k != 3 && k != 1)
			g[k] += l.peep(k, j) * *cell;
		if (p.io.in[7] && k == 1)
			continue; // the output gate is completed below, because its peephole uses the new cell
		g[k] = l.clipped(g[k] + r[k] + l.bias(0, k * n + j) + l.bias(1, k * n + j));
	}
	C i = l.act(0, g[0]), f = p.input_forget ? 1 - i : l.act(0, g[2]), c = f * *cell + i * l.act(1, g[3]);
	if (p.io.in[7])
		g[1] = l.clipped(g[1] + l.peep(1, j) * c + r[1] + l.bias(0, n + j) + l.bias(1, n + j));
	*cell = c;
	store_state(l, t, b, j, l.act(2, c) * l.act(0, g[1]));
}

// A warp computes one hidden unit of one sequence. A GRU needs two launches for a step (part 0 and part 1), because its
// last gate uses the reset gates of all units.
template <typename T, int CELL> __device__ inline void rnn_step(const gpu_rnn &p)
{
	typedef typename Wide<T>::type C;
	const int64_t n = p.hidden, units = p.dirs * p.batch * n;
	const bool lead = threadIdx.x % 32 == 0;
	for (int64_t u = blockIdx.x * (int64_t)(blockDim.x / 32) + threadIdx.x / 32; u < units;
	     u += gridDim.x * (int64_t)(blockDim.x / 32)) {
		int64_t j = u % n, b = u / n % p.batch;
		Layer<T> l(p, (int)(u / n / p.batch));
		const C *h = l.held(p.at_h[p.now]) + b * n;
		int64_t t = l.time(b);
		C r[4];
		if (t < 0) {
			if (lead && !(CELL == GPU_CELL_GRU && p.part == 0))
				store_state(l, t, b, j, h[j]);
			continue;
		}
		C *x = l.gates(t, b);
		if (CELL == GPU_CELL_LSTM) {
			recurrent_sums<T, 4>(l, h, j, 0, r);
			if (lead)
				lstm_unit(l, t, b, j, r);
		} else if (CELL == GPU_CELL_RNN) {
			recurrent_sums<T, 1>(l, h, j, 0, r);
			if (lead)
				store_state(l, t, b, j,
					 l.act(0, l.clipped(x[j] + r[0] + l.bias(0, j) + l.bias(1, j))));
		} else if (p.part == 0) {
			recurrent_sums<T, 2>(l, h, j, 0, r);
			for (int k = 0; k < 2 && lead; k++)
				x[k * n + j] = l.act(0, l.clipped(x[k * n + j] + r[k] + l.bias(0, k * n + j) +
								  l.bias(1, k * n + j)));
			if (lead)
				l.held(p.at_rh)[b * n + j] = x[n + j] * h[j];
		} else {
			recurrent_sums<T, 1>(l, p.linear_before_reset ? h : l.held(p.at_rh) + b * n, j, 2, r);
			if (!lead)
				continue;
			C g = x[2 * n + j], rb = l.bias(1, 2 * n + j), wb = l.bias(0, 2 * n + j);
			g = p.linear_before_reset ? g + x[n + j] * (r[0] + rb) + wb : g + r[0] + wb + rb;
			g = l.act(1, l.clipped(g));
			store_state(l, t, b, j, (1 - x[j]) * g + x[j] * h[j]);
		}
	}
}

template <typename T> __device__ inline void rnn_end(const gpu_rnn &p)
{
	typedef typename Wide<T>::type C;
	EACH(i, p.dirs * p.batch * p.hidden)
	{
		int64_t j = i % p.hidden, b = i / p.hidden % p.batch;
		Layer<T> l(p, (int)(i / p.hidden / p.batch));
		int64_t at = l.state(b, j);
		// the outputs of an empty sequence are 0, as on the CPU
		const bool empty = p.io.in[4] && ((const i32 *)p.io.in[4])[b] <= 0;
		if (p.io.out[1])
			((T *)p.io.out[1])[at] = down<T>(empty ? C(0) : l.held(p.at_h[p.now])[b * p.hidden + j]);
		if (p.io.out[2])
			((T *)p.io.out[2])[at] = down<T>(empty ? C(0) : l.held(p.at_c)[b * p.hidden + j]);
	}
}

// ---- DynamicQuantizeLSTM: inputs and states are quantized to 8 bits before they are multiplied --
//
// Codes and weights are signed here: 128 is subtracted from unsigned ones and from their zero points. The products use
// the codes without their zero points; sums of the codes on either side then correct the result exactly.

enum { Q_UNITS = GPU_QLSTM_UNITS, Q_ROWS = GPU_QLSTM_ROWS, Q_WARPS = 8, Q_WORDS = 128, ONES = 0x01010101 };

struct Range {
	float scale;
	int zero; // the zero point, as a code from -128 to 127
};
// Combines the `parts` pairs (least, greatest) that the blocks of an earlier launch stored, and returns the resulting
// range to all threads.
__device__ inline Range range_of(const float *part, int64_t parts)
{
	float low = 0, high = 0;
	for (int64_t i = threadIdx.x; i < parts; i += blockDim.x) {
		low = Least()(low, part[2 * i]);
		high = Greatest()(high, part[2 * i + 1]);
	}
	low = block_all(low, Least());
	high = block_all(high, Greatest());
	Range r;
	r.scale = low == high ? 1 : (high - low) / 255.0f;
	if (r.scale == 0) /* a range of denormal numbers: they count as zeros */
		r.scale = 1;
	const float zero = rintf(0 - low / r.scale);
	r.zero = (int)(zero >= 0 ? (zero <= 255 ? zero : 255) : 0) - 128;
	return r;
}
__device__ inline int code_of(float x, Range r)
{
	float q = rintf(x / r.scale) + (float)(r.zero + 128);
	q = q >= 0 ? q : 0;
	return (int)(q <= 255 ? q : 255) - 128;
}
// Stores the least and the greatest number over all threads of the block.
__device__ inline void store_range(float *part, float low, float high)
{
	low = block_all(low, Least());
	high = block_all(high, Greatest());
	if (threadIdx.x == 0) {
		part[0] = low;
		part[1] = high;
	}
}

// The weights W or R, in rows of `wide` bytes. There is a scale (and a zero point) for each column, or a single one for
// all columns.
struct Codes {
	const u8 *w;
	const float *scales;
	const void *zeros;
	int64_t wide;
	int flip, zero_type;
	bool many_scales, many_zeros;

	__device__ Codes(const gpu_qlstm &p, bool r, int dir)
	{
		const gpu_rnn &n = p.rnn;
		const int t = n.io.it[r ? 2 : 1];
		wide = 4 * n.hidden;
		w = (const u8 *)n.io.in[r ? 2 : 1] + dir * (r ? n.hidden : n.input) * wide;
		flip = t == T_U8 ? 0x80 : 0;
		zero_type = p.zero_type[r];
		many_scales = p.many_scales[r];
		many_zeros = p.many_zeros[r];
		scales = p.scale[r] + (many_scales ? dir * wide : dir);
		zeros = (const u8 *)p.zero[r] + (many_zeros ? dir * wide : dir);
	}
	__device__ float scale(int64_t col) const { return scales[many_scales ? col : 0]; }
	__device__ int zero(int64_t col) const
	{
		const int64_t at = many_zeros ? col : 0;
		const int z = zero_type == T_U8 ? ((const u8 *)zeros)[at] : ((const i8 *)zeros)[at];
		return z - (flip ? 128 : 0);
	}
	__device__ u32 one(int64_t k, int64_t col) const { return w[k * wide + col] ^ flip; }
};

__device__ inline int64_t longest(const gpu_rnn &p)
{
	int most = p.io.in[4] ? 0 : (int)p.seq;
	for (int64_t b = threadIdx.x; p.io.in[4] && b < p.batch; b += blockDim.x) {
		const int len = ((const i32 *)p.io.in[4])[b];
		most = len > most ? len : most;
	}
	most = block_all(most, Greatest());
	return most < p.seq ? most : p.seq;
}

// Blocks with blockIdx.y = 0 find the range of X, up to the longest sequence. Blocks with blockIdx.y = 1 + d find the
// range of the initial state of direction d.
extern "C" __global__ void qlstm_range(const gpu_qlstm p)
{
	const gpu_rnn &n = p.rnn;
	const bool x = blockIdx.y == 0;
	const int dir = (int)blockIdx.y - 1;
	const int64_t blocks = x ? p.x_parts : p.parts;
	float low = 0, high = 0;
	if (blockIdx.x >= blocks)
		return;
	if (x) {
		const int64_t count = longest(n) * n.batch * n.input;
		for (int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; i < count; i += blocks * blockDim.x) {
			const float v = ((const float *)n.io.in[0])[i];
			low = Least()(low, v);
			high = Greatest()(high, v);
		}
		store_range(workspace<float>(n.io, p.at_x_part) + 2 * blockIdx.x, low, high);
		return;
	}
	const int64_t count = n.batch * n.hidden;
	const float *h0 = (const float *)n.io.in[5];
	for (int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; h0 && i < count; i += blocks * blockDim.x) {
		low = Least()(low, h0[dir * count + i]);
		high = Greatest()(high, h0[dir * count + i]);
	}
	store_range(workspace<float>(n.io, p.at_part[0]) + 2 * (dir * p.parts + blockIdx.x), low, high);
}

// Quantizes the rows of X to codes, four in a 32-bit word. Zeros fill up the last word.
extern "C" __global__ void qlstm_codes(const gpu_qlstm p)
{
	const gpu_rnn &n = p.rnn;
	const Range r = range_of(workspace<float>(n.io, p.at_x_part), p.x_parts);
	const int64_t words = (n.input + 3) / 4;
	EACH(i, n.seq * n.batch * words)
	{
		const float *x = (const float *)n.io.in[0] + i / words * n.input;
		u32 v = 0;
		for (int e = 0; e < 4; e++) {
			const int64_t k = i % words * 4 + e;
			v |= k < n.input ? (u32)(code_of(x[k], r) & 0xff) << 8 * e : 0;
		}
		workspace<u32>(n.io, p.at_codes)[i] = v;
	}
}

// Computes X * W^T from codes, in tiles of 64 rows (pairs of step and sequence) by 64 gates. blockIdx.z is the
// direction.
extern "C" __global__ void qlstm_inputs(const gpu_qlstm p)
{
	enum { TILE = 64, DEEP = 8 };
	__shared__ int a[TILE][DEEP + 1], w[TILE][DEEP + 1];
	const gpu_rnn &n = p.rnn;
	const Range range = range_of(workspace<float>(n.io, p.at_x_part), p.x_parts);
	const Codes c(p, false, blockIdx.z);
	const int64_t rows = n.seq * n.batch, words = (n.input + 3) / 4, col0 = blockIdx.y * (int64_t)TILE;
	const int *x = workspace<int>(n.io, p.at_codes), tx = threadIdx.x % 16, ty = threadIdx.x / 16;
	float *y = workspace<float>(n.io, n.at_xg) + blockIdx.z * rows * c.wide;
	for (int64_t row0 = blockIdx.x * (int64_t)TILE; row0 < rows; row0 += gridDim.x * (int64_t)TILE) {
		int sum[4][4] = {}, left[4] = {}, right[4] = {};
		for (int64_t k0 = 0; k0 < words; k0 += DEEP) {
			__syncthreads();
			for (int i = threadIdx.x; i < TILE * DEEP; i += blockDim.x) {
				const int64_t row = row0 + i / DEEP, k = k0 + i % DEEP;
				a[i / DEEP][i % DEEP] = row < rows && k < words ? x[row * words + k] : 0;
			}
			for (int i = threadIdx.x; i < TILE * DEEP; i += blockDim.x) {
				const int64_t col = col0 + i % TILE, k = (k0 + i / TILE) * 4;
				u32 v = 0;
				for (int e = 0; e < 4 && col < c.wide; e++)
					v |= k + e < n.input ? c.one(k + e, col) << 8 * e : 0;
				w[i % TILE][i / TILE] = (int)v;
			}
			__syncthreads();
#pragma unroll
			for (int e = 0; e < DEEP; e++) {
				int va[4], vw[4];
#pragma unroll
				for (int i = 0; i < 4; i++) {
					va[i] = a[ty + 16 * i][e];
					vw[i] = w[tx + 16 * i][e];
					left[i] = __dp4a(va[i], ONES, left[i]);
					right[i] = __dp4a(vw[i], ONES, right[i]);
				}
#pragma unroll
				for (int i = 0; i < 16; i++)
					sum[i / 4][i % 4] = __dp4a(va[i / 4], vw[i % 4], sum[i / 4][i % 4]);
			}
		}
#pragma unroll
		for (int i = 0; i < 16; i++) {
			const int64_t row = row0 + ty + 16 * (i / 4), col = col0 + tx + 16 * (i % 4);
			if (row >= rows || col >= c.wide)
				continue;
			const int zero = c.zero(col);
			const int s = sum[i / 4][i % 4] - range.zero * right[i % 4] - zero * left[i / 4] +
				      (int)n.input * range.zero * zero;
			y[row * c.wide + col] = (float)s * (range.scale * c.scale(col));
		}
	}
}

// Transposes 4 x 4 bytes.
__device__ inline void transpose_bytes(const u32 *r, int *c)
{
	const u32 a = __byte_perm(r[0], r[1], 0x5140), b = __byte_perm(r[2], r[3], 0x5140);
	const u32 d = __byte_perm(r[0], r[1], 0x7362), e = __byte_perm(r[2], r[3], 0x7362);
	c[0] = (int)__byte_perm(a, b, 0x5410);
	c[1] = (int)__byte_perm(a, b, 0x7632);
	c[2] = (int)__byte_perm(d, e, 0x5410);
	c[3] = (int)__byte_perm(d, e, 0x7632);
}

// Returns columns col to col + 3 of row k as one word. Only the first `there` of these columns exist.
__device__ inline u32 four_columns(const Codes &c, int64_t k, int64_t col, int there, bool words)
{
	if (words && there == 4)
		return *(const u32 *)(c.w + k * c.wide + col) ^ (c.flip ? 0x80808080u : 0);
	u32 v = 0;
#pragma unroll 1
	for (int e = 0; e < there; e++)
		v |= c.one(k, col + e) << 8 * e;
	return v;
}

// Computes the products of R with the states of Q_ROWS sequences from b0 on, for Q_UNITS units from j0 on, and
// subtracts the zero points. Each warp stores its share of the sums in part[warp][row][gate, unit].
__device__ inline void qlstm_sums(const gpu_qlstm &p, const Codes &c, const float *h, Range range, int64_t j0, int64_t b0,
				  int (*part)[Q_ROWS][4 * Q_UNITS])
{
	__shared__ int code[Q_ROWS][Q_WORDS];
	const int64_t n = p.rnn.hidden, words = (n + 3) / 4;
	const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, gate = lane / 8, unit = lane % 8 * 4;
	const int64_t col = gate * n + j0 + unit;
	const int there = j0 + unit >= n ? 0 : n - j0 - unit < 4 ? (int)(n - j0 - unit) : 4;
	const bool whole = n % 4 == 0 && ((uintptr_t)c.w & 3) == 0;
	int sum[Q_ROWS][4] = {}, left[Q_ROWS] = {}, right[4] = {};
	for (int64_t w0 = 0; w0 < words; w0 += Q_WORDS) {
		__syncthreads();
		for (int i = threadIdx.x; i < Q_ROWS * Q_WORDS; i += blockDim.x) {
			const int64_t b = b0 + i / Q_WORDS, k = (w0 + i % Q_WORDS) * 4;
			u32 v = 0;
#pragma unroll 1
			for (int e = 0; e < 4 && b < p.rnn.batch; e++)
				v |= k + e < n ? (u32)(code_of(h[b * n + k + e], range) & 0xff) << 8 * e : 0;
			code[i / Q_WORDS][i % Q_WORDS] = (int)v;
		}
		__syncthreads();
#pragma unroll 2
		for (int w = warp; w < Q_WORDS && w0 + w < words; w += Q_WARPS) {
			const int64_t k = (w0 + w) * 4;
			u32 row[4];
			int column[4];
#pragma unroll
			for (int e = 0; e < 4; e++)
				row[e] = k + e < n ? four_columns(c, k + e, col, there, whole) : 0;
			transpose_bytes(row, column);
#pragma unroll
			for (int b = 0; b < Q_ROWS; b++) {
				const int v = code[b][w];
				left[b] = __dp4a(v, ONES, left[b]);
				for (int e = 0; e < 4; e++)
					sum[b][e] = __dp4a(v, column[e], sum[b][e]);
			}
#pragma unroll
			for (int e = 0; e < 4; e++)
				right[e] = __dp4a(column[e], ONES, right[e]);
		}
	}
#pragma unroll
	for (int e = 0; e < 4; e++) {
		const int zero = e < there ? c.zero(col + e) : 0;
		for (int b = 0; b < Q_ROWS; b++)
			part[warp][b][gate * Q_UNITS + unit + e] = sum[b][e] - range.zero * right[e] - zero * left[b];
	}
}

// Computes one time step. A block computes Q_UNITS units of Q_ROWS sequences. blockIdx.y is the group of sequences,
// blockIdx.z is the direction.
extern "C" __global__ void qlstm_step(const gpu_qlstm p)
{
	__shared__ int part[Q_WARPS][Q_ROWS][4 * Q_UNITS];
	const gpu_rnn &r = p.rnn;
	const Layer<f32> l(r, blockIdx.z);
	const Codes c(p, true, blockIdx.z);
	const float *h = l.held(r.at_h[r.now]);
	const Range range = range_of(workspace<float>(r.io, p.at_part[r.now]) + 2 * blockIdx.z * p.parts, p.parts);
	const int64_t n = r.hidden, j = blockIdx.x * (int64_t)Q_UNITS + threadIdx.x % Q_UNITS;
	for (int64_t tile = blockIdx.y; tile * Q_ROWS < r.batch; tile += gridDim.y) {
		const int64_t b = tile * Q_ROWS + threadIdx.x / Q_UNITS;
		qlstm_sums(p, c, h, range, blockIdx.x * (int64_t)Q_UNITS, tile * Q_ROWS, part);
		__syncthreads();
		float state = 0;
		if (threadIdx.x < Q_ROWS * Q_UNITS && b < r.batch && j < n) {
			const int64_t t = l.time(b);
			float g[4];
			for (int k = 0; k < 4; k++) {
				int s = (int)n * range.zero * c.zero(k * n + j);
				for (int w = 0; w < Q_WARPS; w++)
					s += part[w][threadIdx.x / Q_UNITS][k * Q_UNITS + threadIdx.x % Q_UNITS];
				g[k] = (float)s * (range.scale * c.scale(k * n + j));
			}
			if (t < 0)
				store_state(l, t, b, j, h[b * n + j]);
			else
				lstm_unit(l, t, b, j, g);
			state = l.held(r.at_h[!r.now])[b * n + j];
		}
		store_range(workspace<float>(r.io, p.at_part[!r.now]) +
				    2 * (blockIdx.z * p.parts + tile * gridDim.x + blockIdx.x),
			    Least()(0.0f, state), Greatest()(0.0f, state));
	}
}

#define KERNELS(T)                                                                                                     \
	extern "C" __global__ void rnn_inputs_##T(const gpu_rnn p) { rnn_inputs<T>(p); }                               \
	extern "C" __global__ void rnn_start_##T(const gpu_rnn p) { rnn_start<T>(p); }                                 \
	extern "C" __global__ void rnn_step_RNN_##T(const gpu_rnn p) { rnn_step<T, GPU_CELL_RNN>(p); }                               \
	extern "C" __global__ void rnn_step_GRU_##T(const gpu_rnn p) { rnn_step<T, GPU_CELL_GRU>(p); }                               \
	extern "C" __global__ void rnn_step_LSTM_##T(const gpu_rnn p) { rnn_step<T, GPU_CELL_LSTM>(p); }                               \
	extern "C" __global__ void rnn_end_##T(const gpu_rnn p) { rnn_end<T>(p); }
KERNELS(f32)
KERNELS(f16)
KERNELS(bf16)
KERNELS(f64)
