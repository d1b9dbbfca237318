"""Makes tests/data/sampling.tar.xz: random rows and settings, and what transformers' processors leave of them.

Needs torch and transformers (made with 2.13.0 and 5.24.0). Usage: python make_sampling.py OUT.tar.xz

cases.bin is little-endian: "SAMP", int32 count, then for each case
  int32 V, top_k, prompt ids, answer ids, biases, kept ids        (the numbers of what follows)
  f32   temperature, top_p, min_p, repetition, presence, frequency
  int32 prompt[], answer[]; (int32 id, f32 bias)[]
  int16 logits[V]           logit * 256; rows have ties
  int32 kept[]; f32 score[] as float32 after all processors
transformers has no presence and frequency penalties: those two are OpenAI's formula, applied between its processors.
Where the top-p or min-p border falls on a tie or within 1e-6 of the limit, rounding decides: such rows are drawn again.
"""
import io, struct, sys, tarfile
import numpy as np, torch
from transformers.generation import logits_process as lp

rng = np.random.default_rng(20)
f32 = lambda x: float(np.float32(x))


def draw():
    V = int(rng.choice([1, 2, 7, 60, 300, 700]))
    c = dict(V=V, temperature=1.0, top_k=0, top_p=1.0, min_p=0.0, repetition=1.0, presence=0.0, frequency=0.0)
    on = lambda p: rng.random() < p
    if on(.7): c["temperature"] = f32(rng.choice([.2, .6, .7, 1.3, 2.0, 5.0]))
    if on(.5): c["top_k"] = int(rng.choice([1, 2, 5, 20, 50, V, V + 9]))
    if on(.6): c["top_p"] = f32(rng.choice([.01, .3, .5, .8, .9, .95, .999]))
    if on(.4): c["min_p"] = f32(rng.choice([.001, .02, .05, .2, .7, 1.0]))
    if on(.5): c["repetition"] = f32(rng.choice([.8, 1.05, 1.3, 2.0]))
    if on(.4): c["presence"] = f32(rng.choice([-1, .3, 1.5, 2]))
    if on(.4): c["frequency"] = f32(rng.choice([-.5, .1, 1.1]))
    ids = lambda n: [int(i) for i in rng.integers(0, V, int(rng.integers(0, n)))]
    c["prompt"], c["answer"] = ids(40), ids(40)
    some = rng.permutation(V)[: int(rng.integers(0, min(V, 6)))] if on(.4) else []
    c["bias"] = [(int(i), f32(rng.choice([-100, -3.25, .5, 4.0, 100]))) for i in some]
    c["logits"] = np.clip(np.round(rng.standard_normal(V) * rng.choice([.5, 2, 5]) * 256), -32768, 32767).astype("<i2")
    return c


def process(c):
    x = torch.from_numpy(c["logits"].astype(np.float32) / 256)[None]
    seen = torch.tensor([c["prompt"] + c["answer"]], dtype=torch.long)
    if c["bias"]:
        x = lp.SequenceBiasLogitsProcessor([[[i], b] for i, b in c["bias"]])(seen, x)
    if c["repetition"] != 1:
        x = lp.RepetitionPenaltyLogitsProcessor(c["repetition"])(seen, x)
    count = torch.bincount(torch.tensor(c["answer"], dtype=torch.long), minlength=c["V"]).float()
    x = x - (count > 0).float() * c["presence"]
    x = x - count * c["frequency"]
    if c["temperature"] != 1:
        x = lp.TemperatureLogitsWarper(c["temperature"])(seen, x)
    if c["top_k"]:
        x = lp.TopKLogitsWarper(c["top_k"])(seen, x)
    close = False
    if c["top_p"] < 1:
        s = x[0].double().sort(descending=True).values
        p = s.softmax(0)
        before = p.cumsum(0) - p
        close |= bool(((before - c["top_p"]).abs() < 1e-6).any())
        n = int((before < c["top_p"]).sum())
        close |= n < c["V"] and float(s[n - 1]) == float(s[n])
        x = lp.TopPLogitsWarper(c["top_p"])(seen, x)
    if c["min_p"] > 0:
        p = x[0].double().softmax(0)
        close |= bool((((p / p.max()) - c["min_p"]).abs() < 1e-6).any()) and c["min_p"] < 1
        x = lp.MinPLogitsWarper(c["min_p"])(seen, x)
    return None if close else x[0].float().numpy()


out, n = io.BytesIO(), 0
while n < 400:
    c = draw()
    x = process(c)
    if x is None: continue
    kept = np.flatnonzero(x > -np.inf)
    out.write(struct.pack("<6i6f", c["V"], c["top_k"], len(c["prompt"]), len(c["answer"]), len(c["bias"]), len(kept),
                          c["temperature"], c["top_p"], c["min_p"], c["repetition"], c["presence"], c["frequency"]))
    out.write(np.array(c["prompt"] + c["answer"], "<i4").tobytes())
    for i, b in c["bias"]: out.write(struct.pack("<if", i, b))
    out.write(c["logits"].tobytes() + kept.astype("<i4").tobytes() + x[kept].astype("<f4").tobytes())
    n += 1
data = b"SAMP" + struct.pack("<i", n) + out.getvalue()
with tarfile.open(sys.argv[1], "w:xz", preset=9) as tar:
    info = tarfile.TarInfo("cases.bin")
    info.size = len(data)
    tar.addfile(info, io.BytesIO(data))
print(n, "cases,", len(data), "bytes")
