#!/usr/bin/env python3
"""Random checkpoints of every family, as GGUF files and as they were, through `foresight logits`.

    python try_gguf.py FORESIGHT FOLDER FIRST LAST LLAMA_CPP [LLAMA_QUANTIZE [FAMILY,...]]

For each seed from FIRST to LAST - 1: a checkpoint as try_random.py makes them, with a tokenizer, converted by LLAMA_CPP's converter to
the type that it is stored in; then the greatest difference of the two ways' logits over the greatest logit, which is 0 but for linear
layers, some of whose weights another exp has made (and whose norms the converter rounds to f16 where the checkpoint is so stored). With LLAMA_QUANTIZE the text model is packed in blocks of a random type as well, and
compared with their dequantised values (the gguf package's) in another GGUF file: activations are rounded where weights are in panels, so
that the median row may differ by some percent, and by more where other experts are picked; the latter is shown, not judged. Passed
checkpoints are deleted, others stay as FOLDER/SEED. Exits with 1 if any differs.

What the converter does not hold is left out: mscale and truncate of yarn, weights of experts that are not normed, dense layers among
those with experts, full attention of other blocks of Qwen2.5-VL's tower than every n-th, windows of other sizes than the published.
Draft heads are make_gguf.py's.
"""
import json, os, random, shutil, subprocess, sys
from pathlib import Path

import numpy as np
import torch
import transformers
from safetensors.torch import load_file as load_torch, save_file
from safetensors.numpy import load_file
from transformers.convert_slow_tokenizer import bytes_to_unicode

import try_random as t

HERE = Path(__file__).resolve().parent
TYPES = ["f16", "q8_0", "q4_0", "q4_1", "q5_0", "q5_1", "iq4_nl", "q2_k", "q3_k", "q4_k", "q5_k", "q6_k", "iq4_xs"]
CUT = dict(qwen2="(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
           qwen35="(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|"
                  "\\s+(?!\\S)|\\s+")


def tokenizer(folder, vocab, cut):
    """Bytes, pairs of letters, and sixteen special tokens."""
    letters = [c for _, c in sorted(bytes_to_unicode().items())]
    tokens, merges = {c: i for i, c in enumerate(letters)}, []
    pairs = (a + b for a in letters for b in letters if a.isalpha() and b.isalpha())
    while len(tokens) < vocab - 16:
        p = next(pairs)
        tokens[p] = len(tokens)
        merges.append([p[0], p[1]])
    special = {0: "<|endoftext|>", 9: "<|vision_start|>", 10: "<|vision_end|>", 12: "<|image_pad|>", 13: "<|video_pad|>"}
    added = [dict(id=vocab - 16 + i, content=special.get(i, f"<|reserved_{i}|>"), single_word=False, lstrip=False, rstrip=False,
                  normalized=False, special=True) for i in range(16)]
    level = dict(type="ByteLevel", add_prefix_space=False, trim_offsets=False, use_regex=False)
    with open(folder + "/tokenizer.json", "w") as f:
        json.dump(dict(version="1.0", truncation=None, padding=None, added_tokens=added, normalizer=dict(type="NFC"),
                       pre_tokenizer=dict(type="Sequence", pretokenizers=[
                           dict(type="Split", pattern=dict(Regex=CUT[cut]), behavior="Isolated", invert=False), level]),
                       post_processor=level, decoder=level,
                       model=dict(type="BPE", dropout=None, unk_token=None, continuing_subword_prefix="", end_of_word_suffix="",
                                  fuse_unk=False, byte_fallback=False, vocab=tokens, merges=merges)), f)
    with open(folder + "/tokenizer_config.json", "w") as f:
        json.dump(dict(tokenizer_class="PreTrainedTokenizerFast", eos_token="<|endoftext|>"), f)


def holdable(r, family, text, vision):
    """What the metadata can say of it."""
    for name in ("mscale", "mscale_all_dim", "truncate"):
        text["rope_parameters"].pop(name, None)
    if "norm_topk_prob" in text:
        text["norm_topk_prob"] = True
    if "mlp_only_layers" in text:
        text.update(mlp_only_layers=[], decoder_sparse_step=1)
    if vision and family == "qwen2_5_vl":  # one of fewer blocks is too much for the converter's names
        vision["depth"] = max(vision["depth"], 3)
    if vision and "fullatt_block_indexes" in vision:
        every = r.randint(1, vision["depth"])
        vision.update(window_size=112, tokens_per_second=2, fullatt_block_indexes=list(range(every - 1, vision["depth"], every)))


def as_published(folder):
    """Experts of Qwen3-VL with both axes the other way round, as the hub has them and the converter takes them."""
    for path in Path(folder).glob("*.safetensors"):
        tensors = load_torch(path)
        for name in tensors:
            if name.endswith(("experts.gate_up_proj", "experts.down_proj")):
                tensors[name] = tensors[name].transpose(1, 2).contiguous()
        save_file(tensors, path, metadata={"format": "pt"})


def make(folder, seed, families):
    r = random.Random(seed)
    family = r.choice(families)
    c, text, vision = t.config(r, family)
    holdable(r, family, text, vision)
    shutil.rmtree(folder, ignore_errors=True)
    cls = getattr(transformers, t.CLASSES[family])
    model = cls(cls.config_class(**{k: v for k, v in c.items() if k != "model_type"})).eval()
    t.weights(model, seed)
    stored = r.choice([torch.float32, torch.bfloat16, torch.float16, torch.bfloat16])
    model.to(stored).save_pretrained(folder, max_shard_size=r.choice(["400KB", "5GB"]))
    if family == "qwen3_vl_moe":
        as_published(folder)
    if vision:
        with open(folder + "/preprocessor_config.json", "w") as f:
            json.dump(dict(patch_size=vision["patch_size"], temporal_patch_size=2, merge_size=2, min_pixels=1024, max_pixels=1 << 20,
                           image_mean=[0.5] * 3, image_std=[0.5] * 3), f)
    cut = "qwen35" if family.startswith("qwen3_5") else "qwen2"
    tokenizer(folder, text["vocab_size"], cut)
    ids, inputs = t.prompt(r, text["vocab_size"], vision, seed, folder)
    with open(folder + "/ids.json", "w") as f:
        json.dump(ids, f)
    return r, family, text, vision, stored, cut, bool(inputs)


def logits(program, folder, pictures, *model):
    command = [program, "logits", "-m", *model, "--ids", folder + "/ids.json", "--out", folder + "/logits.safetensors"]
    command += ["--pixels", folder + "/pixels.safetensors"] if pictures else []
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise ValueError(done.stderr.strip())
    return load_file(folder + "/logits.safetensors")["logits"]


def plain(source, path, out):
    """A GGUF file with the same metadata and every tensor dequantised to F32."""
    sys.path.insert(0, os.path.join(source, "gguf-py"))
    import gguf
    given = gguf.GGUFReader(path)
    w = gguf.GGUFWriter(out, bytes(given.fields["general.architecture"].parts[-1]).decode())
    for name, field in given.fields.items():
        if name.startswith("GGUF.") or name == "general.architecture":
            continue
        kind = field.types[0]
        if kind == gguf.GGUFValueType.ARRAY:
            w.add_array(name, field.contents())
        else:
            w.add_key_value(name, field.contents(), kind)
    for x in given.tensors:
        shape = [int(n) for n in reversed(x.shape)]
        w.add_tensor(x.name, gguf.dequantize(x.data, x.tensor_type).reshape(shape).astype(np.float32))
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def run(program, source, quantize, folder, seed, families):
    folder = os.path.join(folder, str(seed))
    r, family, text, vision, stored, cut, pictures = make(folder, seed, families)
    name = {torch.float32: "f32", torch.bfloat16: "bf16", torch.float16: "f16"}[stored]
    files = [folder + "/model.gguf"]
    for more in [[]] + [["--mmproj"]] * bool(vision):
        out = folder + ("/mmproj.gguf" if more else "/model.gguf")
        done = subprocess.run([sys.executable, str(HERE / "make_gguf.py"), folder, source, "--convert", cut, folder, "--outfile", out,
                               "--outtype", name, *more, *["--no-mtp"] * (t.linear_family(family) and not more)], capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError("the converter: " + (done.stderr.strip().splitlines() or ["?"])[-1])
    tower = ["--mmproj", folder + "/mmproj.gguf"] if vision else []
    note = f"{name}, {text['rope_parameters']['rope_type']} rope" + (", biases" if text.get("attention_bias") else "")
    expected, got = logits(program, folder, pictures, folder), logits(program, folder, pictures, *files, *tower)
    difference = float(np.abs(got - expected).max() / np.abs(expected).max())
    good = difference <= (0 if not t.linear_family(family) else 5e-3 if stored == torch.float16 else 1e-5)
    note = f"{difference:.1e} ({note}"
    if quantize:
        kind = r.choice(TYPES)
        packed = folder + "/packed.gguf"
        done = subprocess.run([quantize, "--allow-requantize", "--pure", files[0], packed, kind, "1"], capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError("the quantizer: " + done.stderr.strip()[-200:])
        plain(source, packed, folder + "/plain.gguf")
        expected = logits(program, folder, pictures, folder + "/plain.gguf", *tower)
        got = logits(program, folder, pictures, packed, *tower)
        difference = float(np.median(np.abs(got - expected).max(-1)) / np.abs(expected).max())
        note += f"; {kind}: {difference:.1e}"
        good = good and (difference <= 0.05 or "num_experts" in text)
    if good:
        shutil.rmtree(folder)
    return family, good, note + ")"


def main():
    program, folder, first, last, source = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5]
    quantize = sys.argv[6] if len(sys.argv) > 6 else None
    families = sys.argv[7].split(",") if len(sys.argv) > 7 else list(t.CLASSES)
    bad = 0
    for seed in range(first, last):
        try:
            family, good, text = run(program, source, quantize, folder, seed, families)
        except RuntimeError as e:
            print(seed, "skipped:", e, flush=True)
            continue
        except ValueError as e:
            family, good, text = "", False, str(e)
        bad += not good
        print(seed, family, "equal" if good else "DIFFERS", text, flush=True)
    print(bad, "differ")
    sys.exit(bad > 0)


if __name__ == "__main__":
    main()
