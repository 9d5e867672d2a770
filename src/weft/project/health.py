# SPDX-License-Identifier: MIT
"""What `weft doctor` looks at: versions, processors, memory, caches, and each engine against a dense computation."""

import importlib.metadata
import os
import platform
import time
from typing import Any

import numpy as np

__all__ = ["examine"]

PACKAGES = ("weft", "jax", "equinox", "numba", "numpy", "scipy", "pandas", "pyarrow", "xarray", "narwhals", "pyproj")
# The engines agree with dense algebra far closer than this; a wrong BLAS or float32 does not.
TOLERANCE = 1e-8


def examine() -> tuple[dict[str, Any], list[str]]:
    """What there is, and sentences on what is wrong with it."""
    import jax

    from weft.engines.choose import engine_names
    from weft.engines.cpu.compiled import cache_folder
    from weft.engines.cpu.threads import available_threads

    problems: list[str] = []
    folder = cache_folder()
    if folder is None:
        problems.append("no cache folder can be written, so the cpu engine is compiled anew in every process")
    engines: dict[str, str] = {}
    for name in engine_names()[1:]:
        started = time.perf_counter()
        try:
            error = _self_test(name)
        except Exception as failure:
            problems.append(f"engine {name} fails: {type(failure).__name__}: {failure}")
            engines[name] = "fails"
            continue
        engines[name] = f"right to {error:.1e}, tried in {time.perf_counter() - started:.1f} s"
        if not error < TOLERANCE:
            problems.append(f"engine {name} is off by {error:.1e} of the right answer")
    record = {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "processors": os.cpu_count(),
        "threads": available_threads(None),
        "memory": _memory(),
        "jax_devices": ", ".join(str(device) for device in jax.devices()),
        "float64": "for the length of a call; JAX's own setting is left alone",
        "cache_folder": str(folder),
        "versions": {name: _version(name) for name in PACKAGES},
        "engines": engines,
    }
    return record, problems


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _memory() -> str:
    try:
        return f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 1e9:.1f} GB"
    except (ValueError, OSError, AttributeError):
        return "unknown"


def _self_test(engine: str) -> float:
    """The relative error of a log evidence: six rows at three places, one of them missing, against the definition."""
    import jax

    import weft

    times = np.array([0.0, 0.0, 1.0, 1.5, 1.5, 4.0])
    places = np.array([[0.0], [0.7], [0.0], [0.7], [1.9], [1.9]])
    values = np.array([0.3, -0.4, 0.8, np.nan, 1.1, -0.2])
    with jax.enable_x64(True):
        model = weft.Model(
            kernel=weft.Separable(space=weft.Matern32(0.8), time=weft.Matern12(2.0), variance=1.3),
            likelihood=weft.Gaussian(0.2),
            pseudo_points=None,
        )
        found = float(weft.log_evidence(model, weft.Observations(times, places, values), engine=engine))
    seen = ~np.isnan(values)
    scaled = np.sqrt(3.0) * np.abs(places[seen] - places[seen].T) / 0.8
    between = np.abs(times[seen, None] - times[seen]) / 2.0
    covariance = 1.3 * (1 + scaled) * np.exp(-scaled - between) + 0.2 * np.eye(seen.sum())
    _, log_determinant = np.linalg.slogdet(2 * np.pi * covariance)
    expected = -0.5 * (log_determinant + values[seen] @ np.linalg.solve(covariance, values[seen]))
    return abs(found - expected) / abs(expected)
