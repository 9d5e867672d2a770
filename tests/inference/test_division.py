# SPDX-License-Identifier: MIT
"""What regions see: around a gap more than elsewhere, held to the dense Gaussian process over all rows."""

import numpy as np
import pytest

import weft
from weft.inference import division
from weft.inference.regional import condition_regions

NOISE = 0.02
REGIONS = 12


def model():
    return weft.Model(
        kernel=0.9 * weft.Separable(space=weft.Matern32([30.0, 22.0]), time=weft.Matern12(1.0))
        + 0.2 * weft.Separable(space=weft.Matern12([5.0, 6.0]), time=weft.Matern12(2.0)),
        likelihood=weft.Gaussian(NOISE),
    )


def covariance(first, second):
    """Of one image, written out."""

    def apart(lengths):
        return np.linalg.norm((first[:, None] - second[None]) / np.array(lengths), axis=2)

    smooth = np.sqrt(3) * apart([30.0, 22.0])
    return 0.9 * (1 + smooth) * np.exp(-smooth) + 0.2 * np.exp(-apart([5.0, 6.0]))


class Image:
    """48 by 32 pixels; those inside the gap, where there is one, are asked about."""

    def __init__(self, *, has_gap):
        rng = np.random.default_rng(3)
        pixels = np.stack(np.meshgrid(np.arange(48.0), np.arange(32.0), indexing="ij"), axis=-1).reshape(-1, 2)
        field = np.linalg.cholesky(covariance(pixels, pixels) + 1e-9 * np.eye(len(pixels))) @ rng.normal(
            size=len(pixels)
        )
        values = field + np.sqrt(NOISE) * rng.normal(size=len(pixels))
        inside = np.all((pixels >= [15, 8]) & (pixels < [33, 24]), axis=1) & has_gap
        self.places, self.values, self.asked = pixels[~inside], values[~inside], pixels[inside]
        self.data = weft.Observations(np.zeros(len(self.places)), self.places, self.values)

    def exact_means(self):
        whole = covariance(self.places, self.places) + NOISE * np.eye(len(self.places))
        return covariance(self.asked, self.places) @ np.linalg.solve(whole, self.values)


def around(data):
    found = division.divide(model(), data, num_regions=REGIONS)
    return np.array([np.count_nonzero(~region.is_core) for region in found.regions]), found


def test_a_region_with_a_gap_sees_more_around_it_and_no_more_than_allowed():
    image = Image(has_gap=True)
    counts, found = around(image.data)
    holds = np.unique(found.cuts.cell_of(found.nearness(np.zeros(len(image.asked)), image.asked)))
    others = np.setdiff1d(np.arange(REGIONS), holds)
    assert counts[holds].max() > 1.3 * np.median(counts[others])
    assert counts.max() <= division.MOST_AROUND_GAPS * np.median(counts) + 1


def test_without_gaps_all_see_about_as_much():
    counts, _ = around(Image(has_gap=False).data)
    assert counts.max() <= 1.15 * counts.min()


def test_what_is_seen_of_the_rim_brings_answers_in_a_gap_nearer_to_the_exact_ones(monkeypatch):
    image = Image(has_gap=True)
    exact, times = image.exact_means(), np.zeros(len(image.asked))

    def off():
        found = condition_regions(model(), image.data, num_regions=REGIONS).marginals(times, image.asked)
        return np.sqrt(np.mean((found.mean - exact) ** 2))

    more = off()
    monkeypatch.setattr(division, "MOST_AROUND_GAPS", 1.0)
    assert more < 0.8 * off()


@pytest.mark.parametrize("constant", [0, 1])
def test_a_column_in_which_all_places_are_alike_makes_no_gaps(constant):
    rng = np.random.default_rng(5)
    places = rng.uniform(0, 40, (600, 2))
    places[:, constant] = 7.0
    counts, _ = around(weft.Observations(np.zeros(600), places, rng.normal(size=600)))
    # Of a line the border of each piece is two points, however long it is.
    assert counts.max() == counts.min()


def test_where_points_are_unevenly_dense_the_work_stays_within_its_bound():
    rng = np.random.default_rng(6)
    places = rng.normal(size=(1500, 2)) * np.exp(rng.normal(size=(1500, 1)))
    counts, found = around(weft.Observations(np.zeros(1500), places, rng.normal(size=1500)))
    seen = np.array([len(region.rows) for region in found.regions])
    usual = 3 * -(-1500 // REGIONS)
    assert np.mean((seen / usual) ** 3) <= 1.02 * division.MOST_WORK_FOR_GAPS
    assert counts.max() > counts.min()
