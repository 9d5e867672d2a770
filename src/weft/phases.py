# SPDX-License-Identifier: MIT
"""Where time and memory go: what a process spends in each phase of its work.

Code says in which phase it is (`with timing("read"):`, or `@timing("read")` on a function), and whoever wants to know keeps a
`recording` around it. Where nobody does, a mark does nothing. Time belongs to the innermost phase alone, so that phases add up to the
whole; what JAX traces and compiles belongs to "compile", wherever it happens. Nothing heavy is imported here.
"""

import contextlib
import contextvars
import functools
import mmap
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, NamedTuple, ParamSpec, TypeVar, final, get_args

from weft.notebook import table_html

__all__ = [
    "Phase",
    "Recording",
    "Spent",
    "Timings",
    "add_processor_seconds",
    "on_other_threads",
    "peak_memory",
    "recording",
    "timing",
]

Phase = Literal[
    "import",
    "compile",
    "read",
    "survey",
    "learn",
    "condition",
    "habits",
    "evaluate",
    "predict",
    "report",
    "write",
    "other",
]
PHASES: tuple[Phase, ...] = get_args(Phase)
_HEADER = ("phase", "processor", "clock", "memory")
# How JAX's names of what it traces, lowers and compiles begin.
_COMPILATIONS = "/jax/core/compile/"

Taken = ParamSpec("Taken")
Answer = TypeVar("Answer")


class Spent(NamedTuple):
    """Seconds of all processors together, seconds on the clock, and the most memory that the process was seen to hold, in bytes.

    Memory is 0 where the system does not tell.
    """

    processor_seconds: float = 0.0
    clock_seconds: float = 0.0
    peak_bytes: int = 0


_NOTHING = Spent()


@final
class Timings(Mapping[Phase, Spent]):
    """What each phase took, of those there were; print it. Phases are disjoint: seconds add up to those of the whole.

    The processor's seconds are of the whole process and of tasks that workers did for it. Memory is this process's: exact where a
    phase held more than any before it, else what was held when the phase ended.
    """

    def __init__(self, spent: Mapping[Phase, Spent] | None = None):
        spent = spent or {}
        self._spent = {phase: spent[phase] for phase in PHASES if phase in spent}

    def __getitem__(self, phase: Phase) -> Spent:
        return self._spent[phase]

    def __iter__(self) -> Iterator[Phase]:
        return iter(self._spent)

    def __len__(self) -> int:
        return len(self._spent)

    def __add__(self, other: "Timings") -> "Timings":
        return self._with(other, 1)

    def __sub__(self, earlier: "Timings") -> "Timings":
        """What was spent since `earlier`; of memory the most so far."""
        since = self._with(earlier, -1)
        return Timings({phase: spent for phase, spent in since.items() if spent[:2] != (0.0, 0.0)})

    def _with(self, other: "Timings", sign: int) -> "Timings":
        def joined(one: Spent, another: Spent) -> Spent:
            return Spent(
                one.processor_seconds + sign * another.processor_seconds,
                one.clock_seconds + sign * another.clock_seconds,
                max(one.peak_bytes, another.peak_bytes),
            )

        return Timings(
            {phase: joined(self.get(phase, _NOTHING), other.get(phase, _NOTHING)) for phase in {*self, *other}}
        )

    @property
    def total(self) -> Spent:
        """Of all phases together."""
        each = self._spent.values()
        return Spent(
            sum((spent.processor_seconds for spent in each), 0.0),
            sum((spent.clock_seconds for spent in each), 0.0),
            max((spent.peak_bytes for spent in each), default=0),
        )

    def to_json(self) -> dict[str, dict[str, float | int]]:
        return {phase: spent._asdict() for phase, spent in self._spent.items()}

    def cells(self) -> list[tuple[str, str, str, str]]:
        """A line a phase and one for the whole, as people read them."""
        return [
            (name, _seconds(spent.processor_seconds), _seconds(spent.clock_seconds), _megabytes(spent.peak_bytes))
            for name, spent in (*self._spent.items(), ("total", self.total))
        ]

    def __str__(self) -> str:
        return "\n".join("{:<10}{:>11}{:>11}{:>12}".format(*line) for line in (_HEADER, *self.cells()))

    def __repr__(self) -> str:
        return f"Timings({self._spent!r})"

    def _repr_html_(self) -> str:
        return table_html("time and memory by phase", _HEADER, self.cells())


def _seconds(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds < 99.995 else f"{seconds:.0f} s"


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.0f} MB" if size else "-"


class _Reading(NamedTuple):
    """What was spent since the process began, and what it holds now."""

    processor: float
    clock: float
    resident: int
    highest: int


@final
class Recording:
    """An account by phase, kept by the thread that began it; what is spent now belongs to the innermost phase."""

    def __init__(self, phase: Phase, read: Callable[[], _Reading]):
        self._stack: list[Phase] = [phase]
        self._read = read
        self._spent: dict[Phase, Spent] = {}
        self._lock = threading.Lock()
        self._last = read()

    @property
    def phase(self) -> Phase:
        return self._stack[-1]

    def enter(self, phase: Phase) -> None:
        self._settle()
        self._stack.append(phase)

    def leave(self) -> None:
        self._settle()
        self._stack.pop()

    def so_far(self) -> Timings:
        """What was spent until now."""
        self._settle()
        return Timings(self._spent)

    def add(self, phase: Phase, processor_seconds: float) -> None:
        """Count seconds that the processors spent where this process's own clock does not see them, or saw them elsewhere."""
        with self._lock:
            self._add(phase, Spent(processor_seconds))

    def _settle(self) -> None:
        now = self._read()
        with self._lock:
            last, self._last = self._last, now
            memory = now.highest if now.highest > last.highest else now.resident
            self._add(self.phase, Spent(now.processor - last.processor, now.clock - last.clock, memory))

    def _add(self, phase: Phase, spent: Spent) -> None:
        before = self._spent.get(phase, _NOTHING)
        self._spent[phase] = Spent(before[0] + spent[0], before[1] + spent[1], max(before[2], spent[2]))


_current: contextvars.ContextVar[Recording | None] = contextvars.ContextVar("weft_recording", default=None)


@contextlib.contextmanager
def recording(phase: Phase = "other") -> Iterator[Recording]:
    """The account of what happens within it, in `phase` where nothing says otherwise; within another, that one goes on."""
    current = _current.get()
    if current is not None:
        with timing(phase):
            yield current
        return
    _listen()
    begun = Recording(phase, _of_process)
    before = _current.set(begun)
    try:
        yield begun
    finally:
        _current.reset(before)


@contextlib.contextmanager
def timing(phase: Phase) -> Iterator[None]:
    """What is spent within it belongs to this phase, if anybody keeps an account."""
    current = _current.get()
    if current is None:
        yield
        return
    _listen()
    current.enter(phase)
    try:
        yield
    finally:
        current.leave()


def spent_so_far() -> Timings:
    """What the account that is kept now says; nothing where none is."""
    current = _current.get()
    return Timings() if current is None else current.so_far()


def on_other_threads(function: Callable[Taken, Answer]) -> Callable[Taken, Answer]:
    """`function` to be called on threads that work for this one, whose phases are told to the account that is kept here.

    All that the process spends is seen from here, so phases entered there only move the processor's seconds from one to another.
    """
    here = _current.get()
    if here is None:
        return function

    @functools.wraps(function)
    def told(*args: Taken.args, **kwargs: Taken.kwargs) -> Answer:
        aside = Recording(here.phase, _of_thread)
        before = _current.set(aside)
        try:
            return function(*args, **kwargs)
        finally:
            _current.reset(before)
            for phase, spent in aside.so_far().items():
                if phase != here.phase:
                    here.add(phase, spent.processor_seconds)
                    here.add(here.phase, -spent.processor_seconds)

    return told


def add_processor_seconds(seconds: float) -> None:
    """Count what other processes have spent for this one, in the phase that waits for them."""
    current = _current.get()
    if current is not None:
        current.add(current.phase, seconds)


def _of_process() -> _Reading:
    return _Reading(time.process_time(), time.perf_counter(), _resident_memory(), peak_memory())


def _of_thread() -> _Reading:
    return _Reading(time.thread_time(), 0.0, 0, 0)


def peak_memory() -> int:
    """The most that this process ever held, in bytes; 0 where the system does not tell."""
    try:
        import resource
    except ImportError:
        # Windows does not say.
        return 0
    # Kilobytes on Linux, bytes on macOS.
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 2**10)


def _resident_memory() -> int:
    """What this process holds now; 0 where the system does not tell."""
    try:
        with open("/proc/self/statm", "rb", buffering=0) as file:
            return int(file.read().split()[1]) * mmap.PAGESIZE
    except OSError:
        return 0


_listening = threading.Lock()


def _listen() -> None:
    """Hear of JAX's compilations from now on, once it is imported: by whoever keeps an account then; else nothing is done.

    JAX 0.8 has no public means to stop listening.
    """
    if "jax" in sys.modules and _listening.acquire(blocking=False):
        from jax import monitoring

        monitoring.register_scalar_listener(_compilation_begins)
        monitoring.register_event_duration_secs_listener(_compilation_ends)


def _compilation_begins(event: str, value: float | int, **about: Any) -> None:
    current = _current.get()
    if current is not None and event.startswith(_COMPILATIONS):
        current.enter("compile")


def _compilation_ends(event: str, duration_secs: float, **about: Any) -> None:
    current = _current.get()
    # One that began before anybody listened has no phase to leave.
    if current is not None and event.startswith(_COMPILATIONS) and current.phase == "compile":
        current.leave()
