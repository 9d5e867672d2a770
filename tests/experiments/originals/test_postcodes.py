# SPDX-License-Identifier: MIT
import gzip
import zipfile

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from weft_experiments.originals.postcodes import find_postcode_tables, postcode_keys, read_postcodes, without_blanks

LAYOUTS = {
    "onspd": (
        "pcd,pcd2,pcds,dointr,oseast1m,osnrth1m,lat,long,imd\n"
        '"SW191AA","SW19 1AA","SW19 1AA","198001","526211","170740",51.421629,-0.186218,"1"\n'
        '"W1A 1AA","W1A  1AA","W1A 1AA","198001","528887","181593",51.518561,-0.143799,"2"\n'
        '"JE2 3AB","JE2  3AB","JE2 3AB","198001","","",99.999999,0.000000,""\n'
    ),
    "onspd of 2025": (
        "PCD7,PCD8,PCDS,DOINTR,EAST1M,LAT,LONG\n"
        "SW191AA,SW19 1AA,SW19 1AA,198001,526211,51.421629,-0.186218\n"
        "W1A 1AA,W1A  1AA,W1A 1AA,198001,528887,51.518561,-0.143799\n"
        "JE2 3AB,JE2  3AB,JE2 3AB,198001,,99.999999,0.000000\n"
    ),
    "camden": (
        "Postcode 1,Postcode 2,Postcode 3,Easting,Northing,Latitude,Longitude\n"
        "SW191AA,SW19 1AA,SW19 1AA,526211,170740,51.421629,-0.186218\n"
        "W1A 1AA,W1A  1AA,W1A 1AA,528887,181593,51.518561,-0.143799\n"
        "JE2 3AB,JE2  3AB,JE2 3AB,,,,\n"
    ),
    "ukpostcodes": (
        "id,postcode,latitude,longitude\n1,SW19 1AA,51.421629,-0.186218\n2,W1A 1AA,51.518561,-0.143799\n3,JE2 3AB,,\n"
    ),
    "code-point": (
        '"SW19 1AA",10,526211,170740,"E92000001","","","","E09000024","E05013826"\n'
        '"W1A 1AA",10,528887,181593,"E92000001","","","","E09000033","E05013800"\n'
        '"JE2 3AB",90,0,0,"E92000001","","","","",""\n'
    ),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("packed", ["csv", "csv.gz", "zip"])
def test_every_layout_gives_the_same_places(tmp_path, layout, packed):
    path = tmp_path / f"table.{packed}"
    text = LAYOUTS[layout].encode()
    if packed == "zip":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("Data/table.csv", text)
            archive.writestr("Data/multi_csv/part.csv", text)
            archive.writestr("Documents/notes.csv", "code,name\n1,one\n")
    else:
        path.write_bytes(gzip.compress(text) if packed == "csv.gz" else text)
    table, report = read_postcodes(path)
    assert table["postcode"].tolist() == ["SW191AA", "W1A1AA"]
    # Without the Ordnance Survey's grid of shifts, metres to degrees is good to some metres (1e-5 degree is 1 metre).
    tolerance = 5e-5 if layout == "code-point" else 0
    assert_allclose(table["lat"], [51.421629, 51.518561], rtol=0, atol=tolerance)
    assert_allclose(table["lon"], [-0.186218, -0.143799], rtol=0, atol=tolerance)
    assert report.num_rejected == 0
    assert report.left_out["postcode without a known place"] == 1
    assert report.left_out.get("no postcodes: Documents/notes.csv", 0) == (packed == "zip")


def test_real_code_point_with_its_headers_equals_the_prepared_table(shared_data):
    raw = shared_data / "price_paid" / "raw"
    table, report = read_postcodes(raw / "codepo_sw19.csv")
    assert report.kept == len(table) == len((raw / "codepo_sw19.csv").read_text().splitlines())
    prepared, _ = read_postcodes(shared_data / "price_paid" / "postcodes.parquet")
    both = table.merge(prepared, on="postcode", suffixes=("", "_prepared"))
    assert len(both) > 1000
    # The directory and Code-Point Open may place the same postcode some metres apart.
    assert np.median(np.abs(both["lat"] - both["lat_prepared"])) < 1e-6
    assert np.median(np.abs(both["lon"] - both["lon_prepared"])) < 1e-6


def test_real_ukpostcodes(shared_data):
    path = shared_data / "price_paid" / "raw" / "ukpostcodes-sample.csv"
    table, _ = read_postcodes(path)
    plain = pd.read_csv(path)
    assert table["postcode"].tolist() == [text.replace(" ", "") for text in plain["postcode"]]
    assert_array_equal(table[["lat", "lon"]], plain[["latitude", "longitude"]])


def test_code_point_headers_say_where_the_columns_are(tmp_path):
    (tmp_path / "Doc").mkdir()
    (tmp_path / "Data").mkdir()
    headers = "PC,PQ,NO,EA\nPostcode,Positional_quality_indicator,Northings,Eastings\n"
    (tmp_path / "Doc" / "Code-Point_Open_Column_Headers.csv").write_text(headers)
    (tmp_path / "Data" / "sw.csv").write_text('"SW19 1AA",10,170740,526211,"E92000001"\n')
    table, _ = read_postcodes(tmp_path)
    assert_allclose(table["lat"], [51.421629], rtol=0, atol=1e-5)


def test_bad_lines_are_counted_with_their_place(tmp_path):
    path = tmp_path / "ukpostcodes.csv"
    path.write_bytes(
        b"id,postcode,latitude,longitude\n"
        b"1,SW19 1AA,51.421629,-0.186218\n"
        b"2,SW19 1AB,51.42\n"
        b"3,SW19 1AD,north,-0.18\n"
        b"4,SW19 1AE,21.42,-0.18\n"
        b"5,??,51.42,-0.18\n"
        b"6,SW19\t1AA,51.5,-0.19\n"
        b"7,SW\xe919,51.5,-0.19\n"
        b"8,,51.5,-0.19\n"
    )
    table, report = read_postcodes(path)
    assert table["postcode"].tolist() == ["SW191AA"]
    assert_allclose(table["lat"], [51.421629])
    assert {(example.line, example.reason) for example in report.examples} == {
        (3, "short line: fewer than 4 fields"),
        (4, "coordinate that is not a number"),
        (5, "place outside the British Isles"),
        (6, "not a postcode"),
        (8, "not UTF-8 text"),
        (9, "not a postcode"),
    }
    assert report.left_out == {"postcode listed again: its first place holds": 1}


def test_files_that_are_not_postcode_tables(tmp_path):
    path = tmp_path / "other.csv"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match="is no postcode table"):
        read_postcodes(path)
    with pytest.raises(FileNotFoundError, match="no file or folder"):
        read_postcodes(tmp_path / "absent.csv")
    sales = pd.DataFrame({"postcode": ["SW19 1AA"], "lat": [51.0], "lon": [0.0], "price": [1]})
    sales.to_parquet(tmp_path / "sales.parquet")
    sales.drop(columns="price").to_parquet(tmp_path / "postcodes.parquet")
    found = find_postcode_tables(tmp_path)
    assert [path.name for path in found.files] == ["postcodes.parquet"]
    assert [path.name for path in found.other] == ["other.csv", "sales.parquet"]
    _, report = read_postcodes(tmp_path)
    assert report.left_out == {"no postcodes: other.csv": 1, "no postcodes: sales.parquet": 1}


def test_parquet_is_judged_as_csv_is(tmp_path):
    path = tmp_path / "postcodes.parquet"
    rows = pd.DataFrame(
        {
            "postcode": ["SW19 1AA", None, "ZZ", "SW19 1AB", "SW19 1AD", "SW19 1AE"],
            "lat": [51.4, 51.0, 51.0, 950.0, np.nan, 99.999999],
            "lon": [-0.1, 0.0, 0.0, 0.0, 0.0, 0.0],
        }
    )
    rows.to_parquet(path)
    table, report = read_postcodes(path)
    assert table["postcode"].tolist() == ["SW191AA"]
    assert report.rejected == {
        "not a postcode": 2,
        "place outside the British Isles": 1,
        "coordinate that is not a number": 1,
    }
    assert report.left_out == {"postcode without a known place": 1}
    rows.assign(lat=["51.4", "51", "51", "north", None, "51.5"], lon="-0.1").to_parquet(path)
    table, report = read_postcodes(path)
    assert_allclose(table[["lat", "lon"]], [[51.4, -0.1], [51.5, -0.1]])
    assert report.rejected["coordinate that is not a number"] == 2


def test_damaged_tables_are_reported(tmp_path):
    (tmp_path / "a.parquet").write_bytes(b"")
    (tmp_path / "b.parquet").write_bytes(b"junk, and more of it")
    (tmp_path / "c.csv.gz").write_bytes(b"junk")
    with pytest.raises(ValueError, match=r"is no postcode table.*; damaged: .*a\.parquet, .*b\.parquet, .*c\.csv\.gz"):
        read_postcodes(tmp_path)
    (tmp_path / "ukpostcodes.csv").write_text(LAYOUTS["ukpostcodes"])
    pd.DataFrame({"postcode": ["SW19 1AB"], "lat": [51.0], "lon": [0.0]}).to_parquet(tmp_path / "d.parquet")
    whole = (tmp_path / "d.parquet").read_bytes()
    # The names at the end are whole, the columns are not.
    (tmp_path / "d.parquet").write_bytes(whole[:4] + bytes(byte ^ 255 for byte in whole[4:60]) + whole[60:])
    table, report = read_postcodes(tmp_path)
    assert len(table) == 2
    assert report.rejected == {"damaged or cut off file; the rest of it is not read": 4}


@settings(deadline=None)
@given(st.lists(st.text(alphabet="AZ09az \t\u00a0é", max_size=10), min_size=1, max_size=8))
def test_postcodes_without_blanks(postcodes):
    found = without_blanks(pd.Series(postcodes, dtype="str"))
    assert found.tolist() == ["".join(postcode.split()).upper() for postcode in postcodes]
    keys = postcode_keys(found)
    for postcode, key in zip(found, keys, strict=True):
        sound = 5 <= len(postcode) <= 8 and postcode.isascii()
        assert key.tobytes().rstrip(b"\0").decode() == (postcode if sound else "")
