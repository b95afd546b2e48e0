/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the library says of our graphs of convolutions, asked without a device: which forms have engines that
 * were compiled ahead, which only such as are compiled when they are wanted. Skipped where the library is not.
 */
#include "gpu/driver/api.h"
#include "gpu/library/conv_plan.h"
#include "ops/fused.h"
#include "test/unit/h200.h"
#include "test/unit/unit.h"

#include <dlfcn.h>
#include <malloc.h>
#include <math.h>
#include <string.h>

/*
 * For LeakSanitizer, which asks it: cuDNN opens and closes libraries as it is asked, each time leaving what their
 * start took, and a closed library cannot be named in a suppression.
 */
__attribute__((visibility("default"))) int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void)
{
	return 1;
}

struct counts {
	int ahead, compiled;
	bool made;
};

static struct counts ask(struct dn *dn, const struct conv_case *c, enum conv_form form, unsigned avoid)
{
	struct arena a = {0};
	struct why why = {.arena = &a};
	struct dn_choice choice[48];
	float consts[CONV_CONSTS];
	int nconst = 0;
	struct dn_graph *g = conv_graph(dn, c, form, consts, &nconst, &why);
	struct counts n = {.made = g != NULL};

	if (!g)
		printf("# %s\n", why.text ? why.text : "?");
	for (int list = DN_BEST; g && list <= DN_FALLBACK; list++) {
		int found = dn_choices(g, (enum dn_list)list, avoid, choice, 48);
		for (int i = 0; i < found; i++) {
			CHECK(!(choice[i].notes & avoid));
			CHECK(choice[i].text[0] == 'e');
			n.compiled += choice[i].compiled;
			n.ahead += !choice[i].compiled;
		}
	}
	dn_graph_free(g);
	arena_free(&a);
	return n;
}

static struct conv_case usual(enum dtype t, int act, bool residual)
{
	struct conv_case c;

	memset(&c, 0, sizeof(c));
	c.type = t, c.n = 2, c.act = act, c.bias = 1, c.residual = residual;
	c.alpha = act == ACT_HARDSWISH ? 1.0F / 6 : act == ACT_SWISH ? 1 : 0;
	c.beta = act == ACT_HARDSWISH ? 0.5F : act == ACT_CLIP ? 6 : 0;
	c.batch = 8, c.group = 1, c.cin = 64, c.cout = 128;
	for (int i = 0; i < 3; i++) {
		c.win.in[i] = c.win.out[i] = i ? 28 : 1;
		c.win.kernel[i] = i ? 3 : 1;
		c.win.stride[i] = c.win.dilation[i] = 1;
		c.win.begin[i] = c.end[i] = i ? 1 : 0;
	}
	return c;
}

/* The part of the library that compiles wants the driver's library: without it no engine of that kind is listed. */
static bool compiles(struct dn *dn)
{
	struct conv_case c = usual(DT_F16, ACT_SWISH, false);

	return ask(dn, &c, CONV_FUSED, 0).compiled > 0;
}

static struct dn *open_library(void)
{
	struct arena a = {0};
	struct why why = {.arena = &a};
	struct dn *dn = dn_deviceless(h200, strlen(h200), &why);

	if (!dn)
		printf("# skipped: %s\n", why.text ? why.text : "no cuDNN");
	arena_free(&a);
	return dn;
}

/* cuDNN has every activation that is fused, and an engine for it in every type. */
static void every_activation_has_an_engine(void)
{
	static const enum dtype types[] = {DT_F16, DT_BF16, DT_F32};
	struct dn *dn = open_library();

	for (int t = 0; dn && t < 3; t++) {
		for (int act = 0; act < ACT_COUNT; act++) {
			if (act && !activations[act].text) /* never fused */
				continue;
			struct conv_case c = usual(types[t], act, act % 2);
			struct counts fused = ask(dn, &c, CONV_FUSED, DN_NOT_DETERMINISTIC);
			struct counts bias = ask(dn, &c, CONV_BIAS, DN_NOT_DETERMINISTIC);
			printf("# %s act %d residual %d: fused %d ahead %d compiled, bias %d ahead %d compiled\n",
			       dtype_name(types[t]), act, act % 2, fused.ahead, fused.compiled,
			       bias.ahead, bias.compiled);
			CHECK(fused.made && bias.made);
			CHECK(fused.ahead + fused.compiled > 0 || !compiles(dn));
			CHECK(bias.ahead > 0);
		}
	}
	dn_deviceless_free(dn);
}

/* Engines compiled ahead take residual, bias, relu in the order that we say them. */
static void the_order_has_engines_compiled_ahead(void)
{
	struct dn *dn = open_library();

	for (int residual = 0; dn && residual < 2; residual++) {
		struct conv_case c = usual(DT_F16, ACT_RELU, residual);
		CHECK(ask(dn, &c, CONV_FUSED, DN_REDUCED_SUM).ahead >= 8);
		struct counts generic = ask(dn, &c, CONV_GENERIC, DN_REDUCED_SUM);
		CHECK(generic.compiled > 0 || !compiles(dn));
	}
	dn_deviceless_free(dn);
}

/* Strict fp32 leaves engines without tensor cores, if need be for the convolution alone. */
static void strict_has_engines(void)
{
	struct dn *dn = open_library();

	for (int act = 0; dn && act < ACT_COUNT; act++) {
		struct conv_case c = usual(DT_F32, act, false);
		struct counts n[CONV_FORMS];
		for (int f = 0; f < CONV_FORMS; f++)
			n[f] = ask(dn, &c, (enum conv_form)f, DN_STRICT | DN_NOT_DETERMINISTIC);
		printf("# strict act %d: fused %d/%d generic %d/%d bias %d/%d plain %d/%d\n", act,
		       n[0].ahead, n[0].compiled, n[1].ahead, n[1].compiled, n[2].ahead,
		       n[2].compiled, n[3].ahead, n[3].compiled);
		CHECK(n[CONV_PLAIN].ahead > 0);
		CHECK(n[CONV_BIAS].ahead + n[CONV_PLAIN].ahead > 0);
	}
	dn_deviceless_free(dn);
}

/* Groups, dilation, one side padded more, three dimensions, transposed. */
static void other_windows_have_engines(void)
{
	struct dn *dn = open_library();
	struct conv_case c = usual(DT_F16, ACT_RELU, false);

	if (!dn)
		return;
	c.group = 4;
	CHECK(ask(dn, &c, CONV_FUSED, 0).made);
	struct counts n = ask(dn, &c, CONV_PLAIN, 0);
	printf("# groups: plain %d/%d\n", n.ahead, n.compiled);
	CHECK(n.ahead + n.compiled > 0);
	c = usual(DT_F16, ACT_RELU, false);
	c.win.begin[2] = 0;
	c.end[2] = 2;
	n = ask(dn, &c, CONV_FUSED, 0);
	printf("# uneven pads: fused %d/%d\n", n.ahead, n.compiled);
	n = ask(dn, &c, CONV_PLAIN, 0);
	printf("# uneven pads: plain %d/%d\n", n.ahead, n.compiled);
	c = usual(DT_F16, ACT_RELU, false);
	c.n = 3;
	c.win.in[0] = c.win.out[0] = 6;
	n = ask(dn, &c, CONV_FUSED, 0);
	printf("# 3-D: fused %d/%d\n", n.ahead, n.compiled);
	CHECK(n.ahead + n.compiled > 0);
	c = usual(DT_F16, ACT_NONE, false);
	c.bias = 0;
	c.backward = 1;
	n = ask(dn, &c, CONV_PLAIN, 0);
	printf("# transposed: plain %d/%d\n", n.ahead, n.compiled);
	CHECK(n.ahead + n.compiled > 0);
	dn_deviceless_free(dn);
}

/* The library opens the compiler and closes it each time it is asked, which costs 72 KiB unless somebody holds it. */
static void asking_again_takes_no_memory(void)
{
	struct dn *dn = open_library();
	struct conv_case c = usual(DT_F16, ACT_SWISH, false);

	for (int i = 0; dn && i < 3; i++)
		ask(dn, &c, CONV_FUSED, 0);
	size_t before = mallinfo2().uordblks;
	for (int i = 0; dn && i < 20; i++)
		ask(dn, &c, CONV_FUSED, 0);
	size_t after = mallinfo2().uordblks;
	printf("# malloc: %zu bytes more\n", after > before ? after - before : 0);
	CHECK(after < before + (64 << 10));
	dn_deviceless_free(dn);
}

/* A plan of an engine that was compiled ahead, made and given back; false where there is none. */
static bool one_plan(struct dn *dn, const struct conv_case *c)
{
	struct arena a = {0};
	struct why why = {.arena = &a};
	struct dn_choice choice[48];
	float consts[CONV_CONSTS];
	int nconst = 0, n = 0;
	struct dn_graph *g = conv_graph(dn, c, CONV_FUSED, consts, &nconst, &why);
	struct dn_plan *plan = NULL;

	n = g ? dn_choices(g, DN_BEST, 0, choice, 48) : 0;
	for (int i = 0; i < n && !plan; i++)
		plan = choice[i].compiled ? NULL : dn_plan_new(g, &choice[i], &why);
	bool made = plan != NULL;
	dn_graph_free(g); /* the plan holds it still */
	dn_plan_free(plan);
	arena_free(&a);
	return made;
}

static void plans_are_given_back(void)
{
	struct dn *dn = open_library();
	struct conv_case c = usual(DT_F16, ACT_RELU, true);

	for (int i = 0; dn && i < 3; i++)
		CHECK(one_plan(dn, &c));
	size_t before = mallinfo2().uordblks;
	for (int i = 0; dn && i < 20; i++)
		CHECK(one_plan(dn, &c));
	size_t after = mallinfo2().uordblks;
	printf("# malloc: %zu bytes more\n", after > before ? after - before : 0);
	CHECK(after < before + (16 << 10));
	dn_deviceless_free(dn);
}

/* What is mapped is kept: closed by whoever opened it, it is still there. */
static void what_is_mapped_stays(void)
{
	struct dn *dn = open_library();
	const struct cudnn_api *api = dn ? cudnn_alone(NULL) : NULL;
	char path[600] = "";
	Dl_info file;

	if (api && dladdr(*(void *const *)&api->p_cudnnGetVersion, &file))
		snprintf(path, sizeof(path), "%.*slibcudnn_adv.so.9",
			 (int)(strrchr(file.dli_fname, '/') + 1 - file.dli_fname), file.dli_fname);
	void *part = *path ? dlopen(path, RTLD_LAZY | RTLD_LOCAL) : NULL;
	if (part) {
		libraries_keep();
		CHECK(!dlclose(part));
		part = dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
		CHECK(part != NULL);
		if (part)
			dlclose(part);
	} else if (dn) {
		printf("# skipped: %s cannot be opened\n", path);
	}
	dn_deviceless_free(dn);
}

int main(void)
{
	UNIT(every_activation_has_an_engine);
	UNIT(the_order_has_engines_compiled_ahead);
	UNIT(strict_has_engines);
	UNIT(other_windows_have_engines);
	UNIT(asking_again_takes_no_memory);
	UNIT(plans_are_given_back);
	UNIT(what_is_mapped_stays);
	return unit_end();
}
