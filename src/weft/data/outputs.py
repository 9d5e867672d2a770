# SPDX-License-Identifier: MIT
"""What a piece of work reads and writes, held against each other before it starts.

The one rule: an output is no input and no other output, whatever names, links or letters they go by, and neither lies inside the other.
"""

import os
import pathlib
import secrets
from collections.abc import Mapping

from weft.data.atomic import check_output
from weft.data.files import file_kind

__all__ = ["check_outputs"]

Files = Mapping[str, str | os.PathLike[str] | None]


def check_outputs(inputs: Files, *, files: Files | None = None, tables: Files | None = None) -> None:
    """Refuse now what must not or cannot be written: `files`, and `tables`, whose names say of what kind they are.

    All are by what they are ("table", "model"), for the sentence; None stands for one that is not asked for.
    """
    stores = {what: path for what, path in _given(tables or {}) if file_kind(path, to_write=True) == "zarr"}
    outputs = dict([*_given(files or {}), *_given(tables or {})])
    for what, path in outputs.items():
        check_output(path, is_folder=what in stores)
    named = list(outputs.items())
    for place, (what, path) in enumerate(named):
        for other, read in _given(inputs):
            if _overlap(path, read):
                raise ValueError(
                    f"cannot write the {what} to {str(path)!r}: that is, or holds, the {other} {str(read)!r}, which is to be "
                    "read; give another name"
                )
        for other, also in named[:place]:
            if _overlap(path, also):
                raise ValueError(
                    f"cannot write the {what} to {str(path)!r}: the {other} goes to {str(also)!r}, and one would replace the "
                    "other; give another name"
                )


def _given(files: Files) -> list[tuple[str, str | os.PathLike[str]]]:
    return [(what, path) for what, path in files.items() if path is not None]


def _overlap(one: str | os.PathLike[str], other: str | os.PathLike[str]) -> bool:
    """Whether writing to one of two paths would touch what is at the other."""
    first, second = pathlib.Path(os.path.realpath(one)), pathlib.Path(os.path.realpath(other))
    return _is_same(first, second) or _is_within(first, second) or _is_within(second, first)


def _is_same(first: pathlib.Path, second: pathlib.Path) -> bool:
    if first == second:
        return True
    if first.exists() and second.exists():
        return first.samefile(second)
    if first.exists() or second.exists() or not (first.parent.exists() and second.parent.exists()):
        return False
    return first.parent.samefile(second.parent) and _is_one_name(first.parent, first.name, second.name)


def _is_within(inner: pathlib.Path, outer: pathlib.Path) -> bool:
    """Whether a path lies in a store, there already or yet to be made."""
    return any(_is_same(folder, outer) for folder in inner.parents)


def _is_one_name(folder: pathlib.Path, first: str, second: str) -> bool:
    """Whether a file system takes two names for one, as some do with capitals and accents: by trying, behind a prefix."""
    if first.casefold() != second.casefold() and first.isascii() and second.isascii():
        return False
    prefix = f".{secrets.token_hex(6)}."
    trial = folder / f"{prefix}{first}"
    try:
        trial.touch(exist_ok=False)
        return (folder / f"{prefix}{second}").exists()
    finally:
        trial.unlink(missing_ok=True)
