#!/usr/bin/env bash
# test/fuzz/run.sh HOURS [SEED]: searches for so long: a third of the time mutants on the plain build, a third mutants under the
# sanitizers, the rest libFuzzer, each target for its share. CASES=DIR takes other cases, as KIND/CASE/model.onnx. Prints counts;
# exit status 1 if anything failed. What failed is kept in build/fuzz/. `make fuzz HOURS=N` runs it.
set -u
cd "$(dirname "$0")/../.." || exit 1
: "${BUILD:=build}" "${OUT:=build}" "${MAKE:=make}" "${CASES:=}"
hours=${1:?hours} seed=${2:-$(date +%Y%m%d)}
third=$(awk -v h="$hours" 'BEGIN {print int(h * 1200)}')
[ "$third" -gt 0 ] || { echo "test/fuzz/run.sh: HOURS=$hours is too short" >&2; exit 2; }
failed=0
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
if [ -z "$CASES" ]; then
	CASES=$scratch/cases
	mkdir -p "$CASES/contrib"
	tar -C "$CASES" -xzf test/conformance/cases/small.tar.gz
	tar -C "$CASES/contrib" --strip-components=1 -xJf test/mutants/cases/contrib.tar.xz
fi
sanitized=$BUILD/clang-address-undefined fuzzers=$BUILD/clang-fuzzer-no-link-address-undefined
"$MAKE" --no-print-directory CC=clang SANITIZE=address,undefined "$sanitized/mutants/run" >/dev/null &&
	"$MAKE" --no-print-directory fuzzers CC=clang SANITIZE=fuzzer-no-link,address,undefined >/dev/null || exit 1

echo "seed $seed, $third s each"
echo '--- mutants, plain'
"$OUT/mutants/run" "$CASES" -s "$seed" -t "$third" -j "$(nproc)" -k "$BUILD/fuzz/mutants" || failed=1
echo '--- mutants, AddressSanitizer and UndefinedBehaviorSanitizer'
"$sanitized/mutants/run" "$CASES" -s $((seed + 1)) -t "$third" -j "$(nproc)" -m 0 -l 20 -k "$BUILD/fuzz/mutants-sanitized" || failed=1

targets=() total=0
for source in test/fuzz/*.c; do
	name=${source##*/}
	targets+=("${name%.c}")
done
share=$((third / ${#targets[@]} + 1))
echo "--- libFuzzer, $share s a target"
for name in "${targets[@]}"; do
	found=$BUILD/fuzz/$name && mkdir -p "$found"
	timeout -k 60 $((share + 600)) "$fuzzers/fuzz/$name" -max_total_time="$share" -seed="$seed" -timeout=60 -rss_limit_mb=2048 \
		-print_final_stats=1 -artifact_prefix="$BUILD/fuzz/$name-" "$found" "test/fuzz/$name" >"$scratch/log" 2>&1
	rc=$?
	runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$scratch/log")
	total=$((total + ${runs:-0}))
	printf '%-16s %12s executions, exit status %d\n' "$name" "${runs:-?}" $rc
	[ $rc = 0 ] || { failed=1 && grep -E 'ERROR|SUMMARY|runtime error|^    #[0-5] ' "$scratch/log" | head -n 12; }
done
echo "libFuzzer: $total executions"
exit $failed
