/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Faults that only a GPU has, for the fault-injection build (see plan/fault.h). A fault's VALUE is the number of the
 * first run in which the step fails. Runs are counted on the device, so that a CUDA graph that contains the fault fails
 * when it is replayed. The faults are:
 *
 *   illegal-address   a kernel on the step's stream stores through an invalid pointer
 *   trap              a kernel on the step's stream executes a trap
 *   launch-failure    a launch has more threads in a block than CUDA allows
 *   out-of-memory     an allocation is larger than any device's memory
 *   wrong-handle      a launch uses a stream of another context
 */
#include "gpu/driver/device.h"

#ifdef FAULTS

extern const struct fault_kind gpu_faults[];

/*
 * Kernel `go` counts its runs in *counter. From run number `from` on, it stores to address 16 if `how` is 0, or traps
 * if `how` is 1.
 */
static const char ptx[] = ".version 7.0\n.target sm_75\n.address_size 64\n"
			  ".visible .entry go(.param .align 8 .b8 p[16])\n{\n"
			  "\t.reg .pred %q<3>;\n\t.reg .b32 %r<6>;\n\t.reg .b64 %d<4>;\n"
			  "\tld.param.u64 %d1, [p];\n\tld.param.u32 %r1, [p+8];\n"
			  "\tld.param.u32 %r2, [p+12];\n"
			  "\tcvta.to.global.u64 %d2, %d1;\n"
			  "\tld.global.u32 %r3, [%d2];\n\tadd.u32 %r3, %r3, 1;\n"
			  "\tst.global.u32 [%d2], %r3;\n"
			  "\tsetp.lt.u32 %q1, %r3, %r1;\n\t@%q1 bra done;\n"
			  "\tsetp.eq.u32 %q2, %r2, 0;\n\t@%q2 bra store;\n\ttrap;\n"
			  "store:\n\tmov.u64 %d3, 16;\n\tst.global.u32 [%d3], %r3;\n"
			  "done:\n\tret;\n}\n";

struct go_params {
	uint64_t counter;
	uint32_t from, how;
};

struct planted {
	void *fn;
	struct buffer counter;
	uint32_t runs; /* number of runs so far, for faults that fail on the host */
	CUcontext other;
	CUstream stream; /* of `other` */
};

static void drop_planted(struct device *dev, void *p)
{
	struct planted *f = p;

	cuda_free(dev, &f->counter);
	if (f->other && !dev->lost)
		dev->api->p_cuCtxDestroy(f->other);
}

/*
 * Returns the state of the fault, which is created at its first use. The first use is never inside the recording of a
 * CUDA graph.
 */
static struct planted *planted_of(const struct call *c)
{
	struct device *dev = c->stream->device;
	struct planted *f = gpu_slot(dev, GPU_FAULTS);

	if (f)
		return f;
	f = arena_new(&dev->arena, struct planted);
	f->fn = gpu_code(dev, ptx, "go", c->diag);
	if (!f->fn || cuda_alloc(dev, 4, MEM_WORKSPACE, &f->counter, c->diag))
		return NULL;
	dev->api->p_cuMemsetD8Async((CUdeviceptr)(uintptr_t)f->counter.ptr, 0, 4, c->stream->stream);
	gpu_slot_set(dev, GPU_FAULTS, f, drop_planted);
	return f;
}

static int run_then_fault(const struct call *c, int (*kernel)(const struct call *), double from,
			  uint32_t how)
{
	struct planted *f = planted_of(c);
	int err = f ? kernel(c) : -E_RUN;

	if (err)
		return err;
	struct go_params p = {(uint64_t)(uintptr_t)f->counter.ptr, (uint32_t)from, how};
	return gpu_launch(c, f->fn, (struct gpu_grid){1, 1, 1, 1, 0}, &p, sizeof(p));
}

static int illegal_address(const struct call *c, int (*kernel)(const struct call *), double from)
{
	return run_then_fault(c, kernel, from, 0);
}

static int trap(const struct call *c, int (*kernel)(const struct call *), double from)
{
	return run_then_fault(c, kernel, from, 1);
}

/* Runs the step's own kernel. If this run shall fail, sets *out to the state of the fault, otherwise to NULL. */
static int host_fault(const struct call *c, int (*kernel)(const struct call *), double from,
		      struct planted **out)
{
	struct planted *f = *out = planted_of(c);
	int err = f ? kernel(c) : -E_RUN;

	if (!err && ++f->runs < (uint32_t)from)
		*out = NULL;
	return err;
}

static int launch_failure(const struct call *c, int (*kernel)(const struct call *), double from)
{
	struct planted *f;
	int err = host_fault(c, kernel, from, &f);
	struct go_params p = {0};

	if (err || !f)
		return err;
	return gpu_launch(c, f->fn, (struct gpu_grid){1, 1, 1, 1 << 14, 0}, &p, sizeof(p));
}

static int out_of_memory(const struct call *c, int (*kernel)(const struct call *), double from)
{
	struct planted *f;
	struct buffer b = {0};
	int err = host_fault(c, kernel, from, &f);

	if (err || !f)
		return err;
	err = cuda_alloc(c->stream->device, (size_t)1 << 44, MEM_WORKSPACE, &b, c->diag);
	cuda_free(c->stream->device, &b);
	return err;
}

static int wrong_handle(const struct call *c, int (*kernel)(const struct call *), double from)
{
	struct device *dev = c->stream->device;
	struct planted *f;
	int err = host_fault(c, kernel, from, &f);
	CUcontext top;

	if (err || !f)
		return err;
	CUresult r = dev->api->p_cuCtxCreate_v2(&f->other, CU_CTX_SCHED_AUTO, dev->id);
	if (!r)
		r = dev->api->p_cuStreamCreate(&f->stream, CU_STREAM_NON_BLOCKING);
	if (f->other)
		dev->api->p_cuCtxPopCurrent(&top);
	if (r)
		return cuda_failed(dev, (int)r, "making another context", c->diag);
	struct stream other = {.stream = f->stream, .device = dev};
	struct call with = *c;
	struct go_params p = {(uint64_t)(uintptr_t)f->counter.ptr, UINT32_MAX, 0};
	with.stream = &other;
	return gpu_launch(&with, f->fn, (struct gpu_grid){1, 1, 1, 1, 0}, &p, sizeof(p));
}

const struct fault_kind gpu_faults[] = {
	{"illegal-address", 1, illegal_address, true}, {"trap", 1, trap, true},
	{"launch-failure", 1, launch_failure, false},  {"out-of-memory", 1, out_of_memory, false},
	{"wrong-handle", 1, wrong_handle, false},      {0},
};

#endif
