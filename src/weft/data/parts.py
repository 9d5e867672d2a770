# SPDX-License-Identifier: MIT
"""A table in several parquet files: a folder of them, however deep, or those of a pattern; read one by one.

Folders named `year=2020` give a column `year`, as elsewhere (Hive). Files may differ in the types of their columns and in their order, and
may be empty; what the rows mean is decided where all of them are together.
"""

import glob
import os
import pathlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from weft.data.tables import time_columns

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Part", "is_of_parts", "joined_parts", "names_of", "num_rows_of", "parts_of", "read_part"]

_ENDINGS = (".parquet", ".pq", ".parq")


class Part(NamedTuple):
    """One file, and what the names of its folders say."""

    path: str
    keys: tuple[tuple[str, str], ...]


def is_of_parts(path: str | os.PathLike[str]) -> bool:
    """Whether a path means several files: a folder that is no Zarr store, or a pattern with * or ? that is no file itself."""
    place = pathlib.Path(path)
    if place.exists():
        return place.is_dir() and place.suffix.lower() != ".zarr"
    return glob.has_magic(str(path))


def parts_of(path: str | os.PathLike[str]) -> list[Part]:
    """The files, in the order of their names, by whole paths: whoever reads them may be at home elsewhere."""
    place = pathlib.Path(path)
    if place.is_dir():
        found = [each for each in place.rglob("*") if each.suffix.lower() in _ENDINGS]
        # What other programs keep beside the data begins with a dot or an underscore.
        found = [each for each in found if not any(name[0] in "._" for name in each.relative_to(place).parts)]
    else:
        found = [pathlib.Path(name) for name in glob.glob(str(path), recursive=True)]
    found = sorted(each for each in found if each.is_file())
    if not found:
        what = "is a folder without" if place.is_dir() else "matches no"
        raise FileNotFoundError(f"{str(path)!r} {what} parquet files; give a file, or a folder or pattern of those")
    return [Part(os.path.abspath(each), _keys(each)) for each in found]


def _keys(path: pathlib.Path) -> tuple[tuple[str, str], ...]:
    pairs = (folder.partition("=") for folder in path.parts[:-1])
    return tuple((name, value) for name, sign, value in pairs if sign and name)


def num_rows_of(part: Part) -> int:
    """How many rows a file says it has."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return int(pq.read_metadata(part.path).num_rows)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise _damaged(part) from error


def names_of(part: Part) -> tuple[str, ...]:
    """The columns of a file, and those that its folders name."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        inside = pq.read_schema(part.path).names
    except (pa.ArrowException, OSError, ValueError) as error:
        raise _damaged(part) from error
    # An index without a name is in the file under one that is no column's.
    return tuple(name for name in dict.fromkeys((*inside, *dict(part.keys))) if not name.startswith("__index_level_"))


def read_part(part: Part, columns: Sequence[str] | None = None) -> "pd.DataFrame":
    """One file's rows, or some of its columns, with those that its folders name."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if not os.path.exists(part.path):
        raise FileNotFoundError(
            f"there is no file {part.path!r} here; workers must see the folders that their caller sees"
        )
    try:
        with pq.ParquetFile(part.path) as file:
            inside = file.schema_arrow.names
            wanted = None if columns is None else _wanted(columns, [*inside, *dict(part.keys)])
            own = [name for name in inside if wanted is None or name in wanted]
            frame = file.read(columns=own).to_pandas()
        # Else it keeps as much as the largest file took: a sixth of a small worker's memory.
        pa.default_memory_pool().release_unused()
    except (pa.ArrowException, OSError, ValueError) as error:
        raise _damaged(part) from error
    named = {name: value for name, value in part.keys if name not in inside and (wanted is None or name in wanted)}
    missing = [
        name
        for name in wanted or ()
        if name not in frame.columns and name not in named and name not in frame.index.names
    ]
    if missing:
        raise KeyError(f"{part.path!r} has no column {missing[0]!r}; it has {[*inside, *dict(part.keys)]}")
    return frame.assign(**{name: _number(value) for name, value in named.items()})


def _damaged(part: Part) -> ValueError:
    return ValueError(f"{part.path!r} is not a parquet file, or it is damaged; write it again")


def _wanted(columns: Sequence[str], names: Sequence[str]) -> list[str]:
    """The columns of these names, a time in several among them."""
    return [each for name in columns for each in time_columns(names, name)]


def _number(text: str) -> str | int | float:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text


def joined_parts(frames: Sequence["pd.DataFrame"]) -> "pd.DataFrame":
    """Rows one after another; those of no rows have no say in the types of columns."""
    import pandas as pd

    with_rows = [frame for frame in frames if len(frame)]
    return pd.concat(
        with_rows or list(frames[:1]), ignore_index=all(isinstance(f.index, pd.RangeIndex) for f in with_rows)
    )
