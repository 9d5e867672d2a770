# SPDX-License-Identifier: MIT
"""A worker near its limit lets go of what it compiled, and not more often than that helps."""

import functools
import os

import pytest

from tests.distributed.deadly import hoard
from weft.distributed import executor_for, worker_memory

distributed = pytest.importorskip("distributed")


@pytest.fixture
def let_go(monkeypatch) -> list[float]:
    """How full a worker was, of 1000, whenever it let programs go; each time that brings 30 back."""
    found: list[float] = []
    monkeypatch.setattr(worker_memory, "_left_after_last", 0.0)
    monkeypatch.setattr(worker_memory.jax, "clear_caches", lambda: found.append(worker_memory._resident()))
    return found


def fill(monkeypatch, let_go: list[float], held: float, limit: int | None = 1000) -> None:
    before = len(let_go)
    monkeypatch.setattr(worker_memory, "_limit_of_worker", lambda: limit)
    monkeypatch.setattr(worker_memory, "_resident", lambda: held - 30 * (len(let_go) > before))
    worker_memory.keep_within_limit()


def test_programs_are_let_go_before_dask_stops_the_worker(let_go, monkeypatch):
    for held in (550, 640, 660, 700, 715, 735, 741, 742):
        fill(monkeypatch, let_go, held)
    # From 640 they are gone; up to 710 it would be too soon, and beyond 740 never.
    assert let_go == [640, 715, 741, 742]


def test_nothing_is_let_go_where_nobody_sets_a_limit(let_go, monkeypatch, client):
    fill(monkeypatch, let_go, 5000, limit=None)
    assert let_go == []
    assert client.submit(worker_memory._limit_of_worker).result() is None


def test_a_worker_that_dask_has_stopped_is_started_anew(tmp_path, monkeypatch):
    """It would wait for its memory to fall, and its tasks for it."""
    monkeypatch.setattr("weft.distributed.on_dask.SECONDS_STOPPED", 1.0)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([os.environ.get("PYTHONPATH", ""), os.getcwd()]))
    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, dashboard_address="127.0.0.1:0", memory_limit=1_500_000_000
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        before = list(client.run(os.getpid).values())
        assert executor_for(client).map(functools.partial(hoard, tmp_path / "full"), range(4)) == [0, 1, 2, 3]
        assert list(client.run(os.getpid).values()) != before
