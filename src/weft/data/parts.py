# SPDX-License-Identifier: MIT
"""A table in several parquet files: a folder of them, however deep, or those of a pattern; read one by one.

Folders named `year=2020` give a column `year`, as elsewhere (Hive). Files may differ in the types of their columns and in their order, and
may be empty; what the rows mean is decided where all of them are together, or by whoever has them read alike (`PartsAlike`).
"""

import functools
import glob
import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, final

from weft.data.tables import time_columns

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

__all__ = ["Part", "PartsAlike", "is_of_parts", "joined_parts", "names_of", "num_rows_of", "parts_of", "read_part"]

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
    # An index without a name is in the file under one that is no column's.
    inside = dict.fromkeys((*_schema_of(part).names, *dict(part.keys)))
    return tuple(name for name in inside if not name.startswith("__index_level_"))


def _schema_of(part: Part) -> "pa.Schema":
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return pq.read_schema(part.path)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise _damaged(part) from error


def _index_of(part: Part) -> tuple[Any, ...]:
    """The names of the index that a file has among its columns; of none where rows are only counted."""
    about = _schema_of(part).pandas_metadata or {}
    names = {column["field_name"]: column["name"] for column in about.get("columns", ())}
    return tuple(names.get(level) for level in about.get("index_columns", ()) if isinstance(level, str))


def read_part(
    part: Part, columns: Sequence[str] | None = None, *, types: "Mapping[str, pa.DataType] | None" = None
) -> "pd.DataFrame":
    """One file's rows, or some of its columns, with those that its folders name; columns named by `types` as these."""
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
            frame = _as_types(file.read(columns=own), types or {}).to_pandas()
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


def _as_types(table: "pa.Table", types: "Mapping[str, pa.DataType]") -> "pa.Table":
    import pyarrow as pa

    if all(types.get(field.name, field.type) == field.type for field in table.schema):
        return table
    fields = [field.with_type(types.get(field.name, field.type)) for field in table.schema]
    # As pandas would join them: a whole number of more than sixteen digits is no reason to refuse.
    return table.cast(pa.schema(fields, metadata=table.schema.metadata), safe=False)


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


@final
class PartsAlike:
    """Files that have rows, to be read one by one as parts of one table: with the columns of all, in one order, each of one type.

    Of files without rows it is the first. A type is that of all files that have the column, so that a column of whole numbers in some
    and of others in the rest is one of numbers in all, and one that a file has no value of is what it is in the others. What is an index
    in some files and not in others is a column of that name; one without a name only numbers their rows.
    """

    def __init__(self, path: str | os.PathLike[str]):
        parts = parts_of(path)
        self.parts = [part for part in parts if num_rows_of(part)] or parts[:1]
        self.names = list(dict.fromkeys(name for part in self.parts for name in names_of(part)))
        found: dict[str, list[pa.DataType]] = {}
        for part in self.parts:
            for field in _schema_of(part):
                found.setdefault(field.name, []).append(field.type)
        common = {name: _common_type(types) for name, types in found.items()}
        self._types = {name: kind for name, kind in common.items() if kind is not None}
        self._is_indexed_alike = len({_index_of(part) for part in self.parts}) == 1

    @functools.cached_property
    def num_rows(self) -> int:
        return sum(num_rows_of(part) for part in self.parts)

    def read(self, part: Part, columns: Sequence[str] | None = None) -> "pd.DataFrame":
        """One of them, or those of these columns that any of them has."""
        wanted = (
            self.names if columns is None else [name for name in self.names if name in _wanted(columns, self.names)]
        )
        has = None if columns is None else [name for name in wanted if name in names_of(part)]
        frame = read_part(part, has, types=self._types)
        if not self._is_indexed_alike:
            levels = [name for name in frame.index.names if name is not None and name not in frame.columns]
            frame = frame.reset_index(levels).reset_index(drop=True)
        index = set(frame.index.names)
        frame = frame.reindex(columns=[name for name in wanted if name not in index])
        typed = {name: self._typed(frame[name], self._types[name]) for name in frame.columns if name in self._types}
        return frame.assign(**{name: column for name, column in typed.items() if column is not None})

    def _typed(self, column: "pd.Series", kind: "pa.DataType") -> "pd.Series | None":
        """A column without a value that does not say what it is one of; None where it does."""
        import pandas as pd
        import pyarrow as pa

        says = column.dtype != object and not (column.dtype.kind == "f" and not pa.types.is_floating(kind))
        if says or pa.types.is_integer(kind) or not column.isna().all():
            return None
        is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
        dtype: Any = pd.StringDtype() if is_text else pd.ArrowDtype(kind)
        return pd.Series(pd.array([None] * len(column), dtype=dtype), index=column.index)


def _common_type(types: "Sequence[pa.DataType]") -> "pa.DataType | None":
    """The type that holds values of all of these; None where there is none, as of words and numbers."""
    import pyarrow as pa

    distinct = list(dict.fromkeys(types))
    if len(distinct) > 1:
        distinct = list(dict.fromkeys(kind.value_type if pa.types.is_dictionary(kind) else kind for kind in distinct))
    try:
        schemas = [pa.schema([("column", kind)]) for kind in distinct]
        found = pa.unify_schemas(schemas, promote_options="permissive").field(0).type
    except pa.ArrowException:
        return None
    return None if pa.types.is_null(found) else found
