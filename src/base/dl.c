/* SPDX-License-Identifier: Apache-2.0 */
#include "base/dl.h"

#include "base/file.h"

#include <dlfcn.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
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

	if (n < 0 || (size_t)n >= room)
		lib->tried[used] = '\0';
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
		note_place(w->lib, why ? why : name, NULL);
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
static bool try_patterns(const struct wanted *w, const char *const *sonames)
{
	bool found = false;

	for (size_t p = 0; w->search && w->search->folders && w->search->folders[p] && !found; p++) {
		glob_t g;
		if (glob(w->search->folders[p], GLOB_ONLYDIR, NULL, &g)) {
			note_place(w->lib, w->search->folders[p], "no such folder");
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
			note_place(w->lib, w->search->folders[p], "not there");
	}
	return found;
}

static bool try_soname(const struct wanted *w, const char *soname)
{
	static const char *const beside[] = {"/../lib", "/../lib/infer"};
	const char *list = getenv("INFER_LIBRARY_PATH");
	char self[4096];

	for (const char *p = list; p && *p;) {
		size_t len = strcspn(p, ":");
		if (try_folder(w, p, len, soname))
			return true;
		p += len + (p[len] == ':');
	}
	ssize_t len = readlink("/proc/self/exe", self, sizeof(self) - 32);
	while (len > 0 && self[len - 1] != '/')
		len--;
	for (size_t i = 0; len > 0 && i < 2; i++) {
		size_t base = (size_t)len - 1, add = strlen(beside[i]);
		memcpy(self + base, beside[i], add + 1);
		if (try_folder(w, self, base + add, soname))
			return true;
	}
	return try_file(w, soname);
}

int dl_find(struct dl *lib, const char *const *sonames, const struct dl_search *search,
	    const struct dl_symbol *symbols, void **table, size_t n, struct diag *d)
{
	struct wanted w = {lib, search, symbols, table, n};

	*lib = (struct dl){0};
	for (size_t i = 0; sonames[i]; i++)
		if (try_soname(&w, sonames[i]))
			return 0;
	if (try_patterns(&w, sonames))
		return 0;
	return FAIL(d, E_LIBRARY, .message = fmt(d, "the library %s cannot be opened", sonames[0]),
		    .expected = search ? search->expected : NULL, .actual = fmt(d, "%s", lib->tried),
		    .hint = "install it, or name its folder in INFER_LIBRARY_PATH");
}

int dl_open(struct dl *lib, const char *const *sonames, const struct dl_symbol *symbols,
	    void **table, size_t n, struct diag *d)
{
	return dl_find(lib, sonames, NULL, symbols, table, n, d);
}
