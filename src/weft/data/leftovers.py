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

__all__ = ["clear_leftovers", "release", "temporary_name"]

# Of what is being written, and of a store that was there before and waits for the new one to take its place.
_PART, _ASIDE = "part", "aside"


# Those of this process that are being written now.
_in_use: set[str] = set()


def temporary_name(target: pathlib.Path, *, aside: bool = False) -> pathlib.Path:
    """A new name beside `target`, with the machine and the process in it; `release` it after use."""
    token = secrets.token_hex(6)
    _in_use.add(token)
    return target.with_name(f".{target.name}.{_machine()}-{os.getpid()}-{token}.{_ASIDE if aside else _PART}")


def release(path: pathlib.Path) -> None:
    """Say that nobody writes to a temporary name any more: should something be there again, it is a leftover.

    A library that writes in threads may still be at it after one of them has failed.
    """
    _in_use.discard(path.name.rsplit(".", 2)[-2].rsplit("-", 1)[-1])


def clear_leftovers(target: pathlib.Path) -> None:
    """Remove what nobody on this machine writes to any more beside `target`; a store that was moved aside goes back."""
    pattern = re.compile(
        rf"\.{re.escape(target.name)}\.{_machine()}-(\d+)-([0-9a-f]{{12}})\.({_PART}|{_ASIDE})(\.\w+)?"
    )
    with os.scandir(target.parent) as entries:
        found = [(entry.path, match) for entry in entries if (match := pattern.fullmatch(entry.name)) is not None]
    for path, match in found:
        if match[2] in _in_use if int(match[1]) == os.getpid() else _is_alive(int(match[1])):
            continue
        if match[3] == _ASIDE and not target.exists():
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
