#!/usr/bin/env python3
"""Turns the traces that tinyvlm/export.py wrote (numpy .npz) into safetensors, which the C tests read.

usage: traces_to_safetensors.py FOLDER_WITH_NPZ OUTDIR     (needs numpy and safetensors)
"""
import sys
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

src, out = Path(sys.argv[1]), Path(sys.argv[2])
out.mkdir(parents=True, exist_ok=True)
for path in sorted(src.glob("*_trace.npz")):
    tensors = {}
    with np.load(path) as z:
        for name in z.files:
            a = z[name]
            tensors[name] = np.ascontiguousarray(a.astype(np.int32) if a.dtype == np.int64 else a)
    save_file(tensors, out / (path.name.replace("_trace.npz", ".safetensors")))
