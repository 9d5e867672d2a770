# SPDX-License-Identifier: MIT
"""The file weft.toml: what to read, what to fit, what to write. Strict, so that a slip of the pen is an error."""

import difflib
import os
import pathlib
import tomllib
from collections.abc import Sequence
from typing import Any

import msgspec

from weft.data.special import refuse_special
from weft.options import written_options

__all__ = [
    "EvaluateSettings",
    "KernelSettings",
    "OutputSettings",
    "PredictSettings",
    "ReportSettings",
    "Settings",
    "read_settings",
]


class KernelSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One separable component to start from, in kilometres, deviations and time units; kernels by their weft names."""

    space: str
    time: str
    space_lengthscale: float | tuple[float, ...] = 1.0
    time_lengthscale: float = 1.0
    variance: float = 1.0


class EvaluateSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How rows are held out to judge the model."""

    by: tuple[str, ...] = ("random",)
    folds: int | None = None
    horizon: str | float | None = None


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


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """All that weft.toml says, and `source`, which one it was. Names of files are relative to where weft runs.

    `places` is a second table, which says where the stations of the first are. `options` are arguments of `SpaceTimeGP` by
    name, those that are given; with `keep_duplicates`, rows that repeat
    another in every column are measurements too.
    """

    source: str | None = None
    table: str | None = None
    places: str | None = None
    keep_duplicates: bool = False
    options: dict[str, Any] = {}
    kernel: tuple[KernelSettings, ...] = ()
    evaluate: EvaluateSettings = EvaluateSettings()
    predict: PredictSettings = PredictSettings()
    report: ReportSettings = ReportSettings()
    output: OutputSettings = OutputSettings()

    def inputs(self) -> dict[str, str | None]:
        """The files that are read, by what they are."""
        return {
            "config": self.source,
            "table": self.table,
            "table of places": self.places,
            "areas": self.options.get("areas"),
            "table to predict at": self.predict.table,
            "terrain": self.report.terrain,
        }

    def with_options(self, **options: Any) -> "Settings":
        """The same with these arguments of the estimator in place of what was said of them."""
        return msgspec.structs.replace(self, options=self.options | options)

    def held_out_by(
        self, by: Sequence[str] | None, folds: int | None, horizon: str | float | None = None
    ) -> "Settings":
        """The same with another way to hold rows out, where one is given."""
        replace, before = msgspec.structs.replace, self.evaluate
        return replace(
            self,
            evaluate=replace(
                before,
                by=tuple(by or before.by),
                folds=before.folds if folds is None else folds,
                horizon=before.horizon if horizon is None else horizon,
            ),
        )

    def arguments(self) -> dict[str, Any]:
        """Keyword arguments of `SpaceTimeGP`."""
        return self.options | ({"kernel": _make_kernel(self.kernel)} if self.kernel else {})


def _section(name: str, *more: tuple[str, Any, Any]) -> Any:
    """A section of the file that holds options of the estimator, and more."""
    fields = [(option, written.kind | None, None) for option, written in written_options(name).items()]
    return msgspec.defstruct(name, [*fields, *more], frozen=True, kw_only=True, forbid_unknown_fields=True)


_Data = _section("data", ("table", str | None, None), ("places", str | None, None), ("keep_duplicates", bool, False))
_Model = _section("model", ("kernel", tuple[KernelSettings, ...], ()))
# What the file looks like: its sections, in order.
SECTIONS: dict[str, Any] = {
    "data": _Data,
    "model": _Model,
    "evaluate": EvaluateSettings,
    "predict": PredictSettings,
    "report": ReportSettings,
    "output": OutputSettings,
}
_File = msgspec.defstruct("File", [(name, kind, kind()) for name, kind in SECTIONS.items()], frozen=True)


def read_settings(path: str | os.PathLike[str]) -> Settings:
    """The settings in a file, its file names made relative to where weft runs; anything unknown or wrong is refused."""
    name = str(path)
    refuse_special(path, f"cannot read {name!r}")
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
    except RecursionError:
        raise ValueError(f"{name!r} is not a config file: it is nested too deeply") from None
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{name!r} is not valid TOML: {error}") from error
    _refuse_unknown(content, _File, name, ())
    try:
        file: Any = msgspec.convert(content, _File)
    except msgspec.ValidationError as error:
        raise ValueError(f"{name!r} has a wrong value: {_plain(str(error))}") from error
    given = {
        option: written.value(getattr(getattr(file, written.section), option))
        for option, written in written_options().items()
        if getattr(getattr(file, written.section), option) is not None
    }
    settings = Settings(
        source=name,
        table=file.data.table,
        places=file.data.places,
        keep_duplicates=file.data.keep_duplicates,
        options=given,
        kernel=file.model.kernel,
        evaluate=file.evaluate,
        predict=file.predict,
        report=file.report,
        output=file.output,
    )
    return _beside(settings, pathlib.Path(path).parent)


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
        table=placed(settings.table),
        places=placed(settings.places),
        options=settings.options
        | ({"areas": placed(settings.options["areas"])} if "areas" in settings.options else {}),
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
