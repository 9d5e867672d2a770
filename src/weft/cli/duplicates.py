# SPDX-License-Identifier: MIT
"""Rows that are there twice: which tables are refused for them, and what is said."""

from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

if TYPE_CHECKING:
    from weft.config import Settings
    from weft.data.copies import Copies
    from weft.data.tables import Table

__all__ = ["KeepDuplicates", "copies_of", "keeping_duplicates", "objection_to", "refuse_copies"]

KeepDuplicates = Annotated[
    bool, Parameter(help="Rows that repeat another in every column are measurements too.", show_default=False)
]

# Two flats of one price may be sold on one day in one postcode; a tenth of all rows is a file put together twice.
_LARGEST_SHARE = 0.1


def keeping_duplicates(settings: "Settings", keep: bool) -> "Settings":
    """The settings, told by an option to keep copies of rows if it was given."""
    import msgspec

    replace = msgspec.structs.replace
    return replace(settings, data=replace(settings.data, keep_duplicates=True)) if keep else settings


def copies_of(settings: "Settings", rows: Any) -> "Copies":
    """Rows that repeat another in every column, in the table of completed settings."""
    from weft.data.copies import find_copies

    return find_copies(_table(settings, rows))


def objection_to(copies: "Copies", settings: "Settings", rows: Any) -> str | None:
    """What is wrong with copies, in a sentence; None where they may be measurements or are said to be."""
    if not copies.number or settings.data.keep_duplicates:
        return None
    num_rows = _table(settings, rows).num_rows
    if copies.number <= _LARGEST_SHARE * num_rows and not _has_stations(settings, rows):
        return None
    repeat = "repeats" if copies.number == 1 else "repeat"
    return (
        f"{copies.number:,} of {num_rows:,} rows {repeat} another in every column, as row {copies.first} (counting from 0) "
        f"does row {copies.original}; remove such rows, or keep them with --keep-duplicates (keep_duplicates = true "
        "under [data] in the config) if each is a measurement"
    )


def refuse_copies(copies: "Copies", settings: "Settings", rows: Any) -> None:
    objection = objection_to(copies, settings, rows)
    if objection is not None:
        raise ValueError(objection)


def _has_stations(settings: "Settings", rows: Any) -> bool:
    """A station measures once at a time, so that a copy of its row is no measurement."""
    from weft.data.inspect import guess_columns

    if settings.report.station is not None:
        return True
    guess = guess_columns(_table(settings, rows)).station
    return guess is not None and guess.columns[0] not in _columns(settings)


def _table(settings: "Settings", rows: Any) -> "Table":
    from weft.data.tables import as_table

    return as_table(rows, _columns(settings))


def _columns(settings: "Settings") -> list[str]:
    data = settings.data
    assert data.time is not None
    assert data.target is not None
    return [data.time, *(data.space or ()), data.target]
