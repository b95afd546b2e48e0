/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCORE_DETECTION_H
#define SCORE_DETECTION_H
/*
 * The mean average precision of boxes as COCO defines it (T.-Y. Lin et al., Microsoft COCO: Common Objects in Context,
 * 2014; cocoapi, PythonAPI/pycocotools/cocoeval.py): the mean over the ten thresholds 0.5, 0.55 ... 0.95 of the
 * intersection over union and over the categories that have boxes, of the precision at 101 recalls.
 *
 * Boxes are matched picture by picture; the matched ones of several runs can be put together, and give the number that
 * one run would have given.
 */
#include "base/json_read.h"
#include "base/json_write.h"

enum { MATCH_THRESHOLDS = 10, MAX_DETECTIONS = 100 };

/* A box of the truth. */
struct true_box {
	int64_t category;
	double x, y, width, height;
	bool crowd; /* a group that was not told apart: detections in it count neither as right nor as wrong */
	bool ignored; /* counts neither: a crowd, or one of an area that does not count */
};
/* Returns true for areas in cocoeval.py's range "all". A box whose sides are exchanged has an area below 0. */
bool box_area_counts(double area);

/* A box that the model found. */
struct found_box {
	int64_t category;
	double x, y, width, height, score;
};

/* A box that was found, after matching. Bit t of `right` and `ignored` is about threshold t. */
struct match {
	int64_t category, image, rank; /* rank: its place among those of its picture and category */
	double score;
	unsigned right, ignored;
};

struct category_count {
	int64_t category, n; /* boxes of the truth that are not ignored */
};

struct matches {
	struct match *v;
	size_t n, room;
	struct category_count *count; /* sorted by category */
	size_t ncounts;
};

/* Matches the boxes of one picture, and adds them. The arena holds *m. */
void matches_add(struct matches *m, int64_t image, const struct true_box *truth, size_t ntruth,
		 const struct found_box *found, size_t nfound, struct arena *a);
void matches_merge(struct matches *to, const struct matches *from, struct arena *a);
/* Returns the mean average precision, or NAN if the truth has no box. */
double matches_map(const struct matches *m);

/* Writes the members "boxes" and "matches" of the open object, and reads them from an object. */
void matches_write(const struct matches *m, struct json *j);
/* Returns false if these members are missing or are not what matches_write() writes. */
bool matches_read(struct matches *m, const struct jvalue *v, struct arena *a);

#endif
