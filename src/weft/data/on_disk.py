# SPDX-License-Identifier: MIT
"""Columns of numbers that stay in files: read a stretch at a time, whoever has the files' names."""

import dataclasses
import functools
import os
import shutil
import tempfile
import weakref
from collections.abc import Iterator
from typing import Any, NamedTuple, final

import numpy as np

__all__ = ["FileArrays", "NumbersOnDisk", "Piece", "TemporaryFolder"]

# Numbers that are copied at a time from file to file.
_AT_ONCE = 2**20


class Piece(NamedTuple):
    """So many numbers of one file, from a byte of it on; where the file may be written anew, when it was written."""

    path: str
    offset: int
    num: int
    written: int | None = None


@final
@dataclasses.dataclass(frozen=True)
class NumbersOnDisk:
    """Numbers of one type in pieces one after another; a copy of this elsewhere reads the same files."""

    dtype: np.dtype
    pieces: tuple[Piece, ...]

    def __len__(self) -> int:
        return sum(piece.num for piece in self.pieces)

    @functools.cached_property
    def _starts(self) -> np.ndarray:
        return np.cumsum([0, *(piece.num for piece in self.pieces[:-1])])

    def read(self, start: int, stop: int) -> np.ndarray:
        """The numbers from `start` up to `stop`."""
        found = []
        number = int(np.searchsorted(self._starts, start, side="right")) - 1
        while start < stop and number < len(self.pieces):
            piece, before = self.pieces[number], int(self._starts[number])
            last = min(stop, before + piece.num)
            if start < last:
                found.append(self._read(piece, start - before, last - before))
                start = last
            number += 1
        return np.concatenate(found) if found else np.empty(0, dtype=self.dtype)

    def chunks(self) -> Iterator[np.ndarray]:
        """All of them in order, some at a time."""
        for piece in self.pieces:
            for start in range(0, piece.num, _AT_ONCE):
                yield self._read(piece, start, min(start + _AT_ONCE, piece.num))

    def _read(self, piece: Piece, first: int, last: int) -> np.ndarray:
        try:
            with open(piece.path, "rb") as file:
                if piece.written is not None and os.fstat(file.fileno()).st_mtime_ns != piece.written:
                    raise ValueError(
                        f"{piece.path!r} has been written anew since the model was loaded from it; load it again"
                    )
                file.seek(piece.offset + first * self.dtype.itemsize)
                found = np.fromfile(file, self.dtype, last - first)
        except FileNotFoundError:
            raise FileNotFoundError(
                f"rows of the model are in {piece.path!r}, which is not there (any more); whoever answers must see the folders "
                "that the one who learned sees"
            ) from None
        if len(found) < last - first:
            raise ValueError(f"{piece.path!r} is cut short: rows of the model are missing")
        return found


# What a file holds besides JSON: arrays, and columns that are not in memory.
FileArrays = list[np.ndarray | NumbersOnDisk]


@final
class TemporaryFolder:
    """A folder that is removed with the last reference to this in the process that made it; elsewhere it is only a name."""

    def __init__(self, parent: str | None = None):
        self.path = tempfile.mkdtemp(prefix="weft-rows-", dir=parent)
        weakref.finalize(self, _remove, self.path, os.getpid())

    def __reduce__(self) -> tuple[Any, ...]:
        return _named, (self.path,)


def _named(path: str) -> TemporaryFolder:
    folder = object.__new__(TemporaryFolder)
    folder.path = path
    return folder


def _remove(path: str, maker: int) -> None:
    if os.getpid() == maker:
        shutil.rmtree(path, ignore_errors=True)
