/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sessions on a GPU: side by side in threads, over many shapes, and in a process with contexts of others.
 * Passes without a look where there is no GPU; test/cli/gpu_late.bats lends it a driver that only seems one.
 */
#include "backend/choose_ids.h"
#include "base/mem.h"
#include "gpu/backend.h"
#include "gpu/driver/api.h"
#include "gpu/driver/cuda.h"
#include "session/session.h"
#include "test/unit/unit.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

enum { RUNS = 60, WIDTH = 64, MOST = 50, TURNS = 8, SLACK = 4 << 20 };

static bool computes; /* the driver that only seems one runs no kernel, unless it has some for the CPU */

static const char *model(void)
{
	const char *path = getenv("GPU_MODEL");
	return path ? path : "test/gpu/data/chain.onnx";
}

static const struct run_config config = {
	.device = "cuda", .optimize = OPTIMIZE_NONE, .memory_plan = true, .arena = true};

struct job {
	float x[MOST * WIDTH], y[MOST * WIDTH];
	int rows;
	int failures;
};

static void fill(struct job *j, int rows, unsigned seed)
{
	j->rows = rows;
	for (int i = 0; i < rows * WIDTH; i++)
		j->x[i] = (float)((seed + (unsigned)i * 2654435761u) >> 8 & 1023) / 256 - 2;
}

static bool run(struct session *s, struct job *j, struct diag *d)
{
	struct tensor t = {.type = type_tensor(DT_F32),
			   .shape = {2, {j->rows, WIDTH}},
			   .data = j->x,
			   .bytes = (size_t)j->rows * WIDTH * 4};
	const struct tensor *in = &t, *y = NULL;

	if (session_run(s, &in, &y, d))
		return false;
	memcpy(j->y, y->data, y->bytes);
	return true;
}

static void *many_runs(void *arg)
{
	struct job *j = arg, mine = *j;
	struct diag d = {0};
	struct session *s = session_open(model(), &config, &d);

	for (int i = 0; i < RUNS && s; i++)
		j->failures += !run(s, &mine, &d) ||
			       memcmp(mine.y, j->y, (size_t)j->rows * WIDTH * 4) != 0;
	j->failures += !s;
	diag_print(&d, stdout, false);
	diag_free(&d);
	session_close(s);
	return NULL;
}

static void two_sessions_in_two_threads_give_the_results_of_one(void)
{
	static struct job job[2];
	struct diag d = {0};
	struct session *s = session_open(model(), &config, &d);
	pthread_t thread[2];

	CHECK(s != NULL);
	for (int i = 0; i < 2; i++) {
		fill(&job[i], 20 + i, (unsigned)i * 77);
		CHECK(run(s, &job[i], &d));
	}
	session_close(s);
	for (int i = 0; i < 2; i++)
		CHECK(!pthread_create(&thread[i], NULL, many_runs, &job[i]));
	for (int i = 0; i < 2; i++) {
		pthread_join(thread[i], NULL);
		CHECK_INT(job[i].failures, 0);
	}
	diag_free(&d);
}

static void tensors_may_stay_on_the_device(void)
{
	static struct job job, plain;
	struct diag d = {0};
	struct session *s = session_open(model(), &config, &d);
	const struct tensor *y = NULL;

	fill(&plain, 7, 3);
	fill(&job, 7, 3);
	CHECK(s && run(s, &plain, &d));
	struct tensor t = {.type = type_tensor(DT_F32),
			   .shape = {2, {7, WIDTH}},
			   .data = job.x,
			   .bytes = sizeof(float) * 7 * WIDTH};
	const struct tensor *in = session_upload(s, &t, &d);
	CHECK(in && in->device == 1);
	CHECK_INT(session_outputs_stay(s, true, &d), 0);
	for (int i = 0; i < 4 && in; i++) { /* the third replays */
		memset(job.y, 0x55, t.bytes);
		CHECK(!session_run(s, &in, &y, &d) && y->device == 1);
		CHECK(!session_fetch(s, job.y, y, &d));
		CHECK(!computes || !memcmp(job.y, plain.y, t.bytes));
	}
	CHECK_INT(session_outputs_stay(s, false, &d), 0);
	CHECK(!session_run(s, &in, &y, &d) && y->device == 0);
	CHECK(!computes || !memcmp(y->data, plain.y, t.bytes));
	session_close(s);
	CHECK_INT(mem_count(MEM_DEVICE, MEM_STAGING).live, 0);
	diag_print(&d, stdout, false);
	diag_free(&d);
}

static uint64_t on_device(void)
{
	uint64_t sum = 0;

	for (int p = 0; p < MEM_PURPOSES; p++)
		if (p != MEM_GRAPHS && p != MEM_CODE) /* measured in steps of the driver's */
			sum += mem_count(MEM_DEVICE, (enum mem_purpose)p).live;
	return sum;
}

static void a_sweep_of_shapes_takes_no_more_than_the_largest(void)
{
	static struct job job;
	struct diag d = {0};
	struct session *s = session_open(model(), &config, &d);

	fill(&job, MOST, 1);
	CHECK(s && run(s, &job, &d) && run(s, &job, &d));
	uint64_t most = on_device(), used, now;
	int turns = 0;
	/* the driver's figure is that of all processes: one turn in which they do not grow is enough */
	do {
		used = session_device_used(s);
		for (int rows = 1; rows <= MOST; rows++) {
			fill(&job, rows, (unsigned)rows);
			CHECK(run(s, &job, &d) && run(s, &job, &d) && run(s, &job, &d));
			CHECK(on_device() <= most);
		}
		now = session_device_used(s);
	} while (++turns < 2 || (now > used + SLACK && turns < TURNS));
	CHECK(now <= used + SLACK);
	/* the plan of the largest shape is gone after eight others: so is its memory */
	for (int rows = 1; rows <= 9; rows++) {
		fill(&job, rows, 0);
		CHECK(run(s, &job, &d));
	}
	CHECK(on_device() < most);
	session_close(s);
	CHECK_INT(mem_count(MEM_DEVICE, MEM_ACTIVATIONS).live, 0);
	CHECK_INT(mem_count(MEM_PINNED, MEM_STAGING).live, 0);
	diag_print(&d, stdout, false);
	diag_free(&d);
}

static void other_contexts_are_told(void)
{
	static struct job job;
	struct diag d = {0};
	const struct cuda_api *api = cuda_api(&d);
	struct session *s = session_open(model(), &config, &d);
	CUcontext other = NULL, now = NULL;
	CUstream theirs = NULL;
	CUdevice device;

	fill(&job, 2, 5);
	CHECK(s && run(s, &job, &d));
	CHECK_INT(d.errors, 0);
	CHECK(!api->p_cuDeviceGet(&device, 0) && !api->p_cuCtxCreate_v2(&other, 0, device));
	CHECK(!api->p_cuStreamCreate(&theirs, CU_STREAM_NON_BLOCKING));
	/* theirs is current: ours is used for the call, and theirs is there again after it */
	CHECK(run(s, &job, &d));
	CHECK(d.last && d.last->code == E_CTX_FOREIGN && d.last->severity == SEV_NOTE);
	CHECK(!api->p_cuCtxGetCurrent(&now) && now == other);
	/* a stream of theirs is refused */
	CHECK_INT(session_use_stream(s, theirs, &d), -E_CTX_STREAM);
	CHECK(run(s, &job, &d));
	api->p_cuStreamDestroy(theirs);
	api->p_cuCtxDestroy(other);
	session_close(s);
	diag_free(&d);
}

static void a_stream_of_the_caller_is_used(void)
{
	static struct job job, plain;
	struct diag d = {0};
	const struct cuda_api *api = cuda_api(&d);
	struct session *s = session_open(model(), &config, &d);
	CUcontext primary = NULL;
	CUstream ours = NULL;
	CUdevice device;

	fill(&plain, 3, 9);
	fill(&job, 3, 9);
	CHECK(s && run(s, &plain, &d));
	CHECK(!api->p_cuDeviceGet(&device, 0) && !api->p_cuDevicePrimaryCtxRetain(&primary, device));
	CHECK(!api->p_cuCtxPushCurrent(primary));
	CHECK(!api->p_cuStreamCreate(&ours, CU_STREAM_NON_BLOCKING));
	CHECK_INT(session_use_stream(s, ours, &d), 0);
	for (int i = 0; i < 3; i++)
		CHECK(run(s, &job, &d) && !memcmp(job.y, plain.y, 3 * WIDTH * 4));
	session_close(s);
	CHECK(!api->p_cuStreamSynchronize(ours)); /* it is the caller's still */
	api->p_cuStreamDestroy(ours);
	api->p_cuCtxPopCurrent(&primary);
	api->p_cuDevicePrimaryCtxRelease(device);
	diag_print(&d, stdout, false);
	diag_free(&d);
}

enum { ROWS = 4, STEP = 5003, IDS = 4999 };

/* Scores of four rows: a largest one that comes twice, none but NaN, NaN before infinity, and one above negative numbers. */
static void fill_scores(enum dtype t, void *scores)
{
	for (int64_t i = 0; i < ROWS * STEP; i++)
		elem_set_f64(t, scores, i, i / STEP == 1 ? NAN : (double)(i * 7919 % 1024) / 1024 - 2);
	elem_set_f64(t, scores, 3001, 4);
	elem_set_f64(t, scores, 4100, 4);
	elem_set_f64(t, scores, IDS, 5); /* behind the row */
	elem_set_f64(t, scores, 2 * STEP + 7, NAN);
	elem_set_f64(t, scores, 2 * STEP + 8, INFINITY);
	for (int64_t i = 0; i < IDS; i++)
		elem_set_f64(t, scores, 3 * STEP + i, i == IDS - 1 ? -1 : -INFINITY);
}

/* Chooses ids of these types; row 3 has ended if its last id is 77. Returns false on an error. */
static bool choose(struct device *dev, enum dtype t, enum dtype ids, int64_t last, int64_t *to,
		   struct diag *d)
{
	const struct choose_ops *o = cuda_backend.choose;
	struct stream *stream = cuda_backend.stream(dev);
	int64_t until[2] = {-5, 77}, before[ROWS] = {1, 2, 3, last};
	const int64_t *got;
	struct buffer b = {0};
	size_t bytes = ROWS * STEP * sizeof(float);
	void *scores = mem_zalloc(bytes, MEM_STAGING);
	struct chooser *c = o->create(dev, stream, ids, ROWS, until, 2, d);
	struct scores s = {.type = t, .n = IDS, .step = STEP};
	bool ok = scores && c && !cuda_backend.alloc(dev, bytes, MEM_ACTIVATIONS, &b, d);

	if (ok) {
		fill_scores(t, scores);
		s.data = b.ptr;
		ok = !cuda_backend.copy(stream, b.ptr, 1, scores, 0, bytes, d) &&
		     !o->give(c, before, d) && !o->queue(c, 1, &s, d) && !o->wait(c, 1, &got, d);
	}
	if (ok)
		memcpy(to, got, ROWS * sizeof(*to));
	cuda_backend.free(dev, &b);
	o->destroy(c);
	mem_free(scores);
	return ok;
}

static void ids_are_chosen_on_the_device(void)
{
	static const enum dtype types[] = {DT_F32, DT_F16, DT_BF16};
	struct diag d = {0};
	struct device *dev = cuda_backend.open(0, &config, &d);

	for (int i = 0; CHECK(dev != NULL) && i < 3; i++)
		for (int wide = 0; wide < 2; wide++) {
			int64_t ids[ROWS] = {0};
			enum dtype t = wide ? DT_I64 : DT_I32;
			CHECK(choose(dev, types[i], t, 5, ids, &d));
			if (!computes)
				continue;
			CHECK_INT(ids[0], 3001);
			CHECK_INT(ids[1], -1);
			CHECK_INT(ids[2], 8);
			CHECK_INT(ids[3], IDS - 1);
			CHECK(choose(dev, types[i], t, 77, ids, &d));
			CHECK_INT(ids[3], 77);
		}
	if (dev)
		cuda_backend.close(dev);
	diag_print(&d, stdout, false);
	diag_free(&d);
}

static void sessions_on_a_gpu(void)
{
}

static void the_model_is_there(void)
{
	CHECK(!access(model(), R_OK)); /* from the repository's root, or as GPU_MODEL says */
}

int main(void)
{
	struct device_facts f;

	if (!gpu_devices(&f, 1, NULL)) { /* the test is that this is no failure */
		UNIT(sessions_on_a_gpu);
		return unit_end();
	}
	if (access(model(), R_OK)) {
		UNIT(the_model_is_there);
		return unit_end();
	}
	computes = strcmp(f.name, "Fake GPU") != 0 || getenv("FAKE_CUDA_KERNELS");
	UNIT(two_sessions_in_two_threads_give_the_results_of_one);
	UNIT(tensors_may_stay_on_the_device);
	UNIT(a_sweep_of_shapes_takes_no_more_than_the_largest);
	UNIT(other_contexts_are_told);
	UNIT(a_stream_of_the_caller_is_used);
	UNIT(ids_are_chosen_on_the_device);
	return unit_end();
}
