/* SPDX-License-Identifier: Apache-2.0 */
#include "base/dl.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"

#include <dlfcn.h>
#include <errno.h>
#include <glob.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/*
 * Appends a searched place and the reason of its failure to lib->tried. Leaves out an entry that
 * does not fit completely.
 */
static void note_place(struct dl *lib, const char *what, const char *why)
{
	size_t used = strlen(lib->tried), room = sizeof(lib->tried) - used;
	int n = snprintf(lib->tried + used, room, "%s%s%s%s", used ? "; " : "", what,
			 why ? ": " : "", why ? why : "");

	/* do not list a path twice: two of the names that are tried may lead to the same file */
	const char *entry = lib->tried + used + (used ? 2 : 0), *same;
	bool whole = n >= 0 && (size_t)n < room;
	if (!whole || ((same = strstr(lib->tried, entry)) && same != entry))
		lib->tried[used] = '\0';
}

/* Whether an entry of `tried`, of n characters, says that the library is not in a place which the user has not named. */
static bool is_absent(const char *entry, size_t n)
{
	static const char *const ends[] = {": not there", ": no such folder",
					   ": No such file or directory"};
	bool absent = false;

	for (size_t i = 0; i < sizeof(ends) / sizeof(*ends); i++) {
		size_t k = strlen(ends[i]);
		absent |= n > k && !memcmp(entry + n - k, ends[i], k);
	}
	for (const char *p = getenv("INFER_LIBRARY_PATH"); absent && p && *p;) {
		size_t k = strcspn(p, ":");
		if (k && n > k && !strncmp(entry, p, k) && entry[k] == '/')
			return false;
		p += k + (p[k] == ':');
	}
	return absent;
}

const char *dl_brief(const char *tried, struct arena *a)
{
	struct str b = {.arena = a};
	size_t absent = 0;

	for (const char *p = tried; *p;) {
		const char *end = strstr(p, "; ");
		size_t n = end ? (size_t)(end - p) : strlen(p);
		if (is_absent(p, n))
			absent++;
		else
			str_addf(&b, "%s%.*s", b.n ? "; " : "", (int)n, p);
		p += n + (end ? 2 : 0);
	}
	if (absent)
		str_addf(&b, "%sno such file in %zu%s places", b.n ? "; " : "", absent,
			 b.n ? " other" : "");
	return str_get(&b);
}

static void remember_path(struct dl *lib, const char *name, void *symbol)
{
	Dl_info info;

	if (symbol && dladdr(symbol, &info) && info.dli_fname)
		name = info.dli_fname;
	snprintf(lib->path, sizeof(lib->path), "%s", name);
}

/*
 * The library to open, the symbols to look up in it, and the table that receives their addresses.
 */
struct wanted {
	struct dl *lib;
	/* further folders and conditions; NULL if every version of the library can be used */
	const struct dl_search *search;
	const struct dl_symbol *symbols;
	void **table;
	size_t n;
	bool *refused; /* a library was loaded already, and is not what is wanted */
};

/*
 * Fills the table with the addresses of the symbols. If a required symbol is missing, adds an entry
 * to `tried` and returns false.
 */
static bool fill_table(const struct wanted *w, const char *name, void *handle, void **first)
{
	for (size_t i = 0; i < w->n; i++) {
		w->table[i] = dlsym(handle, w->symbols[i].name);
		if (!w->table[i] && w->symbols[i].required) {
			char missing[256];
			snprintf(missing, sizeof(missing), "it has no symbol %s", w->symbols[i].name);
			note_place(w->lib, name, missing);
			return false;
		}
		*first = *first ? *first : w->table[i];
	}
	return true;
}

static bool suits(const struct wanted *w)
{
	char found[256] = "";

	if (!w->search || !w->search->suits || w->search->suits(w->table, found, sizeof(found)))
		return true;
	note_place(w->lib, w->lib->path, found);
	return false;
}

/*
 * Opens one file and fills the table. Returns false if the file is missing, lacks a symbol, or is
 * refused by search->suits.
 */
static bool try_file(const struct wanted *w, const char *name)
{
	void *first = NULL, *handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);

	if (!handle) {
		const char *why = dlerror();
		/*
		 * If memory ran out, glibc may keep the file loaded without having initialized it, and would
		 * return it as it is the next time, under whatever name.
		 */
		if (!why || (strstr(why, strerror(ENOMEM)) && !strstr(why, "map segment")))
			mem_refused(0);
		note_place(w->lib, why, NULL);
		return false;
	}
	bool good = fill_table(w, name, handle, &first);
	if (good) {
		remember_path(w->lib, name, first);
		good = suits(w);
	}
	if (good) {
		w->lib->handle = handle;
		return true;
	}
	if (w->n)
		memset(w->table, 0, w->n * sizeof(*w->table));
	w->lib->path[0] = '\0';
	dlclose(handle);
	return false;
}

static bool try_folder(const struct wanted *want, const char *folder, size_t len, const char *soname)
{
	char path[4096];
	int w = snprintf(path, sizeof(path), "%.*s/%s", (int)len, folder, soname);

	if (!len || w < 0 || (size_t)w >= sizeof(path))
		return false;
	if (access(path, F_OK) != 0) {
		note_place(want->lib, path, "not there");
		return false;
	}
	return try_file(want, path);
}

/* Tries each soname in each folder that matches one of the patterns. */
static bool try_patterns(const struct wanted *w, const char *const *patterns,
			 const char *const *sonames)
{
	bool found = false;

	for (size_t p = 0; patterns && patterns[p] && !found; p++) {
		glob_t g;
		if (glob(patterns[p], GLOB_ONLYDIR, NULL, &g)) {
			note_place(w->lib, patterns[p], "no such folder");
			continue;
		}
		for (size_t i = 0; i < g.gl_pathc && !found; i++) {
			for (size_t k = 0; sonames[k] && !found; k++) {
				char path[4096];
				snprintf(path, sizeof(path), "%s/%s", g.gl_pathv[i], sonames[k]);
				found = access(path, F_OK) == 0 && try_file(w, path);
			}
		}
		globfree(&g);
		if (!found)
			note_place(w->lib, patterns[p], "not there");
	}
	return found;
}

static bool try_listed(const struct wanted *w, const char *soname)
{
	for (const char *p = getenv("INFER_LIBRARY_PATH"); p && *p;) {
		size_t len = strcspn(p, ":");
		if (try_folder(w, p, len, soname))
			return true;
		p += len + (p[len] == ':');
	}
	return false;
}

static bool try_beside(const struct wanted *w, const char *soname)
{
	static const char *const beside[] = {"/../lib", "/../lib/infer"};
	char self[4096];
	ssize_t len = readlink("/proc/self/exe", self, sizeof(self) - 32);

	while (len > 0 && self[len - 1] != '/')
		len--;
	for (size_t i = 0; len > 0 && i < 2; i++) {
		size_t base = (size_t)len - 1, add = strlen(beside[i]);
		memcpy(self + base, beside[i], add + 1);
		if (try_folder(w, self, base + add, soname))
			return true;
	}
	return false;
}

static bool is_loaded(const char *soname)
{
	void *handle = dlopen(soname, RTLD_NOW | RTLD_NOLOAD);

	if (handle)
		dlclose(handle);
	return handle;
}

/* A second copy of a library that something in this process has opened would not share its state. */
static bool try_loaded(const struct wanted *w, const char *soname)
{
	if (!is_loaded(soname))
		return false;
	*w->refused = !try_file(w, soname);
	return !*w->refused;
}

/*
 * The dynamic linker returns a loaded library again, which try_loaded() has refused; but another thread may also have
 * loaded it only now.
 */
static bool try_system(const struct wanted *w, const char *soname)
{
	return !(*w->refused && is_loaded(soname)) && try_file(w, soname);
}

static bool found_by(const struct wanted *w, bool (*try)(const struct wanted *, const char *),
		     const char *const *sonames, const char *how)
{
	for (size_t i = 0; sonames[i]; i++) {
		if (try(w, sonames[i])) {
			w->lib->how = how;
			return true;
		}
	}
	return false;
}

static bool found_in(const struct wanted *w, const char *const *patterns,
		     const char *const *sonames, const char *how)
{
	if (!try_patterns(w, patterns, sonames))
		return false;
	w->lib->how = how;
	return true;
}

int dl_find(struct dl *lib, const char *const *sonames, const struct dl_search *search,
	    const struct dl_symbol *symbols, void **table, size_t n, struct diag *d)
{
	static const struct dl_search nowhere = {0};
	const struct dl_search *s = search ? search : &nowhere;
	bool refused = false;
	struct wanted w = {lib, search, symbols, table, n, &refused};

	*lib = (struct dl){0};
	if (found_by(&w, try_listed, sonames, "in INFER_LIBRARY_PATH") ||
	    found_by(&w, try_beside, sonames, "beside the program") ||
	    found_by(&w, try_loaded, sonames, "loaded already") ||
	    found_in(&w, s->toolkits, sonames, "in a toolkit") ||
	    found_by(&w, try_system, sonames, "of the system") ||
	    found_in(&w, s->environments, sonames, "in a Python environment"))
		return 0;
	return FAIL(d, E_LIBRARY, .message = fmt(d, "the library %s cannot be opened", sonames[0]),
		    .expected = s->expected, .actual = d ? dl_brief(lib->tried, &d->arena) : NULL,
		    .hint = "install it, or name its folder in INFER_LIBRARY_PATH");
}

int dl_open(struct dl *lib, const char *const *sonames, const struct dl_symbol *symbols,
	    void **table, size_t n, struct diag *d)
{
	return dl_find(lib, sonames, NULL, symbols, table, n, d);
}

int dl_open_kept(struct dl_kept *k, const char *const *sonames, const struct dl_symbol *symbols,
		 void **table, size_t n, struct diag *d)
{
	struct dl lib;
	int rc = 0;

	if (atomic_load_explicit(&k->open, memory_order_acquire))
		return 0;
	pthread_mutex_lock(&k->lock);
	if (!atomic_load_explicit(&k->open, memory_order_relaxed)) {
		rc = dl_open(&lib, sonames, symbols, table, n, d);
		atomic_store_explicit(&k->open, !rc, memory_order_release);
	}
	pthread_mutex_unlock(&k->lock);
	return rc;
}

int dl_open_file(struct dl *lib, const char *path, const struct dl_symbol *symbols, void **table,
		 size_t n, struct diag *d)
{
	struct wanted w = {.lib = lib, .symbols = symbols, .table = table, .n = n};

	*lib = (struct dl){.how = "by its path"};
	/* without a slash the dynamic linker would look in its own folders */
	if (try_file(&w, strchr(path, '/') ? path : fmt(d, "./%s", path)))
		return 0;
	return FAIL(d, E_LIBRARY, .message = fmt(d, "the library %s cannot be opened", path),
		    .actual = fmt(d, "%s", lib->tried), .hint = "");
}

/* ---- redirected calls: a call of another library goes through a slot that the dynamic linker has filled */

struct relocations {
	const ElfW(Rela) * entry;
	size_t n;
};

/* sealed: the linker has made the slots of this library read-only, because it is bound at once */
static bool fill_slot(ElfW(Addr) * slot, void (*function)(void), bool sealed)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), start = (uintptr_t)slot / page * page;

	if (mprotect((void *)start, page, PROT_READ | PROT_WRITE) != 0)
		return false;
	*slot = (ElfW(Addr))(uintptr_t)function;
	if (sealed)
		mprotect((void *)start, page, PROT_READ);
	return true;
}

bool dl_redirect(const struct dl *lib, const char *name, void (*function)(void))
{
	struct relocations lists[2] = {0};
	const ElfW(Sym) *symbols = NULL;
	const char *names = NULL;
	struct link_map *map;
	bool found = false, sealed = false;

	if (dlinfo(lib->handle, RTLD_DI_LINKMAP, &map) != 0)
		return false;
	for (const ElfW(Dyn) *d = map->l_ld; d->d_tag != DT_NULL; d++) {
		const void *at = (const void *)(uintptr_t)d->d_un.d_ptr;
		if (d->d_tag == DT_SYMTAB)
			symbols = at;
		else if (d->d_tag == DT_STRTAB)
			names = at;
		else if (d->d_tag == DT_FLAGS_1)
			sealed = d->d_un.d_val & DF_1_NOW;
		else if (d->d_tag == DT_JMPREL)
			lists[0].entry = at;
		else if (d->d_tag == DT_PLTRELSZ)
			lists[0].n = d->d_un.d_val / sizeof(ElfW(Rela));
		else if (d->d_tag == DT_RELA)
			lists[1].entry = at;
		else if (d->d_tag == DT_RELASZ)
			lists[1].n = d->d_un.d_val / sizeof(ElfW(Rela));
	}
	for (int k = 0; symbols && names && k < 2; k++) {
		for (size_t i = 0; lists[k].entry && i < lists[k].n; i++) {
			const ElfW(Rela) *r = &lists[k].entry[i];
			const ElfW(Sym) *symbol = &symbols[ELF64_R_SYM(r->r_info)];
			/* an undefined symbol: the slot holds its address in another library */
			if (ELF64_R_SYM(r->r_info) && symbol->st_shndx == SHN_UNDEF &&
			    !r->r_addend && !strcmp(names + symbol->st_name, name))
				found |= fill_slot((ElfW(Addr) *)(map->l_addr + r->r_offset),
						   function, sealed);
		}
	}
	return found;
}
