# SPDX-License-Identifier: MIT
"""Comma-separated text, read fast without guessing at times and codes, and written in pieces."""

import csv
import gzip
import io
import itertools
import pathlib
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["read_csv", "write_csv"]

_SEPARATORS = (",", ";", "\t", "|")
_SNIFFED_CHARACTERS = 262_144
# A code such as 007 is no number: read as one and written again it would be another station.
_LEADING_ZERO = re.compile(r"\s*0\d+\s*")


def read_csv(path: pathlib.Path) -> "pa.Table":
    """The table in a csv file, plain or gzipped, separated by comma, semicolon, tab or bar.

    Numbers become numbers; times stay text, exactly as written.
    """
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    head = _read_head(path)
    separator = _separator(head)
    names, text_columns = _sniff(head, separator, path)
    types = {name: pa.string() for name in text_columns}
    parse = arrow_csv.ParseOptions(delimiter=separator, newlines_in_values='"' in head)
    while True:
        try:
            table = arrow_csv.read_csv(
                path, parse_options=parse, convert_options=arrow_csv.ConvertOptions(column_types=types)
            )
        except pa.ArrowInvalid as error:
            raise ValueError(f"{str(path)!r} is not a table: {_first_line(error)}") from error
        except UnicodeDecodeError as error:
            raise ValueError(f"{str(path)!r} is not a table: it is not text in UTF-8") from error
        changed = [name for name in names if not _settled(table.schema.field(name).type)]
        if not changed:
            break
        types |= {name: pa.string() for name in changed}
    for name in names:
        if pa.types.is_binary(table.schema.field(name).type):
            raise ValueError(f"{str(path)!r} has text that is not UTF-8 in column {name!r}; save it as UTF-8")
    return table


def write_csv(pieces: Iterable["pa.Table"], path: pathlib.Path, *, compressed: bool) -> None:
    """Arrow tables one after another under one header; missing values are left empty, times are in ISO 8601."""
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    names: Sequence[str] | None = None
    # The file is opened apart from its compression, so that it is closed even if the last compressed bytes do not fit.
    with (
        pa.OSFile(str(path), "wb") as file,
        pa.output_stream(file, compression="gzip" if compressed else None) as stream,
    ):
        for piece in pieces:
            if names is None:
                names = piece.column_names
                header = io.StringIO()
                csv.writer(header, lineterminator="\n").writerow(names)
                stream.write(header.getvalue().encode())
            elif sorted(piece.column_names) != sorted(names):
                raise ValueError(f"the pieces of a table differ: columns {list(names)}, then {piece.column_names}")
            written = pa.table({name: _writable(piece.column(name)) for name in names})
            quoting = "needed" if any(_needs_quotes(column) for column in written.columns) else "none"
            arrow_csv.write_csv(written, stream, arrow_csv.WriteOptions(include_header=False, quoting_style=quoting))
    if names is None:
        raise ValueError("there is nothing to write: no piece of a table came")


def _read_head(path: pathlib.Path) -> str:
    try:
        with gzip.open(path) if path.name.lower().endswith(".gz") else path.open("rb") as file:
            raw = file.read(_SNIFFED_CHARACTERS)
    except (gzip.BadGzipFile, EOFError) as error:
        raise ValueError(f"{str(path)!r} is not a gzipped file, or it is cut short") from error
    if b"\x00" in raw:
        raise ValueError(f"{str(path)!r} is not a table: it holds binary data")
    head = raw.decode("utf-8-sig", errors="replace").lstrip()
    if not head:
        raise ValueError(f"{str(path)!r} is empty; give a file with a header and at least one row")
    if head[0] in "<{" or head.startswith("%PDF"):
        raise ValueError(
            f"{str(path)!r} is not a table: it starts with {head[:12].split()[0]!r}, not with column names"
        )
    return head


def _separator(head: str) -> str:
    header = head.splitlines()[0]
    return max(_SEPARATORS, key=header.count)


def _sniff(head: str, separator: str, path: pathlib.Path) -> tuple[list[str], list[str]]:
    """The header's names, and the columns with codes that only look like numbers."""
    lines = head.splitlines(keepends=True)
    # The last line may be cut off in the middle.
    rows = csv.reader(
        lines[:-1] if len(lines) > 1 and len(head) > _SNIFFED_CHARACTERS // 2 else lines, delimiter=separator
    )
    names = next(rows)
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise ValueError(f"{str(path)!r} has more than one column named {repeated[0]!r}; rename all but one")
    codes: set[str] = set()
    for row in itertools.islice(rows, 2000):
        codes |= {name for name, value in zip(names, row, strict=False) if _LEADING_ZERO.fullmatch(value)}
    return names, sorted(codes)


def _settled(kind: "pa.DataType") -> bool:
    import pyarrow as pa

    return not pa.types.is_temporal(kind)


def _writable(column: "pa.ChunkedArray") -> "pa.ChunkedArray":
    """A column as csv should show it."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = column.type
    if pa.types.is_dictionary(kind):
        return column.cast(kind.value_type)
    if pa.types.is_floating(kind):
        return pc.if_else(pc.is_nan(column), pa.scalar(None, kind), column)
    if pa.types.is_timestamp(kind):
        return _times_as_text(column)
    return column


def _needs_quotes(column: "pa.ChunkedArray") -> bool:
    import pyarrow as pa
    import pyarrow.compute as pc

    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        return False
    return bool(pc.any(pc.match_substring_regex(column, '[",\r\n]')).as_py())


def _times_as_text(column: "pa.ChunkedArray") -> "pa.ChunkedArray":
    """Dates where every time is midnight, else ISO 8601 with as many digits as are needed, and the offset if any."""
    import pyarrow as pa
    import pyarrow.compute as pc

    zone = column.type.tz
    local = column if zone is None else pc.local_timestamp(column)
    if zone is None and pc.all(pc.equal(local, pc.floor_temporal(local, unit="day"))).as_py() is not False:
        return pc.strftime(local, format="%Y-%m-%d")
    seconds = pc.floor_temporal(local, unit="second")
    if pc.all(pc.equal(local, seconds)).as_py() is not False:
        # strftime writes as many digits of the second as the type holds.
        column = column.cast(pa.timestamp("s", tz=zone))
    text = pc.strftime(column, format="%Y-%m-%dT%H:%M:%S" + ("" if zone is None else "%z"))
    return text if zone is None else pc.replace_substring_regex(text, r"([+-]\d{2})(\d{2})$", r"\1:\2")


def _first_line(error: Exception) -> str:
    line = str(error).strip().splitlines()[0]
    return line if len(line) <= 160 else line[:160] + "..."
