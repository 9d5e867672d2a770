# SPDX-License-Identifier: MIT
"""Rows that are there twice: which tables are refused for them, and what is said."""

from weft.data.copies import Copies
from weft.data.inspect import guess_columns
from weft.data.tables import Table
from weft.estimator.columns import Roles

__all__ = ["objection_to"]

# Two flats of one price may be sold on one day in one postcode; a tenth of all rows is a file put together twice.
_LARGEST_SHARE = 0.1


def objection_to(copies: Copies, num_rows: int, table: Table, roles: Roles, station: str | None = None) -> str | None:
    """What is wrong with copies among so many rows, in a sentence; None where they may be measurements.

    A station measures once at a time, so that a copy of its row is no measurement; `station` names their column, or the `table`, all
    rows or some, has one.
    """
    if not copies.number:
        return None
    if copies.number <= _LARGEST_SHARE * num_rows and station is None and not _has_stations(table, roles):
        return None
    repeat = "repeats" if copies.number == 1 else "repeat"
    return (
        f"{copies.number:,} of {num_rows:,} rows {repeat} another in every column, as row {copies.first} (counting "
        f"from 0) does row {copies.original}; remove such rows, or keep them with --keep-duplicates (keep_duplicates = "
        "true under [data] in the config) if each is a measurement"
    )


def _has_stations(table: Table, roles: Roles) -> bool:
    guess = guess_columns(table).station
    return guess is not None and guess.columns[0] not in (roles.time, *roles.space, roles.target)
