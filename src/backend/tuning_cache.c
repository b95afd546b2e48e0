/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/tuning_cache.h"

#include "base/file.h"
#include "base/hash.h"
#include "base/str.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static const char text_head[] = "infer choices 1\n", blob_head[] = "infer blob 1\n";

struct entry {
	const char *key, *value;
	/*
	 * used or added by this process; such entries are written last, and are dropped last if the
	 * file is too large
	 */
	bool used;
};

struct cache {
	struct arena arena;
	const char *folder; /* folder of the device; NULL if results are kept in memory only */
	struct map by_key;
	struct entry *entry;
	uint32_t n, cap;
	bool dirty;
	const char *trouble;
};

const char *cache_root(const char *option, struct arena *a)
{
	const char *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");

	if (option && *option)
		return strcmp(option, "off") ? option : NULL;
	if (xdg && *xdg == '/')
		return path_join(a, xdg, "infer");
	return home && *home == '/' ? path_join(a, path_join(a, home, ".cache"), "infer") : NULL;
}

static struct entry *add_entry(struct cache *c, const char *key, size_t nkey, const char *value,
			       size_t n)
{
	int64_t k = map_get(&c->by_key, key, nkey);

	if (k < 0) {
		if (c->n == c->cap) {
			c->cap = c->cap ? 2 * c->cap : 64;
			c->entry = arena_grow(&c->arena, c->entry, c->n, c->cap, sizeof(*c->entry));
		}
		k = c->n;
		c->entry[k].key = arena_strn(&c->arena, key, nkey);
		map_set(&c->by_key, c->entry[k].key, nkey, c->n++);
	}
	c->entry[k].value = arena_strn(&c->arena, value, n);
	return &c->entry[k];
}

/*
 * Parses the lines "key, tab, value". Ignores all other lines, and a last line without a newline.
 */
static void read_text(struct cache *c, const char *path)
{
	struct file_map m;

	if (access(path, R_OK) || file_map(path, &m, E_CACHE, NULL))
		return;
	const char *p = (const char *)m.data, *end = p + m.size;
	size_t head = sizeof(text_head) - 1;
	if (m.size >= head && m.size <= 4 * (size_t)CACHE_MAX_TEXT && !memcmp(p, text_head, head)) {
		for (p += head; p < end;) {
			const char *nl = memchr(p, '\n', (size_t)(end - p));
			const char *tab = nl ? memchr(p, '\t', (size_t)(nl - p)) : NULL;
			if (tab && tab > p && tab + 1 < nl && !memchr(p, 0, (size_t)(nl - p)))
				add_entry(c, p, (size_t)(tab - p), tab + 1, (size_t)(nl - tab - 1));
			p = nl ? nl + 1 : end;
		}
	}
	file_unmap(&m);
}

static const char *text_path(const struct cache *c, struct arena *a)
{
	return path_join(a, c->folder, "choices.txt");
}

struct cache *cache_open(const char *root, const char *device)
{
	struct arena a = {0};
	struct cache *c = arena_new(&a, struct cache);
	struct str name = {.arena = &c->arena};

	c->arena = a;
	name.arena = &c->arena;
	c->by_key.arena = &c->arena;
	if (!root)
		return c;
	for (const char *p = device; *p; p++)
		str_add_n(&name, isalnum((unsigned char)*p) || strchr("._-", *p) ? p : "_", 1);
	c->folder = path_join(&c->arena, path_join(&c->arena, root, "v1"), str_get(&name));
	const char *blobs = path_join(&c->arena, c->folder, "blobs");
	if (file_make_dir(blobs, E_CACHE, NULL) || access(c->folder, W_OK))
		c->trouble = arena_printf(&c->arena, "%s cannot be written: %s", c->folder,
					  strerror(errno));
	read_text(c, text_path(c, &c->arena));
	return c;
}

const char *cache_trouble(const struct cache *c)
{
	return c->trouble;
}

const char *cache_get(struct cache *c, const char *key)
{
	int64_t k = map_get(&c->by_key, key, strlen(key));

	if (k < 0)
		return NULL;
	c->entry[k].used = true;
	return c->entry[k].value;
}

void cache_put(struct cache *c, const char *key, const char *value)
{
	if (!*key || !*value || strpbrk(key, "\t\n") || strpbrk(value, "\t\n"))
		return;
	add_entry(c, key, strlen(key), value, strlen(value))->used = true;
	c->dirty = true;
}

/* ---- blobs ------------------------------------------------------------------------------------ */

static const char *blob_path(struct cache *c, const char *key, struct arena *a)
{
	return arena_printf(a, "%s/blobs/%016" PRIx64, c->folder, hash_text(key));
}

/*
 * Checks the content of a blob's file and returns a copy of the data. The file holds "infer blob
 * 1\n", the key, "\n", size and checksum in hexadecimal, "\n", the data.
 */
static void *check_blob(const struct file_map *m, const char *key, struct arena *a, size_t *n)
{
	const char *p = (const char *)m->data;
	size_t head = sizeof(blob_head) - 1, nkey = strlen(key), at = head + nkey + 1;
	uint64_t size, sum;
	char line[64];

	if (m->size < at + 34 || memcmp(p, blob_head, head) || memcmp(p + head, key, nkey) ||
	    p[at - 1] != '\n')
		return NULL;
	memcpy(line, p + at, 34);
	line[34] = 0;
	if (sscanf(line, "%16" SCNx64 " %16" SCNx64, &size, &sum) != 2 || line[33] != '\n')
		return NULL;
	if (size != m->size - at - 34 || hash_bytes(p + at + 34, size, 0) != sum)
		return NULL;
	*n = size;
	return arena_dup(a, p + at + 34, size);
}

void *cache_blob_get(struct cache *c, const char *key, struct arena *a, size_t *n)
{
	struct file_map m;

	if (!c->folder)
		return NULL;
	const char *path = blob_path(c, key, a);
	if (access(path, R_OK) || file_map(path, &m, E_CACHE, NULL))
		return NULL;
	void *data = check_blob(&m, key, a, n);
	file_unmap(&m);
	if (data)
		/* mark the blob as used now, because the oldest blobs are removed first */
		(void)utimensat(AT_FDCWD, path, NULL, 0);
	return data;
}

void cache_blob_put(struct cache *c, const char *key, const void *data, size_t n)
{
	struct arena a = {0};

	if (!c->folder || c->trouble || strchr(key, '\n'))
		return;
	struct file_out *f = file_create(blob_path(c, key, &a), E_CACHE, NULL);
	if (f) {
		const char *line =
			arena_printf(&a, "%016zx %016" PRIx64 "\n", n, hash_bytes(data, n, 0));
		file_write(f, blob_head, sizeof(blob_head) - 1);
		file_write(f, key, strlen(key));
		file_write(f, "\n", 1);
		file_write(f, line, strlen(line));
		file_write(f, data, n);
		(void)file_commit(f, NULL);
		c->dirty = true;
	}
	arena_free(&a);
}

struct blob {
	char name[32];
	unsigned long long bytes;
	struct timespec used;
};

static int oldest_first(const void *a, const void *b)
{
	const struct blob *x = a, *y = b;

	if (x->used.tv_sec != y->used.tv_sec)
		return x->used.tv_sec < y->used.tv_sec ? -1 : 1;
	return x->used.tv_nsec < y->used.tv_nsec ? -1 : x->used.tv_nsec > y->used.tv_nsec;
}

/* Lists the blobs in a folder: only files whose names have the form that this cache writes. */
static struct blob *list_blobs(const char *folder, struct arena *a, size_t *n)
{
	const char *path = path_join(a, folder, "blobs");
	DIR *dir = opendir(path);
	struct blob *list = NULL;
	size_t cap = 0;

	*n = 0;
	for (struct dirent *e; dir && (e = readdir(dir));) {
		struct stat st;
		if (strlen(e->d_name) != 16 || strspn(e->d_name, "0123456789abcdef") != 16 ||
		    fstatat(dirfd(dir), e->d_name, &st, AT_SYMLINK_NOFOLLOW) || !S_ISREG(st.st_mode))
			continue;
		if (*n == cap) {
			cap = cap ? 2 * cap : 64;
			list = arena_grow(a, list, *n, cap, sizeof(*list));
		}
		list[*n] = (struct blob){.bytes = (unsigned long long)st.st_size, .used = st.st_mtim};
		memcpy(list[*n].name, e->d_name, 17);
		++*n;
	}
	if (dir)
		closedir(dir);
	return list;
}

static void evict_blobs(const char *folder)
{
	struct arena a = {0};
	size_t n;
	struct blob *list = list_blobs(folder, &a, &n);
	unsigned long long sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += list[i].bytes;
	if (n)
		qsort(list, n, sizeof(*list), oldest_first);
	for (size_t i = 0; i < n && sum > CACHE_MAX_BLOBS; i++) {
		if (!unlink(arena_printf(&a, "%s/blobs/%s", folder, list[i].name)))
			sum -= list[i].bytes;
	}
	arena_free(&a);
}

/* ---- writing ---------------------------------------------------------------------------------- */

static size_t line_bytes(const struct entry *e)
{
	return strlen(e->key) + strlen(e->value) + 2;
}

/*
 * Writes the text file. Entries that this process did not use come first, because the first entries
 * are dropped if the file would be too large.
 */
static int write_text(const struct cache *c, struct diag *d)
{
	struct arena a = {0};
	struct file_out *f = file_create(text_path(c, &a), E_CACHE, d);
	size_t sum = sizeof(text_head) - 1;

	arena_free(&a);
	if (!f)
		return -E_CACHE;
	for (uint32_t i = 0; i < c->n; i++)
		sum += line_bytes(&c->entry[i]);
	file_write(f, text_head, sizeof(text_head) - 1);
	for (int used = 0; used < 2; used++) {
		for (uint32_t i = 0; i < c->n; i++) {
			const struct entry *e = &c->entry[i];
			if (e->used != (used == 1))
				continue;
			if (sum > CACHE_MAX_TEXT) {
				sum -= line_bytes(e);
				continue;
			}
			file_write(f, e->key, strlen(e->key));
			file_write(f, "\t", 1);
			file_write(f, e->value, strlen(e->value));
			file_write(f, "\n", 1);
		}
	}
	return file_commit(f, d);
}

/*
 * Merges our entries with the file's, because another process may have written entries since this
 * process read the file.
 */
static int merge_and_write(struct cache *c, struct diag *d)
{
	struct cache *now;
	const char *lock = path_join(&c->arena, c->folder, "lock");
	int fd = open(lock, O_RDWR | O_CREAT | O_CLOEXEC, 0644);

	if (fd < 0 || flock(fd, LOCK_EX)) {
		if (fd >= 0)
			close(fd);
		return FAIL(d, E_CACHE, .actual = fmt(d, "%s: %s", lock, strerror(errno)));
	}
	struct arena a = {0};
	now = arena_new(&a, struct cache);
	now->arena = a;
	now->by_key.arena = &now->arena;
	now->folder = c->folder;
	read_text(now, text_path(now, &now->arena));
	for (uint32_t i = 0; i < c->n; i++)
		if (c->entry[i].used)
			add_entry(now, c->entry[i].key, strlen(c->entry[i].key), c->entry[i].value,
				  strlen(c->entry[i].value))
				->used = true;
	int err = write_text(now, d);
	evict_blobs(c->folder);
	a = now->arena;
	arena_free(&a);
	close(fd);
	return err;
}

int cache_close(struct cache *c, struct diag *d)
{
	int err = c->folder && c->dirty && !c->trouble ? merge_and_write(c, d) : 0;
	struct arena a = c->arena;

	arena_free(&a);
	return err;
}

/* ---- what is there ---------------------------------------------------------------------------- */

static size_t count_choices(const char *folder, unsigned long long *bytes)
{
	struct arena a = {0};
	struct cache *c = arena_new(&a, struct cache);
	struct stat st;

	c->arena = a;
	c->by_key.arena = &c->arena;
	c->folder = folder;
	const char *path = text_path(c, &c->arena);
	if (!stat(path, &st))
		*bytes += (unsigned long long)st.st_size;
	read_text(c, path);
	size_t n = c->n;
	a = c->arena;
	arena_free(&a);
	return n;
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

static int is_folder(const struct dirent *e)
{
	return e->d_name[0] != '.';
}

int cache_each(const char *root, int (*tell)(void *arg, const struct cache_folder *), void *arg)
{
	struct arena a = {0};
	const char *top = path_join(&a, root, "v1");
	struct dirent **list = NULL;
	int n = scandir(top, &list, is_folder, by_name), err = 0;

	for (int i = 0; i < n; i++) {
		struct cache_folder f = {.device = list[i]->d_name,
					 .path = path_join(&a, top, list[i]->d_name)};
		struct stat st;
		if (!err && !lstat(f.path, &st) && S_ISDIR(st.st_mode)) {
			struct blob *b = list_blobs(f.path, &a, &f.blobs);
			for (size_t k = 0; k < f.blobs; k++)
				f.bytes += b[k].bytes;
			f.choices = count_choices(f.path, &f.bytes);
			err = tell(arg, &f);
		}
		free(list[i]);
	}
	free(list);
	arena_free(&a);
	return err;
}

struct clearing {
	unsigned long long bytes;
	size_t files;
	struct arena arena;
	const char *stuck;
};

static void remove_file(struct clearing *c, const char *path)
{
	struct stat st;

	if (lstat(path, &st))
		return;
	if (unlink(path)) {
		c->stuck = path;
		return;
	}
	c->bytes += (unsigned long long)st.st_size;
	c->files++;
}

static int clear_folder(void *arg, const struct cache_folder *f)
{
	struct clearing *c = arg;
	struct arena *a = &c->arena;
	size_t n;
	struct blob *b = list_blobs(f->path, a, &n);

	for (size_t i = 0; i < n; i++)
		remove_file(c, arena_printf(a, "%s/blobs/%s", f->path, b[i].name));
	remove_file(c, path_join(a, f->path, "choices.txt"));
	remove_file(c, path_join(a, f->path, "lock"));
	/* rmdir() fails, as it should, if the user has put files into the folder */
	(void)rmdir(path_join(a, f->path, "blobs"));
	(void)rmdir(f->path);
	return 0;
}

int cache_clear(const char *root, unsigned long long *bytes, size_t *files, struct diag *d)
{
	struct clearing c = {0};

	cache_each(root, clear_folder, &c);
	(void)rmdir(path_join(&c.arena, root, "v1"));
	*bytes = c.bytes;
	*files = c.files;
	int err = c.stuck ? FAIL(d, E_CACHE, .actual = fmt(d, "%s cannot be removed", c.stuck)) : 0;
	arena_free(&c.arena);
	return err;
}
