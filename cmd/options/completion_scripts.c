/* SPDX-License-Identifier: Apache-2.0 */
/* Generates the completion scripts for bash, zsh and fish from the tables of commands and options. */
#include "base/str.h"
#include "cmd/options/subcommand.h"
#include "cmd/options/options.h"

#include <string.h>

/*
 * Returns the possible values of an option, separated by '|', or NULL if they are not a fixed set
 * of words.
 */
static const char *value_words(const struct field *f)
{
	if (f->type == F_ENUM)
		return f->choices;
	if (f->type == F_BOOL && f->arg)
		return "on|off";
	return f->metavar_kind && *f->metavar_kind == '=' ? f->metavar_kind + 1 : NULL;
}

static bool kind_is(const char *kind, const char *name)
{
	return kind && strcmp(kind, name) == 0;
}

/* Writes "a|b" with another separator. */
static void write_words(const char *list, const char *separator, FILE *f)
{
	for (; *list; list++)
		if (*list == '|')
			fputs(separator, f);
		else
			fputc(*list, f);
}

/* Writes s with `before` in front of every character that `special` contains. */
static void write_escaped(const char *s, const char *special, const char *before, FILE *f)
{
	for (; *s; s++) {
		if (strchr(special, *s))
			fputs(before, f);
		fputc(*s, f);
	}
}

/* Writes s as the inside of a single-quoted string of bash or zsh. */
static void write_single_quoted(const char *s, FILE *f)
{
	for (; *s; s++)
		if (*s == '\'')
			fputs("'\\''", f);
		else
			fputc(*s, f);
}

#define EACH_COMMAND(c) for (const struct command *c = commands; c->name; c++)
#define EACH_OPTION(row, c)                                                                        \
	for (const struct field *row = options_table; row->name; row++)                            \
		if (row->cmds & (c)->bit)

/* ---- bash */

/* Ranges of values that inputs commonly have, which are offered behind --random. */
#define RANGES "0..1 -1..1 0..255"

static const char bash_engine[] =
	"# Compare a candidate, plain and quoted, with the typed word. Never evaluate it: names come from a\n"
	"# model, which may be hostile.\n"
	"_infer_add() { # CANDIDATE [SUFFIX]\n"
	"\tlocal quoted\n"
	"\tprintf -v quoted %q \"$1\"\n"
	"\tif [[ $1 == \"$value\"* || $quoted == \"$value\"* ]]; then\n"
	"\t\tquoted=$lead$quoted${2-}\n"
	"\t\tCOMPREPLY+=(\"${quoted#\"$strip\"}\")\n"
	"\tfi\n"
	"}\n"
	"\n"
	"_infer_words() { # WORD...\n"
	"\tlocal word\n"
	"\tfor word; do _infer_add \"$word\"; done\n"
	"}\n"
	"\n"
	"_infer_files() { # -f | -d\n"
	"\tlocal file\n"
	"\twhile IFS= read -r file; do\n"
	"\t\tfile=$lead$file\n"
	"\t\tCOMPREPLY+=(\"${file#\"$strip\"}\")\n"
	"\tdone < <(compgen \"$1\" -- \"${value//\\\\/}\")\n"
	"\tcompopt -o filenames 2>/dev/null\n"
	"}\n"
	"\n"
	"# The first word after the subcommand that is a file.\n"
	"_infer_model() {\n"
	"\tlocal word\n"
	"\tfor word in \"${words[@]:1:${#words[@]}-2}\"; do\n"
	"\t\tword=${word//\\\\/}\n"
	"\t\tword=${word/#\\~\\//$HOME/}\n"
	"\t\t[[ $word != -* && -f $word ]] && printf %s \"$word\" && return\n"
	"\tdone\n"
	"}\n"
	"\n"
	"_infer_names() { # inputs | dims | outputs | labels [SUFFIX]: complete the names in the model on the command line\n"
	"\tlocal model name\n"
	"\tmodel=$(_infer_model)\n"
	"\t[[ $model ]] || return\n"
	"\twhile IFS= read -r -d '' name; do\n"
	"\t\t_infer_add \"$name\" \"${2-}\"\n"
	"\tdone < <(\"$program\" __complete -0 \"$1\" \"$model\" 2>/dev/null)\n"
	"\t[[ ${2-} ]] || return\n"
	"\tcompopt -o nospace 2>/dev/null\n"
	"}\n"
	"\n"
	"# Complete a file name inside a word. It is quoted here because input names may be offered with it.\n"
	"_infer_quoted_files() {\n"
	"\tlocal file\n"
	"\twhile IFS= read -r file; do\n"
	"\t\tif [[ -d $file ]]; then _infer_add \"$file\" /; else _infer_add \"$file\"; fi\n"
	"\tdone < <(compgen -f -- \"${value//\\\\/}\")\n"
	"\tcompopt -o nospace 2>/dev/null\n"
	"}\n"
	"\n"
	"_infer_keys() { # complete what follows the last comma of a FILE,KEY=VALUE...\n"
	"\tlocal key=\n"
	"\tlead+=${value%,*},\n"
	"\tvalue=${value##*,}\n"
	"\tif [[ $value == *=* ]]; then\n"
	"\t\tlead+=${value%%=*}=\n"
	"\t\tkey=${value%%=*}\n"
	"\t\tvalue=${value#*=}\n"
	"\tfi\n"
	"\twhile IFS= read -r word; do\n"
	"\t\tif [[ $key ]]; then _infer_add \"$word\"; else _infer_add \"$word\" =; fi\n"
	"\tdone < <(\"$program\" __complete keys \"$key\" 2>/dev/null)\n"
	"\tcompopt -o nospace 2>/dev/null\n"
	"}\n"
	"\n"
	"_infer_matching() { # PATTERN: folders, and files that match\n"
	"\tlocal file\n"
	"\twhile IFS= read -r file; do\n"
	"\t\t[[ -d $file || $file == $1 ]] || continue\n"
	"\t\tfile=$lead$file\n"
	"\t\tCOMPREPLY+=(\"${file#\"$strip\"}\")\n"
	"\tdone < <(compgen -f -- \"${value//\\\\/}\")\n"
	"\tcompopt -o filenames 2>/dev/null\n"
	"}\n"
	"\n"
	"_infer_models() { # models and folders; any file once there is a model\n"
	"\tif [[ $(_infer_model) && $command != profile ]]; then _infer_files -f; return; fi\n"
	"\t_infer_matching '*.onnx'\n"
	"}\n"
	"\n"
	"_infer_value() { # KIND\n"
	"\tlocal IFS=$' \\t\\n'\n"
	"\tcase $1 in\n"
	"\tmodel) _infer_models ;;\n"
	"\tfile) _infer_files -f ;;\n"
	"\tdir) _infer_files -d ;;\n"
	"\tsuite) _infer_matching '*.@(onnx|yaml|yml)' ;;\n"
	"\tdim) _infer_names dims = ;;\n"
	"\tname) _infer_names inputs = ;;\n"
	"\trange)\n"
	"\t\tif [[ $value == *=* ]]; then\n"
	"\t\t\tlead+=${value%%=*}=\n"
	"\t\t\tvalue=${value#*=}\n"
	"\t\telse\n"
	"\t\t\t_infer_names inputs =\n"
	"\t\tfi\n"
	"\t\t_infer_words " RANGES "\n"
	"\t\t;;\n"
	"\toutput) _infer_names outputs ;;\n"
	"\tlabels) _infer_names labels; _infer_files -f ;;\n"
	"\tinput)\n"
	"\t\tif [[ $value == *,* ]]; then\n"
	"\t\t\t_infer_keys\n"
	"\t\t\treturn\n"
	"\t\telif [[ $value == *=* ]]; then\n"
	"\t\t\tlead+=${value%%=*}=\n"
	"\t\t\tvalue=${value#*=}\n"
	"\t\telse\n"
	"\t\t\t_infer_names inputs =\n"
	"\t\tfi\n"
	"\t\t_infer_quoted_files\n"
	"\t\t;;\n"
	"\t=*) _infer_words ${1#=} ;;\n"
	"\tesac\n"
	"}\n"
	"\n";

static const char bash_main[] =
	"_infer() {\n"
	"\tlocal program=${1:-${COMP_WORDS[0]}} words=() piece i cur=${COMP_WORDS[COMP_CWORD]}\n"
	"\tlocal word prev strip lead='' value opt options kind='' operand command\n"
	"\tCOMPREPLY=()\n"
	"\tprogram=${program/#\\~\\//$HOME/}\n"
	"\t# bash splits words at = and :, so join the pieces again\n"
	"\tfor ((i = 1; i <= COMP_CWORD; i++)); do\n"
	"\t\tpiece=${COMP_WORDS[i]}\n"
	"\t\tif ((${#words[@]})) && [[ $piece == [=:]* || ${words[-1]} == ?*[=:] ]]; then\n"
	"\t\t\twords[-1]+=$piece\n"
	"\t\telse\n"
	"\t\t\twords+=(\"$piece\")\n"
	"\t\tfi\n"
	"\tdone\n"
	"\tword=${words[-1]}\n"
	"\tvalue=$word\n"
	"\tstrip=${word%\"$cur\"}\n"
	"\t[[ $cur == *[!=:]* || -z $cur ]] || strip=$word\n"
	"\tif ((${#words[@]} < 2)); then\n"
	"\t\t_infer_words $(_infer_commands) --help --version\n"
	"\t\treturn\n"
	"\tfi\n"
	"\tcommand=${words[0]} prev=${words[-2]}\n"
	"\tif [[ $command == help ]]; then\n"
	"\t\t((${#words[@]} > 2)) || _infer_words $(_infer_commands)\n"
	"\t\treturn 0\n"
	"\tfi\n"
	"\t_infer_command \"$command\" || return 0\n"
	"\tif [[ $word == --*=* ]]; then\n"
	"\t\topt=${word%%=*} value=${word#*=} lead=${word%%=*}=\n"
	"\t\t_infer_option \"$command\" \"$opt\" && _infer_value \"$kind\"\n"
	"\telif ((${#words[@]} > 2)) && _infer_option \"$command\" \"$prev\" && [[ $kind != *\\? ]]; then\n"
	"\t\t_infer_value \"$kind\"\n"
	"\telif [[ $word == -* ]]; then\n"
	"\t\t_infer_words $options\n"
	"\telse\n"
	"\t\t[[ $kind == *\\? ]] && _infer_value \"${kind%\\?}\"\n"
	"\t\t_infer_value \"$operand\"\n"
	"\tfi\n"
	"\treturn 0\n"
	"}\n"
	"\n"
	"complete -F _infer infer\n";

/* Writes the kind of an option's value for _infer_value, with a question mark if the value may be left out. */
static void write_bash_kind(const struct field *row, FILE *f)
{
	const char *list = value_words(row);

	if (list) {
		fputc('=', f);
		write_words(list, " ", f);
	} else {
		fputs(row->metavar_kind ? row->metavar_kind : "none", f);
		if (option_optional(row))
			fputc('?', f);
	}
}

static void write_bash_command(const struct command *c, FILE *f)
{
	fprintf(f, "\t%s)\n\t\toptions='", c->name);
	EACH_OPTION(row, c)
	fprintf(f, "%s--%s", row == options_table ? "" : " ", row->name);
	fputs("'\n\t\toperand='", f);
	write_words(c->operand_kind, " ", f);
	fputs("'\n\t\t;;\n", f);
}

static void write_bash_options(const struct command *c, FILE *f)
{
	EACH_OPTION(row, c)
	{
		if (!row->arg)
			continue;
		fprintf(f, "\t%s:--%s", c->name, row->name);
		if (row->sh)
			fprintf(f, " | %s:-%c", c->name, row->sh);
		fputs(") kind='", f);
		write_bash_kind(row, f);
		fputs("' ;;\n", f);
	}
}

static void write_bash_script(FILE *f)
{
	fputs("# shellcheck shell=bash disable=SC2034,SC2046,SC2086,SC2154\n"
	      "# Completion of infer for bash. Written by `infer __gen bash'.\n\n"
	      "_infer_commands() {\n\techo '",
	      f);
	EACH_COMMAND(c)
	fprintf(f, "%s%s", c == commands ? "" : " ", c->name);
	fputs("'\n}\n\n_infer_command() { # COMMAND: sets options and the kind of its operand\n\tcase $1 in\n",
	      f);
	EACH_COMMAND(c)
	write_bash_command(c, f);
	fputs("\t*) return 1 ;;\n\tesac\n}\n\n"
	      "_infer_option() { # COMMAND OPTION: sets the kind of its value; false if the option takes no value\n"
	      "\tcase $1:$2 in\n",
	      f);
	EACH_COMMAND(c)
	write_bash_options(c, f);
	fputs("\t*) return 1 ;;\n\tesac\n}\n\n", f);
	fputs(bash_engine, f);
	fputs(bash_main, f);
}

/* ---- zsh */

static const char zsh_engine[] =
	"# The first word after the subcommand that is a file.\n"
	"_infer_model() {\n"
	"\tlocal word\n"
	"\tfor word in \"${(@)words[2,CURRENT-1]}\"; do\n"
	"\t\tword=${(Q)word}\n"
	"\t\tword=${word/#\\~\\//$HOME/}\n"
	"\t\tif [[ $word != -* && -f $word ]]; then\n"
	"\t\t\tREPLY=$word\n"
	"\t\t\treturn\n"
	"\t\tfi\n"
	"\tdone\n"
	"\treturn 1\n"
	"}\n"
	"\n"
	"_infer_names() { # inputs | dims | outputs | labels [SUFFIX]: complete the names in the model on the command line\n"
	"\tlocal REPLY\n"
	"\tlocal -a names\n"
	"\t_infer_model || return 1\n"
	"\tnames=(\"${(@0)$($infer_program __complete -0 $1 $REPLY 2>/dev/null)}\")\n"
	"\tnames=(\"${(@)names:#}\")\n"
	"\tcompadd -q -S \"${2-}\" -a names\n"
	"}\n"
	"\n"
	"_infer_keys() { # what follows the last comma of a FILE,KEY=VALUE...\n"
	"\tlocal key=\n"
	"\tif [[ $PREFIX == *=* ]]; then\n"
	"\t\tkey=${PREFIX%%=*}\n"
	"\t\tcompset -P '*='\n"
	"\t\tcompadd -- ${(f)\"$($infer_program __complete keys $key 2>/dev/null)\"}\n"
	"\telse\n"
	"\t\tcompadd -q -S = -- ${(f)\"$($infer_program __complete keys '' 2>/dev/null)\"}\n"
	"\tfi\n"
	"}\n"
	"\n"
	"_infer_inputs() { # NAME=FILE or FILE, and the keys behind it\n"
	"\tif compset -P '*,'; then\n"
	"\t\t_infer_keys\n"
	"\telif compset -P '*='; then\n"
	"\t\t_files\n"
	"\telse\n"
	"\t\tlocal ret=1\n"
	"\t\t_infer_names inputs = && ret=0\n"
	"\t\t_files && ret=0\n"
	"\t\treturn ret\n"
	"\tfi\n"
	"}\n"
	"\n"
	"_infer_ranges() { # NAME=LO..HI or LO..HI\n"
	"\tlocal ret=1\n"
	"\tcompset -P '*=' || { _infer_names inputs = && ret=0; }\n"
	"\tcompadd -- " RANGES " && ret=0\n"
	"\treturn ret\n"
	"}\n"
	"\n"
	"_infer_labels() { # a file, or meta:KEY\n"
	"\tlocal ret=1\n"
	"\t_infer_names labels ' ' && ret=0\n"
	"\t_files && ret=0\n"
	"\treturn ret\n"
	"}\n"
	"\n"
	"_infer-help() {\n"
	"\t_arguments '1:command:_infer_commands'\n"
	"}\n"
	"\n"
	"_infer() {\n"
	"\tlocal context state state_descr line curcontext=$curcontext infer_program=${(Q)words[1]}\n"
	"\ttypeset -A opt_args\n"
	"\tinfer_program=${infer_program/#\\~\\//$HOME/}\n"
	"\t_arguments -C \\\n"
	"\t\t'(- *)'{-h,--help}'[show help]' \\\n"
	"\t\t'(- *)--version[show the version]' \\\n"
	"\t\t'1: :->command' \\\n"
	"\t\t'*:: :->arguments'\n"
	"\tcase $state in\n"
	"\tcommand) _infer_commands ;;\n"
	"\targuments)\n"
	"\t\t(( $+functions[_infer-${words[1]}] )) && _infer-${words[1]}\n"
	"\t\t;;\n"
	"\tesac\n"
	"}\n"
	"\n"
	"if [[ ${funcstack[1]} == _infer ]]; then\n"
	"\t_infer \"$@\"\n"
	"else\n"
	"\tcompdef _infer infer\n"
	"fi\n";

/* Writes the action that makes zsh's _arguments complete a value. */
static void write_zsh_action(const char *kind, const char *list, FILE *f)
{
	if (list) {
		fputc('(', f);
		write_words(list, " ", f);
		fputc(')', f);
	} else if (kind_is(kind, "model")) {
		fputs("_files -g \"*.onnx(-.)\"", f);
	} else if (kind_is(kind, "file")) {
		fputs("_files", f);
	} else if (kind_is(kind, "dir")) {
		fputs("_files -/", f);
	} else if (kind_is(kind, "input")) {
		fputs("_infer_inputs", f);
	} else if (kind_is(kind, "name")) {
		fputs(" _infer_names inputs =",
		      f); /* after a space, _arguments calls the function without adding options */
	} else if (kind_is(kind, "range")) {
		fputs(" _infer_ranges", f);
	} else if (kind_is(kind, "dim")) {
		fputs(" _infer_names dims =", f);
	} else if (kind_is(kind, "output")) {
		fputs(" _infer_names outputs \" \"", f);
	} else if (kind_is(kind, "labels")) {
		fputs(" _infer_labels", f);
	} else if (kind_is(kind, "suite")) {
		fputs("_files -g \"*.(onnx|yaml|yml)(-.)\"", f);
	} else {
		fputc(' ', f);
	}
}

/* Writes the rest of an _arguments specification after the option's name, inside single quotes. */
static void write_zsh_rest(const struct command *c, const struct field *row, FILE *f)
{
	fputc('[', f);
	for (const char *p = option_help(row, c->bit); *p; p++)
		if (*p == '\'')
			fputs("'\\''", f);
		else
			fprintf(f, "%s%c", strchr("[]:\\", *p) ? "\\" : "", *p);
	fputc(']', f);
	if (row->arg) {
		fputs(option_optional(row) ? "::" : ":", f);
		fputs(row->name, f);
		fputc(':', f);
		write_zsh_action(row->metavar_kind, value_words(row), f);
	}
	fputs("' \\\n", f);
}

static void write_zsh_option(const struct command *c, const struct field *row, FILE *f)
{
	bool repeat = row->type == F_LIST || (row->type == F_INT && !row->arg);
	const char *all = row->flags & OPTION_COMMAND_LINE && !row->arg ? "- *" : NULL;

	if (row->sh) {
		fputs("\t\t'", f);
		if (repeat)
			fputc('*', f);
		else if (all)
			fprintf(f, "(%s)", all);
		else
			fprintf(f, "(-%c --%s)", row->sh, row->name);
		fprintf(f, "-%c%s", row->sh, row->arg ? "+" : "");
		write_zsh_rest(c, row, f);
	}
	fputs("\t\t'", f);
	if (repeat)
		fputc('*', f);
	else if (all)
		fprintf(f, "(%s)", all);
	else if (row->sh)
		fprintf(f, "(-%c --%s)", row->sh, row->name);
	fprintf(f, "--%s%s", row->name, row->arg ? "=" : "");
	write_zsh_rest(c, row, f);
}

static void write_zsh_script(FILE *f)
{
	fputs("#compdef infer\n# Completion of infer for zsh. Written by `infer __gen zsh'.\n\n"
	      "_infer_commands() {\n\tlocal -a list=(\n",
	      f);
	EACH_COMMAND(c)
	{
		fprintf(f, "\t\t'%s:", c->name);
		write_single_quoted(c->summary, f);
		fputs("'\n", f);
	}
	fputs("\t)\n\t_describe command list\n}\n\n", f);
	EACH_COMMAND(c)
	{
		fprintf(f, "_infer-%s() {\n\t_arguments -s -S : \\\n", c->name);
		EACH_OPTION(row, c)
		write_zsh_option(c, row, f);
		fputs("\t\t'1:operand:", f);
		write_zsh_action(c->operand_kind,
				 *c->operand_kind == '=' ? c->operand_kind + 1 : NULL, f);
		if (c->bit & CMD_RUNS) /* a file after the model is its input; profile compares models */
			fprintf(f, "' \\\n\t\t'*:%s",
				c->bit & CMD_PROFILE ? "model:_files -g \"*.onnx(-.)\""
						     : "file:_files");
		fputs("'\n}\n\n", f);
	}
	fputs(zsh_engine, f);
}

/* ---- fish */

static const char fish_engine[] =
	"function __infer_no_command\n"
	"\ttest (count (commandline -opc)) -lt 2\n"
	"end\n"
	"\n"
	"function __infer_is\n"
	"\tset -l line (commandline -opc)\n"
	"\ttest (count $line) -ge 2; and test \"$line[2]\" = $argv[1]\n"
	"end\n"
	"\n"
	"# Complete inputs or dims of the model on the command line. Names with a newline are left out, because a\n"
	"# completion in fish cannot contain one.\n"
	"function __infer_names\n"
	"\tset -l line (commandline -opc)\n"
	"\tfor word in $line[3..-1]\n"
	"\t\tset word (string replace -r '^~/' \"$HOME/\" -- $word)\n"
	"\t\tif not string match -q -- '-*' $word; and test -f $word\n"
	"\t\t\t$line[1] __complete $argv[1] $word 2>/dev/null\n"
	"\t\t\treturn\n"
	"\t\tend\n"
	"\tend\n"
	"end\n"
	"\n"
	"# Complete file names after NAME=\n"
	"function __infer_input_files\n"
	"\tset -l token (string replace -r '^--[a-z-]+=' '' -- (commandline -ct))\n"
	"\tif string match -q -- '*,*' $token\n"
	"\t\tset -l head (string replace -r '[^,]*$' '' -- $token)\n"
	"\t\tset -l last (string replace -r '^.*,' '' -- $token)\n"
	"\t\tset -l line (commandline -opc)\n"
	"\t\tif string match -q -- '*=*' $last\n"
	"\t\t\tset -l key (string replace -r '=.*' '' -- $last)\n"
	"\t\t\tprintf '%s\\n' $head$key=($line[1] __complete keys $key 2>/dev/null)\n"
	"\t\telse\n"
	"\t\t\tprintf '%s\\n' $head($line[1] __complete keys '' 2>/dev/null)=\n"
	"\t\tend\n"
	"\t\treturn\n"
	"\tend\n"
	"\tset -l parts (string split -m 1 = -- $token)\n"
	"\tif test (count $parts) -eq 2\n"
	"\t\tfor file in (__fish_complete_path $parts[2])\n"
	"\t\t\techo $parts[1]=$file\n"
	"\t\tend\n"
	"\tend\n"
	"end\n"
	"\n";

static void write_fish_quoted(const char *s, FILE *f)
{
	fputc('\'', f);
	write_escaped(s, "'\\", "\\", f);
	fputc('\'', f);
}

static void write_fish_value(const char *kind, const char *list, FILE *f)
{
	if (list) {
		fputs(" -x -a '", f);
		write_words(list, " ", f);
		fputc('\'', f);
	} else if (kind_is(kind, "file")) {
		fputs(" -r -F", f);
	} else if (kind_is(kind, "dir")) {
		fputs(" -x -a '(__fish_complete_directories)'", f);
	} else if (kind_is(kind, "input")) {
		fputs(" -r -F -a '(__infer_names inputs)= (__infer_input_files)'", f);
	} else if (kind_is(kind, "name")) {
		fputs(" -x -a '(__infer_names inputs)='", f);
	} else if (kind_is(kind, "dim")) {
		fputs(" -x -a '(__infer_names dims)='", f);
	} else if (kind_is(kind, "output")) {
		fputs(" -x -a '(__infer_names outputs)'", f);
	} else if (kind_is(kind, "labels")) {
		fputs(" -r -F -a '(__infer_names labels)'", f);
	} else {
		fputs(" -x", f);
	}
}

static void write_fish_option(const struct command *c, const struct field *row, FILE *f)
{
	fprintf(f, "complete -c infer -n '__infer_is %s' -l %s", c->name, row->name);
	if (row->sh)
		fprintf(f, " -s %c", row->sh);
	if (row->arg && !option_optional(row))
		write_fish_value(row->metavar_kind, value_words(row), f);
	fputs(" -d ", f);
	write_fish_quoted(option_help(row, c->bit), f);
	fputc('\n', f);
	/* fish completes no value that may be left out, so it is offered as an operand behind the option */
	if (kind_is(row->metavar_kind, "range"))
		fprintf(f,
			"complete -c infer -n '__infer_is %s; and test (commandline -opc)[-1] = --%s' "
			"-a '(__infer_names inputs)= " RANGES "'\n",
			c->name, row->name);
}

static void write_fish_script(FILE *f)
{
	fputs("# Completion of infer for fish. Written by `infer __gen fish'.\n\n", f);
	fputs(fish_engine, f);
	fputs("complete -c infer -f\n"
	      "complete -c infer -n __infer_no_command -s h -l help -d 'show help'\n"
	      "complete -c infer -n __infer_no_command -l version -d 'show the version'\n",
	      f);
	EACH_COMMAND(c)
	{
		fprintf(f, "\ncomplete -c infer -n __infer_no_command -a %s -d ", c->name);
		write_fish_quoted(c->summary, f);
		fprintf(f, "\ncomplete -c infer -n '__infer_is help' -a %s -d ", c->name);
		write_fish_quoted(c->summary, f);
		fprintf(f, "\ncomplete -c infer -n '__infer_is %s'", c->name);
		if (*c->operand_kind == '=') {
			fputs(" -a '", f);
			write_words(c->operand_kind + 1, " ", f);
			fputs("'\n", f);
		} else if (kind_is(c->operand_kind, "model")) {
			fputs(" -k -a '(__fish_complete_suffix .onnx)'\n", f);
		} else if (kind_is(c->operand_kind, "suite")) {
			fputs(" -k -a '(__fish_complete_suffix .yaml; __fish_complete_suffix .onnx)'\n",
			      f);
		} else {
			fputs(" -F\n", f);
		}
		EACH_OPTION(row, c)
		write_fish_option(c, row, f);
	}
}

bool shell_script(const char *shell, FILE *f)
{
	if (strcmp(shell, "bash") == 0)
		write_bash_script(f);
	else if (strcmp(shell, "zsh") == 0)
		write_zsh_script(f);
	else if (strcmp(shell, "fish") == 0)
		write_fish_script(f);
	else
		return false;
	return true;
}
