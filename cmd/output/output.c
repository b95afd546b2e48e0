/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/output/output.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/tame.h"
#include "cmd/options/subcommand.h"
#include "output/html.h"
#include "cmd/output/auto_precision.h"
#include "cmd/options/version.h"
#include "cmd/output/watchdog.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

FILE *listing_begin(FILE *to)
{
	FILE *f = tame_open(to);

	if (!f)
		mem_refused(0);
	return f;
}

void listing_end(FILE *f)
{
	if (fclose(f) != 0) /* errors of the stream behind it are that stream's */
		mem_refused(0);
}

bool output_color(const struct options *o, FILE *stream)
{
	const char *no = getenv("NO_COLOR"), *terminal = getenv("TERM");

	if (o->color != COLOR_AUTO)
		return o->color == COLOR_ALWAYS;
	if ((no && *no) || (terminal && strcmp(terminal, "dumb") == 0))
		return false;
	return isatty(fileno(stream));
}

/* Reads the processor's name from /proc/cpuinfo, or "" if the file names none. */
static void cpu_name(char *name, size_t size)
{
	char line[256];
	FILE *f = fopen("/proc/cpuinfo", "re");

	*name = '\0';
	while (f && !*name && fgets(line, sizeof(line), f)) {
		char *colon = strchr(line, ':');
		if (!colon || strncmp(line, "model name", 10) != 0)
			continue;
		colon[strcspn(colon, "\n")] = '\0';
		snprintf(name, size, "%s", colon + 1 + strspn(colon + 1, " "));
	}
	if (f)
		fclose(f);
}

/*
 * Returns the precision of the run, or NULL if the command runs no model or compares several
 * precisions.
 */
static const char *precision_name(const struct options *o)
{
	bool runs = o->command && (o->command->bit & CMD_RUNS) && !o->after_dashes;

	return runs && !o->precision_axis.n ? precision_names[o->config.precision] : NULL;
}

static void write_env(const struct options *o, struct json *j)
{
	char cpu[128];
	struct utsname u;
	cpu_set_t set;

	json_object(j, "env");
	json_string(j, "infer", infer_build);
	cpu_name(cpu, sizeof(cpu));
	json_string(j, "cpu", *cpu ? cpu : NULL);
	if (sched_getaffinity(0, sizeof(set), &set) == 0)
		json_int(j, "cores", CPU_COUNT(&set));
	if (precision_name(o))
		json_string(j, "precision", precision_name(o));
	if (uname(&u) == 0) {
		json_string(j, "machine", u.machine);
		json_string(j, "system", u.sysname);
		json_string(j, "kernel", u.release);
	}
	json_end(j, '}');
}

void json_document_begin(struct json *j, FILE *stream, struct options *o, const struct diag *d)
{
	int status = diag_exit(d);

	if (!status || o->status_stands)
		status = o->status;
	json_begin(j, stream);
	json_object(j, NULL);
	json_string(j, "schema", "infer/1");
	json_string(j, "command", o->command ? o->command->name : NULL);
	json_bool(j, "ok", diag_exit(d) == 0);
	json_int(j, "exit_code", status);
	write_env(o, j);
	precision_document(o, j);
}

void json_envelope_begin(struct json *j, struct options *o, const struct diag *d)
{
	int fd = memfd_create("infer-document", MFD_CLOEXEC);
	FILE *whole = fd < 0 ? stdout : fdopen(fd, "w+");

	if (!whole)
		mem_refused(0);
	if (whole == stdout)
		watchdog_document_begun();
	o->document = true;
	json_document_begin(j, whole, o, d);
}

FILE *printed_begin(struct printed *p)
{
	*p = (struct printed){0};
	p->stream = open_memstream(&p->text, &p->n);
	if (!p->stream)
		mem_refused(0);
	return p->stream;
}

void printed_end(struct printed *p, struct json *j)
{
	if (fclose(p->stream) != 0)
		mem_refused(0);
	json_string(j, "printed", p->text);
	free(p->text);
}

/* Writes a member of the open object, unless text is NULL. */
static void write_text_member(struct json *j, const char *key, const char *text)
{
	if (text)
		json_string(j, key, text);
}

void json_finding(struct json *j, const struct finding *f)
{
	const char *hint = finding_hint(f);

	json_object(j, NULL);
	json_string(j, "id", code_id(f->code, f->severity));
	json_string(j, "severity", severity_word(f->severity));
	json_string(j, "message", f->message ? f->message : code_title(f->code));
	if (f->model || f->node || f->op || f->slot) {
		json_object(j, "where");
		write_text_member(j, "model", f->model);
		write_text_member(j, "node", f->node);
		write_text_member(j, "op", f->op);
		write_text_member(j, "slot", f->slot);
		json_end(j, '}');
	}
	write_text_member(j, "expected", f->expected);
	write_text_member(j, "actual", f->actual);
	write_text_member(j, "hint", *hint ? hint : NULL);
	if (f->nrows) {
		json_array(j, "rows");
		for (size_t i = 0; i < f->nrows; i++) {
			json_object(j, NULL);
			json_string(j, "label", f->rows[i].label);
			json_string(j, "text", f->rows[i].text);
			json_end(j, '}');
		}
		json_end(j, ']');
	}
	json_end(j, '}');
}

void json_document_end(struct json *j, const struct diag *d)
{
	json_array(j, "findings");
	for (const struct finding *f = d->first; f; f = f->next)
		json_finding(j, f);
	json_end(j, ']');
	json_end(j, '}');
	json_finish(j);
}

/* Copies a finished document to stdout, and closes the stream. */
static void write_whole(FILE *document)
{
	char piece[1 << 14];
	size_t n;

	if (fflush(document) != 0 || ferror(document))
		mem_refused(0);
	rewind(document);
	watchdog_document_begun(); /* a signal must not write a second document after this one has begun */
	while ((n = fread(piece, 1, sizeof(piece), document)) > 0)
		fwrite(piece, 1, n, stdout);
	fclose(document);
}

void json_envelope_end(struct json *j, const struct diag *d)
{
	json_document_end(j, d);
	if (j->stream != stdout)
		write_whole(j->stream);
}

void output_findings(struct options *o, const struct diag *d, FILE *stream)
{
	bool color = output_color(o, stream);

	for (const struct finding *f = o->printed ? o->printed->next : d->first; f; f = f->next)
		if (!o->quiet || f->severity == SEV_ERROR)
			finding_print(f, stream, color);
	o->printed = d->last;
}

/* Adds a word as a shell would have to read it. */
static void add_shell_word(struct str *s, const char *word)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
				    "-_./,:=+@%";

	str_add(s, s->n ? " " : "");
	if (*word && word[strspn(word, plain)] == '\0') {
		str_add(s, word);
		return;
	}
	str_add(s, "'");
	for (; *word; word++)
		if (*word == '\'')
			str_add(s, "'\\''");
		else
			str_add_n(s, word, 1);
	str_add(s, "'");
}

void page_origin(struct page *p, const struct options *o, struct arena *a)
{
	struct str line = {.arena = a};
	char when[64] = "", host[256] = "";
	time_t now = time(NULL);
	struct tm utc;

	if (gmtime_r(&now, &utc))
		strftime(when, sizeof(when), "%Y-%m-%d %H:%M UTC", &utc);
	if (gethostname(host, sizeof(host) - 1))
		*host = '\0';
	str_add(&line, "infer");
	for (char *const *word = o->words; word && *word; word++)
		add_shell_word(&line, *word);
	page_made_by(p, arena_printf(a, "infer %s on %s, %s", infer_build, *host ? host : "?", when),
		     str_get(&line));
}

void page_finding(struct page *p, const struct finding *f, struct arena *a)
{
	const char *hint = finding_hint(f), *where = "", *rows = "";

	if (f->node)
		where = arena_printf(a, "node '%s' (%s)%s", f->node, f->op ? f->op : "?",
				     f->slot ? " " : "");
	where = arena_printf(a, "%s%s%s", where, f->slot ? f->slot : "",
			     f->node || f->slot ? ": " : "");
	page_note(p, f->severity,
		  arena_printf(a, "%s %s: %s%s", severity_word(f->severity),
			       code_id(f->code, f->severity), where,
			       f->message ? f->message : code_title(f->code)));
	for (size_t i = 0; i < f->nrows; i++)
		rows = arena_printf(a, "%s%s%-12s %s", rows, i ? "\n" : "", f->rows[i].label,
				    f->rows[i].text);
	if (f->expected)
		rows = arena_printf(a, "%s%sexpected     %s", rows, *rows ? "\n" : "", f->expected);
	if (f->actual)
		rows = arena_printf(a, "%s%sfound        %s", rows, *rows ? "\n" : "", f->actual);
	if (*hint)
		rows = arena_printf(a, "%s%scure         %s", rows, *rows ? "\n" : "", hint);
	if (*rows)
		page_pre(p, rows);
}

/*
 * Returns true for standard output and for pipes: opening one for a test and closing it again would
 * look like the end of the data.
 */
static bool is_pipe(const char *path)
{
	struct stat st;

	return !strcmp(path, "-") ||
	       (stat(path, &st) == 0 && S_ISFIFO(st.st_mode) && access(path, W_OK) == 0);
}

int output_probe(const char *path, struct diag *d)
{
	struct file_out *f = is_pipe(path) ? NULL : file_create(path, E_OUTPUT, d);

	if (f)
		file_abort(f);
	return f || is_pipe(path) ? 0 : -E_OUTPUT;
}
