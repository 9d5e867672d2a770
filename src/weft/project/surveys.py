# SPDX-License-Identifier: MIT
"""`weft.survey`: what a table holds, which column is what and why, what is odd, and how to model it."""

import dataclasses
import functools
import logging
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, final

import numpy as np

from weft.data.copies import Copies, find_copies
from weft.data.files import read_table
from weft.data.inspect import (
    ColumnGuesses,
    ColumnsCounted,
    Counts,
    count_table,
    counts_of,
    guess_columns,
    labels_of_units,
    looked_at,
    refuse_mixed_units,
)
from weft.data.long_form import LongForm, long_form
from weft.data.offers import Offers, offer_covariates
from weft.data.parts import Part, is_of_parts, joined_parts, num_rows_of, parts_of, read_part
from weft.data.tables import Table, as_table, time_columns
from weft.distributed.in_parts import TableInParts
from weft.distributed.reading import in_parts
from weft.distributed.tallies import Tallied, tally_files
from weft.estimator.columns import Roles, roles_among
from weft.estimator.in_parts import rows_to_hold_out
from weft.estimator.learning import MOST_LOOKED_AT, models_rows, options_among
from weft.estimator.several import targets_among, targets_written, transforms_of
from weft.estimator.translation import step_for
from weft.inference.executor import current_executor
from weft.notebook import facts_html
from weft.options import Options
from weft.phases import timing
from weft.project.cost import Cost, cost_of
from weft.project.duplicates import objection_to
from weft.project.prepared import Prepared, prepare
from weft.project.settings import Settings
from weft.project.words import aligned
from weft.space_time_gp import SpaceTimeGP

__all__ = ["Survey", "arranged", "survey", "survey_file", "surveyed", "table_of"]

logger = logging.getLogger("weft")

ROLES = ("time", "space", "target")
_MOST_SHOWN = 20


@final
@dataclasses.dataclass(frozen=True, repr=False)
class Survey:
    """What `weft init` and `weft check` know of a table; print it, or show it in a notebook.

    `settings` say which column is what and how to model the target, as a weft.toml would; `reasons` why, for what was
    not given; `unknown` why no column was found to be the time, the space or the target. Only where all three are known
    are there `counts` of rows, places, times and gaps and `copies`, rows that repeat another in every column;
    `objection` says why `fit` and `run` of the command line refuse the table, if they do. `settings.options` are
    arguments of `SpaceTimeGP`, and `estimator()` is the one that `weft fit TABLE` fits. `guesses` say what each column
    seems to be; there are none where every column was named. `offers` are columns that could be covariates, and those that must not be.
    `table` has a row a measurement: `arranged` says what was done to make it so, if anything was. Where it is some rows of a table in
    many files, `whole` names those: all of them are counted, and they are what is fitted.
    """

    table: Table
    settings: Settings
    reasons: dict[str, str]
    unknown: dict[str, str]
    counts: Counts | None = None
    copies: Copies | None = None
    objection: str | None = None
    guesses: ColumnGuesses | None = None
    offers: Offers = dataclasses.field(default_factory=Offers)
    arranged: tuple[str, ...] = ()
    whole: pathlib.Path | None = None

    @property
    def remarks(self) -> tuple[str, ...]:
        """What was chosen, and why."""
        return self.arranged + tuple(
            f"{name} is {_listed(self.settings.options[name])}: {reason}"
            + ("" if name in ROLES else f"; {_spelled(self.settings, name)} changes it")
            for name, reason in self.reasons.items()
        )

    @property
    def notes(self) -> tuple[str, ...]:
        """What is odd about the rows."""
        refused = () if self.objection is None else (f"fit and run refuse this table: {self.objection}",)
        copies = Offers(copies=self.offers.copies).notes(_listed(self.settings.options.get("target", "")))
        return (*(() if self.counts is None else self.counts.notes), *copies, *refused)

    def require_columns(self) -> Counts:
        """The counts; ValueError says which column is not known where there are none."""
        for role, reason in self.unknown.items():
            if _objection(role, self.guesses) is not None:
                raise ValueError(f"{reason} ({_spelled(self.settings, role)} names another column)")
            raise ValueError(
                f"cannot tell which column is the {role}; name it with {_spelled(self.settings, role)} "
                f"(the table has {_shown(self.table.names)}){_hint(role, self.guesses, self.settings)}"
            )
        assert self.counts is not None
        return self.counts

    def estimator(self) -> SpaceTimeGP:
        """A `SpaceTimeGP` with these settings, not fitted yet."""
        self.require_columns()
        return SpaceTimeGP(**self.settings.arguments())

    def rows_here(self) -> Any:
        """The table; of one in many files the rows that parameters are learned from, which are judged by too: stretches of the series."""
        if self.whole is None:
            return self.table
        self.require_columns()
        arguments = self._arguments()
        options, station = options_among(arguments), self.settings.report.station
        roles = roles_among(vars(options))
        places = (*roles.of_places, *(() if station is None or station in roles.columns else (station,)))
        found = in_parts(self.whole, roles.time, places, roles.numeric)
        assert isinstance(found, TableInParts)
        return rows_to_hold_out(options, roles, found)

    def prepared(self, rows: Any = None) -> Prepared:
        """Rows read and units learned, as `fit` does; a table that cannot be fitted raises as there. Of several targets, the first.

        The rows are those of `rows_here`, for whoever has them already.
        """
        self.require_columns()
        return prepare(self._arguments(), self.rows_here() if rows is None else rows)

    def _arguments(self) -> dict[str, Any]:
        """Those of an estimator; of several targets, the first."""
        arguments = self.settings.arguments()
        targets = targets_among(arguments["target"])
        if targets:
            transforms = transforms_of(arguments.get("transform"), targets)
            arguments |= {"target": targets[0], "transform": transforms[targets[0]]}
        return arguments

    def cost(self) -> Cost:
        """What a fit will take, by a short trial on a stretch of the series; of a table in many files, besides reading them."""
        return cost_of(self.prepared())

    def lines(self) -> list[list[str]]:
        """What is counted, in words, and how many."""
        if self.counts is None or self.copies is None:
            return [["rows", f"{self.table.num_rows:,}"]]
        counts = self.counts
        return [
            ["rows", f"{counts.num_rows:,}"],
            ["without a value", f"{counts.num_missing_target:,}"],
            ["repeating a time and place", f"{counts.num_duplicates:,}"],
            ["repeating every column", f"{self.copies.number:,}"],
            ["places", f"{counts.num_places:,}"],
            ["times", f"{counts.num_times:,}"],
            ["from", counts.first_time],
            ["to", counts.last_time],
            ["usual step", counts.step_words],
            ["gaps in time", f"{counts.num_gaps:,}"],
            ["present of places x times", f"{counts.share_present:.1%}"],
            ["lowest value", f"{counts.target_lowest:g}"],
            ["highest value", f"{counts.target_highest:g}"],
        ]

    def to_json(self) -> dict[str, object]:
        """What is counted."""
        return {} if self.copies is None else self.require_columns().to_json() | {"num_copies": self.copies.number}

    def text(self, more: Sequence[Sequence[str]] = ()) -> str:
        """All of it for people, with more lines of counts."""
        notes = [*self.unknown.values(), *(f"note: {note}" for note in self.notes)]
        return "\n".join([*self.remarks, aligned([*self.lines(), *more]), *notes])

    def __repr__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        return facts_html(self.lines(), [*self.remarks, *self.unknown.values(), *self.notes])


def survey(table: Any, *, places: Any = None, **options: Any) -> Survey:
    """What a pandas, polars, pyarrow or xarray table holds; `options` are arguments of `SpaceTimeGP` that are known.

    A table with a column a station needs `places`, a second table that says where they are; so does one with their names
    alone. A column a time or a column of quantities' names needs nothing more. Either way `.table` has a row a measurement.
    Columns of time, space and target that are not given are guessed from their names and contents, and a transform or a
    likelihood that suits the target is chosen where neither is given.

        gp = weft.survey(table).estimator().fit(table)

    fits what `weft fit TABLE` fits; where the table had to be arranged, fit to `.table` of the survey.
    """
    names = [field.name for field in dataclasses.fields(Options)]
    for name in options:
        if name not in names:
            raise TypeError(f"SpaceTimeGP has no argument {name!r}; it has {', '.join(names)}")
    return surveyed(Settings(options=options), arranged(table, places, options), advised=True)


def survey_file(settings: Settings, *, advised: bool) -> Survey:
    """The survey of the table that settings name.

    Of one in many files, with more rows than one process may hold, whole files here and there say which column is what; all of them are
    counted where tasks run, and `whole` is to be fitted.
    """
    some = _some_files(settings)
    if some is None:
        return surveyed(settings, _rows_of(settings), advised=advised)
    return surveyed(settings, LongForm(some.rows), advised=advised, whole=some)


def table_of(settings: Settings) -> Any:
    """The table that settings name, with a row a measurement; of one in many files that is not to be read as a whole, the path."""
    some = _some_files(settings)
    return _rows_of(settings).table if some is None else some.path


def _rows_of(settings: Settings) -> LongForm:
    assert settings.table is not None
    places = None if settings.places is None else read_table(settings.places)
    return arranged(read_table(settings.table), places, settings.options)


class _Files(NamedTuple):
    """Files that are one table, how many rows they have, and the rows of those that were looked at."""

    path: pathlib.Path
    parts: list[Part]
    num_rows: int
    num_read: int
    rows: Any

    @property
    def said(self) -> str:
        return (
            f"{len(self.rows):,} of {self.num_rows:,} rows, in {self.num_read} of {len(self.parts)} files, were looked at to tell which "
            "column is what; all were counted"
        )


def _some_files(settings: Settings) -> _Files | None:
    """Some of the files of a table that is not to be read as a whole; None for any other, and where it must be to be understood."""
    path = settings.table
    if path is None:
        raise ValueError("there is no table to read; give one, or name it under [data] in the config")
    if settings.places is not None or not is_of_parts(path):
        return None
    parts = parts_of(path)
    counts = current_executor().map(num_rows_of, parts, names=[f"counting {part.path}" for part in parts])
    if sum(counts) <= MOST_LOOKED_AT:
        return None
    chosen = [parts[number] for number in _here_and_there(counts, MOST_LOOKED_AT)]
    some = joined_parts(current_executor().map(read_part, chosen, names=[f"reading {part.path}" for part in chosen]))
    if arranged(some, None, settings.options).notes:
        # A column a station, say: the files have to be turned into rows together.
        logger.info("all %s rows are read into memory, to have a row a measurement", f"{sum(counts):,}")
        return None
    return _Files(pathlib.Path(path), parts, sum(counts), len(chosen), some)


def _here_and_there(counts: Sequence[int], most: int) -> list[int]:
    """Numbers of files with at most so many rows together, evenly among all that have any; one of them at least."""
    filled = np.flatnonzero(counts)
    for num in range(len(filled), 1, -1):
        chosen = filled[np.linspace(0, len(filled) - 1, num).astype(np.int64)]
        if sum(counts[number] for number in chosen) <= most:
            return [int(number) for number in chosen]
    return [int(filled[0])]


def arranged(data: Any, places: Any, options: Mapping[str, Any]) -> LongForm:
    """A table with a row a measurement, whichever way its owner keeps it."""
    if isinstance(data, LongForm):
        return data
    if type(data).__module__.partition(".")[0] == "xarray" and places is None:
        return LongForm(data)
    table = as_table(data)
    given = options.get("target")
    targets = () if given is None else targets_written(given, table.names)
    target = targets[0] if targets else None
    known = [name for name in (*targets, *_several(options.get("space")), *_several(options.get("time"))) if name]
    parts = [part for name in known for part in time_columns(table.names, name)]
    if places is None and all(role in options for role in ROLES) and set(parts) <= set(table.names):
        return LongForm(table)
    return long_form(table, known=known, target=target, places=None if places is None else as_table(places))


def _several(names: Any) -> tuple[str, ...]:
    return () if names is None else (names,) if isinstance(names, str) else tuple(names)


@timing("survey")
def surveyed(settings: Settings, rows: LongForm, *, advised: bool, whole: "_Files | None" = None) -> Survey:
    """The survey of a table; with `advised`, what suits the target is added to settings: a transform or a likelihood, and
    which numbers mean that there is no value.

    A config was looked over by its writer and is not advised. Where the rows are some of a `whole`, that is counted.
    """
    options, data = settings.options, rows.table
    said = rows.notes if whole is None else (whole.said,)
    path = None if whole is None else whole.path
    reasons: dict[str, str] = {}
    unknown: dict[str, str] = {}
    guesses = None
    missing = [role for role in ROLES if role not in options]
    if missing:
        seen = as_table(data)
        guesses = guess_columns(seen, time_format=options.get("time_format"))
        for role in missing:
            guess = getattr(guesses, role)
            if guess is not None:
                settings = settings.with_options(**{role: guess.columns if role == "space" else guess.columns[0]})
                reasons[role] = guess.reason
            else:
                hint = _hint(role, guesses, settings)
                unknown[role] = (
                    _objection(role, guesses)
                    or f"no column looks like the {role}; choose among {_shown(seen.names)}{hint}"
                )
        if unknown:
            return Survey(seen, settings, reasons, unknown, guesses=guesses, arranged=said, whole=path)
    targets = targets_written(settings.options["target"], as_table(data).names)
    if len(targets) > 1:
        settings = settings.with_options(target=targets)
    # Of several targets the first is counted; each is advised.
    roles = roles_among(vars(options_among(settings.options)) | {"target": targets[0]})
    for target in targets[1:]:
        dataclasses.replace(roles, target=target).table(data, with_target=True)
    table = roles.table(data, with_target=True)
    counter = _Counter(table, roles, options_among(settings.options), whole)
    refuse_mixed_units(counter.units, roles.target)
    counts = counter.counts(roles.missing, roles.target)
    if advised and "missing" not in options and counts.sentinels:
        codes = tuple(sentinel.value for sentinel in counts.sentinels)
        number = sum(sentinel.num_rows for sentinel in counts.sentinels)
        settings = settings.with_options(missing=codes)
        counts = counter.counts(codes, roles.target)
        rest = f"{counts.target_lowest:g} to {counts.target_highest:g}"
        reasons["missing"] = f"{number:,} rows have such a value of {roles.target!r}, far from all others ({rest})"
    if advised and len(targets) > 1 and "transform" not in options:
        advice = [counter.counts(roles.missing, target).advice for target in targets]
        if any("transform" in each.options for each in advice):
            settings = settings.with_options(
                transform=tuple(each.options.get("transform", "identity") for each in advice)
            )
            reasons["transform"] = "; ".join(each.reason for each in advice if "transform" in each.options)
    elif advised and not {"transform", "likelihood"} & options.keys():
        settings = settings.with_options(**counts.advice.options)
        reasons |= dict.fromkeys(counts.advice.options, counts.advice.reason)
    copies = counter.copies
    objection = None
    if not settings.keep_duplicates:
        objection = objection_to(copies, counts.num_rows, table, roles, settings.report.station)
    further = () if guesses is None else (*guesses.others, *guesses.kinds)
    candidates = dict.fromkeys(name for name in (*roles.covariates, *further) if name in table.names)
    offers = offer_covariates(table, roles.target, candidates)
    return Survey(
        table,
        settings,
        reasons,
        unknown={},
        counts=counts,
        copies=copies,
        objection=objection,
        guesses=guesses,
        offers=offers,
        arranged=said,
        whole=path,
    )


@final
class _Counter:
    """Counts of a table that is here, or of a whole one of which some rows are."""

    def __init__(self, table: Table, roles: Roles, options: Options, whole: _Files | None):
        self.table, self.roles, self.options, self.whole = table, roles, options, whole
        self._found: dict[ColumnsCounted, Tallied] = {}

    def counts(self, missing: Sequence[float], target: str) -> Counts:
        columns, step = self._columns(missing, target), None
        if self.options.time_step == "auto":
            step = functools.partial(step_for, by_rows=models_rows(self.options))
        if self.whole is None:
            return count_table(self.table, **columns._asdict(), step_for=step)
        tally = self._tallied(columns).tally
        return counts_of(tally, target, looked_at(self.table, tally.clock, columns), step)

    @property
    def copies(self) -> Copies:
        return find_copies(self.table) if self.whole is None else self._any_tallied.copies

    @property
    def units(self) -> dict[str, tuple[str, ...]]:
        if self.whole is None:
            return labels_of_units(self.table, self.roles.target)
        return self._any_tallied.units

    @property
    def _any_tallied(self) -> Tallied:
        """Copies and units are the same whatever means no value."""
        return self._tallied(self._columns(self.roles.missing, self.roles.target))

    def _tallied(self, columns: ColumnsCounted) -> Tallied:
        assert self.whole is not None
        if columns not in self._found:
            self._found[columns] = tally_files(self.whole.parts, columns)
        return self._found[columns]

    def _columns(self, missing: Sequence[float], target: str) -> ColumnsCounted:
        roles, written = self.roles, self.options.time_format
        return ColumnsCounted(roles.time, roles.space, target, tuple(missing), roles.area, written)


def _objection(role: str, guesses: ColumnGuesses | None) -> str | None:
    """Why the column that is named like one of this role was not taken for it."""
    # What is said of columns of space is a hint only.
    if guesses is None or role == "space":
        return None
    return guesses.objections.get(role)


def _spelled(settings: Settings, name: str) -> str:
    """How an option is given: on the command line where the table is a file, else in Python."""
    return f"--{name}" if settings.table is not None else f"{name}="


def _hint(role: str, guesses: ColumnGuesses | None, settings: Settings) -> str:
    """What else may help where no column says when, or where."""
    if role == "time":
        return "; if all rows are of one time, add a column that says it, such as year"
    if role != "space" or guesses is None:
        return ""
    if role in guesses.objections:
        return f"; {guesses.objections[role]}"
    if settings.places is not None or guesses.time is None:
        return ""
    given = "--places stations.csv" if settings.table is not None else "places=stations"
    if guesses.station is not None:
        column = guesses.station.columns[0]
        return f"; if {column!r} names stations, say where they are with {given}: a table with {column!r}, lat and lon"
    return f"; if each column is a station, say where they are with {given}: a table with their names, lat and lon"


def _shown(names: Sequence[str]) -> str:
    """Names of columns, the first and the last where there are many."""
    return ", ".join(names) if len(names) <= _MOST_SHOWN else f"{', '.join(names[: _MOST_SHOWN - 1])}, ..., {names[-1]}"


def _listed(value: Any) -> str:
    return (
        ", ".join(f"{each:g}" if isinstance(each, float) else each for each in value)
        if isinstance(value, tuple)
        else str(value)
    )
