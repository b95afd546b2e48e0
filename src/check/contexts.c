/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --contexts: reports which CUDA context the session uses, the state of the primary context, and which other
 * processes use the GPU.
 */
#include "check/check.h"
#include "backend/observe.h"
#include "session/backends.h"

#include <inttypes.h>

static bool has_gpu(const struct check_context *c)
{
	/* before the device is opened, no backend has been chosen */
	const struct backend *b = c->session ? session_runtime(c->session)->backend : NULL;

	return b && b->contexts;
}

static bool contexts_wanted(const struct check_context *c, const char **why)
{
	if (c->options->contexts)
		return true;
	if (c->options->all && !has_gpu(c))
		*why = "the session has no CUDA device";
	return c->options->all && has_gpu(c);
}

/* --contexts without a session on a GPU is an error: the user asked for contexts, and there are none to report. */
static int fail_without_gpu(struct check_context *c)
{
	struct diag why = {0};
	struct diag *d = c->d;

	if (accelerator_found(&why)) {
		check_say(c, "the session runs on %s", session_device(c->session));
		diag_free(&why);
		return FAIL(d, E_DEVICE, .message = "--contexts: the session runs on the CPU",
			    .hint = "select the GPU with --device cuda");
	}
	const struct finding *f = why.first;
	FAIL(d, E_DEVICE, .message = "--contexts: there is no GPU whose contexts could be reported",
	     .actual = f ? fmt(d, "%s", f->message ? f->message : code_title(f->code)) : NULL);
	diag_free(&why);
	return -E_DEVICE;
}

static void report_state(struct check_context *c, const struct device_contexts *x)
{
	struct diag *d = c->d;
	struct diag_row rows[] = {
		{"session",
		 fmt(d, "%p, %s", x->session, x->own ? "its own" : "the device's primary one")},
		{"primary", x->primary_active ? fmt(d, "active, flags 0x%x: a waiting thread %s%s",
						    x->primary_flags, x->schedule,
						    x->host_memory ? ", pinned memory is mapped" : "")
					      : "not active"},
		{"current", x->current ? fmt(d, "%p, on this thread before the session's", x->current)
				       : "none on this thread"},
		{"ours", x->ours ? fmt(d, "%.1f MiB on the device, according to NVML",
				       (double)x->ours / (1 << 20))
				 : "NVML does not report how much this process uses"},
	};

	NOTE(d, E_CTX_STATE, .rows = rows, .nrows = sizeof(rows) / sizeof(*rows));
	if (x->own && x->primary_active)
		WARN(d, E_CTX_STATE,
		     .message = "the session has a context of its own while the primary one is active, too",
		     .actual = x->woken ? fmt(d,
					      "a library has activated it since the session was opened, which took "
					      "%.1f MiB of the device (cuDNN's convolutions do so)",
					      (double)x->woken / (1 << 20))
					: NULL,
		     .hint = "two contexts share neither memory nor streams, and take turns on the device: "
			     "use --context primary unless they must be separate");
	if (x->current && x->current != x->session)
		WARN(d, E_CTX_STATE,
		     .message = fmt(d, "another context (%p) is current on this thread", x->current),
		     .hint = "memory and streams made in it cannot be used in the session's context");
	if (x->blocked)
		WARN(d, E_CTX_STATE, .message = "CUDA_LAUNCH_BLOCKING is set: every launch waits",
		     .hint = "unset it when it is no longer needed to find a fault");
}

static void report_other_processes(struct check_context *c, const struct device_contexts *x)
{
	struct diag *d = c->d;
	struct diag_row rows[32];
	uint64_t sum = 0;
	unsigned n = 0;

	for (; n < x->nprocesses && n < sizeof(rows) / sizeof(*rows); n++) {
		const struct device_process *p = &x->process[n];
		rows[n] = (struct diag_row){
			fmt(d, "pid %u", p->pid),
			fmt(d, "%s%s", *p->name ? p->name : "?",
			    p->memory ? fmt(d, ", %.1f MiB", (double)p->memory / (1 << 20)) : "")};
		sum += p->memory;
	}
	if (n)
		WARN(d, E_CTX_OTHER,
		     .message = fmt(d,
				    "%u other process%s on the GPU, with %.1f MiB: they affect times and free "
				    "memory",
				    n, n > 1 ? "es are" : " is", (double)sum / (1 << 20)),
		     .rows = rows, .nrows = n);
	else if (x->no_list)
		NOTE(d, E_CTX_OTHER,
		     .message = fmt(d, "other processes are not known: %s", x->no_list));
}

static int run_contexts(struct check_context *c)
{
	struct device_contexts x;

	if (!has_gpu(c))
		return fail_without_gpu(c);
	const struct runtime *rt = session_runtime(c->session);
	int rc = rt->backend->contexts(rt->device, &x, c->d);
	if (rc)
		return rc;
	report_state(c, &x);
	report_other_processes(c, &x);
	check_say(c, "the session's is %s; %s%u other process%s on the GPU",
		  x.own ? "its own" : "the primary one", x.no_list ? "not known: " : "",
		  x.nprocesses, x.nprocesses == 1 ? "" : "es");
	return 0;
}

const struct check check_contexts = {
	.name = "contexts",
	.what = "CUDA contexts of this process, other processes on the GPU",
	.need = NEED_INPUTS,
	.cost = COST_HEAD,
	.applies = contexts_wanted,
	.run = run_contexts,
};
