# SPDX-License-Identifier: MIT
"""What an evaluation of the evidence will cost, before it is made: memory by formula, time by a short trial."""

import dataclasses
import os
import pathlib
import time
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from weft.arrays import AnyArray, require_float64
from weft.data.layout import Layout
from weft.data.observations import Observations
from weft.engines.base import Chain, Engine, Rows, Shape
from weft.engines.choose import choose_engine
from weft.inference.evidence import log_evidence
from weft.inference.prior import make_prior, sizes_at
from weft.inference.sites import noise_is_by_place
from weft.likelihoods import Gaussian
from weft.model import Model

__all__ = ["Estimate", "available_memory", "estimate", "memory_needed", "refuse_too_large", "shape_of"]

BYTES = 8

# A trial is long enough when it takes this many seconds more than the first one, or when it is the whole series.
TRIAL_SECONDS = 0.3
FIRST_TRIAL = 32
REPEATS = 3

# Arrays of one number a row, and of one a place and pseudo-point, alive at once in an evaluation with its gradient:
# inputs of the engine, its copies and its gradients, and what the kernels keep for theirs. Counted in the code, and
# found by measuring.
ARRAYS_PER_ROW = 22
ARRAYS_PER_WEIGHT = 20
# What is taken to be there where the system does not say.
UNKNOWN_MEMORY = 8 * 2**30
# Code compiled for the shapes of a problem.
COMPILED = 30_000_000


@dataclasses.dataclass(frozen=True)
class Estimate:
    """The cost of one evaluation; a fit takes some tens to hundreds of them.

    `memory_bytes` is the peak beyond the data and what the program already holds; `available_bytes` is what this
    machine has left.
    """

    seconds_per_evaluation: float
    memory_bytes: int
    available_bytes: int
    shape: Shape
    engine: str

    def __str__(self) -> str:
        shape = self.shape
        return (
            f"{shape.num_rows} rows at {shape.num_times} times and {shape.num_places} places, {shape.num_bottleneck} "
            f"pseudo-points, state of {shape.num_state}: {self.seconds_per_evaluation:.3g} s and "
            f"{self.memory_bytes / 1e6:.0f} MB an evaluation ({self.available_bytes / 1e6:.0f} MB available) by engine "
            f"{self.engine!r}"
        )


def estimate(model: Model, data: Observations, *, gradient: bool = True, engine: str | Engine = "auto") -> Estimate:
    """What one evaluation of `log_evidence` takes, with its gradient or without: by a trial on a stretch of the series.

    Memory follows from the sizes alone. Time is measured on a stretch long enough to take about half a second, and is
    carried over to the whole series in proportion to the work in it; a machine busy with other things makes it worse
    than it says. Of a likelihood that is not Gaussian it is the time of one of several engine calls.
    """
    require_float64()
    shape = shape_of(model, data)
    chosen = choose_engine(engine, shape)
    refuse_too_large(shape, chosen, gradient=gradient)
    seconds = trial(model, data, shape, chosen, gradient)
    return Estimate(seconds, memory_needed(shape, chosen, gradient=gradient), available_memory(), shape, chosen.name)


# --- memory
# ------------------------------------------------------------------------------------------------------------------


def shape_of(model: Model, data: Observations) -> Shape:
    latent = [component.time.state_space().size for component in model.components]
    sizes = list(zip(sizes_at(model, data.places), latent, strict=True))
    return Shape(
        layout=data.grouping.layout,
        num_places=len(data.places),
        num_bottleneck=sum(pseudo for pseudo, _ in sizes),
        num_state=sum(pseudo * latent for pseudo, latent in sizes),
    )


def memory_needed(shape: Shape, engine: Engine, *, gradient: bool = True) -> int:
    """Peak bytes of one evaluation beyond the data: what the engine takes, and what lies around it."""
    per_row = (ARRAYS_PER_ROW if gradient else ARRAYS_PER_ROW // 2) * shape.num_rows
    per_weight = (ARRAYS_PER_WEIGHT if gradient else ARRAYS_PER_WEIGHT // 3) * shape.num_places * shape.num_bottleneck
    return COMPILED + BYTES * (per_row + per_weight) + engine.cost(shape, gradient=gradient).bytes


def available_memory() -> int:
    """Bytes this process may still take: the machine's, or those of the container it runs in."""
    # Windows does not tell so; a common machine's then.
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else UNKNOWN_MEMORY
    listed = pathlib.Path("/proc/meminfo")
    if listed.exists():
        lines = dict(line.split(":", 1) for line in listed.read_text().splitlines() if ":" in line)
        pages = int(lines["MemAvailable"].split()[0]) * 1024
    group = pathlib.Path("/sys/fs/cgroup")
    most, used = group / "memory.max", group / "memory.current"
    if most.exists() and used.exists() and (limit := most.read_text().strip()).isdigit():
        pages = min(pages, int(limit) - int(used.read_text()))
    return max(pages, 0)


def refuse_too_large(shape: Shape, engine: Engine, *, gradient: bool = True) -> None:
    """MemoryError, with what to change, where an evaluation would not fit into this machine's memory."""
    needed, available = memory_needed(shape, engine, gradient=gradient), available_memory()
    if needed <= available:
        return
    raise MemoryError(
        f"an evaluation needs about {needed / 1e9:.1f} GB and {available / 1e9:.1f} GB are available: the state has "
        f"{shape.num_state} numbers ({shape.num_bottleneck} pseudo-points in all), and memory grows with its square "
        f"and with the root of the {shape.num_times} times; use fewer pseudo-points (half of them need about a quarter), a "
        "time kernel of lower order, or a coarser time step"
    )


# --- time
# --------------------------------------------------------------------------------------------------------------------


def trial(model: Model, data: Observations, shape: Shape, engine: Engine, gradient: bool) -> float:
    """Seconds of an evaluation: of the features of all places once, and of the engine by stretches of the series."""
    prior = make_prior(model, data)
    of_places = _features_gradient if gradient else _features_value
    features = best_time(lambda: of_places(model, data))
    rows = Rows(
        layout=data.grouping.layout,
        place=np.asarray(data.grouping.place_of_row, dtype=np.int32),
        value=np.asarray(data.values),
        precision=np.full(data.num_rows, 1.0 / max(float(np.var(data.values)), 1e-6)),
        is_by_place=isinstance(model.likelihood, Gaussian) and noise_is_by_place(data, prior.chain),
    )

    def run(length: int) -> float:
        chain, some = stretch(prior.chain, rows, length)
        call = _engine_gradient if gradient else _engine_value
        return best_time(lambda: call(engine, chain, prior.weights, some))

    length = first = min(FIRST_TRIAL, shape.num_times)
    seconds = at_first = run(first)
    # What a call costs whatever its length does not tell what a time costs, so the difference has to be large enough.
    while seconds - at_first < TRIAL_SECONDS and length < shape.num_times:
        length = min(2 * length, shape.num_times)
        seconds = run(length)
    if length == shape.num_times and isinstance(model.likelihood, Gaussian):
        # So small that what lies between the features and the engine counts too: nothing is left to extrapolate.
        return best_time(lambda: _whole(model, data, engine, gradient))
    if length < shape.num_times:
        at_least, tried, whole = (
            engine.cost(shape.first_times(count), gradient=gradient).flops for count in (first, length, shape.num_times)
        )
        seconds += (whole - tried) / (tried - at_least) * (seconds - at_first)
    return features + seconds


def stretch(chain: Chain, rows: Rows, length: int) -> tuple[Chain, Rows]:
    """The first `length` times."""
    if length == chain.num_times:
        return chain, rows
    offsets = rows.layout.offsets[: length + 1]
    count = int(offsets[-1])
    some = Rows(Layout(offsets), rows.place[:count], rows.value[:count], rows.precision[:count], rows.is_by_place)
    return eqx.tree_at(lambda whole: whole.step_number, chain, chain.step_number[:length]), some


def best_time(function: Callable[[], object]) -> float:
    """Seconds of the fastest of a few calls, after one that may have to compile."""
    function()
    fastest = np.inf
    for _ in range(REPEATS):
        begun = time.perf_counter()
        jax.block_until_ready(function())
        fastest = min(fastest, time.perf_counter() - begun)
    return fastest


def _whole(model: Model, data: Observations, engine: Engine, gradient: bool) -> object:
    """One evaluation as `fit` makes it."""
    if gradient:
        return eqx.filter_value_and_grad(lambda given: log_evidence(given, data, engine=engine))(model)
    return log_evidence(model, data, engine=engine)


def _engine_value(engine: Engine, chain: Chain, weights: AnyArray, rows: Rows) -> Float[Array, ""]:
    return engine.log_normaliser(chain, weights, rows)


def _engine_gradient(engine: Engine, chain: Chain, weights: AnyArray, rows: Rows) -> object:
    return eqx.filter_value_and_grad(lambda given: engine.log_normaliser(*given))((chain, weights, rows))


def _sum_of_prior(model: Model, data: Observations) -> Float[Array, ""]:
    """Some number that depends on everything an engine is given."""
    floats = eqx.filter(make_prior(model, data), eqx.is_inexact_array)
    return sum((jnp.sum(leaf) for leaf in jax.tree.leaves(floats)), start=jnp.zeros(()))


@eqx.filter_jit
def _features_value(model: Model, data: Observations) -> Float[Array, ""]:
    return _sum_of_prior(model, data)


@eqx.filter_jit
def _features_gradient(model: Model, data: Observations) -> object:
    return eqx.filter_value_and_grad(_sum_of_prior)(model, data)
