/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/ml.h"

#include "base/hash.h"
#include "cpu/math/util.h"
#include "cpu/math/move.h"
#include "cpu/math/util.h"
#include "cpu/trees.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

/* ---- shared ----------------------------------------------------------------------------------------------- */

static float logistic(float x)
{
	float v = 1 / (1 + expf(-fabsf(x)));
	return x < 0 ? 1 - v : v;
}

/*
 * The probit function sqrt(2) * erfinv(2p - 1). Other runtimes use the same approximation of erfinv,
 * by Winitzki, so that results agree.
 */
static float probit(float p)
{
	float x = 2 * p - 1, sign = x < 0 ? -1.0f : 1.0f;
	float l = logf((1 - x) * (1 + x)), v = 2 / (3.14159f * 0.147f) + 0.5f * l;

	return 1.41421356f * sign * sqrtf(-v + sqrtf(v * v - l / 0.147f));
}

static void softmax(float *v, int64_t n, bool keep_zeros)
{
	float max = -INFINITY, sum = 0;

	for (int64_t i = 0; i < n; i++)
		max = fmaxf(max, v[i]);
	for (int64_t i = 0; i < n; i++) {
		if (keep_zeros && fabsf(v[i]) <= 0.0000001f) {
			v[i] *= expf(-max);
			continue;
		}
		v[i] = expf(v[i] - max);
		sum += v[i];
	}
	for (int64_t i = 0; i < n; i++)
		v[i] /= sum;
}

void post_apply(enum post_transform how, float *v, int64_t n)
{
	if (how == POST_SOFTMAX || how == POST_SOFTMAX_ZERO)
		softmax(v, n, how == POST_SOFTMAX_ZERO);
	for (int64_t i = 0; i < n && how == POST_LOGISTIC; i++)
		v[i] = logistic(v[i]);
	for (int64_t i = 0; i < n && how == POST_PROBIT; i++)
		v[i] = probit(v[i]);
}

void post_pair(enum post_transform how, float s, bool mixed, float *out)
{
	if (how == POST_PROBIT)
		s = probit(s);
	out[0] = mixed ? -s : 1 - s;
	out[1] = s;
	if (how == POST_LOGISTIC) {
		out[0] = logistic(-s);
		out[1] = logistic(s);
	}
}

void ml_rows(const struct tensor *x, int64_t *rows, int64_t *width)
{
	*rows = x->shape.rank < 2 ? 1 : x->shape.dim[0];
	*width = x->shape.rank ? x->shape.dim[x->shape.rank - 1] : 1;
}

int ml_labels(const struct call *c, const struct texts *strings, const struct ints *ints,
	      const int64_t *which, int64_t n)
{
	struct shape s = {.rank = 1, .dim = {n}};
	int err = 0;

	if (!c->out[0])
		return 0;
	for (int64_t i = 0; i < n; i++)
		if (which[i] < 0 || which[i] >= (strings->n > 0 ? strings->n : ints->n))
			return call_fail(c, E_OP_ATTRIBUTE, "a label for each class", NULL);
	if (strings->n > 0) {
		struct text *v = mem_alloc((size_t)n * sizeof(*v) + 1, MEM_WORKSPACE);
		for (int64_t i = 0; v && i < n; i++)
			v[i] = strings->v[which[i]];
		err = v ? move_pack(c, 0, DT_STRING, &s, v) : call_fail(c, E_MEMORY, NULL, NULL);
		mem_free(v);
		return err;
	}
	err = out_ready(c, 0, DT_I64, &s);
	for (int64_t i = 0; i < n && !err; i++)
		((int64_t *)c->out[0]->data)[i] = ints->v[which[i]];
	return err;
}

static void row_f32(const struct tensor *x, int64_t from, int64_t n, float *out)
{
	for (int64_t i = 0; i < n; i++)
		out[i] = (float)elem_f64(tensor_dtype(x), x->data, from + i);
}

static float dot_product(const float *a, const float *b, int64_t n)
{
	double sum = 0;

	for (int64_t i = 0; i < n; i++)
		sum += (double)a[i] * (double)b[i];
	return (float)sum;
}

static struct text text_from(const char *s)
{
	return (struct text){s, s ? strlen(s) : 0};
}

/* ---- ArrayFeatureExtractor, Binarizer, Scaler, Normalizer, Imputer, FeatureVectorizer ------------------------ */

static int extractor_core(struct mover *m)
{
	const struct call *c = m->call;
	const struct tensor *x = c->in[0];
	const int64_t *index = c->in[1]->data;
	int64_t n = tensor_count(c->in[1]), width = x->shape.dim[x->shape.rank - 1];
	int64_t rows = shape_span(&x->shape, 0, x->shape.rank - 1);
	char *y = move_out(m, 0, &c->out[0]->shape);

	for (int64_t i = 0; i < n; i++)
		if (index[i] < 0 || index[i] >= width)
			return call_fail(c, E_VALUE,
					 fmt(c->diag, "indices from 0 to %" PRId64, width - 1),
					 fmt(c->diag, "%" PRId64, index[i]));
	if (!rows || !n)
		return 0;
	if (!y)
		return -E_RUN;
	const char *from = move_in(m, 0);
	for (int64_t r = 0; r < rows; r++)
		for (int64_t i = 0; i < n; i++, y += m->size)
			copy_run(y, from + (size_t)(r * width + index[i]) * m->size, m->size);
	return 0;
}

static int extractor_run(const struct call *c)
{
	return move_run(c, 0, extractor_core);
}

static int binarizer_run(const struct call *c)
{
	const struct binarizer_params *p = call_params(c);
	const struct tensor *x = c->in[0];
	enum dtype t = tensor_dtype(x);

	for (int64_t i = 0, n = tensor_count(x); i < n; i++)
		elem_set_i64(t, c->out[0]->data, i, elem_f64(t, x->data, i) > (double)p->threshold);
	return 0;
}

static int scaler_run(const struct call *c)
{
	const struct scaler_params *p = call_params(c);
	const struct tensor *x = c->in[0];
	int64_t width = x->shape.rank ? x->shape.dim[x->shape.rank - 1] : 1;

	for (int64_t i = 0, n = tensor_count(x); i < n; i++) {
		int64_t k = i % width;
		float v = (float)elem_f64(tensor_dtype(x), x->data, i);
		v -= p->offset.n > 0 ? p->offset.v[p->offset.n > 1 ? k : 0] : 0;
		((float *)c->out[0]->data)[i] =
			v * (p->scale.n > 0 ? p->scale.v[p->scale.n > 1 ? k : 0] : 1);
	}
	return 0;
}

enum { NORM_MAX, NORM_L1, NORM_L2 };

static void normalize_row(int norm, float *y, int64_t n)
{
	float by = norm == NORM_MAX ? -INFINITY : 0;

	for (int64_t i = 0; i < n; i++)
		by = norm == NORM_MAX  ? greatest_f32(by, y[i])
		     : norm == NORM_L1 ? by + fabsf(y[i])
				       : by + y[i] * y[i];
	if (by == 0)
		return;
	if (norm == NORM_L2)
		by = sqrtf(by);
	for (int64_t i = 0; i < n; i++)
		y[i] /= by;
}

static int normalizer_run(const struct call *c)
{
	const struct normalizer_params *p = call_params(c);
	int64_t rows, width;
	float *y = c->out[0]->data;

	ml_rows(c->in[0], &rows, &width);
	for (int64_t r = 0; r < rows; r++, y += width) {
		row_f32(c->in[0], r * width, width, y);
		normalize_row(p->norm, y, width);
	}
	return 0;
}

static int imputer_run(const struct call *c)
{
	const struct imputer_params *p = call_params(c);
	const struct tensor *x = c->in[0];
	enum dtype t = tensor_dtype(x);
	bool is_float = dtype_class(t) == DT_FLOAT, nan = isnan(p->replaced_value_float);
	int64_t width = x->shape.rank ? x->shape.dim[x->shape.rank - 1] : 1;
	const struct floats *f = &p->imputed_value_floats;
	const struct ints *n = &p->imputed_value_int64s;

	for (int64_t i = 0, total = tensor_count(x); i < total; i++) {
		if (is_float) {
			double v = elem_f64(t, x->data, i);
			bool hit = nan ? isnan(v) : v == (double)p->replaced_value_float;
			elem_set_f64(t, c->out[0]->data, i,
				     hit ? (double)f->v[f->n > 1 ? i % width : 0] : v);
		} else {
			int64_t v = elem_i64(t, x->data, i);
			bool hit = v == p->replaced_value_int64;
			elem_set_i64(t, c->out[0]->data, i, hit ? n->v[n->n > 1 ? i % width : 0] : v);
		}
	}
	return 0;
}

static int feature_run(const struct call *c)
{
	const struct feature_params *p = call_params(c);
	const struct shape *s = &c->out[0]->shape;
	float *y = c->out[0]->data;
	int64_t at = 0;

	memset(y, 0, (size_t)shape_count(s) * sizeof(*y));
	for (uint32_t i = 0; i < c->step->node->nin; i++) {
		const struct tensor *x = c->in[i];
		int64_t rows = s->dim[0], have = rows ? tensor_count(x) / rows : 0;
		int64_t width = p->inputdimensions.n > i ? p->inputdimensions.v[i] : have;
		for (int64_t r = 0; r < rows; r++)
			row_f32(x, r * have, have < width ? have : width, y + r * s->dim[1] + at);
		at += width;
	}
	return 0;
}

/* ---- lookups: LabelEncoder, CategoryMapper, OneHotEncoder ------------------------------------------------------ */

struct lookup {
	struct map map;	 /* maps the bytes of a key to the position of the key */
	enum dtype type; /* of the keys */
};

/*
 * Returns the bytes of element i for use as a key; equal elements have equal bytes. The bytes of a
 * number are written to buf, which holds 8 bytes; a string is returned without a copy.
 */
static const char *key_bytes(const struct tensor *x, int64_t i, char *buf, size_t *n)
{
	enum dtype t = tensor_dtype(x);

	if (t == DT_STRING)
		return tensor_string(x, i, n);
	*n = 8;
	if (dtype_class(t) == DT_FLOAT) {
		double v = elem_f64(t, x->data, i) + 0.0; /* turns -0 into 0 */
		v = isnan(v) ? (double)NAN : v;
		memcpy(buf, &v, 8);
	} else {
		int64_t v = elem_i64(t, x->data, i);
		memcpy(buf, &v, 8);
	}
	return buf;
}

static int64_t lookup_find(const struct lookup *l, const struct tensor *x, int64_t i)
{
	char buf[8];
	size_t n;
	const char *key = key_bytes(x, i, buf, &n);

	return map_get(&l->map, key, n);
}

static void lookup_fill(struct lookup *l, struct arena *a, const struct tensor *keys)
{
	l->map.arena = a;
	for (int64_t i = 0, n = tensor_count(keys); i < n; i++) {
		char buf[8];
		size_t len;
		const char *key = key_bytes(keys, i, buf, &len);
		map_set(&l->map, arena_dup(a, key, len ? len : 1), len, (uint32_t)i);
	}
}

static struct tensor *list_tensor(struct arena *a, enum dtype t, int64_t n, const void *data)
{
	struct shape s = {.rank = 1, .dim = {n}};
	return move_tensor(a, t, &s, data);
}

/*
 * Returns the list that the attributes contain as a tensor. If several lists may be present, `t`
 * selects the element type; with DT_NONE the first list counts. Returns NULL if there is no such
 * list.
 */
static struct tensor *attribute_list(struct arena *a, enum dtype t, const struct texts *s,
				     const struct ints *i, const struct floats *f)
{
	if (s->n >= 0 && (t == DT_NONE || t == DT_STRING))
		return list_tensor(a, DT_STRING, s->n, s->v);
	if (i->n >= 0 && (t == DT_NONE || t == DT_I64))
		return list_tensor(a, DT_I64, i->n, i->v);
	if (f && f->n >= 0 && (t == DT_NONE || t == DT_F32))
		return list_tensor(a, DT_F32, f->n, f->v);
	return NULL;
}

struct encoder {
	struct lookup keys;
	const struct tensor *values; /* the value of each key, at the position of the key */
	const struct tensor *other;  /* one value, for keys that are not found */
};

static struct tensor *single_value(struct arena *a, enum dtype t, double number, int64_t integer,
				   const char *string)
{
	struct text s = text_from(string);
	struct tensor *x =
		list_tensor(a, t == DT_STRING ? DT_STRING : t, 1,
			    t == DT_STRING ? (const void *)&s : "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0");

	if (x && t != DT_STRING) {
		if (dtype_class(t) == DT_FLOAT)
			elem_set_f64(t, x->data, 0, number);
		else
			elem_set_i64(t, x->data, 0, integer);
	}
	return x;
}

static int label_reshape(struct site *s, struct step *st, struct diag *d)
{
	const struct label_params *p = site_params(s);
	struct encoder *e = arena_new(s->plan_arena, struct encoder);
	enum dtype t = (enum dtype)site_in(s, 0)->type.dtype;
	const struct tensor *keys =
		p->keys_tensor && tensor_dtype(p->keys_tensor) == t ? p->keys_tensor : NULL;

	if (!keys)
		keys = attribute_list(s->plan_arena, t, &p->keys_strings, &p->keys_int64s,
				      &p->keys_floats);
	e->values = attribute_list(s->plan_arena, DT_NONE, &p->values_strings, &p->values_int64s,
				   &p->values_floats);
	if (!e->values)
		e->values = p->values_tensor;
	if (!keys || !e->values)
		return site_fail(s, d, E_OP_ATTRIBUTE, "keys_* of X's type and values_*", NULL);
	enum dtype v = tensor_dtype(e->values);
	e->other = p->default_tensor;
	if (!e->other && p->values_tensor)
		e->other = single_value(s->plan_arena, v, -0.0, -1, "_Unused");
	if (!e->other)
		e->other = single_value(s->plan_arena, v, (double)p->default_float,
					p->default_int64, p->default_string);
	lookup_fill(&e->keys, s->plan_arena, keys);
	st->state = e;
	return 0;
}

static int category_reshape(struct site *s, struct step *st, struct diag *d)
{
	const struct category_params *p = site_params(s);
	struct encoder *e = arena_new(s->plan_arena, struct encoder);
	struct tensor *strings =
		list_tensor(s->plan_arena, DT_STRING, p->cats_strings.n, p->cats_strings.v);
	struct tensor *ints = list_tensor(s->plan_arena, DT_I64, p->cats_int64s.n, p->cats_int64s.v);
	bool from_string = site_in(s, 0)->type.dtype == DT_STRING;

	(void)d;
	e->values = from_string ? ints : strings;
	e->other = single_value(s->plan_arena, tensor_dtype(e->values), 0, p->default_int64,
				p->default_string);
	lookup_fill(&e->keys, s->plan_arena, from_string ? strings : ints);
	st->state = e;
	return 0;
}

static int encode_run(const struct call *c)
{
	const struct encoder *e = c->step->state;
	const struct tensor *x = c->in[0];
	enum dtype t = tensor_dtype(e->values);
	int64_t n = tensor_count(x);
	size_t size = move_size(t);
	char *all = mem_alloc((size_t)n * size + 1, MEM_WORKSPACE);

	if (!all)
		return call_fail(c, E_MEMORY, NULL, NULL);
	for (int64_t i = 0; i < n; i++) {
		int64_t k = lookup_find(&e->keys, x, i);
		const struct tensor *from = k < 0 ? e->other : e->values;
		k = k < 0 ? 0 : k;
		if (t == DT_STRING) {
			struct text *to = (struct text *)(void *)all + i;
			to->s = tensor_string(from, k, &to->n);
		} else {
			copy_run(all + (size_t)i * size,
				 (const char *)from->data + (size_t)k * size, size);
		}
	}
	int err = move_pack(c, 0, t, &x->shape, all);
	mem_free(all);
	return err;
}

static int one_hot_reshape(struct site *s, struct step *st, struct diag *d)
{
	const struct one_hot_encoder_params *p = site_params(s);
	struct lookup *l = arena_new(s->plan_arena, struct lookup);

	(void)d;
	lookup_fill(l, s->plan_arena,
		    attribute_list(s->plan_arena, DT_NONE, &p->cats_strings, &p->cats_int64s, NULL));
	st->state = l;
	return 0;
}

static int one_hot_run(const struct call *c)
{
	const struct one_hot_encoder_params *p = call_params(c);
	const struct lookup *l = c->step->state;
	const struct tensor *x = c->in[0];
	int64_t n = tensor_count(x), width = c->out[0]->shape.dim[c->out[0]->shape.rank - 1];
	enum dtype t = tensor_dtype(x);
	float *y = c->out[0]->data;

	memset(y, 0, (size_t)(n * width) * sizeof(*y));
	for (int64_t i = 0; i < n; i++, y += width) {
		int64_t k;
		if (t == DT_STRING) {
			k = lookup_find(l, x, i);
		} else { /* floats are truncated to integers */
			int64_t v = dtype_class(t) == DT_FLOAT ? (int64_t)elem_f64(t, x->data, i)
							       : elem_i64(t, x->data, i);
			k = map_get(&l->map, (const char *)&v, sizeof(v));
		}
		if (k >= 0)
			y[k] = 1;
		else if (!p->zeros)
			return call_fail(c, E_VALUE, "a known category",
					 fmt(c->diag, "element %" PRId64, i));
	}
	return 0;
}

/* ---- maps: CastMap, DictVectorizer, ZipMap ------------------------------------------------------------------------ */

static struct text number_text(struct arena *a, double v)
{
	return text_from(arena_printf(a, "%.9g", v));
}

/* Converts entry k of a map's values to the output's type t and writes it to `to`. */
static void cast_value(struct arena *a, const struct tensor *values, int64_t k, enum dtype t, char *to)
{
	enum dtype from = tensor_dtype(values);

	if (t == DT_STRING) {
		struct text s;
		if (from == DT_STRING)
			s.s = tensor_string(values, k, &s.n);
		else
			s = number_text(a, elem_f64(from, values->data, k));
		memcpy(to, &s, sizeof(s));
		return;
	}
	double v;
	if (from == DT_STRING) {
		size_t n;
		const char *s = tensor_string(values, k, &n);
		v = strtod(arena_strn(a, s, n), NULL);
	} else {
		v = elem_f64(from, values->data, k);
	}
	elem_set_f64(t, to, 0, v);
}

static int cast_map_run(const struct call *c)
{
	const struct cast_map_params *p = call_params(c);
	const struct tensor *x = c->in[0];
	enum dtype t = p->cast_to == 0 ? DT_F32 : p->cast_to == 1 ? DT_STRING : DT_I64;

	if (x->type.kind != V_MAP || x->nitems != 2 || tensor_dtype(x->items[0]) != DT_I64)
		return call_fail(c, E_TYPE, "a map with int64 keys", NULL);
	const int64_t *keys = x->items[0]->data;
	int64_t n = tensor_count(x->items[0]), length = p->map_form ? p->max_map : n;
	struct shape s = {.rank = 2, .dim = {1, length}};
	struct arena a = {0};
	size_t size = move_size(t);
	char *all = arena_array(&a, (size_t)length + 1, size);
	int err = 0;
	for (int64_t k = 0; k < n && !err; k++) {
		int64_t at = 0;
		for (int64_t j = 0; j < n && !p->map_form; j++)
			at += keys[j] < keys[k] || (keys[j] == keys[k] && j < k);
		if (p->map_form)
			at = keys[k];
		if (at < 0 || at >= length)
			err = call_fail(c, E_VALUE,
					fmt(c->diag, "keys from 0 to %" PRId64, length - 1),
					fmt(c->diag, "%" PRId64, at));
		else
			cast_value(&a, x->items[1], k, t, all + (size_t)at * size);
	}
	if (!err)
		err = move_pack(c, 0, t, &s, all);
	arena_free(&a);
	return err;
}

static int dict_reshape(struct site *s, struct step *st, struct diag *d)
{
	const struct dict_params *p = site_params(s);
	struct lookup *l = arena_new(s->plan_arena, struct lookup);

	(void)d;
	lookup_fill(l, s->plan_arena,
		    attribute_list(s->plan_arena, DT_NONE, &p->string_vocabulary,
				   &p->int64_vocabulary, NULL));
	st->state = l;
	return 0;
}

static int dict_run(const struct call *c)
{
	const struct dict_params *p = call_params(c);
	const struct lookup *l = c->step->state;
	const struct tensor *x = c->in[0];
	int64_t length = p->string_vocabulary.n >= 0 ? p->string_vocabulary.n : p->int64_vocabulary.n;
	struct shape s = {.rank = 2, .dim = {1, length}};

	if (x->type.kind != V_MAP || x->nitems != 2)
		return call_fail(c, E_TYPE, "a map", NULL);
	enum dtype t = tensor_dtype(x->items[1]);
	size_t size = move_size(t);
	char *all = mem_zalloc((size_t)length * size + 1, MEM_WORKSPACE);
	if (!all)
		return call_fail(c, E_MEMORY, NULL, NULL);
	for (int64_t k = 0, n = tensor_count(x->items[0]); k < n; k++) {
		int64_t at = lookup_find(l, x->items[0], k);
		if (at < 0)
			continue;
		if (t == DT_STRING) {
			struct text *to = (struct text *)(void *)all + at;
			to->s = tensor_string(x->items[1], k, &to->n);
		} else {
			copy_run(all + (size_t)at * size,
				 (const char *)x->items[1]->data + (size_t)k * size, size);
		}
	}
	int err = move_pack(c, 0, t, &s, all);
	mem_free(all);
	return err;
}

static int zip_map_run(const struct call *c)
{
	const struct zip_map_params *p = call_params(c);
	struct tensor *y = c->out[0];
	struct type t = y->type;
	struct arena *a = call_values(c, 0);
	int64_t rows, width;
	struct shape s = {.rank = 1};

	ml_rows(c->in[0], &rows, &width);
	s.dim[0] = width;
	*y = (struct tensor){.type = t, .arena = a, .nitems = (size_t)rows};
	y->items = arena_new_n(a, struct tensor *, (size_t)rows + 1);
	struct tensor *keys =
		attribute_list(a, DT_NONE, &p->classlabels_strings, &p->classlabels_int64s, NULL);
	for (int64_t r = 0; r < rows; r++) {
		struct tensor *m = arena_new(a, struct tensor);
		*m = (struct tensor){.type = {.kind = V_MAP, .dtype = t.dtype, .key = t.key},
				     .arena = a,
				     .nitems = 2};
		m->items = arena_new_n(a, struct tensor *, 2);
		m->items[0] = tensor_copy(a, keys);
		m->items[1] = move_tensor(a, DT_F32, &s, (const float *)c->in[0]->data + r * width);
		y->items[r] = m;
	}
	return 0;
}

/* ---- LinearClassifier, LinearRegressor --------------------------------------------------------------------------- */

static void linear_scores(const struct linear_params *p, const float *x, int64_t width, int64_t n,
			  float *out)
{
	for (int64_t k = 0; k < n; k++)
		out[k] = dot_product(x, p->coefficients.v + k * width, width) +
			 (p->intercepts.n > k ? p->intercepts.v[k] : 0);
}

static int linear_width(const struct call *c, int64_t n, int64_t width)
{
	const struct linear_params *p = call_params(c);

	return p->coefficients.n == n * width
		       ? 0
		       : call_fail(c, E_SHAPE,
				   fmt(c->diag, "%" PRId64 " features", n ? p->coefficients.n / n : 0),
				   fmt(c->diag, "%" PRId64, width));
}

/*
 * Allocates one block for the labels of all rows, the scores of one row (*out) and the features of
 * one row, which is returned. The caller frees *label, the start of the block.
 */
static float *alloc_row_buffers(int64_t width, int64_t scores, int64_t rows, int64_t **label,
				float **out)
{
	size_t n =
		(size_t)(rows + 1) * sizeof(int64_t) + (size_t)(width + scores + 2) * sizeof(float);
	char *p = mem_alloc(n, MEM_WORKSPACE);

	if (!p)
		return NULL;
	*label = (int64_t *)(void *)p;
	*out = (float *)(void *)(*label + rows + 1);
	return *out + scores + 2;
}

static int linear_classifier_run(const struct call *c)
{
	const struct linear_params *p = call_params(c);
	bool strings = p->classlabels_strings.n > 0;
	int64_t labels = strings ? p->classlabels_strings.n : p->classlabels_ints.n, rows, width,
		*label;
	int64_t n = p->intercepts.n > 0 ? p->intercepts.n : labels;
	struct tensor *z = c->step->nout > 1 ? c->out[1] : NULL;
	bool pair = n == 1 && labels == 2;
	struct shape s = {.rank = 2};
	float *out;

	ml_rows(c->in[0], &rows, &width);
	int err = linear_width(c, n, width);
	s.dim[0] = rows;
	s.dim[1] = pair ? 2 : n;
	if (!err && z)
		err = out_ready(c, 1, DT_F32, &s);
	if (err)
		return err;
	float *x = alloc_row_buffers(width, s.dim[1], rows, &label, &out);
	if (!x)
		return call_fail(c, E_MEMORY, NULL, NULL);
	for (int64_t r = 0; r < rows; r++) {
		row_f32(c->in[0], r * width, width, x);
		linear_scores(p, x, width, n, out);
		label[r] = n > 1 ? ml_best(out, n) : out[0] > 0 && labels > 1;
		if (pair)
			post_pair((enum post_transform)p->post_transform, out[0], false, out);
		else
			post_apply((enum post_transform)p->post_transform, out, n);
		if (z)
			memcpy((float *)z->data + r * s.dim[1], out, (size_t)s.dim[1] * sizeof(float));
	}
	err = ml_labels(c, &p->classlabels_strings, &p->classlabels_ints, label, rows);
	mem_free(label);
	return err;
}

static int linear_regressor_run(const struct call *c)
{
	const struct linear_params *p = call_params(c);
	int64_t rows, width, *label;
	float *out, *y = c->out[0]->data;

	ml_rows(c->in[0], &rows, &width);
	int err = linear_width(c, p->targets, width);
	if (err)
		return err;
	float *x = alloc_row_buffers(width, 0, 0, &label, &out);
	if (!x)
		return call_fail(c, E_MEMORY, NULL, NULL);
	for (int64_t r = 0; r < rows; r++, y += p->targets) {
		row_f32(c->in[0], r * width, width, x);
		linear_scores(p, x, width, p->targets, y);
		if (p->targets > 1 || p->post_transform == POST_PROBIT)
			post_apply((enum post_transform)p->post_transform, y, p->targets);
	}
	mem_free(label);
	return 0;
}

/* ---- SVMClassifier, SVMRegressor ------------------------------------------------------------------------------------ */

static float svm_kernel(const struct svm_params *p, const float *a, const float *b, int64_t n, int type)
{
	float gamma = p->kernel_params.n > 0 ? p->kernel_params.v[0] : 0;
	float coef0 = p->kernel_params.n > 1 ? p->kernel_params.v[1] : 0;
	float degree = p->kernel_params.n > 2 ? p->kernel_params.v[2] : 0;

	if (type == SVM_RBF) {
		double sum = 0;
		for (int64_t i = 0; i < n; i++)
			sum += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
		return expf(-gamma * (float)sum);
	}
	float v = dot_product(a, b, n);
	if (type == SVM_POLY)
		return powf(gamma * v + coef0, degree);
	return type == SVM_SIGMOID ? tanhf(gamma * v + coef0) : v;
}

struct svm {
	const struct svm_params *p;
	int64_t classes, vectors, width, pairs;
	bool prob;
	float *k;    /* kernel value of each support vector */
	float *pair; /* decision value of each pair of classes */
	int64_t *votes;
	/* scratch of estimate_probabilities: matrix Q, vector Qp and the class probabilities */
	double *q, *qp, *est;
};

/* One-versus-one classification: each pair of classes gets a decision value and gives one vote. */
static void compute_decisions(const struct svm *v, const float *x)
{
	const struct svm_params *p = v->p;
	int64_t at = 0, si = 0;

	for (int64_t m = 0; m < v->vectors; m++)
		v->k[m] = svm_kernel(p, x, p->support_vectors.v + m * v->width, v->width,
				     p->kernel_type);
	memset(v->votes, 0, (size_t)v->classes * sizeof(*v->votes));
	for (int64_t i = 0; i < v->classes; i++) {
		int64_t sj = si + p->vectors_per_class.v[i];
		for (int64_t j = i + 1; j < v->classes; j++) {
			double sum = 0;
			for (int64_t m = 0; m < p->vectors_per_class.v[i]; m++)
				sum += (double)p->coefficients.v[(j - 1) * v->vectors + si + m] *
				       (double)v->k[si + m];
			for (int64_t m = 0; m < p->vectors_per_class.v[j]; m++)
				sum += (double)p->coefficients.v[i * v->vectors + sj + m] *
				       (double)v->k[sj + m];
			sum += (double)p->rho.v[at];
			v->pair[at++] = (float)sum;
			v->votes[sum > 0 ? i : j]++;
			sj += p->vectors_per_class.v[j];
		}
		si += p->vectors_per_class.v[i];
	}
}

/*
 * Computes class probabilities from the pairwise probabilities r: the second method of Wu, Lin and
 * Weng ("Probability Estimates for Multi-class Classification by Pairwise Coupling"), solved by
 * fixed-point iteration.
 */
static void estimate_probabilities(const struct svm *v, const double *r)
{
	int64_t n = v->classes;
	double eps = 0.005 / (double)n, *q = v->q, *qp = v->qp, *p = v->est;

	for (int64_t t = 0; t < n; t++) {
		p[t] = 1.0 / (double)n;
		q[t * n + t] = 0;
		for (int64_t j = 0; j < n; j++) {
			if (j == t)
				continue;
			q[t * n + t] += r[j * n + t] * r[j * n + t];
			q[t * n + j] = -r[j * n + t] * r[t * n + j];
		}
	}
	for (int turn = 0; turn < 100; turn++) {
		double pqp = 0, worst = 0;
		for (int64_t t = 0; t < n; t++) {
			qp[t] = 0;
			for (int64_t j = 0; j < n; j++)
				qp[t] += q[t * n + j] * p[j];
			pqp += p[t] * qp[t];
		}
		for (int64_t t = 0; t < n; t++)
			worst = fmax(worst, fabs(qp[t] - pqp));
		if (worst < eps)
			break;
		for (int64_t t = 0; t < n; t++) {
			double diff = (pqp - qp[t]) / q[t * n + t];
			p[t] += diff;
			pqp = (pqp + diff * (diff * q[t * n + t] + 2 * qp[t])) / (1 + diff) /
			      (1 + diff);
			for (int64_t j = 0; j < n; j++) {
				qp[j] = (qp[j] + diff * q[t * n + j]) / (1 + diff);
				p[j] /= 1 + diff;
			}
		}
	}
}

static void compute_probabilities(const struct svm *v, double *r)
{
	int64_t at = 0, n = v->classes;

	for (int64_t i = 0; i < n; i++) {
		for (int64_t j = i + 1; j < n; j++, at++) {
			float s = 1 - logistic(v->pair[at] * v->p->prob_a.v[at] + v->p->prob_b.v[at]);
			/* NaN stays NaN, of which the iteration makes equal probabilities; fmaxf would make a certainty of it */
			s = s < 1e-7f ? 1e-7f : s > 1 - 1e-7f ? 1 - 1e-7f : s;
			r[i * n + j] = (double)s;
			r[j * n + i] = (double)(1 - s);
		}
	}
	estimate_probabilities(v, r);
}

static int64_t most_votes(const struct svm *v)
{
	int64_t best = 0;

	for (int64_t i = 1; i < v->classes; i++)
		if (v->votes[i] > v->votes[best])
			best = i;
	return best;
}

/* Computes the scores of one row and returns the index of its class. */
static int64_t svm_classify(const struct svm *v, const float *x, double *r, float *out)
{
	const struct svm_params *p = v->p;
	enum post_transform post = (enum post_transform)p->post_transform;
	int64_t n = v->classes, best;

	if (!v->vectors) { /* linear model: one weight per class and feature */
		bool positive = true;
		for (int64_t i = 0; i < p->coefficients.n; i++)
			positive &= p->coefficients.v[i] >= 0;
		for (int64_t i = 0; i < n; i++)
			out[i] = dot_product(x, p->coefficients.v + i * v->width, v->width) +
				 p->rho.v[0];
		best = ml_best(out, n);
		if (n == 2 && !v->prob && (positive ? out[best] >= 0.5f : out[best] > 0))
			best = 1;
		post_apply(post, out, n);
		return best;
	}
	compute_decisions(v, x);
	best = most_votes(v);
	if (v->prob) {
		compute_probabilities(v, r);
		for (int64_t i = 0; i < n; i++)
			out[i] = (float)v->est[i];
		post_apply(post, out, n);
	} else if (n <= 2) {
		post_pair(post, v->pair[0], post == POST_NONE, out);
	} else {
		memcpy(out, v->pair, (size_t)v->pairs * sizeof(float));
		post_apply(post, out, v->pairs);
	}
	return best;
}

static int64_t total_vectors(const struct svm_params *p)
{
	int64_t n = 0;

	for (int64_t i = 0; i < p->vectors_per_class.n; i++)
		n += p->vectors_per_class.v[i];
	return n;
}

static int svm_rows(const struct call *c, struct svm *v, const struct tensor *x, int64_t rows,
		    int64_t scores, struct arena *a)
{
	struct tensor *z = c->step->nout > 1 ? c->out[1] : NULL;
	int64_t n = v->classes, *label = arena_new_n(a, int64_t, (size_t)rows + 1);
	float *row = arena_new_n(a, float, (size_t)v->width + 1),
	      *out = arena_new_n(a, float, (size_t)(scores + 2));
	double *r = arena_new_n(a, double, (size_t)(n * n + 1));
	struct shape s = {.rank = 2, .dim = {rows, scores}};
	int err = z ? out_ready(c, 1, DT_F32, &s) : 0;

	v->k = arena_new_n(a, float, (size_t)v->vectors + 1);
	v->pair = arena_new_n(a, float, (size_t)v->pairs + 1);
	v->votes = arena_new_n(a, int64_t, (size_t)n);
	v->q = arena_new_n(a, double, (size_t)(n * n));
	v->qp = arena_new_n(a, double, (size_t)n);
	v->est = arena_new_n(a, double, (size_t)n);
	for (int64_t i = 0; i < rows && !err; i++) {
		row_f32(x, i * v->width, v->width, row);
		label[i] = svm_classify(v, row, r, out);
		if (z)
			memcpy((float *)z->data + i * scores, out, (size_t)scores * sizeof(float));
	}
	return err ? err
		   : ml_labels(c, &v->p->classlabels_strings, &v->p->classlabels_ints, label, rows);
}

static int svm_classifier_run(const struct call *c)
{
	const struct svm_params *p = call_params(c);
	struct svm v = {.p = p, .prob = p->prob_a.n > 0, .vectors = total_vectors(p)};
	int64_t rows, width;
	struct arena a = {0};

	v.classes = p->classlabels_strings.n > 0 ? p->classlabels_strings.n : p->classlabels_ints.n;
	v.pairs = v.classes * (v.classes - 1) / 2;
	v.width = v.vectors ? p->support_vectors.n / v.vectors : p->coefficients.n / v.classes;
	ml_rows(c->in[0], &rows, &width);
	if (width != v.width)
		return call_fail(c, E_SHAPE, fmt(c->diag, "%" PRId64 " features", v.width),
				 fmt(c->diag, "%" PRId64, width));
	int64_t scores = !v.vectors || v.prob ? v.classes : v.classes > 2 ? v.pairs : 2;
	int err = svm_rows(c, &v, c->in[0], rows, scores, &a);
	arena_free(&a);
	return err;
}

static int svm_regressor_run(const struct call *c)
{
	const struct svm_params *p = call_params(c);
	int64_t rows, width, *label, n = p->n_supports > 0 ? p->n_supports : 0;
	int64_t want = n ? p->support_vectors.n / n : p->coefficients.n;
	float *out, *y = c->out[0]->data;

	ml_rows(c->in[0], &rows, &width);
	if (width != want)
		return call_fail(c, E_SHAPE, fmt(c->diag, "%" PRId64 " features", want),
				 fmt(c->diag, "%" PRId64, width));
	float *x = alloc_row_buffers(width, 0, 0, &label, &out);
	if (!x)
		return call_fail(c, E_MEMORY, NULL, NULL);
	for (int64_t r = 0; r < rows; r++) {
		double sum = (double)p->rho.v[0];
		row_f32(c->in[0], r * width, width, x);
		for (int64_t m = 0; m < n; m++)
			sum += (double)p->coefficients.v[m] *
			       (double)svm_kernel(p, x, p->support_vectors.v + m * width, width,
						  p->kernel_type);
		if (!n)
			sum += (double)svm_kernel(p, x, p->coefficients.v, width, SVM_LINEAR);
		y[r] = p->one_class ? (sum > 0 ? 1.0f : -1.0f) : (float)sum;
		if (!p->one_class && p->post_transform == POST_PROBIT)
			y[r] = probit(y[r]);
	}
	mem_free(label);
	return 0;
}

#define ML(name_) .op = "ai.onnx.ml::" name_, .flags = K_REFERENCE
const struct kernel cpu_ml[] = {
	{ML("ArrayFeatureExtractor"), .run = extractor_run},
	{ML("Binarizer"), .run = binarizer_run},
	{ML("CastMap"), .run = cast_map_run},
	{ML("CategoryMapper"), .reshape = category_reshape, .run = encode_run},
	{ML("DictVectorizer"), .reshape = dict_reshape, .run = dict_run},
	{ML("FeatureVectorizer"), .run = feature_run},
	{ML("Imputer"), .run = imputer_run},
	{ML("LabelEncoder"), .reshape = label_reshape, .run = encode_run},
	{ML("LinearClassifier"), .run = linear_classifier_run},
	{ML("LinearRegressor"), .run = linear_regressor_run},
	{ML("Normalizer"), .run = normalizer_run},
	{ML("OneHotEncoder"), .reshape = one_hot_reshape, .run = one_hot_run},
	{ML("SVMClassifier"), .run = svm_classifier_run},
	{ML("SVMRegressor"), .run = svm_regressor_run},
	{ML("Scaler"), .run = scaler_run},
	{ML("TreeEnsemble"), .create = ensemble_create, .run = tree_regressor_run},
	{ML("TreeEnsembleClassifier"), .create = tree_classifier_create, .run = tree_classifier_run},
	{ML("TreeEnsembleRegressor"), .create = tree_regressor_create, .run = tree_regressor_run},
	{ML("ZipMap"), .run = zip_map_run},
	{0}};
