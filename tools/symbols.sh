#!/bin/sh
# usage: symbols.sh LIBRARY.so: prints every symbol that it exports and include/foresight.h does not declare FORE_API, and
# every one that the header declares and it does not export. Prints nothing when the two agree.
declared=$(mktemp) exported=$(mktemp)
trap 'rm -f "$declared" "$exported"' EXIT
tr '\n' ' ' <include/foresight.h | grep -oE 'FORE_API [^;(]*\(' | grep -oE 'fore_[a-z0-9_]+ *\($' | tr -d ' (' | sort -u >"$declared"
nm -D --defined-only "$1" | awk '{print $3}' | sort -u >"$exported"
comm -13 "$declared" "$exported" | sed 's/$/: exported, but not declared in foresight.h/'
comm -23 "$declared" "$exported" | sed 's/$/: declared in foresight.h, but not exported/'
