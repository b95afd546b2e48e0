/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_LIBRARY_CONV_PLAN_H
#define GPU_LIBRARY_CONV_PLAN_H
/*
 * Convolutions by cuDNN. A plan holds which operations are fused into cuDNN's graph and which engine computes it. The device
 * owns the plans; steps with equal descriptions share one.
 */
#include "gpu/library/cudnn.h"
#include "gpu/launch/window.h"

/*
 * Description of a convolution of channels-last tensors with 2 or 3 spatial dims. It is compared bytewise, so it must be
 * zeroed before it is filled (conv_case_set does).
 */
struct conv_case {
	enum dtype type;
	/* n: spatial dims; strict: no tf32; backward: a transposed convolution */
	int n, act, bias, residual, strict, backward;
	float alpha, beta;
	int64_t batch, group, cin, cout; /* channels of all groups */
	struct gpu_window win;
	int64_t end[GPU_SPACE];
};

/* Zeroes k and fills what every convolution of input 0 has; cin, cout: channels of one group. */
void conv_case_set(struct conv_case *k, const struct site *s, const struct gpu_window *win,
		   int64_t group, int64_t cin, int64_t cout);

/* Which operations cuDNN's graph contains; our own kernel computes the others afterwards. */
enum conv_form {
	CONV_FUSED,   /* all, in the order that precompiled engines support */
	CONV_GENERIC, /* all, in a form that only engines compiled at run time support */
	CONV_BIAS,    /* convolution, residual and bias, without the activation */
	CONV_PLAIN,   /* the convolution alone */
	CONV_FORMS,
	CONV_OWN = CONV_FORMS /* no graph: our tensor-core kernel for 1x1 convolutions */
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

/* The graph of a form; consts: values of tensors CONV_CONST, CONV_CONST + 1, ..., *nconst of them. NULL with the reason. */
struct dn_graph *conv_graph(struct dn *dn, const struct conv_case *c, enum conv_form form,
			    float *consts, int *nconst, struct why *why);

struct str;
struct conv_plan {
	struct dn_plan *plan; /* NULL: CONV_OWN */
	enum conv_form form;
	int tile; /* for CONV_OWN: index of the kernel's tile */
	void *own_fn;
	float consts[CONV_CONSTS];
	int nconst;
	void *tail_fn; /* kernel for the operations that the form leaves out; NULL: none */
	struct gpu_tail tail;
	char how[320]; /* for reports: "cuDNN e41,2=5 fused, 3.1 us, best of 9" */
	char fell[160]; /* why cuDNN does not fuse all operations; empty if it does, or if that was slower */
	struct conv_case key;
	unsigned users;
	struct conv_plan *next;
};
/*
 * The plan for a description: shared, from the cache, or chosen now, by timing if --tune allows that. NULL with the
 * reason. To be given back by conv_plan_put().
 */
struct conv_plan *conv_plan_get(struct device *device, const struct conv_case *c, struct why *why);
size_t conv_plan_workspace(const struct conv_plan *p);
void conv_plan_put(struct device *device, struct conv_plan *p);

/* Adds two lines for each plan of the device: its description and the choice. */
void conv_choices(struct device *device, struct str *b);

struct conv_args {
	const void *x, *w, *b, *r; /* b: not NULL if the case has a bias */
	void *y, *workspace;
};
int conv_plan_run(const struct call *c, const struct conv_plan *p, const struct conv_args *a);

#endif
