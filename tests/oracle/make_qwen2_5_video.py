#!/usr/bin/env python3
"""Videos of Qwen2.5-VL: what the reference makes of frames, for tests/data/qwen2_5_video.tar.xz.

    python make_qwen2_5_video.py FOLDER FRAMES TEMPLATE

FRAMES: the folder that make_video.py wrote; TEMPLATE: the published chat_template.json. Writes into FOLDER a small checkpoint with
random weights and the tokenizer of models/tiny, video.json (which frames are taken of a video, how large they become, what a folder's
settings mean, prompts with their ids, grids, seconds and the digest of their pixels) and golden_N.safetensors (positions, the last
norm's output and logits of prompt N). Deterministic; reference: Qwen2_5_VLProcessor, Qwen2VLVideoProcessor and the model class of
transformers in float32, eager attention, on weights upcast from the stored type."""
import hashlib, json, shutil, sys, tempfile
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from safetensors.torch import save_file

for name in ("nms", "qnms"):  # torchvision's compiled operators are not needed: its resize is torch's own
    try:
        torch.library.define("torchvision::" + name, "(Tensor a, Tensor b, float c) -> Tensor")
    except RuntimeError:
        pass

import make_goldens as g  # reads FOLDER from the command line too
import make_qwen2_5 as q
from transformers import AutoTokenizer, AutoVideoProcessor, Qwen2_5_VLProcessor, Qwen2VLImageProcessor, Qwen2VLVideoProcessor
from transformers.models.qwen2_vl.video_processing_qwen2_vl import smart_resize
from transformers.video_utils import VideoMetadata

TINY = Path(__file__).resolve().parent.parent.parent / "models" / "tiny"
VOCAB = 1280


def ids_of(tokenizer):
    names = dict(endoftext="<|endoftext|>", im_start="<|im_start|>", im_end="<|im_end|>", vision_start="<|vision_start|>",
                 vision_end="<|vision_end|>", image="<|image_pad|>", video="<|video_pad|>")
    return {k: tokenizer.convert_tokens_to_ids(v) for k, v in names.items()}


def checkpoint(tokenizer, template):
    ids = ids_of(tokenizer)
    g.ids_for = lambda vocab: ids  # those of this tokenizer
    cfg = q.top(VOCAB, tie_word_embeddings=False, transformers_version="4.57.0",
                text_config=q.text(VOCAB, model_type="qwen2_5_vl_text", hidden_size=32, intermediate_size=48, num_attention_heads=2,
                                   num_key_value_heads=1,
                                   rope_scaling=dict(mrope_section=[2, 3, 3], rope_type="default", type="default")),
                vision_config=q.vision(32, model_type="qwen2_5_vl", depth=2, intermediate_size=42, window_size=56,
                                       fullatt_block_indexes=[1]))
    d = g.OUT / "clips"
    d.mkdir(parents=True, exist_ok=True)
    save_file(q.build(cfg, 3100, torch.bfloat16), d / "model.safetensors", metadata={"format": "pt"})
    (d / "config.json").write_text(json.dumps(cfg, indent=4, sort_keys=True) + "\n")
    (d / "generation_config.json").write_text(json.dumps(dict(eos_token_id=[ids["im_end"], ids["endoftext"]])) + "\n")
    (d / "preprocessor_config.json").write_text(json.dumps(q.PREPROC, indent=2) + "\n")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(TINY / name, d / name)
    shutil.copy(template, d / "chat_template.json")
    return d, cfg


def sampling(rng):
    """Which frames are taken; null: the reference fails."""
    rows = []

    def add(total, fps, wanted, low, high, number, patch):
        p = Qwen2VLVideoProcessor(min_frames=low, max_frames=high, temporal_patch_size=patch, do_sample_frames=True,
                                  **(dict(num_frames=number) if number else {}))
        try:
            taken = p.sample_frames(VideoMetadata(total_num_frames=total, fps=fps), fps=wanted or None).tolist()
            if taken[-1] >= total:  # one frame too many by rounding, which is not there: it fails when frames are picked
                return
        except (ValueError, ZeroDivisionError, RuntimeError):
            taken = None
        rows.append([total, fps, wanted, low, high, number, patch, taken])

    for total in (1, 2, 3, 4, 5, 9, 100):
        for wanted in (0.1, 2, 1000):
            add(total, 25, wanted, 4, 768, 0, 2)
    for number in (1, 2, 3, 5, 7, 30):
        add(24, 24, 0, 4, 768, number, 2)
    for k in range(60):
        add(int(rng.integers(1, 2000)), float(np.round(rng.uniform(1, 60), 3)), float(np.round(rng.uniform(0.2, 6), 2)),
            int(rng.integers(1, 7)), int(rng.integers(6, 40)), 0, [2, 2, 2, 3, 1][k % 5])
    for total in (1999, 16411, 30011, 300007, 2999999):  # where the arithmetic's own rounding shows
        add(total, 30, 1e-9, 34, 768, 0, 2)
        add(total, 30, 1e9, 4, 46, 0, 2)
    return rows


def sizes(rng):
    rows = []
    for k in range(160):
        n = int(rng.integers(1, 200))
        h, w = (int(v) for v in rng.integers(1, [60, 3000, 700, 1400][k % 4], 2))
        low, high, cap, tokens = [(100352, 602112, False, 128000), (3136, 12845056, False, 128000), (3136, 12845056, True, 128000),
                                  (50176, 1003520, True, 2000)][k // 4 % 4]
        if k >= 150:
            h, w = 2, 100 * (k - 148)
        p = Qwen2VLVideoProcessor(size=dict(shortest_edge=low, longest_edge=high), cap_pixels_per_frame=cap, max_video_tokens=tokens)
        video = torch.zeros(1, n, 1, h, w, dtype=torch.uint8)
        seen = []
        base = type(p).__mro__[1]
        plain, base.resize = base.resize, lambda self, image, size, **kw: seen.append([size.height, size.width])
        try:
            p.resize(video, p.size, p.resample, 28, 2, cap_pixels_per_frame=cap)
            r = seen[0]
        except ValueError:
            r = None
        base.resize = plain
        rows.append([n, h, w, low, high, cap, tokens, r])
    return rows


def settings():
    """What the files of a folder mean: [model_type, files, class and settings]."""
    plain = q.PREPROC
    sized = dict(size=dict(shortest_edge=4000, longest_edge=5000), patch_size=14)
    folders = [
        {"preprocessor_config.json": plain},
        {"preprocessor_config.json": {}},
        {"preprocessor_config.json": dict(plain, image_processor_type="Qwen2VLImageProcessorFast", fps=3)},
        {"preprocessor_config.json": plain, "video_preprocessor_config.json": sized},
        {"preprocessor_config.json": plain, "video_preprocessor_config.json": dict(sized, video_processor_type="Qwen3VLVideoProcessor")},
        {"preprocessor_config.json": plain, "video_preprocessor_config.json": dict(video_processor_type="Qwen2VLVideoProcessor", fps=2,
                                                                                  do_sample_frames=True, num_frames=None, max_frames=32)},
        {"preprocessor_config.json": plain, "video_preprocessor_config.json": dict(image_processor_type="Qwen2VLImageProcessor",
                                                                                  min_pixels=3200, cap_pixels_per_frame=True)},
        {"preprocessor_config.json": plain, "processor_config.json": dict(video_processor=dict(sized, max_pixels=7777, num_frames=12))},
        {"preprocessor_config.json": plain, "processor_config.json": dict(processor_class="Qwen2_5_VLProcessor")},
    ]
    rows = []
    for model_type in ("qwen2_5_vl", "qwen3_5", "qwen3_vl"):
        for files in folders:
            with tempfile.TemporaryDirectory() as d:
                (Path(d) / "config.json").write_text(json.dumps(dict(model_type=model_type)))
                for name, value in files.items():
                    (Path(d) / name).write_text(json.dumps(value))
                p = AutoVideoProcessor.from_pretrained(d)
            rows.append([model_type, files, dict(
                kind=type(p).__name__, patch_size=p.patch_size, min_pixels=p.size.shortest_edge, max_pixels=p.size.longest_edge,
                mean=p.image_mean[0], fps=p.fps or 0, num_frames=p.num_frames or 0, min_frames=p.min_frames, max_frames=p.max_frames,
                samples=p.do_sample_frames, cap=bool(p.cap_pixels_per_frame), tokens=p.max_video_tokens)])
    return rows


def prompts(d, cfg, tokenizer, frames):
    m = g.load_hf(d, cfg)
    template = json.loads((d / "chat_template.json").read_text())["chat_template"]
    images = Qwen2VLImageProcessor(**{k: v for k, v in q.PREPROC.items() if not k.endswith(("_type", "_class"))})

    def picture(name):
        return Image.open(frames / f"{name}.png").convert("RGB")
    still = picture("still")
    clip, words = dict(type="video"), lambda s: dict(type="text", text=s)
    ask = [clip, words("What moves?")]
    two = [dict(type="image"), words("Then: "), clip, clip, words("Compare.")]
    plans = [  # videos as (name, frames, fps), content, settings (None: the folder's), what the caller wants, template options
        ([("wide", 7, 2.0)], ask, None, {}, {}),
        ([("tall", 10, 10.0)], ask, None, dict(fps=4.0), {}),
        ([("wide", 6, 1.5), ("tall", 9, 5.0)], two, None, {}, dict(add_vision_id=True)),
        ([("tall", 10, 3.0)], ask, dict(do_sample_frames=True, fps=2.0, min_frames=2, patch_size=14, size=dict(
            shortest_edge=3136, longest_edge=20000)), {}, {}),
        ([("wide", 7, 24.0)], ask, dict(cap_pixels_per_frame=True, max_video_tokens=24, patch_size=14, min_pixels=784), {}, {}),
        ([("wide", 1, 30.0)], ask, None, {}, {}),
        ([("tall", 9, 1.0), ("tall", 9, 7.5)], two, dict(do_sample_frames=True, num_frames=5, patch_size=14, size=dict(
            shortest_edge=784, longest_edge=9000)), {}, {}),
        ([("tall", 3, 29.97)], ask, dict(size=dict(shortest_edge=40000, longest_edge=60000)), {}, {}),
        ([("wide", 7, 6.0), ("wide", 7, 3.0)], two, None, dict(fps=1.0), {}),
    ]
    cases = []
    for number, (videos, content, given, wanted, options) in enumerate(plans):
        vp = AutoVideoProcessor.from_pretrained(d) if given is None else Qwen2VLVideoProcessor(**given)
        pr = Qwen2_5_VLProcessor(images, tokenizer, vp, chat_template=template)
        arrays = [np.stack([np.asarray(picture(f"{name}{i}")) for i in range(n)]) for name, n, _ in videos]
        metadata = [dict(total_num_frames=n, fps=fps) for _, n, fps in videos]
        messages = [dict(role="user", content=content)]
        text = pr.apply_chat_template(messages, tokenize=False, add_generation_prompt=True, **options)
        pictures = [still] if content is two else None
        o = pr(text=[text], images=pictures, videos=arrays, return_tensors="pt",
               videos_kwargs=dict(video_metadata=metadata, **(dict(wanted, do_sample_frames=True) if wanted else {})))
        norm = []
        hook = m.model.language_model.norm.register_forward_hook(lambda mod, a, out: norm.append(out[0].clone()))
        m.model.rope_deltas = None
        logits = m(**o).logits[0]
        hook.remove()
        table, delta = m.model.get_rope_index(o["input_ids"], o["mm_token_type_ids"], image_grid_thw=o.get("image_grid_thw"),
                                              video_grid_thw=o["video_grid_thw"], second_per_grid_ts=o["second_per_grid_ts"])
        m.model.rope_deltas = None
        tokens = m.generate(**o, max_new_tokens=8, min_new_tokens=8, do_sample=False, eos_token_id=None, pad_token_id=0)
        n = o["input_ids"].shape[1]
        save_file({"position_ids": table[:, 0].to(torch.int32).contiguous(), "rope_delta": delta[0].to(torch.int32).contiguous(),
                   "final_norm": norm[0].contiguous(), "last_logits": logits[-2:].contiguous(),
                   "decode.tokens": tokens[0, n:].to(torch.int32).contiguous()}, g.OUT / f"golden_{number}.safetensors")
        px = o["pixel_values_videos"].contiguous().numpy()
        cases.append(dict(videos=[dict(frames=v[0], count=v[1], fps=v[2]) for v in videos], pictures=int(content is two), settings=given,
                          take_fps=wanted.get("fps", 0), messages=messages, options=options, text=text, ids=o["input_ids"][0].tolist(),
                          grids=o["video_grid_thw"].tolist(), seconds=o["second_per_grid_ts"].tolist(),
                          sha256=hashlib.sha256(px.tobytes()).hexdigest()))
        print(number, n, cases[-1]["grids"], cases[-1]["seconds"], tokens[0, n:].tolist())
    return cases


def main(frames, template):
    rng = np.random.default_rng(25)
    tokenizer = AutoTokenizer.from_pretrained(TINY)
    d, cfg = checkpoint(tokenizer, template)
    J = dict(sampling_columns=["total", "fps", "wanted", "min_frames", "max_frames", "num_frames", "temporal_patch_size", "indices"],
             sampling=sampling(rng),
             size_columns=["frames", "height", "width", "min_pixels", "max_pixels", "cap_pixels_per_frame", "max_video_tokens", "result"],
             sizes=sizes(rng), settings=settings(), cases=prompts(d, cfg, tokenizer, frames / "frames"))
    (g.OUT / "video.json").write_text(json.dumps(J) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[2]), Path(sys.argv[3]))
