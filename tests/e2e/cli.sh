#!/bin/sh
# The command as a user meets it: help, flags, prompts, files, pipes, exit codes. What needs JSON, tensors or a terminal
# is in the Python programs called at the end. Prints one "ok - NAME" or "not ok - NAME" a case.
build=${BUILD:-build}
case $build in /*) ;; *) build=$PWD/$build ;; esac
F=$build/foresight
here=$PWD
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
unset FORESIGHT_MODEL FORESIGHT_ISA
export XDG_STATE_HOME="$tmp/state" XDG_CONFIG_HOME="$tmp/config"
if ! [ -x "$F" ]; then
    echo "not ok - $F is not built"
    exit 1
fi

report() { # NAME STATUS: ok when STATUS is 0
    if [ "$2" -eq 0 ]; then
        echo "ok - cli: $1"
    else
        echo "not ok - cli: $1"
        sed 's/^/# stdout: /' "$tmp/out" | head -5
        sed 's/^/# stderr: /' "$tmp/err" | head -5
    fi
}
try() { # COMMAND...: runs it without input, keeps what it said and its exit code
    "$@" </dev/null >"$tmp/out" 2>"$tmp/err"
    code=$?
}
expect() { # NAME CODE TEXT COMMAND...: the exit code, and a text that standard error has
    name=$1 want=$2 text=$3
    shift 3
    try "$@"
    [ "$code" -eq "$want" ] && [ ! -s "$tmp/out" ] && grep -q -e "^foresight: .*$text" "$tmp/err"
    report "$name" $?
}
answers() { # NAME TEXT COMMAND...: standard output is exactly TEXT and a newline, standard error is empty
    name=$1 text=$2
    shift 2
    try "$@"
    printf '%s\n' "$text" >"$tmp/want"
    [ "$code" -eq 0 ] && cmp -s "$tmp/want" "$tmp/out" && [ ! -s "$tmp/err" ]
    report "$name" $?
}

# ---- help and the manual
for verb in run chat inspect verify tokenize render logits quantize bench tune pack pull forge 'forge check' 'forge graft' 'forge mtp' \
    'forge mtp heal' 'forge mtp verify' 'forge calibrate' ''; do
    try "$F" $verb --help
    [ "$code" -eq 0 ] && [ -s "$tmp/out" ] && [ "$(wc -l <"$tmp/out")" -le 24 ] &&
        awk 'length > 80 { long = 1 } END { exit long }' "$tmp/out"
    report "help of '${verb:-foresight}' fits a screen" $?
    cp "$tmp/out" "$tmp/help"
    try "$F" help $verb
    cmp -s "$tmp/help" "$tmp/out"
    report "help${verb:+ }$verb says the same" $?
    grep -o -e '--[a-z][a-z-]*' "$tmp/help" >>"$tmp/flags"
done
missing=''
for flag in $(sort -u "$tmp/flags"); do
    grep -q -e "Fl Fl ${flag#--}\\( \\|\$\\)" docs/foresight.1 || missing="$missing $flag"
done
echo "$missing" >"$tmp/err"
[ -z "$missing" ]
report 'every flag of the help is in the manual' $?
missing=''
sed '/^\.Sh EXPERIMENTS/,/^\.Sh ENVIRONMENT/d' docs/foresight.1 >"$tmp/listed"
for flag in $(grep -o 'Fl Fl [a-z][a-z-]*' "$tmp/listed" | sort -u | sed 's/Fl Fl //'); do
    grep -q -x -e "--$flag" "$tmp/flags" || missing="$missing $flag"
done
echo "$missing" >"$tmp/err"
[ -z "$missing" ]
report 'every flag of the manual is in the help' $?
try "$F" version
[ "$code" -eq 0 ] && grep -q -x 'foresight [0-9]*\.[0-9]*\.[0-9]*' "$tmp/out"
report 'version' $?
try "$F"
[ "$code" -eq 2 ] && [ ! -s "$tmp/out" ] && grep -q usage "$tmp/err"
report 'no command is wrong usage' $?

# ---- wrong usage
expect 'unknown command suggests' 2 "did you mean 'run'" "$F" rnu
expect 'unknown flag suggests' 2 'did you mean --temperature?' "$F" run --tempreature 1 x
expect 'short of a letter suggests' 2 'did you mean --image?' "$F" run --imge x.png x
expect 'an abbreviation suggests' 2 'did you mean --generation-prompt?' "$F" render --gen
expect 'a flag of no verb' 2 'unknown flag --zzzzzz' "$F" run --zzzzzz x
expect 'a flag of another verb' 2 'unknown flag --pixels' "$F" chat --pixels x
expect 'a value is missing' 2 '\-\-model DIR' "$F" run --model
expect 'a value too many' 2 'takes no value' "$F" run --json=yes x
expect 'a number is expected' 2 'whole number from 1 up' "$F" run --max-tokens many x
expect 'a number out of range' 2 'above 0, at most 1' "$F" run --top-p 1.5 x
expect 'a seed is not negative' 2 'whole number from 0' "$F" run --seed -1 x
expect 'one prompt' 2 'quotes' "$F" run two words
expect 'chat takes no operand' 2 'flags only' "$F" chat hello
expect 'a bias needs a number' 2 'logit-bias' "$F" run --logit-bias 5 x
expect 'an empty prompt' 2 'empty' "$F" run
expect 'raw and system exclude each other' 2 'system' "$F" run --raw --system s x
expect 'logits needs --out' 2 '\-\-out' "$F" logits x
expect 'render needs --messages' 2 '\-\-messages' "$F" render

# ---- the answer
hello=$("$F" run 'Hello!' 2>/dev/null </dev/null)
[ -n "$hello" ]
report 'hello is answered' $?
answers 'only the answer is printed' "$hello" "$F" run 'Hello!'
answers 'flag=value' "$hello" "$F" run --model=models/tiny --temperature=0 'Hello!'
answers 'short flags' "$hello" "$F" run -m models/tiny -t 1 'Hello!'
answers 'after --' "$hello" "$F" run -- 'Hello!'
answers 'model from the environment' "$hello" env FORESIGHT_MODEL="$here/models/tiny" sh -c "cd / && '$F' run 'Hello!'"
cpus=$(sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status)
answers 'threads held on processors' "$hello" "$F" run --cpus "$cpus" 'Hello!'
answers 'reference arithmetic' "$hello" "$F" run --isa ref 'Hello!'
answers 'instruction set from the environment' "$hello" env FORESIGHT_ISA=ref "$F" run 'Hello!'
answers 'one token at a time' "$hello" "$F" run --chunk 1 --threads 2 'Hello!'
answers 'prompt from a pipe' "$hello" sh -c "printf 'Hello!\n' | '$F' run"
answers 'prompt from a dash' "$hello" sh -c "printf 'Hello!' | '$F' run -"
prompt=$(printf '[{"role":"user","content":"Hello!"}]' | "$F" render --messages - --generation-prompt 2>/dev/null; echo .)
answers 'raw prompt' "$hello" "$F" run --raw "${prompt%.}"
answers 'an invalid byte is replaced' "$("$F" run 'a�b' </dev/null)" sh -c "printf 'a\377b' | '$F' run"
described='There is a large yellow cross at the top right. There is a large green square at the bottom left. The yellow cross is above and right of the green square.'
answers 'a picture' "$described" "$F" run --image tests/samples/s00.png 'Describe the picture.'
answers 'a stop string' 'There is a large yellow cross' "$F" run --stop ' at the' -i tests/samples/s00.png 'Describe the picture.'
try "$F" run --stats 'Hello!'
[ "$code" -eq 0 ] && [ "$(cat "$tmp/out")" = "$hello" ] && grep -q '^prefill .*tok/s' "$tmp/err" && grep -q '^decode .*tok/s' "$tmp/err" &&
    grep -q '^finish  *stop' "$tmp/err"
report 'stats go to standard error' $?
try "$F" run --stats --temperature 1 'Hello!'
grep -q 'seed [0-9][0-9]*$' "$tmp/err"
report 'stats show the seed' $?

# ---- pipes and full disks
first=$("$F" run --ignore-eos --max-tokens 300 'Hello!' 2>"$tmp/err" </dev/null | head -c 1)
[ "$first" = "$(printf %.1s "$hello")" ] && [ ! -s "$tmp/err" ]
report 'a reader that leaves early' $?
expect 'a full disk' 1 'standard output' sh -c "'$F' run 'Hello!' >/dev/full"
expect 'standard output is closed' 1 'standard output' sh -c "'$F' run 'Hello!' >&-"
expect 'help on a full disk' 1 'standard output' sh -c "'$F' help >/dev/full"

# ---- what cannot be done
expect 'no model anywhere' 1 '\-\-model DIR' sh -c "cd '$tmp' && '$F' run x"
expect 'no such model' 1 'no such folder' "$F" run --model "$tmp/none" x
expect 'a model that is a file' 1 'not a folder' "$F" run --model docs/foresight.1 x
mkdir "$tmp/empty"
expect 'an empty folder' 1 "$tmp/empty" "$F" run --model "$tmp/empty" x
expect 'no such picture' 1 'none.png' "$F" run --image "$tmp/none.png" x
expect 'a picture that is a folder' 1 'Is a directory' "$F" run --image "$tmp" x
expect 'a processor outside the mask' 1 'may not run on 8191' "$F" run --cpus 8191 x
expect 'a list of processors that is none' 1 'such as 0-3,8' "$F" run --cpus 3-1 x
expect 'an unknown instruction set' 1 'mmx' "$F" run --isa mmx x
expect 'a context that is too short' 1 'context' "$F" run --context 8 'one two three four five six seven eight nine ten'
expect 'a NUL byte in the prompt' 1 'NUL' sh -c "printf 'a\\000b' | '$F' run"
pictures=$build/data/pictures
for picture in "$pictures"/broken_* "$pictures"/bomb_* "$pictures"/gif_static.gif "$pictures"/bmp_rgb.bmp; do
    expect "bad picture: ${picture##*/}" 1 "${picture##*/}" "$F" run --image "$picture" 'Describe the picture.'
done
for picture in jpeg_exif_6.jpg png_palette_trns.png webp_lossy.webp webp_anim.webp jpeg_cmyk.jpg; do
    try "$F" run --max-tokens 4 --image "$pictures/$picture" 'Describe the picture.'
    [ "$code" -eq 0 ] && [ ! -s "$tmp/err" ]
    report "picture: $picture" $?
done
mkdir "$tmp/text" && cp models/tiny/* "$tmp/text" && python3 - "$tmp/text/config.json" <<'P'
import json, sys
config = json.load(open(sys.argv[1]))
text = config["text_config"]
text.update(architectures=["Qwen3_5ForCausalLM"], model_type="qwen3_5_text", tie_word_embeddings=True)
json.dump(text, open(sys.argv[1], "w"))
P
answers 'a text-only model' "$hello" "$F" run --model "$tmp/text" 'Hello!'
expect 'a picture for a text-only model' 1 'text' "$F" run --model "$tmp/text" --image tests/samples/s00.png x
expect 'more pictures than pads' 1 'picture' "$F" run --raw --image tests/samples/s00.png 'no pad'
expect 'more pads than pictures' 1 'picture' "$F" run --raw 'a <|image_pad|>'

# ---- logits
try "$F" logits --out "$tmp/l.safetensors" 'Hello!'
[ "$code" -eq 0 ] && [ -s "$tmp/l.safetensors" ] && [ ! -s "$tmp/out" ] && [ ! -s "$tmp/err" ]
report 'logits' $?
expect 'logits to a full disk' 1 '/dev/full' "$F" logits --out /dev/full 'Hello!'
[ -c /dev/full ]
report 'a device is still a device' $?
expect 'logits to a missing folder' 1 'no folder' "$F" logits --out "$tmp/none/l.safetensors" 'Hello!'
expect 'logits where nothing can be made' 1 '/dev/null/' "$F" logits --out /dev/null/l.safetensors 'Hello!'
expect 'logits to a folder' 1 "$tmp" "$F" logits --out "$tmp/" 'Hello!'
[ "$(ls "$tmp" | grep -c safetensors)" -eq 1 ]
report 'nothing is left behind' $?
echo '[1, 2, "x"]' >"$tmp/ids.json"
expect 'ids that are no numbers' 1 'item 2' "$F" logits --ids "$tmp/ids.json" --out "$tmp/m.safetensors"
echo '[1, 2' >"$tmp/ids.json"
expect 'ids that are no JSON' 1 'not JSON' "$F" logits --ids "$tmp/ids.json" --out "$tmp/m.safetensors"
echo '[1, 99999]' >"$tmp/ids.json"
expect 'ids outside the vocabulary' 1 '99999' "$F" logits --ids "$tmp/ids.json" --out "$tmp/m.safetensors"
expect 'pixels that are no tensors' 1 'ids.json' "$F" logits --pixels "$tmp/ids.json" --out "$tmp/m.safetensors" x
expect 'pixels without pixel_values' 1 'pixel_values' "$F" logits --pixels "$tmp/l.safetensors" --out "$tmp/m.safetensors" x

# ---- tokenize and render
try "$F" tokenize 'Hello!'
[ "$code" -eq 0 ] && ! grep -q -v '^[0-9][0-9]*	".*"$' "$tmp/out" && [ "$(cut -f 2 "$tmp/out" | tr -d '"\n')" = 'Hello!' ]
report 'tokenize' $?
cp "$tmp/out" "$tmp/tokens"
try "$F" tokenize --tokenizer models/tiny/tokenizer.json 'Hello!'
cmp -s "$tmp/out" "$tmp/tokens"
report 'tokenize by a tokenizer file' $?
printf 'a line\nand \351t\303\251\n\n' >"$tmp/text.txt"
"$F" tokenize <"$tmp/text.txt" 2>"$tmp/err" | cut -f 1 | "$F" tokenize --decode >"$tmp/out" 2>>"$tmp/err"
printf 'a line\nand \357\277\275t\303\251\n\n' | cmp -s - "$tmp/out" && [ ! -s "$tmp/err" ]
report 'tokenize there and back' $?
expect 'decode of what is no number' 1 'token ids' "$F" tokenize --decode '1 two'
expect 'a tokenizer file that is none' 1 'foresight.1' "$F" tokenize --tokenizer docs/foresight.1 x
expect 'no tokenizer file' 1 'none.json' "$F" tokenize --tokenizer "$tmp/none.json" x
printf '{{ bos }}{%% for m in messages %%}[{{ m.content }}]{%% endfor %%}{%% if add_generation_prompt %%}>{%% endif %%}' >"$tmp/t.jinja"
echo '[{"role": "user", "content": "é"}, {"role": "user", "content": "b\n"}]' >"$tmp/m.json"
"$F" render --template "$tmp/t.jinja" --messages "$tmp/m.json" --option 'bos="<s>"' --generation-prompt >"$tmp/out" 2>"$tmp/err"
printf '<s>[é][b\n]>' | cmp -s - "$tmp/out"
report 'render a template file' $?
"$F" render --template "$tmp/t.jinja" --messages - <"$tmp/m.json" >"$tmp/out" 2>"$tmp/err"
printf '[é][b\n]' | cmp -s - "$tmp/out"
report 'render messages from standard input' $?
printf '{%% if' >"$tmp/bad.jinja"
expect 'a broken template' 1 '' "$F" render --template "$tmp/bad.jinja" --messages "$tmp/m.json"
printf '{{ raise_exception("no such role") }}' >"$tmp/bad.jinja"
expect 'a template that raises' 1 'no such role' "$F" render --template "$tmp/bad.jinja" --messages "$tmp/m.json"
expect 'an option without JSON' 2 'not JSON' "$F" render --template "$tmp/t.jinja" --messages "$tmp/m.json" --option bos=x
echo '{}' >"$tmp/o.json"
expect 'messages that are no list' 1 'list' "$F" render --template "$tmp/t.jinja" --messages "$tmp/o.json"

# ---- inspect
try "$F" inspect models/tiny
[ "$code" -eq 0 ] && grep -q '^architecture  *Qwen3_5ForConditionalGeneration' "$tmp/out" &&
    grep -q '^layers  *4: 3 linear attention, 1 full attention' "$tmp/out" && grep -q '^MTP head  *1 layer' "$tmp/out" &&
    grep -q '^memory  *weights ' "$tmp/out" && grep -q '^problems  *none found' "$tmp/out"
report 'inspect' $?
try "$F" inspect "$build/data/moe/moe_bf16_numbered"
[ "$code" -eq 0 ] && grep -q '^architecture  *Qwen3_5MoeForConditionalGeneration (qwen3_5_moe)' "$tmp/out" &&
    grep -q '^sizes  *hidden 64, vocabulary 384' "$tmp/out" &&
    grep -q '^experts  *8 a layer of width 24, 3 a token; a shared one of width 40' "$tmp/out" &&
    grep -q '^  *(223176 of the text.s are active for a token)' "$tmp/out" && grep -q '^MTP head  *1 layer from' "$tmp/out"
report 'inspect a mixture of experts' $?
expect 'inspect an empty folder' 1 "$tmp/empty" "$F" inspect "$tmp/empty"
rm "$tmp/text/tokenizer.json"
try "$F" inspect "$tmp/text"
[ "$code" -eq 0 ] && grep -q '^tokenizer  *missing' "$tmp/out" && grep -q '^vision  *none' "$tmp/out" && grep -q '^remarks ' "$tmp/out"
report 'inspect says what is missing' $?
head -c 100000 models/tiny/model.safetensors >"$tmp/text/model.safetensors"
expect 'inspect truncated weights' 1 'model.safetensors' "$F" inspect "$tmp/text"

# ---- quantised weights kept repacked
export XDG_CACHE_HOME="$tmp/cache"
"$F" quantize models/tiny "$tmp/q" --bits 4 --group 32 >"$tmp/out" 2>"$tmp/err"
try "$F" inspect "$tmp/q"
[ "$code" -eq 0 ] && grep -q '^repacked .* kept in no file' "$tmp/out"
report 'inspect: not kept' $?
said=$("$F" run -m "$tmp/q" 'Hello!' 2>/dev/null </dev/null)
for state in 'kept in a file' 'mapped from a file'; do
    try "$F" run -m "$tmp/q" --pack cache --stats 'Hello!'
    [ "$code" -eq 0 ] && [ "$(cat "$tmp/out")" = "$said" ] && grep -q "^repacked .*, $state" "$tmp/err"
    report "run --pack: $state" $?
done
answers 'an answer from kept weights' "$said" "$F" run -m "$tmp/q" --pack cache --isa ref 'Hello!'
try "$F" inspect "$tmp/q"
[ "$code" -eq 0 ] && grep -q "^repacked .* kept in 2 of 2 files (.*$tmp/cache/foresight/q-" "$tmp/out"
report 'inspect: kept' $?
try "$F" inspect "$tmp/q" --json --pack beside
[ "$code" -eq 0 ] && grep -q '"present": *0' "$tmp/out"
report 'inspect: not kept beside' $?
try "$F" pack "$tmp/q" --pack beside
[ "$code" -eq 0 ] && [ "$(ls "$tmp"/q/foresight-*.pack | wc -l)" -eq 2 ] && grep -q 'in 2 files, made' "$tmp/out"
report 'pack beside' $?
touch "$tmp/q/model.safetensors"
try "$F" pack "$tmp/q" --prune
[ "$code" -eq 0 ] && [ "$(ls "$tmp"/cache/foresight/*.pack | wc -l)" -eq 2 ] && grep -q 'removed 2 older files' "$tmp/out"
report 'pack --prune' $?
for pack in "$tmp"/cache/foresight/*.pack; do printf 'x' | dd of="$pack" bs=1 seek=40 conv=notrunc 2>/dev/null; done
try "$F" inspect "$tmp/q" --pack cache
[ "$code" -eq 0 ] && grep -q '^repacked .* kept in no file' "$tmp/out"
report 'inspect: damaged' $?
try "$F" pack "$tmp/q" --verify
[ "$code" -eq 0 ] && grep -q 'in 2 files, made' "$tmp/out"
report 'a damaged pack is made again' $?
try "$F" run -m "$tmp/q" --pack "$tmp/out/none" 'Hello!'
[ "$code" -eq 0 ] && [ "$(cat "$tmp/out")" = "$said" ] && grep -q '^foresight: note: .*cannot' "$tmp/err"
report 'no place for a pack' $?
expect 'nothing to pack' 1 'no quantised weights' "$F" pack models/tiny

# ---- chat through a pipe
chat() { # FLAGS...: reads $tmp/lines
    "$F" chat "$@" <"$tmp/lines" >"$tmp/out" 2>"$tmp/err"
    code=$?
}
printf 'Hello!\n\n/reset\nHello!\n' >"$tmp/lines"
chat
printf '%s\n%s\n' "$hello" "$hello" | cmp -s - "$tmp/out" && [ "$code" -eq 0 ] && [ ! -s "$tmp/err" ]
report 'chat' $?
printf '/image tests/samples/s00.png\nDescribe the picture.\n' >"$tmp/lines"
chat
printf '%s\n' "$described" | cmp -s - "$tmp/out" && [ "$code" -eq 0 ]
report 'chat about a picture' $?
printf 'Describe the picture.\n/quit\nHello!\n' >"$tmp/lines"
chat --image tests/samples/s00.png --stats
printf '%s\n' "$described" | cmp -s - "$tmp/out" && [ "$code" -eq 0 ] && grep -q '^decode ' "$tmp/err"
report 'chat that begins with a picture, ends with /quit' $?
printf '/image %s\nDescribe the picture.\nHello!\n' "$pictures/broken_truncated.png" >"$tmp/lines"
chat
printf '%s\n' "$hello" | cmp -s - "$tmp/out" && [ "$code" -eq 1 ] && grep -q 'broken_truncated.png' "$tmp/err"
report 'a bad picture leaves the conversation as it was' $?
printf '/image %s\n/imag x\n/stats\n/help\n/system\n//\n' "$tmp/none.png" >"$tmp/lines"
chat
[ "$code" -eq 1 ] && grep -q 'none.png' "$tmp/err" && grep -q 'did you mean /image' "$tmp/err" && grep -q 'nothing was answered' "$tmp/err" &&
    grep -q '^/reset ' "$tmp/err"
report 'commands of the chat' $?

BUILD=$build python3 tests/e2e/answers.py || [ $? -eq 1 ] || echo 'not ok - cli: answers.py died'
BUILD=$build python3 tests/e2e/terminal.py || [ $? -eq 1 ] || echo 'not ok - cli: terminal.py died'
