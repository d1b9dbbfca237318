#!/usr/bin/env python3
"""Small models with random weights as GGUF files, made by the format's own programs, beside the checkpoints that they were made of.

    python make_gguf.py OUT LLAMA_CPP [LLAMA_QUANTIZE]

LLAMA_CPP is a source folder of llama.cpp (build 11434 was used): its convert_hf_to_gguf.py writes the files, its gguf-py dequantises the
blocks of types.safetensors, and LLAMA_QUANTIZE (else the one on the PATH) packs them in blocks. Deterministic. OUT/NAME is a checkpoint
with model.gguf, and mmproj.gguf where it has a tower:

    q35 vl                with pictures, q35's draft head is inside
    q35moe vlmoe          without the tower, q35moe's draft head is inside
    q25                   Qwen2.5-VL, of a width at which biases of queries, keys and values do not follow each other in the file
    next q3moe            text alone
    q3                    F32, queries, keys and values in one tensor, with biases; stretched rope
    apart                 q35 without its checkpoint: the draft head in a file of its own
    parts                 q35 in three files
    blocks moeblocks      q35 and q35moe in the types of 32 numbers a block
    super                 q3 at a width of 256, in the K types, without its checkpoint
    tokenizer             the tokenizer of models/tiny alone
    types.safetensors     NAME.blocks and NAME.numbers of each type, blocks of random bytes among them

and OUT-corpus/ the seeds of tests/fuzz/fuzz_gguf.c.
"""
import json, os, shutil, subprocess, sys
from pathlib import Path

OUT, SOURCE = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
QUANTIZE = sys.argv[3] if len(sys.argv) > 3 else "llama-quantize"
CONVERT = ["--convert"] if "--convert" in sys.argv else []

if CONVERT:  # a converter that is told how words are cut: it knows published tokenizers alone
    import runpy
    sys.path[:0] = [str(SOURCE), str(SOURCE / "gguf-py")]
    from conversion import base
    cut = sys.argv[4]
    for name in dir(base):
        c = getattr(base, name)
        if isinstance(c, type) and "get_vocab_base_pre" in c.__dict__:
            c.get_vocab_base_pre = lambda self, tokenizer: cut

    def absent(self, **more):
        raise FileNotFoundError

    base.TextModel._set_vocab_sentencepiece = absent  # its package need not be there
    sys.argv = ["convert_hf_to_gguf.py"] + sys.argv[5:]
    runpy.run_path(str(SOURCE / "convert_hf_to_gguf.py"), run_name="__main__")
    sys.exit()

import numpy as np
import torch
import transformers
from safetensors.numpy import save_file as save_numpy
from safetensors.torch import save_file

sys.argv = [sys.argv[0], str(OUT)]
import make_goldens as g
import make_qwen2_5 as w

sys.path.insert(0, str(SOURCE / "gguf-py"))
import gguf

VOCAB = 320
IDS = g.ids_for(VOCAB)
ROPE = dict(mrope_interleaved=True, mrope_section=[2, 1, 1], partial_rotary_factor=0.25, rope_theta=10000000, rope_type="default")
YARN = dict(rope_type="yarn", factor=2.5, original_max_position_embeddings=512, beta_fast=24, beta_slow=2, attention_factor=0.9)


def tokenizer(d, cut="qwen35"):
    """Bytes, 48 merges, and the special tokens that ids_for places."""
    from transformers.convert_slow_tokenizer import bytes_to_unicode
    letters = [c for _, c in sorted(bytes_to_unicode().items())]
    vocab, merges = {c: i for i, c in enumerate(letters)}, []
    for word in ("\u0120the", "\u0120and", "\u0120ing", "\u0120red", "\u0120blue", "\u0120what", "\u0120is", "er", "on", "\u0120picture", "\u0120\u0120", "\u010a\u010a"):
        left = word[0]
        for c in word[1:]:
            if left + c not in vocab and len(merges) < 48:
                vocab[left + c] = len(vocab)
                merges.append([left, c])
            left += c
    for a in letters:  # exactly as many as there is room for: libraries number added tokens behind them
        for b in "aeiou":
            if len(merges) < 48 and a.isalpha() and a.isascii() and a + b not in vocab:
                vocab[a + b] = len(vocab)
                merges.append([a, b])
    special = {"<|endoftext|>": 0, "<|im_start|>": 1, "<|im_end|>": 2, "<think>": 3, "</think>": 4, "<|vision_start|>": 9, "<|vision_end|>": 10,
               "<|vision_pad|>": 11, "<|image_pad|>": 12, "<|video_pad|>": 13}
    special = {next((t for t, k in special.items() if k == i), f"<|reserved_{i}|>"): i for i in range(16)}
    added = [dict(id=VOCAB - 16 + i, content=t, single_word=False, lstrip=False, rstrip=False, normalized=False, special="think" not in t)
             for t, i in special.items()]
    regex = "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
    if cut == "qwen2":  # marks are no part of words
        regex = regex.replace("[\\p{L}\\p{M}]+", "\\p{L}+").replace("\\p{M}", "")
    level = dict(type="ByteLevel", add_prefix_space=False, trim_offsets=False, use_regex=False)
    (d / "tokenizer.json").write_text(json.dumps(dict(
        version="1.0", truncation=None, padding=None, added_tokens=added, normalizer=dict(type="NFC"),
        pre_tokenizer=dict(type="Sequence", pretokenizers=[dict(type="Split", pattern=dict(Regex=regex), behavior="Isolated", invert=False), level]),
        post_processor=level, decoder=level,
        model=dict(type="BPE", dropout=None, unk_token=None, continuing_subword_prefix="", end_of_word_suffix="", fuse_unk=False,
                   byte_fallback=False, vocab=vocab, merges=merges))) + "\n")
    (d / "tokenizer_config.json").write_text(json.dumps(dict(
        tokenizer_class="PreTrainedTokenizerFast", eos_token="<|im_end|>", pad_token="<|endoftext|>", clean_up_tokenization_spaces=False,
        chat_template="{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}")) + "\n")


def build_text(cfg, seed, stored):
    """As build_weights, of the classes for text alone."""
    c = transformers.AutoConfig.for_model(**json.loads(json.dumps(cfg)))
    with torch.device("meta"):
        m = getattr(transformers, cfg["architectures"][0])(c)
    shapes = {k: tuple(v.shape) for k, v in m.state_dict().items()}
    if cfg["tie_word_embeddings"]:
        shapes.pop("lm_head.weight")
    plain = cfg["model_type"] in ("qwen3", "qwen3_moe")
    gen = torch.Generator().manual_seed(seed)
    sd = {}
    for name in sorted(shapes):
        w = g.rand_weight(name, shapes[name], gen, plain, cfg["tie_word_embeddings"])
        if name == "model.norm.weight":
            w = torch.randn(shapes[name], generator=gen) * 0.25 + (1.0 if plain else 0.0)
        sd[name] = w.to(torch.bfloat16).to(torch.float32 if name.endswith("A_log") else stored).contiguous()
    return g.numbered(sd) if "num_experts" in cfg else sd


def text_config(architecture, model_type, **more):
    c = dict(architectures=[architecture], model_type=model_type, attention_bias=False, attention_dropout=0.0, bos_token_id=None,
             eos_token_id=IDS["im_end"], hidden_act="silu", hidden_size=64, initializer_range=0.02, intermediate_size=96,
             max_position_embeddings=4096, num_attention_heads=2, num_key_value_heads=1, head_dim=32, num_hidden_layers=2,
             rms_norm_eps=1e-06, tie_word_embeddings=False, rope_theta=1000000, rope_scaling=None, use_cache=True,
             transformers_version="4.57.0", vocab_size=VOCAB)
    c.update(more)
    return c


def convert(d, out, *flags, cut="qwen35"):
    subprocess.run([sys.executable, __file__, str(OUT), str(SOURCE), "--convert", cut, str(d), "--outfile", str(out), *flags], check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def pack(source, out, default, kinds):
    """llama-quantize: kinds are patterns of tensors with their types."""
    flags = [f for k in kinds for f in ("--tensor-type", k)]
    subprocess.run([QUANTIZE, "--allow-requantize", "--pure", *flags, str(source), str(out), default, "1"], check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


EXPERTS = dict(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=32)
LINEAR = dict(full_attention_interval=2, linear_conv_kernel_dim=4, linear_key_head_dim=16, linear_num_key_heads=2, linear_num_value_heads=6,
              linear_value_head_dim=16)
TOWER = dict(depth=2, hidden_size=32, num_heads=2, intermediate_size=64, num_position_embeddings=16)


def models():
    small = dict(num_hidden_layers=2, layer_types=["linear_attention", "full_attention"], num_attention_heads=2, num_key_value_heads=1,
                 head_dim=32, intermediate_size=64, rope_parameters=ROPE)
    jobs = [
        ("q35", g.q35_config(VOCAB, False, dict(small, linear_key_head_dim=32, linear_value_head_dim=32), TOWER), True),
        ("q35moe", g.q35_config(VOCAB, True, dict(small, **EXPERTS, shared_expert_intermediate_size=32), TOWER, moe=True), True),
        ("vl", g.vl_config(VOCAB, False, dict(num_hidden_layers=1, intermediate_size=64), dict(TOWER, depth=2, hidden_size=16, intermediate_size=32,
                                                                              deepstack_visual_indexes=[1])), False),
        ("vlmoe", g.vl_config(VOCAB, True, dict(num_hidden_layers=1, num_experts=3, num_experts_per_tok=2, moe_intermediate_size=32), TOWER, moe=True), False),
    ]
    for number, (name, cfg, head) in enumerate(jobs):
        d = OUT / name
        if "num_experts" in cfg["text_config"] and name == "q35moe":
            cfg["text_config"].pop("intermediate_size", None)
        sd = g.build_weights(cfg, 3000 + number, torch.bfloat16, ("A_log", "linear_attn.norm.weight"), head)
        tower = not name.endswith("moe")
        g.write_checkpoint(d, cfg, sd if tower else {k: v for k, v in sd.items() if ".visual." not in k})
        (d / "video_preprocessor_config.json").unlink()
        tokenizer(d)
        convert(d, d / "model.gguf", "--outtype", "bf16")
        if tower:
            convert(d, d / "mmproj.gguf", "--outtype", "bf16", "--mmproj")
    text = [
        ("next", text_config("Qwen3NextForCausalLM", "qwen3_next", **LINEAR, **EXPERTS, tie_word_embeddings=True, partial_rotary_factor=0.25, decoder_sparse_step=1,
                             mlp_only_layers=[], norm_topk_prob=True, shared_expert_intermediate_size=32), torch.bfloat16, ["--no-mtp"]),
        ("q3moe", text_config("Qwen3MoeForCausalLM", "qwen3_moe", **EXPERTS, tie_word_embeddings=True, decoder_sparse_step=1, mlp_only_layers=[], norm_topk_prob=True,
                              sliding_window=None, use_sliding_window=False, num_hidden_layers=1), torch.bfloat16, []),
        ("q3", text_config("Qwen3ForCausalLM", "qwen3", num_hidden_layers=1, tie_word_embeddings=True, sliding_window=None, use_sliding_window=False,
                           attention_bias=True, rope_scaling=YARN), torch.float32, ["--fuse-qkv"]),
        ("super", text_config("Qwen3ForCausalLM", "qwen3", hidden_size=256, intermediate_size=256, num_attention_heads=4, head_dim=64,
                              num_hidden_layers=2, tie_word_embeddings=True, sliding_window=None, use_sliding_window=False), torch.bfloat16, []),
    ]
    for number, (name, cfg, stored, flags) in enumerate(text):
        d = OUT / name
        d.mkdir(parents=True)
        (d / "config.json").write_text(json.dumps(cfg, indent=4) + "\n")
        save_file(build_text(cfg, 3100 + number, stored), d / "model.safetensors", metadata={"format": "pt"})
        tokenizer(d)
        convert(d, d / "model.gguf", "--outtype", "f32" if stored == torch.float32 else "bf16", *flags)


def windows():
    d = OUT / "q25"
    cfg = dict(w.text(VOCAB, hidden_size=64, intermediate_size=96, num_attention_heads=2, num_key_value_heads=1,
                      rope_scaling=dict(type="mrope", mrope_section=[8, 4, 4])),
               **w.top(VOCAB, tie_word_embeddings=False, transformers_version="4.41.2",
                       vision_config=w.vision(64, hidden_size=36, num_heads=3, depth=4, intermediate_size=44, window_size=112,
                                              fullatt_block_indexes=[1, 3])))
    d.mkdir()
    (d / "config.json").write_text(json.dumps(cfg, indent=4) + "\n")
    (d / "generation_config.json").write_text(json.dumps(dict(eos_token_id=[IDS["im_end"], IDS["endoftext"]])) + "\n")
    (d / "preprocessor_config.json").write_text(json.dumps(w.PREPROC, indent=2) + "\n")
    save_file({w.published(k): v for k, v in w.build(cfg, 3200, torch.bfloat16).items()}, d / "model.safetensors", metadata={"format": "pt"})
    tokenizer(d, "qwen2")
    convert(d, d / "model.gguf", "--outtype", "bf16", cut="qwen2")
    convert(d, d / "mmproj.gguf", "--outtype", "bf16", "--mmproj", cut="qwen2")


def variants():
    for name in ("apart", "parts", "blocks", "moeblocks"):
        (OUT / name).mkdir()
    q35 = OUT / "q35"
    convert(q35, OUT / "apart" / "model.gguf", "--outtype", "bf16", "--no-mtp")
    convert(q35, OUT / "apart" / "mtp-model.gguf", "--outtype", "bf16", "--mtp")
    convert(q35, OUT / "parts" / "model.gguf", "--outtype", "bf16", "--split-max-tensors", "20")
    shutil.copy(q35 / "mmproj.gguf", OUT / "apart" / "mmproj-model.gguf")
    kinds = ["attn_qkv=q8_0", "attn_gate=q5_0", "ssm_out=q4_0", "ssm_alpha=q8_0", "ssm_beta=q4_1", "attn_q=q4_1", "attn_k=q5_1", "attn_v=iq4_nl",
             "attn_output=q5_0", "ffn_down=q5_1", "ffn_up=iq4_nl", "ffn_gate=q4_0", "eh_proj=q8_0", "token_embd=q8_0", "output=q4_0"]
    pack(q35 / "model.gguf", OUT / "blocks" / "model.gguf", "q8_0", kinds)
    pack(q35 / "mmproj.gguf", OUT / "blocks" / "mmproj.gguf", "q8_0", [])
    pack(OUT / "q35moe" / "model.gguf", OUT / "moeblocks" / "model.gguf", "q8_0",
         ["ffn_gate_exps=q4_0", "ffn_up_exps=q5_1", "ffn_down_exps=q4_1", "ssm_out=q5_0"])
    d = OUT / "super"
    second = {"attn_q": "q2_k", "attn_k": "q3_k", "attn_v": "iq4_xs", "attn_output": "q3_k", "ffn_gate": "q2_k", "ffn_up": "iq4_xs",
              "ffn_down": "q3_k"}
    pack(d / "model.gguf", d / "packed.gguf", "q4_k", [f"blk.1.{k}={v}" for k, v in second.items()] +
         ["attn_q=q5_k", "attn_k=q6_k", "ffn_down=q6_k", "ffn_up=q5_k"])
    os.replace(d / "packed.gguf", d / "model.gguf")
    (d / "model.safetensors").unlink()
    t = OUT / "tokenizer"
    shutil.copytree(Path(__file__).resolve().parents[2] / "models/tiny", t)
    convert(t, OUT / "tokenizer.gguf", "--vocab-only")
    shutil.rmtree(t)
    t.mkdir()
    os.replace(OUT / "tokenizer.gguf", t / "model.gguf")


def types():
    rng = np.random.default_rng(11)
    tensors = {}
    for name in ("F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "IQ4_NL", "Q4_K", "Q5_K", "Q6_K", "Q2_K", "Q3_K", "IQ4_XS"):
        kind = gguf.GGMLQuantizationType[name]
        block, size = gguf.GGML_QUANT_SIZES[kind]
        count = 8 if block > 1 else 256
        blocks = rng.integers(0, 256, (count, size), dtype=np.uint8)
        half = rng.standard_normal((count, 2)).astype(np.float16).view(np.uint8).reshape(count, 4)
        if name == "F32":
            blocks = rng.standard_normal(count).astype(np.float32).view(np.uint8).reshape(count, 4)
        elif block == 1:
            blocks[:, 1] &= 0xBF  # finite
        elif name in ("Q6_K", "Q3_K"):
            blocks[:, -2:] = half[:, :2]
        elif name == "Q2_K":
            blocks[:, -4:] = half
        else:
            n = 4 if name in ("Q4_1", "Q5_1", "Q4_K", "Q5_K") else 2
            blocks[:, :n] = half[:, :n]
        tensors[name + ".blocks"] = np.ascontiguousarray(blocks)
        if name == "F16":
            numbers = blocks.view(np.float16).astype(np.float32)
        elif name == "F32":
            numbers = blocks.view(np.float32)
        else:
            numbers = gguf.dequantize(blocks, kind)
        tensors[name + ".numbers"] = np.ascontiguousarray(numbers.reshape(-1).astype(np.float32))
    save_numpy(tensors, OUT / "types.safetensors")




def seed(w, name, shape, kind="F32"):
    """A tensor of zeroes."""
    kind = gguf.GGMLQuantizationType[kind]
    block, size = gguf.GGML_QUANT_SIZES[kind]
    data = np.zeros((*shape[:-1], shape[-1] // block * size), np.uint8)
    w.add_tensor(name, data if block > 1 else data.view({4: np.float32, 2: np.float16}[size]), raw_dtype=kind if block > 1 else None)


def corpus(folder):
    """Seeds for the fuzz target: a model with a linear layer, a full one and a draft head, its tower, both as small as may be."""
    folder.mkdir(parents=True, exist_ok=True)
    C, F, V = 32, 32, 8
    w = gguf.GGUFWriter(folder / "text", "qwen35")
    for key, value in dict(block_count=3, context_length=64, embedding_length=C, feed_forward_length=F, nextn_predict_layers=1).items():
        w.add_uint32("qwen35." + key, value)
    for key, value in {"attention.head_count": 1, "attention.head_count_kv": 1, "attention.key_length": 32, "rope.dimension_count": 8,
                       "ssm.conv_kernel": 2, "ssm.group_count": 1, "ssm.time_step_rank": 2, "ssm.state_size": 8, "ssm.inner_size": 16}.items():
        w.add_uint32("qwen35." + key, value)
    w.add_float32("qwen35.rope.freq_base", 10000)
    w.add_float32("qwen35.attention.layer_norm_rms_epsilon", 1e-6)
    w.add_array("qwen35.rope.dimension_sections", [2, 1, 1, 0])
    w.add_float32("general.sampling.temp", 0.5)
    w.add_tokenizer_model("gpt2")
    w.add_tokenizer_pre("qwen35")
    w.add_token_list(["a", "b", "ab", "\u0120", "<|endoftext|>", "<|image_pad|>", "<|im_end|>", "[PAD7]"])
    w.add_token_types([1, 1, 1, 1, 3, 3, 3, 5])
    w.add_token_merges(["a b"])
    w.add_eos_token_id(6)
    w.add_chat_template("{{ messages[0].content }}")
    seed(w, "token_embd.weight", (V, C), "Q8_0")
    seed(w, "output_norm.weight", (C,))
    for i in range(3):
        p = f"blk.{i}."
        seed(w, p + "attn_norm.weight", (C,))
        seed(w, p + "post_attention_norm.weight", (C,))
        for name, kind in (("ffn_gate", "Q4_0"), ("ffn_up", "Q5_1"), ("ffn_down", "IQ4_NL")):
            seed(w, p + name + ".weight", (F, C), kind)
        if i == 0:
            for name, shape in {"ssm_a": (2,), "ssm_dt.bias": (2,), "ssm_norm.weight": (8,), "ssm_conv1d.weight": (32, 2),
                                "attn_qkv.weight": (32, C), "attn_gate.weight": (16, C), "ssm_alpha.weight": (2, C), "ssm_beta.weight": (2, C),
                                "ssm_out.weight": (C, 16)}.items():
                seed(w, p + name, shape)
        else:
            for name, shape in {"attn_q.weight": (64, C), "attn_k.weight": (32, C), "attn_v.weight": (32, C), "attn_output.weight": (C, 32)}.items():
                seed(w, p + name, shape, "Q8_0")
            seed(w, p + "attn_q_norm.weight", (32,))
            seed(w, p + "attn_k_norm.weight", (32,))
    seed(w, "blk.2.nextn.eh_proj.weight", (C, 2 * C), "Q4_1")
    for name in ("enorm", "hnorm", "shared_head_norm"):
        seed(w, f"blk.2.nextn.{name}.weight", (C,))
    text = finish(w)
    w = gguf.GGUFWriter(folder / "tower", "clip")
    w.add_type("mmproj")
    w.add_string("clip.projector_type", "qwen3vl_merger")
    for key, value in {"block_count": 1, "embedding_length": 8, "feed_forward_length": 8, "attention.head_count": 1, "patch_size": 2,
                       "projection_dim": C, "spatial_merge_size": 2}.items():
        w.add_uint32("clip.vision." + key, value)
    w.add_array("clip.vision.image_mean", [0.5, 0.5, 0.5])
    w.add_array("clip.vision.image_std", [0.5, 0.5, 0.5])
    w.add_array("clip.vision.is_deepstack_layers", [False])
    for name, shape in {"v.patch_embd.weight": (8, 3, 2, 2), "v.patch_embd.weight.1": (8, 3, 2, 2), "v.patch_embd.bias": (8,),
                        "v.position_embd.weight": (4, 8), "v.post_ln.weight": (8,), "v.post_ln.bias": (8,), "mm.0.weight": (32, 32),
                        "mm.0.bias": (32,), "mm.2.weight": (C, 32), "mm.2.bias": (C,), "v.blk.0.attn_qkv.weight": (24, 8),
                        "v.blk.0.attn_qkv.bias": (24,), "v.blk.0.attn_out.weight": (8, 8), "v.blk.0.attn_out.bias": (8,),
                        "v.blk.0.ffn_up.weight": (8, 8), "v.blk.0.ffn_up.bias": (8,), "v.blk.0.ffn_down.weight": (8, 8),
                        "v.blk.0.ffn_down.bias": (8,), "v.blk.0.ln1.weight": (8,), "v.blk.0.ln1.bias": (8,), "v.blk.0.ln2.weight": (8,),
                        "v.blk.0.ln2.bias": (8,)}.items():
        seed(w, name, shape)
    tower = finish(w)
    (folder / "both").write_bytes(b"\0" + len(text).to_bytes(3, "little") + text + tower)
    (folder / "tower").unlink()


def window_corpus(folder):
    """The same of Qwen2.5-VL, whose queries, keys and values are together in one block and apart in the other."""
    C, F, V, S = 32, 32, 8, 12
    w = gguf.GGUFWriter(folder / "words", "qwen2vl")
    for key, value in {"block_count": 1, "context_length": 64, "embedding_length": C, "feed_forward_length": F, "attention.head_count": 2,
                       "attention.head_count_kv": 1}.items():
        w.add_uint32("qwen2vl." + key, value)
    w.add_float32("qwen2vl.rope.freq_base", 10000)
    w.add_float32("qwen2vl.attention.layer_norm_rms_epsilon", 1e-6)
    w.add_array("qwen2vl.rope.dimension_sections", [4, 2, 2, 0])
    w.add_tokenizer_model("gpt2")
    w.add_tokenizer_pre("qwen2")
    w.add_token_list(["a", "b", "ab", "\u0120", "<|endoftext|>", "<|image_pad|>", "<|im_end|>", "<|video_pad|>"])
    w.add_token_types([1, 1, 1, 1, 3, 3, 3, 3])
    w.add_token_merges(["a b"])
    w.add_eos_token_id(6)
    seed(w, "token_embd.weight", (V, C), "Q8_0")
    seed(w, "output_norm.weight", (C,))
    for name, shape in {"attn_norm.weight": (C,), "ffn_norm.weight": (C,), "attn_q.bias": (C,), "attn_k.bias": (16,),
                        "attn_v.bias": (16,)}.items():
        seed(w, "blk.0." + name, shape)
    for name, shape in {"attn_q": (C, C), "attn_k": (16, C), "attn_v": (16, C), "attn_output": (C, C), "ffn_gate": (F, C), "ffn_up": (F, C),
                        "ffn_down": (C, F)}.items():
        seed(w, f"blk.0.{name}.weight", shape, "Q8_0")
    text = finish(w)
    w = gguf.GGUFWriter(folder / "tower", "clip")
    w.add_type("mmproj")
    w.add_string("clip.projector_type", "qwen2.5vl_merger")
    for key, value in {"block_count": 2, "embedding_length": S, "feed_forward_length": 8, "attention.head_count": 1, "patch_size": 14,
                       "projection_dim": C, "n_wa_pattern": 2}.items():
        w.add_uint32("clip.vision." + key, value)
    w.add_array("clip.vision.image_mean", [0.5, 0.5, 0.5])
    w.add_array("clip.vision.image_std", [0.5, 0.5, 0.5])
    shapes = {"v.patch_embd.weight": (S, 3, 14, 14), "v.patch_embd.weight.1": (S, 3, 14, 14), "v.post_ln.weight": (S,),
              "mm.0.weight": (4 * S, 4 * S), "mm.0.bias": (4 * S,), "mm.2.weight": (C, 4 * S), "mm.2.bias": (C,)}
    for i in range(2):
        names = {"attn_qkv": 3 * S} if i else {"attn_q": S, "attn_k": S, "attn_v": S}
        for name, rows in names.items():
            shapes.update({f"v.blk.{i}.{name}.bias": (rows,), f"v.blk.{i}.{name}.weight": (rows, S)})
        for name, rows, columns in (("attn_out", S, S), ("ffn_gate", 8, S), ("ffn_up", 8, S), ("ffn_down", S, 8)):
            shapes.update({f"v.blk.{i}.{name}.weight": (rows, columns), f"v.blk.{i}.{name}.bias": (rows,)})
        shapes.update({f"v.blk.{i}.ln1.weight": (S,), f"v.blk.{i}.ln2.weight": (S,)})
    for name, shape in shapes.items():
        seed(w, name, shape, "F16" if len(shape) == 4 else "F32")
    tower = finish(w)
    (folder / "windows").write_bytes(b"\0" + len(text).to_bytes(3, "little") + text + tower)
    (folder / "words").unlink()
    (folder / "tower").unlink()


def finish(w):
    path = w.path
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()
    return Path(path).read_bytes()


if OUT.exists():
    shutil.rmtree(OUT)
OUT.mkdir(parents=True)
models()
windows()
variants()
types()
corpus(OUT.with_name(OUT.name + "-corpus"))
window_corpus(OUT.with_name(OUT.name + "-corpus"))
