#!/bin/sh
# `make install`, then docs/example.c against what it installed, through pkg-config: shared and static; then uninstall.
# Reads BUILD, CC and SAN as tests/run.sh sets them.
: "${BUILD:=build}" "${CC:=cc}" "${SAN:=}"
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
say() { # STATUS NAME
    if [ "$1" -eq 0 ]; then echo "ok - $2"; else echo "not ok - $2"; fi
}
quiet() { "$@" >"$dir/log" 2>&1 || { cat "$dir/log"; return 1; }; }
mk() { quiet make --no-print-directory BUILD="$BUILD" CC="$CC" SAN="$SAN" "$@"; }

mk install PREFIX=/opt/foresight DESTDIR="$dir/stage"
say $? 'make install DESTDIR='
[ "$(ls "$dir/stage")" = opt ]
say $? 'everything lies under DESTDIR and PREFIX'
grep -q '^prefix=/opt/foresight$' "$dir/stage/opt/foresight/lib/pkgconfig/foresight.pc"
say $? 'the pkg-config file names PREFIX, not DESTDIR'

prefix=$dir/usr
mk install PREFIX="$prefix"
say $? 'make install PREFIX='
PKG_CONFIG_PATH=$prefix/lib/pkgconfig
LD_LIBRARY_PATH=$prefix/lib
export PKG_CONFIG_PATH LD_LIBRARY_PATH
[ "$(pkg-config --modversion foresight)" = "$("$prefix/bin/foresight" --version | sed 's/.* //')" ]
say $? 'the command and the pkg-config file have one version'
for page in docs/*.1; do [ -e "$prefix/share/man/man1/${page#docs/}" ]; done
say $? 'the man page is there'

answer='There is a large yellow cross at the top right. There is a large green square at the bottom left. The yellow cross is above and right of the green square.'
example() { # NAME LIBRARIES: words, to be split
    # shellcheck disable=SC2046,SC2086
    quiet $CC $SAN -std=c17 -Wall -Wextra -Werror -o "$dir/$1" docs/example.c $(pkg-config --cflags foresight) $2 &&
        "$dir/$1" "$prefix/share/foresight/models/tiny" tests/samples/s00.png >"$dir/answer" && [ "$(cat "$dir/answer")" = "$answer" ]
}
example shared "$(pkg-config --libs foresight)"
say $? 'the example, shared library'
ldd "$dir/shared" | grep -q "libforesight.so.0 => $prefix/lib/libforesight.so.0"
say $? 'it loads libforesight.so.0'
example static "$(pkg-config --static --libs foresight | sed 's/-lforesight/-l:libforesight.a/')"
say $? 'the example, static library'
! ldd "$dir/static" | grep -q libforesight
say $? 'it needs no libforesight.so'
strangers=$(sh tools/symbols.sh "$prefix/lib/libforesight.so")
[ -z "$strangers" ] || { echo "$strangers"; false; }
say $? 'the shared library exports what foresight.h declares, and nothing else'

mk uninstall PREFIX="$prefix"
[ -z "$(find "$prefix" ! -type d)" ] && [ ! -e "$prefix/share/foresight" ]
say $? 'make uninstall leaves no file'
