# SPDX-License-Identifier: MIT
"""Files that are written whole or not at all: under another name in the same folder, then renamed.

What a process that was killed has left under such a name is removed by the next that writes the same file.
"""

import contextlib
import errno
import os
import pathlib
import shutil
from collections.abc import Iterator

from weft.data.leftovers import clear_leftovers, release, temporary_name
from weft.data.renaming import exchange
from weft.data.special import refuse_special

__all__ = ["check_output", "whole_file", "whole_folder", "write_whole"]

_DISK_FULL = (errno.ENOSPC, errno.EDQUOT)


def check_output(path: str | os.PathLike[str], *, is_folder: bool = False) -> pathlib.Path:
    """`path` with links resolved, after making sure now, before any long work, that a file can be made there.

    With `is_folder`, that a store can be which is a folder. What is there and is neither is never replaced: a device or a
    pipe serves others.
    """
    refuse_special(path, f"cannot write {str(path)!r}")
    target = pathlib.Path(os.path.realpath(path))
    if not is_folder and target.is_dir():
        raise IsADirectoryError(f"cannot write {str(path)!r}: it is a folder; give the name of a file")
    if is_folder and target.exists() and not target.is_dir():
        raise FileExistsError(f"cannot write {str(path)!r}: there is a file of that name; remove it first")
    folder = target.parent
    if not folder.exists():
        raise FileNotFoundError(f"cannot write {str(path)!r}: there is no folder {str(folder)!r}; make it first")
    if not folder.is_dir():
        raise NotADirectoryError(f"cannot write {str(path)!r}: {str(folder)!r} is a file, not a folder")
    probe = temporary_name(target)
    with _plain_errors(path):
        clear_leftovers(target)
        os.close(os.open(probe, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
        os.unlink(probe)
    release(probe)
    return target


@contextlib.contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[pathlib.Path]:
    """A new path beside `path` to write to; at the end it becomes `path`, and after an error it is gone."""
    target = check_output(path)
    part = temporary_name(target)
    try:
        with _plain_errors(path):
            yield part
            _flush(part)
            os.replace(part, target)
            _flush(target.parent)
    finally:
        part.unlink(missing_ok=True)
        release(part)


def write_whole(path: str | os.PathLike[str], content: str | bytes) -> None:
    """A file of this content (text as UTF-8), whole or not at all."""
    with whole_file(path) as part:
        part.write_bytes(content.encode() if isinstance(content, str) else content)


@contextlib.contextmanager
def whole_folder(path: str | os.PathLike[str]) -> Iterator[pathlib.Path]:
    """As `whole_file`, for a store that is a folder; an earlier one changes places with it, then is removed.

    Where the system cannot do that in one step, the earlier one is moved aside first, under a name that is found again should
    the process be killed then.
    """
    target = check_output(path, is_folder=True)
    part, aside = temporary_name(target), temporary_name(target, aside=True)
    try:
        with _plain_errors(path):
            yield part
            for folder, _, names in os.walk(part):
                for name in names:
                    _flush(pathlib.Path(folder, name))
                _flush(pathlib.Path(folder))
            if not target.exists():
                os.replace(part, target)
            elif not exchange(part, target):
                os.replace(target, aside)
                try:
                    os.replace(part, target)
                except OSError:
                    os.replace(aside, target)
                    raise
            _flush(target.parent)
    finally:
        shutil.rmtree(part, ignore_errors=True)
        if target.exists():
            shutil.rmtree(aside, ignore_errors=True)
        release(part)
        release(aside)


def _flush(path: pathlib.Path) -> None:
    """Ask the system to put it on the disk: without this a crash soon after the rename can leave an empty file."""
    if os.name == "posix":
        handle = os.open(path, os.O_RDONLY)
    elif path.is_dir():
        # Windows opens no folders, and flushes only what may be written.
        return
    else:
        handle = os.open(path, os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextlib.contextmanager
def _plain_errors(path: str | os.PathLike[str]) -> Iterator[None]:
    """Say in one sentence what the system or a library means."""
    try:
        yield
    except (OSError, RuntimeError) as error:
        # HDF5 reports the number of the system's error in its text only.
        full = getattr(error, "errno", None) in _DISK_FULL or "No space left on device" in str(error)
        if full:
            plain: OSError = OSError(f"cannot write {str(path)!r}: the disk is full; nothing was written")
            plain.errno = errno.ENOSPC
            raise plain from error
        if isinstance(error, PermissionError) or getattr(error, "errno", None) == errno.EROFS:
            raise PermissionError(f"cannot write {str(path)!r}: its folder is not writable; choose another") from error
        raise
