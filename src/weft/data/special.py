# SPDX-License-Identifier: MIT
"""Files that are no files: devices, pipes and sockets, which are neither read as tables nor replaced."""

import os
import pathlib
import stat

__all__ = ["refuse_special"]

_KINDS = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}


def refuse_special(path: str | os.PathLike[str], what: str) -> None:
    """Raise, in a sentence that starts with `what`, where something is at `path` that is neither a file nor a folder."""
    try:
        kind = stat.S_IFMT(pathlib.Path(path).stat().st_mode)
    except OSError:
        return
    if kind in _KINDS:
        raise ValueError(f"{what}: it is {_KINDS[kind]}, not a file; give the name of a file")
