# SPDX-License-Identifier: MIT
"""Which files of a folder hold what is looked for, which are something else, and which are damaged."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from weft_experiments.originals.lines import Block
from weft_experiments.originals.rejected import ReadReport

__all__ = ["Found", "Source", "paths_of", "sort_out"]

Source = str | Path | Iterable[str | Path]


@dataclass(frozen=True)
class Found:
    """The `files` that hold it, those of `other` content, and the reports of the `damaged`, which hold nothing to go by."""

    files: tuple[Path, ...]
    other: tuple[Path, ...]
    damaged: Mapping[Path, ReadReport]

    @property
    def words_on_damage(self) -> str:
        """For the end of a sentence that says that nothing was found."""
        return f"; damaged: {', '.join(str(path) for path in self.damaged)}" if self.damaged else ""


def paths_of(source: Source) -> list[Path]:
    """The files and folders a user named, all of which are there."""
    paths = [Path(source)] if isinstance(source, str | Path) else [Path(path) for path in source]
    for path in paths:
        if not path.exists():
            raise FileNotFoundError(f"there is no file or folder {path}")
    return paths


def sort_out(
    candidates: Iterable[Path], openings: Callable[[Path], Iterable[Block]], holds: Callable[[Block], bool]
) -> Found:
    """The candidates by what their openings show."""
    files, other, damaged = [], [], {}
    for path in dict.fromkeys(candidates):
        damage = ReadReport()
        for block in openings(path):
            damage += block.report
            if block.first_line > 0 and holds(block):
                files.append(path)
                break
        else:
            if damage.num_rejected:
                damaged[path] = damage
            else:
                other.append(path)
    return Found(tuple(files), tuple(other), damaged)
