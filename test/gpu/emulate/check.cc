/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looks at every access of emulated kernels: compiled with -fsanitize=thread they tell of each, and here is what they
 * call (the sanitizer's own library is not linked). Told is, once a launch,
 *
 *   - memory that is none of the device's;
 *   - reading what nobody has written, on the device or in the block's shared memory;
 *   - two threads at the same bytes, one of them writing, and no barrier of the block between them. Who writes what is
 *     there already does no harm;
 *   - what a copy into shared memory is still to write, touched before it was waited for, or asked for while others are
 *     at it;
 *   - an object that does not lie at a multiple of what its type wants;
 *   - memory of the device that a kernel touches before it has waited for the launch before it, if it may begin ahead of that one's end;
 *     but it may read what has been there since before the last launch that began when all before it had ended.
 *
 * EMULATE_CHECK=LETTERS leaves only some: m memory, i initialised, r races.
 */
#include "run.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define KEPT __attribute__((section(".data")))

/* What kernels copy and fill in one piece: linked with --wrap. */
extern "C" void *__real_memcpy(void *to, const void *from, size_t n),
	*__real_memmove(void *to, const void *from, size_t n),
	*__real_memset(void *to, int v, size_t n);

/*
 * Who did something last: the launch, the block in it, the barriers that the block and that the thread's warp had passed, the thread.
 * MANY: of those that read, several did; SEVERAL + w: several of warp w.
 */
typedef uint64_t who;
enum {
	LAUNCHES = 16,
	BLOCKS = 18,
	EPOCHS = 12,
	STEPS = 6,
	THREADS = 11,
	SEVERAL = 1024,
	MANY_THREADS = (1 << THREADS) - 1,
	MANY_BLOCKS = (1 << BLOCKS) - 1
};
struct cell {		 /* of a byte */
	who wrote, read; /* 0: nobody */
};
struct region {
	const char *start, *end;
	struct cell *cell;
	bool shared;	 /* of blocks */
	uint8_t *flight; /* of shared memory: bytes that copies are to write */
};

static const who THERE = 1ull << 63;
#define FIELD(w, at, bits) ((unsigned)((w) >> (at)) & ((1u << (bits)) - 1))
static unsigned thread_of(who w)
{
	return FIELD(w, 0, THREADS);
}
static unsigned step_of(who w)
{
	return FIELD(w, THREADS, STEPS);
}
static unsigned epoch_of(who w)
{
	return FIELD(w, THREADS + STEPS, EPOCHS);
}
static unsigned block_of(who w)
{
	return FIELD(w, THREADS + STEPS + EPOCHS, BLOCKS);
}
static unsigned launch_of(who w)
{
	return FIELD(w, THREADS + STEPS + EPOCHS + BLOCKS, LAUNCHES);
}
static who in_launch(uint64_t launch)
{
	return (launch & ((1u << LAUNCHES) - 1)) << (THREADS + STEPS + EPOCHS + BLOCKS);
}
static unsigned warp_of(who w)
{
	const unsigned t = thread_of(w);

	return t < SEVERAL ? t / 32 : t == MANY_THREADS ? MANY_THREADS : t - SEVERAL;
}

/* `as`, but of this block and thread. */
static who put(who as, unsigned block, unsigned thread)
{
	const who rest = ~((who)MANY_BLOCKS << (THREADS + STEPS + EPOCHS) | MANY_THREADS);

	return (as & rest) | (who)block << (THREADS + STEPS + EPOCHS) | thread;
}

KEPT static struct {
	struct region *v; /* by address */
	size_t n, cap, last;
	struct {
		struct region r;
		bool made;
	} fixed, room;
	size_t flying;	/* copies */
	uint64_t flown; /* the launch of which they are */
	bool asked, memory, initialised, races;
	struct { /* a write that is to come: whether it changes anything shows when the next access is told */
		char *p;
		size_t n;
		struct cell *cell;
		who me;
		bool shared;
		char old[16], text[400]; /* text: what harm it does then */
	} pending;
} c;

extern "C" char __ehdr_start[] __attribute__((visibility("hidden")));
extern "C" char __bss_start[] __attribute__((visibility("hidden"))),
	_end[] __attribute__((visibility("hidden")));

static void ask(void)
{
	const char *s = getenv("EMULATE_CHECK");

	c.asked = true;
	c.memory = !s || strchr(s, 'm');
	c.initialised = !s || strchr(s, 'i');
	c.races = !s || strchr(s, 'r');
}

/* Where in the source, as addr2line tells. */
static void place(const void *pc, char *to, size_t room)
{
	Dl_info info;
	char command[4200];

	*to = 0;
	if (!dladdr((void *)__bss_start, &info) && !dladdr((void *)place, &info))
		return;
	snprintf(command, sizeof(command), "addr2line -s -e '%s' %#zx 2>/dev/null", info.dli_fname,
		 (size_t)((const char *)pc - (const char *)info.dli_fbase - 1));
	FILE *f = popen(command, "r");
	if (!f)
		return;
	if (!fgets(to, (int)room, f))
		*to = 0;
	to[strcspn(to, "\n")] = 0;
	pclose(f);
}

static struct cell *cells(size_t n)
{
	void *p = mmap(NULL, n * sizeof(struct cell) + 1, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return p == MAP_FAILED ? NULL : (struct cell *)p;
}

static struct region shared_region(const char *start, const char *end, size_t n)
{
	return {start, end, cells(n), true, (uint8_t *)calloc(n, 1)};
}

static size_t after(const char *p) /* the first region that ends behind p */
{
	size_t low = 0, high = c.n;

	while (low < high) {
		size_t mid = (low + high) / 2;
		if (c.v[mid].end > p)
			high = mid;
		else
			low = mid + 1;
	}
	return low;
}

void check_memory(const void *at, size_t n, int what)
{
	const char *p = (const char *)at;
	size_t i = after(p);

	if (!n)
		return;
	if (what == 1) {
		if (c.n == c.cap) {
			c.cap = c.cap ? 2 * c.cap : 64;
			c.v = (struct region *)realloc(c.v, c.cap * sizeof(*c.v));
		}
		__real_memmove(c.v + i + 1, c.v + i, (c.n++ - i) * sizeof(*c.v));
		c.v[i] = (struct region){p, p + n, cells(n), false, NULL};
	} else if (what == 0 && i < c.n && c.v[i].start == p) {
		munmap(c.v[i].cell, (size_t)(c.v[i].end - p) * sizeof(struct cell) + 1);
		__real_memmove(c.v + i, c.v + i + 1, (--c.n - i) * sizeof(*c.v));
	} else if (what == 2 && i < c.n && c.v[i].start <= p && p + n <= c.v[i].end) {
		struct cell *cell = c.v[i].cell + (p - c.v[i].start);
		for (size_t k = 0; k < n; k++)
			cell[k] = (struct cell){THERE | in_launch(emulation.launch), 0};
	}
}

static struct region *region_of(const char *p)
{
	if (c.last < c.n && c.v[c.last].start <= p && p < c.v[c.last].end)
		return &c.v[c.last];
	if (p >= __bss_start && p < _end) {
		if (!c.fixed.made)
			c.fixed.r = shared_region(__bss_start, _end, (size_t)(_end - __bss_start)),
			c.fixed.made = true;
		return &c.fixed.r;
	}
	if (p >= emulation.room && p < emulation.room_end) {
		if (!c.room.made)
			c.room.r = shared_region(emulation.room, NULL, 1 << 18), c.room.made = true;
		c.room.r.end = emulation.room_end;
		return &c.room.r;
	}
	size_t i = after(p);
	if (i == c.n || c.v[i].start > p)
		return NULL;
	c.last = i;
	return &c.v[i];
}

static void settle(void)
{
	const bool same = c.pending.n && !memcmp(c.pending.p, c.pending.old, c.pending.n),
		   stays = same && !c.pending.shared;

	if (!same && *c.pending.text)
		emulate_report("%s", c.pending.text);
	for (size_t i = 0; i < c.pending.n; i++)
		if (!stays || !c.pending.cell[i].wrote ||
		    launch_of(c.pending.cell[i].wrote) == launch_of(c.pending.me))
			c.pending.cell[i].wrote = c.pending.me;
	c.pending.n = 0;
	*c.pending.text = 0;
}

static void outside(const char *p, size_t n, bool write, const void *pc)
{
	char at[300], near[100] = "";
	size_t i = after(p);

	if (emulation.failed)
		return;
	if (i && (i == c.n || p - c.v[i - 1].end < c.v[i].start - p))
		snprintf(near, sizeof(near), ", %zu bytes behind an allocation of %zu",
			 (size_t)(p - c.v[i - 1].end), (size_t)(c.v[i - 1].end - c.v[i - 1].start));
	else if (i < c.n)
		snprintf(near, sizeof(near), ", %zu bytes before an allocation of %zu",
			 (size_t)(c.v[i].start - p), (size_t)(c.v[i].end - c.v[i].start));
	place(pc, at, sizeof(at));
	emulate_report("%s: %s %zu bytes at %p, outside of the device's memory%s", at,
		       write ? "writes" : "reads", n, p, near);
}

static void unwritten(const struct region *r, const char *p, size_t n, const void *pc)
{
	char at[300];

	if (emulation.failed)
		return;
	place(pc, at, sizeof(at));
	emulate_report("%s: reads %zu bytes of %s that nobody has written, at byte %zu of %zu", at,
		       n, r->shared ? "shared memory" : "an allocation", (size_t)(p - r->start),
		       (size_t)(r->end - r->start));
}

static void race(const struct region *r, const char *p, size_t n, bool write, bool wrote, who other,
		 const void *pc)
{
	char at[300], text[400], thread[40] = "several threads", block[40] = "several blocks";

	if (emulation.failed || *c.pending.text)
		return;
	place(pc, at, sizeof(at));
	if (thread_of(other) < SEVERAL)
		snprintf(thread, sizeof(thread), "thread %u", thread_of(other));
	if (block_of(other) != MANY_BLOCKS)
		snprintf(block, sizeof(block), "block %u", block_of(other));
	snprintf(text, sizeof(text),
		 "%s: %s %zu bytes of %s, at byte %zu of %zu, that %s of %s %s with no barrier between",
		 at, write ? "writes" : "reads", n, r->shared ? "shared memory" : "an allocation",
		 (size_t)(p - r->start), (size_t)(r->end - r->start), thread, block,
		 wrote ? "wrote" : "read");
	if (write && n <= sizeof(c.pending.old))
		__real_memcpy(c.pending.text, text, sizeof(text));
	else
		emulate_report("%s", text);
}

/* Whether `other`, of this launch, may have been at the same time as `me`. */
static bool beside(who me, who other)
{
	if (!other || launch_of(me) != launch_of(other))
		return false;
	if (block_of(me) != block_of(other))
		return true;
	return epoch_of(me) == epoch_of(other) && thread_of(me) != thread_of(other) &&
	       (warp_of(me) != warp_of(other) || step_of(me) == step_of(other));
}

static void reads(const struct region *r, struct cell *cell, who me, const char *p, size_t n,
		  const void *pc)
{
	for (size_t i = 0; i < n; i++, cell++) {
		const bool other_block = r->shared && (launch_of(cell->wrote) != launch_of(me) ||
						       block_of(cell->wrote) != block_of(me));
		if (c.initialised && (!cell->wrote || other_block))
			unwritten(r, p, n, pc);
		if (c.races && !other_block && beside(me, cell->wrote))
			race(r, p, n, false, true, cell->wrote, pc);
		const who old = cell->read;
		unsigned thread = thread_of(me), block = block_of(me);
		if (old && launch_of(old) == launch_of(me) && !r->shared && block_of(old) != block)
			block = MANY_BLOCKS;
		else if (old && launch_of(old) == launch_of(me) && block_of(old) == block &&
			 epoch_of(old) == epoch_of(me) && thread_of(old) != thread &&
			 /* what its own warp read before a barrier of the warp is behind it */
			 (warp_of(old) != warp_of(me) || step_of(old) == step_of(me)))
			thread = warp_of(old) == warp_of(me) ? SEVERAL + warp_of(me) : MANY_THREADS;
		cell->read = put(me, block, thread);
	}
}

static void writes(const struct region *r, struct cell *cell, who me, const char *p, size_t n,
		   bool atomic, const void *pc)
{
	const bool known = n <= sizeof(c.pending.old);

	if (known) {
		c.pending.p = (char *)p, c.pending.n = n, c.pending.cell = cell, c.pending.me = me;
		c.pending.shared = r->shared;
		__real_memcpy(c.pending.old, p, n);
	}
	for (size_t i = 0; i < n; i++, cell++) {
		const bool wrote_elsewhere = r->shared && block_of(cell->wrote) != block_of(me),
			   read_elsewhere = r->shared && block_of(cell->read) != block_of(me);
		if (c.races && !atomic && !wrote_elsewhere && beside(me, cell->wrote))
			race(r, p, n, true, true, cell->wrote, pc);
		if (c.races && !atomic && !read_elsewhere && beside(me, cell->read))
			race(r, p, n, true, false, cell->read, pc);
		if (!known)
			cell->wrote = me;
	}
}

static who myself(void)
{
	const who launch = emulation.launch & ((1u << LAUNCHES) - 1),
		  epoch = emulation.epoch & ((1u << EPOCHS) - 1),
		  step = emulation.step & ((1u << STEPS) - 1);
	const who me = THERE | launch << (THREADS + STEPS + EPOCHS + BLOCKS) |
		       epoch << (THREADS + STEPS) | step << THREADS;

	return put(me, (unsigned)(emulation.block % MANY_BLOCKS), emulation.thread);
}

/* Whether some of it is still on its way: told. */
static bool on_its_way(const struct region *r, const char *p, size_t n, bool write, const void *pc)
{
	char at[300];

	if (!r->flight || !c.flying || c.flown != emulation.launch ||
	    !memchr(r->flight + (p - r->start), 1, n))
		return false;
	if (emulation.failed)
		return true;
	place(pc, at, sizeof(at));
	emulate_report(
		"%s: %s %zu bytes of shared memory that a copy on its way is to write, at byte %zu of %zu",
		at, write ? "writes" : "reads", n, (size_t)(p - r->start),
		(size_t)(r->end - r->start));
	return true;
}

/* Whether bytes may have been written by a launch that may still be under way, or are of the last copies before it. */
static bool is_new(const struct region *r, const char *p, size_t n)
{
	const struct cell *cell = r->cell + (p - r->start);
	const uint64_t most = emulation.launch - emulation.whole;

	for (size_t i = 0; i < n; i++)
		if (((emulation.launch - launch_of(cell[i].wrote)) & ((1u << LAUNCHES) - 1)) <= most)
			return true;
	return false;
}

static void too_early(const struct region *r, const char *p, size_t n, bool write, const void *pc)
{
	char at[300];

	if (emulation.failed)
		return;
	place(pc, at, sizeof(at));
	emulate_report(
		"%s: %s %zu bytes of an allocation, at byte %zu of %zu, before it has waited for the launch before",
		at, write ? "writes" : "reads", n, (size_t)(p - r->start),
		(size_t)(r->end - r->start));
}

static void access(const void *at, size_t n, bool write, bool atomic, const void *pc)
{
	const char *p = (const char *)at;

	if (!emulation.kernels || (p >= emulation.stacks && p < emulation.stacks_end))
		return;
	if (p >= __ehdr_start && p < __bss_start)
		return;
	if (!c.asked)
		ask();
	settle();
	struct region *r = region_of(p);
	if (!r || p + n > r->end) {
		if (c.memory)
			outside(p, n, write, pc);
		return;
	}
	if (emulation.early && !r->shared && (write || is_new(r, p, n)))
		too_early(r, p, n, write, pc);
	const who me = myself();
	struct cell *cell = r->cell + (p - r->start);
	if (on_its_way(r, p, n, write, pc))
		return;
	if (write)
		writes(r, cell, me, p, n, atomic, pc);
	else
		reads(r, cell, me, p, n, pc);
}

void check_read(const void *p, size_t n)
{
	access(p, n, false, false, __builtin_return_address(0));
}
void check_write(const void *p, size_t n)
{
	access(p, n, true, false, __builtin_return_address(0));
}
void check_atomic(const void *p, size_t n)
{
	access(p, n, true, true, __builtin_return_address(0));
}
void check_settle(void)
{
	settle();
}

/* ---- copies under way: nobody may be at what they write from when they are asked for until they were waited for */

/* As of now: a write that changes nothing yet. */
static void asked_for(const struct region *r, const char *p, const void *pc)
{
	const struct cell *cell = r->cell + (p - r->start);
	const who me = myself();

	for (int i = 0; i < 16 && c.races; i++) {
		const bool wrote = block_of(cell[i].wrote) == block_of(me) &&
				   beside(me, cell[i].wrote),
			   read = block_of(cell[i].read) == block_of(me) && beside(me, cell[i].read);
		char at[300];
		if ((!wrote && !read) || emulation.failed)
			continue;
		place(pc, at, sizeof(at));
		emulate_report(
			"%s: asks for a copy to shared memory that thread %u %s with no barrier between",
			at, thread_of(wrote ? cell[i].wrote : cell[i].read),
			wrote ? "wrote" : "read");
	}
}

void check_fetch(const void *to, const void *from, bool there)
{
	const void *pc = __builtin_return_address(0);
	const char *p = (const char *)to;

	if (there)
		access(from, 16, false, false, pc);
	settle();
	struct region *r = region_of(p);
	if (!r || !r->flight || p + 16 > r->end) {
		if (c.memory)
			outside(p, 16, true, pc);
		return;
	}
	if (c.flown != emulation.launch) {
		if (c.flying && c.fixed.made)
			__real_memset(c.fixed.r.flight, 0, (size_t)(_end - __bss_start));
		if (c.flying && c.room.made)
			__real_memset(c.room.r.flight, 0, 1 << 18);
		c.flying = 0;
		c.flown = emulation.launch;
	}
	if (!on_its_way(r, p, 16, true, pc))
		asked_for(r, p, pc);
	__real_memset(r->flight + (p - r->start), 1, 16);
	c.flying++;
}

void check_fetched(const void *to)
{
	const char *p = (const char *)to;
	struct region *r = region_of(p);

	if (!r || !r->flight || p + 16 > r->end || c.flown != emulation.launch)
		return;
	__real_memset(r->flight + (p - r->start), 0, 16);
	c.flying -= c.flying > 0;
}

/* ---- what the compiler calls */

#define HERE __builtin_return_address(0)
#define ACCESS(n)                                                                                  \
	void __tsan_read##n(void *p)                                                               \
	{                                                                                          \
		access(p, n, false, false, HERE);                                                  \
	}                                                                                          \
	void __tsan_write##n(void *p)                                                              \
	{                                                                                          \
		access(p, n, true, false, HERE);                                                   \
	}                                                                                          \
	void __tsan_unaligned_read##n(void *p)                                                     \
	{                                                                                          \
		access(p, n, false, false, HERE);                                                  \
	}                                                                                          \
	void __tsan_unaligned_write##n(void *p)                                                    \
	{                                                                                          \
		access(p, n, true, false, HERE);                                                   \
	}

/* Of -fsanitize=alignment: the first three fields are where it is in the source. */
struct mismatch {
	const char *file;
	uint32_t line, column;
	const void *type;
	unsigned char log_align, kind;
};

extern "C" {
void __ubsan_handle_type_mismatch_v1(const struct mismatch *m, uintptr_t p)
{
	const char *slash = strrchr(m->file, '/');

	if (emulation.kernels && !emulation.failed && p % (1u << m->log_align))
		emulate_report(
			"%s:%u: an object at %#zx, which is no multiple of the %u bytes that it is aligned to",
			slash ? slash + 1 : m->file, m->line, (size_t)p, 1u << m->log_align);
}
ACCESS(1) ACCESS(2) ACCESS(4) ACCESS(8) ACCESS(16) void __tsan_read_range(void *p, size_t n)
{
	access(p, n, false, false, HERE);
}
void __tsan_write_range(void *p, size_t n)
{
	access(p, n, true, false, HERE);
}
void __tsan_func_entry(void *)
{
}
void __tsan_func_exit(void)
{
}
void __tsan_init(void)
{
}

void *__wrap_memcpy(void *to, const void *from, size_t n)
{
	if (n) {
		access(from, n, false, false, HERE);
		access(to, n, true, false, HERE);
	}
	return __real_memcpy(to, from, n);
}
void *__wrap_memmove(void *to, const void *from, size_t n)
{
	if (n) {
		access(from, n, false, false, HERE);
		access(to, n, true, false, HERE);
	}
	return __real_memmove(to, from, n);
}
void *__wrap_memset(void *to, int v, size_t n)
{
	if (n)
		access(to, n, true, false, HERE);
	return __real_memset(to, v, n);
}
}
