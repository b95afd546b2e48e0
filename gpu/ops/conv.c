/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Convolutions. Our own kernels compute depthwise convolutions, the first convolution of an image network ("stem") and
 * products with a single pixel ("point"); cuDNN computes the others. Convolutions that cuDNN refuses are computed by a
 * plain kernel of ours. Tensors are channels-last if the fastest kernel wants them so.
 */
#include "gpu/ops/conv.h"

#include "ops/conv.h"
#include "ops/fused.h"

#include "gpu/library/choices.h"
#include "gpu/library/conv_plan.h"
#include "gpu/ops/deconv.h"
#include "gpu/kernels/conv.h"
#include "gpu/kernels/depthwise.h"
#include "gpu/launch/channels_last.h"
#include "gpu/launch/group.h"
#include "gpu/launch/packed.h"
#include "gpu/ops/task_rows.h"
#include "gpu/driver/tune.h"

enum { TILE_SIZE = 64, MIN_TILED_CHANNELS = 16, MAX_POINT_WORK = 1 << 24 };
enum how { OWN, DEPTHWISE, STEM, POINT, LIBRARY };

struct conv_state {
	enum how how;
	struct device *device;
	void *fn;
	bool direct;
	struct gpu_conv_job job; /* geometry that all ways use, and the job of the plain kernel */
	struct gpu_depthwise depthwise;
	struct gpu_point point;
	int together; /* images that share a warp, which computes one output of each */
	struct gpu_stem stem;
	/* the weights in the order that the kernel reads; packed once if they are constant, otherwise in each run */
	struct gpu_form weight;
	void *weight_fn,
		*round_fn; /* which rounds the weights when they are in order, if it is not NULL */
	struct gpu_pack weight_pack;
	struct gpu_flip weight_flip;
	int64_t weight_elements;
	/* cuDNN */
	struct conv_plan *plan;
	void *pack_fn;
	struct gpu_pack pack;
	bool flips, raw_weight;
	int pack_each;
	size_t x_at, plan_at;
	const void *zeros;
	bool w_is_weight; /* the weights do not change from run to run */
};

static const char *fill_job(const struct site *s, struct conv_state *c)
{
	const struct shape *x = &site_in(s, 0)->shape, *weight = &site_in(s, 1)->shape;
	struct gpu_conv_job *j = &c->job;
	const char *bad = gpu_window_set(&j->win, s->node->params, x, weight, false, NULL);

	if (bad)
		return bad;
	if (s->node->op->domain) {
		const struct fused_conv *f = s->node->params;
		j->group = f->group;
		j->act = f->act, j->act_alpha = (double)f->act_alpha,
		j->act_beta = (double)f->act_beta;
	} else {
		j->group = ((const struct conv *)s->node->params)->group;
	}
	j->image = gpu_volume(j->win.in);
	j->pixels = gpu_volume(j->win.out);
	j->window = gpu_volume(j->win.kernel);
	j->batch = x->dim[0];
	j->cin = weight->dim[1];
	j->cout = weight->dim[0] / j->group;
	c->direct = j->cout < MIN_TILED_CHANNELS || j->batch * j->group > MAX_GRID_YZ;
	return NULL;
}

bool gpu_conv_accepts(const struct site *s, struct why *w)
{
	struct conv_state c = {0};
	const char *bad = fill_job(s, &c);

	return bad ? refuse(w, "%s", bad) : true;
}

/* ---- weights in another form ------------------------------------------------------------------ */

/* `each` is the number of elements of y that a thread writes. */
static int launch_pack(const struct call *c, void *fn, const struct gpu_pack *pack, int each,
		       const void *x, void *y)
{
	struct gpu_pack job = *pack;

	job.x = x;
	job.y = y;
	return gpu_launch(c, fn, gpu_grid(job.n / each), &job, sizeof(job));
}

static int pack_weight(const struct call *c, void *dst, const void *src, const void *arg)
{
	const struct conv_state *s = arg;

	struct gpu_flip flip = s->weight_flip;
	int err = 0;

	flip.x = src;
	flip.y = dst;
	if (s->flips)
		err = gpu_launch(c, s->weight_fn, gpu_grid(flip.rows * flip.cols), &flip,
				 sizeof(flip));
	else if (s->weight_fn)
		err = launch_pack(c, s->weight_fn, &s->weight_pack, 1, src, dst);
	if (err || !s->round_fn)
		return err;
	return gpu_group_round(c, s->round_fn, s->weight_fn ? dst : src, dst, s->weight_elements);
}

static int plan_weight(struct site *s, struct step *step, struct conv_state *c, const char *form,
		       size_t bytes, struct diag *d)
{
	if (!c->weight_fn && !c->round_fn)
		return -E_DEVICE;
	return gpu_form_take(s, step, 1, form, bytes, pack_weight, c, &c->weight, d);
}

/*
 * Sets *w to the weights in the order that the kernel reads; queues the packing if they are not constant. Returns 0 or
 * -code.
 */
static int get_weight(const struct call *c, const struct conv_state *s, const void **w)
{
	return gpu_form_give(c, 1, pack_weight, s, &s->weight, w);
}

/* ---- depthwise -------------------------------------------------------------------------------- */

static bool fits_int32(const struct conv_state *c)
{
	const struct gpu_conv_job *j = &c->job;
	int64_t channels = j->group * (j->cin > j->cout ? j->cin : j->cout);

	if (j->win.begin[0] < 0 || j->win.begin[1] < 0 || j->win.begin[2] < 0)
		return false;
	return j->batch < INT32_MAX && j->batch * channels * j->image < INT32_MAX &&
	       j->batch * channels * j->pixels < INT32_MAX;
}

static bool is_depthwise(const struct conv_state *c)
{
	const struct gpu_conv_job *j = &c->job;

	return j->group > 1 && j->cin == 1 && j->cout == 1 && gpu_window_flat(&j->win) &&
	       fits_int32(c);
}

/*
 * The ways to divide the work, of which timing chooses one: a thread computes `width` neighbouring outputs of a row, either alone or
 * (`rows`) with one thread for each row of the window; or (`tiles`) each block brings a piece of the image into shared memory.
 */
static const struct {
	int width;
	bool rows, tiles;
} shares[] = {{1, false, false}, {2, false, false}, {4, false, false}, {8, false, false},
	      {1, true, false},	 {2, true, false},  {4, true, false},  {0, false, true}};
enum { SHARES = sizeof(shares) / sizeof(*shares) };

static bool has_share(const struct gpu_depthwise *p, int share)
{
	bool large = p->win.stride[0] == 1 && p->win.kernel[0] > 3;

	if (shares[share].tiles)
		return p->win.stride[0] == 1;
	return large || (!shares[share].rows && shares[share].width < 8);
}

static int parts(int n, int part)
{
	return (n + part - 1) / part;
}

static int least(int64_t a, int64_t b)
{
	return (int)(a < b ? a : b);
}

/*
 * Arranges the tiles of a block: beside one another where the image is broad enough, then below one another, then of
 * further channels. Returns false if copies of 16 bytes would hold elements of two pixels, or a block has too little shared memory.
 */
static bool arrange_tiles(const struct site *s, struct gpu_depthwise *p)
{
	const int side = DEPTHWISE_SIDE, *out = p->win.out, k = p->win.kernel[0];
	const int most = DEPTHWISE_THREADS / DEPTHWISE_CHANNELS;
	int size = (int)gpu_size(gpu_type(s, 0));

	p->across = least(gpu_power_of_two(parts(out[1], side)), 4);
	p->down = least(gpu_power_of_two(parts(out[0], side)), most / p->across);
	p->deep = least(gpu_power_of_two(parts(p->channels, DEPTHWISE_CHANNELS)),
			most / p->across / p->down);
	p->threads = p->across * p->down * p->deep * DEPTHWISE_CHANNELS;
	p->shared =
		DEPTHWISE_PLANE(side * p->down + k - 1, side * p->across + k - 1) * p->deep * size;
	p->items = 1;
	p->n = (int64_t)p->batch * parts(out[1], side * p->across) * parts(out[0], side * p->down) *
	       parts(p->channels, DEPTHWISE_CHANNELS * p->deep);
	return p->threads >= 32 && p->channels * size % 16 == 0 &&
	       p->shared <= cuda_facts(s->device)->shared_memory;
}

/*
 * Finds the kernel for p's window that divides the work as shares[share] says, and sets up p for it. Returns NULL if there is none.
 */
static void *depthwise_share(const struct site *s, struct gpu_depthwise *p, int share, struct diag *d)
{
	int width = shares[share].width;
	const char *type = dtype_name(gpu_type(s, 0));
	char name[64];

	if (!has_share(p, share))
		return NULL;
	if (shares[share].tiles) {
		if (!arrange_tiles(s, p))
			return NULL;
		snprintf(name, sizeof(name), "depthwise_tiled_%d_%s", p->win.kernel[0], type);
		return gpu_kernel_sharing(s, "depthwise", name,
					  (unsigned)cuda_facts(s->device)->shared_memory, d);
	}
	p->n = (int64_t)p->batch * p->win.out[0] * parts(p->win.out[1], width) * p->channels / 4;
	p->threads = shares[share].rows ? 32 * p->win.kernel[0] : 128;
	p->items = shares[share].rows ? 32 : 128;
	p->shared = 0;
	snprintf(name, sizeof(name), "depthwise_%s%d_%d_%d", shares[share].rows ? "rows_" : "",
		 p->win.kernel[0], p->win.stride[0], width);
	return gpu_typed(s, "conv", name, gpu_type(s, 0), d);
}

static int launch_depthwise(const struct call *c, void *fn, const struct gpu_depthwise *job)
{
	unsigned blocks = (unsigned)((job->n + job->items - 1) / job->items);

	return gpu_launch_early(
		c, fn, (struct gpu_grid){blocks, 1, 1, (unsigned)job->threads, (unsigned)job->shared},
		job, sizeof(*job));
}

struct trial {
	const struct site *site;
	struct call call;
	struct gpu_depthwise job;
	void *fn;
	size_t x, y, w; /* aligned bytes of these operands */
};

static bool set_share(void *arg, int share)
{
	struct trial *t = arg;

	t->fn = depthwise_share(t->site, &t->job, share, NULL);
	return t->fn;
}

static void place_trial_operands(void *arg, char *memory)
{
	struct trial *t = arg;

	t->job.x = memory;
	t->job.y = memory + t->x;
	t->job.w = memory + t->x + t->y;
	t->job.b = memory + t->x + t->y + t->w;
}

static int enqueue_trial(void *arg, struct diag *d)
{
	struct trial *t = arg;

	t->call.diag = d;
	return launch_depthwise(&t->call, t->fn, &t->job);
}

/* The largest number of outputs that leaves every processor enough threads. */
static int usual_share(const struct site *s, const struct gpu_depthwise *p)
{
	int64_t n = (int64_t)p->batch * p->win.out[0] * p->win.out[1] * p->channels / 4;
	int share = 0;

	while (share < 2 &&
	       n / (2 * shares[share].width) >= (int64_t)cuda_facts(s->device)->processors * 1024)
		share++;
	return share;
}

/* Returns an index in shares[]. */
static int choose_share(const struct site *s, const struct gpu_depthwise *p)
{
	static const struct step none;
	size_t size = (size_t)gpu_size(gpu_type(s, 0)), c = (size_t)p->channels, n = (size_t)p->batch;
	struct trial t = {
		.site = s,
		.call = {.step = &none, .stream = cuda_stream(s->device)},
		.job = *p,
		.x = cuda_aligned(n * (size_t)p->win.in[0] * (size_t)p->win.in[1] * c * size),
		.y = cuda_aligned(n * (size_t)p->win.out[0] * (size_t)p->win.out[1] * c * size),
		.w = cuda_aligned((size_t)p->win.kernel[0] * (size_t)p->win.kernel[1] * c * 4),
	};
	const struct tune_ways ways = {SHARES,
				       usual_share(s, p),
				       set_share,
				       place_trial_operands,
				       t.x + t.y + t.w + c * size,
				       enqueue_trial,
				       &t};
	char key[192];

	snprintf(key, sizeof(key),
		 "infer4 depthwise %s b%d c%d in%d,%d out%d,%d window%d stride%d act%d",
		 dtype_name(gpu_type(s, 0)), p->batch, p->channels, p->win.in[0], p->win.in[1],
		 p->win.out[0], p->win.out[1], p->win.kernel[0], p->win.stride[0], p->act);
	return tune_choose(s->device, key, &ways);
}

static void *depthwise_kernel(const struct site *s, struct gpu_depthwise *p, struct diag *d)
{
	int vector = (int)(16 / gpu_size(gpu_type(s, 0))), k = p->win.kernel[0],
	    st = p->win.stride[0];
	bool whole = p->channels % vector == 0;
	bool square = k == p->win.kernel[1] && st == p->win.stride[1] &&
		      (k == 3 || k == 5 || k == 7) && st <= 2 && p->win.dilation[0] == 1 &&
		      p->win.dilation[1] == 1;

	if (square && p->channels % 4 == 0)
		return depthwise_share(s, p, choose_share(s, p), d);
	p->n = (int64_t)p->batch * p->win.out[0] * p->win.out[1] * p->channels / (whole ? vector : 1);
	p->threads = p->items = 128;
	return gpu_typed(s, "conv", whole ? "depthwise_any_v" : "depthwise_any_1", gpu_type(s, 0), d);
}

static int depthwise_reshape(struct site *s, struct step *step, struct conv_state *c, struct diag *d)
{
	const struct gpu_conv_job *j = &c->job;
	struct gpu_depthwise *p = &c->depthwise;
	enum layout *want, *give;

	*p = (struct gpu_depthwise){.batch = (int)j->batch,
				    .channels = (int)j->group,
				    .win = gpu_window_plane(&j->win),
				    .act = j->act,
				    .alpha = (float)j->act_alpha,
				    .beta = (float)j->act_beta,
				    .w_is_weight = site_is_weight(s, 1)};
	c->fn = depthwise_kernel(s, p, d);
	gpu_layouts(s, step, &want, &give);
	want[0] = gpu_channels_last(&site_in(s, 0)->shape);
	give[0] = gpu_channels_last(&site_out(s, 0)->shape);
	if (site_in(s, 3))
		want[3] = give[0];
	c->flips = true;
	c->weight_flip = (struct gpu_flip){.batch = 1, .rows = j->group, .cols = j->window};
	c->weight_fn = gpu_typed(s, "conv", "depthwise_weights", gpu_type(s, 0), d);
	int err = plan_weight(s, step, c, "depthwise",
			      (size_t)(j->group * j->window) * sizeof(float), d);
	return c->fn ? err : -E_DEVICE;
}

static int depthwise_run(const struct call *c, const struct conv_state *s)
{
	struct gpu_depthwise job = s->depthwise;
	int err = get_weight(c, s, &job.w);

	job.x = gpu_data(c, 0);
	job.b = gpu_data(c, 2);
	job.r = gpu_data(c, 3);
	job.y = gpu_out(c, 0);
	return err ? err : launch_depthwise(c, s->fn, &job);
}

/* ---- stem: the first convolution of an image network -------------------------------------------- */

/*
 * Returns whether the stem kernel computes this 3x3 fp32 convolution of few channels. cuDNN would run partly filled
 * tiles. In fp16 cuDNN is faster in spite of that.
 */
static bool is_stem(const struct site *s, const struct conv_state *c)
{
	const struct gpu_conv_job *j = &c->job;
	bool square = gpu_window_flat(&j->win) && j->win.kernel[1] == 3 && j->win.kernel[2] == 3 &&
		      j->win.dilation[1] == 1 && j->win.dilation[2] == 1;

	return square && gpu_type(s, 0) == DT_F32 && j->group == 1 && j->cin <= STEM_IN &&
	       j->cout <= STEM_OUT && j->cout % 8 == 0 && j->win.stride[1] <= STEM_STEP &&
	       j->win.stride[2] <= STEM_STEP && j->batch <= MAX_GRID_YZ &&
	       (j->win.out[1] + STEM_ROWS - 1) / STEM_ROWS <= MAX_GRID_YZ &&
	       site_in(s, 0)->layout != LAYOUT_CHANNELS_LAST && !site_in(s, 3);
}

static int stem_reshape(struct site *s, struct step *step, struct conv_state *c, struct diag *d)
{
	const struct gpu_conv_job *j = &c->job;
	enum layout *want, *give;

	c->stem = (struct gpu_stem){.batch = (int)j->batch,
				    .cin = (int)j->cin,
				    .cout = (int)j->cout,
				    .act = j->act,
				    .alpha = (float)j->act_alpha,
				    .beta = (float)j->act_beta};
	for (int i = 0; i < 2; i++) {
		c->stem.in[i] = (int)j->win.in[1 + i];
		c->stem.out[i] = (int)j->win.out[1 + i];
		c->stem.stride[i] = (int)j->win.stride[1 + i];
		c->stem.begin[i] = (int)j->win.begin[1 + i];
	}
	c->fn = gpu_typed(s, "conv", "stem", gpu_type(s, 0), d);
	gpu_layouts(s, step, &want, &give);
	give[0] = gpu_channels_last(&site_out(s, 0)->shape);
	c->flips = true;
	c->weight_flip = (struct gpu_flip){.batch = 1, .rows = j->cout, .cols = j->cin * j->window};
	c->weight_fn = gpu_typed(s, "conv", "depthwise_weights", gpu_type(s, 0), d);
	int err = plan_weight(s, step, c, "stem",
			      (size_t)(j->cout * j->cin * j->window) * sizeof(float), d);
	return c->fn ? err : -E_DEVICE;
}

static int stem_run(const struct call *c, const struct conv_state *s)
{
	struct gpu_stem job = s->stem;
	struct gpu_grid g = {(unsigned)((job.out[1] + STEM_COLS - 1) / STEM_COLS),
			     (unsigned)((job.out[0] + STEM_ROWS - 1) / STEM_ROWS),
			     (unsigned)job.batch, STEM_ROWS * STEM_COLS, 0};
	int err = get_weight(c, s, &job.w);

	job.x = gpu_data(c, 0);
	job.b = gpu_data(c, 2);
	job.y = gpu_out(c, 0);
	return err ? err : gpu_launch(c, s->fn, g, &job, sizeof(job));
}

/* ---- point: an image of one pixel, so a matrix times a vector ----------------------------------- */

static bool is_point(const struct conv_state *c)
{
	const struct gpu_conv_job *j = &c->job;

	return j->group == 1 && j->image == 1 && j->pixels == 1 && j->window == 1 &&
	       j->batch <= MAX_GRID_YZ && j->cin <= MAX_POINT_WORK && j->cout <= MAX_POINT_WORK &&
	       j->batch * j->cout <= MAX_POINT_WORK / j->cin;
}

/* How many images share a warp, which reads the weights once for all: more if one warp for each would not fit on the device at once. */
static int point_together(const struct site *s, const struct gpu_point *p)
{
	enum { WARPS = 32 }; /* of a processor at once; below its limit, since some end early */
	int64_t warps = (int64_t)p->batch * p->cout,
		room = (int64_t)cuda_facts(s->device)->processors * WARPS;

	return warps <= room ? 1 : warps <= 2 * room ? 2 : 8;
}

static int point_reshape(struct site *s, struct conv_state *c, struct diag *d)
{
	const struct gpu_conv_job *j = &c->job;

	c->point = (struct gpu_point){.batch = (int)j->batch,
				      .cin = (int)j->cin,
				      .cout = (int)j->cout,
				      .act = j->act,
				      .alpha = (float)j->act_alpha,
				      .beta = (float)j->act_beta,
				      .w_is_weight = site_is_weight(s, 1)};
	char name[16];
	c->together = point_together(s, &c->point);
	snprintf(name, sizeof(name), "point_%d", c->together);
	c->fn = gpu_typed(s, "conv", name, gpu_type(s, 0), d);
	return c->fn ? 0 : -E_DEVICE;
}

static int point_run(const struct call *c, const struct conv_state *s)
{
	struct gpu_point job = s->point;
	struct gpu_grid g = {(unsigned)((job.cout + 3) / 4),
			     (unsigned)((job.batch + s->together - 1) / s->together), 1, 128, 0};

	job.x = gpu_data(c, 0);
	job.w = gpu_data(c, 1);
	job.b = gpu_data(c, 2);
	job.r = gpu_data(c, 3);
	job.y = gpu_out(c, 0);
	return gpu_launch_early(c, s->fn, g, &job, sizeof(job));
}

/* ---- cuDNN ------------------------------------------------------------------------------------ */

/*
 * Returns whether windows neither overlap nor leave gaps. Each window is then a pixel whose channels are the window's
 * elements.
 */
static bool is_patch(const struct gpu_conv_job *j, const int64_t *end)
{
	bool yes = j->window > 1 && j->group == 1 && j->win.in[0] == 1 && j->win.kernel[0] == 1;

	for (int i = 0; i < GPU_SPACE; i++)
		yes = yes && j->win.kernel[i] == j->win.stride[i] && !j->win.begin[i] &&
		      end[i] <= 0 && j->win.dilation[i] == 1;
	return yes;
}

static void fill_case(const struct site *s, const struct conv_state *c, struct conv_case *k)
{
	const struct gpu_conv_job *j = &c->job;
	const struct gpu_window *w = &j->win;

	conv_case_set(k, s, w, j->group, j->cin, j->cout);
	k->act = j->act;
	k->alpha = (float)j->act_alpha;
	k->beta = (float)j->act_beta;
	k->residual = site_in(s, 3) != NULL;
	k->bias = site_in(s, 2) || k->act || k->residual;
	for (int i = 0; i < GPU_SPACE; i++) {
		/*
		 * padding behind the input; a negative number means that no window reads the last inputs, which counts
		 * as padding 0
		 */
		k->end[i] = (w->out[i] - 1) * w->stride[i] + (w->kernel[i] - 1) * w->dilation[i] +
			    1 - w->in[i] - w->begin[i];
		if (k->end[i] < 0)
			k->end[i] = 0;
	}
}

/*
 * Prepares to copy non-overlapping windows in runs instead of single elements. If x is channels-last, a run is 16
 * bytes; otherwise it is a row of the window or 16 bytes of one, and the weights keep the model's order. Returns false if the window
 * cannot be copied in runs.
 */
static bool pack_runs(struct conv_state *c, const struct conv_case *k, char *name, size_t room)
{
	struct gpu_pack *p = &c->pack;
	int64_t size = gpu_size(k->type), run = p->kernel[1] * size;
	bool last = p->xs[1] == 1 && k->cin > 1;

	if (p->n >= UINT32_MAX)
		return false;
	if (last) {
		run *= k->cin;
		if (run % 16 || p->xs[0] * size % 16 || p->xs[2] * size % 16)
			return false;
		p->channels = (int)(run / 16);
		snprintf(name, room, "pack_runs_16");
		run = 16;
	} else {
		p->runs = run % 16 ? 1 : (int)(run / 16);
		run /= p->runs;
		if ((run != 4 && run != 8 && run != 16) || p->xs[0] * size % run ||
		    p->xs[1] * size % run || p->xs[2] * size % run || p->xs[3] != 1)
			return false;
		snprintf(name, room, "pack_planes_%d", (int)run);
		c->raw_weight = true;
	}
	for (int i = 0; i < 3; i++)
		p->xs[i] = p->xs[i] * size / run;
	p->n = p->n * size / run;
	return true;
}

/*
 * Plans the kernel that repacks x for cuDNN. With `patch`, each window becomes the channels of one pixel; otherwise
 * pixels of fewer than four channels are padded to four. x may have either layout.
 */
static int pack_reshape(struct site *s, struct step *step, struct conv_state *c,
			struct conv_case *k, bool patch, struct diag *d)
{
	const struct shape *x = &site_in(s, 0)->shape;
	int64_t st[MAX_RANK], size = gpu_size(k->type);
	struct gpu_pack *p = &c->pack;
	bool row = x->rank == 3;

	gpu_layout_strides(x, site_in(s, 0)->layout, st);
	*p = (struct gpu_pack){.channels = (int)k->cin,
			       .room = patch ? (int)k->cin : 4,
			       .xs = {st[0], st[1], row ? 0 : st[x->rank - 2], st[x->rank - 1]}};
	for (int i = 0; i < 2; i++) {
		p->kernel[i] = patch ? (int)k->win.kernel[1 + i] : 1;
		p->step[i] = p->kernel[i];
		p->out[i] = patch ? (int)k->win.out[1 + i] : (int)k->win.in[1 + i];
	}
	int64_t channels = (int64_t)p->room * p->kernel[0] * p->kernel[1];
	p->n = k->batch * p->out[0] * p->out[1] * channels;
	bool planes = p->xs[2] == p->out[1] && p->xs[3] == 1 && p->out[0] * p->out[1] % 4 == 0 &&
		      p->xs[0] % 4 == 0 && p->xs[1] % 4 == 0;
	char name[32];
	c->pack_each = patch ? 1 : planes ? 16 : 4;
	c->x_at = gpu_room(step, (size_t)(p->n * size));
	if (patch && pack_runs(c, k, name, sizeof(name)))
		c->pack_fn = gpu_kernel(s, "conv", name, d);
	else
		c->pack_fn = gpu_sized(s, "conv",
				       patch	? "pack"
				       : planes ? "pack4_row"
						: "pack4",
				       k->type, d);
	k->cin = channels;
	for (int i = 0; patch && i < GPU_SPACE; i++) {
		k->win.in[i] = k->win.out[i];
		k->win.kernel[i] = k->win.stride[i] = 1;
		k->end[i] = 0;
	}
	return c->pack_fn ? 0 : -E_DEVICE;
}

/*
 * Reorders weights from [cout][cin][window] to [cout][window][room], and rounds them if the plan wants that. Channels from cin to room - 1 become
 * zeros.
 */
static int weight_reshape(struct site *s, struct step *step, struct conv_state *c, int64_t room,
			  struct diag *d)
{
	const struct gpu_conv_job *j = &c->job;
	int64_t size = gpu_size(gpu_type(s, 0)), rows = j->win.kernel[0] * j->win.kernel[1];
	struct gpu_pack *p = &c->weight_pack;
	char form[64];

	c->weight_elements = j->cout * j->group * j->window * room;
	if (conv_plan_rounds(c->plan)) {
		c->round_fn = gpu_group_rounder(s);
		if (!c->round_fn)
			return -E_DEVICE;
	}
	if (c->raw_weight || (j->window == 1 && room == j->cin)) /* already in this order */
		return c->round_fn ? plan_weight(s, step, c, "rounded",
						 (size_t)(c->weight_elements * size), d)
				   : 0;
	*p = (struct gpu_pack){.channels = (int)j->cin,
			       .room = (int)room,
			       .kernel = {1, 1},
			       .step = {1, 1},
			       .out = {(int)rows, (int)j->win.kernel[2]},
			       .xs = {j->cin * j->window, j->window, j->win.kernel[2], 1}};
	p->n = c->weight_elements;
	c->weight_fn = gpu_sized(s, "conv", "pack", gpu_type(s, 0), d);
	if (!c->weight_fn)
		return -E_DEVICE;
	snprintf(form, sizeof(form), "last %d%s", (int)room, c->round_fn ? " rounded" : "");
	return plan_weight(s, step, c, form, (size_t)(p->n * size), d);
}

/* Returns 0, -code, or 1 if cuDNN refuses this convolution. */
static int library_reshape(struct site *s, struct step *step, struct conv_state *c, struct why *why,
			   struct diag *d)
{
	struct conv_case k;
	enum layout *want, *give;
	int err = 0;

	fill_case(s, c, &k);
	bool patch = is_patch(&c->job, k.end) && k.cin * c->job.window < 1 << 20;
	bool pad = !patch && k.n == 2 && k.group == 1 && k.cin < 4;
	int64_t room = pad ? 4 : c->job.cin;
	if (patch || pad)
		err = pack_reshape(s, step, c, &k, patch, d);
	if (err)
		return err;
	c->plan = conv_plan_get(s->device, &k, why);
	if (!c->plan)
		return 1;
	if (c->plan->fell[0])
		gpu_fell_back(s, "what follows the convolution by a kernel of ours", c->plan->fell);
	c->device = s->device;
	c->w_is_weight = site_is_weight(s, 1);
	err = weight_reshape(s, step, c, room, d);
	if (!err && k.bias && !site_in(s, 2)) {
		c->zeros = gpu_zeros(s, (size_t)(k.cout * 8), d);
		err = c->zeros ? 0 : -E_DEVICE;
	}
	gpu_layouts(s, step, &want, &give);
	want[0] = patch || pad ? site_in(s, 0)->layout : gpu_channels_last(&site_in(s, 0)->shape);
	give[0] = gpu_channels_last(&site_out(s, 0)->shape);
	if (k.residual)
		want[3] = give[0];
	c->plan_at = step->workspace;
	step->workspace += conv_plan_workspace(c->plan);
	return err;
}

static int library_run(const struct call *c, const struct conv_state *s)
{
	struct conv_args a = {.x = gpu_data(c, 0),
			      .b = s->zeros ? s->zeros : gpu_data(c, 2),
			      .r = gpu_data(c, 3),
			      .y = gpu_out(c, 0),
			      .workspace = (char *)c->workspace + s->plan_at,
			      .w_is_weight = s->w_is_weight};
	int err = get_weight(c, s, &a.w);

	if (!err && s->pack_fn) {
		void *packed = (char *)c->workspace + s->x_at;
		err = launch_pack(c, s->pack_fn, &s->pack, s->pack_each, a.x, packed);
		a.x = packed;
	}
	return err ? err : conv_plan_run(c, s->plan, &a);
}

/* ---- choosing the way ------------------------------------------------------------------------- */

static int own_reshape(struct site *s, struct step *step, struct conv_state *c, struct diag *d)
{
	c->how = OWN;
	c->weight = (struct gpu_form){0};
	c->weight_fn = c->round_fn = NULL;
	step->want = step->give = NULL;
	step->unread = 0;
	step->workspace = 0;
	c->fn = gpu_typed(s, "product", c->direct ? "direct" : "conv", gpu_type(s, 0), d);
	return c->fn ? 0 : -E_DEVICE;
}

int gpu_conv_reshape(struct site *s, struct step *step, struct diag *d)
{
	struct conv_state *c = arena_new(s->plan_arena, struct conv_state);
	bool shorter = gpu_type(s, 0) != DT_F64;
	struct why why = {.arena = s->plan_arena};
	int err = 1;

	if (s->config && s->config->precision == PRECISION_FP8 && gpu_type(s, 0) == DT_F16)
		gpu_fell_back(s, "in fp16", "convolutions are not computed in fp8");
	fill_job(s, c);
	step->state = c;
	if (!shorter || gpu_count(&site_out(s, 0)->shape) == 0 ||
	    gpu_count(&site_in(s, 0)->shape) == 0 || !fits_int32(c))
		return own_reshape(s, step, c, d);
	if (is_depthwise(c)) {
		c->how = DEPTHWISE;
		return depthwise_reshape(s, step, c, d);
	}
	if (is_stem(s, c)) {
		c->how = STEM;
		return stem_reshape(s, step, c, d);
	}
	if (is_point(c)) {
		c->how = POINT;
		return point_reshape(s, c, d);
	}
	c->how = LIBRARY;
	err = library_reshape(s, step, c, &why, d);
	if (err != 1)
		return err;
	gpu_fell_back(s, "by our own convolution", why.text);
	return own_reshape(s, step, c, d);
}

static int own_run(const struct call *c, const struct conv_state *s)
{
	struct gpu_conv_job job = s->job;
	int64_t n = job.batch * job.group * job.cout * job.pixels;
	struct gpu_grid g = {(unsigned)((job.pixels + TILE_SIZE - 1) / TILE_SIZE),
			     (unsigned)((job.cout + TILE_SIZE - 1) / TILE_SIZE),
			     (unsigned)(job.batch * job.group), 256, 0};

	job.x = gpu_data(c, 0);
	job.w = gpu_data(c, 1);
	job.b = gpu_data(c, 2);
	job.r = gpu_data(c, 3);
	job.y = gpu_out(c, 0);
	return n ? gpu_launch(c, s->fn, s->direct ? gpu_grid(n) : g, &job, sizeof(job)) : 0;
}

int gpu_conv_run(const struct call *c)
{
	static int (*const runs[])(const struct call *, const struct conv_state *) = {
		own_run, depthwise_run, stem_run, point_run, library_run};
	const struct conv_state *s = c->step->state;

	return runs[s->how](c, s);
}

void gpu_conv_drop(struct step *step)
{
	struct conv_state *s = step->state;

	if (s && s->plan)
		conv_plan_put(s->device, s->plan);
}

const struct kernel gpu_conv[] = {{.op = "Conv",
				   .types = T_FLOATING,
				   .accepts = gpu_conv_accepts,
				   .reshape = gpu_conv_reshape,
				   .run = gpu_conv_run,
				   .drop = gpu_conv_drop},
				  GPU_DECONV_ROWS,
				  /* the slowest kernels come last; they support every form */
				  GPU_CONV_ROWS,
				  {0}};
