# SPDX-License-Identifier: MIT
"""Lines of text, plain or in archives, in blocks, with their numbers."""

import csv
import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float, Integer, UInt8

from weft_experiments.originals.archives import DAMAGE, READ_BYTES, members
from weft_experiments.originals.rejected import LONGEST_TEXT, ReadReport, Rejected, refused

__all__ = [
    "Block",
    "blocks",
    "damage",
    "fixed_width",
    "numbers_of",
    "openings",
    "parse_delimited",
    "record_of",
    "whole_text",
]

BLOCK_BYTES = 8 << 20
OPENING_BYTES = 1 << 16
LONGEST_LINE = 64 << 20
NEWLINE, RETURN, COMMA, QUOTE, BLANK = (ord(character) for character in '\n\r," ')


@dataclass(frozen=True)
class Block:
    """Some whole lines of one file; `report` tells of damage met after them."""

    source: str
    first_line: int
    data: bytes
    report: ReadReport = field(default_factory=ReadReport)

    @cached_property
    def characters(self) -> UInt8[np.ndarray, " byte"]:
        return np.frombuffer(self.data, dtype=np.uint8)

    @cached_property
    def starts(self) -> Integer[np.ndarray, " line"]:
        if not self.data:
            return np.zeros(0, dtype=np.int64)
        breaks = np.flatnonzero(self.characters == NEWLINE)
        starts = np.concatenate([[0], breaks + 1])
        return starts[starts < len(self.data)]

    @cached_property
    def ends(self) -> Integer[np.ndarray, " line"]:
        """Where each line's text stops, before its line end (LF or CR LF)."""
        ends = np.concatenate([self.starts[1:], [len(self.data)]])[: len(self.starts)]
        for mark in (NEWLINE, RETURN):
            ends = np.where((ends > self.starts) & (self.characters[ends - 1] == mark), ends - 1, ends)
        return ends

    @cached_property
    def numbers(self) -> Integer[np.ndarray, " line"]:
        return self.first_line + np.arange(len(self.starts))

    def text(self, row: int) -> str:
        return self.data[self.starts[row] : min(self.ends[row], self.starts[row] + LONGEST_TEXT)].decode(
            "utf-8", errors="replace"
        )

    def refuse(self, bad: Bool[np.ndarray, " line"], reason: str) -> ReadReport:
        rows = np.flatnonzero(bad)
        return refused(self.source, reason, self.numbers[rows], lambda bad_row: self.text(int(rows[bad_row])))

    def lines_where(self, wanted: Bool[np.ndarray, " line"]) -> bytes:
        if wanted.all():
            return self.data
        lengths = np.diff(np.concatenate([self.starts, [len(self.data)]]))
        return self.characters[np.repeat(wanted, lengths)].tobytes()


def blocks(path: Path, wanted: Callable[[str], bool] = lambda name: True) -> Iterator[Block]:
    """The lines of a file, or of every wanted file inside an archive; a file starts where `first_line` is 1.

    A damaged or cut off archive ends the reading there: its whole lines come, then a block that reports the damage.
    """
    try:
        for name, stream in members(path, wanted):
            yield from _line_blocks(name, stream)
    except DAMAGE as error:
        yield Block(path.name, 0, b"", damage(path, error))


def openings(path: Path, wanted: Callable[[str], bool] = lambda name: True) -> Iterator[Block]:
    """The first lines of a file, or of every wanted file inside an archive, enough to tell its layout.

    Damage met on the way ends it with a block that reports it, as in `blocks`.
    """
    try:
        for name, stream in members(path, wanted):
            yield next(_line_blocks(name, stream, OPENING_BYTES))
    except DAMAGE as error:
        yield Block(path.name, 0, b"", damage(path, error))


def damage(path: Path, error: Exception) -> ReadReport:
    """The report of a file that cannot be read on."""
    found = Rejected(path.name, None, "damaged or cut off file; the rest of it is not read", str(error))
    return ReadReport(rejected={found.reason: 1}, examples=(found,))


def whole_text(path: Path) -> str:
    """All of a small text file."""
    return path.read_bytes().decode("utf-8-sig", errors="replace")


def _line_blocks(source: str, stream: io.BufferedIOBase, block_bytes: int = BLOCK_BYTES) -> Iterator[Block]:
    line, pending = 1, bytearray()
    ended: BaseException | None = None
    finished = False
    while not finished:
        try:
            # read1 hands over what is there: with read, the bytes before a damage would be lost with it.
            piece = stream.read1(READ_BYTES)
            finished = not piece
            pending += piece
        except DAMAGE as error:
            ended, finished = error, True
        if line == 1 and pending.startswith(b"\xef\xbb\xbf"):
            del pending[:3]
        if len(pending) >= block_bytes or finished:
            whole = len(pending) if finished and ended is None else pending.rfind(b"\n") + 1
            if whole == 0 and len(pending) > LONGEST_LINE:
                raise ValueError(
                    f"{source} has no line end in its first {LONGEST_LINE >> 20} MB; it is not a text file"
                )
            data = bytes(pending[:whole])
            del pending[:whole]
            if data:
                yield Block(source, line, data)
                line += data.count(b"\n")
    if ended is not None:
        raise type(ended)(f"{source} after line {line - 1}: {ended}")
    if line == 1 and not data:
        yield Block(source, 1, b"")


def fixed_width(block: Block, rows: Integer[np.ndarray, " row"], width: int) -> UInt8[np.ndarray, "row column"]:
    """The first `width` characters of the given lines, short lines filled up with blanks."""
    columns = block.starts[rows][:, None] + np.arange(width)
    inside = columns < block.ends[rows][:, None]
    return np.where(inside, block.characters[np.minimum(columns, max(len(block.data) - 1, 0))], np.uint8(BLANK))


def parse_delimited(
    block: Block, *, num_fields: int, columns: dict[int, str], first_row: int = 0
) -> tuple[pd.DataFrame, Integer[np.ndarray, " row"], ReadReport]:
    """Columns of a comma separated block as text, the line number of each row, and what was refused.

    A record is a line; one with another number of fields, an open quotation or bytes that are not UTF-8 is refused.
    """
    blank = block.starts == block.ends
    header = np.arange(len(block.starts)) < first_row
    broken = _not_text(block)
    counts, open_quotation, inner_quotation = _count_fields(block)
    sound = ~(blank | header | broken | open_quotation)
    short, long = sound & (counts < num_fields), sound & (counts > num_fields)
    sound &= counts == num_fields
    report = (
        block.refuse(broken & ~header, "not UTF-8 text")
        + block.refuse(open_quotation & ~broken & ~header, "quotation mark without its partner")
        + block.refuse(short, f"short line: fewer than {num_fields} fields")
        + block.refuse(long, f"long line: more than {num_fields} fields")
    )
    numbers = block.numbers[sound]
    text = block.lines_where(sound) if len(numbers) else b""
    table = None if (inner_quotation & sound).any() else _parsed(text, num_fields, columns, len(numbers))
    if table is not None:
        return table, numbers, report
    # A quotation mark or a line end inside a field: the ways of counting differ, so take the lines one at a time.
    records = [record_of(line) for line in text.decode().removesuffix("\n").split("\n")]
    whole = np.array([len(record) == num_fields for record in records], dtype=bool)
    odd = numbers[~whole]
    report += refused(
        block.source,
        "quotation mark or line end inside a field",
        odd,
        lambda row: block.text(int(odd[row]) - block.first_line),
    )
    kept = [record for record, good in zip(records, whole, strict=True) if good]
    table = pd.DataFrame({name: pd.Series([row[at] for row in kept], dtype="str") for at, name in columns.items()})
    return table, numbers[whole], report


def numbers_of(texts: pd.Series) -> Float[np.ndarray, " row"]:
    """Texts as numbers, NaN where one is not a finite number."""
    numbers = pd.to_numeric(texts.str.strip(), errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
    return np.where(np.isfinite(numbers), numbers, np.nan)


def record_of(line: str | bytes) -> list[str]:
    """The fields of one comma separated line; none, if it is not one."""
    text = line if isinstance(line, str) else line.decode("utf-8", errors="replace")
    try:
        return next(csv.reader([text.strip("\r\n")]), [])
    except csv.Error:
        return []


def _parsed(text: bytes, num_fields: int, columns: dict[int, str], num_rows: int) -> pd.DataFrame | None:
    if num_rows == 0:
        return pd.DataFrame({name: pd.Series([], dtype="str") for name in columns.values()})
    try:
        table = pd.read_csv(
            io.BytesIO(text),
            header=None,
            names=list(range(num_fields)),
            usecols=list(columns),
            dtype="str",
            keep_default_na=False,
            skip_blank_lines=False,
        )
    except ValueError:
        return None
    return table.rename(columns=columns) if len(table) == num_rows else None


def _not_text(block: Block) -> Bool[np.ndarray, " line"]:
    bad = np.zeros(len(block.starts), dtype=bool)
    holds_nul = b"\0" in block.data
    if block.data.isascii() and not holds_nul:
        return bad
    suspect = np.flatnonzero((block.characters >= 128) | (block.characters == 0))
    for row in np.unique(np.searchsorted(block.starts, suspect, side="right") - 1):
        line = block.data[block.starts[row] : block.ends[row]]
        try:
            bad[row] = "\0" in line.decode("utf-8")
        except UnicodeDecodeError:
            bad[row] = True
    return bad


def _count_fields(
    block: Block,
) -> tuple[Integer[np.ndarray, " line"], Bool[np.ndarray, " line"], Bool[np.ndarray, " line"]]:
    """The fields of each line, whether a quotation stays open in it, and whether one begins or ends within a field."""
    commas = np.flatnonzero(block.characters == COMMA)
    quotes = np.flatnonzero(block.characters == QUOTE)
    quotes_before_line = np.searchsorted(quotes, block.starts)
    line_of_comma = np.searchsorted(block.starts, commas, side="right") - 1
    # Quotations are counted from the start of each line, so that one open quotation does not swallow the lines after.
    inside = (np.searchsorted(quotes, commas) - quotes_before_line[line_of_comma]) % 2 == 1
    counts = np.bincount(line_of_comma[~inside], minlength=len(block.starts)) + 1
    num_quotes = np.searchsorted(quotes, block.ends) - quotes_before_line

    line_of_quote = np.repeat(np.arange(len(block.starts)), np.diff(quotes_before_line, append=len(quotes)))
    closes = (np.arange(len(quotes)) - quotes_before_line[line_of_quote]) % 2 == 1
    before = block.characters[quotes - 1]
    after = block.characters[np.minimum(quotes + 1, len(block.data) - 1)] if len(quotes) else before
    # A doubled mark closes and opens again, and stands for one mark.
    begins = (before == COMMA) | (before == QUOTE) | (quotes == block.starts[line_of_quote])
    ends = (after == COMMA) | (after == QUOTE) | (quotes + 1 >= block.ends[line_of_quote])
    inner = np.zeros(len(counts), dtype=bool)
    inner[line_of_quote[~np.where(closes, ends, begins)]] = True
    return counts, num_quotes % 2 == 1, inner
