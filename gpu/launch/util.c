/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/launch/util.h"

#include "ops/ints.h"

enum dtype gpu_type(const struct site *s, uint32_t i)
{
	const struct vinfo *v = site_in(s, i);
	return v ? (enum dtype)v->type.dtype : DT_NONE;
}

enum dtype gpu_out_type(const struct site *s, uint32_t i)
{
	const struct vinfo *v = site_out(s, i);
	return v ? (enum dtype)v->type.dtype : DT_NONE;
}

void *gpu_typed(const struct site *s, const char *file, const char *prefix, enum dtype t,
		struct diag *d)
{
	char name[64];

	snprintf(name, sizeof(name), "%s_%s", prefix, t == DT_BOOL ? "u8" : dtype_name(t));
	return gpu_kernel(s, file, name, d);
}

void *gpu_sized(const struct site *s, const char *file, const char *prefix, enum dtype t,
		struct diag *d)
{
	char name[64];

	snprintf(name, sizeof(name), "%s_%d", prefix, (int)gpu_size(t));
	return gpu_kernel(s, file, name, d);
}

int64_t gpu_count(const struct shape *s)
{
	int64_t n = shape_count(s);
	return n < 0 ? 0 : n;
}

bool gpu_list(const struct site *s, uint32_t i, struct int_list *l)
{
	const struct tensor *t = site_known(s, i);
	const struct vinfo *v = site_in(s, i);

	*l = (struct int_list){0};
	if (!t && v && shape_count(&v->shape) == 0)
		return true;
	return t && list_of(t, l);
}

void gpu_strides(const struct shape *s, int64_t *strides)
{
	int64_t step = 1;

	for (int i = s->rank - 1; i >= 0; i--) {
		strides[i] = step;
		step *= s->dim[i];
	}
}

static bool can_merge(const int64_t *dim, int nwalk, int64_t (*step)[MAX_RANK], int a, int b)
{
	for (int k = 0; k < nwalk; k++)
		if (step[k][a] != step[k][b] * dim[b])
			return false;
	return true;
}

bool gpu_collapse(int rank, const int64_t *dim, int nwalk, int64_t (*step)[MAX_RANK],
		  struct gpu_dims *d, int64_t (*out)[GPU_DIMS])
{
	int64_t kept[MAX_RANK];
	int n = 0, at[MAX_RANK];

	for (int r = 0; r < rank; r++) {
		if (dim[r] == 1)
			continue;
		if (n && can_merge(dim, nwalk, step, at[n - 1], r)) {
			kept[n - 1] *= dim[r];
		} else {
			kept[n++] = dim[r];
		}
		at[n - 1] = r;
	}
	if (n > GPU_DIMS)
		return false;
	d->rank = n;
	for (int r = 0; r < n; r++) {
		d->dim[r] = kept[r];
		for (int k = 0; k < nwalk; k++)
			out[k][r] = step[k][at[r]];
	}
	return true;
}

bool gpu_part(const struct shape *x, uint32_t mask, struct gpu_dims *keep, int64_t (*ks)[GPU_DIMS],
	      int64_t *n, struct gpu_dims *red, int64_t (*rs)[GPU_DIMS], int64_t *m)
{
	int64_t own[MAX_RANK], dim[2][MAX_RANK], step[2][1][MAX_RANK];
	int count[2] = {0, 0};

	gpu_strides(x, own);
	*n = *m = 1;
	for (int r = 0; r < x->rank; r++) {
		int k = mask >> r & 1;
		dim[k][count[k]] = x->dim[r];
		step[k][0][count[k]++] = own[r];
		*(k ? m : n) *= x->dim[r];
	}
	return gpu_collapse(count[0], dim[0], 1, step[0], keep, ks) &&
	       gpu_collapse(count[1], dim[1], 1, step[1], red, rs);
}

bool gpu_broadcast(const struct shape *out, int n, const struct shape *const *in,
		   struct gpu_dims *d, int64_t (*step)[GPU_DIMS])
{
	int64_t wide[GPU_PW_IN][MAX_RANK] = {{0}};

	for (int k = 0; k < n; k++)
		shape_broadcast_strides(in[k], out, wide[k]);
	return gpu_collapse(out->rank, out->dim, n, wide, d, step);
}

bool gpu_piece(struct gpu_piece *p, int rank, const int64_t *dim, const int64_t *xs, const int64_t *ys)
{
	int64_t step[2][MAX_RANK] = {{0}}, out[2][GPU_DIMS] = {{0}};

	p->job.n = 1;
	for (int r = 0; r < rank; r++) {
		step[0][r] = xs[r];
		step[1][r] = ys[r];
		p->job.n *= dim[r];
	}
	if (!gpu_collapse(rank, dim, 2, step, &p->job.d, out))
		return false;
	memcpy(p->job.xs, out[0], sizeof(out[0]));
	memcpy(p->job.ys, out[1], sizeof(out[1]));
	return true;
}

int gpu_strided_run(const struct call *c, void *fn, const struct gpu_strided *job)
{
	const struct gpu_strided_pieces one = {.piece = {*job}};

	return gpu_launch_early(c, fn, gpu_grid(job->n), &one, sizeof(one));
}

enum { WIDE_BYTES = 16 };

/* Sets `to` to the same copy with elements of WIDE_BYTES. Returns false if rows, steps or offsets are no multiples of these. */
static bool widen(const struct gpu_piece *from, int64_t size, struct gpu_piece *to)
{
	int64_t by = WIDE_BYTES / size;
	int last = from->job.d.rank - 1;

	*to = *from;
	if (by < 2 || last < 0 || from->job.xs[last] != 1 || from->job.ys[last] != 1 ||
	    from->job.d.dim[last] % by || from->from % WIDE_BYTES || from->to % WIDE_BYTES)
		return false;
	for (int r = 0; r < last; r++) {
		if (from->job.xs[r] % by || from->job.ys[r] % by)
			return false;
		to->job.xs[r] /= by;
		to->job.ys[r] /= by;
	}
	to->job.d.dim[last] /= by;
	to->job.n /= by;
	return true;
}

int gpu_moves_set(const struct site *s, struct gpu_moves *m, enum dtype t, struct diag *d)
{
	bool wide = m->count > 0;

	m->fn = gpu_sized(s, "move", "strided", t, d);
	m->wide = arena_new_n(s->plan_arena, struct gpu_piece, (size_t)m->count + 1);
	for (int i = 0; i < m->count; i++)
		wide = wide && widen(&m->piece[i], gpu_size(t), &m->wide[i]);
	m->wide_fn = wide ? gpu_kernel(s, "move", "strided_16", d) : NULL;
	return m->fn && (m->wide_fn || !wide) ? 0 : -E_DEVICE;
}

static const void *piece_from(const struct call *c, const struct gpu_piece *p)
{
	return (const char *)gpu_data(c, p->in) + p->from;
}

static void *piece_to(const struct call *c, const struct gpu_piece *p)
{
	return (char *)gpu_out(c, p->out) + p->to;
}

static bool pieces_aligned(const struct call *c, const struct gpu_moves *m)
{
	uintptr_t all = 0;

	for (int i = 0; i < m->count; i++)
		all |= (uintptr_t)piece_from(c, &m->piece[i]) | (uintptr_t)piece_to(c, &m->piece[i]);
	return all % WIDE_BYTES == 0;
}

int gpu_moves_run(const struct call *c)
{
	const struct gpu_moves *m = c->step->state;
	bool wide = m->wide_fn && pieces_aligned(c, m);
	const struct gpu_piece *pieces = wide ? m->wide : m->piece;
	int err = 0;

	for (int i = 0; i < m->count && !err;) {
		struct gpu_strided_pieces job = {0};
		int64_t most = 0;
		unsigned n = 0;
		for (; i < m->count && n < GPU_PIECES; i++) {
			const struct gpu_piece *p = &pieces[i];
			if (p->job.n <= 0)
				continue;
			job.piece[n] = p->job;
			job.piece[n].x = piece_from(c, p);
			job.piece[n++].y = piece_to(c, p);
			most = p->job.n > most ? p->job.n : most;
		}
		struct gpu_grid g = gpu_grid(most);
		g.y = n;
		err = n ? gpu_launch_early(c, wide ? m->wide_fn : m->fn, g, &job, sizeof(job)) : 0;
	}
	return err;
}

int gpu_view_reshape(struct site *s, struct step *step, struct diag *d)
{
	(void)s, (void)d;
	step->nop = true;
	return 0;
}

int gpu_view_run(const struct call *c)
{
	return gpu_copy(c, c->out[0]->data, c->in[0]->data, c->out[0]->bytes);
}

static void drop_arena(struct device *device, void *state)
{
	struct arena a = *(struct arena *)state;

	(void)device;
	arena_free(&a);
}

void *gpu_slot_new(struct device *device, enum gpu_slot slot, size_t bytes,
		   void (*drop)(struct device *device, void *state))
{
	void *state = gpu_slot(device, slot);
	struct arena a = {0};

	if (state)
		return state;
	state = arena_alloc(&a, bytes);
	*(struct arena *)state = a;
	gpu_slot_set(device, slot, state, drop ? drop : drop_arena);
	return state;
}
