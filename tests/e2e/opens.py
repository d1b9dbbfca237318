"""The README's table of what opens is what `inspect` says of a checkpoint of each kind."""
import os

from support import BUILD, case, finish, run_json

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


def table():
    """the README's table of what opens"""
    rows = [row(run_json("inspect", "--json", os.path.join(BUILD, "data", folder))) for folder in FOLDERS]
    text = open("README.md", encoding="utf-8").read()
    head = "| `model_type` | pictures | attention | MLP | draft head |\n|---|---|---|---|---|\n"
    return head + "\n".join(rows) + "\n\n" in text, "\n".join(rows)


FORMS = [("fp8", "FP8 E4M3, scales for blocks (`fp8`)"), ("fp8_experts", "the same, numbered experts"),
         ("fp8_channel", "FP8 E4M3, a scale a row (`compressed-tensors`), shards"), ("fp8_head", "BF16, the draft head apart in FP8"),
         ("int4", "4 bits, symmetric (`compressed-tensors`), the draft head apart in BF16"),
         ("int4_zeros", "4 bits with zero points (`compressed-tensors`)"), ("int8", "8 bits, a scale a row (`compressed-tensors`)"),
         ("awq", "4 bits with zero points (`awq`)"), ("gptq", "4 bits, symmetric (`gptq`)"),
         ("gptq_order", "4 bits with zero points, columns out of order (`gptq_v2`, `desc_act`)"),
         ("../gguf/blocks", "GGUF, types of 32 numbers a block; the tower apart"),
         ("../gguf/super/model.gguf", "GGUF, types of 256 numbers a block")]


def form_row(folder, label):
    info = run_json("inspect", "--json", os.path.join(BUILD, "data/forms", folder))
    kinds = sorted((k["form"], k["bits"], k["group"], k["memory_bits"]) for k in info["quantised"])
    assert kinds, folder
    files = ", ".join("%s, %d bits%s" % (k[0], k[1], " in groups of %d" % k[2] if k[2] else "") for k in kinds)
    memory = ", ".join("%d bits%s" % (b, " (floats)" if b > 8 else "") for b in sorted({k[3] for k in kinds}))
    head = {True: "yes", False: "no"}[info["mtp_attached"]]
    return "| %s | %s | %s | %s |" % (label, files, memory, head)


def forms():
    """the README's table of quantised forms"""
    rows = [form_row(*f) for f in FORMS]
    text = open("README.md", encoding="utf-8").read()
    head = "| written as | `inspect` says | in memory | draft head |\n|---|---|---|---|\n"
    return head + "\n".join(rows) + "\n\n" in text, "\n".join(rows)


case(table)
case(forms)
finish()
