# SPDX-License-Identifier: MIT
"""weft as it was at another commit, beside the one here: its sources in a folder of their own, run in processes of their own."""

import contextlib
import io
import os
import pathlib
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator

HERE = pathlib.Path(__file__).resolve().parents[1]
# The last one of version 0.1, for which there is no tag.
COMMIT_OF_0_1 = "3350d5bd3a533c2a5c94996b0c6def15b0f4f166"


@contextlib.contextmanager
def checked_out(commit: str) -> Iterator[pathlib.Path]:
    """A folder with what the commit holds, for a while."""
    packed = subprocess.run(["git", "archive", "--format=tar", commit], cwd=HERE, capture_output=True, check=True)
    with tempfile.TemporaryDirectory(prefix="weft-before-") as made:
        with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as archive:
            archive.extractall(made, filter="data")
        yield pathlib.Path(made)


def environment_of(folder: pathlib.Path) -> dict[str, str]:
    """In which a process imports weft from a checkout, and all else from wherever this one does."""
    return os.environ | {"PYTHONPATH": str(folder / "src")}
