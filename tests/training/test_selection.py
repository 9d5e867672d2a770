# SPDX-License-Identifier: MIT
"""Rows left out against the obvious dense formulas, and models chosen on made data whose components are known."""

import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import weft
from weft.data.observations import take_rows
from weft.training.composite import CompositeObjective
from weft.training.left_out import leave_places_out, leave_rows_out
from weft.training.priors import WithinReach
from weft.training.selection import Candidate, Checks, Draft, select


def made_table(num_places: int = 30, num_times: int = 60, seed: int = 3) -> weft.Observations:
    rng = np.random.default_rng(seed)
    places = rng.uniform(0, 300, (num_places, 2))
    times = np.repeat(np.arange(num_times, dtype=float), num_places)
    rows = rng.permutation(len(times))[: int(0.8 * len(times))]
    values = np.sin(times / 9) + np.tile(places[:, 0] / 200, num_times) + 0.3 * rng.normal(size=len(times))
    values[rows[:40]] = np.nan
    noise = rng.uniform(0.0, 0.2, len(times))
    return weft.Observations(times[rows], np.tile(places, (num_times, 1))[rows], values[rows], noise[rows])


def made_model() -> weft.Model:
    kernel = 0.7 * weft.Separable(space=weft.Matern32([90.0, 140.0]), time=weft.Matern32(12.0)) + 0.2 * weft.Separable(
        space=weft.Matern12([30.0, 20.0]), time=weft.Matern12(4.0)
    )
    return weft.Model(kernel, weft.Gaussian(0.15))


def dense_covariance(times: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Written out: Matern functions of scaled distances, without the library's kernels."""
    distance = np.sqrt(np.sum(((places[:, None] - places[None]) / [90.0, 140.0]) ** 2, axis=-1))
    rough = np.sqrt(np.sum(((places[:, None] - places[None]) / [30.0, 20.0]) ** 2, axis=-1))
    lag = np.abs(times[:, None] - times[None])

    def smooth(r: np.ndarray) -> np.ndarray:
        return (1 + np.sqrt(3) * r) * np.exp(-np.sqrt(3) * r)

    return 0.7 * smooth(distance) * smooth(lag / 12.0) + 0.2 * np.exp(-rough) * np.exp(-lag / 4.0)


def test_left_out_equals_conditioning_on_the_rest():
    # Thirty places and a few times of the table, then all of its places at others: rows of the second come behind the first's.
    data = made_table()
    blocks = [take_rows(data, np.arange(first, first + count)) for first, count in ((0, 130), (400, 90))]
    rows, of_places = leave_rows_out(made_model(), blocks), leave_places_out(made_model(), blocks)
    assert len(rows.error) == len(of_places.error) == 220
    for first, block in ((0, blocks[0]), (130, blocks[1])):
        times, places, values = block.row_times, block.row_places, np.asarray(block.values)
        covariance = dense_covariance(times, places) + np.diag(0.15 + np.asarray(block.noise_variance))
        for row in (0, 17, 60):
            for error, sd, hidden in (
                (*rows, np.arange(len(times)) == row),
                (*of_places, np.all(places == places[row], axis=1)),
            ):
                seen = ~hidden
                weights = np.linalg.solve(covariance[np.ix_(seen, seen)], covariance[seen, row])
                assert_allclose(error[first + row], values[row] - weights @ values[seen], rtol=1e-8)
                assert_allclose(sd[first + row] ** 2, covariance[row, row] - weights @ covariance[seen, row], rtol=1e-8)


def parts_of(data: weft.Observations, seed: int) -> list[weft.Observations]:
    """Three blocks of twenty places and as many times as make some 200 rows."""
    rng = np.random.default_rng(seed)
    parts = []
    for start in (0, 25, 55):
        places = data.places[rng.permutation(len(data.places))[:20]]
        inside = np.any(np.all(data.row_places[:, None] == places[None], axis=-1), axis=1)
        parts.append(
            take_rows(data, np.flatnonzero(inside & (data.row_times >= start) & (data.row_times < start + 10)))
        )
    return parts


def levels_table(deviation: float) -> weft.Observations:
    """A field that all places share, and levels of their own where `deviation` is not 0."""
    rng = np.random.default_rng(11)
    places = rng.uniform(0, 100, (40, 2))
    times = np.arange(80, dtype=float)
    common = np.cumsum(rng.normal(size=80)) / 4
    values = common[:, None] + deviation * rng.normal(size=40) + 0.2 * rng.normal(size=(80, 40))
    return weft.Observations(np.repeat(times, 40), np.tile(places, (80, 1)), (values - values.mean()).ravel())


@pytest.mark.parametrize("deviation", [0.0, 0.8])
def test_a_component_is_kept_where_it_was_made(deviation):
    data = levels_table(deviation)
    common = weft.Separable(space=weft.Matern32([200.0, 200.0]), time=weft.Matern12(10.0), variance=0.8)
    start = Draft(weft.Model(weft.SumSeparable([common]), weft.Gaussian(0.1)), ("common",))

    def with_levels(draft: Draft) -> Draft:
        own = weft.Separable(space=weft.Matern12([5.0, 5.0]), time=weft.Matern12(500.0), variance=0.2)
        kernel = weft.SumSeparable([*draft.model.kernel.components, own])
        return Draft(weft.Model(kernel, draft.model.likelihood), (*draft.names, "levels"))

    learning, checking = (parts_of(data, seed) for seed in (0, 1))
    candidates = [Candidate("nothing", lambda draft: None), Candidate("levels", with_levels)]
    found = select(start, candidates, learning, Checks(checking, checking))
    assert [trial.name for trial in found.trials] == ["levels"]
    assert found.trials[0].kept == (deviation > 0)
    assert found.draft.names == (("common", "levels") if deviation > 0 else ("common",))


def test_an_interrupt_of_a_trial_is_one_of_the_fit(monkeypatch):
    """It had ended one climb, and the next began."""
    asked, inner = [], CompositeObjective.__call__

    def interrupted(objective, point):
        asked.append(point)
        if len(asked) == 2:
            raise KeyboardInterrupt
        return inner(objective, point)

    monkeypatch.setattr(CompositeObjective, "__call__", interrupted)
    common = weft.Separable(space=weft.Matern32([200.0, 200.0]), time=weft.Matern12(10.0), variance=0.8)
    start = Draft(weft.Model(weft.SumSeparable([common]), weft.Gaussian(0.1)), ("common",))
    parts = parts_of(levels_table(0.0), 0)
    with pytest.raises(KeyboardInterrupt):
        select(start, [Candidate("same", lambda draft: draft)], parts, Checks(parts, parts))
    assert len(asked) == 2


def test_evidence_alone_keeps_nothing():
    """A change may raise the evidence and still be left, where left-out rows and places do not gain."""
    common = weft.Separable(space=weft.Matern32([200.0, 200.0]), time=weft.Matern12(10.0), variance=0.8)
    own = weft.Separable(space=weft.Matern12([5.0, 5.0]), time=weft.Matern12(500.0), variance=0.64)
    # Only one number is learned of each, so that neither can make up for what it lacks.
    frozen = ("kernel.components[0].space", "kernel.components[0].time", "likelihood")
    start = Draft(weft.Model(weft.SumSeparable([common]), weft.Gaussian(0.04)), ("common",), frozen)
    with_levels = weft.Model(weft.SumSeparable([common, own]), weft.Gaussian(0.04))
    changed = Draft(with_levels, ("common", "levels"), (*frozen, "kernel.components[1]"))
    # The blocks to learn from have levels, those to check by have none.
    learning, checking = (parts_of(levels_table(each), 0) for each in (0.8, 0.0))
    trial = select(start, [Candidate("levels", lambda draft: changed)], learning, Checks(checking, checking)).trials[0]
    assert trial.evidence_gain > 0.5
    assert trial.place_gain < -0.05
    assert not trial.kept


@pytest.mark.parametrize("is_there", [False, True])
def test_places_are_left_out_over_the_series(is_there):
    """Rows are left out of blocks without levels, and places of others, which have them or have none."""
    common = weft.Separable(space=weft.Matern32([200.0, 200.0]), time=weft.Matern12(10.0), variance=0.8)
    own = weft.Separable(space=weft.Matern12([5.0, 5.0]), time=weft.Matern12(500.0), variance=0.64)
    frozen = ("kernel.components[0].space", "kernel.components[0].time", "likelihood")
    start = Draft(weft.Model(weft.SumSeparable([common]), weft.Gaussian(0.04)), ("common",), frozen)
    with_levels = weft.Model(weft.SumSeparable([common, own]), weft.Gaussian(0.04))
    changed = Draft(with_levels, ("common", "levels"), (*frozen, "kernel.components[1]"))
    learning, without = (parts_of(levels_table(each), 0) for each in (0.8, 0.0))
    candidate = Candidate("levels", lambda draft: changed)
    trial = select(start, [candidate], learning, Checks(without, learning if is_there else without)).trials[0]
    assert (trial.place_gain > 0.05) == is_there


def test_lengths_beyond_reach_are_held():
    prior = WithinReach([1.0, 2.0, 0.1], [100.0, 300.0, 5.0], alike=(0, 1))
    assert_allclose(prior(jnp.array([50.0, 50.0, 1.0])), 0.0, atol=1e-12)
    # Twice as long in one direction: half a log 2 on either side of the mean.
    apart = 2 * (0.5 * np.log(2.0)) ** 2
    assert_allclose(prior(jnp.array([50.0, 100.0, 1.0])), -0.5 * apart / 0.05**2)
    assert_allclose(prior(jnp.array([50.0, 50.0, 50.0])), -0.5 * np.log(10.0) ** 2 / 0.25)
    assert_allclose(prior(jnp.array([50.0, 50.0, 0.01])), -0.5 * np.log(10.0) ** 2 / 0.25)
