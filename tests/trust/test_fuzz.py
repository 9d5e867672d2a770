# SPDX-License-Identifier: MIT
"""Hostile tables, configs, model files, checkpoints and command lines, each held to what weft promises (see fuzzing.py)."""

import io
import json
import os
import pathlib
import zipfile
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.trust import fuzzing
from tests.trust.fuzzing import cases, csv_bytes, hold_to_promise, inside_new_folder, odd_text, spoiled
from weft.training.checkpoint import Checkpoint, read_checkpoint, write_checkpoint

MODEL = (pathlib.Path(__file__).parent.parent / "kept" / "files" / "estimator.weft").read_bytes()
# Warnings are remarks of the command line here, not errors.
pytestmark = pytest.mark.filterwarnings("default")


@cases(60)
@given(content=csv_bytes(), verb=st.sampled_from(["check", "init"]))
def test_tables(content: bytes, verb: str) -> None:
    with inside_new_folder() as folder:
        pathlib.Path("t.csv").write_bytes(content)
        hold_to_promise("tables", [verb, "t.csv"], folder)


SECTIONS = ["data", "model", "evaluate", "predict", "report", "output", "modle", ""]
KEYS = [
    "table",
    "time",
    "space",
    "target",
    "kernel",
    "by",
    "folds",
    "quantiles",
    "threshold",
    "model",
    "scores",
    "seed",
    "power",
]
VALUES = [
    '"t.csv"',
    '"time"',
    '["x", "y"]',
    '"value"',
    "3",
    "-1",
    "nan",
    "1e400",
    "true",
    "[]",
    '""',
    "2020-01-01",
    '"a\\u0000b"',
    "[[1]]",
]


@st.composite
def configs(draw: Any) -> str:
    lines = ["[data]", 'table = "t.csv"', 'time = "time"', 'space = ["x", "y"]', 'target = "value"']
    for _ in range(draw(st.integers(1, 5))):
        place = draw(st.integers(0, len(lines)))
        section, key, value = (draw(st.sampled_from(choice)) for choice in (SECTIONS, KEYS, VALUES))
        line = draw(st.sampled_from([f"[{section}]", f"{key} = {value}", f"[[model.{key}]]"]) | odd_text)
        lines.insert(place, line)
    return "\n".join(lines)


TABLE = pd.DataFrame(
    {"time": np.repeat(pd.date_range("2020-01-01", periods=4), 3), "x": [0.0, 1.0, 2.5] * 4, "y": [1.0, 0.0, 1.5] * 4}
).assign(value=np.random.default_rng(0).normal(size=12))


@cases(60)
@given(text=configs())
def test_configs(text: str) -> None:
    with inside_new_folder() as folder:
        TABLE.to_csv("t.csv", index=False)
        pathlib.Path("weft.toml").write_bytes(text.encode(errors="replace"))
        hold_to_promise("configs", ["check", "weft.toml"], folder)


@cases(80)
@given(content=spoiled(MODEL))
def test_bytes_of_a_model(content: bytes) -> None:
    with inside_new_folder() as folder:
        pathlib.Path("m.weft").write_bytes(content)
        hold_to_promise("bytes of models", ["info", "m.weft"], folder)


@cases(100)
@given(data=st.data())
def test_manifests_of_a_model(data: st.DataObject) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(MODEL)) as whole, zipfile.ZipFile(buffer, "w") as new:
        for name in whole.namelist():
            part = whole.read(name)
            if name == "manifest.json":
                part = json.dumps(fuzzing.with_a_leaf_changed(data.draw, json.loads(part))).encode()
            new.writestr(name, part)
    with inside_new_folder() as folder:
        pathlib.Path("m.weft").write_bytes(buffer.getvalue())
        hold_to_promise("manifests", ["info", "m.weft"], folder)


def _checkpoint() -> bytes:
    with inside_new_folder():
        write_checkpoint("c", Checkpoint("f", ("a", "b"), (), np.array([0.5, -1.5]), (), 3))
        return pathlib.Path("c").read_bytes()


CHECKPOINT = _checkpoint()


@cases(80)
@given(content=spoiled(CHECKPOINT))
def test_checkpoints(content: bytes) -> None:
    fuzzing.COUNTS["checkpoints"] += 1
    with inside_new_folder():
        pathlib.Path("c").write_bytes(content)
        problem = None
        try:
            assert read_checkpoint("c", "f").fingerprint == "f"
        except ValueError as error:
            problem = str(error)
        assert problem is None or problem.startswith("'c' is ")


# Nothing that fits: a fit takes seconds, and what is fuzzed here is refused before it.
VERBS = [
    "check",
    "init",
    "info",
    "report",
    "score",
    "update",
    "compare",
    "predict",
    "sample",
    "fill",
    "aggregate",
    "point",
    "evaluate",
    "run",
    "fit",
    "wfit",
]
WORDS = [
    *(
        "t.csv",
        "one.csv",
        "m.weft",
        "weft.toml",
        "none.csv",
        "folder",
        "pipe.csv",
        "link.csv",
        "p.nc",
        "p.zarr",
        "new.weft",
    ),
    *(
        "-o",
        "--output",
        "--config",
        "--rows",
        "--table",
        "--held-out",
        "--quantiles",
        "--json",
        "--of",
        "--seed",
        "--num",
    ),
    *(
        "--time",
        "--space",
        "--target",
        "--threshold",
        "--model",
        "--by",
        "--folds",
        "--force",
        "--resume",
        "--pseudo-points",
    ),
    *(
        "value",
        "time",
        "x,y",
        "nan",
        "-1",
        "1e400",
        "0.5,0.5",
        "field",
        "",
        ".",
        "/dev/null",
        "caf\udce9.csv",
        "--",
        "--help",
    ),
]


@cases(150)
@given(verb=st.sampled_from(VERBS), words=st.lists(st.sampled_from(WORDS), max_size=7))
def test_command_lines(verb: str, words: list[str]) -> None:
    with inside_new_folder() as folder:
        # At one place only, so that no fit begins.
        TABLE.assign(x=0.0, y=1.0).to_csv("one.csv", index=False)
        TABLE.drop(columns="x").to_csv("t.csv", index=False)
        pathlib.Path("m.weft").write_bytes(MODEL)
        pathlib.Path("weft.toml").write_text('[data]\ntable = "one.csv"\n')
        os.mkdir("folder")
        os.mkfifo("pipe.csv")
        os.symlink("m.weft", "link.csv")
        hold_to_promise("command lines", [verb, *words], folder)
        assert pathlib.Path("pipe.csv").is_fifo()
