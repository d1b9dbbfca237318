#!/usr/bin/env python3
"""What the reference makes of the real vocabulary and the published chat templates (tests/data/real.tar.xz, unpacked).

    python real_cases.py FOLDER            compares what FOLDER has with the reference
    python real_cases.py FOLDER --write    writes what the reference gives

FOLDER holds tokenizer.json, templates/*.jinja and template_inputs.json, and as results tokenizer_cases.jsonl (kind,
text, ids), decode_cases.json (ids, text) and template_cases.jsonl (each template x conversation x option set: the text,
or the type of the error that jinja2 raises).
"""
import datetime, json, sys
from pathlib import Path
from tokenizers import Tokenizer
from transformers.utils import chat_template_utils
from transformers.utils.chat_template_utils import render_jinja_template

folder, write = Path(sys.argv[1]), "--write" in sys.argv
differ = 0


def result(name, rows, old, one_a_line):
    global differ
    bad = sum(a != b for a, b in zip(rows, old)) + abs(len(rows) - len(old))
    differ += bad
    print(f"{name}: {len(rows)} cases, {bad} differ")
    if write and bad:
        text = "".join(json.dumps(r) + "\n" for r in rows) if one_a_line else json.dumps(rows)
        (folder / name).write_text(text)


def lines(name):
    return [json.loads(line) for line in (folder / name).read_text().splitlines()]


tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
old = lines("tokenizer_cases.jsonl")
result("tokenizer_cases.jsonl", [{**c, "ids": tokenizer.encode(c["text"], add_special_tokens=False).ids} for c in old], old, True)
old = json.loads((folder / "decode_cases.json").read_text())
result("decode_cases.json", [{**c, "text": tokenizer.decode(c["ids"], skip_special_tokens=False)} for c in old], old, False)

inputs = json.loads((folder / "template_inputs.json").read_text())
variables = {k: inputs[k] for k in ("bos_token", "eos_token", "pad_token", "documents")}


class Clock(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return datetime.datetime.fromisoformat(inputs["strftime_now"])


chat_template_utils.datetime = Clock  # what strftime_now asks for the time
old = lines("template_cases.jsonl")
rows = []
for path in sorted((folder / "templates").glob("*.jinja")):
    for name, conversation in inputs["conversations"].items():
        for number, options in enumerate(inputs["options"]):
            row = {"template": path.stem, "conversation": name, "options": number}
            try:
                row["text"] = render_jinja_template([conversation], chat_template=path.read_text(), **variables, **options)[0][0]
            except Exception as e:
                row["error"], row["message"] = type(e).__name__, str(e)[:200]
            rows.append(row)
key = lambda r: (r["template"], r["conversation"], r["options"])
mine = {key(r): r for r in rows}
rows = [mine[key(r)] for r in old if key(r) in mine] + [r for r in rows if key(r) not in {key(o) for o in old}]
result("template_cases.jsonl", rows, old, True)
sys.exit(differ != 0 and not write)
