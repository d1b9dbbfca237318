#!/bin/sh
# Runs the test programs given as arguments, then every script of tests/e2e and the kernels' under an emulator; adds up what
# they report.
# A cmocka program's group lines are counted; a script or a fuzz driver prints one "ok - NAME" or "not ok - NAME" a case, or
# "skip - NAME: WHY" for what this machine cannot try, which counts as neither.
# Ends with "N passed, N failed" and fails when a case failed or a program died, hung or ran nothing.
# Reads BUILD, CC and SAN as make sets them; TEST_SECONDS is the time that one program may take.
passed=0 failed=0 skipped=0 broken=''
: "${BUILD:=build}" "${CC:=cc}" "${SAN:=}" "${TEST_SECONDS:=300}"
export BUILD CC SAN
export XDG_CONFIG_HOME="$PWD/$BUILD/no-config" # what the user has tuned plays no part
log=$BUILD/check.log
: >"$log"
out=$(mktemp) || exit 1
trap 'rm -f "$out"' EXIT
run() { # NAME COMMAND...
    name=$1; shift
    began=$(date +%s)
    timeout "$TEST_SECONDS" "$@" >"$out" 2>&1 </dev/null; status=$?
    { echo "==== $name"; cat "$out"; } >>"$log"
    if [ "$status" -eq 124 ]; then echo "$name: stopped after $TEST_SECONDS s" >>"$out"; fi
    p=$(sed -n 's/^\[  PASSED  \] \([0-9]*\) test.*/\1/p' "$out" | awk '{s+=$1} END {print s+0}')
    f=$(sed -n 's/^ *\([0-9]*\) FAILED TEST(S)$/\1/p' "$out" | awk '{s+=$1} END {print s+0}')
    p=$((p + $(grep -c '^ok ' "$out")))
    f=$((f + $(grep -c '^not ok ' "$out")))
    if [ "$status" -ne 0 ] && [ "$f" -eq 0 ]; then f=1; echo "$name: exit status $status" >>"$out"; fi
    s=$(grep -c '^skip ' "$out")
    grep '^skip ' "$out"
    skipped=$((skipped + s))
    if [ "$p" -eq 0 ] && [ "$f" -eq 0 ] && [ "$s" -eq 0 ]; then f=1; echo "$name: ran no test" >>"$out"; fi
    passed=$((passed + p)) failed=$((failed + f))
    if [ "$f" -ne 0 ]; then broken="$broken $name"; cat "$out"; fi
    printf '%-44s %5d passed %3d failed %4d s\n' "$name" "$p" "$f" $(($(date +%s) - began))
}
for program in "$@"; do run "$program" "$program"; done
for script in tests/e2e/*.sh tests/kernels/cross.sh; do
    [ ! -e "$script" ] || run "$script" sh "$script"
done
[ -z "$broken" ] || echo "failed in:$broken (all output is in $log)"
[ "$skipped" -eq 0 ] || echo "skipped: $skipped (above)"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
