# SPDX-License-Identifier: MIT
"""weft.toml: written from a table, checked, and run; and a fit that goes on after it was ended."""

import pathlib
import subprocess
import sys
import time
import tomllib

import pandas as pd
import pytest

from tests.cli.conftest import COLUMNS, Run
from weft import load
from weft.data.files import write_table
from weft.demo import heights
from weft.project.settings import SECTIONS, read_settings
from weft.training.fitting import _Run
from weft.training.maximise import Step

CHECKPOINT = pathlib.Path("model.weft.checkpoint")


def test_init_writes_what_it_inferred_and_why(run: Run, small_table: pathlib.Path, folder: pathlib.Path) -> None:
    outcome = run("init", small_table)
    assert outcome.status == 0
    assert "'lon' and 'lat' are named like degrees, with 'elevation' for height" in outcome.out
    text = pathlib.Path("weft.toml").read_text()
    assert "# column 'date' is named like a time" in text
    assert "usual step 1 day" in text
    content = tomllib.loads(text)
    assert content["data"]["space"] == ["lon", "lat", "elevation"]
    assert pathlib.Path(folder, content["data"]["table"]).resolve() == small_table.resolve()
    assert read_settings("weft.toml").report.station == "station"
    again = run("init", small_table)
    assert again.status == 2
    assert "--force" in again.err
    assert run("init", small_table, "--force", "--json").json["reasons"]["time"].startswith("column 'date'")


def test_init_says_what_it_cannot_tell(run: Run) -> None:
    """Awkward names come through, and what is not known stays open."""
    name = 'a "quoted"\\ \x7f column'
    pd.DataFrame({"Lat": [1.0, 2.0], name: [0.5, 0.7], "Lon": [3.0, 4.0]}).to_csv("odd.csv", index=False)
    outcome = run("init", "odd.csv")
    assert outcome.status == 0, outcome.err
    assert "no column looks like the time" in outcome.out
    settings = read_settings("weft.toml")
    assert settings.options["target"] == name
    assert "time" not in settings.options


def test_starting_file_has_every_section_and_no_unknown_option(run: Run, small_table: pathlib.Path) -> None:
    """What stands there commented out is right too."""
    run("init", small_table)
    lines = pathlib.Path("weft.toml").read_text().splitlines()
    uncommented = [line[2:] if line.startswith("# ") and " = " in line.split("#")[1] else line for line in lines]
    pathlib.Path("all.toml").write_text("\n".join(uncommented))
    settings = read_settings("all.toml")
    assert set(tomllib.loads("\n".join(uncommented))) == set(SECTIONS)
    assert settings.options["seasonality"] == ("yearly",)
    assert settings.predict.output == "predictions.nc"


def test_check_counts_and_estimates(run: Run, small_table: pathlib.Path) -> None:
    table = pd.read_csv(small_table)
    table = pd.concat([table, table[:3]])
    table.iloc[4, table.columns.get_loc("tmax")] = float("nan")
    table.to_csv("rows.csv", index=False)
    record = run("check", "rows.csv", "--json").json
    assert record["num_rows"] == len(table)
    assert record["num_missing_target"] == 1
    assert record["num_duplicates"] == 3
    assert record["num_places"] == table["station"].nunique()
    assert record["num_gaps"] == 1
    assert record["fit_seconds"] > 0
    assert 1e6 < record["memory_bytes"] < 1e9


def test_run_does_all_of_it(run: Run, small_table: pathlib.Path, folder: pathlib.Path) -> None:
    write_table(heights("2018-07-15").isel(lat=slice(0, None, 24), lon=slice(0, None, 48)), "grid.nc")
    pathlib.Path("out").mkdir()
    pathlib.Path("weft.toml").write_text(
        f"[data]\ntable = {str(small_table)!r}\n[model]\nmax_iterations = 2\n[evaluate]\nby = ['random']\nfolds = 2\n"
        "[predict]\ntable = 'grid.nc'\noutput = 'map.nc'\n[report]\nstation = 'station'\n[output]\nfolder = 'out'\n"
    )
    outcome = run("run", "weft.toml", "--json", "--profile")
    assert outcome.status == 0, outcome.err
    names = sorted(path.name for path in pathlib.Path("out").iterdir())
    assert names == ["map.nc", "model.weft", "report.html", "scores.csv"]
    assert outcome.json["fit"]["num_rows"] == len(pd.read_csv(small_table))
    assert {line["model"] for line in outcome.json["scores"]} >= {"weft", "climatology", "nearest_station"}
    page = pathlib.Path("out/report.html").read_text(encoding="utf-8")
    assert "<html" in page[:2000]
    phases = ["import", "read", "survey", "learn", "condition", "evaluate", "predict", "report", "write"]
    took = outcome.json["timings"]
    assert [name for name in took if name in phases] == phases
    assert sum(spent["clock_seconds"] for spent in took.values()) == pytest.approx(outcome.json["seconds"])
    assert all(f'<th scope="row">{name}</th>' in page for name in phases)


def test_killed_fit_goes_on(run: Run, small_table: pathlib.Path, folder: pathlib.Path) -> None:
    """Killed, a fit leaves a checkpoint and no model."""
    program = (
        # Slow enough to be caught in the act.
        "import sys, time\n"
        "import weft.training.fitting as fitting\n"
        "record = fitting._Run.record\n"
        "fitting._Run.record = lambda *given: (record(*given), time.sleep(0.5))\n"
        "from weft.cli import main\n"
        "sys.exit(main(sys.argv[1:]))\n"
    )
    arguments = ["fit", str(small_table), *COLUMNS, "-o", "model.weft"]
    process = subprocess.Popen([sys.executable, "-c", program, *arguments], stderr=subprocess.DEVNULL)
    while not CHECKPOINT.exists() and process.poll() is None:
        time.sleep(0.05)
    time.sleep(0.6)
    process.kill()
    process.wait()
    assert [path.name for path in folder.iterdir()] == [CHECKPOINT.name]
    assert_resumes(run, arguments)


def test_interrupted_fit_is_saved_and_goes_on(
    run: Run, small_table: pathlib.Path, folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C keeps the best so far, says how to go on, and ends with status 130."""
    record = _Run.record

    def interrupted(self: _Run, number: int, iteration: int, step: Step) -> None:
        record(self, number, iteration, step)
        if iteration == 2:
            raise KeyboardInterrupt

    arguments = ["fit", str(small_table), *COLUMNS, "-o", "model.weft"]
    with monkeypatch.context() as patch:
        patch.setattr(_Run, "record", interrupted)
        outcome = run(*arguments)
    assert outcome.status == 130
    assert "--resume" in outcome.err
    assert sorted(path.name for path in folder.iterdir()) == ["model.weft", CHECKPOINT.name]
    assert not load("model.weft").result_.converged
    assert_resumes(run, arguments)


def assert_resumes(run: Run, arguments: list[str]) -> None:
    """The first iterations are those of the ended fit: one history, without a second start."""
    record = run(*arguments, "--resume", "--json").json
    assert record["converged"]
    history = load("model.weft").result_.history
    assert [step.iteration for step in history] == list(range(len(history)))
    assert not CHECKPOINT.exists()


def test_the_target_is_treated_as_it_suits_it_and_said_so(run: Run, small_table: pathlib.Path) -> None:
    table = pd.read_csv(small_table)
    days, stations = (table[name].factorize()[0] for name in ("date", "station"))
    wiggle = pd.Series((days * 7 + stations * 3) % 5 - 2.0)
    table["tmax"] = 10.0 ** (stations % 3) * 1.5**wiggle
    table.to_csv("skewed.csv", index=False)
    outcome = run("init", "skewed.csv", "-o", "skewed.toml")
    assert "transform: under log values left out are predicted best" in outcome.out
    assert read_settings("skewed.toml").options["transform"] == "log"
    # A table without a config is advised too; one with a config, or with an option, is left as it says.
    options = ("--max-iterations", "1", "--learning-rows", "60", "-o", "model.weft")
    bare = run("fit", "skewed.csv", *options)
    assert "transform is log: under log" in bare.err
    assert "parameters are learned from" in bare.err
    assert load("model.weft").transform == "log"
    told = run("fit", "skewed.csv", *options, "--transform", "identity")
    assert "transform is" not in told.err
    assert load("model.weft").transform == "identity"
    assert "learning_rows" not in read_settings("skewed.toml").options
