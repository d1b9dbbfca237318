"""`foresight pull` against hub.py: what is in the cache afterwards, what went over the wire, what is said when it fails."""
import contextlib
import hashlib
import os
import resource
import signal
import subprocess
import tempfile
import threading
import time

from hub import COMMIT, Hub, Repo, git_sha1, read_folder
from support import F, case, finish

TINY = read_folder("models/tiny")
WEIGHTS = TINY["model.safetensors"]
DROP = ("HF_", "HUGGING", "XDG_", "TRANSFORMERS_", "FORESIGHT_MODEL", "SSL_CERT_FILE", "http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY",
        "HTTPS_PROXY", "ALL_PROXY")


class Place:
    """A home of its own, in which a hub's repositories are pulled."""

    def __init__(self, home, hub):
        self.home, self.hub = home, hub
        self.cache = os.path.join(home, ".cache/huggingface/hub")

    def environment(self, more):
        clean = {k: v for k, v in os.environ.items() if not k.startswith(DROP)}
        return {**clean, "HOME": self.home, "HF_ENDPOINT": self.hub.url, **more}

    def run(self, *args, limit=None, **more):
        done = subprocess.run([F, *args], capture_output=True, timeout=120, env=self.environment(more), preexec_fn=limit,
                              restore_signals=limit is None)
        return done.returncode, done.stdout.decode(), done.stderr.decode()

    def pull(self, *args, **more):
        return self.run("pull", *args, "--retry-seconds", "0.01", **more)

    def start(self, *args):
        return subprocess.Popen([F, "pull", *args], env=self.environment({}), stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def folder(self, repo="own/er"):
        return os.path.join(self.cache, "models--" + repo.replace("/", "--"))

    def snapshot(self, path="", repo="own/er", commit=COMMIT):
        return os.path.join(self.folder(repo), "snapshots", commit, path)

    def blobs(self, repo="own/er"):
        folder = os.path.join(self.folder(repo), "blobs")
        return sorted(os.listdir(folder)) if os.path.isdir(folder) else []

    def ref(self, name="main", repo="own/er"):
        path = os.path.join(self.folder(repo), "refs", name)
        return open(path).read() if os.path.exists(path) else None

    def holds(self, files, repo="own/er", commit=COMMIT):
        """Exactly these files, each a relative link to the blob of its digest with its content."""
        model, found = Repo(files), []
        for folder, _, names in os.walk(self.snapshot(repo=repo, commit=commit)):
            found += [os.path.relpath(os.path.join(folder, n), self.snapshot(repo=repo, commit=commit)) for n in names]
        if sorted(found) != sorted(files):
            return False, (sorted(found), sorted(files))
        for path, data in files.items():
            at = self.snapshot(path, repo, commit)
            link = "../" * (2 + path.count("/")) + "blobs/" + model.digest(path)
            if os.readlink(at) != link or open(at, "rb").read() != data:
                return False, (path, os.readlink(at))
        return True, ""

    def sent(self, storage=None):
        return sum(r["sent"] for r in self.hub.log if storage is None or r["storage"] == storage)

    def is_clean(self):
        """Every blob that is not called unfinished is right; there is no snapshot and no revision."""
        for name in self.blobs():
            data = open(os.path.join(self.folder(), "blobs", name), "rb").read()
            if not name.endswith(".incomplete") and name not in (git_sha1(data), hashlib.sha256(data).hexdigest()):
                return False
        return not os.path.exists(self.snapshot()) and self.ref() is None


@contextlib.contextmanager
def place(files=None, trouble=None, **how):
    hub = Hub({"own/er": Repo(TINY if files is None else files, **how)})
    if trouble:
        hub.trouble = trouble
    with tempfile.TemporaryDirectory() as home:
        try:
            yield Place(home, hub)
        finally:
            hub.close()


def times(count, wrong, where=lambda request: request["storage"]):
    """A trouble that the first `count` requests of a kind have."""
    left = [count]

    def trouble(request):
        if not where(request) or left[0] == 0:
            return None
        left[0] -= 1
        return wrong
    return trouble


def resolved(request):
    return "/resolve/" in request["path"]


# ---- what a pull leaves ----

def everything():
    """pull: files, links and the revision are as huggingface_hub has them"""
    with place(page=3) as p:
        code, out, err = p.pull("own/er")
        good, why = p.holds(TINY)
        pages = [r for r in p.hub.log if "/tree/" in r["path"]]
        good = good and code == 0 and p.ref() == COMMIT and out == p.snapshot()[:-1] + "\n" and len(pages) == 4
        good = good and not any(b.endswith(".incomplete") for b in p.blobs()) and p.sent(True) == len(WEIGHTS) + len(TINY["tokenizer.json"])
        return good, (why, code, out, err, len(pages))


def again():
    """pull: a second one downloads nothing"""
    with place() as p:
        p.pull("own/er")
        asked = len(p.hub.log)
        code, out, err = p.pull("own/er")
        fresh = [r["path"] for r in p.hub.log[asked:]]
        return code == 0 and not any("/resolve/" in f for f in fresh) and "all there before" in err and out.strip() == p.snapshot()[:-1], fresh


def answers():
    """--model OWNER/NAME finds what was pulled, without the network"""
    with place() as p:
        p.pull("own/er")
        p.hub.trouble = lambda request: {"status": 500}
        asked = len(p.hub.log)
        want = p.run("run", "--model", "models/tiny", "--image", "tests/samples/s00.png", "Describe the picture.")
        got = p.run("run", "--model", "own/er", "--image", "tests/samples/s00.png", "Describe the picture.")
        commit = p.run("tokenize", "--model", "own/er@" + COMMIT, "a circle")
        inspect = p.run("inspect", "own/er", "--json")
        variable = p.run("tokenize", "a circle", FORESIGHT_MODEL="own/er@main")
        smaller = p.run("quantize", "own/er", p.home + "/q", "--bits", "8")
        missing = p.run("quantize", "own/other", p.home + "/q2", "--bits", "8")
        good = got[:2] == want[:2] and got[0] == 0 and inspect[0] == 0 and commit[0] == 0 and commit == variable
        good = good and smaller[0] == 0 and missing[0] == 1 and "foresight pull own/other" in missing[2]
        return good and len(p.hub.log) == asked, (want, got, commit, variable, inspect, smaller, missing)


def absent():
    """--model OWNER/NAME that was not pulled says how to; a path goes first"""
    with place() as p:
        code, _, err = p.run("tokenize", "--model", "own/er", "x")
        other = p.run("tokenize", "--model", "own/er/more", "x")
        local = p.run("tokenize", "--model", "models/tiny", "x")
        return code == 1 and "foresight pull own/er" in err and "pull" not in other[2] and other[0] == 1 and local[0] == 0, (err, other)


def revisions():
    """pull: a branch with a slash, a tag, a commit; each found again"""
    with place(revisions=["main", "refs/pr/3", "v1.0"]) as p:
        tag = p.pull("own/er", "--revision", "v1.0")
        branch = p.pull("own/er@refs/pr/3")
        before = os.listdir(os.path.join(p.folder(), "refs"))
        commit = p.pull("own/er", "--revision", COMMIT)
        found = p.run("tokenize", "--model", "own/er@refs/pr/3", "x")
        missing = p.run("tokenize", "--model", "own/er", "x")
        after = os.listdir(os.path.join(p.folder(), "refs"))
        good = tag[0] == branch[0] == commit[0] == found[0] == 0 and missing[0] == 1 and before == after
        return good and p.ref("v1.0") == p.ref("refs/pr/3") == COMMIT, (tag, branch, commit, found, missing, after)


def update():
    """pull: a new commit of the branch downloads what changed"""
    with place() as p:
        p.pull("own/er")
        new = dict(TINY, **{"config.json": TINY["config.json"] + b"\n"})
        p.hub.repos["own/er"] = Repo(new, commit="f" * 40)
        before = p.sent()
        asked = len(p.hub.log)
        code, _, err = p.pull("own/er")
        loads = [r["path"] for r in p.hub.log[asked:] if resolved(r)]
        good, why = p.holds(new, commit="f" * 40)
        return good and code == 0 and p.ref() == "f" * 40 and len(loads) == 1 and "config.json" in loads[0] and p.holds(TINY)[0], (why, loads, before)


def shared():
    """pull: files that another program put into the cache are used"""
    with place() as p:
        digest = Repo(TINY).digest("model.safetensors")
        os.makedirs(os.path.join(p.folder(), "blobs"))
        open(os.path.join(p.folder(), "blobs", digest), "wb").write(WEIGHTS)
        code, _, err = p.pull("own/er")
        return code == 0 and p.holds(TINY)[0] and p.sent(True) == len(TINY["tokenizer.json"]), (err, p.sent(True))


def chosen():
    """pull: what is needed by default, --include, --exclude"""
    more = {"pytorch_model.bin": b"b" * 50000, "README.md": b"r", "onnx/model.onnx": b"o", "original/consolidated.00.pth": b"p", "mtp/weights.safetensors": b"m",
            "pytorch_model.bin.index.json": b"{}", "other/model.safetensors": b"s", "consolidated.safetensors": b"c", "flax_model.msgpack": b"f"}
    with place(dict(TINY, **more)) as p:
        p.pull("own/er")
        default = p.holds(dict(TINY, **{"mtp/weights.safetensors": b"m"}))
    with place(dict(TINY, **more)) as p:
        code, _, err = p.pull("own/er", "--include", "*.md", "--include=onnx/", "--include", "*config.json", "--exclude", "gen*")
        files = {n: dict(TINY, **more)[n] for n in ["README.md", "onnx/model.onnx", "config.json", "tokenizer_config.json", "preprocessor_config.json",
                                                   "video_preprocessor_config.json"]}
        some = p.holds(files)
        none = p.pull("own/er", "--include", "nothing*")
        return default[0] and some[0] and code == 0 and none[0] == 1 and "model.safetensors" in none[2], (default, some, err, none)


def gguf():
    """pull: a repository of GGUF files wants an --include, and they are listed"""
    files = {"config.json": b"{}", "m-Q4_K_M.gguf": b"q" * 5, "m-Q8_0.gguf": b"q" * 7}
    with place(files) as p:
        code, out, err = p.pull("own/er")
        listed = code == 1 and out == "" and "--include" in err and "m-Q4_K_M.gguf" in err and "m-Q8_0.gguf" in err and "config.json" not in err
        asked = not any(resolved(r) for r in p.hub.log)
        code, _, _ = p.pull("own/er", "--include", "*Q4_K_M*")
        return listed and asked and code == 0 and p.holds({"m-Q4_K_M.gguf": b"q" * 5})[0], err


def environment():
    """pull: HF_HOME, HF_HUB_CACHE, HUGGINGFACE_HUB_CACHE and XDG_CACHE_HOME say where the cache is"""
    wrong = []
    with place({"model.safetensors": b"w"}) as p:
        for more, where in [({"HF_HOME": p.home + "/a"}, "a/hub"), ({"HF_HUB_CACHE": p.home + "/b", "HF_HOME": p.home + "/a"}, "b"),
                            ({"HUGGINGFACE_HUB_CACHE": "~/c/"}, "c"), ({"XDG_CACHE_HOME": p.home + "/d"}, "d/huggingface/hub")]:
            out = p.pull("own/er", **more)[1]
            if out.strip() != os.path.join(p.home, where, "models--own--er/snapshots", COMMIT):
                wrong.append((more, out))
    return not wrong, wrong


def odd_names():
    """pull: names with spaces, accents and signs, empty files, equal files"""
    files = {"model.safetensors": b"w" * 70000, "a b+c%20#?.json": b"1", "größe.json": b"", "mtp/weights.safetensors": b"w" * 70000}
    with place(files) as p:
        code, _, err = p.pull("own/er")
        return code == 0 and p.holds(files)[0], (err, p.holds(files))


# ---- troubles on the way ----

def cut():
    """pull: connections that are cut go on where they were"""
    with place(trouble=times(4, {"cut": 600000}, lambda r: r["storage"] and r["path"].endswith(Repo(TINY).digest("model.safetensors")))) as p:
        code, _, err = p.pull("own/er")
        ranges = [r["range"] for r in p.hub.log if r["storage"] and r["range"]]
        return code == 0 and p.holds(TINY)[0] and ranges == ["bytes=%d-" % (600000 * i) for i in range(1, 5)] and \
            p.sent(True) == len(WEIGHTS) + len(TINY["tokenizer.json"]), (err, ranges, p.sent(True))


def always_cut():
    """pull: given up after some tries without getting anywhere; what was read is kept, and the next pull goes on with it"""
    with place(trouble=lambda r: {"cut": 0} if r["storage"] and r["range"] else {"cut": 1000000} if r["storage"] else None) as p:
        code, _, err = p.pull("own/er")
        clean = p.is_clean()
        kept = os.path.getsize(os.path.join(p.folder(), "blobs", Repo(TINY).digest("model.safetensors") + ".incomplete"))
        p.hub.trouble = lambda r: None
        before = p.sent(True)
        again = p.pull("own/er")
        return code == 1 and "tries" in err and clean and kept == 1000000 and again[0] == 0 and p.holds(TINY)[0] and \
            p.sent(True) - before <= len(WEIGHTS) - 1000000 + len(TINY["tokenizer.json"]), (err, kept, again)


def no_ranges():
    """pull: a server without ranges sends the file from the beginning"""
    steps = [{"cut": 700000, "no_range": True}, {"no_range": True}]
    with place(dict(WEIGHTS_ONLY), trouble=lambda r: steps.pop(0) if r["storage"] and steps else None) as p:
        code, _, err = p.pull("own/er")
        return code == 0 and p.holds(WEIGHTS_ONLY)[0] and p.sent(True) == 700000 + len(WEIGHTS), (err, p.sent(True))


def wrong_checksum():
    """pull: other content than listed never gets a final name, and nothing of it is kept"""
    bad = b"x" * len(WEIGHTS)
    with place(trouble=lambda r: {"body": bad} if r["storage"] and r["path"].endswith(Repo(TINY).digest("model.safetensors")) else None) as p:
        code, out, err = p.pull("own/er")
        names = [b for b in p.blobs() if b.startswith(Repo(TINY).digest("model.safetensors"))]
        good = code == 1 and out == "" and "checksum" in err and "model.safetensors" in err and not names and p.is_clean()
    small = b"x" * len(TINY["config.json"])
    with place(trouble=lambda r: {"body": small} if r["path"].endswith("/config.json") else None) as p:
        code, _, other = p.pull("own/er")
        return good and code == 1 and "checksum" in other and git_sha1(TINY["config.json"]) not in p.blobs(), (err, other, names)


def damaged_rest():
    """pull: a damaged rest of an earlier run is found out and read anew"""
    with place() as p:
        os.makedirs(os.path.join(p.folder(), "blobs"))
        open(os.path.join(p.folder(), "blobs", Repo(TINY).digest("model.safetensors") + ".incomplete"), "wb").write(b"x" * 1000)
        long = os.path.join(p.folder(), "blobs", Repo(TINY).digest("config.json") + ".incomplete")
        open(long, "wb").write(b"x" * 100000)
        code, _, err = p.pull("own/er")
        return code == 0 and p.holds(TINY)[0] and p.sent(True) == 2 * len(WEIGHTS) - 1000 + len(TINY["tokenizer.json"]), (err, p.sent(True))


def overlong():
    """pull: a body longer than listed is refused"""
    with place(trouble=lambda r: {"body": WEIGHTS + b"more"} if r["storage"] and r["path"].endswith(Repo(TINY).digest("model.safetensors")) else None) as p:
        code, _, err = p.pull("own/er")
        return code == 1 and "more than" in err and p.is_clean(), (err, p.blobs())


def passing():
    """pull: 429 with Retry-After, 500 and 503 are waited for"""
    limit = times(1, {"status": 429, "headers": [("Retry-After", "1")]}, lambda r: "/revision/" in r["path"])
    broken, gone = times(2, {"status": 503}, resolved), times(1, {"status": 500}, lambda r: "/tree/" in r["path"])
    with place(trouble=lambda r: limit(r) or broken(r) or gone(r)) as p:
        began = time.monotonic()
        code, _, err = p.pull("own/er")
        took = time.monotonic() - began
        return code == 0 and p.holds(TINY)[0] and took >= 1, (err, took)


def too_busy():
    """pull: asked to wait for an hour, or refused without end, it gives up and says why"""
    with place(trouble=lambda r: {"status": 429, "headers": [("Retry-After", "3600")]}) as p:
        hour = p.pull("own/er")
        asked = len(p.hub.log)
        p.hub.trouble = lambda r: {"status": 503}
        never = p.pull("own/er")
        return hour[0] == never[0] == 1 and "3600" in hour[2] and "429" in hour[2] and asked == 1 and "503" in never[2] and \
            1 < len(p.hub.log) - asked < 20, (hour, never)


def killed():
    """pull: killed in the middle it leaves unfinished files alone, and the next one finishes"""
    gate = threading.Event()

    def slow(request):
        if not request["storage"]:
            return None
        return {"cut": 1500000} if not gate.is_set() and not request["range"] else wait()

    def wait():
        gate.wait(20)
        return None
    with place(WEIGHTS_ONLY, trouble=slow) as p:
        child = p.start("own/er", "--retry-seconds", "0.01")
        partial = os.path.join(p.folder(), "blobs", Repo(TINY).digest("model.safetensors") + ".incomplete")
        for _ in range(1000):
            if os.path.exists(partial) and os.path.getsize(partial) == 1500000:
                break
            time.sleep(0.01)
        child.kill()
        child.communicate()
        clean = p.is_clean() and os.path.getsize(partial) == 1500000
        gate.set()
        before = p.sent(True)
        code, _, err = p.pull("own/er")
        return clean and code == 0 and p.holds(WEIGHTS_ONLY)[0] and p.sent(True) - before <= 2 * (len(WEIGHTS) - 1500000), (err, clean)


def interrupted():
    """pull: Ctrl-C ends it with 130, also while it waits"""
    with place(trouble=lambda r: {"status": 503} if r["storage"] else None) as p:
        child = p.start("own/er", "--retry-seconds", "30")
        for _ in range(1000):
            if any(r["storage"] for r in p.hub.log):
                break
            time.sleep(0.01)
        time.sleep(0.2)
        began = time.monotonic()
        child.send_signal(signal.SIGINT)
        _, err = child.communicate(timeout=20)
        return child.returncode == 130 and time.monotonic() - began < 5 and p.is_clean() and b"stopped" in err, err


def two_at_once():
    """pull: two at once share the work"""
    with place() as p:
        children = [p.start("own/er") for _ in range(2)]
        codes = [(c.communicate(), c.returncode)[1] for c in children]
        return codes == [0, 0] and p.holds(TINY)[0] and p.sent(True) == len(WEIGHTS) + len(TINY["tokenizer.json"]), (codes, p.sent(True))


def locked():
    """pull: a lock that another program holds (flock) is waited for"""
    import fcntl
    with place(WEIGHTS_ONLY) as p:
        digest = Repo(TINY).digest("model.safetensors")
        locks = os.path.join(p.cache, ".locks/models--own--er")
        os.makedirs(locks)
        with open(os.path.join(locks, digest + ".lock"), "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            child = p.start("own/er")
            time.sleep(0.7)
            waits = child.poll() is None and p.sent(True) == 0
            open(os.path.join(p.folder(), "blobs", digest), "wb").write(WEIGHTS)  # the other program finishes
        child.communicate(timeout=20)
        return waits and child.returncode == 0 and p.sent(True) == 0 and p.holds(WEIGHTS_ONLY)[0], (waits, child.returncode)


def full_disk():
    """pull: too little room is said before anything is downloaded; a write that fails leaves what can be gone on with"""
    huge = {"type": "file", "path": "big.safetensors", "size": 134, "oid": "1" * 40, "lfs": {"oid": "2" * 64, "size": 1 << 50}}
    with place(entries=[huge]) as p:
        code, _, err = p.pull("own/er")
        said = code == 1 and "room" in err and p.sent() < 100000 and not any(resolved(r) for r in p.hub.log)

    def small_files():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (2000000, 2000000))
    with place(WEIGHTS_ONLY) as p:
        code, _, other = p.pull("own/er", limit=small_files)
        clean = p.is_clean() and len(p.blobs()) == 1
        again = p.pull("own/er")
        ranges = [r["range"] for r in p.hub.log if r["storage"] and r["range"]]
        return said and code == 1 and "cannot write" in other and clean and again[0] == 0 and ranges == ["bytes=2000000-"] and \
            p.holds(WEIGHTS_ONLY)[0], (err, other, ranges)


# ---- who may ----

def token():
    """pull: the token goes to the endpoint and never to the storage, from HF_TOKEN or a file"""
    with place(private=True) as p:
        code, _, err = p.pull("own/er", HF_TOKEN="good")
        sent = {(r["storage"], r["token"]) for r in p.hub.log}
        good = code == 0 and sent == {(False, "Bearer good"), (True, None)} and not any("good" in str(r["headers"]) for r in p.hub.log if r["storage"])
    with place({"model.safetensors": b"w"}, private=True) as p:
        os.makedirs(p.home + "/.cache/huggingface")
        open(p.home + "/.cache/huggingface/token", "w").write("good\n")
        open(p.home + "/other", "w").write(" good")
        file, other = p.pull("own/er"), p.pull("own/er", HF_HOME=p.home + "/x", HF_TOKEN_PATH=p.home + "/other")
        broken = p.pull("own/er", HF_TOKEN="go\x01od")
        unasked = p.pull("own/er", HF_TOKEN="good", HF_HUB_DISABLE_IMPLICIT_TOKEN="1")
        good = good and unasked[0] == 1 and "401" in unasked[2]
        return good and file[0] == other[0] == 0 and broken[0] == 1 and "HF_TOKEN" in broken[2], (err, sent, file, other, broken)


def other_pages():
    """pull: a page, or a redirect of the API, on another host gets no token"""
    with place(private=True) as p:
        thief = Hub({})
        thief.trouble = lambda r: {"status": 200, "headers": [("Content-Length", "7")]}
        p.hub.trouble = lambda r: {"status": 307, "headers": [("Location", thief.url + "/x")]} if "/tree/" in r["path"] else None
        p.pull("own/er", HF_TOKEN="good")
        p.hub.trouble = lambda r: {"status": 307, "headers": [("Location", "file:///etc/passwd")]} if "/tree/" in r["path"] else None
        file = p.pull("own/er", HF_TOKEN="good")
        thief.close()
        return len(thief.log) == 1 and thief.log[0]["token"] is None and file[0] == 1 and "redirects" in file[2], (thief.log, file)


def refused():
    """pull: 401, 403, gated and 404 say what to do"""
    wrong = []

    def expect(what, done, *words):
        if done[0] != 1 or done[1] or not all(w in done[2] for w in words):
            wrong.append((what, done))
    with place(private=True) as p:
        expect("401", p.pull("own/er"), "401", "HF_TOKEN", "own/er")
        expect("bad token", p.pull("own/er", HF_TOKEN="bad"), "401", "token", "wrong")
        expect("404", p.pull("own/none", HF_TOKEN="good"), "404", "no such repository", "own/none")
        expect("revision", p.pull("own/er", "--revision", "v9", HF_TOKEN="good"), "v9", "revision")
    with place(gated=["good"]) as p:
        expect("gated", p.pull("own/er"), "gated", "licence", "HF_TOKEN", p.hub.url + "/own/er")
        expect("gated, no access", p.pull("own/er", HF_TOKEN="bad"), "gated", "licence", "account")
        if p.pull("own/er", HF_TOKEN="good")[0]:
            wrong.append("a token with access")
    with place(trouble=lambda r: {"status": 403, "headers": [("X-Error-Message", "Disabled\x1b[2J.")]}) as p:
        done = p.pull("own/er")
        expect("403", done, "403", "Disabled")
        if "\x1b" in done[2]:
            wrong.append("control characters")
    return not wrong, wrong


def hostile():
    """pull: names and digests that would leave the cache are refused before anything is written"""
    wrong = []
    good = {"type": "file", "path": "x.json", "size": 3, "oid": "1" * 40}
    for change in [{"path": "../../evil.json"}, {"path": "/etc/evil.json"}, {"path": "a/../../evil.json"}, {"path": "a//b.json"}, {"path": ""}, {"path": "a\nb.json"},
                   {"path": "a\\b.json"}, {"path": "./a.json"}, {"path": "x" * 300 + ".json"}, {"path": 7}, {"oid": "../../evil"}, {"oid": "1" * 39},
                   {"oid": "A" * 40}, {"size": -1}, {"size": 1.5}, {"size": 1e300}, {"size": "3"}, {"lfs": {"oid": "1" * 40, "size": 3}}]:
        with place({"model.safetensors": b"w"}, entries=[dict(good, **change)]) as p:
            code, out, err = p.pull("own/er")
            if code != 1 or out or not err.startswith("foresight: ") or os.path.exists(p.cache):
                wrong.append((change, code, err))
    with place(commit="../../../evil") as p:
        code, _, err = p.pull("own/er")
        if code != 1 or "commit" not in err or os.path.exists(p.cache):
            wrong.append(err)
    return not wrong, wrong


def nonsense():
    """pull: answers that are no JSON, or of another kind, have a next page that is lost, or redirect in circles"""
    wrong = []
    for where in ["/revision/", "/tree/"]:
        for body in [b"", b"<html>", b"{", b"[]", b"{}", b"[1]", b'{"sha": 1}', b"\xff", b"null"]:
            if where == "/tree/" and body == b"[]":
                continue
            with place(trouble=lambda r: {"status": 200, "headers": [("X", "y")], "answer": body} if where in r["path"] else None) as p:
                send = p.hub.send
                p.hub.send = lambda h, s, b=b"", headers=(), trouble=None: send(h, s, body if b == b"trouble" else b, headers, trouble)
                code, _, err = p.pull("own/er")
                if code != 1 or not err.startswith("foresight: "):
                    wrong.append((where, body, code, err))
    for size in [3000, 30000]:  # what comes after it must not be left out silently
        long = '<http://127.0.0.1/%s>; rel="next"' % ("x" * size)
        with place({"model.safetensors": b"w"}) as p:
            send = p.hub.send
            p.hub.send = lambda h, s, b=b"", headers=(), trouble=None: send(h, s, b, [*headers, ("Link", long)], trouble)
            code, _, err = p.pull("own/er")
            if code != 1 or "next page" not in err:
                wrong.append((size, code, err))
    with place(trouble=lambda r: {"status": 302, "headers": [("Location", r["path"])]}) as p:
        code, _, err = p.pull("own/er")
        if code != 1 or "redirects" not in err or len(p.hub.log) > 20:
            wrong.append(err)
    return not wrong, wrong


def offline():
    """pull: offline it looks into the cache alone, and says what is missing"""
    with place() as p:
        nothing = p.pull("own/er", "--offline")
        p.pull("own/er")
        asked = len(p.hub.log)
        there, variable = p.pull("own/er", "--offline"), p.pull("own/er", HF_HUB_OFFLINE="1")
        os.remove(p.snapshot("config.json"))
        torn = p.pull("own/er", "--offline")
        note = p.run("tokenize", "--model", "own/er", "x")
        good = note[0] == 0 and "config.json" in note[2] and "foresight pull own/er" in note[2] and nothing[0] == 1 and "cache" in nothing[2] and there == variable and there[0] == 0 and there[1].strip() == p.snapshot()[:-1]
        return good and torn[0] == 1 and "config.json" in torn[2] and len(p.hub.log) == asked, (nothing, there, variable, torn)


def unreachable():
    """pull: without a network it says so at once, and what was pulled before"""
    with place() as p:
        p.pull("own/er")
        p.hub.close()
        began = time.monotonic()
        code, _, err = p.pull("own/er")
        return code == 1 and "cannot be reached" in err and p.snapshot()[:-1] in err and time.monotonic() - began < 5, err


def proxy():
    """pull: goes through the proxy that the environment names"""
    with place({"model.safetensors": b"w"}) as p:
        code, _, err = p.pull("own/er", HF_ENDPOINT="http://hub.invalid/", http_proxy=p.hub.url)
        return code == 0 and all(r["headers"]["Host"] == "hub.invalid" for r in p.hub.log) and p.holds({"model.safetensors": b"w"})[0], err


def wrong_usage():
    """pull: wrong names are wrong usage"""
    with place() as p:
        bad = ["own", "own/er/x", "../er", "own/", "/er", "own/e r", "own/er.git", "own/e--r", "own/e..r", "-o/er", "own/er@", "own/er@../x", "own/er@a//b", "own/er@/a"]
        codes = [p.pull(b)[0] for b in bad if not b.startswith("-")] + [p.pull("--", "-o/er")[0], p.pull("own/er@a", "--revision", "b")[0], p.pull()[0]]
        return set(codes) == {2} and not p.hub.log, list(zip(bad, codes))


WEIGHTS_ONLY = {"model.safetensors": WEIGHTS}
for function in [everything, again, answers, absent, revisions, update, shared, chosen, gguf, environment, odd_names, cut, always_cut, no_ranges,
                 wrong_checksum, damaged_rest, overlong, passing, too_busy, killed, interrupted, two_at_once, locked, full_disk, token, other_pages,
                 refused, hostile, nonsense, offline, unreachable, proxy, wrong_usage]:
    case(function)
finish()
