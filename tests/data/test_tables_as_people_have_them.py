# SPDX-License-Identifier: MIT
"""Some twenty tables as people have them: each is read right, or refused with the sentence that says what to type."""

import json
import logging
import pathlib

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
from weft.data.files import read_table, write_table
from weft.data.tables import as_table
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
