# SPDX-License-Identifier: MIT
"""Comma-separated text, read fast without guessing at times and codes, and written in pieces."""

import codecs
import csv
import gzip
import io
import itertools
import logging
import pathlib
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import Bool

from weft.data.headers import BLANKS, Header, find_header, is_names, is_number, refuse_repeated
from weft.data.number_text import LEADING_ZERO, MISSING_WORDS, is_missing_word

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["read_csv", "require_flat", "write_csv"]

logger = logging.getLogger("weft")

_SNIFFED_CHARACTERS = 262_144
_SNIFFED_ROWS = 2000
_SCANNED_BYTES = 1_048_576
# Lines below a table that may be remarks.
_MOST_REMARKS = 5
_REMARK = re.compile(r"[#%*/].*|[^\W\d].*\s.*")
# More digits than that are no code: of an account, 34.
_LONGEST_CODE = 64
# Arrow would read these as times, and have to read all of the file again to give the text.
_TIME = re.compile(r"\d+[-:].*")


def read_csv(path: pathlib.Path) -> "pa.Table":
    """The table in a text file, plain or gzipped, separated by comma, semicolon, tab, bar or blanks.

    Numbers become numbers, with decimal commas too where commas do not separate; times stay text, exactly as written,
    and so do codes such as 007. Blanks around column names are left out. Lines above the header and a line of units below
    it are passed over, and said. Text is in UTF-8, or else in UTF-16 or Windows-1252, as Excel saves it, which is said too.
    """
    try:
        return _read_text(_Text(path))
    except _OtherEncodingError:
        return _read_text(_Text(path, _as_utf8(path)))


class _OtherEncodingError(Exception):
    """The text is not in UTF-8."""


class _Text(NamedTuple):
    """A text file, or what it holds in UTF-8 where it is written otherwise."""

    path: pathlib.Path
    recoded: bytes | None = None

    def open(self) -> Any:
        return _open(self.path) if self.recoded is None else io.BytesIO(self.recoded)

    def for_arrow(self) -> "pathlib.Path | pa.BufferReader":
        import pyarrow as pa

        return self.path if self.recoded is None else pa.BufferReader(self.recoded)


def _as_utf8(path: pathlib.Path) -> bytes:
    """Text that is not in UTF-8, in UTF-8. One that is so in part is refused: read otherwise, that part would be spoiled."""
    with _open(path) as file:
        raw = file.read()
    if raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        encoding = "UTF-16"
    else:
        encoding = "Windows-1252"
        lost = raw.decode("utf-8", errors="replace")
        if re.search("[^\x00-\x7f\ufffd]", lost):
            raise ValueError(f"{str(path)!r} has text in UTF-8 and text that is not; save all of it as UTF-8")
    try:
        text = raw.decode(encoding)
    except UnicodeDecodeError as error:
        raise ValueError(f"{str(path)!r} has text that is not UTF-8; save it as UTF-8") from error
    logger.info("%r is not in UTF-8; it was read as %s", str(path), encoding)
    return text.encode()


def _read_text(text: _Text) -> "pa.Table":
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    path = text.path
    head = _read_head(text)
    header = find_header(head)
    _say_what_is_passed_over(header, path)
    separator = "\t" if header.separator == BLANKS else header.separator
    body = _from_header(head, header)
    text_columns, decimal_point = _sniff(body, separator, path)
    types = {name: pa.string() for name in text_columns}
    odd: list[tuple[int, str]] = []
    names_again = False

    def set_aside(row: Any) -> str:
        odd.append((row.actual_columns, row.text))
        return "skip"

    parse = arrow_csv.ParseOptions(delimiter=separator, newlines_in_values='"' in body, invalid_row_handler=set_aside)
    above = arrow_csv.ReadOptions(
        skip_rows=header.num_above,
        skip_rows_after_names=int(header.has_units),
        column_names=None if header.names is None else list(header.names),
    )

    def read(**more: Any) -> "pa.Table":
        odd.clear()
        convert = arrow_csv.ConvertOptions(decimal_point=decimal_point, null_values=_nulls(), **more)
        source = _tabs_for_blanks(text) if header.separator == BLANKS else text.for_arrow()
        if names_again:
            source = _named_once(source, header.num_above)
        return arrow_csv.read_csv(source, read_options=above, parse_options=parse, convert_options=convert)

    try:
        table = read(column_types=types)
        if header.names is None and (count := _num_named_again(table)):
            names_again = True
            logger.info("%r has the names of its columns among its rows, passed over: %d lines", str(path), count)
            table = read(column_types=types)
        _refuse_odd(odd, table.num_columns, separator, text)
        # A column of nothing but words for "no value" may be one of flags.
        changed = [
            field.name for field in table.schema if pa.types.is_temporal(field.type) or pa.types.is_null(field.type)
        ]
        whole = [field.name for field in table.schema if pa.types.is_integer(field.type)]
        if whole and _may_hold_codes(text, separator):
            as_text = read(include_columns=whole, column_types={name: pa.string() for name in whole})
            changed += [name for name in whole if _has_codes(as_text.column(name))]
        if changed:
            table = read(column_types=types | {name: pa.string() for name in changed})
    except pa.ArrowInvalid as error:
        if "invalid UTF8" in str(error):
            raise _OtherEncodingError from error
        raise ValueError(f"{str(path)!r} is not a table: {_first_line(error)}") from error
    except UnicodeDecodeError as error:
        raise _OtherEncodingError from error
    if any(pa.types.is_binary(field.type) for field in table.schema):
        raise _OtherEncodingError
    table = _without_empty_rows(table.rename_columns([_bare(name) for name in table.column_names]), path)
    return _without_nameless(table, path)


def _nulls() -> list[str]:
    """What is no value in a column of numbers; in one of text it is what it says."""
    from pyarrow import csv as arrow_csv

    ways = (str.lower, str.upper, str.title)
    return sorted({*arrow_csv.ConvertOptions().null_values, *(way(word) for word in MISSING_WORDS for way in ways)})


def _bare(name: str) -> str:
    """A column's name without the blanks, and then the quotes, around it."""
    return name.strip().strip('"').strip()


def _refuse_odd(odd: Sequence[tuple[int, str]], num_columns: int, separator: str, source: _Text) -> None:
    """Pass over remarks at the end of a file, and say so; refuse other lines of another length than the names have."""
    if not odd:
        return
    path = source.path
    with source.open() as file:
        end = file.read().rstrip().decode("utf-8", errors="replace").splitlines()[-len(odd) :]
    remarks = [text.strip() for _, text in odd]
    are_words = all(width == 1 and _REMARK.fullmatch(text.strip()) for width, text in odd)
    if len(odd) <= _MOST_REMARKS and are_words and [line.strip() for line in end] == remarks:
        logger.info(
            "%r ends in %d lines that are no rows, passed over; the first is %r", str(path), len(odd), remarks[0][:60]
        )
        return
    width, text = odd[0]
    fields = "1 field" if width == 1 else f"{width} fields"
    raise ValueError(
        f"{str(path)!r} is not a table: there are {num_columns} names of columns and {fields} in {text.strip()[:80]!r}; mend such "
        f"lines ({len(odd):,} in all; a value with {separator!r} in it needs quotes around it), or leave them out"
    )


def _num_named_again(table: "pa.Table") -> int:
    """How many rows are the names of columns once more, as where files were put one below the other."""
    import pyarrow as pa
    import pyarrow.compute as pc

    again = None
    for name, column in zip(table.column_names, table.columns, strict=True):
        # A word among numbers makes a column of text; one that is no text has none.
        if not pa.types.is_string(column.type):
            return 0
        here = pc.equal(pc.utf8_trim_whitespace(column), name.strip())
        again = here if again is None else pc.and_(again, here)
        if not pc.any(again).as_py():
            return 0
    return 0 if again is None else int(pc.sum(again).as_py())


def _named_once(source: "pathlib.Path | pa.BufferReader", num_above: int) -> "pa.BufferReader":
    """The file's bytes without lines that repeat that of the names of columns."""
    import pyarrow as pa

    if isinstance(source, pathlib.Path):
        with _open(source) as file:
            lines = file.readlines()
    else:
        lines = source.read().splitlines(keepends=True)
    first = next(number for number in range(num_above, len(lines)) if lines[number].strip())
    names = lines[first].removeprefix(codecs.BOM_UTF8).strip()
    return pa.BufferReader(
        b"".join(line for number, line in enumerate(lines) if number <= first or line.strip() != names)
    )


def _without_nameless(table: "pa.Table", path: pathlib.Path) -> "pa.Table":
    """Columns without a name, where several are, hold nothing: separators at the ends of rows. Otherwise they are refused."""
    import pyarrow.compute as pc

    nameless = [k for k, name in enumerate(table.column_names) if not name]
    if len(nameless) < 2:
        return table
    for k in nameless:
        texts = pc.utf8_trim_whitespace(pc.cast(table.column(k), "string"))
        if pc.any(pc.not_equal(pc.fill_null(texts, ""), "")).as_py():
            refuse_repeated(table.column_names, path)
    logger.info("%r has %d columns without a name or a value, left out", str(path), len(nameless))
    return table.select([k for k in range(table.num_columns) if k not in nameless])


def _without_empty_rows(table: "pa.Table", path: pathlib.Path) -> "pa.Table":
    """Rows that are nothing but separators are none."""
    import pyarrow as pa
    import pyarrow.compute as pc

    empty = None
    for column in table.columns:
        is_text = pa.types.is_string(column.type)
        here = pc.fill_null(pc.equal(pc.utf8_trim_whitespace(column), ""), True) if is_text else pc.is_null(column)
        empty = here if empty is None else pc.and_(empty, here)
        if not pc.any(empty).as_py():
            return table
    if empty is None:
        return table
    kept = table.filter(pc.invert(empty))
    logger.info("%r has %d empty rows, passed over", str(path), table.num_rows - kept.num_rows)
    return kept


def write_csv(pieces: Iterable["pa.Table"], path: pathlib.Path, *, compressed: bool, separator: str = ",") -> None:
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
                require_flat(piece.schema)
                names = piece.column_names
                header = io.StringIO()
                csv.writer(header, lineterminator="\n", delimiter=separator).writerow(names)
                stream.write(header.getvalue().encode())
            elif sorted(piece.column_names) != sorted(names):
                raise ValueError(f"the pieces of a table differ: columns {list(names)}, then {piece.column_names}")
            written = pa.table({name: _writable(piece.column(name)) for name in names})
            quoting = "needed" if any(_needs_quotes(column, separator) for column in written.columns) else "none"
            options = arrow_csv.WriteOptions(include_header=False, quoting_style=quoting, delimiter=separator)
            arrow_csv.write_csv(written, stream, options)
    if names is None:
        raise ValueError("there is nothing to write: no piece of a table came")


def require_flat(schema: "pa.Schema") -> None:
    """Raise where a column holds what one field of a csv file cannot: lists, records or bytes."""
    import pyarrow as pa

    for field in schema:
        kind = field.type
        if pa.types.is_nested(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
            raise ValueError(
                f"column {field.name!r} holds values of the kind {kind}, which csv cannot; write parquet, or leave it out"
            )


def _open(path: pathlib.Path) -> Any:
    return gzip.open(path) if path.name.lower().endswith(".gz") else path.open("rb")


def _read_head(source: _Text) -> str:
    path = source.path
    try:
        with source.open() as file:
            raw = file.read(_SNIFFED_CHARACTERS)
    except (gzip.BadGzipFile, EOFError) as error:
        raise ValueError(f"{str(path)!r} is not a gzipped file, or it is cut short") from error
    if raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise _OtherEncodingError
    if b"\x00" in raw:
        raise ValueError(
            f"{str(path)!r} is not a table: it holds binary data, or text that is not UTF-8; save it as UTF-8"
        )
    head = raw.decode("utf-8-sig", errors="replace")
    start = head.lstrip()
    if not start:
        raise ValueError(f"{str(path)!r} is empty; give a file with a header and at least one row")
    if start[0] in "<{" or start.startswith("%PDF"):
        raise ValueError(
            f"{str(path)!r} is not a table: it starts with {start[:12].split()[0]!r}, not with column names"
        )
    return head


def _say_what_is_passed_over(header: Header, path: pathlib.Path) -> None:
    if header.said:
        logger.info("%r has %s", str(path), header.said)
    elif header.num_above and header.first_above:
        lines = "1 line" if header.num_above == 1 else f"{header.num_above} lines"
        names = "names of columns" if header.names is None else "the data"
        logger.info(
            "%r has %s above %s, passed over; the first is %r", str(path), lines, names, header.first_above[:60]
        )
    if header.has_units:
        logger.info("%r has a line of units below the names of columns, passed over", str(path))


def _from_header(head: str, header: Header) -> str:
    """The text from the names of columns on, empty lines before them left out, with tabs where blanks separate."""
    body = "".join(head.splitlines(keepends=True)[header.num_above :]).lstrip("\r\n")
    if header.separator == BLANKS:
        body = "\n".join("\t".join(line.split()) for line in body.splitlines())
    if header.names is not None:
        body = header.separator.replace(BLANKS, "\t").join(header.names) + "\n" + body
    elif header.has_units:
        names, _, *rest = body.splitlines(keepends=True)
        body = "".join([names, *rest])
    return body


def _tabs_for_blanks(source: _Text) -> "pa.BufferReader":
    import pyarrow as pa

    with source.open() as file:
        return pa.BufferReader(b"\n".join(b"\t".join(line.split()) for line in file))


def _sniff(head: str, separator: str, path: pathlib.Path) -> tuple[list[str], str]:
    """Columns with times or with codes that only look like numbers, by names as in the header; the decimal point."""
    lines = head.splitlines(keepends=True)
    # The last line may be cut off in the middle.
    rows = csv.reader(
        lines[:-1] if len(lines) > 1 and len(head) > _SNIFFED_CHARACTERS // 2 else lines, delimiter=separator
    )
    names = next(rows)
    if any("\ufffd" in name for name in names):
        raise _OtherEncodingError
    sample = [row for row in itertools.islice(rows, _SNIFFED_ROWS) if row != names]
    if not is_names(names) and sample and any(any(field.strip() for field in row) for row in sample):
        raise ValueError(
            f"{str(path)!r} has no names of columns: its first line is {separator.join(names)[:60]!r}; write a line of names "
            f"above it, such as {separator.join(['date', 'lat', 'lon', 'value'])!r}"
        )
    bare = [_bare(name) for name in names]
    if len(set(bare)) < len(bare) and any(is_number(name) for name in bare):
        raise ValueError(
            f"{str(path)!r} has no names of columns, it seems: its first line is {separator.join(names)[:60]!r}; write a line of names "
            "above it"
        )
    refuse_repeated([name for name in bare if name], path)
    columns = {name: [row[k].strip() for row in sample if k < len(row)] for k, name in enumerate(names)}
    texts = [
        name
        for name, values in columns.items()
        if any(LEADING_ZERO.fullmatch(value) or _TIME.fullmatch(value) for value in values)
    ]
    return texts, "," if separator != "," and _has_decimal_commas(columns.values()) else "."


def _has_decimal_commas(columns: Iterable[Sequence[str]]) -> bool:
    """Whether a column is of numbers with commas, and none of numbers with points."""
    points = {point for values in columns for point in (",", ".") if _are_decimals(values, point)}
    return points == {","}


def _are_decimals(values: Sequence[str], point: str) -> bool:
    given = [value for value in values if value]
    number = re.compile(rf"[+-]?\d+({re.escape(point)}\d+)?([eE][+-]?\d+)?")
    return any(point in value for value in given) and all(
        number.fullmatch(value) or is_missing_word(value) for value in given
    )


def _may_hold_codes(source: _Text, separator: str) -> bool:
    """Whether the bytes of a value such as 007 are anywhere in the file; it need not be one, inside quotes say.

    A pass over bytes, which costs a fraction of reading the table.
    """
    # Whatever a block ends with is looked at again with the next, from before its last value.
    rest = b"\n"
    with source.open() as file:
        while block := file.read(_SCANNED_BYTES):
            text = rest + block
            if _has_code(text, separator):
                return True
            rest = text[-_LONGEST_CODE:]
    return _has_code(rest + b"\n", separator)


def _has_code(block: bytes, separator: str) -> bool:
    text = np.frombuffer(block, dtype=np.uint8)
    around, digit = _is_one_of(f'{separator}\r\n" \t'), _is_one_of("0123456789")
    # Comparisons first, which are far faster than looking bytes up: of all that may stand before a value, only a
    # separator is higher than a comma.
    before, itself, after = text[:-2], text[1:-1], text[2:]
    likely = (itself == ord("0")) & (after >= ord("0")) & (after <= ord("9"))
    likely &= (before <= ord(",")) | (before == ord(separator))
    starts = 1 + np.flatnonzero(likely)
    ends = 1 + starts[around[text[starts - 1]]]
    while len(ends):
        ends = 1 + ends[digit[text[ends]]]
        ends = ends[ends < len(text)]
        if np.any(around[text[ends]]):
            return True
    return False


def _is_one_of(characters: str) -> Bool[np.ndarray, "256"]:
    """For every byte, whether it is one of these."""
    found = np.zeros(256, dtype=bool)
    found[list(characters.encode())] = True
    return found


def _has_codes(column: "pa.ChunkedArray") -> bool:
    import pyarrow.compute as pc

    return bool(pc.any(pc.match_substring_regex(column, rf"^{LEADING_ZERO.pattern}$")).as_py())


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


def _needs_quotes(column: "pa.ChunkedArray", separator: str) -> bool:
    import pyarrow as pa
    import pyarrow.compute as pc

    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        return False
    return bool(pc.any(pc.match_substring_regex(column, f'["{separator}\r\n]')).as_py())


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
