# SPDX-License-Identifier: MIT
"""Cuts: every point in exactly one cell, balanced; who is around a cell; weights that sum to one and are smooth."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.spatial import cKDTree

from weft.inference.cuts import cut, surroundings


def clouds(seed, count, width):
    """Points of uneven density, with ties in their first column."""
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(count, width)) * np.linspace(1.0, 3.0, width)
    points[: count // 3] = points[: count // 3] * 0.05 + 2.0
    points[:, 0] = np.round(points[:, 0], 1)
    return points


problems = st.builds(clouds, st.integers(0, 2**16), st.integers(1, 300), st.integers(1, 4))


@settings(max_examples=60, deadline=None, derandomize=True)
@given(problems, st.integers(1, 40))
def test_every_point_lies_in_exactly_one_box(points, count):
    cuts = cut(points, count)
    inside = np.all((points[:, None] >= cuts.lower) & (points[:, None] < cuts.upper), axis=2)
    assert np.all(inside.sum(axis=1) == 1)
    assert np.array_equal(cuts.cell_of(points), np.argmax(inside, axis=1))
    elsewhere = np.random.default_rng(0).normal(size=(50, points.shape[1])) * 100
    assert np.all(
        np.all((elsewhere[:, None] >= cuts.lower) & (elsewhere[:, None] < cuts.upper), axis=2).sum(axis=1) == 1
    )


@pytest.mark.parametrize(("count", "cells"), [(1000, 7), (997, 16), (64, 64)])
def test_cells_are_balanced(count, cells):
    points = np.random.default_rng(1).normal(size=(count, 2)) ** 3
    sizes = np.bincount(cut(points, cells).cell_of(points), minlength=cells)
    assert len(sizes) == cells
    assert sizes.max() - sizes.min() <= np.ceil(np.log2(cells))


def test_points_that_coincide_stay_together():
    points = np.repeat(np.array([[0.0, 1.0], [2.0, 1.0]]), 30, axis=0)
    cuts = cut(points, 8)
    assert cuts.num_cells == 2
    assert len(np.unique(cuts.cell_of(points)[:30])) == 1


@settings(max_examples=40, deadline=None, derandomize=True)
@given(problems, st.integers(1, 20), st.floats(0.01, 2.0))
def test_weights_sum_to_one_and_reach_no_further(points, count, reach):
    cuts = cut(points, count)
    reaches = np.linspace(0.5, 1.0, cuts.num_cells) * reach
    asked = np.random.default_rng(2).normal(size=(40, points.shape[1])) * 2
    shares = cuts.shares(asked, reaches)
    assert_allclose(np.bincount(shares.point, weights=shares.weight, minlength=40), 1.0)
    assert np.all(shares.weight > 0)
    away = np.array([cuts.distance(asked[[p]], int(c))[0] for p, c in zip(shares.point, shares.cell, strict=True)])
    assert np.all(away < reaches[shares.cell])
    own = cuts.cell_of(asked)
    assert {*zip(range(40), own, strict=True)} <= {*zip(shares.point.tolist(), shares.cell, strict=True)}


def test_weights_are_smooth_along_a_line():
    points = np.random.default_rng(3).uniform(size=(400, 2))
    cuts = cut(points, 9)
    line = np.stack([np.linspace(-0.2, 1.2, 20_001), np.full(20_001, 0.37)], axis=1)
    shares = cuts.shares(line, np.full(cuts.num_cells, 0.1))
    weights = np.zeros((len(line), cuts.num_cells))
    weights[shares.point, shares.cell] = shares.weight
    step = 1.4 / 20_000
    slope = np.diff(weights, axis=0) / step
    # A jump would make a slope of 1 / step, a kink a jump of the slope; the steepest smooth step over 0.1 has slope 15.
    assert np.abs(slope).max() < 30
    assert np.abs(np.diff(slope, axis=0)).max() < 1500 * step


@pytest.mark.parametrize(("least", "most", "depth"), [(30, 60, 0.05), (10, 15, 5.0), (20, 500, 0.2)])
def test_surroundings_are_the_nearest(least, most, depth):
    points = clouds(4, 200, 2)
    tree = cKDTree(points)
    cells = cut(points, 8).cell_of(points)
    for cell in range(8):
        core = np.flatnonzero(cells == cell)
        around, deepest = surroundings(points, core, least=least, most=most, depth=depth, tree=tree)
        lower, upper = points[core].min(axis=0), points[core].max(axis=0)
        away = np.linalg.norm(np.maximum(np.maximum(lower - points, points - upper), 0), axis=1)
        away[core] = np.inf
        expected = min(max(least, np.count_nonzero(away <= depth)), most, 200 - len(core))
        assert len(around) == expected
        assert not set(around) & set(core)
        assert_allclose(np.sort(away[around]), np.sort(away)[:expected])
        assert deepest == away[around].max()
