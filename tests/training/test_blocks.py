# SPDX-License-Identifier: MIT
"""Blocks to learn from: how they are chosen, their evidence, and what they say about parameters."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import multivariate_normal

import weft
from weft.inference.exact_work import exact_work
from weft.inference.executor import Threads, running_on
from weft.training.blocks import Kind, choose_blocks, through_the_series
from weft.training.composite import CompositeObjective, block_evidence
from weft.training.padding import pad_blocks
from weft.training.parameters import make_space
from weft.training.pieces import make_batches


def model(variance=0.7, noise=0.2):
    return weft.Model(
        kernel=variance * weft.Separable(space=weft.Matern32([1.5, 0.8]), time=weft.Matern32(6.0))
        + 0.4 * weft.Separable(space=weft.Matern12([0.5, 0.6]), time=weft.Matern12(1.5)),
        likelihood=weft.Gaussian(noise),
    )


def stations(num_places=90, num_times=400, missing=0.3, seed=0):
    rng = np.random.default_rng(seed)
    places = rng.normal(size=(num_places, 2)) * [3.0, 1.0]
    rows = rng.uniform(size=(num_times, num_places)) > missing
    time, place = np.nonzero(rows)
    return weft.Observations(time.astype(float), places[place], rng.normal(size=len(time)))


def floats(num_rows=3000, seed=1):
    rng = np.random.default_rng(seed)
    return weft.Observations(
        rng.uniform(0, 90, num_rows), rng.normal(size=(num_rows, 2)) * [3.0, 1.0], rng.normal(size=num_rows)
    )


def extent(data):
    return np.linalg.norm(np.ptp(data.places, axis=0))


def test_everything_is_the_one_block_where_that_is_cheap():
    data = stations(5, 30)
    (block,) = choose_blocks(model(), data)
    assert block.kind is Kind.WHOLE
    assert block.data is data


@pytest.mark.parametrize("table", [stations, floats])
def test_blocks_are_the_same_for_the_same_seed_and_within_the_work(table):
    data = table()
    first, again, other = (choose_blocks(model(), data, work=2e9, seed=seed) for seed in (3, 3, 4))
    assert all(np.array_equal(a.rows, b.rows) for a, b in zip(first, again, strict=True))
    assert not all(np.array_equal(a.rows, b.rows) for a, b in zip(first, other, strict=True))
    assert sum(len(block.rows) for block in first) < data.num_rows


def test_size_follows_the_work_and_not_the_table():
    narrow, wide = (choose_blocks(model(), stations(places, 400), work=2e9) for places in (60, 200))
    assert len(narrow) == len(wide)
    assert_allclose(np.mean([len(b.rows) for b in narrow]), np.mean([len(b.rows) for b in wide]), rtol=0.2)


@pytest.mark.parametrize("table", [stations, floats])
def test_compact_blocks_are_narrow_and_scattered_ones_wide(table):
    data = table()
    blocks = choose_blocks(model(), data, work=2e9)
    sizes = {kind: [extent(b.data) for b in blocks if b.kind is kind] for kind in (Kind.COMPACT, Kind.SCATTERED)}
    assert np.median(sizes[Kind.COMPACT]) < 0.6 * extent(data)
    assert np.median(sizes[Kind.SCATTERED]) > 0.7 * extent(data)
    times = np.concatenate([b.data.row_times for b in blocks])
    share = np.histogram(times, bins=4, range=(data.times[0], data.times[-1]))[0] / len(times)
    # No season is left out: a quarter of the series each, give or take.
    assert share.min() > 0.08


def test_long_blocks_are_a_few_neighbours_for_much_longer_at_no_more_work():
    data = stations()
    blocks = choose_blocks(model(), data, work=5e8)
    long = [block for block in blocks if block.kind is Kind.LONG]
    others = [block for block in blocks if block.kind is not Kind.LONG]
    assert 0 < len(long) < len(others)
    assert max(len(block.data.places) for block in long) <= 12
    assert max(len(block.data.places) for block in others) > 24
    length = np.median([len(block.data.times) for block in others])
    assert all(len(block.data.times) > 2 * length for block in long)

    def most_work(some):
        return max(exact_work(model(), len(b.data.places), b.data.grouping.layout).by_chain for b in some)

    assert most_work(long) < 1.2 * most_work(others)
    # A series that a stretch holds has none.
    assert all(block.kind is not Kind.LONG for block in choose_blocks(model(), stations(300, 48), work=5e8))


def test_a_few_blocks_of_each_length_stand_for_the_others():
    blocks = [block.data for block in choose_blocks(model(), stations(), work=5e8)]
    start = model()
    space = make_space(start)
    objective = CompositeObjective(space, start, blocks, (), power=0.0, engine="cpu")
    point = space.start(start)
    every = objective.scores(point)
    assert_allclose(every.value, [by_definition(start, block) for block in blocks], rtol=1e-9)
    num_long = sum(len(block.places) <= 12 for block in blocks)
    assert num_long > 0
    lengths = (slice(None, len(blocks) - num_long), slice(len(blocks) - num_long, None))
    expected = 0.0
    for own in lengths:
        count = make_batches(pad_blocks(blocks[own]))[0].num_blocks
        assert count < len(blocks[own])
        expected = expected + every.gradient[own][:count].mean(axis=0) * len(blocks[own])
    (found,) = objective.slopes_by_some([point])
    assert_allclose(found, expected, rtol=1e-9)


def test_neighbourhoods_through_the_series_are_narrow_and_as_long_as_it():
    data = stations()
    found, again = (through_the_series(model(), data, count=5, num_places=36, num_rows=500, seed=2) for _ in range(2))
    assert len(found) == 5
    for block, same in zip(found, again, strict=True):
        assert np.array_equal(block.row_times, same.row_times)
        assert 350 < block.num_rows < 650
        assert len(block.places) == 36
        # One of each part of the series, and no even steps between them.
        assert block.times[0] < 40
        assert block.times[-1] > 360
        assert len(np.unique(np.diff(block.times))) > 3
    assert np.median([extent(block) for block in found]) < 0.8 * extent(data)


def test_evidence_of_padded_blocks_is_that_of_each_by_itself():
    data = stations(8, 90)
    rng = np.random.default_rng(5)
    noisy = weft.Observations(
        rng.choice(np.arange(7.0), 40), rng.normal(size=(40, 2)), rng.normal(size=40), noise_variance=0.3
    )
    blocks = [*(block.data for block in choose_blocks(model(), data, work=1e6)[:3]), noisy]
    for engine in ("cpu", "dense"):
        found = block_evidence(model(), blocks, engine=engine)
        assert_allclose(found, [by_definition(model(), block) for block in blocks], rtol=1e-9, err_msg=engine)


def by_definition(given, data):
    """The log density of the values, from the kernel's matrix over all rows."""
    own = 0.0 if data.noise_variance is None else np.asarray(data.noise_variance)
    covariance = np.asarray(given.kernel(data.row_times, data.row_places))
    covariance = covariance + np.diag(np.full(data.num_rows, float(given.likelihood.variance)) + own)
    return multivariate_normal(np.zeros(data.num_rows), covariance).logpdf(np.asarray(data.values))


def test_one_and_two_threads_agree_to_the_bit():
    blocks = [block.data for block in choose_blocks(model(), floats(600), work=5e7)]
    start = model()
    space = make_space(start)
    point = space.start(start)
    found = []
    for count in (1, 2):
        with running_on(Threads(count)):
            found.append(CompositeObjective(space, start, blocks, (), power=0.0, engine="auto")(point))
    assert found[0].value == found[1].value
    assert np.array_equal(found[0].gradient, found[1].gradient)


def test_fit_of_blocks_climbs_the_sum_of_their_evidence():
    blocks = [block.data for block in choose_blocks(model(), floats(600), work=2e7)][:4]
    result = weft.fit(model(), blocks, max_iterations=3, progress=None)
    assert_allclose(result.log_evidence, sum(by_definition(result.model, block) for block in blocks), rtol=1e-9)
    assert result.log_evidence > sum(by_definition(model(), block) for block in blocks) + 1.0
    assert result.num_blocks == 4
    assert result.num_rows == sum(block.num_rows for block in blocks)


def test_counts_are_learned_from_blocks_too():
    rng = np.random.default_rng(6)
    blocks = [
        weft.Observations(rng.uniform(0, 5, 20), rng.normal(size=(20, 1)), rng.poisson(3.0, 20).astype(float))
        for _ in range(2)
    ]
    start = weft.Model(weft.Separable(space=weft.EQ(1.0), time=weft.Matern12(2.0)), weft.Poisson(), mean=None)
    result = weft.fit(start, blocks, max_iterations=2, progress=None)
    alone = [float(weft.log_evidence(result.model, block)) for block in blocks]
    assert_allclose(result.log_evidence, sum(alone), rtol=1e-6)


@pytest.mark.long
def test_standard_errors_are_those_of_many_draws():
    """One parameter, blocks from the model itself: the sandwich against the spread of estimates over independent tables."""
    kernel = weft.Separable(space=weft.Matern12(1.0), time=weft.Matern12(1.0))
    truth = weft.Model(kernel, weft.Gaussian(0.5))
    rng = np.random.default_rng(7)
    options = {"frozen": ["kernel"], "progress": None, "tolerance": 1e-12, "gradient_tolerance": 1e-6}

    def table():
        blocks = []
        for _ in range(8):
            times, places = rng.uniform(0, 4, 25), rng.uniform(0, 4, (25, 1))
            covariance = np.asarray(kernel(times, places)) + 0.5 * np.eye(25)
            blocks.append(weft.Observations(times, places, np.linalg.cholesky(covariance) @ rng.normal(size=25)))
        return blocks

    fits = [weft.fit(truth, table(), **options) for _ in range(40)]
    estimates = [float(fit.parameters["likelihood.variance"]) for fit in fits]
    claimed = [float(fit.standard_errors["likelihood.variance"]) for fit in fits]
    # A deviation from 40 numbers is itself known to 11 %, one from 8 blocks to 27 %.
    assert_allclose(np.mean(claimed), np.std(estimates), rtol=0.35)
