# SPDX-License-Identifier: MIT
"""Fetching the original files from those who publish them.

A broken download goes on where it stopped. None of these files is frozen: NOAA and HM Land Registry go on adding to
them (the latter every month), so no checksum of theirs can stand here. They come over HTTPS only, as many bytes as were
announced, and must begin as a file of their kind does; then a checksum is written down beside the file, and checked
whenever it is asked for again.
"""

import csv
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pooch
import requests
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from weft.data.atomic import write_whole

__all__ = [
    "EXPERIMENTS",
    "SOURCES",
    "Source",
    "fetch",
    "fetch_experiment",
    "ghcn_by_station",
    "ghcn_by_year",
    "nasadem_tile",
    "price_paid_year",
]

NOAA = "https://www.ncei.noaa.gov/pub/data/ghcn/daily"
NOAA_BY_STATION = "https://www.ncei.noaa.gov/data/global-historical-climatology-network-daily/access"
LAND_REGISTRY = "https://price-paid-data.publicdata.landregistry.gov.uk"
NASADEM = "https://e4ftl01.cr.usgs.gov/MEASURES/NASADEM_HGT.001/2000.02.11"
# What has come of a piece is lost when the line breaks within it, so pieces are small.
PIECE_BYTES = 1 << 16
ATTEMPTS = 5
TIMEOUT_SECONDS = 60.0
# With what a file begins, by the end of its name. A page that asks for a password, or says it is sorry, comes as well-behaved as a file.
BEGINNINGS = {".gz": b"\x1f\x8b", ".zip": b"PK"}
PRICE_PAID_FIELDS = 16


@dataclass(frozen=True)
class Source:
    """A published file: the name it is kept under, its address, its checksum if it never changes, and if it is
    separated by commas the number of fields of its first line.
    """

    name: str
    address: str
    sha256: str | None = None
    account: str = ""
    fields: int | None = None


def ghcn_by_year(year: int) -> Source:
    """All values of GHCN-Daily of one year, of all stations."""
    return Source(f"{year}.csv.gz", f"{NOAA}/by_year/{year}.csv.gz")


def ghcn_by_station(station: str) -> Source:
    """All values of GHCN-Daily of one station, with its coordinates."""
    return Source(f"{station}.csv", f"{NOAA_BY_STATION}/{station}.csv")


def price_paid_year(year: int) -> Source:
    """All sales of one year."""
    return Source(f"pp-{year}.csv", f"{LAND_REGISTRY}/pp-{year}.csv", fields=PRICE_PAID_FIELDS)


def nasadem_tile(name: str) -> Source:
    """A height tile, named like n47w125; NASA asks for a free account."""
    file = f"NASADEM_HGT_{name}.zip"
    return Source(file, f"{NASADEM}/{file}", account="a free Earthdata account (https://urs.earthdata.nasa.gov)")


SOURCES: Mapping[str, Source] = {
    source.name: source
    for source in (
        Source("ghcnd-stations.txt", f"{NOAA}/ghcnd-stations.txt"),
        Source("ghcnd-inventory.txt", f"{NOAA}/ghcnd-inventory.txt"),
        Source("ghcnd_all.tar.gz", f"{NOAA}/ghcnd_all.tar.gz"),
        Source("ghcnd_hcn.tar.gz", f"{NOAA}/ghcnd_hcn.tar.gz"),
        Source("pp-complete.csv", f"{LAND_REGISTRY}/pp-complete.csv", fields=PRICE_PAID_FIELDS),
        Source(
            "pp-monthly-update-new-version.csv",
            f"{LAND_REGISTRY}/pp-monthly-update-new-version.csv",
            fields=PRICE_PAID_FIELDS,
        ),
        Source(
            "National_Statistics_Postcode_Lookup_UK_Coordinates.csv",
            "https://opendata.camden.gov.uk/api/views/77ra-mbbn/rows.csv?accessType=DOWNLOAD",
        ),
        Source(
            "codepo_gb.zip",
            "https://api.os.uk/downloads/v1/products/CodePointOpen/downloads?area=GB&format=CSV&redirect",
        ),
        Source("ukpostcodes.zip", "https://data.freemaptools.com/download/full-uk-postcodes/ukpostcodes.zip"),
    )
}

EXPERIMENTS: Mapping[str, tuple[str, ...]] = {
    "ghcn": ("ghcnd-stations.txt", "ghcnd-inventory.txt", "ghcnd_all.tar.gz"),
    "apartments": ("pp-complete.csv", "National_Statistics_Postcode_Lookup_UK_Coordinates.csv"),
}


def fetch_experiment(experiment: str, folder: str | Path, *, progress: bool | None = None) -> list[Path]:
    """The files one of the paper's experiments needs, fetched into a folder unless they are there."""
    if experiment not in EXPERIMENTS:
        raise ValueError(f"experiment must be one of {', '.join(EXPERIMENTS)}; it is {experiment!r}")
    return [fetch(name, folder, progress=progress) for name in EXPERIMENTS[experiment]]


def fetch(source: Source | str, folder: str | Path, *, progress: bool | None = None) -> Path:
    """The file of `source` (or of that name in `SOURCES`) in a folder, fetched unless it is there.

    What has come stays in a `.part` file until all is there, so a broken download can be taken up by calling again.
    A file already there is held against its checksum; one put there by hand has none and is taken as it is.
    `progress` shows a bar; by default if standard error is a terminal.
    """
    if isinstance(source, str):
        if source not in SOURCES:
            raise ValueError(f"no address is known for {source!r}; the known files are {', '.join(SOURCES)}")
        source = SOURCES[source]
    folder = Path(folder)
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is a file; give a folder to fetch {source.name} into")
    path, record = folder / source.name, folder / f"{source.name}.sha256"
    if path.exists():
        expected = source.sha256 or _recorded(record)
        if expected is not None and pooch.file_hash(str(path)) != expected:
            raise ValueError(
                f"{path} is not what was fetched (its SHA-256 is not {expected}); delete it to fetch it again"
            )
        return path
    if source.account:
        raise ValueError(f"{source.name} needs {source.account}; get it from {source.address} and put it into {folder}")
    _retrieve(source, folder, progress)
    if not _begins_as_it_should(source, path):
        path.unlink()
        raise ValueError(
            f"what {source.address} sent does not begin as {source.name} does, and was removed; its publisher may have "
            "moved it, or asks for something first: open the address in a browser"
        )
    if source.sha256 is None:
        write_whole(record, f"{pooch.file_hash(str(path))}  {source.name}\n")
    return path


def _retrieve(source: Source, folder: Path, progress: bool | None) -> None:
    logger = pooch.get_logger()
    level = logger.level
    # Its messages go to the terminal in the middle of the progress bar, and say no more than it does.
    logger.setLevel("WARNING")
    try:
        pooch.retrieve(
            source.address,
            known_hash=source.sha256,
            fname=source.name,
            path=folder,
            downloader=ResumingDownloader(folder / f"{source.name}.part", progress),
        )
    except requests.HTTPError as error:
        raise ConnectionError(f"{source.address} answered {error}; its publisher may have moved it") from error
    except requests.RequestException as error:
        raise ConnectionError(
            f"could not fetch {source.name} from {urlsplit(source.address).netloc} (no network?); call again to go on, "
            f"or put the file of {source.address} into {folder} yourself"
        ) from error
    except ValueError as error:
        raise ValueError(f"{source.address} sent a file with another SHA-256 than {source.sha256}") from error
    finally:
        logger.setLevel(level)


def _begins_as_it_should(source: Source, path: Path) -> bool:
    with path.open("rb") as file:
        first = file.readline(PIECE_BYTES)
    if source.fields is not None:
        return len(next(csv.reader([first.decode("utf-8", "replace")]), [])) == source.fields
    if path.suffix in BEGINNINGS:
        return first.startswith(BEGINNINGS[path.suffix])
    return bool(first) and not first.lstrip().startswith(b"<")


def _recorded(record: Path) -> str | None:
    return record.read_text().split()[0] if record.exists() else None


@dataclass(frozen=True)
class ResumingDownloader:
    """Pooch's downloader that keeps what has come in `part` and asks only for the rest.

    The rest is asked for on the condition that the file is still the one begun (HTTP's If-Range); if it is not, or if
    the server cannot tell, all of it comes anew.
    """

    part: Path
    progress: bool | None = None

    @property
    def version(self) -> Path:
        """Where the server's mark of the begun file (its ETag or date) is kept."""
        return self.part.with_name(f"{self.part.name}.version")

    def __call__(self, url: str, output_file: str, pooch: object) -> None:
        for attempt in range(ATTEMPTS):
            before = self._size()
            try:
                self._transfer(url)
                break
            except (requests.ConnectionError, requests.Timeout, requests.exceptions.ChunkedEncodingError):
                # Give up where nothing came; where something did, the line is only bad.
                if attempt == ATTEMPTS - 1 or self._size() <= before:
                    raise
        os.replace(self.part, output_file)
        self.version.unlink(missing_ok=True)

    def _size(self) -> int:
        return self.part.stat().st_size if self.part.exists() else 0

    def _transfer(self, url: str) -> None:
        # Compressed on the way, the numbers of bytes would not be those of the file.
        headers = {"Accept-Encoding": "identity", "User-Agent": "weft"}
        if self._size() and self.version.exists():
            headers |= {"Range": f"bytes={self._size()}-", "If-Range": self.version.read_text()}
        with requests.get(url, headers=headers, stream=True, timeout=TIMEOUT_SECONDS) as response:
            if _is_secret(url) and not _is_secret(response.url):
                raise ConnectionError(
                    f"{url} leads to {response.url}, over which anyone may change the file; it was not fetched"
                )
            beyond_the_end = response.status_code == requests.codes.requested_range_not_satisfiable
            if not beyond_the_end:
                response.raise_for_status()
                self._receive(response)
        if beyond_the_end:
            self.part.unlink()
            self._transfer(url)

    def _receive(self, response: requests.Response) -> None:
        resumed = response.status_code == 206
        if not resumed:
            self.version.write_text(_version(response))
            if not self.version.read_text():
                self.version.unlink()
        console = Console(stderr=True)
        shown = console.is_terminal if self.progress is None else self.progress
        columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
        done = self._size() if resumed else 0
        coming = response.headers.get("Content-Length")
        with (
            self.part.open("ab" if resumed else "wb") as file,
            Progress(*columns, console=console, disable=not shown) as bar,
        ):
            task = bar.add_task(self.part.stem, total=None if coming is None else done + int(coming), completed=done)
            for piece in response.iter_content(PIECE_BYTES):
                file.write(piece)
                bar.advance(task, len(piece))


def _is_secret(url: str) -> bool:
    return urlsplit(url).scheme == "https"


def _version(response: requests.Response) -> str:
    """A mark that changes with the file: the ETag if it is a strong one, else the date of the last change."""
    tag = response.headers.get("ETag", "")
    return tag if tag and not tag.startswith("W/") else response.headers.get("Last-Modified", "")
