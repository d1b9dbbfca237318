"""bench and tune as a user meets them. Standard library only. Prints one "ok - NAME" or "not ok - NAME" a case."""
import json
import os
import shutil
import sys
import tempfile
import xml.etree.ElementTree as tree

sys.dont_write_bytecode = True
from support import case, finish, read_tensors, run, run_json, write_tensors  # noqa: E402

folder = tempfile.TemporaryDirectory()
path = lambda *names: os.path.join(folder.name, *names)
os.environ["XDG_CONFIG_HOME"] = path("config")
TUNE = path("config", "foresight", "tune.json")
QUICK = ("--quick", "--runs", "1", "--prompt", "24", "--decode", "6")
TUNING = ("tune", "--runs", "3", "--max-tokens", "4", "--question", "Hello!")
HELLO = run_json("run", "--json", "Hello!")


def whole():
    """bench --json has every figure, and they fit together"""
    got = run_json("bench", *QUICK, "--json", "--depths", "2", "--acceptance", "0.86,0.66", "--vision", "64", "--threads", "2", "models/tiny")
    good = got["threads"] == 2 and got["runs"] == 1 and got["model"] == "models/tiny" and got["isa"] == run_json("inspect", "--json")["isa"]
    machine = got["machine"]
    good = good and all(machine[name] > 0 for name in ("processors", "read_gb_per_second", "float_gops", "integer_gops")) and machine["cpu"]
    good = good and got["prefill"]["tokens"] == 24 and got["decode"]["tokens"] == 6
    for part in ("prefill", "decode"):
        good = good and got[part]["tokens_per_second"] > 0
    good = good and abs(got["decode"]["seconds_per_token"] * got["decode"]["tokens_per_second"] - 1) < 0.02
    rows = [row["rows"] for row in got["verify"]]
    good = good and rows == [1, 2, 3, 4, 8, 16] and all(row["ratio"] > 0 for row in got["verify"]) and got["draft"]["ratio"] > 0
    good = good and [d["depth"] for d in got["depths"]] == [0, 2, "auto"] and got["depths"][0]["ratio"] == 1
    good = good and len(got["depths"][1]["accepted"]) == 2 and got["depths"][1]["expected_ratio_at_acceptance"] > 0 and all(d["ratio_at_acceptance"] > 0 for d in got["depths"][1:])
    good = good and [(v["side"], v["patches"]) for v in got["vision"]] == [(64, 16)] and got["vision"][0]["seconds"] > 0
    memory = got["memory"]
    good = good and memory["peak_bytes"] > memory["weight_bytes"] > 0 and memory["session_bytes"] > 0
    load = got["load"]
    good = good and load["first_token_seconds"] >= load["open_seconds"] > 0 and "cold_ratio" not in load
    for name, prefix, must in (("decode", "", ("in_proj", "conv", "deltanet", "out_proj", "qkv", "attention", "o_proj", "gate_up", "down", "head", "sample")),
                               ("prefill", "", ("embed", "norm", "rope", "activation")), ("draft", "mtp.", ("mtp.fc", "mtp.head")),
                               ("vision", "vision.", ("vision.qkv", "vision.merge"))):
        part = got["profile"][name]
        names = [o["name"] for o in part["operators"]]
        good = good and not set(must) - set(names) and all(n.startswith(prefix) and ("." in n) == bool(prefix) for n in names)
        good = good and abs(sum(o["share"] for o in part["operators"]) - 1) < 1e-3 and part["steps"] > 0
        good = good and abs(sum(o["seconds"] for o in part["operators"]) - part["seconds"]) < 1e-4
    # weights of a token: what the operators read over the steps
    decode = got["profile"]["decode"]
    read = sum(o["weight_bytes"] for o in decode["operators"]) / decode["steps"]
    return good and abs(read - got["decode"]["weight_bytes_per_token"]) < 1, got


def table():
    """bench prints a table, and draws a picture that is XML"""
    code, out, err = run("bench", *QUICK, "--vision", "0", "--depths", "1", "--plot", path("bench.svg"))
    text = out.decode()
    words = ("machine", "prefill", "decode", "verify", "draft", "load", "memory", "of the roofline", "of the read", "mtp.head", "gate_up")
    good = code == 0 and not [word for word in words if word not in text] and "vision" not in text and max(map(len, text.split("\n"))) < 160
    root = tree.parse(path("bench.svg")).getroot()
    names = [item.text for item in root.iter("{http://www.w3.org/2000/svg}text")]
    good = good and root.tag == "{http://www.w3.org/2000/svg}svg" and "gate_up" in names and "mtp.head" in names
    return good and len(list(root.iter("{http://www.w3.org/2000/svg}circle"))) == 3, (text, err)


def headless():
    """bench without a draft head, without eyes, without a tokenizer"""
    shutil.copytree("models/tiny", path("bare"))
    os.remove(path("bare", "tokenizer.json"))
    got = run_json("bench", *QUICK, "--json", path("bare"), "--no-mtp")
    return not got["depths"] and "draft" not in got and not got["vision"] and "draft" not in got["profile"] and got["decode"]["tokens_per_second"] > 0, got


def refused():
    """bench and tune refuse flags that make no sense"""
    cases = [(("bench", "--depths", "9"), "--depths"), (("bench", "--depths", "1,x"), "--depths"), (("bench", "--vision", "100"), "multiple of 32"),
             (("bench", "--acceptance", "2"), "--acceptance"), (("bench", "--prompt", "1000000"), "context"), (("bench", "--model", "a", "b"), "exclude"),
             (("tune", "--runs", "2"), "at least 3"), (("tune", "--show", "--forget"), "exclude")]
    bad = []
    for args, text in cases:
        code, out, err = run(*args)
        if code != 2 or out or text not in err.decode():
            bad.append((args, code, err))
    code, out, err = run("bench", *QUICK, "--plot", path("nowhere", "x.svg"), "--vision", "0")
    if code != 1 or out or b"nowhere" not in err:
        bad.append(("plot", code, err))
    return not bad, bad


def kept():
    """tune keeps what it chose; run and chat use it and say so"""
    got = run_json(*TUNING, "--json")
    file = json.load(open(TUNE))
    entry = file["tuned"][0]
    chosen = got["chosen"]
    good = got["kept_in"] == TUNE and len(file["tuned"]) == 1 and entry["depth"] == chosen["depth"] and entry["folder"] == "models/tiny"
    good = good and len(got["tried"]) >= 10 and {way["depth"] for way in got["tried"]} >= {"auto", 0, 1, 8} and os.listdir(os.path.dirname(TUNE)) == ["tune.json"]
    # whatever was chosen: another choice is used as well
    entry["depth"], entry["threads"] = 2, 1
    json.dump(file, open(TUNE, "w"))
    used = run_json("run", "--json", "Hello!")
    good = good and used["tuned"] is True and used["drafts"]["depth"] == 2 and used["ids"] == HELLO["ids"]
    good = good and HELLO["tuned"] is False and HELLO["drafts"]["depth"] == "auto"
    code, out, err = run("run", "--stats", "Hello!")
    good = good and b"2 drafts a round, 1 thread, as foresight tune found" in err
    code, out, err = run("chat", "--stats", stdin=b"Hello!\n")
    good = good and b"2 drafts a round, 1 thread, as foresight tune found" in err
    shown = run_json("tune", "--show", "--json")
    entry["depth"], entry["lookup"] = "auto", "off"
    json.dump(file, open(TUNE, "w"))
    drafts = run_json("run", "--json", "Hello!")["drafts"]
    good = good and drafts["depth"] == "auto" and drafts["lookup"] == "off"
    good = good and run_json("run", "--json", "--lookup", "on", "Hello!")["drafts"]["lookup"] == "on"
    del entry["lookup"]
    entry["depth"] = 2
    json.dump(file, open(TUNE, "w"))
    return good and shown["tuned"] and shown["depth"] == 2 and shown["threads"] == 1, (got, used, err, shown)


def flags():
    """flags win over what tune found; verify, other models and other instruction sets know nothing of it"""
    got = run_json("run", "--json", "--draft-depth", "auto", "--threads", "2", "Hello!")
    good = got["tuned"] is False and got["drafts"]["depth"] == "auto"
    got = run_json("run", "--json", "--draft-depth", "0", "Hello!")  # the threads alone
    good = good and got["tuned"] is True and got["drafts"]["depth"] == 0
    good = good and run_json("run", "--json", "--isa", "ref", "Hello!")["tuned"] is False
    good = good and run_json("run", "--json", "--no-mtp", "--threads", "1", "Hello!")["tuned"] is False
    shutil.copytree("models/tiny", path("other"))
    good = good and run_json("run", "--json", "--model", path("other"), "Hello!")["tuned"] is True  # the same model elsewhere
    tensors = read_tensors(path("other", "model.safetensors"))
    tensors["model.extra"] = "F32", [1], b"\0\0\0\0"
    write_tensors(path("other", "model.safetensors"), tensors)
    return good and run_json("run", "--json", "--model", path("other"), "Hello!")["tuned"] is False, got


def others():
    """tune leaves what is kept for others; --dry-run keeps nothing; --forget forgets this one alone"""
    file = json.load(open(TUNE))
    file["tuned"].append(dict(file["tuned"][0], cpu="another"))
    file["tuned"].append({"unknown": 1})
    file["note"] = "mine"
    json.dump(file, open(TUNE, "w"))
    before = open(TUNE).read()
    code, out, err = run(*TUNING, "--dry-run", "models/tiny")
    good = code == 0 and open(TUNE).read() == before and b"--dry-run" in out and b"auto" in out
    code, out, err = run(*TUNING)
    after = json.load(open(TUNE))
    good = good and code == 0 and after["note"] == "mine" and len(after["tuned"]) == 3 and {"unknown": 1} in after["tuned"]
    code, out, err = run("tune", "--forget")
    after = json.load(open(TUNE))
    good = good and code == 0 and not out and len(after["tuned"]) == 2 and after["tuned"][0]["cpu"] == "another"
    return good and run_json("run", "--json", "Hello!")["tuned"] is False and run_json("tune", "--show", "--json") == {"tuned": False}, (after, err)


def broken():
    """a tune.json that is broken is a warning; tune writes a new one"""
    run(*TUNING)
    entry = json.load(open(TUNE))["tuned"][-1]
    bad = []
    for text in (b"", b"{", b"[]", b'{"tuned": 5}', b"\xff", json.dumps({"tuned": [dict(entry, depth=9)]}).encode(),
                 json.dumps({"tuned": [dict(entry, threads="all")]}).encode(), json.dumps({"tuned": [dict(entry, threads=-1)]}).encode()):
        open(TUNE, "wb").write(text)
        code, out, err = run("run", "Hello!")
        if code != 0 or out.decode().rstrip("\n") != HELLO["text"] or b"warning" not in err or b"tune.json" not in err:
            bad.append((text, code, out, err))
    open(TUNE, "wb").write(b"{")
    code, out, err = run(*TUNING)
    if code != 0 or len(json.load(open(TUNE))["tuned"]) != 1:
        bad.append((code, err))
    os.remove(TUNE)
    os.mkdir(TUNE)
    code, out, err = run("run", "Hello!")
    if code != 0 or b"warning" not in err:
        bad.append(("folder", code, err))
    os.rmdir(TUNE)
    code, out, err = run(*TUNING, XDG_CONFIG_HOME=path("bare", "config.json"))  # no folder can be made there
    if code != 1 or b"config.json" not in err:
        bad.append(("no place", code, err))
    return not bad, bad


for each in (whole, table, headless, refused, kept, flags, others, broken):
    case(each)
finish()
