"""Makes tests/data/quant.tar.xz: matrices quantised by MLX's affine rule in numpy, and products with quantised rows.

Needs numpy (made with 2.4.6). Usage: python make_quant.py OUT.tar.xz

cases.bin is little-endian: "QNT1", int32 count, then for each case
  int32 bits, group, N, K, source (0 f32, 1 bf16), dtype of scales (0 bf16, 1 f16), T
  matrix [N,K] f32 or bf16 (as its 16 bits)
  q [N, K*bits/32] uint32, scales and biases [N, K/group] as their 16 bits
  f32 dequantised [N,K]: scale * q + bias rounded once
  f32 x[T,K]; int8 q_x[T,K]; f32 scale_x[T, K/group]; f64 y[T,N]: the product of what both stand for
The rule: edge is the end of the group's range that is farther from 0, the scale divides the range in 2^bits - 1 steps and
is then bent so that 0 is a multiple of it. q is taken from the rounded scale and bias.
"""
import io, struct, sys, tarfile
import numpy as np

f32 = np.float32
rng = np.random.default_rng(5)


def bf16_bits(x):
    u = np.asarray(x, f32).view(np.uint32)
    return ((u + 0x7FFF + ((u >> 16) & 1)) >> 16).astype(np.uint16)


def bf16_value(h):
    return (h.astype(np.uint32) << 16).view(f32)


def quantise(w, bits, group, dtype):
    g = w.reshape(w.shape[0], -1, group)
    low, high, top = g.min(-1), g.max(-1), f32(2**bits - 1)
    from_low = np.abs(low) > np.abs(high)
    scale = np.maximum((high - low) / top, f32(1e-7))
    scale = np.where(from_low, scale, -scale).astype(f32)
    edge = np.where(from_low, low, high)
    z = np.round(edge / scale)
    with np.errstate(divide="ignore", invalid="ignore"):
        scale = np.where(z != 0, edge / z, scale).astype(f32)
    bias = np.where(z != 0, edge, 0).astype(f32)
    if dtype == 0:
        s, b = bf16_bits(scale), bf16_bits(bias)
        scale, bias = bf16_value(s), bf16_value(b)
    else:
        scale, bias = scale.astype(np.float16), bias.astype(np.float16)
        s, b = scale.view(np.uint16), bias.view(np.uint16)
        scale, bias = scale.astype(f32), bias.astype(f32)
    with np.errstate(divide="ignore", invalid="ignore"):
        q = np.where(scale[..., None] != 0, np.round((g - bias[..., None]) / scale[..., None]), 0)
    q = np.clip(q, 0, top).astype(np.uint32)
    exact = scale[..., None].astype(np.float64) * q + bias[..., None].astype(np.float64)
    return q.reshape(w.shape), s, b, exact.astype(f32).reshape(w.shape)


def pack(q, bits):
    per = 32 // bits
    words = q.reshape(q.shape[0], -1, per)
    return np.bitwise_or.reduce(words << (np.arange(per, dtype=np.uint32) * np.uint32(bits)), axis=-1).astype("<u4")


def rows(x, group):
    g = x.reshape(x.shape[0], -1, group)
    m = np.abs(g).max(-1)
    scale = (m / f32(127)).astype(f32)
    factor = np.divide(f32(127), m, out=np.zeros_like(m), where=m != 0)
    return np.round(g * factor[..., None]).astype(np.int8).reshape(x.shape), scale


def main():
    out = io.BytesIO()
    cases = [(b, g, s, d) for b in (4, 8) for g in (32, 64, 128) for s in (0, 1) for d in (0, 1)]
    out.write(b"QNT1" + struct.pack("<i", len(cases)))
    for i, (bits, group, source, dtype) in enumerate(cases):
        N, K, T = int(rng.integers(1, 20)), group * int(rng.integers(1, 4)), int(rng.integers(1, 4))
        w = (rng.standard_normal((N, K)) * rng.choice([0.02, 0.3]) + rng.choice([0, 0.1, -0.2])).astype(f32)
        w[0, :group] = [0, 0.5, -0.25][i % 3]  # a group of one value
        if N > 1: w[1, :group] = np.abs(w[1, :group])
        if source: w = bf16_value(bf16_bits(w))
        q, s, b, exact = quantise(w, bits, group, dtype)
        x = rng.standard_normal((T, K)).astype(f32)
        x[0, :group] = 0
        qx, sx = rows(x, group)
        y = (qx * np.repeat(sx.astype(np.float64), group, 1)) @ exact.astype(np.float64).T
        out.write(struct.pack("<7i", bits, group, N, K, source, dtype, T))
        for a in ((bf16_bits(w) if source else w), pack(q, bits), s, b, exact, x, qx, sx, y): out.write(np.ascontiguousarray(a).tobytes())

    with tarfile.open(sys.argv[1], "w:xz", preset=9, format=tarfile.GNU_FORMAT) as tar:
        info = tarfile.TarInfo("cases.bin")
        info.size, info.mode = out.tell(), 0o644
        tar.addfile(info, io.BytesIO(out.getvalue()))


if __name__ == "__main__":
    main()
