// SPDX-License-Identifier: Apache-2.0
// Recurrent layers: the gates' products with the inputs of all steps first, then a step at a time.
#include "any.cuh"

// The activations that attributes name, in the order of gpu/rnn.c's table.
template <typename C> __device__ inline C named(int k, C a, C b, C x)
{
	switch (k) {
	case 0: return x < 0 ? C(0) : x;
	case 1: return tanh(x);
	case 2: return C(1) / (C(1) + exp(-x));
	case 3: return a * x + b;
	case 4: return x < 0 ? a * x : x;
	case 5: return x > a ? x : C(0);
	case 6: return clamp01(a * x + b);
	case 7: return x < 0 ? a * expm1(x) : x;
	case 8: return x / (C(1) + fabs(x));
	case 9: return softplus(x);
	case 10: x = x < a ? a : x; return x > b ? b : x;
	case 11: return x * clamp01(a * x + b);
	case 12: return a * tanh(b * x);
	case 13: return gelu(x);
	case 14: return x / (C(1) + exp(-a * x));
	default: return x;
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
		k += 3 * dir;
		return named<C>(p.act[k], (C)p.alpha[k], (C)p.beta[k], x);
	}
	__device__ C clipped(C v) const
	{
		const C c = (C)p.clip;
		return !p.clipped ? v : v > c ? c : v < -c ? -c : v;
	}
	__device__ C bias(int k, int64_t j) const // 0: with the inputs; 1: with the state
	{
		return in(3) ? up(in(3)[(2 * dir + k) * wide + j]) : C(0);
	}
	__device__ C peep(int k, int64_t j) const { return up(in(7)[(3 * dir + k) * p.hidden + j]); }
	// Time of sequence b in this step; -1: it is over.
	__device__ int64_t time(int64_t b) const
	{
		int64_t len = p.io.in[4] ? ((const i32 *)p.io.in[4])[b] : p.seq;
		if (p.step >= len)
			return -1;
		return p.reverse || dir == 1 ? len - 1 - p.step : p.step;
	}
	__device__ int64_t state(int64_t b, int64_t j) const // in Y_h, Y_c and the initial ones
	{
		return (p.layout ? b * p.dirs + dir : dir * p.batch + b) * p.hidden + j;
	}
	__device__ C *held(int64_t at) const { return (C *)((char *)p.io.work + at) + dir * p.batch * p.hidden; }
	__device__ C *gates(int64_t t, int64_t b) const
	{
		return (C *)((char *)p.io.work + p.at_xg) + ((dir * p.seq + t) * p.batch + b) * wide;
	}
};

// xg = X W^T for all steps: tiles of 32 rows (step and sequence) by 32 gates; z: direction.
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
		if (p.cell == 2)
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

// Sums of the warp's lanes: the products of rows g of R with the state.
template <typename T, int G>
__device__ inline void recur(const Layer<T> &l, const typename Wide<T>::type *h, int64_t j, int first,
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
__device__ inline void rnn_give(const Layer<T> &l, int64_t t, int64_t b, int64_t j, typename Wide<T>::type h)
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
			continue; // the output gate peeps at the new cell
		g[k] = l.clipped(g[k] + r[k] + l.bias(0, k * n + j) + l.bias(1, k * n + j));
	}
	C i = l.act(0, g[0]), f = p.input_forget ? 1 - i : l.act(0, g[2]), c = f * *cell + i * l.act(1, g[3]);
	if (p.io.in[7])
		g[1] = l.clipped(g[1] + l.peep(1, j) * c + r[1] + l.bias(0, n + j) + l.bias(1, n + j));
	*cell = c;
	rnn_give(l, t, b, j, l.act(2, c) * l.act(0, g[1]));
}

// One warp a unit of a sequence. GRU's without linear_before_reset take two launches: part 0, then 1.
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
			if (lead && !(CELL == 1 && p.part == 0))
				rnn_give(l, t, b, j, h[j]);
			continue;
		}
		C *x = l.gates(t, b);
		if (CELL == 2) {
			recur<T, 4>(l, h, j, 0, r);
			if (lead)
				lstm_unit(l, t, b, j, r);
		} else if (CELL == 0) {
			recur<T, 1>(l, h, j, 0, r);
			if (lead)
				rnn_give(l, t, b, j,
					 l.act(0, l.clipped(x[j] + r[0] + l.bias(0, j) + l.bias(1, j))));
		} else if (p.part == 0) {
			recur<T, 2>(l, h, j, 0, r);
			for (int k = 0; k < 2 && lead; k++)
				x[k * n + j] = l.act(0, l.clipped(x[k * n + j] + r[k] + l.bias(0, k * n + j) +
								  l.bias(1, k * n + j)));
			if (lead)
				l.held(p.at_rh)[b * n + j] = x[n + j] * h[j];
		} else {
			recur<T, 1>(l, p.linear_before_reset ? h : l.held(p.at_rh) + b * n, j, 2, r);
			if (!lead)
				continue;
			C g = x[2 * n + j], rb = l.bias(1, 2 * n + j), wb = l.bias(0, 2 * n + j);
			g = p.linear_before_reset ? g + x[n + j] * (r[0] + rb) + wb : g + r[0] + wb + rb;
			g = l.act(1, l.clipped(g));
			rnn_give(l, t, b, j, (1 - x[j]) * g + x[j] * h[j]);
		}
	}
}

template <typename T> __device__ inline void rnn_end(const gpu_rnn &p)
{
	EACH(i, p.dirs * p.batch * p.hidden)
	{
		int64_t j = i % p.hidden, b = i / p.hidden % p.batch;
		Layer<T> l(p, (int)(i / p.hidden / p.batch));
		int64_t at = l.state(b, j);
		if (p.io.out[1])
			((T *)p.io.out[1])[at] = down<T>(l.held(p.at_h[p.now])[b * p.hidden + j]);
		if (p.io.out[2])
			((T *)p.io.out[2])[at] = down<T>(l.held(p.at_c)[b * p.hidden + j]);
	}
}

#define KERNELS(T)                                                                                                     \
	extern "C" __global__ void rnn_inputs_##T(const gpu_rnn p) { rnn_inputs<T>(p); }                               \
	extern "C" __global__ void rnn_start_##T(const gpu_rnn p) { rnn_start<T>(p); }                                 \
	extern "C" __global__ void rnn_step0_##T(const gpu_rnn p) { rnn_step<T, 0>(p); }                               \
	extern "C" __global__ void rnn_step1_##T(const gpu_rnn p) { rnn_step<T, 1>(p); }                               \
	extern "C" __global__ void rnn_step2_##T(const gpu_rnn p) { rnn_step<T, 2>(p); }                               \
	extern "C" __global__ void rnn_end_##T(const gpu_rnn p) { rnn_end<T>(p); }
KERNELS(f32)
KERNELS(f16)
KERNELS(bf16)
KERNELS(f64)
