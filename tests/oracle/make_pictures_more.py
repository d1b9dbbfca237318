#!/usr/bin/env python3
"""Pictures in forms that encoders seldom write, with the pixels that decoding must give, by Pillow 13.

    python make_pictures_more.py DIR

Writes the pictures, decode.safetensors (u8 [h,w,3] by file name: EXIF transpose, alpha composited on white) and
decode.json (the mode that Pillow opened the file in, or null with its error where it refuses the file).
PNG files are written by hand here, so that every bit depth, colour type, interlace and transparency key can be made."""
import io
import json
import struct
import sys
import zlib
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps
from safetensors.numpy import save_file

out = Path(sys.argv[1])
out.mkdir(parents=True, exist_ok=True)
rng = np.random.default_rng(11)
CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
ADAM7 = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2))


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def pack_rows(a, depth):
    rows = b""
    for row in a.reshape(a.shape[0], -1):
        if depth == 16:
            body = row.astype(">u2").tobytes()
        elif depth == 8:
            body = row.astype("u1").tobytes()
        else:
            bits = np.unpackbits(row.astype("u1")[:, None], axis=1)[:, 8 - depth:].reshape(-1)
            body = np.packbits(bits).tobytes()
        rows += b"\0" + body
    return rows


def png(name, a, color, depth, before=(), interlace=False, end=True, after=()):
    h, w = a.shape[:2]
    if interlace:
        raw = b"".join(pack_rows(a[y::dy, x::dx], depth) for x, y, dx, dy in ADAM7 if a[y::dy, x::dx].size)
    else:
        raw = pack_rows(a, depth)
    data = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", w, h, depth, color, 0, 0, int(interlace)))
    data += b"".join(chunk(k, v) for k, v in before) + chunk(b"IDAT", zlib.compress(raw, 9))
    data += b"".join(chunk(k, v) for k, v in after) + (chunk(b"IEND", b"") if end else b"")
    (out / name).write_bytes(data)


def image(color, depth, w=21, h=11):
    c = CHANNELS[color]
    return rng.integers(0, 1 << depth, (h, w, c) if c > 1 else (h, w))


u16 = lambda *v: struct.pack(f">{len(v)}H", *v)
palette = lambda n: bytes(rng.integers(0, 256, n * 3, dtype="u1"))

for depth in (1, 2, 4, 8, 16):
    a = image(0, depth)
    key = int(a[3, 4])
    png(f"gray{depth}.png", a, 0, depth)
    png(f"gray{depth}_adam7.png", a, 0, depth, interlace=True)
    png(f"gray{depth}_key.png", a, 0, depth, [(b"tRNS", u16(key))])
    png(f"gray{depth}_key0.png", a, 0, depth, [(b"tRNS", u16(0))])
    png(f"gray{depth}_keymax.png", a, 0, depth, [(b"tRNS", u16((1 << depth) - 1))])
small = rng.integers(0, 300, (11, 21))
png("gray16_small.png", small, 0, 16)
png("gray16_small_key.png", small, 0, 16, [(b"tRNS", u16(int(small[2, 2])))])
png("gray16_small_key255.png", np.where(small > 250, 255, small), 0, 16, [(b"tRNS", u16(255))])
png("gray8_key300.png", image(0, 8), 0, 8, [(b"tRNS", u16(300))])
for depth in (8, 16):
    a = image(2, depth)
    a[:, 5] = a[0, 0]
    png(f"rgb{depth}.png", a, 2, depth)
    png(f"rgb{depth}_adam7.png", a, 2, depth, interlace=True)
    png(f"rgb{depth}_key.png", a, 2, depth, [(b"tRNS", u16(*[int(v) for v in a[0, 0]]))])
    png(f"la{depth}.png", image(4, depth), 4, depth)
    png(f"la{depth}_adam7.png", image(4, depth), 4, depth, interlace=True)
    png(f"rgba{depth}.png", image(6, depth), 6, depth)
    png(f"rgba{depth}_adam7.png", image(6, depth), 6, depth, interlace=True)
a = rng.integers(0, 200, (11, 21, 3))
png("rgb16_small_key.png", a, 2, 16, [(b"tRNS", u16(*[int(v) for v in a[1, 1]]))])
png("rgb16_high_key.png", a * 257, 2, 16, [(b"tRNS", u16(*[int(v) for v in a[1, 1]]))])
for depth in (1, 2, 4, 8):
    a = image(3, depth)
    n = 1 << depth
    p = (b"PLTE", palette(n))
    png(f"pal{depth}.png", a, 3, depth, [p])
    png(f"pal{depth}_adam7.png", a, 3, depth, [p], interlace=True)
    png(f"pal{depth}_alpha.png", a, 3, depth, [p, (b"tRNS", bytes(rng.integers(0, 256, n, dtype="u1")))])
    png(f"pal{depth}_alpha_short.png", a, 3, depth, [p, (b"tRNS", bytes(rng.integers(0, 256, n // 2, dtype="u1")))])
    png(f"pal{depth}_opaque.png", a, 3, depth, [p, (b"tRNS", b"\xff" * n)])
    png(f"pal{depth}_one.png", a, 3, depth, [p, (b"tRNS", b"\xff" * (n - 1) + b"\0")])
a = image(3, 4)
png("pal4_short.png", a, 3, 4, [(b"PLTE", palette(9))])
png("pal4_short_alpha.png", a, 3, 4, [(b"PLTE", palette(9)), (b"tRNS", b"\x40\x80\xc0\x00\x11")])
a = image(2, 8)
exif = b"MM\0*" + struct.pack(">IHHHIHHI", 8, 1, 0x112, 3, 1, 6, 0, 0)
png("rgb8_exif_late.png", a, 2, 8, after=[(b"eXIf", exif)])
png("rgb8_exif_long.png", a, 2, 8, [(b"eXIf", b"II*\0" + struct.pack("<IHHHIII", 8, 1, 0x112, 4, 1, 8, 0))])
png("rgb8_exif_nine.png", a, 2, 8, [(b"eXIf", exif.replace(b"\0\x06\0\0", b"\0\x09\0\0"))])
png("rgb8_exif_broken.png", a, 2, 8, [(b"eXIf", b"II*\0\xff\xff\xff\x7f")])
png("rgb8_no_iend.png", a, 2, 8, end=False)
png("rgb8_gamma.png", a, 2, 8, [(b"gAMA", struct.pack(">I", 100000)), (b"sBIT", b"\5\6\5"), (b"bKGD", u16(1, 2, 3))])
png("rgb8_1x1_adam7.png", a[:1, :1], 2, 8, interlace=True)
png("gray1_8x9_adam7.png", image(0, 1, 8, 9), 0, 1, interlace=True)
(out / "rgb8_trailing.png").write_bytes((out / "rgb8.png").read_bytes() + b"trailing bytes")


def scene(w, h):
    y, x = np.mgrid[0:h, 0:w]
    a = np.stack([x * 255 // w, y * 255 // h, (x * y) % 256], 2) + rng.integers(-20, 20, (h, w, 3))
    return Image.fromarray(a.clip(0, 255).astype("u1"))


def jpeg(im, **k):
    f = io.BytesIO()
    im.save(f, "JPEG", **k)
    return f.getvalue()


s = scene(45, 37)
cmyk = jpeg(s.convert("CMYK"), quality=90)
at = cmyk.index(b"Adobe")
assert cmyk[at + 11] == 0
(out / "cmyk.jpg").write_bytes(cmyk)
(out / "ycck.jpg").write_bytes(cmyk[:at + 11] + b"\2" + cmyk[at + 12:])
(out / "cmyk_no_adobe.jpg").write_bytes(cmyk[:at - 4] + cmyk[at + 12:])
rgb = jpeg(s, quality=90)
(out / "rgb_keep.jpg").write_bytes(jpeg(s, quality=90, keep_rgb=True))
(out / "no_eoi.jpg").write_bytes(rgb[:-2])
(out / "trailing.jpg").write_bytes(rgb + b"trailing bytes")
(out / "cut_late.jpg").write_bytes(rgb[:-40])
(out / "progressive_cut.jpg").write_bytes(jpeg(s, quality=90, progressive=True)[:-200])
(out / "gray_restart.jpg").write_bytes(jpeg(s.convert("L"), restart_marker_blocks=3))
(out / "optimized_411.jpg").write_bytes(jpeg(s, quality=40, optimize=True, subsampling="4:1:1"))

xmp = lambda body: b'<x:xmpmeta xmlns:x="adobe:ns:meta/">' + body + b"</x:xmpmeta>"
attribute, element = xmp(b'<d tiff:Orientation="6"/>'), xmp(b"<tiff:Orientation>8</tiff:Orientation>")
nothing = b"II*\0" + struct.pack("<IHHHIII", 8, 1, 0x128, 3, 1, 2, 0)
(out / "xmp.jpg").write_bytes(jpeg(s, xmp=attribute))
(out / "xmp_element.jpg").write_bytes(jpeg(s, xmp=xmp(b"tiff:Orientation tiff:Orientation=6") + element))
(out / "xmp_and_exif.jpg").write_bytes(jpeg(s, xmp=attribute, exif=b"Exif\0\0" + exif.replace(b"\0\x06\0\0", b"\0\x03\0\0")))
(out / "xmp_and_exif_nine.jpg").write_bytes(jpeg(s, xmp=attribute, exif=b"Exif\0\0" + exif.replace(b"\0\x06\0\0", b"\0\x09\0\0")))
(out / "xmp_and_exif_without.jpg").write_bytes(jpeg(s, xmp=attribute, exif=b"Exif\0\0" + nothing))
png("xmp.png", a, 2, 8, [(b"iTXt", b"XML:com.adobe.xmp\0\0\0\0\0" + attribute)])
png("xmp_late.png", a, 2, 8, after=[(b"iTXt", b"XML:com.adobe.xmp\0\0\0\0\0" + element)])
png("xmp_other_key.png", a, 2, 8, [(b"iTXt", b"Comment\0\0\0\0\0" + attribute)])
s.save(out / "xmp.webp", quality=70, xmp=attribute)
frames = [scene(45, 37) for _ in range(3)]
f = io.BytesIO()
frames[0].save(f, "WEBP", save_all=True, append_images=frames[1:], lossless=True)
anim = bytearray(f.getvalue())
assert anim[12:16] == b"VP8X" and b"ANMF" in anim
(out / "anim.webp").write_bytes(anim)
# a larger canvas, the first frame away from its corner: what lies around it is transparent
at = anim.index(b"ANMF") + 8
for name, flag in (("anim_offset.webp", anim[20] & ~0x10), ("anim_offset_alpha.webp", anim[20] | 0x10)):
    b = bytearray(anim)
    b[20] = flag
    b[24:30] = struct.pack("<I", 60 - 1)[:3] + struct.pack("<I", 50 - 1)[:3]
    b[at:at + 6] = struct.pack("<I", 6 // 2)[:3] + struct.pack("<I", 8 // 2)[:3]
    (out / name).write_bytes(b)
rgba = s.convert("RGBA")
rgba.putalpha(Image.fromarray(np.tile(np.linspace(0, 255, 45).astype("u1"), (37, 1))))
rgba.save(out / "lossy_alpha.webp", quality=60)
rgba.save(out / "lossless_alpha.webp", lossless=True)
s.save(out / "lossy_odd.webp", quality=35)
lossy = (out / "lossy_odd.webp").read_bytes()
(out / "cut.webp").write_bytes(lossy[:len(lossy) // 2])

tensors, meta = {}, {}
for p in sorted(out.iterdir()):
    if p.suffix not in (".png", ".jpg", ".webp"):
        continue
    try:
        im = Image.open(p)
        mode = im.mode
        im = ImageOps.exif_transpose(im)
        if "A" in im.getbands() or im.info.get("transparency") is not None:
            im = im.convert("RGBA")
            im = Image.alpha_composite(Image.new("RGBA", im.size, (255, 255, 255, 255)), im)
        if p.name == "rgb8_no_iend.png":
            raise ValueError("a cut file, which Foresight refuses though all pixels are there")
        tensors[p.name] = np.asarray(im.convert("RGB")).copy()
        meta[p.name] = {"mode": mode}
    except Exception as e:
        meta[p.name] = {"mode": None, "error": f"{type(e).__name__}: {e}"}
save_file(tensors, out / "decode.safetensors")
(out / "decode.json").write_text(json.dumps(meta, indent=1) + "\n")
