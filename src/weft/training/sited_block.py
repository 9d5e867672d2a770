# SPDX-License-Identifier: MIT
"""The variational bound of one block of rows with any likelihood, from what its kernels are there, and its slopes in that.

At the best sites the bound moves with the field as the sites' log normaliser does, and with the likelihood as the expected log density:
so slopes are those of a Gaussian block whose rows are the sites.
"""

from typing import NamedTuple, final

import jax
import numpy as np
from jaxtyping import Float, Int
from scipy.linalg.lapack import dtrtrs

from weft.engines.base import Engine
from weft.engines.cpu.shared_places import SharedPlaces
from weft.inference.conjugate_vi import best_sites
from weft.inference.fields import ChainSlopes, Field, GivenSites, Natural, field_of
from weft.inference.prior import Prior
from weft.inference.row_terms import ValuedRows, likelihood_slopes
from weft.kernels.closed_forms import lower_triangle
from weft.likelihoods import Likelihood
from weft.state_space.chain import Rows
from weft.training.one_block import (
    ChainPieces,
    FactoredMatrix,
    MatrixPieces,
    Pieces,
    PlacePieces,
    chain_and_weights,
    chain_slopes,
    covariance_of,
    covariance_slopes,
    factor_matrix,
    given_rows_at_places,
    matrix_slopes,
    place_slopes,
    whitened,
)
from weft.training.padding import PaddedBlock

__all__ = ["SitedBlock", "bound_and_slopes"]

# Of what a row would say by itself: below it, the inverse has too few digits of what the row changes.
_LEAST_SAID = 1e-6
# Nats a row, by the tolerance, that another step towards better sites has to bring where they are found slowly.
_ENOUGH = 0.1


class SitedBlock(NamedTuple):
    """The bound of a block, its slopes in the pieces and in the likelihood, its sites, and how often the field was asked for them."""

    bound: float
    slopes: Pieces
    of_likelihood: Likelihood
    sites: Natural
    num_calls: int


def bound_and_slopes(
    pieces: Pieces,
    likelihood: Likelihood,
    block: PaddedBlock,
    engine: Engine,
    *,
    start: Natural | None,
    tolerance: float,
) -> SitedBlock:
    """With sites found to within `tolerance` from `start`, or from the likelihood's own guess."""
    present = np.flatnonzero(block.present)
    extra = jax.tree.map(lambda array: np.asarray(array)[present], block.extra)
    seen = ValuedRows(np.asarray(block.values)[present], extra, np.zeros(len(present)))
    field: Field
    if isinstance(pieces, MatrixPieces):
        field = _InMatrix(covariance_of(pieces), len(block.values), present)
    elif isinstance(pieces, PlacePieces):
        field = _AtPlaces(pieces, block, engine)
    else:
        field = _along_chain(pieces, block, engine)
    found = best_sites(likelihood, seen, field, start=start, tolerance=tolerance, enough=_ENOUGH * tolerance)
    _, of_likelihood = likelihood_slopes(likelihood, seen, found.mean, found.explained)
    slopes: Pieces
    if isinstance(pieces, MatrixPieces):
        slopes = matrix_slopes(pieces, covariance_slopes(found.slopes()))
    elif isinstance(pieces, PlacePieces):
        of_places: SharedPlaces = found.slopes()
        slopes = place_slopes(pieces, of_places, np.zeros_like(of_places.noise))
    else:
        of: ChainSlopes = found.slopes()
        slopes = chain_slopes(pieces, block, of.chain.components, np.asarray(of.weights), np.zeros(len(block.values)))
    precision = np.asarray(found.sites.precision)
    sites = Natural(np.asarray(found.sites.value) * precision, precision)
    return SitedBlock(found.bound, slopes, of_likelihood, sites, found.engine_calls)


def _along_chain(pieces: ChainPieces, block: PaddedBlock, engine: Engine) -> Field:
    chain, weights = chain_and_weights(pieces, block)
    nothing = np.zeros(len(block.values))
    rows = Rows(block.layout, np.asarray(block.place_of_row), nothing, nothing)
    return field_of(Prior(chain, weights, nothing), rows, engine, np.flatnonzero(block.present))


@final
class _AtPlaces(Field):
    """A field whose components stand at the places of its rows; its slopes are `SharedPlaces`."""

    def __init__(self, pieces: PlacePieces, block: PaddedBlock, engine: Engine):
        self.pieces, self.block, self.engine = pieces, block, engine
        self.of_rows = np.asarray(block.time_of_row)[block.present], np.asarray(block.place_of_row)[block.present]
        self.whitened: Field | None = None

    def given(self, sites: Natural) -> GivenSites:
        total, slopes = given_rows_at_places(self.pieces, self.block, sites.value, sites.precision)
        pull, of_noise = slopes.pull[self.of_rows], slopes.noise[self.of_rows]
        # Of what a row would say by itself, what the field says too.
        share = 1 - (pull**2 - 2 * of_noise) / sites.precision
        if np.any(share < _LEAST_SAID):
            # Too few digits of the moments of rows that say next to nothing: the smoother has them.
            if self.whitened is None:
                self.whitened = _along_chain(whitened(self.pieces), self.block, self.engine)
            moments = self.whitened.given(sites)
            return GivenSites(total, moments.mean, moments.explained, lambda: slopes)
        return GivenSites(total, sites.value - pull / sites.precision, share / sites.precision, lambda: slopes)


@final
class _InMatrix(Field):
    """A field by the matrix over its rows, of which those that are `present` have sites; its slopes are a `FactoredMatrix`."""

    def __init__(self, covariance: Float[np.ndarray, " pair"], num_rows: int, present: Int[np.ndarray, " seen"]):
        self.covariance, self.num_rows, self.present = covariance, num_rows, present

    def given(self, sites: Natural) -> GivenSites:
        value, precision = np.zeros((2, self.num_rows))
        value[self.present], precision[self.present] = sites.value, sites.precision
        found = factor_matrix(self.covariance, value, precision)
        own = np.diagonal(found.inverse)[self.present]
        explained = (1 - own) / sites.precision
        for number in np.flatnonzero(1 - own < _LEAST_SAID):
            explained[number] = self._variance_of(int(self.present[number]), found)
        mean = sites.value - found.solved[self.present] / found.root[self.present]
        return GivenSites(found.log_normaliser, mean, explained, lambda: found)

    def _variance_of(self, number: int, found: FactoredMatrix) -> float:
        """Of f at one row, without dividing by its precision."""
        row, column = lower_triangle(self.num_rows)
        across = np.zeros(self.num_rows)
        of_row, of_column = row == number, column == number
        across[column[of_row]] = self.covariance[of_row]
        across[row[of_column]] = self.covariance[of_column]
        whitened, _ = dtrtrs(found.factor, found.root * across, lower=1)
        return float(across[number] - whitened @ whitened)
