# SPDX-License-Identifier: MIT
"""Every format that weft writes, by a file that holds the number of its version."""

import json
import pathlib
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from weft.data.archive import read_archive, write_archive
from weft.data.atomic import write_whole
from weft.data.files import read_table, write_pieces
from weft.training.checkpoint import Checkpoint, read_checkpoint, write_checkpoint


class Format(NamedTuple):
    """How a version, a number, is written to a file and read back from it."""

    write: Callable[[pathlib.Path, int], Any]
    read: Callable[[pathlib.Path], int]


def _write_table(path: pathlib.Path, version: int) -> None:
    write_pieces((pd.DataFrame({"a": np.full(30, float(version)), "b": "text"}) for _ in range(2)), path)


def _read_table(path: pathlib.Path) -> int:
    (version,) = set(np.asarray(read_table(path)["a"]))
    return int(version)


def _write_model(path: pathlib.Path, version: int) -> None:
    write_archive(path, "test", {"version": version}, [np.full(40, version)], read=lambda content, arrays: None)


def _write_checkpoint(path: pathlib.Path, version: int) -> None:
    write_checkpoint(path, Checkpoint("f", ("a",), (), np.array([0.5]), (), version))


def _write_page(path: pathlib.Path, version: int) -> None:
    write_whole(path, json.dumps([version] * 50))


TABLE = Format(_write_table, _read_table)
FORMATS = {
    "t.csv": TABLE,
    "t.csv.gz": TABLE,
    "t.parquet": TABLE,
    "t.nc": TABLE,
    "t.zarr": TABLE,
    "m.weft": Format(_write_model, lambda path: int(read_archive(path)[1]["version"])),
    "m.checkpoint": Format(_write_checkpoint, lambda path: read_checkpoint(path, "f").num_evaluations),
    "page.html": Format(_write_page, lambda path: int(json.loads(path.read_text())[0])),
}
