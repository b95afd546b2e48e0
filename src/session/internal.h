/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SESSION_INTERNAL_H
#define SESSION_INTERNAL_H
/*
 * struct stepper, and what the files that step a model use of one another: slices.c, feed_states.c, choose_ids.c, launch_ahead.c and
 * stepper.c, which puts them together. Other code includes session/stepper.h. Functions return 0 or -code unless they say otherwise.
 */
#include "session/step_buffer.h"
#include "session/stepper.h"

struct stepper {
	struct arena arena;
	struct session *session;
	const struct steps *steps;
	const struct graph *graph;
	const struct input_set *inputs;
	struct stepper_request request;
	const struct tensor **in; /* what the next step gets, by input */
	struct tensor *own;	  /* tensors of inputs that change, by input */
	/* their memory, by input: a state alternates between the two; other inputs have their predicted value in the second */
	struct step_buffer (*buffer)[2];
	int *newest;		    /* by input: which of the two buffers holds the state */
	const struct tensor **next; /* what the step after the current one will probably get, by input */
	struct tensor *next_own;
	const struct tensor **out; /* of the newest step */
	struct collector *collector;
	struct positions at;
	int64_t batch, limit;
	struct step_times times;
	/* ids chosen so far, by --next: rows of `batch` ids a step */
	int64_t **ids;
	size_t *ids_capacity;
	bool *ended;	   /* by row of the batch: the row has had an id of --until */
	struct buffer row; /* host copy of the last position's scores, rows packed */
	bool row_pinned;   /* the device writes there directly, several times as fast */
	uint64_t random;
	/*
	 * If the device chooses the ids, each step is launched while the one before it runs, and the host reads a step's ids after it has
	 * launched the next one. Queued steps alternate between parity 0 and 1: two consecutive ones use separate output buffers.
	 */
	struct chooser *chooser; /* NULL: the host chooses */
	const struct choose_ops *choosing;
	struct tensor *queued_out[2];	  /* by parity: outputs of the step launched last */
	struct step_buffer (*outputs)[2]; /* by output and parity, of those that are no states */
	size_t *output_bytes;		  /* of the step that is to be launched, by output */
	bool queued;			  /* the next step has been launched */
	/* the newest answer of appends(), which many states ask of a step that is to be launched */
	struct {
		int64_t have;
		uint32_t at; /* NO_VALUE: none of this step */
		bool appends;
	} asked;
};

/* ---- slices.c: --slice */

/* Makes the input the piece of this step. A piece that lies in one stretch of the input is not copied. */
int stepper_set_piece(struct stepper *x, const struct slice *s, struct diag *d);
/* Sets the number of steps from the pieces of the inputs and --steps. */
int stepper_set_limit(struct stepper *x, struct diag *d);

/* ---- feed_states.c: --feed */

/* Brings the first states to the device. */
int stepper_start_states(struct stepper *x, struct diag *d);
/* Places all states for the next run, whose inputs have been `foreseen` if it is launched ahead. */
int stepper_place_states(struct stepper *x, bool foreseen, struct diag *d);
/*
 * Tells the session where the next step will write a state, whose newest value has `now` bytes: over the one that the current step
 * reads. If that is too small, stepper_place_states() will take more memory, at another address.
 */
int stepper_place_next(struct stepper *x, const struct feed *f, size_t now, struct diag *d);
/* Makes the newest outputs the inputs of the next step. */
int stepper_hand_over(struct stepper *x, struct diag *d);
/* Copies a state with spare capacity: steps that are not launched ahead read and write dense ones. */
int stepper_make_dense(struct stepper *x, uint32_t in, struct diag *d);
/* A tensor with the bytes of another one. */
struct tensor stepper_same_place(const struct tensor *t);
/* In which of its input's two buffers the newest output of a feed was placed; -1 if it lies elsewhere, or is a view of the input. */
int stepper_buffer_of(const struct stepper *x, const struct feed *f, const struct tensor *t);

/* ---- choose_ids.c: --next */

/* Chooses the ids of the next step on the host. *ended: every row of the batch has ended. */
int stepper_choose_next(struct stepper *x, bool *ended, struct diag *d);
/* Whether ids can be chosen from the output: it has scores for each row of the batch. */
bool stepper_has_scores(const struct stepper *x, const struct tensor *t);
int stepper_fail_scores(const struct stepper *x, const struct next *n, struct diag *d);
int stepper_fail_nan(const struct stepper *x, const struct next *n, struct diag *d);
/* The ids that the device chooses, as an input for --next. */
int stepper_device_ids(struct stepper *x, const struct next *n, struct tensor *own, struct diag *d);
/* Reserves memory for one id a row, as an input for --next. */
int stepper_make_ids(struct stepper *x, const struct next *n, struct step_buffer *r,
		     struct tensor *own, struct diag *d);
/* Sets the input for --next k to the ids that step `step` has chosen. */
int stepper_set_ids(struct stepper *x, uint32_t k, int64_t step, struct diag *d);
/* Reserves memory for the ids of one more step. */
int stepper_grow_ids(struct stepper *x, uint32_t k, struct diag *d);
/* Notes the rows that the newest ids end. Returns whether all have ended. */
bool stepper_all_ended(struct stepper *x);
/* The ids of a --next as a tensor [batch, steps] of the input's type; NULL if it would be too large. */
struct tensor *stepper_ids_tensor(struct stepper *x, uint32_t k);
void stepper_free_scores(struct stepper *x);

/* ---- launch_ahead.c: steps that are launched before the one before them has ended */

/* A session_foresee() function: what the next step will get; NULL if that is not known. */
const struct tensor *const *stepper_foresee(void *stepper);
/* Lets the device choose the ids, if the host must see nothing else of a step. What it lacks for that is no error. */
void stepper_choose_on_device(struct stepper *x);
/* The host chooses from now on. */
int stepper_choose_on_host(struct stepper *x, struct diag *d);
/* Runs a step whose ids the device chooses. *able becomes false, and nothing has happened, if the step cannot run so. */
int stepper_step_ahead(struct stepper *x, bool *able, bool *done, struct diag *d);

/* ---- stepper.c */

/* Sets the inputs that the step number and the positions determine. Those of the first step were read as inputs. */
int stepper_set_inputs(struct stepper *x, struct diag *d);
/* The positions of the step after the current one. */
struct positions stepper_positions_after(const struct stepper *x);
/* Computes a --derive at these positions in the buffer, and makes *own that tensor. */
int stepper_derive(struct stepper *x, const struct derive *v, struct positions at,
		   struct step_buffer *r, struct tensor *own, struct diag *d);
/* Counts a step, of which `run` nanoseconds were the model's. */
void stepper_add_times(struct stepper *x, uint64_t start, uint64_t run, uint64_t planned);

#endif
