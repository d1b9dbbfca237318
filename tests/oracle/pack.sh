#!/bin/sh
# usage: pack.sh OUT GOLDENS [PICTURES [REAL]]: packs what the oracles wrote into OUT/*.tar.xz, laid out as tests/data has
# it. The same input gives the same bytes: sorted names, no owner, no date.
#   GOLDENS  folder of make_goldens.py; the dense checkpoints, the images, the tables and the small tokenizer are packed
#   PICTURES folder of make_pictures.py
#   REAL     folder of real_cases.py
set -eu
out=$1 goldens=$2 pictures=${3:-} real=${4:-}
mkdir -p "$out"
pack() { # NAME FOLDER ENTRIES...
    name=$1 folder=$2
    shift 2
    tar -C "$folder" --sort=name --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX --mtime=@0 --format=gnu -cf - "$@" |
        xz -9e -T1 >"$out/$name.tar.xz"
    ls -l "$out/$name.tar.xz"
}
pack models "$goldens/models" dense_sharded_bf16 dense_tied_f32 dense_untied_bf16
pack images "$goldens" images
pack tables "$goldens" tables tokenizer
[ -z "$pictures" ] || pack pictures "$pictures" .
[ -z "$real" ] || pack real "$real" .
