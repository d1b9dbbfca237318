#!/bin/sh
# Runs the test programs given as arguments, then every script of tests/e2e; adds up what they report.
# A cmocka program's group lines are counted; a script prints one "ok - NAME" or "not ok - NAME" a case.
# Ends with "N passed, N failed" and fails when a case failed or a program died without saying so.
passed=0 failed=0 broken=''
log=${BUILD:-build}/check.log
: >"$log"
count() { # PROGRAM OUTPUT STATUS
    p=$(sed -n 's/^\[  PASSED  \] \([0-9]*\) test.*/\1/p' "$2" | awk '{s+=$1} END {print s+0}')
    f=$(grep -c '^\[  FAILED  \] [^0-9]' "$2")
    p=$((p + $(grep -c '^ok ' "$2")))
    f=$((f + $(grep -c '^not ok ' "$2")))
    if [ "$3" -ne 0 ] && [ "$f" -eq 0 ]; then f=1; fi
    if [ "$p" -eq 0 ] && [ "$f" -eq 0 ]; then f=1; echo "$1 ran no test"; fi
    passed=$((passed + p)) failed=$((failed + f))
    if [ "$f" -ne 0 ]; then broken="$broken $1"; cat "$2"; fi
    printf '%-44s %5d passed %3d failed\n' "$1" "$p" "$f"
}
out=$(mktemp) || exit 1
trap 'rm -f "$out"' EXIT
for t in "$@"; do
    "$t" >"$out" 2>&1; s=$?
    cat "$out" >>"$log"
    count "$t" "$out" "$s"
done
for t in tests/e2e/*.sh; do
    [ -e "$t" ] || continue
    sh "$t" >"$out" 2>&1; s=$?
    cat "$out" >>"$log"
    count "$t" "$out" "$s"
done
[ -z "$broken" ] || echo "failed in:$broken"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
