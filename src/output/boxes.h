/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OUTPUT_BOXES_H
#define OUTPUT_BOXES_H
/* Finds the boxes in the outputs of a detector, prints them, and draws them onto the picture. */
#include "input/input.h"
#include "output/result.h"

/* How a detector writes its boxes, and which of them count. */
struct box_rules {
	enum box_form { BOXES_NONE, BOXES_YOLO, BOXES_SSD, BOXES_DETR } form;
	double score; /* boxes of lower scores are left out */
	double iou; /* of two boxes of a class that overlap more, the one of lower score is left out (yolo) */
};

struct box {
	double x0, y0, x1, y1; /* pixels of the picture, or of the input if that was no picture */
	double score;
	int64_t class;
};

struct boxes {
	struct box *v; /* the best first */
	size_t n;
};

/* Parses "yolo", "ssd" or "detr", with ":score=0.25,iou=0.45" behind it. Returns false for any other text. */
bool boxes_parse(const char *spec, struct box_rules *rules);
/*
 * Finds the boxes of the first picture of a batch. `in` is the input that they lie in, whose size the coordinates refer to.
 * Fails with E-LABELS if no outputs look like those of such a detector.
 */
int boxes_find(const struct box_rules *rules, const struct output *out, size_t n,
	       const struct input_info *in, const struct labels *labels, struct boxes *to,
	       struct arena *a, struct diag *d);
/* Returns the first input that is a picture, else the first whose rank is 4, else the first. */
const struct input_info *boxes_input(const struct input_set *s);
/*
 * Prints "person 0.91 12 30 200 320" for each box: label, score, left, top, right, bottom. If standard output is a terminal, only the
 * best ones, and how many there are.
 */
void print_boxes(const struct boxes *b, const struct labels *labels, FILE *stream);
void json_boxes(struct json *j, const struct boxes *b, const struct labels *labels);
/*
 * Draws the boxes, with labels and scores, onto the picture that the input was read from, and writes it as PNG. Fails with E-OUTPUT
 * or E-INPUT-*.
 */
int boxes_draw(const struct boxes *b, const struct labels *labels, const struct input_info *in,
	       const char *path, struct diag *d);

#endif
