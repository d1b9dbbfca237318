"""Drafting as a user meets it: depths, marks, statistics, contracts, checkpoints with a broken head, verify. Standard library
only. Prints one "ok - NAME" or "not ok - NAME" a case."""
import json
import os
import re
import shutil
import sys
import tempfile

sys.dont_write_bytecode = True
from support import case, finish, read_tensors, run, run_json, write_tensors  # noqa: E402

SAMPLES = "tests/samples/"
PICTURE = ("--image", SAMPLES + "s00.png", "Describe the picture.")
PICTURES = ("--image", SAMPLES + "s06_a.png", "--image", SAMPLES + "s06_b.png", "Describe the pictures.")
NEAR = "\u30ab caf\u00e9 \U0001f98a \U0001f98a"  # characters of several tokens
folder = tempfile.TemporaryDirectory()
path = lambda *names: os.path.join(folder.name, *names)
BEST = run_json("inspect", "--json")["isa"]
plain = run_json("run", "--draft-depth", "0", "--json", *PICTURE)


def checkpoint(name, change=None, **files):
    """models/tiny under another name, its tensors changed, with files of JSON"""
    shutil.copytree("models/tiny", path(name))
    if change:
        tensors = read_tensors(path(name, "model.safetensors"))
        change(tensors)
        write_tensors(path(name, "model.safetensors"), tensors)
    for file, value in files.items():
        json.dump(value, open(path(name, file + ".json"), "w"))
    return path(name)


def without_head(tensors):
    for name in [name for name in tensors if name.startswith("mtp.")]:
        del tensors[name]


def half_a_head(tensors):
    del tensors["mtp.norm.weight"]


def misshapen_head(tensors):
    dtype, (rows, columns), data = tensors["mtp.fc.weight"]
    tensors["mtp.fc.weight"] = dtype, [rows, columns // 2], data[:len(data) // 2]


def figures(got):
    """rounds, tokens and, by depth, drafted and accepted"""
    drafts = got["drafts"]["after_picture"]
    return drafts["rounds"], drafts["tokens"], drafts["drafted"], drafts["accepted"]


def same_at_every_depth():
    """the answer is the same at every draft depth, greedily and by a seed"""
    bad = []
    for sampling in ([], ["--temperature", "1", "--seed", "5", "--top-k", "40"]):
        answers = [run_json("run", "--json", *sampling, "--draft-depth", depth, *PICTURE) for depth in ["0", "1", "2", "4", "8", "auto"]]
        answers.append(run_json("run", "--json", *sampling, *PICTURE))
        answers.append(run_json("run", "--json", *sampling, "--no-mtp", *PICTURE))
        bad += [a for a in answers if (a["text"], a["ids"]) != (answers[0]["text"], answers[0]["ids"])]
    return not bad, bad


def passes():
    """drafting saves passes of the model; --json says how many and how deep"""
    got = run_json("run", "--json", "--draft-depth", "3", *PICTURE)
    rounds, tokens, drafted, accepted = figures(got)
    tokens_said = len(got["ids"])
    good = got["drafts"]["depth"] == 3 and got["drafts"]["sampler"] == "seeded" and got["drafts"]["history_missing"] == 0
    good = good and len(drafted) == len(accepted) == 3 and drafted[0] == rounds and all(a <= b for a, b in zip(accepted, drafted))
    good = good and plain["drafts"]["passes"] == tokens_said - 1 and got["drafts"]["passes"] < tokens_said / 2
    good = good and tokens <= tokens_said - 1 and got["drafts"]["before_picture"]["rounds"] == 0
    good = good and all(got["timings"][name + "_seconds"] > 0 for name in ("draft", "verify", "commit"))
    text = run_json("run", "--json", "--draft-depth", "3", "Hello!")["drafts"]
    return good and text["before_picture"]["rounds"] > 0 and text["after_picture"]["rounds"] == 0, got


def unmark(text):
    return re.sub(r"\[[+~*]([^][]*)\]", r"\1", text)


def shown():
    """--show-drafts: brackets in a pipe, a legend on standard error, the same as --json has"""
    code, out, err = run("run", "--draft-depth", "3", "--show-drafts", *PICTURE)
    text, legend = out.decode(), err.decode()
    got = run_json("run", "--draft-depth", "3", "--show-drafts", "--json", *PICTURE)
    marks = [token["mark"] for token in got["tokens"]]
    want = "drafts: [+accepted] %d, [~correction] %d, [*bonus] %d, not drafted %d\n" % tuple(
        marks.count(name) for name in ("accepted", "correction", "bonus", "plain"))
    symbols = {"accepted": "[+", "correction": "[~", "bonus": "[*"}
    rebuilt, before = "", "plain"
    for token in got["tokens"]:
        mark = token["mark"] if token["text"] else before
        # a round ends with what is not an accepted draft, so equal neighbours that were not accepted are two rounds
        if mark != before or (mark != "accepted" and mark != "plain" and token["text"]):
            rebuilt += ("]" if before != "plain" else "") + symbols.get(mark, "")
        rebuilt, before = rebuilt + token["text"], mark
    rebuilt += "]" if before != "plain" else ""
    good = code == 0 and unmark(text) == plain["text"] + "\n" and legend == want and text == rebuilt + "\n" and "[+" in text
    good = good and [token["id"] for token in got["tokens"]] == got["ids"] == plain["ids"]
    return good and "".join(token["text"] for token in got["tokens"]) == got["text"], (text, rebuilt, legend, want)


def whole_characters():
    """marks split no character"""
    ids = run_json("tokenize", "--json", NEAR)["ids"]
    json.dump(ids, open(path("near.json"), "w"))
    bias = []
    for place in sorted(set(ids)):
        bias += ["--logit-bias", "%d=60" % place]
    args = ["run", "--draft-depth", "4", "--temperature", "2", "--seed", "3", "--max-tokens", "60", *bias, "Hello!"]
    code, out, err = run(*args[:-1], "--show-drafts", "Hello!")
    answer = run_json(*args, "--json")
    text = out.decode("utf-8")  # fails on a split character
    several = any(ord(c) > 127 and c != "\ufffd" for c in text)
    return code == 0 and several and unmark(text) == answer["text"] + "\n", (text, answer["text"])


def colors():
    """--color=always colours also a pipe, whatever NO_COLOR says; the text is the same"""
    code, out, err = run("run", "--draft-depth", "2", "--show-drafts", "--color=always", *PICTURE, NO_COLOR="1")
    text = re.sub(r"\x1b\[\d*m", "", out.decode())
    return code == 0 and b"\x1b[32m" in out and b"\x1b[36m" in out and b"green" in err and text == plain["text"] + "\n", (out, err)


def chat_drafts():
    """chat shows drafts and /stats adds them up"""
    lines = b"Hello!\n/image " + SAMPLES.encode() + b"s00.png\nDescribe the picture.\n/stats\n"
    code, out, err = run("chat", "--draft-depth", "3", "--show-drafts", stdin=lines)
    _, want, _ = run("chat", "--draft-depth", "0", stdin=lines)
    said = err.decode()
    good = code == 0 and unmark(out.decode()) == want.decode() and said.count("drafts: [+accepted]") == 2
    good = good and re.search(r"^so far .*no picture before$", said, re.M) and re.search(r"^so far .*after a picture$", said, re.M)
    return bool(good), (out, said)


def stats():
    """--stats: acceptance by depth, tokens a round, where the time went"""
    code, _, err = run("run", "--stats", "--draft-depth", "3", *PICTURE)
    said = err.decode()
    lines = [r"^  draft  .* s$", r"^  verify  .* s$", r"^  commit  .* s$", r"^sampling  .* s$", r"^vision ", r"^prefill ",
             r"^drafts +\d+ rounds, \d\.\d\d tokens a round, after a picture$", r"^  depth +1 +2 +3$", r"^  drafted +\d+ +\d+ +\d+$",
             r"^  accepted +[\d.]+ % +[\d.]+ % +[\d.]+ %$"]
    missing = [line for line in lines if not re.search(line, said, re.M)]
    _, _, none = run("run", "--stats", "--draft-depth", "0", *PICTURE)
    return code == 0 and not missing and b"drafts" not in none, (missing, said)


def experiments():
    """hidden flags change what is accepted, not the text"""
    answers = {name: run_json("run", "--json", "--draft-depth", "3", *flags, *PICTURES)
               for name, flags in {"real": [], "history": ["--ablate=history"], "all": ["--ablate=splice", "--ablate", "delta", "--ablate=history"],
                                   "wrong": ["--draft-wrong"]}.items()}
    json.dump(answers["real"], open(path("answer.json"), "w"))
    answers["replay"] = run_json("run", "--json", "--draft-depth", "3", "--draft-replay", path("answer.json"), "--no-mtp", *PICTURES)
    passes = {name: answer["drafts"]["passes"] for name, answer in answers.items()}
    count = len(answers["real"]["ids"])
    good = all(answer["ids"] == answers["real"]["ids"] for answer in answers.values())
    good = good and passes["real"] < passes["history"] and passes["real"] < passes["all"] and passes["wrong"] == count - 1
    replay = figures(answers["replay"])
    return good and replay[2] == replay[3] and passes["replay"] <= -(-(count - 1) // 4), passes


def hidden():
    """hidden flags are in the manual, not in the help, and no typo leads to them"""
    manual = open("docs/foresight.1").read().split(".Sh EXPERIMENTS")[1].split("\n.Sh")[0]
    _, text, _ = run("help", "run")
    _, _, typo = run("run", "--ablat=splice", "x")
    code, _, err = run("run", "--ablate=pictures", "x")
    good = all("Fl Fl " + name in manual and name.encode() not in text for name in ("ablate", "draft-wrong", "draft-replay"))
    return good and b"ablate?" not in typo and code == 2 and b"splice|delta|history" in err, (typo, err)


def wrong_usage():
    """flags of drafting refuse what makes no sense"""
    tries = [(["--draft-depth", "9"], b"auto or a whole number from 0 to 8"), (["--draft-depth", "some"], b"auto or a whole"),
             (["--draft-depth="], b"auto or a whole"), (["--draft-sampler", "greedy"], b"seeded|rejection"), (["--color", "red"], b"auto|always|never"),
             (["--draft-vocabulary", "0"], b"auto or a whole number from 1"), (["--draft-head-bits", "5"], b"auto|4|8|16"),
             (["--lookup", "yes"], b"auto|off|on"), (["--mtp-contract", "concat_order"], b"FIELD=VALUE"), (["--mtp-contract", "=x"], b"FIELD=VALUE"),
             (["--mtp-contract", "concat_ordr=x"], b"did you mean concat_order?"), (["--no-mtp", "--mtp-contract", "a=b"], b"exclude")]
    bad = []
    for flags, text in tries:
        code, out, err = run("run", *flags, "x")
        if code != 2 or out or text not in err:
            bad.append((flags, code, err))
    return not bad, bad


def lookups():
    """--lookup: spans of the context are drafted, alone, behind the head's drafts, or not at all; figures by source"""
    prompt = "Reverse the list: river, gold, moon, car, river, gold, moon, car, river, gold, moon."
    ways = {"none": ["--draft-depth", "0"], "alone": ["--draft-depth", "0", "--lookup", "on"], "both": ["--draft-depth", "2", "--lookup=on"],
            "head": ["--draft-depth", "2"], "auto": [], "off": ["--lookup", "off"], "no head": ["--no-mtp"]}
    got = {name: run_json("run", "--json", "--ignore-eos", "--max-tokens", "120", *flags, prompt) for name, flags in ways.items()}
    made = {name: (a["drafts"]["head"]["drafted"], a["drafts"]["lookups"]["drafted"]) for name, a in got.items()}
    good = all(a["ids"] == got["none"]["ids"] for a in got.values()) and got["both"]["drafts"]["lookup"] == "on"
    good = good and made["none"] == (0, 0) and made["alone"][0] == 0 < made["alone"][1] and min(made["both"]) > 0
    good = good and made["head"][1] == 0 < made["head"][0] and made["off"][1] == 0 and made["no head"][0] == 0
    code, _, err = run("run", "--stats", "--ignore-eos", "--max-tokens", "120", "--draft-depth", "2", "--lookup", "on", prompt)
    rows = [r"^  head +\d+ drafted in \d+ rounds?, +[\d.]+ % accepted$", r"^  look-up +\d+ drafted in \d+ rounds?, +[\d.]+ % accepted$"]
    return good and code == 0 and all(re.search(row, err.decode(), re.M) for row in rows), (made, err)


def vocabulary():
    """--draft-vocabulary and --draft-head-bits: a smaller draft head, the same answers"""
    flags = ["--draft-depth", "3", "--draft-vocabulary", "200", "--draft-head-bits", "4"]
    got = run_json("run", "--json", *flags, *PICTURE)
    some, none = run_json("inspect", "--json", *flags[2:]), run_json("inspect", "--json")
    table = run("inspect", *flags[2:])[1].decode()
    good = got["ids"] == plain["ids"] and got["drafts"]["after_picture"]["rounds"] > 0 and got["drafts"]["outside"] > 0
    good = good and none["draft_vocabulary"] == none["draft_head_bits"] == none["memory"]["draft_head"] == 0
    good = good and 200 < some["draft_vocabulary"] < 300 and some["draft_head_bits"] == 4 and some["memory"]["draft_head"] > 0
    return good and re.search(r"^draft head +2\d\d of 1280 ids at 4 bits$", table, re.M) is not None, (got, some, table)


def rejection():
    """the rejection sampler drafts too; greedily it is the same answer"""
    got = run_json("run", "--json", "--draft-depth", "3", "--draft-sampler", "rejection", *PICTURE)
    sampled = run_json("run", "--json", "--draft-depth", "3", "--draft-sampler", "rejection", "--temperature", "0.5", "--seed", "1", *PICTURE)
    good = got["ids"] == plain["ids"] and got["drafts"]["sampler"] == "rejection"
    return good and sampled["drafts"]["after_picture"]["rounds"] > 0, (got, sampled)


def contract():
    """inspect shows the contract with the source of each field; a flag wins over a file"""
    config = json.load(open("models/tiny/config.json"))
    config["mtplx_mtp_contract"] = {"hidden_variant": "pre_norm", "mtp_position_mode": "absolute", "concat_order": "embedding_hidden"}
    model = checkpoint("contract", config=config, mtplx_runtime={"mtp_contract": {"mtp_position_mode": "cache"}})
    flags = ["--mtp-contract", "hidden_variant=mix:fc:prev:0.5", "--mtp-contract=mtp_quant_group_size=32"]
    got = {name: (field["value"], field["source"]) for name, field in run_json("inspect", "--json", *flags, model)["mtp_contract"].items()}
    want = {"base_hidden_variant": ("post_norm", "default"), "concat_order": ("embedding_hidden", "config.json"),
            "mtp_position_mode": ("cache", "mtplx_runtime.json"), "hidden_variant": ("mix:fc:prev:0.5", "command line"),
            "mtp_quant_group_size": ("32", "command line")}
    code, table, _ = run("inspect", *flags, model)
    row = re.search(rb"^ +hidden_variant +mix:fc:prev:0.5 +\(command line\)$", table, re.M)
    answer = run_json("run", "--json", "--draft-depth", "3", "--model", model, "--mtp-contract", "concat_order=hidden_embedding", *PICTURE)
    good = all(got[name] == value for name, value in want.items()) and code == 0 and row is not None
    # a head that is fed the wrong way is wrong more often, and nothing else
    return good and answer["ids"] == plain["ids"] and answer["drafts"]["passes"] > run_json(
        "run", "--json", "--draft-depth", "3", *PICTURE)["drafts"]["passes"], (got, table)


def bad_contract():
    """a contract that says what cannot be is refused, with what can"""
    bad = []
    for flag, text in (("concat_order=both", b"embedding_hidden or hidden_embedding"), ("hidden_variant=mix:fc:prev:2", b"share from 0 to 1"),
                       ("mtp_quant_bits=7", b"2, 3, 4, 5, 6 or 8"), ("mtp_position_mode=3", b"cache, local or absolute")):
        code, out, err = run("run", "--mtp-contract", flag, "x")
        if code != 1 or out or text not in err:
            bad.append((flag, code, out, err))
    return not bad, bad


def absent_head():
    """a declared head without weights: a warning; auto drafts by look-up alone, a depth is an error"""
    model = checkpoint("absent", without_head)
    code, table, _ = run("inspect", model)
    got = run_json("inspect", "--json", model)
    said = run("run", "--model", model, *PICTURE)
    depth = run("run", "--model", model, "--draft-depth", "2", *PICTURE)
    good = code == 0 and b"MTP head       1 layer declared, off: " in table and b"warning" in table and b"mtp.safetensors" in table
    good = good and got["mtp_declared"] and not got["mtp_attached"] and got["remarks"] and got["mtp_note"] and got["memory"]["draft"] > 0
    good = good and said == (0, plain["text"].encode() + b"\n", b"")
    return good and depth[0] == 1 and not depth[1] and b"no draft head" in depth[2], (table, got, said, depth)


def broken_heads():
    """half a head and a misshapen one are errors that name the tensor; --no-mtp opens the folder"""
    bad = []
    for name, change, text in (("half", half_a_head, b"mtp.norm.weight: missing"), ("misshapen", misshapen_head, b"mtp.fc.weight: expected [128,256]")):
        model = checkpoint(name, change)
        for args in (["inspect", model], ["run", "--model", model, "x"], ["verify", "--model", model]):
            code, out, err = run(*args)
            if code != 1 or (out and args[0] != "inspect") or text not in err:
                bad.append((name, args, code, out, err))
        if run("run", "--no-mtp", "--model", model, *PICTURE) != (0, plain["text"].encode() + b"\n", b""):
            bad.append((name, "run --no-mtp"))
        if run("inspect", "--no-mtp", model)[0] or run_json("inspect", "--no-mtp", "--json", model)["remarks"]:
            bad.append((name, "inspect --no-mtp"))
        if run("logits", "--model", model, "--out", path("l.safetensors"), "x")[0]:  # drafts nothing, so it needs no head
            bad.append((name, "logits"))
    return not bad, bad


def undeclared_head():
    """a head that the config does not declare is left alone, and inspect says so"""
    config = json.load(open("models/tiny/config.json"))
    del config["text_config"]["mtp_num_hidden_layers"]
    model = checkpoint("undeclared", config=config)
    _, table, _ = run("inspect", model)
    code, _, err = run("run", "--model", model, "--draft-depth", "1", "x")
    return b"MTP head       none declared" in table and b"does not declare" in table and code == 1 and b"declares no draft head" in err, (table, err)


def verified():
    """verify: a table of every depth and instruction set, exit code 0"""
    code, out, err = run("verify", "--max-tokens", "12", "--temperature", "0")
    text = out.decode()
    rows = [line.split() for line in text.split("\n\n")[1].splitlines()]
    sets = {row[0] for row in rows[1:]}
    good = code == 0 and not err and rows[0] == ["set", "threads", "chunk", "0", "1", "2", "3", "4", "5", "6", "7", "8", "auto", "look"]
    good = good and all(set(row[3:]) <= {"same", "first"} and len(row) == 14 for row in rows[1:]) and "ref" in sets
    questions = re.findall(r"^(text|picture) .*; answer of \d+, greedy$", text, re.M)
    return good and questions == ["text", "picture"] and "The promise holds: " in text and "% accepted" in text, text


def verify_given():
    """verify of a given prompt and picture, by one setting, as JSON"""
    flags = ["--isa", BEST, "--threads", "1", "--chunk", "9", "--max-tokens", "8", "--temperature", "0.7", "--seed", "4"]
    got = run_json("verify", "--json", *flags, *PICTURE)
    good = got["holds"] is True and got["drafts"] == "head" and got["settings"] == [{"isa": BEST, "threads": 1, "chunk": 9, "breaks": {}}]
    good = good and got["runs"] == 44 and 0 < got["accepted"] <= got["drafted"] and [a["seed"] for a in got["answers"]] == [0, 4, 5, 6]
    return good and got["answers"][0]["ids"] == plain["ids"][:8] and all(a["image_tokens"] == 25 and len(a["digest"]) == 64 for a in got["answers"]), got


def verify_broken():
    """verify says where the promise breaks, exit code 1"""
    flags = ["--draft-sampler", "rejection", "--isa", BEST, "--threads", "1", "--chunk", "16", "--max-tokens", "16", "--temperature", "1.5"]
    code, out, err = run("verify", *flags, "Tell a story about a fox.")
    coded, said, _ = run("verify", "--json", *flags, "Tell a story about a fox.")
    got = json.loads(said)
    breaks = got["settings"][0]["breaks"]
    found = re.search(r"BROKEN .*first at token (\d+), depth (\d|auto|look), " + BEST + r", threads 1, chunk 16, prompt, temperature 1.5, seed \d:\n"
                      r"depth 0 (said|went|ended) .*\d", out.decode())
    good = code == coded == 1 and not err and found and got["holds"] is False and "0" not in breaks and len(breaks) > 4
    first = min(b["token"] for b in breaks.values())
    return bool(good) and int(found.group(1)) == first and got["answers"][breaks[found.group(2)]["answer"]]["ids"][
        first] == breaks[found.group(2)]["expected"], (out, got)


def verify_without_head():
    """verify of a model without a head replays the answer as drafts"""
    code, out, err = run("verify", "--no-mtp", "--isa", BEST, "--threads", "2", "--chunk", "16", "--max-tokens", "12", "Hello!")
    got = re.search(rb"every fifth one wrong; no head: .*; ([\d.]+) % accepted", out)
    return code == 0 and not err and got is not None and 50 < float(got.group(1)) < 100, (out, err)


for function in (same_at_every_depth, passes, lookups, vocabulary, shown, whole_characters, colors, chat_drafts, stats, experiments, hidden, wrong_usage, rejection,
                 contract, bad_contract, absent_head, broken_heads, undeclared_head, verified, verify_given, verify_broken,
                 verify_without_head):
    case(function)
finish()
