# SPDX-License-Identifier: MIT
"""Files inside gzipped, zipped and tarred ones, read as they come; nothing is unpacked to disk."""

import gzip
import io
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

__all__ = ["DAMAGE", "READ_BYTES", "members"]

READ_BYTES = 1 << 18
GZIP_MARK = b"\x1f\x8b"
# What a damaged or cut off archive raises, sooner or later.
DAMAGE = (EOFError, zlib.error, gzip.BadGzipFile, tarfile.ReadError, zipfile.BadZipFile)


def members(path: Path, wanted: Callable[[str], bool]) -> Iterator[tuple[str, io.BufferedIOBase]]:
    """Names and contents of the wanted files inside an archive, or of the file itself; each to be read before the next."""
    name = path.name.lower()
    if name.endswith((".tar", ".tar.gz", ".tgz")):
        yield from _tar_members(path, wanted)
    elif name.endswith(".zip"):
        with zipfile.ZipFile(path) as archive:
            for member in archive.namelist():
                if not member.endswith("/") and wanted(member):
                    with _opened(archive, member) as content:
                        yield _ungzipped(member, content)
    else:
        with path.open("rb") as content:
            yield _ungzipped(path.name, content)


class StrictTarInfo(tarfile.TarInfo):
    """Tells a damaged or absent header from the end of an archive; Python's own takes either for the end."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> "StrictTarInfo":
        try:
            return super().frombuf(buf, encoding, errors)
        except tarfile.HeaderError as error:
            # Zeros in place of a header are the end.
            if buf and not buf.strip(b"\0"):
                raise
            raise tarfile.ReadError(f"archive without its end: {error}") from error


class UpToDamage:
    """A stream that hands over all that comes before a damage, and raises it when asked for more."""

    def __init__(self, stream: io.BufferedIOBase) -> None:
        self.stream = stream
        self.damage: BaseException | None = None

    def read(self, size: int) -> bytes:
        found = bytearray()
        while self.damage is None and len(found) < size:
            try:
                piece = self.stream.read1(size - len(found))
            except DAMAGE as error:
                self.damage = error
            else:
                if not piece:
                    break
                found += piece
        if self.damage is not None and not found:
            raise self.damage
        return bytes(found)


def _tar_members(path: Path, wanted: Callable[[str], bool]) -> Iterator[tuple[str, io.BufferedIOBase]]:
    with path.open("rb") as file:
        zipped = file.read(2) == GZIP_MARK
        file.seek(0)
        stream = UpToDamage(gzip.GzipFile(fileobj=file) if zipped else file)
        # "|" reads forward only, by `read` alone: a 3 GB archive passes through memory block by block.
        with tarfile.open(fileobj=stream, mode="r|", tarinfo=StrictTarInfo) as archive:  # type: ignore[call-overload]
            for entry in archive:
                content = archive.extractfile(entry) if entry.isfile() and wanted(entry.name) else None
                if isinstance(content, io.BufferedIOBase):
                    yield _ungzipped(entry.name, content)
        # To the last byte, where gzip keeps its checksum; after the end of an archive there are only zeros.
        while rest := stream.read(READ_BYTES):
            if rest.strip(b"\0"):
                raise tarfile.ReadError("there is more after the mark of the archive's end")


def _opened(archive: zipfile.ZipFile, member: str) -> io.BufferedIOBase:
    try:
        return archive.open(member)  # type: ignore[return-value]
    except RuntimeError as error:
        # So Python says that a member is encrypted, or packed in a way that it does not know.
        raise zipfile.BadZipFile(f"{member} cannot be unpacked: {error}") from error


def _ungzipped(name: str, stream: io.BufferedIOBase) -> tuple[str, io.BufferedIOBase]:
    if name.lower().endswith(".gz"):
        return name[:-3], gzip.GzipFile(fileobj=stream)
    return name, stream
