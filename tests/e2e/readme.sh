#!/bin/sh
# What the README's first screen says is what happens. Reads BUILD, CC and SAN as tests/run.sh sets them.
: "${BUILD:=build}" "${CC:=cc}" "${SAN:=}"
say() { # STATUS NAME
    if [ "$1" -eq 0 ]; then echo "ok - readme: $2"; else echo "not ok - readme: $2"; fi
}
answer=$(make --no-print-directory BUILD="$BUILD" CC="$CC" SAN="$SAN" demo | tail -n 1)
[ -n "$answer" ] && grep -qxF "    $answer" README.md
say $? 'the demo ends with the answer that the README shows'
make -s BUILD=build --dry-run demo | grep -o 'build/foresight run.*Describe the picture\."' | head -n 1 | grep -qF -f - README.md
say $? 'the command that the demo shows is the README'"'"'s'
[ -x demo ] && [ -x check ] && [ -x .ci/run ]
say $? 'the two commands and .ci/run can be executed'
unknown=$(for verb in $(sed -n 's/^    foresight \([a-z]*\) .*/\1/p' README.md | sort -u); do
    "$BUILD/foresight" help "$verb" | grep -q "^usage: foresight $verb" || echo "$verb"
done)
[ -z "$unknown" ] || { echo "$unknown"; false; }
say $? 'every command that the README lists exists'
missing=$(grep -o '](\([^)#]*\))' README.md CONTRIBUTING.md tests/README.md | sed 's/.*](\(.*\))/\1/' | grep -v '^http' | while read -r f; do [ -e "$f" ] || echo "$f"; done)
[ -z "$missing" ] || { echo "$missing"; false; }
say $? 'every file that the documents link is there'
