# SPDX-License-Identifier: MIT
"""What a release is made of: a version that follows tags, and texts that agree with each other."""

import pathlib
import re
import subprocess
import sys
from types import ModuleType

import pytest
import yaml

ROOT = pathlib.Path(__file__).resolve().parents[1]


@pytest.fixture
def scripts(monkeypatch: pytest.MonkeyPatch) -> tuple[ModuleType, ModuleType]:
    monkeypatch.syspath_prepend(str(ROOT / ".ci"))
    import release
    import version

    return version, release


def test_versions_follow_tags(
    scripts: tuple[ModuleType, ModuleType], tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    version, _ = scripts
    # A repository around the temporary folder is not this one's.
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    monkeypatch.setattr(version, "ROOT", tmp_path)
    (tmp_path / "CHANGELOG.md").write_text("# Changelog\n\n## 0.7.0 (unreleased)\n\n## 0.6.1 (2020-02-02)\n")
    assert version.version() == "0.7.0.dev0"

    def git(*arguments: str) -> None:
        identity = ["-c", "user.name=one", "-c", "user.email=one@example.org"]
        subprocess.run(["git", *identity, *arguments], cwd=tmp_path, check=True, capture_output=True)

    git("init", "-q")
    for number in range(3):
        git("commit", "-q", "--allow-empty", "-m", str(number))
    assert version.version().startswith("0.7.0.dev3+g")
    git("tag", "v0.6.1")
    assert version.version() == "0.6.1"
    git("commit", "-q", "--allow-empty", "-m", "more")
    assert version.version().startswith("0.7.0.dev1+g")
    (tmp_path / "PKG-INFO").write_text("Metadata-Version: 2.4\nName: weft\nVersion: 0.6.9\n")
    assert version.version() == "0.6.9"


def test_texts_of_a_release_agree(
    scripts: tuple[ModuleType, ModuleType], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, release = scripts
    release.check_texts(final=False)
    assert capsys.readouterr().out.count("  ok  ") == 3
    monkeypatch.setattr(release, "version", lambda: "99.0.0")
    with pytest.raises(release.Failed, match=r"the changelog begins with 99\.0\.0"):
        release.check_texts(final=True)


def test_the_oldest_and_the_newest_python_are_tried(
    scripts: tuple[ModuleType, ModuleType], tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name on the path stands for each version that pyenv keeps, and only that of the chosen one runs."""
    _, release = scripts

    def program(path: pathlib.Path, *, status: int) -> str:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\nexit {status}\n")
        path.chmod(0o755)
        return str(path)

    monkeypatch.setenv("PATH", str(tmp_path / "shims"))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
    assert release.pythons_here() == [sys.executable]
    for minor, status in ((11, 0), (12, 127), (13, 127)):
        program(tmp_path / "shims" / f"python3.{minor}", status=status)
    assert release.pythons_here() == ["python3.11"]
    for version in ("3.10.9", "3.11.7", "3.12.1", "3.13.0"):
        newest = program(tmp_path / "versions" / version / "bin" / "python", status=0)
    assert release.pythons_here() == ["python3.11", newest]


def test_hooks_before_a_commit_are_what_ci_runs() -> None:
    hooks = [
        hook
        for repository in yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))["repos"]
        for hook in repository["hooks"]
    ]
    checked = re.findall(r"^check: (.*)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)[0].split()
    assert [hook["entry"] for hook in hooks] == [f"make {target}" for target in checked]


LACKING = """
import importlib, os, pathlib, pkgutil, shutil, sys

# What Windows does not have (and macOS, posix_fallocate).
for module in ("resource", "fcntl", "pwd", "grp", "termios"):
    sys.modules[module] = None
for name in ("fork", "register_at_fork", "sysconf", "posix_fallocate", "set_blocking", "sched_getaffinity"):
    if hasattr(os, name):
        delattr(os, name)

import weft, weft_experiments
for package in (weft, weft_experiments):
    for found in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        if not found.name.endswith("__main__"):
            importlib.import_module(found.name)

import types

import numpy as np, xarray as xr
from weft.data import grids
from weft.data.files import write_table
from weft.report.provenance import _peak_memory
from weft.training.estimate import available_memory

assert available_memory() > 2**20
assert _peak_memory() == "unknown"
table = xr.Dataset({"value": ("time", np.arange(3.0))}, coords={"time": [0.0, 1.0, 2.5]})
write_table(table, "whole.nc")
assert pathlib.Path("whole.nc").stat().st_size > 0
shutil.disk_usage = lambda path: types.SimpleNamespace(free=10)
try:
    write_table(table, "full.nc")
except OSError as error:
    assert "the disk is full" in str(error), error
else:
    raise AssertionError("a full disk was not noticed")
"""


def test_nothing_needs_what_other_systems_lack(tmp_path: pathlib.Path) -> None:
    """All modules can be imported, and files written, without what Windows and macOS do not have."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", LACKING], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
