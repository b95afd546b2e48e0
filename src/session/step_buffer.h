/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SESSION_STEP_BUFFER_H
#define SESSION_STEP_BUFFER_H
/* A block of memory on the host or on the session's device that a stepper keeps from step to step. All zeros: no memory yet. */
#include "session/session.h"

struct step_buffer {
	struct buffer memory;
	int device;
	size_t bytes_before; /* of the state before the one that lies here */
};

/* Gives the buffer at least `bytes` bytes on the host (device 0) or the device (1). Its contents are lost if it had fewer. */
int step_buffer_reserve(struct session *s, struct step_buffer *r, size_t bytes, int device,
			struct diag *d);
/* Copies a tensor of the host or the device into the buffer, and makes *to that copy. */
int step_buffer_fill(struct session *s, struct step_buffer *r, const struct tensor *from,
		     int device, struct tensor *to, struct diag *d);
/* The whole buffer as a place for session_place(). */
struct placed step_buffer_place(const struct step_buffer *r);
void step_buffer_free(struct session *s, struct step_buffer *r);

#endif
