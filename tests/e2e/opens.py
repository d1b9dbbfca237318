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


case(table)
finish()
