# SPDX-License-Identifier: MIT
"""The filter as far as it has run: states kept along the way, so that new rows cost what they add."""

import dataclasses
import itertools

import jax
import numpy as np
from jaxtyping import Float

from weft.arrays import AnyArray
from weft.data.layout import Layout
from weft.engines.base import Engine
from weft.inference.prior import chain_at
from weft.model import Model
from weft.state_space.chain import Chain, Rows, State

# States kept for late rows; one is always kept, at the last time.
KEPT_STATES_BUDGET = 64 * 2**20


@dataclasses.dataclass(frozen=True)
class Kept:
    """The state given all rows up to and including time number `time`, and the log normaliser of those rows."""

    time: int
    state: State
    log_normaliser: float


@dataclasses.dataclass(frozen=True)
class FilterRun:
    """States kept along a series, the last one at its end; `steps_run` of the series' times were walked to make this."""

    kept: tuple[Kept, ...]
    steps_run: int

    @property
    def last(self) -> Kept:
        return self.kept[-1]


@dataclasses.dataclass(frozen=True)
class SiteSeries:
    """What a filter walks along: a model, the sizes of its bases, and the rows at sorted times as sites of weighted places."""

    model: Model
    num_pseudo: tuple[int, ...]
    times: Float[np.ndarray, " time"]
    weights: Float[AnyArray, "place bottleneck"]
    rows: Rows

    def chain(self, times: Float[np.ndarray, " time"]) -> Chain:
        return chain_at(self.model, self.num_pseudo, times)


def run_filter(engine: Engine, series: SiteSeries, kept: tuple[Kept, ...] = ()) -> FilterRun:
    """Run from the last of `kept` (from the beginning if there is none) to the end, keeping a state now and then."""
    begin, end = kept[-1].time + 1 if kept else 0, len(series.times)
    size = series.chain(series.times[:1]).num_state
    most = max(1, KEPT_STATES_BUDGET // (8 * size**2) - len(kept))
    pieces = int(min(most, max(1, np.sqrt(end - begin))))
    bounds = np.unique(np.linspace(begin, end, pieces + 1).astype(int)).tolist()
    for start, stop in itertools.pairwise(bounds):
        kept = (*kept, _advance(engine, series, kept[-1] if kept else None, start, stop))
    return FilterRun(kept, end - begin)


def _advance(engine: Engine, series: SiteSeries, before: Kept | None, start: int, stop: int) -> Kept:
    """The state at the last of the times from `start` to `stop`, from that before them."""
    rows = series.rows
    mine = slice(int(rows.layout.offsets[start]), int(rows.layout.offsets[stop]))
    offsets = rows.layout.offsets[start : stop + 1] - mine.start
    stretch = series.times[start:stop]
    if before is not None:
        # The state before stands at a time of its own, without rows, from which the chain steps on.
        stretch = np.concatenate([series.times[before.time : before.time + 1], stretch])
        offsets = np.concatenate([[0], offsets])
    piece = Rows(Layout(offsets), rows.place[mine], rows.value[mine], rows.precision[mine])
    chain = starting(series.chain(stretch), None if before is None else before.state)
    state, total = engine.last_state(chain, series.weights, piece)
    state = jax.tree.map(np.asarray, state)
    return Kept(stop - 1, state, float(total) + (0.0 if before is None else before.log_normaliser))


def starting(chain: Chain, state: State | None) -> Chain:
    return Chain(chain.components, chain.step_number, state)
