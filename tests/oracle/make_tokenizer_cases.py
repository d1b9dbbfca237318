#!/usr/bin/env python3
"""Makes tests/data/tokenizers.tar.xz: small tokenizers of many kinds, with what the reference makes of texts and ids.

    python3 -m venv v && v/bin/pip install tokenizers
    v/bin/python tests/oracle/make_tokenizer_cases.py build/data/tables/tokenizer/tokenizer.json

variants.json  a list of {name, set, cases, decode}: `set` replaces members of the base tokenizer.json (model: member by
               member); cases are [text, ids], decode are [ids, text, text without special tokens]
blocks.json    {set, blocks}: for every block of 64 code points a 64-bit FNV-1a hash of the ids (4 bytes each, little
               endian) of block_text(), with the base tokenizer's regex and with the one that counts marks as letters;
               the vocabulary has merges across the border of a character, so that ids tell where words begin and end
"""
import io
import json
import pathlib
import random
import sys
import tarfile

from tokenizers import Tokenizer

BASE = json.loads(pathlib.Path(sys.argv[1]).read_text())
FIRST = max(t["id"] for t in BASE["added_tokens"]) + 1
MARK_REGEX = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*"
              r"|\s*[\r\n]+|\s+(?!\S)|\s+")
rng = random.Random(7)
TEXTS = ["", " ", "a", "-a--b-c---", "  lead", "trail  ", "a b\nc\n\n d", "xxaxbxx", "It's  we'll 123 4,5!", "caf\u00e9 cafe\u0301",
         "\u0928\u092e\u0938\u094d\u0924\u0947 \u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35", "\U0001f469\u200d\U0001f467 ok", "a\r\n\r\nb\tc",
         "<|im_start|>user\n<|im_end|> <|im_end|>x", "\u65e5\u672c\u8a9e\u3001\u6f22\u5b57", "\u00a0\u2003x\u3000", "a\x01b\x7f\u0085"]
ALPHABET = list("aabbcxye -'\n\t 1") + ["\u00e9", "e\u0301", "\u0323\u0301", "\u65e5", "\U0001f600", "<s>", "<s", "AB", "wd", "\u00a0", "_"]
TEXTS += ["".join(rng.choice(ALPHABET) for _ in range(rng.randint(1, 30))) for _ in range(40)]


def overlay(changes):
    out = json.loads(json.dumps(BASE))
    for key, value in changes.items():
        if key == "model":
            out["model"] |= value
        else:
            out[key] = value
    return out


def variant(name, changes, texts=TEXTS):
    tokenizer = Tokenizer.from_str(json.dumps(overlay(changes)))
    encode = lambda t: tokenizer.encode(t, add_special_tokens=False).ids
    size = tokenizer.get_vocab_size() + 3
    lists = [[rng.randrange(size) for _ in range(rng.randint(0, 12))] for _ in range(10)] + [encode(t) for t in texts[:20]]
    return {"name": name, "set": changes, "cases": [[t, encode(t)] for t in texts],
            "decode": [[ids, tokenizer.decode(ids, skip_special_tokens=False), tokenizer.decode(ids, skip_special_tokens=True)]
                       for ids in lists]}


def byte_level(prefix=False, regex=False):
    return {"type": "ByteLevel", "add_prefix_space": prefix, "trim_offsets": False, "use_regex": regex}


def split(pattern, behavior="Isolated", invert=False):
    return {"type": "Split", "pattern": pattern, "behavior": behavior, "invert": invert}


def sequence(*steps):
    return {"type": "Sequence", "pretokenizers": list(steps)}


def added(*tokens):
    plain = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": False}
    return {"added_tokens": BASE["added_tokens"] + [{"id": FIRST + i} | plain | t for i, t in enumerate(tokens)]}


def variants():
    yield variant("base", {})
    for behavior in "Isolated Removed MergedWithPrevious MergedWithNext Contiguous".split():
        for invert in (False, True):
            for pattern in ({"String": "-"}, {"String": " "}, {"Regex": r"\p{L}+"}, {"Regex": "x*"}, {"Regex": r"\s"}):
                yield variant(f"split {behavior} {invert} {pattern}",
                              {"pre_tokenizer": sequence(split(pattern, behavior, invert), byte_level())})
    for prefix in (False, True):
        for regex in (False, True):
            yield variant(f"byte level {prefix} {regex}", {"pre_tokenizer": byte_level(prefix, regex)})
            yield variant(f"split, byte level {prefix} {regex}",
                          {"pre_tokenizer": sequence(split({"String": " "}, "Removed"), byte_level(prefix, regex))})
    yield variant("many steps", {"pre_tokenizer": sequence(split({"Regex": r"\p{N}"}), sequence(split({"Regex": "^b|c$"})),
                                                           split({"Regex": "(?<=a)b|\\n."}, "MergedWithNext"), byte_level(True, True))})
    yield variant("empty literal", {"pre_tokenizer": sequence(split({"String": ""}), byte_level())})
    yield variant("no normaliser", {"normalizer": None})
    yield variant("nested normaliser", {"normalizer": {"type": "Sequence", "normalizers": [
        {"type": "NFC"}, {"type": "Sequence", "normalizers": [{"type": "NFC"}]}]}})
    yield variant("fused decoder", {"decoder": {"type": "Sequence", "decoders": [BASE["decoder"], {"type": "Fuse"}]}})
    yield variant("merges as text", {"model": {"merges": [" ".join(m) for m in BASE["model"]["merges"]]}})
    tags = ["a<s>b", "a  <s>  b", "<s><s> <s>  <s>", " <s> ", "<s> x <s>y", "\n<s>\u3000\u00a0<s>\n\n", "\u0301<s>\u0301"]
    for strip in ({"lstrip": True}, {"rstrip": True}, {"lstrip": True, "rstrip": True}):
        for normalized in (False, True):
            yield variant(f"added {strip} {normalized}", added({"content": "<s>", "normalized": normalized} | strip), TEXTS + tags)
    words = ["wd", "wd wd", "wdwd", "xwd wdx _wd wd_", "wd\u0301", "\u24d0wd", "wd\u200d", "\u00e9wd", "(wd)", "1wd", "\u0663wd",
             "\u00b2wd", "\u2160wd", "\u203fwd", "\U0001f170wd", "\u0903wd wd", "\U00010d4ewd", "\u20ddwd"]
    for normalized in (False, True):
        yield variant(f"added single word {normalized}",
                      added({"content": "wd", "single_word": True, "normalized": normalized}), TEXTS + words)
    yield variant("added longest", added({"content": "aa"}, {"content": "aaab"}, {"content": "ab", "special": True},
                                         {"content": "aab", "normalized": True}),
                  TEXTS + ["aaaab", "aaaaab aab", "abaaabaa", "aaa" * 9])
    yield variant("added normalised", added({"content": "e\u0301!", "normalized": True}, {"content": "\u00e9?", "normalized": False},
                                            {"content": "\u0120x"}, {"content": "\u65e5"}, {"content": "x\u0323\u0301", "normalized": True}),
                  TEXTS + ["\u00e9!", "e\u0301!", "\u00e9?e\u0301?", "\u0120x\u65e5", "x\u0301\u0323"])
    yield variant("added blanks", added({"content": "\n", "rstrip": True}, {"content": " "}, {"content": "\t"}),
                  TEXTS + ["a\n \n  \n\tb", "  \n\n x \n", "\n" * 9 + "a"])
    yield variant("added in the vocabulary", added({"content": "zz"}, {"content": "e", "id": BASE["model"]["vocab"]["e"]}), TEXTS + ["zze", "\u00e9"])
    yield variant("words before merges", {"model": {"ignore_merges": True, "merges": BASE["model"]["merges"][:40]}})
    # A vocabulary of its own: few bytes, several ways to one token, a pair given twice.
    vocab = {t: i for i, t in enumerate(["a", "b", "c", "\u0120", "ab", "bc", "abc", "aa", "aaa", "aaaa", "?", "\u0120a", "ca"])}
    merges = [["b", "c"], ["a", "a"], ["aa", "a"], ["a", "b"], ["a", "bc"], ["ab", "c"], ["aa", "aa"], ["\u0120", "a"], ["c", "a"],
              ["a", "aa"], ["a", "b"]]
    few = {"vocab": vocab, "merges": merges}
    letters = ["".join(rng.choice("aaabbcd e") for _ in range(rng.randint(1, 25))) for _ in range(80)]
    for unk in (None, "?"):
        for fuse in (False, True):
            yield variant(f"few bytes {unk} {fuse}", {"added_tokens": [], "model": few | {"unk_token": unk, "fuse_unk": fuse}},
                          TEXTS + letters)


def block_text(first):
    out = []
    for c in range(first, first + 64):
        if c and not 0xD800 <= c <= 0xDFFF:
            c = chr(c)
            out.append(f"e{c}\u0323{c}\u0301 {c}1{c}\n")
    return "".join(out)


def fnv(ids):
    h = 0xCBF29CE484222325
    for byte in b"".join(i.to_bytes(4, "little") for i in ids):
        h = (h ^ byte) * 0x100000001B3 % 2**64
    return f"{h:016x}"


def border_model():
    """All bytes, and pairs that join a character of two bytes and more with what block_text puts around it."""
    spell = {v: k for k, v in byte_characters().items()}
    vocab = {spell[b]: b for b in range(256)}
    merges = [[spell[before], spell[lead]] for before in b"e " for lead in range(0xC2, 0xF5)]
    merges += [[spell[trail], spell[after]] for trail in range(0x80, 0xC0) for after in b"1\n"]
    for left, right in merges:
        vocab[left + right] = len(vocab)
    return {"vocab": vocab, "merges": merges}


def byte_characters():
    """GPT-2's table: the visible character of each byte, as character: byte."""
    own = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in own]
    return {chr(b): b for b in own} | {chr(256 + i): b for i, b in enumerate(others)}


def blocks():
    changes = {"added_tokens": [], "model": border_model()}
    own = Tokenizer.from_str(json.dumps(overlay(changes)))
    mark = overlay(changes)
    mark["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = MARK_REGEX
    mark = Tokenizer.from_str(json.dumps(mark))
    starts = [*range(0, 0x3400, 64), *range(0x3400, 0x9FC0, 1024), *range(0x9FC0, 0xAC40, 64), *range(0xAC40, 0xD780, 512),
              *range(0xD780, 0xD800, 64), *range(0xE000, 0xF900, 1024), *range(0xF900, 0x13480, 64), *range(0x13480, 0x16800, 64),
              *range(0x16800, 0x17000, 64), *range(0x17000, 0x18800, 512), *range(0x18800, 0x1B300, 64),
              *range(0x1BC00, 0x20000, 64), *range(0x20000, 0x33480, 1024), 0x2A6C0, 0x2B700, 0x2B740, 0x2CE80, 0x2EBC0, 0x2EBE0, 0x2F800,
              0x30000, 0x31340, 0x31350, 0x32380, 0x323C0, 0x40000, 0xE0000, 0xE0040, 0xE0100, 0xF0000, 0x10FF80, 0x10FFC0]
    return {"set": changes, "blocks": [[s, fnv(own.encode(block_text(s)).ids), fnv(mark.encode(block_text(s)).ids)] for s in starts]}


def main():
    files = {"variants.json": list(variants()), "blocks.json": blocks()}
    path = pathlib.Path(__file__).parent.parent / "data" / "tokenizers.tar.xz"
    with tarfile.open(path, "w:xz") as tar:
        for name, value in files.items():
            data = json.dumps(value, ensure_ascii=True, separators=(",", ":")).encode()
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    print(path, path.stat().st_size)


main()
