# SPDX-License-Identifier: MIT
"""A model that answers for a long time, and many at once: memory does not grow, and threads give the same bits.

`benchmarks/memory.py` does the same 3,000 times and writes down by how much memory grew.
"""

import concurrent.futures
import gc
import pathlib
import threading
from collections.abc import Callable

import jax
import numpy as np
import pandas as pd
import pytest
from benchmarks.memory import kept_value_and_gradient, resident_megabytes

import weft
from tests.estimator.tables import station_table

MODEL = pathlib.Path(__file__).parent.parent / "kept" / "files" / "estimator.weft"
NUM_THREADS = 8


@pytest.fixture(scope="module")
def fitted() -> weft.SpaceTimeGP:
    gp = weft.load(MODEL)
    assert isinstance(gp, weft.SpaceTimeGP)
    return gp


@pytest.fixture(scope="module")
def asked() -> pd.DataFrame:
    return station_table(8).iloc[:40]


@pytest.mark.long
@pytest.mark.skipif(not pathlib.Path("/proc/self/status").exists(), reason="memory is read from /proc here")
@pytest.mark.parametrize("call", ["predict", "value and gradient"])
def test_memory_grew_with_every_call(call: str, fitted: weft.SpaceTimeGP, asked: pd.DataFrame) -> None:
    work: Callable[[], object] = (
        (lambda: fitted.predict(asked)) if call == "predict" else kept_value_and_gradient(fitted.posterior_)
    )
    for _ in range(50):
        work()
    gc.collect()
    before, arrays = resident_megabytes(), len(jax.live_arrays())
    for _ in range(150):
        work()
    gc.collect()
    assert len(jax.live_arrays()) <= arrays
    assert resident_megabytes() < before + 5


def test_eight_threads_predicting_from_one_model_give_the_same_bits(
    fitted: weft.SpaceTimeGP, asked: pd.DataFrame
) -> None:
    """From the start on: what is computed once and kept must not be seen half made."""
    expected = weft.load(MODEL).predict(asked)
    draws = weft.load(MODEL).sample(asked, num=3, seed=1)
    fresh = weft.load(MODEL)
    together = threading.Barrier(NUM_THREADS)

    def ask(number: int) -> tuple[pd.DataFrame, pd.DataFrame]:
        together.wait()
        found = fresh.predict(asked), fresh.sample(asked, num=3, seed=1)
        return found if number % 2 else (fresh.predict(asked), found[1])

    with concurrent.futures.ThreadPoolExecutor(NUM_THREADS) as pool:
        answers = list(pool.map(ask, range(NUM_THREADS)))
    for predicted, sampled in answers:
        pd.testing.assert_frame_equal(predicted, expected, check_exact=True)
        pd.testing.assert_frame_equal(sampled, draws, check_exact=True)
    assert not np.allclose(expected["mean"], expected["mean"].iloc[0])
