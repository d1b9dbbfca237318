"""Makes a quantised copy of models/tiny in MLX's layout, and what the reference implementation computes with it.

usage: make_quant_model.py TINY SAMPLES TRACES OUT     (models/tiny, tests/samples, the unpacked archive traces)

OUT/model: config.json and model.safetensors as mlx-lm and mlx-vlm write them: names language_model.model.* and
vision_tower.*, matrices as .weight (uint32), .scales, .biases with bits and groups that differ between modules, norms that
hold the gain, convolutions with the channels last, the draft head under language_model.mtp.*.
OUT/NAME.safetensors: seq, pixel_values, embeds, hidden_post_norm and logits of the samples NAME by transformers in float32
with the weights that the quantised ones stand for. (Inputs in int8 are not imitated: a value next to the middle of two steps
goes either way with the last bit of what came before it, and a model that rounds so is 1 % away from itself when its
pixels change by a millionth.)
"""
import json, re, struct, sys
from pathlib import Path

import numpy as np
import torch
from safetensors.numpy import load_file as load, save_file
from safetensors.torch import load_file
from transformers import Qwen3_5ForConditionalGeneration

from make_quant import bf16_bits, pack, quantise

f32 = np.float32
tiny, samples, traces, out = map(Path, sys.argv[1:])
(out / "model").mkdir(parents=True, exist_ok=True)


def form(name):
    """bits and group of a matrix of the checkpoint, None: it stays as it is"""
    if not name.endswith(".weight") or re.search(r"norm|conv1d|in_proj_[ab]\.|patch_embed|pos_embed", name): return None
    if name.startswith("mtp."): return 8, 32
    if "visual" in name: return 8, 64
    if "embed_tokens" in name: return 8, 128
    if "down_proj" in name: return 8, 32
    if "q_proj" in name or "in_proj_z" in name: return 4, 32
    return 4, 64


def mlx_name(name):
    name = re.sub(r"^model\.language_model\.", "language_model.model.", name)
    name = re.sub(r"^model\.visual\.", "vision_tower.", name)
    return re.sub(r"^mtp\.", "language_model.mtp.", name)


weights = load_file(tiny / "model.safetensors")
model = Qwen3_5ForConditionalGeneration.from_pretrained(tiny, dtype=torch.float32).eval()
modules = dict(model.named_modules())
tensors, modes = [], {}
for name, w in sorted(weights.items()):
    full, f = w.float().numpy(), form(name)
    mlx = mlx_name(name)
    if f:
        bits, group = f
        q, scales, biases, exact = quantise(full, bits, group, 0)
        stem = mlx[: -len(".weight")]
        tensors += [(mlx, "U32", pack(q, bits)), (stem + ".scales", "BF16", scales), (stem + ".biases", "BF16", biases)]
        modes[stem] = {"group_size": group, "bits": bits, "mode": "affine"}
        path = name[: -len(".weight")]
        if path not in modules: continue  # the draft head
        modules[path].weight.data.copy_(torch.from_numpy(exact))  # the output head is the embedding
        continue
    if re.search(r"norm", name) and "linear_attn.norm" not in name and "visual" not in name:
        full = full + f32(1)  # exact in float32; 16 bits would round it
        tensors.append((mlx, "F32", full.astype("<f4")))
        continue
    if "conv1d" in name: full = np.moveaxis(full, 2, 1)
    if "patch_embed" in name and full.ndim == 5: full = np.moveaxis(full, 1, 4)
    full = np.ascontiguousarray(full)
    if w.dtype == torch.bfloat16: tensors.append((mlx, "BF16", bf16_bits(full)))
    else: tensors.append((mlx, "F32", full.astype("<f4")))
assert len(modes) > 30

header, at = {"__metadata__": {"format": "mlx"}}, 0
for name, kind, data in tensors:
    header[name] = {"dtype": kind, "shape": list(data.shape), "data_offsets": [at, at + data.nbytes]}
    at += data.nbytes
text = json.dumps(header).encode()
text += b" " * (-len(text) % 8)
with open(out / "model" / "model.safetensors", "wb") as file:
    file.write(struct.pack("<Q", len(text)) + text)
    for _, _, data in tensors: file.write(data.tobytes())
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
