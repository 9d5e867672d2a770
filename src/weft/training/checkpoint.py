# SPDX-License-Identifier: MIT
"""A fit's state in a file after each iteration, written whole or not at all, so that a killed fit can go on.

One .npz file of plain arrays and a line of JSON; nothing in it is ever executed.
"""

import dataclasses
import hashlib
import io
import json
import os
import pathlib
import zipfile
from typing import Any

import numpy as np

from weft.data.atomic import whole_file
from weft.data.observations import Observations
from weft.data.special import refuse_special
from weft.inference.fingerprints import add_arrays, arrays_of_model, arrays_of_rows, description_of
from weft.model import Model
from weft.training.maximise import Outcome, outcome_in
from weft.training.parameters import ParameterSpace
from weft.training.progress import Iteration

__all__ = ["Checkpoint", "Finished", "fingerprint_of", "read_checkpoint", "write_checkpoint"]

VERSION = 2

ITERATION_TYPES: tuple[Any, ...] = tuple(Iteration.__annotations__.values())


@dataclasses.dataclass(frozen=True)
class Finished:
    """One start that has been climbed to its end."""

    point: np.ndarray
    objective: float
    log_evidence: float
    outcome: Outcome
    message: str


@dataclasses.dataclass(frozen=True)
class Checkpoint:
    """What a fit has done: starts climbed to their ends, where the current one is, and the history of all."""

    fingerprint: str
    names: tuple[str, ...]
    finished: tuple[Finished, ...]
    point: np.ndarray | None
    history: tuple[Iteration, ...]
    num_evaluations: int


def fingerprint_of(
    model: Model, blocks: tuple[Observations, ...], space: ParameterSpace, options: dict[str, Any]
) -> str:
    """A digest of the problem: data, model, what is learned, and the options that change the answer."""
    digest = hashlib.sha256()
    for data in blocks:
        add_arrays(digest.update, arrays_of_rows(data))
    add_arrays(digest.update, arrays_of_model(model))
    add_arrays(digest.update, (space.free, space.lower, space.upper, space.scale))
    digest.update(f"{description_of(model)}{space.names}{sorted(options.items())}".encode())
    return digest.hexdigest()


def write_checkpoint(path: str | os.PathLike[str], state: Checkpoint) -> None:
    finished = [dataclasses.asdict(end) | {"outcome": end.outcome.value} for end in state.finished]
    points = [end.pop("point") for end in finished]
    header = {
        "format": "weft fit",
        "version": VERSION,
        "fingerprint": state.fingerprint,
        "names": state.names,
        "finished": finished,
        "running": state.point is not None,
        "num_evaluations": state.num_evaluations,
    }
    size = len(state.point) if state.point is not None else len(points[0])
    with whole_file(path) as part, part.open("wb") as file:
        np.savez(
            file,
            header=np.array(json.dumps(header)),
            finished_points=np.array(points).reshape(len(points), size),
            point=np.zeros(size) if state.point is None else state.point,
            history=np.array([list(step) for step in state.history], dtype=np.float64).reshape(
                -1, len(Iteration._fields)
            ),
        )


def read_checkpoint(path: str | os.PathLike[str], fingerprint: str) -> Checkpoint:
    """The state in the file; ValueError where it is not one, or is of another problem."""
    name = str(pathlib.Path(path))
    refuse_special(path, f"cannot read {name!r}")
    # Read first, so that an error of the system's is of the file and not of what is in it.
    content = pathlib.Path(path).read_bytes()
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as file:
            header = json.loads(str(file["header"]))
            history = file["history"]
            finished_points, point = file["finished_points"], file["point"]
        if header["format"] != "weft fit":
            raise KeyError("format")
        version = int(header["version"])
        ends = tuple(
            Finished(p, float(end["objective"]), float(end["log_evidence"]), outcome_in(end), str(end["message"]))
            for p, end in zip(finished_points, header["finished"], strict=True)
        )
        state = Checkpoint(
            fingerprint=header["fingerprint"],
            names=tuple(header["names"]),
            finished=ends,
            point=point if header["running"] else None,
            history=tuple(
                Iteration(*(kind(number) for kind, number in zip(ITERATION_TYPES, row, strict=True))) for row in history
            ),
            num_evaluations=header["num_evaluations"],
        )
    except (
        KeyError,
        TypeError,
        ValueError,
        IndexError,
        EOFError,
        OverflowError,
        RuntimeError,
        zipfile.BadZipFile,
    ) as error:
        raise ValueError(
            f"{name!r} is not a checkpoint of a fit, or is damaged; remove it, or fit without resuming"
        ) from error
    if version > VERSION:
        raise ValueError(
            f"{name!r} is a checkpoint of version {version}, newer than this weft reads ({VERSION}); update weft"
        )
    if state.fingerprint != fingerprint:
        raise ValueError(
            f"{name!r} is a checkpoint of another fit (its data, start, options or parameters differ); remove it, or fit "
            "without resuming"
        )
    return state
