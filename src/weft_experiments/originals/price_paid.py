# SPDX-License-Identifier: MIT
"""HM Land Registry's price paid files: complete, yearly, monthly, and the report builder's download.

Columns and codes as in "How to access HM Land Registry Price Paid Data" (GOV.UK).
"""

import re
from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
from jaxtyping import Bool, Shaped, UInt64

from weft_experiments.originals.boxes import Box
from weft_experiments.originals.found import Found, Source, paths_of, sort_out
from weft_experiments.originals.lines import Block, blocks, numbers_of, openings, parse_delimited, record_of
from weft_experiments.originals.postcodes import (
    CODE_POINT_HEADERS,
    find_postcode_tables,
    postcode_keys,
    read_postcodes,
    without_blanks,
)
from weft_experiments.originals.rejected import ReadReport, Sieve, left_out

__all__ = ["find_price_files", "paper_sales", "read_paper_sales", "read_price_paid"]

ENDINGS = (".csv", ".csv.gz", ".txt", ".zip")
# The files have no header; these are the places of the columns used here.
PUBLISHED = {
    0: "transaction",
    1: "price",
    2: "date",
    3: "postcode",
    4: "property_type",
    5: "new_build",
    6: "tenure",
    14: "category",
    15: "status",
}
NUM_PUBLISHED = 16
REPORT_BUILDER_NAMES = {
    "unique_id": "transaction",
    "price_paid": "price",
    "deed_date": "date",
    "postcode": "postcode",
    "property_type": "property_type",
    "new_build": "new_build",
    "estate_type": "tenure",
    "transaction_category": "category",
}
# All names quoted or none: with the line end lost, the first record's quotation mark follows on the last name.
REPORT_BUILDER_HEADER = re.compile(rb'unique_id(?:,[a-z_]+)+|"unique_id"(?:,"[a-z_]+")+')
CODES = {"property_type": "DSTFO", "new_build": "YN", "tenure": "FLU", "category": "AB"}
# What a record does: it is a sale, it takes back an earlier one that it changed, or it deletes an earlier one.
STAYS, WITHDRAWS, DELETES = 0, 1, 2
DATE = r"\d{4}-\d{2}-\d{2}(?: \d{2}:\d{2}(?::\d{2})?)?"
EARLIEST, LATEST = np.datetime64("1700-01-01", "D"), np.datetime64("2200-01-01", "D")
# Whole numbers from here on are not all to be told apart in double precision.
TOO_DEAR = 2**53

PAPER_BOX = Box(south=50.0, north=56.0, west=-6.0, east=2.0)
PAPER_AFTER, PAPER_BEFORE = "2010-01-01", "2020-01-01"


@dataclass(frozen=True)
class PriceLayout:
    """Where the columns of a file stand."""

    num_fields: int
    columns: dict[int, str]


@dataclass(frozen=True)
class Wanted:
    """Which sales are asked for; the dates themselves are not included."""

    property_types: str
    after: np.datetime64
    before: np.datetime64


@dataclass(frozen=True)
class Places:
    """Sorted keys of postcodes and their places."""

    key: UInt64[np.ndarray, " postcode"]
    lat: Shaped[np.ndarray, " postcode"]
    lon: Shaped[np.ndarray, " postcode"]


def read_price_paid(
    source: Source,
    *,
    postcodes: pd.DataFrame | None = None,
    property_types: Collection[str] | None = None,
    after: str | np.datetime64 = EARLIEST,
    before: str | np.datetime64 = LATEST,
) -> tuple[pd.DataFrame, ReadReport]:
    """Sales in the order of their lines, and the report of what was refused.

    Columns: time, price in pounds, postcode, property_type, new_build, tenure, category; with `postcodes` (a table as
    `read_postcodes` gives) also lat and lon, and a sale whose postcode is not in it is refused. Only sales of the
    `property_types` (D detached, S semi-detached, T terraced, F flat, O other; all, if None) strictly between `after`
    and `before` are kept, chosen block by block, so that the 28 million sales of pp-complete.csv need 2 GB.

    In a folder, the complete file comes first, the yearly ones next and the monthly ones last; several files given by
    name are taken in the order given. A later record replaces an earlier one of the same transaction, and a record of
    status D deletes it.
    """
    types = "".join(property_types) if property_types is not None else CODES["property_type"]
    if not types or set(types) - set(CODES["property_type"]):
        raise ValueError(f"property_types must be among {', '.join(CODES['property_type'])}; they are {property_types}")
    wanted = Wanted(types, _as_day(after), _as_day(before))
    places = None if postcodes is None else _places(postcodes)
    found = find_price_files(source)
    _refuse_none(found, source)
    report = sum(found.damaged.values(), ReadReport())
    for path in found.other:
        report += left_out(f"no sales: {path.name}", 1)
    # Growing in place: pieces to be joined at the end would stand in memory beside the joined columns.
    grown: dict[str, tuple[np.dtype, bytearray]] = {}
    for path in found.files:
        layout: PriceLayout | None = None
        for block in blocks(path, _is_table):
            report += block.report
            if block.first_line == 1:
                layout, block = _begin(block)
                report += ReadReport(sources=(block.source,)) if layout else left_out(f"no sales: {block.source}", 1)
            if layout is not None and block.first_line > 0:
                columns, refusals = _parse(block, layout, wanted, places)
                report += refusals
                for name, column in columns.items():
                    grown.setdefault(name, (column.dtype, bytearray()))[1].extend(column.tobytes())
    columns = {name: np.frombuffer(content, dtype=dtype) for name, (dtype, content) in grown.items()}
    del grown
    columns, refusals = _apply_changes(columns)
    table = _table(columns)
    return table, (report + refusals).keeping(len(table))


def find_price_files(source: Source) -> Found:
    """The files of `source`, and of its folders, that hold sales; those of a folder in the order they apply."""
    candidates: list[Path] = []
    for path in paths_of(source):
        inside = [path]
        if path.is_dir():
            inside = [found for found in path.rglob("*") if found.is_file() and found.name.lower().endswith(ENDINGS)]
            inside.sort(key=lambda found: ("complete" not in found.name, "monthly" in found.name, found.name))
        candidates.extend(inside)
    return sort_out(candidates, lambda path: openings(path, _is_table), lambda block: _begin(block)[0] is not None)


def paper_sales(sales: pd.DataFrame) -> pd.DataFrame:
    """The paper's sales, by date: flats, 50 <= lat < 56, -6 <= lon < 2, strictly from 2010 to before 2020.

    Takes a table as `read_price_paid` gives with postcodes; adds `value`, the natural logarithm of the price. Sales of
    one day keep their order.
    """
    inside = PAPER_BOX.inside_half_open(sales["lat"].to_numpy(dtype=float), sales["lon"].to_numpy(dtype=float))
    dated = (sales["time"] > pd.Timestamp(PAPER_AFTER)) & (sales["time"] < pd.Timestamp(PAPER_BEFORE))
    chosen = sales[(sales["property_type"] == "F") & inside & dated]
    chosen = chosen.sort_values("time", kind="stable", ignore_index=True)
    return chosen.assign(value=np.log(chosen["price"].to_numpy(dtype=np.float64)))


def read_paper_sales(folder: str | Path) -> tuple[pd.DataFrame, ReadReport]:
    """The paper's sales from a folder that holds price paid files and a table of postcodes."""
    tables, prices = find_postcode_tables(folder), find_price_files(folder)
    report = sum({**tables.damaged, **prices.damaged}.values(), ReadReport())
    known = {*tables.files, *prices.files, *tables.damaged, *prices.damaged}
    for path in dict.fromkeys(tables.other + prices.other):
        if path not in known and path.name != CODE_POINT_HEADERS:
            report += left_out(f"file of no known layout: {path.name}", 1)
    if not tables.files:
        raise ValueError(
            f"{folder} holds no table of postcodes (ONSPD, NSPL, Code-Point Open, ukpostcodes); add one"
            + tables.words_on_damage
        )
    _refuse_none(prices, folder)
    postcodes, refusals = read_postcodes(tables.files)
    report += refusals
    if postcodes.empty:
        raise ValueError(f"{folder} holds a table of postcodes without a postcode that can be used:\n{report}")
    sales, refusals = read_price_paid(
        prices.files, postcodes=postcodes, property_types="F", after=PAPER_AFTER, before=PAPER_BEFORE
    )
    chosen = paper_sales(sales)
    return chosen, (report + refusals).keeping(len(chosen))


def _refuse_none(found: Found, source: Source) -> None:
    if not found.files:
        raise ValueError(
            f"{source} holds no price paid file: none has HM Land Registry's 16 columns or the report builder's header"
            + found.words_on_damage
        )


def _as_day(date: str | np.datetime64) -> np.datetime64:
    return np.datetime64(pd.Timestamp(date).date(), "D")


def _is_table(name: str) -> bool:
    return name.lower().endswith((".csv", ".csv.gz", ".txt"))


def _begin(block: Block) -> tuple[PriceLayout | None, Block]:
    """The layout of a file, and its first block without the header."""
    blank = re.match(rb"[ \t\r\n]*", block.data)
    before = 0 if blank is None else blank.end()
    header = REPORT_BUILDER_HEADER.match(block.data, before)
    if header is not None:
        names = header.group().replace(b'"', b"").decode().split(",")
        columns = {at: REPORT_BUILDER_NAMES[name] for at, name in enumerate(names) if name in REPORT_BUILDER_NAMES}
        if set(columns.values()) >= set(REPORT_BUILDER_NAMES.values()):
            rest = block.data[header.end() :]
            # The report builder leaves out the header's line end: then the first record stands on the first line.
            end = re.match(rb"\r?\n", rest)
            rest = rest if end is None else rest[end.end() :]
            lines_before = block.data.count(b"\n", 0, before) + (end is not None)
            return PriceLayout(len(names), columns), replace(block, data=rest, first_line=1 + lines_before)
    for line in block.data[: 1 << 16].split(b"\n")[:50]:
        record = record_of(line)
        if len(record) == NUM_PUBLISHED and re.fullmatch(DATE, record[2]):
            return PriceLayout(NUM_PUBLISHED, PUBLISHED), block
    return None, block


def _places(postcodes: pd.DataFrame) -> Places:
    if postcodes.empty:
        raise ValueError("postcodes is a table without a row; give one with postcode, lat and lon, or None")
    key = postcode_keys(without_blanks(postcodes["postcode"].astype("str")))
    order = np.argsort(key, kind="stable")
    return Places(key[order], postcodes["lat"].to_numpy()[order], postcodes["lon"].to_numpy()[order])


def _parse(
    block: Block, layout: PriceLayout, wanted: Wanted, places: Places | None
) -> tuple[dict[str, np.ndarray], ReadReport]:
    rows, line, report = parse_delimited(block, num_fields=layout.num_fields, columns=layout.columns)
    if "status" not in rows:
        rows["status"] = "A"
    sieve = Sieve(block.source, line, lambda row: ",".join(rows.iloc[row]))
    transaction = rows["transaction"].str.strip(" {}").str.upper()
    status = rows["status"].to_numpy(dtype=object)
    sieve.refuse((transaction == "").to_numpy(dtype=bool), "no transaction identifier")
    sieve.refuse(~np.isin(status, ["A", "C", "D"]), "unknown record status, not one of A, C, D")
    # Of a deletion only the transaction counts.
    deletes = sieve.passed & (status == "D")
    sieve.pass_over(deletes)

    price = numbers_of(rows["price"])
    sieve.refuse(~((price > 0) & (price == np.floor(price))), "price that is not a positive whole number")
    sieve.refuse(price >= TOO_DEAR, "price of more digits than a price has")
    day = _days(rows["date"])
    sieve.refuse(~((day > EARLIEST) & (day < LATEST)), "impossible date")
    codes = {name: _code(rows[name], allowed) for name, allowed in CODES.items()}
    for name, allowed in CODES.items():
        sieve.refuse(codes[name] < 0, f"unknown {name.replace('_', ' ')}, not one of {', '.join(allowed)}")
    postcode = without_blanks(rows["postcode"])
    key = postcode_keys(postcode)
    sieve.leave_out((postcode == "").to_numpy(dtype=bool), "sale without a postcode")
    sieve.refuse(key == 0, "not a postcode")
    sound = sieve.passed

    asked = np.isin(codes["property_type"], [CODES["property_type"].index(letter) for letter in wanted.property_types])
    sieve.pass_over(~(asked & (day > wanted.after) & (day < wanted.before)))
    columns = {
        "transaction": pd.util.hash_pandas_object(transaction, index=False).to_numpy(),
        "price": np.where(sieve.passed, price, 0).astype(np.int64),
        "day": day.astype(np.int64).astype(np.int32),
        "postcode": key,
        **codes,
    }
    if places is not None:
        at, known = _look_up(places.key, key)
        sieve.refuse(~known, "unknown postcode")
        columns["lat"], columns["lon"] = places.lat[at], places.lon[at]
    # A change of a sale does away with the earlier record even where the new one is not kept.
    withdraws = sound & ~sieve.passed & (status == "C")
    columns["fate"] = np.select([deletes, withdraws], [DELETES, WITHDRAWS], STAYS).astype(np.int8)
    held = sieve.passed | deletes | withdraws
    return {name: column[held] for name, column in columns.items()}, report + sieve.report


def _days(dates: pd.Series) -> Shaped[np.ndarray, " row"]:
    whole = dates.where(dates.str.fullmatch(DATE)).str.slice(0, 10)
    return pd.to_datetime(whole, format="%Y-%m-%d", errors="coerce").to_numpy().astype("datetime64[D]")


def _code(texts: pd.Series, allowed: str) -> Shaped[np.ndarray, " row"]:
    return pd.Index(list(allowed)).get_indexer(texts.to_numpy(dtype=object)).astype(np.int8)


def _look_up(
    keys: UInt64[np.ndarray, " postcode"], wanted: UInt64[np.ndarray, " row"]
) -> tuple[Shaped[np.ndarray, " row"], Bool[np.ndarray, " row"]]:
    at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return at, keys[at] == wanted


def _apply_changes(columns: dict[str, np.ndarray]) -> tuple[dict[str, np.ndarray], ReadReport]:
    """The last record of each transaction, unless that one is a deletion.

    Transactions are told apart by 64-bit hashes: two of 28 million coincide with a chance of 2 in 100,000.
    """
    transaction, fate = columns.pop("transaction"), columns.pop("fate")
    # Sorting the values alone, and the rows of the few repeated ones after, takes half the memory of sorting all rows.
    ordered = np.sort(transaction)
    repeated = np.flatnonzero(pd.Series(transaction).isin(ordered[1:][ordered[1:] == ordered[:-1]]))
    del ordered
    records = pd.Series(transaction[repeated])
    replaced, alone = np.zeros(len(fate), dtype=bool), np.ones(len(fate), dtype=bool)
    replaced[repeated] = records.duplicated(keep="last")
    alone[repeated] = ~records.duplicated(keep="first")
    kept = ~replaced & (fate == STAYS)
    report = left_out("replaced by a later record of the same transaction", int((replaced & (fate == STAYS)).sum()))
    report += left_out("deletion of a sale that was not among those kept", int((alone & (fate == DELETES)).sum()))
    if kept.all():
        return columns, report
    return {name: columns.pop(name)[kept] for name in list(columns)}, report


def _table(columns: dict[str, np.ndarray]) -> pd.DataFrame:
    table = {
        "time": columns.pop("day").astype("datetime64[D]").astype("datetime64[s]"),
        "price": columns.pop("price"),
        "postcode": _categories(columns.pop("postcode")),
    }
    for name, allowed in CODES.items():
        table[name] = pd.Categorical.from_codes(columns.pop(name), categories=list(allowed))
    return pd.DataFrame({**table, **columns}, copy=False)


def _categories(keys: UInt64[np.ndarray, " row"]) -> pd.Categorical:
    codes, distinct = pd.factorize(keys)
    texts = np.char.decode(np.asarray(distinct).view("S8"), "ascii") if len(distinct) else np.zeros(0, "U8")
    return pd.Categorical.from_codes(codes, categories=pd.Index(texts, dtype="str"))
