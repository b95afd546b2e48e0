/* SPDX-License-Identifier: Apache-2.0 */
/* Opens libraries of operators: their tables become rows of the registry and kernels of the backends. */
#include "custom/custom.h"

#include "base/dl.h"
#include "custom/internal.h"
#include "session/backends.h"

#include <ctype.h>
#include <inttypes.h>
#include <string.h>

/* Lives as long as the program, as the registry and the backends refer to it. */
static struct arena forever;

/* A library that is being opened, and the operator of it that is looked at. */
struct opening {
	const char *path, *name;
	const char *op;
	struct diag *d;
};

static int unusable(const struct opening *x, const char *expected, const char *actual)
{
	return FAIL(x->d, E_LIBRARY, .slot = x->op ? fmt(x->d, "operator %s", x->op) : NULL,
		    .message = fmt(x->d, "the library of operators %s cannot be used", x->path),
		    .expected = expected, .actual = actual,
		    .hint = "infer/op.h says what a library of operators has to return");
}

static bool is_word(const char *text, const char *others)
{
	if (!text || !*text)
		return false;
	for (; *text; text++)
		if (!isalnum((unsigned char)*text) && !strchr(others, *text))
			return false;
	return true;
}

/* ---- tables ------------------------------------------------------------------------------------ */

enum { MAX_OPERANDS = 64, MAX_ATTRIBUTES = 256, MAX_PARAMS = 1 << 20 };

static const uint64_t known_types = T_NUMERIC_BF | T_BOOL;

static int convert_operands(const struct opening *x, const struct infer_operand *from,
			    const char *what, const struct slot **out)
{
	size_t n = 0;

	if (!from)
		return unusable(x, fmt(x->d, "a table of %s", what), "NULL");
	while (from[n].name && n <= MAX_OPERANDS)
		n++;
	if (n > MAX_OPERANDS)
		return unusable(
			x,
			fmt(x->d, "at most %d %s, and a NULL name behind them", MAX_OPERANDS, what),
			"more");
	struct slot *slots = arena_new_n(&forever, struct slot, n + 1);
	for (size_t i = 0; i < n; i++) {
		const struct infer_operand *p = &from[i];
		if (!is_word(p->name, "_") || !p->types || p->types & ~known_types)
			return unusable(x, fmt(x->d, "%s with a name and types of infer_type", what),
					fmt(x->d, "'%s', types %#" PRIx64, p->name, p->types));
		if (p->flags & INFER_VARIADIC && i + 1 < n)
			return unusable(x, "INFER_VARIADIC for the last operand only", p->name);
		slots[i] = (struct slot){.name = p->name,
					 .tvar = p->type_variable,
					 .types = p->types,
					 .optional = p->flags & INFER_OPTIONAL,
					 .variadic = p->flags & INFER_VARIADIC,
					 .dims = p->dims};
	}
	*out = slots;
	return 0;
}

/* How a type of attribute is stored: what infer calls it, and bytes and alignment of its member. */
static const struct storage {
	enum ftype type;
	size_t bytes, alignment;
	const char *fallback;
} storages[] = {
	[INFER_ATTR_INT] = {F_INT, sizeof(int64_t), _Alignof(int64_t), "0"},
	[INFER_ATTR_FLOAT] = {F_FLOAT, sizeof(float), _Alignof(float), "0"},
	[INFER_ATTR_STRING] = {F_STRING, sizeof(const char *), _Alignof(const char *), NULL},
	[INFER_ATTR_INTS] = {F_INTS, sizeof(struct ints), _Alignof(struct ints), NULL},
	[INFER_ATTR_FLOATS] = {F_FLOATS, sizeof(struct floats), _Alignof(struct floats), NULL},
};
_Static_assert(sizeof(struct infer_ints) == sizeof(struct ints) &&
		       offsetof(struct infer_ints, n) == offsetof(struct ints, n) &&
		       sizeof(struct infer_floats) == sizeof(struct floats) &&
		       offsetof(struct infer_floats, n) == offsetof(struct floats, n),
	       "lists of attributes have one form inside and outside");

static const struct storage *storage_of(const struct infer_attribute *p)
{
	return p->type >= INFER_ATTR_INT && p->type <= INFER_ATTR_FLOATS ? &storages[p->type] : NULL;
}

static int convert_attributes(const struct opening *x, const struct infer_op *op, struct op *row)
{
	const struct infer_attribute *from = op->attributes;
	size_t n = 0;

	while (from && from[n].name && n <= MAX_ATTRIBUTES)
		n++;
	if (n > MAX_ATTRIBUTES || op->params_size > MAX_PARAMS)
		return unusable(x,
				fmt(x->d, "at most %d attributes, and params of at most %d bytes",
				    MAX_ATTRIBUTES, MAX_PARAMS),
				fmt(x->d, "%s%zu, %zu bytes", n > MAX_ATTRIBUTES ? "more than " : "",
				    n > MAX_ATTRIBUTES ? n - 1 : n, op->params_size));
	struct field *fields = arena_new_n(&forever, struct field, n + 1);
	for (size_t i = 0; i < n; i++) {
		const struct infer_attribute *p = &from[i];
		const struct storage *s = storage_of(p);
		if (!is_word(p->name, "_") || !s)
			return unusable(x, "attributes with a name and a type of infer_attribute_type",
					fmt(x->d, "'%s', type %" PRId32, p->name, p->type));
		if (p->offset % s->alignment || op->params_size < s->bytes ||
		    p->offset > op->params_size - s->bytes)
			return unusable(x,
					fmt(x->d, "attribute '%s' inside the struct of %zu bytes",
					    p->name, op->params_size),
					fmt(x->d, "%zu bytes at offset %zu", s->bytes, p->offset));
		fields[i] =
			(struct field){.name = p->name,
				       .type = s->type,
				       .off = p->offset,
				       .def = p->fallback ? p->fallback : s->fallback,
				       .help = "",
				       .flags = FIELD_ANY_INT | (p->required ? FIELD_REQUIRED : 0)};
	}
	row->attrs = fields;
	row->params_size = op->params_size;
	void *probe = arena_alloc(&forever, op->params_size + 1);
	if (!field_defaults(fields, probe, &forever))
		return unusable(x, "a fallback that is a value of its attribute's type",
				"another text");
	return 0;
}

static int check_dims(const struct opening *x, const struct op *row)
{
	for (const struct slot *s = row->in; s->name; s++)
		if (s->dims && !dims_valid(row, s->dims))
			return unusable(
				x, fmt(x->d, "dimensions of '%s' as the header describes", s->name),
				fmt(x->d, "'%s'", s->dims));
	return 0;
}

static int check_head(const struct opening *x, const struct infer_op *op)
{
	if (!is_word(op->name, "_"))
		return unusable(x, "a name of letters, digits and _", op->name ? op->name : "NULL");
	if (!is_word(op->domain, "._-") || !strcmp(op->domain, "ai.onnx") ||
	    !strcmp(op->domain, "infer"))
		return unusable(x, "a domain of its own, such as com.example",
				op->domain ? fmt(x->d, "'%s'", op->domain) : "NULL");
	if (op->version < 1)
		return unusable(x, "a version of the domain, 1 or more",
				fmt(x->d, "%" PRId32, op->version));
	if (!op->shape || (!op->cpu && !op->cuda))
		return unusable(x, "shape(), and cpu() or cuda()",
				!op->shape ? "no shape()" : "neither cpu() nor cuda()");
	return 0;
}

/* ---- the library --------------------------------------------------------------------------------- */

static bool add_kernels(struct custom_op *c)
{
	static const struct kernel none = {0};

	for (int i = 0; i < BACKENDS; i++) {
		const struct backend *b = backends[i];
		bool host = i == HOST_BACKEND;
		if (host ? !c->def->cpu : !c->def->cuda || !b->stream_handle)
			continue;
		struct kernel *k = arena_dup(&forever, &none, sizeof(none));
		k->op = op_qualified(&c->row);
		k->reshape = custom_reshape;
		k->run = host ? custom_run_host : custom_run_device;
		k->flags = host					    ? K_REFERENCE
			   : c->def->flags & INFER_OP_LAUNCHES_ONLY ? 0
								    : K_NO_CAPTURE;
		if (!host)
			c->stream_handle = b->stream_handle;
		if (!backend_add_kernel(b, k))
			return false;
	}
	return true;
}

static int add_op(struct opening *x, const struct infer_op *op)
{
	x->op = NULL;
	int err = check_head(x, op);

	if (err)
		return err;
	x->op = arena_printf(&forever, "%s::%s", op->domain, op->name);
	struct custom_op *c = arena_new(&forever, struct custom_op);
	c->def = op;
	c->row = (struct op){.name = op->name,
			     .domain = op->domain,
			     .since = op->version,
			     .infer = custom_infer,
			     .flags = op->flags & INFER_OP_RANDOM ? OP_RANDOM : 0};
	err = convert_operands(x, op->inputs, "inputs", &c->row.in);
	err = err ? err : convert_operands(x, op->outputs, "outputs", &c->row.out);
	err = err ? err : convert_attributes(x, op, &c->row);
	err = err ? err : check_dims(x, &c->row);
	if (err)
		return err;
	if (!op_add(&c->row))
		return unusable(x, "an operator that this build and other libraries do not have",
				"a second one of this name");
	if (!add_kernels(c))
		return FAIL(x->d, E_INTERNAL, .op = x->op,
			    .message = "an operator was added after a model was opened");
	return 0;
}

static int open_library(const char *path, struct diag *d)
{
	static const struct dl_symbol symbols[] = {{"infer_op_library", true}};
	struct opening x = {.path = fmt(d, "%s", path), .d = d};
	infer_op_library_fn *entry;
	void *table[1];
	struct dl lib;
	int err = dl_open_file(&lib, path, symbols, table, 1, d);

	if (err)
		return err;
	memcpy(&entry, table, sizeof(entry));
	const struct infer_op_library *l = entry();
	if (!l)
		return unusable(&x, "a struct infer_op_library", "NULL");
	if (l->version != INFER_OP_VERSION)
		return unusable(&x, fmt(d, "version %d of infer/op.h", INFER_OP_VERSION),
				fmt(d, "version %" PRIu32, l->version));
	if (l->op_size != sizeof(struct infer_op))
		return unusable(&x,
				fmt(d, "operators of %zu bytes, as in version %d of infer/op.h",
				    sizeof(struct infer_op), INFER_OP_VERSION),
				fmt(d, "%" PRIu32 " bytes", l->op_size));
	if (!l->ops || !l->nops)
		return unusable(&x, "one operator or more", "none");
	for (uint32_t i = 0; i < l->nops && !err; i++)
		err = add_op(&x, &l->ops[i]);
	return err;
}

int custom_open(const struct texts *paths, struct diag *d)
{
	int err = 0;

	for (int64_t i = 0; i < paths->n && !err; i++)
		if (paths->v[i].n)
			err = open_library(paths->v[i].s, d);
	return err;
}
