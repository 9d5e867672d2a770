# SPDX-License-Identifier: MIT
"""A chain and its rows as the flat arrays that the kernels take, checked."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from weft.data.layout import Layout
from weft.engines.cpu.blas import ROUTINES
from weft.engines.cpu.blocks import Belief, Frame, Structure
from weft.engines.cpu.filter import Asked, Sweep
from weft.engines.cpu.rows import Observed
from weft.state_space.chain import Chain, Queries, Rows


class FilterFailure(FloatingPointError):
    """A series could not be filtered; the message says where and why."""


@dataclass(frozen=True)
class Component:
    """One component's chain as NumPy arrays."""

    transition: Float[np.ndarray, "step latent latent"]
    process_noise: Float[np.ndarray, "step latent latent"]
    initial: Float[np.ndarray, "latent latent"]
    readout: Float[np.ndarray, " latent"]
    num_pseudo: int
    reversal: tuple[float, ...] | None

    @property
    def signs(self) -> Float[np.ndarray, "latent latent"]:
        """What turns a latent matrix around in time, by elementwise product."""
        signs = np.asarray(self.reversal)
        return np.outer(signs, signs)


@dataclass(frozen=True)
class Problem:
    """A chain and its rows."""

    components: tuple[Component, ...]
    step_number: Int[np.ndarray, " time"]
    start_mean: Float[np.ndarray, " state"] | None
    start_covariance: Float[np.ndarray, "state state"] | None
    layout: Layout
    observed: Observed
    frame: Frame
    # Whether of the gradient in precisions the sum over the rows of each place is all that is wanted.
    is_by_place: bool

    def __reduce__(self) -> tuple[Any, ...]:
        """The frame has addresses of routines, which another process has elsewhere."""
        given = {name: value for name, value in vars(self).items() if name != "frame"}
        return _framed, (given,)

    @property
    def num_times(self) -> int:
        return len(self.step_number)

    @property
    def size(self) -> int:
        return self.frame.size

    @property
    def num_bottleneck(self) -> int:
        return self.frame.num_bottleneck

    @property
    def reversible(self) -> bool:
        return self.start_mean is None and all(part.reversal is not None for part in self.components)

    def start(self) -> Belief:
        """What is known of the state at the first time, before any row."""
        if self.start_mean is None or self.start_covariance is None:
            return Belief(np.zeros(self.size), self.initial_covariance())
        return Belief(self.start_mean, self.start_covariance.reshape(-1))

    def prior_variances(self) -> Float[np.ndarray, " place"]:
        """Of f at each place."""
        weights = self.observed.weights.reshape(-1, self.num_bottleneck)
        of_pseudo = [np.repeat(part.readout @ part.initial @ part.readout, part.num_pseudo) for part in self.components]
        return np.square(weights) @ np.concatenate(of_pseudo)

    def initial_covariance(self) -> Float[np.ndarray, " flat"]:
        """The prior over the state, as a flat matrix."""
        covariance = np.zeros((self.size, self.size))
        first = 0
        for part in self.components:
            latent, pseudo = len(part.readout), part.num_pseudo
            last = first + latent * pseudo
            # A view of the diagonal of every block of pseudo-points.
            block = covariance[first:last, first:last].reshape(latent, pseudo, latent, pseudo)
            np.einsum("dmem->dem", block)[:] = part.initial[:, :, None]
            first = last
        return covariance.reshape(-1)


def as_floats(array: object) -> Float[np.ndarray, "..."]:
    return np.array(array, dtype=np.float64, order="C")


def as_integers(array: object) -> Int[np.ndarray, "..."]:
    return np.array(array, dtype=np.int64, order="C")


def make_problem(chain: Chain, weights: object, rows: Rows) -> Problem:
    """Copies of everything in the types the kernels take; FilterFailure where a number is not finite or a precision negative."""
    components = tuple(
        Component(
            as_floats(part.transition),
            as_floats(part.process_noise),
            as_floats(part.initial),
            as_floats(part.readout),
            part.num_pseudo,
            part.reversal,
        )
        for part in chain.components
    )
    step_number = as_integers(chain.step_number)
    observed = Observed(
        as_integers(rows.place), as_floats(rows.value), as_floats(rows.precision), as_floats(weights).reshape(-1)
    )
    check_shapes(chain, np.asarray(weights).shape, rows)
    check_numbers(components, step_number, rows.layout, observed)
    start = chain.start
    return Problem(
        components,
        step_number,
        None if start is None else as_floats(start.mean),
        None if start is None else as_floats(start.covariance),
        rows.layout,
        observed,
        make_frame(components),
        rows.is_by_place,
    )


def _framed(given: dict[str, Any]) -> Problem:
    return Problem(**given, frame=make_frame(given["components"]))


def make_frame(components: tuple[Component, ...]) -> Frame:
    latent = np.array([len(part.readout) for part in components])
    pseudo = np.array([part.num_pseudo for part in components])

    def starts(sizes: np.ndarray) -> np.ndarray:
        return np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64)

    structure = Structure(latent, pseudo, starts(latent * pseudo), starts(pseudo), starts(latent**2), starts(latent))
    readout = np.concatenate([part.readout for part in components])
    return Frame(ROUTINES, structure, readout, int(latent @ pseudo), int(pseudo.sum()))


def check_shapes(chain: Chain, weights: tuple[int, ...], rows: Rows) -> None:
    """The kernels trust these: an index out of range there would be a crash."""
    if not chain.components or chain.num_times == 0:
        raise ValueError("a chain must have at least one component and one time")
    if len(weights) != 2 or weights[1] != chain.num_bottleneck:
        raise ValueError(f"weights must be [place, {chain.num_bottleneck}]; they have shape {weights}")
    if rows.layout.num_times != chain.num_times:
        raise ValueError(f"the rows lie at {rows.layout.num_times} times, the chain has {chain.num_times}")
    place, steps = np.asarray(rows.place), np.asarray(chain.step_number)
    if not len(place) == np.shape(rows.value)[0] == np.shape(rows.precision)[0] == rows.layout.num_rows:
        raise ValueError(f"place, value and precision must each have the layout's {rows.layout.num_rows} rows")
    if len(place) and not 0 <= place.min() <= place.max() < weights[0]:
        raise ValueError(f"places must lie in 0 to {weights[0] - 1}; they lie in {place.min()} to {place.max()}")
    num_steps = min(part.transition.shape[0] for part in chain.components)
    if not 0 <= steps.min() <= steps.max() < num_steps:
        raise ValueError(f"step numbers must lie in 0 to {num_steps - 1}; they lie in {steps.min()} to {steps.max()}")


def check_numbers(
    components: tuple[Component, ...], step_number: Int[np.ndarray, " time"], layout: Layout, observed: Observed
) -> None:
    for number, part in enumerate(components):
        for name in ("transition", "process_noise"):
            finite = np.isfinite(getattr(part, name)).all(axis=(1, 2))
            broken = np.flatnonzero(~finite[step_number])
            if len(broken):
                raise FilterFailure(
                    f"the {name.replace('_', ' ')} of component {number} is not finite at time step {broken[0]}; "
                    "look at the parameters of its time kernel"
                )
        for name in ("initial", "readout"):
            if not np.isfinite(getattr(part, name)).all():
                raise FilterFailure(
                    f"the {name} of component {number} is not finite at time step 0; look at the parameters of its time kernel"
                )
    for name, fine in (
        ("weights that are not finite", np.isfinite(observed.weights)),
        ("values that are not finite", np.isfinite(observed.value)),
        ("precisions that are negative or not finite", np.isfinite(observed.precision) & (observed.precision >= 0)),
    ):
        if fine.all():
            continue
        if name.startswith("weights"):
            row = np.flatnonzero(
                ~fine.reshape(-1, sum(part.num_pseudo for part in components)).all(axis=1)[observed.place]
            )
        else:
            row = np.flatnonzero(~fine)
        if len(row):
            step = int(np.searchsorted(layout.offsets, row[0], side="right")) - 1
            raise FilterFailure(
                f"rows have {name}, first row {row[0]} at time step {step}; look at the parameters and the data"
            )


def forward_sweep(problem: Problem, stop: int, queries: Layout | None) -> Sweep:
    """The first `stop` times, in order; it ends predicted at time `stop`, if there is one, else filtered at the last."""
    step = np.append(problem.step_number, -1)[1 : stop + 1]
    times = np.arange(stop)
    return _sweep(problem, times, step, queries, is_reversed=False)


def reverse_sweep(problem: Problem, start: int, queries: Layout | None) -> Sweep:
    """The times from the last down to `start`; it ends filtered there."""
    times = np.arange(problem.num_times - 1, start - 1, -1)
    step = np.append(problem.step_number[times[:-1]], -1)
    return _sweep(problem, times, step, queries, is_reversed=True)


def _sweep(
    problem: Problem,
    times: Int[np.ndarray, " time"],
    step: Int[np.ndarray, " time"],
    queries: Layout | None,
    is_reversed: bool,
) -> Sweep:
    def flat(matrices: list[np.ndarray]) -> np.ndarray:
        signed = [
            matrix * part.signs if is_reversed else matrix
            for matrix, part in zip(matrices, problem.components, strict=True)
        ]
        return np.ascontiguousarray(np.concatenate([matrix.reshape(len(matrix), -1) for matrix in signed], axis=1))

    offsets = problem.layout.offsets
    asked = np.zeros(problem.num_times + 1, dtype=np.int64) if queries is None else queries.offsets
    return Sweep(
        step=np.ascontiguousarray(step, dtype=np.int64),
        row_start=offsets[times],
        row_stop=offsets[times + 1],
        query_start=asked[times],
        query_stop=asked[times + 1],
        transition=flat([part.transition for part in problem.components]),
        transposed=flat([part.transition.transpose(0, 2, 1) for part in problem.components]),
        process_noise=flat([part.process_noise for part in problem.components]),
    )


def make_asked(problem: Problem, queries: Queries | None) -> Asked:
    """Queries and room for their answers; none of either if there are none."""
    if queries is None:
        return Asked(np.zeros(0, dtype=np.int64), np.zeros(0), np.zeros(0), np.zeros(0), np.zeros(0), True)
    place, weights = as_integers(queries.place), as_floats(queries.weights)
    if queries.layout.num_times != problem.num_times or queries.layout.num_rows != len(place):
        raise ValueError(
            f"the queries' layout has {queries.layout.num_times} times and {queries.layout.num_rows} rows; "
            f"the chain has {problem.num_times} times, and {len(place)} places were asked about"
        )
    if weights.ndim != 2 or weights.shape[1] != problem.num_bottleneck:
        raise ValueError(f"query weights must be [place, {problem.num_bottleneck}]; they have shape {weights.shape}")
    if len(place) and not 0 <= place.min() <= place.max() < len(weights):
        raise ValueError(
            f"query places must lie in 0 to {len(weights) - 1}; they lie in {place.min()} to {place.max()}"
        )
    if not np.isfinite(weights).all():
        raise FilterFailure("query weights are not finite; look at the parameters of the spatial kernel")
    answers = np.zeros(len(place) * len(problem.components))
    variances = np.full_like(answers, 0.0 if queries.by_component else np.nan)
    return Asked(place, weights.reshape(-1), answers, variances, np.zeros(len(place)), queries.by_component)
