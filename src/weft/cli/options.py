# SPDX-License-Identifier: MIT
"""Options that several verbs share, and how they, a config file and the table itself settle what is what."""

import dataclasses
import pathlib
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

if TYPE_CHECKING:
    from weft.config import Settings
    from weft.data.inspect import Survey

__all__ = [
    "DEFAULT_COLUMNS",
    "DEFAULT_MODEL",
    "AsJson",
    "ColumnOptions",
    "Config",
    "ModelFile",
    "ModelOptions",
    "Of",
    "Rows",
    "RowsOrGrid",
    "TableOfConfig",
    "advised_model",
    "completed_settings",
    "names_in",
    "numbers_in",
    "settings_from",
]

ModelFile = Annotated[pathlib.Path, Parameter(help="A file written by fit.")]
RowsOrGrid = Annotated[
    pathlib.Path, Parameter(help="Rows or a grid with the model's columns of time, space and covariates.")
]
Rows = Annotated[pathlib.Path, Parameter(help="Rows with values of the target.")]
TableOfConfig = Annotated[
    pathlib.Path | None, Parameter(help="csv, parquet, NetCDF or Zarr; may be left out if the config names it.")
]
AsJson = Annotated[bool, Parameter(name="--json", help="One line of JSON instead of text.", show_default=False)]
Config = Annotated[
    pathlib.Path | None, Parameter(help="A weft.toml (see `weft init`); options given here go before it.")
]
Of = Annotated[
    Literal["observation", "field"],
    Parameter(help="observation: what would be measured, noise included; field: what is behind it."),
]


def _option(help: str, **more: Any) -> Parameter:
    return Parameter(help=help, **more)


@Parameter(name="*", group="Columns")
@dataclasses.dataclass(frozen=True, kw_only=True)
class ColumnOptions:
    """Which column is what; lists are separated by commas."""

    time: Annotated[str | None, _option("The column of times. Guessed if not given, as are --space and --target.")] = (
        None
    )
    space: Annotated[str | None, _option("Columns that say where, such as lat,lon,elevation.")] = None
    target: Annotated[str | None, _option("The column to learn.")] = None
    covariates: Annotated[str | None, _option("Columns with linear effects.")] = None
    noise_variance: Annotated[str | None, _option("The column of each row's own noise variance.")] = None
    exposure: Annotated[str | None, _option("The column of exposures (counts).")] = None
    trials: Annotated[str | None, _option("The column of trials (binomial).")] = None
    time_step: Annotated[
        str | None, _option("Put times on a regular step, such as 1D or 6h; for plain numbers, a number.")
    ] = None
    time_format: Annotated[str | None, _option("How times are written where that is not plain, such as %d/%m/%Y.")] = (
        None
    )
    units: Annotated[str | None, _option("Units of the target, for gridded output.")] = None


@Parameter(name="*", group="Model")
@dataclasses.dataclass(frozen=True, kw_only=True)
class ModelOptions:
    """How to model; what is left out has the defaults of SpaceTimeGP."""

    likelihood: Annotated[str | None, _option("gaussian, student_t, poisson, negative_binomial, bernoulli, ...")] = None
    pseudo_points: Annotated[str | None, _option("A count, auto, or exact.")] = None
    transform: Annotated[str | None, _option("Of the target: log, log1p, sqrt, logit or identity.")] = None
    seasonality: Annotated[str | None, _option("yearly, weekly, daily, or lengths such as 12h.")] = None
    power: Annotated[float | None, _option("0 for the variational bound, 1 for FITC, between for power EP.")] = None
    engine: Annotated[str | None, _option("auto, cpu, scan or parallel.")] = None
    seed: Annotated[int | None, _option("Of everything that is drawn.")] = None
    max_iterations: Annotated[int | None, _option("Where to stop learning at the latest.")] = None
    learning_rows: Annotated[str | None, _option("Rows to learn parameters from: a count, auto, or all.")] = None


DEFAULT_COLUMNS = ColumnOptions()
DEFAULT_MODEL = ModelOptions()


def names_in(text: str | None) -> tuple[str, ...] | None:
    """Names separated by commas."""
    if text is None:
        return None
    return tuple(name for name in (part.strip() for part in text.split(",")) if name)


def numbers_in(text: str, option: str) -> tuple[float, ...]:
    """Numbers separated by commas."""
    try:
        return tuple(float(part) for part in text.split(",") if part.strip())
    except ValueError:
        raise ValueError(f"{option} must be numbers separated by commas; it is {text!r}") from None


def settings_from(
    config: pathlib.Path | None, table: pathlib.Path | None, columns: ColumnOptions, model: ModelOptions
) -> "Settings":
    """The config's settings, or none, with every option that was given put in their place."""
    import msgspec

    from weft.config import Settings, read_settings

    settings = Settings() if config is None else read_settings(config)
    given = dataclasses.asdict(columns) | {"table": None if table is None else str(table)}
    given |= {name: names_in(given[name]) for name in ("space", "covariates")}
    given["time_step"] = None if columns.time_step is None else _number_or_word(columns.time_step)
    modelled = dataclasses.asdict(model)
    modelled["pseudo_points"] = _count_or_word(model.pseudo_points)
    modelled["learning_rows"] = _count_or_word(model.learning_rows)
    modelled["seasonality"] = _seasons(model.seasonality)
    replace = msgspec.structs.replace
    return replace(
        settings,
        data=replace(settings.data, **{name: value for name, value in given.items() if value is not None}),
        model=replace(settings.model, **{name: value for name, value in modelled.items() if value is not None}),
    )


def completed_settings(settings: "Settings", table: Any, *, advised: bool = False) -> "tuple[Settings, list[str]]":
    """The settings with time, space and target, guessed from the table where nothing says them, and remarks why.

    With `advised`, a transform or likelihood that suits the target too, where neither is given: for tables without a
    config, which would have one.
    """
    import msgspec

    from weft.data.inspect import guess_columns
    from weft.data.tables import as_table

    data = settings.data
    missing = [role for role in ("time", "space", "target") if getattr(data, role) is None]
    if not missing:
        return _with_advice(settings, table) if advised else (settings, [])
    seen = as_table(table)
    guesses = guess_columns(seen, time_format=data.time_format)
    found: dict[str, Any] = {}
    remarks: list[str] = []
    for role in missing:
        guess = getattr(guesses, role)
        if guess is None:
            if role == "time" and guesses.time_objection is not None:
                raise ValueError(f"{guesses.time_objection} (--time names another column)")
            raise ValueError(
                f"cannot tell which column is the {role}; name it with --{role} (the table has {', '.join(seen.names)})"
            )
        found[role] = guess.columns if role == "space" else guess.columns[0]
        remarks.append(f"{role} is {', '.join(guess.columns)}: {guess.reason}")
    settings = msgspec.structs.replace(settings, data=msgspec.structs.replace(data, **found))
    if advised:
        settings, more = _with_advice(settings, table)
        remarks += more
    return settings, remarks


def advised_model(survey: "Survey") -> dict[str, str]:
    """Settings of the model that suit the target, by name."""
    advice = survey.advice
    found = {"transform": advice.transform, "likelihood": advice.likelihood}
    return {name: value for name, value in found.items() if value is not None}


def _with_advice(settings: "Settings", table: Any) -> "tuple[Settings, list[str]]":
    import msgspec

    from weft.data.inspect import survey_table
    from weft.data.tables import as_table

    data, model = settings.data, settings.model
    if model.transform is not None or model.likelihood is not None:
        return settings, []
    assert data.time is not None
    assert data.space is not None
    assert data.target is not None
    seen = as_table(table, [data.time, *data.space, data.target])
    survey = survey_table(seen, time=data.time, space=data.space, target=data.target, time_format=data.time_format)
    found = advised_model(survey)
    remarks = [f"{name} is {value}: {survey.advice.reason}; --{name} changes it" for name, value in found.items()]
    return msgspec.structs.replace(settings, model=msgspec.structs.replace(model, **found)), remarks


def _count_or_word(text: str | None) -> int | str | None:
    return int(text) if text is not None and text.isdecimal() else text


def _seasons(text: str | None) -> tuple[str | float, ...] | None:
    if text is None:
        return None
    return tuple(_number_or_word(part) for part in names_in(text) or ())


def _number_or_word(text: str) -> float | str:
    return float(text) if text.replace(".", "", 1).isdecimal() else text
