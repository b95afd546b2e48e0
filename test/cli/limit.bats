#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# bench/limit.c: a processor with fewer instructions, as threads, children and programs with handlers of their own see it.

load helper

setup() {
	root=$BATS_TEST_DIRNAME/../..
	out=$BATS_TEST_TMPDIR
	[ "$(uname -m)" = x86_64 ] || skip 'CPUID is an instruction of x86'
	"${CC:-cc}" -Wall -Wextra -Werror -shared -fPIC -o "$out/limit.so" "$root/bench/limit.c" -ldl
	LIMIT_ISA=avx2 LD_PRELOAD=$out/limit.so env true 2>"$out/why" || skip "$(cat "$out/why")" # the shell has a true of its own
	"${CC:-cc}" -o "$out/look" -pthread -x c - <<-'C'
		#define _GNU_SOURCE
		#include <cpuid.h>
		#include <pthread.h>
		#include <setjmp.h>
		#include <signal.h>
		#include <stdio.h>
		#include <sys/wait.h>
		#include <unistd.h>
		static jmp_buf back;
		static volatile char *nothing;
		static void *look(void *who)
		{
			unsigned a, b, c, d, x, state;
			__cpuid_count(7, 0, a, b, c, d);
			__cpuid_count(7, 1, x, state, state, state);
			__cpuid_count(13, 0, state, a, a, a);
			printf("%s%s%s%s%s%s%s\n", (char *)who, b >> 5 & 1 ? " avx2" : "", b >> 16 & 1 ? " avx512f" : "",
			       c >> 11 & 1 ? " vnni" : "", x >> 5 & 1 ? " bf16" : "", d >> 24 & 1 ? " amx" : "", state >> 5 & 1 ? " wide" : "");
			fflush(stdout);
			return 0;
		}
		static void handler(int n) { siglongjmp(back, n); }
		int main(int argc, char **argv)
		{
			sigset_t all;
			pthread_t t;
			struct sigaction a = {.sa_handler = handler}, b;
			look("main");
			if (argc > 1)
				return 0;
			sigaction(SIGSEGV, &a, 0);
			if (sigaction(SIGSEGV, 0, &b) || b.sa_handler != handler)
				puts("another handler");
			look("handler");
			if (!sigsetjmp(back, 1))
				*nothing = 1;
			else
				puts("caught");
			if (signal(SIGSEGV, SIG_DFL) != handler)
				puts("another handler");
			sigfillset(&all);
			sigprocmask(SIG_BLOCK, &all, 0);
			pthread_create(&t, 0, look, "thread");
			pthread_join(t, 0);
			if (!fork())
				execv(argv[0], (char *[]){argv[0], "child", 0});
			wait(0);
			sigprocmask(SIG_UNBLOCK, &all, 0);
			fflush(stdout);
			*nothing = 1;
			return 0;
		}
	C
}

# What the processor has of the words in brackets, in the order of the program.
lines_of() { # WORDS...
	local have=
	for word in "$@"; do
		case " $("$out/look" only) " in *" $word "*) have+=" $word" ;; esac
	done
	printf '%s\n' "main$have" "handler$have" caught "thread$have" "main$have"
}

limited() { # LEVEL
	LIMIT_ISA=$1 LD_PRELOAD=$out/limit.so "$out/look" 2>/dev/null
}

@test "A limited program, its threads and its children see a processor of that level; a fault is still its own" {
	run -139 limited avx2
	[ "$output" = "$(lines_of avx2)" ]
	run -139 limited avx512
	[ "$output" = "$(lines_of avx2 avx512f wide)" ]
	run -139 limited vnni
	[ "$output" = "$(lines_of avx2 avx512f vnni wide)" ]
	run -3 limited sse
}
