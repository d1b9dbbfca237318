#!/usr/bin/env python3
"""Stretched rotary embeddings: what transformers' ROPE_INIT_FUNCTIONS make of rope_parameters.

    python make_text_goldens.py FOLDER    # qwen3_5_text_yarn_bf16 is one of its models
    python make_rope.py FOLDER
    sh pack.sh ../data/rope.tar.xz FOLDER rope.json qwen3_5_text_yarn_bf16

writes FOLDER/rope.json: {"cases": [{"config": a config.json, "inv_freq": [...], "attention": number}]}.
"""
import json, sys
from pathlib import Path

from transformers import AutoConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

BASE = dict(architectures=["Qwen3ForCausalLM"], model_type="qwen3", hidden_size=64, num_hidden_layers=2, num_attention_heads=2,
            num_key_value_heads=1, intermediate_size=64, vocab_size=320, max_position_embeddings=40960)
ROPES = [
    dict(rope_type="linear", factor=1.0), dict(rope_type="linear", factor=3.5),
    dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=32768), dict(rope_type="yarn", factor=4.0),
    dict(rope_type="yarn", factor=1.0, original_max_position_embeddings=32768),
    dict(rope_type="yarn", factor=None, original_max_position_embeddings=10240),
    dict(rope_type="yarn", factor=2.5, original_max_position_embeddings=4096, beta_fast=64, beta_slow=2),
    dict(rope_type="yarn", factor=8.0, original_max_position_embeddings=8192, attention_factor=0.75),
    dict(rope_type="yarn", factor=8.0, original_max_position_embeddings=8192, mscale=0.7, mscale_all_dim=1.0),
    dict(rope_type="yarn", factor=8.0, original_max_position_embeddings=8192, mscale=0.7),
    dict(rope_type="yarn", factor=16.0, original_max_position_embeddings=2048, truncate=False),
    dict(rope_type="yarn", factor=2.0, original_max_position_embeddings=4),
    dict(rope_type="yarn", factor=2.0, original_max_position_embeddings=262144),
]
cases = []
for head_dim, theta in ((128, 1000000.0), (64, 10000.0), (48, 5000000.0)):
    for rope in ROPES:
        for legacy in (False, True):
            config = dict(BASE, head_dim=head_dim, rope_theta=theta)
            if legacy:
                config["rope_scaling"] = {"type" if k == "rope_type" else k: v for k, v in rope.items()}
            else:
                config["rope_parameters"] = dict(rope, rope_theta=theta)
            c = AutoConfig.for_model(**json.loads(json.dumps(config)))
            inv_freq, attention = ROPE_INIT_FUNCTIONS[rope["rope_type"]](c, "cpu")
            cases.append(dict(config=config, inv_freq=inv_freq.tolist(), attention=float(attention)))
(Path(sys.argv[1]) / "rope.json").write_text(json.dumps(dict(cases=cases)) + "\n")
print(len(cases), "cases")
