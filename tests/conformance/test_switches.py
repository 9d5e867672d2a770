# SPDX-License-Identifier: MIT
"""Rows by switches give what rows give time by time, and are taken so only where that is exact."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import weft
from tests.engines import chains
from weft.data.layout import Layout
from weft.engines.cpu import CpuEngine, Limits, series
from weft.engines.cpu.problem import forward_sweep, make_problem
from weft.engines.scan import ScanEngine
from weft.state_space.chain import Queries

TIME_BY_TIME = CpuEngine(Limits(threads=1, seconds_for_switches=np.inf))
BY_SWITCHES = {
    "one end": Limits(threads=1, seconds_for_switches=0.0),
    "both ends": Limits(threads=2, seconds_for_two=-1e6, seconds_for_switches=0.0),
    # Every stretch is filtered again from its checkpoint, and slices are as short as they can be.
    "no memory": Limits(threads=1, whole_bytes=0, segment_bytes=0, slice_seconds=1e-9, seconds_for_switches=0.0),
}
STEPS = np.array([0.0, 0.4, 2.0])


def crowd(num_times=170, num_places=40, most=20, seed=30):
    """Two components, a bottleneck of five; one or two rows of twenty change, at one time all, and some times have few or none."""
    rng = np.random.default_rng(seed)
    parts = [chains.matern(1, 1.1, STEPS, 3, 0.8), chains.matern(0, 4.0, STEPS, 2, 1.4)]
    there = rng.permutation(num_places)[:most]
    places = []
    for time in range(num_times):
        absent = np.setdiff1d(np.arange(num_places), there)
        there = np.concatenate([rng.permutation(there)[: -1 - time % 2], rng.permutation(absent)[: 1 + time % 2]])
        if time == 40:
            there = np.setdiff1d(np.arange(num_places), there)[:most]
        places.append(there[: {7: 0, 8: 3, 90: 0}.get(time, len(there))])
    counts = [len(each) for each in places]
    numbers = rng.integers(1, len(STEPS), num_times)
    numbers[0] = 0
    dense = chains.with_rows(rng, parts, counts, num_places, step_number=numbers)
    place = np.concatenate(places)
    return dataclasses.replace(dense, place=place, precision=rng.uniform(0.5, 20.0, num_places)[place])


def given(dense):
    chain, weights, rows = chains.for_engine(dense)
    return chain, weights, dataclasses.replace(rows, is_by_place=True)


def switches_in(arguments, limits=BY_SWITCHES["one end"]):
    problem = make_problem(*arguments)
    return series.switches_of(problem, limits, forward_sweep(problem, problem.num_times, None))


def found(engine, arguments):
    """The value and every gradient, that in precisions summed over the rows of each place."""
    value, (chain, weights, rows) = jax.value_and_grad(lambda a: engine.log_normaliser(*a), allow_int=True)(
        jax.tree.map(jnp.asarray, arguments)
    )
    by_place = np.bincount(arguments[2].place, rows.precision, len(weights))
    names = ("transition", "process_noise", "initial", "readout")
    parts = {
        f"{name} {number}": np.asarray(getattr(part, name))
        for number, part in enumerate(chain.components)
        for name in names
    }
    return {"log normaliser": value, "weights": weights, "value": rows.value, "precision": by_place, **parts}


def assert_equal_to_rounding(mine, theirs, tolerance=1e-10, skipped=()):
    for name, expected in theirs.items():
        if not name.startswith(skipped):
            scale = np.abs(expected).max()
            assert_allclose(mine[name], expected, rtol=0, atol=tolerance * scale, err_msg=name)


@pytest.mark.parametrize("places", [40, 70])
@pytest.mark.parametrize("limits", BY_SWITCHES)
def test_rows_by_switches_are_rows_time_by_time(limits, places):
    """With many more places than rows a time, means are told row by row."""
    arguments = given(crowd(num_places=places))
    switches = switches_in(arguments)
    assert (len(switches.waiting) > 0) == (places == 40)
    # The first, the one at which all change, and two because the sums have grown old.
    assert np.flatnonzero(switches.is_anew == 1).tolist() == [0, 40, 105, 169]
    mine, theirs = found(CpuEngine(BY_SWITCHES[limits]), arguments), found(TIME_BY_TIME, arguments)
    # From both ends matrices have the gradient of the stationary chain: see `tests/conformance/test_engines.py`.
    skipped = ("transition", "process_noise", "initial") if limits == "both ends" else ()
    assert_equal_to_rounding(mine, theirs, skipped=skipped)


def test_rows_by_switches_equal_the_reference():
    arguments = given(crowd(num_times=20, num_places=12, most=9))
    assert switches_in(arguments) is not None
    mine, theirs = (found(engine, arguments) for engine in (CpuEngine(BY_SWITCHES["one end"]), ScanEngine()))
    # Step 0 is an identity whatever the parameters; engines differ in how often they take it.
    skipped = ("transition", "process_noise")
    assert_equal_to_rounding(mine, theirs, tolerance=1e-7, skipped=skipped)


def test_answers_by_switches_are_those_time_by_time():
    chain, weights, rows = chains.for_engine(crowd())
    rng = np.random.default_rng(31)
    queries = Queries(Layout(2 * np.arange(171)), rng.integers(0, 4, 340), rng.normal(size=(4, 5)))
    for filtered in (False, True):
        mine, theirs = (
            engine.moments(chain, weights, rows, queries, filtered=filtered)
            for engine in (CpuEngine(BY_SWITCHES["one end"]), TIME_BY_TIME)
        )
        jax.tree.map(lambda one, other: assert_allclose(one, other, rtol=1e-10, atol=1e-10), mine, theirs)


def test_a_precise_place_that_has_left_leaves_no_rounding_behind():
    """It comes and goes; neither what it sees nor what others do is lost."""
    arguments = given(with_precise_place(crowd(), 2e3))
    switches, place = switches_in(arguments), arguments[2].place
    assert 3 in place[switches.switched[: switches.stop.max()]]
    mine, theirs = found(CpuEngine(BY_SWITCHES["one end"]), arguments), found(TIME_BY_TIME, arguments)
    assert_equal_to_rounding(mine, theirs)


def with_precise_place(dense, precision=1e9):
    return dataclasses.replace(dense, precision=np.where(dense.place == 3, precision, dense.precision))


def twice_at_a_time(dense):
    place = dense.place.copy()
    place[1] = place[0]
    return dataclasses.replace(dense, place=place, precision=np.full(len(place), 2.0))


def one_row_of_its_own(dense):
    precision = dense.precision.copy()
    precision[-1] *= 1 + 1e-15
    return dataclasses.replace(dense, precision=precision)


def others_every_time(dense):
    rng = np.random.default_rng(32)
    counts = np.diff(dense.offsets)
    return dataclasses.replace(
        dense,
        place=np.concatenate([rng.permutation(40)[:count] for count in counts]),
        precision=np.full(len(dense.place), 2.0),
    )


def few_rows(dense):
    return crowd(most=5)


@pytest.mark.parametrize(
    "spoil", [twice_at_a_time, one_row_of_its_own, others_every_time, few_rows, with_precise_place]
)
def test_other_rows_are_taken_time_by_time(spoil):
    arguments = given(spoil(crowd()))
    assert switches_in(arguments) is None
    mine, theirs = found(CpuEngine(BY_SWITCHES["one end"]), arguments), found(TIME_BY_TIME, arguments)
    assert_equal_to_rounding(mine, theirs, tolerance=0.0)


def test_who_has_few_rows_or_asks_for_each_waits_for_no_other_kernels(monkeypatch):
    def refuse():
        raise AssertionError("compiled for nobody")

    chain, weights, rows = given(crowd(num_times=20))
    monkeypatch.setattr(series, "switch_kernels", refuse)
    with pytest.raises(AssertionError, match="compiled for nobody"):
        CpuEngine(BY_SWITCHES["one end"]).log_normaliser(chain, weights, rows)
    CpuEngine().log_normaliser(chain, weights, rows)
    of_rows = dataclasses.replace(rows, is_by_place=False)
    CpuEngine(BY_SWITCHES["one end"]).log_normaliser(chain, weights, of_rows)


def evidence_of(model, data, engine, power):
    return jax.value_and_grad(lambda m: weft.log_evidence(m, data, power=power, engine=engine))(model)


@pytest.mark.parametrize("power", [0.0, 0.5])
def test_the_evidence_asks_for_its_gradient_by_place(power, monkeypatch):
    """And for that by row where rows have noise of their own."""
    dense = crowd(num_times=40)
    rng = np.random.default_rng(33)
    where = rng.uniform(0, 3, (40, 1))
    time_of_row = np.repeat(np.arange(40.0), np.diff(dense.offsets))
    kernel = 0.7 * weft.Separable(space=weft.Matern32(1.0), time=weft.Matern32(6.0))
    model = weft.Model(kernel, weft.Gaussian(0.2), pseudo_points=np.linspace(0, 3, 5)[:, None])
    asked = []
    inner = series.switches_of

    def noted(problem, limits, sweep):
        switches = inner(problem, limits, sweep)
        asked.append(switches is not None)
        return switches

    monkeypatch.setattr(series, "switches_of", noted)
    engine = CpuEngine(BY_SWITCHES["one end"])
    for noise in (None, rng.uniform(0.1, 0.2, len(dense.place))):
        data = weft.Observations(time_of_row, where[dense.place], dense.value, noise)
        mine, theirs = (evidence_of(model, data, each, power) for each in (engine, TIME_BY_TIME))
        jax.tree.map(lambda one, other: assert_allclose(one, other, rtol=1e-9, atol=1e-9), mine, theirs)
    assert asked == [True, False, False, False]
