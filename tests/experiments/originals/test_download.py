# SPDX-License-Identifier: MIT
"""Fetching from a server on this machine that can break off, change its files and forget how to resume."""

import dataclasses
import hashlib
import http.server
import pathlib
import re
import socket
import threading

import numpy as np
import pytest

from weft_experiments.originals import download
from weft_experiments.originals.download import (
    SOURCES,
    Source,
    fetch,
    fetch_experiment,
    ghcn_by_station,
    ghcn_by_year,
    nasadem_tile,
    price_paid_year,
)

CONTENT = np.random.default_rng(0).bytes(700_000)


class Publisher(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.content = CONTENT
        self.break_after = None
        self.breaks_left = 0
        self.versioned = True
        self.requests = []

    def handle_error(self, request, client_address):
        """A client that hangs up is part of the tests."""

    def address(self, name="file.bin"):
        return f"http://127.0.0.1:{self.server_address[1]}/{name}"


class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *args):
        pass

    def do_GET(self):
        server = self.server
        asked = self.headers.get("Range")
        server.requests.append(asked)
        if self.path != "/file.bin":
            self.send_error(404)
            return
        tag = '"' + hashlib.md5(server.content).hexdigest() + '"'
        start = int(re.fullmatch(r"bytes=(\d+)-", asked).group(1)) if asked else 0
        if self.headers.get("If-Range", tag) != tag:
            start = 0
        if asked and start >= len(server.content):
            self.send_error(416)
            return
        self.send_response(206 if start else 200)
        if server.versioned:
            self.send_header("ETag", tag)
        rest = server.content[start:]
        self.send_header("Content-Length", str(len(rest)))
        self.end_headers()
        if server.breaks_left:
            server.breaks_left -= 1
            rest = rest[: server.break_after]
        self.wfile.write(rest)


@pytest.fixture
def publisher():
    server = Publisher()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_file_comes_once_and_its_checksum_is_written_down(publisher, tmp_path):
    source = Source("file.bin", publisher.address())
    path = fetch(source, tmp_path / "new" / "folder")
    assert path.read_bytes() == CONTENT
    assert names(path.parent) == ["file.bin", "file.bin.sha256"]
    recorded = (path.parent / "file.bin.sha256").read_text()
    assert recorded == f"{hashlib.sha256(CONTENT).hexdigest()}  file.bin\n"
    assert fetch(source, path.parent) == path
    assert publisher.requests == [None]
    path.write_bytes(b"spoilt")
    with pytest.raises(ValueError, match=r"is not what was fetched .* delete it to fetch it again"):
        fetch(source, path.parent)


def test_a_frozen_file_must_have_its_checksum(publisher, tmp_path):
    with pytest.raises(ValueError, match="sent a file with another SHA-256"):
        fetch(Source("file.bin", publisher.address(), sha256="0" * 64), tmp_path)
    assert "file.bin" not in names(tmp_path)
    frozen = Source("file.bin", publisher.address(), sha256=hashlib.sha256(CONTENT).hexdigest())
    assert fetch(frozen, tmp_path).read_bytes() == CONTENT


def test_a_file_put_there_by_hand_is_taken_as_it_is(tmp_path):
    (tmp_path / "ghcnd-stations.txt").write_text("by hand")
    assert fetch("ghcnd-stations.txt", tmp_path).read_text() == "by hand"


def test_a_bad_line_is_gone_on_with(publisher, tmp_path):
    publisher.break_after, publisher.breaks_left = 262_144, 2
    path = fetch(Source("file.bin", publisher.address()), tmp_path)
    assert path.read_bytes() == CONTENT
    assert publisher.requests == [None, "bytes=262144-", "bytes=524288-"]


def test_a_broken_download_is_taken_up_by_the_next_call(publisher, tmp_path, monkeypatch):
    monkeypatch.setattr(download, "ATTEMPTS", 1)
    publisher.break_after, publisher.breaks_left = 196_608, 1
    source = Source("file.bin", publisher.address())
    with pytest.raises(ConnectionError, match="call again to go on"):
        fetch(source, tmp_path)
    assert (tmp_path / "file.bin.part").read_bytes() == CONTENT[:196_608]
    assert not (tmp_path / "file.bin").exists()
    assert fetch(source, tmp_path).read_bytes() == CONTENT
    assert publisher.requests[-1] == "bytes=196608-"
    assert names(tmp_path) == ["file.bin", "file.bin.sha256"]


@pytest.mark.parametrize("change", ["new content", "no versions", "shorter content"])
def test_a_changed_file_is_not_joined_to_the_old_part(publisher, tmp_path, monkeypatch, change):
    monkeypatch.setattr(download, "ATTEMPTS", 1)
    publisher.break_after, publisher.breaks_left = 196_608, 1
    publisher.versioned = change != "no versions"
    source = Source("file.bin", publisher.address())
    with pytest.raises(ConnectionError):
        fetch(source, tmp_path)
    publisher.content = CONTENT[::-1][:100_000] if change == "shorter content" else CONTENT[::-1]
    assert fetch(source, tmp_path).read_bytes() == publisher.content


def test_a_part_beyond_the_end_is_begun_again(publisher, tmp_path):
    (tmp_path / "file.bin.part").write_bytes(CONTENT + b"more")
    (tmp_path / "file.bin.part.version").write_text('"' + hashlib.md5(CONTENT).hexdigest() + '"')
    assert fetch(Source("file.bin", publisher.address()), tmp_path).read_bytes() == CONTENT


def test_progress_is_shown_when_asked_for(publisher, tmp_path, capsys):
    fetch(Source("file.bin", publisher.address()), tmp_path, progress=True)
    assert "file.bin" in capsys.readouterr().err
    fetch(Source("again.bin", publisher.address()), tmp_path, progress=False)
    assert capsys.readouterr().err == ""


def test_offline_is_said_in_one_sentence(tmp_path):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    source = Source("file.bin", f"http://127.0.0.1:{port}/file.bin")
    with pytest.raises(ConnectionError, match=r"could not fetch file\.bin from 127\.0\.0\.1:\d+ \(no network\?\)"):
        fetch(source, tmp_path)
    assert names(tmp_path) == []


def test_a_missing_file_is_said(publisher, tmp_path):
    with pytest.raises(ConnectionError, match="answered 404"):
        fetch(Source("gone.bin", publisher.address("gone.bin")), tmp_path)


def test_what_cannot_be_fetched_is_said(tmp_path):
    with pytest.raises(ValueError, match=r"no address is known for 'x'; the known files are ghcnd-stations\.txt"):
        fetch("x", tmp_path)
    with pytest.raises(ValueError, match="experiment must be one of ghcn, apartments"):
        fetch_experiment("x", tmp_path)
    with pytest.raises(ValueError, match=r"NASADEM_HGT_n47w125\.zip needs a free Earthdata account"):
        fetch(nasadem_tile("n47w125"), tmp_path)


def test_an_experiment_is_all_its_files(publisher, tmp_path, monkeypatch):
    monkeypatch.setattr(download, "SOURCES", {name: Source(name, publisher.address()) for name in ("a", "b")})
    monkeypatch.setattr(download, "EXPERIMENTS", {"both": ("a", "b")})
    assert [path.name for path in fetch_experiment("both", tmp_path)] == ["a", "b"]


MADE = [ghcn_by_year(2017), ghcn_by_station("USW00024233"), price_paid_year(2019), nasadem_tile("n47w125")]
PAGE = b"<!DOCTYPE html>\n<html>we are sorry</html>"


def test_one_download_was_plain_http_without_a_checksum(publisher, tmp_path):
    assert all(source.address.startswith("https://") for source in [*SOURCES.values(), *MADE])
    fetch(Source("file.bin", publisher.address()), tmp_path)
    assert (tmp_path / "file.bin.sha256").read_text().split()[0] == hashlib.sha256(CONTENT).hexdigest()


def test_no_plain_http_address_stands_in_the_sources():
    """Whoever declares a download declares it somewhere in src; names of XML and addresses of this machine are no downloads."""
    folder = pathlib.Path(download.__file__).parents[2]
    files = [path for path in folder.rglob("*") if path.suffix in {".py", ".pyi", ".json", ".toml", ".html", ".js"}]
    assert len(files) > 200
    found = {
        (path.name, address)
        for path in files
        for address in re.findall(r"http://[^\s\"'<>)]*", path.read_text())
        if not address.startswith(("http://www.w3.org/", "http://127.0.0.1"))
    }
    assert found == set()


@pytest.mark.parametrize("declared", [*SOURCES.values(), *MADE], ids=lambda source: source.name)
def test_a_page_that_says_sorry_is_not_taken_for_the_file(declared, publisher, tmp_path):
    publisher.content = PAGE
    source = dataclasses.replace(declared, address=publisher.address(), account="")
    with pytest.raises(ValueError, match=f"does not begin as {re.escape(source.name)} does, and was removed"):
        fetch(source, tmp_path)
    assert names(tmp_path) == []


def test_prices_paid_have_sixteen_fields(publisher, tmp_path):
    line = (
        b'"{A}","95000","2013-06-07 00:00","SW19 1AA","F","N","F","","1B","COWPER ROAD, WEST","","L","M","G","A","A"\n'
    )
    publisher.content = 3 * line
    source = dataclasses.replace(price_paid_year(2013), address=publisher.address())
    assert fetch(source, tmp_path / "whole").read_bytes() == 3 * line
    publisher.content = line.replace(b'"A","A"', b'"A"')
    with pytest.raises(ValueError, match="does not begin as pp-2013"):
        fetch(source, tmp_path / "short")


def test_a_secret_address_that_leads_to_an_open_one(publisher, tmp_path, monkeypatch):
    get = download.requests.get
    monkeypatch.setattr(download.requests, "get", lambda url, **options: get(publisher.address(), **options))
    with pytest.raises(ConnectionError, match="over which anyone may change the file"):
        fetch(Source("file.bin", "https://example.org/file.bin"), tmp_path)
    assert names(tmp_path) == []
