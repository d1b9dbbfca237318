#!/bin/sh
# The kernel tests for aarch64 under qemu-user: tests/kernels/cross.sh, from the top of the tree. Needs
# aarch64-linux-gnu-gcc with its C library and qemu-aarch64; not part of `make check`.
set -e
out=${BUILD:-build}/cross-aarch64
cc=${CROSS_CC:-aarch64-linux-gnu-gcc}
mkdir -p "$out"
sources=$(ls src/kernels/*.c | grep -v -e _avx2.c -e _avx512.c -e _avx512vnni.c)
for test in test_kern test_math; do
    # shellcheck disable=SC2086
    $cc -std=c17 -D_GNU_SOURCE -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror -O2 -ffp-contract=off -fno-math-errno -static \
        -Iinclude -Isrc -Itests/support/plain tests/kernels/$test.c $sources src/base/error.c -lm -o "$out/$test"
    qemu-aarch64 "$out/$test"
done
