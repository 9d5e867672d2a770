# SPDX-License-Identifier: MIT
"""Where the names of columns stand in text as people save it: below a few lines about the file, above a line of units."""

import collections
import csv
import dataclasses
import itertools
import pathlib
import re
from collections.abc import Iterable, Sequence
from typing import final

__all__ = ["BLANKS", "Header", "find_header", "is_names", "is_number", "is_unit_row", "refuse_repeated"]

# Any number of blanks between two fields; the others are single characters.
BLANKS = " "
_SEPARATORS = (",", ";", "\t", "|")
_MOST_LINES = 200
_COMMENT = ("#", "%", "//")
_NUMBER = re.compile(r"[+-]?(\d+([.,]\d*)?|[.,]\d+)([eE][+-]?\d+)?")
_TIME = re.compile(r"\d{1,4}[-/.:]\d{1,2}([-/.:]\d{1,4})?([T ].*)?")
# Words for "no value" that are no unit; m and - are.
_NO_UNITS = frozenset({"na", "n/a", "nan", "-nan", "null", "none", "#n/a", "#na", "missing"})


@final
@dataclasses.dataclass(frozen=True)
class Header:
    """The separator, lines above the names of columns, and names where no one line has them all: then lines above the data are meant.

    `said` is how such names came about, in words.
    """

    separator: str
    num_above: int
    first_above: str = ""
    names: tuple[str, ...] | None = None
    has_units: bool = False
    said: str = ""


def is_number(text: str) -> bool:
    return _NUMBER.fullmatch(text.strip()) is not None


def is_names(fields: Sequence[str]) -> bool:
    """Whether a line may be one of column names: there are some, and not all are numbers or times."""
    given = [field.strip() for field in fields if field.strip()]
    return bool(given) and not all(is_number(field) or _TIME.fullmatch(field) for field in given)


def refuse_repeated(names: Sequence[str], path: pathlib.Path) -> None:
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise ValueError(f"{str(path)!r} has more than one column named {repeated[0]!r}; rename all but one")


def is_unit_row(first: Sequence[str], others: Sequence[Sequence[str]]) -> bool:
    """Whether the line below the names has words such as degC wherever all lines after it have numbers."""
    if len(others) < 2:
        return False
    numeric = [
        k for k in range(len(first)) if all(is_number(row[k]) for row in others if k < len(row) and row[k].strip())
    ]
    with_values = [k for k in numeric if any(k < len(row) and row[k].strip() for row in others)]
    words = [k for k in with_values if first[k].strip() and not is_number(first[k])]
    if not words or any(first[k].strip().lower() in _NO_UNITS for k in words):
        return False
    # A line of data has a number or a time in some column; one of units in none.
    return not _is_data(first)


def find_header(text: str) -> Header:
    """The header of the first lines of a file. Where they do not tell, it is the first line that is not empty."""
    lines = text.splitlines(keepends=True)
    found = _found(lines)
    rows = [(fields, line) for fields, line in _rows(lines, found.separator) if line >= found.num_above and any(fields)]
    if found.names is not None or len(rows) < 3:
        return found
    return _two_lines(found, rows) or _one_field_more(found, rows) or found


def _two_lines(header: Header, rows: Sequence[tuple[list[str], int]]) -> Header | None:
    """Names of groups over names, or under them: joined where neither line alone tells columns apart."""
    (first, _), (second, _), (_, data), *_ = rows
    upper = [field.strip() for field in first]
    if not header.has_units or (all(upper) and len(set(upper)) == len(upper)):
        return None
    names = [
        " ".join(part for part in pair if part) for pair in zip(upper, (each.strip() for each in second), strict=False)
    ]
    if len(names) != len(first) or not all(names) or len(set(names)) < len(names):
        return None
    return Header(header.separator, data, header.first_above, tuple(names), said="two lines of names, joined")


def _one_field_more(header: Header, rows: Sequence[tuple[list[str], int]]) -> Header | None:
    """Rows that all end in a separator, or that begin with the numbers R gives to rows: names for one field more."""
    (first, _), *others = rows
    if header.separator == BLANKS or any(len(fields) != len(first) + 1 for fields, _ in others[:-1]):
        return None
    if not any(fields[-1].strip() for fields, _ in others[:-1]):
        return Header(header.separator, others[0][1], names=(*first, ""), said="a separator at the end of every row")
    if [fields[0].strip() for fields, _ in others[:-1]] == [str(k) for k in range(1, len(others))]:
        return Header(
            header.separator, others[0][1], names=("row", *first), said="numbers of rows before the first column"
        )
    return None


def _found(lines: Sequence[str]) -> Header:
    """The header by the widths of rows."""
    empty = next((k for k, line in enumerate(lines) if line.strip()), 0)
    first = lines[empty]
    plain = max(_SEPARATORS, key=first.count)
    rows = _rows(lines[empty:], plain)
    widths = [len(fields) for fields, _ in rows]
    usual = _mode(widths[1:])
    if not first.lstrip().startswith(_COMMENT) and (usual is None or (widths[0] == usual and usual > 1)):
        return Header(plain, 0, has_units=_has_units([fields for fields, _ in rows]))
    if usual == widths[0] + 1 and usual > 3 and _is_data(rows[1][0]) and not _is_data(rows[0][0]):
        # Names, and data with a field more: a remark above names of columns has names below it.
        return Header(plain, 0)
    found = [header for separator in (*_SEPARATORS, BLANKS) if (header := _below(lines, separator)) is not None]
    # The separator that makes most fields and leaves names; of equals, the first.
    return max(found, key=lambda each: each[:2])[2] if found else Header(plain, 0)


def _below(lines: Sequence[str], separator: str) -> tuple[bool, int, Header] | None:
    """Whether there are names, how many columns this separator makes, and the header: the first line from which on lines have as many
    fields.
    """
    rows = _rows(lines, separator)
    spoken = [(fields, line) for fields, line in rows if any(fields) and not fields[0].lstrip().startswith(_COMMENT)]
    width = _mode([len(fields) for fields, _ in spoken[len(spoken) // 2 :]])
    if width is None or width < 2:
        return None
    odd = [k for k, (fields, _) in enumerate(spoken) if len(fields) != width]
    start = odd[-1] + 1 if odd else 0
    if start >= len(spoken) - 1 or start > len(spoken) // 2 + 1:
        return None
    fields, line = spoken[start]
    above = [row[0] for row in rows if row[1] < line and any(row[0])]
    said = separator.join(above[0]).strip() if above else ""
    if is_names(fields):
        return True, width, Header(separator, line, said, has_units=_has_units([row for row, _ in spoken[start:]]))
    # NumPy writes the names behind a sign for comments, and buoys a line of units below them.
    commented = itertools.takewhile(lambda row: row[0].lstrip().startswith(_COMMENT), reversed(above))
    for behind in itertools.islice(commented, 2):
        names = [name for name in (behind[0].lstrip("#%/").strip(), *(field.strip() for field in behind[1:])) if name]
        if len(names) == width and len(set(names)) == width and is_names(names):
            return True, width, Header(separator, line, said, tuple(names))
    return False, width, Header(separator, line, said)


def _rows(lines: Sequence[str], separator: str) -> list[tuple[list[str], int]]:
    """Fields of each row, and the line it begins at."""
    if separator == BLANKS:
        return [(line.split(), k) for k, line in enumerate(lines[:_MOST_LINES])]
    reader = csv.reader(lines[:_MOST_LINES], delimiter=separator)
    found: list[tuple[list[str], int]] = []
    line = 0
    try:
        for fields in reader:
            found.append((fields, line))
            line = reader.line_num
    except csv.Error:
        pass
    return found


def _is_data(fields: Sequence[str]) -> bool:
    """Whether a line has a number or a time in it."""
    return any(is_number(field) or _TIME.fullmatch(field.strip()) for field in fields)


def _has_units(rows: Sequence[Sequence[str]]) -> bool:
    return len(rows) > 3 and is_unit_row(rows[1], rows[2:])


def _mode(numbers: Iterable[int]) -> int | None:
    counted = collections.Counter(numbers).most_common(1)
    return counted[0][0] if counted else None
