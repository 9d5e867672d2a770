# SPDX-License-Identifier: MIT
"""Tables on Dask, answered partition by partition: what the same table in memory is answered."""

import functools
import os
import pathlib

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from benchmarks.memory import resident_megabytes
from numpy.testing import assert_allclose

import weft
from tests.distributed.conftest import client_of
from tests.distributed.deadly import read_and_die_once
from tests.distributed.made_rows import rows, wide_part
from weft.cli import main
from weft.distributed.lazy import _in_graph

dd = pytest.importorskip("dask.dataframe")
distributed = pytest.importorskip("distributed")


def estimator() -> weft.SpaceTimeGP:
    return weft.SpaceTimeGP(
        time="day",
        space=("x", "y"),
        target="value",
        max_iterations=1,
        progress=None,
        engine="dense",
        regions=2,
        components=("slow", "fast"),
        habits=None,
    )


@pytest.fixture(scope="module")
def fitted() -> weft.SpaceTimeGP:
    return estimator().fit(rows(80))


QUESTIONS = {
    "predict": {"quantiles": (0.1,), "of": "field"},
    "fill": {},
    "sample": {"num": 2, "seed": 4},
}


@pytest.mark.parametrize("verb", QUESTIONS)
def test_partitions_of_a_frame_are_answered_as_the_whole(fitted, verb):
    """One of them is empty, and so is nothing but its index known."""
    asked = rows(30, seed=6)
    parts = [asked.iloc[:12], asked.iloc[:0], asked.iloc[12:]]
    lazy = dd.from_map(lambda part: part, parts)
    found = getattr(fitted, verb)(lazy, **QUESTIONS[verb])
    expected = getattr(fitted, verb)(asked, **QUESTIONS[verb])
    assert isinstance(found, dd.DataFrame)
    assert found.dtypes.to_dict().keys() == expected.dtypes.to_dict().keys()
    pd.testing.assert_frame_equal(found.compute(), expected, check_dtype=False, rtol=1e-9)


def test_what_needs_all_rows_says_how_a_table_on_dask_can_be_given(fitted):
    with pytest.raises(TypeError, match=r"needs all rows together: give table\.compute\(\)"):
        fitted.audit(dd.from_pandas(rows(30, seed=6), npartitions=2))


def grid() -> xr.Dataset:
    rng = np.random.default_rng(7)
    coordinates = {
        "day": pd.date_range("2020-01-02", periods=4),
        "x": np.linspace(0, 9, 5),
        "y": np.linspace(0, 7, 3),
    }
    values = np.where(rng.uniform(size=(4, 5, 3)) < 0.3, np.nan, 1.5)
    return xr.Dataset({"value": (("day", "x", "y"), values)}, coordinates)


@pytest.mark.parametrize("verb", QUESTIONS)
def test_chunks_of_a_grid_are_answered_as_the_whole(fitted, verb):
    found = getattr(fitted, verb)(grid().chunk(day=3, x=2), **QUESTIONS[verb])
    expected = getattr(fitted, verb)(grid(), **QUESTIONS[verb])
    assert all(variable.chunks is not None for variable in found.data_vars.values())
    xr.testing.assert_allclose(found.compute(), expected, rtol=1e-9)
    assert found.attrs == expected.attrs
    assert {name: found[name].attrs for name in found.variables} == {
        name: expected[name].attrs for name in expected.variables
    }


@pytest.mark.parametrize("verb", QUESTIONS)
def test_chunks_of_a_grid_of_latitudes_and_longitudes_are_answered_as_the_whole(verb):
    """Its answers have a variable without dimensions, and its own variables are not cut alike."""
    names = {"x": "lon", "y": "lat"}
    gp = weft.SpaceTimeGP(
        time="day", space=("lat", "lon", "height"), target="value", pseudo_points=4, max_iterations=1, progress=None
    )
    heights = np.random.default_rng(9).uniform(0, 3, (5, 3))
    whole = grid().rename(names).assign(height=(("lon", "lat"), heights))
    lazy = whole.chunk(day=3, lon=2).assign(height=whole["height"].chunk(lon=3))
    gp.fit(whole.assign(value=whole["value"].fillna(0.5) * whole["lat"] + whole["height"]))
    found = getattr(gp, verb)(lazy, **QUESTIONS[verb])
    expected = getattr(gp, verb)(whole, **QUESTIONS[verb])
    assert ("crs" in expected) == (verb != "fill")
    xr.testing.assert_allclose(found.compute(), expected, rtol=1e-9)
    assert {name: found[name].attrs for name in found.variables} == {
        name: expected[name].attrs for name in expected.variables
    }


def test_workers_are_sent_the_model_packed(fitted, client, monkeypatch):
    """One that had to import weft on its arrival would read ahead meanwhile, and run out of memory."""
    asked = rows(24, seed=14)
    with client.as_current():
        assert isinstance(_in_graph(fitted).compute(scheduler="sync"), bytes)
        found = fitted.predict(dd.from_pandas(asked, npartitions=3, sort=False)).compute()
    pd.testing.assert_frame_equal(found, fitted.predict(asked), check_dtype=False, rtol=1e-9)
    monkeypatch.setattr("weft.distributed.lazy.active_client", lambda: None)
    assert _in_graph(fitted).compute(scheduler="sync") is fitted


def test_scores_of_partitions_are_those_of_the_table(fitted):
    held_out = rows(40, seed=8)
    nothing = held_out.iloc[:3].assign(value=np.nan)
    expected = fitted.score(pd.concat([held_out, nothing]))
    found = fitted.score(dd.from_map(lambda part: part, [held_out.iloc[:25], nothing, held_out.iloc[25:]]))
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        assert_allclose(found[name], value, rtol=1e-9, err_msg=name)


def test_scores_of_chunks_are_those_of_the_grid(fitted):
    """And nobody has the scores of every row."""
    expected, found = fitted.score(grid()), fitted.score(grid().chunk(day=3, x=2))
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        assert_allclose(found[name], value, rtol=1e-9, err_msg=name)


def test_a_worker_killed_while_it_predicts_changes_no_number(fitted, client, tmp_path):
    """In the middle of a task that reads a partition and answers for it, others being done or under way."""
    asked = rows(60, seed=9)
    parts = [asked.iloc[start : start + 12] for start in range(0, 60, 12)]
    read = functools.partial(read_and_die_once, tmp_path / "died")
    with client.as_current():
        lazy = fitted.predict(dd.from_map(read, range(5), parts, meta=asked.iloc[:0]))
        assert not (tmp_path / "died").exists()
        found = lazy.compute()
    assert (tmp_path / "died").exists()
    pd.testing.assert_frame_equal(found, fitted.predict(asked), check_dtype=False, rtol=1e-9)


@pytest.mark.parametrize(("source", "target"), [("grid.zarr", "out.zarr"), ("parts", "out.parquet")])
def test_files_are_answered_by_workers_of_a_scheduler(fitted, client, tmp_path, monkeypatch, source, target):
    monkeypatch.chdir(tmp_path)
    fitted.save("model.weft")
    if source == "parts":
        pathlib.Path(source).mkdir()
        table = rows(20, seed=10)
        table.iloc[:9].to_parquet("parts/b.parquet")
        table.iloc[9:].to_parquet("parts/c.parquet")
    else:
        table = grid()
        table.chunk(day=3).to_zarr(source, consolidated=False)
    assert main(["predict", "model.weft", source, "-o", target, "--scheduler", client.scheduler.address]) == 0
    expected = fitted.predict(table)
    if source == "parts":
        found = pd.read_parquet(target)
        assert_allclose(found["mean"], expected["mean"], rtol=1e-9)
        assert list(found["name"]) == list(table["name"])
    else:
        found = xr.open_dataset(target, engine="zarr", consolidated=False)
        assert_allclose(found["q0.95"], expected["q0.95"], rtol=1e-9)


def test_workers_are_started_for_a_command(fitted, tmp_path, monkeypatch, capsys):
    """And the way to their dashboard is told."""
    monkeypatch.chdir(tmp_path)
    fitted.save("model.weft")
    asked = rows(20, seed=12)
    asked.to_csv("asked.csv", index=False)
    assert main(["predict", "model.weft", "asked.csv", "-o", "out.parquet", "--workers", "2"]) == 0
    assert "2 workers started; dashboard: http://127.0.0.1:" in capsys.readouterr().err
    assert_allclose(pd.read_parquet("out.parquet")["q0.05"], fitted.predict(asked)["q0.05"], rtol=1e-9)


# JAX and what it has compiled take most of a gigabyte, and a worker near its limit waits for ever.
LIMIT = 1_800_000_000
NUM_PARTS = 93


@pytest.mark.long
def test_a_table_larger_than_the_memory_of_a_worker_is_learned_from_and_answered():
    """A worker that comes near its limit is stopped, and one beyond it killed, so that the numbers would not come."""
    assert NUM_PARTS * wide_part(0)["name"].map(len).sum() > LIMIT
    simple = estimator().set_params(components=("fast",), regions=None)
    with client_of(1, memory_limit=LIMIT) as client:
        table = dd.from_map(wide_part, list(range(NUM_PARTS)))
        (process,) = client.run(os.getpid).values()
        gp = simple.fit(table, client=client)
        means = gp.predict(table.partitions[::20])["mean"].compute()
        (peak,) = client.run(resident_megabytes, "VmHWM").values()
        assert list(client.run(os.getpid).values()) == [process], "the worker was killed"
    assert 1e6 * peak < LIMIT
    narrow = pd.concat([wide_part(number).drop(columns="name") for number in range(NUM_PARTS)])
    asked = pd.concat([wide_part(number) for number in range(0, NUM_PARTS, 20)])
    expected = simple.fit(narrow).predict(asked)["mean"]
    assert_allclose(means, expected, rtol=1e-9, atol=1e-9)
