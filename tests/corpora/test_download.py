"""Downloads from a server on this machine that breaks off, knows no ranges, or serves what it should not."""

import hashlib
import io
import tarfile
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from espnet_ext.corpora import librispeech
from espnet_ext.corpora.download import download, unpack
from espnet_ext.errors import InputError


class Server(ThreadingHTTPServer):
    """Serves ``files`` by path; ``cuts`` holds after how many bytes each of the next answers breaks off."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files: dict[str, bytes] = {}
        self.cuts: list[int] = []
        self.ranges = True
        self.asked: list[str | None] = []
        self.url = f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    """Answers one request as the server's settings say."""

    def do_GET(self) -> None:
        server: Server = self.server
        data = server.files.get(self.path)
        wanted = self.headers.get("Range")
        server.asked.append(wanted)
        if data is None:
            return self.send_error(404)
        start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted and server.ranges else 0
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(data) - start))
        self.end_headers()
        cut = server.cuts.pop(0) if server.cuts else len(data)
        self.wfile.write(data[start : start + cut])

    def do_HEAD(self) -> None:
        data = self.server.files.get(self.path)
        if data is None:
            return self.send_error(404)
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()

    def log_message(self, *arguments) -> None:
        """Say nothing."""


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


DATA = bytes(range(256)) * 1000


def md5(data: bytes) -> str:
    return hashlib.md5(data).hexdigest()


def archive(*members: tarfile.TarInfo | str) -> bytes:
    """A tar.gz of plain files with the text "words", given by name, and of other members."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for member in members:
            if isinstance(member, str):
                info = tarfile.TarInfo(member)
                info.size = 5
                tar.addfile(info, io.BytesIO(b"words"))
            else:
                tar.addfile(member)
    return packed.getvalue()


def link(name: str, to: str) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = tarfile.SYMTYPE, to
    return info


# --- download ---


def test_a_broken_transfer_resumes(server: Server, tmp_path: Path) -> None:
    server.files["/file"] = DATA
    server.cuts = [100_000, 50_000]
    path = download(f"{server.url}/file", tmp_path / "new" / "file", md5(DATA), pause=0)
    assert path.read_bytes() == DATA
    assert server.asked == ["bytes=0-", "bytes=100000-", "bytes=150000-"]
    assert [item.name for item in path.parent.iterdir()] == ["file"]


def test_a_later_call_resumes(server: Server, tmp_path: Path) -> None:
    server.files["/file"] = DATA
    server.cuts = [10] * 5
    with pytest.raises(InputError, match=r"/file: the transfer broke off \(5 attempts\): run it again"):
        download(f"{server.url}/file", tmp_path / "file", md5(DATA), pause=0)
    assert [item.name for item in tmp_path.iterdir()] == ["file.part"]
    assert download(f"{server.url}/file", tmp_path / "file", md5(DATA)).read_bytes() == DATA
    assert server.asked[-1] == "bytes=50-"


def test_what_is_complete_is_only_checked(server: Server, tmp_path: Path) -> None:
    server.files["/file"] = DATA
    (tmp_path / "file.part").write_bytes(DATA)
    for _ in range(2):
        assert download(f"{server.url}/file", tmp_path / "file", md5(DATA)).read_bytes() == DATA
    assert server.asked == []
    (tmp_path / "mine").write_bytes(b"mine")
    with pytest.raises(InputError, match="mine: its md5 is not the published"):
        download(f"{server.url}/file", tmp_path / "mine", md5(DATA))
    assert (tmp_path / "mine").read_bytes() == b"mine"


def test_a_server_without_ranges(server: Server, tmp_path: Path) -> None:
    server.files["/file"] = DATA
    server.ranges = False
    assert download(f"{server.url}/file", tmp_path / "one", md5(DATA)).read_bytes() == DATA
    server.cuts = [100_000]
    with pytest.raises(InputError, match="try again"):  # what broke off cannot be resumed
        download(f"{server.url}/file", tmp_path / "two", md5(DATA), pause=0)
    assert download(f"{server.url}/file", tmp_path / "two", md5(DATA)).read_bytes() == DATA


def test_what_cannot_be_downloaded(server: Server, tmp_path: Path) -> None:
    server.files["/file"] = DATA
    with Server() as other:
        gone = other.url
    for url, message in (
        (f"{server.url}/file", f"/file: the md5 of the download is {md5(DATA)}, not the published 0123"),
        (f"{server.url}/none", "/none: the server answers 404"),
        (f"{gone}/file", "refused"),
    ):
        with pytest.raises(InputError, match=message):
            download(url, tmp_path / "file", "0123", pause=0)
    assert list(tmp_path.iterdir()) == []


# --- unpack ---


OUTSIDE = ("../outside", "a/../../outside", link("a/link", "../../outside"), link("a/link", "/etc"))


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        *((archive("a/good", member), "refused to unpack it") for member in OUTSIDE),
        (b"no archive", "it cannot be unpacked"),
        (archive("a/good")[:-20], "it cannot be unpacked"),
    ],
    ids=["parent", "parent_later", "link_to_parent", "link_to_etc", "text", "cut"],  # gzip writes the time into data
)
def test_archives_that_reach_outside_or_are_broken(tmp_path: Path, data: bytes, fault: str) -> None:
    (tmp_path / "x.tar.gz").write_bytes(data)
    with pytest.raises(InputError, match=f"x.tar.gz: {fault}"):
        unpack(tmp_path / "x.tar.gz", tmp_path / "corpus" / "folder")
    assert list((tmp_path / "corpus").iterdir()) == [] and not (tmp_path / "outside").exists()


# --- LibriSpeech ---


@pytest.fixture
def toy(server: Server, monkeypatch: pytest.MonkeyPatch) -> Server:
    """A server with two parts and the language-model text of a toy LibriSpeech."""
    for part in ("dev-clean", "test-clean"):
        data = archive("LibriSpeech/SPEAKERS.TXT", f"LibriSpeech/{part}/1/2/1-2.trans.txt")
        server.files[f"/12/{part}.tar.gz"] = data
        monkeypatch.setitem(librispeech.PARTS, part, md5(data))
    server.files["/11/librispeech-lm-norm.txt.gz"] = DATA
    monkeypatch.setattr(librispeech, "LM_TEXT_MD5", md5(DATA))
    return server


def test_download_librispeech(toy: Server, tmp_path: Path) -> None:
    toy.cuts = [30]
    parts = ["dev-clean", "test-clean"]
    corpus = librispeech.download_librispeech(tmp_path, parts, base_url=toy.url)
    assert corpus == tmp_path / "LibriSpeech"
    names = ["SPEAKERS.TXT", "dev-clean", "librispeech-lm-norm.txt.gz", "test-clean"]
    assert sorted(path.name for path in corpus.iterdir()) == names
    assert (corpus / "test-clean/1/2/1-2.trans.txt").read_text() == "words"
    assert toy.asked[:2] == ["bytes=0-", "bytes=30-"]
    toy.asked.clear()
    librispeech.download_librispeech(tmp_path, parts, base_url=toy.url)
    assert toy.asked == []


def test_wrong_archives_and_unknown_parts(toy: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right = toy.files["/12/dev-clean.tar.gz"]
    for data, published, message in (
        (right + b"x", right, "dev-clean.tar.gz: the md5"),
        (archive("music/a"), archive("music/a"), "there is no LibriSpeech/dev-clean in it"),
    ):
        toy.files["/12/dev-clean.tar.gz"] = data
        monkeypatch.setitem(librispeech.PARTS, "dev-clean", md5(published))
        with pytest.raises(InputError, match=message):
            librispeech.download_librispeech(tmp_path, ["dev-clean"], base_url=toy.url)
        assert not (tmp_path / "LibriSpeech").exists()
    with pytest.raises(InputError, match="no part 'dev'"):
        librispeech.download_librispeech(tmp_path, ["dev"])
