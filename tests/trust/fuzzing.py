# SPDX-License-Identifier: MIT
"""Hostile input, and what may come of it: a result that can be read, or status 2 and one sentence; inputs are never touched.

`cases(n)` bounds a test: n of them in CI, and so many times more as WEFT_FUZZ says, for `make fuzz`. Seeds are hypothesis's; how many cases
each test saw goes to the file that WEFT_FUZZ_RESULTS names.
"""

import atexit
import collections
import contextlib
import io
import json
import os
import pathlib
import signal
import tempfile
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from weft.cli import main
from weft.data.files import ENDINGS, read_table
from weft.loading import load

TIMES_MORE = int(os.environ.get("WEFT_FUZZ", "1"))
# Seconds: far more than anything takes that is fuzzed here, on any machine.
PATIENCE = 300
COUNTS: collections.Counter[str] = collections.Counter()


def cases(number: int) -> Callable[[Any], Any]:
    """A hypothesis setting: so many cases, the same ones in every run in CI and others by each seed of `make fuzz`."""
    return settings(
        max_examples=number * TIMES_MORE,
        derandomize=TIMES_MORE == 1,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )


@contextlib.contextmanager
def inside_new_folder() -> Iterator[pathlib.Path]:
    """A new folder as working directory."""
    before = pathlib.Path.cwd()
    with tempfile.TemporaryDirectory() as name:
        os.chdir(name)
        try:
            yield pathlib.Path(name)
        finally:
            os.chdir(before)


def contents(folder: pathlib.Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.is_symlink()
    }


@contextlib.contextmanager
def ends_some_day(what: object) -> Iterator[None]:
    """What waits for ever fails, instead of the whole run waiting with it."""

    def give_up(*received: Any) -> None:
        pytest.fail(f"{what} was still waiting after {PATIENCE} seconds")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(PATIENCE)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def hold_to_promise(kind: str, arguments: list[str], folder: pathlib.Path) -> int:
    """Run a command in `folder` and see that it keeps what weft promises; its status."""
    COUNTS[kind] += 1
    before = contents(folder)
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), warnings.catch_warnings():
        warnings.simplefilter("default")
        with ends_some_day(arguments):
            status = main(arguments)
    said = [line for line in err.getvalue().splitlines() if not line.startswith("weft: note: ")]
    assert status in (0, 2), f"status {status} of {arguments}: {err.getvalue()}"
    if status == 2:
        assert said, f"no sentence on {arguments}"
        assert said[-1].startswith("weft: "), f"{arguments}: {err.getvalue()}"
        assert "Traceback" not in err.getvalue()
    after = contents(folder)
    assert {name: after.get(name) for name in before} == before, f"{arguments} touched its inputs"
    made = after.keys() - before.keys()
    if status == 2:
        assert not made, f"{arguments} was refused and left {made}"
    for name in made:
        assert not name.endswith(".part"), f"{arguments} left {name}"
        if name.endswith(".weft"):
            load(folder / name)
        elif any(name.endswith(ending) for ending in ENDINGS) and ".zarr/" not in name:
            read_table(folder / name)
    return status


def _write_counts(path: str) -> None:
    """Of this run, beside those of other tests by the same seed."""
    file, seed = pathlib.Path(path), os.environ.get("WEFT_FUZZ_SEED")
    before = json.loads(file.read_text()) if file.exists() else {}
    cases = (before["cases"] if before.get("seed") == seed else {}) | COUNTS
    record = {"times_more_than_ci": TIMES_MORE, "seed": seed, "total": sum(cases.values()), "cases": cases}
    file.write_text(json.dumps(record, indent=1) + "\n")


if os.environ.get("WEFT_FUZZ_RESULTS"):
    atexit.register(_write_counts, os.environ["WEFT_FUZZ_RESULTS"])

# Numbers of every size, and what people write instead of them.
odd_numbers = st.sampled_from(
    [
        "0",
        "-0.0",
        "1e308",
        "-1e308",
        "1e-300",
        "5e-324",
        "1e400",
        "nan",
        "inf",
        "-inf",
        "NA",
        "",
        "1,5",
        "0x10",
        "1_000",
    ]
) | st.floats(allow_nan=False).map(repr)
odd_times = st.sampled_from(
    [
        "2020-01-01",
        "2020-02-30",
        "0000-00-00",
        "9999-12-31",
        "1/2/2020",
        "2020-01-01T00:00:00Z",
        "20200101",
        "yesterday",
        "now",
    ]
)
odd_text = st.text(max_size=8) | st.sampled_from(["'", '"', "\ufeff", "\r", "=1+1", "\u202e", "a\nb", "007"])
cells = odd_numbers | odd_times | odd_text
names = st.sampled_from(["time", "date", "lon", "lat", "x", "y", "value", "station", "", " ", "time "]) | odd_text


@st.composite
def csv_bytes(draw: Callable[..., Any]) -> bytes:
    """A csv file that is nearly one: names and cells of every kind, ragged rows, other separators and encodings."""
    header = draw(st.lists(names, min_size=1, max_size=5))
    good = draw(st.booleans())
    rows = []
    for number in range(draw(st.integers(0, 12))):
        row = [f"2020-01-{number + 1:02d}", f"{number % 3}", f"{number % 2}", f"{number * 1.5}"] if good else []
        row = row or draw(st.lists(cells, min_size=1, max_size=6))
        if draw(st.booleans()):
            row[draw(st.integers(0, len(row) - 1))] = draw(cells)
        rows.append(row)
    separator = draw(st.sampled_from([",", ";", "\t", "|", ", "]))
    header = ["time", "x", "y", "value"] if good else header
    text = draw(st.sampled_from(["\n", "\r\n"])).join(separator.join(row) for row in [header, *rows])
    encoding = draw(st.sampled_from(["utf-8", "utf-8", "utf-8-sig", "utf-16", "latin-1"]))
    return text.encode(encoding, errors="replace")


def spoiled(whole: bytes) -> st.SearchStrategy[bytes]:
    """Bytes of a file with some changed, cut off or doubled."""
    place = st.integers(0, len(whole) - 1)
    changed = st.lists(st.tuples(place, st.integers(0, 255)), min_size=1, max_size=6).map(
        lambda changes: _with_changes(whole, changes)
    )
    return changed | place.map(lambda end: whole[:end]) | place.map(lambda start: whole[start:] + whole)


def _with_changes(whole: bytes, changes: list[tuple[int, int]]) -> bytes:
    new = bytearray(whole)
    for place, byte in changes:
        new[place] = byte
    return bytes(new)


json_leaves = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.text(max_size=4)
    | st.just([])
    | st.just({})
    | st.sampled_from(
        [{"array": 0}, {"array": -1}, {"array": 10**6}, {"tuple": [None]}, {"class": "Model", "fields": {}}]
    )
)


def with_a_leaf_changed(draw: Callable[..., Any], tree: Any) -> Any:
    """A JSON tree with something in it replaced or left out."""
    if isinstance(tree, dict) and tree and draw(st.integers(0, 5)):
        key = draw(st.sampled_from(sorted(tree)))
        if draw(st.integers(0, 11)) == 0:
            return {name: value for name, value in tree.items() if name != key}
        return tree | {key: with_a_leaf_changed(draw, tree[key])}
    if isinstance(tree, list) and tree and draw(st.integers(0, 5)):
        place = draw(st.integers(0, len(tree) - 1))
        return [*tree[:place], with_a_leaf_changed(draw, tree[place]), *tree[place + 1 :]]
    return draw(json_leaves)
