/* SPDX-License-Identifier: Apache-2.0 */
#include "output/boxes.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/tame.h"
#include "image/image.h"
#include "output/lettering.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_BOXES = 300 };

bool boxes_parse(const char *spec, struct box_rules *rules)
{
	static const char *const names[] = {"", "yolo", "ssd", "detr"};
	size_t n = strcspn(spec, ":");
	char *end = NULL;

	*rules = (struct box_rules){.score = 0.25, .iou = 0.45};
	for (int i = 1; i < 4; i++)
		if (strlen(names[i]) == n && !strncmp(spec, names[i], n))
			rules->form = (enum box_form)i;
	if (!rules->form)
		return false;
	for (const char *s = spec + n; *s; s = end) {
		double *to = str_starts(s + 1, "score=") ? &rules->score
			     : str_starts(s + 1, "iou=") ? &rules->iou
							 : NULL;
		if (!to || (*s != ':' && *s != ','))
			return false;
		s += strcspn(s, "=") + 1;
		*to = strtod(s, &end);
		if (end == s || !(*to >= 0 && *to <= 1))
			return false;
	}
	return true;
}

const struct input_info *boxes_input(const struct input_set *s)
{
	const struct input_info *first = NULL;

	for (uint32_t i = 0; i < input_count(s); i++) {
		const struct input_info *in = input_info(s, i);
		if (in->picture)
			return in;
		if (!first || (first->shape.rank != 4 && in->shape.rank == 4))
			first = in;
	}
	return first;
}

/* ---- from the coordinates of a detector to pixels */

/* The size of the model's picture, and how the picture of the file lies in it. */
struct frame {
	double width, height;		    /* of the model's input */
	double scale_x, scale_y, left, top; /* input = picture x scale + left or top */
	double most_x, most_y;		    /* of the picture */
};

/* The axis that is 1, 3 or 4 long is that of the channels. */
static struct frame frame_of(const struct input_info *in)
{
	struct frame f = {.width = 1, .height = 1, .scale_x = 1, .scale_y = 1};
	int r = in ? in->shape.rank : 0;

	if (r >= 3) {
		const int64_t *dim = in->shape.dim;
		bool last = dim[r - 1] <= 4 && dim[r - 3] > 4;
		f.height = (double)dim[last ? r - 3 : r - 2];
		f.width = (double)dim[last ? r - 2 : r - 1];
	}
	f.most_x = f.width;
	f.most_y = f.height;
	if (in && in->picture && in->picture_width > 0 && in->picture_height > 0) {
		f.most_x = (double)in->picture_width;
		f.most_y = (double)in->picture_height;
		f.scale_x = f.width / f.most_x;
		f.scale_y = f.height / f.most_y;
		if (in->letterbox) {
			f.scale_x = f.scale_y = fmin(f.scale_x, f.scale_y);
			f.left = floor((f.width - rint(f.most_x * f.scale_x)) / 2);
			f.top = floor((f.height - rint(f.most_y * f.scale_y)) / 2);
		}
	}
	return f;
}

static void to_picture(const struct frame *f, struct box *b)
{
	b->x0 = fmin(fmax((b->x0 - f->left) / f->scale_x, 0), f->most_x);
	b->x1 = fmin(fmax((b->x1 - f->left) / f->scale_x, 0), f->most_x);
	b->y0 = fmin(fmax((b->y0 - f->top) / f->scale_y, 0), f->most_y);
	b->y1 = fmin(fmax((b->y1 - f->top) / f->scale_y, 0), f->most_y);
}

/* ---- a list of candidates */

struct finder {
	const struct box_rules *rules;
	struct frame frame;
	struct boxes *to;
	size_t room;
	struct arena *a;
};

static void add_box(struct finder *f, struct box b)
{
	if (!(b.score >= f->rules->score) || !isfinite(b.x0 + b.y0 + b.x1 + b.y1))
		return;
	if (f->to->n == f->room) {
		size_t room = f->room ? 2 * f->room : 64;
		f->to->v = arena_grow(f->a, f->to->v, f->to->n, room, sizeof(*f->to->v));
		f->room = room;
	}
	f->to->v[f->to->n++] = b;
}

static struct box box_around(double x, double y, double width, double height, double score,
			     int64_t class)
{
	return (struct box){x - width / 2,  y - height / 2, x + width / 2,
			    y + height / 2, score,	    class};
}

static int by_score(const void *a, const void *b)
{
	const struct box *x = a, *y = b;

	return x->score < y->score ? 1 : x->score > y->score ? -1 : 0;
}

static double area(const struct box *b)
{
	return fmax(b->x1 - b->x0, 0) * fmax(b->y1 - b->y0, 0);
}

static double overlap(const struct box *a, const struct box *b)
{
	const struct box both = {fmax(a->x0, b->x0),
				 fmax(a->y0, b->y0),
				 fmin(a->x1, b->x1),
				 fmin(a->y1, b->y1),
				 0,
				 0};
	double shared = area(&both), all = area(a) + area(b) - shared;

	return all > 0 ? shared / all : 0;
}

/* Sorts the boxes; of those of one class that overlap, keeps the best (non-maximum suppression). */
static void keep_best(struct finder *f, bool suppress)
{
	struct boxes *to = f->to;
	size_t kept = 0;

	if (to->n)
		qsort(to->v, to->n, sizeof(*to->v), by_score);
	for (size_t i = 0; i < to->n && kept < MAX_BOXES; i++) {
		bool covered = false;
		for (size_t k = 0; suppress && k < kept && !covered; k++)
			covered = to->v[k].class == to->v[i].class &&
				  overlap(&to->v[k], &to->v[i]) > f->rules->iou;
		if (!covered)
			to->v[kept++] = to->v[i];
	}
	to->n = kept;
	for (size_t i = 0; i < kept; i++)
		to_picture(&f->frame, &to->v[i]);
}

/* ---- the forms */

static bool is_floats(const struct output *o, int rank)
{
	return o->tensor && o->tensor->type.kind == V_TENSOR &&
	       dtype_class(tensor_dtype(o->tensor)) == DT_FLOAT && o->tensor->shape.rank == rank;
}

static double element(const struct tensor *t, int64_t i)
{
	return dtype_class(tensor_dtype(t)) == DT_FLOAT
		       ? elem_f64(tensor_dtype(t), t->data, i)
		       : (double)elem_i64(tensor_dtype(t), t->data, i);
}

/* -1: no class */
static int64_t class_of(double number)
{
	return number >= 0 && number < 1e9 ? (int64_t)number : -1;
}

/* Rows of [x, y, w, h, (object,) classes...], or columns of them; or rows of [x0, y0, x1, y1, score, class]. */
static bool find_yolo(struct finder *f, const struct output *o, const struct labels *labels)
{
	if (!is_floats(o, 3))
		return false;
	const struct tensor *t = o->tensor;
	int64_t rows = t->shape.dim[1], columns = t->shape.dim[2];
	bool final = columns == 6 && labels->n != 1 && labels->n != 2,
	     turned = !final && rows < columns;
	int64_t n = turned ? columns : rows, width = turned ? rows : columns;
	bool object = labels->n ? width == (int64_t)labels->n + 5 : !turned;
	int64_t first = object ? 5 : 4;

	if (t->shape.dim[0] < 1 || width <= first ||
	    (labels->n && !final && width != first + (int64_t)labels->n))
		return false;
	for (int64_t i = 0; i < n; i++) {
		double v[6], best = -INFINITY;
		int64_t class = 0;
		for (int64_t k = 0; k < 6 && k < width; k++)
			v[k] = element(t, turned ? k * n + i : i * width + k);
		if (final) {
			add_box(f, (struct box){v[0], v[1], v[2], v[3], v[4], class_of(v[5])});
			continue;
		}
		for (int64_t k = first; k < width; k++) {
			double score = element(t, turned ? k * n + i : i * width + k);
			if (score > best) {
				best = score;
				class = k - first;
			}
		}
		add_box(f, box_around(v[0], v[1], v[2], v[3], object ? best * v[4] : best, class));
	}
	keep_best(f, !final);
	return true;
}

/* Returns the first output of n numbers whose name contains the word; NULL: none. */
static const struct tensor *find_list(const struct output *out, size_t count, int64_t n,
				      const char *word)
{
	for (size_t i = 0; i < count; i++)
		if (out[i].tensor && out[i].tensor->type.kind == V_TENSOR &&
		    tensor_dtype(out[i].tensor) != DT_STRING && strstr(out[i].name, word) &&
		    tensor_count(out[i].tensor) == n)
			return out[i].tensor;
	return NULL;
}

/* Three outputs: boxes [N,4], scores [N], and labels or classes [N]; TensorFlow's boxes have y first and are shares. */
static bool find_ssd(struct finder *f, const struct output *out, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		const struct tensor *t = out[i].tensor;
		int r = t && t->type.kind == V_TENSOR ? t->shape.rank : 0;
		if (r < 2 || t->shape.dim[r - 1] != 4 || dtype_class(tensor_dtype(t)) != DT_FLOAT)
			continue;
		int64_t n = tensor_count(t) / 4;
		const struct tensor *scores = find_list(out, count, n, "score");
		const struct tensor *classes = find_list(out, count, n, "class");
		classes = classes ? classes : find_list(out, count, n, "label");
		if (!scores || !classes)
			continue;
		bool y_first = strstr(out[i].name, "detection_boxes") != NULL;
		double most = 0;
		for (int64_t k = 0; k < 4 * n; k++)
			most = fmax(most, element(t, k));
		double wide = most <= 2 ? f->frame.width : 1, high = most <= 2 ? f->frame.height : 1;
		int64_t all = r > 2 && t->shape.dim[0] > 0 ? n / t->shape.dim[0] : n;
		for (int64_t k = 0; k < all; k++) {
			double v[4];
			for (int m = 0; m < 4; m++)
				v[m] = element(t, 4 * k + (y_first ? m ^ 1 : m));
			add_box(f, (struct box){v[0] * wide, v[1] * high, v[2] * wide, v[3] * high,
						element(scores, k), class_of(element(classes, k))});
		}
		keep_best(f, false);
		return true;
	}
	return false;
}

/* Logits [1,Q,C] and boxes [1,Q,4] as shares. The last class means that there is nothing, unless labels name it. */
static bool find_detr(struct finder *f, const struct output *out, size_t count,
		      const struct labels *labels)
{
	const struct tensor *boxes = NULL, *logits = NULL;

	for (size_t i = 0; i < count; i++) {
		if (!is_floats(&out[i], 3))
			continue;
		if (out[i].tensor->shape.dim[2] == 4 && !boxes)
			boxes = out[i].tensor;
		else if (out[i].tensor->shape.dim[2] > 1 && !logits)
			logits = out[i].tensor;
	}
	if (!boxes || !logits || boxes->shape.dim[1] != logits->shape.dim[1] ||
	    boxes->shape.dim[0] < 1)
		return false;
	int64_t n = boxes->shape.dim[1], classes = logits->shape.dim[2];
	bool nothing = !labels->n || (int64_t)labels->n < classes;
	for (int64_t i = 0; i < n; i++) {
		double sum = 0, best = -INFINITY, most = -INFINITY;
		int64_t class = 0;
		for (int64_t k = 0; k < classes; k++)
			most = fmax(most, element(logits, i * classes + k));
		for (int64_t k = 0; k < classes; k++) {
			double v = element(logits, i * classes + k);
			sum += exp(v - most);
			if (k < classes - nothing && v > best) {
				best = v;
				class = k;
			}
		}
		double score = nothing ? exp(best - most) / sum : 1 / (1 + exp(-best));
		add_box(f, box_around(element(boxes, 4 * i) * f->frame.width,
				      element(boxes, 4 * i + 1) * f->frame.height,
				      element(boxes, 4 * i + 2) * f->frame.width,
				      element(boxes, 4 * i + 3) * f->frame.height, score, class));
	}
	keep_best(f, false);
	return true;
}

static bool find_form(struct finder *f, enum box_form form, const struct output *out, size_t n,
		      const struct labels *labels)
{
	bool found = false;

	if (form == BOXES_SSD)
		return find_ssd(f, out, n);
	if (form == BOXES_DETR)
		return find_detr(f, out, n, labels);
	for (size_t i = 0; i < n && !found; i++)
		found = find_yolo(f, &out[i], labels);
	return found;
}

/* The user may have named the wrong kind of detector: names the one that these outputs are of. */
static const char *hint_of_form(struct finder *f, const struct output *out, size_t n,
				const struct labels *labels, struct diag *d)
{
	static const char *const words[] = {
		[BOXES_YOLO] = "yolo", [BOXES_SSD] = "ssd", [BOXES_DETR] = "detr"};
	enum box_form given = f->rules->form;

	for (enum box_form form = BOXES_YOLO; form <= BOXES_DETR; form++) {
		bool found = form != given && find_form(f, form, out, n, labels);
		*f->to = (struct boxes){0};
		if (found)
			return fmt(d, "they are as those of --decode %s", words[form]);
	}
	return "infer inspect MODEL shows the outputs; --print and -o DIR give them as they are, for detectors "
	       "that are of none of the kinds yolo, ssd and detr";
}

int boxes_find(const struct box_rules *rules, const struct output *out, size_t n,
	       const struct input_info *in, const struct labels *labels, struct boxes *to,
	       struct arena *a, struct diag *d)
{
	static const char *const expected[] = {
		"", "[1, 4 + classes, N], [1, N, 5 + classes] or [1, N, 6]",
		"boxes [N, 4], scores [N] and labels or classes [N], by these names",
		"logits [1, N, classes + 1] and boxes [1, N, 4]"};
	struct finder f = {rules, frame_of(in), to, 0, a};

	*to = (struct boxes){0};
	if (find_form(&f, rules->form, out, n, labels))
		return 0;
	return FAIL(d, E_LABELS, .slot = "--decode",
		    .message = "the outputs are not those of such a detector",
		    .expected = expected[rules->form],
		    .actual = fmt(d, "%zu output%s of other shapes%s", n, n == 1 ? "" : "s",
				  labels->n ? ", or another number of labels" : ""),
		    .hint = hint_of_form(&f, out, n, labels, d));
}

/* ---- showing */

static const char *label_of(const struct labels *l, int64_t class, struct arena *a)
{
	return class >= 0 && class < (int64_t)l->n ? tame_word(a, l->v[class])
						   : arena_printf(a, "%" PRId64, class);
}

void print_boxes(const struct boxes *b, const struct labels *labels, FILE *stream)
{
	enum { MAX_ON_TERMINAL = 20 };
	struct arena a = {0};
	size_t n = b->n > MAX_ON_TERMINAL && isatty(STDOUT_FILENO) ? MAX_ON_TERMINAL : b->n;

	for (size_t i = 0; i < n; i++)
		fprintf(stream, "%s %.3f %.1f %.1f %.1f %.1f\n", label_of(labels, b->v[i].class, &a),
			b->v[i].score, b->v[i].x0, b->v[i].y0, b->v[i].x1, b->v[i].y1);
	if (n < b->n)
		fprintf(stream, "and %zu more boxes; into a file or a pipe all are written\n",
			b->n - n);
	arena_free(&a);
}

void json_boxes(struct json *j, const struct boxes *b, const struct labels *labels)
{
	struct arena a = {0};

	json_array(j, "boxes");
	for (size_t i = 0; i < b->n; i++) {
		const double at[] = {b->v[i].x0, b->v[i].y0, b->v[i].x1, b->v[i].y1};
		json_object(j, NULL);
		json_int(j, "class", b->v[i].class);
		json_string(j, "label", label_of(labels, b->v[i].class, &a));
		json_number(j, "score", b->v[i].score);
		json_array(j, "box");
		for (int k = 0; k < 4; k++)
			json_number(j, NULL, at[k]);
		json_end(j, ']');
		json_end(j, '}');
	}
	json_end(j, ']');
	arena_free(&a);
}

static const unsigned char *color_of(int64_t class)
{
	static const unsigned char colors[][3] = {{230, 57, 70},  {42, 157, 143}, {244, 162, 97},
						  {69, 123, 230}, {155, 93, 229}, {255, 209, 0}};

	return colors[(uint64_t) class % (sizeof(colors) / sizeof(*colors))];
}

/* Fills a part of the picture, as far as it lies inside, with the color of a class. */
static void fill(struct image *im, double x0, double y0, double x1, double y1, int64_t class)
{
	const unsigned char *color = color_of(class);
	int64_t right = (int64_t)fmin(x1, (double)im->width),
		low = (int64_t)fmin(y1, (double)im->height);

	for (int64_t y = (int64_t)fmax(y0, 0); y < low; y++)
		for (int64_t x = (int64_t)fmax(x0, 0); x < right; x++)
			memcpy(im->pixels + 3 * (y * im->width + x), color, 3);
}

static void draw(struct image *im, const struct box *b)
{
	double w = fmax(2, rint(fmin((double)im->width, (double)im->height) / 200));

	fill(im, b->x0, b->y0, b->x1, b->y0 + w, b->class);
	fill(im, b->x0, b->y1 - w, b->x1, b->y1, b->class);
	fill(im, b->x0, b->y0, b->x0 + w, b->y1, b->class);
	fill(im, b->x1 - w, b->y0, b->x1, b->y1, b->class);
}

/* Writes the label and the score above the box, or inside it if there is no room above. */
static void write_label(struct image *im, const struct box *b, const struct labels *labels)
{
	struct arena a = {0};
	int64_t side = im->width < im->height ? im->width : im->height;
	int scale = side < 640 ? 1 : (int)(side / 320);
	const char *text = arena_printf(&a, "%s %.2f", label_of(labels, b->class, &a), b->score);
	/* a box may reach far out of the picture */
	double x = fmin(fmax(b->x0, 0), (double)(im->width - lettering_width(text, scale)));
	double y = b->y0 - (double)lettering_height(scale);

	if (y < 0)
		y = fmin(fmax(b->y0, 0), (double)(im->height - lettering_height(scale)));
	if (isfinite(x) && isfinite(y))
		lettering_draw(im, (int64_t)fmax(x, 0), (int64_t)fmax(y, 0), text, scale,
			       color_of(b->class));
	arena_free(&a);
}

/* Makes RGB of 8 bits from what the file holds. Returns NULL without memory. */
static unsigned char *as_rgb(const struct image *from)
{
	int64_t n = from->width * from->height;
	unsigned char *to = mem_zalloc((size_t)n * 3, MEM_STAGING);
	int gray = from->channels < 3;

	for (int64_t i = 0; to && i < n; i++)
		for (int c = 0; c < 3; c++) {
			int64_t k = i * from->channels + (gray ? 0 : c);
			to[3 * i + c] = from->bits == 16
						? (unsigned char)(((const uint16_t *)(const void *)
									   from->pixels)[k] >>
								  8)
						: from->pixels[k];
		}
	return to;
}

static void put_bytes(void *to, const void *p, size_t n)
{
	file_write(to, p, n);
}

static int write_picture(const struct image *im, const char *path, struct diag *d)
{
	struct file_out *f = file_create(path, E_OUTPUT, d);

	if (!f)
		return -E_OUTPUT;
	int rc = image_write_png(im, put_bytes, f, d);
	if (!rc)
		return file_commit(f, d);
	file_abort(f);
	return rc;
}

int boxes_draw(const struct boxes *b, const struct labels *labels, const struct input_info *in,
	       const char *path, struct diag *d)
{
	struct file_map m;
	struct image im = {0};

	if (!in || !in->picture)
		return FAIL(d, E_OPTION, .slot = "--save",
			    .message = "boxes are drawn onto a picture, and no input is one",
			    .hint = "name a folder with -o DIR for the outputs");
	int rc = file_map(in->file, &m, E_INPUT_OPEN, d);
	if (rc)
		return rc;
	rc = image_decode(m.data, m.size, &im, E_INPUT_FORMAT, d);
	if (!rc && !in->as_stored && (rc = image_upright(m.data, m.size, &im, d)))
		image_free(&im);
	if (!rc) {
		struct image rgb = {.kind = IMAGE_PNG,
				    .width = im.width,
				    .height = im.height,
				    .channels = 3,
				    .bits = 8,
				    .pixels = as_rgb(&im)};
		for (size_t i = b->n; rgb.pixels && i-- > 0;)
			draw(&rgb, &b->v[i]);
		for (size_t i = b->n; rgb.pixels && i-- > 0;)
			write_label(&rgb, &b->v[i], labels);
		rc = rgb.pixels ? write_picture(&rgb, path, d) : FAIL(d, E_MEMORY, .message = NULL);
		mem_free(rgb.pixels);
		image_free(&im);
	}
	file_unmap(&m);
	return rc;
}
