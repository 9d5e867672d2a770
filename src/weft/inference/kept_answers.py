# SPDX-License-Identifier: MIT
"""Answers of regions kept in a file as they come, so that work that was killed and goes on asks no region twice.

The file grows by a record an answer: who was asked what, as a digest, and the numbers. A record that was cut off is not there, and the
region is asked again; nothing in the file is ever executed.
"""

import contextlib
import contextvars
import hashlib
import io
import os
import pathlib
import struct
import threading
from collections.abc import Iterator
from typing import NamedTuple, final

import numpy as np

from weft.data.atomic import check_output

__all__ = ["KeptAnswers", "answers_kept", "beside", "current_answers"]

_BEGINNING = b"weft answers of regions, version 1\n"
# Who was asked what; a check of the numbers; how many bytes these are.
_HEAD = struct.Struct("<32s16sQ")


class _Record(NamedTuple):
    start: int
    length: int


def beside(checkpoint: str | os.PathLike[str]) -> pathlib.Path:
    """Where answers go whose work has its checkpoint there."""
    return pathlib.Path(f"{os.fspath(checkpoint)}.regions")


@final
class KeptAnswers:
    """Those in the file `path`, which is there from the first answer on. Unless work goes on, what was in it is gone."""

    def __init__(self, path: str | os.PathLike[str], *, go_on: bool):
        self.path = check_output(path)
        self._lock = threading.Lock()
        self._records: dict[bytes, _Record] = {}
        self._end = 0
        if self.path.exists():
            self._read_records()
            if not go_on:
                self.forget()

    def _read_records(self) -> None:
        size = self.path.stat().st_size
        with self.path.open("rb") as file:
            beginning = file.read(len(_BEGINNING))
            if not _BEGINNING.startswith(beginning):
                raise ValueError(f"{str(self.path)!r} holds no answers of regions; remove it, or give another name")
            self._end = len(beginning) if beginning == _BEGINNING else 0
            while self._end and len(head := file.read(_HEAD.size)) == _HEAD.size:
                key, check, length = _HEAD.unpack(head)
                start = self._end + _HEAD.size
                # Read as a whole only where it can be there.
                if start + length > size or _check_of(file.read(length)) != check:
                    break
                self._records[key] = _Record(start, length)
                self._end = start + length

    def __contains__(self, key: bytes) -> bool:
        return key in self._records

    def answer(self, key: bytes) -> np.ndarray:
        record = self._records[key]
        with self.path.open("rb") as file:
            file.seek(record.start)
            found: np.ndarray = np.load(io.BytesIO(file.read(record.length)), allow_pickle=False)
        return found

    def keep(self, key: bytes, answer: np.ndarray) -> None:
        """Add an answer; from any thread."""
        buffer = io.BytesIO()
        np.save(buffer, answer, allow_pickle=False)
        content = buffer.getvalue()
        with self._lock:
            with self.path.open("r+b" if self.path.exists() else "w+b") as file:
                # What comes after the last whole record was cut off.
                file.truncate(self._end)
                file.seek(self._end)
                beginning = b"" if self._end else _BEGINNING
                file.write(beginning + _HEAD.pack(key, _check_of(content), len(content)) + content)
            start = self._end + len(beginning) + _HEAD.size
            self._records[key] = _Record(start, len(content))
            self._end = start + len(content)

    def forget(self) -> None:
        self.path.unlink(missing_ok=True)
        self._records.clear()
        self._end = 0


def _check_of(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=16).digest()


_current: contextvars.ContextVar[KeptAnswers | None] = contextvars.ContextVar("weft_kept_answers", default=None)


def current_answers() -> KeptAnswers | None:
    return _current.get()


@contextlib.contextmanager
def answers_kept(path: str | os.PathLike[str] | None, *, go_on: bool) -> Iterator[None]:
    """Within it answers of regions that this thread asks are kept at `path`, and with `go_on` those there are used.

    At its end, unless by an error, they are needed no more. Where `path` is None, or answers are kept already, nothing changes.
    """
    if path is None or _current.get() is not None:
        yield
        return
    kept = KeptAnswers(path, go_on=go_on)
    before = _current.set(kept)
    try:
        yield
        kept.forget()
    finally:
        _current.reset(before)
