# SPDX-License-Identifier: MIT
"""Model files that were trusted on load: each part that cannot be is refused in a sentence, and none is ever saved."""

import io
import json
import pathlib
import zipfile
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft
from weft.data.archive import write_archive
from weft.data.schema import Numbers, check_arrays
from weft.inference.habits import HABITS
from weft.inference.regional import condition_regions

FILES = pathlib.Path(__file__).parent.parent / "kept" / "files"


class Parts:
    """A model file taken apart: its manifest, and its arrays by name."""

    def __init__(self, name: str | pathlib.Path):
        with zipfile.ZipFile(FILES / name) as archive:
            self.manifest = json.loads(archive.read("manifest.json"))
            self.arrays = {
                entry: np.load(io.BytesIO(archive.read(entry)))
                for entry in archive.namelist()
                if entry.endswith(".npy")
            }

    @property
    def content(self) -> dict[str, Any]:
        return self.manifest["content"]

    @property
    def posterior(self) -> dict[str, Any]:
        return self.content.get("posterior", self.content)

    def entry(self, part: str) -> str:
        return f"arrays/{self.posterior[part]['array']}.npy"

    def write(self, path: pathlib.Path) -> pathlib.Path:
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("manifest.json", json.dumps(self.manifest))
            for name, array in self.arrays.items():
                buffer = io.BytesIO()
                np.lib.format.write_array(buffer, array)
                archive.writestr(name, buffer.getvalue())
        return path


def spoil(part: str, value: float, position: int = 0) -> Callable[[Parts], None]:
    def change(parts: Parts) -> None:
        array = parts.arrays[parts.entry(part)].copy()
        array.flat[position] = value
        parts.arrays[parts.entry(part)] = array

    return change


def cut(part: str) -> Callable[[Parts], None]:
    def change(parts: Parts) -> None:
        parts.arrays[parts.entry(part)] = parts.arrays[parts.entry(part)][:-1]

    return change


def put(*keys: str, value: Any) -> Callable[[Parts], None]:
    def change(parts: Parts) -> None:
        holder = parts.content
        for key in keys[:-1]:
            holder = holder[key]
        assert keys[-1] in holder
        holder[keys[-1]] = value

    return change


SPOILED: dict[str, Callable[[Parts], None]] = {
    "NaN site": spoil("value", np.nan),
    "infinite site": spoil("value", np.inf),
    "NaN precision": spoil("precision", np.nan),
    "negative precision": spoil("precision", -1.0),
    "infinite weight": spoil("weights", -np.inf),
    "infinite time": spoil("times", np.inf, -1),
    "times out of order": spoil("times", 1e9),
    "place of no weights": spoil("place", 10_000),
    "negative place": spoil("place", -1),
    "row number out of range": spoil("row_numbers", 10_000_000),
    "offsets past the rows": spoil("offsets", 10_000_000, -1),
    "fewer sites than rows": cut("value"),
    "fewer precisions than rows": cut("precision"),
    "fewer times than offsets": cut("times"),
    "no power": put("posterior", "power", value=None),
    "power of 7": put("posterior", "power", value=7.0),
    "an engine that nobody has": put("posterior", "engine", value="steam"),
    "no constant": put("posterior", "log_constant", value=None),
    "clock of unit x": put("translation", "clock", "unit", value="x"),
    "other columns": put("translation", "scaling", "columns", value=["nowhere"]),
    "no map": put("translation", "scaling", "geography", value={"method": "cube", "first": "a", "second": "b"}),
    "no deviation": put("target_sd", value=0.0),
    "no rows": put("num_rows", value=-1),
}


@pytest.mark.parametrize("name", SPOILED)
def test_a_spoiled_estimator_was_loaded(name: str, tmp_path: pathlib.Path) -> None:
    parts = Parts("estimator.weft")
    SPOILED[name](parts)
    path = parts.write(tmp_path / "m.weft")
    with pytest.raises(ValueError, match=r"m\.weft is not a file weft can read: "):
        weft.load(path)


def test_an_unspoiled_one_is_loaded(tmp_path: pathlib.Path) -> None:
    """Or all of the above would be refused for another reason."""
    for name in ("estimator.weft", "levels.weft"):
        weft.load(Parts(name).write(tmp_path / "m.weft"))


def test_a_spoiled_habit_was_loaded(tmp_path: pathlib.Path) -> None:
    parts = Parts("levels.weft")
    levels = parts.content["offsets"]
    number = levels["mean"]["array"]
    parts.arrays[f"arrays/{number}.npy"] = parts.arrays[f"arrays/{number}.npy"][:-1]
    with pytest.raises(ValueError, match="along 'place'"):
        weft.load(parts.write(tmp_path / "m.weft"))


def test_every_habit_says_what_its_file_holds() -> None:
    assert all(habit.schema for habit in HABITS.values())


@pytest.fixture(scope="module")
def regions(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A posterior of four regions: three cuts."""
    rng = np.random.default_rng(5)
    model = weft.Model(weft.Separable(space=weft.Matern32([1.2, 0.9]), time=weft.Matern12(4.0)), weft.Gaussian(0.3))
    data = weft.Observations(rng.uniform(0, 9, 200), rng.uniform(0, 9, (200, 2)), rng.normal(size=200))
    path = tmp_path_factory.mktemp("regions") / "r.weft"
    condition_regions(model, data, num_regions=4).save(path)
    return path


@pytest.mark.parametrize(
    ("part", "position", "value", "words"),
    [
        ("column", 0, 99, "points outside"),
        ("scale", 0, -1.0, "below 0"),
        ("cut_column", 0, 7, "points outside"),
        ("cut_value", 0, np.inf, "not finite"),
        ("cut_lower", 0, np.nan, "NaN"),
        # A descent from the first cut would come back to it, for ever.
        ("cut_above", 0, 0, "cuts do not lead"),
        ("cut_below", 1, 1, "cuts do not lead"),
        ("cut_below", 2, -77, "cuts do not lead"),
        ("depth", 1, -1.0, "below 0"),
        ("counts", 0, 1, "not those of its 'rows'"),
        ("rows", 0, 10_000, "points outside"),
        ("rows", 1, 0, "in order|one region"),
        ("is_core", 0, None, "one region"),
    ],
)
def test_spoiled_regions_were_loaded(
    part: str, position: int, value: float | None, words: str, regions: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """They failed in `predict`, or never ended."""
    parts = Parts(regions)
    entry = f"arrays/{parts.content['division'][part]['array']}.npy"
    array = parts.arrays[entry].copy()
    array.flat[position] = not array.flat[position] if value is None else value
    parts.arrays[entry] = array
    with pytest.raises(ValueError, match=words):
        weft.load(parts.write(tmp_path / "m.weft"))


@pytest.mark.parametrize("change", [{"with_times": {"value": 3}}, {"is_core": {"value": None}}, {"depth": None}])
def test_regions_with_a_part_of_another_kind_were_loaded(
    change: dict[str, Any], regions: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    parts = Parts(regions)
    weft.load(parts.write(tmp_path / "m.weft"))
    parts.content["division"] |= change
    with pytest.raises(ValueError, match="not a file weft can read"):
        weft.load(parts.write(tmp_path / "m.weft"))


def test_arrays_of_the_other_byte_order_failed_in_predict(tmp_path: pathlib.Path) -> None:
    parts = Parts("estimator.weft")
    parts.arrays = {name: array.astype(array.dtype.newbyteorder()) for name, array in parts.arrays.items()}
    loaded = weft.load(parts.write(tmp_path / "m.weft"))
    assert isinstance(loaded, weft.SpaceTimeGP)
    assert loaded.posterior_.times.dtype == np.dtype("=f8")


def test_two_entries_of_one_name_were_accepted(tmp_path: pathlib.Path) -> None:
    path = Parts("estimator.weft").write(tmp_path / "m.weft")
    with pytest.warns(UserWarning, match="Duplicate name"), zipfile.ZipFile(path, "a") as archive:
        archive.writestr("arrays/0.npy", b"another")
    with pytest.raises(ValueError, match="two entries of one name"):
        weft.load(path)


def test_a_manifest_nested_5000_deep(tmp_path: pathlib.Path) -> None:
    with zipfile.ZipFile(tmp_path / "m.weft", "w") as archive:
        archive.writestr("manifest.json", "[" * 5000 + "]" * 5000)
    with pytest.raises(ValueError, match="not a file weft can read"):
        weft.load(tmp_path / "m.weft")


def test_a_file_that_cannot_be_read_back_takes_no_name(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "m.weft"
    path.write_bytes(b"the old one")

    def read(content: dict[str, Any], arrays: list[np.ndarray]) -> None:
        # Infinity is null in JSON.
        assert content == {"deviation": None}
        raise ValueError("its 'deviation' is not numbers")

    with pytest.raises(ValueError, match=r"could not be loaded again .*'deviation'"):
        write_archive(path, "estimator", {"deviation": np.inf}, [np.ones(3)], read=read)
    assert path.read_bytes() == b"the old one"
    assert list(tmp_path.iterdir()) == [path]


SCHEMA = {
    "offsets": Numbers(("time + 1",), whole=True, sorted=True),
    "times": Numbers(("time",), increasing=True),
    "place": Numbers(("row",), whole=True, within="place"),
    "places": Numbers(("place", "dim")),
    "variance": Numbers(least=0.0),
    "more": Numbers(("row",), optional=True),
}
GOOD: dict[str, Any] = {
    "offsets": np.array([0, 2, 3]),
    "times": np.array([0.5, 1.5], dtype=np.float32),
    "place": np.array([0, 1, 1], dtype=np.int32),
    "places": np.zeros((2, 3)),
    "variance": 0.25,
    "more": None,
}


def test_a_schema_lets_through_what_is_declared() -> None:
    sizes: dict[str, int] = {}
    checked = check_arrays(SCHEMA, GOOD, sizes)
    assert sizes == {"time": 2, "row": 3, "place": 2, "dim": 3}
    assert checked["times"].dtype == np.float64
    assert checked["variance"] == 0.25
    assert checked["more"] is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("offsets", np.array([0, 3, 2])),
        ("offsets", np.array([0.0, 2.0, 3.0])),
        ("times", np.array([0.5, 0.5])),
        ("times", np.array([0.5])),
        ("times", None),
        ("place", np.array([0, 1, 2])),
        ("places", np.zeros(2)),
        ("places", np.full((2, 3), np.inf)),
        ("variance", -1.0),
        ("variance", "large"),
        ("more", np.zeros(2)),
    ],
)
def test_a_schema_refuses_the_rest(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"its '{name}'"):
        check_arrays(SCHEMA, GOOD | {name: value}, {})
