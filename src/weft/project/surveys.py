# SPDX-License-Identifier: MIT
"""`weft.survey`: what a table holds, which column is what and why, what is odd, and how to model it."""

import dataclasses
import html
from collections.abc import Sequence
from typing import Any, final

from weft.data.copies import Copies, find_copies
from weft.data.files import read_table
from weft.data.inspect import ColumnGuesses, Counts, count_table, guess_columns
from weft.data.offers import Offers, offer_covariates
from weft.data.tables import Table, as_table
from weft.estimator.columns import roles_among
from weft.estimator.learning import options_among
from weft.options import Options
from weft.project.cost import Cost, cost_of
from weft.project.duplicates import objection_to
from weft.project.prepared import Prepared, prepare
from weft.project.settings import Settings
from weft.project.words import aligned
from weft.space_time_gp import SpaceTimeGP

__all__ = ["Survey", "rows_of", "survey", "survey_file", "surveyed"]

ROLES = ("time", "space", "target")


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

    @property
    def remarks(self) -> tuple[str, ...]:
        """What was chosen, and why."""
        return tuple(
            f"{name} is {_listed(self.settings.options[name])}: {reason}"
            + ("" if name in ROLES else f"; --{name} changes it")
            for name, reason in self.reasons.items()
        )

    @property
    def notes(self) -> tuple[str, ...]:
        """What is odd about the rows."""
        refused = () if self.objection is None else (f"fit and run refuse this table: {self.objection}",)
        copies = Offers(copies=self.offers.copies).notes(self.settings.options.get("target", ""))
        return (*(() if self.counts is None else self.counts.notes), *copies, *refused)

    def require_columns(self) -> Counts:
        """The counts; ValueError says which column is not known where there are none."""
        for role, reason in self.unknown.items():
            if role == "time" and self.guesses is not None and self.guesses.time_objection is not None:
                raise ValueError(f"{reason} (--time names another column)")
            raise ValueError(
                f"cannot tell which column is the {role}; name it with --{role} "
                f"(the table has {', '.join(self.table.names)})"
            )
        assert self.counts is not None
        return self.counts

    def estimator(self) -> SpaceTimeGP:
        """A `SpaceTimeGP` with these settings, not fitted yet."""
        self.require_columns()
        return SpaceTimeGP(**self.settings.arguments())

    def prepared(self) -> Prepared:
        """Rows read and units learned, as `fit` does; a table that cannot be fitted raises as there."""
        self.require_columns()
        return prepare(self.settings.arguments(), self.table)

    def cost(self) -> Cost:
        """What a fit will take, by a short trial on a stretch of the series."""
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
        rows = "".join(
            f"<tr><th>{html.escape(name)}</th><td>{html.escape(value)}</td></tr>" for name, value in self.lines()
        )
        said = [*self.remarks, *self.unknown.values(), *self.notes]
        return f"<table>{rows}</table><ul>{''.join(f'<li>{html.escape(text)}</li>' for text in said)}</ul>"


def survey(table: Any, **options: Any) -> Survey:
    """What a pandas, polars, pyarrow or xarray table holds; `options` are arguments of `SpaceTimeGP` that are known.

    Columns of time, space and target that are not given are guessed from their names and contents, and a transform or a
    likelihood that suits the target is chosen where neither is given.

        gp = weft.survey(table).estimator().fit(table)

    fits what `weft fit TABLE` fits.
    """
    names = [field.name for field in dataclasses.fields(Options)]
    for name in options:
        if name not in names:
            raise TypeError(f"SpaceTimeGP has no argument {name!r}; it has {', '.join(names)}")
    return surveyed(Settings(options=options), table, advised=True)


def survey_file(settings: Settings, *, advised: bool) -> Survey:
    """The survey of the table that settings name."""
    return surveyed(settings, rows_of(settings), advised=advised)


def rows_of(settings: Settings) -> Any:
    """The table of the settings, and a sentence if they name none."""
    if settings.table is None:
        raise ValueError("there is no table to read; give one, or name it under [data] in the config")
    return read_table(settings.table)


def surveyed(settings: Settings, data: Any, *, advised: bool) -> Survey:
    """The survey of a table; with `advised`, a transform or likelihood that suits the target is added to settings.

    A config was looked over by its writer and is not advised.
    """
    options = settings.options
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
                objection = guesses.time_objection if role == "time" else None
                unknown[role] = objection or f"no column looks like the {role}; choose among {', '.join(seen.names)}"
        if unknown:
            return Survey(seen, settings, reasons, unknown, guesses=guesses)
    roles = roles_among(vars(options_among(settings.options)))
    table = roles.table(data, with_target=True)
    counts = count_table(
        table, time=roles.time, space=roles.space, target=roles.target, time_format=options.get("time_format")
    )
    if advised and not {"transform", "likelihood"} & options.keys():
        settings = settings.with_options(**counts.advice.options)
        reasons |= dict.fromkeys(counts.advice.options, counts.advice.reason)
    copies = find_copies(table)
    objection = None
    if not settings.keep_duplicates:
        objection = objection_to(copies, table, roles, settings.report.station)
    further = () if guesses is None else (*guesses.others, *guesses.kinds)
    candidates = dict.fromkeys(name for name in (*roles.covariates, *further) if name in table.names)
    offers = offer_covariates(table, roles.target, candidates)
    return Survey(table, settings, reasons, {}, counts, copies, objection, guesses, offers)


def _listed(value: Any) -> str:
    return ", ".join(value) if isinstance(value, tuple) else str(value)
