#!/usr/bin/env python3
"""SHA-256 of torch's uint8 antialiased bicubic resize of pseudo-random pictures: rows of tests/support/resizes.inc.

    python make_resizes.py > ../support/resizes.inc"""
import hashlib

import numpy as np
import torch

SIZES = [(1, 1, 32, 32), (1, 7, 5, 3), (2, 2, 3, 3), (7, 1, 64, 2), (33, 120, 64, 224), (61, 97, 320, 512), (100, 100, 99, 101),
         (100, 100, 101, 99), (100, 100, 100, 64), (100, 100, 64, 100), (100, 100, 100, 160), (100, 100, 160, 100),
         (20, 400, 64, 1152), (200, 300, 224, 320), (480, 640, 224, 288), (333, 777, 32, 64), (900, 30, 32, 32),
         (31, 1000, 32, 1), (1, 1000, 1, 7), (1000, 1, 3, 1), (700, 900, 5, 3), (257, 511, 256, 512), (640, 480, 2, 2),
         (5, 2500, 3, 20)]


def picture(h, w, seed):
    n, out, state = h * w * 3, np.empty(h * w * 3, "u1"), seed
    for i in range(n):
        state = (state * 1664525 + 1013904223) & 0xffffffff
        out[i] = state >> 24
    return out.reshape(h, w, 3)


for i, (h, w, oh, ow) in enumerate(SIZES):
    t = torch.from_numpy(picture(h, w, i + 1)).permute(2, 0, 1)[None].contiguous()
    r = torch.nn.functional.interpolate(t, size=(oh, ow), mode="bicubic", antialias=True, align_corners=False)
    digest = hashlib.sha256(r[0].permute(1, 2, 0).contiguous().numpy().tobytes()).hexdigest()
    print(f'{{{h}, {w}, {oh}, {ow}, "{digest}"}},')
