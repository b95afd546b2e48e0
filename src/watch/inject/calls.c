/* SPDX-License-Identifier: Apache-2.0 */
/* Decides which CUDA calls we get callbacks for, and passes each callback on to the file that handles it. */
#include "watch/inject/inject.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define RUN_ID(f) CUPTI_RUNTIME_TRACE_CBID_##f

uint64_t hash_mix(uint64_t h, uint64_t v)
{
	h = (h ^ v) * UINT64_C(0x9E3779B97F4A7C15);
	return h ^ (h >> 29);
}

uint64_t thread_id(void)
{
	static __thread uint64_t id; /* cached, so that each thread makes only one system call */

	if (!id)
		id = (uint64_t)syscall(SYS_gettid);
	return id;
}

const char *text_keep(const char *text)
{
	/* maps the hash of a text to a copy of the text (field a) */
	static struct table texts = {.most = 1 << 15};
	uint64_t h = 7;
	struct entry e;

	for (const char *p = text; *p; p++)
		h = hash_mix(h, (unsigned char)*p);
	if (table_get(&texts, h | 1, &e))
		return pointer_of(e.a);
	char *copy = strndup(text, MAX_TEXT);
	if (copy && table_new(&texts, h | 1, handle_of(copy), 0, 0))
		return copy;
	free(copy);
	return table_get(&texts, h | 1, &e)
		       ? pointer_of(e.a)
		       /* another thread stored the text first, or the table is full */
		       : "";
}

/* ---- memory */

/* Maps the handle of a memory pool to its enum watch_kind (field a). Pools of device memory are not in this table. */
static struct table pools;

static void enter_free(CUpti_CallbackId id, const CUpti_CallbackData *c)
{
	if (id == ID(cuMemFree_v2) || id == ID(cuMemFreeAsync) || id == ID(cuMemFreeAsync_ptsz)) {
		PARAMS(cuMemFree_v2);
		memory_gone(p->dptr);
	} else if (id == ID(cuMemFreeHost) || id == ID(cuMemHostUnregister)) {
		PARAMS(cuMemFreeHost);
		memory_gone(handle_of(p->p));
	} else if (id == ID(cuMemRelease)) {
		PARAMS(cuMemRelease);
		memory_released(p->handle);
	} else if (id == ID(cuMemUnmap)) {
		PARAMS(cuMemUnmap);
		memory_unmapped(p->ptr, p->size);
	} else if (id == ID(cuArrayDestroy) || id == ID(cuMipmappedArrayDestroy)) {
		PARAMS(cuArrayDestroy);
		memory_array_gone(handle_of(p->hArray));
	} else if (id == ID(cuMemPoolDestroy)) {
		PARAMS(cuMemPoolDestroy);
		struct entry e;
		table_take(&pools, handle_of(p->pool), &e);
	}
}

/*
 * Returns the bytes of one channel of an array element. Formats that are not listed count as one byte, which is
 * inexact for compressed formats (less than a byte) and for video formats (two planes).
 */
static uint64_t format_bytes(CUarray_format format)
{
	switch (format) {
	case CU_AD_FORMAT_UNSIGNED_INT16:
	case CU_AD_FORMAT_SIGNED_INT16:
	case CU_AD_FORMAT_HALF: return 2;
	case CU_AD_FORMAT_UNSIGNED_INT32:
	case CU_AD_FORMAT_SIGNED_INT32:
	case CU_AD_FORMAT_FLOAT: return 4;
	default: return 1;
	}
}

/* Records an array of `levels` mipmap levels; each level has half the width, height and depth of the one before. */
static void record_array(const void *handle, const CUDA_ARRAY3D_DESCRIPTOR *a, unsigned levels,
			 CUcontext context)
{
	uint64_t w = a->Width, h = a->Height, d = a->Depth, bytes = 0;

	if (a->Flags & (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING))
		return; /* this array has no memory until the program maps memory into it */
	for (unsigned k = 0; k < levels && k < 32; k++) {
		bytes += w * (h ? h : 1) * (d ? d : 1) * a->NumChannels * format_bytes(a->Format);
		w = w > 1 ? w / 2 : 1;
		h = h > 1 ? h / 2 : h;
		d = d > 1 && !(a->Flags & CUDA_ARRAY3D_LAYERED) ? d / 2 : d;
	}
	memory_array_made(handle_of(handle), bytes, context);
}

static bool exit_array(CUpti_CallbackId id, const CUpti_CallbackData *c)
{
	if (id == ID(cuArrayCreate_v2)) {
		PARAMS(cuArrayCreate_v2);
		CUDA_ARRAY3D_DESCRIPTOR a = {.Width = p->pAllocateArray->Width,
					     .Height = p->pAllocateArray->Height,
					     .Format = p->pAllocateArray->Format,
					     .NumChannels = p->pAllocateArray->NumChannels};
		record_array(*p->pHandle, &a, 1, c->context);
	} else if (id == ID(cuArray3DCreate_v2)) {
		PARAMS(cuArray3DCreate_v2);
		record_array(*p->pHandle, p->pAllocateArray, 1, c->context);
	} else if (id == ID(cuMipmappedArrayCreate)) {
		PARAMS(cuMipmappedArrayCreate);
		record_array(*p->pHandle, p->pMipmappedArrayDesc, p->numMipmapLevels, c->context);
	} else {
		return false;
	}
	return true;
}

static bool exit_virtual(CUpti_CallbackId id, const CUpti_CallbackData *c)
{
	if (id == ID(cuMemCreate)) {
		PARAMS(cuMemCreate);
		bool device = p->prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE;
		memory_created(device ? WATCH_DEVICE : WATCH_PINNED, *p->handle, p->size);
	} else if (id == ID(cuMemRetainAllocationHandle)) {
		PARAMS(cuMemRetainAllocationHandle);
		memory_retained(*p->handle);
	} else if (id == ID(cuMemMap)) {
		PARAMS(cuMemMap);
		memory_mapped(p->ptr, p->size, p->handle);
	} else {
		return false;
	}
	return true;
}

static void record_pool(CUmemoryPool pool, const CUmemPoolProps *prop)
{
	enum watch_kind kind = WATCH_DEVICE;

	if (prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
		kind = WATCH_PINNED;
#if CUDA_VERSION >= 13000
	if (prop->allocType == CU_MEM_ALLOCATION_TYPE_MANAGED)
		kind = WATCH_MANAGED;
#endif
	if (kind != WATCH_DEVICE)
		table_must(&pools, handle_of(pool), (uint64_t)kind, 0, 0);
}

static enum watch_kind pool_kind(CUmemoryPool pool)
{
	struct entry e;

	return table_get(&pools, handle_of(pool), &e) ? (enum watch_kind)e.a : WATCH_DEVICE;
}

static bool exit_pool(CUpti_CallbackId id, const CUpti_CallbackData *c)
{
	if (id == ID(cuMemPoolCreate)) {
		PARAMS(cuMemPoolCreate);
		record_pool(*p->pool, p->poolProps);
	} else if (id == ID(cuMemAllocFromPoolAsync) || id == ID(cuMemAllocFromPoolAsync_ptsz)) {
		PARAMS(cuMemAllocFromPoolAsync);
		memory_made(pool_kind(p->pool), *p->dptr, p->bytesize, c->context);
	} else {
		return false;
	}
	return true;
}

static bool exit_memory(CUpti_CallbackId id, const CUpti_CallbackData *c)
{
	if (id == ID(cuMemAlloc_v2) || id == ID(cuMemAllocAsync) || id == ID(cuMemAllocAsync_ptsz)) {
		PARAMS(cuMemAlloc_v2);
		memory_made(WATCH_DEVICE, *p->dptr, p->bytesize, c->context);
	} else if (id == ID(cuMemAllocManaged)) {
		PARAMS(cuMemAllocManaged);
		memory_made(WATCH_MANAGED, *p->dptr, p->bytesize, c->context);
	} else if (id == ID(cuMemAllocPitch_v2)) {
		PARAMS(cuMemAllocPitch_v2);
		memory_made(WATCH_DEVICE, *p->dptr, *p->pPitch * p->Height, c->context);
	} else if (id == ID(cuMemHostAlloc) || id == ID(cuMemAllocHost_v2)) {
		PARAMS(cuMemAllocHost_v2);
		memory_made(WATCH_PINNED, handle_of(*p->pp), p->bytesize, c->context);
	} else if (id == ID(cuMemHostRegister_v2) || id == ID(cuMemHostRegister)) {
		PARAMS(cuMemHostRegister_v2);
		memory_registered(handle_of(p->p), p->bytesize);
	} else {
		return exit_pool(id, c) || exit_virtual(id, c) || exit_array(id, c);
	}
	return true;
}

/* ---- callbacks at the start and at the end of a driver call */

static unsigned listened; /* sum of enum watch_what */

void calls_enter(CUpti_CallbackId id, const CUpti_CallbackData *c)
{
	struct operands o;

	__atomic_fetch_add(&record_shared()->calls, 1, __ATOMIC_RELAXED);
	objects_tell_dead(id, c);
	if (operands_launch(id, c, &o)) {
		__atomic_fetch_add(&record_shared()->launches, 1, __ATOMIC_RELAXED);
		if (listened & WATCH_CALLS)
			failures_launch(&o, c);
		return;
	}
	copies_enter(id, c);
	enter_free(id, c);
	objects_enter(id, c);
}

void calls_exit(CUpti_CallbackId id, const CUpti_CallbackData *c, CUresult result)
{
	if (result != CUDA_SUCCESS) {
		if (result != CUDA_ERROR_NOT_READY && result != CUDA_ERROR_DEINITIALIZED)
			failures_call(id, c, result);
	} else if (operands_launches(id)) {
		failures_launched();
	} else if (!exit_memory(id, c)) {
		objects_exit(id, c);
	}
}

/* ---- which calls we listen to */

static bool is_in_list(const CUpti_CallbackId *list, size_t n, CUpti_CallbackId id)
{
	for (size_t i = 0; i < n; i++)
		if (list[i] == id)
			return true;
	return false;
}

void calls_listen(unsigned what)
{
	listened = what;
}

/* Calls that tell us which context owns a stream, event, module or function. */
static const CUpti_CallbackId ownership_calls[] = {
	ID(cuCtxCreate),
	ID(cuCtxDestroy),
	ID(cuCtxPushCurrent),
	ID(cuCtxPopCurrent),
	ID(cuDevicePrimaryCtxRelease),
	ID(cuDevicePrimaryCtxReset),
	ID(cuEventDestroy),
	ID(cuGraphInstantiate),
	ID(cuCtxCreate_v2),
	ID(cuCtxCreate_v3),
	ID(cuCtxCreate_v4),
	ID(cuCtxDestroy_v2),
	ID(cuCtxSetCurrent),
	ID(cuCtxPushCurrent_v2),
	ID(cuCtxPopCurrent_v2),
	ID(cuDevicePrimaryCtxRetain),
	ID(cuDevicePrimaryCtxRelease_v2),
	ID(cuDevicePrimaryCtxReset_v2),
	ID(cuModuleLoad),
	ID(cuModuleLoadData),
	ID(cuModuleLoadDataEx),
	ID(cuModuleLoadFatBinary),
	ID(cuModuleGetFunction),
	ID(cuModuleUnload),
	ID(cuGraphInstantiate_v2),
	ID(cuGraphInstantiateWithFlags),
	ID(cuGraphInstantiateWithParams),
	ID(cuGraphInstantiateWithParams_ptsz),
	ID(cuGraphExecDestroy),
	ID(cuEventCreate),
	ID(cuIpcOpenEventHandle),
	ID(cuEventDestroy_v2),
};
static const CUpti_CallbackId memory_calls[] = {
	ID(cuMemAlloc_v2),
	ID(cuMemAllocAsync),
	ID(cuMemAllocAsync_ptsz),
	ID(cuMemAllocFromPoolAsync),
	ID(cuMemAllocFromPoolAsync_ptsz),
	ID(cuMemPoolCreate),
	ID(cuMemPoolDestroy),
	ID(cuMemAllocManaged),
	ID(cuMemAllocPitch_v2),
	ID(cuMemHostAlloc),
	ID(cuMemAllocHost_v2),
	ID(cuMemHostRegister_v2),
	ID(cuMemHostRegister),
	ID(cuMemCreate),
	ID(cuMemRetainAllocationHandle),
	ID(cuMemMap),
	ID(cuArrayCreate_v2),
	ID(cuArray3DCreate_v2),
	ID(cuMipmappedArrayCreate),
	ID(cuArrayDestroy),
	ID(cuMipmappedArrayDestroy),
	ID(cuMemFree_v2),
	ID(cuMemFreeAsync),
	ID(cuMemFreeAsync_ptsz),
	ID(cuMemFreeHost),
	ID(cuMemHostUnregister),
	ID(cuMemRelease),
	ID(cuMemUnmap),
};
/*
 * Queries that programs make many times in each step. They fail by design or not at all, so listening to them would
 * cost time and find nothing.
 */
static const CUpti_CallbackId ignored_queries[] = {
	ID(cuCtxGetCurrent),
	ID(cuCtxGetDevice),
	ID(cuCtxGetDevice_v2),
	ID(cuGetProcAddress),
	ID(cuGetProcAddress_v2),
	ID(cuStreamIsCapturing),
	ID(cuStreamIsCapturing_ptsz),
	ID(cuStreamGetCaptureInfo),
	ID(cuStreamGetCaptureInfo_ptsz),
	ID(cuStreamGetCaptureInfo_v2),
	ID(cuStreamGetCaptureInfo_v2_ptsz),
	ID(cuStreamGetCaptureInfo_v3),
	ID(cuStreamGetCaptureInfo_v3_ptsz),
	ID(cuPointerGetAttribute),
	ID(cuPointerGetAttributes),
	ID(cuDeviceGetAttribute),
	ID(cuDevicePrimaryCtxGetState),
	ID(cuDeviceGet),
	ID(cuDeviceGetCount),
	ID(cuDriverGetVersion),
	ID(cuOccupancyMaxActiveBlocksPerMultiprocessor),
	ID(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags),
	ID(cuOccupancyMaxPotentialBlockSize),
	ID(cuOccupancyMaxPotentialBlockSizeWithFlags),
	ID(cuOccupancyMaxPotentialClusterSize),
	ID(cuOccupancyMaxActiveClusters),
	ID(cuOccupancyAvailableDynamicSMemPerBlock),
	ID(cuThreadExchangeStreamCaptureMode),
	ID(cuFuncGetAttribute),
	ID(cuKernelGetAttribute),
	ID(cuKernelGetFunction),
	ID(cuKernelGetName),
	ID(cuFuncSetAttribute),
	ID(cuGetErrorName),
	ID(cuGetErrorString),
	ID(cuStreamGetPriority),
	ID(cuStreamGetCtx),
	ID(cuStreamGetFlags),
	ID(cuStreamGetPriority_ptsz),
	ID(cuStreamGetCtx_ptsz),
	ID(cuStreamGetCtx_v2),
	ID(cuStreamGetCtx_v2_ptsz),
	ID(cuStreamGetFlags_ptsz),
	ID(cuStreamGetId),
	ID(cuStreamGetId_ptsz),
	ID(cuStreamGetDevice),
	ID(cuStreamGetDevice_ptsz),
	ID(cuCtxGetId),
	ID(cuEventElapsedTime),
	ID(cuEventElapsedTime_v2),
	ID(cuTensorMapEncodeTiled),
	ID(cuTensorMapEncodeIm2col),
	ID(cuTensorMapEncodeIm2colWide),
	ID(cuTensorMapReplaceAddress),
};

bool calls_wanted(CUpti_CallbackId id, unsigned what)
{
	if (is_in_list(ownership_calls, COUNT(ownership_calls), id))
		return what & (WATCH_CONTEXTS | WATCH_CALLS);
	if (is_in_list(memory_calls, COUNT(memory_calls), id))
		return what & WATCH_MEMORY;
	return (what & WATCH_CALLS) && !is_in_list(ignored_queries, COUNT(ignored_queries), id);
}

/*
 * Calls that can mix objects of several contexts. When only contexts are watched, we listen to these calls as soon as
 * the program has a second context.
 */
bool calls_cross(CUpti_CallbackId id)
{
	static const CUpti_CallbackId ids[] = {
		ID(cuEventRecord),
		ID(cuEventRecord_ptsz),
		ID(cuEventRecordWithFlags),
		ID(cuEventRecordWithFlags_ptsz),
	};

	return operands_launches(id) || is_in_list(ids, COUNT(ids), id);
}

/* Calls of the CUDA runtime that programs make in every step. calls_wanted_runtime() says when we listen to them. */
static const CUpti_CallbackId frequent_calls[] = {
	RUN_ID(cudaGetLastError_v3020),
	RUN_ID(cudaPeekAtLastError_v3020),
	RUN_ID(cudaLaunchKernel_v7000),
	RUN_ID(cudaLaunchKernel_ptsz_v7000),
	RUN_ID(cudaLaunchKernelExC_v11060),
	RUN_ID(cudaLaunchKernelExC_ptsz_v11060),
	RUN_ID(cudaGraphLaunch_v10000),
	RUN_ID(cudaMemcpyAsync_v3020),
	RUN_ID(cudaMemsetAsync_v3020),
	RUN_ID(cudaStreamSynchronize_v3020),
	RUN_ID(cudaEventRecord_v3020),
	RUN_ID(cudaEventSynchronize_v3020),
	RUN_ID(cudaStreamWaitEvent_v3020),
	RUN_ID(cudaGraphLaunch_ptsz_v10000),
	RUN_ID(cudaMemcpyAsync_ptsz_v7000),
	RUN_ID(cudaMemsetAsync_ptsz_v7000),
	RUN_ID(cudaStreamSynchronize_ptsz_v7000),
	RUN_ID(cudaEventRecord_ptsz_v7000),
	RUN_ID(cudaStreamWaitEvent_ptsz_v7000),
	RUN_ID(cudaEventRecordWithFlags_v11010),
	RUN_ID(cudaEventRecordWithFlags_ptsz_v11010),
#if CUDA_VERSION >= 13000
	RUN_ID(__cudaLaunchKernel_v13000),
	RUN_ID(__cudaLaunchKernel_ptsz_v13000),
#endif
};
/* Calls of the CUDA runtime that are less frequent and can fail before they reach the driver. */
static const CUpti_CallbackId rare_calls[] = {
	RUN_ID(cudaLaunchCooperativeKernel_v9000),
	RUN_ID(cudaGraphInstantiate_v10000),
	RUN_ID(cudaGraphInstantiate_v12000),
	RUN_ID(cudaGraphInstantiateWithFlags_v11040),
	RUN_ID(cudaSetDevice_v3020),
	RUN_ID(cudaSetDeviceFlags_v3020),
	RUN_ID(cudaFuncSetAttribute_v9000),
	RUN_ID(cudaFuncSetCacheConfig_v3020),
	RUN_ID(cudaMalloc_v3020),
	RUN_ID(cudaMallocAsync_v11020),
	RUN_ID(cudaMallocFromPoolAsync_v11020),
	RUN_ID(cudaMallocManaged_v6000),
	RUN_ID(cudaMallocPitch_v3020),
	RUN_ID(cudaMallocArray_v3020),
	RUN_ID(cudaMallocHost_v3020),
	RUN_ID(cudaHostAlloc_v3020),
	RUN_ID(cudaHostRegister_v4000),
	RUN_ID(cudaHostUnregister_v4000),
	RUN_ID(cudaFree_v3020),
	RUN_ID(cudaFreeAsync_v11020),
	RUN_ID(cudaFreeHost_v3020),
	RUN_ID(cudaMemcpy_v3020),
	RUN_ID(cudaMemcpy2D_v3020),
	RUN_ID(cudaMemcpy2DAsync_v3020),
	RUN_ID(cudaMemcpy3D_v3020),
	RUN_ID(cudaMemcpy3DAsync_v3020),
	RUN_ID(cudaMemcpyToSymbol_v3020),
	RUN_ID(cudaMemcpyFromSymbol_v3020),
	RUN_ID(cudaMemcpyToSymbolAsync_v3020),
	RUN_ID(cudaMemcpyFromSymbolAsync_v3020),
	RUN_ID(cudaMemcpyPeer_v4000),
	RUN_ID(cudaMemcpyPeerAsync_v4000),
	RUN_ID(cudaMemset_v3020),
	RUN_ID(cudaMemset2D_v3020),
	RUN_ID(cudaDeviceEnablePeerAccess_v4000),
	RUN_ID(cudaDeviceDisablePeerAccess_v4000),
	RUN_ID(cudaDeviceSynchronize_v3020),
	RUN_ID(cudaStreamCreate_v3020),
	RUN_ID(cudaStreamCreateWithFlags_v5000),
	RUN_ID(cudaStreamCreateWithPriority_v5050),
	RUN_ID(cudaStreamDestroy_v5050),
	RUN_ID(cudaStreamDestroy_v3020),
	RUN_ID(cudaEventElapsedTime_v3020),
	RUN_ID(cudaGetSymbolAddress_v3020),
	RUN_ID(cudaStreamBeginCapture_v10000),
	RUN_ID(cudaStreamEndCapture_v10000),
	RUN_ID(cudaLaunchCooperativeKernel_ptsz_v9000),
	RUN_ID(cudaGraphInstantiateWithParams_v12000),
	RUN_ID(cudaGraphInstantiateWithParams_ptsz_v12000),
	RUN_ID(cudaInitDevice_v12000),
	RUN_ID(cudaMallocAsync_ptsz_v11020),
	RUN_ID(cudaMallocFromPoolAsync_ptsz_v11020),
	RUN_ID(cudaFreeAsync_ptsz_v11020),
	RUN_ID(cudaMemcpy_ptds_v7000),
	RUN_ID(cudaMemcpy2D_ptds_v7000),
	RUN_ID(cudaMemcpy2DAsync_ptsz_v7000),
	RUN_ID(cudaMemcpy3D_ptds_v7000),
	RUN_ID(cudaMemcpy3DAsync_ptsz_v7000),
	RUN_ID(cudaMemcpyToSymbol_ptds_v7000),
	RUN_ID(cudaMemcpyFromSymbol_ptds_v7000),
	RUN_ID(cudaMemcpyToSymbolAsync_ptsz_v7000),
	RUN_ID(cudaMemcpyFromSymbolAsync_ptsz_v7000),
	RUN_ID(cudaMemset_ptds_v7000),
	RUN_ID(cudaMemset2D_ptds_v7000),
	RUN_ID(cudaEventElapsedTime_v12080),
	RUN_ID(cudaStreamBeginCapture_ptsz_v10000),
	RUN_ID(cudaStreamBeginCaptureToGraph_v12030),
	RUN_ID(cudaStreamBeginCaptureToGraph_ptsz_v12030),
	RUN_ID(cudaStreamEndCapture_ptsz_v10000),
};

/*
 * We listen to the runtime calls that return the last error, and to the runtime calls that can fail before they reach
 * the driver; all other runtime calls we see as driver calls. Frequent runtime calls are enabled only after the first
 * failure, because until then there is no error that they could return late. The price: if a frequent call is the
 * first call that fails, and it fails before it reaches the driver, we do not see the failure.
 */
bool calls_wanted_runtime(CUpti_CallbackId id, unsigned what, bool failed)
{
	if (!(what & WATCH_CALLS))
		return false;
	return failed ? is_in_list(frequent_calls, COUNT(frequent_calls), id)
		      : is_in_list(rare_calls, COUNT(rare_calls), id);
}
