# SPDX-License-Identifier: MIT
"""Options that several verbs share; those of the estimator are made from where they are declared, `weft.options`."""

import dataclasses
import pathlib
import re
import shlex
import sys
import types
import typing
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from weft.options import Written, written_options

if TYPE_CHECKING:
    from weft.project import Settings

__all__ = [
    "DEFAULT_COLUMNS",
    "DEFAULT_MODEL",
    "INTERRUPTED",
    "AsJson",
    "ColumnOptions",
    "Config",
    "KeepDuplicates",
    "ModelFile",
    "ModelOptions",
    "Of",
    "Places",
    "Profile",
    "Quantiles",
    "Rows",
    "RowsFile",
    "RowsOrGrid",
    "RowsWithGaps",
    "Scheduler",
    "TableOfConfig",
    "TableOutput",
    "Workers",
    "argument",
    "command_line",
    "names_in",
    "numbers_in",
    "settings_from",
]

INTERRUPTED = 130
_NUMBER = re.compile(r"-?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?")

ModelFile = Annotated[pathlib.Path, Parameter(help="A file written by fit.")]
RowsOrGrid = Annotated[
    pathlib.Path, Parameter(help="Rows or a grid with the model's columns of time, space and covariates.")
]
RowsWithGaps = Annotated[pathlib.Path, Parameter(help="Rows or a grid in which some values of the target are missing.")]
Rows = Annotated[pathlib.Path, Parameter(help="Rows with values of the target.")]
RowsFile = Annotated[
    pathlib.Path | None, Parameter(help="Also write the scores of every row here, for `weft compare`.")
]
TableOfConfig = Annotated[
    pathlib.Path | None,
    Parameter(help="Text, parquet, Excel, NetCDF, Zarr or GeoPackage; may be left out if the config names it."),
]
Places = Annotated[
    pathlib.Path | None,
    Parameter(help="A second table, which says where the stations of the first are, by their names."),
]
OneTarget = Annotated[str | None, Parameter(help="Which of several targets.", show_default=False)]
TableOutput = Annotated[
    pathlib.Path, Parameter(name=["--output", "-o"], help="csv, tsv, parquet, NetCDF or Zarr, by its name.")
]
AsJson = Annotated[bool, Parameter(name="--json", help="One line of JSON instead of text.", show_default=False)]
Config = Annotated[
    pathlib.Path | None, Parameter(help="A weft.toml (see `weft init`); options given here go before it.")
]
Profile = Annotated[
    bool, Parameter(help="Say at the end what each phase took: processor, clock, memory.", show_default=False)
]
KeepDuplicates = Annotated[
    bool, Parameter(help="Rows that repeat another in every column are measurements too.", show_default=False)
]
Of = Annotated[
    Literal["observation", "field"],
    Parameter(help="observation: what would be measured, noise included; field: what is behind it."),
]


Workers = Annotated[
    int | None, Parameter(help="Processes to start on this machine and share the work among.", show_default=False)
]
Scheduler = Annotated[
    str | None,
    Parameter(help="Address of a Dask scheduler whose workers to use, such as tcp://node1:8786.", show_default=False),
]
Quantiles = Annotated[str, Parameter(help="Levels, separated by commas.")]


def _made_from(section: str, group: str) -> Any:
    """A class with a field for every option of a section of weft.toml: text, but for single numbers and switches."""
    fields: list[tuple[str, Any, Any]] = []
    for name, written in written_options(section).items():
        kind = written.kind if written.kind in (int, float, bool) else str
        negative = f"--no-{name.replace('_', '-')}" if kind is bool else ()
        fields.append((name, Annotated[kind | None, Parameter(help=written.help, negative=negative)], None))
    # The module, because cyclopts looks into no class of the standard library's.
    made = dataclasses.make_dataclass(group, fields, frozen=True, kw_only=True, namespace={"__module__": __name__})
    return Parameter(name="*", group=group)(made)


if TYPE_CHECKING:

    class ColumnOptions:
        """Which column is what; lists are separated by commas."""

    class ModelOptions:
        """How to model; what is left out has the defaults of SpaceTimeGP."""

else:
    ColumnOptions = _made_from("data", "Columns")
    ModelOptions = _made_from("model", "Model")

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
    config: pathlib.Path | None,
    table: pathlib.Path | None,
    columns: ColumnOptions,
    model: ModelOptions,
    *,
    keep_duplicates: bool = False,
    places: pathlib.Path | None = None,
) -> "Settings":
    """The config's settings, or none, with every option that was given put in their place."""
    import msgspec

    from weft.project import Settings, read_settings

    settings = Settings() if config is None else read_settings(config)
    given = {name: value for name, value in (vars(columns) | vars(model)).items() if value is not None}
    options = {name: argument(written_options()[name], value) for name, value in given.items()}
    return msgspec.structs.replace(
        settings.with_options(**options),
        table=settings.table if table is None else str(table),
        places=settings.places if places is None else str(places),
        keep_duplicates=settings.keep_duplicates or keep_duplicates,
    )


def argument(written: Written, given: Any) -> Any:
    """The estimator's argument that is meant by what was given on the command line."""
    return written.value(given if given in written.words else _read(given, written.kind))


def command_line() -> str:
    """What was typed, for the report's account of how it was made."""
    return shlex.join(["weft", *sys.argv[1:]])


def _read(value: Any, kind: Any) -> Any:
    """Text as it would stand in weft.toml: a list where one may be, a number where one may be and it is one."""
    if not isinstance(value, str):
        return value
    kinds = typing.get_args(kind) if isinstance(kind, types.UnionType) else (kind,)
    for each in kinds:
        if typing.get_origin(each) is tuple:
            return tuple(_read(part, typing.get_args(each)[0]) for part in names_in(value) or ())
    if int in kinds and value.isdecimal():
        return int(value)
    return float(value) if float in kinds and _NUMBER.fullmatch(value) else value
