"""foresight quantize: what it prints and writes, that the result answers, wrong usage, and runs that are killed or stopped."""
import json
import os
import signal
import subprocess
import tempfile
import time

from support import F, case, finish, read_tensors, run, run_json

TINY = "models/tiny"
QUESTION = "Describe the picture."
tmp = tempfile.TemporaryDirectory()


def path(name):
    return os.path.join(tmp.name, name)


def folder(name):
    return {f: open(os.path.join(path(name), f), "rb").read() for f in sorted(os.listdir(path(name)))}


def text_file(name, text):
    with open(path(name), "w") as f:
        f.write(text)
    return path(name)


@case
def eight():
    """quantize to 8 bits: the summary, and the answer is that of the source"""
    code, out, err = run("quantize", TINY, path("q8"), "--bits", "8", "--group", "32")
    text = out.decode()
    want = run("run", "--model", TINY, "--image", "tests/samples/s00.png", QUESTION)
    got = run("run", "--model", path("q8"), "--image", "tests/samples/s00.png", QUESTION)
    good = code == 0 and not err and "matrices quantised" in text and "relative RMS" in text
    return good and want[0] == 0 and got == want, (code, text, err, got)


@case
def four():
    """quantize to 4 bits with 8-bit head and tower, checked against a text, as JSON"""
    words = text_file("text.txt", "There is a large yellow cross at the top right. " * 20)
    j = run_json("quantize", TINY, path("q4"), "--bits=4", "--head-bits=8", "--vision-bits=8", "--check", words, "--json")
    got = run("run", "--model", path("q4"), "--image", "tests/samples/s00.png", QUESTION)
    c = j["check"]
    good = j["bytes"] < 0.5 * j["source_bytes"] and j["quantized"] > 40 and 0 < j["mean_error"] < 0.1
    good = good and c["tokens"] > 100 and 0 < c["kl_mean"] < 1 and c["kl_mean"] <= c["kl_max"] and 0.5 < c["top1_agreement"] <= 1
    return good and got[0] == 0 and b"yellow cross" in got[1], (j, got)


@case
def check_of_equals():
    """--check finds less divergence at 8 bits than at 4"""
    mean = {}
    for bits in "4", "8":
        j = run_json("quantize", TINY, path("c" + bits), "--bits", bits, "--check", path("text.txt"), "--json")
        mean[bits] = j["check"]["kl_mean"]
    return 0 < mean["8"] < mean["4"] / 4, mean


@case
def config():
    """config.json, the index and the tensors agree, and the report names every matrix"""
    c = json.load(open(path("q4/config.json")))
    q = c["quantization"]
    index = json.load(open(path("q4/model.safetensors.index.json")))
    report = json.load(open(path("q4/quantization_report.json")))
    tensors = read_tensors(path("q4/model.safetensors"))
    good = (q["bits"], q["group_size"], q["mode"]) == (4, 64, "affine") and c["quantization_config"] == q
    good = good and set(index["weight_map"]) == set(tensors) and c["text_config"] == json.load(open(TINY + "/config.json"))["text_config"]
    for m in report["modules"]:
        if "bits" not in m:
            good = good and q[m["name"]] is False and m["name"] + ".scales" not in tensors
            continue
        own = q.get(m["name"], q)
        shape = tensors[m["name"] + ".weight"][1]
        K = shape[-1] * 32 // m["bits"]
        good = good and (own["bits"], own["group_size"]) == (m["bits"], m["group_size"])
        good = good and tensors[m["name"] + ".scales"][1] == shape[:-1] + [K // m["group_size"]]
    names = {m["name"] for m in report["modules"] if "bits" in m}
    return good and names == {n[:-7] for n in tensors if n.endswith(".scales")}, report["modules"][:3]


@case
def verbose():
    """--verbose prints a line for every matrix, with why some are left"""
    code, out, err = run("quantize", TINY, path("v"), "--bits", "4", "--mtp-policy", "cyankiwi", "--verbose")
    text = out.decode()
    good = code == 0 and "4 bits  mtp.layers.0.mlp.up_proj\n" in text and "mtp.fc: the draft head's fc, by the policy cyankiwi\n" in text
    return good and "in_proj_a: " in text and "model.visual.pos_embed: " in text, text


@case
def inspect():
    """inspect and drafts take the quantised folder"""
    j = run_json("inspect", path("q4"), "--json")
    a = run("run", "--model", path("q4"), "--draft-depth", "3", "--image", "tests/samples/s00.png", QUESTION)
    b = run("run", "--model", path("q4"), "--draft-depth", "0", "--image", "tests/samples/s00.png", QUESTION)
    return j["ok"] and a[0] == 0 and a == b, (j, a, b)


@case
def usage():
    """wrong usage is exit 2 and says what is missing"""
    wrong = [((), "SOURCE and OUT are missing"), ((TINY,), "OUT is missing"), ((TINY, path("x")), "--bits 4 or --bits 8"),
             ((TINY, path("x"), "--bits", "5"), "expected 4|8"), ((TINY, path("x"), "y", "--bits", "4"), "what is 'y'?"),
             ((TINY, path("x"), "--bits", "4", "--group", "48"), "expected 32|64|128"),
             ((TINY, path("x"), "--bits", "4", "--vision-bits", "4"), "expected 8|16")]
    for args, says in wrong:
        code, out, err = run("quantize", *args)
        if code != 2 or out or says not in err.decode():
            return False, (args, code, err)
    return not os.path.exists(path("x")), ""


@case
def refused():
    """folders that will not do are exit 1, and nothing is written"""
    before = folder("q8")
    wrong = [((TINY, TINY), "the source itself"), ((TINY, path("q8")), "not empty"), ((path("q8"), path("z")), "quantised already"),
             ((path("none"), path("z")), "cannot open"), ((TINY, path("z"), "--check", path("none")), "there is no such file")]
    for args, says in wrong:
        code, out, err = run("quantize", *args, "--bits", "4")
        if code != 1 or out or says not in err.decode():
            return False, (args, code, err)
    return folder("q8") == before and not os.path.exists(path("z")), ""


@case
def killed():
    """a run that is killed at any time is gone on with, to the same bytes"""
    kills = 0
    for i in range(12):
        name = "k%d" % i
        process = subprocess.Popen([F, "quantize", TINY, path(name), "--bits", "8", "--group", "32"], stdout=subprocess.DEVNULL)
        time.sleep(0.004 * i)
        process.kill()
        kills += process.wait() != 0
        if os.path.exists(path(name + "/config.json")) and not os.path.exists(path(name + "/quantization_journal.json")):
            continue  # it was faster
        code, out, err = run("quantize", TINY, path(name), "--bits", "8", "--group", "32")
        if code or folder(name) != folder("q8"):
            return False, (i, code, err)
    return kills > 0, kills


@case
def interrupted():
    """Ctrl-C stops a run, says that it can go on, and it does"""
    stopped = 0
    for i in range(40):
        name = "i%d" % i
        process = subprocess.Popen([F, "quantize", TINY, path(name), "--bits", "8", "--group", "32"], stderr=subprocess.PIPE,
                                   stdout=subprocess.DEVNULL)
        deadline = time.time() + 5
        while not os.path.exists(path(name)) and process.poll() is None and time.time() < deadline:
            time.sleep(0.0005)
        process.send_signal(signal.SIGINT)
        err = process.communicate()[1].decode()
        if process.returncode == 0:
            continue
        if process.returncode != 130 or "the same command goes on" not in err:
            return False, (process.returncode, err)
        stopped += 1
        code, out, err = run("quantize", TINY, path(name), "--bits", "8", "--group", "32")
        return code == 0 and folder(name) == folder("q8"), err
    return True, "never stopped in time"


finish()
