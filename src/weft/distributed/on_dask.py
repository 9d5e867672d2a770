# SPDX-License-Identifier: MIT
"""Tasks on the workers of a Dask cluster."""

import contextlib
import functools
import itertools
import logging
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
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
    """The workers of `client`, or those of them at some addresses. Pieces are tasks too, so that those of a lost worker are made again.

    They go to the workers in turn, and tasks follow their pieces: left to Dask, of six equal ones four were on one worker and two on the
    other. One that is lost has its pieces wherever there is room.
    """

    def __init__(self, client: "distributed.Client", workers: Sequence[str] | None = None):
        self.client = client
        self.workers = None if workers is None else list(workers)
        self._turns: Iterator[str] | None = None

    def hold(self, piece: Any) -> Any:
        with _large_is_known():
            # Wrapped, because Dask would look for futures inside of tuples.
            return self.client.submit(_unwrap, _Piece(piece), pure=False, **self._next_worker())

    def _next_worker(self) -> dict[str, Any]:
        """Whose turn it is, as `submit` is told; anybody's where there are no workers yet."""
        if self._turns is None:
            known = self.workers or sorted(self.client.scheduler_info(n_workers=-1)["workers"])
            if not known:
                return {}
            self._turns = itertools.cycle(known)
        return {"workers": [next(self._turns)], "allow_other_workers": True}

    def map(
        self,
        function: Callable[..., Answer],
        *columns: Sequence[Any],
        names: Sequence[str] | None = None,
        again: bool = False,
    ) -> list[Answer]:
        tasks = list(zip(*columns, strict=True))
        names = names_for(names, len(tasks))
        if not tasks:
            return []
        with _large_is_known():
            # In one message: one by one, a handful of tasks takes client and scheduler twice as long.
            futures = self.client.map(
                functools.partial(_run, function),
                *map(list, zip(*tasks, strict=True)),
                pure=False,
                workers=self.workers,
            )
        try:
            answers: list[Answer] = []
            with watched(len(tasks)) as done:
                while len(answers) < len(tasks):
                    for answer in self._next_answers(futures[len(answers) :], names[len(answers)]):
                        done(names[len(answers)])
                        answers.append(answer)
            return answers
        except BaseException:
            # Ctrl-C and failures leave nothing running.
            self.client.cancel(futures)
            raise

    def _next_answers(self, futures: Sequence[Any], name: str) -> list[Any]:
        """That of the first, and of those after it which are there by then: they are fetched together, which takes as long as one."""
        from distributed import KilledWorker, wait

        try:
            self._patiently(lambda timeout: wait(futures[0], timeout=timeout))
            ready = [futures[0], *itertools.takewhile(lambda future: future.status == "finished", futures[1:])]
            found = [accepted(done) for done in self._patiently(functools.partial(self._fetched, ready))]
        except KilledWorker as error:
            # Dask runs a task of a lost worker again, and gives up after `allowed-failures` of them.
            raise TaskError(
                f"{name} lost its worker {error.allowed_failures + 1} times; perhaps memory ran out: give workers "
                "more of it, or have fewer on a machine",
                for_people=True,
            ) from error
        except PASSED_ON:
            raise
        except Exception as error:
            raise failed(name, error) from error
        for future in ready:
            # A worker need not hold what is here.
            future.release()
        return found

    def _fetched(self, futures: Sequence[Any], timeout: float) -> list[Done]:
        async def fetch() -> Any:
            return await self.client.gather(list(futures), asynchronous=True)

        found: list[Done] = self.client.sync(fetch, callback_timeout=timeout)
        return found

    def _patiently(self, ask: Callable[[float], Answer]) -> Answer:
        """The answer, with another look at the workers every few seconds: those that Dask has stopped for their memory are started
        anew, since what they hold beside tasks falls by nobody's doing.
        """
        stopped: set[str] = set()
        while True:
            begun = time.monotonic()
            try:
                return ask(SECONDS_STOPPED)
            except TimeoutError:
                # A task's own comes sooner.
                if time.monotonic() - begun < SECONDS_STOPPED:
                    raise
            workers = self.client.scheduler_info(n_workers=-1)["workers"]
            before, stopped = stopped, {name for name, about in workers.items() if about["status"] == "paused"}
            if again := sorted(before & stopped):
                logger.info("Dask stopped %d of its workers for their memory; they are started anew", len(again))
                # One without a nanny has nobody to do that.
                with contextlib.suppress(ValueError):
                    self.client.restart_workers(again, raise_for_error=False)


@contextlib.contextmanager
def _large_is_known() -> Iterator[None]:
    """Dask warns of large arguments: that they are is known here, and scattered ones would be lost with their worker."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sending large graph", category=UserWarning)
        yield


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
