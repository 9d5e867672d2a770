# SPDX-License-Identifier: MIT
"""Rows asked about, in an engine's terms, in blocks of bounded memory."""

import itertools
from collections.abc import Iterator

import numpy as np
from jaxtyping import Float, Int

from weft.arrays import ArrayLike, require_own_process
from weft.data.layout import Layout
from weft.data.observations import as_floats, as_numbers, refuse_rows
from weft.data.places import distinct_places
from weft.inference.prior import (
    chain_at,
    chain_to_draw_from,
    check_places,
    check_times,
    features_at,
    features_to_draw_from,
    sizes_of,
    time_variances_at,
)
from weft.model import Model
from weft.state_space.basis import Reduction
from weft.state_space.chain import Chain, Queries, Rows

# The weights of the distinct places asked about are the one large thing an answer needs besides itself.
WEIGHTS_BUDGET = 128 * 2**20
# Rows take little beside; each block costs a pass over the whole series.
MOST_ROWS_AT_ONCE = 16_000_000


def checked_rows(
    times: ArrayLike, places: ArrayLike, width: int
) -> tuple[Float[np.ndarray, " query"], Float[np.ndarray, "query dim"]]:
    """Times and places asked about, paired and finite, places with `width` columns."""
    require_own_process()
    times, places = as_numbers(times, "times", 1), as_numbers(places, "places", 2)
    if len(times) != len(places):
        raise ValueError(f"times and places must have one entry a row; they have {len(times)} and {len(places)} rows")
    if places.shape[1] != width:
        raise ValueError(f"places must have the {width} columns of the data's places; they have {places.shape[1]}")
    for name, array in (("times", times), ("places", places)):
        refuse_rows(~np.isfinite(array).all(axis=tuple(range(1, array.ndim))), f"{name} must be finite", array)
    return times, places


def checked_sums(weights: ArrayLike, num_rows: int) -> Float[np.ndarray, "*sum query"]:
    """Weights of one sum over the rows asked about, or of several, a row each."""
    weights = as_floats(weights, "weights")
    if not np.all(np.isfinite(weights)):
        raise ValueError(f"weights must be finite; {np.count_nonzero(~np.isfinite(weights))} of them are not")
    if weights.ndim not in (1, 2) or weights.shape[-1] != num_rows:
        raise ValueError(
            f"weights must have one number a row ({num_rows}), or a row of them for each sum; their shape is {weights.shape}"
        )
    return weights


def blocks_of_rows(places: Float[np.ndarray, "query dim"], num_bottleneck: int) -> Iterator[Int[np.ndarray, " block"]]:
    """Row numbers in blocks: so many rows at most, and of those few enough distinct places for the budget of weights.

    Every block costs a pass over the whole series, so there are as few as that allows.
    """
    most_places = max(1, WEIGHTS_BUDGET // (8 * num_bottleneck))
    for first in range(0, len(places), MOST_ROWS_AT_ONCE):
        some = np.arange(first, min(first + MOST_ROWS_AT_ONCE, len(places)))
        if len(some) <= most_places:
            yield some
            continue
        distinct, place = distinct_places(places[some])
        order = np.argsort(place, kind="stable")
        starts = np.searchsorted(place[order], np.arange(0, len(distinct), most_places))
        for start, stop in itertools.pairwise([*starts.tolist(), len(order)]):
            yield some[order[start:stop]]


class Question:
    """One block of rows asked about: the chain at the times of data and block, the data's rows on it, the block's own.

    Answers come in the order of `queries`; `in_order` puts them back into the order asked.
    """

    def __init__(
        self,
        model: Model,
        reductions: tuple[Reduction, ...],
        data_times: Float[np.ndarray, " time"],
        rows: Rows,
        times: Float[np.ndarray, " query"],
        places: Float[np.ndarray, "query dim"],
        *,
        to_draw: bool = False,
        by_component: bool = True,
    ):
        distinct, place = distinct_places(places)
        check_places(model, distinct)
        features = (features_to_draw_from if to_draw else features_at)(model, reductions, distinct)
        # New times enter the chain as steps without rows.
        all_times, number = np.unique(np.concatenate([data_times, times]), return_inverse=True)
        check_times(model, all_times)
        of_data, of_query = number[: len(data_times)], number[len(data_times) :]
        self._order = np.argsort(of_query, kind="stable")
        make_chain = chain_to_draw_from if to_draw else chain_at
        self.chain: Chain = make_chain(model, sizes_of(reductions), all_times)
        self.rows = Rows(spread(rows.layout, of_data, len(all_times)), rows.place, rows.value, rows.precision)
        self.queries = Queries(
            layout=Layout(np.searchsorted(of_query[self._order], np.arange(len(all_times) + 1))),
            place=place[self._order].astype(np.int32),
            weights=features.weights,
            by_component=by_component,
        )
        # In the order asked: what the pseudo-points leave unexplained of each component's variance.
        self.unexplained = time_variances_at(model, all_times)[of_query] * features.unexplained[place]

    def in_order(self, answers: Float[np.ndarray, "query ..."]) -> Float[np.ndarray, "query ..."]:
        back = np.empty(answers.shape)
        back[self._order] = answers
        return back

    def by_query(self, asked: Float[np.ndarray, "query ..."]) -> Float[np.ndarray, "query ..."]:
        """Numbers in the order asked, put into the order of the queries."""
        return asked[self._order]


def spread(layout: Layout, positions: Int[np.ndarray, " time"], num_times: int) -> Layout:
    """The same rows on a longer series: time t of `layout` is time positions[t] of `num_times`."""
    counts = np.zeros(num_times, dtype=np.int64)
    counts[positions] = layout.counts
    return Layout(np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(counts)]))
