# SPDX-License-Identifier: MIT
"""Parts of a report that need no model: packed numbers, coast lines, the verdict's words."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from numpy.testing import assert_allclose

from weft.report.coast import lines_in_box
from weft.report.coast_source import compact_lines, compact_states
from weft.report.content import Check
from weft.report.counting import counted
from weft.report.nearby import from_neighbours
from weft.report.packing import pack, unpack
from weft.report.residuals import Autocorrelation, Variogram
from weft.report.verdict import MORE_ROWS, judge

NOTHING = np.empty(0)
NO_VARIOGRAM = Variogram(NOTHING, NOTHING, "km")
NO_CORRELATION = Autocorrelation(NOTHING, NOTHING, NOTHING, "days")


@given(
    arrays.arrays(np.float64, st.integers(0, 40), elements=st.floats(-1e6, 1e6) | st.just(np.nan)),
    st.sampled_from([8, 16]),
)
def test_packed_numbers_come_back_to_half_a_step(values: np.ndarray, bits: int) -> None:
    packed = pack(values, bits=bits)
    back = unpack(packed)
    assert np.array_equal(np.isnan(back), np.isnan(values))
    assert_allclose(back, values, atol=packed.step * 0.5 * (1 + 1e-6) + 1e-9, rtol=0)


def test_one_thing_is_not_several() -> None:
    assert [counted(number, "place") for number in (0, 1, 1200)] == ["0 places", "1 place", "1,200 places"]


def test_packed_numbers_are_held_to_limits() -> None:
    packed = pack(np.array([-0.5, 0.25, 7.0, np.inf]), bits=8, low=0.0, high=1.0)
    assert_allclose(unpack(packed), [0.0, 0.25, 1.0, np.nan], atol=1 / 254 / 2)


def test_coasts_are_where_they_are() -> None:
    def points(kind: str, box: tuple[float, float, float, float]) -> np.ndarray:
        lines = lines_in_box(kind, box)
        return np.concatenate([np.array(line).reshape(-1, 2) for line in lines]) if lines else np.empty((0, 2))

    iceland = points("coast", (-25.0, 63.0, -13.0, 67.0))
    # Reykjavik lies at the coast; the middle of the island is a hundred kilometres from it.
    assert np.min(np.hypot(iceland[:, 0] + 21.94, iceland[:, 1] - 64.15)) < 0.1
    assert np.min(np.hypot((iceland[:, 0] + 18.6) * 0.42, iceland[:, 1] - 64.9)) > 0.5
    assert len(points("coast", (5.0, 20.0, 12.0, 25.0))) == 0
    # Strasbourg lies at the border of France and Germany.
    rhine = points("borders", (6.0, 47.0, 10.0, 50.0))
    assert np.min(np.hypot(rhine[:, 0] - 7.8, rhine[:, 1] - 48.58)) < 0.1
    # Four states of the United States meet at one point, and no coast is near.
    corner = points("states", (-110.0, 36.0, -108.0, 38.0))
    assert np.min(np.hypot(corner[:, 0] + 109.045, corner[:, 1] - 36.999)) < 0.01


def test_coasts_cross_the_antimeridian() -> None:
    lines = lines_in_box("coast", (176.0, -20.0, 184.0, -15.0))
    x = np.concatenate([np.array(line)[::2] for line in lines])
    assert x.min() < 179.0
    assert x.max() > 180.0
    # The same islands, seen from the other side.
    other = lines_in_box("coast", (-184.0, -20.0, -176.0, -15.0))
    assert_allclose(np.sort(np.concatenate([np.array(line)[::2] for line in other])) + 360, np.sort(x), atol=1e-2)


def test_coasts_of_the_whole_world_stay_small() -> None:
    lines = lines_in_box("coast", (-180.0, -89.0, 180.0, 89.0))
    assert 100_000 < sum(len(str(line)) for line in lines) < 320_000


def test_a_topology_becomes_lines() -> None:
    topology = {
        "transform": {"scale": [0.01, 0.02], "translate": [-180.0, 10.0]},
        "arcs": [
            [[1000, 50], [100, 0], [0, 50]],  # coast
            [[1000, 50], [0, 100]],  # between two countries
            [[0, 50], [0, 100], [300, 0]],  # along the seam at -180, then away from it
        ],
        "objects": {
            "land": {"type": "GeometryCollection", "geometries": [{"type": "MultiPolygon", "arcs": [[[0, -3]]]}]},
            "countries": {"type": "GeometryCollection", "geometries": [{"type": "Polygon", "arcs": [[0, 1]]}]},
        },
    }
    lines = compact_lines(topology)
    # In 200ths of a degree, first point and differences.
    assert lines["coast"] == [[-34000, 2200, 200, 0, 0, 200], [-36000, 2600, 600, 0]]
    assert lines["borders"] == [[-34000, 2200, 0, 400]]
    # Between two states is what both have, whichever way round.
    states = [{"type": "Polygon", "arcs": [[0, 1]]}, {"type": "Polygon", "arcs": [[-2, 2]]}]
    topology["objects"] = {"states": {"type": "GeometryCollection", "geometries": states}}
    assert compact_states(topology) == [[-34000, 2200, 0, 400]]


def test_neighbours_are_weighted_by_distance() -> None:
    at, known = np.array([[0.0, 0.0], [3.0, 0.0]]), np.array([1.0, 4.0])
    found = from_neighbours(at, known, np.array([[1.0, 0.0], [3.0, 0.0]]))
    assert_allclose(found, [(1 * 4 + 4 * 1) / 5, 4.0])
    assert_allclose(from_neighbours(at, known, np.array([[1.0, 0.0]]), 1), [1.0])


def check(
    by: str = "random", coverage: float = 0.9, skill: float = 0.3, best: str = "inverse distance", **others: float
) -> Check:
    reached = {0.5: 0.5, 0.8: 0.8, 0.9: coverage, 0.95: 0.95} | {
        float(f"0.{name[1:]}"): x for name, x in others.items()
    }
    return Check(by, "", "", (), (), tuple(reached.items()), skill, best, ())


def words(
    *checks: Check,
    converged: bool = True,
    in_space: Variogram = NO_VARIOGRAM,
    in_time: Autocorrelation = NO_CORRELATION,
    **others: Any,
) -> tuple[str, str, str]:
    verdict = judge(
        converged=converged, message="stopped early", checks=checks, in_space=in_space, in_time=in_time, **others
    )
    return verdict.state, verdict.headline, " ".join(verdict.worries)


def test_a_good_model_is_called_one() -> None:
    state, headline, worries = words(check(), check("station", 0.87, 0.1))
    assert state == "good"
    assert "converged" in headline
    assert "hold 90 %" in headline
    assert "10 to 30 %" in headline
    assert worries == ""


def test_a_model_that_loses_to_a_baseline_says_so() -> None:
    state, headline, worries = words(check(), check("station", 0.9, -0.08, "nearest station"))
    assert state == "poor"
    assert headline.startswith("Do not rely on this")
    assert "does not beat nearest station (hidden stations): prefer that" in headline
    assert "does not beat nearest station (CRPS 8 % higher)" in worries
    assert words(check(skill=float("nan")))[0] == "poor"
    state, headline, _ = words(check(), check("station", 0.9, -0.02))
    assert state == "caution"
    assert "but it does not beat inverse distance (hidden stations)." in headline
    assert words(check(skill=-0.01), check("station", 0.9, -0.02))[0] == "poor"


@pytest.mark.parametrize(
    ("coverage", "state", "said"),
    [(0.8, "caution", "too narrow"), (0.97, "caution", "wider than"), (0.5, "poor", "too narrow")],
)
def test_dishonest_intervals_are_named(coverage: float, state: str, said: str) -> None:
    found, _, worries = words(check(coverage=coverage))
    assert found == state
    assert said in worries
    assert f"{100 * coverage:.0f} %" in worries


def test_what_is_left_in_residuals_is_named() -> None:
    curve = Variogram(np.array([12.0, 50.0]), np.array([0.6, 1.0]), "km")
    lags = np.arange(1.0, 9.0)
    left = Autocorrelation(lags, np.full(8, 0.3), np.full(8, 0.02), "days")
    state, headline, worries = words(check(), in_space=curve, in_time=left)
    assert state == "caution"
    assert headline.startswith("Use with care")
    assert "Neighbours err together: at 12 km" in worries
    assert "correlated (0.30)" in worries
    assert "the model has no level for each place" in worries
    assert "set habits='auto', or add a 'local' component" in worries
    _, _, worries = words(check(), in_time=left, has=("places",))
    assert "more than the levels found for them explain" in worries
    assert "has no level" not in worries


def test_what_a_model_has_is_no_remedy() -> None:
    lags = np.arange(1.0, 15.0)
    left = Autocorrelation(lags, np.where(lags == 12, 0.45, 0.15), np.full(14, 0.02), "months")
    everything = {"has": ("local", "places", "season"), "remedy": MORE_ROWS}
    _, _, worries = words(check(), in_time=left, **everything)
    assert "12 months apart are correlated (0.45): the season in the model does not hold all of it" in worries
    assert "a column that tells such places apart" in worries
    assert "set habits" not in worries
    assert "add a" not in worries
    assert "seasonality=" not in worries


def test_a_cycle_left_in_residuals_is_named() -> None:
    lags = np.arange(1.0, 15.0)
    yearly = Autocorrelation(lags, np.where(lags == 12, 0.45, 0.01), np.full(14, 0.02), "months")
    state, _, worries = words(check(), in_time=yearly)
    assert state == "caution"
    assert "12 months apart are correlated (0.45)" in worries
    assert "seasonality=12" in worries


@pytest.mark.parametrize(
    ("others", "said"),
    [
        ({"c5": 0.59}, "those of 50 % hold 59 %"),
        ({"c8": 0.74}, "of 80 % hold 74 %"),
        ({"c95": 0.99}, "of 95 % hold 99 %"),
    ],
)
def test_every_level_counts(others: dict[str, float], said: str) -> None:
    state, headline, worries = words(check(**others))
    assert state == "caution"
    assert headline.startswith("Use with care")
    assert said in worries
    assert "Set habits='auto'" in worries
    _, _, worries = words(check(**others), remedy=MORE_ROWS)
    assert "more rows may" in worries
    assert "Set habits" not in worries


def test_new_stations_have_a_bar_of_their_own() -> None:
    assert words(check("random", 0.8501))[0] == "good"
    assert words(check("station", 0.8499))[0] == "caution"


def test_a_baseline_as_good_is_named() -> None:
    state, _, worries = words(check(skill=0.03))
    assert state == "caution"
    assert "inverse distance is as good within 5 %" in worries


def test_degenerate_scales_and_noise_that_is_field_are_named() -> None:
    said = "The slow component is 66,300 km long in one direction and 9.8 in another."
    state, _, worries = words(check(), degenerate=[said], unexplained=0.8)
    assert state == "caution"
    assert said in worries
    assert "80 % of the variance of the noise" in worries
    assert words(check(), unexplained=0.3)[0] == "good"


def test_without_checks_nothing_is_claimed() -> None:
    state, headline, worries = words(converged=False)
    assert state == "caution"
    assert headline == "The fit did not converge; nothing was held out, so how good it is remains open."
    assert "stopped early" in worries
