"""Runs stages in processes that are forked from one that has ESPnet loaded, which takes
longer than a run at smoke.

``run.sh`` itself is run by bash as ever; in :func:`environment` its ``espnet-ext`` is a
client of the server. The command's arguments, environment, working directory and open
files go to a fork of the server. The machine seems to have a GPU
(``tests/gpu/fake_gpus.py``), where that can be built: what uses none must leave it
alone.
"""

import fcntl
import json
import os
import socket
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
FILES = (0, 1, 2)
PRELOADED = (
    *(
        "espnet_ext.bin.asr_train",
        "espnet_ext.bin.lm_train",
        "espnet2.bin.asr_inference",
        "espnet2.bin.mt_train",
    ),
    *(
        "espnet_ext.tables.figures",
        "espnet_ext.recipe.rehearsal",
        "espnet_ext.scoring.score_files",
        "pandas",
        "lhotse",
    ),
    *(
        "espnet_ext.rescore.training.mwer_training",
        "transformers.models.bert.modeling_bert",
        "accelerate",
    ),
    *(
        "transformers.models.gpt2.modeling_gpt2",
        "espnet_ext.stitch.recogniser.task",
        "faster_whisper",
        "resemblyzer",
    ),
)


@cache
def environment() -> dict[str, str]:
    """Start the server, one for all workers of a run of pytest, and return the
    environment in which run.sh uses it.
    """
    import fake_gpus

    machine = dict(os.environ) if fake_gpus.missing() else fake_gpus.environment()
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID")
    folder = (
        Path(tempfile.gettempdir(), f"stages-{run}")
        if run
        else Path(tempfile.mkdtemp(prefix="stages"))
    )
    folder.mkdir(exist_ok=True)
    address, pid = folder / "socket", os.getppid() if run else os.getpid()
    start = f". {ROOT}/utils/path.sh && exec python {__file__} serve {address} {pid}"
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not address.exists():
            server = subprocess.Popen(
                ["bash", "-c", start],
                env=machine,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
            while (line := server.stdout.readline()) != b"ready\n":
                assert line, f"the server of stages ended: {start}"
    client = f'() {{ {sys.executable} -S -E {__file__} call {address} "$@"; }}'
    return {**machine, "BASH_FUNC_espnet-ext%%": client}


def call(address: str, arguments: list[str]) -> int:
    """Run ``espnet-ext`` with these arguments in a fork of the server, and return its
    exit status.
    """
    request = {
        "arguments": arguments,
        "environment": dict(os.environ),
        "folder": os.getcwd(),
    }
    with socket.socket(socket.AF_UNIX) as server:
        server.connect(address)
        socket.send_fds(server, [b"."], FILES)
        with server.makefile("rw") as stream:
            print(json.dumps(request), file=stream, flush=True)
            return int(stream.readline() or 137)


def serve(address: str, pid: str) -> None:
    """Load ESPnet, then fork for each call, until the process of this id is gone."""
    import importlib

    from espnet_ext.upstream import own_process
    from espnet_ext.work.gpus import hide_gpus

    hide_gpus()  # from a process that has started CUDA none can be forked
    own_process.EVERY_TRAINING = ("",)  # all checks are compiled once, not in each fork
    own_process.defer_type_checks()
    for module in PRELOADED:
        importlib.import_module(module)
    importlib.import_module(
        "espnet_ext.codeswitch.mixed_units"
    )._compile_rules()  # kept by its cache: five seconds
    own_process.prepare_forks()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen()
        print("ready", flush=True)
        listener.settimeout(1)
        while Path("/proc", pid).exists():
            try:
                client, _ = listener.accept()
            except TimeoutError:
                continue
            if not os.fork():
                answer(client)
            client.close()
            while os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG):
                pass


def answer(client: socket.socket) -> None:
    """Be the process of one command."""
    sys.path.insert(0, str(ROOT / "tests" / "docs"))
    import call_trace

    from espnet_ext import cli
    from espnet_ext.recipe import steps

    _, files, _, _ = socket.recv_fds(client, 1, len(FILES))
    with client.makefile("rw") as stream:
        request = json.loads(stream.readline())
        for file, target in zip(files, FILES, strict=True):
            os.dup2(file, target)
            os.close(file)
        os.environ.clear()
        os.environ.update(request["environment"])
        os.chdir(request["folder"])
        sys.argv = ["espnet-ext", *request["arguments"]]
        steps._PARENT = os.getppid()
        if trace := os.environ.get(call_trace.VARIABLE):
            call_trace.start_trace(trace)
        status: object = 1
        try:
            cli.main(request["arguments"])
        except SystemExit as ended:
            status = ended.code
        except BaseException:
            sys.excepthook(*sys.exc_info())
        sys.stdout.flush()
        sys.stderr.flush()
        print(int(status or 0), file=stream, flush=True)
    os._exit(0)


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(*sys.argv[2:])
    else:
        sys.exit(call(sys.argv[2], sys.argv[3:]))
