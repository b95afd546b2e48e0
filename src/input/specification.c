/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses the value of --input, [NAME=]FILE[,KEY=VALUE...], and its parts, such as shapes and
 * ranges.
 */
#include "base/json_read.h"
#include "base/str.h"
#include "input/internal.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

static const char *const key_names[] = {"dtype", "layout", "order", "resize",  "pad",	"mean",
					"std",	 "scale",  "shape", "format",  "split", "exif",
					"rate",	 "mono",   "start", "duration"};
enum { KEYS = sizeof(key_names) / sizeof(*key_names) };
static const char all_keys[] =
	"keys are dtype, layout, order, resize, pad, mean, std, scale, shape, format, split, exif, "
	"rate, mono, start and duration";

const char *input_key_words(const char *key)
{
	static const char *const words[][2] = {
		{"",
		 "dtype|layout|order|resize|pad|mean|std|scale|shape|format|split|exif|rate|mono|start|duration"},
		{"dtype", "u8|i8|u16|i16|i32|i64|f16|bf16|f32|f64|bool"},
		{"layout", "nchw|nhwc|chw|hwc"},
		{"order", "rgb|bgr|gray"},
		{"resize", "letterbox:"},
		{"scale", "1/255"},
		{"format", "npy|npz|pb|safetensors|raw|image|sound|txt|json"},
		{"exif", "on|off"},
		{"rate", "16000"},
		{"mono", "on|off"}};

	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
		if (!strcmp(words[i][0], key))
			return words[i][1];
	return "";
}

/* ---- values */

static bool parse_number(const char *s, size_t n, double *v)
{
	char text[64], *end;

	if (!n || n >= sizeof(text) || isspace((unsigned char)*s))
		return false;
	memcpy(text, s, n);
	text[n] = '\0';
	*v = strtod(text, &end);
	return !*end && isfinite(*v);
}

/*
 * Parses a list of numbers such as "0.485/0.456/0.406", or with commas. Returns their number, or 0 if the text is no
 * such list.
 */
static int parse_numbers(const char *s, double *v)
{
	int n = 0;

	for (;; s++) {
		size_t len = strcspn(s, "/,");
		if (n == MAX_MEANS || !parse_number(s, len, &v[n]))
			return 0;
		n++;
		s += len;
		if (!*s)
			return n;
	}
}

/* Parses a number or a fraction such as "1/255". */
static bool parse_fraction(const char *s, double *v)
{
	double over = 1;
	size_t n = strcspn(s, "/");

	if (!parse_number(s, n, v) ||
	    (s[n] && !parse_number(s + n + 1, strlen(s + n + 1), &over)) || over == 0)
		return false;
	*v /= over;
	return true;
}

bool parse_shape(const char *s, struct shape *out)
{
	*out = (struct shape){0};
	if (!*s || !strcmp(s, "scalar"))
		return true;
	for (;; s++) {
		int64_t v = 0;
		if (!isdigit((unsigned char)*s) || out->rank == MAX_RANK)
			return false;
		for (; isdigit((unsigned char)*s); s++)
			if (__builtin_mul_overflow(v, (int64_t)10, &v) ||
			    __builtin_add_overflow(v, (int64_t)(*s - '0'), &v))
				return false;
		out->dim[out->rank++] = v;
		if (!*s)
			return shape_count(out) >= 0;
		if (*s != 'x' && *s != ',' && *s != 'X')
			return false;
	}
}

bool parse_range(const char *s, double *lo, double *hi)
{
	const char *dots = strstr(s, "..");

	return dots && parse_number(s, (size_t)(dots - s), lo) &&
	       parse_number(dots + 2, strlen(dots + 2), hi) && *lo <= *hi;
}

const char *shape_key(struct arena *a, const struct shape *s)
{
	struct str b = {.arena = a};

	for (int i = 0; i < s->rank; i++)
		str_addf(&b, "%s%" PRId64, i ? "x" : "", s->dim[i]);
	return s->rank ? str_get(&b) : "scalar";
}

static bool parse_side(const char *s, size_t n, int64_t *v)
{
	*v = 0;
	for (size_t i = 0; i < n; i++) {
		if (!isdigit((unsigned char)s[i]) || *v > IMAGE_MAX_SIDE)
			return false;
		*v = *v * 10 + (s[i] - '0');
	}
	return *v <= IMAGE_MAX_SIDE && (!n || *v > 0);
}

static bool parse_resize(const char *s, struct resize *r)
{
	r->given = true;
	r->letterbox = str_starts(s, "letterbox:");
	s += r->letterbox ? strlen("letterbox:") : 0;
	size_t n = strcspn(s, "x");
	if (s[n] != 'x' || !parse_side(s, n, &r->width) ||
	    !parse_side(s + n + 1, strlen(s + n + 1), &r->height))
		return false;
	return r->letterbox ? r->width && r->height : r->width || r->height;
}

static int find_word(const char *value, const char *const *names, int n)
{
	for (int i = 1; i < n; i++)
		if (!strcmp(value, names[i]))
			return i;
	return 0;
}

static bool parse_axis(const char *s, int *axis)
{
	*axis = isdigit((unsigned char)*s) && !s[1] ? *s - '0' : -1;
	return *axis >= 0 && *axis < MAX_RANK;
}

static bool parse_switch(const char *s, bool *on)
{
	*on = !strcmp(s, "on");
	return *on || !strcmp(s, "off");
}

static bool set_sound_key(struct input_keys *k, const char *key, const char *value)
{
	const size_t n = strlen(value);
	double rate;

	k->sound_given = true;
	if (!strcmp(key, "mono"))
		return parse_switch(value, &k->sound.mono);
	if (!strcmp(key, "start"))
		return parse_number(value, n, &k->sound.start) && k->sound.start >= 0;
	if (!strcmp(key, "duration"))
		return parse_number(value, n, &k->sound.duration) && k->sound.duration > 0;
	if (!parse_number(value, n, &rate) || rate < 1 || rate > 1e6 || rate != (double)(int64_t)rate)
		return false;
	k->sound.rate = (int64_t)rate;
	return true;
}

static bool set_key(struct input_keys *k, const char *key, const char *value)
{
	static const char *const layouts[] = {"", "nchw", "nhwc", "chw", "hwc"};
	static const char *const orders[] = {"", "rgb", "bgr", "gray"};

	if (!strcmp(key, "dtype"))
		return (k->dtype = dtype_parse(value)) != DT_NONE;
	if (!strcmp(key, "layout"))
		return (k->layout = (enum axes)find_word(value, layouts, 5)) != AXES_NONE;
	if (!strcmp(key, "order"))
		return (k->order = (enum channel_order)find_word(value, orders, 4)) != ORDER_NONE;
	if (!strcmp(key, "resize"))
		return parse_resize(value, &k->resize);
	if (!strcmp(key, "pad"))
		return parse_number(value, strlen(value), &k->resize.pad);
	if (!strcmp(key, "shape"))
		return parse_shape(value, &k->shape);
	if (!strcmp(key, "format"))
		return (k->format = io_kind_parse(value)) >= 0;
	if (!strcmp(key, "split"))
		return parse_axis(value, &k->split);
	if (!strcmp(key, "exif")) {
		bool obey, good = parse_switch(value, &obey);
		k->exif_given = true;
		k->as_stored = !obey;
		return good;
	}
	if (!strcmp(key, "rate") || !strcmp(key, "mono") || !strcmp(key, "start") ||
	    !strcmp(key, "duration"))
		return set_sound_key(k, key, value);
	k->math.given = true;
	if (!strcmp(key, "mean"))
		return (k->math.nmean = parse_numbers(value, k->math.mean)) > 0;
	if (!strcmp(key, "scale"))
		return parse_fraction(value, &k->math.scale) && k->math.scale != 0;
	if (strcmp(key, "std"))
		return false;
	k->math.nstd = parse_numbers(value, k->math.std);
	for (int i = 0; i < k->math.nstd; i++)
		if (k->math.std[i] == 0)
			return false;
	return k->math.nstd > 0;
}

static const char *key_takes(const char *key)
{
	static const char *const text[KEYS] = {
		"an element type: u8, i8, i16, i32, i64, f16, bf16, f32, f64, bool, ...",
		"nchw, nhwc, chw or hwc",
		"rgb, bgr or gray",
		"width x height, as 224x224, 224x, x48 or letterbox:640x640, of at most 65536 pixels a side",
		"a number",
		"numbers, as 0.485/0.456/0.406",
		"numbers other than 0, as 0.229/0.224/0.225",
		"a number other than 0 or a fraction, as 1/255",
		"sizes, as 1x3x224x224",
		"npy, npz, pb, safetensors, raw, image, sound, txt or json",
		"an axis, as 0",
		"on or off",
		"samples a second, as 16000",
		"on or off, or nothing for on",
		"seconds, 0 or more, as 1.5",
		"seconds, more than 0, as 30",
	};

	for (int i = 0; i < KEYS; i++)
		if (!strcmp(key, key_names[i]))
			return text[i];
	return NULL;
}

#define IMAGENET "scale=1/255,mean=0.485/0.456/0.406,std=0.229/0.224/0.225"

/*
 * Returns what to write instead of a word that is no key, but that other programs have, such as imgsz, bgr or normalize; or NULL.
 * value is NULL for a word without '='.
 */
static const char *other_key(const char *word, const char *value, struct diag *d)
{
	static const struct {
		const char *words, *instead;
	} rows[] = {
		{"bgr rgb gray", "order="},
		{"grey grayscale greyscale", "order=gray"},
		{"nchw nhwc chw hwc", "layout="},
		{"u8 i8 u16 i16 i32 i64 f16 bf16 f32 f64", "dtype="},
		{"float float32", "dtype=f32"},
		{"uint8", "dtype=u8"},
		{"size imgsz img_size width height reshape", "resize=WxH, or resize=letterbox:WxH"},
		{"letterbox", "resize=letterbox:WxH"},
		{"crop center_crop", "resize=WxH: infer resizes pictures and does not cut them"},
		{"imagenet", IMAGENET},
		{"normalize norm normalise",
		 "scale=1/255, and what the model was trained with, such as ImageNet's " IMAGENET},
		{"div divide rescale", "scale=1/255"},
		{"sub subtract", "mean=A/B/C"},
		{"channels color colour mode bgr2rgb swap", "order=rgb, bgr or gray"},
		{"type", "dtype=f32"},
		{"sr samplerate sample_rate", "rate=16000"},
		{"length seconds", "duration=S"},
		{"stereo", "mono, or nothing: the channels stay as they are"},
		{"dims", "shape=1x3x224x224"},
		{"padding fill", "pad=N"},
		{"axis", "split=AXIS"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		const char *p = rows[i].words, *instead = rows[i].instead;
		for (size_t len; *p; p += len + (p[len] == ' ')) {
			len = strcspn(p, " ");
			if (len != strlen(word) || strncasecmp(p, word, len) != 0)
				continue;
			bool open = instead[strlen(instead) - 1] == '=';
			return !open	? fmt(d, "write %s", instead)
			       : !value ? fmt(d, "write %s%.*s", instead, (int)len, p)
					: fmt(d, "write %s%.*s, if it is meant as that", instead,
					      (int)len, p);
		}
	}
	return NULL;
}

/* Returns what other programs call a value of ours, or NULL. */
static const char *other_value(const char *key, const char *value)
{
	static const struct {
		const char *key, *words, *instead;
	} rows[] = {
		{"layout", "channels_last channels-last last tf tensorflow", "nhwc"},
		{"layout", "channels_first channels-first first torch pytorch", "nchw"},
		{"order", "grey grayscale greyscale l mono", "gray"},
		{"order", "rgba color colour", "rgb"},
		{"order", "bgra cv2 opencv", "bgr"},
		{"exif", "yes true 1", "on"},
		{"exif", "no false 0 none", "off"},
		{"mono", "yes true 1", "on"},
		{"mono", "no false 0 none", "off"},
		{"format", "png jpg jpeg bmp gif webp tiff ppm picture img", "image"},
		{"format", "wav flac mp3 ogg audio", "sound"},
		{"format", "numpy", "npy"},
		{"format", "bin binary bytes", "raw"},
		{"format", "csv text", "txt"},
		{"format", "protobuf proto", "pb"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		const char *p = rows[i].words;
		for (size_t len; !strcmp(rows[i].key, key) && *p; p += len + (p[len] == ' ')) {
			len = strcspn(p, " ");
			if (len == strlen(value) && !strncasecmp(p, value, len))
				return rows[i].instead;
		}
	}
	return NULL;
}

/* Returns sides that are numbers with something other than an 'x' between them, or one number for both, as a hint; or NULL. */
static const char *resize_instead(const char *value, struct diag *d)
{
	const char *form = !strncasecmp(value, "letterbox", 9) ? "letterbox:" : "";
	const char *side = value + strcspn(value, "0123456789");
	char *end;
	long w = strtol(side, &end, 10), h = w;

	if (*end)
		h = strtol(end + 1, NULL, 10);
	if (*side && strchr(value, '-') == NULL && w >= 1 && h >= 1 && w <= IMAGE_MAX_SIDE &&
	    h <= IMAGE_MAX_SIDE)
		return fmt(d, "write resize=%s%ldx%ld", form, w, h);
	return *form ? "write resize=letterbox:640x640, with the sizes that the model takes"
		     : "write the width and height that infer inspect MODEL shows, as resize=224x224";
}

/* Returns what to write instead of a value that a key does not take, or NULL. */
static const char *value_instead(const char *key, const char *value, struct diag *d)
{
	struct input_keys scratch = NO_KEYS;
	struct arena a = {0};
	const char *other = other_value(key, value), *hint = NULL;
	char *text, *to;

	if (!strncasecmp(value, "imagenet", 8))
		return "write " IMAGENET;
	if (other)
		return fmt(d, "write %s=%s", key, other);
	text = to = arena_strn(&a, value, strlen(value));
	/* small letters, no brackets, and a slash between numbers */
	bool numbers = !strcmp(key, "mean") || !strcmp(key, "std");
	for (const char *p = value; *p; p++)
		if (!strchr("[](){}\"'", *p))
			*to++ = (char)(numbers && strchr(":;|_ ", *p) ? '/'
								      : tolower((unsigned char)*p));
	*to = '\0';
	if (*text && strcmp(text, value) != 0 && set_key(&scratch, key, text))
		hint = fmt(d, "write %s=%s", key, text);
	else if (!strcmp(key, "resize"))
		hint = resize_instead(value, d);
	else if (!strcmp(key, "scale"))
		hint = "write scale=1/255 for values from 0 to 1";
	else if (!strcmp(key, "rate") && strtol(value, NULL, 10) > 0 &&
		 tolower((unsigned char)value[strlen(value) - 1]) == 'k')
		hint = fmt(d, "write rate=%ld", 1000 * strtol(value, NULL, 10));
	arena_free(&a);
	return hint;
}

int keys_set(struct input_keys *k, const char *key, const char *value, struct diag *d)
{
	if (!key_takes(key)) {
		const char *near = str_nearest(key, key_names, KEYS),
			   *other = other_key(key, value, d);
		return FAIL(d, E_INPUT_KEY, .message = fmt(d, "unknown input key '%s'", key),
			    .hint = other  ? other
				    : near ? fmt(d, "did you mean '%s'?", near)
					   : all_keys);
	}
	if (!set_key(k, key, value))
		return FAIL(d, E_INPUT_KEY, .message = fmt(d, "input key '%s'", key),
			    .expected = key_takes(key), .actual = fmt(d, "'%s'", value),
			    .hint = value_instead(key, value, d));
	return 0;
}

/* ---- names */

const char *input_names(struct arena *a, const char *const *names, size_t n)
{
	struct str b = {.arena = a};
	size_t shown = n > 12 ? 12 : n;

	for (size_t i = 0; i < shown; i++)
		str_addf(&b, "%s'%s'", !i ? "" : i + 1 == n ? " and " : ", ", names[i]);
	if (n > shown)
		str_addf(&b, " and %zu more", n - shown);
	return str_get(&b);
}

int spec_name(const char *text, const char *after, const char *const *names, size_t n,
	      const char **rest)
{
	size_t best = 0;
	int found = -1;

	for (size_t i = 0; i < n; i++) {
		size_t len = strlen(names[i]);
		if (len > best && !strncmp(text, names[i], len) && text[len] &&
		    strchr(after, text[len])) {
			best = len;
			found = (int)i;
			*rest = text + len + 1;
		}
	}
	return found;
}

static bool is_word(const char *s, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!isalnum((unsigned char)s[i]) && s[i] != '_' && s[i] != '-')
			return false;
	return n > 0;
}

/* Returns true for the key that may stand without a value. */
static bool is_switch(const char *key)
{
	return !strcmp(key, "mono");
}

/*
 * Returns the comma of the last ",KEY=VALUE" (or ",mono") with a known key, or NULL if there is none. The values of shape=, mean= and
 * std= may contain commas, so parts that look like numbers are skipped.
 */
static char *last_key(char *text)
{
	for (char *p = text + strlen(text); p > text;) {
		if (*--p != ',')
			continue;
		size_t n = strcspn(p + 1, "=");
		if (p[1 + n] == '=') {
			p[1 + n] = '\0';
			bool known = key_takes(p + 1) != NULL;
			p[1 + n] = '=';
			return known ? p : NULL;
		}
		if (is_switch(p + 1))
			return p;
		if (strspn(p + 1, "0123456789.eE+-,") != n)
			return NULL;
	}
	return NULL;
}

/* Returns the length of a word for an infinity or NaN at p, and its spelling in JSON, which has only strings for them; or 0. */
static size_t nonfinite(const char *p, const char **json)
{
	static const struct {
		const char *word, *json;
	} words[] = {{"infinity", "Infinity"}, {"inf", "Infinity"}, {"nan", "NaN"}};
	size_t sign = *p == '-' || *p == '+';

	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++) {
		size_t n = strlen(words[i].word);
		if (!strncasecmp(p + sign, words[i].word, n) && strchr(",] \t\n", p[sign + n])) {
			*json = words[i].json;
			return sign + n;
		}
	}
	return 0;
}

/* Copies JSON in which the words inf and nan may stand, as no writer of numbers would quote them. */
static const char *quote_nonfinite(const char *text, struct arena *a)
{
	struct str b = {.arena = a};
	bool inside = false; /* a string */

	for (const char *p = text, *json; *p;) {
		size_t n = !inside && p > text && strchr("[, \t\n", p[-1]) ? nonfinite(p, &json) : 0;
		if (n) {
			bool minus = *p == '-' && *json == 'I';
			str_addf(&b, "\"%s%s\"", minus ? "-" : "", json);
			p += n;
			continue;
		}
		n = inside && *p == '\\' && p[1] ? 2 : 1;
		inside ^= *p == '"';
		str_addf(&b, "%.*s", (int)n, p);
		p += n;
	}
	return str_get(&b);
}

bool spec_is_literal(const char *text)
{
	struct arena a = {0};
	double number;
	const char *word;

	if (access(text, F_OK) == 0)
		return false;
	if (parse_number(text, strlen(text), &number) ||
	    (*text && nonfinite(text, &word) == strlen(text)))
		return true;
	bool json = *text == '[' || *text == '"' || *text == 't' || *text == 'f';
	if (json) {
		const char *quoted = *text == '[' ? quote_nonfinite(text, &a) : text;
		json = jread(quoted, strlen(quoted), "", E_INPUT_FORMAT, &a, NULL) != NULL;
	}
	arena_free(&a);
	return json;
}

/* A bracket of a pattern ends before the name does: [0-9].npy. */
bool spec_is_broken_json(const char *text)
{
	size_t n = strlen(text);

	return *text == '[' && access(text, F_OK) != 0 && !spec_is_literal(text) &&
	       (text[1] == '[' || !strchr(text, ']') || text[n - 1] == ']');
}

bool spec_cut_keys(char *text, const char *name)
{
	size_t n = strlen(name);
	bool found = false;

	for (char *comma; (comma = last_key(text));) {
		found |= !strncmp(comma + 1, name, n) && (comma[1 + n] == '=' || !comma[1 + n]);
		*comma = '\0';
	}
	return found;
}

/*
 * Refuses a misspelt key: the end of the file name looks like ",KEY=VALUE", and no file has that
 * name.
 */
static int refuse_unknown_key(const char *file, struct diag *d)
{
	const char *comma = strrchr(file, ','), *eq = comma ? strchr(comma, '=') : NULL;
	struct input_keys k = NO_KEYS;

	if (comma && !eq && key_takes(comma + 1) && access(file, F_OK) != 0)
		return FAIL(
			d, E_INPUT_KEY, .message = fmt(d, "input key '%s' has no value", comma + 1),
			.expected = key_takes(comma + 1), .actual = "nothing",
			.hint = !strcmp(comma + 1, "resize")
					? fmt(d, "write resize=WIDTHxHEIGHT, such as %.*s,resize=224x224",
					      (int)(comma - file), file)
					: NULL);
	if (!eq || !is_word(comma + 1, (size_t)(eq - comma - 1)) || access(file, F_OK) == 0)
		return 0;
	struct arena a = {0};
	int rc = keys_set(&k, arena_strn(&a, comma + 1, (size_t)(eq - comma - 1)), eq + 1, d);
	arena_free(&a);
	return rc;
}

/* Refuses ",KEY=VALUE,JUNK": what follows the last comma is no key, although a known key stands before it. */
static int refuse_junk_after_keys(const char *file, struct diag *d)
{
	const char *junk = strrchr(file, ',');
	size_t eq = strcspn(file, "=");
	const char *key = file + eq;

	while (key > file && *key != ',')
		key--;
	if (!junk || strchr(junk, '=') || access(file, F_OK) == 0)
		return 0;
	bool behind_file = access(fmt(d, "%.*s", (int)strcspn(file, ","), file), F_OK) == 0;
	if (!behind_file && (!file[eq] || key == file ||
			     !key_takes(fmt(d, "%.*s", (int)(file + eq - key - 1), key + 1))))
		return 0;
	const char *other = other_key(junk + 1, NULL, d), *bracket = strpbrk(file, "[(");
	if (bracket && bracket > file && bracket[-1] == '=' && strpbrk(junk, "])"))
		other = "write numbers without brackets and with slashes between them, as mean=0.485/0.456/0.406, and sizes as "
			"shape=1x3x224x224";
	return FAIL(d, E_INPUT_KEY, .message = fmt(d, "'%s' is not KEY=VALUE", junk + 1),
		    .expected = "[NAME=]FILE[,KEY=VALUE]...", .actual = fmt(d, "'%s'", file),
		    .hint = other ? other : all_keys);
}

/* Refuses NAME=FILE if the model has no input NAME, unless a file is called "NAME=FILE". */
static int refuse_unknown_name(const char *file, const char *const *names, size_t n, struct diag *d)
{
	size_t len = strcspn(file, "=");

	if (!file[len] || access(file, F_OK) == 0)
		return 0;
	const char *given = fmt(d, "%.*s", (int)len, file), *near = str_nearest(given, names, n);
	if (key_takes(given))
		return FAIL(d, E_INPUT_NAME, .message = fmt(d, "the model has no input '%s'", given),
			    .hint = fmt(d, "%s is a key, and stands behind the file that it is for: --input FILE,%s",
					given, file));
	if (!near && n == 1 && access(file + len + 1, F_OK) == 0)
		return FAIL(d, E_INPUT_NAME, .message = fmt(d, "the model has no input '%s'", given),
			    .hint = fmt(d, "its input is '%s': --input %s=%s", names[0], names[0],
					file + len + 1));
	return FAIL(d, E_INPUT_NAME, .message = fmt(d, "the model has no input '%s'", given),
		    .hint = near ? fmt(d, "did you mean '%s'? its inputs are %s", near,
				       d ? input_names(&d->arena, names, n) : "")
				 : fmt(d, "its inputs are %s",
				       d ? input_names(&d->arena, names, n) : ""));
}

static int refuse_repeated_key(const char *key, unsigned *seen, const char *text, struct diag *d)
{
	for (int k = 0; k < KEYS; k++) {
		unsigned bit = strcmp(key, key_names[k]) ? 0 : 1u << k;
		if (*seen & bit)
			return FAIL(d, E_INPUT_KEY,
				    .message = fmt(d, "input key '%s' is given twice", key),
				    .expected = "each key once", .actual = fmt(d, "'%s'", text));
		*seen |= bit;
	}
	return 0;
}

/* Takes the name of the tensor off FILE.safetensors:TENSOR, unless a file has all of it as its name. */
static void cut_member(struct input_spec *s, struct arena *a)
{
	static const char ending[] = ".safetensors:";
	const char *at = strstr(s->file, ending);

	if (!at || access(s->file, F_OK) == 0)
		return;
	at += sizeof(ending) - 2;
	s->member = at + 1;
	s->file = arena_strn(a, s->file, (size_t)(at - s->file));
}

int spec_parse(const char *text, const char *const *names, size_t n, struct input_spec *s,
	       struct arena *a, struct diag *d)
{
	*s = (struct input_spec){.text = text, .keys = NO_KEYS, .keys_text = ""};
	char *work = arena_str(a, text), *keys = NULL;
	unsigned seen = 0;

	s->file = work;
	(void)spec_name(work, "=:", names, n, &s->file);
	bool whole = spec_is_literal(s->file); /* what looks like a key belongs to a string */
	char *file = work + (s->file - work);  /* a name may look like keys as well */
	for (char *comma; !whole && (comma = last_key(file));) {
		*comma = '\0';
		keys = comma + 1;
	}
	s->file_as_given = work;
	s->file = work;
	/*
	 * Parse the keys, the first of which is at `keys`. Their commas, found by last_key(), have
	 * been replaced by NULs.
	 */
	for (const char *end = work + strlen(text); keys && keys < end; keys += strlen(keys) + 1) {
		char *value = strchr(keys, '=');
		if (value)
			*value = '\0';
		int rc = refuse_repeated_key(keys, &seen, text, d);
		rc = rc ? rc : keys_set(&s->keys, keys, value ? value + 1 : "on", d);
		if (value)
			*value = '=';
		if (rc)
			return rc;
	}
	s->keys_text = strlen(work) < strlen(text) ? text + strlen(work) + 1 : "";
	int i = spec_name(work, "=:", names, n, &s->file);
	if (i >= 0)
		s->name = names[i];
	if (!*s->file)
		return FAIL(d, E_INPUT_OPEN, .message = fmt(d, "'%s' names no file", text));
	cut_member(s, a);
	s->literal = spec_is_literal(s->file);
	if (spec_is_broken_json(s->file)) {
		const char *quoted = quote_nonfinite(s->file, a);
		(void)jread(quoted, strlen(quoted), fmt(d, "'%s'", s->file), E_INPUT_FORMAT, a, d);
		return -E_INPUT_FORMAT;
	}
	if (s->literal && *s->file == '[')
		s->file = quote_nonfinite(s->file, a);
	if (s->literal && (s->name || n == 1))
		return 0;
	int rc = refuse_unknown_key(s->file, d);
	if (!rc)
		rc = refuse_junk_after_keys(s->file, d);
	return rc || s->name ? rc : refuse_unknown_name(work, names, n, d);
}
