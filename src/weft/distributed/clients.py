# SPDX-License-Identifier: MIT
"""What `client=` may be, and clusters that are started or joined for a while."""

import contextlib
import logging
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TypeGuard

from weft.arrays import require_whole
from weft.distributed.interrupts import without_interrupts
from weft.distributed.processes import Processes
from weft.extras import is_installed, require
from weft.inference.executor import Executor, running_on

if TYPE_CHECKING:
    import distributed

__all__ = [
    "active_client",
    "cluster",
    "executor_for",
    "is_dask_client",
    "num_workers",
    "shared_folder",
    "tasks_on",
]

logger = logging.getLogger("weft")

# Workers have one thread each, and so does all that they start: XLA's threads are told here, those of BLAS and engines by each task.
WORKER_ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false",
}

# What has to be said before a worker is started: memory that it frees in one thread is then free for all, and goes back to the system.
NANNY_SETTINGS = {"distributed.nanny.pre-spawn-environ.MALLOC_ARENA_MAX": "1"}


def executor_for(client: Any) -> Executor:
    """The executor behind a `dask.distributed.Client`, or one itself, such as `Processes(4)`."""
    if isinstance(client, Executor):
        return client
    require("dask", "client=")
    import distributed

    from weft.distributed.on_dask import OnDask

    if not isinstance(client, distributed.Client):
        raise TypeError(
            "client must be a dask.distributed.Client, a weft.distributed.Processes, or None for this process alone; "
            f"it is a {type(client).__name__}"
        )
    return OnDask(client)


@contextlib.contextmanager
def tasks_on(client: Any) -> Iterator[None]:
    """Within it tasks run on the workers of `client`; where it is None, nothing changes."""
    if client is None:
        yield
        return
    # Collections of Dask are computed by the same workers.
    chosen = client.as_current() if is_dask_client(client) else contextlib.nullcontext()
    with running_on(executor_for(client)), chosen:
        yield


def active_client() -> "distributed.Client | None":
    """The client that Dask would use now, if there is one."""
    if "distributed" not in sys.modules:
        return None
    import distributed

    try:
        return distributed.default_client()
    except ValueError:
        return None


@contextlib.contextmanager
def cluster(
    workers: int | None = None, scheduler: str | None = None
) -> Iterator["distributed.Client | Processes | None"]:
    """A client of so many workers on this machine, ended with it, or of the cluster at an address; None for neither.

    Without Dask installed the workers of this machine are plain processes.
    """
    if workers is not None and scheduler is not None:
        raise ValueError("give workers, to start some here, or scheduler, to join a cluster; not both")
    if workers is None and scheduler is None:
        yield None
        return
    if workers is not None:
        require_whole("workers", workers, 1)
        if not is_installed("dask"):
            with Processes(workers) as processes:
                yield processes
            return
    require("dask", "a scheduler's address")
    import dask
    import distributed

    if workers is None:
        with _joined(scheduler) as client:
            logger.info("%d workers of %s; dashboard: %s", num_workers(client), scheduler, client.dashboard_link)
            yield client
        return
    with dask.config.set(NANNY_SETTINGS), without_interrupts():
        started = distributed.LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            dashboard_address="127.0.0.1:0",
            env=WORKER_ENVIRONMENT,
        )
    with started, distributed.Client(started) as client:
        logger.info("%d workers started; dashboard: %s", workers, client.dashboard_link)
        yield client


def _joined(scheduler: str | None) -> "distributed.Client":
    import distributed

    try:
        return distributed.Client(scheduler)
    except (OSError, ValueError) as error:
        raise ValueError(f"no scheduler answers at {scheduler!r}: {error}") from error


def is_dask_client(client: Any) -> "TypeGuard[distributed.Client]":
    """Whether it is a client of Dask; None and processes of this machine are not."""
    return client is not None and not isinstance(client, Executor)


def shared_folder() -> str | None:
    """Where Dask has been told to keep what does not fit into memory, which all workers see; None for this machine's own place."""
    if "dask" not in sys.modules:
        return None
    import dask

    found: str | None = dask.config.get("temporary-directory", None)
    return found


def num_workers(client: "distributed.Client") -> int:
    return len(client.scheduler_info(n_workers=-1)["workers"])
