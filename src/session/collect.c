/* SPDX-License-Identifier: Apache-2.0 */
#include "session/collect.h"

#include "base/mem.h"
#include "base/str.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* What the steps have made of one output. */
struct gathered {
	enum by_step how;
	int axis; /* BY_STEP_JOIN: along which */
	struct type type;
	struct shape first;   /* the shape in the first step */
	int64_t *sizes;	      /* BY_STEP_JOIN: of the axis, by step */
	struct shape *shapes; /* BY_STEP_EACH: by step */
	char *data;	      /* the elements of all steps, one step behind the other */
	size_t bytes, room;
	void *joined; /* the elements in the order of the result */
};

struct collector {
	struct arena *arena;
	struct session *session;
	const struct graph *graph;
	struct gathered *output; /* by output of the graph */
	int64_t steps, room;	 /* room: of the lists of sizes */
};

/* ---- --by-step */

static bool parse_how(const char *text, struct gathered *o)
{
	static const char *const words[] = {"last", "stack", "join:", "each"};

	for (int i = 0; i < 4; i++) {
		if (i == BY_STEP_JOIN && str_starts(text, words[i])) {
			char *end;
			long axis = strtol(text + 5, &end, 10);
			o->how = BY_STEP_JOIN;
			o->axis = (int)axis;
			return text[5] && !*end && axis >= -MAX_RANK && axis < MAX_RANK;
		}
		if (!strcmp(text, words[i])) {
			o->how = (enum by_step)i;
			return true;
		}
	}
	return false;
}

static bool can_gather(const struct vinfo *v)
{
	return v->type.kind == V_NONE ||
	       (v->type.kind == V_TENSOR && v->type.dtype != DT_STRING &&
		(!v->type.dtype || dtype_bits((enum dtype)v->type.dtype) >= 8));
}

static int apply_text(struct collector *c, const char *text, struct diag *d)
{
	const char *eq = strrchr(text, '=');
	const char *pattern = eq ? arena_strn(c->arena, text, (size_t)(eq - text)) : "*";
	struct gathered parsed = {0};
	struct stars stars;
	bool any = false, is_name = false;

	if (!parse_how(eq ? eq + 1 : text, &parsed))
		return FAIL(d, E_STEPS, .slot = fmt(d, "--by-step %s", text),
			    .message = "it does not say what becomes of the steps' outputs",
			    .expected = "[OUT=]last, stack, join:AXIS or each",
			    .actual = fmt(d, "'%s'", text));
	for (uint32_t i = 0; i < c->graph->nout; i++)
		is_name |= eq && !strcmp(pattern, c->graph->out_name[i]);
	for (uint32_t i = 0; i < c->graph->nout; i++) {
		if (is_name ? strcmp(pattern, c->graph->out_name[i]) != 0
			    : !pattern_match(pattern, c->graph->out_name[i], &stars))
			continue;
		any = true;
		if (parsed.how != BY_STEP_LAST &&
		    !can_gather(&c->graph->value[c->graph->out[i]]->info)) {
			if (!eq)
				continue;
			return FAIL(d, E_STEPS, .slot = fmt(d, "--by-step %s", text),
				    .message = fmt(d, "output '%s' cannot be gathered",
						   c->graph->out_name[i]),
				    .expected = "a tensor of numbers of at least 8 bits");
		}
		c->output[i].how = parsed.how;
		c->output[i].axis = parsed.axis;
	}
	if (any)
		return 0;
	const char *near = str_nearest(pattern, c->graph->out_name, c->graph->nout);
	return FAIL(d, E_INPUT_NAME, .slot = fmt(d, "--by-step %s", text),
		    .message = fmt(d, "no output of the model matches '%s'", pattern),
		    .hint = near ? fmt(d, "did you mean '%s'?", near) : NULL);
}

/* A pattern may be followed by a name that it holds; the same words twice would contradict themselves. */
static int refuse_repeated(const struct texts *by_step, struct arena *a, struct diag *d)
{
	for (int64_t i = 1; i < by_step->n; i++)
		for (int64_t k = 0; k < i; k++) {
			const char *x = by_step->v[k].s, *y = by_step->v[i].s, *eq = strrchr(y, '=');
			size_t n = eq ? (size_t)(eq - y) + 1 : 0;
			if (eq ? strrchr(x, '=') == x + n - 1 && !strncmp(x, y, n) : !strchr(x, '='))
				return FAIL(d, E_STEPS, .slot = fmt(d, "--by-step %s", y),
					    .message = fmt(
						    d, "--by-step %s has said what becomes of it", x),
					    .hint = eq ? fmt(d, "give %s one --by-step",
							     arena_strn(a, y, n - 1))
						       : "give the outputs one --by-step");
		}
	return 0;
}

struct collector *collector_new(struct session *s, const struct stepper_request *r, struct arena *a,
				struct diag *d)
{
	struct collector *c = arena_new(a, struct collector);
	int rc = 0;

	c->arena = a;
	c->session = s;
	c->graph = session_model(s)->graph;
	c->output = arena_new_n(a, struct gathered, c->graph->nout + 1);
	/* a walk makes something of each piece; of a state, and of the scores of an id that is chosen, the last is wanted */
	for (uint32_t i = 0; r->steps->nslice && i < c->graph->nout; i++)
		if (can_gather(&c->graph->value[c->graph->out[i]]->info))
			c->output[i].how = BY_STEP_STACK;
	for (uint32_t k = 0; k < r->steps->nfeed; k++)
		c->output[r->steps->feed[k].out].how = BY_STEP_LAST;
	for (uint32_t k = 0; k < r->steps->nnext; k++)
		c->output[r->steps->next[k].out].how = BY_STEP_LAST;
	rc = refuse_repeated(&r->by_step, a, d);
	for (int64_t i = 0; !rc && i < r->by_step.n; i++)
		rc = apply_text(c, r->by_step.v[i].s, d);
	if (!rc)
		return c;
	collector_free(c);
	return NULL;
}

/* ---- gathering */

static int reserve(struct gathered *o, size_t bytes, struct diag *d)
{
	size_t need, more;

	if (!size_add(o->bytes, bytes, &need) || !size_mul(need, 2, &more))
		return FAIL(d, E_SIZE);
	if (need <= o->room)
		return 0;
	char *p = mem_alloc(more ? more : 1, MEM_STAGING);
	if (!p)
		return FAIL(d, E_MEMORY, .message = "no memory to gather the outputs of all steps",
			    .actual = fmt(d, "%zu bytes", more));
	if (o->bytes)
		memcpy(p, o->data, o->bytes);
	mem_free(o->data);
	o->data = p;
	o->room = more;
	return 0;
}

/* Whether the output of this step can go behind those of the steps before. */
static bool fits(const struct gathered *o, const struct shape *s)
{
	if (o->first.rank != s->rank)
		return false;
	for (int i = 0; i < s->rank; i++)
		if (o->first.dim[i] != s->dim[i] && !(o->how == BY_STEP_JOIN && i == o->axis))
			return false;
	return true;
}

static int fail_shape(const struct collector *c, uint32_t i, const struct shape *s, struct diag *d)
{
	const struct gathered *o = &c->output[i];
	const char *name = c->graph->out_name[i];

	return FAIL(
		d, E_STEPS, .slot = fmt(d, "output '%s'", name),
		.message = o->how == BY_STEP_STACK
				   ? "its shape changes, so that steps cannot be stacked"
				   : "its shape changes on another axis than the joined one",
		.expected = shape_str(&d->arena, &o->first, NULL),
		.actual = fmt(d, "%s in step %" PRId64, shape_str(&d->arena, s, NULL), c->steps + 1),
		.hint = fmt(d, "--by-step %s=join:AXIS joins along an axis, each keeps them apart",
			    name));
}

static int begin(const struct collector *c, uint32_t i, const struct tensor *t, struct diag *d)
{
	struct gathered *o = &c->output[i];
	int axis = o->how == BY_STEP_JOIN ? axis_of(o->axis, t->shape.rank) : 0;

	if (axis < 0 || t->type.kind != V_TENSOR || t->shape.rank == MAX_RANK)
		return FAIL(d, E_STEPS, .slot = fmt(d, "output '%s'", c->graph->out_name[i]),
			    .message = "its steps cannot be joined",
			    .expected = fmt(d, "a tensor with an axis %d", o->axis),
			    .actual = t->type.kind == V_TENSOR ? shape_str(&d->arena, &t->shape, NULL)
							       : type_str(&d->arena, t->type));
	o->axis = axis;
	o->type = t->type;
	o->first = t->shape;
	return 0;
}

static int gather(struct collector *c, uint32_t i, const struct tensor *t, struct diag *d)
{
	struct gathered *o = &c->output[i];
	int err = c->steps ? 0 : begin(c, i, t, d);

	if (err)
		return err;
	if (o->how != BY_STEP_EACH && !fits(o, &t->shape))
		return fail_shape(c, i, &t->shape, d);
	err = reserve(o, t->bytes, d);
	if (!err && t->bytes)
		err = t->device ? session_fetch(c->session, o->data + o->bytes, t, d)
				: (memcpy(o->data + o->bytes, t->data, t->bytes), 0);
	if (err)
		return err;
	o->bytes += t->bytes;
	if (o->how == BY_STEP_JOIN)
		o->sizes[c->steps] = t->shape.rank ? t->shape.dim[o->axis] : 1;
	if (o->how == BY_STEP_EACH)
		o->shapes[c->steps] = t->shape;
	return 0;
}

/* Returns a copy of a list with n elements of this size, with room for more of them, or NULL; frees the list. */
static void *grow_list(void *list, int64_t n, int64_t room, size_t size)
{
	void *more = mem_alloc((size_t)room * size, MEM_STAGING);

	if (more && n)
		memcpy(more, list, (size_t)n * size);
	mem_free(list);
	return more;
}

/* The lists of sizes of joined outputs, and of shapes of those that are kept by step, grow with the steps. */
static int grow_lists(struct collector *c, struct diag *d)
{
	int64_t room = c->room ? 2 * c->room : 64;
	bool grown = true;

	if (c->steps < c->room)
		return 0;
	for (uint32_t i = 0; i < c->graph->nout; i++) {
		struct gathered *o = &c->output[i];
		if (o->how == BY_STEP_JOIN)
			grown &= (o->sizes = grow_list(o->sizes, c->steps, room, sizeof(*o->sizes))) !=
				 NULL;
		if (o->how == BY_STEP_EACH)
			grown &= (o->shapes = grow_list(o->shapes, c->steps, room,
							sizeof(*o->shapes))) != NULL;
	}
	c->room = room;
	return grown ? 0 : FAIL(d, E_MEMORY);
}

int collector_add(struct collector *c, const struct tensor *const *out, struct diag *d)
{
	int err = grow_lists(c, d);

	for (uint32_t i = 0; !err && i < c->graph->nout; i++)
		if (c->output[i].how != BY_STEP_LAST)
			err = gather(c, i, out[i], d);
	c->steps += !err;
	return err;
}

bool collector_wants_last(const struct collector *c)
{
	for (uint32_t i = 0; i < c->graph->nout; i++)
		if (c->output[i].how != BY_STEP_LAST)
			return false;
	return true;
}

/* ---- results */

/* The number of outputs that are given: those behind them only feed steps. */
static uint32_t asked(const struct collector *c)
{
	return c->graph->nout - session_model(c->session)->nunasked;
}

size_t collector_count(const struct collector *c)
{
	size_t n = 0;

	for (uint32_t i = 0; i < asked(c); i++)
		n += c->output[i].how == BY_STEP_EACH ? (size_t)c->steps : 1;
	return n;
}

static struct tensor *result_of(struct collector *c, const struct gathered *o, struct shape shape,
				void *data, size_t bytes)
{
	struct tensor *t = arena_new(c->arena, struct tensor);

	*t = (struct tensor){.type = o->type, .shape = shape, .data = data, .bytes = bytes};
	return t;
}

/* Joins the steps, which lie one behind the other, along an axis that is not the first. */
static int join(const struct collector *c, struct gathered *o, int64_t total, struct diag *d)
{
	int64_t outer = shape_span(&o->first, 0, o->axis);
	size_t inner = (size_t)shape_span(&o->first, o->axis + 1, o->first.rank) *
		       (dtype_bits((enum dtype)o->type.dtype) / 8);
	const char *from = o->data;
	int64_t before = 0;

	o->joined = mem_alloc(o->bytes ? o->bytes : 1, MEM_STAGING);
	if (!o->joined)
		return FAIL(d, E_MEMORY);
	for (int64_t k = 0; k < c->steps; k++) {
		size_t piece = (size_t)o->sizes[k] * inner;
		for (int64_t i = 0; i < outer && piece; i++, from += piece)
			memcpy((char *)o->joined + (size_t)(i * total + before) * inner, from, piece);
		before += o->sizes[k];
	}
	return 0;
}

static int finish_one(struct collector *c, uint32_t i, struct step_output *to, struct diag *d)
{
	struct gathered *o = &c->output[i];
	struct shape shape = o->first;
	void *data = o->data;

	if (o->how == BY_STEP_STACK) {
		for (int k = shape.rank++; k > 0; k--)
			shape.dim[k] = shape.dim[k - 1];
		shape.dim[0] = c->steps;
	} else {
		int64_t total = 0;
		for (int64_t k = 0; k < c->steps; k++)
			total += o->sizes[k];
		int err = shape.rank && shape_span(&o->first, 0, o->axis) != 1 ? join(c, o, total, d)
									       : 0;
		if (err)
			return err;
		data = o->joined ? o->joined : o->data;
		if (!shape.rank)
			shape.rank = 1;
		shape.dim[o->axis] = total;
	}
	to->tensor = result_of(c, o, shape, data, o->bytes);
	return 0;
}

static void finish_each(struct collector *c, uint32_t i, struct step_output *to)
{
	struct gathered *o = &c->output[i];
	size_t at = 0, bytes;

	for (int64_t k = 0; k < c->steps; k++, at += bytes) {
		(void)tensor_bytes((enum dtype)o->type.dtype, &o->shapes[k], LAYOUT_ROW, &bytes);
		to[k].name = arena_printf(c->arena, "%s.%" PRId64, c->graph->out_name[i], k);
		to[k].tensor = result_of(c, o, o->shapes[k], o->data + at, bytes);
	}
}

static int finish_last(struct collector *c, uint32_t i, const struct tensor *last,
		       struct step_output *to, struct diag *d)
{
	struct gathered *o = &c->output[i];

	to->tensor = last;
	if (!last->device)
		return 0;
	o->type = last->type;
	o->joined = mem_alloc(last->bytes ? last->bytes : 1, MEM_STAGING);
	if (!o->joined)
		return FAIL(d, E_MEMORY);
	to->tensor = result_of(c, o, last->shape, o->joined, last->bytes);
	return last->bytes ? session_fetch(c->session, o->joined, last, d) : 0;
}

int collector_finish(struct collector *c, const struct tensor *const *last, struct step_output *to,
		     struct diag *d)
{
	int err = 0;

	for (uint32_t i = 0; !err && i < asked(c); i++) {
		to->name = c->graph->out_name[i];
		if (c->output[i].how == BY_STEP_EACH) {
			finish_each(c, i, to);
			to += c->steps;
			continue;
		}
		err = c->output[i].how == BY_STEP_LAST ? finish_last(c, i, last[i], to, d)
						       : finish_one(c, i, to, d);
		to++;
	}
	return err;
}

void collector_free(struct collector *c)
{
	for (uint32_t i = 0; c && i < c->graph->nout; i++) {
		mem_free(c->output[i].data);
		mem_free(c->output[i].sizes);
		mem_free(c->output[i].shapes);
		mem_free(c->output[i].joined);
	}
}
