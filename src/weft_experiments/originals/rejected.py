# SPDX-License-Identifier: MIT
"""What a reader kept, what it refused and why: the report that comes with every table."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from jaxtyping import Bool, Integer

__all__ = ["ReadReport", "Rejected", "Sieve", "left_out", "refused"]

# So many examples of each reason are kept with file, line and text; the rest are counted.
EXAMPLES_PER_REASON = 3
LONGEST_TEXT = 80


@dataclass(frozen=True)
class Rejected:
    """One refused line, or one refused value of a line that holds many."""

    source: str
    line: int | None
    reason: str
    text: str = ""

    def __str__(self) -> str:
        place = self.source if self.line is None else f"{self.source} line {self.line}"
        return f"{place}: {self.reason}" + (f": {self.text!r}" if self.text else "")


@dataclass(frozen=True)
class ReadReport:
    """Counts of what was kept, refused (malformed or not to be believed) and left out (sound, but not usable).

    What was not asked for (other stations, elements, days, property types) is in none of the counts.
    """

    kept: int = 0
    rejected: Mapping[str, int] = field(default_factory=dict)
    left_out: Mapping[str, int] = field(default_factory=dict)
    examples: tuple[Rejected, ...] = ()
    sources: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def num_rejected(self) -> int:
        return sum(self.rejected.values())

    @property
    def num_left_out(self) -> int:
        return sum(self.left_out.values())

    def __add__(self, other: "ReadReport") -> "ReadReport":
        shown: dict[str, int] = {}
        examples = []
        for example in self.examples + other.examples:
            shown[example.reason] = shown.get(example.reason, 0) + 1
            if shown[example.reason] <= EXAMPLES_PER_REASON:
                examples.append(example)
        return ReadReport(
            kept=self.kept + other.kept,
            rejected=_summed(self.rejected, other.rejected),
            left_out=_summed(self.left_out, other.left_out),
            examples=tuple(examples),
            sources=tuple(dict.fromkeys(self.sources + other.sources)),
            notes=tuple(dict.fromkeys(self.notes + other.notes)),
        )

    def keeping(self, kept: int) -> "ReadReport":
        return replace(self, kept=kept)

    def __str__(self) -> str:
        files = f"{len(self.sources)} file" + ("" if len(self.sources) == 1 else "s")
        text = [f"kept {self.kept:,} from {files}; refused {self.num_rejected:,}; left out {self.num_left_out:,}"]
        for reason, count in sorted(self.rejected.items(), key=lambda item: -item[1]):
            text.append(f"  refused {count:,}: {reason}")
            for example in self.examples:
                if example.reason == reason:
                    place = example.source if example.line is None else f"{example.source} line {example.line}"
                    text.append(f"    {place}" + (f": {example.text}" if example.text else ""))
        for reason, count in sorted(self.left_out.items(), key=lambda item: -item[1]):
            text.append(f"  left out {count:,}: {reason}")
        text.extend(f"  note: {note}" for note in self.notes)
        return "\n".join(text)


def _summed(first: Mapping[str, int], second: Mapping[str, int]) -> dict[str, int]:
    return {reason: first.get(reason, 0) + second.get(reason, 0) for reason in {**first, **second}}


def refused(
    source: str, reason: str, lines: Integer[np.ndarray, " bad"], text_of: Callable[[int], str] = lambda row: ""
) -> ReadReport:
    """The report of one reason for refusing the given line numbers; `text_of` shows the bad row of that number."""
    if len(lines) == 0:
        return ReadReport()
    examples = tuple(
        Rejected(source, int(line), reason, text_of(row)[:LONGEST_TEXT])
        for row, line in enumerate(lines[:EXAMPLES_PER_REASON])
    )
    return ReadReport(rejected={reason: len(lines)}, examples=examples)


def left_out(reason: str, count: int) -> ReadReport:
    return ReadReport(left_out={reason: int(count)}) if count else ReadReport()


class Sieve:
    """The rows of one file on their way through checks: what has `passed` so far, and the `report` of what has not.

    A row is refused or left out once, for the first reason met.
    """

    def __init__(self, source: str, lines: Integer[np.ndarray, " row"], text_of: Callable[[int], str]) -> None:
        self.source = source
        self.lines = lines
        self.text_of = text_of
        self.passed: Bool[np.ndarray, " row"] = np.ones(len(lines), dtype=bool)
        self.report = ReadReport()

    def refuse(self, bad: Bool[np.ndarray, " row"], reason: str) -> None:
        rows = np.flatnonzero(bad & self.passed)
        self.report += refused(self.source, reason, self.lines[rows], lambda place: self.text_of(int(rows[place])))
        self.passed = self.passed & ~bad

    def leave_out(self, bad: Bool[np.ndarray, " row"], reason: str) -> None:
        self.report += left_out(reason, int((bad & self.passed).sum()))
        self.passed = self.passed & ~bad

    def pass_over(self, unasked: Bool[np.ndarray, " row"]) -> None:
        """Drop rows that nobody asked for: they are sound, and in no count."""
        self.passed = self.passed & ~unasked
