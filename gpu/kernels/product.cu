// SPDX-License-Identifier: Apache-2.0
// Plain matrix products, convolutions and pooling for every type. In the cases that a library accepts, the library is
// faster.
#include "product.cuh"

enum { TILE = 64, DEPTH = 16, EACH_THREAD = 4 };

// Multiplies a tile of A by a tile of B through shared memory. 16 x 16 threads compute 4 x 4 results each.
template <typename C, typename LoadA, typename LoadB>
__device__ inline void tile_product(int64_t k, LoadA a_at, LoadB b_at, C acc[EACH_THREAD][EACH_THREAD])
{
	__shared__ C as[DEPTH][TILE + 1], bs[DEPTH][TILE + 1];
	const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;

	for (int64_t k0 = 0; k0 < k; k0 += DEPTH) {
		for (int e = threadIdx.x; e < TILE * DEPTH; e += 256) {
			as[e % DEPTH][e / DEPTH] = a_at(e / DEPTH, k0 + e % DEPTH);
			bs[e / TILE][e % TILE] = b_at(k0 + e / TILE, e % TILE);
		}
		__syncthreads();
		for (int d = 0; d < DEPTH; d++)
			for (int i = 0; i < EACH_THREAD; i++)
				for (int j = 0; j < EACH_THREAD; j++)
					acc[i][j] += as[d][ty + 16 * i] * bs[d][tx + 16 * j];
		__syncthreads();
	}
}

// Computes alpha * v + beta * c for integers when alpha or beta is no integer. The fraction is cut off, as in a cast.
template <typename T> __device__ inline T scaled(double alpha, T v, double beta, T c)
{
	const bool is_unsigned = T(-1) > T(0);
	double r = trunc(alpha * (double)v + beta * (double)c);
	// what is out of range becomes what to_integer() of any.cuh makes of it
	if (sizeof(T) == 4 && !is_unsigned)
		return (T)(r >= -2147483648.0 && r < 2147483648.0 ? (int64_t)r : INT32_MIN);
	if (sizeof(T) == 8 && is_unsigned && r >= 9223372036854775808.0 && r < 18446744073709551616.0)
		return (T)(u64)r;
	return (T)(r >= -9223372036854775808.0 && r < 9223372036854775808.0 ? (int64_t)r : INT64_MIN);
}

template <typename T> __device__ inline void gemm_tile(const gpu_gemm &p, int64_t z, int64_t r0)
{
	typedef typename Wide<T>::type C;
	const int64_t c0 = blockIdx.x * (int64_t)TILE;
	const T *a = (const T *)p.a + walk1(p.batch, p.as, z), *b = (const T *)p.b + walk1(p.batch, p.bs, z);
	const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
	C acc[EACH_THREAD][EACH_THREAD] = {};

	tile_product<C>(
		p.k,
		[&](int64_t i, int64_t k) {
			i += r0;
			return i < p.m && k < p.k ? (C)up(a[i * p.a_row + k * p.a_col]) : C(0);
		},
		[&](int64_t k, int64_t j) {
			j += c0;
			return j < p.n && k < p.k ? (C)up(b[k * p.b_row + j * p.b_col]) : C(0);
		},
		acc);
	for (int i = 0; i < EACH_THREAD; i++)
		for (int j = 0; j < EACH_THREAD; j++) {
			int64_t row = r0 + ty + 16 * i, col = c0 + tx + 16 * j;
			if (row >= p.m || col >= p.n)
				continue;
			int64_t at = (z * p.m + row) * p.n + col;
			C v = acc[i][j];
			int64_t c_at = walk1(p.batch, p.cs, z) + row * p.c_row + col * p.c_col;
			if constexpr (Is<T>::floating) {
				put_product<T>(p, at, c_at, v);
			} else {
				T c = p.c && p.beta != 0 ? ((const T *)p.c)[c_at] : T(0);
				((T *)p.y)[at] = p.alpha == 1 && (!p.c || p.beta == 1 || p.beta == 0)
							 ? v + c
							 : scaled<T>(p.alpha, v, p.c ? p.beta : 0, c);
			}
		}
}

// A grid may have fewer blocks than there are batches and rows of tiles. Each block then computes several of them.
template <typename T> __device__ inline void gemm(const gpu_gemm &p)
{
	int64_t batches = 1;

	for (int r = 0; r < p.batch.rank; r++)
		batches *= p.batch.dim[r];
	for (int64_t z = blockIdx.z; z < batches; z += gridDim.z)
		for (int64_t r0 = blockIdx.y * (int64_t)TILE; r0 < p.m; r0 += gridDim.y * (int64_t)TILE)
			gemm_tile<T>(p, z, r0);
}

// Copies p.m rows of p.n elements. The distance between rows is p.a_row in the source and p.c_row in the target. Rows
// of the target may begin at any address: the kernel still writes 16 bytes at a time, which it assembles from shifted
// words of the source.
template <typename T> __device__ inline void compact(const gpu_gemm &p)
{
	const int64_t bytes = p.n * (int64_t)sizeof(T), step = gridDim.x * (int64_t)blockDim.x;
	for (int64_t r = blockIdx.y; r < p.m; r += gridDim.y) {
		const char *x = (const char *)((const T *)p.a + r * p.a_row);
		char *y = (char *)((T *)p.y + r * p.c_row);
		int64_t lead = (16 - ((uintptr_t)y & 15)) & 15;
		lead = lead < bytes ? lead : bytes;
		int64_t pieces = (bytes - lead) / 16, rest = lead + pieces * 16;
		for (int64_t k = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; k < pieces; k += step) {
			int64_t at = lead + k * 16;
			uintptr_t from = (uintptr_t)(x + at);
			const u32 *word = (const u32 *)(from & ~(uintptr_t)3);
			u32 shift = (u32)(from & 3) * 8, v[5];
			for (int i = 0; i < 4; i++)
				v[i] = word[i];
			// reads only 2 bytes, because the row may end behind them
			v[4] = shift ? *(const u16 *)(word + 4) : 0;
			for (int i = 0; i < 4; i++)
				v[i] = __funnelshift_r(v[i], v[i + 1], shift);
			*(uint4 *)(y + at) = make_uint4(v[0], v[1], v[2], v[3]);
		}
		if (blockIdx.x)
			continue;
		int64_t ends = (lead + bytes - rest) / (int64_t)sizeof(T);
		for (int64_t k = threadIdx.x; k < ends; k += blockDim.x) {
			int64_t at = k * (int64_t)sizeof(T);
			at = at < lead ? at : at - lead + rest;
			*(T *)(y + at) = *(const T *)(x + at);
		}
	}
}

// Adds bias and residual to the product that a library has left in y, whose rows have p.n elements, then applies the
// activation.
template <typename T> __device__ inline void epilogue(const gpu_gemm &p)
{
	typedef typename Wide<T>::type C;
	struct alignas(4 * sizeof(T)) Four {
		T v[4];
	};
	if (!p.c && p.k % 4 == 0) {
		EACH(i, p.k / 4)
		{
			Four four = ((const Four *)p.y)[i], add;
			if (p.r)
				add = ((const Four *)p.r)[i];
			for (int e = 0; e < 4; e++) {
				C v = up(four.v[e]);
				v = activate(p.act, (C)p.act_alpha, (C)p.act_beta, p.r ? v + up(add.v[e]) : v);
				four.v[e] = down<T>(v);
			}
			((Four *)p.y)[i] = four;
		}
		return;
	}
	EACH(at, p.k)
	{
		int64_t col = at % p.n, row = at / p.n % p.m, z = at / p.n / p.m;
		C v = up(((const T *)p.y)[at]);
		if (p.c)
			v += (C)p.beta * up(((const T *)p.c)[walk1(p.batch, p.cs, z) + row * p.c_row + col * p.c_col]);
		if (p.r)
			v += up(((const T *)p.r)[at]);
		((T *)p.y)[at] = down<T>(activate(p.act, (C)p.act_alpha, (C)p.act_beta, v));
	}
}

template <typename T> __device__ inline void conv_end(const gpu_conv_job &p, int64_t channel, int64_t at, typename Wide<T>::type v)
{
	typedef typename Wide<T>::type C;
	if (p.b)
		v += up(((const T *)p.b)[channel]);
	if (p.r)
		v += up(((const T *)p.r)[at]);
	if (p.act)
		v = activate(p.act, (C)p.act_alpha, (C)p.act_beta, v);
	((T *)p.y)[at] = down<T>(v);
}

// Returns the offset in the image of the element that window element k reads for output pixel o, or -1 if it is
// padding.
__device__ inline int64_t window_offset(const gpu_conv_job &p, int64_t o, int64_t k)
{
	int64_t at = 0, step = 1;
	for (int s = GPU_SPACE - 1; s >= 0; s--) {
		int64_t c = o % p.win.out[s] * p.win.stride[s] - p.win.begin[s] + k % p.win.kernel[s] * p.win.dilation[s];
		if (c < 0 || c >= p.win.in[s])
			return -1;
		at += c * step;
		step *= p.win.in[s];
		o /= p.win.out[s];
		k /= p.win.kernel[s];
	}
	return at;
}

// Computes a convolution as a product: weights [cout, cin * window] times patches [cin * window, pixels]. blockIdx.z
// runs over images and groups.
template <typename T> __device__ inline void conv(const gpu_conv_job &p)
{
	typedef typename Wide<T>::type C;
	int64_t g = blockIdx.z % p.group, n = blockIdx.z / p.group, k = p.cin * p.window;
	int64_t r0 = blockIdx.y * (int64_t)TILE, c0 = blockIdx.x * (int64_t)TILE;
	const T *x = (const T *)p.x + (n * p.group + g) * p.cin * p.image, *w = (const T *)p.w + g * p.cout * k;
	const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
	C acc[EACH_THREAD][EACH_THREAD] = {};

	tile_product<C>(
		k,
		[&](int64_t i, int64_t e) {
			i += r0;
			return i < p.cout && e < k ? (C)up(w[i * k + e]) : C(0);
		},
		[&](int64_t e, int64_t o) {
			o += c0;
			if (o >= p.pixels || e >= k)
				return C(0);
			int64_t at = window_offset(p, o, e % p.window);
			return at < 0 ? C(0) : (C)up(x[e / p.window * p.image + at]);
		},
		acc);
	for (int i = 0; i < EACH_THREAD; i++)
		for (int j = 0; j < EACH_THREAD; j++) {
			int64_t channel = r0 + ty + 16 * i, o = c0 + tx + 16 * j;
			if (channel < p.cout && o < p.pixels)
				conv_end<T>(p, g * p.cout + channel,
					    ((n * p.group + g) * p.cout + channel) * p.pixels + o, acc[i][j]);
		}
}

// Computes a convolution with one thread for each output. This serves groups of few channels.
template <typename T> __device__ inline void direct(const gpu_conv_job &p)
{
	typedef typename Wide<T>::type C;
	EACH(at, p.batch * p.group * p.cout * p.pixels)
	{
		int64_t o = at % p.pixels, channel = at / p.pixels % (p.group * p.cout), n = at / p.pixels / (p.group * p.cout);
		int64_t g = channel / p.cout;
		const T *x = (const T *)p.x + (n * p.group + g) * p.cin * p.image, *w = (const T *)p.w + channel * p.cin * p.window;
		C sum = 0;
		for (int64_t k = 0; k < p.window; k++) {
			int64_t s = window_offset(p, o, k);
			for (int64_t c = 0; c < p.cin && s >= 0; c++)
				sum += (C)up(x[c * p.image + s]) * (C)up(w[c * p.window + k]);
		}
		conv_end<T>(p, channel, at, sum);
	}
}

template <typename T> __device__ inline void pool(const gpu_pool_job &p)
{
	typedef typename Wide<T>::type C;
	EACH(i, p.n)
	{
		int64_t rest = i, first[GPU_SPACE], image = p.win.in[0] * p.win.in[1] * p.win.in[2], padded = 1, count = 0, best = 0;
		for (int s = GPU_SPACE - 1; s >= 0; s--) {
			first[s] = rest % p.win.out[s] * p.win.stride[s] - p.win.begin[s];
			rest /= p.win.out[s];
			int64_t w = 0; // number of window elements that lie within the padded image
			for (int64_t k = 0; k < p.win.kernel[s]; k++)
				w += first[s] + k * p.win.dilation[s] < p.win.in[s] + p.end[s];
			padded *= w;
		}
		const T *x = (const T *)p.x + rest * image;
		C v = p.kind != GPU_POOL_MAX ? C(0) : Is<T>::floating ? -(C)INFINITY : T(-1) < T(0) ? C(-128) : C(0);
		for (int64_t a = 0; a < p.win.kernel[0]; a++)
			for (int64_t b = 0; b < p.win.kernel[1]; b++)
				for (int64_t c = 0; c < p.win.kernel[2]; c++) {
					int64_t d = first[0] + a * p.win.dilation[0], h = first[1] + b * p.win.dilation[1],
						w = first[2] + c * p.win.dilation[2];
					if (d < 0 || h < 0 || w < 0 || d >= p.win.in[0] || h >= p.win.in[1] || w >= p.win.in[2])
						continue;
					int64_t at = (d * p.win.in[1] + h) * p.win.in[2] + w;
					C e = up(x[at]);
					if constexpr (Is<T>::floating) {
						if (p.kind == GPU_POOL_LP)
							v += pow(fabs(e), (C)p.p);
						else if (p.kind == GPU_POOL_AVERAGE)
							v += e;
					}
					if (p.kind == GPU_POOL_MAX && (!count || e > v || e != e)) {
						v = e;
						best = p.column_major ? d + p.win.in[0] * (h + p.win.in[1] * w) : at;
					}
					count++;
				}
		if constexpr (Is<T>::floating) {
			if (p.kind == GPU_POOL_AVERAGE)
				v /= (C)(p.count_pad ? padded : count);
			if (p.kind == GPU_POOL_LP)
				v = pow(v, C(1) / (C)p.p);
		}
		((T *)p.y)[i] = down<T>(v);
		if (p.index)
			p.index[i] = rest * image + best;
	}
}

// Interprets one instruction (gpu_instruction) of a program of infer::Pointwise.
template <typename C> __device__ inline C pw_step(int op, C a, C b, const uint8_t *in, const float *consts)
{
	switch (op) {
#define BINARY(id, op, ninputs, text, formula) \
	case GPU_OP_##id: return formula;
#define SINGLE(id, op, text) \
	case GPU_OP_##id: return fn_##id(a, C(0), C(0));
#include "ops/pointwise.def"
	default: return activate(in[2], (C)consts[in[3]], (C)consts[in[3] + 1], a);
	}
}

template <typename T> __device__ inline void pointwise(const gpu_pointwise &p)
{
	typedef typename Wide<T>::type C;
	EACH(i, p.n)
	{
		C v[GPU_CODE];
		int64_t at[GPU_PW_IN] = {}, rest = i;
		for (int r = p.rank - 1; r >= 0; r--) {
			int64_t c = rest % p.dim[r];
			rest /= p.dim[r];
			for (int k = 0; k < GPU_PW_IN; k++)
				at[k] += c * p.step[k][r];
		}
		for (int k = 0; k < p.ncode; k++) {
			const uint8_t *in = p.code[k];
			if (in[0] == GPU_OP_INPUT)
				v[k] = up(((const T *)p.in[in[1]])[at[in[1]]]);
			else if (in[0] == GPU_OP_CONST)
				v[k] = (C)p.consts[in[1]];
			else
				v[k] = pw_step<C>(in[0], v[in[1]], in[0] < GPU_OP_NEG ? v[in[2]] : C(0), in, p.consts);
		}
		for (int k = 0; k < p.nout; k++)
			((T *)p.out[k])[i] = down<T>(v[p.outs[k]]);
	}
}

#define FLOATS(X) X(f32) X(f16) X(bf16) X(f64)
#define GEMM(T) extern "C" __global__ void __launch_bounds__(256) gemm_##T(const gpu_gemm p) { gemm<T>(p); }
#define POOL(T) extern "C" __global__ void pool_##T(const gpu_pool_job p) { pool<T>(p); }
#define KERNELS(T)                                                                                                     \
	GEMM(T)                                                                                                        \
	extern "C" __global__ void epilogue_##T(const gpu_gemm p) { epilogue<T>(p); }                                  \
	extern "C" __global__ void compact_##T(const gpu_gemm p) { compact<T>(p); }                                    \
	extern "C" __global__ void __launch_bounds__(256) conv_##T(const gpu_conv_job p) { conv<T>(p); }                   \
	extern "C" __global__ void direct_##T(const gpu_conv_job p) { direct<T>(p); }                                      \
	POOL(T)
FLOATS(KERNELS)
#define POINTWISE(T) extern "C" __global__ void pointwise_##T(const gpu_pointwise p) { pointwise<T>(p); }
POINTWISE(f32) POINTWISE(f16) POINTWISE(bf16)
POOL(i8) POOL(u8)
GEMM(i32) GEMM(i64) GEMM(u32) GEMM(u64)
