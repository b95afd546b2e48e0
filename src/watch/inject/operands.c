/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Extracts the stream, the function, the event, the module and the device addresses from the parameters of a driver call.
 */
#include "watch/inject/inject.h"

#include <stddef.h>

/*
 * ---- streams, events and targets
 *
 * The tables are indexed by callback id. An entry is the offset of the member in the call's parameter struct, plus
 * one, or 0 if the call has no such member.
 */

#define AT(f, member) [CUPTI_DRIVER_TRACE_CBID_##f] = offsetof(f##_params, member) + 1

static const unsigned char stream_at[] = {
	AT(cuEventRecord, hStream),
	AT(cuEventRecord_ptsz, hStream),
	AT(cuEventRecordWithFlags, hStream),
	AT(cuEventRecordWithFlags_ptsz, hStream),
	AT(cuGraphLaunch, hStream),
	AT(cuGraphLaunch_ptsz, hStream),
	AT(cuGraphUpload, hStream),
	AT(cuGraphUpload_ptsz, hStream),
	AT(cuGraphicsMapResources, hStream),
	AT(cuGraphicsMapResources_ptsz, hStream),
	AT(cuGraphicsUnmapResources, hStream),
	AT(cuGraphicsUnmapResources_ptsz, hStream),
	AT(cuLaunchCooperativeKernel, hStream),
	AT(cuLaunchCooperativeKernel_ptsz, hStream),
	AT(cuLaunchHostFunc, hStream),
	AT(cuLaunchHostFunc_ptsz, hStream),
	AT(cuLaunchKernel, hStream),
	AT(cuLaunchKernel_ptsz, hStream),
	AT(cuMemAllocAsync, hStream),
	AT(cuMemAllocAsync_ptsz, hStream),
	AT(cuMemAllocFromPoolAsync, hStream),
	AT(cuMemAllocFromPoolAsync_ptsz, hStream),
	AT(cuMemDiscardAndPrefetchBatchAsync, hStream),
	AT(cuMemDiscardAndPrefetchBatchAsync_ptsz, hStream),
	AT(cuMemDiscardBatchAsync, hStream),
	AT(cuMemDiscardBatchAsync_ptsz, hStream),
	AT(cuMemFreeAsync, hStream),
	AT(cuMemFreeAsync_ptsz, hStream),
	AT(cuMemMapArrayAsync, hStream),
	AT(cuMemMapArrayAsync_ptsz, hStream),
	AT(cuMemPrefetchAsync, hStream),
	AT(cuMemPrefetchAsync_ptsz, hStream),
	AT(cuMemPrefetchAsync_v2, hStream),
	AT(cuMemPrefetchAsync_v2_ptsz, hStream),
	AT(cuMemPrefetchBatchAsync, hStream),
	AT(cuMemPrefetchBatchAsync_ptsz, hStream),
	AT(cuMemcpy2DAsync_v2, hStream),
	AT(cuMemcpy2DAsync_v2_ptsz, hStream),
	AT(cuMemcpy3DAsync_v2, hStream),
	AT(cuMemcpy3DAsync_v2_ptsz, hStream),
	AT(cuMemcpy3DBatchAsync, hStream),
	AT(cuMemcpy3DBatchAsync_ptsz, hStream),
	AT(cuMemcpy3DBatchAsync_v2, hStream),
	AT(cuMemcpy3DBatchAsync_v2_ptsz, hStream),
	AT(cuMemcpy3DPeerAsync, hStream),
	AT(cuMemcpy3DPeerAsync_ptsz, hStream),
	AT(cuMemcpyAsync, hStream),
	AT(cuMemcpyAsync_ptsz, hStream),
	AT(cuMemcpyAtoHAsync_v2, hStream),
	AT(cuMemcpyAtoHAsync_v2_ptsz, hStream),
	AT(cuMemcpyBatchAsync, hStream),
	AT(cuMemcpyBatchAsync_ptsz, hStream),
	AT(cuMemcpyBatchAsync_v2, hStream),
	AT(cuMemcpyBatchAsync_v2_ptsz, hStream),
	AT(cuMemcpyDtoDAsync_v2, hStream),
	AT(cuMemcpyDtoDAsync_v2_ptsz, hStream),
	AT(cuMemcpyDtoHAsync_v2, hStream),
	AT(cuMemcpyDtoHAsync_v2_ptsz, hStream),
	AT(cuMemcpyHtoAAsync_v2, hStream),
	AT(cuMemcpyHtoAAsync_v2_ptsz, hStream),
	AT(cuMemcpyHtoDAsync_v2, hStream),
	AT(cuMemcpyHtoDAsync_v2_ptsz, hStream),
	AT(cuMemcpyPeerAsync, hStream),
	AT(cuMemcpyPeerAsync_ptsz, hStream),
	AT(cuMemsetD16Async, hStream),
	AT(cuMemsetD16Async_ptsz, hStream),
	AT(cuMemsetD2D16Async, hStream),
	AT(cuMemsetD2D16Async_ptsz, hStream),
	AT(cuMemsetD2D32Async, hStream),
	AT(cuMemsetD2D32Async_ptsz, hStream),
	AT(cuMemsetD2D8Async, hStream),
	AT(cuMemsetD2D8Async_ptsz, hStream),
	AT(cuMemsetD32Async, hStream),
	AT(cuMemsetD32Async_ptsz, hStream),
	AT(cuMemsetD8Async, hStream),
	AT(cuMemsetD8Async_ptsz, hStream),
	AT(cuStreamAddCallback, hStream),
	AT(cuStreamAddCallback_ptsz, hStream),
	AT(cuStreamAttachMemAsync, hStream),
	AT(cuStreamAttachMemAsync_ptsz, hStream),
	AT(cuStreamBeginCapture, hStream),
	AT(cuStreamBeginCapture_ptsz, hStream),
	AT(cuStreamBeginCaptureToGraph, hStream),
	AT(cuStreamBeginCaptureToGraph_ptsz, hStream),
	AT(cuStreamBeginCapture_v2, hStream),
	AT(cuStreamBeginCapture_v2_ptsz, hStream),
	AT(cuStreamEndCapture, hStream),
	AT(cuStreamEndCapture_ptsz, hStream),
	AT(cuStreamQuery, hStream),
	AT(cuStreamQuery_ptsz, hStream),
	AT(cuStreamSetAttribute, hStream),
	AT(cuStreamSetAttribute_ptsz, hStream),
	AT(cuStreamSynchronize, hStream),
	AT(cuStreamSynchronize_ptsz, hStream),
	AT(cuStreamUpdateCaptureDependencies, hStream),
	AT(cuStreamUpdateCaptureDependencies_ptsz, hStream),
	AT(cuStreamUpdateCaptureDependencies_v2, hStream),
	AT(cuStreamUpdateCaptureDependencies_v2_ptsz, hStream),
	AT(cuStreamWaitEvent, hStream),
	AT(cuStreamWaitEvent_ptsz, hStream),
	AT(cuMemBatchDecompressAsync, stream),
	AT(cuMemBatchDecompressAsync_ptsz, stream),
	AT(cuSignalExternalSemaphoresAsync, stream),
	AT(cuSignalExternalSemaphoresAsync_ptsz, stream),
	AT(cuStreamBatchMemOp, stream),
	AT(cuStreamBatchMemOp_ptsz, stream),
	AT(cuStreamBatchMemOp_v2, stream),
	AT(cuStreamBatchMemOp_v2_ptsz, stream),
	AT(cuStreamWaitValue32, stream),
	AT(cuStreamWaitValue32_ptsz, stream),
	AT(cuStreamWaitValue32_v2, stream),
	AT(cuStreamWaitValue32_v2_ptsz, stream),
	AT(cuStreamWaitValue64, stream),
	AT(cuStreamWaitValue64_ptsz, stream),
	AT(cuStreamWaitValue64_v2, stream),
	AT(cuStreamWaitValue64_v2_ptsz, stream),
	AT(cuStreamWriteValue32, stream),
	AT(cuStreamWriteValue32_ptsz, stream),
	AT(cuStreamWriteValue32_v2, stream),
	AT(cuStreamWriteValue32_v2_ptsz, stream),
	AT(cuStreamWriteValue64, stream),
	AT(cuStreamWriteValue64_ptsz, stream),
	AT(cuStreamWriteValue64_v2, stream),
	AT(cuStreamWriteValue64_v2_ptsz, stream),
	AT(cuWaitExternalSemaphoresAsync, stream),
	AT(cuWaitExternalSemaphoresAsync_ptsz, stream),
	AT(cuLaunchGridAsync, hStream),
};

static const unsigned char event_at[] = {
	AT(cuEventRecord, hEvent),
	AT(cuEventRecord_ptsz, hEvent),
	AT(cuEventRecordWithFlags, hEvent),
	AT(cuEventRecordWithFlags_ptsz, hEvent),
	AT(cuStreamWaitEvent, hEvent),
	AT(cuStreamWaitEvent_ptsz, hEvent),
	AT(cuEventQuery, hEvent),
	AT(cuEventSynchronize, hEvent),
	AT(cuCtxRecordEvent, hEvent),
	AT(cuCtxWaitEvent, hEvent),
	AT(cuGreenCtxRecordEvent, hEvent),
	AT(cuGreenCtxWaitEvent, hEvent),
	AT(cuGraphAddEventRecordNode, event),
	AT(cuGraphAddEventWaitNode, event),
	AT(cuGraphEventRecordNodeSetEvent, event),
	AT(cuGraphEventWaitNodeSetEvent, event),
	AT(cuGraphExecEventRecordNodeSetEvent, event),
	AT(cuGraphExecEventWaitNodeSetEvent, event),
	AT(cuIpcGetEventHandle, event),
};

static const unsigned char module_at[] = {
	AT(cuModuleGetFunction, hmod),	     AT(cuModuleGetGlobal, hmod),
	AT(cuModuleGetGlobal_v2, hmod),	     AT(cuModuleGetFunctionCount, mod),
	AT(cuModuleEnumerateFunctions, mod),
};

/* The member that holds the device address that a copy reads. */
static const unsigned char source_at[] = {
	AT(cuMemcpyDtoHAsync_v2, srcDevice),
	AT(cuMemcpyDtoHAsync_v2_ptsz, srcDevice),
	AT(cuMemcpyDtoDAsync_v2, srcDevice),
	AT(cuMemcpyDtoDAsync_v2_ptsz, srcDevice),
	AT(cuMemcpyPeerAsync, srcDevice),
	AT(cuMemcpyPeerAsync_ptsz, srcDevice),
	AT(cuMemcpyDtoH_v2, srcDevice),
	AT(cuMemcpyDtoH_v2_ptds, srcDevice),
	AT(cuMemcpyDtoD_v2, srcDevice),
	AT(cuMemcpyDtoD_v2_ptds, srcDevice),
	AT(cuMemcpyDtoA_v2, srcDevice),
	AT(cuMemcpyDtoA_v2_ptds, srcDevice),
	AT(cuMemcpyPeer, srcDevice),
	AT(cuMemcpyPeer_ptds, srcDevice),
	AT(cuMemcpy, src),
	AT(cuMemcpy_ptds, src),
	AT(cuMemcpyAsync, src),
	AT(cuMemcpyAsync_ptsz, src),
};

/* The member that holds the device address that a copy or a fill writes. */
static const unsigned char target_at[] = {
	AT(cuMemsetD8Async, dstDevice),
	AT(cuMemsetD8Async_ptsz, dstDevice),
	AT(cuMemsetD16Async, dstDevice),
	AT(cuMemsetD16Async_ptsz, dstDevice),
	AT(cuMemsetD32Async, dstDevice),
	AT(cuMemsetD32Async_ptsz, dstDevice),
	AT(cuMemsetD2D8Async, dstDevice),
	AT(cuMemsetD2D8Async_ptsz, dstDevice),
	AT(cuMemsetD2D16Async, dstDevice),
	AT(cuMemsetD2D16Async_ptsz, dstDevice),
	AT(cuMemsetD2D32Async, dstDevice),
	AT(cuMemsetD2D32Async_ptsz, dstDevice),
	AT(cuMemcpyHtoDAsync_v2, dstDevice),
	AT(cuMemcpyHtoDAsync_v2_ptsz, dstDevice),
	AT(cuMemcpyDtoDAsync_v2, dstDevice),
	AT(cuMemcpyDtoDAsync_v2_ptsz, dstDevice),
	AT(cuMemcpyPeerAsync, dstDevice),
	AT(cuMemcpyPeerAsync_ptsz, dstDevice),
	AT(cuMemsetD8_v2, dstDevice),
	AT(cuMemsetD8_v2_ptds, dstDevice),
	AT(cuMemsetD16_v2, dstDevice),
	AT(cuMemsetD16_v2_ptds, dstDevice),
	AT(cuMemsetD32_v2, dstDevice),
	AT(cuMemsetD32_v2_ptds, dstDevice),
	AT(cuMemsetD2D8_v2, dstDevice),
	AT(cuMemsetD2D8_v2_ptds, dstDevice),
	AT(cuMemsetD2D16_v2, dstDevice),
	AT(cuMemsetD2D16_v2_ptds, dstDevice),
	AT(cuMemsetD2D32_v2, dstDevice),
	AT(cuMemsetD2D32_v2_ptds, dstDevice),
	AT(cuMemcpyHtoD_v2, dstDevice),
	AT(cuMemcpyHtoD_v2_ptds, dstDevice),
	AT(cuMemcpyDtoD_v2, dstDevice),
	AT(cuMemcpyDtoD_v2_ptds, dstDevice),
	AT(cuMemcpyAtoD_v2, dstDevice),
	AT(cuMemcpyAtoD_v2_ptds, dstDevice),
	AT(cuMemcpyPeer, dstDevice),
	AT(cuMemcpyPeer_ptds, dstDevice),
	AT(cuMemcpy, dst),
	AT(cuMemcpy_ptds, dst),
	AT(cuMemcpyAsync, dst),
	AT(cuMemcpyAsync_ptsz, dst),
};

static const void *read_member(const unsigned char *at, size_t n, CUpti_CallbackId id,
			       const CUpti_CallbackData *c)
{
	return id < n && at[id]
		       ? *(const void *const *)((const char *)c->functionParams + at[id] - 1)
		       : NULL;
}

/* ---- launches */

bool operands_launches(CUpti_CallbackId id)
{
	static const CUpti_CallbackId ids[] = {
		ID(cuLaunchKernel),
		ID(cuLaunchKernel_ptsz),
		ID(cuLaunchKernelEx),
		ID(cuLaunchKernelEx_ptsz),
		ID(cuLaunchCooperativeKernel),
		ID(cuLaunchCooperativeKernel_ptsz),
		ID(cuGraphLaunch),
		ID(cuGraphLaunch_ptsz),
		ID(cuLaunch),
		ID(cuLaunchGrid),
		ID(cuLaunchGridAsync),
	};

	for (size_t i = 0; i < COUNT(ids); i++)
		if (ids[i] == id)
			return true;
	return false;
}

bool operands_launch(CUpti_CallbackId id, const CUpti_CallbackData *c, struct operands *o)
{
	*o = (struct operands){0};
	if (!operands_launches(id))
		return false;
	o->launch = o->has_stream = true;
	o->stream = (CUstream)(uintptr_t)read_member(stream_at, COUNT(stream_at), id, c);
	if (id == ID(cuLaunchKernel) || id == ID(cuLaunchKernel_ptsz)) {
		PARAMS(cuLaunchKernel);
		o->function = p->f;
		o->arguments = p->kernelParams;
		o->extra = p->extra;
	} else if (id == ID(cuLaunchKernelEx) || id == ID(cuLaunchKernelEx_ptsz)) {
		PARAMS(cuLaunchKernelEx);
		o->stream = p->config ? p->config->hStream : NULL;
		o->function = p->f;
		o->arguments = p->kernelParams;
		o->extra = p->extra;
	} else if (id == ID(cuLaunchCooperativeKernel) || id == ID(cuLaunchCooperativeKernel_ptsz)) {
		PARAMS(cuLaunchCooperativeKernel);
		o->function = p->f;
		o->arguments = p->kernelParams;
	} else if (id == ID(cuGraphLaunch) || id == ID(cuGraphLaunch_ptsz)) {
		PARAMS(cuGraphLaunch);
		o->function = (CUfunction)(void *)p->hGraph;
		o->graph = true;
	} else {
		PARAMS(cuLaunch); /* launch calls from before CUDA 4, which got their arguments from earlier calls */
		o->function = p->f;
	}
	return true;
}

bool operands_some(CUpti_CallbackId id)
{
	return operands_launches(id) || (id < COUNT(stream_at) && stream_at[id]) ||
	       (id < COUNT(event_at) && event_at[id]) || (id < COUNT(module_at) && module_at[id]) ||
	       (id < COUNT(source_at) && source_at[id]) || (id < COUNT(target_at) && target_at[id]);
}

void operands_of(CUpti_CallbackId id, const CUpti_CallbackData *c, struct operands *o)
{
	if (operands_launch(id, c, o))
		return;
	o->has_stream = id < COUNT(stream_at) && stream_at[id];
	o->stream = (CUstream)(uintptr_t)read_member(stream_at, COUNT(stream_at), id, c);
	o->event = (CUevent)(uintptr_t)read_member(event_at, COUNT(event_at), id, c);
	o->module = (CUmodule)(uintptr_t)read_member(module_at, COUNT(module_at), id, c);
	o->source = handle_of(read_member(source_at, COUNT(source_at), id, c));
	if (id == ID(cuGraphUpload) || id == ID(cuGraphUpload_ptsz)) {
		PARAMS(cuGraphUpload);
		o->function = (CUfunction)(void *)p->hGraph;
		o->graph = true;
	}
	o->target = handle_of(read_member(target_at, COUNT(target_at), id, c));
	if (!o->target)
		o->target = copies_target(id, c);
}
