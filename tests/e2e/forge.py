"""foresight forge: what its parts print and write, exit codes, wrong usage, and runs that are killed."""
import json
import os
import shutil
import subprocess
import tempfile
import time

from support import F, case, finish, read_tensors, run, run_json, write_tensors

TINY = "models/tiny"
tmp = tempfile.TemporaryDirectory()
SEEN = run("run", "--model", TINY, "--image", "tests/samples/s00.png", "Describe the picture.")


def path(name):
    return os.path.join(tmp.name, name)


def blind(name):
    """models/tiny without its tower"""
    os.mkdir(path(name))
    for f in "tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "generation_config.json":
        shutil.copy(os.path.join(TINY, f), path(name))
    tensors = read_tensors(TINY + "/model.safetensors")
    write_tensors(path(name + "/model.safetensors"), {n: t for n, t in tensors.items() if not n.startswith("model.visual.")})
    config = json.load(open(TINY + "/config.json"))
    json.dump({k: v for k, v in config.items() if "token_id" not in k and k != "vision_config"}, open(path(name + "/config.json"), "w"))
    return path(name)


def folder(name):
    return {f: open(os.path.join(path(name), f), "rb").read() for f in sorted(os.listdir(path(name)))}


@case
def graft():
    """forge graft: a dry run writes nothing, a real one gives the donor's answer, a second one touches nothing"""
    host = blind("g")
    before = folder("g")
    dry = run("forge", "graft", "--from", TINY, "--into", host, "--dry-run")
    good = dry[0] == 0 and b"would get 45 tensors, 1.9 MB, 935552 parameters" in dry[1] and folder("g") == before
    done = run("forge", "graft", "--from", TINY, "--into", host)
    good = good and done[0] == 0 and not done[2] and b"45 tensors" in done[1] and b"the tower opens" in done[1]
    got = run("run", "--model", host, "--image", "tests/samples/s00.png", "Describe the picture.")
    after = folder("g")
    again = run("forge", "graft", "--from", TINY, "--into", host)
    good = good and got == SEEN and again[0] == 0 and b"nothing was touched" in again[1] and folder("g") == after
    return good, (dry, done, got, again)


@case
def graft_json():
    """forge graft --json"""
    j = run_json("forge", "graft", "--from", TINY, "--into", blind("j"), "--json")
    good = (j["tensors"], j["bytes"], j["parameters"], j["already"], j["dry_run"]) == (45, 1871104, 935552, False, False)
    good = good and j["files"][-1] == "model.safetensors.index.json" and "model-vision.safetensors" in j["files"]
    return good and run_json("forge", "graft", "--from", TINY, "--into", path("j"), "--json")["already"], j


@case
def graft_refused():
    """forge graft: what will not do is exit 1, and nothing is written"""
    host = blind("r")
    before = folder("r")
    for args, says in [((host, TINY), "no vision tower"), ((TINY, TINY), "the same folder"), ((path("none"), host), "cannot open"),
                       ((TINY, path("none")), "cannot open"), ((TINY, "tests"), "config.json")]:
        code, out, err = run("forge", "graft", "--from", args[0], "--into", args[1])
        if code != 1 or out or says not in err.decode():
            return False, (args, code, out, err)
    return folder("r") == before, ""


@case
def graft_killed():
    """forge graft: killed at any time the model answers as before or as after, and the same command finishes"""
    kills = 0
    for i in range(10):
        host = blind("k%d" % i)
        process = subprocess.Popen([F, "forge", "graft", "--from", TINY, "--into", host], stdout=subprocess.DEVNULL)
        time.sleep(0.003 * i)
        process.kill()
        kills += process.wait() != 0
        text = run("run", "--model", host, "--max-tokens", "5", "What is there?")
        if text[0]:
            return False, (i, text)
        done = run("forge", "graft", "--from", TINY, "--into", host)
        if done[0] or folder("k%d" % i) != folder("g"):
            return False, (i, done)
    return kills > 0, kills


@case
def check():
    """forge check: a sound checkpoint, in words, with every tensor, and as JSON"""
    code, out, err = run("forge", "check", TINY)
    text = out.decode()
    good = code == 0 and not err and text.endswith(TINY + ": sound\n") and "norms       the files hold gain - 1" in text
    more = run("forge", "check", TINY, "--verbose")[1].decode()
    good = good and "BF16     [128,3,2,16,16]  model.visual.patch_embed.proj.weight\n" in more and len(more.splitlines()) == len(text.splitlines()) + 115
    j = run_json("forge", "check", TINY, "--json")
    good = good and j["sound"] and len(j["tensors"]) == 115 and not any(t["nan"] or t["infinite"] or t["zero"] for t in j["tensors"])
    return good and {f["topic"] for f in j["findings"]} >= {"norms", "vision", "draft head", "tokenizer", "template", "answer"}, (text, err, j)


@case
def check_unsound():
    """forge check: a damaged checkpoint is exit 1, and the tensor is named"""
    host = blind("d")
    tensors = read_tensors(host + "/model.safetensors")
    name = "model.language_model.layers.0.mlp.up_proj.weight"
    dtype, shape, data = tensors[name]
    tensors[name] = dtype, shape, b"\xc0\x7f" + data[2:]
    write_tensors(host + "/model.safetensors", tensors)
    code, out, err = run("forge", "check", host)
    text = out.decode()
    good = code == 1 and not err and "PROBLEM: " + name in text and text.splitlines()[-1].startswith(host + ": not sound, ")
    code, out, err = run("forge", "check", host, "--json")
    j = json.loads(out)
    good = good and code == 1 and not j["sound"] and [t["name"] for t in j["tensors"] if t["nan"]] == [name]
    code, out, err = run("forge", "check", path("none"))
    return good and code == 1 and not out and b"no such folder" in err or b"not a folder" in err, (text, code, err)


@case
def mtp():
    """forge mtp: extract, verify, heal; attach refuses a second head"""
    head = path("head.safetensors")
    out = run("forge", "mtp", "extract", TINY, head)
    good = out[0] == 0 and b"1 layer, 15 tensors" in out[1] and set(read_tensors(head)) == {n for n in read_tensors(TINY + "/model.safetensors") if n.startswith("mtp.")}
    again = run("forge", "mtp", "attach", head, TINY)
    good = good and again[0] == 1 and b"a draft head of its own" in again[2]
    j = run_json("forge", "mtp", "verify", TINY, "--image", "tests/samples/s00.png", "--json")
    good = good and j["works"] and j["accepted"] > j["drafted"] / 2
    heal = run("forge", "mtp", "heal", TINY)
    good = good and heal[0] == 0 and b"nothing was touched" in heal[1]
    return good and run("forge", "mtp", "heal")[0] == 2 and run("forge", "mtp", "extract", TINY)[0] == 2, (out, again, j, heal)


@case
def calibrate():
    """forge calibrate: a wrong contract is repaired and kept, inspect says so, a right one stays, --reset undoes it"""
    host = path("c")
    shutil.copytree(TINY, host)
    kept = os.path.join(host, "mtp_calibration.json")
    with open(kept, "w") as f:
        json.dump({"mtp_contract": {"concat_order": "hidden_embedding"}}, f)
    wrong = open(kept).read()
    with open(path("prompts.jsonl"), "w") as f:
        for name, animal in ("Mia", "fox"), ("Tom", "dog"), ("Ann", "cat"), ("Ben", "bear"), ("Eva", "hen"), ("Leo", "owl"):
            f.write(json.dumps({"prompt": "Tell a story about a %s named %s, a river and a red ball." % (animal, name)}) + "\n\n")
        shutil.copy("tests/samples/s00.png", path("s00.png"))
        f.write(json.dumps({"prompt": "Describe the picture.", "images": ["s00.png"], "id": 7}) + "\n")
        f.write(json.dumps({"messages": [{"role": "user", "content": "Count from 7 to 14."}]}) + "\n")
    dry = run("forge", "calibrate", host, "--dry-run")
    good = dry[0] == 0 and b"Better: concat_order=embedding_hidden\n" in dry[1] and b"Nothing was written (--dry-run)" in dry[1]
    good = good and open(kept).read() == wrong and not dry[2]
    j = run_json("forge", "calibrate", "--model", host, "--json", "--prompts", path("prompts.jsonl"), "--image", "tests/samples/s01.png")
    best, present = j["variants"][j["best"]], j["variants"][0]
    good = good and j["enough"] and j["better"] and j["written"] and j["path"] == kept and best["contract"] == "concat_order=embedding_hidden"
    good = good and best["low"] > 0.5 and best["tokens_a_pass"] > present["tokens_a_pass"] + 0.5 and len(best["accepted"]) == 3
    good = good and (j["prompts"], j["prompts_with_pictures"], j["drafts"]) == (9, 2, 3)
    field = run_json("inspect", host, "--json")["mtp_contract"]["concat_order"]
    good = good and field == {"value": "embedding_hidden", "source": "calibrated"}
    again = run("forge", "calibrate", host)
    good = good and again[0] == 0 and b"Already the best: " in again[1] and b"your own prompts and pictures say more" in again[1]
    gone = run("forge", "calibrate", "--reset", host)
    good = good and gone[0] == 0 and b"is removed" in gone[1] and not os.path.exists(kept)
    good = good and run_json("forge", "calibrate", "--reset", host, "--json") == {"model": host, "was_calibrated": False, "removed": False}
    return good and sorted(os.listdir(host)) == sorted(os.listdir(TINY)), (dry, j, again, gone)


@case
def calibrate_refused():
    """forge calibrate: too little to judge by, no head, bad prompts and folders are exit 1, and nothing is written"""
    host = path("n")
    shutil.copytree(TINY, host)
    before = folder("n")
    lines = path("lines.jsonl")

    def write(text):
        with open(lines, "w") as f:
            f.write(text)

    write('{"prompt": "Count from 7 to 14."}\n')
    few = run("forge", "calibrate", host, "--prompts", lines)
    good = few[0] == 1 and b"Too little to judge by: " in few[1] and b" of at least 192" in few[1]
    code, out, err = run("forge", "calibrate", host, "--prompts", lines, "--json")
    good = good and code == 1 and not json.loads(out)["enough"] and json.loads(out)["variants"] == []
    for text, says in [("", "no prompts in it"), ("\n \n", "no prompts in it"), ("{}\n", ":1: expected an object with one of"), ('"x"\n', ":1: expected"),
                       ('{"prompt": "a"}\n{"prompt": 1}\n', ":2: expected"), ('{"prompt": "a", "ids": [1]}', ":1: expected"),
                       ('{"prompt": "a"}\n{', ":2: not JSON"), ('{"prompt": "a", "images": "x"}', ":1: images: expected"),
                       ('{"prompt": "a", "images": ["none.png"]}', "none.png"), ('{"ids": [1, -1]}', ":1: ids: expected"),
                       ('{"ids": [1, 99999]}', "prompt 1: "), ('{"messages": [1]}', "prompt 1: ")]:
        write(text)
        code, out, err = run("forge", "calibrate", host, "--prompts", lines)
        if code != 1 or out or says not in err.decode():
            return False, (text, code, out, err)
    for args, says in [((path("none"),), "no such folder"), ((TINY + "/config.json",), "not a folder"), ((host, "--prompts", path("none")), "none"),
                       ((host, "--image", path("none")), "none"), ((path("none"), "--reset"), "no such folder")]:
        code, out, err = run("forge", "calibrate", *args)
        if code != 1 or out or says not in err.decode():
            return False, (args, code, out, err)
    good = good and folder("n") == before
    config = json.load(open(host + "/config.json"))
    del config["text_config"]["mtp_num_hidden_layers"]
    json.dump(config, open(host + "/config.json", "w"))
    code, out, err = run("forge", "calibrate", host)
    good = good and code == 1 and b"no draft head to calibrate" in err
    for args, says in [((host, "--raw"), b"--raw is about"), ((host, "--model", host), b"exclude each other"), ((host, "--depth", "9"), b"from 1 to 8")]:
        code, out, err = run("forge", "calibrate", *args)
        good = good and code == 2 and says in err
    return good, (few, code, out, err)


@case
def usage():
    """forge: wrong usage is exit 2, help of the whole and of a part"""
    for args, says in [((), "usage: foresight forge COMMAND"), (("graf",), "did you mean 'forge graft'?"), (("x",), "unknown command 'forge x'"),
                       (("graft",), "--from is missing"), (("graft", "--from", TINY), "--into is missing"), (("graft", "x"), "what is 'x'?"),
                       (("check", TINY, "--model", TINY), "exclude each other"), (("graft", "--frm", "x"), "did you mean --from?")]:
        code, out, err = run("forge", *args)
        if code != 2 or out or says not in err.decode():
            return False, (args, code, out, err)
    whole, part, other = run("help", "forge"), run("help", "forge", "graft"), run("forge", "graft", "--help")
    good = whole[0] == 0 and b"forge graft" in whole[1] and run("forge", "--help") == whole
    return good and part[0] == 0 and part == other and b"usage: foresight forge graft" in part[1], (whole, part, other)


finish()
