/* SPDX-License-Identifier: Apache-2.0 */
/* Checks the host memory that a copy would read or write, before the driver runs the copy. */
#include "watch/inject/inject.h"

#include <stdio.h>
#include <string.h>

/*
 * A bad copy in a loop would be reported again and again. So we write one event for each combination of call, caller
 * and kind of error, for at most MAX_REPORTED combinations. Repetitions are only counted.
 */
enum { MAX_REPORTED = 64 };
static unsigned reported;
static struct table kinds; /* maps a hash of call, caller and kind of error to the failure number (field a) */

/*
 * Returns a failure number for a new combination of call, caller and kind of error, or 0 if the combination was
 * reported before or the limit of reports is reached.
 */
static uint64_t number_new_kind(const CUpti_CallbackData *c, const char *by, bool block)
{
	struct entry e;
	uint64_t key = hash_mix(hash_mix(10, handle_of(c->functionName)), block);

	for (const char *p = by; *p; p++)
		key = hash_mix(key, (unsigned char)*p);
	if (table_get(&kinds, key | 1, &e)) {
		failures_count(e.a);
		return 0;
	}
	if (__atomic_fetch_add(&reported, 1, __ATOMIC_RELAXED) >= MAX_REPORTED)
		return 0;
	uint64_t number = failures_number();
	return table_new(&kinds, key | 1, number, 0, 0) ? number : 0;
}

/*
 * The host memory of a copy: it has `depth` planes of `height` rows of `width` bytes. Planes begin at a distance of
 * `plane` bytes, and rows at a distance of `pitch` bytes. The first byte is at `base`.
 */
struct range {
	const char *base;
	size_t width, height, depth, pitch, plane;
	bool write;	    /* true if the copy writes this range, false if it reads it */
	bool unified;	    /* base is a unified address, so it may be on the device */
	CUdeviceptr device; /* device address of the copy's other side; 0 if the other side is an array */
};

static bool size_product(size_t a, size_t b, size_t *product)
{
	return !__builtin_mul_overflow(a, b, product);
}

/*
 * Sets *bytes to the distance from the first byte of the range to the end of its last row. Returns false if the sum
 * overflows.
 */
static bool span_of(const struct range *r, size_t *bytes)
{
	size_t rows, planes;

	return size_product(r->height - 1, r->pitch, &rows) &&
	       size_product(r->depth - 1, r->plane, &planes) &&
	       !__builtin_add_overflow(rows, planes, bytes) &&
	       !__builtin_add_overflow(*bytes, r->width, bytes) &&
	       (uintptr_t)r->base + *bytes >= (uintptr_t)r->base;
}

static void write_copy_event(const CUpti_CallbackData *c, const struct range *r, size_t span,
			     const char *why, const char *block, size_t block_bytes)
{
	struct line l;
	struct block b;
	char by[WATCH_BY];
	uint64_t number = number_new_kind(c, caller_name(by, sizeof(by)), block);

	if (!number)
		return;
	line_begin(&l, "copy");
	line_number(&l, "number", (int64_t)number);
	line_text(&l, "call", c->functionName);
	line_number(&l, "to_host", r->write);
	line_handle(&l, "host", r->base);
	if (r->device)
		line_handle(&l, "device", pointer_of(r->device));
	line_number(&l, "bytes", (int64_t)span);
	if (r->height > 1 || r->depth > 1) {
		line_number(&l, "width", (int64_t)r->width);
		line_number(&l, "height", (int64_t)r->height);
		line_number(&l, "depth", (int64_t)r->depth);
		line_number(&l, "pitch", (int64_t)r->pitch);
	}
	if (block) {
		line_handle(&l, "block", block);
		line_number(&l, "block_bytes", (int64_t)block_bytes);
	}
	if (!block && memory_find(handle_of(r->base), true, &b) && b.kind == WATCH_DEVICE) {
		line_handle(&l, "allocation", pointer_of(b.start));
		line_number(&l, "allocation_bytes", (int64_t)b.bytes);
		line_text(&l, "owner", b.by);
	}
	line_text(&l, "why", why);
	line_text(&l, "by", by);
	line_end(&l);
}

/*
 * Describes the first row that cannot be copied. Returns NULL if every row can be copied: then only the gaps between
 * the rows are not accessible, and the copy does not touch the gaps.
 */
static const char *describe_bad_row(const struct range *r, char *text, size_t room)
{
	enum { MAX_ROWS = 1 << 16 };
	size_t looked = 0;

	for (size_t z = 0; z < r->depth; z++) {
		for (size_t y = 0; y < r->height && looked < MAX_ROWS; y++, looked++) {
			const char *at = r->base + z * r->plane + y * r->pitch;
			const char *why = host_fault(at, r->width, r->write, text, room);
			if (!why)
				continue;
			size_t n = strlen(text);
			snprintf(text + n, room - n, " (row %zu of plane %zu)", y, z);
			return why;
		}
	}
	return NULL;
}

/*
 * Returns true if the range starts inside a malloc block or a pinned allocation and extends past the end of this
 * block. Sets *start, *bytes and *what to describe the block.
 */
static bool leaves_host_block(const struct range *r, size_t span, const char **start, size_t *bytes,
			      const char **what)
{
	struct block b;

	*what = "a block of malloc's";
	if (heap_find(r->base, start, bytes))
		return (size_t)(r->base - *start) + span > *bytes;
	if (!__atomic_load_n(&record_shared()->live[WATCH_PINNED], __ATOMIC_RELAXED) ||
	    !memory_pinned(handle_of(r->base), &b) || b.registered)
		return false;
	*what = "a pinned allocation";
	*start = pointer_of(b.start);
	*bytes = b.bytes;
	return (size_t)(r->base - *start) + span > *bytes;
}

static void check_range(const CUpti_CallbackData *c, const struct range *r)
{
	char why[320];
	const char *start, *what;
	size_t span, bytes;

	if (!r->width || !r->height || !r->depth || !r->base || !span_of(r, &span))
		return;
	if (r->unified && !host_readable(r->base, 1))
		return; /* probably a device address, which we cannot tell from a bad host address */
	if (host_fault(r->base, span, r->write, why, sizeof(why)) &&
	    (r->height * r->depth == 1 || describe_bad_row(r, why, sizeof(why)))) {
		write_copy_event(c, r, span, why, NULL, 0);
	} else if (leaves_host_block(r, span, &start, &bytes, &what)) {
		size_t offset = (size_t)(r->base - start);
		snprintf(why, sizeof(why),
			 "%zu of its %zu bytes are in %s of %zu bytes at %p (it begins at byte %zu there)",
			 bytes - offset, span, what, bytes, (const void *)start, offset);
		write_copy_event(c, r, span, why, start, bytes);
	}
}

static void check_flat(const CUpti_CallbackData *c, const void *host, CUdeviceptr device,
		       size_t bytes, bool write, bool unified)
{
	struct range r = {.base = host,
			  .width = bytes,
			  .height = 1,
			  .depth = 1,
			  .write = write,
			  .unified = unified,
			  .device = device};

	check_range(c, &r);
}

/* ---- contiguous copies */

static bool enter_flat(CUpti_CallbackId id, const CUpti_CallbackData *c)
{
	if (id == ID(cuMemcpyHtoD_v2) || id == ID(cuMemcpyHtoD_v2_ptds) ||
	    id == ID(cuMemcpyHtoDAsync_v2) || id == ID(cuMemcpyHtoDAsync_v2_ptsz)) {
		PARAMS(cuMemcpyHtoD_v2);
		check_flat(c, p->srcHost, p->dstDevice, p->ByteCount, false, false);
	} else if (id == ID(cuMemcpyDtoH_v2) || id == ID(cuMemcpyDtoH_v2_ptds) ||
		   id == ID(cuMemcpyDtoHAsync_v2) || id == ID(cuMemcpyDtoHAsync_v2_ptsz)) {
		PARAMS(cuMemcpyDtoH_v2);
		check_flat(c, p->dstHost, p->srcDevice, p->ByteCount, true, false);
	} else if (id == ID(cuMemcpy) || id == ID(cuMemcpy_ptds) || id == ID(cuMemcpyAsync) ||
		   id == ID(cuMemcpyAsync_ptsz)) {
		PARAMS(cuMemcpy);
		check_flat(c, pointer_of(p->src), p->dst, p->ByteCount, false, true);
		check_flat(c, pointer_of(p->dst), p->src, p->ByteCount, true, true);
	} else {
		return false;
	}
	return true;
}

static bool enter_array(CUpti_CallbackId id, const CUpti_CallbackData *c)
{
	if (id == ID(cuMemcpyHtoA_v2) || id == ID(cuMemcpyHtoA_v2_ptds) ||
	    id == ID(cuMemcpyHtoAAsync_v2) || id == ID(cuMemcpyHtoAAsync_v2_ptsz)) {
		PARAMS(cuMemcpyHtoA_v2);
		check_flat(c, p->srcHost, 0, p->ByteCount, false, false);
	} else if (id == ID(cuMemcpyAtoH_v2) || id == ID(cuMemcpyAtoH_v2_ptds) ||
		   id == ID(cuMemcpyAtoHAsync_v2) || id == ID(cuMemcpyAtoHAsync_v2_ptsz)) {
		PARAMS(cuMemcpyAtoH_v2);
		check_flat(c, p->dstHost, 0, p->ByteCount, true, false);
	} else {
		return false;
	}
	return true;
}

static bool enter_batch(CUpti_CallbackId id, const CUpti_CallbackData *c)
{
	if (id != ID(cuMemcpyBatchAsync) && id != ID(cuMemcpyBatchAsync_ptsz) &&
	    id != ID(cuMemcpyBatchAsync_v2) && id != ID(cuMemcpyBatchAsync_v2_ptsz))
		return false;
	PARAMS(cuMemcpyBatchAsync); /* the versions of this call differ only in later parameters */
	for (size_t i = 0; p->dsts && p->srcs && p->sizes && i < p->count; i++) {
		check_flat(c, pointer_of(p->srcs[i]), p->dsts[i], p->sizes[i], false, true);
		check_flat(c, pointer_of(p->dsts[i]), p->srcs[i], p->sizes[i], true, true);
	}
	return true;
}

/* ---- copies with a pitch */

/* Checks the host side (source or destination) of a 3-D copy, if it is on the host. */
static void check_side(const CUpti_CallbackData *c, const CUDA_MEMCPY3D *m, bool write)
{
	CUmemorytype type = write ? m->dstMemoryType : m->srcMemoryType;
	CUmemorytype other = write ? m->srcMemoryType : m->dstMemoryType;
	size_t pitch = write ? m->dstPitch : m->srcPitch, rows = write ? m->dstHeight : m->srcHeight;
	size_t x = write ? m->dstXInBytes : m->srcXInBytes, y = write ? m->dstY : m->srcY,
	       z = write ? m->dstZ : m->srcZ, plane, down, in;
	const char *host = type == CU_MEMORYTYPE_HOST
				   ? write ? m->dstHost : m->srcHost
				   : pointer_of(write ? m->dstDevice : m->srcDevice);

	if ((type != CU_MEMORYTYPE_HOST && type != CU_MEMORYTYPE_UNIFIED) || !host)
		return;
	pitch = pitch ? pitch : m->WidthInBytes;
	rows = rows ? rows : m->Height;
	if (!size_product(pitch, rows, &plane) || !size_product(y, pitch, &down) ||
	    !size_product(z, plane, &in))
		return;
	struct range r = {.base = host + x + down + in,
			  .width = m->WidthInBytes,
			  .height = m->Height,
			  .depth = m->Depth,
			  .pitch = pitch,
			  .plane = plane,
			  .write = write,
			  .unified = type == CU_MEMORYTYPE_UNIFIED};
	if (other == CU_MEMORYTYPE_DEVICE || other == CU_MEMORYTYPE_UNIFIED)
		r.device = write ? m->srcDevice : m->dstDevice;
	check_range(c, &r);
}

static void check_both(const CUpti_CallbackData *c, const CUDA_MEMCPY3D *m)
{
	check_side(c, m, false);
	check_side(c, m, true);
}

static CUDA_MEMCPY3D copy_3d_of_2d(const CUDA_MEMCPY2D *m)
{
	return (CUDA_MEMCPY3D){
		.srcXInBytes = m->srcXInBytes,
		.srcY = m->srcY,
		.srcMemoryType = m->srcMemoryType,
		.srcHost = m->srcHost,
		.srcDevice = m->srcDevice,
		.srcPitch = m->srcPitch,
		.dstXInBytes = m->dstXInBytes,
		.dstY = m->dstY,
		.dstMemoryType = m->dstMemoryType,
		.dstHost = m->dstHost,
		.dstDevice = m->dstDevice,
		.dstPitch = m->dstPitch,
		.WidthInBytes = m->WidthInBytes,
		.Height = m->Height,
		.Depth = 1,
	};
}

static const CUDA_MEMCPY2D *params_2d(CUpti_CallbackId id, const CUpti_CallbackData *c)
{
	if (id != ID(cuMemcpy2D_v2) && id != ID(cuMemcpy2D_v2_ptds) &&
	    id != ID(cuMemcpy2DUnaligned_v2) && id != ID(cuMemcpy2DUnaligned_v2_ptds) &&
	    id != ID(cuMemcpy2DAsync_v2) && id != ID(cuMemcpy2DAsync_v2_ptsz))
		return NULL;
	PARAMS(cuMemcpy2D_v2);
	return p->pCopy;
}

static const CUDA_MEMCPY3D *params_3d(CUpti_CallbackId id, const CUpti_CallbackData *c)
{
	if (id != ID(cuMemcpy3D_v2) && id != ID(cuMemcpy3D_v2_ptds) &&
	    id != ID(cuMemcpy3DAsync_v2) && id != ID(cuMemcpy3DAsync_v2_ptsz))
		return NULL;
	PARAMS(cuMemcpy3D_v2);
	return p->pCopy;
}

/*
 * Converts a peer copy (between devices or contexts) to a plain 3-D copy. The devices and contexts of m are dropped,
 * because we only check a side that is host memory.
 */
static CUDA_MEMCPY3D copy_3d_of_peers(const CUDA_MEMCPY3D_PEER *m)
{
	return (CUDA_MEMCPY3D){
		.srcXInBytes = m->srcXInBytes,
		.srcY = m->srcY,
		.srcZ = m->srcZ,
		.srcMemoryType = m->srcMemoryType,
		.srcHost = m->srcHost,
		.srcDevice = m->srcDevice,
		.srcPitch = m->srcPitch,
		.srcHeight = m->srcHeight,
		.dstXInBytes = m->dstXInBytes,
		.dstY = m->dstY,
		.dstZ = m->dstZ,
		.dstMemoryType = m->dstMemoryType,
		.dstHost = m->dstHost,
		.dstDevice = m->dstDevice,
		.dstPitch = m->dstPitch,
		.dstHeight = m->dstHeight,
		.WidthInBytes = m->WidthInBytes,
		.Height = m->Height,
		.Depth = m->Depth,
	};
}

static bool enter_peers(CUpti_CallbackId id, const CUpti_CallbackData *c)
{
	if (id != ID(cuMemcpy3DPeer) && id != ID(cuMemcpy3DPeer_ptds) &&
	    id != ID(cuMemcpy3DPeerAsync) && id != ID(cuMemcpy3DPeerAsync_ptsz))
		return false;
	PARAMS(cuMemcpy3DPeer);
	if (p->pCopy) {
		CUDA_MEMCPY3D m = copy_3d_of_peers(p->pCopy);
		check_both(c, &m);
	}
	return true;
}

static bool enter_pitched(CUpti_CallbackId id, const CUpti_CallbackData *c)
{
	const CUDA_MEMCPY2D *flat = params_2d(id, c);
	const CUDA_MEMCPY3D *deep = params_3d(id, c);

	if (flat) {
		CUDA_MEMCPY3D m = copy_3d_of_2d(flat);
		check_both(c, &m);
	} else if (deep) {
		check_both(c, deep);
	}
	return flat || deep;
}

#if CUDA_VERSION >= 12080
static void check_operand(const CUpti_CallbackData *c, const CUDA_MEMCPY3D_BATCH_OP *op, bool write)
{
	const CUmemcpy3DOperand *side = write ? &op->dst : &op->src,
				*other = write ? &op->src : &op->dst;

	/*
	 * The sizes of a copy between pointers are in bytes. If an array takes part, sizes are in elements of that
	 * array.
	 */
	if (side->type != CU_MEMCPY_OPERAND_TYPE_POINTER ||
	    other->type != CU_MEMCPY_OPERAND_TYPE_POINTER)
		return;
	struct range r = {.base = pointer_of(side->op.ptr.ptr),
			  .width = op->extent.width,
			  .height = op->extent.height,
			  .depth = op->extent.depth,
			  .pitch = side->op.ptr.rowLength ? side->op.ptr.rowLength : op->extent.width,
			  .write = write,
			  .unified = true,
			  .device = other->op.ptr.ptr};
	size_t rows = side->op.ptr.layerHeight ? side->op.ptr.layerHeight : op->extent.height;
	if (size_product(r.pitch, rows, &r.plane))
		check_range(c, &r);
}

static bool enter_batch_3d(CUpti_CallbackId id, const CUpti_CallbackData *c)
{
	if (id != ID(cuMemcpy3DBatchAsync) && id != ID(cuMemcpy3DBatchAsync_ptsz) &&
	    id != ID(cuMemcpy3DBatchAsync_v2) && id != ID(cuMemcpy3DBatchAsync_v2_ptsz))
		return false;
	PARAMS(cuMemcpy3DBatchAsync);
	for (size_t i = 0; p->opList && i < p->numOps; i++) {
		check_operand(c, &p->opList[i], false);
		check_operand(c, &p->opList[i], true);
	}
	return true;
}
#else
static bool enter_batch_3d(CUpti_CallbackId id, const CUpti_CallbackData *c)
{
	(void)id;
	(void)c;
	return false;
}
#endif

void copies_enter(CUpti_CallbackId id, const CUpti_CallbackData *c)
{
	if (enter_flat(id, c) || enter_pitched(id, c) || enter_array(id, c) || enter_batch(id, c) ||
	    enter_batch_3d(id, c) || enter_peers(id, c))
		__atomic_fetch_add(&record_shared()->copies, 1, __ATOMIC_RELAXED);
}

CUdeviceptr copies_target(CUpti_CallbackId id, const CUpti_CallbackData *c)
{
	const CUDA_MEMCPY2D *flat = params_2d(id, c);
	const CUDA_MEMCPY3D *deep = params_3d(id, c);

	if (flat)
		return flat->dstMemoryType == CU_MEMORYTYPE_DEVICE ? flat->dstDevice : 0;
	return deep && deep->dstMemoryType == CU_MEMORYTYPE_DEVICE ? deep->dstDevice : 0;
}
