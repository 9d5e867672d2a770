# SPDX-License-Identifier: MIT
"""A fit killed while regions answer goes on: none of those that had answered is asked again."""

import collections
import os
import pathlib
import signal
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

import weft
from weft.inference import regional
from weft.inference.executor import Threads, running_on
from weft.inference.kept_answers import KeptAnswers, answers_kept
from weft.inference.regional import condition_regions

TABLE_SEED, REGIONS = 3, 3


def table() -> pd.DataFrame:
    """Stations with noise of their own, so that all rows are asked about while a fit looks for habits."""
    rng = np.random.default_rng(TABLE_SEED)
    places = pd.DataFrame({"x": rng.uniform(0, 9, 12), "y": rng.uniform(0, 7, 12), "rough": rng.uniform(0.1, 2.0, 12)})
    rows = places.merge(pd.DataFrame({"day": np.arange(70.0)}), how="cross")
    return rows.assign(value=np.sin(rows["x"] + rows["day"] / 9) + rows["rough"] * rng.normal(size=len(rows)))


def fitted(checkpoint: pathlib.Path, *, resume: bool) -> weft.SpaceTimeGP:
    gp = weft.SpaceTimeGP(
        time="day",
        space=("x", "y"),
        target="value",
        regions=REGIONS,
        components=("slow", "fast"),
        max_iterations=2,
        progress=None,
    )
    with running_on(Threads(1)):
        return gp.fit(table(), checkpoint=checkpoint, resume=resume)


def counted(asked: collections.Counter, kill_after: int | None = None):
    """What regions are asked in this process, and its end by SIGKILL after so many answers."""
    inner = regional._answer

    def answer(question, region, told):
        if sum(asked.values()) == kill_after:
            os.kill(os.getpid(), signal.SIGKILL)
        asked[question.__name__] += 1
        return inner(question, region, told)

    return answer


def test_after_kill_9_no_region_is_asked_twice(tmp_path, monkeypatch):
    """In a process of its own, killed in the middle of a pass over regions."""
    whole: collections.Counter = collections.Counter()
    monkeypatch.setattr(regional, "_answer", counted(whole))
    expected = fitted(tmp_path / "whole", resume=False)
    assert not (tmp_path / "whole.regions").exists()
    asked = sum(whole.values())
    assert asked >= REGIONS
    done = asked - 1
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path / "fit"), str(done)], capture_output=True, text=True, check=False
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert (tmp_path / "fit.regions").stat().st_size > 0
    again: collections.Counter = collections.Counter()
    monkeypatch.setattr(regional, "_answer", counted(again))
    found = fitted(tmp_path / "fit", resume=True)
    assert sum(again.values()) == asked - done
    assert not (tmp_path / "fit.regions").exists()
    assert_array_equal(found.predict(table()[:20])["mean"], expected.predict(table()[:20])["mean"])
    assert_array_equal(found.predict(table()[:20])["sd"], expected.predict(table()[:20])["sd"])


KILLED = """
import collections, pathlib, sys
from weft.inference import regional
from tests.estimator.test_regions_resumed import counted, fitted
regional._answer = counted(collections.Counter(), kill_after=int(sys.argv[2]))
fitted(pathlib.Path(sys.argv[1]), resume=False)
"""


def posterior(noise: float = 0.3) -> regional.RegionalPosterior:
    rng = np.random.default_rng(1)
    kernel = weft.Separable(space=weft.Matern32([1.2, 0.9]), time=weft.Matern32(4.0))
    data = weft.Observations(rng.uniform(0, 9, 90), rng.uniform(0, 5, (90, 2)), rng.normal(size=90))
    return condition_regions(weft.Model(kernel, weft.Gaussian(noise)), data, num_regions=3)


def test_answers_are_of_one_question_about_one_model_only(tmp_path, monkeypatch):
    """Of other times, another model or another region a region is asked anew, and says what it says without a file."""
    asked: collections.Counter = collections.Counter()
    times, places = np.array([1.0, 4.0, 8.0]), np.array([[1.0, 1.0], [2.0, 4.0], [4.0, 2.0]])
    questions = [
        lambda: posterior().marginals(times, places),
        lambda: posterior().marginals(times + 1, places),
        lambda: posterior(0.4).marginals(times, places),
        lambda: posterior().filtered(times, places),
    ]
    plain = [question() for question in questions]
    monkeypatch.setattr(regional, "_answer", counted(asked))

    def ask_and_stop() -> None:
        for question, expected in zip(questions, plain, strict=True):
            before = sum(asked.values())
            assert_array_equal(question(), expected)
            assert sum(asked.values()) > before
        raise InterruptedError

    with pytest.raises(InterruptedError), answers_kept(tmp_path / "kept", go_on=False):
        ask_and_stop()
    first = sum(asked.values())
    with answers_kept(tmp_path / "kept", go_on=True):
        for question, expected in zip(questions, plain, strict=True):
            assert_array_equal(question(), expected)
        assert sum(asked.values()) == first
        assert posterior().log_evidence == pytest.approx(posterior().log_evidence, rel=1e-12)
    assert not (tmp_path / "kept").exists()


def test_a_record_that_was_cut_off_or_spoiled_is_not_there(tmp_path):
    keys = [bytes([number]) * 32 for number in range(3)]
    kept = KeptAnswers(tmp_path / "kept", go_on=True)
    for number, key in enumerate(keys):
        kept.keep(key, np.full(5, float(number)))
    content = (tmp_path / "kept").read_bytes()
    for spoiled in (content[:-1], content[:-30], content[:-1] + bytes([content[-1] ^ 1])):
        (tmp_path / "kept").write_bytes(spoiled)
        again = KeptAnswers(tmp_path / "kept", go_on=True)
        assert [key in again for key in keys] == [True, True, False]
        again.keep(keys[2], np.full(2, 7.0))
        assert_array_equal(again.answer(keys[1]), np.full(5, 1.0))
        assert_array_equal(KeptAnswers(tmp_path / "kept", go_on=True).answer(keys[2]), np.full(2, 7.0))
    assert keys[0] not in KeptAnswers(tmp_path / "kept", go_on=False)
    assert not (tmp_path / "kept").exists()


def test_a_file_of_something_else_is_left_alone(tmp_path):
    (tmp_path / "mine").write_text("dear diary")
    with pytest.raises(ValueError, match="holds no answers of regions; remove it"):
        KeptAnswers(tmp_path / "mine", go_on=False)
    assert (tmp_path / "mine").read_text() == "dear diary"
