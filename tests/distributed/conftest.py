# SPDX-License-Identifier: MIT
"""One cluster of real processes for all tests of a session: starting workers takes longer than what they are asked."""

import os
from collections.abc import Iterator

import pytest

from tests.conftest import CACHE
from weft.distributed.clients import WORKER_ENVIRONMENT

distributed = pytest.importorskip("distributed")


@pytest.fixture(scope="session")
def client() -> Iterator["distributed.Client"]:
    """Three workers, each a process under a nanny, who share what they compile."""
    environment = WORKER_ENVIRONMENT | {
        "JAX_COMPILATION_CACHE_DIR": str(CACHE),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.2",
        "PYTHONPATH": os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), os.getcwd()])),
    }
    with (
        distributed.LocalCluster(
            n_workers=3, threads_per_worker=1, dashboard_address="127.0.0.1:0", env=environment, memory_limit=0
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.fixture
def addresses(client: "distributed.Client") -> list[str]:
    client.wait_for_workers(3)
    return sorted(client.scheduler_info(n_workers=-1)["workers"])
