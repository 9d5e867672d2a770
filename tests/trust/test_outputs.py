# SPDX-License-Identifier: MIT
"""Outputs that would have replaced inputs, each other, devices or pipes; stores replaced in two steps; what the killed leave."""

import os
import pathlib
import signal
import subprocess
import sys
from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from tests.cli.conftest import COLUMNS, Run, assert_refused, folder, model_file, run, small_table
from weft.data import atomic
from weft.data.atomic import check_output, whole_file, whole_folder
from weft.data.files import read_table, write_table
from weft.data.geographic_files import read_shapes
from weft.data.leftovers import temporary_name
from weft.data.outputs import check_outputs
from weft.data.renaming import exchange
from weft.loading import load
from weft.project.settings import read_settings
from weft.training.checkpoint import read_checkpoint

__all__ = ["folder", "model_file", "run", "small_table"]


@pytest.fixture
def inputs(folder: pathlib.Path, model_file: pathlib.Path, small_table: pathlib.Path) -> dict[str, bytes]:
    """Copies of a table, a model and a config in `folder`, which is the working directory, and what they hold."""
    pathlib.Path("t.csv").write_bytes(small_table.read_bytes())
    pathlib.Path("m.weft").write_bytes(model_file.read_bytes())
    columns = 'table = "t.csv"\ntime = "date"\nspace = ["lat", "lon", "elevation"]\ntarget = "tmax"\n'
    pathlib.Path("weft.toml").write_text(f"[data]\n{columns}")
    return {name: pathlib.Path(name).read_bytes() for name in sorted(os.listdir())}


@pytest.mark.parametrize(
    "line",
    [
        ("fit", "t.csv", *COLUMNS, "-o", "t.csv"),
        ("fit", "--config", "weft.toml", "-o", "weft.toml"),
        ("fit", "--config", "weft.toml", "-o", "./t.csv"),
        ("predict", "m.weft", "t.csv", "-o", "t.csv"),
        ("sample", "m.weft", "t.csv", "-o", "t.csv"),
        ("update", "m.weft", "t.csv", "-o", "t.csv"),
        ("update", "m.weft", "t.csv", "-o", "m.weft"),
        ("score", "m.weft", "t.csv", "--rows", "t.csv"),
        ("evaluate", "t.csv", "--model", "m.weft", "--rows", "t.csv"),
        ("evaluate", "t.csv", "--model", "m.weft", "-o", "t.csv"),
        ("report", "m.weft", "-o", "m.weft"),
        ("report", "m.weft", "--table", "t.csv", "-o", "t.csv"),
        ("report", "m.weft", "--held-out", "t.csv", "-o", "t.csv"),
        ("report", "m.weft", "--terrain", "t.csv", "-o", "t.csv"),
        ("fill", "m.weft", "t.csv", "-o", "t.csv"),
        ("aggregate", "m.weft", "t.csv", "-o", "t.csv"),
        ("audit", "m.weft", "t.csv", "-o", "t.csv"),
        ("suggest", "m.weft", "t.csv", "-o", "t.csv"),
        ("forecast", "m.weft", "3D", "--at", "t.csv", "-o", "t.csv"),
        ("grid", "m.weft", "--step", "10km", "--terrain", "t.csv", "-o", "t.csv"),
        ("init", "t.csv", "-o", "t.csv", "--force"),
    ],
    ids=" ".join,
)
def test_an_output_replaced_an_input(line: tuple[str, ...], run: Run, inputs: dict[str, bytes]) -> None:
    assert_refused(run(*line), "which is to be read; give another name")
    assert {name: pathlib.Path(name).read_bytes() for name in sorted(os.listdir())} == inputs


@pytest.mark.parametrize(
    ("section", "words"),
    [
        ('[output]\nscores = "t.csv"\n', "which is to be read"),
        ('[output]\nmodel = "weft.toml"\n', "which is to be read"),
        ('[predict]\ntable = "g.csv"\noutput = "t.csv"\n', "which is to be read"),
        ('[predict]\ntable = "g.csv"\noutput = "g.csv"\n', "which is to be read"),
        ('[report]\nterrain = "g.csv"\n[output]\nscores = "g.csv"\n', "which is to be read"),
        ('[output]\nmodel = "all"\nreport = "all"\n', "would replace the other"),
        ('[output]\nmodel = "scores.csv"\n', "would replace the other"),
        ('[output]\nmodel = "a"\nreport = "a.checkpoint"\n', "would replace the other"),
        ('[predict]\ntable = "g.csv"\noutput = "scores.csv"\n', "would replace the other"),
    ],
)
def test_a_run_left_only_the_last_of_its_files(section: str, words: str, run: Run, inputs: dict[str, bytes]) -> None:
    config = inputs["weft.toml"].decode() + section
    pathlib.Path("weft.toml").write_text(config)
    pathlib.Path("g.csv").write_bytes(inputs["t.csv"])
    assert_refused(run("run", "weft.toml"), words)
    assert {name: pathlib.Path(name).read_bytes() for name in os.listdir()} == inputs | {
        "weft.toml": config.encode(),
        "g.csv": inputs["t.csv"],
    }


def test_an_input_by_another_name_is_the_input(tmp_path: pathlib.Path) -> None:
    table = tmp_path / "t.csv"
    table.write_text("a\n1\n")
    (tmp_path / "soft.csv").symlink_to(table)
    os.link(table, tmp_path / "hard.csv")
    (tmp_path / "there").symlink_to(tmp_path, target_is_directory=True)
    for name in ("soft.csv", "hard.csv", "there/t.csv", "there/./t.csv"):
        with pytest.raises(ValueError, match="to be read"):
            check_outputs({"table": table}, files={"model": tmp_path / name})
        with pytest.raises(ValueError, match="to be read"):
            check_outputs({"table": tmp_path / name}, tables={"predictions": table})
    check_outputs({"table": table}, files={"model": tmp_path / "other"})


def test_two_outputs_in_one_place_are_refused_before_either_is_there(tmp_path: pathlib.Path) -> None:
    (tmp_path / "there").symlink_to(tmp_path, target_is_directory=True)
    with pytest.raises(ValueError, match="the model goes to"):
        check_outputs({}, files={"model": tmp_path / "a", "report": tmp_path / "there" / "a"})
    check_outputs({}, files={"model": tmp_path / "a", "report": tmp_path / "b", "none": None})


def test_two_outputs_whose_names_a_file_system_takes_for_one(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outputs = {"model": tmp_path / "Scores.csv", "report": tmp_path / "scores.csv"}
    check_outputs({}, files=outputs)
    assert os.listdir(tmp_path) == []
    exists = pathlib.Path.exists

    def without_regard_to_case(path: pathlib.Path, **options: bool) -> bool:
        names = [name.casefold() for name in os.listdir(path.parent)] if exists(path.parent) else []
        return exists(path) or path.name.casefold() in names

    monkeypatch.setattr(pathlib.Path, "exists", without_regard_to_case)
    with pytest.raises(ValueError, match="would replace the other"):
        check_outputs({}, files=outputs)
    assert os.listdir(tmp_path) == []


def test_an_output_within_a_store_that_is_read(tmp_path: pathlib.Path) -> None:
    write_table(pd.DataFrame({"a": [1.0, 2.0]}), tmp_path / "t.zarr")
    with pytest.raises(ValueError, match="to be read"):
        check_outputs({"table": tmp_path / "t.zarr"}, files={"model": tmp_path / "t.zarr" / "m.weft"})
    with pytest.raises(ValueError, match="holds"):
        check_outputs({"table": tmp_path / "t.zarr" / "x.csv"}, tables={"scores": tmp_path / "t.zarr"})


def test_a_pipe_was_replaced_by_a_file(tmp_path: pathlib.Path) -> None:
    os.mkfifo(tmp_path / "pipe.csv")
    (tmp_path / "link.csv").symlink_to(tmp_path / "pipe.csv")
    (tmp_path / "null").symlink_to(os.devnull)
    for name, kind in (("pipe.csv", "pipe"), ("link.csv", "pipe"), ("null", "device")):
        with pytest.raises(ValueError, match=f"cannot write .*{kind}, not a file"):
            check_output(tmp_path / name)
    assert (tmp_path / "pipe.csv").is_fifo()
    assert pathlib.Path(os.devnull).is_char_device()


@pytest.mark.parametrize(
    "read",
    [read_table, load, read_settings, read_shapes, lambda path: read_checkpoint(path, "f")],
    ids=["table", "model", "config", "polygons", "checkpoint"],
)
def test_a_pipe_to_read_was_called_empty_or_waited_for(read: Callable[..., object], tmp_path: pathlib.Path) -> None:
    os.mkfifo(tmp_path / "pipe.csv")
    with pytest.raises(ValueError, match=r"cannot read .*a pipe, not a file"):
        read(tmp_path / "pipe.csv")


@pytest.mark.parametrize("in_one_step", [True, False])
def test_the_old_store_is_there_until_the_new_one_is(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, in_one_step: bool
) -> None:
    """What is under the name whenever names change: never nothing, where the system can exchange them."""
    if not in_one_step:
        monkeypatch.setattr(atomic, "exchange", lambda one, other: False)
    write_table(pd.DataFrame({"a": [1.0]}), tmp_path / "t.zarr")
    seen, replace = [], os.replace

    def watched(source: object, target: object) -> None:
        replace(source, target)  # type: ignore[call-overload]
        # Zarr renames within its store too.
        if pathlib.Path(target).parent == tmp_path:  # type: ignore[arg-type]
            seen.append((tmp_path / "t.zarr").exists())

    monkeypatch.setattr(atomic.os, "replace", watched)
    write_table(pd.DataFrame({"a": [2.0, 3.0]}), tmp_path / "t.zarr")
    assert seen == ([] if in_one_step else [False, True])
    np.testing.assert_array_equal(read_table(tmp_path / "t.zarr")["a"], [2.0, 3.0])
    assert os.listdir(tmp_path) == ["t.zarr"]


def test_exchange_raises_what_the_system_says(tmp_path: pathlib.Path) -> None:
    (tmp_path / "a").write_text("1")
    with pytest.raises(FileNotFoundError):
        exchange(tmp_path / "a", tmp_path / "b")


_KILLED = """
import os, pathlib, signal, sys
from weft.data import atomic
target = pathlib.Path(sys.argv[1])
if sys.argv[2] == "file":
    with atomic.whole_file(target) as part:
        part.write_text("half")
        part.with_name(part.name + ".room").write_text("")
        os.kill(os.getpid(), signal.SIGKILL)
atomic.exchange = lambda one, other: False
def killed(source, target):
    os.rename(source, target)
    os.kill(os.getpid(), signal.SIGKILL)
with atomic.whole_folder(target) as part:
    part.mkdir()
    (part / "new").write_text("half")
    atomic.os.replace = killed
"""


def _kill_while_writing(target: pathlib.Path, kind: str) -> None:
    done = subprocess.run([sys.executable, "-c", _KILLED, str(target), kind], check=False)
    assert done.returncode == -signal.SIGKILL


def test_what_killed_processes_left_was_never_removed(tmp_path: pathlib.Path) -> None:
    target = tmp_path / "t.csv"
    _kill_while_writing(target, "file")
    assert len(os.listdir(tmp_path)) == 2
    (tmp_path / ".t.csv.of-mine.part").write_text("not weft's")
    others = temporary_name(tmp_path / "u.csv")
    others.write_text("of another file")
    mine = temporary_name(target)  # in use
    mine.write_text("of a process that lives")
    with whole_file(target) as part:
        part.write_text("whole")
    assert sorted(os.listdir(tmp_path)) == sorted([".t.csv.of-mine.part", others.name, mine.name, "t.csv"])


def test_a_store_moved_aside_by_a_process_that_was_killed_comes_back(tmp_path: pathlib.Path) -> None:
    target = tmp_path / "t.zarr"
    with whole_folder(target) as part:
        part.mkdir()
        (part / "old").write_text("whole")
    _kill_while_writing(target, "folder")
    assert not target.exists()
    check_output(target, is_folder=True)
    assert os.listdir(tmp_path) == ["t.zarr"]
    assert os.listdir(target) == ["old"]
