/* SPDX-License-Identifier: Apache-2.0 */
/* The protobuf reader: what it takes, what it refuses, and that it copies nothing. */
#include "onnx/decode.h"

#include "../tools/models.h"
#include "onnx.pb-c.h"
#include "unit.h"

static const struct pb_codes codes = {E_MODEL_FORMAT, E_MODEL_TRUNCATED, E_MODEL_DEPTH};

static struct pb_span span(const struct w *w)
{
	return (struct pb_span){w->p, w->n};
}

static int check(const ProtobufCMessageDescriptor *desc, const struct w *w, struct diag *d)
{
	return pb_check(desc, span(w), &codes, d);
}

static void *decode(struct arena *a, const ProtobufCMessageDescriptor *desc, const struct w *w)
{
	struct pb_decoder c = pb_decoder(a, NULL, w->n);

	return pb_decode(&c, desc, span(w));
}

static void numbers_packed_and_not(void)
{
	struct arena a = {0};
	struct w w = {0}, pack = {0};
	struct diag d = {0};

	w_int(&w, 1, 2);
	w_varint(&pack, 3);
	w_varint(&pack, UINT64_MAX);
	w_msg(&w, 1, pack);
	w_int(&w, 1, INT64_MIN);
	w_int(&w, 2, 7);
	w_int(&w, 2, 1); /* the last one counts */
	w_float(&w, 4, 1.5f);
	CHECK_INT(check(&onnx__tensor_proto__descriptor, &w, &d), 0);
	Onnx__TensorProto *t = decode(&a, &onnx__tensor_proto__descriptor, &w);
	CHECK(t && t->n_dims == 4 && t->dims[0] == 2 && t->dims[1] == 3 && t->dims[2] == -1 &&
	      t->dims[3] == INT64_MIN);
	CHECK(t && t->has_data_type && t->data_type == 1);
	CHECK(t && t->n_float_data == 1 && t->float_data[0] == 1.5f);
	CHECK(t && !t->has_raw_data && !t->name && !t->has_data_location);
	CHECK_INT(pb_count(span(&w), 1, PB_VARINT), 4);
	struct pb_values v = pb_values(span(&w), 1, PB_VARINT);
	uint64_t x, sum = 0;
	while (pb_value(&v, &x))
		sum += x;
	CHECK(sum == 2 + 3 + UINT64_MAX + (uint64_t)INT64_MIN);
	w_free(&w);
	arena_free(&a);
	diag_free(&d);
}

static void bytes_are_not_copied(void)
{
	struct arena a = {0};
	struct w w = m_raw("w", F32, DIMS(2), "12345678", 8);
	Onnx__TensorProto *t = decode(&a, &onnx__tensor_proto__descriptor, &w);

	CHECK(t && t->raw_data.data > w.p && t->raw_data.data + 8 <= w.p + w.n);
	CHECK(t && !strcmp(t->name, "w"));
	w_free(&w);
	arena_free(&a);
}

static void pieces_are_merged(void)
{
	struct arena a = {0};
	struct w one = {0}, two = {0}, w = {0};

	w_str(&one, 2, "g");
	w_msg(&one, 1, m_node("Relu", "x", "y"));
	w_msg(&two, 1, m_node("Neg", "x", "z"));
	w_msg(&w, 7, one);
	w_msg(&w, 7, two);
	Onnx__ModelProto *m = decode(&a, &onnx__model_proto__descriptor, &w);
	CHECK(m && m->graph && m->graph->n_node == 2 && !strcmp(m->graph->name, "g"));
	CHECK(m && !strcmp(m->graph->node[1]->op_type, "Neg"));
	struct pb_span graph = pb_sub(span(&w), 7, &a);
	CHECK_INT(pb_occurs(graph, 1), 2);
	CHECK(!pb_sub(span(&w), 8, &a).p);
	w_free(&w);
	arena_free(&a);
}

static void the_last_of_a_oneof_counts(void)
{
	struct arena a = {0};
	struct w w = {0};

	w_int(&w, 1, 5);
	w_str(&w, 2, "n");
	Onnx__TensorShapeProto__Dimension *p =
		decode(&a, &onnx__tensor_shape_proto__dimension__descriptor, &w);
	CHECK(p && p->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM &&
	      !strcmp(p->dim_param, "n"));
	w_int(&w, 1, 6);
	p = decode(&a, &onnx__tensor_shape_proto__dimension__descriptor, &w);
	CHECK(p && p->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE &&
	      p->dim_value == 6);
	w_free(&w);
	arena_free(&a);
}

static void one_piece_is_found(void)
{
	struct w t = m_floats("w", 3);
	struct pb_span block = pb_block(span(&t), 4, PB_FIXED32);

	CHECK(block.n == 12 && block.p > t.p);
	w_float(&t, 4, 9);
	CHECK(!pb_block(span(&t), 4, PB_FIXED32).p);
	CHECK_INT(pb_count(span(&t), 4, PB_FIXED32), 4);
	w_free(&t);
}

static void faults_say_where(void)
{
	struct diag d = {0};
	struct w w = {0};

	bad_wire_type(&w);
	CHECK_INT(check(&onnx__model_proto__descriptor, &w, &d), -E_MODEL_FORMAT);
	CHECK(d.first && !strncmp(d.first->slot, "graph.node[0].op_type (byte ", 28));
	CHECK_STR(d.first ? d.first->expected : NULL, "bytes");
	CHECK_STR(d.first ? d.first->actual : NULL, "a varint");
	diag_free(&d);
	w_free(&w);
	bad_truncated(&w);
	CHECK_INT(check(&onnx__model_proto__descriptor, &w, &d), -E_MODEL_TRUNCATED);
	diag_free(&d);
	w_free(&w);
}

/* A file that stops at any byte, or has any byte changed, is read or refused, never worse. */
static void any_damage_is_survived(void)
{
	struct arena a = {0};
	struct w w = {0};
	int refused = 0;

	good_captures(&w);
	for (size_t n = 0; n < w.n; n++) {
		unsigned char *cut =
			malloc(n + 1); /* of its own size: a sanitizer sees every step too far */
		memcpy(cut, w.p, n);
		struct w part = {cut, n, n};
		refused += check(&onnx__model_proto__descriptor, &part, NULL) != 0;
		decode(&a, &onnx__model_proto__descriptor, &part);
		free(cut);
	}
	CHECK(refused > (int)w.n / 2);
	for (size_t i = 0; i < w.n; i++) {
		for (int bit = 0; bit < 8; bit++) {
			w.p[i] ^= (unsigned char)(1 << bit);
			check(&onnx__model_proto__descriptor, &w, NULL);
			decode(&a, &onnx__model_proto__descriptor, &w);
			w.p[i] ^= (unsigned char)(1 << bit);
		}
		arena_free(&a);
	}
	w_free(&w);
}

static void memory_is_bounded(void)
{
	struct arena a = {0};
	struct w w = {0};

	many(&w, 1); /* a shape of 2,000,000 empty dims */
	CHECK(!decode(&a, &onnx__tensor_shape_proto__descriptor, &w));
	CHECK(arena_bytes(&a) < 3 * w.n + (2 << 20));
	w_free(&w);
	arena_free(&a);
}

static void depth_is_bounded(void)
{
	struct arena a = {0};
	struct w w = {0};

	nest(&w, (const unsigned[]){4, 1}, 2, 49); /* 98 messages in the outermost */
	CHECK_INT(check(&onnx__type_proto__descriptor, &w, NULL), 0);
	CHECK(decode(&a, &onnx__type_proto__descriptor, &w));
	w_free(&w);
	nest(&w, (const unsigned[]){4, 1}, 2, 50);
	CHECK_INT(check(&onnx__type_proto__descriptor, &w, NULL), -E_MODEL_DEPTH);
	w_free(&w);
	nest(&w, (const unsigned[]){4, 1}, 2, 100);
	CHECK(!decode(&a, &onnx__type_proto__descriptor, &w));
	w_free(&w);
	arena_free(&a);
}

int main(void)
{
	UNIT(numbers_packed_and_not);
	UNIT(bytes_are_not_copied);
	UNIT(pieces_are_merged);
	UNIT(the_last_of_a_oneof_counts);
	UNIT(one_piece_is_found);
	UNIT(faults_say_where);
	UNIT(any_damage_is_survived);
	UNIT(memory_is_bounded);
	UNIT(depth_is_bounded);
	return unit_end();
}
