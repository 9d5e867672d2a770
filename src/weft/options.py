# SPDX-License-Identifier: MIT
"""What an estimator may be told. Each option is declared here and nowhere else.

The fields of `Options` are the arguments of `SpaceTimeGP`; the keys of weft.toml and the options of the command line are
made from them. Nothing heavy is imported, so that `weft --help` answers at once.
"""

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar, dataclass_transform

LikelihoodName = Literal[
    "bernoulli",
    "beta",
    "binomial",
    "exponential",
    "gamma",
    "gaussian",
    "laplace",
    "log_normal",
    "negative_binomial",
    "poisson",
    "rain",
    "student_t",
    "tobit",
    "zero_inflated_poisson",
]
TransformName = Literal["identity", "log", "sqrt", "fourth_root", "logit", "log1p"]

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    import numpy as np
    import numpy.typing as npt

    from weft.engines.base import Engine
    from weft.kernels import Separable, SumSeparable
    from weft.likelihoods import Likelihood
    from weft.state_space.basis import FeatureMap

    Columns = str | Sequence[str]
    GivenCovariates = Columns | Mapping[str, Literal["linear", "local"]]
    MissingValues = float | Sequence[float]
    # A file, a table of points, or GeoJSON that was read.
    GivenAreas = str | os.PathLike[str] | Mapping[str, Any] | Any
    GivenKernel = Separable | SumSeparable | None
    GivenLikelihood = Likelihood | LikelihoodName
    GivenPoints = int | Literal["auto"] | npt.NDArray[np.floating[Any]] | FeatureMap | None
    GivenTransform = TransformName | Sequence[TransformName] | None
    Seasons = str | Sequence[str | float]
    GivenComponents = str | Sequence[str]
    GivenHabits = str | Sequence[str] | None
    LearningRows = int | Literal["auto"] | None
    ProgressStyle = Literal["auto", "bar", "log"] | None
else:
    # To a running program anything may be given: `fit` says in a sentence what is wrong with it.
    Columns = MissingValues = GivenAreas = GivenCovariates = GivenKernel = GivenLikelihood = GivenPoints = (
        GivenTransform
    ) = Any
    Seasons = GivenComponents = GivenHabits = LearningRows = ProgressStyle = Any

__all__ = ["HeldOutBy", "Of", "Options", "Written", "written_options"]

T = TypeVar("T")

# What is predicted, and how rows are held out.
Of = Literal["observation", "field"]
HeldOutBy = Literal["station", "block", "random", "time"]


class Written(NamedTuple):
    """How an option is written outside Python: the section of weft.toml, the type there, a line of help.

    `example` is shown in a weft.toml to start from; `words` stand for values that TOML does not have. On the command
    line lists are separated by commas.
    """

    section: str
    kind: Any
    help: str
    example: Any
    words: Mapping[str, Any]

    def value(self, written: Any) -> Any:
        """The argument that is meant by what was written."""
        return self.words[written] if isinstance(written, str) and written in self.words else written


def _option(section: str, kind: Any, help: str, example: Any, default: Any, words: Mapping[str, Any]) -> Any:
    shown = default if example is None else example
    return dataclasses.field(default=default, metadata={"written": Written(section, kind, help, shown, words)})


def _data(
    kind: Any,
    help: str,
    *,
    example: Any,
    default: Any = dataclasses.MISSING,
    words: Mapping[str, Any] | None = None,
) -> Any:
    return _option("data", kind, help, example, default, words or {})


def _model(kind: Any, help: str, *, default: Any, example: Any = None, words: Mapping[str, Any] | None = None) -> Any:
    return _option("model", kind, help, example, default, words or {})


@dataclass_transform(kw_only_default=True, eq_default=False, field_specifiers=(_data, _model))
def _declared(options: type[T]) -> type[T]:
    return dataclasses.dataclass(kw_only=True, eq=False, repr=False)(options)


@_declared
class Options:
    """Arguments of `SpaceTimeGP`, which tells what they mean. Those that are not written anywhere are for Python alone."""

    time: str | tuple[str, ...] = _data(
        str,
        "The column of times, or several, such as year,month,day. Guessed if not given, as are --space and --target.",
        example="date",
    )
    space: Columns = _data(
        tuple[str, ...],
        "Columns that say where, such as lat,lon,elevation; one may be a category, the kind of place.",
        example=("lat", "lon"),
    )
    target: Columns = _data(str, "The column to learn, or several: tmin,tmax.", example="value")
    missing: MissingValues = _data(
        tuple[float, ...], "Values of the target that mean it is missing, such as -9999.", default=(), example=(-9999,)
    )
    covariates: GivenCovariates = _data(
        tuple[str, ...],
        "Columns with linear effects (name:local for a slope that varies in space); categories have one for each level.",
        default=(),
        example=("name",),
    )
    noise_variance: str | None = _data(
        str, "The column with a noise variance for each row.", default=None, example="variance"
    )
    exposure: str | None = _data(str, "The column of exposures (counts).", default=None, example="exposure")
    trials: str | None = _data(str, "The column of trials (binomial).", default=None, example="trials")
    lower: str | None = _data(
        str, "The column of lower limits: a value there may in truth be lower (tobit).", default=None, example="lower"
    )
    upper: str | None = _data(
        str, "The column of upper limits: a value there may in truth be higher (tobit).", default=None, example="upper"
    )
    area: str | None = _data(
        str,
        "The column that names the area a row is the mean of; empty for rows at a place.",
        default=None,
        example="county",
    )
    areas: GivenAreas = _data(
        str,
        "A file that says what the areas are: polygons with that property, or a table of points.",
        default=None,
        example="counties.geojson",
    )
    time_step: str | float | int | None = _data(
        str | float,
        "Round times to a step, such as 1D or 6h, or a number where times are numbers; auto (if nearly all differ) or exact.",
        default="auto",
        example="1D",
        words={"exact": None},
    )
    time_format: str | None = _data(
        str, "How times are written where that is not clear, such as %d/%m/%Y.", default=None, example="%d/%m/%Y"
    )
    units: str | None = _data(str, "Units of the target, for gridded output.", default=None, example="degC")
    kernel: GivenKernel = None
    components: GivenComponents = _model(
        tuple[str, ...] | str,
        "What the field is a sum of: auto, or some of slow, fast, local, yearly, weekly, daily.",
        default="auto",
    )
    habits: GivenHabits = _model(
        tuple[str, ...] | str,
        "How single places may differ for good: auto, none, or some of level, noise, shift.",
        default="auto",
        words={"none": None},
    )
    likelihood: GivenLikelihood = _model(
        str, "gaussian, student_t, poisson, negative_binomial, bernoulli, ...", default="gaussian"
    )
    pseudo_points: GivenPoints = _model(int | str, "A count, auto, or exact.", default="auto", words={"exact": None})
    transform: GivenTransform = _model(
        str, "Of the target: log, log1p, sqrt, fourth_root, logit or identity.", default=None, example="log"
    )
    seasonality: Seasons = _model(
        tuple[str | float, ...],
        "Components that repeat: yearly, weekly, daily, or lengths such as 12h.",
        default=(),
        example=("yearly",),
    )
    power: float = _model(float, "0 for the variational bound, 1 for FITC, between for power EP.", default=0.0)
    engine: "str | Engine" = _model(str, "auto, cpu, scan or parallel.", default="auto")
    seed: int = _model(int, "Of random numbers.", default=0)
    max_iterations: int = _model(int, "The most iterations of learning.", default=100)
    learning_rows: LearningRows = _model(
        int | str, "Rows to learn parameters from: a count, auto, or all.", default="auto", words={"all": None}
    )
    regions: int | str | None = _model(
        int | str,
        "Into how many regions a wide table is cut: a number, auto, or none.",
        default="auto",
        words={"none": None},
    )
    place_offsets: bool = _model(bool, "Whether each place may have a constant level.", default=True)
    progress: ProgressStyle = "auto"


def written_options(section: str | None = None) -> dict[str, Written]:
    """Options that can be written outside Python, by name; those of one section of weft.toml, or all."""
    declared: Any = Options
    found = {field.name: field.metadata["written"] for field in dataclasses.fields(declared) if field.metadata}
    return {name: written for name, written in found.items() if section in (None, written.section)}
