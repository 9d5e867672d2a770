# SPDX-License-Identifier: MIT
"""Tasks on the workers of a Dask cluster."""

import contextlib
import logging
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, final

from weft.distributed.tasks import PASSED_ON, Done, TaskError, accepted, failed, run_metered
from weft.distributed.worker_memory import keep_within_limit
from weft.inference.executor import Executor, names_for
from weft.inference.watching import watched

if TYPE_CHECKING:
    import distributed

__all__ = ["OnDask"]

logger = logging.getLogger("weft")

Answer = TypeVar("Answer")
# A worker is started anew if it was stopped at two looks, so far apart.
SECONDS_STOPPED = 10.0


@final
class OnDask(Executor):
    """The workers of `client`, or those of them at some addresses. Pieces are tasks too, so that those of a lost worker are made again."""

    def __init__(self, client: "distributed.Client", workers: Sequence[str] | None = None):
        self.client = client
        self.workers = None if workers is None else list(workers)

    def hold(self, piece: Any) -> Any:
        with warnings.catch_warnings():
            # That a piece is large is known here, and a scattered one would be lost with its worker.
            warnings.filterwarnings("ignore", message="Sending large graph", category=UserWarning)
            # Wrapped, because Dask would look for futures inside of tuples.
            return self._submit(_unwrap, _Piece(piece))

    def map(
        self,
        function: Callable[..., Answer],
        *columns: Sequence[Any],
        names: Sequence[str] | None = None,
        again: bool = False,
    ) -> list[Answer]:
        tasks = list(zip(*columns, strict=True))
        names = names_for(names, len(tasks))
        futures = [self._submit(_run, function, *task) for task in tasks]
        try:
            answers = []
            with watched(len(tasks)) as done:
                for future, name in zip(futures, names, strict=True):
                    answers.append(self._answer(future, name))
                    done(name)
            return answers
        except BaseException:
            # Ctrl-C and failures leave nothing running.
            self.client.cancel(futures)
            raise

    def _answer(self, future: Any, name: str) -> Any:
        from distributed import KilledWorker

        try:
            found = accepted(self._result(future))
        except KilledWorker as error:
            # Dask runs a task of a lost worker again, and gives up after `allowed-failures` of them.
            raise TaskError(
                f"{name} lost its worker {error.allowed_failures + 1} times; perhaps memory ran out: give workers "
                "more of it, or have fewer on a machine"
            ) from error
        except PASSED_ON:
            raise
        except Exception as error:
            raise failed(name, error) from error
        # A worker need not hold what is here.
        future.release()
        return found

    def _result(self, future: Any) -> Any:
        """Workers that Dask has stopped for their memory are started anew: what they hold beside tasks falls by nobody's doing."""
        stopped: set[str] = set()
        while True:
            try:
                return future.result(timeout=SECONDS_STOPPED)
            except TimeoutError:
                if future.done():
                    raise
            workers = self.client.scheduler_info(n_workers=-1)["workers"]
            before, stopped = stopped, {name for name, about in workers.items() if about["status"] == "paused"}
            if again := sorted(before & stopped):
                logger.info("Dask stopped %d of its workers for their memory; they are started anew", len(again))
                # One without a nanny has nobody to do that.
                with contextlib.suppress(ValueError):
                    self.client.restart_workers(again, raise_for_error=False)

    def _submit(self, function: Callable[..., Any], *arguments: Any) -> Any:
        return self.client.submit(function, *arguments, pure=False, workers=self.workers)


def _run(function: Callable[..., Any], *arguments: Any) -> Done:
    done = run_metered(function, *arguments)
    keep_within_limit()
    return done


@final
class _Piece:
    def __init__(self, piece: Any):
        self.piece = piece


def _unwrap(held: _Piece) -> Any:
    return held.piece
