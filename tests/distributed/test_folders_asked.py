# SPDX-License-Identifier: MIT
"""Folders of files that are not alike, asked about file by file: what the whole table is answered, and one file held at a time."""

import gc
import json
import pathlib
import weakref

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import weft
from tests.distributed.test_in_parts import TABLE, WHOLE, estimator, few
from tests.distributed.test_in_parts import parts as parts_of_table
from weft.cli import main
from weft.data.parts import PartsAlike
from weft.distributed.on_dask import OnDask
from weft.inference.on_disk import PosteriorOnDisk
from weft.project import predict_file, sample_file, score_file, update_file
from weft.space_time_gp import SpaceTimeGP

pytest.importorskip("dask.dataframe")


def unlike() -> list[pd.DataFrame]:
    """The first without rows, and then without a remark; numbers that are whole here and not there; a column that one has not."""
    first, nothing, second, valueless, late = parts_of_table(TABLE)
    return [
        nothing.assign(number=pd.Series(dtype=object)),
        first.assign(more=None, number=3, value=first["value"].astype("float32").astype("float64")),
        second.assign(number=2.5),
        valueless.drop(columns="more").assign(number=2**40, value=np.int64(-99)),
        late.assign(number=np.int32(1)),
    ]


MODEL, ROWS = pathlib.Path("model.weft"), pathlib.Path("rows")
PARTS = unlike()
TOGETHER = pd.concat([part for part in PARTS if len(part)], ignore_index=True)


@pytest.fixture(scope="module")
def fitted() -> weft.SpaceTimeGP:
    """Of the first two thirds of the rows."""
    return estimator().fit(WHOLE.iloc[:1600])


@pytest.fixture
def place(fitted, tmp_path, monkeypatch) -> pathlib.Path:
    """A folder with the model, the files and the table."""
    monkeypatch.chdir(tmp_path)
    pathlib.Path("rows").mkdir()
    for number, part in enumerate(PARTS):
        part.to_parquet(f"rows/{number}.parquet", index=False)
    TOGETHER.to_parquet("whole.parquet", index=False)
    fitted.save("model.weft")
    return tmp_path


@pytest.fixture
def held(monkeypatch) -> list[int]:
    """How many rows of files there were in memory, each time that some more were read."""
    alive: list[weakref.ref[pd.DataFrame]] = []
    found: list[int] = []
    inner = PartsAlike.read

    def counted(files, part, columns=None):
        gc.collect()
        frame = inner(files, part, columns)
        alive.append(weakref.ref(frame))
        found.append(sum(len(each) for each in (one() for one in alive) if each is not None))
        return frame

    monkeypatch.setattr(PartsAlike, "read", counted)
    return found


def check_same(found: pd.DataFrame, expected: pd.DataFrame) -> None:
    """Whatever stands for a remark that there is not."""
    found, expected = (frame.assign(more=frame["more"].fillna("none")) for frame in (found, expected))
    pd.testing.assert_frame_equal(found, expected, check_dtype=False, rtol=1e-9)


@pytest.mark.parametrize("who", ["one process", "workers"])
@pytest.mark.parametrize("verb", ["predict", "fill"])
def test_files_that_are_not_alike_are_answered_as_one_table(place, fitted, client, verb, who):
    more = [] if who == "one process" else ["--scheduler", client.scheduler.address]
    assert main([verb, "model.weft", "rows", "-o", "out.parquet", *more]) == 0
    expected = getattr(fitted, verb)(TOGETHER)
    check_same(pd.read_parquet("out.parquet"), expected)
    assert main([verb, "model.weft", "rows", "-o", "out.csv", *more]) == 0
    assert list(pd.read_csv("out.csv").columns) == list(expected.columns)


def test_files_some_of_which_have_an_index_are_one_table(tmp_path):
    """Of rows in another order, or of what is a column elsewhere."""
    table = TABLE.head(30)[["day", "x", "value"]].reset_index(drop=True)
    order = np.random.default_rng(3).permutation(10)
    table.iloc[:10].to_parquet(tmp_path / "a.parquet")
    table.iloc[10:20].iloc[order].to_parquet(tmp_path / "b.parquet")
    table.iloc[20:].set_index("day").to_parquet(tmp_path / "c.parquet")
    table.iloc[:10].set_index("day", drop=False).to_parquet(tmp_path / "d.parquet")
    files = PartsAlike(tmp_path)
    found = pd.concat([files.read(part) for part in files.parts], ignore_index=True)
    rows = [*range(10), *(10 + order), *range(20, 30), *range(10)]
    pd.testing.assert_frame_equal(found, table.iloc[rows].reset_index(drop=True), check_dtype=False)
    assert all(isinstance(files.read(part).index, pd.RangeIndex) for part in files.parts)
    alike = PartsAlike(str(tmp_path / "b*.parquet"))
    assert list(alike.read(alike.parts[0]).index) == list(10 + order)


def test_workers_that_answer_ahead_are_stopped_where_an_answer_cannot_be_written(place, client, monkeypatch):
    """While their client is there: later it could not tell them."""
    given = []

    def refuse(pieces, output) -> None:
        given.append(pieces)
        next(pieces)
        raise ValueError("no room")

    monkeypatch.setattr("weft.project.answers.write_pieces", refuse)
    with pytest.raises(ValueError, match="no room"):
        predict_file(MODEL, ROWS, pathlib.Path("out.csv"), (0.1,), "observation", client=client)
    assert given[0].gi_frame is None


def test_values_that_the_model_has_not_seen_are_said_of_the_folder(place, fitted, capsys, caplog):
    """And not of each file."""
    assert main(["fill", "model.weft", "rows", "-o", "out.csv"]) == 0
    (said,) = [line for line in capsys.readouterr().err.splitlines() if "has not seen" in line]
    caplog.clear()
    with caplog.at_level("INFO", "weft"):
        fitted.fill(TOGETHER)
    (expected,) = [record.getMessage() for record in caplog.records if "has not seen" in record.getMessage()]
    assert said == f"weft: note: {expected}"


def test_whoever_is_asked_by_workers_fills_other_tables_too(place, fitted, client, capsys):
    """One file, cut into pieces."""
    scheduler = ["--scheduler", client.scheduler.address]
    assert main(["fill", "model.weft", "whole.parquet", "-o", "out.parquet", *scheduler]) == 0
    expected = fitted.fill(TOGETHER)
    check_same(pd.read_parquet("out.parquet"), expected)
    assert f"filled {expected['filled'].sum():,} gaps" in capsys.readouterr().out


def test_a_folder_has_the_scores_of_its_table_whoever_finds_them(place, fitted, client, addresses, held):
    """Rows without a value counted, PIT values and all."""
    whole, here = score_file(MODEL, pathlib.Path("whole.parquet")), score_file(MODEL, ROWS)
    largest = max(map(len, PARTS))
    assert max(held) == largest < 0.7 * len(TOGETHER)
    there = [score_file(MODEL, ROWS, client=OnDask(client, addresses[:count])) for count in range(1, 4)]
    assert there[0] == there[1] == there[2]
    for found in (here, there[0]):
        assert list(found) == list(whole)
        for model, scores in whole.items():
            assert scores["num_missing"] == (TOGETHER["value"] == -99).sum()
            for name, value in scores.items():
                assert_allclose(found[model][name], value, rtol=1e-9, atol=1e-12, err_msg=f"{model} {name}")
    expected = fitted.score(TOGETHER)
    assert_allclose([whole["weft"][name] for name in whole["weft"]], [expected[name] for name in whole["weft"]])


def test_baselines_are_fitted_once_for_all_files(place, monkeypatch):
    fits = []

    def noted(names, *rows, **options):
        fits.append(tuple(names))
        return []

    monkeypatch.setattr("weft.estimator.evaluation.fit_baselines", noted)
    score_file(MODEL, ROWS)
    assert len(fits) == 1


def test_draws_over_a_folder_are_those_over_its_table(place, fitted, client, addresses, monkeypatch):
    """Of all rows only what says when and where they are is in memory together, and workers change no bit."""
    together = []
    inner = SpaceTimeGP.sample
    monkeypatch.setattr(
        SpaceTimeGP, "sample", lambda gp, table, **options: together.append(table) or inner(gp, table, **options)
    )
    assert main(["sample", "model.weft", "rows", "-o", "out.parquet", "--num", "2", "--seed", "5"]) == 0
    (asked,) = together
    assert list(asked.columns) == ["day", "x", "y"]
    found = pd.read_parquet("out.parquet")
    expected = inner(fitted, TOGETHER, num=2, seed=5)
    check_same(found, expected)
    draws = []
    for count in (1, 3):
        workers = OnDask(client, addresses[:count])
        sample_file(MODEL, ROWS, pathlib.Path("there.parquet"), num=2, seed=5, of="observation", client=workers)
        draws.append(pd.read_parquet("there.parquet")[["draw_0", "draw_1"]])
    assert_array_equal(draws[0], draws[1])
    assert_allclose(draws[0], expected[["draw_0", "draw_1"]], rtol=1e-9, atol=1e-9)


def test_an_audit_of_a_folder_says_what_it_holds_and_holds_no_more(place, monkeypatch, capsys):
    seen = []

    def audit(gp, table, **options):
        assert "an audit holds rows against each other, so 2,405 rows of 4 files are read" in capsys.readouterr().err
        seen.append(table)
        return pd.DataFrame({"cause": []})

    monkeypatch.setattr(SpaceTimeGP, "audit", audit)
    assert main(["audit", "model.weft", "rows", "-o", "out.csv"]) == 0
    (found,) = seen
    pd.testing.assert_frame_equal(found, TOGETHER[["day", "x", "y", "value"]], check_dtype=False)


def test_a_folder_is_taken_in_as_its_table(place, fitted, capsys):
    """In the columns that the model needs, since it keeps the rows."""
    assert main(["update", "model.weft", "rows", "-o", "new.weft", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["num_rows_added"] == len(TOGETHER)
    expected = estimator().from_stored(fitted._stored()).update(TOGETHER)
    asked = TABLE.iloc[:300:7]
    assert_allclose(weft.load("new.weft").predict(asked)["mean"], expected.predict(asked)["mean"], rtol=1e-9)


def test_a_model_whose_rows_are_on_disk_takes_in_a_folder_file_by_file(tmp_path, monkeypatch, held):
    """The first and the last have no value, and a station is new."""
    few(monkeypatch)
    monkeypatch.chdir(tmp_path)
    pathlib.Path("old").mkdir()
    new = TABLE["x"] == TABLE["x"].iloc[3]
    old = TABLE[~new]
    for number in range(2):
        old.iloc[number::2].to_parquet(f"old/{number}.parquet", index=False)
    gp = estimator().fit("old")
    assert isinstance(gp.posterior_, PosteriorOnDisk)
    gp.save("model.weft")
    later = TABLE.assign(day=(pd.to_datetime(TABLE["day"]) + pd.Timedelta(60, "D")).dt.strftime("%Y-%m-%d"))
    nothing = later.iloc[:7].assign(value=-99.0)
    pieces = [nothing, *(later.iloc[start : start + 600] for start in range(0, len(later), 600)), TABLE[new], nothing]
    pathlib.Path("more").mkdir()
    for number, part in enumerate(pieces):
        part.to_parquet(f"more/{number}.parquet", index=False)
    held.clear()
    added = update_file(MODEL, pathlib.Path("more"), pathlib.Path("new.weft"))
    assert added.num_added == sum(map(len, pieces))
    # One, while the next is read.
    assert max(held) <= 2 * 600
    expected = weft.load("model.weft").update(pd.concat(pieces))
    found = weft.load("new.weft")
    assert (found.num_rows_, found.num_missing_) == (expected.num_rows_, expected.num_missing_)
    asked = pd.concat([TABLE.iloc[:400:7], later.iloc[:400:9]])
    for name in ("mean", "sd"):
        assert_allclose(found.predict(asked)[name], expected.predict(asked)[name], rtol=1e-9, atol=1e-9)
