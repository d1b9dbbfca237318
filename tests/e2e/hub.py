"""A server that behaves like the Hugging Face hub, for tests: the API of models with pages, `resolve` with a redirect to a
storage on another port for large files, ranges, and troubles by request. Standard library only.
`python3 hub.py` serves models/tiny as tests/tiny until it is interrupted."""
import hashlib
import json
import os
import re
import threading
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

COMMIT = "0123456789abcdef0123456789abcdef01234567"
LARGE = 40000  # bytes from which a file lies in the storage


def git_sha1(data):
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


class Repo:
    def __init__(self, files, **how):
        self.files = files  # path -> bytes
        self.commit = how.get("commit", COMMIT)
        self.revisions = how.get("revisions", ["main"])
        self.private = how.get("private", False)  # 401 without the token
        self.gated = how.get("gated", None)       # None, or the tokens that have access
        self.entries = how.get("entries", [])     # more entries of the listing, as they are
        self.page = how.get("page", 1000)

    def is_large(self, path):
        return len(self.files[path]) >= LARGE

    def digest(self, path):
        data = self.files[path]
        return hashlib.sha256(data).hexdigest() if self.is_large(path) else git_sha1(data)

    def listing(self):
        entries = []
        for path, data in sorted(self.files.items()):
            entry = {"type": "file", "oid": git_sha1(data), "size": len(data), "path": path}
            if self.is_large(path):
                entry["oid"] = git_sha1(b"pointer of " + path.encode())
                entry["lfs"] = {"oid": self.digest(path), "size": len(data), "pointerSize": 134}
            entries.append(entry)
        folders = sorted({os.path.dirname(p) for p in self.files} - {""})
        return entries + [{"type": "directory", "oid": "0" * 40, "size": 0, "path": f} for f in folders] + self.entries


class Hub:
    """repos: "owner/name" -> Repo. log: a dict for each request. trouble(request) may return a dict with what goes wrong:
    status, headers (with it), cut (bytes of the body, then the connection ends), no_range, body (other bytes of that length)."""

    def __init__(self, repos):
        self.repos, self.log, self.trouble = repos, [], lambda request: None
        self.lock = threading.Lock()
        self.servers = [self._serve(False), self._serve(True)]
        self.url, self.storage = ("http://127.0.0.1:%d" % s.server_address[1] for s in self.servers)

    def _serve(self, storage):
        hub = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *args):
                pass

            def do_GET(self):
                hub.answer(self, storage)

            do_HEAD = do_GET

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        server.handle_error = lambda request, address: None  # who pulls may go at any time
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        return server

    def close(self):
        for server in self.servers:
            server.shutdown()
            server.server_close()

    # ---- answers ----

    def send(self, handler, status, body=b"", headers=(), trouble=None):
        trouble = trouble or {}
        handler.send_response(status)
        for name, value in headers:
            handler.send_header(name, value)
        if not any(name.lower() == "content-length" for name, _ in headers):
            handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        if handler.command == "HEAD":
            return
        cut = trouble.get("cut")
        try:
            handler.wfile.write(body if cut is None else body[:cut])
            handler.wfile.flush()
        except OSError:
            pass
        if cut is not None:
            handler.close_connection = True

    def send_error(self, handler, status, code, message):
        self.send(handler, status, b'{"error": "no"}', [("X-Error-Code", code), ("X-Error-Message", message)])

    def send_data(self, handler, request, data, headers, trouble):
        data = trouble.get("body", data)
        wanted = re.fullmatch(r"bytes=(\d+)-", request["range"] or "")
        start = int(wanted.group(1)) if wanted and not trouble.get("no_range") else 0
        if start and start >= len(data):
            self.send(handler, 416, b"", [("Content-Range", "bytes */%d" % len(data))])
            return
        rest = data[start:]
        with self.lock:
            request["sent"] = len(rest) if trouble.get("cut") is None else min(trouble["cut"], len(rest))
        headers = headers + [("Accept-Ranges", "bytes")]
        if start:
            headers.append(("Content-Range", "bytes %d-%d/%d" % (start, len(data) - 1, len(data))))
        self.send(handler, 206 if start else 200, rest, headers, trouble)

    def answer(self, handler, storage):
        url = urllib.parse.urlsplit(handler.path)
        request = {"storage": storage, "method": handler.command, "path": urllib.parse.unquote(url.path), "query": url.query,
                   "range": handler.headers.get("Range"), "token": handler.headers.get("Authorization"), "sent": 0,
                   "headers": dict(handler.headers)}
        with self.lock:
            self.log.append(request)
            trouble = self.trouble(request) or {}
        if "status" in trouble:
            self.send(handler, trouble["status"], b"trouble", trouble.get("headers", []))
        elif storage:
            _, owner, name, digest = url.path.split("/")
            repo = self.repos[owner + "/" + name]
            data = next(d for p, d in repo.files.items() if repo.digest(p) == digest)
            self.send_data(handler, request, data, [("ETag", '"%s"' % hashlib.md5(data).hexdigest())], trouble)
        else:
            self.answer_hub(handler, request, url, trouble)

    def answer_hub(self, handler, request, url, trouble):
        api = re.fullmatch(r"/api/models/([^/]+/[^/]+)/(revision|tree)/([^/]+)/?", url.path)
        file = re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", url.path)
        name = (api or file).group(1) if api or file else ""
        revision = urllib.parse.unquote((api.group(3) if api else file.group(2)) if name else "")
        repo = self.repos.get(name)
        token = (request["token"] or "")[len("Bearer "):]
        if repo is None or (repo.private and token != "good"):
            if token == "good":
                self.send_error(handler, 404, "RepoNotFound", "Repository not found")
            else:
                self.send_error(handler, 401, "RepoNotFound", "Invalid username or password.")
        elif revision not in repo.revisions + [repo.commit]:
            self.send_error(handler, 404, "RevisionNotFound", "Invalid rev id: " + revision)
        elif api and api.group(2) == "revision":
            info = {"id": name, "modelId": name, "sha": repo.commit, "private": repo.private, "tags": [], "downloads": 0,
                    "siblings": [{"rfilename": p} for p in repo.files]}
            self.send(handler, 200, json.dumps(info).encode(), [("Content-Type", "application/json")], trouble)
        elif api:
            entries = repo.listing()
            first = int(urllib.parse.parse_qs(url.query).get("cursor", ["0"])[0])
            headers = [("Content-Type", "application/json")]
            if first + repo.page < len(entries):
                link = "%s%s?recursive=true&cursor=%d" % (self.url, url.path, first + repo.page)
                headers.append(("Link", '<%s>; rel="next"' % link))
            self.send(handler, 200, json.dumps(entries[first:first + repo.page]).encode(), headers, trouble)
        elif repo.gated is not None and token not in repo.gated:
            self.send_error(handler, 403 if token else 401, "GatedRepo", "Access to model %s is restricted." % name)
        else:
            path = urllib.parse.unquote(file.group(3))
            if path not in repo.files:
                self.send_error(handler, 404, "EntryNotFound", "Entry not found")
                return
            data, digest = repo.files[path], repo.digest(path)
            headers = [("X-Repo-Commit", repo.commit)]
            if repo.is_large(path):
                location = "%s/%s/%s?signed=1" % (self.storage, name, digest)
                headers += [("X-Linked-ETag", '"%s"' % digest), ("X-Linked-Size", str(len(data))), ("Location", location)]
                self.send(handler, 302, b"Found", headers)
            else:
                self.send_data(handler, request, data, headers + [("ETag", '"%s"' % digest)], trouble)


def read_folder(folder):
    return {name: open(os.path.join(folder, name), "rb").read() for name in os.listdir(folder)}


if __name__ == "__main__":
    hub = Hub({"tests/tiny": Repo(read_folder("models/tiny"))})
    print("HF_ENDPOINT=" + hub.url, flush=True)
    try:
        threading.Event().wait()
    except KeyboardInterrupt:
        print(json.dumps([{k: r[k] for k in ("storage", "method", "path", "range", "token", "sent")} for r in hub.log], indent=0))
