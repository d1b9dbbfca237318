#!/bin/sh
# `make lint`: the rules of the house that a machine can check. One "ok - NAME" or "not ok - NAME" a rule, what breaks it
# before; fails when one is broken. Needs cppcheck and clang (CLANG), which packages.txt does not list.
: "${CLANG:=clang-14}" "${MAKE:=make}"
broken=0
out=$(mktemp) || exit 1
trap 'rm -f "$out"' EXIT
verdict() { # NAME: what is in $out breaks the rule
    if [ -s "$out" ]; then
        head -n 60 "$out"
        echo "not ok - $1"
        broken=$((broken + 1))
    else
        echo "ok - $1"
    fi
}

# base <- kernels, text, image, checkpoint <- model <- multimodal <- decode <- cache, forge <- serve, cli; the last two know
# the public header only. base <- hub, of which the command knows hub.h.
allowed() { # ROOM
    low='base kernels text image checkpoint'
    case $1 in
    base) echo base ;;
    kernels | text | image | checkpoint | hub) echo "base $1" ;;
    model) echo "$low model" ;;
    multimodal) echo "$low model multimodal" ;;
    decode) echo "$low model multimodal decode" ;;
    cache) echo "$low model multimodal decode cache" ;;
    forge) echo "$low model multimodal decode forge" ;;
    cli | serve) echo "$1" ;;
    *) echo none ;;
    esac
}
build() { # make's arguments; into $out what a failing build says, else nothing
    if $MAKE --no-print-directory "$@" >"$out.all" 2>&1; then : >"$out"; else grep -vE '^(CC|LD|AR|TAR) ' "$out.all" >"$out"; fi
    rm -f "$out.all"
}
include_graph() {
    for file in $(find src -name '*.[ch]' | sort); do
        room=${file#src/} room=${room%%/*}
        rooms=$(allowed "$room")
        [ "$rooms" != none ] || echo "$file: there is no room '$room'"
        sed -n 's/^[[:space:]]*#[[:space:]]*include[[:space:]]*"\(.*\)".*/\1/p' "$file" | while read -r include; do
            case $include in
            foresight.h) continue ;;
            hub/hub.h) [ "$room" != cli ] || continue; target=hub ;;
            */*) target=${include%%/*} ;;
            *) echo "$file: \"$include\" should name its room"; continue ;;
            esac
            case " $rooms " in *" $target "*) ;; *) echo "$file: $room must not include $include" ;; esac
        done
    done
    grep -n '#[[:space:]]*include[[:space:]]*"' include/foresight.h
}
include_graph >"$out"
verdict 'include graph'

find include src tests bench docs tools \( -name '*.[ch]' -o -name '*.sh' \) | sort | while read -r file; do
    case $(head -n 3 "$file") in *[Gg]enerated\ by*) continue ;; esac
    lines=$(wc -l <"$file")
    [ "$lines" -le 800 ] || echo "$file: $lines lines, at most 800"
done >"$out"
verdict 'file lengths'

grep -nE -e '-ffast-math|-Ofast|-march=native|-funsafe-math|-fassociative-math|-ffp-contract=(fast|on)' Makefile |
    grep -vE '^[0-9]+:[[:space:]]*#' >"$out"
grep -rnE 'pragma.*(fp_contract|FP_CONTRACT|optimize|fast-math)|__attribute__.*optimize' src include >>"$out"
verdict 'no flag or pragma that changes arithmetic'

for script in demo check .ci/run tools/*.sh tests/*.sh tests/*/*.sh; do
    [ ! -e "$script" ] || case $(head -n 1 "$script") in
    *bash*) bash -n "$script" ;;
    *) sh -n "$script" ;;
    esac
done >"$out" 2>&1
verdict 'scripts parse'

build all
verdict 'gcc build without warnings'

# The rules that the object files show: what they call, and what they keep.
objects=$(find build/src -name '*.o' -not -path 'build/src/cli/*' | sort)
forbidden='exit _exit quick_exit abort printf fprintf vprintf vfprintf puts fputs putchar putc fputc perror getenv
secure_getenv setenv putenv setlocale system popen fork rand srand random strtok signal sigaction atexit gets'
for object in $objects; do
    undefined=$(nm -u "$object" | awk '{print $2}')
    for name in $forbidden; do
        case $object:$name in build/src/kernels/cpu.o:getenv) continue ;; esac
        for symbol in $undefined; do
            [ "$symbol" != "$name" ] || echo "${object#build/}: calls $name"
        done
    done
done >"$out"
verdict 'the library does not exit, print, read the environment or touch the process'

for object in $objects; do
    objdump -t "$object" | awk -F'\t' -v file="${object#build/}" '
        { n = split($1, left, " "); section = left[n]; m = split($2, right, " ") }
        section ~ /^\.(data|bss|tdata|tbss)(\.|$)/ && section !~ /^\.data\.rel\.ro/ && right[m] !~ /^\./ {
            print file ": " right[m] " is a mutable global" }'
    objdump -h "$object" | awk -v file="${object#build/}" '$2 ~ /^\.(init_array|ctors|fini_array)/ {
            print file ": has a constructor or destructor" }'
done >"$out"
verdict 'no mutable global, no constructor in the library'

sh tools/symbols.sh build/libforesight.so >"$out" 2>&1
verdict 'the shared library exports what foresight.h declares, and nothing else'

if command -v cppcheck >/dev/null; then
    cppcheck -q --std=c11 --enable=warning,performance,portability --inline-suppr --suppressions-list=tools/cppcheck.txt \
        -Iinclude -Isrc -Itests -D_GNU_SOURCE -DFORE_VERSION='""' -DFORE_DATA='""' \
        src include bench docs tests/fuzz >"$out" 2>&1
else
    echo 'cppcheck is not installed' >"$out"
fi
verdict 'cppcheck'

if command -v "$CLANG" >/dev/null; then
    build CC="$CLANG" BUILD=build-clang all check-objects
else
    echo "$CLANG is not installed" >"$out"
fi
verdict "$CLANG build of everything without warnings"

[ "$broken" -eq 0 ]
