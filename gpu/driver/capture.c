/* SPDX-License-Identifier: Apache-2.0 */
/* CUDA events, and launches recorded as CUDA graphs. */
#include "gpu/driver/device.h"

struct captured {
	CUgraphExec exec;
	struct device *device;
	struct listing *listing; /* that it was made of, or NULL */
	int64_t bytes;		 /* measured size of the graph */
};

struct event *cuda_event_new(struct device *dev, struct diag *d)
{
	struct event *e = mem_zalloc(sizeof(*e), MEM_CONTEXT);
	bool pushed;

	if (!e) {
		FAIL(d, E_MEMORY);
		return NULL;
	}
	e->device = dev;
	int err = cuda_enter(dev, &pushed, d);
	if (!err) {
		CUresult r = dev->api->p_cuEventCreate(&e->event, CU_EVENT_DEFAULT);
		cuda_leave(dev, pushed);
		err = r ? cuda_failed(dev, (int)r, "making an event", d) : 0;
	}
	if (!err)
		return e;
	mem_free(e);
	return NULL;
}

void cuda_event_free(struct event *e)
{
	bool pushed;

	if (e && !cuda_enter(e->device, &pushed, NULL)) {
		e->device->api->p_cuEventDestroy(e->event);
		cuda_leave(e->device, pushed);
	}
	mem_free(e);
}

int cuda_mark(struct stream *s, struct event *e, struct diag *d)
{
	bool pushed;
	int err = cuda_enter(s->device, &pushed, d);

	if (err)
		return err;
	CUresult r = s->device->api->p_cuEventRecord(e->event, s->stream);
	cuda_leave(s->device, pushed);
	return r ? cuda_failed(s->device, (int)r, "marking an event", d) : 0;
}

int cuda_elapsed(struct event *from, struct event *to, uint64_t *ns, struct diag *d)
{
	struct device *dev = to->device;
	float ms = 0;
	bool pushed;
	int err = cuda_enter(dev, &pushed, d);

	if (err)
		return err;
	CUresult r = dev->api->p_cuEventSynchronize(to->event);
	if (!r)
		r = dev->api->p_cuEventElapsedTime(&ms, from->event, to->event);
	cuda_leave(dev, pushed);
	*ns = ms > 0 ? (uint64_t)((double)ms * 1e6) : 0;
	return r ? cuda_failed(dev, (int)r, "the time between two events", d) : 0;
}

int cuda_capture_begin(struct stream *s, struct diag *d)
{
	bool pushed;
	int err = cuda_enter(s->device, &pushed, d);

	if (err)
		return err;
	/*
	 * In this mode, calls of other threads do not disturb the capture: another thread of the process may allocate
	 * memory meanwhile.
	 */
	CUresult r = s->device->api->p_cuStreamBeginCapture(s->stream,
							    CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
	cuda_leave(s->device, pushed);
	return r ? cuda_failed(s->device, (int)r, "beginning a CUDA graph", d) : 0;
}

/* Makes an executable graph from a captured one. Its size is measured as the decrease of the driver's free memory. */
static CUresult instantiate(struct device *dev, CUstream stream, CUgraph graph, struct captured *c)
{
	uint64_t before = gpu_unused(dev);
	CUresult r = dev->api->p_cuGraphInstantiateWithFlags(&c->exec, graph, 0);

	if (!r) {
		r = dev->api->p_cuGraphUpload(c->exec, stream);
		if (r)
			dev->api->p_cuGraphExecDestroy(c->exec);
	}
	uint64_t now = gpu_unused(dev);
	c->bytes = now && before > now ? (int64_t)(before - now) : 0;
	return r;
}

int cuda_capture_end(struct stream *s, struct captured **out, struct diag *d)
{
	struct device *dev = s->device;
	CUgraph graph = NULL;
	bool pushed;
	int err = cuda_enter(dev, &pushed, d);

	*out = NULL;
	if (err)
		return err;
	CUresult r = dev->api->p_cuStreamEndCapture(s->stream, &graph);
	struct captured *c = r || !graph ? NULL : mem_zalloc(sizeof(*c), MEM_GRAPHS);
	if (c) {
		c->device = dev;
		r = instantiate(dev, s->stream, graph, c);
	}
	if (graph)
		dev->api->p_cuGraphDestroy(graph);
	cuda_leave(dev, pushed);
	if (c && !r) {
		mem_note(MEM_DEVICE, MEM_GRAPHS, c->bytes);
		*out = c;
		return 0;
	}
	mem_free(c);
	return r ? cuda_failed(dev, (int)r, "making a CUDA graph", d) : FAIL(d, E_MEMORY);
}

int cuda_list_begin(struct stream *s, struct diag *d)
{
	const struct cuda_api *api = s->device->api;

	if (!api->p_cuGraphCreate || !api->p_cuGraphAddKernelNode || !api->p_cuGraphAddMemcpyNode ||
	    !api->p_cuGraphExecKernelNodeSetParams || !api->p_cuGraphExecMemcpyNodeSetParams)
		return -E_RUN;
	s->listing = listing_clear(s->spare);
	s->spare = NULL;
	return s->listing ? 0 : FAIL(d, E_MEMORY);
}

/* Makes an executable graph of what has been written down; it takes over the listing, which is freed on failure. */
static struct captured *capture_listing(struct device *dev, CUstream stream, struct listing *l)
{
	struct captured *c = mem_zalloc(sizeof(*c), MEM_GRAPHS);
	CUgraph graph;

	if (c)
		*c = (struct captured){.device = dev};
	if (!c || listing_graph(dev, l, &graph) || instantiate(dev, stream, graph, c)) {
		listing_free(dev, l);
		mem_free(c);
		return NULL;
	}
	c->listing = l;
	mem_note(MEM_DEVICE, MEM_GRAPHS, c->bytes);
	return c;
}

/* Changes the recording *out into what the stream's spare listing holds, or makes a new one in its place. */
static void record_listing(struct stream *s, struct captured **out, bool soon)
{
	struct device *dev = s->device;
	struct captured *c = *out;
	struct listing *l = s->spare;

	if (c && listing_change(dev, c->exec, c->listing, l)) {
		s->spare = c->listing;
		c->listing = l;
		if (!soon)
			dev->api->p_cuGraphUpload(c->exec,
						  s->stream); /* or the launch would, in its time */
		return;
	}
	if (c)
		dev->api->p_cuStreamSynchronize(s->stream); /* it may still run */
	cuda_capture_drop(c);
	s->spare = NULL;
	*out = capture_listing(dev, s->stream, l);
}

int cuda_list_end(struct stream *s, struct captured **out, bool soon)
{
	bool usable = listing_usable(s->listing), pushed;

	s->spare = s->listing;
	s->listing = NULL;
	if (!usable || cuda_enter(s->device, &pushed, NULL))
		return -E_RUN;
	record_listing(s, out, soon);
	cuda_leave(s->device, pushed);
	return *out ? 0 : -E_RUN;
}

int cuda_capture_launch(struct captured *c, struct stream *s, struct diag *d)
{
	CUresult r = c->device->api->p_cuGraphLaunch(c->exec, s->stream);

	return r ? cuda_failed(c->device, (int)r, "the launch of a CUDA graph", d) : 0;
}

void cuda_capture_drop(struct captured *c)
{
	bool pushed;

	if (!c)
		return;
	if (!cuda_enter(c->device, &pushed, NULL)) {
		c->device->api->p_cuGraphExecDestroy(c->exec);
		cuda_leave(c->device, pushed);
	}
	listing_free(c->device, c->listing);
	mem_note(MEM_DEVICE, MEM_GRAPHS, -c->bytes);
	mem_free(c);
}
