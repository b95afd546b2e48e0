/* SPDX-License-Identifier: Apache-2.0 */
/* What a call works on: stream, function, event, and what it writes. */
#include "gpu/inject/inject.h"

#define ID(f)	  CALL_ID(f)
#define PARAMS(f) const f##_params *p = c->functionParams

bool operands_launch(CUpti_CallbackId id, const CUpti_CallbackData *c, struct operands *o)
{
	*o = (struct operands){.launch = true, .has_stream = true};
	if (id == ID(cuLaunchKernel) || id == ID(cuLaunchKernel_ptsz)) {
		PARAMS(cuLaunchKernel);
		o->stream = p->hStream;
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
		o->stream = p->hStream;
		o->function = p->f;
		o->arguments = p->kernelParams;
	} else if (id == ID(cuGraphLaunch) || id == ID(cuGraphLaunch_ptsz)) {
		PARAMS(cuGraphLaunch);
		o->stream = p->hStream;
		o->function = (CUfunction)(void *)p->hGraph;
		o->graph = true;
	} else {
		*o = (struct operands){0};
		return false;
	}
	return true;
}

static bool operands_event(CUpti_CallbackId id, const CUpti_CallbackData *c, struct operands *o)
{
	if (id == ID(cuEventRecord) || id == ID(cuEventRecord_ptsz) ||
	    id == ID(cuEventRecordWithFlags) || id == ID(cuEventRecordWithFlags_ptsz)) {
		PARAMS(cuEventRecord);
		*o = (struct operands){.stream = p->hStream, .has_stream = true, .event = p->hEvent};
	} else if (id == ID(cuStreamWaitEvent) || id == ID(cuStreamWaitEvent_ptsz)) {
		PARAMS(cuStreamWaitEvent);
		*o = (struct operands){.stream = p->hStream, .has_stream = true, .event = p->hEvent};
	} else if (id == ID(cuEventQuery) || id == ID(cuEventSynchronize)) {
		PARAMS(cuEventQuery);
		*o = (struct operands){.event = p->hEvent};
	} else {
		return false;
	}
	return true;
}

void operands_of(CUpti_CallbackId id, const CUpti_CallbackData *c, struct operands *o)
{
	if (operands_launch(id, c, o) || operands_event(id, c, o))
		return;
	if (id == ID(cuStreamSynchronize) || id == ID(cuStreamSynchronize_ptsz) ||
	    id == ID(cuStreamQuery) || id == ID(cuStreamQuery_ptsz)) {
		PARAMS(cuStreamSynchronize);
		*o = (struct operands){.stream = p->hStream, .has_stream = true};
	} else if (id == ID(cuMemcpyHtoDAsync_v2) || id == ID(cuMemcpyHtoDAsync_v2_ptsz) ||
		   id == ID(cuMemcpyDtoHAsync_v2) || id == ID(cuMemcpyDtoHAsync_v2_ptsz) ||
		   id == ID(cuMemcpyDtoDAsync_v2) || id == ID(cuMemcpyDtoDAsync_v2_ptsz) ||
		   id == ID(cuMemcpyAsync) || id == ID(cuMemcpyAsync_ptsz)) {
		PARAMS(cuMemcpyHtoDAsync_v2); /* a target, a source, bytes, a stream: all of these */
		*o = (struct operands){.stream = p->hStream, .has_stream = true};
	}
	o->target = copies_target(id, c);
}
