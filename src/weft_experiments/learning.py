# SPDX-License-Identifier: MIT
"""What both experiments on real data share: learning as the paper did, its scores and the correct ones, and where the data are."""

import dataclasses
import itertools
import pathlib
import time
from typing import Any

import jax
import numpy as np
from jaxtyping import Float

from weft.data.observations import Observations
from weft.inference.evidence import log_evidence
from weft.inference.posterior import Posterior
from weft.inference.single import condition
from weft.kernels import EQ, Matern32, Matern52, Separable, SumSeparable
from weft.likelihoods import Gaussian
from weft.model import Model
from weft.scores import log_density_gaussian
from weft.training.fitting import FitResult, fit
from weft.training.progress import Iteration
from weft_experiments.options import RunOptions

__all__ = [
    "KERNELS",
    "Limits",
    "Scale",
    "data_folder",
    "learn",
    "limits_of",
    "load_engine",
    "make_model",
    "noise_variance_of",
    "scores",
    "start_kernel",
]

KERNELS = ("separable", "sum-separable")
NOISE_VARIANCE, NOISE_BOUNDS = 0.5, (0.01, 2.0)
# The paper's optimiser stops at this largest entry of the gradient of the summed (not the mean) log evidence.
GRADIENT_TOLERANCE, TOLERANCE = 0.1, 1e-8
# Where the project keeps real data; it is looked for beside the folder in which the command runs.
SHARED = pathlib.Path("..") / "shared" / "data"


@dataclasses.dataclass(frozen=True)
class Limits:
    """How long a fit may go on: the clock's seconds may be overrun by one iteration, the processor's are kept to."""

    max_iterations: int
    max_seconds: float | None
    max_processor_seconds: float | None = None


def limits_of(options: RunOptions, max_iterations: int) -> Limits:
    """The user's limits, else the paper's number of iterations, else three when quick."""
    usual = 3 if options.quick else max_iterations
    return Limits(options.max_iterations or usual, options.max_seconds)


def data_folder(options: RunOptions, name: str, wanted: str) -> pathlib.Path:
    """The folder of the user, or the project's own; an error that says what to do where there is neither."""
    folder = options.data or SHARED / name
    if not folder.is_dir():
        raise FileNotFoundError(
            f"there is no folder {folder}; give --data FOLDER with {wanted}, or --data FOLDER --download to fetch them"
        )
    return folder


@dataclasses.dataclass(frozen=True)
class Scale:
    """The training values' mean and standard deviation (n - 1), by which everything is standardised."""

    mean: float
    deviation: float

    @classmethod
    def of(cls, values: Float[np.ndarray, " row"]) -> "Scale":
        return cls(float(values.mean()), float(values.std(ddof=1)))

    def standardise(self, values: Float[np.ndarray, " row"]) -> Float[np.ndarray, " row"]:
        return (values - self.mean) / self.deviation


def start_kernel(
    variances: tuple[float, ...],
    place_rates: tuple[float, ...],
    time_rates: tuple[float, ...],
    num_columns: int,
    time_kernel: type[Matern32] | type[Matern52],
) -> Separable | SumSeparable:
    """Variance * EQ(rate * place) * Matern(rate * time) of each component; the paper speaks of rates, 1 / length scale."""
    parts = [
        Separable(space=EQ(np.full(num_columns, 1 / place_rate)), time=time_kernel(1 / time_rate), variance=variance)
        for variance, place_rate, time_rate in zip(variances, place_rates, time_rates, strict=True)
    ]
    return parts[0] if len(parts) == 1 else SumSeparable(parts)


def make_model(kernel: Separable | SumSeparable, pseudo_points: Float[np.ndarray, "pseudo dim"] | None) -> Model:
    return Model(kernel, Gaussian(NOISE_VARIANCE), pseudo_points)


def learn(model: Model, data: Observations, limits: Limits) -> tuple[dict[str, Any], Posterior]:
    """Fit from the model's own start; how it went in plain numbers, and the posterior."""
    # No fit gains from what another of the same shape had compiled.
    jax.clear_caches()
    begun, processor_begun = time.perf_counter(), time.process_time()
    ends = [processor_begun]

    def stop_in_time(step: Iteration) -> None:
        if limits.max_seconds is not None and time.perf_counter() - begun > limits.max_seconds:
            raise StopIteration(f"stopped after {limits.max_seconds:g} seconds, the most allowed, before it converged")
        ends.append(time.process_time())
        # Time for two more of the longest iterations so far is kept back: one for the next, one for what ends a fit. The first
        # entry is the start's own evaluation, compiling included, and says nothing of an iteration's length.
        longest = max((later - sooner for sooner, later in itertools.pairwise(ends[1:])), default=0.0)
        if (
            limits.max_processor_seconds is not None
            and ends[-1] + 2 * longest - processor_begun > limits.max_processor_seconds
        ):
            raise StopIteration(
                f"stopped within {limits.max_processor_seconds:.1f} processor seconds, before it converged"
            )

    result = fit(
        model,
        data,
        bounds={"likelihood.variance": NOISE_BOUNDS},
        max_iterations=limits.max_iterations,
        tolerance=TOLERANCE,
        gradient_tolerance=GRADIENT_TOLERANCE,
        progress=None,
        callback=stop_in_time,
    )
    # On a machine that does other work too, processor time says more than the clock.
    spent = {"processor_seconds": time.process_time() - processor_begun}
    return outcome(result) | spent, condition(result.model, data)


def load_engine() -> None:
    """Have the engine loaded, and compiled where it never was, so that no fit is charged for it."""
    data = Observations(np.arange(4.0), np.arange(4.0)[:, None], np.zeros(4))
    jax.grad(log_evidence)(make_model(start_kernel((1.0,), (1.0,), (1.0,), 1, Matern32), None), data)


def noise_variance_of(posterior: Posterior) -> float:
    assert isinstance(posterior.model.likelihood, Gaussian)
    return float(posterior.model.likelihood.variance)


def outcome(result: FitResult) -> dict[str, Any]:
    """Seconds are counted twice: in all, and after the first evaluation, which compiles."""
    first, last = result.history[0], result.history[-1]
    return {
        "seconds": result.seconds,
        "seconds_compiled": last.seconds - first.seconds,
        "iterations": last.iteration,
        "evaluations": result.num_evaluations,
        "converged": result.converged,
        "message": result.message,
        "start_log_evidence": first.log_evidence,
        "log_evidence": result.log_evidence,
        "parameters": {name: np.asarray(value).tolist() for name, value in result.parameters.items()},
    }


def scores(
    values: Float[np.ndarray, " row"],
    mean: Float[np.ndarray, " row"],
    latent_variance: Float[np.ndarray, " row"],
    noise_variance: float,
) -> dict[str, float]:
    """On the standardised scale: root mean squared error, and the mean negative log density by three conventions.

    Correct is the variance of f plus that of the noise. The paper's scripts add the deviations in one experiment and leave
    the noise out in the other.
    """
    latent = np.sqrt(latent_variance)
    deviations = {
        "mean_negative_log_density": np.sqrt(latent_variance + noise_variance),
        "mean_negative_log_density_deviations_added": latent + np.sqrt(noise_variance),
        "mean_negative_log_density_latent_only": latent,
    }
    found = {"standardised_rmse": float(np.sqrt(np.mean((values - mean) ** 2)))}
    return found | {
        name: -float(np.mean(log_density_gaussian(values, mean, deviation))) for name, deviation in deviations.items()
    }
