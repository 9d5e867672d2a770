# SPDX-License-Identifier: MIT
"""Kill -9 at random moments, by a few fixed seeds (more by `make kill`), and a disk that is really full."""

import os
import pathlib
import shutil
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.conftest import CACHE
from tests.trust.formats import FORMATS

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.parametrize(("kind", "seed", "kills"), [("writers", 1, 8), ("fits", 2, 2)])
def test_what_a_killed_process_leaves(kind: str, seed: int, kills: int) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "tests.trust.killing", kind, str(seed), str(kills)],
        cwd=ROOT,
        env=os.environ | {"JAX_COMPILATION_CACHE_DIR": str(CACHE), "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{kind}_killed" in done.stdout


@pytest.fixture
def small_disk(tmp_path: pathlib.Path) -> Iterator[pathlib.Path]:
    """A file system of its own with room for little, where one may be mounted."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = shutil.which("mount")
    if mount is None or os.geteuid() != 0 or sys.platform != "linux":
        pytest.skip("mounting a small file system takes root on Linux")
    made = subprocess.run([mount, "-t", "tmpfs", "-o", "size=192k", "weft-test", disk], capture_output=True, text=True)
    if made.returncode != 0:
        pytest.skip(f"no small file system could be mounted: {made.stderr.strip()}")
    yield disk
    subprocess.run(["umount", "--lazy", disk], check=True)


def test_a_file_system_that_is_full(small_disk: pathlib.Path) -> None:
    """Filled step by step beside an old file: what no longer fits is refused, and the old one stays."""
    for name, (write, read) in FORMATS.items():
        path, filler = small_disk / name, small_disk / "filler"
        write(path, 1)
        free = shutil.disk_usage(small_disk).free
        refused = 0
        for left in (0, 4096, free // 2):
            filler.write_bytes(b"x" * (free - left))
            problem = None
            try:
                write(path, 2)
            except OSError as error:
                problem = str(error)
            assert read(path) == (2 if problem is None else 1)
            assert problem is None or "the disk is full" in problem
            refused += problem is not None
            filler.unlink()
            write(path, 1)
        assert refused >= 1, name
        shutil.rmtree(path) if path.is_dir() else path.unlink()
        assert os.listdir(small_disk) == []
