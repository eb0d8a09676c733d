"""A hub on this machine: as much of the Hugging Face hub's HTTP interface as downloads need."""

import hashlib
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.parse import unquote


class FakeHub(ThreadingHTTPServer):
    """Models by name, each with its files by path.

    Attributes:
        models: name -> path -> contents.
        gated: names of the models whose authors must grant access.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.models: dict[str, dict[str, bytes]] = {}
        self.gated: set[str] = set()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


@contextmanager
def running() -> Iterator[FakeHub]:
    with FakeHub() as hub:
        thread = Thread(target=hub.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        yield hub
        hub.shutdown()
        thread.join()


def commit_of(files: dict[str, bytes]) -> str:
    return hashlib.sha1(repr(sorted(files.items())).encode()).hexdigest()


class Handler(BaseHTTPRequestHandler):
    """The addresses that huggingface_hub asks for; any other is an error 501, which fails the test."""

    server: FakeHub

    def log_message(self, *_: object) -> None:
        pass

    def answer(self, status: int, body: object = None, **headers: str) -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def refused(self, name: str) -> bool:
        """Whether the model is not there, or not for this reader; then that is answered."""
        if name not in self.server.models:
            self.answer(404, {"error": "Repository not found"}, X_Error_Code="RepoNotFound")
        elif name in self.server.gated:
            self.answer(403, {"error": "Access to this model is restricted"}, X_Error_Code="GatedRepo")
        else:
            return False
        return True

    def do_GET(self) -> None:
        path = unquote(self.path.partition("?")[0])
        if found := re.fullmatch(r"/api/models/([\w.-]+/[\w.-]+)(?:/(revision|tree)/([^/]+))?", path):
            name, kind, revision = found.groups()
            if self.refused(name):
                return
            files = self.server.models[name]
            if revision not in (None, "main", commit_of(files)):
                self.answer(404, {"error": "Revision not found"}, X_Error_Code="RevisionNotFound")
            elif kind == "tree":
                rows = [
                    {"type": "file", "path": each, "size": len(data), "oid": hashlib.sha1(data).hexdigest()}
                    for each, data in files.items()
                ]
                self.answer(200, rows)
            else:
                names = [{"rfilename": each} for each in files]
                self.answer(200, {"id": name, "sha": commit_of(files), "siblings": names, "private": False, "tags": []})
        elif found := re.fullmatch(r"/([\w.-]+/[\w.-]+)/resolve/[^/]+/(.+)", path):
            name, file = found.groups()
            if self.refused(name):
                return
            files = self.server.models[name]
            if file in files:
                etag = f'"{hashlib.sha1(files[file]).hexdigest()}"'
                self.answer(200, files[file], ETag=etag, X_Repo_Commit=commit_of(files))
            else:
                self.answer(404, {"error": "Entry not found"}, X_Error_Code="EntryNotFound")
        else:
            self.answer(501, {"error": f"{self.command} {path}"})

    do_HEAD = do_GET
