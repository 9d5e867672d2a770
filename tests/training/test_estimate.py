# SPDX-License-Identifier: MIT
"""Estimates of cost: the formula against what a process is seen to take, and refusals."""

import json
import pathlib
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import weft
from tests.training.problem import two_components
from weft.data.layout import Layout
from weft.engines.base import Shape
from weft.engines.choose import named_engine
from weft.training import estimate as estimating
from weft.training.estimate import memory_needed, shape_of


def even_shape(num_times, num_rows, num_places, num_bottleneck, num_latent):
    """As many rows at every time."""
    return Shape(Layout(num_rows * np.arange(num_times + 1)), num_places, num_bottleneck, num_latent * num_bottleneck)


MEASURED = """
    import json, pathlib
    import jax
    jax.config.update("jax_enable_x64", True)
    import numpy as np
    import weft

    def build(num_times, num_rows, num_places, num_pseudo):
        rng = np.random.default_rng(0)
        stations = rng.uniform(0, 10, (num_places, 2))
        times = np.repeat(np.arange(float(num_times)), num_rows)
        places = stations[rng.integers(0, num_places, len(times))]
        kernel = weft.Separable(space=weft.Matern32(2.0), time=weft.Matern52(20.0))
        model = weft.Model(kernel, weft.Gaussian(0.3), rng.uniform(0, 10, (num_pseudo, 2)))
        return model, weft.Observations(times, places, rng.normal(size=len(times)))

    def status(name):
        lines = pathlib.Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name))

    def evaluate(model, data):
        jax.block_until_ready(jax.value_and_grad(weft.log_evidence)(model, data))

    evaluate(*build(20, 3, 5, 4))
    model, data = build({times}, {rows}, {places}, {pseudo})
    pathlib.Path("/proc/self/clear_refs").write_text("5")
    held = status("VmRSS")
    evaluate(model, data)
    print(json.dumps(status("VmHWM") - held))
"""


@pytest.mark.skipif(not pathlib.Path("/proc/self/clear_refs").exists(), reason="peak memory is read as Linux tells it")
@pytest.mark.parametrize("sizes", [(380, 60, 60, 80), (40, 8000, 20000, 20)])
def test_memory_is_within_thirty_percent(sizes):
    """A state that dominates, and rows and places that do; large beside the tens of megabytes that compiling may take."""
    times, rows, places, pseudo = sizes
    code = textwrap.dedent(MEASURED).format(times=times, rows=rows, places=places, pseudo=pseudo)
    output = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    measured = json.loads(output.splitlines()[-1])
    shape = even_shape(times, rows, min(places, times * rows), pseudo, 3)
    assert abs(memory_needed(shape, named_engine("cpu")) - measured) < 0.3 * measured


def test_shape_counts_components_features_and_the_mean():
    model, data = two_components()
    shape = shape_of(model, data)
    assert shape == Shape(data.grouping.layout, 11, 5 + 7, 2 * 5 + 7)
    trend = weft.Separable(space=weft.Linear([1.0, 2.0]), time=weft.Matern32(5.0))
    with_trend = weft.Model(model.kernel + trend, model.likelihood, None, weft.ConstantMean())
    # Every place for both components, two features of the trend with two latent dimensions each, one for the constant.
    assert shape_of(with_trend, data).num_bottleneck == 11 + 11 + 2 + 1
    assert shape_of(with_trend, data).num_state == 22 + 11 + 4 + 1


def test_memory_grows_as_the_engines_say():
    small, long, wide = (even_shape(t, 50, 50, q, 3) for t, q in ((10_000, 50), (40_000, 50), (10_000, 200)))
    cpu = named_engine("cpu")
    for name, growth in (("scan", 2.0), ("parallel", 4.0)):
        engine = named_engine(name)
        rows = 8 * 22 * 50
        ratio = (memory_needed(long, engine) - rows * 40_000) / (memory_needed(small, engine) - rows * 10_000)
        assert growth * 0.85 < ratio < growth * 1.05
    assert memory_needed(wide, cpu) > 1.5 * memory_needed(small, cpu)
    assert memory_needed(small, cpu, gradient=False) < 0.5 * memory_needed(small, cpu)


def test_estimate_of_a_small_problem():
    model, data = two_components()
    found = weft.estimate(model, data)
    assert 0 < found.seconds_per_evaluation < 5
    assert found.memory_bytes < found.available_bytes
    assert found.engine == "cpu"
    assert "12 pseudo-points" in str(found)
    assert weft.estimate(model, data, gradient=False).memory_bytes < found.memory_bytes


def test_a_stretch_stands_for_the_whole(monkeypatch):
    """With a clock that counts rows and steps, a trial on a part of the series gives the time of all of it."""
    rng = np.random.default_rng(0)
    times = np.repeat(np.arange(400.0), 6)
    data = weft.Observations(times, np.tile(rng.uniform(0, 3, (6, 1)), (400, 1)), rng.normal(size=len(times)))
    model = weft.Model(weft.Separable(space=weft.EQ(1.0), time=weft.Matern12(2.0)), weft.Gaussian(0.5))
    lengths = []
    genuine = estimating.stretch

    def watched(chain, rows, length):
        lengths.append(length)
        return genuine(chain, rows, length)

    monkeypatch.setattr(estimating, "stretch", watched)
    monkeypatch.setattr(estimating, "best_time", lambda function: 0.25 + 0.01 * lengths[-1] if lengths else 0.5)
    seconds = weft.estimate(model, data).seconds_per_evaluation
    assert lengths == [32, 64]
    # 0.5 for the features, 0.25 for any call, 0.01 a time.
    np.testing.assert_allclose(seconds, 0.5 + 0.25 + 0.01 * 400, rtol=1e-9)


def test_what_does_not_fit_is_refused_with_what_to_change(monkeypatch):
    model, data = two_components()
    monkeypatch.setattr(estimating, "available_memory", lambda: 1_000_000)
    for call in (weft.fit, weft.estimate):
        with pytest.raises(MemoryError, match=r"12 pseudo-points.*fewer pseudo-points.*coarser time step"):
            call(model, data)


def test_available_memory_is_sensible():
    assert 10**7 < estimating.available_memory() < 10**14
