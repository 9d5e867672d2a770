# SPDX-License-Identifier: MIT
"""Results of benchmarks as JSON beside them, with the machine, the commit and the versions they belong to."""

import importlib.metadata
import json
import os
import pathlib
import platform
import runpy
import subprocess

# What real data are compared with wherever rows are held out.
BASELINES = ("climatology", "nearest_station", "inverse_distance")
FOLDER = pathlib.Path(__file__).parent / "results"


def circumstances() -> dict:
    """Where and with what a benchmark ran."""
    listed = pathlib.Path("/proc/cpuinfo")
    models = [
        line.split(":", 1)[1].strip() for line in listed.read_text().splitlines() if line.startswith("model name")
    ]
    commit = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=FOLDER.parent, capture_output=True, text=True, check=False
    )
    packages = ("jax", "jaxlib", "numpy", "scipy", "numba", "equinox")
    return {
        "machine": {"processor": models[0] if models else platform.processor(), "threads": os.cpu_count()},
        "load": os.getloadavg(),
        "commit": commit.stdout.strip(),
        "python": platform.python_version(),
        "weft": runpy.run_path(str(FOLDER.parents[1] / ".ci" / "version.py"))["version"](),
        "versions": {name: importlib.metadata.version(name) for name in packages},
    }


def read_results(name: str) -> list:
    """What was written last, or nothing."""
    path = FOLDER / f"{name}.json"
    return json.loads(path.read_text())["results"] if path.exists() else []


def version_of(name: str) -> str:
    """The version of weft that was measured."""
    return json.loads((FOLDER / f"{name}.json").read_text()).get("weft", "of an unknown version")


def write_results(name: str, results: object) -> pathlib.Path:
    FOLDER.mkdir(exist_ok=True)
    path = FOLDER / f"{name}.json"
    path.write_text(json.dumps({**circumstances(), "results": results}, indent=1) + "\n")
    return path
