#!/usr/bin/env python3
"""Small checkpoints in the forms in which the hub has quantised weights, made by the formats' own writers.

    python make_forms.py FOLDER WHEELS

writes FOLDER/NAME, each a text model with random weights and golden.safetensors: input_ids, and final_norm and logits by
transformers in float32 (eager attention) with the weights that the writer's own dequantisation gives in float32 (FP8: in
bfloat16, the type of the model); digest.MODULE, BLAKE2b of these weights in float32, [outputs,inputs], no negative zeros. In
FOLDER/extra are single matrices that no model has, as extra.safetensors, with value.NAME beside them.

WHEELS: a folder in which the wheels auto_gptq 0.7.1 and autoawq 0.2.7.post3 are unpacked (pip download --no-deps, unzip); of each
one file is used. compressed-tensors 0.20.1 is installed. FP8 is written by transformers' Fp8Quantize.
"""
import hashlib, importlib.util, json, shutil, sys, types
from pathlib import Path

import numpy as np
import torch
import transformers
from safetensors.torch import save_file

OUT, WHEELS = map(Path, sys.argv[1:3])
import make_goldens as g  # reads FOLDER from the command line too
from compressed_tensors.compressors import FloatQuantizationCompressor, IntQuantizationCompressor, PackedQuantizationCompressor
from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme
from compressed_tensors.quantization.utils import calculate_qparams
from transformers.integrations.finegrained_fp8 import Fp8Dequantize, Fp8Quantize

torch.set_num_threads(1)


def load(name, path):
    """one file of a package whose other files want more packages than are needed"""
    parts = name.split(".")
    for i in range(1, len(parts)):
        parent = ".".join(parts[:i])
        if parent not in sys.modules:
            sys.modules[parent] = types.ModuleType(parent)
            sys.modules[parent].__path__ = [str(WHEELS.joinpath(*parts[:i]))]
    spec = importlib.util.spec_from_file_location(name, WHEELS / path)
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


Gptq = load("auto_gptq.nn_modules.qlinear.qlinear_cuda", "auto_gptq/nn_modules/qlinear/qlinear_cuda.py").QuantLinear
Awq = load("awq.modules.linear.gemm", "awq/modules/linear/gemm.py").WQLinear_GEMM
awq_dequantise = load("awq.utils.packing_utils", "awq/utils/packing_utils.py").dequantize_gemm

VOCAB = 96
IDS = g.ids_for(VOCAB)
TEXT = dict(attention_bias=False, attention_dropout=0.0, bos_token_id=IDS["endoftext"], eos_token_id=IDS["im_end"], hidden_act="silu",
            initializer_range=0.02, max_position_embeddings=4096, num_attention_heads=2, num_key_value_heads=1, head_dim=32,
            num_hidden_layers=2, rms_norm_eps=1e-06, dtype="bfloat16", transformers_version="4.57.1", use_cache=True, vocab_size=VOCAB,
            attn_output_gate=True, layer_types=["linear_attention", "full_attention"], mamba_ssm_dtype="float32",
            mtp_num_hidden_layers=1, mtp_use_dedicated_embeddings=False, partial_rotary_factor=0.25, linear_conv_kernel_dim=4,
            linear_key_head_dim=16, linear_value_head_dim=32, linear_num_key_heads=2, linear_num_value_heads=2,
            rope_parameters=dict(mrope_interleaved=True, mrope_section=[2, 1, 1], partial_rotary_factor=0.25, rope_theta=10000000,
                                 rope_type="default"))
DENSE = dict(TEXT, architectures=["Qwen3_5ForCausalLM"], model_type="qwen3_5_text", hidden_size=64, intermediate_size=64,
             tie_word_embeddings=False)
WIDE = dict(DENSE, hidden_size=128, intermediate_size=128, head_dim=64, linear_value_head_dim=64,
            rope_parameters=dict(TEXT["rope_parameters"], mrope_section=[3, 3, 2]))
SPARSE = dict(TEXT, architectures=["Qwen3_5MoeForCausalLM"], model_type="qwen3_5_moe_text", hidden_size=64, num_experts=4,
              num_experts_per_tok=2, moe_intermediate_size=32, shared_expert_intermediate_size=32, output_router_logits=False,
              router_aux_loss_coef=0.001, tie_word_embeddings=True)


def build(cfg, seed):
    c = transformers.AutoConfig.for_model(**json.loads(json.dumps(cfg)))
    with torch.device("meta"):
        m = getattr(transformers, cfg["architectures"][0])(c)
    shapes = {k: tuple(v.shape) for k, v in m.state_dict().items()} | g.mtp_shapes(dict(text_config=cfg))
    if cfg["tie_word_embeddings"]: del shapes["lm_head.weight"]
    gen, sd = torch.Generator().manual_seed(seed), {}
    for name in sorted(shapes):
        if name == "model.norm.weight": w = torch.randn(shapes[name], generator=gen) * 0.25
        else: w = g.rand_weight(name, shapes[name], gen, False, cfg["tie_word_embeddings"])
        sd[name] = w.to(torch.float32 if name.endswith("A_log") else torch.bfloat16).contiguous()
    return sd


def is_linear(name):
    return name.endswith(("proj.weight", "in_proj_qkv.weight", "in_proj_z.weight")) or name == "mtp.fc.weight"


# ---- the writers: weight [N,K] in bfloat16 to named tensors and the values that they stand for, in float32 ----------------------

def fp8(block):
    settings = types.SimpleNamespace(weight_block_size=list(block) if block else None, scale_fmt="float")
    quantizer = types.SimpleNamespace(quantization_config=settings)

    def write(w):
        out = Fp8Quantize(quantizer)._quantize_one("M.weight", w)
        if "M.weight_scale_inv" in out:
            q, s = out["M.weight"], out["M.weight_scale_inv"]
            return {"weight": q, "weight_scale_inv": s}, Fp8Dequantize(quantizer)._dequantize_one(q, s, torch.bfloat16).float()
        # Blocks at the ends are cut: the same rules.
        (N, K), (a, b) = w.shape, block
        whole = torch.nn.functional.pad(w, (0, -K % b, 0, -N % a))
        out = Fp8Quantize(quantizer)._quantize_one("M.weight", whole)
        q, s = out["M.weight"], out["M.weight_scale_inv"]
        value = Fp8Dequantize(quantizer)._dequantize_one(q, s, torch.bfloat16).float()
        return {"weight": q[:N, :K].contiguous(), "weight_scale_inv": s}, value[:N, :K].contiguous()
    return write


def compressed(compressor, **args):
    scheme = QuantizationScheme(targets=["Linear"], weights=QuantizationArgs(**args))

    def write(w):
        groups = w.reshape(w.shape[0], -1, args.get("group_size") or w.shape[1]) if args["strategy"] != "tensor" else w.reshape(1, 1, -1)
        scale, zero = calculate_qparams(groups.amin(-1), groups.amax(-1), scheme.weights)
        if args["strategy"] == "tensor": scale, zero = scale.reshape(1), zero.reshape(1)
        sd = {"weight": w, "weight_scale": scale.to(torch.bfloat16), "weight_zero_point": zero.to(torch.int8)}
        if scheme.weights.symmetric: del sd["weight_zero_point"]
        packed = compressor.compress(sd, scheme)
        if args["type"] == "int": value = compressor.decompress(dict(packed, weight_scale=packed["weight_scale"].float()), scheme)["weight"]
        else: value = compressor.decompress(dict(packed), scheme)["weight"].float()
        assert value.dtype == torch.float32 and (value - w).abs().max() < 0.2 * w.abs().max() + 0.2
        return packed, value.contiguous()
    return write


def affine(w, bits, group, symmetric):
    """scales and zeros [N,G] of a rounding to the nearest"""
    parts = w.float().reshape(w.shape[0], -1, group)
    low, high = parts.amin(-1).clamp(max=0), parts.amax(-1).clamp(min=0)
    if symmetric:
        return (torch.maximum(-low, high) * 2 / (2**bits - 1)).half(), torch.full_like(low, 2 ** (bits - 1))
    scale = ((high - low) / (2**bits - 1)).half()
    return scale, (-low / scale.float()).round().clamp(1, 2**bits - 1)


def gptq(bits, group, symmetric, version=1, order=None):
    def write(w):
        (N, K), gen = w.shape, torch.Generator().manual_seed(5)
        g_idx = (torch.arange(K) // group).int()
        if order: g_idx = g_idx[torch.randperm(K, generator=gen)].contiguous()
        ordered = torch.argsort(g_idx, stable=True)
        scale, zero = affine(w[:, ordered], bits, group, symmetric)
        linear = torch.nn.Linear(K, N, bias=False, dtype=torch.float16)
        linear.weight.data = w.half()
        q = Gptq(bits, group, K, N, False)
        s16 = scale.float()
        # The writer rounds; what leaves the range would spill into its neighbours.
        ints = torch.round(w.float() / s16[:, g_idx.long()] + zero[:, g_idx.long()]).clamp(0, 2**bits - 1)
        linear.weight.data = ((ints - zero[:, g_idx.long()]) * s16[:, g_idx.long()])
        q.pack(linear, s16, zero.clone(), g_idx)
        q.scales = q.scales.float()
        value = q(torch.eye(K)).t().contiguous()
        assert (value - w.float()).abs().max() < 0.2 * w.float().abs().max() + 0.2
        zeros = q.qzeros
        if version == 2:
            one = sum(1 << i for i in range(0, 32, bits))
            zeros = torch.from_numpy((zeros.numpy().view(np.uint32) + np.uint32(one)).view(np.int32))
        return {"qweight": q.qweight, "qzeros": zeros, "scales": q.scales.half(), "g_idx": q.g_idx}, value
    return write


def awq(group):
    def write(w):
        N, K = w.shape
        scale, zero = affine(w, 4, group, False)
        linear = torch.nn.Linear(K, N, bias=False, dtype=torch.float16)
        wide, z = scale.float().repeat_interleave(group, 1), zero.repeat_interleave(group, 1)
        linear.weight.data = (torch.round(w.float() / wide + z).clamp(0, 15) - z) * wide
        q = Awq.from_linear(linear, 4, group, scales=scale.float().t().contiguous(), zeros=zero.t().contiguous())
        value = awq_dequantise(q.qweight, q.qzeros, q.scales.float(), 4, group).t().contiguous()
        assert (value - w.float()).abs().max() < 0.2 * w.float().abs().max() + 0.2
        return {"qweight": q.qweight, "qzeros": q.qzeros, "scales": q.scales}, value
    return write


# ---- checkpoints -----------------------------------------------------------------------------------------------------------------

def fused(sd):
    """experts one by one as transformers' class has them"""
    out, experts = {}, {}
    for name, w in sd.items():
        parts = name.split(".experts.")
        if len(parts) == 2 and parts[1][0].isdigit():
            e, kind = parts[1].split(".")[:2]
            experts.setdefault(parts[0], {})[int(e), kind] = w
        else: out[name] = w
    for base, e in experts.items():
        n = len(e) // 3
        out[base + ".experts.gate_up_proj"] = torch.stack([torch.cat([e[i, "gate_proj"], e[i, "up_proj"]]) for i in range(n)])
        out[base + ".experts.down_proj"] = torch.stack([e[i, "down_proj"] for i in range(n)])
    return out


def digest(value):
    return torch.frombuffer(bytearray(hashlib.blake2b((value.float() + 0.0).contiguous().numpy().tobytes(), digest_size=32).digest()),
                            dtype=torch.uint8)


def golden(cfg, values, digests):
    c = transformers.AutoConfig.for_model(**json.loads(json.dumps(cfg)))
    c._attn_implementation = "eager"
    m = getattr(transformers, cfg["architectures"][0])._from_config(c, dtype=torch.float32).eval()
    sd = {k: v.float() for k, v in fused(values).items() if not k.startswith("mtp.")}
    if cfg["tie_word_embeddings"]: sd["lm_head.weight"] = sd["model.embed_tokens.weight"]
    m.load_state_dict(sd, strict=True)
    ids = torch.randint(0, VOCAB - 16, (1, 24), generator=torch.Generator().manual_seed(3))
    hooks = g.Hooks([("norm", m.model.norm)])
    with torch.no_grad(): logits = m(input_ids=ids).logits[0]
    hooks.close()
    return {"input_ids": ids[0].int(), "final_norm": hooks.out["norm"][0][0], "logits": logits} | digests


def write(name, cfg, sd, config, writer, chosen=is_linear, sidecar=False, shards=1):
    folder = OUT / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    tensors, values, digests = {}, {}, {}
    for full, w in sorted(sd.items()):
        if not chosen(full):
            tensors[full] = values[full] = w
            continue
        module = full[: -len(".weight")]
        parts, value = writer(w)
        tensors |= {f"{module}.{k}": v.contiguous() for k, v in parts.items()}
        values[full] = value
        digests["digest." + module] = digest(value)
    if config is not None: cfg = dict(cfg, quantization_config=config)
    (folder / "config.json").write_text(json.dumps(cfg, indent=1) + "\n")
    body = {k: v for k, v in tensors.items() if not (sidecar and k.startswith("mtp."))}
    if sidecar: save_file({k: v for k, v in tensors.items() if k.startswith("mtp.")}, folder / "mtp.safetensors")
    names, where = sorted(body), {}
    for i in range(shards):
        file = "model.safetensors" if shards == 1 else f"model-{i + 1:05d}-of-{shards:05d}.safetensors"
        part = {k: body[k] for k in names[i::shards]}  # parts of one matrix in different files
        save_file(part, folder / file, metadata={"format": "pt"})
        where |= {k: file for k in part}
    if shards > 1:
        (folder / "model.safetensors.index.json").write_text(json.dumps(dict(metadata={}, weight_map=where), indent=1) + "\n")
    save_file(golden(cfg, values, digests), folder / "golden.safetensors")


def pack_config(**weights):
    return dict(config_groups=dict(group_0=dict(input_activations=None, output_activations=None, targets=["Linear"], weights=weights)),
                format="pack-quantized", ignore=["lm_head"], kv_cache_scheme=None, quant_method="compressed-tensors",
                quantization_status="compressed")


def group(bits, size, symmetric):
    return dict(num_bits=bits, type="int", strategy="group", group_size=size, symmetric=symmetric)


tie = lambda cfg: dict(cfg, tie_word_embeddings=True)
without = lambda sd, *starts: {k: w for k, w in sd.items() if not k.startswith(starts)}
headless = lambda cfg: dict(cfg, mtp_num_hidden_layers=0)
dense, wide, sparse = build(DENSE, 1), build(WIDE, 4), g.numbered(build(SPARSE, 2))
tied, body = without(dense, "lm_head."), without(wide, "lm_head.", "mtp.")
TIED, BODY = tie(DENSE), headless(tie(WIDE))
FP8 = dict(activation_scheme="dynamic", fmt="e4m3", quant_method="fp8", modules_to_not_convert=["lm_head"])
not_head = lambda name: is_linear(name) and not name.startswith("mtp.")
only_head = lambda name: is_linear(name) and name.startswith("mtp.")

write("fp8", WIDE, wide, FP8 | dict(weight_block_size=[128, 128]), fp8((128, 128)))
write("fp8_experts", SPARSE, sparse, FP8 | dict(weight_block_size=[32, 32]), fp8((32, 32)))
channel = dict(num_bits=8, type="float", strategy="channel", symmetric=True)
write("fp8_channel", TIED, tied, pack_config(**channel) | dict(format="float-quantized"), compressed(FloatQuantizationCompressor, **channel),
      not_head, shards=2)
write("fp8_head", DENSE, dense, None, fp8((128, 128)), only_head, sidecar=True)
write("int4", DENSE, dense, pack_config(**group(4, 32, True)), compressed(PackedQuantizationCompressor, **group(4, 32, True)), not_head,
      sidecar=True)
write("int4_zeros", BODY, body, pack_config(**group(4, 128, False)), compressed(PackedQuantizationCompressor, **group(4, 128, False)))
row = dict(num_bits=8, type="int", strategy="channel", symmetric=True)
write("int8", TIED, tied, pack_config(**row) | dict(format="int-quantized"), compressed(IntQuantizationCompressor, **row))
write("awq", TIED, tied, dict(bits=4, group_size=64, modules_to_not_convert=["mtp"], quant_method="awq", version="gemm", zero_point=True),
      awq(64), not_head)
GPTQ = dict(bits=4, damp_percent=0.01, desc_act=False, group_size=128, quant_method="gptq", sym=True, true_sequential=True)
write("gptq", BODY, body, GPTQ, gptq(4, 128, True))
write("gptq_order", TIED, tied, GPTQ | dict(desc_act=True, group_size=32, sym=False, checkpoint_format="gptq_v2"), gptq(4, 32, False, 2, True),
      not_head)

# ---- single matrices --------------------------------------------------------------------------------------------------------------

tensors = {}
gen = torch.Generator().manual_seed(7)


def extra(name, N, K, writer):
    parts, value = writer((torch.randn((N, K), generator=gen) * 0.1).bfloat16())
    tensors.update({f"{name}.{k}": v.contiguous() for k, v in parts.items()} | {"value." + name: value + 0.0})


def powers(block):
    settings = types.SimpleNamespace(weight_block_size=list(block), scale_fmt="ue8m0")
    quantizer = types.SimpleNamespace(quantization_config=settings)

    def write(w):
        out = Fp8Quantize(quantizer)._quantize_one("M.weight", w)
        q, s = out["M.weight"], out["M.weight_scale_inv"]
        return {"weight": q, "weight_scale_inv": s}, Fp8Dequantize(quantizer)._dequantize_one(q, s, torch.bfloat16).float()
    return write


extra("fp8_cut", 40, 72, fp8((16, 32)))
extra("fp8_whole", 24, 40, fp8(None))
for bits in (2, 3, 4, 5, 6, 7, 8):
    for symmetric in (True, False):
        extra(f"int{bits}_{symmetric}", 24, 64, compressed(PackedQuantizationCompressor, **group(bits, 32, symmetric)))
extra("int4_cut", 24, 72, compressed(PackedQuantizationCompressor, num_bits=4, type="int", strategy="channel", symmetric=True))
extra("int4_wide", 24, 512, compressed(PackedQuantizationCompressor, **group(4, 256, True)))
extra("int4_narrow", 24, 64, compressed(PackedQuantizationCompressor, **group(4, 16, False)))
extra("int8_zeros", 24, 64, compressed(IntQuantizationCompressor, **group(8, 32, False)))
extra("int8_tensor", 24, 64, compressed(IntQuantizationCompressor, num_bits=8, type="int", strategy="tensor", symmetric=True))
for bits in (2, 4, 8):
    extra(f"gptq{bits}", 32, 64, gptq(bits, 32, True))
    extra(f"gptq{bits}_zeros", 32, 64, gptq(bits, 64, False))
extra("awq_32", 64, 64, awq(32))
extra("fp8_powers", 40, 64, powers((8, 32)))
shutil.rmtree(OUT / "extra", ignore_errors=True)
(OUT / "extra").mkdir()
save_file(tensors, OUT / "extra" / "extra.safetensors")
