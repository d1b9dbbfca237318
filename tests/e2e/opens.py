"""The README's tables of what opens: a checkpoint of each kind and form is opened, computes something, and is what `inspect` says.
`python3 tests/e2e/opens.py --write` puts the tables right."""
import os
import sys
import tempfile

from support import BUILD, case, finish, run, run_json

scratch = tempfile.TemporaryDirectory()
seen = {}


def opened(path):
    """what inspect says of a checkpoint that opens and computes something"""
    if path not in seen:
        ids = os.path.join(scratch.name, "ids.json")
        with open(ids, "w") as f:
            f.write("[3, 5, 7, 9]")
        code, _, err = run("logits", "--model", path, "--ids", ids, "--out", os.path.join(scratch.name, "out.safetensors"))
        assert code == 0, (path, err)
        seen[path] = run_json("inspect", "--json", path)
    return seen[path]


FOLDERS = ["models/dense_untied_bf16", "moe/moe_bf16", "family/vl_dense_bf16", "family/vl_moe_bf16", "qwen2_5/tied_f32",
           "family/qwen3_5_text_bf16", "family/qwen3_5_moe_text_bf16", "family/qwen3_tied_f32", "family/qwen3_moe_bf16",
           "family/qwen3_next_bf16"]


def row(info):
    attention = "linear and full" if info["linear_attention_layers"] else "full"
    experts = "experts and a shared one" if info["shared_expert_intermediate_size"] else "experts"
    mlp = experts if info["experts"] else "dense"
    if info["experts"] and info["intermediate_size"]:
        mlp += ", or dense"
    return "| `%s` | %s | %s | %s | %s |" % (info["model_type"], "yes" if info["has_vision"] else "no", attention, mlp,
                                            "yes" if info["mtp_attached"] else "no")


def compare(head, rows):
    """whether the README has the table; with --write it gets it"""
    text = open("README.md", encoding="utf-8").read()
    head += "\n|" + "---|" * (head.count(" | ") + 1) + "\n"
    want = head + "\n".join(rows) + "\n\n"
    if "--write" in sys.argv and want not in text:
        begin = text.index(head)
        text = text[:begin] + want + text[text.index("\n\n", begin) + 2:]
        open("README.md", "w", encoding="utf-8").write(text)
    return want in text, "\n".join(rows)


def table():
    """the README's table of what opens"""
    rows = [row(opened(os.path.join(BUILD, "data", folder))) for folder in FOLDERS]
    return compare("| `model_type` | pictures | attention | MLP | draft head |", rows)


FORMS = [("fp8", "FP8 E4M3, scales for blocks (`fp8`)"), ("fp8_experts", "the same, numbered experts"),
         ("fp8_channel", "FP8 E4M3, a scale a row (`compressed-tensors`), shards"), ("fp8_head", "BF16, the draft head apart in FP8"),
         ("int4", "4 bits, symmetric (`compressed-tensors`), the draft head apart in BF16"),
         ("int4_zeros", "4 bits with zero points (`compressed-tensors`)"), ("int8", "8 bits, a scale a row (`compressed-tensors`)"),
         ("awq", "4 bits with zero points (`awq`)"), ("gptq", "4 bits, symmetric (`gptq`)"),
         ("gptq_order", "4 bits with zero points, columns out of order (`gptq_v2`, `desc_act`)"),
         ("../gguf/blocks", "GGUF, types of 32 numbers a block; the tower apart"),
         ("../gguf/super/model.gguf", "GGUF, types of 256 numbers a block")]


def form_row(folder, label):
    info = opened(os.path.join(BUILD, "data/forms", folder))
    kinds = sorted((k["form"], k["bits"], k["group"], k["memory_bits"]) for k in info["quantised"])
    assert kinds, folder
    files = ", ".join("%s, %d bits%s" % (k[0], k[1], " in groups of %d" % k[2] if k[2] else "") for k in kinds)
    memory = ", ".join("%d bits%s" % (b, " (floats)" if b > 8 else "") for b in sorted({k[3] for k in kinds}))
    head = {True: "yes", False: "no"}[info["mtp_attached"]]
    return "| %s | %s | %s | %s |" % (label, files, memory, head)


def forms():
    """the README's table of quantised forms"""
    return compare("| written as | `inspect` says | in memory | draft head |", [form_row(*f) for f in FORMS])


# Every kind of model in every form that a test opens, by the layout.
LAYOUTS = [("Hugging Face", FOLDERS + ["models/dense_tied_f32", "models/dense_sharded_bf16", "moe/moe_bf16_numbered", "qwen2_5/bf16"]),
           ("FP8, compressed-tensors, AWQ, GPTQ", ["forms/" + name for name, _ in FORMS if "gguf" not in name]),
           ("MLX", ["quantised/model"] + ["mlx/" + name for name in ("vl_float", "vl_mixed", "vl_moe_float", "vl_moe_mixed", "next_float", "next_mixed",
                                                                     "moe_mixed", "qwen2_5_float", "qwen3_moe_mixed", "text_mixed")]),
           ("GGUF", ["gguf/" + name for name in ("blocks", "apart", "parts", "moeblocks", "next/model.gguf", "q3/model.gguf", "q35/model.gguf",
                                                 "q35moe/model.gguf", "q3moe/model.gguf", "q25/model.gguf", "super/model.gguf",
                                                 "vl", "vlmoe/model.gguf")])]


# Text models of GGUF files whose towers are in other files.
WHOLE = {"qwen2_5_vl_text": "qwen2_5_vl", "qwen3_vl_text": "qwen3_vl", "qwen3_vl_moe_text": "qwen3_vl_moe"}


def written(info):
    """how the weights of the text model and of a draft head are written; small vectors of floats aside"""
    found = set()
    for part in info["parts"]:
        if part["name"] == "vision tower":
            continue
        most = max((f["parameters"] for f in part["forms"]), default=0)
        for form in part["forms"]:
            if form["bits"] >= 16 and form["parameters"] < most / 2 or " in another order" in form["form"]:
                continue
            found.add(form["bits"] if form["form"] == "MLX" else form["form"])
    return found


def cell(found):
    bits = sorted(f for f in found if isinstance(f, int))
    words = sorted(f for f in found if isinstance(f, str))
    if bits:
        words.append(", ".join(str(b) for b in bits[:-1]) + " and " * (len(bits) > 1) + "%d bits" % bits[-1])
    return ", ".join(words) or "\u2013"


def layouts():
    """the README's table of kinds of models by layout"""
    cells, types = {}, []
    for layout, folders in LAYOUTS:
        for folder in folders:
            info = opened(os.path.join(BUILD, "data", folder))
            cells.setdefault((WHOLE.get(info["model_type"], info["model_type"]), layout), set()).update(written(info))
    for i, folder in enumerate(FOLDERS):
        for bits in ("4", "8"):
            out = os.path.join(scratch.name, "%d_%s" % (i, bits))
            assert run("quantize", os.path.join(BUILD, "data", folder), out, "--bits", bits, "--group", "32")[0] == 0, folder
            info = opened(out)
            cells.setdefault((info["model_type"], "`quantize`"), set()).update(f for f in written(info) if isinstance(f, int))
        types.append(info["model_type"])
    stray = {kind for kind, _ in cells} - set(types)
    names = [layout for layout, _ in LAYOUTS] + ["`quantize`"]
    rows = ["| `%s` | %s |" % (kind, " | ".join(cell(cells.get((kind, name), ())) for name in names)) for kind in types]
    good, shown = compare("| `model_type` | " + " | ".join(names) + " |", rows)
    return good and not stray, (stray, shown)


case(table)
case(forms)
case(layouts)
finish()
