/* SPDX-License-Identifier: Apache-2.0 */
/* A session over a model file: what the second and every later run cost. */
#include "session/session.h"

#include "../tools/models.h"
#include "base/mem.h"
#include "unit.h"

#include <unistd.h>

enum { NAMED = 80, RANK = 8 };

/* An input whose dimensions, RANK of them, have the names d<first>, ... */
static struct w named_input(const char *name, int first)
{
	struct w shape = {0}, tensor = {0}, type = {0}, v = {0};

	for (int i = first; i < first + RANK; i++) {
		struct w dim = {0};
		char text[16];
		snprintf(text, sizeof(text), "d%d", i);
		w_str(&dim, 2, text);
		w_msg(&shape, 1, dim);
	}
	w_int(&tensor, 1, F32);
	w_msg(&tensor, 2, shape);
	w_msg(&type, 1, tensor);
	w_str(&v, 1, name);
	w_msg(&v, 2, type);
	return v;
}

/* y = Relu(x), beside inputs that bring NAMED names of dimensions. */
static void write_model(const char *path)
{
	struct w m = {0}, g = m_graph();

	for (int i = 0; i < NAMED; i += RANK) {
		char name[16];
		snprintf(name, sizeof(name), "in%d", i);
		w_msg(&g, 11, named_input(name, i));
	}
	relu(&m, g);
	FILE *f = fopen(path, "wb");
	CHECK(f && fwrite(m.p, 1, m.n, f) == m.n && !fclose(f));
	w_free(&m);
}

static void a_model_of_many_dimensions_allocates_once(void)
{
	char path[] = "/tmp/infer-unit-session-XXXXXX";
	struct diag d = {0};
	struct run_config config = {
		.device = "cpu", .optimize = OPTIMIZE_FULL, .memory_plan = true, .arena = true};
	float x[6] = {-1, 2, -3, 4, -5, 6}, one = 1;
	struct tensor tx = {
		.type = type_tensor(DT_F32), .shape = {2, {2, 3}}, .data = x, .bytes = sizeof(x)};
	struct tensor t1 = {.type = type_tensor(DT_F32),
			    .shape = {RANK, {1, 1, 1, 1, 1, 1, 1, 1}},
			    .data = &one,
			    .bytes = sizeof(one)};
	const struct tensor *in[1 + NAMED / RANK] = {&tx}, *y = NULL;
	int fd = mkstemp(path);

	CHECK(fd >= 0);
	close(fd);
	write_model(path);
	for (int i = 1; i <= NAMED / RANK; i++)
		in[i] = &t1;
	struct session *s = session_open(path, &config, &d);
	if (CHECK(s != NULL) && CHECK(session_model(s)->graph->nin == 1 + NAMED / RANK)) {
		CHECK(session_model(s)->nsymbols >= NAMED);
		CHECK_INT(session_run(s, in, &y, &d), 0);
		uint64_t before = mem_calls();
		for (int i = 0; i < 1000; i++)
			CHECK_INT(session_run(s, in, &y, &d), 0);
		CHECK_INT(mem_calls() - before, 0);
		CHECK(y && ((const float *)y->data)[0] == 0 && ((const float *)y->data)[5] == 6);
	}
	session_close(s);
	diag_free(&d);
	unlink(path);
}

/* Col2Im's block comes with the run: the plan could not refuse it. */
static void a_negative_block_is_refused(void)
{
	char path[] = "/tmp/infer-unit-session-XXXXXX";
	struct diag d = {0};
	struct run_config config = {
		.device = "cpu", .optimize = OPTIMIZE_FULL, .memory_plan = true, .arena = true};
	float x[25] = {0};
	int64_t image[2] = {5, 5}, block[2] = {-(INT64_C(1) << 62), 1};
	struct tensor tx = {
		.type = type_tensor(DT_F32), .shape = {3, {1, 5, 5}}, .data = x, .bytes = sizeof(x)};
	struct tensor ti = {
		.type = type_tensor(DT_I64), .shape = {1, {2}}, .data = image, .bytes = sizeof(image)};
	struct tensor tb = {
		.type = type_tensor(DT_I64), .shape = {1, {2}}, .data = block, .bytes = sizeof(block)};
	const struct tensor *in[3] = {&tx, &ti, &tb}, *y = NULL;
	struct w m = {0}, g = {0};
	int fd = mkstemp(path);

	w_str(&g, 2, "g");
	w_msg(&g, 11, m_value("x", F32, DIMS(1, 5, 5)));
	w_msg(&g, 11, m_value("i", I64, DIMS(2)));
	w_msg(&g, 11, m_value("b", I64, DIMS(2)));
	w_msg(&g, 12, m_value("y", F32, DIMS(1, 1, 5, 5)));
	w_msg(&g, 1, m_node("Col2Im", "x i b", "y"));
	w_int(&m, 1, 8);
	w_msg(&m, 7, g);
	m_opset(&m, 8, "", 18);
	CHECK(fd >= 0 && write(fd, m.p, m.n) == (ssize_t)m.n && !close(fd));
	w_free(&m);
	struct session *s = session_open(path, &config, &d);
	if (CHECK(s != NULL))
		CHECK(session_run(s, in, &y, &d) != 0 && diag_exit(&d) == 3);
	session_close(s);
	diag_free(&d);
	unlink(path);
}

/* y = x, to which its half is added five times, in a Loop. */
static void write_loop(const char *path)
{
	struct w m = {0}, g = m_graph(), body = {0}, loop = m_node("Loop", "m - x", "y");
	int64_t turns = 5;
	float half = 0.5F;

	w_str(&body, 2, "body");
	w_msg(&body, 11, m_value("i", I64, scalar_dims));
	w_msg(&body, 11, m_value("c", BOOL, scalar_dims));
	w_msg(&body, 11, m_value("v", F32, DIMS(2, 3)));
	w_msg(&body, 12, m_value("d", BOOL, scalar_dims));
	w_msg(&body, 12, m_value("w", F32, DIMS(2, 3)));
	w_msg(&body, 1, m_node("Identity", "c", "d"));
	w_msg(&body, 1, m_node("Add", "v half", "w"));
	attr_graph(&loop, "body", body);
	w_msg(&g, 1, loop);
	w_msg(&g, 5, m_raw("m", I64, scalar_dims, &turns, sizeof(turns)));
	w_msg(&g, 5, m_raw("half", F32, scalar_dims, &half, sizeof(half)));
	m_model(&m, g);
	FILE *f = fopen(path, "wb");
	CHECK(f && fwrite(m.p, 1, m.n, f) == m.n && !fclose(f));
	w_free(&m);
}

/* Where each sum was written, and how often it was read there. */
struct watched {
	struct observer observer;
	const void *before;
	int sums, read_in_place;
};

static void begin_step(struct observer *o, const struct step *s, const struct call *c)
{
	struct watched *x = (struct watched *)o;

	if (!strcmp(s->node->op->name, "Add"))
		x->read_in_place += x->before && c->in[0]->data == x->before;
}

static void end_step(struct observer *o, const struct step *s, const struct call *c)
{
	struct watched *x = (struct watched *)o;

	if (strcmp(s->node->op->name, "Add") != 0)
		return;
	x->sums++;
	x->before = c->out[0]->data;
}

static void a_loop_does_not_copy_what_it_carries(void)
{
	char path[] = "/tmp/infer-unit-session-XXXXXX";
	struct diag d = {0};
	struct run_config config = {.device = "cpu", .memory_plan = true, .arena = true};
	struct watched x = {.observer = {begin_step, end_step}};
	float data[6] = {1, 2, 3, 4, 5, 6};
	struct tensor tx = {.type = type_tensor(DT_F32),
			    .shape = {2, {2, 3}},
			    .data = data,
			    .bytes = sizeof(data)};
	const struct tensor *in = &tx, *y = NULL;
	int fd = mkstemp(path);

	CHECK(fd >= 0);
	close(fd);
	write_loop(path);
	struct session *s = session_open(path, &config, &d);
	if (CHECK(s != NULL)) {
		CHECK_INT(session_run(s, &in, &y, &d), 0);
		session_observe(s, &x.observer);
		CHECK_INT(session_run(s, &in, &y, &d), 0);
		session_observe(s, NULL);
		CHECK(y && ((const float *)y->data)[0] == 3.5F && ((const float *)y->data)[5] == 8.5F);
		CHECK(data[0] == 1 && data[5] == 6);
		CHECK_INT(x.sums, 5);
		CHECK_INT(x.read_in_place, 4);
	}
	session_close(s);
	diag_print(&d, stdout, false);
	diag_free(&d);
	unlink(path);
}

int main(void)
{
	UNIT(a_negative_block_is_refused);
	UNIT(a_loop_does_not_copy_what_it_carries);
	UNIT(a_model_of_many_dimensions_allocates_once);
	return unit_end();
}
