# SPDX-License-Identifier: MIT
"""Tasks on processes of this machine, with nothing but Python's own library."""

import concurrent.futures
import functools
import multiprocessing
import pathlib
import pickle
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures.process import BrokenProcessPool
from types import TracebackType
from typing import Any, TypeVar, final

from weft.arrays import require_whole
from weft.distributed.interrupts import without_interrupts
from weft.distributed.tasks import PASSED_ON, RETRIES, Done, TaskError, accepted, failed, run_metered
from weft.inference.executor import Arrivals, Executor, awaited

__all__ = ["Processes"]

Answer = TypeVar("Answer")


@final
class Processes(Executor):
    """So many processes, started with the first task; `close` ends them, as does leaving `with Processes(2) as executor:`.

    Pieces are spilled to a folder of their own, from which each process reads those it is given.
    """

    def __init__(self, count: int):
        require_whole("count", count, 1)
        self.count = count
        self._folder = tempfile.TemporaryDirectory(prefix="weft-pieces-", ignore_cleanup_errors=True)
        self._num_held = 0
        self._pool: concurrent.futures.ProcessPoolExecutor | None = None
        self._workers: list[multiprocessing.process.BaseProcess] = []

    def hold(self, piece: Any) -> "_Spilled":
        path = pathlib.Path(self._folder.name) / f"{self._num_held}.pickle"
        self._num_held += 1
        path.write_bytes(pickle.dumps(piece, protocol=pickle.HIGHEST_PROTOCOL))
        return _Spilled(path)

    def map(
        self,
        function: Callable[..., Answer],
        *columns: Sequence[Any],
        names: Sequence[str] | None = None,
        again: bool = False,
        arrived: Callable[[int, Answer], None] | None = None,
    ) -> list[Answer]:
        tasks = list(zip(*columns, strict=True))
        with awaited(len(tasks), names, arrived) as arrivals:
            for attempt in range(RETRIES + 1):
                lost = self._try(function, tasks, arrivals)
                if lost is None:
                    break
                if attempt == RETRIES:
                    raise TaskError(
                        f"{arrivals.names[lost]} lost its process {RETRIES + 1} times; perhaps memory ran out: give it fewer "
                        "processes",
                        for_people=True,
                    )
            return arrivals.in_order

    def _try(
        self, function: Callable[..., Answer], tasks: Sequence[tuple[Any, ...]], arrivals: Arrivals[Answer]
    ) -> int | None:
        """Run the tasks without an answer yet; the first that lost its process, if any did."""
        missing = arrivals.missing
        if self._pool is None:
            # Not forked: JAX's threads would not come along.
            spawn = multiprocessing.get_context("spawn")
            self._pool = concurrent.futures.ProcessPoolExecutor(self.count, mp_context=spawn)
        futures: dict[int, concurrent.futures.Future[Done]] = {}
        lost: int | None = None
        try:
            # Processes are started here, as many as there are tasks for.
            before = multiprocessing.active_children()
            with without_interrupts():
                for number in missing:
                    futures[number] = self._pool.submit(_run_spilled, function, *tasks[number])
                self._workers += [process for process in multiprocessing.active_children() if process not in before]
            for number, future in futures.items():
                try:
                    arrivals.add(number, accepted(future.result()))
                except BrokenProcessPool:
                    lost = number if lost is None else lost
                except PASSED_ON:
                    raise
                except Exception as error:
                    raise failed(arrivals.names[number], error) from error
        except BrokenProcessPool:
            lost = missing[0]
        except BaseException as error:
            for future in futures.values():
                future.cancel()
            if not isinstance(error, Exception):
                self._stop()
            raise
        if lost is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = None
            self._workers.clear()
        return lost

    def _stop(self) -> None:
        """End the processes amid their tasks, whose answers nobody waits for any more; the next tasks start others."""
        pool, self._pool = self._pool, None
        assert pool is not None
        # From Python 3.14 on there is `terminate_workers`.
        for process in self._workers:
            process.terminate()
        self._workers.clear()
        pool.shutdown(cancel_futures=True)

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
            self._pool = None
        self._folder.cleanup()

    def __enter__(self) -> "Processes":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


@final
class _Spilled:
    """A piece in a file, removed with the last reference to it here; elsewhere it is only read."""

    def __init__(self, path: pathlib.Path):
        self.path = path

    def __del__(self) -> None:
        self.path.unlink(missing_ok=True)

    def __reduce__(self) -> tuple[Any, ...]:
        return _Sent, (self.path,)


@final
class _Sent:
    """The name of a spilled piece, where it is read."""

    def __init__(self, path: pathlib.Path):
        self.path = path


def _run_spilled(function: Callable[..., Any], *arguments: Any) -> Done:
    return run_metered(function, *(_read(each.path) if isinstance(each, _Sent) else each for each in arguments))


# As many as a process may have to do with at a time.
@functools.lru_cache(maxsize=16)
def _read(path: pathlib.Path) -> Any:
    return pickle.loads(path.read_bytes())
