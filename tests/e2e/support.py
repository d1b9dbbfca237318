"""What the Python programs of this folder share: running the command, safetensors files, reporting. Standard library only."""
import json
import os
import struct
import subprocess
import sys

BUILD = os.environ.get("BUILD", "build")
F = os.path.join(BUILD, "foresight")
failures = 0


def report(name, good, detail=""):
    global failures
    failures += not good
    print(("ok" if good else "not ok") + " - cli: " + name)
    if not good and detail:
        print("# " + str(detail)[:2000])


def case(function):
    try:
        report(function.__doc__, *function())
    except Exception as error:  # a case that dies has failed; the others go on
        report(function.__doc__, False, repr(error))


def finish():
    sys.exit(1 if failures else 0)


def run(*args, stdin=b"", **environment):
    done = subprocess.run([F, *args], input=stdin, capture_output=True, timeout=300, env=dict(os.environ, **environment))
    return done.returncode, done.stdout, done.stderr


def run_json(*args, stdin=b""):
    code, out, err = run(*args, stdin=stdin)
    assert code == 0, err
    return json.loads(out.decode("utf-8"))


def read_tensors(path):
    """name -> (dtype, shape, bytes)"""
    data = open(path, "rb").read()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    found = {}
    for name, entry in header.items():
        if name != "__metadata__":
            begin, end = entry["data_offsets"]
            found[name] = entry["dtype"], entry["shape"], data[8 + size + begin:8 + size + end]
    return found


def write_tensors(path, tensors):
    header, body = {}, b""
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    text = json.dumps(header).encode()
    open(path, "wb").write(struct.pack("<Q", len(text)) + text + body)
