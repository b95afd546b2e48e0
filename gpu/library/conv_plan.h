/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_LIBRARY_CONV_PLAN_H
#define GPU_LIBRARY_CONV_PLAN_H
/*
 * A convolution by cuDNN: which of its operations are fused, which engine does them. Plans are kept by
 * the device and shared by steps of one description.
 */
#include "gpu/library/cudnn.h"
#include "gpu/launch/window.h"

/* Channels last; of 2 or 3 spatial dims. Cleared before it is filled: it is its own key. */
struct conv_case {
	enum dtype type;
	int n, act, bias, residual, strict, backward; /* backward: transposed */
	float alpha, beta;
	int64_t batch, group, cin, cout; /* all channels */
	struct gpu_window win;
	int64_t end[GPU_SPACE];
};

/* What is the same of all convolutions of input 0; cin, cout: channels of a group. The rest is 0. */
void conv_case_set(struct conv_case *k, const struct site *s, const struct gpu_window *win,
		   int64_t group, int64_t cin, int64_t cout);

/* What the library's graph holds; the rest is done by a kernel of ours behind it. */
enum conv_form {
	CONV_FUSED,   /* everything, in the order of the engines that are compiled ahead */
	CONV_GENERIC, /* everything, in a form that only engines compiled now take */
	CONV_BIAS,    /* residual and bias, no activation */
	CONV_PLAIN,   /* the convolution alone */
	CONV_FORMS,
	CONV_OWN = CONV_FORMS /* no graph: a kernel of ours, for single pixels on tensor cores */
};
enum {
	CONV_X = 1,
	CONV_W,
	CONV_Y,
	CONV_B,
	CONV_R,
	CONV_CONST,
	CONV_CONSTS = 4,
	CONV_VIRTUAL = 100
};

/* consts: the numbers behind CONV_CONST and on; *nconst of them. NULL: cannot be said. */
struct dn_graph *conv_graph(struct dn *dn, const struct conv_case *c, enum conv_form form,
			    float *consts, int *nconst, struct why *why);

struct str;
struct conv_plan {
	struct dn_plan *plan; /* NULL: CONV_OWN */
	enum conv_form form;
	int tile; /* of CONV_OWN: which of its kernels */
	void *own_fn;
	float consts[CONV_CONSTS];
	int nconst;
	void *tail_fn; /* what the form leaves undone */
	struct gpu_tail tail;
	char how[320]; /* for reports: "cuDNN e41,2=5 fused, 3.1 us, best of 9" */
	char fell[160]; /* why not all is in the library's graph; empty where it is, or that was slower */
	struct conv_case key;
	unsigned users;
	struct conv_plan *next;
};
/* NULL with the reason. Tries engines within the time that --tune allows. */
struct conv_plan *conv_plan_get(struct device *device, const struct conv_case *c, struct why *why);
size_t conv_plan_workspace(const struct conv_plan *p);
void conv_plan_put(struct device *device, struct conv_plan *p);

/* A line each of the plans there are. */
void conv_choices(struct device *device, struct str *b);

struct conv_args {
	const void *x, *w, *b, *r; /* b: never NULL where the case has a bias */
	void *y, *workspace;
};
int conv_plan_run(const struct call *c, const struct conv_plan *p, const struct conv_args *a);

#endif
