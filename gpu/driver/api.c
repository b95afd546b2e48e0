/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/driver/api.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

enum {
#define LIBRARY(id, name, use, without) L_##id,
#include "gpu/driver/libraries.def"
#undef LIBRARY
	LIBRARIES
};

static const struct library_info library_texts[LIBRARIES] = {
#define LIBRARY(id, n, u, w) {.name = n, .use = u, .without = w},
#include "gpu/driver/libraries.def"
#undef LIBRARY
};

enum { MIN_DRIVER = 12000, MIN_CUDNN = 90100, MAX_FOLDERS = 32 };

#define TEXT_(x)	 #x
#define TEXT(x)		 TEXT_(x)
#define SYM(f, required) {TEXT(f), required},
static const struct dl_symbol cuda_symbols[] = {
#include "gpu/driver/cuda.def"
};
static const struct dl_symbol nvrtc_symbols[] = {
#include "gpu/driver/nvrtc.def"
};
static const struct dl_symbol cublaslt_symbols[] = {
#include "gpu/driver/cublaslt.def"
};
static const struct dl_symbol cudnn_symbols[] = {
#include "gpu/driver/cudnn.def"
};
static const struct dl_symbol nvml_symbols[] = {
#include "gpu/driver/nvml.def"
};
static const struct dl_symbol cupti_symbols[] = {
#include "gpu/driver/cupti.def"
};
#undef SYM
#define COUNT(a) (sizeof(a) / sizeof(*(a)))

static const char *const cuda_names[] = {"libcuda.so.1", NULL};
static const char *const nvrtc_names[] = {"libnvrtc.so.13", "libnvrtc.so.12", NULL};
static const char *const cublaslt_names[] = {"libcublasLt.so.13", "libcublasLt.so.12", NULL};
static const char *const cudnn_names[] = {"libcudnn.so.9", NULL};
static const char *const nvml_names[] = {"libnvidia-ml.so.1", NULL};
static const char *const cupti_names[] = {"libcupti.so.13", "libcupti.so.12", NULL};

/* NVIDIA's libraries. Each library is opened once, under its lock, and stays open until the program ends. */
struct library {
	pthread_mutex_t lock;
	bool tried, good;
	struct dl dl;
};
static struct {
	struct library library[LIBRARIES];
	struct cuda_api cuda;
	struct nvml_api nvml;
	struct cublaslt_api cublaslt;
	struct cudnn_api cudnn;
	struct nvrtc_api nvrtc;
	struct cupti_api cupti;
	pthread_once_t folders_once;
	struct folders {
		char text[MAX_FOLDERS][512];
		const char *pattern[MAX_FOLDERS + 1];
		int n;
	} toolkits, environments;
	/* CUDA version of the driver, for example 13000 for 13.0, or 0 if there is no driver */
	int driver;
} opened = {.library = {{.lock = PTHREAD_MUTEX_INITIALIZER},
			{.lock = PTHREAD_MUTEX_INITIALIZER},
			{.lock = PTHREAD_MUTEX_INITIALIZER},
			{.lock = PTHREAD_MUTEX_INITIALIZER},
			{.lock = PTHREAD_MUTEX_INITIALIZER},
			{.lock = PTHREAD_MUTEX_INITIALIZER}},
	    .folders_once = PTHREAD_ONCE_INIT};

/* ---- where toolkits and wheels put libraries ---------------------------------------------------- */

static void add_folder(struct folders *f, const char *base, size_t len, const char *rest)
{
	if (!base || !len || f->n == MAX_FOLDERS)
		return;
	char *to = f->text[f->n];
	int n = snprintf(to, sizeof(*f->text), "%.*s%s", (int)len, base, rest);

	if (n < 0 || (size_t)n >= sizeof(*f->text))
		return;
	for (int i = 0; i < f->n; i++)
		if (!strcmp(f->pattern[i], to))
			return;
	f->pattern[f->n++] = to;
}

static void add_under(struct folders *f, const char *base, const char *rest)
{
	if (base)
		add_folder(f, base, strlen(base), rest);
}

/* Python packages named nvidia-* install the libraries at site-packages/nvidia/NAME/lib. */
static void add_wheels(const char *base, size_t len, const char *packages)
{
	char rest[128];

	snprintf(rest, sizeof(rest), "/lib/python3%s/nvidia/*/lib", packages);
	add_folder(&opened.environments, base, len, rest);
}

static void add_pythons(void)
{
	static const char site[] = "*/site-packages";
	const char *venv = getenv("VIRTUAL_ENV"), *conda = getenv("CONDA_PREFIX"),
		   *home = getenv("HOME");
	char python[512];

	add_wheels(venv, venv ? strlen(venv) : 0, site);
	add_under(&opened.environments, conda, "/lib");
	add_wheels(conda, conda ? strlen(conda) : 0, site);
	for (const char *p = getenv("PATH"); p && *p;) {
		size_t len = strcspn(p, ":");
		int n = snprintf(python, sizeof(python), "%.*s/python3", (int)len, p);
		if (n > 0 && (size_t)n < sizeof(python) && len > 4 && access(python, X_OK) == 0 &&
		    !strncmp(p + len - 4, "/bin", 4))
			add_wheels(p, len - 4, site);
		p += len + (p[len] == ':');
	}
	add_under(&opened.environments, home, "/.local/lib/python3*/site-packages/nvidia/*/lib");
	add_wheels("/usr/local", strlen("/usr/local"), "*/dist-packages");
	add_wheels("/usr", strlen("/usr"), "/dist-packages");
}

static void find_folders(void)
{
	static const char *const variables[] = {"CUDA_HOME", "CUDA_PATH"};
	struct folders *t = &opened.toolkits;

	for (int i = 0; i < 2; i++)
		add_under(t, getenv(variables[i]), "/lib64");
	for (int i = 0; i < 2; i++)
		add_under(t, getenv(variables[i]), "/extras/CUPTI/lib64");
	add_under(t, "/usr/local/cuda", "/lib64");
	add_under(t, "/usr/local", "/cuda-1[2-9]*/lib64");
	add_under(t, "/usr/local", "/cuda*/extras/CUPTI/lib64");
	add_under(t, "/opt/cuda", "/lib64");
	add_pythons();
}

/* ---- versions ----------------------------------------------------------------------------------- */

/* Formats a version, for example 91900 as "9.19.0". */
static void dotted(char *out, size_t room, size_t version, size_t major, size_t minor)
{
	snprintf(out, room, "%zu.%zu.%zu", version / major, version % major / minor, version % minor);
}

static void cuda_dotted(char *out, size_t room, int version)
{
	snprintf(out, room, "CUDA %d.%d", version / 1000, version % 1000 / 10);
}

static bool driver_suits(void *const *table, char *found, size_t room)
{
	const struct cuda_api *api = (const void *)table;
	int version = 0;

	if (api->p_cuDriverGetVersion(&version)) {
		snprintf(found, room, "the driver does not tell its version");
		return false;
	}
	cuda_dotted(found, room, version);
	opened.driver = version;
	return version >= MIN_DRIVER;
}

/* Refuses a library that was made for a newer major version of CUDA than the driver's: it would not run. */
static bool made_for_driver(int cuda, char *found, size_t room)
{
	size_t used = strlen(found);

	if (!opened.driver || cuda / 1000 <= opened.driver / 1000)
		return true;
	snprintf(found + used, room - used, ", made for CUDA %d; the driver is of CUDA %d.%d",
		 cuda / 1000, opened.driver / 1000, opened.driver % 1000 / 10);
	return false;
}

static bool cublaslt_suits(void *const *table, char *found, size_t room)
{
	const struct cublaslt_api *api = (const void *)table;
	size_t version = api->p_cublasLtGetVersion();

	dotted(found, room, version, 10000, 100);
	return made_for_driver((int)(version / 10000 * 1000), found, room) && version >= 120000;
}

static bool nvrtc_suits(void *const *table, char *found, size_t room)
{
	const struct nvrtc_api *api = (const void *)table;
	int major = 0, minor = 0;

	if (api->p_nvrtcVersion(&major, &minor))
		return false;
	snprintf(found, room, "%d.%d", major, minor);
	return major >= 12 && made_for_driver(major * 1000, found, room);
}

static const char *const cudnn_part_names[] = {"graph", "engines_precompiled",
					       "engines_runtime_compiled", "heuristic"};

/* Sets `file` to the name that part i of cuDNN has in the folder of the library `path`. */
static void name_cudnn_part(size_t i, const char *path, char *file, size_t room)
{
	const char *slash = strrchr(path, '/');

	snprintf(file, room, "%.*slibcudnn_%s.so.9", slash ? (int)(slash + 1 - path) : 0, path,
		 cudnn_part_names[i]);
}

/* cuDNN opens its component libraries later. Checks that they lie beside it or in a folder that the system searches. */
static bool cudnn_parts(const char *path, char *found, size_t room)
{
	const char *slash = strrchr(path, '/');
	size_t used = strlen(found);
	char file[600];

	for (size_t i = 0; i < COUNT(cudnn_part_names); i++) {
		name_cudnn_part(i, path, file, sizeof(file));
		if (slash && access(file, R_OK) == 0)
			continue;
		const char *name = slash ? strrchr(file, '/') + 1 : file;
		void *handle = dlopen(name, RTLD_LAZY | RTLD_LOCAL);
		if (!handle) {
			snprintf(found + used, room - used,
				 "; its part %s is neither beside it nor where the system looks",
				 name);
			return false;
		}
		dlclose(handle);
	}
	return true;
}

/*
 * Opens the parts now, which cuDNN would open when it makes its first plan: that takes 30 to 80 ms. cuDNN is opened by a thread of
 * its own, while the driver starts.
 */
static void open_cudnn_parts(const char *path)
{
	char file[600];

	for (size_t i = 0; i < COUNT(cudnn_part_names); i++) {
		name_cudnn_part(i, path, file, sizeof(file));
		dlopen(file, RTLD_LAZY | RTLD_LOCAL);
	}
}

static bool cudnn_suits(void *const *table, char *found, size_t room)
{
	const struct cudnn_api *api = (const void *)table;
	size_t version = api->p_cudnnGetVersion();
	Dl_info file;

	dotted(found, room, version, 10000, 100);
	if (version < MIN_CUDNN || !made_for_driver((int)api->p_cudnnGetCudartVersion(), found, room))
		return false;
	if (!dladdr(*(void *const *)&api->p_cudnnGetVersion, &file) ||
	    !cudnn_parts(file.dli_fname, found, room))
		return false;
	open_cudnn_parts(file.dli_fname); /* before the check, which waits for the driver */
	int status = (int)api->p_cudnnGraphVersionCheck();
	size_t used = strlen(found);
	if (status)
		snprintf(found + used, room - used,
			 "; its part libcudnn_graph.so.9 cannot be opened or is of another version (status %d)",
			 status);
	return !status;
}

/*
 * A CUPTI library belongs to one major version of CUDA, and the driver of an older version refuses it. Returns whether
 * this one suits the driver.
 */
static bool cupti_suits(void *const *table, char *found, size_t room)
{
	const struct cupti_api *api = (const void *)table;
	uint32_t version = 0;

	if (api->p_cuptiGetVersion(&version))
		return false;
	snprintf(found, room, "version %u", version);
	/* CUPTI versions 18 to 28 belong to CUDA 12; newer versions are numbers such as 130000 for CUDA 13 */
	return made_for_driver(version >= 1000 ? (int)(version / 10000 * 1000) : 12000, found, room);
}

/*
 * NVML's version, for example "13.580.65", consists of the CUDA version and the release of its driver. NVML works only
 * with the driver of that release.
 */
static bool nvml_suits(void *const *table, char *found, size_t room)
{
	const struct nvml_api *api = (const void *)table;
	char text[80] = "";

	if (!api->p_nvmlSystemGetNVMLVersion || api->p_nvmlSystemGetNVMLVersion(text, sizeof(text)))
		return true; /* starting NVML will show whether it works */
	snprintf(found, room, "%s", text);
	return made_for_driver((int)strtol(text, NULL, 10) * 1000, found, room);
}

/* ---- opening ------------------------------------------------------------------------------------ */

struct recipe {
	const char *const *sonames;
	const struct dl_symbol *symbols;
	void *table;
	size_t n;
	bool (*suits)(void *const *table, char *found, size_t room);
	/* the library may also be in a folder of a CUDA toolkit or of a Python package */
	bool folders;
	const char *expected;
};

static const struct recipe recipes[LIBRARIES] = {
	[L_CUDA] = {cuda_names, cuda_symbols, &opened.cuda, COUNT(cuda_symbols), driver_suits,
		    false, "a driver of CUDA 12.0 (release 525) or newer"},
	[L_NVML] = {nvml_names, nvml_symbols, &opened.nvml, COUNT(nvml_symbols), nvml_suits, false,
		    "the NVML of the driver"},
	[L_CUBLASLT] = {cublaslt_names, cublaslt_symbols, &opened.cublaslt, COUNT(cublaslt_symbols),
			cublaslt_suits, true, "cuBLASLt 12 or 13, no newer than the driver"},
	[L_CUDNN] = {cudnn_names, cudnn_symbols, &opened.cudnn, COUNT(cudnn_symbols), cudnn_suits,
		     true, "cuDNN 9.1 or newer, all its parts of one version"},
	[L_NVRTC] = {nvrtc_names, nvrtc_symbols, &opened.nvrtc, COUNT(nvrtc_symbols), nvrtc_suits,
		     true, "NVRTC 12 or 13, no newer than the driver"},
	[L_CUPTI] = {cupti_names, cupti_symbols, &opened.cupti, COUNT(cupti_symbols), cupti_suits,
		     true, "CUPTI of CUDA 12 or 13, no newer than the driver"},
};

/* The environment variable INFER_WITHOUT=cudnn,cublaslt,nvrtc makes libraries appear to be missing. Tests use it. */
static bool is_left_out(const char *soname)
{
	const char *list = getenv("INFER_WITHOUT");

	for (const char *p = list; p && *p;) {
		size_t len = strcspn(p, ",");
		if (len && !strncasecmp(soname + 3, p, len) && soname[3 + len] == '.')
			return true;
		p += len + (p[len] == ',');
	}
	return false;
}

static void open_library(struct library *l, const struct recipe *r)
{
	struct dl_search search = {.suits = r->suits, .expected = r->expected};

	l->tried = true;
	if (is_left_out(r->sonames[0])) {
		snprintf(l->dl.tried, sizeof(l->dl.tried), "left out, as INFER_WITHOUT=%s asks for",
			 getenv("INFER_WITHOUT"));
		return;
	}
	if (r->folders) {
		pthread_once(&opened.folders_once, find_folders);
		search.toolkits = opened.toolkits.pattern;
		search.environments = opened.environments.pattern;
	}
	l->good = !dl_find(&l->dl, r->sonames, &search, r->symbols, r->table, r->n, NULL);
}

static bool use_library(int k, struct diag *d);

/*
 * cuDNN opens the run-time compiler (NVRTC) whenever it compiles, and closes it afterwards. Each time, 72 KiB of the
 * compiler's start-up memory leak. Opening NVRTC here, once, prevents the leak, because opening a library that is already
 * open only increments its reference count.
 */
static void keep_compiler_open(const struct cudnn_api *api)
{
	int major = 0, minor, wanted = (int)(api->p_cudnnGetCudartVersion() / 1000);
	struct dl_search search = {.toolkits = opened.toolkits.pattern,
				   .environments = opened.environments.pattern};
	char soname[32];
	const char *const names[] = {soname, NULL};
	struct dl dl;

	if (use_library(L_NVRTC, NULL) && !opened.nvrtc.p_nvrtcVersion(&major, &minor) &&
	    major == wanted)
		return;
	snprintf(soname, sizeof(soname), "libnvrtc.so.%d", wanted);
	dl_find(&dl, names, &search, NULL, NULL, 0, NULL);
}

/*
 * Opens library k unless this was tried before. Returns true if the library can be used, otherwise false with a finding
 * in d.
 */
static bool use_library(int k, struct diag *d)
{
	struct library *l = &opened.library[k];

	pthread_mutex_lock(&l->lock);
	if (!l->tried) {
		open_library(l, &recipes[k]);
		if (k == L_CUDNN && l->good)
			keep_compiler_open(&opened.cudnn);
	}
	pthread_mutex_unlock(&l->lock);
	if (l->good)
		return true;
	FAIL(d, E_LIBRARY,
	     .message = fmt(d, "no usable %s: %s was looked for", library_texts[k].name,
			    recipes[k].sonames[0]),
	     .expected = recipes[k].expected, .actual = fmt(d, "%s", l->dl.tried),
	     .hint = "install it, or name its folder in INFER_LIBRARY_PATH; infer doctor tells more");
	return false;
}

const struct cuda_api *cuda_api(struct diag *d)
{
	if (!use_library(L_CUDA, d))
		return NULL;
	return &opened.cuda;
}

const struct cublaslt_api *cublaslt_api(struct diag *d)
{
	return cuda_api(d) && use_library(L_CUBLASLT, d) ? &opened.cublaslt : NULL;
}

const struct cudnn_api *cudnn_alone(struct diag *d)
{
	return use_library(L_CUDNN, d) ? &opened.cudnn : NULL;
}

const struct cudnn_api *cudnn_api(struct diag *d)
{
	return cuda_api(d) && use_library(L_CUDNN, d) ? &opened.cudnn : NULL;
}

const struct nvrtc_api *nvrtc_api(struct diag *d)
{
	return use_library(L_NVRTC, d) ? &opened.nvrtc : NULL;
}

const struct nvml_api *nvml_api(struct diag *d)
{
	return use_library(L_NVML, d) ? &opened.nvml : NULL;
}

const struct cupti_api *cupti_api(struct diag *d)
{
	return cuda_api(d) && use_library(L_CUPTI, d) ? &opened.cupti : NULL;
}

/* ---- what they open ------------------------------------------------------------------------------ */

struct mapped {
	struct arena arena;
	const char **path;
	uint32_t n, cap;
};

static int note_mapped(struct dl_phdr_info *info, size_t bytes, void *arg)
{
	static const char *const ours[] = {"libcudnn", "libcublas", "libcuda.", "libnv"};
	const char *slash = strrchr(info->dlpi_name, '/');
	struct mapped *m = arg;

	(void)bytes;
	for (size_t i = 0; slash && i < COUNT(ours); i++) {
		if (strncmp(slash + 1, ours[i], strlen(ours[i])))
			continue;
		if (m->n == m->cap) {
			m->cap = m->cap ? 2 * m->cap : 32;
			m->path = arena_grow(&m->arena, m->path, m->n, m->cap, sizeof(*m->path));
		}
		m->path[m->n++] = arena_str(&m->arena, info->dlpi_name);
	}
	return 0;
}

void libraries_keep(void)
{
	struct mapped m = {0};

	dl_iterate_phdr(note_mapped, &m);
	for (uint32_t i = 0; i < m.n; i++) {
		void *h = dlopen(m.path[i], RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
		if (h)
			dlclose(h);
	}
	arena_free(&m.arena);
}

/* ---- for doctor and for keys -------------------------------------------------------------------- */

static void nvml_version(char *out, size_t room)
{
	enum { MISMATCH = 18 };
	char text[80] = "";
	int status = opened.nvml.p_nvmlInit_v2();

	if (!status && !opened.nvml.p_nvmlSystemGetDriverVersion(text, sizeof(text)))
		snprintf(out, room, "driver %s", text);
	else
		snprintf(out, room, "no answer: status %d%s", status,
			 status == MISMATCH ? ", not of the driver that runs" : "");
	if (!status)
		opened.nvml.p_nvmlShutdown();
}

static void version_of(int k, char *out, size_t room)
{
	int major = 0, minor = 0;

	*out = '\0';
	if (k == L_CUDA) {
		cuda_dotted(out, room, opened.driver);
	} else if (k == L_NVML) {
		nvml_version(out, room);
	} else if (k == L_CUBLASLT) {
		dotted(out, room, opened.cublaslt.p_cublasLtGetVersion(), 10000, 100);
	} else if (k == L_CUDNN) {
		dotted(out, room, opened.cudnn.p_cudnnGetVersion(), 10000, 100);
	} else if (k == L_CUPTI) {
		uint32_t version = 0;
		if (!opened.cupti.p_cuptiGetVersion(&version))
			snprintf(out, room, "%u", version);
	} else if (!opened.nvrtc.p_nvrtcVersion(&major, &minor)) {
		snprintf(out, room, "%d.%d", major, minor);
	}
}

int libraries_probe(struct library_info *out, struct diag *d)
{
	for (int k = 0; k < LIBRARIES; k++) {
		const struct library *l = &opened.library[k];
		out[k] = library_texts[k];
		out[k].found = use_library(k, NULL);
		snprintf(out[k].path, sizeof(out[k].path), "%s", l->dl.path);
		out[k].how = l->dl.how;
		if (out[k].found)
			version_of(k, out[k].version, sizeof(out[k].version));
		else if (recipes[k].expected)
			out[k].why = fmt(d, "%s is wanted; %s", recipes[k].expected, l->dl.tried);
		else
			out[k].why = fmt(d, "%s", l->dl.tried);
	}
	return LIBRARIES;
}

size_t cublaslt_version(void)
{
	return opened.library[L_CUBLASLT].good ? opened.cublaslt.p_cublasLtGetVersion() : 0;
}

void libraries_versions(char *out, size_t bytes)
{
	size_t used = 0;

	*out = '\0';
	for (int k = 0; k < LIBRARIES; k++) {
		char version[64];
		if (k == L_NVML || k == L_CUPTI || !opened.library[k].good)
			continue;
		version_of(k, version, sizeof(version));
		int n = snprintf(out + used, bytes - used, "%s%s %s", used ? ", " : "",
				 library_texts[k].name, version);
		if (n < 0 || (size_t)n >= bytes - used)
			return;
		used += (size_t)n;
	}
}
