# SPDX-License-Identifier: MIT
"""Names that cannot be written in UTF-8, and files that are no files: devices, pipes and sockets. Neither is read or replaced."""

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
    """Raise, in a sentence that starts with `what`, where something is at `path` that is neither a file nor a folder.

    So do names that no library can be relied on to open: with bytes that are not UTF-8, or the character 0.
    """
    try:
        name = os.fspath(path)
        if "\0" in str(name):
            raise ValueError(f"{what}: its name has the character 0 in it; rename it")
        str(name).encode()
    except UnicodeEncodeError:
        raise ValueError(f"{what}: its name is not text in UTF-8; rename it") from None
    try:
        kind = stat.S_IFMT(pathlib.Path(path).stat().st_mode)
    except OSError:
        return
    if kind in _KINDS:
        raise ValueError(f"{what}: it is {_KINDS[kind]}, not a file; give the name of a file")
