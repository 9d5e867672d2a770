# SPDX-License-Identifier: MIT
"""What it takes to make a report again: command, settings, seed, versions, a hash of the rows, time and memory."""

import hashlib
import importlib.metadata
import os
import platform
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.estimator.wide import regional_of
from weft.phases import Timings, peak_memory
from weft.report.content import Fact, Reproduce
from weft.report.rows import SeenRows

if TYPE_CHECKING:
    from weft.space_time_gp import SpaceTimeGP

__all__ = ["describe_run", "hash_of_rows"]

_PACKAGES = ("weft", "jax", "numpy", "scipy", "numba", "equinox", "pandas")


def describe_run(gp: "SpaceTimeGP", rows: SeenRows, *, command: str | None, seed: int, timings: Timings) -> Reproduce:
    versions = ", ".join(f"{name} {version}" for name, version in _versions().items())
    learned = f"{gp.result_.seconds:.1f} s, {gp.result_.num_evaluations} evaluations of the evidence"
    facts = (
        Fact("seeds", f"{gp.seed} for the model, {seed} for the report"),
        Fact("rows (SHA-256)", hash_of_rows(rows), "of times, coordinates, covariates and values, sorted"),
        _evidence(gp),
        Fact("learning took", learned),
        Fact("memory", _peak_memory(), "the most this process ever held"),
        Fact("software", f"Python {platform.python_version()}, {versions}"),
        Fact("machine", f"{platform.system()} {platform.machine()}, {os.cpu_count()} processors"),
    )
    return Reproduce(command or _in_python(gp), _settings(gp.get_params()), facts, tuple(timings.cells()))


def _evidence(gp: "SpaceTimeGP") -> Fact:
    """Of the model, unless it was learned from parts of the table: what answers would take another pass over all rows to tell it."""
    if regional_of(gp.posterior_) is None and gp.result_.num_blocks <= 1:
        return Fact("log evidence", f"{gp.posterior_.log_evidence:.6f}")
    return Fact("log evidence", f"{gp.result_.log_evidence:.6f}", "of the rows that parameters were learned from")


def hash_of_rows(rows: SeenRows) -> str:
    """SHA-256 of the rows with a value, whatever their order: sorted by every column in turn, then column after column.

    Numbers are little-endian float64, times in the clock's unit.
    """
    present = rows.present
    measured = rows.measured
    columns = [
        rows.times,
        *measured.space.values(),
        *measured.covariates.values(),
        rows.values,
        *measured.categories.values(),
    ]
    # Kinds by their rank among the labels that are there.
    columns = [np.unique(column, return_inverse=True)[1] if column.dtype.kind == "U" else column for column in columns]
    known = [np.asarray(column)[present] for column in columns]
    order = np.lexsort(known[::-1])
    digest = hashlib.sha256()
    for column in known:
        digest.update(column[order].astype("<f8").tobytes())
    return digest.hexdigest()


def _in_python(gp: "SpaceTimeGP") -> str:
    return f"import weft\n\ngp = weft.{gp!r}\ngp.fit(table)\ngp.report('report.html')"


def _settings(params: Mapping[str, Any]) -> str:
    return "\n".join(f"{name} = {value!r}" for name, value in params.items())


def _versions() -> dict[str, str]:
    found = {}
    for name in _PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "not installed"
    return found


def _peak_memory() -> str:
    peak = peak_memory()
    return f"{peak / 1e6:,.0f} MB" if peak else "unknown"
