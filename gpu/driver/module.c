/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Our kernels: loads images that are part of the program or compiled at run time, finds functions by name, and launches
 * them.
 */
#include "gpu/driver/device.h"
#include "gpu/kernels/image.h"

#include <stdlib.h>
#include <string.h>

static CUresult load_image(struct device *dev, const void *image, CUlibrary *out)
{
	for (int i = 0; i < dev->nloaded; i++) {
		if (dev->loaded[i].image == image) {
			*out = dev->loaded[i].library;
			return CUDA_SUCCESS;
		}
	}
	if (dev->nloaded == MAX_IMAGES)
		return CUDA_ERROR_OUT_OF_MEMORY;
	uint64_t before = gpu_unused(dev);
	CUresult r = dev->api->p_cuLibraryLoadData(out, image, NULL, NULL, 0, NULL, NULL, 0);
	if (!r) {
		dev->loaded[dev->nloaded++] = (struct loaded){*out, image};
		gpu_note_taken(dev, before, MEM_CODE);
	}
	return r;
}

/* The environment variable INFER_PTX=1 makes all devices use PTX, so that it can be tested on any of them. */
static bool wants_ptx(void)
{
	const char *s = getenv("INFER_PTX");

	return s && *s && strcmp(s, "0") != 0;
}

/* Machine code runs on devices of the same major compute capability with an equal or higher minor one. */
static bool has_machine_code(const struct device_facts *f)
{
	for (const int *a = gpu_archs; *a; a++)
		if (*a / 10 == f->major && *a % 10 <= f->minor)
			return true;
	return false;
}

bool gpu_has_code(const struct device_facts *f, bool *ptx)
{
	*ptx = false;
	if (!wants_ptx() && has_machine_code(f))
		return true;
	*ptx = gpu_ptx && gpu_ptx <= f->major * 10 + f->minor;
	return *ptx;
}

int gpu_check_code(const struct device_facts *f, struct diag *d)
{
	const char *archs = "";
	bool ptx;

	/* of a device that cannot be opened nothing is known */
	if (f->result || (gpu_has_code(f, &ptx) && (!ptx || wants_ptx())))
		return 0;
	for (const int *a = gpu_archs; *a; a++)
		archs = fmt(d, "%s%ssm_%d", archs, *archs ? ", " : "", *a);
	const char *expected = fmt(d, "code for compute capability %d.%d", f->major, f->minor);
	const char *actual =
		fmt(d, "machine code for %s%s", archs,
		    gpu_ptx ? fmt(d, ", PTX for %d.%d and newer", gpu_ptx / 10, gpu_ptx % 10)
			    : ", no PTX");
	if (!ptx)
		return FAIL(d, E_CUDA_209, .expected = expected, .actual = actual);
	WARN(d, E_CUDA_209,
	     .message = fmt(d,
			    "this build has no machine code for cuda:%d; the driver compiles its PTX instead, "
			    "which takes a while the first time",
			    f->ordinal),
	     .expected = expected, .actual = actual);
	return 0;
}

/*
 * Loads the image of a file of kernels: machine code if there is some for this device, otherwise PTX, which the driver
 * compiles.
 */
static CUresult load_file(struct device *dev, const char *file, CUlibrary *out)
{
	bool ptx;

	if (!gpu_has_code(&dev->facts, &ptx))
		return CUDA_ERROR_NO_BINARY_FOR_GPU;
	for (const struct gpu_image *m = gpu_images; m->name; m++)
		if (!strcmp(m->name, file))
			return load_image(dev, ptx ? m->ptx : m->data, out);
	return CUDA_ERROR_FILE_NOT_FOUND;
}

static CUresult find_function(struct device *dev, const char *file, const char *name, CUfunction *out)
{
	CUlibrary library;
	CUkernel kernel;
	CUresult r = load_file(dev, file, &library);

	if (!r)
		r = dev->api->p_cuLibraryGetKernel(&kernel, library, name);
	return r ? r : dev->api->p_cuKernelGetFunction(out, kernel);
}

static CUfunction keep_function(struct device *dev, const char *key, CUfunction f)
{
	if (dev->nfunctions == dev->cap_functions) {
		dev->cap_functions = dev->cap_functions ? 2 * dev->cap_functions : 64;
		dev->function = arena_grow(&dev->arena, dev->function, dev->nfunctions,
					   dev->cap_functions, sizeof(CUfunction));
	}
	map_set(&dev->functions, arena_str(&dev->arena, key), strlen(key), dev->nfunctions);
	return dev->function[dev->nfunctions++] = f;
}

static void *fail_without_kernel(struct device *dev, CUresult r, const char *name, struct diag *d)
{
	int driver = 0;

	dev->api->p_cuDriverGetVersion(&driver);
	FAIL(d, r == CUDA_ERROR_NO_BINARY_FOR_GPU ? E_CUDA_209 : E_DEVICE,
	     .message = fmt(d, "kernel %s of this build cannot be used on cuda:%d", name,
			    dev->facts.ordinal),
	     .expected =
		     fmt(d, "code for compute capability %d.%d", dev->facts.major, dev->facts.minor),
	     .actual = fmt(d, "%s; made by CUDA %d.%d, the driver is of CUDA %d.%d",
			   cuda_error_text(dev->api, r, d), CUDA_VERSION / 1000,
			   CUDA_VERSION % 1000 / 10, driver / 1000, driver % 1000 / 10));
	return NULL;
}

void *gpu_kernel(const struct site *s, const char *file, const char *name, struct diag *d)
{
	struct device *dev = s->device;
	char key[160];
	bool pushed;

	snprintf(key, sizeof(key), "%s:%s", file, name);
	int64_t k = map_get(&dev->functions, key, strlen(key));
	if (k >= 0)
		return dev->function[k];
	CUfunction f = NULL;
	if (cuda_enter(dev, &pushed, d))
		return NULL;
	CUresult r = find_function(dev, file, name, &f);
	cuda_leave(dev, pushed);
	return r ? fail_without_kernel(dev, r, name, d) : keep_function(dev, key, f);
}

void *gpu_kernel_sharing(const struct site *s, const char *file, const char *name, unsigned bytes,
			 struct diag *d)
{
	struct device *dev = s->device;
	void *fn = gpu_kernel(s, file, name, d);
	bool pushed;

	if (!fn || cuda_enter(dev, &pushed, d))
		return NULL;
	CUresult r = dev->api->p_cuFuncSetAttribute(
		fn, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, (int)bytes);
	cuda_leave(dev, pushed);
	return r ? fail_without_kernel(dev, r, name, d) : fn;
}

void *gpu_code(struct device *dev, const void *image, const char *kernel, struct diag *d)
{
	CUlibrary library;
	CUkernel k;
	CUfunction f = NULL;
	bool pushed;

	if (cuda_enter(dev, &pushed, d))
		return NULL;
	CUresult r = dev->api->p_cuLibraryLoadData(&library, image, NULL, NULL, 0, NULL, NULL, 0);
	if (!r) {
		struct compiled *l = arena_new(&dev->arena, struct compiled);
		*l = (struct compiled){library, dev->compiled};
		dev->compiled = l;
		r = dev->api->p_cuLibraryGetKernel(&k, library, kernel);
	}
	if (!r)
		r = dev->api->p_cuKernelGetFunction(&f, k);
	cuda_leave(dev, pushed);
	return r ? fail_without_kernel(dev, r, kernel, d) : f;
}

int gpu_codes(struct device *dev, const void *image, const char *const *kernels, void **out, int n,
	      struct diag *d)
{
	CUlibrary library;
	CUkernel k;
	bool pushed;
	int err = cuda_enter(dev, &pushed, d);

	if (err)
		return err;
	CUresult r = dev->api->p_cuLibraryLoadData(&library, image, NULL, NULL, 0, NULL, NULL, 0);
	if (!r) {
		struct compiled *l = arena_new(&dev->arena, struct compiled);
		*l = (struct compiled){library, dev->compiled};
		dev->compiled = l;
	}
	for (int i = 0; i < n && !r; i++) {
		r = dev->api->p_cuLibraryGetKernel(&k, library, kernels[i]);
		if (!r)
			r = dev->api->p_cuKernelGetFunction((CUfunction *)&out[i], k);
	}
	cuda_leave(dev, pushed);
	return r ? cuda_failed(dev, (int)r, "loading compiled kernels", d) : 0;
}

void modules_free(struct device *dev)
{
	for (int i = 0; i < dev->nloaded; i++)
		dev->api->p_cuLibraryUnload(dev->loaded[i].library);
	for (const struct compiled *l = dev->compiled; l; l = l->next)
		dev->api->p_cuLibraryUnload(l->library);
	dev->nloaded = 0;
	dev->compiled = NULL;
}

/*
 * Reports a failed launch. If the driver refused the stream's handle, the stream may belong to another context, and the
 * finding says so.
 */
static int fail_launch(const struct call *c, CUresult r)
{
	struct device *dev = c->stream->device;
	CUcontext of = NULL;

	if ((r == CUDA_ERROR_INVALID_HANDLE || r == CUDA_ERROR_INVALID_CONTEXT) &&
	    !dev->api->p_cuStreamGetCtx(c->stream->stream, &of) && of != dev->context)
		return FAIL(c->diag, E_CTX_STREAM,
			    .message = "a launch on a stream of another CUDA context",
			    .expected = fmt(c->diag, "a stream of context %p", (void *)dev->context),
			    .actual = fmt(c->diag, "one of context %p: %s", (void *)of,
					  cuda_error_text(dev->api, r, c->diag)));
	return cuda_failed(dev, (int)r, "a launch", c->diag);
}

int device_launch(struct stream *s, CUfunction fn, unsigned blocks, unsigned threads,
		  const void *params, size_t bytes, const char *what, struct diag *d)
{
	struct device *dev = s->device;
	void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, (void *)(uintptr_t)params,
			 CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes, CU_LAUNCH_PARAM_END};
	bool pushed;
	int err = cuda_enter(dev, &pushed, d);

	if (err)
		return err;
	CUresult r = dev->api->p_cuLaunchKernel(fn, blocks, 1, 1, threads, 1, 1, 0, s->stream, NULL,
						extra);
	cuda_leave(dev, pushed);
	return r ? cuda_failed(dev, (int)r, what, d) : 0;
}

bool gpu_can_launch_early(const struct device_facts *f)
{
	bool ptx;

	return f->major >= 9 && gpu_has_code(f, &ptx) && !ptx;
}

/* The device's context is already current, because sessions enter it before anything runs. */
static int launch(const struct call *c, void *fn, struct gpu_grid g, const void *params,
		  size_t bytes, bool early)
{
	struct device *dev = c->stream->device;
	void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, (void *)(uintptr_t)params,
			 CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes, CU_LAUNCH_PARAM_END};
	CUlaunchAttribute overlap = {.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
				     .value.programmaticStreamSerializationAllowed = 1};
	CUlaunchConfig config = {.gridDimX = g.x,
				 .gridDimY = g.y,
				 .gridDimZ = g.z,
				 .blockDimX = g.threads,
				 .blockDimY = 1,
				 .blockDimZ = 1,
				 .sharedMemBytes = g.shared,
				 .hStream = c->stream->stream,
				 .attrs = &overlap,
				 .numAttrs = 1};

	if (c->stream->listing)
		return listing_launch(c->stream->listing, c->step, fn, g, params, bytes, early);
	CUresult r = early ? dev->api->p_cuLaunchKernelEx(&config, fn, NULL, extra)
			   : dev->api->p_cuLaunchKernel(fn, g.x, g.y, g.z, g.threads, 1, 1,
							g.shared, c->stream->stream, NULL, extra);
	return r ? fail_launch(c, r) : dev->launched(dev, c->diag);
}

int gpu_launch(const struct call *c, void *fn, struct gpu_grid g, const void *params, size_t bytes)
{
	return launch(c, fn, g, params, bytes, false);
}

int gpu_launch_early(const struct call *c, void *fn, struct gpu_grid g, const void *params,
		     size_t bytes)
{
	return launch(c, fn, g, params, bytes, c->stream->device->early);
}

int gpu_launch_several(const struct call *c, void *fn, struct gpu_grid g, const void *params,
		       size_t bytes, gpu_add_job *add)
{
	struct listing *l = c->stream->listing;

	if (l && listing_add_job(l, c->step, fn, g, params, add))
		return 0;
	return launch(c, fn, g, params, bytes, l && c->stream->device->early);
}

bool gpu_can_describe_boxes(const struct device *device)
{
	return device->api->p_cuTensorMapEncodeTiled && device->api->p_cuTensorMapEncodeIm2col &&
	       device->api->p_cuFuncGetParamInfo;
}

int gpu_launch_boxes(const struct call *c, void *fn, struct gpu_grid g, const void *params,
		     size_t bytes)
{
	struct device *dev = c->stream->device;
	char all[64 + GPU_BOXED] = {0};
	size_t at, size;
	CUresult r = dev->api->p_cuFuncGetParamInfo(fn, 0, &at, &size);

	if (r)
		return fail_launch(c, r);
	if (at > 64 || bytes > GPU_BOXED)
		return FAIL(c->diag, E_INTERNAL, .message = "parameters that do not fit into a launch",
			    .actual = fmt(c->diag, "%zu bytes at %zu", bytes, at));
	memcpy(all + at, params, bytes);
	return gpu_launch_early(c, fn, g, all, at + bytes);
}

/* The rows of a copy are permuted as tensor cores want them. */
static CUtensorMapSwizzle swizzle(int width)
{
	return width == 64 ? CU_TENSOR_MAP_SWIZZLE_64B : CU_TENSOR_MAP_SWIZZLE_128B;
}

static int described(const struct call *c, void *out, CUresult r, const CUtensorMap *map)
{
	if (r)
		return cuda_failed(c->stream->device, (int)r,
				   "describing a matrix to the copy engine", c->diag);
	memcpy(out, map, sizeof(*map));
	return 0;
}

int gpu_describe_box(const struct call *c, void *out, enum dtype t, const void *at, int64_t rows,
		     int64_t columns, int64_t row, int box, int width)
{
	const cuuint64_t size = (cuuint64_t)dtype_bits(t) / 8;
	const cuuint64_t dim[2] = {(cuuint64_t)columns, (cuuint64_t)rows};
	const cuuint64_t step[1] = {(cuuint64_t)row * size};
	const cuuint32_t taken[2] = {(cuuint32_t)width / (cuuint32_t)size, (cuuint32_t)box},
			 each[2] = {1, 1};
	CUtensorMapDataType type = t == DT_F32	  ? CU_TENSOR_MAP_DATA_TYPE_FLOAT32
				   : t == DT_BF16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16
				   : t == DT_F16  ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16
						  : CU_TENSOR_MAP_DATA_TYPE_UINT8;
	CUtensorMap map;
	CUresult r = c->stream->device->api->p_cuTensorMapEncodeTiled(
		&map, type, 2, (void *)(uintptr_t)at, dim, step, taken, each,
		CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle(width), CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
		CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);

	return described(c, out, r, &map);
}

int gpu_describe_windows(const struct call *c, void *out, const void *at,
			 const struct gpu_windows *w, int box, int width)
{
	const cuuint64_t pixel = (cuuint64_t)w->channels, row = pixel * (cuuint64_t)w->in[0];
	const cuuint64_t dim[4] = {pixel, (cuuint64_t)w->in[0], (cuuint64_t)w->in[1],
				   (cuuint64_t)w->images};
	const cuuint64_t step[3] = {pixel, row, row * (cuuint64_t)w->in[1]};
	const cuuint32_t each[4] = {1, (cuuint32_t)w->stride[0], (cuuint32_t)w->stride[1], 1};
	CUtensorMap map;
	CUresult r = c->stream->device->api->p_cuTensorMapEncodeIm2col(
		&map, CU_TENSOR_MAP_DATA_TYPE_UINT8, 4, (void *)(uintptr_t)at, dim, step, w->first,
		w->last, (cuuint32_t)width, (cuuint32_t)box, each, CU_TENSOR_MAP_INTERLEAVE_NONE,
		swizzle(width), CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
		CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);

	return described(c, out, r, &map);
}

bool gpu_written(const struct call *c, unsigned back, struct gpu_written *out)
{
	return c->stream->listing && listing_written(c->stream->listing, back, out);
}

void gpu_unwrite(const struct call *c, unsigned back)
{
	listing_unwrite(c->stream->listing, back);
}

bool gpu_writes_down(const struct call *c)
{
	return c->stream->listing != NULL;
}

int gpu_launched(const struct call *c)
{
	return c->stream->device->launched(c->stream->device, c->diag);
}

int gpu_copy(const struct call *c, void *dst, const void *src, size_t bytes)
{
	return cuda_queue_copy(c->stream, dst, 1, src, 1, bytes, c->diag);
}

uint64_t *gpu_fault(const struct call *c)
{
	return c->stream->device->fault;
}
