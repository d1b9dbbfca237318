#!/bin/sh
# usage: run.sh PROGRAM BUILD: runs one libFuzzer program for FUZZ_SECONDS. It starts from tests/fuzz/corpus/NAME, keeps
# what it finds in BUILD/corpus/NAME, and writes an input that breaks the target to BUILD/crash/.
program=$1 build=$2
name=$(basename "$program"); name=${name#fuzz_}
mkdir -p "$build/corpus/$name" "$build/crash"
seeds=tests/fuzz/corpus/$name
[ -d "$seeds" ] || seeds=
log=$build/corpus/$name.log
# shellcheck disable=SC2086
if "$program" -max_total_time="${FUZZ_SECONDS:-10}" -timeout=10 -rss_limit_mb=2048 -max_len=65536 -verbosity=1 -print_final_stats=1 \
    -artifact_prefix="$build/crash/$name-" "$build/corpus/$name" $seeds >"$log" 2>&1; then
    echo "ok - fuzz $name: $(sed -n 's/^stat::number_of_executed_units: *//p' "$log") inputs, $(ls "$build/corpus/$name" | wc -l) kept"
else
    tail -40 "$log"
    echo "not ok - fuzz $name: see $log and $build/crash/"
    exit 1
fi
