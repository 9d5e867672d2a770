# SPDX-License-Identifier: MIT
"""The command line run inside the test's own process, a small real table, and a model fitted to it once."""

import dataclasses
import json
import os
import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from weft.cli import main
from weft.demo import temperatures

COLUMNS = ("--time", "date", "--space", "lat,lon,elevation", "--target", "tmax")


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What a command left behind."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        assert self.status == 0, self.err
        return json.loads(self.out)


Run = Callable[..., Outcome]


@pytest.fixture(scope="session")
def small_table(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Nine stations over three weeks, with a gap."""
    table = temperatures()
    chosen = sorted(table["station"].unique())[::7]
    table = table[table["station"].isin(chosen) & (table["date"] < "2018-07-29") & (table["date"] != "2018-07-20")]
    path = tmp_path_factory.mktemp("table") / "small.csv"
    table.to_csv(path, index=False)
    return path


@pytest.fixture(scope="session")
def model_file(small_table: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    path = tmp_path_factory.mktemp("model") / "model.weft"
    assert main(["fit", str(small_table), *COLUMNS, "-o", str(path), "--max-iterations", "3"]) == 0
    return path


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> Iterator[pathlib.Path]:
    """An empty folder, and the working directory meanwhile."""
    before = pathlib.Path.cwd()
    os.chdir(tmp_path)
    yield tmp_path
    os.chdir(before)


@pytest.fixture
def run(folder: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a command in `folder`."""

    def runner(*arguments: object) -> Outcome:
        capsys.readouterr()
        status = main([str(argument) for argument in arguments])
        return Outcome(status, *capsys.readouterr())

    return runner


def assert_refused(outcome: Outcome, *words: str) -> None:
    """One sentence on standard error with these words in it, status 2, and no result."""
    assert outcome.status == 2, outcome.err
    assert outcome.out == ""
    assert len(outcome.err.splitlines()) == 1, outcome.err
    assert outcome.err.startswith("weft: ")
    for word in words:
        assert word in outcome.err
