"""How far the logits of quantised weights are from those of the source, beside the block formats of GGUF at the same bits.
usage: kl.py FORESIGHT MODEL WORK [TOKENS]: FORESIGHT is the command, MODEL a checkpoint folder, WORK an empty folder with room for
six bytes a weight, TOKENS (256) random tokens are read. Wants numpy and the PyPI package gguf, whose own code quantises and
dequantises Q4_0, Q4_1 and Q8_0; the same matrices as `foresight quantize` takes are replaced by what the format makes of them, in f32,
and the same command computes the logits. That package does not quantise Q4_K: here a fit for that form is, packed into its bytes and
read back by the package. Activations are 8-bit with quantised weights of ours, but for the rows
that say f32, and f32 with the others. Experts are left out: their tensors change their names."""
import json
import os
import shutil
import struct
import subprocess
import sys

import numpy as np
from gguf import GGMLQuantizationType as T
from gguf import quants

foresight, model, work = sys.argv[1:4]
tokens = int(sys.argv[4]) if len(sys.argv) > 4 else 256
ROWS = 4096  # at a time


def header(path):
    with open(path, "rb") as f:
        size = struct.unpack("<Q", f.read(8))[0]
        entries = json.loads(f.read(size))
    entries.pop("__metadata__", None)
    return entries, 8 + size


def source_files():
    index = os.path.join(model, "model.safetensors.index.json")
    if os.path.exists(index):
        return sorted(set(json.load(open(index))["weight_map"].values()))
    return ["model.safetensors"]


def widen(raw, dtype):
    if dtype == "BF16":
        return (raw.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
    return raw.view(np.float16 if dtype == "F16" else np.float32).astype(np.float32)


def fit_q4_k(x):
    """Rows of 256 as Q4_K: eight blocks of 32, w = d * scale * q - dmin * min, 6-bit scales and mins, f16 d and dmin."""
    b = x.reshape(-1, 8, 32)
    low, high = np.minimum(b.min(2), 0), b.max(2)
    best = np.full(low.shape, np.inf, np.float32)
    scale, least = np.zeros_like(low), np.zeros_like(low)
    for cut_low in (0, 0.08, 0.16):
        for cut_high in (0, 0.08, 0.16):
            s = np.maximum((high * (1 - cut_high) - low * (1 - cut_low)) / 15, 1e-12)
            q = np.clip(np.rint((b - (low * (1 - cut_low))[..., None]) / s[..., None]), 0, 15)
            sq, sx, qq, qx = q.sum(2), b.sum(2), (q * q).sum(2), (q * b).sum(2)
            spread = np.maximum(32 * qq - sq * sq, 1e-12)
            s = np.maximum((32 * qx - sq * sx) / spread, 1e-12)
            m = np.minimum((sx - s * sq) / 32, 0)
            q = np.clip(np.rint((b - m[..., None]) / s[..., None]), 0, 15)
            error = ((s[..., None] * q + m[..., None] - b) ** 2).sum(2)
            better = error < best
            best, scale, least = np.where(better, error, best), np.where(better, s, scale), np.where(better, -m, least)
    d = (scale.max(1) / 63).astype(np.float16)
    dmin = (least.max(1) / 63).astype(np.float16)
    safe = lambda v: np.where(v > 0, v, 1).astype(np.float32)[:, None]
    sc = np.clip(np.rint(scale / safe(d)), 0, 63).astype(np.uint8)
    mn = np.clip(np.rint(least / safe(dmin)), 0, 63).astype(np.uint8)
    s, m = d.astype(np.float32)[:, None] * sc, dmin.astype(np.float32)[:, None] * mn
    q = np.where(s[..., None] > 0, np.clip(np.rint((b + m[..., None]) / np.where(s > 0, s, 1)[..., None]), 0, 15), 0).astype(np.uint8)
    packed = np.empty((len(b), 12), np.uint8)
    packed[:, 0:4] = sc[:, :4] & 63 | (sc[:, 4:] >> 4) << 6
    packed[:, 4:8] = mn[:, :4] & 63 | (mn[:, 4:] >> 4) << 6
    packed[:, 8:12] = sc[:, 4:] & 15 | (mn[:, 4:] & 15) << 4
    nibbles = (q[:, 0::2] | q[:, 1::2] << 4).reshape(len(b), 128)
    return np.concatenate([d.view(np.uint8).reshape(-1, 2), dmin.view(np.uint8).reshape(-1, 2), packed, nibbles], axis=1)


def through(kind, x):
    if kind == T.Q4_K:
        return quants.dequantize(fit_q4_k(x.reshape(-1, 256)), kind).reshape(x.shape)
    return quants.dequantize(quants.quantize(x, kind), kind)


def read_tensor(folder, name, entries, base, file):
    e = entries[name]
    data = np.memmap(os.path.join(folder, file), np.uint8, "r", base)
    return np.array(data[e["data_offsets"][0]:e["data_offsets"][1]]), e


def ours_of(folder, name, bits, group):
    """A matrix of a checkpoint that `foresight quantize` made, dequantised: by the rows that are asked for, in order."""
    index = json.load(open(os.path.join(folder, "model.safetensors.index.json")))["weight_map"]
    module, at = name[:-len(".weight")], 0
    parts = []
    for end in ".weight", ".scales", ".biases":
        file = index[module + end]
        parts.append(read_tensor(folder, module + end, *header(os.path.join(folder, file)), file))
    (words, e), (scales, s), (biases, _) = parts
    N, K = int(np.prod(e["shape"][:-1])), e["shape"][-1] * 32 // bits
    words = words.reshape(N, -1)
    scales, biases = widen(scales, s["dtype"]).reshape(N, -1), widen(biases, s["dtype"]).reshape(N, -1)

    def take(x):
        nonlocal at
        rows = slice(at, at + len(x))
        at += len(x)
        q = words[rows] if bits == 8 else np.stack([words[rows] & 15, words[rows] >> 4], axis=2).reshape(len(x), K)
        y = q.reshape(len(x), -1, group) * scales[rows][..., None] + biases[rows][..., None]
        return y.reshape(x.shape)

    return take


def write_through(kind, names, out):
    """The source with the named matrices put through a format (or a function of the name); returns their mean relative RMS
    error."""
    os.mkdir(out)
    for f in os.listdir(model):
        if f.endswith((".json", ".jinja", ".txt")) and not f.endswith(".index.json"):
            shutil.copy(os.path.join(model, f), out)
    errors, files = [], source_files()
    for i, name in enumerate(files):
        entries, base = header(os.path.join(model, name))
        data = np.memmap(os.path.join(model, name), np.uint8, "r", base)
        table, at = {}, 0
        for key, e in entries.items():
            size = e["data_offsets"][1] - e["data_offsets"][0]
            if key in names:
                size = int(np.prod(e["shape"])) * 4
            table[key] = dict(dtype="F32" if key in names else e["dtype"], shape=e["shape"], data_offsets=[at, at + size])
            at += size
        text = json.dumps(table).encode()
        to = "model.safetensors" if len(files) == 1 else "model-%05d-of-%05d.safetensors" % (i + 1, len(files))
        with open(os.path.join(out, to), "wb") as f:
            f.write(struct.pack("<Q", len(text)) + text)
            for key, e in entries.items():
                raw = data[e["data_offsets"][0]:e["data_offsets"][1]]
                if key not in names:
                    f.write(raw.tobytes())
                    continue
                K, error, square = e["shape"][-1], 0.0, 0.0
                through_it = kind(key) if callable(kind) else lambda x: through(kind, x)
                step = ROWS * K * (4 if e["dtype"] == "F32" else 2)
                for begin in range(0, len(raw), step):
                    x = widen(np.array(raw[begin:begin + step]), e["dtype"]).reshape(-1, K)
                    y = through_it(x).astype(np.float32)
                    error += float(((x - y).astype(np.float64) ** 2).sum())
                    square += float((x.astype(np.float64) ** 2).sum())
                    f.write(y.tobytes())
                errors.append((error / square) ** 0.5)
    return sum(errors) / len(errors)


def logits(folder):
    out = os.path.join(work, "logits.safetensors")
    subprocess.run([foresight, "logits", "--model", folder, "--ids", os.path.join(work, "ids.json"), "--out", out], check=True)
    entries, base = header(out)
    e = entries["logits"]
    with open(out, "rb") as f:
        f.seek(base + e["data_offsets"][0])
        x = np.frombuffer(f.read(e["data_offsets"][1] - e["data_offsets"][0]), np.float32).reshape(e["shape"])
    os.remove(out)
    return x


def compare(a, b):
    """Mean and largest KL divergence in nats, share of equal likeliest tokens; a row at a time."""
    total, most, same = 0.0, 0.0, 0
    for x, y in zip(a, b):
        x, y = x.astype(np.float64), y.astype(np.float64)
        p, q = x - x.max(), y - y.max()
        p, q = p - np.log(np.exp(p).sum()), q - np.log(np.exp(q).sum())
        kl = float((np.exp(p) * (p - q)).sum())
        total, most, same = total + kl, max(most, kl), same + (x.argmax() == y.argmax())
    return total / len(a), most, same / len(a)


def vocabulary():
    config = json.load(open(os.path.join(model, "config.json")))
    return config.get("text_config", config)["vocab_size"]


os.makedirs(work, exist_ok=True)
rng = np.random.default_rng(1)
json.dump([int(i) for i in rng.integers(0, vocabulary(), tokens)], open(os.path.join(work, "ids.json"), "w"))
reference = logits(model)
print("| weights | bits a weight | relative RMS error | KL mean, nats | KL most | same likeliest token |\n|---|---|---|---|---|---|")


def row(name, bits, error, folder):
    mean, most, same = compare(reference, logits(folder))
    shutil.rmtree(folder)
    print(f"| {name} | {bits} | {100 * error:.2f} % | {mean:.6f} | {most:.6f} | {100 * same:.1f} % |", flush=True)


names = None
for bits, group, extra in (4, 64, []), (4, 32, []), (4, 64, ["--head-bits", "8"]), (8, 64, []), (8, 32, []):
    folder = os.path.join(work, "ours")
    done = subprocess.run([foresight, "quantize", model, folder, "--bits", str(bits), "--group", str(group), "--json", *extra],
                          check=True, capture_output=True)
    report = json.load(open(os.path.join(folder, "quantization_report.json")))
    names = {m["name"] + ".weight" for m in report["modules"] if "bits" in m}
    label = f"{bits} bits, groups of {group}" + (", 8-bit head" if extra else "")
    error = json.loads(done.stdout)["mean_error"]
    if group == 64 and not extra:
        plain = os.path.join(work, "plain")
        write_through(lambda name: ours_of(folder, name, bits, group), names, plain)
        row(label + ", f32 activations", bits + 32 / group, error, plain)
    row(label, bits + 32 / group, error, folder)
for kind, bits in (T.Q4_0, 4.5), (T.Q4_K, 4.5), (T.Q4_1, 5.0), (T.Q8_0, 8.5):
    folder = os.path.join(work, "theirs")
    error = write_through(kind, names, folder)
    row(kind.name + (" (fitted here)" if kind == T.Q4_K else ""), bits, error, folder)
