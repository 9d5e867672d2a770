# SPDX-License-Identifier: MIT
"""One file of named arrays and a JSON manifest: a zip without compression, pickle or code.

Entries are stored, never compressed, so a file cannot unfold to more than its own size; names are fixed by the manifest, so nothing is
ever written outside; arrays are plain numbers, so reading runs nothing.
"""

import errno
import io
import pathlib
import re
import zipfile
from collections.abc import Callable
from typing import Any, NoReturn

import msgspec
import numpy as np

from weft.data.atomic import whole_file
from weft.data.on_disk import FileArrays, NumbersOnDisk, Piece
from weft.data.special import refuse_special

FORMAT = "weft"
SCHEMA = 1
MANIFEST = "manifest.json"
_ENTRY = re.compile(r"arrays/\d{1,6}\.npy")
_KINDS = "biuf"


def write_archive(
    path: str | pathlib.Path,
    kind: str,
    content: dict[str, Any],
    arrays: FileArrays,
    *,
    read: Callable[[dict[str, Any], FileArrays], Any],
) -> None:
    """Write `content` (plain JSON) and `arrays` (referred to by their number) whole or not at all.

    Those that are in files are copied a stretch at a time, and stay in the archive when it is read.

    What was written is read back by `read` before it takes its name: a file that cannot be loaded replaces none that can.
    """
    manifest = {"format": FORMAT, "schema": SCHEMA, "kind": kind, "arrays": len(arrays), "content": content}
    on_disk = [number for number, array in enumerate(arrays) if isinstance(array, NumbersOnDisk)]
    manifest |= {"on_disk": on_disk} if on_disk else {}
    with whole_file(pathlib.Path(path)) as target:
        with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as archive:
            archive.writestr(MANIFEST, msgspec.json.format(msgspec.json.encode(manifest), indent=1))
            for number, array in enumerate(arrays):
                _write_array(archive, f"arrays/{number}.npy", array)
        try:
            _, found, numbers = read_archive(target)
            read(found, numbers)
        except ValueError as error:
            raise ValueError(
                f"cannot save {str(path)!r}: it could not be loaded again ({error}); are numbers in the data too large or small?"
            ) from error


def _write_array(archive: zipfile.ZipFile, name: str, array: np.ndarray | NumbersOnDisk) -> None:
    if isinstance(array, NumbersOnDisk):
        header = {"descr": array.dtype.str, "fortran_order": False, "shape": (len(array),)}
        with archive.open(name, "w", force_zip64=True) as entry:
            np.lib.format.write_array_header_1_0(entry, header)
            for some in array.chunks():
                entry.write(some.tobytes())
        return
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, np.asarray(array, order="C"), allow_pickle=False)
    archive.writestr(name, buffer.getvalue())


def read_archive(path: str | pathlib.Path) -> tuple[str, dict[str, Any], FileArrays]:
    """Kind, content and arrays of a file written by `write_archive`; one clear ValueError for anything else."""
    path = pathlib.Path(path)
    refuse_special(path, f"cannot read {str(path)!r}")
    try:
        with zipfile.ZipFile(path) as archive:
            return _read(path, archive)
    except FileNotFoundError:
        raise FileNotFoundError(f"there is no file {path.name} in {path.parent}") from None
    except IsADirectoryError:
        refuse(path, "it is a folder")
    except OSError as error:
        # A place before the start of the file, which a spoiled directory of the zip may name.
        if error.errno != errno.EINVAL:
            raise
        refuse(path, "it is damaged")
    except (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError) as error:
        refuse(path, f"it is damaged, cut short, or no weft file at all ({error})")


def _read(path: pathlib.Path, archive: zipfile.ZipFile) -> tuple[str, dict[str, Any], FileArrays]:
    entries = {entry.filename: entry for entry in archive.infolist()}
    if len(entries) != len(archive.infolist()):
        refuse(path, "it has two entries of one name")
    size = path.stat().st_size
    for name, entry in entries.items():
        if name != MANIFEST and not _ENTRY.fullmatch(name):
            refuse(path, f"it has an entry {name!r} that no weft file has")
        if entry.compress_type != zipfile.ZIP_STORED or entry.file_size > size:
            refuse(path, f"its entry {name!r} is compressed, which no weft file's is")
    if MANIFEST not in entries:
        refuse(path, "it has no manifest")
    try:
        manifest = msgspec.json.decode(archive.read(MANIFEST))
    except (msgspec.DecodeError, RecursionError) as error:
        refuse(path, f"its manifest cannot be read ({error})")
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        refuse(path, "its manifest is not weft's")
    schema = manifest.get("schema")
    if not isinstance(schema, int) or schema > SCHEMA:
        refuse(path, f"it was written by a newer weft (schema {schema}; this one reads up to {SCHEMA}): update weft")
    count, kind, content = manifest.get("arrays"), manifest.get("kind"), manifest.get("content")
    if not isinstance(count, int) or not isinstance(kind, str) or not isinstance(content, dict):
        refuse(path, "its manifest is incomplete")
    if len(entries) != count + 1:
        refuse(path, f"it has {len(entries) - 1} arrays where its manifest says {count}")
    on_disk = manifest.get("on_disk", [])
    if not isinstance(on_disk, list) or not all(isinstance(number, int) for number in on_disk):
        refuse(path, "its manifest is incomplete")
    return (
        kind,
        content,
        [
            (_leave_array if number in on_disk else _read_array)(path, archive, f"arrays/{number}.npy")
            for number in range(count)
        ],
    )


def _leave_array(path: pathlib.Path, archive: zipfile.ZipFile, name: str) -> NumbersOnDisk:
    """Where the numbers of an entry are in the file, after a look at all of them for what no longer is as it was written."""
    try:
        with archive.open(name) as entry:
            np.lib.format.read_magic(entry)
            shape, is_turned, dtype = np.lib.format.read_array_header_1_0(entry)
            start = entry.tell()
            # The zip's own sum over all bytes is compared at the end.
            while entry.read(2**20):
                pass
    except (ValueError, KeyError) as error:
        refuse(path, f"its array {name!r} cannot be read ({error})")
    if dtype.kind not in _KINDS or is_turned or len(shape) != 1:
        refuse(path, f"its array {name!r} holds {dtype}, not a column of numbers")
    about = archive.getinfo(name)
    with open(path, "rb") as file:
        # The lengths of the entry's name and of what else stands before its bytes.
        file.seek(about.header_offset + 26)
        lengths = np.frombuffer(file.read(4), "<u2")
    offset = about.header_offset + 30 + int(lengths.sum()) + start
    return NumbersOnDisk(dtype, (Piece(str(path.absolute()), offset, shape[0], path.stat().st_mtime_ns),))


def _read_array(path: pathlib.Path, archive: zipfile.ZipFile, name: str) -> np.ndarray:
    try:
        array = np.lib.format.read_array(io.BytesIO(archive.read(name)), allow_pickle=False)
    except (ValueError, KeyError, MemoryError) as error:
        refuse(path, f"its array {name!r} cannot be read ({error})")
    if array.dtype.kind not in _KINDS:
        refuse(path, f"its array {name!r} holds {array.dtype}, not numbers")
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def refuse(path: pathlib.Path, reason: str) -> NoReturn:
    raise ValueError(f"{path.name} is not a file weft can read: {reason}")
