#!/usr/bin/env bats
# --ops: operators from a shared library. The example of docs/custom-operators runs; libraries that cannot be used are refused, and a
# crash is told with its node.
load helper

root=$BATS_TEST_DIRNAME/../..

setup_file() {
	# what setup() skips the tests for has nothing to set up
	has_onnx && command -v "${CC:-cc}" >/dev/null || return 0
	cd "$BATS_FILE_TMPDIR" || return 1
	make -C "$BATS_TEST_DIRNAME/../../docs/custom-operators" OUT="$PWD" -s
	python3 - <<'END'
import onnx
from onnx import TensorProto as T, helper as h
def save(name, *nodes, x=[None, 3], out="y", domain="com.example", version=1, t=T.FLOAT):
    g = h.make_graph(list(nodes), "g", [h.make_tensor_value_info("x", t, x)], [h.make_tensor_value_info(out, t, None)])
    onnx.save(h.make_model(g, opset_imports=[h.make_opsetid("", 20), h.make_opsetid(domain, version)], ir_version=10), name)
def op(kind, x, y, domain="com.example", **attributes):
    return h.make_node(kind, [x], [y], name=kind.lower() + "_0", domain=domain, **attributes)
save("both.onnx", op("Swish", "x", "a", alpha=2.0), op("TakeEvery", "a", "y", step=2))
save("step.onnx", op("TakeEvery", "x", "y", step=0))
save("rank.onnx", op("TakeEvery", "x", "y", step=2), x=[4])
save("type.onnx", op("Swish", "x", "y"), t=T.DOUBLE)
save("attribute.onnx", op("Swish", "x", "y", alfa=2.0))
save("required.onnx", op("TakeEvery", "x", "y"))
save("newer.onnx", op("Swish", "x", "y"), version=2)
save("crash.onnx", h.make_node("Relu", ["x"], ["a"], name="before"), op("Bad", "a", "y", domain="com.bad"), domain="com.bad")
END
	# a library whose fault is chosen when it is compiled
	cat >bad.c <<'END'
#include "infer/op.h"
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#ifndef NAME
#define NAME "Bad"
#endif
#ifndef DOMAIN
#define DOMAIN "com.bad"
#endif
#ifndef VERSION
#define VERSION INFER_OP_VERSION
#endif
#ifndef SIZE
#define SIZE sizeof(struct infer_op)
#endif
#ifndef OFFSET
#define OFFSET 0
#endif
#ifndef TEXT
#define TEXT "1"
#endif
#ifndef DIMS
#define DIMS NULL
#endif
#ifndef FAULT
#define FAULT return 0
#endif
#ifndef RANK
#define RANK call->in[0].rank
#endif
static const struct infer_attribute attributes[] = {{"a", INFER_ATTR_INT, OFFSET, TEXT, 0}, {0}};
static const struct infer_operand in[] = {{"x", "T", INFER_TYPE(INFER_F32), DIMS, 0}, {0}};
static const struct infer_operand out[] = {{"y", "T", INFER_TYPE(INFER_F32), NULL, 0}, {0}};
static int shape(const struct infer_call *call)
{
	call->out[0].rank = RANK;
	memcpy(call->out[0].dim, call->in[0].dim, sizeof(call->in[0].dim));
	return 0;
}
static void piece(void *arg, int64_t begin, int64_t end)
{
	(void)begin, (void)end;
	*(volatile char *)arg = 1;
}
static int cpu(const struct infer_call *call)
{
	(void)piece;
	FAULT;
}
static const struct infer_op ops[] = {
	{NAME, DOMAIN, 1, 0, in, out, attributes, 8, shape, NULL, cpu, NULL},
#ifdef TWICE
	{NAME, DOMAIN, 1, 0, in, out, attributes, 8, shape, NULL, cpu, NULL},
#endif
};
INFER_OP_EXPORT const struct infer_op_library *infer_op_library(void)
{
	static const struct infer_op_library l = {VERSION, SIZE, "bad", ops, sizeof(ops) / sizeof(*ops)};
	return &l;
}
END
}

setup() {
	need_onnx
	command -v "${CC:-cc}" >/dev/null || skip "no C compiler"
	cd "$BATS_FILE_TMPDIR" || return 1
	export INFER_DEVICE=cpu
	out=$BATS_TEST_TMPDIR
}

# bad [-DWORD=...]...: compiles the faulty library to bad.so
bad() {
	"${CC:-cc}" -shared -fPIC -w -I"$root/src/custom" "$@" -o "$out/bad.so" bad.c
}

# refused TEXT: the library is refused with this in the message
refused() {
	run -8 --separate-stderr "$INFER" run crash.onnx --ops "$out/bad.so" --random
	[[ $stderr = *"error[E-LIBRARY]"*"$1"* ]] || { echo "$stderr"; return 1; }
}

@test "The example computes what its formulas say" {
	run -0 --separate-stderr "$INFER" run both.onnx --ops ./libexample.so --input 'x=[[1,2,3],[4,5,6],[-1,0,1]]' -o "$out" --save-format npy
	python3 - "$out"/y.npy <<'END'
import sys, numpy as np
x = np.array([[1, 2, 3], [4, 5, 6], [-1, 0, 1]], np.float32)
y = np.load(sys.argv[1])
assert y.shape == (2, 3) and np.allclose(y, (x / (1 + np.exp(-2 * x)))[::2], rtol=1e-6), y
END
	# many elements, in several threads
	run -0 --separate-stderr "$INFER" run both.onnx --ops libexample.so --random --shape x=100000x3 --threads 2
}

@test "inspect lists the library's operators, and their shapes follow" {
	run -0 --separate-stderr "$INFER" inspect --ops --ops ./libexample.so
	[[ $output = *"com.example::TakeEvery "*"1  cpu "* ]]
	run -0 --separate-stderr "$INFER" inspect both.onnx --ops ./libexample.so --shape x=5x3
	[[ $output = *"f32 [3,3]"* ]] || { echo "$output"; return 1; }
	run -3 --separate-stderr "$INFER" run both.onnx --random
	[[ $stderr = *"com.example::Swish"* ]]
}

@test "All checks accept the example, those that run a child process as well" {
	run -0 --separate-stderr "$INFER" check both.onnx --ops ./libexample.so --all --shape x=6x3
	[[ $output = *"alive        ok"* && $output = *"compare      ok"* ]] || { echo "$output"; return 1; }
}

@test "Operands and attributes are checked against the library's tables" {
	for case in rank:E-SHAPE type:E-TYPE attribute:E-OP-ATTRIBUTE required:E-OP-ATTRIBUTE newer:E-MODEL-VERSION; do
		run -3 --separate-stderr "$INFER" run "${case%:*}.onnx" --ops ./libexample.so --random
		[[ $stderr = *"error[${case#*:}]"* ]] || { echo "$case: $stderr"; return 1; }
	done
	run -3 --separate-stderr "$INFER" run step.onnx --ops ./libexample.so --random
	[[ $stderr = *"takeevery_0"*"the attribute step must be 1 or more"* ]]
}

@test "A library that cannot be opened is refused" {
	echo no library >"$out/bad.so"
	refused "cannot be opened"
	rm "$out/bad.so"
	refused "cannot be opened"
	"${CC:-cc}" -shared -fPIC -x c -o "$out/bad.so" - <<<'int other;'
	refused "it has no symbol infer_op_library"
	run -2 --separate-stderr "$INFER" run crash.onnx --ops
}

@test "A library for another version is refused" {
	bad -DVERSION=2
	refused "version 1 of infer/op.h"
	bad -DSIZE=8
	refused "got 8 bytes"
}

@test "An operator that exists is refused, in one library, in two, and of this build" {
	bad -DTWICE
	refused "com.bad::Bad"
	bad '-DDOMAIN="com.microsoft"' '-DNAME="Gelu"'
	refused "com.microsoft::Gelu"
	bad '-DDOMAIN="com.example"' '-DNAME="Swish"'
	run -8 --separate-stderr "$INFER" run both.onnx --ops ./libexample.so --ops "$out/bad.so" --random
	[[ $stderr = *"com.example::Swish"*"a second one of this name"* ]]
	bad '-DDOMAIN="ai.onnx"'
	refused "a domain of its own"
	bad '-DDOMAIN=""'
	refused "a domain of its own"
}

@test "A table that is not well formed is refused" {
	bad -DOFFSET=1
	refused "offset 1"
	bad -DOFFSET=8
	refused "offset 8"
	bad '-DTEXT="one"'
	refused "a fallback that is a value"
	bad '-DDIMS="N N )("'
	refused "dimensions of 'x'"
	bad '-DNAME="Bad Name"'
	refused "letters, digits and _"
}

@test "What a function returns is checked" {
	bad -DRANK=17
	run -3 --separate-stderr "$INFER" run crash.onnx --ops "$out/bad.so" --random
	[[ $stderr = *"error[E-RANK]"*"bad_0"* ]] || { echo "$stderr"; return 1; }
	bad '-DFAULT=return 7'
	run -3 --separate-stderr "$INFER" run crash.onnx --ops "$out/bad.so" --random
	[[ $stderr = *"error[E-RUN]"*"bad_0"*"returned 7 without a reason"* ]] || { echo "$stderr"; return 1; }
	bad '-DFAULT=return call->fail(call, "not today")'
	run -3 --separate-stderr "$INFER" run crash.onnx --ops "$out/bad.so" --random
	[[ $stderr = *"bad_0"*"not today"* ]] || { echo "$stderr"; return 1; }
}

@test "A crash is told with the node, in this thread, in another, and in JSON" {
	# AddressSanitizer has handlers of its own
	! nm "$INFER" | grep -q __asan_init || skip "AddressSanitizer"
	for fault in 'return *(volatile char *)8' 'abort()' \
		'call->parallel(call, 1000000, 1, piece, (void *)8); return 0'; do
		bad "-DFAULT=$fault"
		run -3 --separate-stderr "$INFER" run crash.onnx --ops "$out/bad.so" --random --threads 2
		[[ $stderr = *"error[E-RUN]"*"node 'bad_0' (com.bad::Bad)"*"this node was running"* ]] || {
			echo "$fault: $stderr"
			return 1
		}
		run -3 --separate-stderr "$INFER" profile crash.onnx --ops "$out/bad.so" --random --json
		[[ $output = *'"node": "bad_0"'* ]]
		python3 -m json.tool <<<"$output" >/dev/null
	done
}

@test "The header is one for C and C++, alone and with all warnings" {
	echo '#include "infer/op.h"' >"$out/x.c"
	"${CC:-cc}" -std=c11 -Wall -Wextra -Wpedantic -Werror -I"$root/src/custom" -c -o "$out/x.o" "$out/x.c"
	command -v g++ >/dev/null || skip "no C++ compiler"
	g++ -std=c++11 -Wall -Wextra -Werror -x c++ -I"$root/src/custom" -c -o "$out/x.o" "$out/x.c"
}
