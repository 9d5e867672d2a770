# SPDX-License-Identifier: MIT
"""A fitted estimator copied and sent elsewhere answers with the same bits; a forked child gets a sentence, never a hang."""

import copy
import functools
import multiprocessing
import pickle
import subprocess
import sys

import joblib
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

import weft
from tests.estimator.test_levels_of_places import ARGUMENTS

ANSWER_ELSEWHERE = """
import pickle, sys
import jax
assert not jax.config.read("jax_enable_x64")
gp, asked = pickle.load(open(sys.argv[1], "rb"))
pickle.dump(gp.predict(asked), open(sys.argv[2], "wb"))
"""


@pytest.fixture(scope="module")
def asked(table) -> pd.DataFrame:
    """Rows seen, a place never seen, and a time after the last."""
    return pd.concat(
        [
            table.iloc[[3, 70]],
            table.iloc[[9]].assign(lon=11.1),
            table.iloc[[20]].assign(time=pd.Timestamp("2021-04-02")),
        ]
    )


def same(found: pd.DataFrame, expected: pd.DataFrame) -> None:
    for name in ("mean", "sd", "latent_sd", "q0.05", "q0.95"):
        assert_array_equal(found[name].to_numpy(), expected[name].to_numpy())


@pytest.mark.parametrize("again", [lambda gp: pickle.loads(pickle.dumps(gp)), copy.deepcopy, copy.copy])
def test_a_copy_answers_with_the_same_bits(fitted, asked, again):
    same(again(fitted).predict(asked), fitted.predict(asked))


def test_a_copy_of_an_updated_estimator_answers_with_the_same_bits(fitted, table, asked):
    later = table.iloc[-6:].assign(time=pd.Timestamp("2021-03-28"))
    updated = copy.deepcopy(fitted).update(later)
    same(pickle.loads(pickle.dumps(updated)).predict(asked), updated.predict(asked))
    assert updated.num_rows_ == fitted.num_rows_ + 6


def test_a_process_without_double_precision_gives_the_same_bits(fitted, asked, tmp_path):
    (tmp_path / "sent").write_bytes(pickle.dumps((fitted, asked)))
    subprocess.run([sys.executable, "-c", ANSWER_ELSEWHERE, tmp_path / "sent", tmp_path / "got"], check=True)
    same(pickle.loads((tmp_path / "got").read_bytes()), fitted.predict(asked))


def test_workers_of_joblib_answer(fitted, asked):
    (found,) = joblib.Parallel(n_jobs=2)(joblib.delayed(fitted.predict)(part) for part in [asked])
    same(found, fitted.predict(asked))


def test_a_spawned_process_answers(fitted, asked):
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        same(pool.apply(fitted.predict, (asked,)), fitted.predict(asked))


@pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning", "ignore:This process:DeprecationWarning")
@pytest.mark.skipif(not hasattr(multiprocessing, "get_context") or sys.platform == "win32", reason="no fork here")
def test_a_forked_child_gets_a_sentence(fitted, asked):
    """It hung: JAX's threads do not come along."""
    fitted.predict(asked)
    posterior = functools.partial(fitted.posterior_.marginals, fitted.posterior_.times[:1])
    with multiprocessing.get_context("fork").Pool(1) as pool:
        for question in (fitted.predict, fitted.score, fitted.sample, fitted.update, fitted.fit, posterior):
            with pytest.raises(RuntimeError, match=r"forked from one that had used weft.*'spawn'"):
                pool.apply_async(question, (asked,)).get(timeout=20)


def test_levels_of_places_travel_too():
    rng = np.random.default_rng(3)
    place = np.tile(np.arange(12), 8)
    x, level = rng.uniform(0, 10, 12), 2.0 * rng.normal(size=12)
    rows = pd.DataFrame({"day": np.repeat(np.arange(8.0), 12), "x": x[place], "y": (x**2)[place]})
    rows["value"] = level[place] + np.sin(rows["day"]) + 0.3 * rng.normal(size=len(rows))
    gp = weft.SpaceTimeGP(**ARGUMENTS | {"max_iterations": 2}, pseudo_points=3).fit(rows)
    assert [habit.name for habit in gp.posterior_.habits()] == ["level"]
    same(pickle.loads(pickle.dumps(gp)).predict(rows), gp.predict(rows))
