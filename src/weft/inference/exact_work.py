# SPDX-License-Identifier: MIT
"""What exact inference takes, with every place a pseudo-point: by a chain over the times, or by one matrix over the rows."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Int

from weft.data.layout import Layout
from weft.engines.base import Engine, Shape, filter_flops
from weft.engines.cpu import CpuEngine, Limits
from weft.engines.dense import DenseEngine, matrix_flops
from weft.model import Model

__all__ = ["ExactWork", "chain_work", "exact_work", "regular", "rows_work"]

# What an entry of a kernel's matrix takes, as arithmetic that takes as long.
ENTRY_WORK = 100.0


class ExactWork(NamedTuple):
    """Operations of the log evidence with its gradient, or of the moments at the rows, either way."""

    by_chain: float
    by_matrix: float

    @property
    def engine(self) -> Engine:
        """The cheaper one, on one thread: for pieces of which there are enough to keep every processor busy."""
        return DenseEngine() if self.by_matrix < self.by_chain else CpuEngine(Limits(threads=1))


def exact_work(model: Model, num_places: int, layout: Layout) -> ExactWork:
    sizes = np.full(len(model.components), num_places)
    shape = Shape(layout, num_places, int(sizes.sum()), int(_latent(model) @ sizes))
    return ExactWork(chain_work(model, sizes, layout), matrix_flops(shape))


def chain_work(model: Model, sizes: Int[np.ndarray, " component"], layout: Layout) -> float:
    """The same by a chain of which components have so many functions of place."""
    return float(np.sum(filter_flops(layout.counts, int(_latent(model) @ sizes), int(sizes.sum()))))


def _latent(model: Model) -> Int[np.ndarray, " component"]:
    return np.array([component.time.state_space().size for component in model.components])


def rows_work(model: Model, num_rows: int) -> float:
    """Operations of the moments from the covariance of so many rows (`ByRows`): its entries, and one factor."""
    return num_rows**3 / 3 + ENTRY_WORK * len(model.components) * num_rows**2


def regular(num_times: int, rows_a_time: int) -> Layout:
    """So many rows at each of so many times."""
    return Layout(np.arange(num_times + 1) * rows_a_time)
