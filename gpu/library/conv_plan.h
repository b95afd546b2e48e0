/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_LIBRARY_CONV_PLAN_H
#define GPU_LIBRARY_CONV_PLAN_H
/*
 * Convolutions by cuDNN. A plan records which operations are fused into cuDNN's graph and which engine computes the
 * graph. The device owns the plans; steps with equal descriptions share one plan.
 */
#include "gpu/library/cudnn.h"
#include "gpu/launch/window.h"

/*
 * Description of a convolution of channels-last tensors with 2 or 3 spatial dims. It is compared bytewise, so it must be
 * zeroed before it is filled (conv_case_set does).
 */
struct conv_case {
	enum dtype type;
	/* n: number of spatial dims; strict: tf32 is not allowed; backward: it is a transposed convolution */
	int n, act, bias, residual, strict, backward;
	float alpha, beta;
	int64_t batch, group, cin, cout; /* channels of all groups together */
	struct gpu_window win;
	int64_t end[GPU_SPACE];
};

/*
 * Zeroes k and fills in the members that every kind of convolution of input 0 sets the same way. cin and cout are the
 * channels of one group.
 */
void conv_case_set(struct conv_case *k, const struct site *s, const struct gpu_window *win,
		   int64_t group, int64_t cin, int64_t cout);

/* The operations of a convolution that cuDNN's graph contains. Our own kernel computes the others afterwards. */
enum conv_form {
	CONV_FUSED, /* all operations, in the order that precompiled engines support */
	/* all operations, in a form that only engines compiled at run time support */
	CONV_GENERIC,
	CONV_BIAS,  /* convolution, residual and bias, without the activation */
	CONV_PLAIN, /* the convolution alone */
	CONV_FORMS,
	/* our own kernel for 1x1 convolutions on tensor cores, without cuDNN */
	CONV_OWN = CONV_FORMS
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

/*
 * Builds cuDNN's graph for a form. consts gets the values of the *nconst tensors CONV_CONST, CONV_CONST + 1, ...
 * Returns NULL and sets *why on failure.
 */
struct dn_graph *conv_graph(struct dn *dn, const struct conv_case *c, enum conv_form form,
			    float *consts, int *nconst, struct why *why);

struct str;
struct conv_plan {
	struct dn_plan *plan; /* NULL for CONV_OWN */
	enum conv_form form;
	int tile; /* for CONV_OWN: index of the kernel's tile */
	void *own_fn;
	float consts[CONV_CONSTS];
	int nconst;
	/* kernel for the operations that the form leaves out, or NULL if there are none */
	void *tail_fn;
	struct gpu_tail tail;
	char how[320]; /* for reports: "cuDNN e41,2=5 fused, 3.1 us, best of 9" */
	/* why cuDNN does not fuse all operations; empty if it fuses them or if fusing was slower */
	char fell[160];
	struct conv_case key;
	unsigned users;
	struct conv_plan *next;
};
/*
 * Returns the plan for a description. The plan is shared with other steps, read from the cache, or chosen now, by
 * timing if --tune allows that. The caller must give it back with conv_plan_put(). Returns NULL and sets *why on
 * failure.
 */
struct conv_plan *conv_plan_get(struct device *device, const struct conv_case *c, struct why *why);
size_t conv_plan_workspace(const struct conv_plan *p);
/* Whether it reads weights that are rounded (gpu_group_round). */
bool conv_plan_rounds(const struct conv_plan *p);
void conv_plan_put(struct device *device, struct conv_plan *p);

/* Adds two lines for each plan of the device: its description and the choice made for it. */
void conv_choices(struct device *device, struct str *b);

struct conv_args {
	const void *x, *w, *b, *r; /* b must not be NULL if the case has a bias */
	void *y, *workspace;
	bool w_is_weight; /* w does not change from run to run */
};
int conv_plan_run(const struct call *c, const struct conv_plan *p, const struct conv_args *a);

#endif
