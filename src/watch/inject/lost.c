/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that was still allocated when its context was destroyed or reset. The driver frees it without a word to its
 * owner: a library that goes on then computes with whatever lies at the old addresses, often without any error.
 */
#include "watch/inject/inject.h"

#include <string.h>

/* Maps the address of a lost allocation to its bytes (field a), who had made it (field b, a text) and its context (field c). */
static struct table lost = {.most = 1 << 14};

/* The libraries that have lost memory to another library. Entries are never removed, only `told`. */
enum { MAX_OWNERS = 16 };
static struct owner {
	const char *by;
	uint64_t context, allocations, bytes;
	bool waiting; /* watch for the owner's next work */
} owners[MAX_OWNERS];
static int owners_lock;
static unsigned nowners, nwaiting;
/*
 * Number of calls that are still examined. The search for the owner walks the stack, which is too slow to do for every
 * call of a program that resets a device and runs on for hours.
 */
static int64_t examined_calls;
enum { MAX_EXAMINED = 4096 };

/* Returns true if the innermost libraries of both callers are the same. */
static bool is_same_library(const char *by, const char *other)
{
	const char *a, *b;
	size_t n = caller_library(by, &a), m = caller_library(other, &b);

	return n == m && memcmp(a, b, n) == 0;
}

void lost_add(uint64_t context, const struct block *b)
{
	unsigned i = 0;

	table_put(&lost, b->start, b->bytes, handle_of(b->by), context);
	lock_take(&owners_lock);
	while (i < nowners && (owners[i].context != context || owners[i].waiting ||
			       !is_same_library(owners[i].by, b->by)))
		i++;
	if (i < MAX_OWNERS) {
		if (i == nowners) {
			owners[i] = (struct owner){.by = b->by, .context = context};
			nowners++;
		}
		owners[i].allocations++;
		owners[i].bytes += b->bytes;
	}
	lock_give(&owners_lock);
}

static void write_lost(const struct owner *o, const char *by)
{
	struct line l;

	line_begin(&l, "lost");
	line_handle(&l, "context", pointer_of(o->context));
	line_number(&l, "allocations", (int64_t)o->allocations);
	line_number(&l, "bytes", (int64_t)o->bytes);
	line_text(&l, "owner", o->by);
	line_text(&l, "by", by);
	line_end(&l);
}

void lost_context(uint64_t context)
{
	char by[WATCH_BY];

	if (!nowners || inject_ending())
		return;
	caller_name(by, sizeof(by));
	lock_take(&owners_lock);
	for (unsigned i = 0; i < nowners; i++) {
		struct owner *o = &owners[i];
		if (o->context != context || o->waiting || !o->allocations)
			continue;
		if (caller_same(o->by, by)) { /* it gave up its own memory, and knows that */
			o->allocations = o->bytes = 0;
			continue;
		}
		o->waiting = true;
		write_lost(o, by);
		__atomic_fetch_add(&nwaiting, 1, __ATOMIC_RELAXED);
	}
	lock_give(&owners_lock);
	__atomic_store_n(&examined_calls, MAX_EXAMINED, __ATOMIC_RELAXED);
}

/* ---- addresses */

struct overlap {
	uint64_t from, to, key;
};

static void find_overlap(const struct entry *e, void *arg)
{
	struct overlap *o = arg;

	if (e->key < o->to && o->from < e->key + e->a)
		o->key = e->key;
}

void lost_reused(uint64_t address, uint64_t bytes)
{
	struct entry e;

	while (table_used(&lost)) {
		struct overlap o = {.from = address, .to = address + bytes};
		table_each(&lost, find_overlap, &o);
		if (!o.key || !table_take(&lost, o.key, &e))
			return;
	}
}

static bool tell_address(const CUpti_CallbackData *c, uint64_t address)
{
	char by[WATCH_BY];
	struct entry e;
	struct line l;

	if (!address || !table_find(&lost, address, &e, true) ||
	    !objects_first_time(10, e.key, handle_of(c->functionName)))
		return false;
	line_begin(&l, "dead");
	line_text(&l, "call", c->functionName);
	line_text(&l, "what", "allocation");
	line_handle(&l, "handle", pointer_of(address));
	line_handle(&l, "context", pointer_of(e.c));
	line_handle(&l, "allocation", pointer_of(e.key));
	line_number(&l, "bytes", (int64_t)e.a);
	line_text(&l, "owner", pointer_of(e.b));
	line_text(&l, "by", caller_name(by, sizeof(by)));
	line_end(&l);
	return true;
}

/* Reports the first argument of a launch that is a lost address; see add_arguments() in failures.c for the limits. */
static void tell_arguments(const CUpti_CallbackData *c, void **arguments)
{
	for (int i = 0; i < 16 && host_readable(&arguments[i], sizeof(void *)); i++) {
		uint64_t value;
		if (!host_readable(arguments[i], sizeof(value)))
			return;
		memcpy(&value, arguments[i], sizeof(value));
		if (tell_address(c, value))
			return;
	}
}

/* ---- libraries */

static bool is_work(const char *call)
{
	static const char *const calls[] = {"cuLaunch", "cuGraphLaunch", "cuMemcpy", "cuMemset"};

	for (size_t i = 0; i < COUNT(calls); i++)
		if (strncmp(call, calls[i], strlen(calls[i])) == 0)
			return true;
	return false;
}

static void tell_orphan(const CUpti_CallbackData *c)
{
	char by[WATCH_BY];
	struct line l;

	caller_name(by, sizeof(by));
	for (unsigned i = 0; i < nowners; i++) {
		if (!owners[i].waiting || !caller_same(by, owners[i].by))
			continue;
		owners[i].waiting = false;
		__atomic_fetch_sub(&nwaiting, 1, __ATOMIC_RELAXED);
		line_begin(&l, "orphan");
		line_text(&l, "call", c->functionName);
		line_handle(&l, "context", pointer_of(owners[i].context));
		line_text(&l, "by", by);
		line_end(&l);
	}
}

void lost_tell(const CUpti_CallbackData *c, const struct operands *o)
{
	if (!is_work(c->functionName) || __atomic_fetch_sub(&examined_calls, 1, __ATOMIC_RELAXED) <= 0)
		return;
	tell_address(c, o->source);
	tell_address(c, o->target);
	if (o->arguments)
		tell_arguments(c, o->arguments);
	if (!__atomic_load_n(&nwaiting, __ATOMIC_RELAXED))
		return;
	lock_take(&owners_lock);
	tell_orphan(c);
	lock_give(&owners_lock);
}
