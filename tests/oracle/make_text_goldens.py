#!/usr/bin/env python3
"""Golden vectors of the text-only families: Qwen3, Qwen3-MoE, Qwen3-Next, and the text classes of Qwen3.5 and Qwen3.5-MoE.

    python make_text_goldens.py FOLDER

writes FOLDER/NAME, each a small checkpoint with random weights in the layout of published files and golden_text.safetensors:
a prompt in one go and six greedy steps, with the names that make_goldens.py uses. Deterministic; reference: the model classes of
transformers in float32, eager attention, on weights upcast from the stored type.
"""
import json, random, sys

import torch
import transformers
from safetensors.torch import save_file
from transformers import DynamicCache

import make_goldens as g  # reads FOLDER from the command line too

VOCAB = 320
IDS = g.ids_for(VOCAB)


def common(architecture, model_type, **more):
    c = dict(architectures=[architecture], model_type=model_type, attention_bias=False, attention_dropout=0.0,
             bos_token_id=IDS["endoftext"], eos_token_id=IDS["im_end"], hidden_act="silu", hidden_size=64,
             initializer_range=0.02, intermediate_size=96, max_position_embeddings=4096, num_attention_heads=4,
             num_key_value_heads=2, head_dim=32, num_hidden_layers=4, rms_norm_eps=1e-06, tie_word_embeddings=False,
             torch_dtype="bfloat16", transformers_version="4.57.0", use_cache=True, vocab_size=VOCAB)
    c.update(more)
    return c


LEGACY = dict(rope_scaling=None, rope_theta=1000000, sliding_window=None, use_sliding_window=False)
LINEAR = dict(full_attention_interval=4, linear_conv_kernel_dim=4, linear_key_head_dim=16, linear_num_key_heads=2,
              linear_num_value_heads=6, linear_value_head_dim=16)
EXPERTS = dict(num_experts=8, num_experts_per_tok=3, moe_intermediate_size=24, output_router_logits=False,
               router_aux_loss_coef=0.001)
Q35 = dict(LINEAR, attn_output_gate=True, layer_types=g.layer_types(4), mamba_ssm_dtype="float32",
           mtp_num_hidden_layers=1, mtp_use_dedicated_embeddings=False, partial_rotary_factor=0.25,
           rope_parameters=dict(mrope_interleaved=True, mrope_section=[2, 1, 1], partial_rotary_factor=0.25,
                                rope_theta=10000000, rope_type="default"))

# name, config, stored type, experts one by one, MTP head
JOBS = [
    ("qwen3_tied_f32", common("Qwen3ForCausalLM", "qwen3", **LEGACY, hidden_size=48, num_attention_heads=6, head_dim=16,
                              num_hidden_layers=3, intermediate_size=80, tie_word_embeddings=True, attention_bias=True,
                              max_window_layers=3, torch_dtype="float32"), torch.float32, False, False),
    ("qwen3_moe_bf16", common("Qwen3MoeForCausalLM", "qwen3_moe", **LEGACY, **EXPERTS, num_hidden_layers=6,
                              decoder_sparse_step=2, mlp_only_layers=[3], norm_topk_prob=False), torch.bfloat16, True, False),
    ("qwen3_next_bf16", common("Qwen3NextForCausalLM", "qwen3_next", **LINEAR, **EXPERTS, rope_scaling=None,
                               rope_theta=10000000, partial_rotary_factor=0.25, decoder_sparse_step=1, mlp_only_layers=[1],
                               norm_topk_prob=True, shared_expert_intermediate_size=40), torch.bfloat16, True, False),
    ("qwen3_5_text_bf16", common("Qwen3_5ForCausalLM", "qwen3_5_text", **Q35, tie_word_embeddings=True), torch.bfloat16,
     False, True),
    ("qwen3_5_moe_text_bf16", common("Qwen3_5MoeForCausalLM", "qwen3_5_moe_text", **Q35, **EXPERTS,
                                     shared_expert_intermediate_size=40), torch.bfloat16, False, True),
    # for rope.tar.xz, see make_rope.py
    ("qwen3_5_text_yarn_bf16", common("Qwen3_5ForCausalLM", "qwen3_5_text", **dict(
        Q35, rope_parameters=dict(Q35["rope_parameters"], rope_type="yarn", factor=4.0, rope_theta=1000,
                                  original_max_position_embeddings=16, mrope_section=[3, 3, 2])), head_dim=64), torch.bfloat16, False, True),
]


def build(cfg, seed, stored, one_by_one, head):
    c = transformers.AutoConfig.for_model(**json.loads(json.dumps(cfg)))
    with torch.device("meta"):
        m = getattr(transformers, cfg["architectures"][0])(c)
    shapes = {k: tuple(v.shape) for k, v in m.state_dict().items()}
    if cfg["tie_word_embeddings"]:
        shapes.pop("lm_head.weight")
    if head:
        shapes.update(g.mtp_shapes(dict(text_config=cfg)))
    plain = cfg["model_type"] in ("qwen3", "qwen3_moe")
    gen = torch.Generator().manual_seed(seed)
    sd = {}
    for name in sorted(shapes):
        if name == "model.norm.weight":
            w = torch.randn(shapes[name], generator=gen) * 0.25 + (1.0 if plain else 0.0)
        else:
            w = g.rand_weight(name, shapes[name], gen, plain, cfg["tie_word_embeddings"])
        sd[name] = w.to(torch.float32 if name.endswith("A_log") else stored).contiguous()
    return g.numbered(sd) if one_by_one else sd


def run(m, cfg, ids, steps=6):
    core, L, T = m.model, len(ids), {}
    pairs = [("norm", core.norm)]
    for i, l in enumerate(core.layers):
        pairs += [(f"hidden.{i}", l), (f"mixer.{i}", l.linear_attn if hasattr(l, "linear_attn") else l.self_attn),
                  (f"mlp.{i}", l.mlp)]
    hooks = g.Hooks(pairs)
    cache = DynamicCache(config=m.config)
    logits = m(input_ids=torch.tensor([ids]), cache=cache, use_cache=True).logits[0]
    hooks.close()
    T["input_ids"] = torch.tensor(ids, dtype=torch.int32)
    T["position_ids"] = torch.arange(L, dtype=torch.int32)[None].expand(3, -1).clone()
    T["rope_delta"] = torch.zeros(1, dtype=torch.int32)
    T["inputs_embeds"] = core.embed_tokens(torch.tensor(ids))
    for i in range(len(core.layers)):
        for kind in ("hidden", "mixer", "mlp"):
            T[f"{kind}.{i}"] = hooks.out[f"{kind}.{i}"][0].reshape(L, -1)
    T["final_norm"], T["logits"] = hooks.out["norm"][0][0], logits
    linear = [hasattr(l, "linear_attn") for l in core.layers]

    def keep(when, layer, i):
        if linear[i]:
            T[f"state.{when}.{i}.conv"] = layer.conv_states[0][0].clone()
            T[f"state.{when}.{i}.recurrent"] = layer.recurrent_states[0][0].clone()
        else:
            T[f"cache.{when}.{i}.k"], T[f"cache.{when}.{i}.v"] = layer.keys[0].clone(), layer.values[0].clone()

    for i, layer in enumerate(cache.layers):
        keep("prompt", layer, i)
    tokens, rows, norms, token = [], [], [], int(logits[-1].argmax())
    for _ in range(steps):
        tokens.append(token)
        hooks = g.Hooks([("norm", core.norm)])
        rows.append(m(input_ids=torch.tensor([[token]]), cache=cache, use_cache=True).logits[0, -1])
        hooks.close()
        norms.append(hooks.out["norm"][0][0, -1])
        token = int(rows[-1].argmax())
    T["decode.tokens"] = torch.tensor(tokens, dtype=torch.int32)
    T["decode.position_ids"] = torch.arange(L, L + steps, dtype=torch.int32)
    T["decode.logits"], T["decode.final_norm"] = torch.stack(rows), torch.stack(norms)
    for i, layer in enumerate(cache.layers):
        keep("decoded", layer, i)
    whole = m(input_ids=torch.tensor([ids + tokens]), use_cache=False).logits[0]
    scale = float(logits.abs().max())
    diffs = dict(decode=g.maxdiff(whole[L:], T["decode.logits"]), prompt=g.maxdiff(whole[:L], logits))
    assert max(diffs.values()) < 2e-4 * max(1.0, scale), diffs
    best = torch.cat([logits[-1:], T["decode.logits"]]).sort(-1, descending=True).values
    return T, dict(diffs=diffs, logits_absmax=scale, greedy_margin_min=float((best[:, 0] - best[:, 1]).min()))


for number, (name, cfg, stored, one_by_one, head) in enumerate(JOBS):
    d = g.OUT / name
    d.mkdir(parents=True, exist_ok=True)
    (d / "config.json").write_text(json.dumps(cfg, indent=4, sort_keys=True) + "\n")
    (d / "generation_config.json").write_text(json.dumps(dict(eos_token_id=[IDS["im_end"], IDS["endoftext"]])) + "\n")
    save_file(build(cfg, 2000 + number, stored, one_by_one, head), d / "model.safetensors", metadata={"format": "pt"})
    m = g.load_hf(d, cfg)
    rng = random.Random(90 + number)
    tensors, meta = run(m, cfg, [IDS["im_start"]] + g.rand_text(rng, 20, VOCAB))
    save_file({k: v.contiguous() for k, v in tensors.items()}, d / "golden_text.safetensors",
              metadata={"meta": json.dumps(meta, sort_keys=True)})
    print(name, json.dumps(meta))
