# SPDX-License-Identifier: MIT
"""The system fails at the n-th call, for every n, while a command runs: each of its outputs is the old or the new, never neither.

Whatever writes nothing is left out here (surveying, loading, learning, evaluating, predicting, gathering a report); what it would have
found was found before.
"""

import contextlib
import copy
import dataclasses
import inspect
import io
import os
import pathlib
import shutil
import types
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

import weft
import weft.demo
import weft.project.answers
import weft.project.evaluation
import weft.project.fitting
import weft.project.runs
import weft.project.starting_file
import weft.report.build
import weft_experiments.registry
from tests.estimator.tables import station_table
from tests.trust.faults import CALLS, each_failing_call, files_of_at_most, survived
from tests.trust.fuzzing import TIMES_MORE, inside_new_folder
from weft.cli import application, main
from weft.data.archive import read_archive
from weft.data.atomic import check_output, write_whole
from weft.data.files import read_table, write_table
from weft.project.evaluation import evaluate
from weft.project.settings import Settings, read_settings
from weft.project.surveys import Survey, survey_file
from weft.report.size import ReportSize
from weft.training.checkpoint import Checkpoint, read_checkpoint, write_checkpoint
from weft_experiments.figures import new_figure
from weft_experiments.figures import save as save_figure
from weft_experiments.results import Steps

MODEL = pathlib.Path(__file__).parent.parent / "kept" / "files" / "estimator.weft"
ENDINGS = ("csv", "csv.gz", "parquet", "nc", "zarr")
NUM_ASKED = 7
# What a whole page, picture, config or list of numbers ends with.
ENDS = {
    ".html": b"</html>",
    ".svg": b"</svg>",
    ".png": b"IEND\xaeB`\x82",
    ".pdf": b"%%EOF",
    ".toml": b"",
    ".md": b"end",
    ".json": b"}",
}
pytestmark = pytest.mark.filterwarnings("default")


class Verb(NamedTuple):
    """A command, and what it writes; all in every format by `make fuzz`, since they write by the same functions as `predict`."""

    arguments: tuple[str, ...]
    outputs: tuple[str, ...]


# Commands that write one table, up to its name.
ANSWERS = (
    ("sample", "m.weft", "asked.csv", "-o"),
    ("fill", "m.weft", "asked.csv", "-o"),
    ("forecast", "m.weft", "3D", "-o"),
    ("aggregate", "m.weft", "asked.csv", "-o"),
    ("audit", "m.weft", "asked.csv", "-o"),
    ("grid", "m.weft", "--step", "1", "-o"),
    ("point", "m.weft", "--at", "lon=1", "-o"),
    ("suggest", "m.weft", "asked.csv", "-o"),
)
VERBS: dict[str, Verb] = {
    "update": Verb(("update", "m.weft", "more.csv", "-o", "new.weft"), ("new.weft",)),
    "fit": Verb(("fit", "--config", "weft.toml", "-o", "new.weft"), ("new.weft", "new.weft.checkpoint")),
    **{
        f"predict to {end}": Verb(("predict", "m.weft", "asked.csv", "-o", f"p.{end}"), (f"p.{end}",))
        for end in ENDINGS
    },
    **{
        f"{arguments[0]} to {end}": Verb((*arguments, f"p.{end}"), (f"p.{end}",))
        for place, arguments in enumerate(ANSWERS)
        for end in (ENDINGS if TIMES_MORE > 1 else (ENDINGS[place % 4],))
    },
    "report": Verb(("report", "m.weft", "-o", "page.html"), ("page.html",)),
    **{
        f"plot to {end}": Verb(("plot", "m.weft", "map", "-o", f"p.{end}"), (f"p.{end}",))
        for end in (("svg", "png", "pdf") if TIMES_MORE > 1 else ("svg",))
    },
    "init": Verb(("init", "t.csv", "--force", "-o", "c.toml"), ("c.toml",)),
    **{
        f"score to {end}": Verb(("score", "m.weft", "asked.csv", "--rows", f"s.{end}"), (f"s.{end}",))
        for end in (ENDINGS if TIMES_MORE > 1 else ("parquet",))
    },
    **{
        f"evaluate to {end}": Verb(
            ("evaluate", "t.csv", "--model", "m.weft", "-o", f"s.{end}", "--rows", f"rows.{end}"),
            (f"s.{end}", f"rows.{end}"),
        )
        for end in (ENDINGS if TIMES_MORE > 1 else ("csv",))
    },
    "demo": Verb(("demo", "-o", "demo"), ("demo/map.png", "demo/model.weft", "demo/report.html")),
    "reproduce": Verb(
        ("reproduce", "emission", "--quick", "-o", "paper"), ("paper/expected.json", "paper/README.md", "paper/p.png")
    ),
    **{
        f"run to {end}": Verb(
            ("run", f"run-{end}.toml"), ("new.weft", "new.weft.checkpoint", f"s.{end}", f"p.{end}", "page.html")
        )
        for end in (ENDINGS if TIMES_MORE > 1 else ENDINGS[:1])
    },
}
DATA = """
[data]
table = "t.csv"
time = "time"
space = ["lon", "lat", "elevation"]
target = "value"
"""
MORE = """
[output]
model = "new.weft"
scores = "s.{end}"
report = "page.html"
[predict]
table = "asked.csv"
output = "p.{end}"
"""


@pytest.fixture(scope="module")
def ready() -> Iterator[pathlib.Path]:
    """A folder with what the commands read, and in `old/` what they are to replace."""
    with inside_new_folder() as folder, pytest.MonkeyPatch.context() as patch:
        table = station_table(8)
        table.to_csv("t.csv", index=False)
        table.head(NUM_ASKED).to_csv("asked.csv", index=False)
        table.tail(3).assign(time=lambda rows: rows["time"] + pd.Timedelta("3D")).to_csv("more.csv", index=False)
        shutil.copy(MODEL, "m.weft")
        pathlib.Path("weft.toml").write_text(DATA)
        for name in ("old", "old/demo", "old/paper", "demo", "paper"):
            os.mkdir(name)
        gp = weft.load(MODEL)
        assert isinstance(gp, weft.SpaceTimeGP)
        gp.save("old/new.weft")
        updated = copy.copy(gp).update(read_table("more.csv"))
        write_checkpoint("old/new.weft.checkpoint", Checkpoint("f", ("a",), (), np.array([0.5]), (), 1))
        gp.save("old/demo/model.weft")
        for verb in VERBS.values():
            for name in verb.outputs:
                if pathlib.Path(name).suffix in ENDS:
                    pathlib.Path(f"old/{name}").write_text("old")
        for end in ENDINGS:
            pathlib.Path(f"run-{end}.toml").write_text(DATA + MORE.format(end=end))
            write_table(pd.DataFrame({"old": np.ones(4)}), f"old/p.{end}")
            for name in ("s", "rows"):
                write_table(pd.DataFrame({"old": np.ones(4)}), f"old/{name}.{end}")
        evaluation = evaluate(gp, table, ("random",), 2)
        content = weft.report.build.gather(gp, table, evaluated=evaluation.rows, size=ReportSize())

        def already_fitted(*given: Any, checkpoint: pathlib.Path, **options: Any) -> weft.SpaceTimeGP:
            write_checkpoint(checkpoint, Checkpoint("f", ("a",), (), np.array([0.5]), (), 2))
            return updated

        surveyed = survey_file(read_settings("weft.toml"), advised=False)
        # Of few columns, since a Zarr store has two files for each.
        predicted = gp.predict(read_table("asked.csv"))[["time", "mean"]]
        scored = gp.score_rows(read_table("asked.csv"))

        def survey_again(settings: Settings, **options: Any) -> Survey:
            return dataclasses.replace(surveyed, settings=settings)

        patch.setattr(weft.project.fitting, "survey_file", survey_again)
        patch.setattr(weft.project.runs, "survey_file", survey_again)
        patch.setattr(weft.project.runs, "_rehearse", lambda *given: None)
        patch.setattr(weft.SpaceTimeGP, "predict_pieces", lambda *given, **options: iter([predicted]))
        for name in ("sample", "fill", "forecast", "aggregate", "audit", "point", "suggest"):
            answer = predicted.assign(filled=True, cause="spike")
            patch.setattr(weft.SpaceTimeGP, name, lambda *given, answer=answer, **options: answer)
        patch.setattr(weft.SpaceTimeGP, "grid", lambda *given, **options: predicted.to_xarray())
        patch.setattr(weft.SpaceTimeGP, "score_rows", lambda *given, **options: scored)
        patch.setattr(weft.SpaceTimeGP, "plot", types.SimpleNamespace(map=lambda *given, **options: None))
        patch.setattr(weft.project.starting_file, "survey_file", survey_again)
        patch.setattr(weft.project.answers, "load_estimator", lambda path: copy.copy(gp))
        patch.setattr(weft.project.fitting, "fit", already_fitted)
        patch.setattr(weft.project.runs, "evaluate", lambda *given, **options: evaluation)
        patch.setattr(weft.project.evaluation, "evaluate", lambda *given, **options: evaluation)
        patch.setattr(weft.project.evaluation, "load_estimator", lambda path: gp)
        page = weft.report.build.render(content)
        patch.setattr(weft.report.build, "gather", lambda *given, **options: content)
        patch.setattr(weft.report.build, "render", lambda content: page)
        patch.setattr(weft_experiments.registry, "experiment", lambda name: PAPER)
        patch.setattr(weft.demo, "draw_map", lambda *given: write_whole(given[2], png()))
        patch.setattr(weft.SpaceTimeGP, "fit", lambda gp, *given: vars(gp).update(vars(updated)))
        yield folder


def png() -> bytes:
    drawn = io.BytesIO()
    Figure(figsize=(1.0, 1.0)).savefig(drawn, format="png")
    return drawn.getvalue()


def measured(options: Any) -> dict[str, Any]:
    figure, _ = new_figure(1, 1)
    return {"figure": save_figure(figure, options.output, "p.png"), "step": Steps("emission", options).once("a", dict)}


# An experiment that measures nothing, and writes what every one of them writes.
PAPER = types.ModuleType("paper")
vars(PAPER).update(measure=measured, page=lambda results: f"{results['figure']}, the end")


def _is_new_model(path: pathlib.Path) -> bool:
    added = read_archive(path)[1]["num_rows"] - read_archive(MODEL)[1]["num_rows"]
    assert added in (0, 3)
    return added == 3


def _is_new_table(path: pathlib.Path) -> bool:
    table = read_table(path)
    if "old" in table:
        np.testing.assert_array_equal(table["old"], np.ones(4))
        return False
    if path.name.startswith("p."):
        assert len(np.asarray(table["time"])) == NUM_ASKED
    return True


def is_new(path: pathlib.Path) -> bool:
    """Whether it is the new one; fails where it is neither."""
    if path.suffix in ENDS:
        content = path.read_bytes()
        assert content == b"old" or content.rstrip().endswith(ENDS[path.suffix])
        return content != b"old"
    if path.suffix == ".checkpoint":
        # Of a fit that needs it no more it is removed.
        return not path.exists() or read_checkpoint(path, "f").num_evaluations == 2
    return _is_new_model(path) if path.suffix == ".weft" else _is_new_table(path)


@pytest.fixture
def attempt(ready: pathlib.Path) -> Callable[..., int]:
    """Puts the old outputs in place, runs a command, and looks at what is there then."""

    def run(verb: Verb, context: "contextlib.AbstractContextManager[Any]") -> int:
        for name in verb.outputs:
            shutil.rmtree(name, ignore_errors=True)
            copy = shutil.copytree if os.path.isdir(f"old/{name}") else shutil.copy
            copy(f"old/{name}", name)
        err = io.StringIO()
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(err), context:
            status = main(list(verb.arguments))
        assert status in (0, 2), err.getvalue()
        assert status == 0 or err.getvalue().splitlines()[-1].startswith("weft: ")
        changed = [is_new(ready / name) for name in verb.outputs]
        assert status == 2 or all(changed), f"{verb.outputs} are new: {changed}"
        return status

    return run


def _assert_nothing_left(folder: pathlib.Path, verb: Verb) -> None:
    for name in verb.outputs:
        check_output(folder / name, is_folder=name.endswith(".zarr"))
    assert not [name for name in os.listdir(folder) if name.endswith((".part", ".aside"))]


def test_every_command_that_writes_is_among_them() -> None:
    commands = [command for group in application._VERBS.values() for command in group]
    writing = {each.__name__ for each in commands if {"output", "rows"} & inspect.signature(each).parameters.keys()}
    # A run says in its file what it writes.
    assert writing | {"run"} == {verb.arguments[0] for verb in VERBS.values()}


@pytest.mark.parametrize("name", VERBS)
def test_the_nth_call_of_a_command_fails(
    name: str, ready: pathlib.Path, attempt: Callable[..., int], monkeypatch: pytest.MonkeyPatch
) -> None:
    verb, failed = VERBS[name], 0
    for call in CALLS:
        for context, fault in each_failing_call(call, monkeypatch):
            refused = attempt(verb, context) == 2
            assert fault.failed or not refused, "it was refused for another reason"
            survived(name, call, int(refused))
            failed += refused
    assert failed >= 2 * len(verb.outputs)
    _assert_nothing_left(ready, verb)


@pytest.mark.parametrize(
    "name", VERBS if TIMES_MORE > 1 else ["update", "run to csv", *(f"predict to {end}" for end in ENDINGS)]
)
def test_the_disk_ends_under_a_command(name: str, ready: pathlib.Path, attempt: Callable[..., int]) -> None:
    verb = VERBS[name]
    statuses = [attempt(verb, files_of_at_most(size)) for size in (1, 100, 700)]
    assert statuses[0] == 2
    survived(name, "write", sum(status == 2 for status in statuses))
    assert attempt(verb, contextlib.nullcontext()) == 0
    _assert_nothing_left(ready, verb)
