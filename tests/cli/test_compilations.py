# SPDX-License-Identifier: MIT
import os
import subprocess
import sys

import pytest

from weft.cli import compilations

CODE = "from weft.cli.compilations import keep_compilations as keep; keep(); import os; print(os.environ.get('JAX_COMPILATION_CACHE_DIR'))"


@pytest.fixture
def alone(tmp_path):
    """An environment whose cache is `tmp_path`, and in which nobody told JAX anything."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("JAX_")}
    return {**kept, "XDG_CACHE_HOME": str(tmp_path), "HOME": str(tmp_path)}


def said(environment, code=CODE):
    found = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    return found.stdout.strip()


def test_programs_are_kept_in_the_users_cache(alone, tmp_path):
    folder = said(alone)
    assert os.path.isdir(folder)
    assert os.path.commonpath([folder, tmp_path]) == str(tmp_path)


def test_a_folder_that_the_user_chose_stays(alone):
    assert said({**alone, "JAX_COMPILATION_CACHE_DIR": "elsewhere"}) == "elsewhere"


def test_a_process_that_has_jax_already_is_left_alone(alone):
    assert said(alone, "import jax; " + CODE) == "None"


def test_a_cache_that_cannot_be_written_is_done_without(alone, tmp_path):
    (tmp_path / "file").write_text("no folder")
    assert said({**alone, "XDG_CACHE_HOME": str(tmp_path / "file")}) == "None"


def test_the_oldest_programs_go_first(tmp_path, monkeypatch):
    monkeypatch.setattr(compilations, "_MOST_BYTES", 25)
    for age, name in enumerate(["new", "middle", "old"]):
        (tmp_path / name).write_text(10 * "x")
        os.utime(tmp_path / name, (1e9 - age, 1e9 - age))
    compilations._prune(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["new"]
