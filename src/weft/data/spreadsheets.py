# SPDX-License-Identifier: MIT
"""Tables in Excel workbooks, by the optional reader openpyxl."""

import datetime
import logging
import pathlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from weft.data.headers import is_names, is_unit_row, refuse_repeated
from weft.extras import require

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["read_workbook"]

logger = logging.getLogger("weft")


def read_workbook(path: pathlib.Path) -> "pd.DataFrame":
    """The first sheet that holds a table, with those of the same columns that go on where it ends; what is passed over is said."""
    require("excel", "reading Excel workbooks")
    import openpyxl
    import pandas as pd

    try:
        book = openpyxl.load_workbook(path, read_only=True, data_only=True)
    except Exception as error:
        # Whatever a library says of bytes it cannot make sense of: there is no list of it.
        raise ValueError(
            f"{str(path)!r} is not an Excel workbook, or it is damaged; save it again, or as csv"
        ) from error
    try:
        read = {sheet.title: [list(row) for row in sheet.iter_rows(values_only=True)] for sheet in book.worksheets}
    finally:
        book.close()
    tables: dict[str, pd.DataFrame] = {}
    for title, rows in read.items():
        start = _header_row(rows)
        # Another sheet is asked for its names alone: it may be anything.
        if start is not None and (not tables or _names(rows, start) == list(next(iter(tables.values())).columns)):
            tables[title] = _table(rows, start, path)
    if not tables:
        raise ValueError(
            f"{str(path)!r} has no sheet with a line of column names and rows below it; save the table as csv"
        )
    _refuse_side_by_side(tables, path)
    others = [title for title in read if title not in tables]
    said = f"the sheet {next(iter(tables))!r}" if len(tables) == 1 else f"the sheets {', '.join(map(repr, tables))}"
    if others or len(tables) > 1:
        over = f"; passed over {', '.join(map(repr, others))}" if others else ", one below the other"
        logger.info("%r: read %s%s", str(path), said, over)
    return pd.concat(tables.values(), ignore_index=True)


def _refuse_side_by_side(tables: "dict[str, pd.DataFrame]", path: pathlib.Path) -> None:
    """Sheets of the same columns are one table if their times differ, as of a sheet a month; of a sheet a station, names would be lost."""
    import pandas as pd

    if len(tables) == 1:
        return
    for name in next(iter(tables.values())).columns:
        if all(pd.api.types.is_datetime64_any_dtype(table[name].dtype) for table in tables.values()):
            times = pd.concat([table[name].drop_duplicates() for table in tables.values()])
            if not times.duplicated().any():
                return
    raise ValueError(
        f"{str(path)!r} has {len(tables)} sheets with the same columns ({', '.join(map(repr, tables))}); put them into one, with a column "
        "that says what the names of the sheets do, or leave one of them alone"
    )


def _header_row(rows: Sequence[Sequence[Any]]) -> int | None:
    """The first row that has a name over every column that holds anything."""
    width = max((_width(row) for row in rows), default=0)
    for number, row in enumerate(rows[:-1]):
        filled = [cell for cell in row[:width] if _text(cell)]
        # The first column may hold row numbers, without a name.
        if len(filled) >= max(width - 1, 2) and all(isinstance(cell, str | int | datetime.date) for cell in filled):
            return number if is_names([_text(cell) for cell in filled]) else None
    return None


def _table(rows: Sequence[Sequence[Any]], start: int, path: pathlib.Path) -> "pd.DataFrame":
    import pandas as pd

    width = max(_width(row) for row in rows)
    above = [row for row in rows[:start] if any(_text(cell) for cell in row)]
    if above:
        said = next(_text(cell) for cell in above[0] if _text(cell))
        logger.info("%r has lines above names of columns, passed over; the first is %r", str(path), said[:60])
    names = _names(rows, start)
    refuse_repeated(names, path)
    body = [row for row in rows[start + 1 :] if any(_text(cell) for cell in row)]
    if len(body) > 2 and is_unit_row(
        [_text(cell) for cell in body[0][:width]], [[_text(c) for c in r] for r in body[1:200]]
    ):
        logger.info("%r has a line of units below the names of columns, passed over", str(path))
        body = body[1:]
    columns = {name: pd.Series([_value(row, k) for row in body], dtype=object) for k, name in enumerate(names)}
    return pd.DataFrame({name: column.infer_objects() for name, column in columns.items()})


def _names(rows: Sequence[Sequence[Any]], start: int) -> list[str]:
    width = max(_width(row) for row in rows)
    return [_text(cell) or f"column {k + 1}" for k, cell in enumerate(rows[start][:width])]


def _value(row: Sequence[Any], number: int) -> Any:
    value = row[number] if number < len(row) else None
    return None if isinstance(value, str) and not value.strip() else value


def _width(row: Sequence[Any]) -> int:
    return max((k + 1 for k, cell in enumerate(row) if _text(cell)), default=0)


def _text(cell: Any) -> str:
    if isinstance(cell, datetime.datetime) and cell.time() == datetime.time.min:
        cell = cell.date()
    return "" if cell is None else str(cell).strip()
