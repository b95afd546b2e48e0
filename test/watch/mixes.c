/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mixes NAME IMAGE: what real libraries do with CUDA together, and what programs do that have nothing to do with it;
 * NAME-ok is the sound twin of a fault. On a driver without a device (test/watch/fake), which takes any IMAGE.
 * -DOWN_MALLOC: with a malloc of its own, as programs with jemalloc linked in have.
 */
#include <cuda.h>

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *image, *self;
static CUdevice device;
static CUcontext primary;

static void must(CUresult r, const char *what)
{
	if (r != CUDA_SUCCESS) {
		fprintf(stderr, "%s: %d\n", what, (int)r);
		_exit(99);
	}
}
#define MUST(call) must(call, #call)

#ifdef OWN_MALLOC
/* Never frees, and cannot be entered twice: a crash handler that allocates would wait for ever. */
static pthread_mutex_t heap = PTHREAD_MUTEX_INITIALIZER;
static char room[64 << 20] __attribute__((aligned(16)));
static size_t used;
static volatile int *poison;

void *malloc(size_t n)
{
	pthread_mutex_lock(&heap);
	if (poison)
		n += (size_t)*poison;
	char *p = room + used;
	used += (n + 31) & ~(size_t)15;
	pthread_mutex_unlock(&heap);
	return p;
}

void free(void *p)
{
	(void)p;
}

void *calloc(size_t n, size_t each)
{
	return malloc(n * each); /* never used twice: it is zero */
}

void *realloc(void *p, size_t n)
{
	char *q = malloc(n);

	if (p)
		memmove(q, p, n);
	return q;
}
#endif

static void begin(void)
{
	MUST(cuInit(0));
	MUST(cuDeviceGet(&device, 0));
	MUST(cuDevicePrimaryCtxRetain(&primary, device));
	MUST(cuCtxSetCurrent(primary));
}

static CUfunction function(void)
{
	CUmodule m;
	CUfunction f;

	MUST(cuModuleLoad(&m, image));
	MUST(cuModuleGetFunction(&f, m, "fill"));
	return f;
}

static CUresult launch(CUfunction f, CUstream s, CUdeviceptr p, unsigned threads)
{
	void *arguments[] = {&p, &(int){32}};

	return cuLaunchKernel(f, 1, 1, 1, threads, 1, 1, 0, s, arguments, NULL);
}

/* ---- contexts */

static void *retain_often(void *arg)
{
	CUcontext c;

	(void)arg;
	for (int i = 0; i < 50; i++) {
		MUST(cuDevicePrimaryCtxRetain(&c, device));
		MUST(cuCtxSetCurrent(c));
		MUST(cuDevicePrimaryCtxRelease(device));
	}
	return NULL;
}

/* As PyTorch, CuPy and cudart do, each for itself and in each thread: it is one context. */
static int retain(int ok)
{
	pthread_t t[8];

	(void)ok;
	for (int i = 0; i < 8; i++)
		pthread_create(&t[i], NULL, retain_often, NULL);
	for (int i = 0; i < 8; i++)
		pthread_join(t[i], NULL);
	return (int)cuCtxSynchronize();
}

/* The last who releases the primary context takes along what another still uses. */
static int release(int ok)
{
	CUcontext again;
	CUevent e;

	if (ok)
		MUST(cuDevicePrimaryCtxRetain(&again, device));
	MUST(cuEventCreate(&e, 0));
	MUST(cuDevicePrimaryCtxRelease(device));
	cuEventQuery(e);
	return 0;
}

/* Streams that have no handle of their own, with what belongs to the current context. */
static int streams(int ok)
{
	CUfunction f = function();
	CUstream s[] = {NULL, CU_STREAM_LEGACY, CU_STREAM_PER_THREAD};
	CUdeviceptr p;
	CUevent e;

	(void)ok;
	MUST(cuMemAlloc(&p, 4096));
	MUST(cuEventCreate(&e, 0));
	for (int i = 0; i < 3; i++) {
		MUST(launch(f, s[i], p, 32));
		MUST(cuEventRecord(e, s[i]));
	}
	return 0;
}

/* A kernel of a library, where a function of a context that is gone was: its address says nothing. */
static int recycled(int ok)
{
	CUcontext own;
	CUdeviceptr p;
	CUkernel k;

	MUST(cuCtxCreate(&own, NULL, 0, device));
	CUfunction f = function();
	MUST(cuCtxDestroy(own));
	MUST(cuCtxSetCurrent(primary));
	MUST(cuMemAlloc(&p, 4096));
	if (ok)
		MUST(cuLibraryGetKernel(&k, NULL, "scale"));
	launch(ok ? (CUfunction)(void *)k : f, NULL, p, 32);
	return 0;
}

/* A kernel where another was, which was launched before: the newest launch is told by its own name. */
static int renamed(int ok)
{
	CUfunction f = function();
	CUdeviceptr p;
	CUkernel k;

	MUST(cuMemAlloc(&p, 4096));
	MUST(launch(f, NULL, p, 32));
	MUST(cuLibraryGetKernel(&k, NULL, "scale"));
	MUST(launch((CUfunction)(void *)k, NULL, ok ? p : 0, 32));
	return cuCtxSynchronize() ? 1 : 0;
}

static int graph(int ok)
{
	CUcontext mine;
	CUgraphExec g;
	CUstream s;

	MUST(cuGraphInstantiateWithFlags(&g, NULL, 0));
	if (!ok)
		MUST(cuCtxCreate(&mine, NULL, 0, device));
	MUST(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	for (int i = 0; i < 20; i++)
		cuGraphLaunch(g, s);
	return 0;
}

/* ---- memory */

static int pools(int ok)
{
	CUdeviceptr p[16];

	(void)ok;
	for (int i = 0; i < 16; i++)
		MUST(i % 2 ? cuMemAllocAsync(&p[i], 1 << 20, NULL)
			   : cuMemAllocFromPoolAsync(&p[i], 1 << 20, NULL, NULL));
	for (int i = 0; i < 16; i++)
		MUST(cuMemFreeAsync(p[i], NULL));
	return 0;
}

/* A pool of the host's memory gives that; ok: it is given back. */
static int hostpool(int ok)
{
	CUmemPoolProps prop = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
			       .location.type = CU_MEM_LOCATION_TYPE_HOST_NUMA};
	CUmemoryPool pool;
	CUdeviceptr p;

	MUST(cuMemPoolCreate(&pool, &prop));
	MUST(cuMemAllocFromPoolAsync(&p, 1 << 20, pool, NULL));
	if (!ok)
		return 0;
	MUST(cuMemFreeAsync(p, NULL));
	return (int)cuMemPoolDestroy(pool);
}

/* Between devices, with the host on one side: three planes of four rows of 256 bytes. */
static int peers(int ok)
{
	char *host = malloc(ok ? 3072 : 3000), *behind = malloc(1 << 16);
	CUdeviceptr p;

	memset(behind, 1, 1 << 16);
	MUST(cuMemAlloc(&p, 4096));
	CUDA_MEMCPY3D_PEER m = {.srcMemoryType = CU_MEMORYTYPE_HOST,
				.srcHost = host,
				.dstMemoryType = CU_MEMORYTYPE_DEVICE,
				.dstDevice = p,
				.WidthInBytes = 256,
				.Height = 4,
				.Depth = 3};
	return (int)cuMemcpy3DPeer(&m);
}

/* A stream of a context that is gone, in a call that is no launch. */
static int orphan(int ok)
{
	CUcontext own;
	CUdeviceptr p;
	CUstream s;

	MUST(cuMemAlloc(&p, 4096));
	MUST(cuCtxCreate(&own, NULL, 0, device));
	MUST(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	if (!ok)
		MUST(cuCtxDestroy(own));
	cuMemsetD8Async(p, 0, 4096, s);
	return 0;
}

/* As expandable segments: each handle is released once it is mapped; ok: and unmapped, one by one and at once. */
static int segments(int ok)
{
	enum { N = 8, SIZE = 2 << 20 };
	CUmemAllocationProp prop = {.location.type = CU_MEM_LOCATION_TYPE_DEVICE};
	CUmemGenericAllocationHandle h;
	CUdeviceptr p;

	MUST(cuMemAddressReserve(&p, N * SIZE, 0, 0, 0));
	for (int i = 0; i < N; i++) {
		MUST(cuMemCreate(&h, SIZE, &prop, 0));
		MUST(cuMemMap(p + (size_t)i * SIZE, SIZE, 0, h, 0));
		MUST(cuMemRelease(h));
	}
	MUST(cuMemSetAccess(p, N * SIZE, NULL, 0));
	launch(function(), NULL, p + 4096, ok ? 32 : 4096);
	if (!ok)
		return 0;
	for (int i = 0; i < N / 2; i++)
		MUST(cuMemUnmap(p + (size_t)i * SIZE, SIZE));
	MUST(cuMemUnmap(p + N / 2 * SIZE, N / 2 * SIZE));
	return 0;
}

static int arrays(int ok)
{
	CUDA_ARRAY3D_DESCRIPTOR d = {
		.Width = 1024, .Height = 1024, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 4};
	CUarray a;

	MUST(cuArray3DCreate(&a, &d));
	return ok ? (int)cuArrayDestroy(a) : 0;
}

/* Both sides may use it: neither a device pointer on the host nor a copy from it is a fault. */
static int managed(int ok)
{
	CUdeviceptr p, q;

	(void)ok;
	MUST(cuMemAllocManaged(&p, 1 << 20, CU_MEM_ATTACH_GLOBAL));
	memset((void *)(uintptr_t)p, 1, 1 << 20);
	MUST(cuMemAlloc(&q, 1 << 20));
	MUST(cuMemcpyHtoD(q, (void *)(uintptr_t)p, 1 << 20));
	return 0;
}

static int shared(int ok)
{
	CUipcMemHandle handle = {0};
	CUdeviceptr p;

	(void)ok;
	MUST(cuIpcOpenMemHandle(&p, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	MUST(launch(function(), NULL, p, 32));
	MUST(cuIpcCloseMemHandle(p));
	return 0;
}

/* Each library enables it for itself: the second is told so, and goes on. */
static int peer(int ok)
{
	(void)ok;
	cuCtxEnablePeerAccess(primary, 0);
	cuCtxEnablePeerAccess(primary, 0);
	return 0;
}

/* What is pinned afterwards begins and ends where its owner likes, not where it was pinned. */
static int registered(int ok)
{
	char *host = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CUdeviceptr p;

	(void)ok;
	MUST(cuMemHostRegister(host, 4096, 0));
	MUST(cuMemAlloc(&p, 65536));
	MUST(cuMemcpyHtoD(p, host, 65536));
	MUST(cuMemHostUnregister(host));
	return 0;
}

/* A device pointer where the host's should be. */
static int swapped(int ok)
{
	CUdeviceptr p, q;

	MUST(cuMemAlloc(&p, 4096));
	MUST(cuMemAlloc(&q, 4096));
	if (ok)
		MUST(cuMemcpyDtoD(p, q, 4096));
	else
		cuMemcpyHtoD(p, (void *)(uintptr_t)(q + 1024), 1024);
	return 0;
}

/* The same fault a thousand times. */
static int often(int ok)
{
	char *host = malloc(4000), *behind = malloc(1 << 16);
	CUdeviceptr p;

	memset(behind, 1, 1 << 16);
	MUST(cuMemAlloc(&p, 1 << 16));
	for (int i = 0; i < 1000; i++)
		cuMemcpyHtoD(p, host, ok ? 4000 : 5000);
	return 0;
}

/* ---- processes */

/* A daemon closes what it has not opened; what it then opens has low numbers, and is its own. */
static int closes(int ok)
{
	CUfunction f = function();
	CUdeviceptr p;

	MUST(cuMemAlloc(&p, 4096));
	for (int fd = 3; fd < 65536; fd++)
		close(fd);
	int out[64];
	for (int i = 0; i < 64; i++)
		out[i] = open("/dev/null", O_WRONLY);
	int own = open(image, O_RDWR | O_CREAT | O_TRUNC, 0600);
	launch(f, NULL, p, ok ? 32 : 4096);
	if (write(own, "own\n", 4) != 4)
		return 98;
	return out[0] == 3 ? 0 : 97;
}

/* Another program in the same process. */
static int again(int ok)
{
	CUdeviceptr p;

	MUST(cuMemAlloc(&p, 1 << 20));
	execl(self, self, ok ? "streams" : "often", image, NULL);
	return 98;
}

/* CUDA does not work in a child of fork; in one that is exec'ed it does. */
static int forks(int ok)
{
	int status;
	pid_t pid = fork();

	if (!pid) {
		CUdeviceptr p;
		if (ok)
			execl(self, self, "streams", image, NULL);
		for (int i = 0; i < 3; i++)
			cuMemAlloc(&p, 4096);
		exit(3);
	}
	waitpid(pid, &status, 0);
	return ok ? WEXITSTATUS(status) : 0;
}

/* A child that tears down what it has not made, as destructors of libraries do: nobody minds. */
static int tears(int ok)
{
	CUdeviceptr p;

	(void)ok;
	MUST(cuMemAlloc(&p, 4096));
	pid_t pid = fork();
	if (!pid) {
		cuMemFree(p);
		exit(0);
	}
	waitpid(pid, NULL, 0);
	return 0;
}

static _Atomic int running = 1;

static void *works(void *arg)
{
	CUdeviceptr p;

	(void)arg;
	MUST(cuCtxSetCurrent(primary));
	while (running) {
		cuMemAlloc(&p, 4096);
		cuMemFree(p);
	}
	return NULL;
}

/* Many forks while other threads are inside of calls: no child may wait for a lock that nobody has. */
static int crowd(int ok)
{
	pthread_t t[4];

	(void)ok;
	for (int i = 0; i < 4; i++)
		pthread_create(&t[i], NULL, works, NULL);
	for (int i = 0; i < 40; i++) {
		pid_t pid = fork();
		if (!pid) {
			CUdeviceptr p;
			cuMemAlloc(&p, 4096);
			free(malloc(100000));
			exit(0);
		}
		waitpid(pid, NULL, 0);
	}
	running = 0;
	for (int i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
	return 0;
}

/* The end comes while threads are at work, and CUDA is used on the way. */
static void last_words(void)
{
	CUdeviceptr p;

	cuMemAlloc(&p, 4096);
}

static int ends(int ok)
{
	pthread_t t;

	(void)ok;
	atexit(last_words);
	pthread_create(&t, NULL, works, NULL);
	exit(5);
}

/* Without exit handlers; a child of vfork that ends so does not end its parent. */
static int leaves(int ok)
{
	(void)ok;
	if (!vfork())
		_exit(0);
	_Exit(7);
}

/* ---- signals */

static void on_fault(int signal)
{
	(void)signal;
	_exit(42);
}

/* A handler of the program's own, from before CUDA began, still has the last word. */
static int handler(int ok)
{
	CUdeviceptr p;

	MUST(cuMemAlloc(&p, 4096));
	return ok ? 0 : *(volatile int *)(uintptr_t)p;
}

/* By kill(): it ends the program at once, and is no fault of memory. */
static int killed(int ok)
{
	(void)ok;
	kill(getpid(), SIGSEGV);
	usleep(100000);
	return 0;
}

#ifdef OWN_MALLOC
/* A crash inside of malloc, whose lock is held. */
static int poisoned(int ok)
{
	CUdeviceptr p;

	MUST(cuMemAlloc(&p, 4096));
	if (!ok)
		poison = (volatile int *)(uintptr_t)p;
	return malloc(100) == NULL;
}
#endif

/* All at once: what is heard of it comes from eight threads. */
static void *everything(void *arg)
{
	CUfunction f;
	CUdeviceptr p;
	CUstream s;
	CUevent e;
	char *host = malloc(4096);

	memset(host, 1, 4096);
	MUST(cuCtxSetCurrent(primary));
	f = function();
	for (int i = 0; i < 200; i++) {
		MUST(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
		MUST(cuEventCreate(&e, 0));
		MUST(cuMemAlloc(&p, 4096));
		MUST(cuMemcpyHtoD(p, host, 4096));
		launch(f, s, p, i % 10 ? 32 : 4096);
		cuMemcpyHtoD(p, host + 4000, i % 50 ? 96 : 8000);
		MUST(cuEventRecord(e, s));
		MUST(cuEventDestroy(e));
		MUST(cuMemFree(p));
		MUST(cuStreamDestroy(s));
		retain_often(arg);
	}
	free(host);
	return NULL;
}

static int threads(int ok)
{
	pthread_t t[8];

	(void)ok;
	for (int i = 0; i < 8; i++)
		pthread_create(&t[i], NULL, everything, NULL);
	for (int i = 0; i < 8; i++)
		pthread_join(t[i], NULL);
	return 0;
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		int (*run)(int ok);
	} mixes[] = {
		{"retain", retain},	{"release", release},	{"streams", streams},
		{"graph", graph},	{"recycled", recycled}, {"pools", pools},
		{"segments", segments}, {"arrays", arrays},	{"managed", managed},
		{"shared", shared},	{"peer", peer},		{"registered", registered},
		{"swapped", swapped},	{"often", often},	{"closes", closes},
		{"again", again},	{"forks", forks},	{"tears", tears},
		{"crowd", crowd},	{"leaves", leaves},	{"renamed", renamed},
		{"ends", ends},		{"handler", handler},	{"hostpool", hostpool},
		{"peers", peers},	{"orphan", orphan},	{"killed", killed},
		{"threads", threads},
#ifdef OWN_MALLOC
		{"poisoned", poisoned},
#endif
	};

	if (argc < 3)
		return 2;
	self = argv[0];
	image = argv[2];
	if (strncmp(argv[1], "handler", 7) == 0)
		signal(SIGSEGV, on_fault);
	for (size_t i = 0; i < sizeof(mixes) / sizeof(*mixes); i++) {
		size_t n = strlen(mixes[i].name);
		if (strncmp(argv[1], mixes[i].name, n) == 0 &&
		    (!argv[1][n] || strcmp(argv[1] + n, "-ok") == 0)) {
			begin();
			return mixes[i].run(argv[1][n] != '\0');
		}
	}
	return 2;
}
