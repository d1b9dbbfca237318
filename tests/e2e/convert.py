"""foresight forge convert: what it prints and writes, exit codes, wrong usage, runs that are killed, answers before and after."""
import hashlib
import json
import os
import shutil
import subprocess
import tempfile
import time

from support import BUILD, F, case, finish, read_tensors, run, run_json

DATA = os.path.join(BUILD, "data")
FORMS, GGUF, MLX = DATA + "/forms/", DATA + "/gguf/", DATA + "/quantised/model"
TINY = "models/tiny"
PROMPT = ("--image", "tests/samples/s00.png", "--max-tokens", "24", "Describe the picture.")
tmp = tempfile.TemporaryDirectory()


def path(name):
    return os.path.join(tmp.name, name)


def folder(where):
    """name -> digest of every file, and when it was last changed"""
    found = {}
    for f in sorted(os.listdir(where)):
        full = os.path.join(where, f)
        found[f] = hashlib.sha256(open(full, "rb").read()).hexdigest(), os.stat(full).st_mtime_ns
    return found


def digests(where):
    return {n: d for n, (d, _) in folder(where).items()}


@case
def exact():
    """forge convert: integers are copied, the answer to a picture stays the same, the source is not touched"""
    before = folder(MLX)
    code, out, err = run("forge", "convert", MLX, path("mlx"))
    text = out.decode()
    good = code == 0 and not err and "copied exactly, 4 bits, groups of 64" in text and "quantised" not in text
    a, b = read_tensors(MLX + "/model.safetensors"), read_tensors(path("mlx/model.safetensors"))
    good = good and a == b and folder(MLX) == before
    shutil.copytree(MLX, path("asked"))
    for f in os.listdir(TINY):  # what the packed checkpoint lacks to be asked
        if f != "config.json" and not f.endswith(".safetensors"):
            shutil.copy(os.path.join(TINY, f), path("asked"))
    first = run("forge", "convert", path("asked"), path("answers"))
    one, two = run("run", "--model", path("asked"), *PROMPT), run("run", "--model", path("answers"), *PROMPT)
    return good and first[0] == 0 and one[0] == 0 and one == two, (text, err, one, two)


@case
def gguf():
    """forge convert: a model in GGUF files becomes a folder that needs them no more, with the same answers"""
    source, out = (GGUF + "q35/model.gguf", "--mmproj", GGUF + "q35/mmproj.gguf"), path("gguf")
    code, text, err = run("forge", "convert", source[0], out, *source[1:], "--exact")
    if code or err:
        return False, (text, err)
    ask = ("--raw", "--temperature", "0", "--max-tokens", "12", "--ignore-eos", "--draft-depth", "2", "<|im_start|>user\nwhat is on it?<|im_end|>\n")
    one, two = run("run", "--model", *source, *ask), run("run", "--model", out, *ask)
    ids = [run("tokenize", "--model", m, "what is the red picture on?<|im_end|>") for m in (source[0], out)]
    names = set(os.listdir(out))
    need = {"config.json", "tokenizer.json", "tokenizer_config.json", "preprocessor_config.json", "model.safetensors", "model.safetensors.index.json"}
    good = one[0] == 0 and one == two and ids[0] == ids[1] and ids[0][0] == 0 and need <= names and not any(n.endswith(".gguf") for n in names)
    text = json.load(open(out + "/config.json"))
    return good and "quantization" not in text and text["architectures"] == ["Qwen3_5ForConditionalGeneration"], (one, two, ids, names)


@case
def floats():
    """forge convert: floats become 4 bits without more said, as quantize makes them; with --bits as there"""
    made = [run("forge", "convert", TINY, path("four")), run("quantize", TINY, path("q4"), "--bits", "4"),
            run("forge", "convert", TINY, path("eight"), "--bits", "8", "--group", "32"), run("quantize", TINY, path("q8"), "--bits", "8", "--group", "32")]
    good = all(m[0] == 0 for m in made)
    for a, b in ("four", "q4"), ("eight", "q8"):
        x, y = digests(path(a)), digests(path(b))
        good = good and x.keys() == y.keys() and [n for n in x if x[n] != y[n]] == ["quantization_report.json"]
    return good, made


@case
def dry_run():
    """forge convert --dry-run: says what would be done, writes nothing; --verbose, --json"""
    code, out, err = run("forge", "convert", FORMS + "awq", path("dry"), "--dry-run", "--verbose")
    text = out.decode()
    good = code == 0 and not err and not os.path.exists(path("dry")) and "exact " in text and "would have" in text
    good = good and "in floats" in text and "model.layers.1.self_attn.k_proj\n" in text
    j = run_json("forge", "convert", FORMS + "awq", path("dry"), "--dry-run", "--json")
    good = good and j["dry_run"] and not os.path.exists(path("dry")) and (j["copied"], j["quantized"], j["left"]) == (13, 0, 11)
    k = run_json("forge", "convert", FORMS + "awq", path("dry"), "--json")
    good = good and not k["dry_run"] and (k["bytes"], k["copied"]) == (j["bytes"], j["copied"]) and k["files_kept"] == 0
    kinds = {m["becomes"] for m in k["modules"]}
    return good and kinds == {"copied", "left"} and all(m["bits"] for m in k["modules"] if m["becomes"] == "copied"), (text, j, k)


@case
def killed():
    """forge convert: killed at any time, the same command makes what an undisturbed run makes"""
    args = ("--bits", "4", "--threads", "1")
    if run("forge", "convert", MLX, path("whole"), *args)[0]:
        return False, "the undisturbed run"
    want, kills = digests(path("whole")), 0
    for i in range(12):
        out = path("k%d" % i)
        process = subprocess.Popen([F, "forge", "convert", MLX, out, *args], stdout=subprocess.DEVNULL)
        time.sleep(0.004 * i)
        process.kill()
        kills += process.wait() != 0
        if os.path.exists(out + "/config.json") and not os.path.exists(out + "/quantization_journal.json"):
            done = (0, b"", b"")  # it had come to its end
        else:
            done = run("forge", "convert", MLX, out, *args)
        if done[0] or digests(out) != want:
            return False, (i, done, digests(out))
    return kills > 0, kills


@case
def refused():
    """forge convert: what cannot be is exit 1 and says what to do; nothing is left behind"""
    os.mkdir(path("cut"))
    data = open(GGUF + "q3/model.gguf", "rb").read()
    open(path("cut.gguf"), "wb").write(data[:len(data) * 2 // 3])
    for args, says in [((path("none"), path("o")), "cannot open"), ((path("cut.gguf"), path("o")), "truncated"), ((FORMS + "int4", FORMS + "int4/out"), "inside the source"),
                       ((FORMS + "int4", "tests"), "not empty"), ((FORMS + "int4", path("o"), "--mmproj", "x.gguf"), "not a model of GGUF files"),
                       ((path("cut"), path("o")), "config.json")]:
        code, out, err = run("forge", "convert", *args)
        if code != 1 or out or says not in err.decode() or os.path.exists(path("o")):
            return False, (args, code, out, err)
    code, out, err = run("quantize", FORMS + "gptq", path("o"), "--bits", "4")
    return code == 1 and b"foresight forge convert" in err and not os.path.exists(path("o")), (code, out, err)


@case
def usage():
    """forge convert: wrong usage is exit 2; its help"""
    for args, says in [((), "SOURCE and OUT are missing"), ((TINY,), "OUT is missing"), ((TINY, path("u"), "--bits", "5"), "--bits: expected 4|8"),
                       ((TINY, path("u"), "--exact", "--bits", "4"), "makes no sense"), ((TINY, path("u"), "--bitz", "4"), "did you mean --bits?")]:
        code, out, err = run("forge", "convert", *args)
        if code != 2 or out or says not in err.decode():
            return False, (args, code, out, err)
    code, out, err = run("forge", "convert", "--help")
    lines = out.decode().splitlines()
    return code == 0 and len(lines) <= 24 and max(map(len, lines)) <= 80 and b"usage: foresight forge convert SOURCE OUT" in out, out


finish()
