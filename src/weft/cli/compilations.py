# SPDX-License-Identifier: MIT
"""What JAX compiled in one run of the command line serves the next: half of a small fit would go into compiling it again.

The library leaves JAX's settings alone, which belong to whoever imports it; a process of ours is ours to set up.
"""

import contextlib
import os
import pathlib
import sys

import platformdirs

__all__ = ["keep_compilations"]

FOLDER = "JAX_COMPILATION_CACHE_DIR"
SHORTEST = "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"
# Programs that take less are compiled sooner than looked for, in seconds.
_WORTH_KEEPING = 0.2
# The folder is halved when it is larger, the oldest going first: shapes of tables that never came again.
_MOST_BYTES = 200 * 2**20


def keep_compilations() -> None:
    """Have JAX, which is yet to be imported, keep its programs in the user's cache, unless the user said where or that is no folder."""
    if FOLDER in os.environ or "jax" in sys.modules:
        return
    folder = platformdirs.user_cache_path("weft") / "programs"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _prune(folder)
    except OSError:
        return
    if os.access(folder, os.W_OK):
        os.environ[FOLDER] = str(folder)
        os.environ.setdefault(SHORTEST, str(_WORTH_KEEPING))


def _prune(folder: pathlib.Path) -> None:
    entries = sorted(((entry.stat(), entry.path) for entry in os.scandir(folder)), key=lambda each: each[0].st_mtime)
    size = sum(stat.st_size for stat, _ in entries)
    if size <= _MOST_BYTES:
        return
    for stat, path in entries:
        # Another process may have been quicker.
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        size -= stat.st_size
        if size <= _MOST_BYTES // 2:
            return
