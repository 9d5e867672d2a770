# SPDX-License-Identifier: MIT
"""GHCN-Daily read as published, against a slow reading of the same lines and against the prepared tables."""

import calendar
import datetime
import gzip
import io
import tarfile

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from weft_experiments.originals.ghcn import read_ghcn, read_inventory, read_stations
from weft_experiments.originals.ghcn_daily import DailyRules, parse_block
from weft_experiments.originals.lines import Block

SEATTLE, FORKS = "USW00024233", "USC00452914"
STATIONS = (
    f"{SEATTLE}  47.4444 -122.3138  112.8 WA SEATTLE TACOMA AP              GSN     72793\n"
    f"{FORKS}  47.9558 -124.3539  106.7 WA FORKS 1 E                          HCN      \n"
    "CA001018611  48.0333 -123.3333 -999.9 BC VICTORIA                               \n"
)


def dly_line(station, year, month, element, values, flags=None):
    flags = flags or {}
    cells = "".join(f"{values.get(day, -9999):5d}{flags.get(day, '   ')}" for day in range(1, 32))
    return f"{station}{year:04d}{month:02d}{element}{cells}"


def slow_dly(path, element):
    """Every present value of a .dly file with its quality flag, cut out character by character."""
    found = []
    for line in path.read_text().splitlines():
        year, month = int(line[11:15]), int(line[15:17])
        if line[17:21] != element:
            continue
        for day in range(1, calendar.monthrange(year, month)[1] + 1):
            cell = line[21 + 8 * (day - 1) : 21 + 8 * day]
            if int(cell[:5]) != -9999:
                found.append((line[:11], datetime.datetime(year, month, day), int(cell[:5]), cell[6]))
    return found


def only_reason(report):
    (reason,) = report.rejected
    return reason


@pytest.fixture
def stations(tmp_path):
    path = tmp_path / "ghcnd-stations.txt"
    path.write_text(STATIONS)
    return read_stations(path)[0]


@pytest.fixture(scope="module")
def raw(shared_data):
    return shared_data / "ghcn_pnw" / "raw"


@pytest.fixture(scope="module")
def prepared(shared_data):
    return pd.read_parquet(shared_data / "ghcn_pnw" / "paper_box_tmax.parquet")


@pytest.mark.parametrize("element", ["TMAX", "TMIN"])
def test_real_dly_equals_a_slow_reading(raw, element):
    for path in sorted((raw / "dly").glob("*.dly")):
        expected = slow_dly(path, element)
        everywhere = pd.DataFrame({"station": [path.stem], "lon": [1.5], "lat": [2.5], "elevation": [3.5]})
        table, report = read_ghcn(path, element=element, stations=everywhere)
        sound = [row for row in expected if row[3] == " "]
        assert table["time"].tolist() == [row[1] for row in sound]
        assert_allclose(table["value"], np.array([row[2] for row in sound]) / 10)
        flagged = {reason: count for reason, count in report.left_out.items() if "quality" in reason}
        assert sum(flagged.values()) == len(expected) - len(sound)
        assert report.num_rejected == 0


def test_the_5537_degrees_are_flagged_and_without_the_flag_refused(raw):
    place = pd.DataFrame({"station": ["USC00043161"], "lon": [0.0], "lat": [0.0], "elevation": [0.0]})
    path = raw / "dly" / "USC00043161.dly"
    table, report = read_ghcn(path, stations=place)
    assert table["value"].max() < 60
    assert report.left_out["failed NOAA's quality check X (bounds)"] == 1
    kept, report = read_ghcn(path, stations=place, keep_flagged=True, plausible=(-30.0, 60.0))
    assert len(kept) == len(table) + 5
    assert report.rejected == {"value not between -30 and 60 degrees Celsius": 1}
    (example,) = report.examples
    assert "day 17: 55372 X" in example.text
    assert path.read_text().splitlines()[example.line - 1].startswith("USC00043161200902TMAX")
    everything, _ = read_ghcn(path, stations=place, keep_flagged=True, plausible=(-np.inf, np.inf))
    assert everything["value"].max() == 5537.2


def test_real_dly_equals_the_prepared_table(raw, prepared):
    table, _ = read_ghcn(raw / "dly")
    wanted = prepared[(prepared["source"] == "hcn_dly") & prepared["station"].isin(table["station"].unique())]
    both = wanted.merge(table, on=["time", "station"], suffixes=("", "_read"))
    assert len(both) == len(wanted) == 37144
    # The prepared table is in single precision.
    assert_allclose(both["value_read"], both["value"], rtol=1e-6)


def test_real_by_station_files_equal_the_prepared_table_with_their_own_places(raw, prepared):
    none = pd.DataFrame({"station": [], "lon": [], "lat": [], "elevation": []}).astype({"station": "str"})
    table, report = read_ghcn(raw / "access_csv", stations=none)
    wanted = prepared[(prepared["source"] == "access_csv") & prepared["station"].isin(table["station"].unique())]
    both = wanted.merge(table, on=["time", "station"], suffixes=("", "_read"))
    assert len(both) == len(wanted) == len(table) == 6274
    for column in ("value", "lat", "lon", "elevation"):
        assert_allclose(both[f"{column}_read"], both[column], rtol=1e-6)
    assert report.num_rejected == 0


def test_a_folder_is_searched_and_its_layouts_agree(raw):
    table, report = read_ghcn(raw, first="2010-01-01", last="2020-12-31")
    assert report.left_out["same value of that station and day in another line"] == 321
    assert set(report.rejected) == {"station that is not in the station list"}
    assert {example.source for example in report.examples} == {"USC00043161.dly"}
    assert not table.duplicated(["time", "station"]).any()
    assert table["time"].is_monotonic_increasing
    listed = read_stations(raw / "ghcnd-stations.txt")[0].set_index("station")
    places = table.groupby("station", observed=True)[["lon", "lat", "elevation"]].agg(["min", "max"])
    for name in ("lon", "lat", "elevation"):
        assert_allclose(places[name]["min"], listed.loc[places.index, name])
        assert_allclose(places[name]["max"], listed.loc[places.index, name])


def test_tar_gz_is_read_as_a_stream_and_only_wanted_stations(raw, tmp_path):
    path = tmp_path / "ghcnd_all.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        archive.add(raw / "dly", arcname="ghcnd_all")
        junk = b"of no interest, and not in any layout\n" * 10
        entry = tarfile.TarInfo("ghcnd_all/ZZ000000000.dly")
        entry.size = len(junk)
        archive.addfile(entry, io.BytesIO(junk))
    listed, _ = read_stations(raw / "ghcnd-stations.txt")
    wanted = ["USC00450729", "USC00457507"]
    table, report = read_ghcn(path, stations=listed, only=wanted)
    plain, _ = read_ghcn([raw / "dly" / f"{name}.dly" for name in wanted], stations=listed)
    pd.testing.assert_frame_equal(table, plain)
    assert report.num_rejected == 0
    assert len(report.sources) == 2
    none, report = read_ghcn(path, stations=listed, only=["ZZ999999999"])
    assert len(none) == 0
    assert none.dtypes["value"] == np.float64


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(
            st.integers(1850, 2025), st.integers(1, 12), st.dictionaries(st.integers(1, 31), st.integers(-899, 599))
        ),
        max_size=6,
    ),
    st.dictionaries(st.integers(1, 31), st.sampled_from(["   ", " X7", "H  ", "LI0", "  Z"]), max_size=8),
)
def test_what_is_written_as_dly_is_read_back(months, flags):
    text = "\n".join(dly_line(SEATTLE, year, month, "TMIN", values, flags) for year, month, values in months)
    table, report = parse_block(Block("a.dly", 1, text.encode()), "dly", [], DailyRules(element="TMIN"))
    expected, impossible, flagged = [], 0, 0
    for year, month, values in months:
        for day, value in sorted(values.items()):
            if day > calendar.monthrange(year, month)[1]:
                impossible += 1
            elif flags.get(day, "   ")[1] != " ":
                flagged += 1
            else:
                expected.append((datetime.datetime(year, month, day), value / 10))
    assert list(zip(table["time"].dt.to_pydatetime(), table["value"], strict=True)) == expected
    assert report.num_rejected == report.rejected.get("impossible date", 0) == impossible
    assert sum(count for reason, count in report.left_out.items() if "quality" in reason) == flagged


def test_bad_dly_lines_are_counted_with_their_place(tmp_path, stations):
    good = dly_line(SEATTLE, 2001, 2, "TMAX", {1: 55, 2: -61})
    bad_value = dly_line(SEATTLE, 2001, 3, "TMAX", {1: 71, 2: 72}).replace("   72", " 7x2 ")
    minus = dly_line(SEATTLE, 2001, 4, "TMAX", {1: 71, 2: 72}).replace("   72", "  -  ")
    bad_flag = dly_line(SEATTLE, 2001, 5, "TMAX", {1: 81, 2: 82}, {2: " ? "})
    lines = [
        good,
        good[:100],
        bad_value,
        bad_flag,
        dly_line(SEATTLE, 2001, 13, "TMAX", {1: 1}),
        dly_line(SEATTLE, 2001, 2, "TMAX", {3: 93, 30: 94}),
        "garbage",
        dly_line(SEATTLE, 2001, 6, "TMAX", {4: 55372}),
        dly_line("XX000000001", 2001, 6, "TMAX", {4: 150}),
        dly_line(SEATTLE, 2001, 7, "TMAX", {5: 201}).rstrip(),
        dly_line(SEATTLE, 2001, 8, "PRCP", {5: 999}),
        "",
        dly_line(SEATTLE, 2001, 9, "TMAX", {5: 1}) + "more",
        minus,
    ]
    path = tmp_path / "mixed.dly"
    path.write_bytes("\r\n".join(lines).encode() + b"\r\n\xff\xfe\xfa" + b"\xe9" * 266)
    table, report = read_ghcn(path, stations=stations)
    assert_allclose(table["value"], [5.5, -6.1, 9.3, 7.1, 7.1, 8.1, 20.1])
    assert {(example.line, example.reason) for example in report.examples} == {
        (2, "short line: fewer than 269 characters"),
        (3, "value that is not a number"),
        (4, "unknown quality flag '?'"),
        (5, "unreadable station, year, month or element"),
        (6, "impossible date"),
        (7, "short line: fewer than 269 characters"),
        (8, "value not between -90 and 60 degrees Celsius"),
        (9, "station that is not in the station list"),
        (13, "long line: more than 269 characters"),
        (14, "value that is not a number"),
        (15, "unreadable station, year, month or element"),
    }
    assert report.num_rejected == 11
    assert report.kept == 7
    assert "mixed.dly line 3" in str(report)


BY_YEAR = [
    f"{SEATTLE},20010101,TMAX,56,,,W,2400",
    f"{SEATTLE},20010101,TMIN,-11,,,W,2400",
    f"{FORKS},20010101,TMAX,-22,,I,7,1600",
    f"{FORKS},20010102,TMAX,-33,,,7,",
    f"{FORKS},20010103,TMAX,-9999,,,7,",
]


@pytest.mark.parametrize("header", ["", "ID,DATE,ELEMENT,DATA_VALUE,M_FLAG,Q_FLAG,S_FLAG,OBS_TIME\n"])
def test_by_year_layout(tmp_path, stations, header):
    path = tmp_path / "2001.csv.gz"
    path.write_bytes(gzip.compress((header + "\n".join(BY_YEAR)).encode()))
    table, report = read_ghcn(path, stations=stations)
    assert table["station"].tolist() == [SEATTLE, FORKS]
    assert_allclose(table["value"], [5.6, -3.3])
    assert_allclose(table["elevation"], [112.8, 106.7])
    assert report.num_rejected == 0
    assert report.left_out["failed NOAA's quality check I (internal consistency)"] == 1
    flagged, _ = read_ghcn(path, stations=stations, keep_flagged=True, only=[FORKS])
    assert_allclose(flagged["value"], [-2.2, -3.3])


def test_bad_by_year_lines_are_counted_with_their_place(tmp_path, stations):
    bad = [
        f"{SEATTLE},20010230,TMAX,56,,,W,2400",
        f"{SEATTLE},20010203,TMAX,warm,,,W,2400",
        f"{SEATTLE},20010204,TMAX,56",
        f"{SEATTLE},20010205,TMAX,56,,XX,W,2400",
        "not a line at all",
        f"{SEATTLE},20010206,TM,56,,,W,2400",
        f"SHORT,20010207,TMAX,56,,,W,{'x' * 10}",
        f"{SEATTLE},20010208,TMAX,55372,,,W,2400",
        f"{SEATTLE},2001-02-09,TMAX,12,,,W,2400",
    ]
    path = tmp_path / "2001.csv"
    path.write_text("\n".join(BY_YEAR[:2] + bad + BY_YEAR[3:4]))
    table, report = read_ghcn(path, stations=stations)
    assert_allclose(table["value"], [5.6, -3.3])
    assert {(example.line, example.reason) for example in report.examples} == {
        (3, "impossible date"),
        (4, "value that is not a number"),
        (5, "short line: fewer than 8 fields"),
        (6, "unknown quality flag '?'"),
        (7, "short line: fewer than 8 fields"),
        (8, "unreadable station or element"),
        (9, "unreadable station or element"),
        (10, "value not between -90 and 60 degrees Celsius"),
        (11, "impossible date"),
    }
    assert report.num_rejected == 9


def test_bad_by_station_lines_are_counted_with_their_place(tmp_path, stations):
    header = '"STATION","DATE","LATITUDE","LONGITUDE","ELEVATION","NAME","TMAX","TMAX_ATTRIBUTES"'
    start = f'"{SEATTLE}","2020-01-0{{day}}","47.4444","-122.3138","112.8","SEATTLE, WA US",'
    lines = [
        header,
        start.format(day=1) + '"  101",",,W"',
        start.format(day=2) + '"  102",",X,W"',
        start.format(day=3) + '"  103",","',
        start.format(day=4) + '"  1o4",",,W"',
        start.format(day=5) + '"  105"',
        start.format(day=6) + ",",
        start.format(day="x") + '"  107",",,W"',
        start.format(day=8) + '"55372",",,W"',
        start.format(day=9) + '"  -91","H,,W,2400"',
        start.format(day=9) + '"  -92","H,,W,2400"',
    ]
    path = tmp_path / f"{SEATTLE}.csv"
    path.write_text("\n".join(lines))
    table, report = read_ghcn(path, stations=stations)
    assert_allclose(table["value"], [10.1, -9.1])
    assert {(example.line, example.reason) for example in report.examples} == {
        (4, "unknown quality flag '?'"),
        (5, "value that is not a number"),
        (6, "short line: fewer than 8 fields"),
        (8, "impossible date"),
        (9, "value not between -90 and 60 degrees Celsius"),
        (11, "another value of that station and day came first"),
    }
    assert report.left_out == {"no value on that day": 1, "failed NOAA's quality check X (bounds)": 1}
    _, report = read_ghcn(path, element="TMIN", stations=stations)
    assert report.left_out == {"file without TMIN, TMIN_ATTRIBUTES": 1}


HEADER = '"STATION","DATE","LATITUDE","LONGITUDE","ELEVATION","NAME","TMAX","TMAX_ATTRIBUTES"\n'


def by_station_line(station, day, lat="47.4444"):
    return f'"{station}","2020-01-{day:02d}","{lat}","-122.3138","112.8","SEATTLE, WA US","  101",",,W"\n'


@pytest.mark.parametrize("lines", [HEADER, HEADER.strip(), HEADER + by_station_line(FORKS, 1)])
def test_a_by_station_file_without_a_wanted_row_is_no_fault(tmp_path, stations, lines):
    (tmp_path / f"{FORKS}.csv").write_text(lines)
    (tmp_path / f"{SEATTLE}.csv").write_text(HEADER + by_station_line(SEATTLE, 1))
    table, report = read_ghcn(tmp_path, stations=stations, only=[SEATTLE])
    assert_allclose(table["value"], [10.1])
    assert report.num_rejected == report.num_left_out == 0


def test_broken_identifiers_are_refused_though_none_of_them_was_asked_for(tmp_path, stations):
    by_station = tmp_path / f"{SEATTLE}.csv"
    by_station.write_text(
        HEADER + "".join(by_station_line(name, day) for day, name in enumerate([SEATTLE, "USC0045", "", FORKS], 1))
    )
    table, report = read_ghcn(by_station, stations=stations, only=[SEATTLE])
    assert len(table) == 1
    assert [(example.line, example.reason) for example in report.examples] == [
        (3, "unreadable station"),
        (4, "unreadable station"),
    ]
    by_year = tmp_path / "2001.csv"
    broken = [(SEATTLE, "TM?X"), (SEATTLE, "tmax"), ("USC?0000001", "TMAX")]
    lines = [f"{station},2001010{day},{element},1,,,7," for day, (station, element) in enumerate(broken, 2)]
    by_year.write_text("\n".join([*BY_YEAR[:2], *lines]))
    table, report = read_ghcn(by_year, stations=stations, only=[SEATTLE])
    assert len(table) == 1
    assert report.rejected == {"unreadable station or element": 3}
    monthly = tmp_path / "a.dly"
    monthly.write_text("\n".join(dly_line(SEATTLE, 2001, 2, element, {1: 55}) for element in ("TMAX", "TM?X", "PRCP")))
    table, report = read_ghcn(monthly, stations=stations)
    assert len(table) == 1
    assert [example.line for example in report.examples] == [2]


def test_a_place_that_is_on_no_map_is_refused(tmp_path):
    folder = tmp_path / "one" / "two" / "three"
    folder.mkdir(parents=True)
    (folder / "a.csv").write_text(HEADER + by_station_line(SEATTLE, 1) + by_station_line(SEATTLE, 2, lat="947.5"))
    table, report = read_ghcn(folder)
    assert_allclose(table["lat"], [47.4444])
    assert report.rejected == {"latitude or longitude that is on no map": 1}


def test_cut_off_gzip_is_reported_and_its_lines_kept(tmp_path, stations):
    rng = np.random.default_rng(3)
    days = pd.date_range("1950-01-01", "2010-12-31")
    lines = [
        f"{SEATTLE},{day:%Y%m%d},TMAX,{value},,,W,2400"
        for day, value in zip(days, rng.integers(-50, 300, len(days)), strict=True)
    ]
    packed = gzip.compress("\n".join(lines).encode())
    path = tmp_path / "all.csv.gz"
    path.write_bytes(packed[: len(packed) // 2])
    table, report = read_ghcn(path, stations=stations)
    assert 5000 < len(table) < len(days)
    assert only_reason(report) == "damaged or cut off file; the rest of it is not read"


def test_files_of_no_known_layout(tmp_path, stations):
    path = tmp_path / "other.csv"
    path.write_text("a,b,c\n1,2,3\n")
    with pytest.raises(ValueError, match=r"other\.csv is not a GHCN-Daily file .* first line is 'a,b,c'"):
        read_ghcn(path, stations=stations)
    with pytest.raises(ValueError, match="holds no GHCN-Daily file"):
        read_ghcn(tmp_path, stations=stations)
    (tmp_path / "2001.CSV").write_text("\n".join(BY_YEAR))
    table, report = read_ghcn(tmp_path, stations=stations)
    assert len(table) == 2
    assert report.left_out["file of no known layout: other.csv"] == 1
    with pytest.raises(FileNotFoundError, match="no file or folder"):
        read_ghcn(tmp_path / "absent", stations=stations)
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(ValueError, match="holds no file ending in"):
        read_ghcn(empty, stations=stations)
    with pytest.raises(ValueError, match="element must be one of TMAX"):
        read_ghcn(tmp_path, element="PRCP")


def test_places_must_come_from_somewhere(tmp_path):
    folder = tmp_path / "one" / "two" / "three"
    folder.mkdir(parents=True)
    (folder / "2001.csv").write_text("\n".join(BY_YEAR))
    with pytest.raises(ValueError, match=r"put ghcnd-stations\.txt beside the data"):
        read_ghcn(folder)
    (folder.parent / "ghcnd-stations.txt").write_text(STATIONS)
    assert len(read_ghcn(folder)[0]) == 2


def test_lists_without_a_line_say_what_a_line_is(tmp_path):
    for name, read in (("ghcnd-stations.txt", read_stations), ("ghcnd-inventory.txt", read_inventory)):
        (tmp_path / name).touch()
        with pytest.raises(ValueError, match=r"no line that can be read: by columns, station in 1 to 11, lat in 13"):
            read(tmp_path / name)


def test_station_list(tmp_path):
    path = tmp_path / "ghcnd-stations.txt"
    bad = [
        "USC00000001  47.4444 -1x2.3138  112.8 WA NAME",
        "USC00000002  97.4444 -122.3138  112.8 WA NAME",
        "USC0000 003  47.4444 -122.3138  112.8 WA NAME",
        "USC00000004  47.4",
    ]
    path.write_bytes(
        (STATIONS + "\n".join(bad)).encode() + "\nCA001018612  48.5000 -123.3333    5.0 QC QUÉBEC".encode("latin-1")
    )
    table, report = read_stations(path)
    assert table["station"].tolist() == [SEATTLE, FORKS, "CA001018611", "CA001018612"]
    assert_array_equal(table["elevation"], [112.8, 106.7, np.nan, 5.0])
    assert table["name"].tolist()[3] == "QUÉBEC"
    assert report.rejected == {
        "unreadable station, place or number": 3,
        "short line: fewer than 37 characters": 1,
    }
    assert sorted(example.line for example in report.examples) == [4, 5, 6, 7]
    path.write_text("nothing of the kind\n")
    with pytest.raises(ValueError, match="has no line that can be read"):
        read_stations(path)


def test_inventory(tmp_path):
    path = tmp_path / "ghcnd-inventory.txt"
    path.write_text(
        f"{SEATTLE}  47.4444 -122.3138 TMAX 1948 2024\n"
        f"{SEATTLE}  47.4444 -122.3138 PRCP 1948 2023\n"
        f"{FORKS}  47.9558 -124.3539 TMAX 19x7 2018\n"
    )
    table, report = read_inventory(path)
    assert table.to_dict("list") == {
        "station": [SEATTLE, SEATTLE],
        "lat": [47.4444, 47.4444],
        "lon": [-122.3138, -122.3138],
        "element": ["TMAX", "PRCP"],
        "first_year": [1948, 1948],
        "last_year": [2024, 2023],
    }
    assert report.num_rejected == 1
    assert report.examples[0].line == 3
