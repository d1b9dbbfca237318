"""Makes a quantised copy of models/tiny in MLX's layout, and what the reference implementation computes with it.

usage: make_quant_model.py TINY SAMPLES TRACES OUT     (models/tiny, tests/samples, the unpacked archive traces)

OUT/model: config.json and model.safetensors as mlx-lm and mlx-vlm write them, quantised and written by MLX itself: names language_model.model.* and
vision_tower.*, matrices as .weight (uint32), .scales, .biases with bits (2 to 6 and 8) and groups that differ between modules, norms that
hold the gain, convolutions with the channels last, the draft head under language_model.mtp.*.
OUT/NAME.safetensors: seq, pixel_values, embeds, hidden_post_norm and logits of the samples NAME by transformers in float32
with the weights that the quantised ones stand for. (Inputs in int8 are not imitated: a value next to the middle of two steps
goes either way with the last bit of what came before it, and a model that rounds so is 1 % away from itself when its
pixels change by a millionth.)
"""
import json, re, sys
from pathlib import Path

import mlx.core as mx
import numpy as np
import torch
from safetensors.numpy import load_file as load, save_file
from safetensors.torch import load_file
from transformers import Qwen3_5ForConditionalGeneration

f32 = np.float32
tiny, samples, traces, out = map(Path, sys.argv[1:])
(out / "model").mkdir(parents=True, exist_ok=True)


def form(name):
    """bits and group of a matrix of the checkpoint, None: it stays as it is"""
    if not name.endswith(".weight") or re.search(r"norm|conv1d|in_proj_[ab]\.|patch_embed|pos_embed", name): return None
    if "layers.1.mlp.up_proj" in name: return 3, 32
    if "layers.2.mlp.gate_proj" in name: return 2, 32
    for part, bits, group in (("mtp.fc", 6, 128), ("mtp.", 8, 32), ("linear_fc1", 6, 64), ("visual", 8, 64), ("embed_tokens", 8, 128),
                              ("down_proj", 8, 32), ("q_proj", 4, 32), ("in_proj_z", 4, 32), ("in_proj_qkv", 5, 64), ("k_proj", 5, 32),
                              ("v_proj", 6, 64), ("o_proj", 6, 32), ("out_proj", 5, 128)):
        if part in name: return bits, group
    return 4, 64


def quantise(w, bits, group):
    """MLX's three arrays, and what they stand for in float32: scale * q + bias rounded once"""
    q, scales, biases = mx.quantize(mx.array(w).astype(mx.bfloat16), group_size=group, bits=bits)
    stream = np.unpackbits(np.array(q).view(np.uint8).reshape(w.shape[0], -1), axis=1, bitorder="little")
    value = (stream.reshape(*w.shape, bits) * (1 << np.arange(bits))).sum(-1)
    wide = [np.array(a.astype(mx.float32)).astype(np.float64)[..., None] for a in (scales, biases)]
    exact = (value.reshape(w.shape[0], -1, group) * wide[0] + wide[1]).astype(f32).reshape(w.shape)
    close = np.array(mx.dequantize(q, scales, biases, group_size=group, bits=bits).astype(mx.float32))
    assert np.abs(exact - close).max() <= np.abs(exact).max() / 64
    return q, scales, biases, exact


def mlx_name(name):
    name = re.sub(r"^model\.language_model\.", "language_model.model.", name)
    name = re.sub(r"^model\.visual\.", "vision_tower.", name)
    return re.sub(r"^mtp\.", "language_model.mtp.", name)


weights = load_file(tiny / "model.safetensors")
model = Qwen3_5ForConditionalGeneration.from_pretrained(tiny, dtype=torch.float32).eval()
modules = dict(model.named_modules())
tensors, modes = {}, {}
for name, w in sorted(weights.items()):
    full, f = w.float().numpy(), form(name)
    mlx = mlx_name(name)
    if f:
        bits, group = f
        q, scales, biases, exact = quantise(full, bits, group)
        stem = mlx[: -len(".weight")]
        tensors |= {mlx: q, stem + ".scales": scales, stem + ".biases": biases}
        modes[stem] = {"group_size": group, "bits": bits, "mode": "affine"}
        path = name[: -len(".weight")]
        if path not in modules: continue  # the draft head
        modules[path].weight.data.copy_(torch.from_numpy(exact))  # the output head is the embedding
        continue
    if re.search(r"norm", name) and "linear_attn.norm" not in name and "visual" not in name:
        tensors[mlx] = mx.array(full + f32(1))  # exact in float32; 16 bits would round it
        continue
    if "conv1d" in name: full = np.moveaxis(full, 2, 1)
    if "patch_embed" in name and full.ndim == 5: full = np.moveaxis(full, 1, 4)
    kind = mx.bfloat16 if w.dtype == torch.bfloat16 else mx.float32
    tensors[mlx] = mx.array(np.ascontiguousarray(full)).astype(kind)
assert {m["bits"] for m in modes.values()} == {2, 3, 4, 5, 6, 8}
mx.save_safetensors(str(out / "model" / "model.safetensors"), tensors, {"format": "mlx"})
config = json.loads((tiny / "config.json").read_text())
config["quantization"] = config["quantization_config"] = {"group_size": 64, "bits": 4, "mode": "affine", **modes}
(out / "model" / "config.json").write_text(json.dumps(config, indent=2))

goldens = {s["id"]: s for s in json.loads((samples / "goldens.json").read_text())}
for name in ("s00", "s06"):
    trace = load(traces / f"{name}.safetensors")
    ids = torch.from_numpy(trace["seq"].astype(np.int64))[None]
    pixels, grid = torch.from_numpy(trace["pixel_values"]), torch.tensor(goldens[name]["grid_thw"])
    pad = config["image_token_id"]
    with torch.no_grad():
        model.model.rope_deltas = None
        emb = model.model.get_input_embeddings()(ids)
        seen = torch.cat(model.model.get_image_features(pixels, grid).pooler_output)
        emb = emb.masked_scatter((ids == pad)[..., None], seen)
        positions, _ = model.model.get_rope_index(ids, (ids == pad).int(), grid)
        hidden = model.model.language_model(inputs_embeds=emb, position_ids=positions).last_hidden_state
        logits = model.lm_head(hidden)
    save_file({"seq": trace["seq"], "pixel_values": trace["pixel_values"], "grid": np.array(goldens[name]["grid_thw"], np.int32),
               "embeds": emb[0].numpy(), "hidden_post_norm": hidden[0].numpy(), "logits": logits[0].numpy()}, out / f"{name}.safetensors")
    answer = trace["seq"][goldens[name]["n_prompt"]:]
    agree = (logits[0].argmax(-1).numpy()[goldens[name]["n_prompt"] - 1 : -1] == answer).mean()
    print(name, "largest logit", float(logits.abs().max()), "agrees with the 16-bit answer:", float(agree))
