# SPDX-License-Identifier: MIT
"""Tables in Excel workbooks, by the optional reader openpyxl."""

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
    """The first sheet that holds a table; lines above its names of columns and a line of units are passed over, and said."""
    require("excel", "reading Excel workbooks")
    import openpyxl

    try:
        book = openpyxl.load_workbook(path, read_only=True, data_only=True)
    except Exception as error:
        # Whatever a library says of bytes it cannot make sense of: there is no list of it.
        raise ValueError(
            f"{str(path)!r} is not an Excel workbook, or it is damaged; save it again, or as csv"
        ) from error
    try:
        for sheet in book.worksheets:
            rows = [list(row) for row in sheet.iter_rows(values_only=True)]
            start = _header_row(rows)
            if start is not None:
                others = [each.title for each in book.worksheets if each.title != sheet.title]
                if others:
                    logger.info(
                        "%r: read the sheet %r; passed over %s", str(path), sheet.title, ", ".join(map(repr, others))
                    )
                return _table(rows, start, path)
    finally:
        book.close()
    raise ValueError(f"{str(path)!r} has no sheet with a line of column names and rows below it; save the table as csv")


def _header_row(rows: Sequence[Sequence[Any]]) -> int | None:
    """The first row that has a name over every column that holds anything."""
    width = max((_width(row) for row in rows), default=0)
    for number, row in enumerate(rows[:-1]):
        filled = [cell for cell in row[:width] if _text(cell)]
        # The first column may hold row numbers, without a name.
        if len(filled) >= max(width - 1, 2) and all(isinstance(cell, str | int) for cell in filled):
            return number if is_names([_text(cell) for cell in filled]) else None
    return None


def _table(rows: Sequence[Sequence[Any]], start: int, path: pathlib.Path) -> "pd.DataFrame":
    import pandas as pd

    width = max(_width(row) for row in rows)
    above = [row for row in rows[:start] if any(_text(cell) for cell in row)]
    if above:
        said = next(_text(cell) for cell in above[0] if _text(cell))
        logger.info("%r has lines above names of columns, passed over; the first is %r", str(path), said[:60])
    names = [_text(cell) or f"column {k + 1}" for k, cell in enumerate(rows[start][:width])]
    refuse_repeated(names, path)
    body = [row for row in rows[start + 1 :] if any(_text(cell) for cell in row)]
    if len(body) > 2 and is_unit_row(
        [_text(cell) for cell in body[0][:width]], [[_text(c) for c in r] for r in body[1:200]]
    ):
        logger.info("%r has a line of units below the names of columns, passed over", str(path))
        body = body[1:]
    columns = {name: pd.Series([_value(row, k) for row in body], dtype=object) for k, name in enumerate(names)}
    return pd.DataFrame({name: column.infer_objects() for name, column in columns.items()})


def _value(row: Sequence[Any], number: int) -> Any:
    value = row[number] if number < len(row) else None
    return None if isinstance(value, str) and not value.strip() else value


def _width(row: Sequence[Any]) -> int:
    return max((k + 1 for k, cell in enumerate(row) if _text(cell)), default=0)


def _text(cell: Any) -> str:
    return "" if cell is None else str(cell).strip()
