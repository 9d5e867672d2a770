# SPDX-License-Identifier: MIT
"""Rows of tables that are made where they are read; workers import this and nothing of the tests else."""

import os
import pathlib

import numpy as np
import pandas as pd


def rows(count: int, seed: int = 5) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "day": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 20, count), "D"),
            "x": rng.uniform(0, 9, count),
            "y": rng.uniform(0, 7, count),
        }
    )
    value = np.sin(table["x"]) + 0.3 * rng.normal(size=count)
    return table.assign(
        value=np.where(rng.uniform(size=count) < 0.1, np.nan, value), name=[f"n{k}" for k in range(count)]
    )


def wide_part(number: int) -> pd.DataFrame:
    """A few rows, each with many bytes, twenty megabytes in all."""
    return rows(10, seed=100 + number).assign(name=[bytes(2_000_000) for _ in range(10)])


def noted(folder: pathlib.Path, part: pd.DataFrame) -> pd.DataFrame:
    """A part of a table; who reads it leaves a file."""
    (folder / str(os.getpid())).touch()
    return part
