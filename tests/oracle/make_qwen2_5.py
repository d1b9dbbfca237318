#!/usr/bin/env python3
"""Golden vectors of Qwen2.5-VL: window attention in the tower, M-RoPE in blocks, absolute time of videos.

    python make_qwen2_5.py FOLDER IMAGES TEMPLATE

writes into FOLDER two small checkpoints with random weights: bf16, untied, with nested settings and the newer names; f32, tied, flat
and with the names of published files; each with golden_CASE.safetensors of the names that make_goldens.py uses. Beside them
rope.safetensors (positions of prompts with pictures and videos), pictures.json (what the processor makes of the pictures in IMAGES,
the folder of make_goldens.py) and template_cases.json (what the published chat_template.json, the file TEMPLATE, makes of
conversations). Deterministic; reference: the classes of transformers in float32, eager attention, on weights upcast
from the stored type.
"""
import hashlib, json, random, sys
from pathlib import Path

import numpy as np
import torch
import transformers
from PIL import Image
from safetensors.torch import save_file
from transformers.vision_utils import get_vision_window_index

import make_goldens as g  # reads FOLDER from the command line too

PREPROC = dict(min_pixels=3136, max_pixels=12845056, patch_size=14, temporal_patch_size=2, merge_size=2,
               image_mean=[0.48145466, 0.4578275, 0.40821073], image_std=[0.26862954, 0.26130258, 0.27577711],
               image_processor_type="Qwen2VLImageProcessor", processor_class="Qwen2_5_VLProcessor")
SECONDS = 0.8  # of a temporal patch of the video: 1.6 positions


def text(vocab, **more):
    ids = g.ids_for(vocab)
    c = dict(attention_dropout=0.0, bos_token_id=ids["endoftext"], eos_token_id=ids["im_end"], hidden_act="silu",
             initializer_range=0.02, max_position_embeddings=4096, max_window_layers=2, num_hidden_layers=2, rms_norm_eps=1e-06,
             rope_theta=1000000.0, sliding_window=4096, use_cache=True, use_sliding_window=False, vocab_size=vocab)
    c.update(more)
    return c


def vision(out, **more):
    c = dict(hidden_act="silu", hidden_size=32, in_chans=3, num_heads=2, out_hidden_size=out, patch_size=14, spatial_merge_size=2,
             spatial_patch_size=14, temporal_patch_size=2, tokens_per_second=2)
    c.update(more)
    return c


def top(vocab, **more):
    ids = g.ids_for(vocab)
    return dict(architectures=["Qwen2_5_VLForConditionalGeneration"], model_type="qwen2_5_vl", image_token_id=ids["image"],
                video_token_id=ids["video"], vision_start_token_id=ids["vision_start"], vision_end_token_id=ids["vision_end"], **more)


def configs():
    nested = top(256, tie_word_embeddings=False, transformers_version="4.57.0",
                 text_config=text(256, model_type="qwen2_5_vl_text", hidden_size=48, intermediate_size=72, num_attention_heads=3,
                                  num_key_value_heads=1, rope_scaling=dict(mrope_section=[2, 3, 3], rope_type="default", type="default")),
                 vision_config=vision(48, model_type="qwen2_5_vl", depth=4, intermediate_size=42, window_size=112,
                                      fullatt_block_indexes=[1, 3]))
    flat = dict(text(192, hidden_size=32, intermediate_size=48, num_attention_heads=4, num_key_value_heads=2,
                     rope_scaling=dict(type="mrope", mrope_section=[1, 1, 2])),
                **top(192, tie_word_embeddings=True, torch_dtype="float32", transformers_version="4.41.2",
                      vision_config=vision(32, hidden_size=16, depth=2, intermediate_size=28, window_size=56, fullatt_block_indexes=[1])))
    return [("bf16", nested, torch.bfloat16), ("tied_f32", flat, torch.float32)]


def build(cfg, seed, stored):
    c = transformers.AutoConfig.for_model(**json.loads(json.dumps(cfg)))
    with torch.device("meta"):
        m = transformers.Qwen2_5_VLForConditionalGeneration(c)
    gen, sd = torch.Generator().manual_seed(seed), {}
    for name, like in sorted(m.state_dict().items()):
        if cfg["tie_word_embeddings"] and name == "lm_head.weight":
            continue
        if "patch_embed" in name:  # few different numbers: they pack well
            w = torch.randint(-15, 16, like.shape, generator=gen) / 256
        elif name.endswith("ln_q.weight"):
            w = torch.randn(like.shape, generator=gen) * 0.2 + 1
        else:
            w = g.rand_weight(name, tuple(like.shape), gen, True, cfg["tie_word_embeddings"])
        sd[name] = w.to(stored).contiguous()
    return sd


def published(name):
    for new, old in (("model.visual.", "visual."), ("model.language_model.", "model.")):
        if name.startswith(new):
            return old + name[len(new):]
    return name


def pixels(gen, grid):
    """Of seventeen different numbers: they pack well."""
    x = torch.randint(-8, 9, (grid[0] * grid[1] * grid[2], 3, 2, 14, 14), generator=gen) / 8
    if grid[0] == 1:
        x[:, :, 1] = x[:, :, 0]
    return x.reshape(x.shape[0], -1)


def with_seconds(core, seconds):
    """The reference's get_rope_index, but every video has these seconds."""
    plain = type(core).get_rope_index

    def index(*args, **kw):
        kw["second_per_grid_ts"] = torch.tensor(seconds)
        return plain(core, *args, **kw)
    core.get_rope_index = index


def video_tokens(ids, grid):
    return [ids["vision_start"]] + [ids["video"]] * (grid[0] * grid[1] * grid[2] // 4) + [ids["vision_end"]]


def in_order(rows, grids, tower):
    index, _ = get_vision_window_index(grids, tower.spatial_merge_size, tower.window_size, tower.patch_size)
    return rows[torch.argsort(index)]


def models():
    cases = {"bf16": ("mm", "text"), "tied_f32": ("mm", "video")}
    for number, (name, cfg, stored) in enumerate(configs()):
        d = g.OUT / name
        d.mkdir(parents=True, exist_ok=True)
        sd = build(cfg, 3000 + number, stored)
        if "text_config" not in cfg:
            sd = {published(k): v for k, v in sd.items()}
        text_config = cfg.get("text_config", cfg)
        vocab = text_config["vocab_size"]
        ids = g.ids_for(vocab)
        (d / "config.json").write_text(json.dumps(cfg, indent=4, sort_keys=True) + "\n")
        (d / "generation_config.json").write_text(json.dumps(dict(eos_token_id=[ids["im_end"], ids["endoftext"]])) + "\n")
        (d / "preprocessor_config.json").write_text(json.dumps(PREPROC, indent=2) + "\n")
        save_file(sd, d / "model.safetensors", metadata={"format": "pt"})
        m = g.load_hf(d, cfg)
        rng, gen = random.Random(60 + number), torch.Generator().manual_seed(80 + number)
        for case in cases[name]:
            kw, prompt = {}, [ids["im_start"]] + g.rand_text(rng, 20, vocab)
            if case == "mm":
                # Whole windows, and parts of them at both edges; a picture smaller than one; one of odd numbers of windows.
                grids = [(1, 10, 12), (1, 4, 6)] if number == 0 else [(1, 6, 10)]
                prompt = g.prompt_mm(rng, vocab, grids)
                kw = dict(pv=torch.cat([pixels(gen, x) for x in grids]), grid=torch.tensor(grids))
            elif case == "video":
                clip, still = (3, 4, 6), (1, 4, 2)
                prompt = ([ids["im_start"]] + g.rand_text(rng, 2, vocab) + video_tokens(ids, clip) + g.rand_text(rng, 4, vocab)
                          + g.img_tokens(ids, still) + g.rand_text(rng, 3, vocab))
                kw = dict(pv=pixels(gen, still), grid=torch.tensor([still]), pvv=pixels(gen, clip), vgrid=torch.tensor([clip]))
                with_seconds(m.model, [SECONDS])
            tensors, meta = g.run_case(m, dict(cfg, text_config=text_config), f"{name}/{case}", prompt, **kw)
            for kind, key in (("image", "grid"), ("video", "vgrid")):
                if key in kw:  # the merger's rows are in the order of windows
                    tensors[f"vision.{kind}.output"] = in_order(tensors[f"vision.{kind}.output"], kw[key], m.model.visual)
            if case == "video":
                tensors["second_per_grid_ts"] = torch.tensor([SECONDS])
            save_file({k: v.contiguous() for k, v in tensors.items()}, d / f"golden_{case}.safetensors",
                      metadata={"meta": json.dumps(meta, sort_keys=True)})
            print(name, case, json.dumps(meta))


def rope():
    cfg = configs()[0][1]
    with torch.device("meta"):
        core = transformers.Qwen2_5_VLModel(transformers.AutoConfig.for_model(**json.loads(json.dumps(cfg))))
    rng, vocab, T = random.Random(5), 256, {}
    ids = g.ids_for(vocab)
    for n in range(12):
        prompt, grids, kinds, seconds = g.rand_text(rng, rng.randrange(0, 4), vocab), [], [], []
        for _ in range(rng.randrange(1, 4)):
            kind = rng.randrange(1, 3)
            grid = (rng.randrange(1, 6) if kind == 2 else 1, 2 * rng.randrange(1, 4), 2 * rng.randrange(1, 4))
            prompt += video_tokens(ids, grid) if kind == 2 else g.img_tokens(ids, grid)
            prompt += g.rand_text(rng, rng.randrange(0, 4), vocab)
            grids.append(grid)
            kinds.append(kind)
            seconds.append(rng.choice([0.1, 0.35, 0.5, 1.0, 2.0, 3.3]) if kind == 2 else 0.0)
        of = lambda k: [x for x, y in zip(grids, kinds) if y == k]
        times = [x for x, y in zip(seconds, kinds) if y == 2]
        table, delta = core.get_rope_index(
            torch.tensor([prompt]), torch.tensor([g.mm_types(prompt, vocab)], dtype=torch.int32),
            image_grid_thw=torch.tensor(of(1)) if of(1) else None, video_grid_thw=torch.tensor(of(2)) if of(2) else None,
            second_per_grid_ts=torch.tensor(times) if times else None)
        T.update({f"{n}.input_ids": torch.tensor(prompt, dtype=torch.int32), f"{n}.grids": torch.tensor(grids, dtype=torch.int32),
                  f"{n}.seconds": torch.tensor(seconds), f"{n}.position_ids": table[:, 0].to(torch.int32).contiguous(),
                  f"{n}.rope_delta": delta[0].to(torch.int32)})
    save_file(T, g.OUT / "rope.safetensors")


def pictures(folder):
    proc = transformers.Qwen2VLImageProcessor(**{k: v for k, v in PREPROC.items() if not k.endswith(("_type", "_class"))})
    small = transformers.Qwen2VLImageProcessor(max_pixels=28 * 28 * 12)
    out = {}
    for path in sorted(Path(folder).glob("*.png")):
        for name, p in (("published", proc), ("small", small)):
            made = p(images=[Image.open(path)], return_tensors="pt")
            values = np.ascontiguousarray(made["pixel_values"].numpy())
            out.setdefault(path.name, {})[name] = dict(grid_thw=made["image_grid_thw"][0].tolist(),
                                                       sha256=hashlib.sha256(values.tobytes()).hexdigest())
    (g.OUT / "pictures.json").write_text(json.dumps(out, indent=1) + "\n")


def template(path):
    from transformers.utils.chat_template_utils import render_jinja_template
    picture, clip, words = dict(type="image"), dict(type="video"), lambda s: dict(type="text", text=s)
    conversations = [
        [dict(role="user", content=[picture, words("What is it?")])],
        [dict(role="system", content="Be brief."), dict(role="user", content=[words("Compare "), picture, picture, clip]),
         dict(role="assistant", content="Two pictures."), dict(role="user", content="And\nthe clip?")],
    ]
    (g.OUT / "bf16" / "chat_template.json").write_bytes(Path(path).read_bytes())
    source, rows = json.loads(Path(path).read_text())["chat_template"], []
    for messages in conversations:
        for more in (dict(), dict(add_generation_prompt=True), dict(add_generation_prompt=True, add_vision_id=True)):
            text = render_jinja_template([messages], chat_template=source, **more)[0][0]
            rows.append(dict(variables=dict(messages=messages, **more), text=text))
    (g.OUT / "template_cases.json").write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    models()
    rope()
    pictures(sys.argv[2])
    template(sys.argv[3])
