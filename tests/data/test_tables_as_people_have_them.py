# SPDX-License-Identifier: MIT
"""Tables as people have them, some forty: each is read right, or refused with the sentence that says what to type."""

import json
import logging
import pathlib
from collections.abc import Sequence

import duckdb
import numpy as np
import openpyxl
import pandas as pd
import pyogrio
import pytest
import rasterio
import shapely
import xarray as xr

import weft
from weft.cli import main
from weft.data.clock import UNIT_SECONDS, Clock, learn_clock
from weft.data.files import read_table, write_table
from weft.data.inspect import Guess, guess_columns
from weft.data.tables import as_table
from weft.data.time_parts import time_column
from weft.project import Settings, survey_file

LONG = """date,lat,lon,tmax
2020-01-01,47.5,-122.0,8.5
2020-01-01,46.0,-121.0,4.5
2020-01-02,47.5,-122.0,9.0
2020-01-02,46.0,-121.0,3.5
"""
STATIONS = "code,name,lat,lon,elevation\nA1,Alder,47.5,-122.0,20\nB2,Birch,46.0,-121.0,310\nC3,Cedar,45.0,-120.0,95\n"


@pytest.fixture
def folder(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def surveyed(folder: pathlib.Path, name: str, text: str, places: str | None = None, **options: object):
    (folder / name).write_text(text)
    if places is not None:
        (folder / "stations.csv").write_text(places)
    settings = Settings(table=name, places=None if places is None else "stations.csv", options=options)
    return survey_file(settings, advised=True)


def columns_of(found) -> tuple:
    options = found.settings.options
    return options.get("time"), options.get("space"), options.get("target")


def column(found, name: str) -> list:
    return found.table.column(name).tolist()


def refusal(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(list(arguments)) == 2
    return capsys.readouterr().err.strip().splitlines()[-1]


# 1 to 6: lines above the header, in comments, a line of units, tabs, blanks, semicolons with decimal commas.
@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("above.csv", f"Daily maxima of two stations\nexported 2020-02-01, version 3\n\n{LONG}", "3 lines above"),
        ("comments.csv", f"# source: somewhere, of old\n# missing: none\n{LONG}", "2 lines above"),
        ("units.csv", LONG.replace("tmax\n", "tmax\n-,degree,degree,degC\n"), "a line of units"),
        ("tabs.tsv", LONG.replace(",", "\t"), None),
        ("blanks.txt", LONG.replace(",", "   "), None),
        ("german.csv", LONG.replace(",", ";").replace(".", ","), None),
        ("numpy.txt", "# " + LONG.replace(",", " ").replace("2020-01-0", "2020010"), None),
    ],
)
def test_text_in_many_shapes(folder, caplog, name, text, said) -> None:
    with caplog.at_level(logging.INFO, logger="weft"):
        found = surveyed(folder, name, text)
    assert columns_of(found) == ("date", ("lon", "lat"), "tmax")
    assert column(found, "tmax") == [8.5, 4.5, 9.0, 3.5]
    assert column(found, "lat") == [47.5, 46.0, 47.5, 46.0]
    assert (found.counts.num_times, found.counts.num_places) == (2, 2)
    assert [said in caplog.text] == [True] if said else "above names" not in caplog.text


# 7: no names of columns.
def test_a_table_without_names_is_refused(folder, capsys) -> None:
    (folder / "bare.csv").write_text("\n".join(LONG.splitlines()[1:]))
    sentence = refusal(capsys, "init", "bare.csv")
    assert (
        "has no names of columns: its first line is '2020-01-01,47.5,-122.0,8.5'; write a line of names above it"
        in sentence
    )


# 8 to 12: times in several columns.
@pytest.mark.parametrize(
    ("header", "rows", "time", "times"),
    [
        ("year,month,day", ["2019,12,31", "2020,1,1"], "year,month,day", ["2019-12-31", "2020-01-01"]),
        ("YEAR,MO,DY", ["2019,12,31", "2020,2,29"], "YEAR,MO,DY", ["2019-12-31", "2020-02-29"]),
        ("month,year", ["1,2019", "1,2020"], "year,month", ["2019-01-01", "2020-01-01"]),
        ("YEAR,DOY", ["2019,365", "2020,60"], "YEAR,DOY", ["2019-12-31", "2020-02-29"]),
        ("date,hour", ["2020-01-01,0", "2020-01-01,23"], "date,hour", ["2020-01-01", "2020-01-01T23:00"]),
        ("date,time", ["1.2.2020,06:30", "13.2.2020,18:00"], "date,time", ["2020-02-01T06:30", "2020-02-13T18:00"]),
    ],
)
def test_times_in_several_columns_are_joined(folder, header, rows, time, times) -> None:
    text = "\n".join([f"{header},lat,lon,value", *(f"{row},47.{k},8.{k},{k}.5" for k, row in enumerate(rows))])
    found = surveyed(folder, "parts.csv", text)
    assert columns_of(found) == (time, ("lon", "lat"), "value")
    assert "are parts of one time, and are joined" in found.reasons["time"]
    ends = [str(pd.Timestamp(when)) for when in times]
    assert [found.counts.first_time, found.counts.last_time] == ends
    assert found.counts.num_times == 2


def test_a_day_that_is_not_there_is_refused_by_row() -> None:
    table = pd.DataFrame(
        {"year": [2019, 2019], "month": [2, 2], "day": [28, 29], "lat": 1.0, "lon": [1.0, 2.0], "value": 1.0}
    )
    with pytest.raises(ValueError, match="column 'day' holds days that there are not; row 1"):
        weft.survey(table)


# 13, 14: wide tables.
def test_a_column_a_station_is_melted_with_places_from_a_second_file(folder) -> None:
    wide = "date,A1,B2,total\n2020-01-01,1.5,2.5,4\n2020-01-02,3.5,,3.5\n"
    found = surveyed(folder, "wide.csv", wide, STATIONS, target="tmax")
    assert columns_of(found) == ("date", ("lon", "lat", "elevation"), "tmax")
    assert column(found, "station") == ["A1", "A1", "B2", "B2"]
    assert column(found, "elevation") == [20, 20, 310, 310]
    np.testing.assert_array_equal(column(found, "tmax"), [1.5, 3.5, 2.5, np.nan])
    assert "2 columns named like stations became rows" in found.arranged[0]
    assert "left out, being no station there: total" in found.arranged[0]


def test_a_column_a_station_without_places_is_refused(folder, capsys) -> None:
    (folder / "wide.csv").write_text("date,A1,B2\n2020-01-01,1.5,2.5\n2020-01-02,3.5,1.0\n")
    sentence = refusal(capsys, "fit", "wide.csv", "-o", "m.weft")
    assert "if each column is a station, say where they are with --places stations.csv" in sentence


@pytest.mark.parametrize(
    ("names", "time", "last"),
    [(("2019", "2020", "2021"), "year", "2021"), (("X201912", "X202001", "X202002"), "time", "2020-02-01")],
)
def test_a_column_a_time_is_melted(folder, names, time, last) -> None:
    text = f"station,lat,lon,{','.join(names)}\nA,47.5,-122,1.5,2.5,3.5\nB,46,-121,4.5,,6.5\n"
    found = surveyed(folder, "years.csv", text)
    assert columns_of(found) == (time, ("lon", "lat"), "value")
    np.testing.assert_array_equal(column(found, "value"), [1.5, 4.5, 2.5, np.nan, 3.5, 6.5])
    assert found.counts.last_time.startswith(last)


# 15: names of stations, and places apart.
def test_places_come_from_a_second_file_by_the_stations_names(folder) -> None:
    rows = "site,date,value\nBirch,2020-01-01,1.5\nAlder,2020-01-01,2.5\nBirch,2020-01-02,0.5\n"
    found = surveyed(folder, "rows.csv", rows, STATIONS)
    assert columns_of(found) == ("date", ("lon", "lat", "elevation"), "value")
    assert column(found, "lat") == [46.0, 47.5, 46.0]
    with pytest.raises(ValueError, match=r"1 of 3 stations in 'site' are not in column 'name' .* such as 'Dogwood'"):
        surveyed(folder, "rows.csv", rows + "Dogwood,2020-01-02,3\n", STATIONS)


def test_names_of_stations_alone_are_refused(folder, capsys) -> None:
    (folder / "rows.csv").write_text(
        "site,date,value\nBirch,2020-01-01,1.5\nAlder,2020-01-01,2.5\nBirch,2020-01-02,0.5\n"
    )
    sentence = refusal(capsys, "fit", "rows.csv", "-o", "m.weft")
    assert (
        "if 'site' names stations, say where they are with --places stations.csv: a table with 'site', lat and lon"
        in sentence
    )


# 16: several quantities in one column.
def test_quantities_in_one_column_become_columns(folder) -> None:
    rows = [f"A,2020-01-0{d},47.5,-122,{e},{v + d}" for d in (1, 2) for e, v in (("TMAX", 9.5), ("TMIN", 1.5))]
    found = surveyed(folder, "elements.csv", "\n".join(["station,date,lat,lon,element,value", *rows]))
    assert columns_of(found) == ("date", ("lon", "lat"), "TMAX")
    assert (column(found, "TMAX"), column(found, "TMIN")) == ([10.5, 11.5], [2.5, 3.5])
    assert "column 'element' names quantities" in found.arranged[0]


# 17: codes for missing values.
def test_codes_for_missing_values_are_flagged_and_taken_out(folder, capsys) -> None:
    days = pd.date_range("2020-01-01", periods=40)
    table = pd.DataFrame(
        {"date": np.tile(days, 3), "lat": np.repeat([47.5, 46.0, 45.0], 40), "lon": np.repeat([1.0, 2.0, 3.5], 40)}
    )
    table["tmax"] = np.sin(np.arange(120.0)) * 10
    table.loc[[3, 50, 51], "tmax"] = -9999.0
    table.to_csv("coded.csv", index=False)
    found = weft.survey(table)
    assert found.settings.options["missing"] == (-9999.0,)
    assert found.counts.num_missing_target == 3
    assert found.counts.target_lowest > -11
    assert weft.survey(table, missing=()).counts.sentinels == ((-9999.0, 3),)
    assert main(["init", "coded.csv"]) == 0
    text = pathlib.Path("weft.toml").read_text()
    assert "missing = [-9999.0]" in text
    pathlib.Path("weft.toml").write_text(text.replace("missing = [-9999.0]", ""))
    capsys.readouterr()
    from weft.project import read_settings

    notes = survey_file(read_settings("weft.toml"), advised=False).notes
    assert any(
        "3 rows have 'tmax' = -9999, far from all others" in note and "--missing=-9999" in note for note in notes
    )


def test_values_that_only_look_like_codes_are_left_alone() -> None:
    frame = pd.DataFrame({"date": [20200101 + k for k in range(9)], "lat": 1.0, "lon": np.arange(9.0)})
    prices = frame.assign(price=[9990.0, 9999.0, 10005.0, 9000.0, 9500.0, 11000.0, 9999.0, 9700.0, 10100.0])
    assert weft.survey(prices).counts.sentinels == ()
    rain = frame.assign(rain=[0.0, 3.5, 99.9, 12.0, 0.0, 0.5, 44.0, 0.0, 1.0])
    assert weft.survey(rain).counts.sentinels == ()


# 18: Excel.
def test_excel_with_lines_above_and_a_second_sheet(folder, caplog) -> None:
    book = openpyxl.Workbook()
    about = book.active
    about.title = "About"
    about.append(["This workbook was made by hand"])
    sheet = book.create_sheet("Data")
    sheet.append(["Water levels"])
    sheet.append([])
    sheet.append(["date", "gauge", "lat", "lon", "level"])
    for day in (1, 2, 3):
        sheet.append(
            [pd.Timestamp(2020, 1, day).to_pydatetime(), "007", 47.5, 8.5 + day, None if day == 2 else 1.5 * day]
        )
    book.save("levels.xlsx")
    with caplog.at_level(logging.INFO, logger="weft"):
        found = survey_file(Settings(table="levels.xlsx"), advised=True)
    assert columns_of(found) == ("date", ("lon", "lat"), "level")
    np.testing.assert_array_equal(column(found, "level"), [1.5, np.nan, 4.5])
    assert column(found, "gauge") == ["007"] * 3
    assert "read the sheet 'Data'; passed over 'About'" in caplog.text
    assert "Water levels" in caplog.text


# 19, 20: GeoPackage, GeoJSON, GeoTIFF.
def test_points_of_geographic_files(folder) -> None:
    points = shapely.to_wkb(shapely.points([[500000.0, 5200000.0], [510000.0, 5210000.0]]))
    fields = [np.array(["2020-01-01", "2020-01-02"], dtype=object), np.array([1.5, 2.5])]
    pyogrio.raw.write(
        "wells.gpkg", points, fields, ["date", "level"], geometry_type="Point", crs="EPSG:32632", driver="GPKG"
    )
    found = survey_file(Settings(table="wells.gpkg"), advised=True)
    assert columns_of(found) == ("date", ("lon", "lat"), "level")
    # The central meridian of UTM zone 32 is 9 degrees east.
    assert column(found, "lon")[0] == pytest.approx(9.0, abs=1e-9)
    features = [
        {
            "type": "Feature",
            "geometry": {"type": "Point", "coordinates": [8.5, 47.5]},
            "properties": {"date": "2020-01-01", "level": 3},
        },
        {
            "type": "Feature",
            "geometry": {"type": "Point", "coordinates": [8.6, 47.4]},
            "properties": {"date": "2020-01-02", "level": 4},
        },
    ]
    (folder / "wells.geojson").write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    frame = read_table("wells.geojson")
    assert frame.to_dict("list") == {
        "lon": [8.5, 8.6],
        "lat": [47.5, 47.4],
        "date": ["2020-01-01", "2020-01-02"],
        "level": [3, 4],
    }
    features[0]["geometry"] = {"type": "Polygon", "coordinates": [[[0, 0], [1, 0], [1, 1], [0, 0]]]}
    (folder / "wells.geojson").write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    with pytest.raises(ValueError, match="holds Point and Polygon, not points"):
        read_table("wells.geojson")


# Of the reader's own use of another library.
@pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")
def test_a_raster_is_a_grid(folder) -> None:
    transform = rasterio.transform.from_origin(8.0, 48.0, 0.5, 0.25)
    heights = np.array([[1.0, 2.0, -1.0], [4.0, 5.0, 6.0]], dtype=np.float32)
    with rasterio.open(
        "elevation.tif",
        "w",
        driver="GTiff",
        height=2,
        width=3,
        count=1,
        dtype="float32",
        crs="EPSG:4326",
        transform=transform,
        nodata=-1,
    ) as raster:
        raster.write(heights, 1)
    grid = read_table("elevation.tif")
    assert isinstance(grid, xr.Dataset)
    assert grid["lat"].values.tolist() == [47.875, 47.625]
    assert grid["lon"].values.tolist() == [8.25, 8.75, 9.25]
    np.testing.assert_array_equal(grid["elevation"], [[1.0, 2.0, np.nan], [4.0, 5.0, 6.0]])
    with pytest.raises(ValueError, match=r"only read; write to a name that ends in \.csv"):
        write_table(grid, "out.tif")


# 21: a relation of a database.
def test_a_relation_of_a_database_is_a_table() -> None:
    relation = duckdb.sql(
        "select date '2020-01-01' + cast(range as integer) as date, 47.0 + range as lat, 8.0 as lon, range * 1.5 as level from range(3)"
    )
    found = weft.survey(relation)
    assert columns_of(found) == ("date", ("lon", "lat"), "level")
    assert as_table(relation).column("level").tolist() == [0.0, 1.5, 3.0]


# 22: metres.
def test_x_and_y_in_metres_become_kilometres() -> None:
    metres = pd.DataFrame(
        {"t": [0, 1, 2], "x": [3e5, 3.1e5, 3.2e5], "y": [5e6, 5.02e6, 5.01e6], "value": [1.0, 2.0, 4.0]}
    )
    found = weft.survey(metres)
    assert found.counts.width_km == pytest.approx(20.0)
    assert "large, so in metres" in found.reasons["space"]
    assert weft.survey(metres.assign(x=metres["x"] / 1e5, y=metres["y"] / 1e6)).counts.width_km is None


# 23, 24: degrees as text, and dates that can be read two ways.
def test_degrees_as_text_are_refused(folder, capsys) -> None:
    (folder / "text.csv").write_text("date,lat,lon,value\n2020-01-01,47°30'N,122°W,1\n2020-01-02,47°31'N,121°W,2\n")
    assert "column 'lon' is named like degrees and holds '122°W'; write them as numbers" in refusal(
        capsys, "fit", "text.csv"
    )


def test_dates_that_can_be_read_two_ways_are_refused(folder, capsys) -> None:
    (folder / "days.csv").write_text("date,lat,lon,value\n03/04/2020,47,8,1\n05/06/2020,47,9,2\n")
    assert "say which with time_format" in refusal(capsys, "fit", "days.csv")


# 25: nearly every row with a time of its own.
def test_times_that_nearly_all_differ_are_put_on_a_step_and_it_is_said() -> None:
    random = np.random.default_rng(3)
    seconds = np.sort(random.integers(0, 30 * 86400, 6000))
    table = pd.DataFrame(
        {
            "time": pd.Timestamp("2020-01-01") + pd.to_timedelta(seconds, unit="s"),
            "lat": np.tile(random.uniform(40, 50, 300), 20),
            "lon": np.tile(random.uniform(0, 9, 300), 20),
            "value": random.normal(size=6000),
        }
    )
    # Each of 300 stations has a row every day and a half.
    assert any("a step of 3h; " in note and "--time-step exact" in note for note in weft.survey(table).notes)
    for others in ({"time_step": None}, {"time_step": "1D"}):
        assert not any("a step of" in note for note in weft.survey(table, **others).notes)
    daily = table.assign(time=pd.date_range("2000", periods=6000))
    assert not any("a step of" in note for note in weft.survey(daily).notes)
    # At ten places a pass over 6,000 times takes no second.
    few = table.assign(lat=np.tile(np.linspace(40, 50, 10), 600), lon=np.tile(np.linspace(0, 9, 10), 600))
    assert not any("a step of" in note for note in weft.survey(few).notes)


def test_what_is_known_is_not_guessed(folder, capsys) -> None:
    (folder / "rows.csv").write_text(
        LONG.replace("date", "day").replace("tmax", "b").replace("lat", "p").replace("lon", "q")
    )
    assert main(["init", "rows.csv", "--time", "day", "--space", "p,q", "--target", "b"]) == 0
    text = pathlib.Path("weft.toml").read_text()
    assert 'space = ["p", "q"]' in text
    assert 'target = "b"' in text


def test_python_speaks_of_arguments() -> None:
    with pytest.raises(
        ValueError, match=r"cannot tell which column is the space; name it with space= .*places=stations"
    ):
        weft.survey(pd.DataFrame({"date": ["2020-01-01", "2020-01-02"], "a": [1.0, 2.0], "b": [1.0, 2.5]})).estimator()


# More of them, each as somebody sent it.
ROWS = [("47.5", "-122.0", 0.5), ("46.0", "-121.0", 1.5), ("47.5", "-122.0", 2.5), ("46.0", "-121.0", 3.5)]


def rows_at(times: Sequence[str], header: str = "time", name: str = "tmax", value: str = "{}") -> str:
    """Two places at each of two times, as text."""
    lines = [f"{times[k // 2]},{lat},{lon},{value.format(v)}" for k, (lat, lon, v) in enumerate(ROWS)]
    return "\n".join([f"{header},lat,lon,{name}", *lines]) + "\n"


@pytest.mark.parametrize(
    ("header", "times", "days"),
    [
        ("month", ("201912", "202001"), 31),
        ("date", ("2019365", "2020001"), 1),
        ("date", ("2019-365", "2020-001"), 1),
        ("time", ("2019123123", "2020010100"), 1 / 24),
        ("date", ("43830", "43831"), 1),
        ("date", ("43830.25", "43831"), 0.75),
        ("quarter", ("2019Q4", "2020Q1"), 92),
        ("period", ("Q4 2019", "Q1 2020"), 92),
        ("week", ("2019-W52", "2020-W01"), 7),
        ("month", ("Dec 2019", "Jan 2020"), 31),
        ("date", ("31-Dec-2019", "01-Jan-2020"), 1),
        ("time", ("2019-12-31 12:00", "2019-12-31 24:00"), 0.5),
        ("time", ("2019-12-31 23:00 UTC", "2020-01-01 00:00 UTC"), 1 / 24),
        ("year,month", ("2019,Dec", "2020,January"), 31),
        ("year,quarter", ("2019,4", "2020,1"), 92),
        ("year,week", ("2019,52", "2020,1"), 7),
        ("date,time", ("2019-12-31,1630", "2019-12-31,2400"), 7.5 / 24),
        ("date,hour", ("2019-12-31,100", "2019-12-31,2400"), 23 / 24),
        ("date,hour", ("2019-12-31,1", "2019-12-31,24"), 23 / 24),
        ("time", ("1577750400", "1577836800"), 1),
        ("timestamp", ("1577833200000", "1577836800000"), 1 / 24),
    ],
)
def test_times_as_people_write_them(folder, header, times, days) -> None:
    found = surveyed(folder, "times.csv", rows_at(times, header))
    assert columns_of(found) == (header, ("lon", "lat"), "tmax")
    assert found.counts.num_times == 2
    assert found.counts.span * UNIT_SECONDS[found.counts.time_unit] == pytest.approx(days * 86400)


def test_times_in_digits_come_back_as_they_came(folder) -> None:
    for number in (202002, 2020060, 2020022923):
        column = pd.Series([number, number + 1])
        clock = learn_clock(column, "time")
        assert clock.restore(clock.numbers(column)).tolist() == column.tolist()
        assert Clock.from_json(clock.to_json()) == clock
    for text in ("2020Q3", "Q3 2020", "2020-W09", "Mar 2020"):
        clock = learn_clock(pd.Series([text]), "time")
        assert clock.restore(clock.numbers(pd.Series([text]))).tolist() == [text]
        assert clock.numbers(pd.Series([text])) == 0
    # Days of another count are plain numbers.
    assert learn_clock(pd.Series([43830, 43831]), "day").kind == "number"
    assert learn_clock(pd.Series([202011, 202012, 202013]), "time").kind == "number"


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        (
            "zones",
            rows_at(("2020-01-01 01:00 PST", "2020-01-01 02:00 PST")),
            "write that, as in 2020-03-27T15:00-08:00",
        ),
        (
            "short years",
            rows_at(("12/30/19", "12/31/19")),
            "has '12/30/19', and 3 more rows; write them so, or say how",
        ),
        ("a total", rows_at(("2020-01-01", "2020-01-02")) + "Total,,,8\n", "row 4 (counting from 0) has 'Total'"),
        ("minutes", rows_at(("2020-01-01,0", "2020-01-01,2345"), "date,time").replace(",0,", ",15,"), "'time'"),
        (
            "traces",
            rows_at(("2020-01-01", "2020-01-02"), name="prcp").replace(",1.5\n", ",T\n"),
            "has 'T': a trace: write 0",
        ),
        ("limits", rows_at(("2020-01-01", "2020-01-02"), value="<{}"), "has '<0.5', and 3 more rows: a limit"),
        ("thousands", rows_at(("2020-01-01", "2020-01-02"), value='"1,23{}"'), "without separators between thousands"),
        ("units", rows_at(("2020-01-01", "2020-01-02"), value="{} mm"), "write the number alone"),
        ("currency", rows_at(("2020-01-01", "2020-01-02"), name="price", value="£{}"), "write the number alone"),
        ("minus", rows_at(("2020-01-01", "2020-01-02"), value="\N{MINUS SIGN}{}"), "write its sign as '-'"),
        ("hemispheres", rows_at(("2020-01-01", "2020-01-02")).replace(".0,", ".0W,"), "'lon' is named like degrees"),
        (
            "degrees and minutes",
            "date,lat_deg,lat_min,lon_deg,lon_min,tmax\n2020-01-01,47,30,8,15,1.5\n2020-01-02,47,31,8,15,2.5\n",
            "column 'lat_min' seems to hold minutes; write a latitude and a longitude as one number",
        ),
        (
            "a point",
            'date,where,tmax\n2020-01-01,"47.5, -122.0",1.5\n2020-01-02,"46.0, -121.0",2.5\n',
            "column 'where' holds two numbers, '47.5, -122.0'; make two columns of it, lat and lon",
        ),
        (
            "swapped",
            rows_at(("2020-01-01", "2020-01-02")).replace("lat,lon", "lon,lat"),
            "if latitude and longitude are swapped, swap the names of their columns",
        ),
        (
            "Fahrenheit",
            "date,lat,lon,tmax,unit\n2020-01-01,47.5,8.5,50,F\n2020-01-02,47.5,8.5,11,\N{DEGREE SIGN}C\n",
            "says that 'tmax' is in F in some rows and in \N{DEGREE SIGN}C in others; convert all of them to one unit",
        ),
        (
            "a field more",
            rows_at(("2020-01-01", "2020-01-02")).replace("5\n", "5,ok\n"),
            "there are 4 names of columns and 5 fields in '2020-01-01,47.5,-122.0,0.5,ok'; mend such lines (4 in all",
        ),
        (
            "doubles",
            rows_at(("2020-01-01,1", "2020-01-02,2"), "date,tmax"),
            "more than one column named 'tmax'; rename",
        ),
    ],
)
def test_what_cannot_be_read_right_is_refused_with_what_to_type(folder, capsys, name, text, sentence) -> None:
    (folder / "table.csv").write_text(text, encoding="utf-8")
    assert sentence in refusal(capsys, "fit", "table.csv", "-o", "model.weft"), name


@pytest.mark.parametrize(
    ("name", "text", "target"),
    [
        ("two lines of names, the groups above", ",,,Air,Air\ndate,lat,lon,max,min\n", "Air max"),
        ("two lines of names, the groups first", "date,lat,lon,Air,Air\n,,,max,min\n", "Air max"),
        ("a separator at the end of every row", "date,lat,lon,tmax,tmin\n", "tmax"),
        ("numbers of rows", "date,lat,lon,tmax,tmin\n", "tmax"),
        ("remarks below", "date,lat,lon,tmax,tmin\n", "tmax"),
        ("empty rows", "date,lat,lon,tmax,tmin\n", "tmax"),
        ("quotes and blanks", '"date" , "lat" , "lon" , "tmax" , "tmin"\n', "tmax"),
        ("a mark of byte order", "\N{ZERO WIDTH NO-BREAK SPACE}date,lat,lon,tmax,tmin\n", "tmax"),
    ],
)
def test_lines_around_a_table_are_told_from_it(folder, name, text, target) -> None:
    days = ("2020-01-01", "2020-01-01", "2020-01-02", "2020-01-02")
    lines = [f"{day},{lat},{lon},{v},{int(v)}" for day, (lat, lon, v) in zip(days, ROWS, strict=True)]
    if name.startswith("a separator"):
        lines = [f"{line}," for line in lines]
    elif name == "numbers of rows":
        lines = [f'"{number}",{line}' for number, line in enumerate(lines, 1)]
    elif name == "remarks below":
        lines += ["Source: the office of weather"]
    elif name == "empty rows":
        lines = [line for each in lines for line in (each, ",,,,")]
    found = surveyed(folder, "table.csv", text + "\n".join(lines) + "\n")
    assert columns_of(found) == ("date", ("lon", "lat"), target)
    assert column(found, target) == [0.5, 1.5, 2.5, 3.5]
    assert found.counts.num_times == found.counts.num_places == 2


@pytest.mark.parametrize("word", ["M", "NA", "-", "---", ".", "null", "missing", "***"])
def test_words_for_no_value_among_numbers(folder, word) -> None:
    text = rows_at(("2020-01-01", "2020-01-02")).replace(",1.5\n", f",{word}\n")
    found = surveyed(folder, "words.csv", text)
    assert columns_of(found)[2] == "tmax"
    assert found.counts.num_missing_target == 1
    # In a column of text the word is what it says.
    flags = "".join(f"{line},{'flag' if k == 0 else word}\n" for k, line in enumerate(text.splitlines()))
    assert set(column(surveyed(folder, "flags.csv", flags), "flag")) == {word}


def test_rows_above_the_times_may_say_where_stations_are(folder) -> None:
    wide = "station,A1,B2,C3\nlat,47.5,46.0,45.0\nlon,-122,-121,-120\nelevation,20,310,95\n"
    found = surveyed(folder, "wide.csv", wide + "2020-01-01,1.5,2.5,3.5\n2020-01-02,4.5,,6.5\n")
    assert columns_of(found) == ("time", ("lon", "lat", "elevation"), "value")
    np.testing.assert_array_equal(column(found, "value"), [1.5, 4.5, 2.5, np.nan, 3.5, 6.5])
    assert column(found, "elevation") == [20, 20, 310, 310, 95, 95]
    assert "the first 3 rows tell of stations (lat, lon, elevation)" in found.arranged[0]


def test_packed_grids_and_networks_in_netcdf(folder) -> None:
    days = pd.date_range("2020-01-01", periods=3)
    values = np.arange(18.0).reshape(3, 2, 3) / 4
    values[0, 0, 0] = np.nan
    grid = xr.Dataset(
        {"sst": (("time", "lat", "lon"), values)},
        coords={"time": days, "lat": [47.0, 46.0], "lon": [238.0, 239.0, 240.0]},
    )
    packed = {"dtype": "int16", "scale_factor": 0.01, "add_offset": 20.0, "_FillValue": -32768}
    grid.to_netcdf(
        "packed.nc", engine="h5netcdf", encoding={"sst": packed, "time": {"units": "hours since 1900-01-01"}}
    )
    found = survey_file(Settings(table="packed.nc"), advised=True)
    assert columns_of(found) == ("time", ("lon", "lat"), "sst")
    np.testing.assert_allclose(column(found, "sst"), values.ravel(), atol=0.005)
    network = xr.Dataset(
        {"tas": (("station", "time"), values[:, :, :].reshape(6, 3))},
        coords={"time": days, "lat": ("station", np.arange(6.0)), "lon": ("station", np.arange(6.0) + 8)},
    )
    network.to_netcdf("network.nc", engine="h5netcdf")
    found = survey_file(Settings(table="network.nc"), advised=True)
    assert columns_of(found) == ("time", ("lon", "lat"), "tas")
    assert (found.counts.num_times, found.counts.num_places, found.counts.num_missing_target) == (3, 6, 1)


def test_excel_with_words_among_numbers(folder) -> None:
    book = openpyxl.Workbook()
    for row in (
        ["date", "lat", "lon", "rain"],
        *([43831 + k, 47.5, 8.5 + k, "M" if k == 1 else 1.5 * k] for k in range(4)),
    ):
        book.active.append(row)
    book.save("rain.xlsx")
    found = survey_file(Settings(table="rain.xlsx"), advised=True)
    assert columns_of(found) == ("date", ("lon", "lat"), "rain")
    assert (found.counts.num_missing_target, found.counts.time_unit, found.counts.span) == (1, "days", 3.0)


def test_rows_at_nowhere_are_noted() -> None:
    table = pd.DataFrame({"date": ["2020-01-01"] * 4, "lat": [47.5, 46.0, 0.0, 45.0], "lon": [8.5, 9.0, 0.0, 8.0]})
    table["value"] = [1.5, 2.5, 3.5, 0.5]
    assert any("1 row is at lat 0 and lon 0, far from all others" in note for note in weft.survey(table).notes)
    assert not any(
        "lat 0" in note for note in weft.survey(table.assign(lat=table["lat"] / 40, lon=table["lon"] / 9)).notes
    )


@pytest.mark.parametrize(
    ("ticks", "numbers"), [("s", [1577750400, 1577836800]), ("ms", [1577750400500, 1577836800000])]
)
def test_seconds_since_1970_were_numbers_without_a_date(ticks, numbers) -> None:
    column = pd.Series(numbers)
    clock = learn_clock(column, "time")
    assert (clock.kind, clock.unit, clock.origin) == ("epoch", "days", "2019-12-31")
    np.testing.assert_allclose(clock.numbers(column), [0.5 / 86400 if ticks == "ms" else 0.0, 1.0], atol=1e-12)
    assert clock.restore(clock.numbers(column)).tolist() == numbers
    assert Clock.from_json(clock.to_json()) == clock
    # So large a number is no time where nothing says so, and a model of dates wants dates.
    assert learn_clock(column, "depth").kind == "number"
    table = pd.DataFrame(
        {"time": np.repeat(column, 2), "lat": [47.5, 46.0] * 2, "lon": [8.5, 9.0] * 2, "tmax": np.arange(4.0)}
    )
    assert weft.survey(table).counts.last_time.startswith("2020-01-01")


def test_months_in_columns_beside_a_year_were_twelve_quantities(folder) -> None:
    months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
    lines = [
        f"{s},{lat},{lon},{year},{','.join(f'{y}{m:02d}.5' for m in range(12))}"
        for y, year in enumerate((2019, 2020))
        for s, lat, lon in (("A", 47.5, 8.5), ("B", 46.0, 9.0))
    ]
    found = surveyed(
        folder, "months.csv", "\n".join([",".join(["station", "lat", "lon", "year", *months]), *lines]) + "\n"
    )
    assert columns_of(found) == ("year,month", ("lon", "lat"), "value")
    assert (found.counts.num_rows, found.counts.num_times, found.counts.num_places) == (48, 24, 2)
    march = [
        v
        for v, m, y in zip(column(found, "value"), column(found, "month"), column(found, "year"), strict=True)
        if (m, y) == (3, 2020)
    ]
    assert march == [102.5, 102.5]
    assert "12 columns named like months ('Jan' to 'Dec') became rows: 'month' and 'value'" in found.arranged


def test_days_in_columns_beside_a_year_and_a_month_end_with_the_month(folder) -> None:
    header = ",".join(["station", "lat", "lon", "year", "month", *(f"D{day:02d}" for day in range(1, 32))])

    def line(month: int, num_days: int) -> str:
        return f"A,47.5,8.5,2019,{month}," + ",".join(str(day + 0.5) if day <= num_days else "" for day in range(1, 32))

    found = surveyed(folder, "days.csv", "\n".join([header, line(2, 28), line(3, 31)]) + "\n")
    assert columns_of(found) == ("year,month,day", ("lon", "lat"), "value")
    assert (found.counts.num_rows, found.counts.num_times, found.counts.last_time) == (59, 59, "2019-03-31 00:00:00")
    with pytest.raises(ValueError, match="'day' holds days that there are not"):
        surveyed(folder, "days.csv", "\n".join([header, line(2, 29), line(3, 31)]) + "\n")


def test_hours_in_columns_beside_a_date_are_rows(folder) -> None:
    header = ",".join(["date", "lat", "lon", *(str(hour) for hour in range(1, 25))])
    lines = [f"2020-01-0{day},47.5,8.5," + ",".join(f"{day}{hour:02d}" for hour in range(1, 25)) for day in (1, 2)]
    found = surveyed(folder, "hours.csv", "\n".join([header, *lines]) + "\n")
    assert columns_of(found) == ("date,hour", ("lon", "lat"), "value")
    assert (found.counts.num_times, found.counts.last_time) == (48, "2020-01-03 00:00:00")


def test_names_of_columns_between_files_put_together_spoiled_every_column(folder, caplog) -> None:
    caplog.set_level(logging.INFO, logger="weft")
    first, *rest = LONG.splitlines(keepends=True)
    found = surveyed(folder, "twice.csv", first + "".join(rest[:2]) + first + "".join(rest[2:]))
    assert columns_of(found) == ("date", ("lon", "lat"), "tmax")
    assert column(found, "tmax") == [8.5, 4.5, 9.0, 3.5]
    assert "has the names of its columns among its rows, passed over" in caplog.text
    found = surveyed(folder, "commas.csv", (first + "".join(rest) + first).replace(",", ";").replace(".", ","))
    assert column(found, "tmax") == [8.5, 4.5, 9.0, 3.5]


def test_numbers_that_are_text_throughout_were_no_target() -> None:
    table = pd.DataFrame({"date": ["2020-01-01"] * 3, "lat": ["47.5", "46.0", "45.0"], "lon": ["8.5", "9.0", "8.0"]})
    found = weft.survey(table.assign(value=["1.5", "2.5", "-"], code=["007", "012", "013"]))
    assert columns_of(found) == ("date", ("lon", "lat"), "value")
    assert found.counts.num_missing_target == 1


def test_degrees_called_x_and_y_are_asked_about() -> None:
    table = pd.DataFrame({"date": ["2020-01-01"] * 3, "X": [8.5412, 9.0137, 8.0771], "Y": [47.3769, 46.2044, 46.9481]})
    said = str(weft.survey(table.assign(value=[1.5, 2.5, 3.5])))
    assert "if they are degrees, call them lon and lat" in said
    metres = table.assign(X=1e5 * table["X"], Y=1e5 * table["Y"], value=[1.5, 2.5, 3.5])
    assert "degrees" not in str(weft.survey(metres))


def test_names_of_places_in_another_language_were_offered_as_a_covariate() -> None:
    """In `estacion` each name is a place; in `suelo` it is not."""
    table = pd.DataFrame(
        {
            "fecha": np.repeat(["2020-01-13", "2020-01-14", "2020-01-15"], 4),
            "estacion": ["Lima", "Cusco", "Puno", "Ica"] * 3,
            "suelo": ["sand", "clay", "clay", "sand"] * 3,
            "latitud": [-12.05, -13.53, -15.84, -14.07] * 3,
            "longitud": [-77.04, -71.97, -70.02, -75.73] * 3,
            "temperatura": np.linspace(10.0, 20.0, 12),
        }
    )
    guesses = guess_columns(as_table(table, tuple(table.columns)))
    assert guesses.station == Guess(("estacion",), "column 'estacion' names each place")
    assert guesses.kinds == ("suelo",)


def test_coordinates_of_points_in_metres_are_space() -> None:
    table = pd.DataFrame(
        {"date": ["2020-01-13"] * 3, "POINT_X": [912e3, 955e3, 1002e3], "POINT_Y": [6.01e6, 6.2e6, 6.1e6]}
    )
    said = str(weft.survey(table.assign(OBJECTID=[1, 2, 3], value=[1.5, 2.5, 3.5])))
    assert "'POINT_X' and 'POINT_Y' are named like coordinates and large, so in metres" in said


GERMAN = "Datum;geoBreite;geoLänge;Höhe;Temperatur (°C)\n01.01.2020;47,5;8,5;310;1,5\n13.01.2020;47,25;9,5;410;-2,5\n"


@pytest.mark.parametrize(
    ("encoding", "said"), [("cp1252", "as Windows-1252"), ("utf-16", "as UTF-16"), ("utf-8-sig", None)]
)
def test_text_as_excel_saves_it_elsewhere(folder, caplog, encoding, said) -> None:
    (folder / "export.csv").write_bytes(GERMAN.encode(encoding))
    with caplog.at_level(logging.INFO, logger="weft"):
        found = survey_file(Settings(table="export.csv"), advised=True)
    assert columns_of(found) == ("Datum", ("geoLänge", "geoBreite", "Höhe"), "Temperatur (°C)")
    assert column(found, "Temperatur (°C)") == [1.5, -2.5]
    assert (said is None and not caplog.messages) or any(said in message for message in caplog.messages)


def test_an_accent_far_down_a_file_is_read_too(folder) -> None:
    rows = "".join(f"2020-01-01,Alder,{k}\n" for k in range(30_000))
    (folder / "long.csv").write_bytes(f"date,name,value\n{rows}2020-01-01,Zürich,1\n".encode("cp1252"))
    assert read_table("long.csv")["name"].iloc[-1] == "Zürich"


@pytest.mark.parametrize(
    ("names", "times"),
    [
        # Day first, month first as the counts of a pandemic had it, as R writes these, months, and what pandas makes of datetimes.
        (["30/01/2020", "31/01/2020", "01/02/2020"], ["2020-01-30", "2020-01-31", "2020-02-01"]),
        (["1/22/20", "1/23/20", "2/1/20"], ["2020-01-22", "2020-01-23", "2020-02-01"]),
        (["X1.22.20", "X1.23.20", "X2.1.20"], ["2020-01-22", "2020-01-23", "2020-02-01"]),
        # Only one of the two ways has columns in the order of time.
        (["1/2/20", "2/2/20", "1/3/20"], ["2020-02-01", "2020-02-02", "2020-03-01"]),
        (["Jan-20", "Feb-20", "Mar-20"], ["2020-01-01", "2020-02-01", "2020-03-01"]),
        (["2020 Q1", "2020 Q2", "2020 Q3"], ["2020-01-01", "2020-04-01", "2020-07-01"]),
        (["2020-01-01 00:00:00", "2020-01-01 06:00:00", "2020-01-01 12:00:00"], None),
        (["2018 [YR2018]", "2019 [YR2019]", "2020 [YR2020]"], [2018, 2019, 2020]),
    ],
)
def test_columns_named_like_dates_are_rows_however_these_are_written(folder, names, times) -> None:
    text = f"site,lat,lon,{','.join(names)}\nA,47,8,1,2,3\nB,48,9,4,5,6\n"
    found = surveyed(folder, "wide.csv", text)
    time = found.settings.options["time"]
    assert found.settings.options["target"] == "value"
    read = pd.Series(found.table.column(time))
    expected = pd.Series(times if times is not None else names)
    expected = expected if time == "year" else pd.to_datetime(expected)
    assert read.drop_duplicates().tolist() == expected.tolist()
    assert pd.Series(column(found, "value"))[read == expected.iloc[0]].tolist() == [1, 4]


def test_columns_named_like_dates_of_either_order_are_refused(folder, capsys) -> None:
    (folder / "wide.csv").write_text("site,lat,lon,1/1/20,2/1/20,3/1/20\nA,47,8,1,2,3\nB,48,9,4,5,6\n")
    said = refusal(capsys, "init", "wide.csv")
    assert "'1/1/20'" in said
    assert "%d-%m-%y" in said
    assert "name them like 2020-03-27" in said


def test_a_buoys_file_with_units_behind_a_sign_for_comments(folder) -> None:
    rows = "".join(f"2020 01 {day:02d} 07 {10 * day:02d} {5 + day}.1 11.{day} 12.{day}\n" for day in range(1, 6))
    found = surveyed(folder, "buoy.txt", f"#YY  MM DD hh mm WSPD ATMP WTMP\n#yr  mo dy hr mn m/s  degC degC\n{rows}")
    assert found.settings.options["time"] == "YY,MM,DD,hh,mm"
    times = time_column(found.table, "YY,MM,DD,hh,mm")
    assert "WTMP" in found.table.names
    assert times.tolist() == [pd.Timestamp(2020, 1, day, 7, 10 * day) for day in range(1, 6)]


def test_years_and_days_of_the_year_without_a_word_for_time(folder) -> None:
    assert columns_of(surveyed(folder, "a.csv", "yyyy,jday,lat,lon,temp\n2020,5,47,8,1.5\n2020,6,47,9,2.5\n"))[0] == (
        "yyyy,jday"
    )


def test_days_in_digits_and_numbers_of_stations_under_any_name(folder) -> None:
    rows = "".join(f"{site:6d};202002{day:02d};{day}.5;{site % 3}.5\n" for day in range(1, 29) for site in (44, 52, 71))
    where = "Stations_id;Stationshoehe;geoBreite;geoLaenge\n44;44;52.93;8.24\n52;46;53.66;10.2\n71;759;48.22;8.98\n"
    found = surveyed(folder, "klima.txt", f"STATIONS_ID;MESS_DATUM;SOUID;TMK\n{rows}", places=where)
    assert columns_of(found) == ("MESS_DATUM", ("geoLaenge", "geoBreite", "Stationshoehe"), "TMK")


@pytest.mark.parametrize(("name", "unit"), [("timestamp", "us"), ("timestamp", "ns"), ("dt", "s")])
def test_instants_since_1970_in_any_unit(name, unit) -> None:
    times = pd.date_range("2020-03-27", periods=4, freq="h")
    ticks = pd.Series(times.to_numpy().astype(f"datetime64[{unit}]").astype(np.int64))
    clock = learn_clock(ticks, name)
    assert clock.kind == "epoch"
    assert clock.unit == "hours"
    assert clock.restore(clock.numbers(ticks, name)).tolist() == ticks.tolist()


def test_separators_at_the_ends_of_all_lines_are_no_columns(folder, caplog) -> None:
    with caplog.at_level(logging.INFO, logger="weft"):
        found = surveyed(folder, "ends.csv", LONG.replace("\n", ",,\n"))
    assert list(found.table.names) == ["date", "lat", "lon", "tmax"]
    assert any("without a name or a value" in message for message in caplog.messages)


@pytest.mark.parametrize(
    "text",
    [
        "USC1,20200201,TMAX,3,,,7\nUSC1,20200202,TMAX,4,,,7\n",
        "# climate explorer\n# tmax\n" + "".join(f"{year} 1.5 2.5 3.5 4.5\n" for year in range(1950, 1960)),
    ],
)
def test_numbers_alone_have_no_names(folder, capsys, text) -> None:
    (folder / "bare.txt").write_text(text)
    assert "has no names of columns" in refusal(capsys, "init", "bare.txt")


def test_sheets_that_go_on_with_each_other_are_one_table(folder, caplog, capsys) -> None:
    def workbook(*sheets: tuple[str, int, int]) -> None:
        book = openpyxl.Workbook()
        book.remove(book.active)
        for title, month, value in sheets:
            sheet = book.create_sheet(title)
            sheet.append(["date", "lat", "lon", "tmax"])
            for day in range(1, 4):
                sheet.append([pd.Timestamp(2020, month, day).to_pydatetime(), 47.5, -122.0, value + day])
        book.create_sheet("remarks").append(["by hand"])
        book.save("months.xlsx")

    workbook(("January", 1, 0), ("February", 2, 10))
    with caplog.at_level(logging.INFO, logger="weft"):
        table = read_table("months.xlsx")
    assert table["tmax"].tolist() == [1, 2, 3, 11, 12, 13]
    assert any("'January', 'February'; passed over 'remarks'" in message for message in caplog.messages)
    # A sheet a station: which is which is said nowhere else.
    workbook(("Alder", 1, 0), ("Birch", 1, 10))
    said = refusal(capsys, "init", "months.xlsx")
    assert "'Alder', 'Birch'" in said
    assert "a column that says" in said


def test_dates_of_excel_above_columns(folder) -> None:
    book = openpyxl.Workbook()
    book.active.append(["site", "lat", "lon", *(pd.Timestamp(2020, 1, day).to_pydatetime() for day in (1, 2, 3))])
    for site, lat in (("A", 47.5), ("B", 48.5)):
        book.active.append([site, lat, 8.5, 1.0, 2.0, 3.0])
    book.save("wide.xlsx")
    found = survey_file(Settings(table="wide.xlsx"), advised=True)
    assert found.settings.options["time"] == "time"
    assert found.table.num_rows == 6
