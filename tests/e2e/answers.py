"""The command's answers, JSON and tensor files against the recorded reference answers; called by cli.sh. Standard library
only. Prints one "ok - NAME" or "not ok - NAME" a case."""
import json
import os
import struct
import sys
import tempfile

sys.dont_write_bytecode = True
from support import BUILD, case, finish, read_tensors, run, run_json, write_tensors  # noqa: E402

SAMPLES = "tests/samples/"
DATA = os.path.join(BUILD, "data")
TRACE = os.path.join(DATA, "traces", "s00.safetensors")


def ints(tensor):
    return list(struct.unpack("<%di" % (len(tensor[2]) // 4), tensor[2]))


def floats(data):
    return struct.unpack("<%df" % (len(data) // 4), data)


goldens = json.load(open(SAMPLES + "goldens.json"))
folder = tempfile.TemporaryDirectory()
path = lambda name: os.path.join(folder.name, name)
images = lambda sample: [part for name in sample["images"] for part in ("--image", SAMPLES + name)]

for sample in goldens:
    def answer():
        got = run_json("run", "--json", *images(sample), sample["question"])
        want = {"text": sample["output_text"], "ids": sample["output_ids"], "prompt_tokens": sample["n_prompt"],
                "images": len(sample["images"]), "image_tokens": sum(t * h * w // 4 for t, h, w in sample["grid_thw"]),
                "generated_tokens": len(sample["output_ids"]), "finish_reason": "stop"}
        return all(got[key] == value for key, value in want.items()), got
    answer.__doc__ = "answer of sample " + sample["id"]
    case(answer)


def schema():
    """--json has its members, of their kinds"""
    got = run_json("run", "--json", "Hello!")
    kinds = {"model": str, "text": str, "ids": list, "finish_reason": str, "prompt_tokens": int, "image_tokens": int, "images": int,
             "generated_tokens": int, "sampling": dict, "timings": dict, "state_bytes": int}
    timings = ["load", "image", "vision", "prefill", "decode", "sample", "total"]
    good = all(type(got[key]) is kind for key, kind in kinds.items())
    good = good and all(got["timings"][name + "_seconds"] >= 0 for name in timings) and got["timings"]["decode_tokens_per_second"] > 0
    return good and got["sampling"]["temperature"] == 0 and "reasoning_content" not in got, got


def limit():
    """--max-tokens ends with length"""
    got = run_json("run", "--json", "--max-tokens", "3", "Hello!")
    return len(got["ids"]) == 3 and got["finish_reason"] == "length", got


def stop():
    """--stop cuts the text and says so"""
    got = run_json("run", "--json", "--stop", "zzz", "--stop", " green", *images(goldens[0]), goldens[0]["question"])
    want = goldens[0]["output_text"].split(" green")[0]
    return got["text"] == want and got["finish_reason"] == "stop" and got["stop"] == " green", got


def end():
    """--ignore-eos goes on after an end token"""
    got = run_json("run", "--json", "--ignore-eos", "--max-tokens", "20", "Hello!")
    want = goldens[9]["output_ids"]
    return got["ids"][:len(want)] == want and len(got["ids"]) == 20 and got["finish_reason"] == "length", got


def bias():
    """--logit-bias forbids and forces"""
    first = goldens[9]["output_ids"][0]
    without = run_json("run", "--json", "--max-tokens", "1", "--logit-bias", "%d=-1000" % first, "Hello!")
    forced = run_json("run", "--json", "--max-tokens", "2", "--logit-bias=40=1000", "Hello!")
    return without["ids"] != [first] and forced["ids"] == [40, 40], (without, forced)


def seed():
    """a seed repeats an answer; without one they differ"""
    args = ["run", "--json", "--temperature", "3", "--max-tokens", "20", "Tell a story about a fox."]
    one = run_json(*args)
    again = run_json(*args, "--seed", str(one["sampling"]["seed"]))
    others = {tuple(run_json(*args)["ids"]) for _ in range(3)}
    large = run_json(*args, "--seed=18446744073709551615")
    good = again["ids"] == one["ids"] and len(others) > 1 and large["sampling"]["seed"] == 2**64 - 1
    return good, (one, again, others)


def think():
    """reasoning and answer are told apart"""
    got = run_json("run", "--json", "--think", "--max-tokens", "40", "Hello!")
    plain = run_json("run", "--json", "--no-think", "Hello!")
    good = "reasoning_content" in got and "content" in got and plain["ids"] == goldens[9]["output_ids"]
    inside, _, after = got["text"].partition("</think>")
    return good and got["reasoning_content"] == inside.strip() and got["content"] == after.strip(), got


def system():
    """--system is part of the prompt"""
    code, prompt, _ = run("render", "--messages", "-", stdin=b'[{"role":"system","content":"Be \xc3\xa9."},{"role":"user","content":"a"}]')
    with_system = run_json("run", "--json", "--max-tokens", "1", "--system", "Be \u00e9.", "a")
    without = run_json("run", "--json", "--max-tokens", "1", "a")
    return code == 0 and "Be \u00e9.".encode() in prompt and with_system["prompt_tokens"] > without["prompt_tokens"], prompt


def rendered():
    """render gives the recorded prompts, tokenize their ids"""
    bad = []
    for sample in goldens:
        content = [{"type": "image"} for _ in sample["images"]] + [{"type": "text", "text": sample["question"]}]
        messages = json.dumps([{"role": "user", "content": content}]).encode()
        code, text, err = run("render", "--messages", "-", "--generation-prompt", "--option", "enable_thinking=false", stdin=messages)
        want = sample["prompt"]
        while "<|image_pad|><|image_pad|>" in want:
            want = want.replace("<|image_pad|><|image_pad|>", "<|image_pad|>")
        if code or text.decode() != want:
            bad.append((sample["id"], text, err))
        got = run_json("tokenize", "--json", stdin=sample["prompt"].encode())
        if got["ids"] != sample["prompt_ids"] or "".join(got["pieces"]) != sample["prompt"]:
            bad.append((sample["id"], got))
    return not bad, bad


def templates():
    """render a published template with tools and options"""
    base = os.path.join(DATA, "real")
    inputs = json.load(open(find(base, "template_inputs.json")))
    lines = [json.loads(line) for line in open(find(base, "template_cases.jsonl"))]
    dated = {line["template"] for line in lines if "strftime_now" in open(find(base, line["template"] + ".jinja")).read()}
    lines = [line for line in lines if line["template"] not in dated]  # the cases were made on another day
    bad, tried = [], 0
    for line in lines[::97]:
        options = dict(inputs["options"][line["options"]])
        args = ["render", "--template", find(base, line["template"] + ".jinja"), "--messages", "-"]
        tools = options.pop("tools", None)
        if tools is not None:
            json.dump(tools, open(path("tools.json"), "w"))
            args += ["--tools", path("tools.json")]
        if options.pop("add_generation_prompt", False):
            args.append("--generation-prompt")
        for name in ("bos_token", "eos_token", "pad_token"):
            options[name] = inputs[name]
        for name, value in options.items():
            args += ["--option", name + "=" + json.dumps(value)]
        code, text, err = run(*args, stdin=json.dumps(inputs["conversations"][line["conversation"]]).encode())
        tried += 1
        if (code == 0) != ("text" in line) or ("text" in line and text.decode() != line["text"]):
            bad.append((line, text, err))
    return tried > 5 and not bad, bad[:1]


def find(base, name):
    for at, _, names in os.walk(base):
        if name in names:
            return os.path.join(at, name)
    raise FileNotFoundError(name)


def trace():
    """logits writes every tensor, near the recorded ones"""
    sample, recorded = goldens[0], read_tensors(TRACE)
    code, _, err = run("logits", "--out", path("trace.safetensors"), *images(sample), sample["question"])
    assert code == 0, err
    got = read_tensors(path("trace.safetensors"))
    s, hidden, vocab = sample["n_prompt"], 128, 1280
    shapes = {"input_ids": ("I32", [s]), "position_ids": ("I32", [3, s]), "rope_delta": ("I32", [1]), "inputs_embeds": ("F32", [s, hidden]),
              "final_norm": ("F32", [s, hidden]), "logits": ("F32", [s, vocab])}
    good = {name: got[name][:2] for name in got} == shapes
    good = good and ints(got["input_ids"]) == sample["prompt_ids"] and ints(got["rope_delta"]) == [sample["rope_delta"]]
    good = good and ints(got["position_ids"]) == sum(sample["positions_prompt"], [])
    good = good and near(got["inputs_embeds"][2], recorded["embeds"][2])
    good = good and near(got["final_norm"][2], recorded["hidden_post_norm"][2][:s * hidden * 4])
    good = good and near(got["logits"][2][-vocab * 4:], recorded["logits"][2][:vocab * 4])
    return good, {name: got[name][:2] for name in got}


def near(mine, theirs):
    mine, theirs = floats(mine), floats(theirs)
    return len(mine) == len(theirs) and max(abs(a - b) for a, b in zip(mine, theirs)) <= 1e-3 * max(map(abs, theirs))


def same_trace(name, *args):
    code, _, err = run("logits", "--out", path(name), *args)
    assert code == 0, err
    return open(path(name), "rb").read() == open(path("trace.safetensors"), "rb").read()


def trace_ids():
    """logits of ids equal those of the prompt"""
    json.dump(goldens[0]["prompt_ids"], open(path("ids.json"), "w"))
    code, text, _ = run("tokenize", "--json", goldens[0]["prompt"].replace("<|image_pad|>" * 25, "<|image_pad|>"))
    open(path("one_pad.json"), "wb").write(text)
    return same_trace("a.safetensors", "--ids", path("ids.json"), *images(goldens[0])) and same_trace(
        "b.safetensors", "--ids", path("one_pad.json"), *images(goldens[0])) and same_trace(
            "c.safetensors", "--raw", *images(goldens[0]), goldens[0]["prompt"].replace("<|image_pad|>" * 25, "<|image_pad|>")), ""


def trace_pixels():
    """logits of prepared pixels are near those of the picture"""
    _, shape, pixels = read_tensors(TRACE)["pixel_values"]
    grid, want, files = goldens[0]["grid_thw"][0], read_tensors(path("trace.safetensors")), []
    for kind, letter in (("I32", "i"), ("I64", "q")):
        write_tensors(path("pixels.safetensors"), {"image_grid_thw": (kind, [1, 3], struct.pack("<3" + letter, *grid)),
                                                   "pixel_values": ("F32", shape, pixels)})
        code, _, err = run("logits", "--pixels", path("pixels.safetensors"), "--out", path(kind), goldens[0]["question"])
        assert code == 0, err
        files.append(read_tensors(path(kind)))
    same = all(files[0][name][2] == want[name][2] for name in ("input_ids", "position_ids", "rope_delta"))
    return files[0] == files[1] and same and near(files[0]["logits"][2], want["logits"][2]), ""


def bad_pixels():
    """pixels that do not fit their grids are refused"""
    def said(grid, rows, columns=1536):
        write_tensors(path("pixels.safetensors"), {"image_grid_thw": ("I64", [len(grid) // 3, 3], struct.pack("<%dq" % len(grid), *grid)),
                                                   "pixel_values": ("F32", [rows, columns], bytes(rows * columns * 4))})
        code, out, err = run("logits", "--pixels", path("pixels.safetensors"), "--out", path("none.safetensors"), "x")
        return code == 1 and not out and err.startswith(b"foresight: ") and not os.path.exists(path("none.safetensors"))
    tries = [said([1, 4, 4], 15), said([1, 4, 4], 17), said([1, 4, 4, 1, 2, 2], 16), said([1, 0, 4], 16), said([1, -4, -4], 16),
             said([2**62, 4, 4], 16), said([1, 4, 4], 16, 1535), said([1, 3, 5], 15)]
    return all(tries), tries


def inspected():
    """inspect --json says what the model is"""
    got = run_json("inspect", "--json", "models/tiny")
    small = run_json("inspect", "--json", "--context", "100", "models/tiny")
    memory = got["memory"]
    want = {"ok": True, "layers": 4, "full_attention_layers": 1, "linear_attention_layers": 3, "hidden_size": 128, "vocab_size": 1280,
            "context_length": 4096, "has_vision": True, "mtp_declared": True, "mtp_layers": 1, "tied_embeddings": True, "remarks": []}
    good = all(got[key] == value for key, value in want.items()) and got["mtp_tensors"] > 0
    parameters = got["text_parameters"] + got["vision_parameters"] + got["mtp_parameters"]
    good = good and parameters == 2536280 and got["weight_bytes"] == 2 * parameters
    good = good and got["experts"] == 0 and got["active_parameters"] == got["text_parameters"]
    good = good and memory["context"] == 4096 and small["memory"]["kv"] < memory["kv"]
    good = good and memory["draft"] > 0 and got["mtp_attached"] and got["mtp_contract"]["concat_order"]["source"] == "default"
    return good and memory["total"] == memory["kv"] + memory["recurrent"] + memory["scratch"] + memory["draft"], got


def not_inspected():
    """inspect --json of what is no model says why"""
    code, out, err = run("inspect", "--json", folder.name)
    got = json.loads(out)
    return code == 1 and got["ok"] is False and folder.name in got["error"], got


for function in (schema, limit, stop, end, bias, seed, think, system, rendered, templates, trace, trace_ids, trace_pixels, bad_pixels,
                 inspected, not_inspected):
    case(function)
finish()
