# SPDX-License-Identifier: MIT
"""Regions from rows in files: what the same regions answer from rows in memory, with a look at little more than what is asked about."""

import pathlib
import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import weft
from weft.data.layout import Layout
from weft.data.observations import Outline, take_rows
from weft.data.on_disk import NumbersOnDisk, Piece, TemporaryFolder
from weft.inference.division import divide_places
from weft.inference.forgetting import forgotten_after
from weft.inference.habits.base import place_numbers
from weft.inference.on_disk import PosteriorOnDisk, cells_of_places
from weft.inference.regional import RegionalPosterior, condition_regions
from weft.inference.rows_on_disk import RowsOnDisk, Span, join_parts, write_part

NUM_PLACES, NUM_TIMES, NUM_REGIONS = 40, 90, 4
MODEL = weft.Model(
    kernel=0.7 * weft.Separable(space=weft.Matern32([1.5, 0.8]), time=weft.Matern32(0.6))
    + 0.4 * weft.Separable(space=weft.Matern12([0.5, 0.6]), time=weft.Matern12(0.9)),
    likelihood=weft.Gaussian(0.2),
)


def made(num_times: int = NUM_TIMES, first: float = 0.0) -> weft.Observations:
    """Rows at most times of most places, each with noise of its own."""
    rng = np.random.default_rng(3)
    places = rng.uniform(0, 6, (NUM_PLACES, 2))
    time, place = np.repeat(np.arange(num_times), NUM_PLACES), np.tile(np.arange(NUM_PLACES), num_times)
    kept = rng.uniform(size=len(time)) < 0.8
    time, place = first + time[kept] * 1.0, place[kept]
    value = np.sin(places[place, 0] + time / 5) + 0.4 * rng.normal(size=len(time))
    return weft.Observations(time, places[place], value, rng.uniform(0.01, 0.3, len(time)))


def outline_of(data: weft.Observations) -> Outline:
    return Outline(data.times, data.places, Layout(data.layout.offsets), data.rows_of_places, data.noise_of_places)


def on_disk(data: weft.Observations, *, is_by_time: bool = True) -> PosteriorOnDisk:
    """The rows in three parts: stretches of time, or places."""
    division = divide_places(MODEL, outline_of(data), num_regions=NUM_REGIONS)
    cells = cells_of_places(division, len(data.places))
    folder = TemporaryFolder()
    key = np.asarray(data.grouping.time_of_row if is_by_time else data.grouping.place_of_row)
    parts = []
    for number, rows in enumerate(np.array_split(np.argsort(key, kind="stable"), 3)):
        part = take_rows(data, np.sort(rows))
        parts.append(write_part(folder.path, number, part, place_numbers(data.places, part.places), cells))
    return PosteriorOnDisk(MODEL, division, join_parts(parts, data.times, data.places, folder), engine="auto")


DATA = made()
ASKED = np.array([3.0, 3.5, 4.0, 80.0, 81.2]), np.array([[1.0, 1.0], [2.9, 3.1], [5.0, 0.5], [3.0, 3.0], [0.2, 5.9]])


@pytest.fixture(scope="module")
def in_memory() -> RegionalPosterior:
    return condition_regions(MODEL, DATA, num_regions=NUM_REGIONS)


@pytest.mark.parametrize("is_by_time", [True, False])
def test_answers_are_those_from_memory(in_memory, is_by_time):
    found = on_disk(DATA, is_by_time=is_by_time)
    for question in ("marginals", "filtered", "components"):
        mine, theirs = (getattr(each, question)(*ASKED) for each in (found, in_memory))
        assert_allclose(np.array(mine), np.array(theirs), rtol=1e-9, atol=1e-10, err_msg=question)
    assert_allclose(found.log_evidence, in_memory.log_evidence, rtol=1e-10)
    assert_array_equal(found.times, in_memory.times)
    assert_array_equal(found.basis_places, in_memory.basis_places)


@pytest.mark.parametrize("seen", [slice(None), slice(0, 35)], ids=["all places", "some places only later"])
def test_regions_that_leave_something_out_leave_out_what_they_would_in_memory(monkeypatch, seen):
    """It goes by all rows of a region, also where it is told of some times only, and then of some of its places."""
    monkeypatch.setattr("weft.inference.division.REGIONS_WORK", 1.0)
    is_early = np.asarray(DATA.row_times) < 60
    is_there = np.isin(np.asarray(DATA.grouping.place_of_row), np.arange(NUM_PLACES)[seen])
    data = take_rows(DATA, np.flatnonzero(is_there | ~is_early))
    found, theirs = on_disk(data), condition_regions(MODEL, data, num_regions=NUM_REGIONS)
    assert found.division.share == theirs.division.share > 0
    assert not theirs.region(0).model.is_exact
    for question in ("marginals", "filtered", "components"):
        mine, others = (getattr(each, question)(*ASKED) for each in (found, theirs))
        assert_allclose(np.array(mine), np.array(others), rtol=1e-9, atol=1e-9, err_msg=question)
    assert_allclose(found.log_evidence, theirs.log_evidence, rtol=1e-10)
    drawn = [each.aggregate(ASKED[0][:2], ASKED[1][:2], np.ones(2)) for each in (found, theirs)]
    assert_allclose(drawn[0].mean, drawn[1].mean, rtol=1e-9)


def test_only_rows_near_the_times_asked_about_are_read(monkeypatch):
    """The memory of this model is some 30 times, of 90."""
    found = on_disk(DATA)
    read = []
    inner = RowsOnDisk.read

    def noted(self, cells, is_wanted, span=None):
        data = inner(self, cells, is_wanted, span)
        read.append((span, data.times))
        return data

    monkeypatch.setattr(RowsOnDisk, "read", noted)
    found.marginals(*ASKED)
    remembers = forgotten_after(MODEL)
    assert 15 < remembers < 35
    # Times 3 to 4 and 80 to 81.2 are too far apart to be asked about together.
    assert {span.first < 0 for span, _ in read} == {True, False}
    for span, times in read:
        assert span.last - span.first < 2 * remembers + 2
        assert times.min() >= span.first
        assert times.max() <= span.last


def test_far_from_all_rows_a_region_says_what_it_knows(in_memory):
    far = np.array([500.0]), np.array([[1.0, 1.0]])
    assert_allclose(on_disk(DATA).marginals(*far), in_memory.marginals(*far), atol=1e-12)


def test_joint_answers_about_all_times_are_those_from_memory(in_memory):
    times = np.array([5.0, 45.0, 85.0, 5.0])
    places = np.array([[0.5, 0.5], [5.5, 0.5], [0.5, 5.5], [5.5, 5.5]])
    found = on_disk(DATA)
    draws = found.sample(times, places, num=3, seed=2)
    assert draws.shape == (3, 4)
    # Where all regions have a say and the whole series is near, the draws are the same ones.
    wide = np.concatenate([times, DATA.row_times[::40]]), np.concatenate([places, DATA.row_places[::40]])
    assert_allclose(found.sample(*wide, num=2, seed=1), in_memory.sample(*wide, num=2, seed=1), rtol=1e-9, atol=1e-9)
    one = times[:1], places[:1]
    assert found.is_exact_over(*one)
    assert not found.is_exact_over(times, places)
    assert_allclose(
        found.aggregate(*one, np.array([2.0])), in_memory.aggregate(*one, np.array([2.0])), rtol=1e-9, atol=1e-12
    )
    assert_allclose(found.covariance(*one), in_memory.covariance(*one), rtol=1e-9)


def test_new_rows_go_where_their_places_are():
    """Rows at known places and at a new one, some with noise of their own, beside rows that have some."""
    before, more = made(20), made(25, first=15.0)
    rows = np.flatnonzero(more.row_times >= 20)
    new = np.concatenate([more.row_places[rows], [[3.0, 2.0]]]), np.append(more.row_times[rows], 22.0)
    more = weft.Observations(new[1], new[0], np.append(np.asarray(more.values)[rows], 1.5))
    found = on_disk(before).update(more)
    assert found.stored.num_rows == before.num_rows + more.num_rows
    assert len(found.basis_places) == NUM_PLACES + 1
    everything = np.ones(len(found.basis_places), dtype=bool)
    rows = found.stored.read(range(NUM_REGIONS), everything)
    both = joined(before, more)
    order, wanted = (np.lexsort((*each.row_places.T, each.row_times)) for each in (rows, both))
    for name in ("row_times", "row_places", "values", "noise_variance"):
        assert_array_equal(np.asarray(getattr(rows, name))[order], np.asarray(getattr(both, name))[wanted])
    # Regions as they were, each with all that it sees of both.
    seen = found.division.regions
    assert all(
        len(after.rows) >= len(first.rows) for after, first in zip(seen, on_disk(before).division.regions, strict=True)
    )
    assert_array_equal(
        np.sort(np.concatenate([region.rows[region.is_core] for region in seen])), np.arange(NUM_PLACES + 1)
    )
    assert np.all(np.isfinite(found.marginals(np.array([22.0]), np.array([[3.0, 2.0]]))))


def joined(first: weft.Observations, second: weft.Observations) -> weft.Observations:
    noise = np.concatenate([np.asarray(first.noise_variance), np.zeros(second.num_rows)])
    return weft.Observations(
        np.concatenate([first.row_times, second.row_times]),
        np.concatenate([first.row_places, second.row_places]),
        np.concatenate([np.asarray(first.values), np.asarray(second.values)]),
        noise,
    )


def test_a_file_holds_the_rows_and_answers_from_them(tmp_path):
    found = on_disk(DATA)
    found.save(tmp_path / "posterior.weft")
    expected = found.marginals(*ASKED)
    folder = pathlib.Path(found.stored.folders[0].path)
    assert folder.is_dir()
    del found
    assert not folder.exists()
    loaded = weft.load(tmp_path / "posterior.weft")
    assert isinstance(loaded, PosteriorOnDisk)
    assert_array_equal(loaded.marginals(*ASKED), expected)
    assert_array_equal(pickle.loads(pickle.dumps(loaded)).marginals(*ASKED), expected)
    loaded.save(tmp_path / "again.weft")
    assert_array_equal(weft.load(tmp_path / "again.weft").marginals(*ASKED), expected)
    loaded.save(tmp_path / "posterior.weft")
    with pytest.raises(ValueError, match=r"has been written anew since the model was loaded from it; load it again"):
        loaded.marginals(*ASKED)


def test_a_file_whose_rows_are_spoiled_is_refused(tmp_path):
    found = on_disk(DATA)
    found.save(tmp_path / "posterior.weft")
    whole = (tmp_path / "posterior.weft").read_bytes()
    values = found.stored.columns["values"].read(0, 5).tobytes()
    at = whole.index(values)
    (tmp_path / "posterior.weft").write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
    with pytest.raises(ValueError, match=r"is not a file weft can read: it is damaged"):
        weft.load(tmp_path / "posterior.weft")


def test_what_needs_all_rows_at_once_is_refused_in_a_sentence():
    found = on_disk(DATA)
    assert found.batches == ()
    for question in (found.fitted_values, found.one_step_ahead):
        with pytest.raises(
            ValueError, match=r"a model of a table in parts has no .* of all rows at once; predict the table"
        ):
            question()


def test_numbers_in_several_files_are_one_column(tmp_path):
    numbers = np.arange(10.0)
    for number, part in enumerate((numbers[:4], numbers[4:4], numbers[4:])):
        np.concatenate([[-1.0], part]).tofile(tmp_path / str(number))
    column = NumbersOnDisk(
        np.dtype("<f8"), tuple(Piece(str(tmp_path / str(number)), 8, num) for number, num in enumerate((4, 0, 6)))
    )
    assert len(column) == 10
    for start, stop in ((0, 10), (2, 4), (3, 7), (4, 5), (9, 10), (5, 5)):
        assert_array_equal(column.read(start, stop), numbers[start:stop])
    assert_array_equal(np.concatenate(list(column.chunks())), numbers)
    (tmp_path / "2").write_bytes((tmp_path / "2").read_bytes()[:-8])
    with pytest.raises(ValueError, match=r"is cut short: rows of the model are missing"):
        column.read(8, 10)
    (tmp_path / "2").unlink()
    with pytest.raises(FileNotFoundError, match=r"rows of the model are in .*, which is not there"):
        column.read(8, 10)


@pytest.mark.parametrize(
    "kernel", [weft.Matern12(2.0), weft.Matern32(2.0), weft.Matern52(0.7), weft.Matern72(3.0), weft.EQ(5.0)]
)
def test_beyond_its_memory_a_model_knows_nothing(kernel):
    after = forgotten_after(weft.Model(weft.Separable(space=weft.EQ(1.0), time=kernel), weft.Gaussian(1.0)))
    left = np.asarray(kernel(np.zeros(1), after * np.array([1.0, 1.5, 4.0])))[0]
    assert np.all(left < 1e-12)
    assert kernel(np.zeros(1), np.array([after / 2]))[0, 0] > 1e-12


def test_a_season_is_never_forgotten_unless_it_changes():
    def after(*kernels: weft.Kernel) -> float:
        parts = [weft.Separable(space=weft.EQ(1.0), time=kernel) for kernel in kernels]
        return forgotten_after(weft.Model(weft.SumSeparable(parts), weft.Gaussian(1.0)))

    slow, season = weft.Matern32(4.0), weft.Periodic(12.0)
    assert after(season) == after(slow, weft.Constant()) == np.inf
    assert after(season * slow) == after(slow) == after(slow, weft.Matern32(1.0)) == after(3.0 * slow)
    assert after(season + slow) == np.inf


def test_spans_are_closed():
    rows = on_disk(DATA).stored
    everywhere = np.ones(NUM_PLACES, dtype=bool)
    found = rows.read(range(NUM_REGIONS), everywhere, Span(10.0, 12.0))
    assert found.times.tolist() == [10.0, 11.0, 12.0]
    assert found.num_rows == np.count_nonzero((DATA.row_times >= 10) & (DATA.row_times <= 12))
    assert rows.read(range(NUM_REGIONS), everywhere, Span(200.0, 300.0)) is None
