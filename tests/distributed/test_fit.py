# SPDX-License-Identifier: MIT
"""Learning and conditioning on workers: the numbers of this process, whoever computes them and whoever dies meanwhile."""

import equinox as eqx
import jax
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import weft
from tests.distributed.deadly import Deadly, Failing
from weft.distributed import Processes, TaskError, tasks_on
from weft.distributed.on_dask import OnDask

MODEL = weft.Model(
    kernel=0.7 * weft.Separable(space=weft.Matern32([1.5, 0.8]), time=weft.Matern32(6.0))
    + 0.4 * weft.Separable(space=weft.Matern12([0.5, 0.6]), time=weft.Matern12(1.5)),
    likelihood=weft.Gaussian(0.2),
)


def floats(count: int, seed: int = 5) -> pd.DataFrame:
    """Rows at places of their own, so that regions answer."""
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(
        {"x": rng.uniform(0, 9, count), "y": rng.uniform(0, 7, count), "day": rng.uniform(0, 40, count)}
    )
    wave = np.sin(table["x"]) + np.cos(0.7 * table["y"] + 0.1 * table["day"])
    return table.assign(value=wave + 0.3 * rng.normal(size=count))


def block(number: int) -> weft.Observations:
    """Blocks differ in their numbers of rows, and one has noise of its own."""
    rows = floats(20 + number, seed=number)
    noise = 0.1 if number == 2 else None
    return weft.Observations(rows["day"], rows[["x", "y"]], rows["value"], noise)


BLOCKS = [block(number) for number in range(5)]


def numbers(client=None, **options) -> np.ndarray:
    """Evidence, and every parameter learned with its standard error."""
    result = weft.fit(MODEL, BLOCKS, max_iterations=3, progress=None, client=client, **options)
    return np.concatenate([[result.log_evidence], *(np.ravel(value) for value in result.parameters.values())])


@pytest.fixture(scope="module")
def learned_here() -> np.ndarray:
    return numbers()


def test_blocks_teach_the_same_to_the_bit_however_many_workers_there_are(learned_here, client, addresses):
    found = [numbers(OnDask(client, addresses[:count])) for count in (1, 2, 3)]
    assert_allclose(found[0], learned_here, rtol=1e-9)
    assert_array_equal(found[1], found[0])
    assert_array_equal(found[2], found[0])


def test_a_worker_killed_while_it_learns_changes_no_number(learned_here, client, tmp_path):
    found = numbers(Deadly(OnDask(client), tmp_path / "died", "blocks 0 to"))
    assert (tmp_path / "died").exists()
    assert_allclose(found, learned_here, rtol=1e-9)


def test_a_client_that_was_killed_goes_on_from_its_checkpoint(client, tmp_path):
    """The optimiser is at the client, and so is all that has to be remembered."""

    class Killed(BaseException):
        pass

    def die_at_second(step) -> None:
        if step.iteration == 2:
            raise Killed

    options = {"frozen": ["*.lengthscale"], "progress": None, "tolerance": 1e-13, "gradient_tolerance": 1e-6}
    with pytest.raises(Killed):
        weft.fit(MODEL, BLOCKS, checkpoint=tmp_path / "fit", callback=die_at_second, client=client, **options)
    resumed = weft.fit(MODEL, BLOCKS, checkpoint=tmp_path / "fit", resume=True, client=client, **options)
    whole = weft.fit(MODEL, BLOCKS, **options)
    assert resumed.converged
    assert_allclose(resumed.log_evidence, whole.log_evidence, rtol=1e-8)


@pytest.mark.long
def test_counts_search_their_sites_on_workers_too(client):
    rng = np.random.default_rng(6)
    blocks = [
        weft.Observations(rng.uniform(0, 5, 12), rng.normal(size=(12, 1)), rng.poisson(3.0, 12).astype(float))
        for _ in range(2)
    ]
    start = weft.Model(weft.Separable(space=weft.EQ(1.0), time=weft.Matern12(2.0)), weft.Poisson(), mean=None)
    here, there = (
        weft.fit(start, blocks, max_iterations=1, progress=None, engine="dense", client=each) for each in (None, client)
    )
    assert_allclose(there.log_evidence, here.log_evidence, rtol=1e-9)
    assert there.num_engine_calls == here.num_engine_calls


TABLE, ASKED = floats(120), floats(12, seed=6)


def fitted(client=None) -> weft.SpaceTimeGP:
    gp = weft.SpaceTimeGP(
        time="day",
        space=("x", "y"),
        target="value",
        regions=2,
        components=("slow", "fast"),
        max_iterations=2,
        progress=None,
        habits=None,
    )
    return gp.fit(TABLE, client=client)


def answers(gp: weft.SpaceTimeGP) -> np.ndarray:
    predicted = gp.predict(ASKED)[["mean", "sd", "latent_sd", "q0.05", "q0.95"]]
    drawn = gp.sample(ASKED, num=2, seed=3)[["draw_0", "draw_1"]]
    return np.concatenate([predicted.to_numpy(), drawn.to_numpy()], axis=1)


@pytest.fixture(scope="module")
def local() -> weft.SpaceTimeGP:
    return fitted()


def test_a_fit_by_workers_is_the_ordinary_object_and_file(local, client, tmp_path):
    fitted(client).save(tmp_path / "model.weft")
    found = weft.load(tmp_path / "model.weft")
    assert_allclose(found.result_.log_evidence, local.result_.log_evidence, rtol=1e-9)
    assert_allclose(answers(found), answers(local), rtol=1e-9, atol=1e-9)


def test_regions_answer_on_workers_also_where_one_dies(local, client, tmp_path):
    here = answers(local), local.posterior_.log_evidence, local.posterior_.fitted_values()
    with tasks_on(Deadly(OnDask(client), tmp_path / "died", "region 1")):
        there = answers(local), local.posterior_.log_evidence, local.posterior_.fitted_values()
    assert (tmp_path / "died").exists()
    for mine, theirs in zip(here, there, strict=True):
        assert_allclose(theirs, mine, rtol=1e-9, atol=1e-9)


def test_regions_answer_the_same_to_the_bit_from_one_worker_and_from_two(local, client, addresses):
    found = []
    for count in (1, 2):
        with tasks_on(OnDask(client, addresses[:count])):
            found.append((answers(local), local.posterior_.log_evidence, local.posterior_.fitted_values()))
    for one, two in zip(*found, strict=True):
        assert_array_equal(one, two)


@pytest.mark.long
def test_regions_answer_the_same_to_the_bit_from_one_process_and_from_two(local):
    found = []
    for count in (1, 2):
        with Processes(count) as executor, tasks_on(executor):
            found.append((answers(local), local.posterior_.log_evidence, local.posterior_.fitted_values()))
    for one, two in zip(*found, strict=True):
        assert_array_equal(one, two)


def test_an_error_in_a_region_is_a_sentence_with_the_region_and_its_times(local, client):
    sentence = r"^region 1, \d+ rows at times -?[\d.e-]+ to [\d.e-]+ failed on a worker: its rows are cursed$"
    with tasks_on(Failing(OnDask(client), "region 1,")), pytest.raises(TaskError, match=sentence):
        local.posterior_.fitted_values()


def test_folds_are_scored_on_workers(local, client):
    expected = local.cross_validate(TABLE, by="random", folds=2)
    with tasks_on(client):
        found = local.cross_validate(TABLE, by="random", folds=2)
    pd.testing.assert_frame_equal(found, expected, rtol=1e-9)


def series() -> tuple[weft.Model, weft.Observations]:
    """Few places and many times, some of which have no row at all."""
    rng = np.random.default_rng(8)
    times = np.sort(rng.choice(np.arange(300.0), 400))
    places = rng.integers(0, 3, 400)[:, None].astype(float)
    kernel = 0.6 * weft.Separable(space=weft.EQ(1.0), time=weft.Matern32(9.0))
    kernel += 0.4 * weft.Separable(space=weft.EQ(2.0), time=weft.Matern12(2.0))
    return weft.Model(kernel, weft.Gaussian(0.3)), weft.Observations(times, places, rng.normal(size=400))


def test_blocks_of_times_on_workers_are_one_series_also_where_one_dies(client, addresses, tmp_path):
    """Value, gradient and moments: those of the sequential engine, and the same to the bit from one worker and from three."""
    model, data = series()
    asked = np.array([3.5, 150.0, 299.5]), np.array([[0.0], [1.0], [1.5]])

    def numbers(engine: str) -> np.ndarray:
        value, gradient = eqx.filter_value_and_grad(lambda each: weft.log_evidence(each, data, engine=engine))(model)
        moments = weft.condition(model, data, engine=engine).marginals(*asked)
        return np.concatenate([[value], *(np.ravel(leaf) for leaf in jax.tree.leaves(gradient)), *moments])

    found = []
    for executor in (OnDask(client, addresses[:1]), Deadly(OnDask(client), tmp_path / "died", "times 0 to")):
        with tasks_on(executor):
            found.append(numbers("time_blocks"))
    assert (tmp_path / "died").exists()
    assert_allclose(found[0], numbers("scan"), rtol=1e-9, atol=1e-9)
    assert_array_equal(found[1], found[0])
