// SPDX-License-Identifier: Apache-2.0
// Depthwise convolutions of stride 1 whose piece of the image is in shared memory, with zeros for the pads, so that no bounds are left
// between the multiplications.
#include "act.cuh"
#include "conv.h"
#include "depthwise.h"
#include "ptx.cuh"

enum { SIDE = DEPTHWISE_SIDE, WIDE = DEPTHWISE_CHANNELS };

// What a block computes, and the place of its piece of the image, which has `rows` and `columns`, in the image.
struct Place {
	int n, row, column, channel; // of the first output
	int rows, columns, plane;    // elements of a plane of WIDE channels
};

template <typename T, int K> __device__ inline Place place_of(const gpu_depthwise &p)
{
	const int slices = (p.channels + WIDE * p.deep - 1) / (WIDE * p.deep);
	const int across = (p.win.out[1] + SIDE * p.across - 1) / (SIDE * p.across);
	const int down = (p.win.out[0] + SIDE * p.down - 1) / (SIDE * p.down);
	Place at;
	int rest = blockIdx.x;
	at.channel = rest % slices * WIDE * p.deep;
	rest /= slices;
	at.column = rest % across * SIDE * p.across;
	rest /= across;
	at.row = rest % down * SIDE * p.down;
	at.n = rest / down;
	at.rows = SIDE * p.down + K - 1;
	at.columns = SIDE * p.across + K - 1;
	at.plane = DEPTHWISE_PLANE(at.rows, at.columns);
	return at;
}

// Copies the piece of the image, plane by plane.
template <typename T> __device__ inline void fetch_piece(const gpu_depthwise &p, const Place &at, T *to)
{
	enum { V = 16 / sizeof(T), UNITS = WIDE / V };
	const int lane = threadIdx.x % 32, units = UNITS * p.deep, unit = lane % units, step = 32 / units;
	const int w0 = at.column - p.win.begin[1], c = at.channel + unit * V;
	to += unit / UNITS * at.plane + unit % UNITS * V;
	for (int row = threadIdx.x / 32; row < at.rows; row += blockDim.x / 32) {
		const int h = at.row - p.win.begin[0] + row;
		const bool some = c < p.channels && (unsigned)h < (unsigned)p.win.in[0];
		const T *from = (const T *)p.x + (((int64_t)at.n * p.win.in[0] + h) * p.win.in[1] + w0) * p.channels + c;
		for (int k = lane / units; k < at.columns; k += step) {
			const bool there = some && (unsigned)(w0 + k) < (unsigned)p.win.in[1];
			fetch16(to + (row * at.columns + k) * WIDE, there ? from + k * p.channels : (const T *)p.x, there);
		}
	}
}

// An output without the zeros of the pads, which must not meet infinite weights. Its window begins at row h and column w of an image that has so many.
template <typename T, int K>
static __device__ __noinline__ float sum_inside(float sum, const T *piece, int columns, const float *by, int channels, int h, int w, int height, int width)
{
	for (int r = 0; r < K; r++)
		for (int s = 0; s < K; s++)
			if ((unsigned)(h + r) < (unsigned)height && (unsigned)(w + s) < (unsigned)width)
				sum += up(piece[(r * columns + s) * WIDE]) * by[(r * K + s) * channels];
	return sum;
}

// Computes outputs at the edge anew if a weight is infinite or NaN. Their windows begin at row h0 and column w0 of the image.
template <typename T, int K>
__device__ inline void mend_edge(const gpu_depthwise &p, float a[SIDE][SIDE], const float *w, float start, const T *piece, int columns, int c, int h0, int w0)
{
	float none = 0;
	if (h0 >= 0 && w0 >= 0 && h0 + SIDE + K - 1 <= p.win.in[0] && w0 + SIDE + K - 1 <= p.win.in[1])
		return;
#pragma unroll
	for (int k = 0; k < K * K; k++)
		none += 0.f * w[k];
	if (none != 0.f)
#pragma unroll
		for (int o = 0; o < SIDE; o++)
#pragma unroll
			for (int q = 0; q < SIDE; q++)
				a[o][q] = sum_inside<T, K>(start, piece + (o * columns + q) * WIDE, columns, (const float *)p.w + c, p.channels, h0 + o,
							   w0 + q, p.win.in[0], p.win.in[1]);
}

// Adds the residual and applies the activation to a thread's outputs, which begin at row o0 and column q0, and writes them.
template <typename T> __device__ inline void write_outputs(const gpu_depthwise &p, float a[SIDE][SIDE], int n, int c, int o0, int q0)
{
	const int64_t first = (((int64_t)n * p.win.out[0] + o0) * p.win.out[1] + q0) * p.channels + c;
#pragma unroll
	for (int o = 0; o < SIDE; o++) {
		if (o0 + o >= p.win.out[0])
			break;
		const int64_t line = first + (int64_t)o * p.win.out[1] * p.channels;
		if (p.r)
#pragma unroll
			for (int q = 0; q < SIDE; q++)
				if (q0 + q < p.win.out[1])
					a[o][q] += up(((const T *)p.r)[line + q * p.channels]);
		act_on<T, SIDE>(p.act, p.alpha, p.beta, a[o]);
#pragma unroll
		for (int q = 0; q < SIDE; q++)
			if (q0 + q < p.win.out[1])
				((T *)p.y)[line + q * p.channels] = down<T>(a[o][q]);
	}
}

// A half warp computes SIDE x SIDE outputs of WIDE channels, a thread those of one.
template <typename T, int K> __device__ inline void tiled(const gpu_depthwise &p)
{
	SHARED_ROOM(u8, shared);
	T *room = (T *)shared;
	const Place at = place_of<T, K>(p);
	const int tile = threadIdx.x / WIDE, deep = tile % p.deep;
	const int right = tile / p.deep % p.across, below = tile / p.deep / p.across;
	const int c = at.channel + deep * WIDE + threadIdx.x % WIDE, own = c < p.channels ? c : 0;
	const T *piece = room + deep * at.plane + (below * at.columns + right) * SIDE * WIDE + threadIdx.x % WIDE;
	const int o0 = at.row + below * SIDE, q0 = at.column + right * SIDE;
	const int h0 = o0 - p.win.begin[0], w0 = q0 - p.win.begin[1];
	float w[K * K], a[SIDE][SIDE];

	let_next_begin();
	if (!p.w_is_weight)
		wait_for_previous();
#pragma unroll
	for (int k = 0; k < K * K; k++)
		w[k] = ((const float *)p.w)[k * p.channels + own];
	if (p.w_is_weight)
		wait_for_previous();
	fetch_piece<T>(p, at, room);
	const float start = p.b ? up(((const T *)p.b)[own]) : 0.f;
#pragma unroll
	for (int o = 0; o < SIDE; o++)
#pragma unroll
		for (int q = 0; q < SIDE; q++)
			a[o][q] = start;
	fetch_end();
	fetch_wait_all();
	__syncthreads();
	if (c >= p.channels || o0 >= p.win.out[0] || q0 >= p.win.out[1])
		return;
#pragma unroll
	for (int i = 0; i < SIDE + K - 1; i++) {
		const T *line = piece + i * at.columns * WIDE;
#pragma unroll
		for (int u = 0; u < SIDE + K - 1; u++) {
			const float f = up(line[u * WIDE]);
#pragma unroll
			for (int o = 0; o < SIDE; o++)
#pragma unroll
				for (int q = 0; q < SIDE; q++)
					if (i - o >= 0 && i - o < K && u - q >= 0 && u - q < K)
						a[o][q] += f * w[(i - o) * K + u - q];
		}
	}
	mend_edge<T, K>(p, a, w, start, piece, at.columns, c, h0, w0);
	write_outputs<T>(p, a, at.n, c, o0, q0);
}

#define TILED(T, K)                                                                                                    \
	extern "C" __global__ void __launch_bounds__(DEPTHWISE_THREADS, 4) depthwise_tiled_##K##_##T(const gpu_depthwise p)               \
	{                                                                                                              \
		tiled<T, K>(p);                                                                                        \
	}
#define TILEDS(T) TILED(T, 3) TILED(T, 5) TILED(T, 7)
TILEDS(f32) TILEDS(f16) TILEDS(bf16)
