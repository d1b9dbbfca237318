#!/bin/sh
# The kernel sets of aarch64 against the reference, on whatever machine: built by a cross compiler and run by qemu's user
# mode emulation, for a processor with dot products and for one without. Run from the top of the tree; one "ok - NAME" or
# "not ok - NAME" a case, or "skip - NAME: WHY".
: "${BUILD:=build}" "${SAN:=}" "${CROSS_CC:=aarch64-linux-gnu-gcc}" "${CROSS_QEMU:=qemu-aarch64}"
tests='test_quantised test_kern test_math'
skip() { # WHY
    for test in $tests; do echo "skip - aarch64: $test: $1"; done
    exit 0
}
[ -z "$SAN" ] || skip 'the check without sanitizers runs it'
command -v "$CROSS_CC" >/dev/null 2>&1 || skip "there is no $CROSS_CC (Debian: gcc-aarch64-linux-gnu libc6-dev-arm64-cross)"
command -v "$CROSS_QEMU" >/dev/null 2>&1 || skip "there is no $CROSS_QEMU (Debian: qemu-user)"

out=$BUILD/cross-aarch64
mkdir -p "$out"
jobs=$(nproc 2>/dev/null || echo 1)
# Objects are made once, as many at a time as there are processors.
cat >"$out/rules.mk" <<'RULES'
FLAGS := -std=c17 -D_GNU_SOURCE -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror -O2 -ffp-contract=off \
         -fno-math-errno -Iinclude -Isrc -Itests/support/plain
SRC := $(filter-out %_avx2.c %_avx512.c %_avx512vnni.c %_amx.c,$(wildcard src/kernels/*.c)) src/base/error.c
OBJ := $(SRC:%.c=$(OUT)/%.o)
all: $(TESTS:%=$(OUT)/%)
$(OUT)/%_neondot.o: ISA = -march=armv8.2-a+dotprod
$(OUT)/%.o: %.c
	@mkdir -p $(@D); $(CC) $(FLAGS) $(ISA) -MMD -MP -c $< -o $@
$(TESTS:%=$(OUT)/%): $(OUT)/%: $(OUT)/tests/kernels/%.o $(OBJ)
	@$(CC) -static -o $@ $^ -lm
-include $(OBJ:.o=.d) $(TESTS:%=$(OUT)/tests/kernels/%.d)
.SECONDARY:
RULES
if ! make --no-print-directory -j"$jobs" -f "$out/rules.mk" OUT="$out" CC="$CROSS_CC" TESTS="$tests"; then
    echo 'not ok - aarch64: the kernels build'
    exit 1
fi
echo 'ok - aarch64: the kernels build'

one() { # TEST CPU SET
    name="aarch64: $1 on $2, up to $3"
    if "$CROSS_QEMU" -cpu "$2" "$out/$1" >"$out/$1.$2.log" 2>&1; then echo "ok - $name"
    else
        cat "$out/$1.$2.log"
        echo "not ok - $name"
    fi
}
# Two at a time.
one test_quantised max neondot >"$out/1" &
one test_kern max neondot >"$out/2"
one test_math max neondot >>"$out/2"
wait
one test_quantised cortex-a72 neon >"$out/3" &
one test_kern cortex-a72 neon >"$out/4"
wait
cat "$out/1" "$out/2" "$out/3" "$out/4"
sets() { sed -n 's/^set: //p' "$out/test_quantised.$1.log" | tr '\n' ' '; }
if [ "$(sets max)" = 'neon neondot ' ]; then echo 'ok - aarch64: dot products are used where they are'
else echo "not ok - aarch64: dot products are used where they are: sets $(sets max)"; fi
if [ "$(sets cortex-a72)" = 'neon ' ]; then echo 'ok - aarch64: and not where they are not'
else echo "not ok - aarch64: and not where they are not: sets $(sets cortex-a72)"; fi
