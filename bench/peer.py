#!/usr/bin/env python3
"""Foresight beside llama.cpp on this machine: the same random weights, the same bits, the same threads, in turns.

Nothing of the peer comes with this project. The script is given the paths of binaries that its user has, a GGUF file and its
mmproj, and ours with a checkpoint folder of the same geometry; bench/peer.md tells how both are made. In every round each side runs
each measurement once, and who begins changes from round to round; a ratio is taken inside a round, and the median of the rounds
is what counts. Prints a table; --json FILE writes everything that was measured.

Knows the peer's command lines and what they print, as of its build 11434. Standard library only.
"""
import argparse
import json
import os
import random
import re
import shutil
import signal
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
import zlib

PREFILL = 512
DECODE = 64
DEPTH = 512  # tokens before the rows of a verifying pass
WIDTHS = (1, 2, 4, 8)
SIDES = (448, 1024)
ANSWER = 192  # tokens of an answer with drafts
RATES = (0.86, 0.66, 0.51)  # of rounds in which the drafts up to this depth are right; those of bench/drafts.c
MEASURES = ("decode", "prefill", "verify", "sequences", "vision", "mtp")
GOALS = {"decode": 1.8, "prefill": 4.0, "verify 4": 2.2, "vision 448": 2.5, "vision 1024": 3.0, "mtp": 2.5}


class Trouble(Exception):
    """What the user must know: what failed, and what to do."""


# ---- running programs ---------------------------------------------------------------------------------------------------


def tail(text, lines=12):
    return "\n".join("    " + line for line in text.strip().splitlines()[-lines:])


def run(command, limit=1800):
    """Standard output and error of a command that must succeed."""
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=limit)
    except subprocess.TimeoutExpired:
        raise Trouble(f"{command[0]} did not end within {limit} s:\n    {' '.join(command)}")
    if done.returncode:
        raise Trouble(f"{command[0]} failed with exit code {done.returncode}:\n    {' '.join(command)}\n{tail(done.stderr or done.stdout)}")
    return done.stdout, done.stderr


def parse_json(text, command):
    try:
        return json.loads(text)
    except ValueError:
        raise Trouble(f"{command[0]} printed no JSON where it was expected (is it another version?):\n"
                      f"    {' '.join(command)}\n{tail(text)}")


def field(record, name, command):
    for part in name.split("."):
        if not isinstance(record, dict) or part not in record:
            raise Trouble(f"{command[0]}: its JSON has no \"{name}\" (is it another version?):\n    {' '.join(command)}")
        record = record[part]
    return record


# ---- the peer -----------------------------------------------------------------------------------------------------------


class Peer:
    TOOLS = {
        "bench": ("llama-bench", ("decode", "prefill", "verify")),
        "batched": ("llama-batched-bench", ("sequences",)),
        "mtmd": ("llama-mtmd-cli", ("vision",)),
        "server": ("llama-server", ("mtp",)),
    }

    def __init__(self, options):
        self.options = options
        self.version = None
        self.servers = {}

    def tool(self, key):
        name = self.TOOLS[key][0]
        return getattr(self.options, key) or (os.path.join(self.options.peer, name) if self.options.peer else shutil.which(name) or name)

    def check(self, wanted):
        for key, (name, uses) in self.TOOLS.items():
            if not any(u in wanted for u in uses):
                continue
            path = self.tool(key)
            if not (os.path.isfile(path) and os.access(path, os.X_OK)):
                raise Trouble(f"{path}: no program there; it is needed to measure {', '.join(u for u in uses if u in wanted)}. Give the "
                              f"folder of llama.cpp's binaries with --peer, or this one with --{key}, or leave its measurements out "
                              f"with --only")
        need_file(self.options.gguf, "--gguf", "GGUF")
        if "vision" in wanted:
            need_file(self.options.mmproj, "--mmproj", "GGUF")

    def llama_bench(self, *arguments):
        o = self.options
        command = [self.tool("bench"), "-m", o.gguf, "-t", str(o.threads), "-r", "1", "-o", "json", *arguments]
        tests = parse_json(run(command)[0], command)
        if not isinstance(tests, list) or not tests:
            raise Trouble(f"{command[0]} reported no test:\n    {' '.join(command)}")
        first = tests[0]
        self.version = {k: first.get(k) for k in ("build_commit", "build_number", "cpu_info", "backends", "model_type", "model_size")}
        seconds = {}
        for t in tests:
            key = (field(t, "n_prompt", command), field(t, "n_gen", command), field(t, "n_depth", command))
            seconds[key] = statistics.median(field(t, "samples_ns", command)) * 1e-9
        return seconds, command

    def pick(self, seconds, key, command):
        if key not in seconds:
            raise Trouble(f"{command[0]} did not report the test of {key[0]} prompt and {key[1]} generated tokens at depth {key[2]}")
        return seconds[key]

    def decode(self):
        s, command = self.llama_bench("-p", "0", "-n", str(DECODE))
        return {"decode": self.pick(s, (0, DECODE, 0), command) / DECODE}

    def prefill(self):
        s, command = self.llama_bench("-p", str(PREFILL), "-n", "0")
        return {"prefill": self.pick(s, (PREFILL, 0, 0), command)}

    def verify(self):
        """Rows of one sequence behind a context. llama-bench asks for the logits of the last row alone."""
        widths = ",".join(str(w) for w in WIDTHS)
        s, command = self.llama_bench("-p", widths, "-n", "0", "-d", str(DEPTH), "-r", "5")
        return {f"verify {w}": self.pick(s, (w, 0, DEPTH), command) for w in WIDTHS}

    def sequences(self):
        """As many sequences as rows, one row and its logits each."""
        o, steps = self.options, 8
        command = [self.tool("batched"), "-m", o.gguf, "-t", str(o.threads), "-tb", str(o.threads), "-c", str(8 * (DEPTH + 64)),
                   "-npp", str(DEPTH), "-ntg", str(steps), "-npl", ",".join(str(w) for w in WIDTHS), "-pps", "-kvu",
                   "--output-format", "jsonl"]
        out, err = run(command)
        found = {}
        for line in (out + "\n" + err).splitlines():
            line = line[line.find("{"):] if "{" in line else ""
            if '"t_tg"' in line:
                record = parse_json(line, command)
                found[f"sequences {field(record, 'pl', command)}"] = field(record, "t_tg", command) / steps
        missing = [w for w in WIDTHS if f"sequences {w}" not in found]
        if missing:
            raise Trouble(f"{command[0]} did not report {missing} sequences:\n    {' '.join(command)}\n{tail(err)}")
        return found

    def vision(self, pictures):
        o, found = self.options, {}
        for side, path in pictures.items():
            command = [self.tool("mtmd"), "-m", o.gguf, "--mmproj", o.mmproj, "--image", path, "-p", "What is it?", "-n", "1",
                       "-t", str(o.threads), "-tb", str(o.threads), "--temp", "0", "-c", "4096"]
            out, err = run(command)
            times = re.findall(r"(?:slice encoded|batch encoding done) in (\d+) ms", out + err)
            if not times:
                raise Trouble(f"{command[0]} did not say how long the picture took:\n    {' '.join(command)}\n{tail(err)}")
            found[f"vision {side}"] = sum(int(t) for t in times) * 1e-3
        return found

    # One server without drafts and one with, both idle while others are measured.

    def start(self, name, *arguments):
        o = self.options
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        log = tempfile.TemporaryFile("w+", errors="replace")
        command = [self.tool("server"), "-m", o.gguf, "-t", str(o.threads), "-tb", str(o.threads), "-c", "2048", "-np", "1",
                   "--host", "127.0.0.1", "--port", str(port), *arguments]
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.servers[name] = (process, port, command, log)
        for _ in range(600):
            if process.poll() is not None:
                log.seek(0)
                raise Trouble(f"{command[0]} ended with exit code {process.returncode} before it answered (has it draft-mtp and "
                              f"--spec-synth-rates, and the GGUF an MTP layer?):\n    {' '.join(command)}\n{tail(log.read())}")
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5) as answer:
                    if answer.status == 200:
                        return
            except (urllib.error.URLError, OSError):
                pass
            time.sleep(0.5)
        raise Trouble(f"{command[0]} was not ready within 300 s:\n    {' '.join(command)}")

    def stop(self):
        for process, *_ in self.servers.values():
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.servers.clear()

    def complete(self, name, seed, tokens):
        process, port, command, _ = self.servers[name]
        body = {"prompt": prompt_ids(), "n_predict": tokens, "temperature": 0, "ignore_eos": True, "cache_prompt": False, "seed": seed}
        request = urllib.request.Request(f"http://127.0.0.1:{port}/completion", json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=1800) as answer:
                record = parse_json(answer.read().decode(errors="replace"), command)
        except (urllib.error.URLError, OSError) as e:
            raise Trouble(f"{command[0]} did not answer: {e}")
        return field(record, "timings", command)

    def mtp(self, seed):
        o = self.options
        if not self.servers:
            self.start("plain")
            self.start("drafts", "--spec-type", "draft-mtp", "--spec-draft-n-max", str(len(RATES)), "--spec-draft-p-min", "0",
                       "--spec-synth-rates", ",".join(str(r) for r in RATES))
            for name in self.servers:
                self.complete(name, 1, 8)
        found = {}
        for name, key in (("plain", "mtp off"), ("drafts", "mtp")):
            t = self.complete(name, seed, ANSWER)
            n = t["predicted_n"]
            found[key] = t["predicted_ms"] * 1e-3 / n
            if name == "drafts":
                if not t.get("draft_n"):
                    raise Trouble("llama-server drafted nothing: has the GGUF an MTP layer?")
                found["tokens a round, mtp"] = n / (n - t["draft_n_accepted"])
                found["mtp auto"] = found["mtp"]  # what ours at the depth that it chooses is held against
        return found


def prompt_ids():
    return [1000 + 37 * i for i in range(64)]


# ---- ours ---------------------------------------------------------------------------------------------------------------


class Ours:
    def __init__(self, options):
        self.options = options
        self.text = None
        self.machine = {}

    def check(self, wanted):
        o = self.options
        need_program(o.foresight, "--foresight", "make")
        if "mtp" in wanted:
            need_program(o.drafts, "--drafts", "make build/bench/drafts")
        if not os.path.isfile(os.path.join(o.model, "config.json")):
            raise Trouble(f"{o.model}: no checkpoint folder (config.json is not there); give one with --model")

    def ask(self, *arguments):
        """What `foresight run` says of one greedy answer."""
        o = self.options
        command = [o.foresight, "run", "--model", o.model, "--threads", str(o.threads), "--temperature", "0", "--ignore-eos", "--json",
                   *arguments]
        return parse_json(run(command)[0], command), command

    def count(self, text):
        command = [self.options.foresight, "tokenize", "--model", self.options.model, "--json", text]
        return len(field(parse_json(run(command)[0], command), "ids", command))

    def prompt(self):
        """A text of PREFILL tokens. One more letter makes at most a few more tokens, so a length that fits is soon found."""
        draw = random.Random(1)
        letters = "".join(draw.choice("abcdefghijklmnopqrstuvwxyz    ") for _ in range(16 * PREFILL))
        low, high = 1, len(letters)
        while low < high:
            middle = (low + high) // 2
            if self.count(letters[:middle]) < PREFILL:
                low = middle + 1
            else:
                high = middle
        for length in range(low, low + 64):
            if self.count(letters[:length]) == PREFILL:
                return letters[:length]
        raise Trouble(f"{self.options.model}: no prompt of {PREFILL} tokens was found with its tokenizer")

    def decode(self):
        record, command = self.ask("--draft-depth", "0", "--raw", "-n", str(DECODE + 1), "a")
        passes = field(record, "drafts.passes", command)
        if passes != DECODE:
            raise Trouble(f"{command[0]} made {passes} passes for {DECODE + 1} tokens")
        return {"decode": field(record, "timings.decode_seconds", command) / passes}

    def prefill(self):
        self.text = self.text or self.prompt()
        record, command = self.ask("--no-mtp", "--raw", "-n", "1", self.text)
        if field(record, "prompt_tokens", command) != PREFILL:
            raise Trouble(f"{command[0]} read {record['prompt_tokens']} prompt tokens instead of {PREFILL}")
        return {"prefill": field(record, "timings.prefill_seconds", command)}

    def vision(self, pictures):
        found = {}
        for side, path in pictures.items():
            record, command = self.ask("--no-mtp", "--image", path, "-n", "1", "What is it?")
            tokens = (side // 32) ** 2
            if field(record, "image_tokens", command) != tokens:
                raise Trouble(f"{command[0]} made {record['image_tokens']} tokens of a {side} x {side} picture instead of {tokens}")
            found[f"vision {side}"] = field(record, "timings.vision_seconds", command)
        return found

    def verify(self):
        """Rows of one sequence behind a context, with the logits of every row; and the commit of all of them."""
        o = self.options
        command = [o.foresight, "bench", "--model", o.model, "--threads", str(o.threads), "--runs", "3", "--prompt", str(DEPTH),
                   "--decode", "8", "--depths", "0", "--vision", "0", "--json"]
        record = parse_json(run(command)[0], command)
        found = {}
        for row in field(record, "verify", command):
            rows = field(row, "rows", command)
            found[f"verify {rows}"] = field(row, "seconds", command) + (row.get("commit_seconds") or 0)
        for name in ("read_gb_per_second", "integer_gops"):
            self.machine[name] = field(record, "machine." + name, command)
        missing = [w for w in WIDTHS if f"verify {w}" not in found]
        if missing:
            raise Trouble(f"{command[0]} did not report passes of {missing} rows:\n    {' '.join(command)}")
        return {f"verify {w}": found[f"verify {w}"] for w in WIDTHS}

    def sequences(self):
        return {"sequences" + name[len("verify"):]: seconds for name, seconds in self.verify().items()}

    def mtp(self, seed):
        """The same shares of right drafts, which bench/drafts.c gives to drafts of a recorded answer; the head works all the same."""
        o = self.options
        command = [o.drafts, "--tokens", str(ANSWER), "--runs", "1", "--threads", str(o.threads), "--only", "published",
                   "--depth", str(len(RATES)), o.model]
        out = run(command)[0]
        plain = re.search(r"^depth 0 +([\d.]+) tok/s", out, re.M)
        drafted = re.search(rf"^ +depth {len(RATES)} +([\d.]+) x +([\d.]+) tokens a round", out, re.M)
        if not plain or not drafted:
            raise Trouble(f"{command[0]} did not report the speed at depth {len(RATES)} with published acceptance:\n"
                          f"    {' '.join(command)}\n{tail(out)}")
        off = 1 / float(plain.group(1))
        found = {"mtp off": off, "mtp": off / float(drafted.group(1)), "tokens a round, mtp": float(drafted.group(2))}
        auto = re.search(r"^ +auto +([\d.]+) x", out, re.M)
        if auto:
            found["mtp auto"] = off / float(auto.group(1))
        return found


# ---- both, in turns -----------------------------------------------------------------------------------------------------


def need_program(path, option, build):
    if not path or not (os.path.isfile(path) and os.access(path, os.X_OK)):
        raise Trouble(f"{path or option}: no program there; build it (`{build}`) or say where it is with {option}")


def need_file(path, option, kind):
    if not path:
        raise Trouble(f"{option} FILE is needed: a {kind} file of the same geometry as --model (bench/peer.md tells how to make it)")
    try:
        with open(path, "rb") as f:
            head = f.read(4)
    except OSError as e:
        raise Trouble(f"{path}: {e.strerror}; say with {option} where the {kind} file is")
    if head != kind.encode():
        raise Trouble(f"{path}: not a {kind} file (it begins with {head!r}); {option} wants one")


def write_picture(path, side):
    """A PNG of noise."""
    draw = random.Random(side)
    rows = b"".join(b"\0" + draw.randbytes(3 * side) for _ in range(side))
    with open(path, "wb") as f:
        f.write(b"\x89PNG\r\n\x1a\n")
        header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
        for kind, data in ((b"IHDR", header), (b"IDAT", zlib.compress(rows, 1)), (b"IEND", b"")):
            f.write(struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)))


def measure(name, side, seed, pictures):
    if name == "vision":
        return side.vision(pictures)
    if name == "mtp":
        return side.mtp(seed)
    return getattr(side, name)()


def rounds(options, wanted, peer, ours, pictures, note):
    """samples[figure] = [(theirs, ours) of each round]; where one side has no such figure, None stands for it."""
    samples = {}
    for r in range(options.runs):
        for name in wanted:
            found = {}
            sides = [("peer", peer), ("ours", ours)]
            for label, side in sides if r % 2 == 0 else reversed(sides):
                note(f"round {r + 1} of {options.runs}: {name}, {label}")
                found[label] = measure(name, side, r + 1, pictures)
            for figure in {**found["peer"], **found["ours"]}:
                samples.setdefault(figure, []).append((found["peer"].get(figure), found["ours"].get(figure)))
    return samples


# ---- what came out ------------------------------------------------------------------------------------------------------


def conclude(samples):
    """For each figure the medians of both sides, the ratio of each round and its median, and the goal if there is one."""
    table = {}
    for figure, pairs in samples.items():
        theirs = [t for t, _ in pairs if t is not None]
        mine = [m for _, m in pairs if m is not None]
        ratios = [t / m for t, m in pairs if t is not None and m is not None]
        row = {"peer": statistics.median(theirs) if theirs else None, "ours": statistics.median(mine) if mine else None,
               "peer_samples": theirs, "our_samples": mine}
        if ratios:
            row.update(ratio=statistics.median(ratios), ratios=ratios)
        if figure in GOALS:
            row["goal"] = GOALS[figure]
        table[figure] = row
    return table


UNITS = {"decode": "token", "prefill": f"{PREFILL} tokens", "verify": "pass", "sequences": "pass", "vision": "picture", "mtp": "token"}


def show(table, out=sys.stdout):
    def milliseconds(x):
        return "-" if x is None else f"{1e3 * x:.1f} ms" if x < 1 else f"{x:.2f} s"

    print(f"{'':24}{'peer':>11}{'ours':>11}{'ratio':>10}   {'rounds':14}goal", file=out)
    for figure, row in table.items():
        if figure.startswith("tokens a round"):
            print(f"{figure:24}{row['peer'] or 0:>11.2f}{row['ours'] or 0:>11.2f}", file=out)
            continue
        kind, _, size = figure.partition(" ")
        name = f"{figure}, {UNITS[kind]}"
        spread = f"{min(row['ratios']):.2f}-{max(row['ratios']):.2f}" if row.get("ratios") else ""
        ratio = f"{row['ratio']:.2f} x" if "ratio" in row else "-"
        goal = f"{row['goal']} x, {'reached' if row.get('ratio', 0) >= row['goal'] else 'MISSED'}" if "goal" in row else ""
        print(f"{name:24}{milliseconds(row['peer']):>11}{milliseconds(row['ours']):>11}{ratio:>10}   {spread:14}{goal}", file=out)
    for kind, what in (("verify", "rows of one sequence"), ("sequences", "sequences")):
        for label in ("peer", "ours"):
            one = table.get(f"{kind} 1", {}).get(label)
            if one:
                parts = [f"{w}: {table[f'{kind} {w}'][label] / one:.2f}" for w in WIDTHS[1:] if table.get(f"{kind} {w}", {}).get(label)]
                print(f"{label}: {what} against one  {'  '.join(parts)}", file=out)


def parse_arguments():
    p = argparse.ArgumentParser(description="Times Foresight and llama.cpp in turns; see bench/peer.md.")
    peer = p.add_argument_group("the peer's")
    peer.add_argument("--peer", metavar="DIR", help="folder of llama.cpp's binaries; else those of PATH")
    for key, (name, uses) in Peer.TOOLS.items():
        peer.add_argument("--" + key, metavar="FILE", help=f"{name}, if it is elsewhere (for {', '.join(uses)})")
    peer.add_argument("--gguf", metavar="FILE", help="the text model with its MTP layer")
    peer.add_argument("--mmproj", metavar="FILE", help="the vision tower")
    ours = p.add_argument_group("ours")
    ours.add_argument("--foresight", metavar="FILE", default="build/foresight", help="the command; else build/foresight")
    ours.add_argument("--drafts", metavar="FILE", default="build/bench/drafts", help="the benchmark of drafts; else build/bench/drafts")
    ours.add_argument("--model", metavar="DIR", required=True, help="checkpoint folder of the same geometry and bits")
    p.add_argument("--threads", "-t", type=int, default=len(os.sched_getaffinity(0)), help="of both; else the processors of this process")
    p.add_argument("--runs", type=int, default=5, help="rounds; else 5")
    p.add_argument("--only", metavar="NAMES", default=",".join(MEASURES), help="some of " + ",".join(MEASURES))
    p.add_argument("--json", metavar="FILE", help="write all samples to FILE (-: standard output instead of the table)")
    p.add_argument("--quiet", "-q", action="store_true", help="do not say what runs")
    o = p.parse_args()
    wanted = [n for n in MEASURES if n in o.only.split(",")]
    unknown = [n for n in o.only.split(",") if n not in MEASURES]
    if unknown or not wanted:
        p.error(f"--only: {unknown[0] if unknown else 'nothing'} is not one of {', '.join(MEASURES)}")
    if o.runs < 1 or o.threads < 1:
        p.error("--runs and --threads: at least 1")
    return o, wanted


def main():
    options, wanted = parse_arguments()
    peer, ours = Peer(options), Ours(options)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))

    def note(text):
        if not options.quiet:
            print(text, file=sys.stderr, flush=True)

    try:
        peer.check(wanted)
        ours.check(wanted)
        with tempfile.TemporaryDirectory() as folder:
            pictures = {side: os.path.join(folder, f"{side}.png") for side in SIDES}
            for side, path in pictures.items():
                write_picture(path, side)
            samples = rounds(options, wanted, peer, ours, pictures, note)
    except Trouble as e:
        print(f"peer: {e}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    finally:
        peer.stop()
    table = conclude(samples)
    report = {"threads": options.threads, "runs": options.runs, "rates": RATES, "peer": peer.version, "machine": ours.machine,
              "gguf_bytes": os.path.getsize(options.gguf), "model_bytes": folder_bytes(options.model), "figures": table}
    if options.json != "-":
        show(table)
    if options.json == "-":
        print(json.dumps(report, indent=1))
    elif options.json:
        with open(options.json, "w") as f:
            json.dump(report, f, indent=1)
    return 0


def folder_bytes(folder):
    """Of the weights alone."""
    return sum(os.path.getsize(os.path.join(folder, n)) for n in os.listdir(folder) if n.endswith(".safetensors"))


if __name__ == "__main__":
    sys.exit(main())
