// SPDX-License-Identifier: Apache-2.0
// Kernels that work along dimensions: reductions, softmax, normalization, running sums, quantization.
#include "float8.cuh"
#include "ptx.cuh"

// Sum<T>::type is the type in which elements of type T are summed up.
template <typename T> struct Sum { typedef int64_t type; };
template <> struct Sum<f32> { typedef float type; };
template <> struct Sum<f16> { typedef float type; };
template <> struct Sum<bf16> { typedef float type; };
template <> struct Sum<f64> { typedef double type; };
template <> struct Sum<u64> { typedef uint64_t type; };

struct Add {
	template <typename C> __device__ C operator()(C a, C b) const { return a + b; }
};
struct Mul {
	template <typename C> __device__ C operator()(C a, C b) const { return a * b; }
};
struct Max {
	template <typename C> __device__ C operator()(C a, C b) const { return a != a || a > b ? a : b; }
};
struct Min {
	template <typename C> __device__ C operator()(C a, C b) const { return a != a || a < b ? a : b; }
};

// Returns the least or greatest number of an element type, which is the result of a reduction over no elements.
template <typename T, typename C> __device__ inline C bound(bool greatest)
{
	const int bits = 8 * (int)sizeof(T);
	if constexpr (Is<C>::floating)
		return greatest ? (C)INFINITY : -(C)INFINITY;
	else if (Is<T>::sign)
		return greatest ? (C)(UINT64_MAX >> (65 - bits)) : (C)(INT64_MIN >> (64 - bits));
	return greatest ? (C)(UINT64_MAX >> (64 - bits)) : C(0);
}

template <typename C> __device__ inline C mapped(int op, C v)
{
	if (op == R_L1)
		return v < C(0) ? -v : v;
	return op == R_L2 || op == R_SUMSQUARE ? v * v : v;
}

template <typename C> __device__ inline C finished(int op, C v, int64_t m)
{
	if (op == R_MEAN)
		return !m && !Is<C>::floating ? C(0) : v / (C)m;
	if (op == R_L2)
		return (C)sqrt((double)v);
	return op == R_LOGSUM ? (C)log((double)v) : v;
}

// A block computes one output.
template <typename T> __device__ inline void reduce(const gpu_reduce_job &p)
{
	typedef typename Sum<T>::type C;
	for (int64_t o = blockIdx.x; o < p.n; o += gridDim.x) {
		const T *x = (const T *)p.x + walk1(p.keep, p.ks, o);
		C v = p.op == R_PROD ? C(1) : p.op == R_MAX || p.op == R_LOGSUMEXP ? bound<T, C>(false)
		      : p.op == R_MIN ? bound<T, C>(true) : C(0);
		for (int64_t k = threadIdx.x; k < p.m; k += blockDim.x) {
			C e = (C)up(x[walk1(p.red, p.rs, k)]);
			if (p.op == R_MAX || p.op == R_LOGSUMEXP)
				v = Max()(v, e);
			else if (p.op == R_MIN)
				v = Min()(v, e);
			else if (p.op == R_PROD)
				v *= e;
			else
				v += mapped(p.op, e);
		}
		if (p.op == R_MAX || p.op == R_LOGSUMEXP)
			v = block_all(v, Max());
		else if (p.op == R_MIN)
			v = block_all(v, Min());
		else if (p.op == R_PROD)
			v = block_all(v, Mul());
		else
			v = block_all(v, Add());
		if (p.op == R_LOGSUMEXP) {
			double max = (double)v, sum = 0;
			bool bounded = isfinite(max);
			for (int64_t k = threadIdx.x; k < p.m; k += blockDim.x)
				sum += exp((double)up(x[walk1(p.red, p.rs, k)]) - (bounded ? max : 0.0));
			sum = block_all(sum, Add());
			v = (C)(log(sum) + (bounded ? max : 0.0));
		} else {
			v = finished(p.op, v, p.m);
		}
		if (threadIdx.x == 0)
			((T *)p.y)[o] = down<T>(v);
	}
}

// Finds the position of the greatest or least element. A warp computes one output.
template <typename T> __device__ inline void arg(const gpu_reduce_job &p)
{
	const bool least = p.op == R_ARGMIN || p.op == R_ARGMIN_LAST, last = p.op >= R_ARGMAX_LAST;
	for (int64_t o = blockIdx.x; o < p.n; o += gridDim.x) {
		const T *x = (const T *)p.x + walk1(p.keep, p.ks, o);
		int64_t best = -1;
		auto v = up(x[0]);
		for (int64_t k = threadIdx.x; k < p.m; k += 32) {
			auto e = up(x[walk1(p.red, p.rs, k)]);
			bool more = least ? e < v : e > v;
			if (best < 0 || more || e != e && v == v || last && e == v) {
				best = k;
				v = e;
			}
		}
		for (int s = 16; s; s >>= 1) {
			int64_t other = __shfl_xor_sync(0xffffffffu, best, s);
			auto w = __shfl_xor_sync(0xffffffffu, v, s);
			bool more = least ? w < v : w > v, same = w == v || w != w && v != v;
			bool nan = w != w && v == v, keep = v != v && w == w;
			if (other >= 0 && !keep && (best < 0 || more || nan || same && (last ? other > best : other < best))) {
				best = other;
				v = w;
			}
		}
		if (threadIdx.x == 0)
			((int64_t *)p.y)[o] = best;
	}
}

// A block computes a line. op is GPU_SOFTMAX, GPU_LOG_SOFTMAX or GPU_HARDMAX.
template <typename T> __device__ inline void softmax(const gpu_line &p)
{
	typedef typename Wide<T>::type C;
	for (int64_t l = blockIdx.x; l < p.outer * p.inner; l += gridDim.x) {
		int64_t base = l / p.inner * p.n * p.inner + l % p.inner;
		const T *x = (const T *)p.x + base;
		T *y = (T *)p.y + base;
		C max = -(C)INFINITY, sum = 0;
		for (int64_t k = threadIdx.x; k < p.n; k += blockDim.x)
			max = Max()(max, (C)up(x[k * p.inner]));
		max = block_all(max, Max());
		if (p.op == GPU_HARDMAX) {
			double first = 1e18;
			for (int64_t k = threadIdx.x; k < p.n; k += blockDim.x)
				if (up(x[k * p.inner]) == max && (double)k < first)
					first = (double)k;
			first = block_all(first, Min());
			for (int64_t k = threadIdx.x; k < p.n; k += blockDim.x)
				y[k * p.inner] = down<T>((C)(k == (int64_t)first));
			continue;
		}
		for (int64_t k = threadIdx.x; k < p.n; k += blockDim.x)
			sum += exp(up(x[k * p.inner]) - max);
		sum = block_all(sum, Add());
		for (int64_t k = threadIdx.x; k < p.n; k += blockDim.x) {
			C v = up(x[k * p.inner]) - max;
			y[k * p.inner] = down<T>(p.op == GPU_LOG_SOFTMAX ? v - log(sum) : exp(v) / sum);
		}
	}
}

// Computes running sums (op 0) or running products (op 1). A thread computes one line.
template <typename T> __device__ inline void cumulate(const gpu_line &p)
{
	typedef typename Wide<T>::type C;
	EACH(l, p.outer * p.inner)
	{
		int64_t base = l / p.inner * p.n * p.inner + l % p.inner;
		C sum = p.op ? C(1) : C(0);
		for (int64_t k = 0; k < p.n; k++) {
			int64_t at = base + (p.reverse ? p.n - 1 - k : k) * p.inner;
			C v = up(((const T *)p.x)[at]), next = p.op ? sum * v : sum + v;
			((T *)p.y)[at] = down<T>(p.exclusive ? sum : next);
			sum = next;
		}
	}
}

template <typename T> __device__ inline typename Wide<T>::type norm_in(const gpu_norm &p, int64_t at, int64_t i)
{
	auto v = up(((const T *)p.x)[at]);
	if (p.add)
		v += up(((const T *)p.add)[at]);
	if (p.add2)
		v += up(((const T *)p.add2)[i]);
	return v;
}

template <typename T> __device__ inline void norm(const gpu_norm &p)
{
	typedef typename Wide<T>::type C;
	for (int64_t r = blockIdx.x; r < p.rows; r += gridDim.x) {
		C mean = 0, var = 0;
		for (int64_t i = threadIdx.x; i < p.n && !p.rms; i += blockDim.x)
			mean += norm_in<T>(p, r * p.n + i, i);
		if (!p.rms)
			mean = block_all(mean, Add()) / (C)p.n;
		for (int64_t i = threadIdx.x; i < p.n; i += blockDim.x) {
			C v = norm_in<T>(p, r * p.n + i, i) - mean;
			var += v * v;
		}
		var = block_all(var, Add()) / (C)p.n;
		C inv = C(1) / sqrt(var + (C)p.epsilon);
		for (int64_t i = threadIdx.x; i < p.n; i += blockDim.x) {
			int64_t at = r * p.n + i, c = r % p.period * p.per_row + i / p.inner;
			C v = norm_in<T>(p, at, i);
			if (p.sum)
				((T *)p.sum)[at] = down<T>(v);
			v = (v - mean) * inv;
			if (p.scale)
				v *= up(((const T *)p.scale)[c]);
			if (p.bias)
				v += up(((const T *)p.bias)[c]);
			if (p.y)
				((T *)p.y)[at] = down<T>(v);
			float f = (float)v;
			if (p.q)
				store_float8<1>((u8 *)p.q + at, &f, p.q_factor);
		}
		if (threadIdx.x == 0 && p.mean)
			((float *)p.mean)[r] = (float)mean;
		if (threadIdx.x == 0 && p.inv)
			((float *)p.inv)[r] = (float)inv;
	}
}

// ---- rows that fit the registers: read once, written once --------------------------------------

// Combines v over the threads that share a row, which are a part of a warp (8, 16 or 32 threads) or the whole block.
template <typename F> __device__ inline float row_all(float v, F f, int threads)
{
	if (threads < 32) {
		for (int o = 1; o < threads; o *= 2)
			v = f(v, __shfl_xor_sync(0xffffffffu, v, o));
		return v;
	}
	for (int o = 1; o < 32; o *= 2)
		v = f(v, __shfl_xor_sync(0xffffffffu, v, o));
	if (threads == 32)
		return v;
	__shared__ float part[32];
	__syncthreads(); // threads may still be reading `part` for the previous call
	if (threadIdx.x % 32 == 0)
		part[threadIdx.x / 32] = v;
	__syncthreads();
	v = part[0];
	for (int k = 1; k < (int)blockDim.x / 32; k++)
		v = f(v, part[k]);
	return v;
}

enum { FAST_ELEMENTS = 32 };

// v += the V elements at x
template <typename T, int V> __device__ inline void fetch_add(const T *x, float *v)
{
	float more[V];
	fetch<T, V>(x, more);
	for (int e = 0; e < V; e++)
		v[e] += more[e];
}

// The sum of the squares of V numbers less the mean: of neighbours first, so that one thread an element can make the same sum (gemv_ring.cu).
template <int V> __device__ inline float squares(const float *v, float mean)
{
	if constexpr (V == 1)
		return (v[0] - mean) * (v[0] - mean);
	else
		return squares<V / 2>(v, mean) + squares<V / 2>(v + V / 2, mean);
}

// Writes V elements of the results that the node has.
template <typename T, int V> __device__ inline void store_row(const gpu_norm &p, int64_t at, const float *v)
{
	if (p.y)
		store<T, V>((T *)p.y + at, v);
	if (p.q)
		store_float8<V>((u8 *)p.q + at, v, p.q_factor);
}

// A thread holds up to CH pieces of V elements of its row.
template <typename T, int V, int CH> __device__ inline void norm_row(const gpu_norm &p)
{
	const int threads = p.row_threads, lane = threadIdx.x % threads;
	const int64_t r = blockIdx.x * (int64_t)(blockDim.x / threads) + threadIdx.x / threads;
	// Threads of a warp whose row is behind the last take part in the sums of the others.
	const int n = r < p.rows ? (int)p.n : 0;
	float v[CH][V], by[V], plus[V], sum = 0, var = 0, mean = 0;
	start_early();
	int64_t at = r * p.n;
	if (CH == 1 && lane * V < n) { // loads scale and bias together with x, so that the loads overlap
		if (p.scale)
			fetch<T, V>((const T *)p.scale + lane * V, by);
		if (p.bias)
			fetch<T, V>((const T *)p.bias + lane * V, plus);
	}
#pragma unroll
	for (int c = 0; c < CH; c++) {
		int i = (c * threads + lane) * V;
		if (i >= n)
			break;
		fetch<T, V>((const T *)p.x + at + i, v[c]);
		if (p.add)
			fetch_add<T, V>((const T *)p.add + at + i, v[c]);
		if (p.add2)
			fetch_add<T, V>((const T *)p.add2 + i, v[c]);
		if (p.sum)
			store<T, V>((T *)p.sum + at + i, v[c]);
		for (int e = 0; e < V; e++)
			sum += v[c][e];
	}
	if (!p.rms)
		mean = row_all(sum, Add(), threads) / (float)n;
#pragma unroll
	for (int c = 0; c < CH; c++) {
		if ((c * threads + lane) * V >= n)
			break;
		var += squares<V>(v[c], mean);
	}
	var = row_all(var, Add(), threads) / (float)n;
	float inv = 1.0f / sqrtf(var + (float)p.epsilon);
#pragma unroll
	for (int c = 0; c < CH; c++) {
		int i = (c * threads + lane) * V;
		if (i >= n)
			break;
		if (CH > 1 && p.scale)
			fetch<T, V>((const T *)p.scale + i, by);
		if (CH > 1 && p.bias)
			fetch<T, V>((const T *)p.bias + i, plus);
		for (int e = 0; e < V; e++) {
			float y = (v[c][e] - mean) * inv;
			y = p.scale ? y * by[e] : y;
			v[c][e] = p.bias ? y + plus[e] : y;
		}
		store_row<T, V>(p, at + i, v[c]);
	}
	if (lane == 0 && n && p.mean)
		((float *)p.mean)[r] = mean;
	if (lane == 0 && n && p.inv)
		((float *)p.inv)[r] = inv;
}

// op: GPU_SOFTMAX or GPU_LOG_SOFTMAX.
template <typename T, int V> __device__ inline void softmax_row(const gpu_line &p)
{
	const int CH = FAST_ELEMENTS / (V < 4 ? 4 : V);
	const bool warp = p.row_threads == 32;
	int64_t r = warp ? blockIdx.x * (int64_t)(blockDim.x / 32) + threadIdx.x / 32 : blockIdx.x;
	int lane = warp ? threadIdx.x % 32 : threadIdx.x, n = (int)p.n;
	float v[CH][V], most = -INFINITY, sum = 0;
	if (r >= p.outer)
		return;
	int64_t at = r * p.n;
#pragma unroll
	for (int c = 0; c < CH; c++) {
		int i = (c * p.row_threads + lane) * V;
		if (i >= n)
			break;
		fetch<T, V>((const T *)p.x + at + i, v[c]);
		for (int e = 0; e < V; e++)
			most = Max()(v[c][e], most);
	}
	most = row_all(most, Max(), p.row_threads);
#pragma unroll
	for (int c = 0; c < CH; c++) {
		if ((c * p.row_threads + lane) * V >= n)
			break;
		for (int e = 0; e < V; e++) {
			v[c][e] -= most;
			sum += expf(v[c][e]);
		}
	}
	sum = row_all(sum, Add(), p.row_threads);
	float log_sum = logf(sum);
#pragma unroll
	for (int c = 0; c < CH; c++) {
		int i = (c * p.row_threads + lane) * V;
		if (i >= n)
			break;
		for (int e = 0; e < V; e++)
			v[c][e] = p.op == GPU_LOG_SOFTMAX ? v[c][e] - log_sum : expf(v[c][e]) / sum;
		store<T, V>((T *)p.y + at + i, v[c]);
	}
}

template <typename T> __device__ inline void batch(const gpu_batch &p)
{
	typedef typename Wide<T>::type C;
	EACH(i, p.n)
	{
		int64_t c = i / p.inner % p.channels;
		C v = up(((const T *)p.x)[i]) - up(((const T *)p.mean)[c]);
		v *= up(((const T *)p.scale)[c]) / sqrt(up(((const T *)p.var)[c]) + (C)p.epsilon);
		((T *)p.y)[i] = down<T>(v + up(((const T *)p.bias)[c]));
	}
}

__device__ inline int64_t scale_at(const gpu_quantize &p, int64_t i)
{
	if (!p.dim)
		return 0;
	int64_t k = i / p.inner % p.dim;
	return p.block ? (i / p.inner / p.dim * p.blocks + k / p.block) * p.inner + i % p.inner : k;
}

template <typename Q> __device__ inline void quantize(const gpu_quantize &p)
{
	const float lo = Is<Q>::sign ? -(float)(1u << (8 * sizeof(Q) - 1)) : 0.0f;
	const float hi = (float)((1u << (8 * sizeof(Q) - Is<Q>::sign)) - 1);
	EACH(i, p.n)
	{
		int64_t k = scale_at(p, i);
		float x = p.from == T_F32 ? ((const f32 *)p.x)[i] : p.from == T_F16 ? up(((const f16 *)p.x)[i]) : up(((const bf16 *)p.x)[i]);
		float s = p.from == T_F32 ? ((const f32 *)p.scale)[k] : p.from == T_F16 ? up(((const f16 *)p.scale)[k]) : up(((const bf16 *)p.scale)[k]);
		float q = x / s; // the next line needs the quotient rounded to the type of the scale
		q = p.from == T_F32 ? q : p.from == T_F16 ? up(down<f16>(q)) : up(down<bf16>(q));
		float v = rintf(q) + (p.zero ? (float)((const Q *)p.zero)[k] : 0.0f);
		((Q *)p.y)[i] = (Q)(v < lo ? lo : v > hi ? hi : v);
	}
}

template <typename Q> __device__ inline void dequantize(const gpu_quantize &p)
{
	EACH(i, p.n)
	{
		int64_t k = scale_at(p, i);
		float s = p.to == T_F32 ? ((const f32 *)p.scale)[k] : p.to == T_F16 ? up(((const f16 *)p.scale)[k]) : up(((const bf16 *)p.scale)[k]);
		float v = (float)((i64)((const Q *)p.x)[i] - (p.zero ? (i64)((const Q *)p.zero)[k] : 0)) * s;
		if (p.to == T_F32)
			((f32 *)p.y)[i] = v;
		else if (p.to == T_F16)
			((f16 *)p.y)[i] = down<f16>(v);
		else
			((bf16 *)p.y)[i] = down<bf16>(v);
	}
}

#define FLOATS(X) X(f32) X(f16) X(bf16) X(f64)
#define SUMS(X) FLOATS(X) X(i32) X(i64) X(u32) X(u64)
#define NUMBERS(X) SUMS(X) X(i8) X(i16) X(u8) X(u16)
#define ARG(T) extern "C" __global__ void arg_##T(const gpu_reduce_job p) { arg<T>(p); }
#define REDUCE(T) extern "C" __global__ void reduce_##T(const gpu_reduce_job p) { reduce<T>(p); }
#define CUMULATE(T) extern "C" __global__ void cumulate_##T(const gpu_line p) { cumulate<T>(p); }
#define FLOATING(T)                                                                                                    \
	extern "C" __global__ void softmax_##T(const gpu_line p) { softmax<T>(p); }                                    \
	extern "C" __global__ void norm_##T(const gpu_norm p) { norm<T>(p); }                                          \
	extern "C" __global__ void batch_##T(const gpu_batch p) { batch<T>(p); }
#define QUANT(T)                                                                                                       \
	extern "C" __global__ void quantize_##T(const gpu_quantize p) { quantize<T>(p); }                              \
	extern "C" __global__ void dequantize_##T(const gpu_quantize p) { dequantize<T>(p); }
#define ROWS(T, V)                                                                                                     \
	extern "C" __global__ void norm_row_##T(const gpu_norm p) { norm_row<T, V, FAST_ELEMENTS / V>(p); }            \
	extern "C" __global__ void norm_one_row_##T(const gpu_norm p) { norm_row<T, V, 1>(p); }                        \
	extern "C" __global__ void norm_any_row_##T(const gpu_norm p) { norm_row<T, 1, FAST_ELEMENTS / 4>(p); }        \
	extern "C" __global__ void softmax_row_##T(const gpu_line p) { softmax_row<T, V>(p); }                         \
	extern "C" __global__ void softmax_any_row_##T(const gpu_line p) { softmax_row<T, 1>(p); }
// Rows of up to 768 elements of 16 bits by one warp each: fewer pieces a thread leave registers for more warps.
#define SHORT(T) extern "C" __global__ void norm_short_row_##T(const gpu_norm p) { norm_row<T, 8, 3>(p); }
NUMBERS(ARG)
SUMS(REDUCE) REDUCE(i8) REDUCE(u8)
SUMS(CUMULATE)
FLOATS(FLOATING)
ROWS(f32, 4) ROWS(f16, 8) ROWS(bf16, 8)
SHORT(f16) SHORT(bf16)
QUANT(i8) QUANT(u8) QUANT(i16) QUANT(u16)
extern "C" __global__ void dequantize_i32(const gpu_quantize p) { dequantize<i32>(p); }
