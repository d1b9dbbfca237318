"""Video: what the reference processor makes of frames, for tests/data/video.tar.xz.

    python make_video.py OUT GOLDENS        # transformers 5.24, torch, torchvision; OUT is packed with pack.sh
    python make_video.py --clip OUT         # PyAV: the small files of tests/samples, which --video reads

OUT/video.json: sampling, sizes, times, prompts. OUT/frames/*.png: the frames of two videos. GOLDENS: the folder of
make_goldens.py, of which the video case of vl_dense_bf16 is taken."""
import hashlib
import json
import shutil
import sys
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
TINY = HERE.parent.parent / "models" / "tiny"


def frame(i, n, h, w):
    """A square that moves over a gradient; texture, so that a resize shows."""
    y, x = np.mgrid[0:h, 0:w]
    f = np.stack([(x * 255) // w, (y * 255) // h, ((x // 3 + y // 3 + i) % 2) * 90 + 60], -1).astype(np.uint8)
    left, top = (w - w // 4) * i // max(n - 1, 1), (h - h // 4) * (i * 2 % n) // n
    f[top:top + h // 4, left:left + w // 4] = (250, 20 + 200 * i // n, 30)
    return f


def clip(out):
    """Frame i of the files is one colour, so that a decoded frame says which one it is."""
    import av
    import av.video.reformatter

    def write(name, codec, count, fps, options, pix="yuv420p", size=(64, 48), rotate=None):
        with av.open(str(out / name), "w") as f:
            s = f.add_stream(codec, rate=fps, options=options)
            s.width, s.height, s.pix_fmt = size[0], size[1], pix
            for i in range(count):
                a = np.zeros((size[1], size[0], 3), np.uint8)
                a[:, :] = (40 + 4 * i, 200 - 4 * i, 60)
                a[: size[1] // 2, : size[0] // 2] = (220, 30, 30 + 4 * i)  # which corner is up
                for p in s.encode(av.VideoFrame.from_ndarray(a, format="rgb24")):
                    f.mux(p)
            for p in s.encode():
                f.mux(p)

    write("clip.mp4", "libx264", 40, 10, {"crf": "12", "preset": "veryslow", "bf": "2"})
    write("clip.mkv", "ffv1", 12, 6, {}, size=(32, 32))


def main(out, goldens):
    import torch
    for name in ("nms", "qnms"):  # torchvision's compiled operators are not needed: its resize is torch's own
        try:
            torch.library.define("torchvision::" + name, "(Tensor a, Tensor b, float c) -> Tensor")
        except RuntimeError:
            pass
    from PIL import Image
    from transformers import AutoTokenizer, Qwen2VLImageProcessor
    from transformers.models.qwen3_vl.processing_qwen3_vl import Qwen3VLProcessor
    from transformers.models.qwen3_vl.video_processing_qwen3_vl import Qwen3VLVideoProcessor, smart_resize
    from transformers.video_utils import VideoMetadata

    rng = np.random.default_rng(20)
    J = {}
    tok = AutoTokenizer.from_pretrained(TINY)
    settings = json.loads((TINY / "video_preprocessor_config.json").read_text())
    images = Qwen2VLImageProcessor(**json.loads((TINY / "preprocessor_config.json").read_text()))
    template = (TINY / "chat_template.jinja").read_text()

    plain = Qwen3VLVideoProcessor()
    rows = []
    for total, fps, want in [(1, 24, None), (2, 24, None), (3, 30, None), (4, 1, None), (5, 2, None), (48, 24, None), (300, 30, None),
                             (301, 29.97, None), (719, 23.976, 1), (100000, 25, None), (77, 12.5, 4), (10, 0.5, None), (96, 24, 0.25)]:
        rows.append([total, fps, want or 0, 4, 768, plain.sample_frames(VideoMetadata(total_num_frames=total, fps=fps), fps=want).tolist()])
    few = Qwen3VLVideoProcessor(min_frames=2, max_frames=16, fps=4)
    for _ in range(40):
        total, fps = int(rng.integers(1, 400)), float(np.round(rng.uniform(1, 60), 3))
        rows.append([total, fps, 0, 2, 16, few.sample_frames(VideoMetadata(total_num_frames=total, fps=fps)).tolist()])
    J["sampling_columns"] = ["total", "fps", "wanted", "min_frames", "max_frames", "indices"]
    J["sampling"] = rows

    sizes = []
    for k in range(120):
        n = int(rng.integers(1, 200))
        h, w = (int(v) for v in rng.integers(1, [60, 3000, 700, 1400][k % 4], 2))
        low, high, cap = [(131072, 786432, False), (4096, 25165824, False), (4096, 25165824, True), (65536, 16777216, True)][k // 4 % 4]
        if k >= 110:
            h, w = 2, 100 * (k - 108)
        top = max(min(768 * 1024, high // n), int(low * 1.05)) * n if cap else high
        try:
            r = list(smart_resize(n, h, w, 2, 32, low, top))
        except ValueError:
            r = None
        sizes.append([n, h, w, low, high, cap, r])
    J["size_columns"] = ["frames", "height", "width", "min_pixels", "max_pixels", "cap_pixels_per_frame", "result"]
    J["sizes"] = sizes

    times = []
    for _ in range(40):
        n, fps = int(rng.integers(1, 12)), float(rng.choice([1, 2, 23.976, 24, 25, 29.97, 30, 59.94]))
        idx = np.sort(rng.choice(2000, n, replace=False)).tolist()
        t = Qwen3VLProcessor._calculate_timestamps(None, list(idx), fps, 2)
        times.append([idx, fps, t, [f"<{x:.1f} seconds>" for x in t]])
    J["times_columns"] = ["indices", "fps", "seconds", "text"]
    J["times"] = times

    (out / "frames").mkdir(parents=True, exist_ok=True)
    sets = {"wide": (7, 60, 90), "tall": (10, 70, 44)}
    videos = {}
    for name, (n, h, w) in sets.items():
        videos[name] = np.stack([frame(i, n, h, w) for i in range(n)])
        for i, f in enumerate(videos[name]):
            Image.fromarray(f).save(out / "frames" / f"{name}{i}.png", optimize=True)
    still = Image.fromarray(frame(0, 2, 64, 64))
    still.save(out / "frames" / "still.png", optimize=True)

    cases = []
    for name, fps, sample, extra in [("wide", 2.0, True, {}), ("wide", 1.5, False, {}), ("tall", 10.0, True, {}), ("tall", 5.0, True, {}),
                                     ("tall", 3.0, False, {}), ("wide", 2.0, True, dict(size=dict(shortest_edge=4096, longest_edge=200000)))]:
        vp = Qwen3VLVideoProcessor(**{**settings, **extra})
        pr = Qwen3VLProcessor(images, tok, vp, chat_template=template)
        v = videos[name]
        parts = [{"type": "video"}, {"type": "text", "text": "What moves?"}]
        if len(cases) % 2:
            parts = [{"type": "image"}, {"type": "text", "text": "Then: "}] + parts
        message = [{"role": "user", "content": parts}]
        options = dict(add_vision_id=True) if len(cases) in (2, 3) else {}  # "Video 1: " joins the first time when un-nested
        text = pr.apply_chat_template(message, tokenize=False, add_generation_prompt=True, **options)
        pictures = [still] if len(cases) % 2 else None
        kw = dict(video_metadata=[dict(total_num_frames=len(v), fps=fps, frames_indices=list(range(len(v))))], do_sample_frames=sample)
        o = pr(text=[text], images=pictures, videos=[v], videos_kwargs=kw, return_tensors="pt")
        nested = o["input_ids"][0].tolist()
        # Un-nested: the template's own start and end around the pad go before the tokenizer sees the text.
        q = vp([v], video_metadata=[dict(kw["video_metadata"][0])], do_sample_frames=sample, return_tensors="pt", return_metadata=True)
        pads = pr.replace_video_token(q, 0)
        flat = text.replace("<|vision_start|><|video_pad|><|vision_end|>", pads)
        if pictures:
            g = o["image_grid_thw"][0]
            flat = flat.replace("<|image_pad|>", "<|image_pad|>" * int(g.prod() // 4), 1)
        px = q["pixel_values_videos"].contiguous().numpy()
        cases.append(dict(frames=name, count=len(v), fps=fps, sample=sample, size=extra.get("size"), messages=message, options=options,
                          rendered=text, nested=nested, flat=tok(flat, add_special_tokens=False)["input_ids"], text=flat,
                          grid=q["video_grid_thw"][0].tolist(), sha256=hashlib.sha256(px.tobytes()).hexdigest()))
        assert (px == o["pixel_values_videos"].numpy()).all()
    J["cases"] = cases
    (out / "video.json").write_text(json.dumps(J) + "\n")
    shutil.copy(goldens / "models" / "vl_dense_bf16" / "golden_video.safetensors", out / "vl_dense_video.safetensors")


if __name__ == "__main__":
    if sys.argv[1] == "--clip":
        clip(Path(sys.argv[2]))
    else:
        main(Path(sys.argv[1]), Path(sys.argv[2]))
