/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WATCH_EVENT_H
#define WATCH_EVENT_H
/*
 * A line of the injected library's log: SECONDS TAB THREAD TAB KIND { TAB KEY=VALUE }. Keys in brackets are
 * optional, keys in braces may be repeated; `by` is always the caller: library and function. The kinds:
 *
 *   start         program, cupti (version), result (of the subscription), why, other (the subscriber before us)
 *   context       context, by                  a context was created
 *   context-kind  context, primary, device, call, [cost, cost_of=process|devices], by
 *   context-use   context, call, by            made current, pushed, popped or destroyed; logged once per thread
 *   context-gone  context, by
 *   stream        stream, context, by
 *   fail          number, call, result, current, [stream, stream_context], [function, function_context,
 *                 kernel], [event, event_context], {buffer=ALLOCATION:BYTES:ADDRESS}, by
 *   unwritten     number, {buffer}             failure `number` occurred again, with other buffers
 *   repeats       number, count                how often failure `number` occurred in total
 *   last          stream, context, kernel, ns, by    after an asynchronous error: the newest launch of each
 *                 stream; by: the first caller that launched this kernel
 *   late          call, result, by, origin_call, [origin_result], origin_by, [kernel], launches, ns
 *                 `call` returned the error of origin_call, made ns nanoseconds earlier, which the program had not
 *                 checked; launches: number of successful launches between the two calls
 *   capture       stream, mode, thread, by     after a broken capture: each capture that was open
 *   dead          call, what, handle, context, [allocation, bytes, owner], by
 *                 a handle or address whose context was destroyed is about to be used; owner: who had made the allocation
 *   lost          context, allocations, bytes, owner, by
 *                 a context was destroyed by another library than `owner`, which still had memory in it
 *   orphan        call, context, by            a library that had lost memory works on, and this is its first call
 *   forked        child, call, result, [by]    a child process forked after CUDA was initialized uses CUDA
 *   copy          [number], call, to_host, host, [device], bytes, [width, height, depth, pitch], [block, block_bytes],
 *                 [allocation, allocation_bytes, owner], why, by
 *                 a copy whose host range is not valid memory; bytes: length of that range; allocation: the device
 *                 allocation that contains `host`, if the program passed a device address as a host address
 *   fault         [number], signal, address, [allocation, bytes, kind, owner], by
 *   yield         by                           CUPTI was handed to another client; no events follow
 *   module        name, path                   path of a file that `by` names with an offset: "name(+0x12)"
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

/*
 * Parses a line (without its newline); the strings are allocated in the arena. Returns false if the line is not a
 * valid event.
 */
bool event_parse(const char *line, size_t n, struct arena *a, struct event *e);
/* Returns the value of the k-th pair (counted from 0) that has this key, or NULL if there is no such pair. */
const char *event_text(const struct event *e, const char *key, int k);
int64_t event_number(const struct event *e, const char *key); /* 0 if the key is missing */
uint64_t event_handle(const struct event *e, const char *key);

#endif
