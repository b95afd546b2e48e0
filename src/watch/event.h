/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WATCH_EVENT_H
#define WATCH_EVENT_H
/*
 * A line that the injected library wrote: SECONDS TAB THREAD TAB KIND { TAB KEY=VALUE }. The kinds:
 *
 *   start         program, cupti (version), result (of the subscription), why, other (who listens already)
 *   context       context, by                  a context came to be
 *   context-kind  context, primary, device, call, [cost, cost_of=process|devices], by
 *   context-use   context, call, by            made current, pushed, popped, destroyed: once a thread
 *   context-gone  context, by
 *   stream        stream, context, by
 *   fail          number, call, result, current, [stream, stream_context], [function, function_context,
 *                 kernel], [event, event_context], {buffer=ALLOCATION:BYTES:ADDRESS}, by
 *   unwritten     number, {buffer}             that failure came again, with other buffers
 *   repeats       number, count                how often that failure came in all
 *   last          stream, context, kernel, ns, by    after an asynchronous error: the newest launch of each
 *                 stream; by: who launched that kernel first
 *   late          call, result, by, origin_call, [origin_result], origin_by, [kernel], launches, ns
 *                 `call` returned the error of origin_call, ns before, which nobody had looked at; launches: how
 *                 many went well between the two
 *   capture       stream, mode, thread, by     after a broken capture: those that were open
 *   dead          call, what, handle, context, by     a handle whose context was destroyed is about to be used
 *   forked        child, call, result          a child that was forked after CUDA had begun uses it
 *   copy          [number], call, to_host, host, [device], bytes, [width, height, depth, pitch], [block, block_bytes],
 *                 [allocation, allocation_bytes, owner], why, by
 *                 a host range that cannot be copied; bytes: from its first to its last; allocation: of the device,
 *                 where the address given as the host's is
 *   fault         [number], signal, address, [allocation, bytes, kind, owner], by
 *   yield         by                           CUPTI was given to another client; nothing is heard from here on
 *   module        name, path                   a file that `by` names with a place: "name(+0x12)"
 *   end
 */
#include "base/arena.h"

#include <stdbool.h>

enum { EVENT_PAIRS = 24 };
struct event {
	double seconds; /* since the driver was initialized */
	long thread;
	const char *kind;
	struct {
		const char *key, *value;
	} pair[EVENT_PAIRS];
	int npairs;
};

/* Parses a line (without its newline) into strings of the arena; false where it is none. */
bool event_parse(const char *line, size_t n, struct arena *a, struct event *e);
/* The value of a key, the k-th where it comes several times; NULL: none. */
const char *event_text(const struct event *e, const char *key, int k);
int64_t event_number(const struct event *e, const char *key); /* 0 where there is none */
uint64_t event_handle(const struct event *e, const char *key);

#endif
