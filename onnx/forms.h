/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ONNX_FORMS_H
#define ONNX_FORMS_H
/* Readers and writers of the forms of a model. No other folder includes this. */
#include "onnx/convert.h"
#include "onnx/write.h"

struct file_out;
struct file_map;
struct file_spill;

/*
 * Reads JSON into a ModelProto whose pieces are in the message's arena or in the text, which must outlive it. The data of tensors go to
 * `data`, unless that is NULL.
 */
int json_to_model(struct pb_span text, struct message *out, struct file_spill *data, struct diag *d);
/* Whether JSON is an object whose first member is a field of ModelProto. */
bool json_is_model(struct pb_span text);
/* Writes a ModelProto that has passed pb_check() as JSON; the errors of the file are told by file_commit(). */
int model_to_json(struct copier *c, struct pb_span model, struct file_out *out);

/* The same for ONNX's text form. Writing warns of what the form does not hold. */
int text_to_model(struct pb_span text, struct message *out, struct file_spill *data, struct diag *d);
/* Bytes to write data to: in the file if there is one and the disk is not full, otherwise in the arena. */
void *data_room(struct file_spill *data, struct arena *a, size_t n);
/* The same for more bytes in place of those at p, of which n have been written. */
void *data_more(struct file_spill *data, struct arena *a, void *p, size_t n, size_t more);
/* Adds the n bytes at p, which such a call returned, as a field of a message. */
void data_put(struct file_spill *data, struct message *m, uint32_t field, const void *p, size_t n);
int model_to_text(struct copier *c, struct pb_span model, struct file_out *out);

/* The form of a model that a file's first bytes show. */
enum onnx_form form_of(struct pb_span file);
/* Sets *out to the model in protobuf's binary form: the file's own bytes, or a translation in the arena. */
int binary_form(struct pb_span file, struct arena *a, struct pb_span *out, struct diag *d);
/*
 * Puts the map of a translation in the place of a file's that is in another form: the translation is in a file without a name, so
 * that it takes no memory. Where no such file can be made, nothing changes, and binary_form() has to translate.
 */
int binary_map(struct file_map *file, struct diag *d);

/*
 * Copies one tensor and sets *out to its bytes in one piece: those of the source if nothing changes, otherwise in the arena `a`.
 */
int copy_flat(struct copier *c, struct pb_span tensor, bool initializer, struct arena *a,
	      struct pb_span *out);
/* The bytes of a message in one piece, in the arena. */
struct pb_span msg_flat(const struct message *m, struct arena *a);
/* Whether the bytes are UTF-8 without NUL: JSON and the text form can hold no other strings. */
bool is_text(struct pb_span s);

#endif
