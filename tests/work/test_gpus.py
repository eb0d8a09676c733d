"""One process per GPU."""

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest

from espnet_ext.work import gpus


def two_calls(count: int) -> tuple[str, str]:
    return gpus.own_gpu(count), gpus.own_gpu(count)


@pytest.mark.parametrize("count", [2, 3])
def test_processes_take_different_gpus(count, tmp_path, monkeypatch):
    monkeypatch.setattr(gpus.tempfile, "gettempdir", lambda: str(tmp_path))
    context = get_context("fork")
    pools = [ProcessPoolExecutor(1, mp_context=context) for _ in range(count + 1)]
    taken = [pool.submit(two_calls, count).result() for pool in pools]
    assert all(first == second for first, second in taken)
    assert [first for first, _ in taken] == [f"cuda:{number}" for number in range(count)] + ["cuda:0"]
    for pool in pools:
        pool.shutdown()
    with ProcessPoolExecutor(1, mp_context=context) as pool:  # those of the others are free again
        assert pool.submit(two_calls, count).result()[0] == "cuda:0"
