/* SPDX-License-Identifier: Apache-2.0 */
/* Events recorded on a GPU (test/watch/faults.c, test/data/watch) give the findings they gave there. */
#include "watch/ledger.h"
#include "watch/series.h"
#include "watch/watch.h"

#include "base/file.h"
#include "test/unit/unit.h"

#include <math.h>
#include <string.h>

static bool replay(const char *name, struct ledger *l, size_t cut)
{
	char path[256];
	struct file_map f;

	snprintf(path, sizeof(path), "test/data/watch/%s.log", name);
	if (file_map(path, &f, E_CHECK, NULL))
		return false;
	size_t size = f.size > cut ? f.size - cut : 0;
	const char *at = (const char *)f.data, *end = at + size;
	*l = (struct ledger){.pid = 4711};
	while (at < end) {
		const char *newline = memchr(at, '\n', (size_t)(end - at));
		const char *stop = newline ? newline : end;
		ledger_line(l, at, (size_t)(stop - at));
		at = stop + 1;
	}
	file_unmap(&f);
	return true;
}

/* The ids of the errors, in order, joined by spaces. */
static void errors_of(const struct diag *d, char *text, size_t room)
{
	text[0] = '\0';
	for (const struct finding *f = d->first; f; f = f->next)
		if (f->severity == SEV_ERROR)
			snprintf(text + strlen(text), room - strlen(text), "%s%s", *text ? " " : "",
				 code_id(f->code, f->severity));
}

static bool has_row(const struct diag *d, const char *label, const char *part)
{
	for (const struct finding *f = d->first; f; f = f->next)
		for (size_t i = 0; i < f->nrows; i++)
			if (strcmp(f->rows[i].label, label) == 0 && strstr(f->rows[i].text, part))
				return true;
	return false;
}

static const struct ledger_options all = {.errors = REPORT_EXPLICIT, .contexts = true, .calls = true};

static void faults(void)
{
	static const struct {
		const char *name, *errors, *label, *part;
	} cases[] = {
		{"foreign", "E-CTX-FOREIGN", "call",
		 "cuLaunchKernel('fill') = CUDA_ERROR_INVALID_HANDLE (400) at"},
		{"foreign-ok", "", NULL, NULL},
		{"event", "E-CTX-FOREIGN", "call", "cuEventRecord = CUDA_ERROR_INVALID_HANDLE (400)"},
		{"destroyed", "E-CTX-DESTROYED", "call", "cuEventQuery"},
		{"illegal", "E-CUDA-700", "launched last", "'fill' on the default stream"},
		{"badvalue", "E-CUDA-1", "so", "was not written by it"},
		{"shorthost", "E-COPY-HOST", "host", "4096 of its 16384 bytes"},
		{"devptr", "E-HOST-DEVPTR", "address", "+ 4096 of 1.0 MiB"},
		{"capture", "E-CTX-CAPTURE E-CTX-CAPTURE", "open capture", "mode global"},
		{"capture-ok", "", NULL, NULL},
		{"reset", "E-CTX-DESTROYED", "context", "primary, cuDevicePrimaryCtxRetain"},
		{"unwritten", "E-CUDA-1", "", "(2.0 MiB) was not written by it"},
		{"pitch", "E-COPY-HOST", "rows", "1 planes of 4 rows of 256 bytes, 4096 apart"},
		{"pitch-ok", "", NULL, NULL},
		{"volume", "E-COPY-HOST", "host", "2560 of its 3200 bytes are in a block of malloc's"},
		{"heap", "E-COPY-HOST", "host", "4000 of its 5000 bytes are in a block of malloc's"},
		{"heap-ok", "", NULL, NULL},
		{"pinned", "E-CUDA-1 E-COPY-HOST", "host", "are in a pinned allocation of 8192 bytes"},
		{"batch", "E-COPY-HOST", "call", "cuMemcpyBatchAsync"},
		{"late", "E-CUDA-LATE", "failed",
		 "cudaSetDevice = cudaErrorInvalidDevice (101) by libcudart.so.13(cudaSetDevice+0x1b3) < libfirst.so"},
		{"late", "E-CUDA-LATE", "reported", "< libsecond.so"},
		{"late-ok", "", NULL, NULL},
		{"same", "E-CUDA-LATE", "reported", "after 1 launches that went well"},
		{"sticky", "E-CUDA-700", "launched last", "a kernel of libfirst.so"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct ledger l;
		struct diag d = {0};
		char errors[256];
		CHECK(replay(cases[i].name, &l, 0));
		ledger_findings(&l, &all, &d);
		errors_of(&d, errors, sizeof(errors));
		CHECK_STR(errors, cases[i].errors);
		if (cases[i].label)
			CHECK(has_row(&d, cases[i].label, cases[i].part));
		diag_free(&d);
		ledger_free(&l);
	}
}

/* The first of its kind stands for all, and says how many there were. */
static void counts(void)
{
	struct ledger l;
	struct diag d = {0};

	CHECK(replay("foreign", &l, 0));
	ledger_findings(&l, &all, &d);
	CHECK(has_row(&d, "call", "first of 5"));
	CHECK(has_row(&d, "A", "not the primary context"));
	CHECK(has_row(&d, "B", "primary, cuDevicePrimaryCtxRetain on device 0"));
	CHECK(has_row(&d, "so", "(1.0 MiB)"));
	diag_free(&d);
	ledger_free(&l);
}

/* A crash cuts the log anywhere: no length of it may harm. */
static void cut(void)
{
	struct ledger l;

	for (size_t cut = 0; cut < 2500; cut += 7) {
		struct diag d = {0};
		CHECK(replay("capture", &l, cut));
		ledger_findings(&l, &all, &d);
		diag_free(&d);
		ledger_free(&l);
	}
}

/* What the watched program may have written over the counters: a kind that does not exist, a text without end. */
static void overwritten(void)
{
	static struct watch_shared shared = {.calls = 100, .nsites = 2};
	static struct watch_caller caller[2];
	struct watch_process p = {.shared = &shared, .caller = caller, .ncallers = 2};
	struct diag d = {0};

	for (int i = 0; i < 2; i++) {
		struct watch_site *s = &shared.site[i];
		*s = (struct watch_site){
			.made = 100, .live = 100, .each = 1 << 20, .first_call = 1, .last_call = 99};
		s->kind = i ? WATCH_PINNED : 12345678;
		memset(s->by, 'x', sizeof(s->by));
		caller[i].site = s;
	}
	watch_memory_findings(&p, 4711, &d);
	CHECK(d.first && !d.first->next);
	CHECK(has_row(&d, "by", "xxx"));
	for (size_t i = 0; d.first && i < d.first->nrows; i++)
		CHECK(strlen(d.first->rows[i].text) <= WATCH_BY ||
		      strcmp(d.first->rows[i].label, "by") != 0);
	diag_free(&d);
}

static void line(struct ledger *l, const char *text)
{
	ledger_line(l, text, strlen(text));
}

static void design(void)
{
	struct ledger l = {.pid = 1};
	struct ledger_options o = all;
	struct diag d = {0};

	line(&l, "0.1\t1\tfail\tnumber=1\tcall=cuModuleGetGlobal_v2\tresult=500\tby=libx.so");
	line(&l, "0.1\t1\tfail\tnumber=2\tcall=cuMemAlloc_v2\tresult=2\tby=libc10_cuda.so");
	ledger_findings(&l, &o, &d);
	CHECK_INT(d.errors, 0);
	CHECK_INT(d.warnings, 1); /* memory was refused, which allocators may live with */
	o.errors = REPORT_ALL;
	ledger_findings(&l, &o, &d);
	CHECK(d.last && d.first->code == E_CUDA_2);
	size_t notes = 0;
	for (const struct finding *f = d.first; f; f = f->next)
		notes += f->severity == SEV_NOTE;
	CHECK_INT(notes, 1);
	diag_free(&d);
	ledger_free(&l);
}

/* What each context cost, and CUPTI given away. */
static void costs(void)
{
	struct ledger l = {.pid = 1};
	struct ledger_options o = all;
	struct diag d = {0};

	CHECK(replay("foreign", &l, 0));
	ledger_findings(&l, &o, &d);
	CHECK(has_row(&d, "A", "making it took 530.0 MiB of device memory"));
	diag_free(&d);
	d = (struct diag){0};
	line(&l,
	     "0.9\t1\tcontext-kind\tcontext=0x77\tprimary=0\tdevice=0\tcall=cuCtxCreate_v4\tcost=1048576\tcost_of=devices\tby=x");
	line(&l, "1.5\t1\tyield\tby=libtorch_cpu.so");
	ledger_findings(&l, &o, &d);
	CHECK(has_row(&d, "B",
		      "took 1.0 MiB of device memory (what other processes took meanwhile included)") ||
	      has_row(&d, "C",
		      "took 1.0 MiB of device memory (what other processes took meanwhile included)"));
	CHECK(d.last && d.warnings == 1);
	diag_free(&d);
	ledger_free(&l);
}

/* Asked for no errors, it tells none. */
static bool silent_unasked(struct ledger *l)
{
	struct ledger_options o = all;
	struct diag d = {0};

	o.errors = REPORT_NONE;
	ledger_findings(l, &o, &d);
	bool silent = !d.first;
	diag_free(&d);
	return silent;
}

/* Memory that was refused is a warning, whoever reports it; asked for nothing, nothing is told. */
static void late(void)
{
	struct ledger l = {.pid = 1};
	struct ledger_options o = all;
	struct diag d = {0};

	line(&l,
	     "0.1\t1\tlate\tcall=cudaGetLastError\tresult=2\tby=libb.so\torigin_call=cudaMalloc\torigin_by=liba.so\tlaunches=0\tns=1000");
	ledger_findings(&l, &o, &d);
	CHECK(d.errors == 0 && d.warnings == 1 && d.first->code == E_CUDA_LATE);
	diag_free(&d);
	CHECK(silent_unasked(&l));
	ledger_free(&l);
}

/* Children that were forked: the first stands for all, as a warning. */
static void forked(void)
{
	struct ledger l = {.pid = 1};
	struct ledger_options o = all;
	struct diag d = {0};

	line(&l, "0.1\t2\tforked\tchild=2\tcall=cuMemAlloc_v2\tresult=3");
	line(&l, "0.2\t3\tforked\tchild=3\tcall=cuInit\tresult=3");
	ledger_findings(&l, &o, &d);
	CHECK(d.errors == 0 && d.warnings == 1 && d.first->code == E_CUDA_3);
	CHECK(has_row(&d, "call",
		      "cuMemAlloc_v2 = CUDA_ERROR_NOT_INITIALIZED (3) in process 2, first of 2"));
	diag_free(&d);
	CHECK(silent_unasked(&l));
	ledger_free(&l);
}

/* Counts that the program keeps stand before those of a log that was cut; a device's address is told as one. */
static void now(void)
{
	static const uint32_t counts[1024] = {0, 31, 7};
	struct ledger l = {.pid = 1, .counts = counts};
	struct diag d = {0};

	line(&l,
	     "0.1\t1\tfail\tnumber=1\tcall=cuLaunchKernel\tresult=400\tstream_context=0x1\tfunction_context=0x2\tby=a.so");
	line(&l,
	     "0.2\t1\tcopy\tnumber=2\tcall=cuMemcpyHtoD_v2\tto_host=0\thost=0x7010\tbytes=64\tallocation=0x7000\tallocation_bytes=4096\towner=b.so\twhy=no\tby=a.so");
	line(&l, "0.3\t1\tfail\tnumber=2000\tcall=cuMemFree_v2\tresult=12345\tby=a.so");
	ledger_findings(&l, &all, &d);
	CHECK(has_row(&d, "call", "CUDA_ERROR_INVALID_HANDLE (400) at 0.10 s by a.so, first of 31"));
	CHECK(has_row(&d, "call", "cuMemcpyHtoD_v2 at 0.20 s by a.so, first of 7"));
	CHECK(has_row(&d, "so",
		      "the address is the device's: 0x7000 + 16 of 4.0 KiB, allocated by b.so"));
	CHECK(has_row(&d, "call", "cuMemFree_v2 = CUDA error 12345"));
	diag_free(&d);
	ledger_free(&l);
}

/* A fault on no known address counts where the program died of it. */
static void faulty(void)
{
	struct ledger l = {.pid = 1};
	struct diag d = {0};

	line(&l, "0.1\t1\tfault\tsignal=11\taddress=0x8\tby=a.so");
	ledger_findings(&l, &all, &d);
	CHECK(d.first && d.first->severity == SEV_NOTE);
	diag_free(&d);
	d = (struct diag){0};
	line(&l, "0.2\t1\tend");
	ledger_findings(&l, &all, &d);
	CHECK(!d.first);
	diag_free(&d);
	ledger_free(&l);
}

static void busy(void)
{
	struct ledger l = {.pid = 1};
	struct diag d = {0};

	line(&l,
	     "0.0\t1\tstart\tprogram=app\tcupti=26\tresult=39\twhy=CUPTI_ERROR_MULTIPLE_SUBSCRIBERS\tother=kineto");
	ledger_findings(&l, &all, &d);
	CHECK(d.first && d.first->code == E_WATCH_BUSY &&
	      strstr(d.first->message, "in use by kineto"));
	diag_free(&d);
	ledger_free(&l);
}

/* ---- memory over time */

static struct series_verdict judge(double (*value)(double work), bool calls)
{
	struct series s = {0};

	for (int i = 0; i < 400; i++) {
		/* one second of starting up without calls, then work */
		double x = i * 0.02, work = calls ? (i < 50 ? 0 : (i - 50) * 10) : 0;
		series_add(&s, x, work, value(calls ? work : x * 100));
	}
	struct series_verdict v = series_judge(&s, 0);
	series_free(&s);
	return v;
}
static double leaks(double w)
{
	return 1e6 + 4096 * floor(w / 10);
}
static double fills(double w)
{
	return 1e6 + 2e6 * fmin(1, floor(w / 50) / 8);
}
static double stays(double w)
{
	return 1e6 + (fmod(w, 30) < 10 ? 4096 : 0);
}
static double late_step(double w)
{
	return w > 3000 ? 2e6 : 1e6;
}

/* Memory and calls for so many samples, then neither for so many; the end gives back what there was. */
static struct series_verdict loads(int busy, int idle)
{
	struct series s = {0};

	for (int i = 0; i < busy + idle; i++)
		series_add(&s, i * 0.02, fmin(i, busy) * 2 + 1, 1e6 + 4096 * fmin(i, busy));
	series_add(&s, (busy + idle) * 0.02, busy * 2 + 1, 0);
	struct series_verdict v = series_judge(&s, 0);
	series_free(&s);
	return v;
}

static void series(void)
{
	CHECK_INT(judge(leaks, true).kind, VERDICT_LEAK);
	CHECK_INT(judge(leaks, false).kind, VERDICT_LEAK);
	CHECK_INT(judge(fills, true).kind, VERDICT_FLAT);
	CHECK_INT(judge(stays, true).kind, VERDICT_STABLE);
	CHECK_INT(judge(late_step, true).kind, VERDICT_FLAT);
	CHECK(loads(150, 400).kind != VERDICT_LEAK);
	CHECK_INT(loads(150, 20).kind, VERDICT_LEAK);
	struct series_verdict v = judge(leaks, true);
	CHECK(v.low > 0 && v.low <= v.slope && v.slope <= v.high);
}

static void thinning(void)
{
	struct series s = {0};

	for (int i = 0; i < 100000; i++)
		CHECK(series_add(&s, i, i, i));
	CHECK(s.n <= SERIES_MOST && s.n >= SERIES_MOST / 2);
	CHECK(s.x[0] == 0 && s.last == 99999 && s.y[s.n - 1] > 98000);
	series_free(&s);
}

int main(void)
{
	UNIT(faults);
	UNIT(counts);
	UNIT(cut);
	UNIT(overwritten);
	UNIT(design);
	UNIT(costs);
	UNIT(late);
	UNIT(forked);
	UNIT(now);
	UNIT(faulty);
	UNIT(busy);
	UNIT(series);
	UNIT(thinning);
	return unit_end();
}
