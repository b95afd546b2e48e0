/* SPDX-License-Identifier: Apache-2.0 */
#include "base/dl.h"

#include "base/file.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Appends to a bounded list of places; what does not fit is left out whole. */
static void note(struct dl *lib, const char *what, const char *why)
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

/* Opens one file and fills the table; false where it is not there or lacks a symbol. */
static bool try_file(struct dl *lib, const char *name, const struct dl_symbol *symbols,
		     void **table, size_t n)
{
	void *first = NULL, *handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);

	if (!handle) {
		const char *why = dlerror();
		note(lib, why ? why : name, NULL);
		return false;
	}
	for (size_t i = 0; i < n; i++) {
		table[i] = dlsym(handle, symbols[i].name);
		if (!table[i] && symbols[i].required) {
			char missing[256];
			snprintf(missing, sizeof(missing), "it has no symbol %s", symbols[i].name);
			note(lib, name, missing);
			memset(table, 0, n * sizeof(*table));
			dlclose(handle);
			return false;
		}
		first = first ? first : table[i];
	}
	lib->handle = handle;
	remember_path(lib, name, first);
	return true;
}

static bool try_folder(struct dl *lib, const char *folder, size_t len, const char *soname,
		       const struct dl_symbol *symbols, void **table, size_t n)
{
	char path[4096];
	int w = snprintf(path, sizeof(path), "%.*s/%s", (int)len, folder, soname);

	if (!len || w < 0 || (size_t)w >= sizeof(path))
		return false;
	if (access(path, F_OK) != 0) {
		note(lib, path, "not there");
		return false;
	}
	return try_file(lib, path, symbols, table, n);
}

static bool try_soname(struct dl *lib, const char *soname, const struct dl_symbol *symbols,
		       void **table, size_t n)
{
	static const char *const beside[] = {"/../lib", "/../lib/infer"};
	const char *list = getenv("INFER_LIBRARY_PATH");
	char self[4096];

	for (const char *p = list; p && *p;) {
		size_t len = strcspn(p, ":");
		if (try_folder(lib, p, len, soname, symbols, table, n))
			return true;
		p += len + (p[len] == ':');
	}
	ssize_t len = readlink("/proc/self/exe", self, sizeof(self) - 32);
	while (len > 0 && self[len - 1] != '/')
		len--;
	for (size_t i = 0; len > 0 && i < 2; i++) {
		size_t base = (size_t)len - 1, add = strlen(beside[i]);
		memcpy(self + base, beside[i], add + 1);
		if (try_folder(lib, self, base + add, soname, symbols, table, n))
			return true;
	}
	return try_file(lib, soname, symbols, table, n);
}

int dl_open(struct dl *lib, const char *const *sonames, const struct dl_symbol *symbols,
	    void **table, size_t n, struct diag *d)
{
	*lib = (struct dl){0};
	for (size_t i = 0; sonames[i]; i++)
		if (try_soname(lib, sonames[i], symbols, table, n))
			return 0;
	return FAIL(d, E_LIBRARY, .message = fmt(d, "the library %s cannot be opened", sonames[0]),
		    .actual = fmt(d, "%s", lib->tried),
		    .hint = "install it, or name its folder in INFER_LIBRARY_PATH");
}
