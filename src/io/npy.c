/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads numpy's formats: the heads of .npy files, and .npz files, which are zip archives of .npy
 * members.
 */
#include "base/mem.h"
#include "base/utf8.h"
#include "io/io.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

/* ---- the head of an .npy file: a Python dictionary as text */

struct dict {
	const char *p, *end;
	bool seen_descr, seen_order, seen_shape;
	const char *why; /* what is wrong, or NULL if only the text is */
};

static void skip_blanks(struct dict *s)
{
	while (s->p < s->end && (*s->p == ' ' || *s->p == '\n' || *s->p == '\t'))
		s->p++;
}

static bool accept_char(struct dict *s, char c)
{
	skip_blanks(s);
	if (s->p >= s->end || *s->p != c)
		return false;
	s->p++;
	return true;
}

static bool take_word(struct dict *s, const char *w)
{
	size_t n = strlen(w);

	skip_blanks(s);
	if ((size_t)(s->end - s->p) < n || memcmp(s->p, w, n))
		return false;
	s->p += n;
	return true;
}

/*
 * Reads a string in single or double quotes, without escapes. A string that does not fit into
 * `room` bytes is cut.
 */
static bool take_string(struct dict *s, char *to, size_t room)
{
	size_t n = 0;

	skip_blanks(s);
	if (s->p >= s->end || (*s->p != '\'' && *s->p != '"'))
		return false;
	char quote = *s->p++;
	for (; s->p < s->end && *s->p != quote; s->p++)
		if (n + 1 < room)
			to[n++] = *s->p;
	to[n] = '\0';
	if (s->p >= s->end)
		return false;
	s->p++;
	return true;
}

static bool take_shape(struct dict *s, struct shape *shape)
{
	shape->rank = 0;
	if (!accept_char(s, '('))
		return false;
	while (!accept_char(s, ')')) {
		int64_t v = 0;
		skip_blanks(s);
		s->why = s->p < s->end && *s->p == '-' ? "a dimension of its shape is negative"
			 : shape->rank == MAX_RANK     ? "its shape has too many dimensions"
						       : NULL;
		if (s->p >= s->end || *s->p < '0' || *s->p > '9' || shape->rank == MAX_RANK)
			return false;
		for (; s->p < s->end && *s->p >= '0' && *s->p <= '9'; s->p++)
			if (__builtin_mul_overflow(v, (int64_t)10, &v) ||
			    __builtin_add_overflow(v, (int64_t)(*s->p - '0'), &v)) {
				s->why = "a dimension of its shape is too large";
				return false;
			}
		take_word(s, "L");
		shape->dim[shape->rank++] = v;
		if (!accept_char(s, ',') && !(s->p < s->end && *s->p == ')'))
			return false;
	}
	return true;
}

static bool take_entry(struct dict *s, struct npy *h)
{
	char key[24];

	if (!take_string(s, key, sizeof(key)) || !accept_char(s, ':'))
		return false;
	if (!strcmp(key, "descr")) {
		s->seen_descr = true;
		if (take_string(s, h->descr, sizeof(h->descr)))
			return true;
		/* A list of fields describes a structured type, which ONNX does not have: skip it. */
		memcpy(h->descr, "structured", sizeof("structured"));
		const char *close = memchr(s->p, ']', (size_t)(s->end - s->p));
		s->p = close ? close + 1 : s->end;
		return close != NULL;
	}
	if (!strcmp(key, "fortran_order")) {
		s->seen_order = true;
		h->fortran = take_word(s, "True");
		return h->fortran || take_word(s, "False");
	}
	s->seen_shape = !strcmp(key, "shape");
	return s->seen_shape && take_shape(s, &h->shape);
}

static void parse_descr(struct npy *h)
{
	static const struct {
		char kind;
		unsigned size;
		enum dtype t;
	} types[] = {
		{'f', 2, DT_F16},  {'f', 4, DT_F32}, {'f', 8, DT_F64},	 {'i', 1, DT_I8},
		{'i', 2, DT_I16},  {'i', 4, DT_I32}, {'i', 8, DT_I64},	 {'u', 1, DT_U8},
		{'u', 2, DT_U16},  {'u', 4, DT_U32}, {'u', 8, DT_U64},	 {'b', 1, DT_BOOL},
		{'?', 1, DT_BOOL}, {'c', 8, DT_C64}, {'c', 16, DT_C128},
	};
	const char *s = h->descr;
	bool big = *s == '>';

	if (*s && strchr("<>=|", *s))
		s++;
	h->kind = *s ? *s++ : '?';
	unsigned long size = strtoul(s, NULL, 10);
	h->size = size && size < 1u << 30 ? size : 1;
	for (size_t i = 0; i < sizeof(types) / sizeof(*types); i++)
		if (types[i].kind == h->kind && types[i].size == h->size)
			h->dtype = types[i].t;
	if (h->kind == 'U')
		h->size *= 4;
	if (h->kind == 'U' || h->kind == 'S')
		h->dtype = DT_STRING;
	h->big_endian = big && h->size > 1 && h->kind != 'S' && h->kind != 'V';
}

static int refuse_head(const char *what, const char *why, struct diag *d)
{
	return FAIL(d, E_INPUT_FORMAT, .message = fmt(d, "%s is no valid .npy file: %s", what, why));
}

static int npy_dict(struct dict s, const char *what, struct npy *h, struct diag *d)
{
	const char *text = s.p;
	size_t length = (size_t)(s.end - s.p);

	while (length && (text[length - 1] == ' ' || text[length - 1] == '\n'))
		length--;
	bool ok = accept_char(&s, '{');

	while (ok && !accept_char(&s, '}')) {
		ok = take_entry(&s, h);
		if (!accept_char(&s, ',')) {
			ok = ok && accept_char(&s, '}');
			break;
		}
	}
	if (ok)
		s.why = !s.seen_descr	? "it does not name 'descr'"
			: !s.seen_order ? "it does not name 'fortran_order'"
			: !s.seen_shape ? "it does not name 'shape'"
					: NULL;
	if (!ok || s.why)
		return refuse_head(what,
				   fmt(d, "its header cannot be read%s%s: %.*s%s", s.why ? ", as " : "",
				       s.why ? s.why : "", (int)(length < 80 ? length : 80), text,
				       length > 80 ? "..." : ""),
				   d);
	return 0;
}

int npy_head(const void *bytes, size_t n, const char *what, struct npy *h, struct diag *d)
{
	const unsigned char *p = bytes;
	size_t at, len;

	*h = (struct npy){0};
	if (!n)
		return FAIL(d, E_INPUT_FORMAT, .message = fmt(d, "%s: the file is empty", what),
			    .expected = io_kind_name(IO_NPY), .actual = "0 bytes");
	if (n < 10 || memcmp(p, "\x93NUMPY", 6))
		return refuse_head(what, "it does not begin with \\x93NUMPY", d);
	if (p[6] < 1 || p[6] > 3)
		return refuse_head(what, fmt(d, "its format is version %d", p[6]), d);
	at = p[6] == 1 ? 10 : 12;
	if (n < at)
		return refuse_head(what, "it is cut short in its header", d);
	len = (size_t)(p[8] | p[9] << 8);
	if (p[6] > 1)
		len |= (size_t)p[10] << 16 | (size_t)p[11] << 24;
	if (len > n - at)
		return refuse_head(what, "it is cut short in its header", d);
	const char *text = (const char *)p + at;
	int rc = npy_dict((struct dict){.p = text, .end = text + len}, what, h, d);
	if (rc)
		return rc;
	h->data = at + len;
	parse_descr(h);
	int64_t count = shape_count(&h->shape), wide = 0;
	if (count < 0 || !size_mul((size_t)count, h->size, &h->bytes) || h->bytes > INT64_MAX)
		return refuse_head(what, "its shape overflows", d);
	for (int i = 0; i < h->shape.rank; i++)
		wide += h->shape.dim[i] > 1;
	h->fortran = h->fortran && wide > 1 && count;
	return 0;
}

struct tensor *npy_strings(const struct npy *h, const unsigned char *p, struct arena *a)
{
	int64_t count = shape_count(&h->shape);
	struct arena scratch = {0};
	const char **text = arena_new_n(&scratch, const char *, (size_t)count + 1);
	size_t *length = arena_new_n(&scratch, size_t, (size_t)count + 1);

	for (int64_t i = 0; i < count; i++, p += h->size) {
		size_t n = h->size;
		if (h->kind == 'S') {
			while (n && !p[n - 1])
				n--;
			text[i] = (const char *)p;
			length[i] = n;
			continue;
		}
		char *s = arena_alloc(&scratch, h->size + 4);
		size_t len = 0, used = 0;
		for (size_t k = 0; k + 4 <= n; k += 4) {
			uint32_t c = (uint32_t)p[k] | (uint32_t)p[k + 1] << 8 |
				     (uint32_t)p[k + 2] << 16 | (uint32_t)p[k + 3] << 24;
			len += utf8_put(c > 0x10ffff ? 0xfffd : c, s + len);
			used = c ? len : used; /* numpy pads strings with zeros at the end */
		}
		text[i] = s;
		length[i] = used;
	}
	struct tensor *t = tensor_strings(a, &h->shape, text, length);
	arena_free(&scratch);
	return t;
}

/* ---- zip */

static uint32_t le16(const unsigned char *p)
{
	return (uint32_t)(p[0] | p[1] << 8);
}

static uint32_t le32(const unsigned char *p)
{
	return le16(p) | le16(p + 2) << 16;
}

static uint64_t le64(const unsigned char *p)
{
	return le32(p) | (uint64_t)le32(p + 4) << 32;
}

struct zip_reader {
	const unsigned char *p;
	size_t n;
	const char *what;
	struct diag *d;
};

static int refuse_zip(const struct zip_reader *r, const char *why)
{
	return FAIL(r->d, E_INPUT_FORMAT,
		    .message = fmt(r->d, "%s is no valid .npz archive: %s", r->what, why));
}

/* Finds the archive's directory: its offset and its number of entries. */
static int zip_end(const struct zip_reader *r, uint64_t *at, uint64_t *count)
{
	size_t back = r->n < 22 + 65535 ? r->n : 22 + 65535;

	for (size_t i = 22; i <= back; i++) {
		const unsigned char *e = r->p + r->n - i;
		if (le32(e) != 0x06054b50)
			continue;
		*count = le16(e + 10);
		*at = le32(e + 16);
		if ((*count == 0xffff || *at == 0xffffffff) && i + 20 <= r->n &&
		    le32(e - 20) == 0x07064b50) { /* zip64's locator precedes it */
			uint64_t z = le64(e - 20 + 8);
			if (r->n < 56 || z > r->n - 56 || le32(r->p + z) != 0x06064b50)
				return refuse_zip(r, "its zip64 directory is missing");
			*count = le64(r->p + z + 32);
			*at = le64(r->p + z + 48);
		}
		return 0;
	}
	return refuse_zip(r, "it has no directory; it is cut short or no archive");
}

/*
 * Reads sizes and offsets that do not fit into 32 bits. They are in an extra field of the entry, in
 * the order of the array `wide`.
 */
static void zip64_extra(const unsigned char *x, size_t n, struct zip_entry *e, uint64_t *offset)
{
	while (n >= 4) {
		size_t len = le16(x + 2);
		if (len > n - 4)
			return;
		if (le16(x) == 1) {
			uint64_t *wide[] = {&e->size, &e->packed, offset};
			const unsigned char *v = x + 4, *end = v + len;
			for (size_t i = 0; i < 3; i++)
				if (*wide[i] == 0xffffffff && end - v >= 8) {
					*wide[i] = le64(v);
					v += 8;
				}
			return;
		}
		x += 4 + len;
		n -= 4 + len;
	}
}

/* Reads the directory entry at offset *at, and advances *at to the next entry. */
static int zip_member(const struct zip_reader *r, uint64_t *at, struct arena *a, struct zip_entry *e)
{
	if (r->n < 46 || *at > r->n - 46 || le32(r->p + *at) != 0x02014b50)
		return refuse_zip(r, "its directory is damaged");
	const unsigned char *c = r->p + *at;
	size_t name = le16(c + 28), extra = le16(c + 30), comment = le16(c + 32),
	       left = r->n - *at - 46;
	if (name + extra + comment > left)
		return refuse_zip(r, "its directory is cut short");
	uint32_t method = le16(c + 10), flags = le16(c + 8);
	uint64_t offset = le32(c + 42);
	*e = (struct zip_entry){.crc = le32(c + 16), .packed = le32(c + 20), .size = le32(c + 24)};
	zip64_extra(c + 46 + name, extra, e, &offset);
	*at += 46 + name + extra + comment;
	if (method != 0 && method != 8)
		return refuse_zip(r, fmt(r->d, "a member is packed with method %u", method));
	if (flags & 1)
		return refuse_zip(r, "a member is encrypted");
	e->deflated = method == 8;
	if (r->n < 30 || offset > r->n - 30 || le32(r->p + offset) != 0x04034b50)
		return refuse_zip(r, "a member is missing");
	const unsigned char *l = r->p + offset;
	uint64_t data = offset + 30 + le16(l + 26) + le16(l + 28);
	if (data > r->n || e->packed > r->n - data || (!e->deflated && e->packed != e->size))
		return refuse_zip(r, "a member is cut short");
	e->data = r->p + data;
	bool npy = name >= 4 && !memcmp(c + 46 + name - 4, ".npy", 4);
	e->name = arena_strn(a, (const char *)c + 46, npy ? name - 4 : name);
	return 0;
}

int zip_open(const void *p, size_t n, const char *what, struct arena *a, struct zip *z, struct diag *d)
{
	struct zip_reader r = {p, n, what, d};
	uint64_t at = 0, count = 0;
	int rc = zip_end(&r, &at, &count);

	*z = (struct zip){0};
	if (!rc && count > n / 46)
		rc = refuse_zip(&r, "its directory says more members than it can hold");
	if (rc)
		return rc;
	z->entry = arena_new_n(a, struct zip_entry, (size_t)count + 1);
	for (; !rc && z->n < count; z->n += !rc)
		rc = zip_member(&r, &at, a, &z->entry[z->n]);
	for (size_t i = 0; !rc && i < z->n; i++)
		if (!strcmp(path_ext(z->entry[i].name), ".pkl"))
			rc = FAIL(d, E_INPUT_FORMAT,
				  .message = fmt(d, "%s is an archive of PyTorch, and no .npz file",
						 what),
				  .hint = fmt(d, "in Python: numpy.save('x.npy', torch.load('%s').numpy())",
					      what));
	return rc;
}

/*
 * Inflates up to n bytes. Returns the number of bytes. Sets *ended if the compressed stream ends
 * with these bytes.
 */
static size_t inflate_some(const struct zip_entry *e, void *to, size_t n, bool *ended)
{
	z_stream s = {0};
	size_t in = (size_t)e->packed, out = n;
	int rc = Z_OK;

	*ended = false;
	if (inflateInit2(&s, -MAX_WBITS) != Z_OK)
		return 0;
	s.next_in = (z_const Bytef *)(uintptr_t)e->data;
	s.next_out = to;
	while (rc == Z_OK && out) {
		uInt a = in < 1u << 30 ? (uInt)in : 1u << 30,
		     b = out < 1u << 30 ? (uInt)out : 1u << 30;
		s.avail_in = a;
		s.avail_out = b;
		rc = inflate(&s, Z_NO_FLUSH);
		in -= a - s.avail_in;
		out -= b - s.avail_out;
		if (a == s.avail_in && b == s.avail_out)
			break;
	}
	/*
	 * The end mark may not have been read yet. Room for one more byte shows whether data follow
	 * after the n bytes.
	 */
	if (rc == Z_OK && !out) {
		unsigned char spare;
		s.avail_in = in < 1u << 30 ? (uInt)in : 1u << 30;
		s.next_out = &spare;
		s.avail_out = 1;
		rc = inflate(&s, Z_NO_FLUSH);
		if (!s.avail_out)
			rc = Z_DATA_ERROR;
	}
	*ended = rc == Z_STREAM_END;
	inflateEnd(&s);
	return n - out;
}

size_t zip_peek(const struct zip_entry *e, void *to, size_t n)
{
	bool ended;

	if (e->deflated)
		return inflate_some(e, to, n, &ended);
	n = n < e->size ? n : (size_t)e->size;
	memcpy(to, e->data, n);
	return n;
}

int zip_read(const struct zip_entry *e, void *to, struct diag *d)
{
	bool ended = true;
	size_t got = (size_t)e->size;

	if (e->deflated)
		got = inflate_some(e, to, (size_t)e->size, &ended);
	else if (to != e->data)
		memcpy(to, e->data, got);
	if (got != e->size || !ended || crc32_z(crc32(0, NULL, 0), to, got) != e->crc)
		return FAIL(d, E_INPUT_FORMAT,
			    .message = fmt(d, "the archive's member '%s' is damaged", e->name));
	return 0;
}
