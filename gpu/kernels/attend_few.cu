// SPDX-License-Identifier: Apache-2.0
// Attention of few queries to many keys, as in each step of a decoder: the time goes into reading the keys and values, so
// these are cut into parts which all processors of the device read at once ("Flash-Decoding", Dao and others, 2023).
#include "attend.cuh"
#include "heads.cuh"

// What a thread knows of one query after some keys: the largest score, the sum of the exponentials of the scores beneath it,
// and its elements of the values' sum, weighted by these exponentials. Scores are multiplied by log2(e), for exp2.
template <int EACH> struct Seen {
	float top, sum, out[EACH];
};

template <int EACH> __device__ inline void join(Seen<EACH> &a, const Seen<EACH> &b)
{
	float top = fmaxf(a.top, b.top), base = top == -INFINITY ? 0.0f : top;
	float by_a = exp2_of(a.top - base), by_b = exp2_of(b.top - base);
	a.top = top;
	a.sum = a.sum * by_a + b.sum * by_b;
#pragma unroll
	for (int e = 0; e < EACH; e++)
		a.out[e] = a.out[e] * by_a + b.out[e] * by_b;
}

template <typename T, int EACH> __device__ inline void numbers(float *to, const uint4 &from)
{
	const T *x = (const T *)&from;
#pragma unroll
	for (int e = 0; e < EACH; e++)
		to[e] = up(x[e]);
}

// Query `row` of the group of queries that share a head of keys: the query's head and position. Divisions of 64 bits would take
// longer than the rest.
struct Query {
	int h, i;
};
__device__ inline Query query_of(const gpu_attend &p, unsigned kh, unsigned row)
{
	unsigned s = (unsigned)p.s, group = (unsigned)p.heads / (unsigned)p.kv_heads;
	Query q = {(int)(kh * group + row / s), (int)(row % s)};
	return q;
}
__device__ inline unsigned rows_of(const gpu_attend &p)
{
	return (unsigned)p.heads / (unsigned)p.kv_heads * (unsigned)p.s;
}

// Writes element c of a query's result.
template <typename T>
__device__ inline void finish(const gpu_attend &p, int64_t b, Query q, int c, float top, float sum, float out)
{
	const float log2e = 1.4426950408889634f;
	if (p.sink) {
		float sink = up(((const T *)p.sink)[q.h]) * log2e, most = fmaxf(top, sink);
		float by = exp2_of(top - most);
		sum = sum * by + exp2_of(sink - most);
		out *= by;
	}
	bool nothing = (p.safe && sum == 0) || (p.nan_to_zero && sum != sum);
	T *y = (T *)p.y + b * p.ys[0] + q.h * p.ys[1] + q.i * p.ys[2];
	y[c] = down<T>(nothing ? nothing_seen<T>(p, b, q.h, c) : out / sum);
}

enum { MOST_WARPS = 8, FEW_KEYS = 4 };

// Where an attention has its keys and values: READY as they are to be read; MAKE: the cached rows are still to be copied; NOW: the new
// row is to be made as well, and the query.
enum Source { READY, MAKE, NOW };

// A block's part [begin, end) of the keys and values of its head; pointers are to this thread's first element. If they are still being
// made, rows before `used` are copied from the caches to the attention's own memory unless both are the same, and the rows after the
// `fresh` ones are set to zero; the fresh rows are there already. `room` is the end of this part's rows. A head of the caches has
// memory for past_room rows, of which at most t - fresh are cached.
template <typename T> struct Part {
	T *k, *v;
	const T *past_k, *past_v;
	int b, kh, begin, end, keys, room, used;
	int64_t valid; // as the batch's length says
	int at; // this thread's first element of a key

	__device__ inline void set_keys(const gpu_attend &p, int64_t n)
	{
		keys = (int)n;
		end = begin + p.part < keys ? begin + p.part : keys;
	}
};

template <typename T, Source FROM> __device__ inline Part<T> part_of(const gpu_attend &p, int at)
{
	Part<T> x;
	x.b = blockIdx.z;
	x.kh = blockIdx.y % (unsigned)p.kv_heads;
	x.begin = blockIdx.x * p.part;
	x.at = at;
	if (FROM != NOW) {
		x.set_keys(p, keys_of(p, x.b));
		x.valid = p.behind_valid ? p.valid[x.b] : 0;
	}
	x.k = (T *)p.k + x.b * p.ks[0] + x.kh * p.ks[1] + at;
	x.v = (T *)p.v + x.b * p.vs[0] + x.kh * p.vs[1] + at;
	if (FROM != READY) {
		int64_t head = (x.b * p.kv_heads + x.kh) * p.past_room;
		x.room = x.begin + p.part < p.t ? x.begin + p.part : (int)p.t;
		x.used = (int)(FROM == MAKE && p.used ? p.used[x.b] : p.t - p.fresh);
		x.past_k = (const T *)p.past_k + head * p.d + at;
		x.past_v = (const T *)p.past_v + head * p.dv + at;
	}
	return x;
}

// FEW_KEYS keys and their values, as far as this thread has them: keys j0, j0 + step, ...
struct Pieces {
	uint4 key[FEW_KEYS], value[FEW_KEYS];
};

// NOW: whatever the caches have there, as the lengths may not be known yet.
template <typename T, Source FROM>
__device__ inline void read_pieces(const gpu_attend &p, const Part<T> &part, int j0, int step, Pieces &to)
{
	const int k_row = (int)p.ks[2], v_row = (int)p.vs[2], d = (int)p.d, dv = (int)p.dv, fresh = part.used + (int)p.fresh;
	const int cached = p.past_room < p.t - p.fresh ? (int)p.past_room : (int)(p.t - p.fresh);
#pragma unroll
	for (int u = 0; u < FEW_KEYS; u++) {
		int j = j0 + u * step;
		bool old = FROM == NOW || (FROM == MAKE && j < part.used);
		bool there = j < (FROM == READY ? part.end : part.room) && (FROM != MAKE || j < fresh) && (FROM != NOW || j < cached);
		to.key[u] = to.value[u] = make_uint4(0, 0, 0, 0);
		if (there && part.at < d)
			to.key[u] = *(const uint4 *)(old ? part.past_k + (int64_t)j * d : part.k + (int64_t)j * k_row);
		if (there && part.at < dv)
			to.value[u] = *(const uint4 *)(old ? part.past_v + (int64_t)j * dv : part.v + (int64_t)j * v_row);
	}
}

// Writes the pieces that come from the caches, and the zeros behind the fresh rows, to where the attention has its keys and values.
// What no query may see becomes zero then.
template <typename T, Source FROM>
__device__ inline void keep_pieces(const gpu_attend &p, const Part<T> &part, int j0, int step, Pieces &x)
{
	const int k_row = (int)p.ks[2], v_row = (int)p.vs[2], fresh = part.used + (int)p.fresh;
	const bool first = blockIdx.y < p.kv_heads; // of the blocks that read these keys
	const bool k_stays = p.past_k == p.k, v_stays = p.past_v == p.v;
#pragma unroll
	for (int u = 0; u < FEW_KEYS; u++) {
		int j = j0 + u * step;
		bool old = j < part.used, made = first && j < part.room && (FROM == NOW || old || j >= fresh);
		if (made && part.at < p.d && !(old && k_stays))
			*(uint4 *)(part.k + (int64_t)j * k_row) = x.key[u];
		if (made && part.at < p.dv && !(old && v_stays))
			*(uint4 *)(part.v + (int64_t)j * v_row) = x.value[u];
		if (j >= part.end)
			x.key[u] = x.value[u] = make_uint4(0, 0, 0, 0);
	}
}

// Where the new row of a batch is, and how it is turned.
template <int EACH> struct Turn {
	Lengths length;
	int64_t position;
	bool fits;
	int which; // of this thread's pieces: query `which`, or the key, or the value; nothing, if it is too large
	uint4 cos, sin;
};

// The new row of each batch, and the queries of a block, made in shared memory. What lies behind a row is zero.
template <typename T, int HEAD, int ROWS> struct Fresh {
	static const int EACH = 16 / sizeof(T), PIECES = HEAD / EACH;
	alignas(16) T all[(ROWS + 2) * HEAD]; // queries, key, value

	// Whether threads make 16 bytes of a row at once: a piece is turned by one other piece.
	__device__ inline static bool in_pieces(const gpu_heads &p)
	{
		const int64_t steps = p.step[0] | p.step[1] | p.size | (p.interleaved && p.turned ? 1 : p.turned / 2);
		const uintptr_t at = (uintptr_t)p.x | (uintptr_t)p.cos | (uintptr_t)p.sin;
		return steps % EACH == 0 && at % 16 == 0 && !p.bias;
	}
	__device__ inline static int part_of(int which)
	{
		return which < ROWS ? 0 : which - ROWS + 1;
	}
	// What does not depend on the rows.
	__device__ inline Turn<EACH> begin(const gpu_attend &p, const gpu_heads_parts &heads, int b) const
	{
		Turn<EACH> t;
		t.length = heads.lengths.last ? lengths_of(heads.lengths, b) : Lengths{p.t, p.t - p.fresh, p.t - p.fresh, p.t, true};
		t.which = threadIdx.x / PIECES;
		const gpu_heads &from = heads.part[t.which < ROWS + 2 ? part_of(t.which) : 0];
		t.position = new_position(from, heads.lengths, b, 0, t.fits);
		const int64_t half = from.turned / 2, e = threadIdx.x % PIECES * EACH;
		t.cos = t.sin = make_uint4(0, 0, 0, 0);
		if (e < from.turned && t.fits && in_pieces(from)) {
			t.cos = *(const uint4 *)((const T *)from.cos + t.position * half + e % half);
			t.sin = *(const uint4 *)((const T *)from.sin + t.position * half + e % half);
		}
		return t;
	}
	// A piece that begins at element e of a row at x.
	__device__ inline uint4 piece(const gpu_heads &from, const T *x, const Turn<EACH> &t, int e) const
	{
		const int half = (int)from.turned / 2;
		const bool turned = e < (int)from.turned, second = e >= half;
		const uint4 own = *(const uint4 *)(x + e);
		if (!turned)
			return own;
		const uint4 other = *(const uint4 *)(x + (second ? e - half : e + half));
		uint4 y;
#pragma unroll
		for (int i = 0; i < EACH; i++) {
			const float v = up(((const T *)&own)[i]), u = up(((const T *)&other)[i]);
			const float c = up(((const T *)&t.cos)[i]), s = up(((const T *)&t.sin)[i]);
			((T *)&y)[i] = down<T>(second ? s * u + c * v : c * v - s * u);
		}
		return y;
	}
	// Rows of another form, element by element.
	__device__ __noinline__ void make_slowly(const gpu_attend &p, const gpu_heads_parts &heads, int b, int kh, unsigned row0)
	{
		const unsigned rows = rows_of(p);
		for (int z = threadIdx.x; z < (ROWS + 2) * HEAD; z += blockDim.x) {
			const int which = z / HEAD, e = z % HEAD;
			const gpu_heads &from = heads.part[part_of(which)];
			const int64_t h = which < ROWS ? kh * (int)rows + (int)row0 + which : kh;
			bool fits, mine = e < from.size && (which >= ROWS || row0 + which < rows);
			const int64_t position = new_position(from, heads.lengths, b, 0, fits);
			const T *x = (const T *)from.x + b * from.step[0] + h * from.step[1];
			all[z] = mine && fits ? new_element<T, false>(from, x, h, 0, position, e) : down<T>(0.0f);
		}
	}
	__device__ inline void make(const gpu_attend &p, const gpu_heads_parts &heads, const Turn<EACH> &t, Part<T> &part, unsigned row0)
	{
		const unsigned rows = rows_of(p);
		const bool quick = in_pieces(heads.part[0]) && in_pieces(heads.part[1]) && in_pieces(heads.part[2]) &&
				   (int)blockDim.x >= (ROWS + 2) * PIECES;
		part.used = (int)t.length.used;
		part.valid = t.length.valid;
		part.set_keys(p, t.length.valid < p.t ? t.length.valid : p.t);
		if (!t.length.good || !t.fits)
			*heads.part[0].fault = heads.part[0].who;
		if (!quick) {
			make_slowly(p, heads, part.b, part.kh, row0);
		} else if (t.which < ROWS + 2) {
			const gpu_heads &from = heads.part[part_of(t.which)];
			const int e = threadIdx.x % PIECES * EACH;
			const int64_t h = t.which < ROWS ? part.kh * (int)rows + (int)row0 + t.which : part.kh;
			const bool mine = e < (int)from.size && (t.which >= ROWS || row0 + t.which < rows);
			const T *x = (const T *)from.x + part.b * from.step[0] + h * from.step[1];
			*(uint4 *)(all + t.which * HEAD + e) = mine && t.fits ? piece(from, x, t, e) : make_uint4(0, 0, 0, 0);
		}
		__syncthreads();
	}
	// The pieces that are not in the caches: those of the new row, and zeros behind it.
	__device__ inline void add(const Part<T> &part, int j0, int step, Pieces &to) const
	{
#pragma unroll
		for (int u = 0; u < FEW_KEYS; u++) {
			const int j = j0 + u * step;
			if (j == part.used) {
				to.key[u] = *(const uint4 *)(all + ROWS * HEAD + part.at);
				to.value[u] = *(const uint4 *)(all + (ROWS + 1) * HEAD + part.at);
			} else if (j > part.used) {
				to.key[u] = to.value[u] = make_uint4(0, 0, 0, 0);
			}
		}
	}
};

// A query, with this thread's elements of it, the keys that it may see, and what it has seen.
template <int EACH> struct Row {
	Query query;
	int first, end; // the keys that the query may see in this part
	uint4 q; // unless it is in shared memory
	Seen<EACH> seen;
};

// MADE: the query has just been made, in shared memory, and has the only position.
template <typename T, int EACH, bool MADE>
__device__ inline void begin_row(const gpu_attend &p, const Part<T> &part, unsigned row, Row<EACH> &r)
{
	r.query = MADE ? Query{(int)(part.kh * rows_of(p) + row), 0} : query_of(p, part.kh, row);
	Range visible = range_of(p, part.valid, r.query.i, part.keys);
	r.first = (int)(visible.first < part.end ? visible.first : part.end);
	r.end = (int)(visible.end < 0 ? 0 : visible.end < part.end ? visible.end : part.end);
	r.q = make_uint4(0, 0, 0, 0);
	if (!MADE && part.at < p.d)
		r.q = *(const uint4 *)((const T *)p.q + part.b * p.qs[0] + r.query.h * p.qs[1] + r.query.i * p.qs[2] + part.at);
	r.seen.top = -INFINITY;
	r.seen.sum = 0;
#pragma unroll
	for (int e = 0; e < EACH; e++)
		r.seen.out[e] = 0;
}

// What a soft cap, a mask and a bias make of a score. Out of line: a step of a decoder runs the kernel's code about once, so that
// fetching instructions takes much of its time, those that it jumps over included.
__device__ __noinline__ float altered(const gpu_attend &p, float s, int b, Query q, int j)
{
	if (p.softcap > 0)
		s = soft_cap(s, p.softcap, true);
	return masked<float>(p, s, b, q.h, q.i, j);
}

// The scores of the pieces' keys. LANES threads add up the products of their elements. `made` has the queries if they have just been made:
// what each round reads from there takes no registers from round to round.
template <typename T, int EACH, int LANES, int ROWS, bool MADE>
__device__ inline void score_pieces(const gpu_attend &p, const Part<T> &part, const Row<EACH> *row, const T *made, const Pieces &all, int j0,
				    int step, float score[ROWS][FEW_KEYS])
{
	const float log2e = 1.4426950408889634f;
	const bool plain = !(p.softcap > 0) && !p.mask_type && !p.bias_type;
#pragma unroll
	for (int r = 0; r < ROWS; r++) {
		float q[EACH];
		if constexpr (MADE)
			numbers<T, EACH>(q, *(const uint4 *)(made + r * LANES * EACH + part.at));
		else
			numbers<T, EACH>(q, row[r].q);
#pragma unroll
		for (int u = 0; u < FEW_KEYS; u++) {
			float x[EACH], s = 0;
			numbers<T, EACH>(x, all.key[u]);
#pragma unroll
			for (int e = 0; e < EACH; e++)
				s += q[e] * x[e];
#pragma unroll
			for (int m = 1; m < LANES; m *= 2)
				s += __shfl_xor_sync(0xffffffffu, s, m);
			score[r][u] = s * p.scale;
		}
	}
	if (!plain) {
#pragma unroll
		for (int r = 0; r < ROWS; r++)
#pragma unroll
			for (int u = 0; u < FEW_KEYS; u++) {
				int j = j0 + u * step;
				if (j >= row[r].first && j < row[r].end)
					score[r][u] = bounded(altered(p, score[r][u], part.b, row[r].query, j));
			}
	}
#pragma unroll
	for (int r = 0; r < ROWS; r++)
#pragma unroll
		for (int u = 0; u < FEW_KEYS; u++) {
			int j = j0 + u * step;
			score[r][u] = j < row[r].first || j >= row[r].end ? -INFINITY : score[r][u] * log2e;
		}
}

// Adds keys of these scores to what the queries have seen.
template <typename T, int EACH, int ROWS>
__device__ inline void see(Row<EACH> *row, float score[ROWS][FEW_KEYS], const Pieces &all)
{
#pragma unroll
	for (int r = 0; r < ROWS; r++) {
		Seen<EACH> &seen = row[r].seen;
		float most = seen.top;
#pragma unroll
		for (int u = 0; u < FEW_KEYS; u++)
			most = fmaxf(most, score[r][u]);
		float base = most == -INFINITY ? 0.0f : most, by = exp2_of(seen.top - base);
		seen.top = most;
		seen.sum *= by;
#pragma unroll
		for (int e = 0; e < EACH; e++)
			seen.out[e] *= by;
#pragma unroll
		for (int u = 0; u < FEW_KEYS; u++) {
			score[r][u] = exp2_of(score[r][u] - base);
			seen.sum += score[r][u];
		}
	}
#pragma unroll
	for (int u = 0; u < FEW_KEYS; u++) {
		float x[EACH];
		numbers<T, EACH>(x, all.value[u]);
#pragma unroll
		for (int r = 0; r < ROWS; r++)
#pragma unroll
			for (int e = 0; e < EACH; e++)
				row[r].seen.out[e] += score[r][u] * x[e];
	}
}

// What the warps of a block have seen.
template <int HEAD, int ROWS> struct Warps {
	float top[MOST_WARPS][ROWS], sum[MOST_WARPS][ROWS], out[MOST_WARPS][ROWS][HEAD];
};

// Joins what the groups of LANES threads of a warp have seen, and leaves it in shared memory.
template <int EACH, int LANES, int HEAD, int ROWS>
__device__ inline void settle(Seen<EACH> &seen, int at, int r, Warps<HEAD, ROWS> &all)
{
	const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;

#pragma unroll 1
	for (int m = LANES; m < 32; m *= 2) {
		Seen<EACH> other;
		other.top = __shfl_xor_sync(0xffffffffu, seen.top, m);
		other.sum = __shfl_xor_sync(0xffffffffu, seen.sum, m);
#pragma unroll
		for (int e = 0; e < EACH; e++)
			other.out[e] = __shfl_xor_sync(0xffffffffu, seen.out[e], m);
		join(seen, other);
	}
	if (lane == 0) {
		all.top[warp][r] = seen.top;
		all.sum[warp][r] = seen.sum;
	}
#pragma unroll
	for (int e = 0; e < EACH; e++)
		if (lane < LANES)
			all.out[warp][r][at + e] = seen.out[e];
}

// Writes element c of query `row`: the result if there is one part, otherwise what is known of it after this part.
template <typename T> __device__ inline void put(const gpu_attend &p, const Part<T> &part, unsigned row, int c, const Seen<1> &all)
{

	if (p.parts == 1) {
		finish<T>(p, part.b, query_of(p, part.kh, row), c, all.top, all.sum, all.out[0]);
		return;
	}
	int64_t at = (part.b * (int)p.kv_heads + part.kh) * (int64_t)rows_of(p) + row;
	float *to = (float *)p.scratch + (at * p.parts + blockIdx.x) * (p.dv + 2);
	if (c == 0) {
		to[0] = all.top;
		to[1] = all.sum;
	}
	to[2 + c] = all.out[0];
}

#ifdef CLUSTERS
enum { NEAR_PARTS = 8 };

// The blocks of a cluster have the parts of the same queries. Each gets from all of them what they have seen of its share of the
// queries' elements, and joins it.
template <typename T, int HEAD, int ROWS> struct Near {
	static const int SHARE = ROWS * HEAD / NEAR_PARTS;
	float number[NEAR_PARTS * SHARE * 3];

	__device__ inline void give(int z, const Seen<1> &x)
	{
		const int at = (blockIdx.x * SHARE + z % SHARE) * 3;
		cluster_put(number, at, z / SHARE, x.top);
		cluster_put(number, at + 1, z / SHARE, x.sum);
		cluster_put(number, at + 2, z / SHARE, x.out[0]);
	}
	__device__ inline Seen<1> got(int part, int i, int to) const
	{
		const int at = (part * SHARE + i) * 3;
		return {cluster_get(number, at, to), cluster_get(number, at + 1, to), {cluster_get(number, at + 2, to)}};
	}
	__device__ inline void put_share(const gpu_attend &p, const Part<T> &part, unsigned row0, int to) const
	{
		for (int i = threadIdx.x; i < SHARE; i += blockDim.x) {
			const int z = to * SHARE + i, c = z % HEAD;
			const unsigned row = row0 + z / HEAD;
			Seen<1> all = got(0, i, to);
#pragma unroll
			for (int k = 1; k < NEAR_PARTS; k++)
				join(all, got(k, i, to));
			if (row < rows_of(p) && c < (int)p.dv)
				finish<T>(p, part.b, query_of(p, part.kh, row), c, all.top, all.sum, all.out[0]);
		}
	}
};
#endif

// Joins what the threads of a block have seen, and with CLUSTERED what the blocks of a cluster have, and writes the results.
template <typename T, int HEAD, int ROWS, bool CLUSTERED>
__device__ inline void put_rows(const gpu_attend &p, const Part<T> &part, unsigned row0, Row<16 / sizeof(T)> *row)
{
	const int EACH = 16 / sizeof(T), LANES = HEAD / EACH;
	const unsigned rows = rows_of(p);
	__shared__ Warps<HEAD, ROWS> warps;
#pragma unroll
	for (int r = 0; r < ROWS; r++)
		settle<EACH, LANES, HEAD, ROWS>(row[r].seen, part.at, r, warps);
#ifdef CLUSTERS
	__shared__ Near<T, HEAD, ROWS> near_by;
	if (CLUSTERED)
		cluster_wait(); // the others have begun, so that their shared memory is there
#endif
	__syncthreads();
#pragma unroll 1
	for (int z = threadIdx.x; z < ROWS * HEAD; z += blockDim.x) {
		int r = z / HEAD, c = z % HEAD;
		if (!CLUSTERED && (row0 + r >= rows || c >= (int)p.dv))
			continue;
		Seen<1> all = {warps.top[0][r], warps.sum[0][r], {warps.out[0][r][c]}};
#pragma unroll 1
		for (int w = 1; w < (int)blockDim.x / 32; w++) {
			Seen<1> other = {warps.top[w][r], warps.sum[w][r], {warps.out[w][r][c]}};
			join(all, other);
		}
		if (!CLUSTERED)
			put<T>(p, part, row0 + r, c, all);
#ifdef CLUSTERS
		else
			near_by.give(z, all);
#endif
	}
#ifdef CLUSTERS
	if (!CLUSTERED)
		return;
	cluster_arrive();
	cluster_wait();
	for (int to = cluster_first<NEAR_PARTS>(); to < cluster_end<NEAR_PARTS>(); to++)
		near_by.put_share(p, part, row0, to);
#endif
}

// A block has ROWS queries of one head of keys, and one part of the keys. LANES neighbouring threads hold a key, each 16 bytes
// of it; each thread reads FEW_KEYS keys and their values at once, and the next ones while it computes, so that the memory is kept busy.
template <typename T, int HEAD, int ROWS, Source FROM, bool CLUSTERED>
__device__ inline void few(const gpu_attend &p, const gpu_attend_now *all = NULL)
{
	const int EACH = 16 / sizeof(T), LANES = HEAD / EACH;
	const int groups = blockDim.x / LANES, step = groups * FEW_KEYS;
	__shared__ Fresh<T, HEAD, FROM == NOW ? ROWS : 1> fresh;
	if (FROM == NOW && !all->ahead)
		wait_for_previous();
	Part<T> part = part_of<T, FROM>(p, threadIdx.x % LANES * EACH);
	const unsigned row0 = blockIdx.y / (unsigned)p.kv_heads * ROWS, rows = rows_of(p);
	Row<EACH> row[ROWS];
	Pieces now, next;
	float score[ROWS][FEW_KEYS];

	int j0 = part.begin + threadIdx.x / LANES;
	read_pieces<T, FROM>(p, part, j0, groups, now);
	if constexpr (FROM == NOW) {
		const auto turn = fresh.begin(p, all->heads, part.b);
		if (all->ahead)
			wait_for_previous();
		fresh.make(p, all->heads, turn, part, row0);
	}
	const int end = FROM == READY ? part.end : part.room;
#pragma unroll
	for (int r = 0; r < ROWS; r++)
		begin_row<T, EACH, FROM == NOW>(p, part, row0 + r < rows ? row0 + r : 0, row[r]);
	// all threads of a warp go through the same rounds, since they exchange products
	for (int first = part.begin; first < end; first += step, j0 += step) {
		read_pieces<T, FROM>(p, part, j0 + step, groups, next);
		if (FROM == NOW)
			fresh.add(part, j0, groups, now);
		if (FROM != READY)
			keep_pieces<T, FROM>(p, part, j0, groups, now);
		score_pieces<T, EACH, LANES, ROWS, FROM == NOW>(p, part, row, fresh.all, now, j0, groups, score);
		see<T, EACH, ROWS>(row, score, now);
		now = next;
	}
	if (FROM == NOW)
		let_next_begin(); // not before: the weights that it reads ahead would hold up the keys
	put_rows<T, HEAD, ROWS, CLUSTERED>(p, part, row0, row);
}

// A block joins the parts of one query. Each thread has one element of it.
template <typename T> __device__ inline void join_parts(const gpu_attend &p)
{
	const unsigned rows = rows_of(p), row = blockIdx.x % rows, kh = blockIdx.x / rows % (unsigned)p.kv_heads;
	const int b = (int)(blockIdx.x / rows / (unsigned)p.kv_heads);
	const float *from = (const float *)p.scratch + (int64_t)blockIdx.x * p.parts * (p.dv + 2);
	for (int c = threadIdx.x; c < p.dv; c += blockDim.x) {
		Seen<1> all = {from[0], from[1], {from[2 + c]}};
		for (int i = 1; i < p.parts; i++) {
			const float *x = from + i * (p.dv + 2);
			Seen<1> other = {x[0], x[1], {x[2 + c]}};
			join(all, other);
		}
		finish<T>(p, b, query_of(p, kh, row), c, all.top, all.sum, all.out[0]);
	}
}

// Registers of a thread of an attention that makes its new rows: beside a block of 256 threads a block of gemv_ring.cu for up to eight rows
// fits on the processor, but no second block of the attention, which is faster on a processor of its own.
enum { BESIDE_PRODUCT = 160 };

// __grid_constant__: threads would copy the parameters to memory of their own, where a function takes their address.
#define FEW(T, HEAD, ROWS)                                                                                             \
	extern "C" __global__ void __launch_bounds__(256) attend_few_##T##_##HEAD##_##ROWS(const __grid_constant__ gpu_attend p)         \
	{                                                                                                              \
		start_early();                                                                                        \
		few<T, HEAD, ROWS, READY, false>(p);                                                                          \
	}                                                                                                              \
	extern "C" __global__ void __launch_bounds__(256) attend_make_##T##_##HEAD##_##ROWS(const __grid_constant__ gpu_attend p)        \
	{                                                                                                              \
		start_early();                                                                                        \
		few<T, HEAD, ROWS, MAKE, false>(p);                                                                           \
	}                                                                                                              \
	extern "C" __global__ void __maxnreg__(BESIDE_PRODUCT) attend_now_##T##_##HEAD##_##ROWS(const __grid_constant__ gpu_attend_now p)     \
	{                                                                                                              \
		few<T, HEAD, ROWS, NOW, false>(p.attend, &p);                                                          \
	}
#ifdef CLUSTERS
#define NEAR(T, HEAD, ROWS)                                                                                             \
	extern "C" __global__ void CLUSTER(NEAR_PARTS) __launch_bounds__(256) attend_near_##T##_##HEAD##_##ROWS(const __grid_constant__ gpu_attend p) \
	{                                                                                                              \
		cluster_arrive();                                                                                      \
		start_early();                                                                                        \
		few<T, HEAD, ROWS, MAKE, true>(p);                                                                     \
	}                                                                                                              \
	extern "C" __global__ void CLUSTER(NEAR_PARTS) __maxnreg__(BESIDE_PRODUCT)                                     \
		attend_now_near_##T##_##HEAD##_##ROWS(const __grid_constant__ gpu_attend_now p)                        \
	{                                                                                                              \
		cluster_arrive();                                                                                      \
		few<T, HEAD, ROWS, NOW, true>(p.attend, &p);                                                           \
	}
#else
#define NEAR(T, HEAD, ROWS)
#endif
#define JOIN(T)                                                                                                        \
	extern "C" __global__ void __launch_bounds__(128) attend_join_##T(const __grid_constant__ gpu_attend p)            \
	{                                                                                                              \
		start_early();                                                                                        \
		join_parts<T>(p);                                                                                      \
	}
// FEW(type, head size, queries in a block). gpu/ops/sdpa.c chooses among these numbers.
FEW(f32, 64, 1) FEW(f32, 64, 4) FEW(f32, 128, 1) FEW(f32, 128, 4)
FEW(f16, 64, 1) FEW(f16, 64, 4) FEW(f16, 128, 1) FEW(f16, 128, 4)
FEW(bf16, 64, 1) FEW(bf16, 64, 4) FEW(bf16, 128, 1) FEW(bf16, 128, 4)
NEAR(f32, 64, 1) NEAR(f32, 64, 4) NEAR(f32, 128, 1) NEAR(f32, 128, 4)
NEAR(f16, 64, 1) NEAR(f16, 64, 4) NEAR(f16, 128, 1) NEAR(f16, 128, 4)
NEAR(bf16, 64, 1) NEAR(bf16, 64, 4) NEAR(bf16, 128, 1) NEAR(bf16, 128, 4)
JOIN(f32) JOIN(f16) JOIN(bf16)
