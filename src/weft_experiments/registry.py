# SPDX-License-Identifier: MIT
"""Which experiments there are, and the one call that runs any of them. Nothing heavy is imported before one runs."""

import importlib
import os
import pathlib
from collections.abc import Mapping, Sequence
from types import ModuleType

from weft_experiments.options import RunOptions

__all__ = ["EXPERIMENTS", "run"]

EXPERIMENTS: Mapping[str, str] = {
    "benchmark": "time and tightness of the bound on synthetic data, against exact inference",
    "emission": "three ways to condition on the rows of one time, and this library's own",
    "ghcn": "daily maximum temperatures in the Pacific North-West: pseudo-points against a subset of the stations",
    "apartments": "prices of flats at postcodes: a separable and a sum-separable model",
}
WITH_DATA = ("ghcn", "apartments")


def run(
    name: str,
    *,
    quick: bool = False,
    data: str | os.PathLike[str] | None = None,
    download: bool = False,
    output: str | os.PathLike[str] | None = None,
    variant: str = "scripts",
    seed: int = 0,
    max_iterations: int | None = None,
    max_seconds: float | None = None,
    pseudo_points: Sequence[int] | None = None,
    sets: Sequence[str] | None = None,
    num_times: Sequence[int] | None = None,
    days: int | None = None,
) -> pathlib.Path:
    """Run the experiment called `name` and write its page, numbers and figures into `output`; the page's path.

    `quick` is a small version of everything, in seconds. `data` is a folder of original files and `download` fetches
    them into it first; both are for the experiments on real data alone. `variant` is "scripts" (what the paper's
    authors ran) or "text" (what the paper says).
    `max_iterations` and `max_seconds` limit each fit, or in the benchmark the seconds of each setting; `pseudo_points`
    and `sets` choose among the numbers of pseudo-points and the data sets, `num_times` the lengths of the benchmark's series,
    and `days` keeps the last so many days of temperatures. `output` is a new folder named after the experiment by default.
    """
    if name not in EXPERIMENTS:
        raise ValueError(f"experiment must be one of {', '.join(EXPERIMENTS)}; it is {name!r}")
    options = RunOptions(
        quick=quick,
        data=None if data is None else pathlib.Path(data),
        download=download,
        output=pathlib.Path(f"{name}-results" if output is None else output),
        variant=variant,
        seed=seed,
        max_iterations=max_iterations,
        max_seconds=max_seconds,
        pseudo_points=None if pseudo_points is None else tuple(pseudo_points),
        sets=None if sets is None else tuple(sets),
        num_times=None if num_times is None else tuple(num_times),
        days=days,
    )
    if name not in WITH_DATA and options.data is not None:
        raise ValueError(f"{name} makes its own data; data and download are for {' and '.join(WITH_DATA)}")
    return _results().carry_out(name, experiment(name), options)


def experiment(name: str) -> ModuleType:
    """The module of an experiment: `measure(options) -> results` and `page(results) -> text`."""
    return importlib.import_module(f"weft_experiments.{name}")


def _results() -> ModuleType:
    return importlib.import_module("weft_experiments.results")
