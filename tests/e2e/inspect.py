"""inspect --json has the members that the manual lists, for every form and for what would not open; what is missing is named with what
would do; forge check passes every sound checkpoint and names what is wrong with others."""
import json
import os
import re
import shutil
import struct
import tempfile

from support import BUILD, case, finish, read_tensors, run, run_json, write_tensors

DATA = os.path.join(BUILD, "data")
folder = tempfile.TemporaryDirectory()

# ---- every form ---------------------------------------------------------------------------------------------------------------

HF = ["models/dense_untied_bf16", "models/dense_sharded_bf16", "models/dense_tied_f32", "moe/moe_bf16", "moe/moe_bf16_numbered", "family/vl_dense_bf16",
      "family/vl_moe_bf16", "family/qwen3_5_text_bf16", "family/qwen3_5_moe_text_bf16", "family/qwen3_tied_f32", "family/qwen3_moe_bf16",
      "family/qwen3_next_bf16", "qwen2_5/bf16", "qwen2_5/tied_f32"]
FORMS = ["forms/" + name for name in ("fp8", "fp8_experts", "fp8_channel", "fp8_head", "int4", "int4_zeros", "int8", "awq", "gptq", "gptq_order")]
MLX = ["quantised/model"] + ["mlx/" + name for name in ("vl_float", "vl_moe_float", "next_float", "vl_mixed", "vl_moe_mixed", "next_mixed", "moe_mixed", "qwen2_5_float", "qwen3_moe_mixed", "text_mixed")]
GGUF = ["gguf/" + name for name in ("apart", "blocks", "moeblocks", "next/model.gguf", "parts", "parts/model-00001-of-00003.gguf", "q3/model.gguf",
                                    "q35/model.gguf", "q35moe/model.gguf", "q3moe/model.gguf", "super/model.gguf", "vl/model.gguf", "vlmoe/model.gguf")]
ALL = ["models/tiny"] + [os.path.join(DATA, name) for name in HF + FORMS + MLX + GGUF]


def manual():
    """path -> (type, optional) of the manual's list"""
    text = open("docs/foresight.1", encoding="utf-8").read()
    part = text[text.index(".Ss foresight inspect"):text.index(".Ss foresight verify")]
    found = re.findall(r"^\.It Li (\S+) Pq (.+)$", part, re.M)
    assert len(found) > 100
    return {name: (kind.split(",")[0], "optional" in kind) for name, kind in found}


KINDS = {"integer": lambda v: isinstance(v, int) and not isinstance(v, bool) and v >= 0, "number": lambda v: isinstance(v, (int, float)) and not isinstance(v, bool),
         "boolean": lambda v: isinstance(v, bool), "string": lambda v: isinstance(v, str), "list": lambda v: isinstance(v, list),
         "list of strings": lambda v: isinstance(v, list) and all(isinstance(i, str) for i in v)}


def flatten(value, path, out):
    if isinstance(value, dict):
        for key, member in value.items():
            if path == "mtp_contract":
                key = "FIELD"
            flatten(member, path + "." + key if path else key, out)
    elif isinstance(value, list):
        out.setdefault(path + "[]", []).append(value)
        for item in value:
            if not isinstance(item, str):
                flatten(item, path + "[]", out)
    else:
        out.setdefault(path, []).append(value)


def violations(got):
    want, have, bad = manual(), {}, []
    flatten(got, "", have)
    for path, values in have.items():
        if path not in want:
            bad.append(path + ": not in the manual")
        elif not all(KINDS[want[path][0]](v) for v in values):
            bad.append(path + ": not " + want[path][0])
    for path, (_, optional) in want.items():
        inside = [p for p in want if path.startswith(p + ".") and p.endswith("[]")]
        if path not in have and not optional and not any(p in have and not any(have[p]) for p in inside):
            bad.append(path + ": missing")
    return bad


def consistent(got):
    """what the parts and the memory say of each other"""
    parts = {p["name"]: p for p in got["parts"]}
    memory, head = got["memory"], parts.get("draft head", {"parameters": 0})
    text = sum(p["parameters"] for name, p in parts.items() if name in ("embedding", "trunk", "experts", "output head"))
    tower = parts.get("vision tower", {"parameters": 0})["parameters"]
    bad = []
    if (text, tower) != (got["text_parameters"], got["vision_parameters"]) or (got["mtp_attached"] and head["parameters"] != got["mtp_parameters"]):
        bad.append(("parameters", text, tower, head))
    if sum(p["file_bytes"] for p in parts.values()) != got["weight_bytes"] or sum(p["tensors"] for p in parts.values()) != got["tensor_count"]:
        bad.append("bytes or tensors")
    for p in parts.values():
        if sum(f["parameters"] for f in p["forms"]) != p["parameters"]:
            bad.append(("forms", p))
    if sum(p["mapped_bytes"] for p in parts.values()) != memory["mapped"] or memory["mapped"] > got["weight_bytes"]:
        bad.append("mapped")
    if memory["contexts"][0] != {key: memory[key] for key in memory["contexts"][0]}:
        bad.append("contexts")
    if got["has_vision"] != ("vision tower" in parts) or bool(got["experts"]) != ("experts" in parts):
        bad.append("kinds of parts")
    if got["experts"] and not 0 < memory["token_experts"] < parts["experts"]["mapped_bytes"] + parts["experts"]["memory_bytes"]:
        bad.append("experts of a token")
    return bad


def every_form():
    """inspect --json has what the manual lists, for every form"""
    bad = []
    for model in ALL:
        got = run_json("inspect", "--json", "--context", "512", model)
        wrong = violations(got) + consistent(got)
        if not got["ok"] or got["problems"] or wrong:
            bad.append((model, got.get("error"), wrong))
        table = run("inspect", model)
        if table[0] or b"(null)" in table[1] or b"PROBLEMS" in table[1]:
            bad.append((model, table))
    return not bad, bad


def sources():
    """the norms of a GGUF file are told by the format's rule, those of others by what tells them"""
    def reading(model, name):
        return [r for r in run_json("inspect", "--json", model)["readings"] if r["name"] == name][0]
    gguf = reading(os.path.join(DATA, "gguf/blocks"), "norms"), reading(os.path.join(DATA, "gguf/blocks"), "draft norms")
    good = all(r["value"] == "the gain itself" and "rule of GGUF" in r["source"] for r in gguf)
    layers = reading(os.path.join(DATA, "gguf/blocks"), "draft layers")
    tiny, mlx = reading("models/tiny", "norms"), reading(os.path.join(DATA, "mlx/moe_mixed"), "norms")
    good = good and layers["source"] == "nextn_predict_layers" and tiny["value"] == "gain - 1" and "axes" in tiny["source"]
    return good and mlx["value"] == "the gain itself" and "MLX" in mlx["source"], (gguf, layers, tiny, mlx)


def head_apart():
    """a draft head in a file of its own has its own forms"""
    got = run_json("inspect", "--json", os.path.join(DATA, "mlx/moe_mixed"))
    head = [p for p in got["parts"] if p["name"] == "draft head"][0]
    forms = {(f["form"], f["bits"], f["group"]) for f in head["forms"]}
    return {("MLX", 6, 64), ("MLX", 4, 32), ("MLX", 8, 64), ("MLX", 5, 64)} <= forms and "mtp/weights.safetensors" in got["mtp_source"], head


def wide_scales():
    """MLX's form with scales and biases of 32 bits is told as it is"""
    model = copy("wide", os.path.join(DATA, "mlx/vl_mixed"))
    tensors = read_tensors(model + "/model.safetensors")
    for end in (".scales", ".biases"):
        name = "language_model.model.layers.1.mlp.gate_proj" + end
        dtype, shape, data = tensors[name]
        assert dtype == "BF16"
        tensors[name] = "F32", shape, b"".join(b"\0\0" + data[i:i + 2] for i in range(0, len(data), 2))
    write_tensors(model + "/model.safetensors", tensors)
    got, before = run_json("inspect", "--json", model), run_json("inspect", "--json", os.path.join(DATA, "mlx/vl_mixed"))
    bad = violations(got) + consistent(got)
    good = got["ok"] and not bad and got["text_parameters"] == before["text_parameters"] and got["weight_bytes"] > before["weight_bytes"]
    return good and run("forge", "check", model)[1].count(b"PROBLEM") == 1, (got, bad)  # the tokenizer, which there is none of


# ---- incomplete ones ----------------------------------------------------------------------------------------------------------

def copy(name, source="models/tiny", drop=None, without=(), config=None):
    path = os.path.join(folder.name, name)
    shutil.copytree(source, path)
    if drop:
        tensors = read_tensors(path + "/model.safetensors")
        write_tensors(path + "/model.safetensors", {n: t for n, t in tensors.items() if not drop(n)})
    for file in without:
        os.remove(os.path.join(path, file))
    if config:
        settings = json.load(open(path + "/config.json"))
        settings.update(config)
        json.dump(settings, open(path + "/config.json", "w"))
    return path


def looked_at(model, *flags):
    code, out, err = run("inspect", "--json", *flags, model)
    got = json.loads(out)
    return code, got, violations(got), run("inspect", *flags, model)


def wrong(model, topic, missing, advice, *flags, layers=4):
    """'' when inspect says that much of a model that does not open, and that it does not"""
    code, got, bad, table = looked_at(model, *flags)
    found = [p for p in got["problems"] if p["topic"] == topic]
    good = code == 1 and not got["ok"] and got["error"] and not bad and got["layers"] == layers and found
    good = good and set(missing) <= set(found[0]["missing"]) and advice in found[0]["advice"]
    good = good and table[0] == 1 and b"it would not open" in table[2] and b"PROBLEMS" in table[1] and advice.encode() in table[1]
    good = good and run("run", "--model", model, "--raw", *flags, "x")[0] == 1
    return "" if good else (model, code, got.get("error"), got.get("problems"), bad, table)


def incomplete():
    """a missing shard, tensor, head's file or setting is named with what would do, and the rest is told"""
    shards = copy("shards", os.path.join(DATA, "models/dense_sharded_bf16"))
    file = [f for f in sorted(os.listdir(shards)) if "00002-of" in f][0]
    os.remove(os.path.join(shards, file))
    parts = copy("parts", os.path.join(DATA, "gguf/parts"), without=["model-00002-of-00003.gguf"])
    numbered = copy("numbered", shards, without=["model.safetensors.index.json"])
    cut = copy("cut")
    os.truncate(cut + "/model.safetensors", 100000)
    tokenizer = copy("tokenizer")
    open(tokenizer + "/tokenizer.json", "w").write("{")
    pictures = copy("pictures")
    open(pictures + "/preprocessor_config.json", "w").write("[]")
    odd = copy("odd", config={"architectures": ["LlamaForCausalLM"], "model_type": "llama"})
    moe = copy("moe", os.path.join(DATA, "family/qwen3_next_bf16"), drop=lambda n: "layers.0.mlp.experts.3." in n)
    results = [
        wrong(shards, "files", [file], "fetch " + file),
        wrong(shards, "tensors", [], "files above"),
        wrong(numbered, "files", [file], "fetch " + file),
        wrong(parts, "files", ["model-00002-of-00003.gguf"], "fetch model-00002-of-00003.gguf", layers=2),
        wrong(copy("tensor", drop=lambda n: n.endswith("layers.2.mlp.up_proj.weight")), "tensors", ["model.language_model.layers.2.mlp.up_proj.weight"],
              "fetch it again"),
        wrong(copy("embedding", drop=lambda n: "embed_tokens" in n), "tensors", ["model.language_model.embed_tokens.weight"], "fetch it again"),
        wrong(moe, "tensors", ["model.layers.0.mlp.experts.3.%s_proj.weight" % p for p in ("gate", "up", "down")], "fetch it again"),
        wrong(copy("tower", drop=lambda n: "visual.blocks.1.attn" in n), "tensors", ["model.visual.blocks.1.attn.qkv.weight"], "forge graft --from SOURCE"),
        wrong(copy("half", drop=lambda n: n == "mtp.norm.weight"), "tensors", ["mtp.norm.weight"], "forge mtp attach"),
        wrong(copy("named", config={"mlx_lm_extra_tensors": {"mtp_file": "mtp/weights.safetensors"}}), "draft head", [], "forge mtp attach"),
        wrong(cut, "files", [], "fetch it again"),
        wrong(tokenizer, "tokenizer", [], "tokenizer.json"),
        wrong(pictures, "pictures", [], "preprocessor_config.json"),
        wrong(odd, "config", [], "supported", layers=0),
        wrong(copy("bare", without=["config.json"]), "config", [], "config.json", layers=0),
    ]
    return not any(results), [r for r in results if r]


def whole_without():
    """what opens and works less says so, with what would do, and is no problem"""
    bad = []
    for name, keywords, remark, advice in (
            ("dropped", dict(drop=lambda n: "visual" in n), "vision tower", "forge graft"), ("headless", dict(drop=lambda n: n.startswith("mtp.")), "MTP head", "forge mtp attach"),
            ("wordless", dict(without=["tokenizer.json"]), "no tokenizer.json", "pull"), ("plain", dict(without=["preprocessor_config.json"]), "preprocessor", "pull")):
        model = copy("whole_" + name, **keywords)
        code, got, broken, _ = looked_at(model)
        if code or not got["ok"] or broken or not any(remark in r and advice in r for r in got["remarks"]):
            bad.append((name, code, got["problems"], got["remarks"], broken))
    tiny = copy("untemplated", without=["chat_template.jinja"]) if os.path.exists("models/tiny/chat_template.jinja") else None
    if tiny and not any("no chat template" in r for r in looked_at(tiny)[1]["remarks"]):
        bad.append(tiny)
    text = looked_at(os.path.join(DATA, "gguf/q35/model.gguf"))[1]
    if text["has_vision"] or not any("mmproj" in r for r in text["remarks"]):
        bad.append(text["remarks"])
    return not bad, bad


def pulled():
    """a snapshot of the hub's cache is completed by a command that names it"""
    hub = os.path.join(folder.name, "models--own--er-4bit", "snapshots", "0" * 40)
    os.makedirs(os.path.dirname(hub))
    shutil.copytree(os.path.join(DATA, "models/dense_sharded_bf16"), hub)
    file = [f for f in sorted(os.listdir(hub)) if "00003-of" in f][0]
    os.remove(os.path.join(hub, file))
    problem = looked_at(hub)[1]["problems"][0]
    return problem["advice"].startswith("foresight pull own/er-4bit fetches " + file), problem


# ---- forge check --------------------------------------------------------------------------------------------------------------

def checked(model, *flags):
    code, out, err = run("forge", "check", "--json", "--threads", "1", *flags, model)
    return code, json.loads(out) if out else err


def check_every_form():
    """forge check reads every form; random checkpoints lack a tokenizer at most, and templates may know no pictures"""
    bad = []
    for model in ALL:
        code, got = checked(model)
        problems = [f for f in got["findings"] if f["level"] == "problem"]
        other = [f for f in problems if not ("no tokenizer" in f["text"] or "template may not know pictures" in f["text"])]
        topics = {f["topic"] for f in got["findings"]}
        if other or code != (1 if problems else 0) or got["sound"] == bool(problems):
            bad.append((model, code, problems))
        if not {"config", "files", "tensors", "model", "norms", "vision", "draft head", "tokenizer", "answer"} <= topics:
            bad.append((model, topics))
        if not got["tensors"] or any(t["nan"] or t["infinite"] for t in got["tensors"]):
            bad.append((model, "tensors"))
    return not bad, bad


def patch(path, tensor, change):
    tensors = read_tensors(path)
    dtype, shape, data = tensors[tensor]
    tensors[tensor] = dtype, shape, change(bytes(data))
    write_tensors(path, tensors)


def check_scales():
    """a scale that is no number, or a matrix of zeros, is found in every form"""
    bad = []
    nan16, nan32 = struct.pack("<H", 0x7fc0), struct.pack("<f", float("nan"))
    half = struct.pack("<H", 0x7c00)
    for name, source, tensor, change, text in (
            ("mlx", "mlx/vl_mixed", "language_model.model.layers.1.mlp.gate_proj.scales", lambda d: nan16 + d[2:], "1 numbers are NaN"),
            ("fp8", "forms/fp8", "model.layers.0.mlp.up_proj.weight_scale_inv", lambda d: nan32 + d[4:], "1 numbers are NaN"),
            ("fp8_weight", "forms/fp8", "model.layers.0.mlp.up_proj.weight", lambda d: b"\x7f" + d[1:], "1 numbers are NaN"),
            ("int4", "forms/int4", "model.layers.0.mlp.up_proj.weight_scale", lambda d: nan16 + d[2:], "1 numbers are NaN"),
            ("gptq", "forms/gptq", "model.layers.0.mlp.up_proj.scales", lambda d: half + d[2:], "1 infinite"),
            ("awq", "forms/awq", "model.layers.0.mlp.up_proj.qweight", lambda d: bytes(len(d)), "all of it is 0")):
        model = copy("scales_" + name, os.path.join(DATA, source))
        patch(model + "/model.safetensors", tensor, change)
        code, got = checked(model)
        if code != 1 or not any(f["topic"] == "tensors" and tensor in f["text"] and text in f["text"] for f in got["findings"]):
            bad.append((name, code, [f for f in got["findings"] if f["level"] != "fine"]))
    return not bad, bad


def check_gguf_scales():
    """a scale that is not finite in a block of GGUF is found"""
    bad = []
    for source in ("gguf/moeblocks/model.gguf", "gguf/super/model.gguf"):
        path = os.path.join(folder.name, source.replace("/", "_"))
        data = bytearray(open(os.path.join(DATA, source), "rb").read())
        data[-2000:] = b"\xff" * 2000  # in some tensor's blocks: scales that are no numbers
        open(path, "wb").write(data)
        code, got = checked(path)
        found = [t for t in got["tensors"] if t["nan"] + t["infinite"]]
        if code != 1 or not found or not any(f["topic"] == "tensors" and "NaN" in f["text"] for f in got["findings"]):
            bad.append((source, code, found, got["findings"]))
    return not bad, bad


def check_incomplete():
    """forge check tells of every missing file and tensor"""
    code, got = checked(os.path.join(folder.name, "shards"))
    texts = [(f["topic"], f["text"]) for f in got["findings"] if f["level"] == "problem"]
    good = code == 1 and any(t == "files" and "00002-of" in x for t, x in texts) and any("in all, 30 tensors are missing" in x for _, x in texts) and any(t == "model" for t, _ in texts)
    code, gguf = checked(os.path.join(folder.name, "parts"))
    more = [(f["topic"], f["text"]) for f in gguf["findings"] if f["level"] == "problem"]
    return good and code == 1 and any(t == "files" and "00002-of-00003.gguf" in x for t, x in more), (texts, more)


for function in (every_form, sources, head_apart, wide_scales, incomplete, whole_without, pulled, check_every_form, check_scales, check_gguf_scales, check_incomplete):
    case(function)
finish()
