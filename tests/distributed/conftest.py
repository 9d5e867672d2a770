# SPDX-License-Identifier: MIT
"""One cluster of real processes for all tests of a session: starting workers takes longer than what they are asked."""

import contextlib
import os
from collections.abc import Iterator
from typing import Any

import pytest

from tests.conftest import CACHE
from weft.distributed.clients import WORKER_ENVIRONMENT

distributed = pytest.importorskip("distributed")


@contextlib.contextmanager
def client_of(workers: int, **options: Any) -> Iterator["distributed.Client"]:
    """So many workers, each a process under a nanny, who share what they compile."""
    environment = WORKER_ENVIRONMENT | {
        "JAX_COMPILATION_CACHE_DIR": str(CACHE),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.2",
        "PYTHONPATH": os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), os.getcwd()])),
    }
    with (
        distributed.LocalCluster(
            n_workers=workers, threads_per_worker=1, dashboard_address="127.0.0.1:0", env=environment, **options
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.fixture(scope="session")
def client() -> Iterator["distributed.Client"]:
    with client_of(3, memory_limit=0) as client:
        yield client


@pytest.fixture
def addresses(client: "distributed.Client") -> list[str]:
    client.wait_for_workers(3)
    return sorted(client.scheduler_info(n_workers=-1)["workers"])
