// SPDX-License-Identifier: Apache-2.0
// Quantization for every type, and products of 8-bit integers.
#include "quant.cuh"

__device__ inline int64_t scale_place(const gpu_quant_any &p, int64_t i)
{
	if (!p.dim)
		return 0;
	int64_t k = i / p.inner % p.dim;
	return p.block ? (i / p.inner / p.dim * p.blocks + k / p.block) * p.inner + i % p.inner : k;
}

__device__ inline float rounded_to(int t, float v)
{
	return t == T_F16 ? up(down<f16>(v)) : t == T_BF16 ? up(down<bf16>(v)) : v;
}

__device__ inline unsigned quantized(const gpu_quant_any &p, int64_t i)
{
	const int t = p.io.ot[0];
	int64_t k = scale_place(p, i);
	float x = (float)in_real(p.io, 0, i), s = (float)in_real(p.io, 1, k);
	float z = p.io.in[2] ? (float)in_real(p.io, 2, k) : 0, q = rounded_to(p.precision, x / s), low, high;
	if (is_float(t)) {
		q += z;
		return t == T_F4E2M1 ? f4_put(q) : is_f6(t) ? f6_put(t, q) : t == T_F8E8M0 ? e8m0_put(q, p.saturate, GPU_CAST_UP) : f8_put(t, q, p.saturate);
	}
	range_of(t, &low, &high);
	q = rintf(q) + z;
	q = q >= low ? q : low; // a NaN also becomes the least number
	q = q <= high ? q : high;
	return (unsigned)(int)q;
}

// A thread writes whole bytes, because several elements may share a byte.
extern "C" __global__ void quantize_any(const gpu_quant_any p)
{
	const int bits = bits_of(p.io.ot[0]), per = packed_elements(bits);
	EACH(b, (p.n + per - 1) / per)
	{
		unsigned v = 0;
		for (int k = 0; k < per && b * per + k < p.n; k++)
			v |= (bits < 8 ? quantized(p, b * per + k) & ((1u << bits) - 1) : quantized(p, b)) << k * bits;
		if (bits <= 8)
			put_group(p.io.out[0], b, bits, p.n, v);
		else
			any_put_int(p.io.ot[0], p.io.out[0], b, (int64_t)(int)v);
	}
}

extern "C" __global__ void dequantize_any(const gpu_quant_any p)
{
	const int t = p.io.it[0];
	EACH(i, p.n)
	{
		int64_t k = scale_place(p, i);
		float s = (float)in_real(p.io, 1, k), v;
		if (is_float(t))
			v = (float)in_real(p.io, 0, i) - (p.io.in[2] ? (float)in_real(p.io, 2, k) : 0);
		else
			v = (float)(in_int(p.io, 0, i) - (p.io.in[2] ? in_int(p.io, 2, k) : 0));
		out_put(p.io, 0, i, (double)(v * s));
	}
}

// ---- DynamicQuantizeLinear ---------------------------------------------------------------------

__device__ inline float4 four_of(const f32 *x, int64_t i, int64_t n, float none)
{
	if (4 * i + 4 <= n && ((uintptr_t)x & 15) == 0)
		return ((const float4 *)x)[i];
	float4 v = {x[4 * i], none, none, none};
	v.y = 4 * i + 1 < n ? x[4 * i + 1] : none;
	v.z = 4 * i + 2 < n ? x[4 * i + 2] : none;
	v.w = 4 * i + 3 < n ? x[4 * i + 3] : none;
	return v;
}

// Each block stores the least and the greatest element that it saw, as if it had also seen a 0.
extern "C" __global__ void dynamic_range(const gpu_dynamic_quant p)
{
	float low = 0, high = 0;
#pragma unroll 4
	EACH(i, (p.n + 3) / 4)
	{
		const float4 v = four_of((const f32 *)p.io.in[0], i, p.n, 0);
		const Least least;
		const Greatest greatest;
		low = least(low, least(least(v.x, v.y), least(v.z, v.w)));
		high = greatest(high, greatest(greatest(v.x, v.y), greatest(v.z, v.w)));
	}
	low = block_all(low, Least());
	high = block_all(high, Greatest());
	if (threadIdx.x == 0) {
		((float *)p.io.work)[2 * blockIdx.x] = low;
		((float *)p.io.work)[2 * blockIdx.x + 1] = high;
	}
}

__device__ inline u32 dynamic_byte(float x, float scale, float zero)
{
	float q = rintf(x / scale) + zero;
	q = q >= 0 ? q : 0;
	return (u32)(q <= 255 ? q : 255);
}

// Each block first combines the ranges that the `parts` blocks of dynamic_range stored.
extern "C" __global__ void dynamic_write(const gpu_dynamic_quant p)
{
	const float *part = (const float *)p.io.work;
	float low = 0, high = 0;
	for (int i = threadIdx.x; i < p.parts; i += blockDim.x) {
		low = Least()(low, part[2 * i]);
		high = Greatest()(high, part[2 * i + 1]);
	}
	low = block_all(low, Least());
	high = block_all(high, Greatest());
	const float scale = low == high ? 1 : (high - low) / 255.0f;
	float zero = rintf(0 - low / scale);
	zero = zero >= 0 ? (zero <= 255 ? zero : 255) : 0;
	if (blockIdx.x == 0 && threadIdx.x == 0) {
		if (p.io.out[1])
			*(float *)p.io.out[1] = scale;
		if (p.io.out[2])
			*(u8 *)p.io.out[2] = (u8)zero;
	}
	u8 *y = (u8 *)p.io.out[0];
	EACH(i, y ? (p.n + 3) / 4 : 0)
	{
		const float4 v = four_of((const f32 *)p.io.in[0], i, p.n, 0);
		const u32 four = dynamic_byte(v.x, scale, zero) | dynamic_byte(v.y, scale, zero) << 8 |
				 dynamic_byte(v.z, scale, zero) << 16 | dynamic_byte(v.w, scale, zero) << 24;
		if (4 * i + 4 <= p.n && ((uintptr_t)y & 3) == 0)
			((u32 *)y)[i] = four;
		else
			for (int e = 0; e < 4 && 4 * i + e < p.n; e++)
				y[4 * i + e] = (u8)(four >> 8 * e);
	}
}

// ---- integers to integers ----------------------------------------------------------------------

__device__ inline int byte_of(int t, const void *p, int64_t i)
{
	return !p ? 0 : t == T_I8 ? ((const i8 *)p)[i] : ((const u8 *)p)[i];
}
__device__ inline u8 clamped_byte(int t, float v)
{
	float low, high;
	range_of(t, &low, &high);
	v = v >= low ? v : low;
	return (u8)(int)(v <= high ? v : high);
}

__device__ inline void put_mean(const gpu_quant_mean &p, int64_t k, long long sum)
{
	const float size = __fmul_rn(*(const float *)p.io.in[3], (float)p.pixels);
	const float scale = *(const float *)p.io.in[1] / size;
	sum -= p.pixels * byte_of(p.io.it[0], p.io.in[2], 0);
	((u8 *)p.io.out[0])[k] =
		clamped_byte(p.io.ot[0], rintf(__fmul_rn((float)sum, scale)) + (float)byte_of(p.io.ot[0], p.io.in[4], 0));
}

// A warp computes the mean of one line or, if channels come last, a thread that of one channel, so that neighbouring
// threads read neighbouring channels. The inputs are X, x_scale, x_zero, y_scale, y_zero.
extern "C" __global__ void quant_mean(const gpu_quant_mean p)
{
	const int lane = threadIdx.x % 32, t = p.io.it[0];
	const int64_t warps = gridDim.x * (int64_t)(blockDim.x / 32);
	EACH(k, p.channels ? p.lines : 0)
	{
		const int64_t at = k / p.channels * p.pixels * p.channels + k % p.channels;
		long long sum = 0;
		for (int64_t i = 0; i < p.pixels; i++)
			sum += byte_of(t, p.io.in[0], at + i * p.channels);
		put_mean(p, k, sum);
	}
	if (p.channels)
		return;
	for (int64_t k = (blockIdx.x * (int64_t)blockDim.x + threadIdx.x) / 32; k < p.lines; k += warps) {
		long long sum = 0;
		for (int64_t i = lane; i < p.pixels; i += 32)
			sum += byte_of(t, p.io.in[0], k * p.pixels + i);
		for (int o = 16; o; o >>= 1)
			sum += __shfl_xor_sync(0xffffffffu, sum, o);
		if (lane == 0)
			put_mean(p, k, sum);
	}
}

extern "C" __global__ void requantize(const gpu_requantize p)
{
	const float from = *p.x_scale, to = *p.y_scale;
	const int from_zero = byte_of(p.xt, p.x_zero, 0), zero = byte_of(p.yt, p.y_zero, 0);
	const bool same = p.xt == p.yt && from == to && from_zero == zero;
	EACH(i, p.n)
	{
		const int v = byte_of(p.xt, p.x, i);
		((u8 *)p.y)[i / p.part * p.row + i % p.part] =
			same ? (u8)v
			     : clamped_byte(p.yt, rintf(__fmul_rn((float)(v - from_zero), from) / to) + (float)zero);
	}
}

// ---- products ----------------------------------------------------------------------------------

// Computes a product in tiles of 32 by 32. S is the type of the sums: int32_t, or double for 8-bit floats.
template <typename S, bool REAL> __device__ inline void int_product(const gpu_int_product &p)
{
	__shared__ S a[32][33], b[32][33];
	const int tx = threadIdx.x % 32, ty = threadIdx.x / 32;
	const gpu_qslots &q = p.q;
	for (int64_t z = blockIdx.z; z < p.batches; z += gridDim.z) {
		int64_t base[2];
		walk<2>(p.batch, p.bs, z, base);
		const int64_t col = blockIdx.x * (int64_t)32 + tx;
		S sum[4] = {0, 0, 0, 0};
		for (int64_t k0 = 0; k0 < p.k; k0 += 32) {
			__syncthreads();
			for (int r = ty; r < 32; r += 8) {
				int64_t row = blockIdx.y * (int64_t)32 + r, k = k0 + tx, n = blockIdx.x * (int64_t)32 + tx;
				S v = 0, w = 0;
				if (row < p.m && k < p.k) {
					int64_t at = base[0] + row * p.a_row + k * p.a_col;
					v = (REAL ? (S)in_real(p.io, q.a, at) : (S)in_int(p.io, q.a, at)) -
					    (S)number_of(p, q.a_zero, row, p.m, z, 0);
				}
				if (n < p.n && k0 + r < p.k) {
					int64_t at = base[1] + (k0 + r) * p.b_row + n * p.b_col;
					w = (REAL ? (S)in_real(p.io, q.b, at) : (S)in_int(p.io, q.b, at)) -
					    (S)number_of(p, q.b_zero, n, p.n, z, 0);
				}
				a[r][tx] = v;
				b[r][tx] = w;
			}
			__syncthreads();
			for (int e = 0; e < 32; e++)
				for (int r = 0; r < 4; r++)
					sum[r] += a[ty + 8 * r][e] * b[e][tx];
		}
		for (int r = 0; r < 4; r++) {
			int64_t row = blockIdx.y * (int64_t)32 + ty + 8 * r;
			if (row >= p.m || col >= p.n)
				continue;
			float ys = number_of(p, q.y_scale, row, p.m, z, 1);
			float scale = p.alpha * number_of(p, q.a_scale, row, p.m, z, 1) *
				      number_of(p, q.b_scale, col, p.n, z, 1) / ys;
			S s = sum[r];
			if (q.add >= 0 && p.io.in[q.add])
				s += (S)((const i32 *)p.io.in[q.add])[row * p.add_row + col * p.add_col];
			finish(p.io, (z * p.m + row) * p.n + col, s, scale,
			       q.bias >= 0 && p.io.in[q.bias] ? (float)in_real(p.io, q.bias, col) : 0,
			       number_of(p, q.y_zero, row, p.m, z, 0));
		}
	}
}
extern "C" __global__ void int_product_i32(const gpu_int_product p) { int_product<i32, false>(p); }
extern "C" __global__ void int_product_f8(const gpu_int_product p) { int_product<double, true>(p); }

// A thread computes one output.
extern "C" __global__ void int_conv(const gpu_int_conv p)
{
	const gpu_qslots &q = p.q;
	const int64_t pixels = p.win.out[0] * p.win.out[1] * p.win.out[2], features = p.group * p.cout;
	const int64_t image = p.win.in[0] * p.win.in[1] * p.win.in[2], window = p.win.kernel[0] * p.win.kernel[1] * p.win.kernel[2];
	const int64_t xz = q.a_zero >= 0 && p.io.in[q.a_zero] ? in_int(p.io, q.a_zero, 0) : 0;
	EACH(i, p.n)
	{
		int64_t f = i / pixels % features, b = i / pixels / features, g = f / p.cout;
		int64_t o[3] = {i / p.win.out[2] / p.win.out[1] % p.win.out[0], i / p.win.out[2] % p.win.out[1], i % p.win.out[2]};
		i32 wz = (i32)number_of(p, q.b_zero, f, features, 0, 0);
		u32 sum = 0;
		for (int64_t k = 0; k < p.cin * window; k++) {
			int64_t tap = k % window, c = k / window;
			int64_t t[3] = {tap / p.win.kernel[2] / p.win.kernel[1], tap / p.win.kernel[2] % p.win.kernel[1], tap % p.win.kernel[2]};
			int64_t at = 0;
			bool in = true;
			for (int d = 0; d < 3; d++) {
				int64_t v = o[d] * p.win.stride[d] - p.win.begin[d] + t[d] * p.win.dilation[d];
				in = in && v >= 0 && v < p.win.in[d];
				at = at * p.win.in[d] + v;
			}
			if (in)
				sum += (u32)((i32)(in_int(p.io, q.a, ((b * p.group + g) * p.cin + c) * image + at) - xz) *
					     ((i32)in_int(p.io, q.b, (f * p.cin + c) * window + tap) - wz));
		}
		if (q.add >= 0 && p.io.in[q.add])
			sum += (u32)((const i32 *)p.io.in[q.add])[f];
		float scale = number_of(p, q.a_scale, f, features, 0, 1) * number_of(p, q.b_scale, f, features, 0, 1) /
			      number_of(p, q.y_scale, f, features, 0, 1);
		finish(p.io, i, (i32)sum, scale, 0.0f, number_of(p, q.y_zero, f, features, 0, 0));
	}
}
