# SPDX-License-Identifier: MIT
"""A weft.toml to start from: what was inferred from a table and why, and what else might be said, commented out."""

import json
import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np

from weft.data.atomic import write_whole
from weft.data.inspect import guess_columns
from weft.data.outputs import check_outputs
from weft.options import written_options
from weft.project.settings import EvaluateSettings, ReportSettings, Settings
from weft.project.surveys import ROLES, Survey, survey_file

__all__ = ["StartingFile", "start"]


class StartingFile(NamedTuple):
    """What was written: settings, why each was chosen, and what else there is to say of the table."""

    settings: Settings
    reasons: dict[str, str]
    notes: tuple[str, ...]


def start(settings: Settings, output: str | os.PathLike[str], *, replace: bool = False) -> StartingFile:
    """Look at a table and write a commented weft.toml: which column is what and why, and how to model the target.

    `settings` name the table, and say what is known already.
    """
    output = pathlib.Path(output)
    check_outputs(settings.inputs(), files={"config": output})
    if output.exists() and not replace:
        raise FileExistsError(f"{str(output)!r} is there already; give another name with -o, or --force to replace it")
    found = survey_file(settings, advised=True)
    guesses = guess_columns(found.table) if found.guesses is None else found.guesses
    known = found.reasons | found.unknown
    reasons = {role: known[role] for role in ROLES if role in known} | found.reasons
    notes = found.arranged + (() if found.counts is None else (found.counts.words, *found.counts.notes))
    used = {
        name for value in found.settings.options.values() for name in np.atleast_1d(np.asarray(value, dtype=object))
    }
    notes = (*notes, *found.offers.notes(found.settings.options.get("target", "")))
    if found.objection is not None:
        notes = (*notes, f"fit and run refuse this table: {found.objection}")
    station = None if guesses.station is None or guesses.station.columns[0] in used else guesses.station
    if station is not None:
        reasons["station"] = station.reason
    settings = msgspec.structs.replace(
        found.settings,
        table=_beside(settings.table, output),
        places=_beside(settings.places, output),
        evaluate=EvaluateSettings(by=_worth_holding_out(found)),
        report=ReportSettings(station=None if station is None else station.columns[0]),
    )
    write_whole(output, _starting_text(settings, reasons, notes))
    return StartingFile(settings, reasons, notes)


def _beside(name: str | None, output: pathlib.Path) -> str | None:
    return None if name is None else os.path.relpath(name, output.parent)


def _worth_holding_out(found: Survey) -> tuple[str, ...]:
    many = found.counts is not None and found.counts.num_places >= 10
    return ("random", "station") if many else ("random",)


def _starting_text(settings: Settings, reasons: Mapping[str, str], notes: Sequence[str]) -> str:
    def entry(key: str, value: Any) -> list[str]:
        because = [f"# {_one_line(reasons[key])}"] if key in reasons else []
        return [*because, f"{key} = {_toml(value)}" if value is not None else f"# {key} = "]

    def section(name: str) -> list[str]:
        """Options of the estimator: with a value or a reason, or else commented out."""
        lines = []
        for option, written in written_options(name).items():
            if option in settings.options or option in reasons:
                lines += entry(option, settings.options.get(option))
            else:
                lines.append(f"{f'# {option} = {_toml(written.example)}':<27} # {written.help}")
        return lines

    station = settings.report.station
    lines = [
        "# What `weft check`, `weft run` and `weft fit --config` do. Lines that start with # change nothing.",
        "",
        *(f"# Note: {_one_line(note)}." for note in notes),
        *([""] if notes else []),
        "[data]",
        *entry("table", settings.table),
        *(
            ['# places = "stations.csv"   # A second table, which says where the stations are.']
            if settings.places is None
            else []
        ),
        *(entry("places", settings.places) if settings.places is not None else []),
        *section("data"),
        "# keep_duplicates = true    # Rows that repeat another in every column are measurements too.",
        "",
        "[model]",
        *section("model"),
        "",
        "[evaluate]",
        '# What is held out to judge the model: "random" rows, whole "station"s, "block"s of space, stretches of "time".',
        f"by = {_toml(settings.evaluate.by)}",
        "# folds = 5                 # Left out: five, of which a very large model predicts fewer.",
        "",
        "[predict]",
        '# table = "grid.nc"         # Rows or a grid (csv, parquet, NetCDF, Zarr) to predict at.',
        '# output = "predictions.nc"',
        "# quantiles = [0.05, 0.95]",
        "",
        "[report]",
        *(['# station = "station"       # The column with the stations\' names.'] if station is None else []),
        *(entry("station", station) if station is not None else []),
        '# terrain = "heights.nc"    # Map coordinates and elevation, where elevation is a column of space.',
        "# threshold = 30.0          # Of the map of probabilities.",
        '# title = "..."',
        "",
        "[output]",
        *(f"{name} = {_toml(getattr(settings.output, name))}" for name in settings.output.__struct_fields__),
        "",
    ]
    return "\n".join(lines)


def _toml(value: Any) -> str:
    """A string, number or list of those; JSON writes them as TOML does, but for the one character it leaves bare."""
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(_toml, value))}]"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _one_line(text: str) -> str:
    return " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())
