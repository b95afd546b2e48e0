/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CUDA graphs of launches that are written down in place of being queued. Recording a stream (capture.c) takes any work, but
 * the driver compares nothing: a graph with other numbers in it is a new graph. Here both lists are known, so that of a graph
 * whose launches are alike only those that differ are changed. What a library queues cannot be written down.
 */
#include "gpu/driver/device.h"
#include "gpu/kernels/params.h"

#include <string.h>

struct operation {
	void *fn; /* CUfunction; NULL for a copy */
	struct gpu_grid grid;
	bool early; /* gpu_launch_early() */
	void *to;
	const void *from;
	int to_device, from_device;
	size_t at, bytes; /* parameters of a launch in listing.params; length of a copy */
	unsigned jobs;
	const struct step *by[GPU_SEVERAL]; /* while it is written down: the steps of its jobs */
};

struct listing {
	struct operation *op;
	char *params;
	size_t n, room, params_used, params_room;
	bool failed;
	CUgraph graph; /* that was made of it, or NULL */
	CUgraphNode *node;
};

void listing_free(struct device *dev, struct listing *l)
{
	if (!l)
		return;
	if (l->graph)
		dev->api->p_cuGraphDestroy(l->graph);
	mem_free(l->op);
	mem_free(l->params);
	mem_free(l->node);
	mem_free(l);
}

/* ---- writing down -------------------------------------------------------------------------------- */

/* Makes room for `need` elements in an array of `room`, `used` of which are in use. */
static bool reserve(void **array, size_t *room, size_t used, size_t need, size_t size)
{
	size_t bytes;

	if (need <= *room)
		return true;
	if (!size_mul(need, 2 * size, &bytes))
		return false;
	void *more = mem_alloc(bytes, MEM_GRAPHS);
	if (!more)
		return false;
	if (used)
		memcpy(more, *array, used * size);
	mem_free(*array);
	*array = more;
	*room = 2 * need;
	return true;
}

static struct operation *add(struct listing *l)
{
	void *op = l->op;

	if (l->failed || !reserve(&op, &l->room, l->n, l->n + 1, sizeof(*l->op))) {
		l->failed = true;
		return NULL;
	}
	l->op = op;
	l->op[l->n] = (struct operation){0};
	return &l->op[l->n++];
}

int listing_launch(struct listing *l, const struct step *by, void *fn, struct gpu_grid g,
		   const void *params, size_t bytes, bool early)
{
	void *all = l->params;
	size_t at = (l->params_used + 15) & ~(size_t)15;
	struct operation *o = add(l);

	if (!o || !reserve(&all, &l->params_room, l->params_used, at + bytes, 1)) {
		l->failed = true;
		return -E_MEMORY;
	}
	l->params = all;
	memset(l->params + l->params_used, 0, at - l->params_used);
	memcpy(l->params + at, params, bytes);
	l->params_used = at + bytes;
	*o = (struct operation){
		.fn = fn, .grid = g, .early = early, .at = at, .bytes = bytes, .jobs = 1};
	o->by[0] = by;
	return 0;
}

bool listing_add_job(struct listing *l, const struct step *by, void *fn, struct gpu_grid g,
		     const void *job, gpu_add_job *add_job)
{
	struct operation *last = l->n ? &l->op[l->n - 1] : NULL;

	if (l->failed || !last || last->fn != fn || last->grid.y != g.y || last->jobs >= GPU_SEVERAL ||
	    last->grid.threads != g.threads || last->grid.shared != g.shared ||
	    !add_job(l->params + last->at, last->jobs, job, &last->grid, &g))
		return false;
	last->by[last->jobs++] = by;
	return true;
}

bool listing_written(struct listing *l, unsigned back, struct gpu_written *out)
{
	struct operation *o = !l->failed && back < l->n ? &l->op[l->n - 1 - back] : NULL;

	if (!o || !o->fn)
		return false;
	*out = (struct gpu_written){.fn = &o->fn,
				    .grid = &o->grid,
				    .params = l->params + o->at,
				    .bytes = o->bytes,
				    .jobs = o->jobs,
				    .by = o->by};
	return true;
}

void listing_unwrite(struct listing *l, unsigned back)
{
	struct operation *o = &l->op[l->n - 1 - back];

	memmove(o, o + 1, back * sizeof(*o));
	l->n--;
}

int listing_copy(struct listing *l, void *to, int to_device, const void *from, int from_device,
		 size_t bytes)
{
	struct operation *o = add(l);

	if (!o)
		return -E_MEMORY;
	*o = (struct operation){.to = to,
				.from = from,
				.to_device = to_device,
				.from_device = from_device,
				.bytes = bytes};
	return 0;
}

int cuda_queue_directly(struct stream *s)
{
	if (!s->listing)
		return 0;
	s->listing->failed = true;
	return -E_RUN;
}

/* ---- graphs -------------------------------------------------------------------------------------- */

/* A launch as a graph's node holds it; `extra` points to itself, so that it must not be copied. */
struct launch_node {
	size_t bytes;
	void *extra[5];
	CUDA_KERNEL_NODE_PARAMS params;
};

static const CUDA_KERNEL_NODE_PARAMS *launch_node(struct launch_node *k, const struct listing *l,
						  const struct operation *o)
{
	k->bytes = o->bytes;
	k->extra[0] = CU_LAUNCH_PARAM_BUFFER_POINTER;
	k->extra[1] = l->params + o->at;
	k->extra[2] = CU_LAUNCH_PARAM_BUFFER_SIZE;
	k->extra[3] = &k->bytes;
	k->extra[4] = CU_LAUNCH_PARAM_END;
	k->params = (CUDA_KERNEL_NODE_PARAMS){.func = o->fn,
					      .gridDimX = o->grid.x,
					      .gridDimY = o->grid.y,
					      .gridDimZ = o->grid.z,
					      .blockDimX = o->grid.threads,
					      .blockDimY = 1,
					      .blockDimZ = 1,
					      .sharedMemBytes = o->grid.shared,
					      .extra = k->extra};
	return &k->params;
}

static CUDA_MEMCPY3D copy_node(const struct operation *o)
{
	return (CUDA_MEMCPY3D){
		.srcMemoryType = o->from_device ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST,
		.srcDevice = o->from_device ? (CUdeviceptr)(uintptr_t)o->from : 0,
		.srcHost = o->from_device ? NULL : o->from,
		.dstMemoryType = o->to_device ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST,
		.dstDevice = o->to_device ? (CUdeviceptr)(uintptr_t)o->to : 0,
		.dstHost = o->to_device ? NULL : o->to,
		.WidthInBytes = o->bytes,
		.Height = 1,
		.Depth = 1};
}

/* Operation i waits by itself for what it reads. As it then ends after the launch before it, what comes behind may rely on both. */
static bool starts_early(const struct listing *l, size_t i)
{
	return i && l->op[i].fn && l->op[i].early && l->op[i - 1].fn;
}

/* Adds the operations to the graph, each behind the one before it. */
static CUresult add_nodes(struct device *dev, struct listing *l)
{
	static const CUgraphEdgeData early = {.from_port = CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC,
					      .type = CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC};
	const struct cuda_api *api = dev->api;
	const bool able = dev->early && api->p_cuGraphAddDependencies_v2;
	CUresult r = CUDA_SUCCESS;

	for (size_t i = 0; i < l->n && !r; i++) {
		const struct operation *o = &l->op[i];
		const CUgraphNode *before = i ? &l->node[i - 1] : NULL;
		struct launch_node k;
		if (able && starts_early(l, i)) {
			r = api->p_cuGraphAddKernelNode(&l->node[i], l->graph, NULL, 0,
							launch_node(&k, l, o));
			if (!r)
				r = api->p_cuGraphAddDependencies_v2(l->graph, before, &l->node[i],
								     &early, 1);
		} else if (o->fn) {
			r = api->p_cuGraphAddKernelNode(&l->node[i], l->graph, before, i > 0,
							launch_node(&k, l, o));
		} else {
			CUDA_MEMCPY3D copy = copy_node(o);
			r = api->p_cuGraphAddMemcpyNode(&l->node[i], l->graph, before, i > 0, &copy,
							dev->context);
		}
	}
	return r;
}

CUresult listing_graph(struct device *dev, struct listing *l, CUgraph *out)
{
	size_t bytes;

	if (!l->n || !size_mul(l->n, sizeof(*l->node), &bytes))
		return CUDA_ERROR_INVALID_VALUE;
	l->node = mem_zalloc(bytes, MEM_GRAPHS);
	if (!l->node)
		return CUDA_ERROR_OUT_OF_MEMORY;
	CUresult r = dev->api->p_cuGraphCreate(&l->graph, 0);
	*out = r ? NULL : l->graph;
	return r ? r : add_nodes(dev, l);
}

static bool same_operation(const struct listing *a, const struct listing *b, size_t i)
{
	const struct operation *x = &a->op[i], *y = &b->op[i];

	if (x->fn != y->fn || x->bytes != y->bytes)
		return false;
	if (!x->fn)
		return x->to == y->to && x->from == y->from;
	return !memcmp(&x->grid, &y->grid, sizeof(x->grid)) &&
	       !memcmp(a->params + x->at, b->params + y->at, x->bytes);
}

static bool alike(const struct listing *a, const struct listing *b)
{
	if (a->n != b->n)
		return false;
	for (size_t i = 0; i < a->n; i++)
		if (!a->op[i].fn != !b->op[i].fn || a->op[i].early != b->op[i].early ||
		    a->op[i].to_device != b->op[i].to_device ||
		    a->op[i].from_device != b->op[i].from_device)
			return false;
	return true;
}

bool listing_change(struct device *dev, CUgraphExec exec, struct listing *old, struct listing *now)
{
	const struct cuda_api *api = dev->api;
	CUresult r = CUDA_SUCCESS;

	if (!old || !old->graph || !alike(old, now))
		return false;
	for (size_t i = 0; i < now->n && !r; i++) {
		struct launch_node k;
		if (same_operation(old, now, i))
			continue;
		if (now->op[i].fn) {
			r = api->p_cuGraphExecKernelNodeSetParams(exec, old->node[i],
								  launch_node(&k, now, &now->op[i]));
		} else {
			CUDA_MEMCPY3D copy = copy_node(&now->op[i]);
			r = api->p_cuGraphExecMemcpyNodeSetParams(exec, old->node[i], &copy,
								  dev->context);
		}
	}
	if (r)
		return false;
	now->graph = old->graph;
	now->node = old->node;
	old->graph = NULL;
	old->node = NULL;
	return true;
}

bool listing_usable(const struct listing *l)
{
	return !l->failed && l->n;
}

struct listing *listing_clear(struct listing *l)
{
	if (!l)
		return mem_zalloc(sizeof(*l), MEM_GRAPHS);
	l->n = l->params_used = 0;
	l->failed = false;
	return l;
}
