# SPDX-License-Identifier: MIT
"""Engines as values: found by name, passed as they are, chosen by their cost, sent to other processes."""

import copy
import dataclasses
import multiprocessing
import pathlib
import pickle
import sys
import tomllib

import numpy as np
import pytest
from numpy.testing import assert_allclose

import weft
from tests.engines import chains
from tests.training.problem import two_components
from weft.data.layout import Layout
from weft.engines import choose
from weft.engines.base import Cost, Shape
from weft.engines.choose import choose_engine, engine_names, named_engine
from weft.engines.cpu import CpuEngine, Limits
from weft.engines.scan import ScanEngine

ROOT = pathlib.Path(__file__).parents[2]
ENGINES = [*map(named_engine, choose.BUILT_IN), CpuEngine(Limits(threads=1, whole_bytes=7))]


@dataclasses.dataclass(frozen=True)
class Priced(ScanEngine):
    """The reference under another name and at a price a row."""

    flops: float = 1.0

    @property
    def name(self):
        return "priced"

    def cost(self, shape, *, gradient=True):
        return Cost(self.flops * shape.num_rows, 0)


def even_shape(num_times, num_rows, num_bottleneck=10, num_latent=2):
    return Shape(Layout(num_rows * np.arange(num_times + 1)), 50, num_bottleneck, num_latent * num_bottleneck)


def test_what_is_installed_is_what_is_there_without_metadata():
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"][choose.GROUP]
    assert declared == choose.BUILT_IN
    for name in choose.BUILT_IN:
        assert named_engine(name).name == name


def test_an_engine_of_another_package_is_found_by_its_entry_point(tmp_path, monkeypatch):
    folder = tmp_path / "looms-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: looms\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text("[weft.engines]\njacquard = looms:Jacquard\nbroken = looms:broken\n")
    (tmp_path / "looms.py").write_text(
        "from weft.engines.scan import ScanEngine\n"
        "class Jacquard(ScanEngine):\n    name = 'jacquard'\n"
        "def broken():\n    return 'a loom'\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    assert {"jacquard", "broken"} < set(engine_names())
    model, data = two_components()
    assert_allclose(
        weft.log_evidence(model, data, engine="jacquard"), weft.log_evidence(model, data, engine="scan"), rtol=1e-14
    )
    with pytest.raises(TypeError, match=r"entry point 'looms:broken' of the engine 'broken' makes no weft\.Engine"):
        named_engine("broken")
    with pytest.raises(ValueError, match=r"one of 'auto', 'cpu', .*'broken', 'jacquard'; it is 'steam'"):
        weft.condition(model, data, engine="steam")
    monkeypatch.undo()
    sys.modules.pop("looms")


def test_auto_is_the_cheapest_for_the_shape(monkeypatch):
    dear, cheap = Priced(flops=1000.0), Priced(flops=0.01)
    monkeypatch.setattr(choose, "named_engine", {"cpu": CpuEngine(), "dear": dear, "cheap": cheap}.get)
    monkeypatch.setitem(choose.AUTOMATIC, "cpu", ("cpu", "dear"))
    assert choose_engine("auto", even_shape(100, 2)) == dear
    assert choose_engine("auto", even_shape(100, 2000)) == CpuEngine()
    monkeypatch.setitem(choose.AUTOMATIC, "cpu", ("cpu", "dear", "cheap"))
    assert choose_engine("auto", even_shape(100, 2000)) is cheap
    assert choose_engine(dear, even_shape(100, 2000)) is dear


@pytest.mark.parametrize("engine", [each for each in ENGINES if each.name != "dense"], ids=lambda engine: engine.name)
def test_costs_grow_with_the_series_and_the_state(engine):
    """Of engines that walk along the chain."""
    small, long, wide = even_shape(2000, 20), even_shape(8000, 20), even_shape(2000, 20, num_bottleneck=40)
    for gradient in (True, False):
        base = engine.cost(small, gradient=gradient)
        assert 3.9 < engine.cost(long, gradient=gradient).flops / base.flops < 4.1
        assert engine.cost(wide, gradient=gradient).flops > 4 * base.flops
        assert engine.cost(wide, gradient=gradient).bytes > base.bytes
    assert engine.cost(small).flops > 2 * engine.cost(small, gradient=False).flops
    assert engine.cost(small).bytes > engine.cost(small, gradient=False).bytes


def test_a_series_beyond_the_limits_is_filtered_twice_in_less_memory():
    shape = even_shape(3000, 4)
    whole, twice = CpuEngine().cost(shape), CpuEngine(Limits(whole_bytes=10**6, segment_bytes=10**6)).cost(shape)
    assert_allclose(twice.flops, whole.flops * 4 / 3)
    assert whole.bytes > 3000 * 8 * 20 * 20
    assert twice.bytes < 2 * 10**6


def test_the_first_times_of_a_shape_cost_their_part():
    shape = Shape(Layout(np.array([0, 3, 3, 20, 21])), 5, 4, 8)
    assert shape.first_times(3) == Shape(Layout(np.array([0, 3, 3, 20])), 5, 4, 8)
    assert (shape.num_times, shape.num_rows, shape.most_rows) == (4, 21, 17)
    counts = np.diff(shape.layout.offsets)
    parts = [CpuEngine().cost(Shape(Layout(np.array([0, count])), 5, 4, 8)).flops for count in counts]
    assert_allclose([CpuEngine().cost(shape.first_times(k)).flops for k in range(1, 5)], np.cumsum(parts))


def test_an_engine_object_stands_wherever_a_name_may(tmp_path):
    model, data = two_components()
    mine = CpuEngine(Limits(threads=1))
    expected = weft.log_evidence(model, data, engine="cpu")
    assert_allclose(weft.log_evidence(model, data, engine=mine), expected, rtol=1e-12)
    assert weft.estimate(model, data, engine=ScanEngine()).engine == "scan"
    assert_allclose(weft.fit(model, data, engine=mine, max_iterations=0).log_evidence, expected, rtol=1e-12)
    posterior = weft.condition(model, data, engine=mine)
    posterior.save(tmp_path / "posterior.weft")
    again = weft.load(tmp_path / "posterior.weft")
    assert again.engine == "cpu"
    at = data.row_times[:3], data.row_places[:3]
    assert_allclose(again.marginals(*at).mean, posterior.marginals(*at).mean, rtol=1e-12)


def value_elsewhere(queue, engine):
    queue.put(float(engine.last_state(*chains.for_engine(chains.stationary(3)))[1]))


@pytest.mark.parametrize("engine", ENGINES, ids=lambda engine: engine.name)
def test_engines_are_values(engine):
    again = pickle.loads(pickle.dumps(engine))
    assert again == engine
    assert hash(again) == hash(engine)
    assert copy.deepcopy(engine) == engine
    assert len(set(ENGINES)) == len(ENGINES)


def test_an_engine_crosses_a_spawn():
    engine = CpuEngine(Limits(threads=1))
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    worker = context.Process(target=value_elsewhere, args=(queue, engine))
    worker.start()
    found = queue.get(timeout=120)
    worker.join(timeout=60)
    assert worker.exitcode == 0
    assert found == engine.last_state(*chains.for_engine(chains.stationary(3)))[1]
