# SPDX-License-Identifier: MIT
"""Names of files on their way to another name, from which can be told whether who was writing them still lives."""

import functools
import hashlib
import os
import pathlib
import re
import secrets
import shutil
import socket

__all__ = ["clear_leftovers", "temporary_name"]

# Of what is being written, and of a store that was there before and waits for the new one to take its place.
_PART, _ASIDE = "part", "aside"


def temporary_name(target: pathlib.Path, *, aside: bool = False) -> pathlib.Path:
    """A new name beside `target`, with the machine and the process in it."""
    mine = f"{_machine()}-{os.getpid()}-{secrets.token_hex(6)}"
    return target.with_name(f".{target.name}.{mine}.{_ASIDE if aside else _PART}")


def clear_leftovers(target: pathlib.Path) -> None:
    """Remove what processes of this machine that have died left beside `target`; a store they had moved aside goes back."""
    pattern = re.compile(rf"\.{re.escape(target.name)}\.{_machine()}-(\d+)-[0-9a-f]{{12}}\.({_PART}|{_ASIDE})(\.\w+)?")
    with os.scandir(target.parent) as entries:
        found = [(entry.path, match) for entry in entries if (match := pattern.fullmatch(entry.name)) is not None]
    for path, match in found:
        if _is_alive(int(match[1])):
            continue
        if match[2] == _ASIDE and not target.exists():
            os.replace(path, target)
        elif os.path.isdir(path):
            shutil.rmtree(path, ignore_errors=True)
        else:
            pathlib.Path(path).unlink(missing_ok=True)


@functools.cache
def _machine() -> str:
    """Where numbers of processes mean the same: this host, and within it this container."""
    try:
        namespace = os.readlink("/proc/self/ns/pid")
    except OSError:
        namespace = ""
    return hashlib.sha256(f"{socket.gethostname()} {namespace}".encode()).hexdigest()[:12]


def _is_alive(process: int) -> bool:
    if os.name != "posix":
        # Elsewhere asking is not harmless; then nothing is ever removed.
        return True
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        return True
    return True
