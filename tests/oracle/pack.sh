#!/bin/sh
# usage: pack.sh OUT.tar.xz FOLDER [ENTRY...]: packs entries of a folder (else all of it) as an archive for tests/data.
# The same input gives the same bytes: sorted names, no owner, no date.
set -eu
out=$1 folder=$2
shift 2
[ $# -gt 0 ] || set -- .
tar -C "$folder" --sort=name --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX --mtime=@0 --format=gnu -cf - "$@" |
    xz -9e -T1 >"$out"
