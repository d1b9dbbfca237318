#!/usr/bin/env python3
"""Small checkpoints in MLX's layout, of the kinds that make_quant_model.py leaves out: Qwen3-VL, Qwen3-VL-MoE, Qwen2.5-VL, Qwen3-MoE, Qwen3-Next,
Qwen3.5-MoE and the text class of Qwen3.5.

    python make_mlx.py FOLDER FAMILY MOE QWEN2_5      (the unpacked archives family, moe and qwen2_5)

FOLDER/NAME_float: the checkpoint NAME of these archives under other names and in other shapes, the numbers as they are, so that the
archives' goldens hold. FOLDER/NAME_mixed: like it with other sizes and weights, quantised and written by MLX itself with bits (2 to 6
and 8) and groups that differ between modules, routers and stacked experts among them; golden.safetensors has a prompt and what
transformers in float32 (eager attention) makes of it with the weights that the quantised ones stand for, and digest.MODULE, BLAKE2b of
these in float32. moe_mixed and text_mixed have their draft heads in mtp/weights.safetensors, in bits of its own that config.json says apart.

Names, axes and norms are those that mlx-lm (qwen3_next, qwen3_5_moe, qwen3_vl_moe) and mlx-vlm (qwen3_vl) give when they convert:
  model.language_model.* is language_model.model.*, model.visual.* is vision_tower.*, lm_head is language_model.lm_head (where the text
  model is all there is, names stay, in Qwen3.5 behind language_model.); experts become mlp.switch_mlp.{gate,up,down}_proj.weight [E,N,K]; zero-centred norms hold 1 + w; the
  convolution is [channels,kernel,1], that over patches [out,t,h,w,in]
"""
import hashlib, json, random, re, shutil, sys, tempfile
from pathlib import Path

import mlx.core as mx
import numpy as np
import torch
import transformers
from safetensors.torch import load_file, save_file

OUT, FAMILY, MOE, QWEN2_5 = map(Path, sys.argv[1:5])
import make_goldens as g  # reads FOLDER from the command line too

f32 = np.float32


def mlx_name(name, cfg):
    if "text_config" not in cfg: return "language_model." + name if cfg["model_type"].startswith("qwen3_5") and not name.startswith("mtp.") else name
    name = re.sub(r"^model\.language_model\.", "language_model.model.", name)
    name = re.sub(r"^model\.visual\.", "vision_tower.", name)
    return re.sub(r"^lm_head\.", "language_model.lm_head.", name)


def stacked(sd, turned):
    """every expert tensor as switch_mlp's three, [E,N,K] each"""
    out, one = {}, {}
    for name, w in sd.items():
        m = re.fullmatch(r"(.*\.mlp\.)experts\.(?:(\d+)\.)?(gate_up|gate|up|down)_proj(?:\.weight)?", name)
        if not m:
            out[name] = w
            continue
        base, number, part = m[1] + "switch_mlp.", m[2], m[3]
        if number is not None:
            one.setdefault(f"{base}{part}_proj.weight", {})[int(number)] = w
            continue
        if turned: w = w.transpose(1, 2)
        if part == "down": out[base + "down_proj.weight"] = w
        else:
            half = w.shape[1] // 2
            out[base + "gate_proj.weight"], out[base + "up_proj.weight"] = w[:, :half], w[:, half:]
    return out | {name: torch.stack([w[e] for e in range(len(w))]) for name, w in one.items()}


def is_shifted(name, plain):
    """norms whose gain is 1 + w in the Hugging Face layout"""
    return not plain and "visual" not in name and "linear_attn.norm" not in name and re.search(r"norm[a-z_]*\.weight$", name)


def lay_out(name, w, plain, exact):
    """name, tensor of one unquantised tensor as MLX has it"""
    kind = mx.float32 if w.dtype == torch.float32 else mx.bfloat16
    full = w.float().numpy()
    if is_shifted(name, plain):
        full = full + f32(1)
        if exact: kind = mx.float32  # 16 bits would round it
    if "conv1d" in name: full = np.moveaxis(full, 2, 1)
    if "patch_embed" in name and full.ndim == 5: full = np.moveaxis(full, 1, 4)
    return mx.array(np.ascontiguousarray(full)).astype(kind)


def quantise(w, bits, group):
    """MLX's three arrays of [...,K], and what they stand for in float32: scale * q + bias rounded once"""
    q, scales, biases = mx.quantize(mx.array(w).astype(mx.bfloat16), group_size=group, bits=bits)
    stream = np.unpackbits(np.array(q).view(np.uint8).reshape(-1, q.shape[-1] * 4), axis=1, bitorder="little")
    value = (stream.reshape(-1, w.shape[-1], bits) * (1 << np.arange(bits))).sum(-1)
    wide = [np.array(a.astype(mx.float32)).astype(np.float64).reshape(len(value), -1, 1) for a in (scales, biases)]
    exact = (value.reshape(len(value), -1, group) * wide[0] + wide[1]).astype(f32).reshape(w.shape)
    close = np.array(mx.dequantize(q, scales, biases, group_size=group, bits=bits).astype(mx.float32))
    assert np.abs(exact - close).max() <= np.abs(exact).max() / 64
    return q, scales, biases, exact


def form(name, K):
    """bits and group of a matrix, None: it stays as it is"""
    if not name.endswith(".weight") or re.search(r"norm|conv1d|patch_embed", name): return None
    for part, bits, group in (("mtp.fc", 6, 64), ("mtp.layers.0.self_attn.q_proj", 4, 32), ("mtp.layers.0.mlp.switch_mlp.up", 5, 64),
                              ("mtp.", 8, 64), ("mlp.gate.", 8, 64), ("shared_expert_gate", 8, 64), ("pos_embed", 8, 32),
                              ("visual.blocks.1", 4, 32), ("visual", 8, 32), ("embed_tokens", 6, 64), ("lm_head", 5, 64),
                              ("layers.0.mlp.switch_mlp.down", 2, 32), ("layers.0.mlp.switch_mlp.gate", 3, 32),
                              ("layers.1.mlp.switch_mlp.down", 6, 32), ("layers.1.mlp.switch_mlp", 5, 32), ("switch_mlp.down", 8, 32),
                              ("in_proj_ba", 6, 64), ("in_proj_qkvz", 3, 32), ("k_proj", 2, 32), ("v_proj", 6, 32), ("o_proj", 5, 64)):
        if part in name: return (bits, group) if K % group == 0 else None
    return (4, 32) if K % 32 == 0 else None


def widen(sd, cfg, sizes, seed):
    """the same kinds of tensors with other sizes: {(settings, from): to}; vocabulary and layers as they are"""
    gen, out, cfg = torch.Generator().manual_seed(seed), {}, json.loads(json.dumps(cfg))
    text = cfg.get("text_config", cfg)
    swap = {}
    for (key, old), new in sizes.items():
        assert text[key] == old
        text[key] = new
        swap |= {old: new, 2 * old: 2 * new}
    for name, w in sorted(sd.items()):
        shape = [swap.get(n, n) for n in w.shape] if ".mlp." in name and "visual" not in name else list(w.shape)
        if re.search(r"norm|A_log|dt_bias|bias$|conv1d", name): out[name] = w
        else: out[name] = (torch.randn(shape, generator=gen) * float(w.float().std())).to(w.dtype)
    return out, cfg


def digest(value):
    return torch.frombuffer(bytearray(hashlib.blake2b((np.asarray(value, f32) + f32(0)).tobytes(), digest_size=32).digest()), dtype=torch.uint8)


def plain_norms(cfg):
    return cfg["model_type"].startswith(("qwen3_vl", "qwen2_5")) or cfg["model_type"] in ("qwen3", "qwen3_moe")


def write_folder(folder, source, cfg, tensors, head):
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for extra in ("generation_config.json", "preprocessor_config.json", "video_preprocessor_config.json"):
        if (source / extra).exists(): shutil.copy(source / extra, folder / extra)
    mx.save_safetensors(str(folder / "model.safetensors"), tensors, {"format": "mlx"})
    if head:
        (folder / "mtp").mkdir()
        mx.save_safetensors(str(folder / "mtp" / "weights.safetensors"), head, {"format": "mlx"})
    (folder / "config.json").write_text(json.dumps(cfg, indent=1) + "\n")


def make_float(name, source, turned=False):
    cfg, sd = json.loads((source / "config.json").read_text()), load_file(source / "model.safetensors")
    plain = plain_norms(cfg)
    tensors = {mlx_name(k, cfg): lay_out(k, w, plain, True) for k, w in stacked(sd, turned).items()}
    write_folder(OUT / f"{name}_float", source, cfg, tensors, {})


def reference(cfg, hf, grids, seed):
    """a prompt and what transformers makes of it with the weights hf, in the layout of Hugging Face"""
    text = cfg.get("text_config", cfg)
    vocab, rng, gen = text["vocab_size"], random.Random(seed), torch.Generator().manual_seed(seed)
    with tempfile.TemporaryDirectory() as d:
        g.save_file({k: v.contiguous() for k, v in hf.items()}, Path(d) / "model.safetensors", metadata={"format": "pt"})
        (Path(d) / "config.json").write_text(json.dumps(cfg))
        m = g.load_hf(d, cfg)
    T = {}
    if grids:
        ids, grid = g.prompt_mm(rng, vocab, grids), torch.tensor(grids)
        pixels = (torch.cat([g.pixels(gen, x) for x in grids]) * 8).round() / 8  # few values, which pack well
        more = dict(pixel_values=pixels, image_grid_thw=grid, mm_token_type_ids=torch.tensor([g.mm_types(ids, vocab)], dtype=torch.int32))
        T |= {"pixel_values": pixels, "image_grid_thw": grid.int()}
    else:
        ids, more = [g.ids_for(vocab)["im_start"]] + g.rand_text(rng, 20, vocab), {}
    norm = (m.model.language_model if grids else m.model).norm
    hooks = g.Hooks([("norm", norm)])
    logits = m(input_ids=torch.tensor([ids]), use_cache=False, **more).logits[0]
    hooks.close()
    return T | {"input_ids": torch.tensor(ids, dtype=torch.int32), "final_norm": hooks.out["norm"][0][0], "logits": logits}


def unstacked(name, value, turned, numbered):
    """switch_mlp's tensors as the Hugging Face layout of the source has them; gate and up come together"""
    base, part = name.split("switch_mlp.")
    part = part.split("_")[0]
    if numbered: return {f"{base}experts.{e}.{part}_proj.weight": value[e] for e in range(len(value))}
    return {f"{base}experts.{part}": value.transpose(1, 2) if turned else value}


def join(hf, turned):
    for name in [n for n in hf if n.endswith("experts.gate")]:
        base = name[: -len("gate")]
        hf[base + "gate_up_proj"] = torch.cat([hf.pop(name), hf.pop(base + "up")], 2 if turned else 1)
        hf[base + "down_proj"] = hf.pop(base + "down")


def make_mixed(name, source, sizes, seed, grids, turned=False, numbered=False):
    cfg, sd = json.loads((source / "config.json").read_text()), load_file(source / "model.safetensors")
    sd, cfg = widen(sd, cfg, sizes, seed)
    plain = plain_norms(cfg)
    body, head, modes, hf, digests = {}, {}, {}, {}, {}
    for full, w in sorted(stacked(sd, turned).items()):
        mlx, f = mlx_name(full, cfg), form(full, w.shape[-1])
        into = head if full.startswith("mtp.") else body
        if not f:
            into[mlx] = lay_out(full, w, plain, True)
            hf[full] = w.float()
            if "switch_mlp" in full:
                del hf[full]
                hf |= unstacked(full, w.float(), turned, numbered)
            continue
        bits, group = f
        q, scales, biases, exact = quantise(w.float().numpy(), bits, group)
        stem = mlx[: -len(".weight")]
        into |= {mlx: q, stem + ".scales": scales, stem + ".biases": biases}
        if into is body: modes[stem] = {"group_size": group, "bits": bits, "mode": "affine"}
        digests["digest." + full[: -len(".weight")]] = digest(exact)
        value = torch.from_numpy(exact)
        hf |= unstacked(full, value, turned, numbered) if "switch_mlp" in full else {full: value}
    join(hf, turned)
    shown = dict(cfg, quantization={"group_size": 32, "bits": 4, "mode": "affine", **modes})
    shown["quantization_config"] = shown["quantization"]
    if head:
        shown["mlx_lm_extra_tensors"] = {"mtp_file": "mtp/weights.safetensors"}
        shown["mtplx_mtp_contract"] = {"mtp_quant_bits": 8, "mtp_quant_group_size": 64, "mtp_quant_mode": "affine"}
    write_folder(OUT / f"{name}_mixed", source, shown, body, head)
    golden = reference(cfg, {k: v for k, v in hf.items() if not k.startswith("mtp.")}, grids, seed)
    save_file({k: v.contiguous() for k, v in (golden | digests).items()}, OUT / f"{name}_mixed" / "golden.safetensors")
    print(name, len(digests), "quantised", sorted({(m["bits"], m["group_size"]) for m in modes.values()}), float(golden["logits"].abs().max()))


make_float("vl", FAMILY / "vl_dense_bf16")
make_float("vl_moe", FAMILY / "vl_moe_bf16", turned=True)
make_float("next", FAMILY / "qwen3_next_bf16")
make_float("qwen2_5", QWEN2_5 / "bf16")
make_mixed("vl", FAMILY / "vl_dense_bf16", {}, 61, [(1, 4, 6), (1, 4, 4)])
make_mixed("vl_moe", FAMILY / "vl_moe_bf16", {("moe_intermediate_size", 40): 96}, 62, [(1, 4, 6)], turned=True)
make_mixed("next", FAMILY / "qwen3_next_bf16", {("moe_intermediate_size", 24): 32, ("shared_expert_intermediate_size", 40): 64}, 63, [],
           numbered=True)
make_mixed("moe", MOE / "moe_bf16", {("moe_intermediate_size", 24): 32, ("shared_expert_intermediate_size", 40): 64}, 64, [(1, 4, 4)])
make_mixed("qwen3_moe", FAMILY / "qwen3_moe_bf16", {("moe_intermediate_size", 24): 32}, 65, [], numbered=True)
make_mixed("text", FAMILY / "qwen3_5_text_bf16", {}, 67, [])
