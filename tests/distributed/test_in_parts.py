# SPDX-License-Identifier: MIT
"""Tables that stay in their parts: the numbers of the same table in memory, and all rows nowhere."""

import json
import pathlib
import pickle

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from numpy.testing import assert_allclose, assert_array_equal

import weft
from tests.distributed.deadly import Deadly
from weft.cli import main
from weft.data import parts as parts_module
from weft.data.parts import parts_of
from weft.distributed import Processes, tasks_on
from weft.distributed.in_parts import ColumnsNeeded, PartsOfFiles
from weft.distributed.on_dask import OnDask
from weft.inference.executor import Executor
from weft.inference.habits.level import Level
from weft.inference.habits.shift import Shift
from weft.inference.on_disk import PosteriorOnDisk
from weft.inference.regional import RegionalPosterior
from weft.inference.rows_on_disk import EVER, RowsOnDisk
from weft.inference.with_habits import PosteriorWithHabits
from weft.project.fitting import fit_file
from weft.project.settings import Settings
from weft.project.surveys import survey_file

dd = pytest.importorskip("dask.dataframe")

NUM_PLACES, NUM_TIMES = 40, 60


@pytest.fixture(autouse=True)
def few_are_many(monkeypatch):
    """Rows that one process may hold: half of those there are."""
    few(monkeypatch)


def few(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("weft.estimator.learning.MOST_LOOKED_AT", 1200)
    patch.setattr("weft.estimator.in_parts.MOST_LOOKED_AT", 1200)
    patch.setattr("weft.estimator.learning.FEWEST_TIMES_LOOKED_AT", 20)


def stations() -> pd.DataFrame:
    """Dates as text, a code for missing values, and one station that is 3 too high."""
    rng = np.random.default_rng(12)
    places = rng.uniform(0, 8, (NUM_PLACES, 2))
    day, place = np.repeat(np.arange(NUM_TIMES), NUM_PLACES), np.tile(np.arange(NUM_PLACES), NUM_TIMES)
    value = np.sin(places[place, 0] + day / 3) + np.cos(places[place, 1]) + 0.3 * rng.normal(size=len(day))
    value = np.where(place == 7, value + 3, value)
    return pd.DataFrame(
        {
            "day": (pd.Timestamp("2020-01-01") + pd.to_timedelta(day, "D")).strftime("%Y-%m-%d"),
            "x": places[place, 0],
            "y": places[place, 1],
            "value": np.where(rng.uniform(size=len(day)) < 0.05, -99.0, value),
            "more": "text",
        }
    )


TABLE, ASKED = stations(), stations().iloc[100:400:7]


def parts(table: pd.DataFrame) -> list[pd.DataFrame]:
    """By time but for two stations that come last, one part empty and one without a value."""
    late = table["x"].isin(table["x"].iloc[:2])
    nothing = table.iloc[:5].assign(day="2020-02-01", value=-99.0)
    first = table[~late]
    return [first.iloc[:800], table.iloc[:0].astype(object), first.iloc[800:], nothing, table[late]]


WHOLE = pd.concat(parts(TABLE))


@pytest.fixture
def folder(tmp_path) -> pathlib.Path:
    (tmp_path / "rows").mkdir()
    for number, part in enumerate(parts(TABLE)):
        part.to_parquet(tmp_path / "rows" / f"{number}.parquet", index=False)
    return tmp_path / "rows"


def estimator(**options) -> weft.SpaceTimeGP:
    return weft.SpaceTimeGP(
        **{
            "time": "day",
            "space": ("x", "y"),
            "target": "value",
            "missing": -99.0,
            "components": ("fast",),
            "regions": 3,
            "max_iterations": 2,
            "progress": None,
            "habits": None,
            **options,
        }
    )


def answers(gp: weft.SpaceTimeGP) -> np.ndarray:
    return gp.predict(ASKED)[["mean", "sd", "latent_sd", "q0.05"]].to_numpy()


@pytest.fixture(scope="module")
def local() -> weft.SpaceTimeGP:
    with pytest.MonkeyPatch.context() as patch:
        few(patch)
        gp = estimator().fit(WHOLE)
    assert isinstance(gp.posterior_, RegionalPosterior)
    return gp


def check_same(found: weft.SpaceTimeGP, local: weft.SpaceTimeGP) -> None:
    assert isinstance(found.posterior_, PosteriorOnDisk)
    assert_allclose(found.result_.log_evidence, local.result_.log_evidence, rtol=1e-9)
    assert_allclose(answers(found), answers(local), rtol=1e-9, atol=1e-9)
    assert (found.num_rows_, found.num_missing_) == (local.num_rows_, local.num_missing_)
    assert_allclose(found.target_sd_, local.target_sd_, rtol=1e-12)
    assert_allclose(found.fitted_.times, local.fitted_.times)


def test_a_table_in_parts_teaches_what_it_teaches_in_memory(local, folder):
    """Both learn from stretches of the series, and answer from all rows."""
    found = estimator().fit(folder)
    check_same(found, local)
    assert_allclose(found.posterior_.log_evidence, local.posterior_.log_evidence, rtol=1e-9)
    found.save(folder / "model.weft")
    assert_array_equal(answers(weft.load(folder / "model.weft")), answers(found))


def test_the_evidence_of_a_long_series_goes_through_it_in_stretches(folder, monkeypatch):
    """A component that forgets within ten days: of four stretches each is given those days before it, and the rest is never read."""
    kernel = 0.8 * weft.Separable(space=weft.Matern32([1.0, 1.0]), time=weft.Matern12(0.35))
    gp = estimator(components="auto", kernel=kernel, max_iterations=0).fit(folder)
    posterior = gp.posterior_
    assert isinstance(posterior, PosteriorOnDisk)
    expected = posterior.log_evidence
    read = []
    inner = RowsOnDisk.read

    def noted(rows, cells, is_wanted, span=EVER):
        found = inner(rows, cells, is_wanted, span)
        read.append(0 if found is None else found.num_rows)
        return found

    monkeypatch.setattr(RowsOnDisk, "read", noted)
    assert posterior.log_evidence == expected
    whole = max(read)
    read.clear()
    monkeypatch.setattr("weft.inference.on_disk.ROWS_AT_ONCE", 300)
    assert_allclose(posterior.log_evidence, expected, rtol=1e-9)
    assert 0 < max(read) < 0.6 * whole


@pytest.mark.parametrize("kind", ["frame", "grid"])
def test_tables_on_dask_stay_in_their_parts_too(local, kind):
    if kind == "frame":
        check_same(estimator().fit(dd.from_map(lambda part: part, parts(TABLE))), local)
        return
    values = np.random.default_rng(3).normal(size=(NUM_TIMES, 8, 5))
    coordinates = {"day": np.arange(1.0 * NUM_TIMES), "x": np.arange(8.0), "y": np.arange(5.0)}
    grid = xr.Dataset({"value": (("day", "x", "y"), values)}, coordinates)
    asked = grid.isel(day=slice(0, 60, 7))
    here, there = (estimator().fit(each) for each in (grid, grid.chunk(day=25, x=4)))
    assert isinstance(there.posterior_, PosteriorOnDisk)
    xr.testing.assert_allclose(there.predict(asked), here.predict(asked), rtol=1e-9)


def test_workers_give_the_same_to_the_bit_however_many_they_are(local, folder, client, addresses):
    found = [estimator().fit(folder, client=OnDask(client, addresses[:count])) for count in (1, 2, 3)]
    check_same(found[0], local)
    assert_array_equal(answers(found[1]), answers(found[0]))
    assert_array_equal(answers(found[2]), answers(found[0]))
    lazy = found[2].predict(dd.from_pandas(ASKED, npartitions=2, sort=False))
    assert_allclose(lazy.compute()["mean"], found[2].predict(ASKED)["mean"], rtol=1e-9)


@pytest.mark.parametrize("word", ["counting", "reading", "sorting"])
def test_a_worker_killed_while_it_reads_changes_no_number(local, folder, client, tmp_path, word):
    check_same(estimator().fit(folder, client=Deadly(OnDask(client), tmp_path / "died", word)), local)
    assert (tmp_path / "died").exists()


@pytest.mark.long
def test_plain_processes_do_as_well(local, folder):
    with Processes(2) as workers:
        check_same(estimator().fit(folder, client=workers), local)


def test_habits_that_stretches_show_are_told_of_all_rows(folder, monkeypatch):
    """A level of each place, and one whose dates are a day late, whoever found them."""

    def level(names, field, data, num_space):
        count = len(data.places)
        spread = np.linspace(-1.0, 1.0, count)
        return (Level(data.places, spread, np.full(count, 0.01), 0.4, 0.1),) if "level" in names else ()

    def shift(field, data, num_space):
        late = np.where(np.arange(len(data.places)) == 5, -1, 0)
        shares = np.array([0.1, 0.8, 0.1])
        return Shift(data.places, late, np.ones(len(late)), shares, step=1.0)

    monkeypatch.setattr("weft.estimator.learning.find_habits", level)
    monkeypatch.setattr("weft.estimator.learning.find_shift", shift)
    options = {"habits": ("shift", "level")}
    found, expected = estimator(**options).fit(folder), estimator(**options).fit(WHOLE)
    assert isinstance(found.posterior_, PosteriorWithHabits)
    assert isinstance(found.posterior_.field, PosteriorOnDisk)
    assert [habit.name for habit in found.posterior_.habits()] == ["shift", "level"]
    assert_allclose(answers(found), answers(expected), rtol=1e-8, atol=1e-8)
    assert_array_equal(found.posterior_.times, expected.posterior_.times)


class Weighed(Executor):
    """Threads, with the bytes of everything that goes to tasks and comes back."""

    def __init__(self) -> None:
        self.sent: list[int] = []
        self.back: list[int] = []

    def hold(self, piece):
        self.sent.append(len(pickle.dumps(piece)))
        return piece

    def map(self, function, *columns, names=None, again=False):
        tasks = list(zip(*columns, strict=True))
        found = [function(*task) for task in tasks]
        self.sent += [len(pickle.dumps(task)) for task in tasks]
        self.back += [len(pickle.dumps(answer)) for answer in found]
        return found


def test_rows_neither_come_here_nor_go_from_here_but_those_looked_at(folder):
    """Eight copies of the series one after another: what travels is as before but for the times."""
    weights = []
    for count in (1, 8):
        for old in folder.glob("*.parquet"):
            old.unlink()
        for number in range(count):
            days = pd.to_datetime(TABLE["day"]) + pd.Timedelta(number * NUM_TIMES, "D")
            TABLE.assign(day=days).to_parquet(folder / f"{number}.parquet", index=False)
        executor = Weighed()
        gp = estimator(max_iterations=1).fit(folder, client=executor)
        assert gp.num_rows_ == count * len(TABLE)
        gp.posterior_.marginals(np.array([3.0]), np.array([[1.0, 1.0]]))
        weights.append((sum(executor.sent), sum(executor.back)))
    more = 7 * NUM_TIMES * NUM_PLACES
    for before, after in zip(*weights, strict=True):
        # A row would be 16 bytes at least.
        assert after - before < 0.3 * 16 * more


def test_a_census_is_of_all_rows(folder):
    table = PartsOfFiles(ColumnsNeeded("day", ("x", "y"), ("value",)), parts_of(folder))
    census = table.census("value", (-99.0,), None)
    values = WHOLE["value"].where(WHOLE["value"] != -99.0)
    assert table.num_rows == census.num_rows == len(WHOLE)
    assert census.target.num == values.notna().sum()
    assert_allclose([census.target.mean, census.target.deviation], [values.mean(), values.std(ddof=0)], rtol=1e-12)
    assert (census.target.lowest, census.target.highest) == (values.min(), values.max())
    counted = values.groupby(WHOLE["day"].to_numpy()).agg(["size", "count"])
    assert_array_equal(census.rows_of_times, counted.loc[census.times["day"], "size"])
    assert_array_equal(census.values_of_times, counted.loc[census.times["day"], "count"])
    assert_array_equal(census.values_of_places, values.groupby(WHOLE["x"].to_numpy()).count().loc[census.places["x"]])
    chosen = census.times["day"].isin(["2020-01-05", "2020-02-01"]).to_numpy()
    some = table.rows_at(census, chosen)
    wanted = WHOLE[WHOLE["day"].isin(["2020-01-05", "2020-02-01"])]
    assert_array_equal(some.numbers["value"], wanted["value"])
    assert_array_equal(some.places.each["x"].to_numpy()[some.places.number], wanted["x"])
    assert_array_equal(some.times.each["day"].to_numpy()[some.times.number], wanted["day"])


@pytest.mark.parametrize(
    ("options", "what"),
    [({"regions": None}, "one model"), ({"covariates": ("x",)}, "covariates"), ({"likelihood": "student_t"}, "sites")],
)
def test_what_cannot_be_had_region_by_region_takes_all_rows(folder, options, what):
    """A model that answers for all rows needs them."""
    gp = estimator(**options, pseudo_points=4).fit(folder)
    assert not isinstance(gp.posterior_, PosteriorOnDisk), what
    assert gp.num_rows_ == len(WHOLE)


def test_folds_are_of_the_stretches_that_are_learned_from(folder, local):
    found = local.cross_validate(folder, by="random", folds=2, output="rows")
    assert found["time"].nunique() == 31
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("weft.estimator.in_parts.MOST_LOOKED_AT", 10_000)
        everything = local.cross_validate(folder, by="random", folds=2, output="rows")
    expected = local.cross_validate(WHOLE, by="random", folds=2, output="rows")
    pd.testing.assert_frame_equal(everything, expected, rtol=1e-9)


def test_a_failing_part_is_named(folder):
    (folder / "2.parquet").write_text("no")
    with pytest.raises(ValueError, match=r"2\.parquet' is not a parquet file, or it is damaged"):
        estimator().fit(folder)


@pytest.fixture
def nobody_reads_all(monkeypatch):
    """A command that read the folder into one frame would fail here."""
    monkeypatch.setattr("weft.project.surveys.MOST_LOOKED_AT", 1200)
    inner = parts_module.joined_parts

    def some(frames):
        assert sum(map(len, frames)) <= 1200
        return inner(frames)

    monkeypatch.setattr("weft.project.surveys.joined_parts", some)
    monkeypatch.setattr("weft.data.files.joined_parts", some)


def test_a_folder_is_surveyed_by_reductions_over_its_files(folder, nobody_reads_all):
    """Which column is what, some files tell; what is counted is counted of all."""
    TABLE.iloc[[77, 78]].to_parquet(folder / "5.parquet", index=False)
    here = weft.survey(pd.concat([WHOLE, TABLE.iloc[[77, 78]]], ignore_index=True))
    found = survey_file(Settings(table=str(folder)), advised=True)
    assert found.whole == folder
    assert found.table.num_rows < 1200
    assert found.arranged[0].endswith(
        "of 2,407 rows, in 3 of 6 files, were looked at to tell which column is what; all were counted"
    )
    assert found.settings.options == here.settings.options
    assert found.counts == here.counts
    assert found.counts.num_duplicates == 7
    assert found.copies == here.copies
    assert found.copies.number == 2
    assert found.objection == here.objection


def test_workers_survey_the_folder_and_no_number_changes(folder, nobody_reads_all, client):
    here = survey_file(Settings(table=str(folder)), advised=True)
    with tasks_on(client):
        there = survey_file(Settings(table=str(folder)), advised=True)
    assert there.counts == here.counts


CONFIG = """
[data]
table = "rows"
time = "day"
space = ["x", "y"]
target = "value"
missing = [-99.0]
[model]
components = ["fast"]
regions = 3
max_iterations = 2
habits = []
[evaluate]
by = ["random"]
folds = 2
[predict]
table = "rows"
"""


def test_a_folder_is_run_without_being_read_as_a_whole(folder, local, nobody_reads_all, tmp_path, monkeypatch):
    """Checked, fitted, judged by stretches of the series, predicted file by file and reported."""
    monkeypatch.chdir(tmp_path)
    pathlib.Path("weft.toml").write_text(CONFIG)
    assert main(["run"]) == 0
    check_same(weft.load("model.weft"), local)
    predicted = pd.read_parquet("predictions.parquet")
    assert_allclose(predicted["mean"], local.predict(WHOLE)["mean"], rtol=1e-9)
    assert len(predicted) == len(WHOLE)
    report = pathlib.Path("report.html").read_text()
    assert "value in space and time" in report


def test_a_folder_is_looked_at_and_judged_without_being_read_as_a_whole(
    folder, local, nobody_reads_all, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    local.save("model.weft")
    assert main(["init", "rows"]) == 0
    assert 'target = "value"' in pathlib.Path("weft.toml").read_text()
    assert "2,405 rows at 40 places" in pathlib.Path("weft.toml").read_text()
    capsys.readouterr()
    assert main(["check", "rows", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["num_rows"], said["num_places"], said["num_times"]) == (2405, 40, 60)
    assert (
        main(["evaluate", "rows", "--model", "model.weft", "--by", "random", "--folds", "2", "-o", "scores.csv"]) == 0
    )
    found = pd.read_csv("scores.csv")
    expected = local.cross_validate(folder, by="random", folds=2)
    pd.testing.assert_frame_equal(found, expected, check_dtype=False, rtol=1e-6)


def test_a_folder_is_filled_and_scored_file_by_file(folder, local, tmp_path, monkeypatch, capsys):
    """Rows of a file are answered as those of the table, and no more than one file is in memory."""
    monkeypatch.chdir(tmp_path)
    local.save("model.weft")
    filled, scored = local.fill(WHOLE.reset_index(drop=True)), local.score(WHOLE)

    def never(*arguments):
        raise AssertionError("the folder was read as a whole")

    with monkeypatch.context() as patched:
        for module in ("data.files", "project.asked"):
            patched.setattr(f"weft.{module}.joined_parts", never)
        assert main(["fill", "model.weft", "rows", "-o", "filled.parquet"]) == 0
        assert f"filled {filled['filled'].sum():,} gaps" in capsys.readouterr().out
        assert main(["score", "model.weft", "rows", "--json"]) == 0
        found = json.loads(capsys.readouterr().out)["scores"]
        assert main(["score", "model.weft", "rows", "--rows", "scored.csv"]) == 0
    pd.testing.assert_frame_equal(pd.read_parquet("filled.parquet"), filled, check_dtype=False, rtol=1e-9)
    for name, value in found["weft"].items():
        assert value == pytest.approx(scored[name], rel=1e-9, abs=1e-12), name
    baselines = {name: float(summary["mean_crps"]) for name, summary in found.items() if name != "weft"}
    assert baselines == pytest.approx({name: scored[f"mean_crps_{name}"] for name in baselines}, rel=1e-9)
    assert len(baselines) >= 3
    rows = pd.read_csv("scored.csv").sort_values(["model", "row"]).reset_index(drop=True)
    expected = local.score_rows(WHOLE).sort_values(["model", "row"]).reset_index(drop=True)
    pd.testing.assert_frame_equal(rows, expected, check_dtype=False, rtol=1e-9)


def test_a_folder_without_a_value_has_nothing_to_score(local, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    local.save("model.weft")
    pathlib.Path("rows").mkdir()
    for number in range(2):
        TABLE.iloc[:5].assign(value=-99.0).to_parquet(f"rows/{number}.parquet", index=False)
    assert main(["score", "model.weft", "rows"]) == 2
    assert "no row has a value of 'value', so there is nothing to score" in capsys.readouterr().err


def test_a_wrong_file_is_one_sentence_of_a_command_whose_workers_read_it(
    folder, nobody_reads_all, client, tmp_path, capsys
):
    wrong = TABLE.iloc[:50].astype({"value": str})
    wrong.iloc[7, wrong.columns.get_loc("value")] = "much"
    wrong.to_parquet(folder / "1.parquet", index=False)
    given = ["--time", "day", "--space", "x,y", "--target", "value", "--scheduler", client.scheduler.address]
    assert main(["fit", str(folder), *given, "-o", str(tmp_path / "model.weft")]) == 2
    said = capsys.readouterr().err.splitlines()[-1]
    assert said == (
        "weft: counting 1.parquet failed on a worker: '1.parquet': column 'value' must hold numbers; row 7 (counting from 0) has 'much': "
        "leave it empty where there is no value"
    )
    assert not (tmp_path / "model.weft").exists()


def test_a_file_of_settings_is_fitted_from_a_look_at_some_files(local, folder, tmp_path, monkeypatch, nobody_reads_all):
    """Of more rows than one process may hold, whole files here and there say which column is what; all are fitted."""
    read, said = [], []
    inner = parts_module.read_part

    def noted(part):
        read.append(pathlib.Path(part.path).name)
        return inner(part)

    monkeypatch.setattr("weft.project.surveys.read_part", noted)
    options = {name: value for name, value in vars(estimator()).items() if value is not None and name != "missing"}
    settings = Settings(table=folder, options=options | {"habits": None})
    found = fit_file(settings, tmp_path / "model.weft", advised=True, say=said.append)
    assert read == ["0.parquet", "4.parquet"]
    assert said[0].startswith("weft: 920 of 2,405 rows, in 2 of 5 files, were looked at to tell which column is what")
    assert any("missing is -99" in each for each in said)
    check_same(found, local)
