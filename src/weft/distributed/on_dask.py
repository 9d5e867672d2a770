# SPDX-License-Identifier: MIT
"""Tasks on the workers of a Dask cluster."""

import asyncio
import contextlib
import functools
import itertools
import logging
import time
import warnings
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, final

from weft.distributed.tasks import PASSED_ON, Done, TaskError, accepted, failed, run_metered
from weft.distributed.worker_memory import keep_within_limit
from weft.inference.executor import Arrivals, Executor, awaited

if TYPE_CHECKING:
    import distributed

__all__ = ["OnDask", "evened_out"]

logger = logging.getLogger("weft")

Answer = TypeVar("Answer")
# A worker is started anew if it was stopped at two looks, so far apart.
SECONDS_STOPPED = 10.0
# A piece is copied to another worker where the one with most to do has by so much less then: copies take memory.
WORTH_WHILE = 0.03


@final
class OnDask(Executor):
    """The workers of `client`, or those of them at some addresses. Pieces are tasks too, so that those of a lost worker are made again.

    They go to the workers in turn, and tasks follow their pieces: left to Dask, of six equal ones four were on one worker and two on the
    other. One that is lost has its pieces wherever there is room.

    What is done again and again with other numbers, as the evaluations of a climb, is one call a worker, of all tasks whose pieces it
    has: six tasks take Dask twenty times as long as a call, which was a sixth of an evaluation of an ordinary fit. What a call does not
    bring back, because its worker died or no longer has the piece, are tasks after all. The first such call tells what each piece takes
    of a processor; where that is shared out unevenly, some go to another worker too, and are asked there from then on.
    """

    def __init__(self, client: "distributed.Client", workers: Sequence[str] | None = None):
        self.client = client
        self.workers = None if workers is None else list(workers)
        self._turns: Iterator[str] | None = None
        # Where pieces were when they were last looked for, by their keys.
        self._places: dict[Any, str] = {}
        # The pieces that a call has told the work of, and those of them that are asked as a copy elsewhere.
        self._weighed: set[Any] = set()
        self._copies: dict[Any, Any] = {}

    def hold(self, piece: Any) -> Any:
        with _large_is_known():
            # Wrapped, because Dask would look for futures inside of tuples.
            held = self.client.submit(_unwrap, _Piece(piece), pure=False, **self._next_worker())
        weakref.finalize(held, _forget, self._places, self._weighed, self._copies, held.key)
        return held

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
        arrived: Callable[[int, Answer], None] | None = None,
    ) -> list[Answer]:
        tasks = list(zip(*columns, strict=True))
        if not tasks:
            return []
        with awaited(len(tasks), names, arrived) as arrivals:
            if again:
                self._call(function, tasks, arrivals)
            self._submit(function, tasks, arrivals)
            return arrivals.in_order

    def _submit(
        self, function: Callable[..., Answer], tasks: Sequence[tuple[Any, ...]], arrivals: Arrivals[Answer]
    ) -> None:
        """The tasks without an answer yet as Dask's own; answers come in their order."""
        missing = arrivals.missing
        if not missing:
            return
        with _large_is_known():
            # In one message: one by one, a handful of tasks takes client and scheduler twice as long.
            futures = self.client.map(
                functools.partial(_run, function),
                *map(list, zip(*(tasks[number] for number in missing), strict=True)),
                pure=False,
                workers=self.workers,
            )
        try:
            done = 0
            while done < len(missing):
                for answer in self._next_answers(futures[done:], arrivals.names[missing[done]]):
                    arrivals.add(missing[done], answer)
                    done += 1
        except BaseException:
            # Ctrl-C and failures leave nothing running.
            self.client.cancel(futures)
            raise

    def _call(
        self, function: Callable[..., Answer], tasks: Sequence[tuple[Any, ...]], arrivals: Arrivals[Answer]
    ) -> None:
        """Those tasks whose worker is known, in one call a worker; what comes back arrives in their order."""
        calls: dict[str, list[tuple[int, tuple[Any, ...]]]] = {}
        pieces = [[each for each in task if _is_future(each)] for task in tasks]
        asked = {each.key: self._copy_of(each) for held in pieces for each in held}
        self._look_for(list(asked.values()))
        for number, (task, held) in enumerate(zip(tasks, pieces, strict=True)):
            holders = {self._places.get(asked[each.key].key) for each in held}
            if len(holders) == 1 and (address := holders.pop()) is not None:
                named = tuple(_Held(asked[each.key].key) if _is_future(each) else each for each in task)
                calls.setdefault(address, []).append((number, named))
        if not calls:
            return
        answered = self.client.run(_run_held, function, calls, workers=list(calls), on_error="return")
        for key, address in list(self._places.items()):
            if address in answered and not isinstance(answered[address], list):
                del self._places[key]
        # Of a worker that is gone there is an error of the network's, and its tasks are as they were.
        came = dict(pair for pairs in answered.values() if isinstance(pairs, list) for pair in pairs)
        for number in (number for each in calls.values() for number, _ in each if number not in came):
            # Dask may have moved the piece: it is looked for again.
            for each in pieces[number]:
                self._places.pop(asked[each.key].key, None)
        self._share_out(
            {
                pieces[number][0]: done.processor_seconds
                for number, done in sorted(came.items())
                if isinstance(done, Done) and len(pieces[number]) == 1
            }
        )
        for number in sorted(came):
            outcome = came[number]
            if isinstance(outcome, Done):
                arrivals.add(number, accepted(outcome))
            elif isinstance(outcome, PASSED_ON):
                raise outcome
            else:
                raise failed(arrivals.names[number], outcome) from outcome

    def _share_out(self, seconds: Mapping[Any, float]) -> None:
        """Copy some pieces to other workers, where these would end at times that differ much; `seconds` tells what each takes.

        Once for each piece: seconds of a busy machine are never the same.
        """
        new = {piece.key: piece for piece in seconds if piece.key not in self._weighed}
        self._weighed.update(new)
        places = {key: self._places[key] for key in new if key in self._places}
        for key, worker in evened_out(places, {piece.key: each for piece, each in seconds.items()}).items():
            if worker != places[key]:
                # A task like any other, so that a copy whose worker is lost is made again.
                copy = self.client.submit(_same, new[key], pure=False, workers=[worker], allow_other_workers=True)
                self._copies[key] = copy
                weakref.finalize(copy, self._places.pop, copy.key, None)

    def _copy_of(self, piece: Any) -> Any:
        """What is asked in place of a piece: a copy of it, where the work was shared out anew."""
        copy = self._copies.get(piece.key)
        return piece if copy is None or copy.status != "finished" else copy

    def _look_for(self, pieces: Sequence[Any]) -> None:
        """Note where these are, of those that nobody knows of or that were lost meanwhile."""
        for piece in pieces:
            if piece.status != "finished":
                self._places.pop(piece.key, None)
        unknown = [piece for piece in pieces if piece.key not in self._places and piece.status == "finished"]
        if unknown:
            allowed = None if self.workers is None else set(self.workers)
            for key, addresses in self.client.who_has(unknown).items():
                known = sorted(addresses if allowed is None else allowed.intersection(addresses))
                if known:
                    self._places[key] = known[0]

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


def evened_out(places: Mapping[Any, str], seconds: Mapping[Any, float]) -> dict[Any, str]:
    """Where pieces that take so long had better be: the worker with most to do gives one to that with least, perhaps for a smaller one.

    No more of that than is worth while, since each that moves is copied.
    """
    found = dict(places)
    while True:
        loads = dict.fromkeys(sorted(set(places.values())), 0.0)
        for key, worker in found.items():
            loads[worker] += seconds[key]
        if not loads:
            return found
        most, least = max(loads, key=lambda each: loads[each]), min(loads, key=lambda each: loads[each])
        gap = loads[most] - loads[least]
        back = [None, *(key for key, worker in found.items() if worker == least)]
        pairs = [(key, other) for key, worker in found.items() if worker == most for other in back]
        # By how much the longer of the two gets shorter.
        gains = [min(moved, gap - moved) for moved in (seconds[key] - seconds.get(other, 0.0) for key, other in pairs)]
        best = max(range(len(pairs)), key=lambda number: gains[number])
        if most == least or gains[best] <= WORTH_WHILE * loads[most]:
            return found
        key, other = pairs[best]
        found[key] = least
        if other is not None:
            found[other] = most


def _forget(places: dict[Any, str], weighed: set[Any], copies: dict[Any, Any], key: Any) -> None:
    places.pop(key, None)
    weighed.discard(key)
    copies.pop(key, None)


def _same(piece: Answer) -> Answer:
    return piece


class _Held(NamedTuple):
    """Stands for a piece, where it is."""

    key: Any


def _is_future(each: Any) -> bool:
    from distributed import Future

    return isinstance(each, Future)


async def _run_held(
    function: Callable[..., Any],
    calls: dict[str, list[tuple[int, tuple[Any, ...]]]],
    dask_worker: "distributed.Worker",
) -> list[tuple[int, Done | Exception]]:
    """The calls for this worker whose pieces it has, each with its answer or its error, after whatever task is running there."""
    mine = []
    for number, task in calls[dask_worker.address]:
        if all(each.key in dask_worker.data for each in task if isinstance(each, _Held)):
            mine.append(
                (number, tuple(dask_worker.data[each.key] if isinstance(each, _Held) else each for each in task))
            )
    threads = dask_worker.executors["default"]
    return await asyncio.get_running_loop().run_in_executor(threads, _run_each, function, mine)


def _run_each(
    function: Callable[..., Any], tasks: Sequence[tuple[int, tuple[Any, ...]]]
) -> list[tuple[int, Done | Exception]]:
    found: list[tuple[int, Done | Exception]] = []
    for number, task in tasks:
        try:
            found.append((number, run_metered(function, *task)))
        except Exception as error:
            found.append((number, error))
            break
    return found


@final
class _Piece:
    def __init__(self, piece: Any):
        self.piece = piece


def _unwrap(held: _Piece) -> Any:
    return held.piece
