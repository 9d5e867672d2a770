# SPDX-License-Identifier: MIT
"""The file weft.toml: what to read, what to fit, what to write. Strict, so that a slip of the pen is an error."""

import difflib
import json
import os
import pathlib
import tomllib
from collections.abc import Sequence
from typing import Any

import msgspec

__all__ = [
    "DataSettings",
    "EvaluateSettings",
    "KernelSettings",
    "ModelSettings",
    "OutputSettings",
    "PredictSettings",
    "ReportSettings",
    "Settings",
    "estimator_arguments",
    "read_settings",
    "write_starting_file",
]


class DataSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which file, and which of its columns is what; columns not named are guessed from their names and contents.

    With `keep_duplicates`, rows that repeat another in every column are measurements too.
    """

    table: str | None = None
    time: str | None = None
    space: tuple[str, ...] | None = None
    target: str | None = None
    covariates: tuple[str, ...] | None = None
    noise_variance: str | None = None
    exposure: str | None = None
    trials: str | None = None
    time_step: str | float | None = None
    time_format: str | None = None
    units: str | None = None
    keep_duplicates: bool = False


class KernelSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One separable component to start from, in kilometres, deviations and time units; kernels by their weft names."""

    space: str
    time: str
    space_lengthscale: float | tuple[float, ...] = 1.0
    time_lengthscale: float = 1.0
    variance: float = 1.0


class ModelSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arguments of `SpaceTimeGP`; what is left out has its default."""

    likelihood: str | None = None
    pseudo_points: int | str | None = None
    transform: str | None = None
    seasonality: tuple[str | float, ...] | None = None
    power: float | None = None
    engine: str | None = None
    seed: int | None = None
    max_iterations: int | None = None
    learning_rows: int | str | None = None
    place_offsets: bool | None = None
    kernel: tuple[KernelSettings, ...] = ()


class EvaluateSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How rows are held out to judge the model."""

    by: tuple[str, ...] = ("random",)
    folds: int | None = None


class PredictSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where to predict; without a table nothing is."""

    table: str | None = None
    output: str = "predictions.parquet"
    quantiles: tuple[float, ...] = (0.05, 0.95)
    of: str = "observation"


class ReportSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the report is told beyond the model."""

    title: str | None = None
    station: str | None = None
    terrain: str | None = None
    threshold: float | None = None


class OutputSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Names of what is written, within `folder`."""

    folder: str = "."
    model: str = "model.weft"
    scores: str = "scores.csv"
    report: str = "report.html"


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All of weft.toml. Names of files are relative to the folder it is in."""

    data: DataSettings = DataSettings()
    model: ModelSettings = ModelSettings()
    evaluate: EvaluateSettings = EvaluateSettings()
    predict: PredictSettings = PredictSettings()
    report: ReportSettings = ReportSettings()
    output: OutputSettings = OutputSettings()


def read_settings(path: str | os.PathLike) -> Settings:
    """The settings in a file, its file names made relative to where weft runs; anything unknown or wrong is refused."""
    name = str(path)
    try:
        text = pathlib.Path(path).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise FileNotFoundError(
            f"there is no config file {name!r}; `weft init TABLE` writes one to start from"
        ) from None
    except IsADirectoryError:
        raise IsADirectoryError(f"{name!r} is a folder; give a config file, such as weft.toml") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"{name!r} is not a config file: it is not text ({error.reason})") from error
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{name!r} is not valid TOML: {error}") from error
    _refuse_unknown(content, Settings, name, ())
    try:
        settings = msgspec.convert(content, Settings)
    except msgspec.ValidationError as error:
        raise ValueError(f"{name!r} has a wrong value: {_plain(str(error))}") from error
    return _beside(settings, pathlib.Path(path).parent)


def estimator_arguments(settings: Settings) -> dict[str, Any]:
    """Keyword arguments of `SpaceTimeGP`, without those that are not set."""
    data, model = settings.data, settings.model
    arguments: dict[str, Any] = {
        name: getattr(data, name)
        for name in (
            "time",
            "space",
            "target",
            "covariates",
            "noise_variance",
            "exposure",
            "trials",
            "time_step",
            "time_format",
            "units",
        )
    }
    arguments |= {
        name: getattr(model, name)
        for name in (
            "likelihood",
            "transform",
            "seasonality",
            "power",
            "engine",
            "seed",
            "max_iterations",
            "place_offsets",
        )
    }
    given = {name: value for name, value in arguments.items() if value is not None}
    if model.pseudo_points is not None:
        # TOML has no null, so that "exact" stands for it.
        given["pseudo_points"] = None if model.pseudo_points == "exact" else model.pseudo_points
    if model.learning_rows is not None:
        given["learning_rows"] = None if model.learning_rows == "all" else model.learning_rows
    if model.kernel:
        given["kernel"] = _make_kernel(model.kernel)
    return given


def write_starting_file(
    path: str | os.PathLike, settings: Settings, reasons: dict[str, str], notes: Sequence[str] = ()
) -> None:
    """A commented weft.toml with what was inferred and why."""
    from weft.data.atomic import whole_file

    text = _starting_text(settings, reasons, notes)
    with whole_file(path) as part:
        part.write_text(text, encoding="utf-8")


def _starting_text(settings: Settings, reasons: dict[str, str], notes: Sequence[str]) -> str:
    def entry(key: str, value: Any) -> list[str]:
        because = [f"# {_one_line(reasons[key])}"] if key in reasons else []
        return [*because, f"{key} = {_toml(value)}"]

    data = settings.data
    lines = ["# What `weft check`, `weft run` and `weft fit --config` do. Lines that start with # change nothing.", ""]
    lines += [f"# Note: {_one_line(note)}." for note in notes] + ([""] if notes else [])
    lines += ["[data]", *entry("table", data.table)]
    for key in ("time", "space", "target"):
        value = getattr(data, key)
        lines += entry(key, value) if value is not None else [f"# {_one_line(reasons[key])}", f"# {key} = "]
    lines += [
        '# covariates = ["name"]     # columns with linear effects',
        '# time_step = "1D"          # put times on a regular step',
        '# time_format = "%d/%m/%Y"  # how times are written, where that is not plain',
        '# units = "degC"            # of the target, for gridded output',
        "# keep_duplicates = true    # rows that repeat another in every column are measurements too",
        "",
        "[model]",
        '# pseudo_points = "auto"    # or a count, or "exact"',
    ]
    if settings.model.likelihood is not None:
        lines += entry("likelihood", settings.model.likelihood)
    else:
        lines.append('# likelihood = "gaussian"   # or "student_t", "poisson", "negative_binomial", "bernoulli", ...')
    if settings.model.transform is not None:
        lines += entry("transform", settings.model.transform)
    else:
        lines.append('# transform = "log"         # of the target: "log", "log1p", "sqrt", "logit"')
    lines += [
        '# seasonality = ["yearly"]  # also "weekly", "daily", "12h", or a number of time units',
        "# max_iterations = 100",
        '# learning_rows = "auto"    # rows to learn parameters from: a number, or "all"; predictions use all rows',
        "# seed = 0",
        "",
        "[evaluate]",
        '# What is held out to judge the model: "random" rows, whole "station"s, "block"s of space, stretches of "time".',
        f"by = {_toml(settings.evaluate.by)}",
        "# folds = 5                 # left out: five, of which a very large model predicts fewer",
        "",
        "[predict]",
        '# table = "grid.nc"         # rows or a grid (csv, parquet, NetCDF, Zarr) to predict at',
        '# output = "predictions.nc"',
        "# quantiles = [0.05, 0.95]",
        "",
        "[report]",
        *(
            entry("station", settings.report.station)
            if settings.report.station is not None
            else ['# station = "station"       # the column with the stations' + "'" + " names"]
        ),
        '# terrain = "heights.nc"     # map coordinates and elevation, where elevation is a column of space',
        "# threshold = 30.0           # of the map of probabilities",
        '# title = "..."',
        "",
        "[output]",
        f"folder = {_toml(settings.output.folder)}",
        f"model = {_toml(settings.output.model)}",
        f"scores = {_toml(settings.output.scores)}",
        f"report = {_toml(settings.output.report)}",
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


def _refuse_unknown(content: Any, kind: Any, name: str, where: tuple[str, ...]) -> None:
    if not isinstance(content, dict):
        return
    fields = {field.name: field.type for field in msgspec.structs.fields(kind)}
    for key, value in content.items():
        if key not in fields:
            close = difflib.get_close_matches(key, list(fields), n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"it may have {', '.join(fields)}"
            place = f"in [{'.'.join(where)}]" if where else "at its top"
            raise ValueError(f"{name!r} has an unknown option {key!r} {place}; {hint}")
        nested = fields[key]
        if isinstance(nested, type) and issubclass(nested, msgspec.Struct):
            _refuse_unknown(value, nested, name, (*where, key))
        elif key == "kernel" and isinstance(value, list):
            for part in value:
                _refuse_unknown(part, KernelSettings, name, (*where, key))


def _plain(message: str) -> str:
    """The library's "Expected `int`, got `str` - at `$.evaluate.folds`" as a phrase that starts with the option."""
    what, found, where = message.partition(" - at `$.")
    what = what.replace("`", "")
    return f"{where.rstrip('`')} must be another kind ({what[:1].lower()}{what[1:]})" if found else what


def _beside(settings: Settings, folder: pathlib.Path) -> Settings:
    def placed(name: str | None) -> str | None:
        return None if name is None else str(folder / name)

    replace = msgspec.structs.replace
    return replace(
        settings,
        data=replace(settings.data, table=placed(settings.data.table)),
        predict=replace(settings.predict, table=placed(settings.predict.table)),
        report=replace(settings.report, terrain=placed(settings.report.terrain)),
        output=replace(settings.output, folder=str(folder / settings.output.folder)),
    )


def _make_kernel(parts: Sequence[KernelSettings]) -> Any:
    from weft import kernels
    from weft.kernels import Kernel, Separable, SumSeparable

    known = {
        name: kind
        for name, kind in vars(kernels).items()
        if isinstance(kind, type) and issubclass(kind, Kernel) and name in _KERNELS_BY_NAME
    }

    def named(name: str, lengthscale: Any) -> Kernel:
        if name not in known:
            raise ValueError(f"kernel {name!r} in the config is not known; choose among {', '.join(sorted(known))}")
        return known[name](lengthscale)

    components = [
        Separable(
            space=named(part.space, _as_lengthscale(part.space_lengthscale)),
            time=named(part.time, part.time_lengthscale),
            variance=part.variance,
        )
        for part in parts
    ]
    return components[0] if len(components) == 1 else SumSeparable(components)


# Those that are told by a length scale alone; others are for Python.
_KERNELS_BY_NAME = frozenset({"EQ", "Matern12", "Matern32", "Matern52", "Matern72"})


def _as_lengthscale(value: float | tuple[float, ...]) -> float | list[float]:
    return list(value) if isinstance(value, tuple) else value
