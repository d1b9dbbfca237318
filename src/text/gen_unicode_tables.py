#!/usr/bin/env python3
"""Writes src/text/unicode_tables.c: where the Unicode of our libraries and of the reference tokenizer differ.

    python3 -m venv v && v/bin/pip install tokenizers && v/bin/python src/text/gen_unicode_tables.py

Nothing is read from Unicode's own files: the reference (the Python package `tokenizers`), PCRE2 and utf8proc are each
asked about every code point, so the tables say what these programs do.
* Regex: a code point that PCRE2 puts in another general category (or counts as white space when the reference does not)
  gets a stand-in on whose category both agree and whose UTF-8 is equally long, so that offsets do not move.
* NFC: a combining mark that the reference's normaliser does not know has class 0 there: it stays where it is and lets
  nothing pass. The same holds for the second half of a composition that it does not know.
"""
import ctypes
import pathlib
import unicodedata

import tokenizers
from tokenizers import Regex, normalizers, pre_tokenizers

CODES = [c for c in range(1, 0x110000) if not 0xD800 <= c <= 0xDFFF]
TEXT = "".join(map(chr, CODES))
BYTES = TEXT.encode()
CATEGORIES = "Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Co".split()

pcre = ctypes.CDLL("libpcre2-8.so.0")
pcre.pcre2_compile_8.restype = ctypes.c_void_p
pcre.pcre2_match_data_create_8.restype = ctypes.c_void_p
pcre.pcre2_get_ovector_pointer_8.restype = ctypes.POINTER(ctypes.c_size_t)
pcre.pcre2_get_ovector_pointer_8.argtypes = [ctypes.c_void_p]
pcre.pcre2_match_8.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_uint32,
                               ctypes.c_void_p, ctypes.c_void_p]
UTF, UCP, NO_UTF_CHECK = 0x80000, 0x20000, 0x40000000


def reference_set(pattern):
    split = pre_tokenizers.Split(Regex(f"(?:{pattern})+"), behavior="removed", invert=True)
    return {ord(c) for piece, _ in split.pre_tokenize_str(TEXT) for c in piece}


def pcre_set(pattern):
    source = f"(?:{pattern})+".encode()
    error, offset = ctypes.c_int(), ctypes.c_size_t()
    code = pcre.pcre2_compile_8(source, ctypes.c_size_t(len(source)), UTF | UCP, ctypes.byref(error),
                                ctypes.byref(offset), None)
    data = pcre.pcre2_match_data_create_8(8, None)
    span = pcre.pcre2_get_ovector_pointer_8(data)
    out, at = set(), 0
    while pcre.pcre2_match_8(code, BYTES, len(BYTES), at, NO_UTF_CHECK, data, None) > 0:
        out.update(map(ord, BYTES[span[0]:span[1]].decode()))
        at = span[1]
    return out


def classes(ask):
    spaces = ask(r"\s")
    out = {c: ("Cn", c in spaces) for c in CODES}
    for name in CATEGORIES:
        for c in ask(rf"\p{{{name}}}"):
            out[c] = (name, c in spaces)
    return out


def stand_ins():
    reference, ours = classes(reference_set), classes(pcre_set)
    differ = [c for c in CODES if reference[c] != ours[c]]
    first = {}
    for c in CODES:
        if reference[c] == ours[c]:
            first.setdefault((reference[c], len(chr(c).encode())), c)
    rows = []
    for c in differ:
        to = first[reference[c], len(chr(c).encode())]
        if rows and rows[-1][1] == c - 1 and rows[-1][2] == to:
            rows[-1][1] = c
        else:
            rows.append([c, c, to])
    return rows, len(differ)


utf8proc = ctypes.CDLL("libutf8proc.so.2")
utf8proc.utf8proc_NFC.restype = ctypes.c_void_p
utf8proc.utf8proc_get_property.restype = ctypes.POINTER(ctypes.c_int16 * 2)
libc = ctypes.CDLL(None)
libc.free.argtypes = [ctypes.c_void_p]
reference_nfc = normalizers.NFC().normalize_str


def our_nfc(text):
    p = utf8proc.utf8proc_NFC(text.encode())
    out = ctypes.string_at(p).decode()
    libc.free(p)
    return out


def barriers():
    ccc = {c: utf8proc.utf8proc_get_property(ctypes.c_int32(c)).contents[1] for c in CODES}
    # U+0334 has class 1 and U+0345 class 240, the lowest and the highest: a known mark changes place with one of them.
    low, high = "a%s\u0334", "a\u0345%s"
    known = lambda c: reference_nfc(low % chr(c)) != low % chr(c) or reference_nfc(high % chr(c)) != high % chr(c)
    marks = [c for c in CODES if ccc[c]]
    unknown = {c for c in marks if not known(c) and c != 0x345}
    # The classes of the known ones are equal: each sorts with one mark of each class as utf8proc sorts it.
    each = {}
    for c in marks:
        if c not in unknown:
            each.setdefault(ccc[c], c)
    for c in marks:
        for other in each.values():
            text = "a" + chr(c) + chr(other)
            assert c in unknown or reference_nfc(text) == our_nfc(text), hex(c)
    for c in CODES:
        assert reference_nfc(chr(c)) == our_nfc(chr(c)), hex(c)
        apart = unicodedata.normalize("NFD", chr(c))
        if reference_nfc(apart) != our_nfc(apart):
            assert len(apart) == 2 and reference_nfc(apart) == apart, hex(c)
            unknown.add(ord(apart[1]))
    return sorted(unknown)


def ranges(codes):
    rows = []
    for c in codes:
        if rows and rows[-1][1] == c - 1:
            rows[-1][1] = c
        else:
            rows.append([c, c])
    return rows


def table(rows):
    cells = ["{" + ", ".join(f"0x{v:X}" for v in row) + "}," for row in rows]
    lines, line = [], "   "
    for cell in cells:
        if len(line) + 1 + len(cell) > 118:
            lines.append(line)
            line = "   "
        line += " " + cell
    return "\n".join(lines + [line])


def main():
    rows, count = stand_ins()
    walls = barriers()
    out = f"""/* Generated by src/text/gen_unicode_tables.py with tokenizers {tokenizers.__version__}; see unicode_tables.h. */
#include "text/unicode_tables.h"

/* {count} code points: first, last, stand-in. */
const fore_code_range fore_stand_ins[] = {{
{table(rows)}
}};
const size_t fore_stand_in_count = sizeof fore_stand_ins / sizeof *fore_stand_ins;

/* {len(walls)} code points: first, last. */
const fore_code_range fore_nfc_walls[] = {{
{table([r + [0] for r in ranges(walls)])}
}};
const size_t fore_nfc_wall_count = sizeof fore_nfc_walls / sizeof *fore_nfc_walls;
"""
    path = pathlib.Path(__file__).with_name("unicode_tables.c")
    path.write_text(out)
    print(f"{path}: {count} stand-ins in {len(rows)} ranges, {len(walls)} walls")


main()
