#!/usr/bin/env python3
"""Random checkpoints of every family, through the reference and through `foresight logits`.

    python try_random.py FORESIGHT FOLDER FIRST LAST [FAMILY,...]

For each seed from FIRST to LAST - 1: a configuration of a random family with random sizes, layer kinds, experts, rope and
tower, random weights in a random type and shards, a random prompt with pictures; then the greatest difference of the two programs' logits
over the greatest logit. Passed checkpoints are deleted, others stay as FOLDER/SEED. Exits with 1 if any differs by more than 1e-4.
A routed model may differ by much more where two experts' scores are closer than rounding: the least such gap is printed.
Needs torch and transformers 5.24 (whose grouped products refuse some expert sizes: those seeds are skipped).
"""
import json, os, random, shutil, subprocess, sys

import numpy as np
import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers.utils import logging

logging.set_verbosity_error()
logging.disable_progress_bar()
torch.set_num_threads(1)
torch.set_grad_enabled(False)

CLASSES = dict(qwen3_5="Qwen3_5ForConditionalGeneration", qwen3_5_moe="Qwen3_5MoeForConditionalGeneration",
               qwen3_vl="Qwen3VLForConditionalGeneration", qwen3_vl_moe="Qwen3VLMoeForConditionalGeneration",
               qwen3_5_text="Qwen3_5ForCausalLM", qwen3_5_moe_text="Qwen3_5MoeForCausalLM", qwen3="Qwen3ForCausalLM",
               qwen3_moe="Qwen3MoeForCausalLM", qwen3_next="Qwen3NextForCausalLM",
               qwen2_5_vl="Qwen2_5_VLForConditionalGeneration")
PICTURES = ("qwen3_5", "qwen3_5_moe", "qwen3_vl", "qwen3_vl_moe", "qwen2_5_vl")


def linear_family(family):
    return family.startswith("qwen3_5") or family == "qwen3_next"


def sections(r, half):
    """Three positive numbers with this sum, the first the largest."""
    a = r.randint(1, half - 2)
    b = r.randint(1, half - a - 1)
    return sorted([a, b, half - a - b], reverse=True)


def rope(r, family, head_dim, part):
    p = dict(rope_type="default", rope_theta=r.choice([10000.0, 1000000, 10000000]))
    if linear_family(family):
        p["partial_rotary_factor"] = part
    if family != "qwen3_next" and (linear_family(family) or family in PICTURES):
        p["mrope_section"] = sections(r, int(head_dim * part) // 2)
        if family != "qwen2_5_vl":
            p["mrope_interleaved"] = True
    if r.random() < 0.25:
        p.update(rope_type=r.choice(["linear", "yarn", "yarn"]), factor=r.choice([1.0, 1.5, 4.0, 8.0]))
        if p["rope_type"] == "yarn":
            p["original_max_position_embeddings"] = r.choice([32, 256, 1024])
            p.update(r.choice([{}, dict(beta_fast=64, beta_slow=2), dict(attention_factor=0.7), dict(truncate=False),
                               dict(mscale=0.7, mscale_all_dim=1.0)]))
    return p


def text_config(r, family):
    kv, head_dim, layers = r.choice([1, 2, 3]), r.choice([16, 32, 48, 64, 96, 128]), r.randint(1, 7)
    part = r.choice([0.5, 1.0] if head_dim < 32 else [0.25, 0.5, 1.0]) if linear_family(family) else 1.0
    vocab, heads = r.choice([400, 512, 777, 1000]), kv * r.choice([1, 2, 3, 4])
    t = dict(model_type=family, vocab_size=vocab, num_hidden_layers=layers, num_attention_heads=heads, num_key_value_heads=kv,
             hidden_size=r.choice([32, 48, 64, 80, 96, 100, 130, 160]), head_dim=head_dim, hidden_act="silu",
             max_position_embeddings=r.choice([512, 4096]), rms_norm_eps=r.choice([1e-6, 1e-5]), initializer_range=0.05,
             tie_word_embeddings=r.random() < 0.5, attention_bias=r.random() < 0.15, intermediate_size=r.choice([64, 100, 112, 200]),
             bos_token_id=None, eos_token_id=vocab - 16, pad_token_id=None, rope_parameters=rope(r, family, head_dim, part))
    if family == "qwen2_5_vl":
        t["hidden_size"] = heads * head_dim
        del t["head_dim"], t["attention_bias"]
    if linear_family(family):
        keys = r.choice([1, 2, 3])
        t.update(partial_rotary_factor=part, linear_num_key_heads=keys, linear_num_value_heads=keys * r.choice([1, 2, 3]),
                 linear_key_head_dim=r.choice([16, 32, 64]), linear_value_head_dim=r.choice([16, 32, 64]),
                 linear_conv_kernel_dim=r.choice([2, 3, 4, 4]),
                 layer_types=[r.choice(["linear_attention", "full_attention"]) for _ in range(layers)])
    if "moe" in family or family == "qwen3_next":
        experts = r.choice([2, 4, 6, 8, 16, 40])
        free = family in ("qwen3_moe", "qwen3_next")
        t.update(num_experts=experts, num_experts_per_tok=r.randint(1, min(experts, 8)), moe_intermediate_size=r.choice([32, 48, 72]),
                 norm_topk_prob=not free or r.random() < 0.6)
        if linear_family(family):
            t["shared_expert_intermediate_size"] = r.choice([32, 56, 80])
        if free or family == "qwen3_vl_moe":
            t.update(decoder_sparse_step=r.choice([1, 1, 2]),
                     mlp_only_layers=sorted(r.sample(range(layers), r.randint(0, layers))) if r.random() < 0.4 else [])
    return t


def vision_config(r, family, text):
    heads, depth = r.choice([1, 2, 3, 4]), r.randint(1, 4)
    v = dict(model_type=family, depth=depth, num_heads=heads, hidden_size=heads * r.choice([16, 24, 32, 40, 64, 72, 80]),
             intermediate_size=r.choice([48, 80, 100, 136]), in_channels=3, spatial_merge_size=2, temporal_patch_size=2,
             out_hidden_size=text["hidden_size"], initializer_range=0.05)
    if family == "qwen2_5_vl":
        v.update(hidden_act="silu", patch_size=14, window_size=r.choice([56, 112]), tokens_per_second=r.choice([2, 4]),
                 fullatt_block_indexes=sorted(r.sample(range(depth), r.randint(0, depth))))
    else:
        deep = min(depth, text["num_hidden_layers"], 3) if "vl" in family else 0
        v.update(hidden_act="gelu_pytorch_tanh", patch_size=r.choice([8, 14, 16, 16]), num_position_embeddings=r.choice([4, 6, 8, 12]) ** 2,
                 deepstack_visual_indexes=sorted(r.sample(range(depth), r.randint(0, deep))))
    return v


def config(r, family):
    text = text_config(r, family)
    if family not in PICTURES:
        return text, text, None
    vocab, vision = text["vocab_size"], vision_config(r, family, text)
    text["model_type"] = family + "_text"
    top = dict(text_config=text, vision_config=vision, tie_word_embeddings=text["tie_word_embeddings"], image_token_id=vocab - 4,
               video_token_id=vocab - 3, vision_start_token_id=vocab - 7, vision_end_token_id=vocab - 6)
    return top, text, vision


def weights(model, seed):
    g = torch.Generator().manual_seed(seed)
    for name, p in model.named_parameters():
        if p.ndim == 1:
            p.copy_((p if "norm" in name else 0) + torch.randn(p.shape, generator=g) * (0.15 if "norm" in name else 0.2))
        else:
            p.copy_(torch.randn(p.shape, generator=g) * (1.2 / np.sqrt(p.shape[-1])))


def prompt(r, vocab, vision, seed, folder):
    ids, inputs = [], {}
    grids = [[1, 2 * r.randint(1, 6), 2 * r.randint(1, 6)] for _ in range(r.randint(0, 3))] if vision else []
    for _, h, w in grids:
        ids += [r.randrange(vocab - 20) for _ in range(r.randint(0, 5))]
        ids += [vocab - 7] + [vocab - 4] * (h * w // 4) + [vocab - 6]
    ids += [r.randrange(vocab - 20) for _ in range(r.choice([1, 3, 17, 70]))]
    if grids:
        size = 3 * 2 * vision["patch_size"] ** 2
        pixels = torch.randn(sum(h * w for _, h, w in grids), size, generator=torch.Generator().manual_seed(seed)) * 0.8
        inputs = dict(pixel_values=pixels, image_grid_thw=torch.tensor(grids))
        save_file(inputs, folder + "/pixels.safetensors")
    return ids, inputs


def least_gap(model, gaps):
    def hook(gate, given, _):
        p = torch.nn.functional.linear(given[0].reshape(-1, given[0].shape[-1]), gate.weight).softmax(-1).sort(-1, descending=True).values
        if gate.top_k < p.shape[1]:
            gaps.append(float((p[:, gate.top_k - 1] - p[:, gate.top_k]).min()))
    for name, module in model.named_modules():
        if name.endswith("mlp.gate") and hasattr(module, "top_k"):
            module.register_forward_hook(hook)


def run(program, folder, seed, families):
    r = random.Random(seed)
    family = r.choice(families)
    c, text, vision = config(r, family)
    folder = os.path.join(folder, str(seed))
    shutil.rmtree(folder, ignore_errors=True)
    cls = getattr(transformers, CLASSES[family])
    cfg = cls.config_class(**{k: v for k, v in c.items() if k != "model_type"})
    cfg._attn_implementation = "eager"
    model = cls(cfg).eval()
    weights(model, seed)
    stored = r.choice([torch.float32, torch.bfloat16, torch.float16, torch.bfloat16])
    model.to(stored).save_pretrained(folder, max_shard_size=r.choice(["50KB", "400KB", "5GB"]))
    model = cls.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    if vision:
        with open(folder + "/preprocessor_config.json", "w") as f:
            json.dump(dict(patch_size=vision["patch_size"], temporal_patch_size=2, merge_size=2, min_pixels=1024, max_pixels=1 << 20,
                           image_mean=[0.5] * 3, image_std=[0.5] * 3), f)
    ids, inputs = prompt(r, text["vocab_size"], vision, seed, folder)
    with open(folder + "/ids.json", "w") as f:
        json.dump(ids, f)
    command = [program, "logits", "-m", folder, "--ids", folder + "/ids.json", "--out", folder + "/logits.safetensors"]
    command += ["--pixels", folder + "/pixels.safetensors"] if inputs else []
    x, gaps = torch.tensor([ids]), []
    if inputs:
        inputs["mm_token_type_ids"] = (x == text["vocab_size"] - 4).int()
    least_gap(model, gaps)
    expected = model(input_ids=x, attention_mask=torch.ones_like(x), use_cache=False, **inputs).logits[0].numpy()
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        return family, False, done.stderr.strip()
    got = load_file(folder + "/logits.safetensors")["logits"].numpy()
    difference = float(np.abs(got - expected).max() / np.abs(expected).max())
    if difference <= 1e-4:
        shutil.rmtree(folder)
    note = f", least gap of experts {min(gaps):.1e}" if gaps and difference > 1e-4 else ""
    return family, difference <= 1e-4, f"{difference:.1e} ({str(stored)[6:]}, {text['rope_parameters']['rope_type']} rope{note})"


def main():
    program, folder, first, last = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    families = sys.argv[5].split(",") if len(sys.argv) > 5 else list(CLASSES)
    bad = 0
    for seed in range(first, last):
        try:
            family, good, text = run(program, folder, seed, families)
        except RuntimeError as e:
            print(seed, "skipped:", e, flush=True)
            continue
        bad += not good
        print(seed, family, "equal" if good else "DIFFERS", text, flush=True)
    print(bad, "differ")
    sys.exit(bad > 0)


main()
