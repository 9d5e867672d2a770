# SPDX-License-Identifier: MIT
"""Price paid files read as published, against Python's csv module and against the prepared tables."""

import csv
import gzip
import io
import zipfile

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from weft_experiments.originals import lines
from weft_experiments.originals.postcodes import read_postcodes
from weft_experiments.originals.price_paid import find_price_files, paper_sales, read_paper_sales, read_price_paid

POSTCODES = pd.DataFrame(
    {"postcode": ["SW191AA", "W1A 1AA", "PL1 1AA"], "lat": [51.42, 51.52, 50.0], "lon": [-0.19, -0.14, -6.0]}
)


def sale(number, price=100000, date="2012-03-04 00:00", postcode="SW19 1AA", kind="F", new="N", tenure="L", status="A"):
    identifier = f"{{{number:08X}-0000-0000-0000-000000000000}}"
    address = ["1, THE COURT", "FLAT 2", "HIGH ST", "", "LONDON", "MERTON", "GREATER LONDON"]
    fields = [identifier, str(price), date, postcode, kind, new, tenure, *address, "A", status]
    text = io.StringIO()
    csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="").writerow(fields)
    return text.getvalue()


def write(path, records, end="\n"):
    path.write_bytes(end.join(records).encode() + end.encode())
    return path


@pytest.fixture(scope="module")
def raw(shared_data):
    return shared_data / "price_paid" / "raw"


@pytest.mark.parametrize("small_blocks", [False, True])
def test_real_complete_file_equals_a_slow_reading(raw, monkeypatch, small_blocks):
    if small_blocks:
        monkeypatch.setattr(lines, "READ_BYTES", 20000)
        monkeypatch.setattr(lines._line_blocks, "__defaults__", (50000,))
    with (raw / "pp-complete-sample.csv").open(newline="") as file:
        expected = [record for record in csv.reader(file) if record[3]]
    table, report = read_price_paid(raw / "pp-complete-sample.csv")
    assert_array_equal(table["price"], [int(record[1]) for record in expected])
    assert table["time"].dt.strftime("%Y-%m-%d").tolist() == [record[2][:10] for record in expected]
    assert table["postcode"].tolist() == [record[3].replace(" ", "") for record in expected]
    for column, place in {"property_type": 4, "new_build": 5, "tenure": 6, "category": 14}.items():
        assert table[column].tolist() == [record[place] for record in expected]
    assert report.left_out == {"sale without a postcode": 2}
    assert report.kept == len(expected) == 3998
    flats, _ = read_price_paid(
        raw / "pp-complete-sample.csv", property_types="F", after="1995-06-01", before="1995-06-30"
    )
    inside = [record for record in expected if record[4] == "F" and "1995-06-01" < record[2][:10] < "1995-06-30"]
    assert_array_equal(flats["price"], [int(record[1]) for record in inside])


def test_real_report_builder_file_with_its_lost_line_end(raw, shared_data):
    postcodes, _ = read_postcodes(raw / "codepo_sw19.csv")
    table, report = read_price_paid(raw / "ppd_data.csv", postcodes=postcodes)
    assert report.num_rejected == 0
    # The first record stands on the header's line.
    first = table.iloc[0]
    assert (first["price"], first["postcode"], first["property_type"]) == (440000, "SW191AA", "S")
    assert len(table) == len((raw / "ppd_data.csv").read_text().splitlines())
    prepared = pd.read_parquet(shared_data / "price_paid" / "flats_sw19_2010_2020.parquet")
    flats = table[table["property_type"] == "F"].sort_values(["time", "price", "postcode"], ignore_index=True)
    prepared = prepared.assign(postcode=prepared["postcode"].astype("str").str.replace(" ", ""))
    prepared = prepared.sort_values(["time", "price", "postcode"], ignore_index=True)
    assert len(flats) == len(prepared) == 6747
    assert_array_equal(flats["price"], prepared["price"])
    assert_array_equal(flats["time"], prepared["time"])
    assert_array_equal(flats["postcode"].astype("str"), prepared["postcode"])
    # Both come from the same grid metres; the prepared degrees are in double precision.
    assert_allclose(flats[["lat", "lon"]], prepared[["lat", "lon"]], rtol=0, atol=1e-7)


def test_report_builder_layout_with_line_end_and_quoted_names(tmp_path):
    names = (
        "unique_id,price_paid,deed_date,postcode,property_type,new_build,estate_type,saon,paon,street,locality,town,"
        "district,county,transaction_category,linked_data_uri"
    )
    record = (
        '"AB-1","95000","2013-06-07","SW19 1AA","F","Y","F","","1B","COWPER ROAD","","LONDON","M","G","B","http://x"'
    )
    quoted = ",".join(f'"{name}"' for name in names.split(","))
    for text in (
        f"{names}\n{record}\n",
        f"{names}\r\n{record}\r\n",
        f"{quoted}\n{record}",
        names + record,
        quoted + record,
    ):
        path = tmp_path / "ppd_data.csv"
        path.write_bytes(text.encode())
        table, report = read_price_paid(path)
        assert table.drop(columns="time").to_dict("records") == [
            {
                "price": 95000,
                "postcode": "SW191AA",
                "property_type": "F",
                "new_build": "Y",
                "tenure": "F",
                "category": "B",
            }
        ]
        assert report.num_rejected == 0
    path.write_text(f"{names}\n{record}\nshort,line\n")
    _, report = read_price_paid(path)
    assert [(example.line, example.reason) for example in report.examples] == [(3, "short line: fewer than 16 fields")]
    path.write_text(f"\n\r\n{names}\n{record}\nshort,line\n")
    table, report = read_price_paid(path)
    assert len(table) == 1
    assert [example.line for example in report.examples] == [5]
    path.write_text(f"{names}{record}\nshort,line\n")
    _, report = read_price_paid(path)
    assert [example.line for example in report.examples] == [2]
    path.write_text(f"{names}\n")
    table, report = read_price_paid(path)
    assert len(table) == report.kept == 0
    assert table["price"].dtype == np.int64


def test_bad_lines_are_counted_with_their_place(tmp_path):
    records = [
        sale(1),
        sale(2)[:40],
        sale(3, price="much"),
        sale(4, price=0),
        sale(5, date="2012-02-30 00:00"),
        sale(6, date="yesterday"),
        sale(7, kind="Q"),
        sale(8, new="?"),
        sale(9, tenure=""),
        sale(10, postcode="W1A 1AB"),
        sale(11, postcode=""),
        sale(12, postcode="NO POSTCODE AT ALL"),
        sale(13, status="Z"),
        sale(14).replace(sale(14)[:40], '""'),
        sale(15) + ',"more"',
        sale(16)[:-1],
        sale(17, postcode="w1a\u00a01aa", price="250000"),
        sale(18, kind="D", postcode="ZZ1 1ZZ"),
        sale(20, price="99999999999999999999"),
        sale(21, date="0012-03-04 00:00"),
    ]
    path = write(tmp_path / "pp-2012.csv", records, end="\r\n")
    with path.open("ab") as file:
        file.write(sale(19).replace("HIGH ST", "CAF? ST").encode().replace(b"?", b"\xe9"))
    table, report = read_price_paid(path, postcodes=POSTCODES, property_types=["F"])
    assert_array_equal(table["price"], [100000, 250000])
    assert_allclose(table["lat"], [51.42, 51.52])
    assert {(example.line, example.reason) for example in report.examples} == {
        (2, "short line: fewer than 16 fields")
        if sale(2)[:40].count('"') % 2 == 0
        else (2, "quotation mark without its partner"),
        (3, "price that is not a positive whole number"),
        (4, "price that is not a positive whole number"),
        (5, "impossible date"),
        (6, "impossible date"),
        (7, "unknown property type, not one of D, S, T, F, O"),
        (8, "unknown new build, not one of Y, N"),
        (9, "unknown tenure, not one of F, L, U"),
        (10, "unknown postcode"),
        (12, "not a postcode"),
        (13, "unknown record status, not one of A, C, D"),
        (14, "no transaction identifier"),
        (15, "long line: more than 16 fields"),
        (16, "quotation mark without its partner"),
        (19, "price of more digits than a price has"),
        (20, "impossible date"),
        (21, "not UTF-8 text"),
    }
    assert report.num_rejected == 17
    assert report.left_out == {"sale without a postcode": 1}
    assert "pp-2012.csv line 10" in str(report)


def test_changes_and_deletions_of_a_monthly_file_are_applied(tmp_path):
    write(tmp_path / "pp-complete.csv", [sale(number, price=1000 * number) for number in range(1, 8)])
    write(
        tmp_path / "pp-monthly-update-new-version.csv",
        [
            sale(8, price=8000),
            sale(2, price=2222, status="C"),
            sale(3, status="D", price="", date="", postcode=""),
            sale(4, kind="D", status="C"),
            sale(5, postcode="ZZ1 1ZZ", status="C"),
            sale(6, price="broken", status="C"),
            sale(99, status="D"),
        ],
    )
    # The builder's records have no braces; the same sale in both files is one sale.
    write(tmp_path / "pp-2012.csv", [sale(7, price=7000).replace("{", "").replace("}", "").lower().upper()])
    table, report = read_price_paid(tmp_path, postcodes=POSTCODES, property_types="F")
    assert_array_equal(table["price"], [1000, 6000, 7000, 8000, 2222])
    assert report.left_out == {
        "replaced by a later record of the same transaction": 5,
        "deletion of a sale that was not among those kept": 1,
    }
    assert set(report.rejected) == {"unknown postcode", "price that is not a positive whole number"}
    names = [path.name for path in find_price_files(tmp_path).files]
    assert names == ["pp-complete.csv", "pp-2012.csv", "pp-monthly-update-new-version.csv"]
    without, _ = read_price_paid(tmp_path / "pp-complete.csv")
    assert len(without) == 7


def test_packed_and_cut_off_files(tmp_path):
    rng = np.random.default_rng(1)
    records = [sale(int(number), price=int(number) % 100000 + 1) for number in rng.permutation(5000)]
    text = ("\n".join(records) + "\n").encode()
    with zipfile.ZipFile(tmp_path / "pp.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("pp-complete.csv", text)
    zipped, _ = read_price_paid(tmp_path / "pp.zip")
    assert len(zipped) == 5000
    packed = gzip.compress(text)
    (tmp_path / "pp.csv.gz").write_bytes(packed[: len(packed) * 2 // 3])
    cut, report = read_price_paid(tmp_path / "pp.csv.gz")
    assert 1000 < len(cut) < 5000
    pd.testing.assert_series_equal(cut["price"], zipped["price"].iloc[: len(cut)])
    assert report.num_rejected == 1


def test_damaged_and_unknown_files_beside_the_good_ones_are_reported(tmp_path):
    write(tmp_path / "pp-2013.csv", [sale(1), sale(2)])
    POSTCODES.to_parquet(tmp_path / "postcodes.parquet")
    short = "\n".join(sale(number)[: sale(number).index('","F"') + 1] for number in range(30)).encode()
    unknown = {"a.csv": b"", "b.csv": "\n".join([sale(1)] * 3).encode("utf-16"), "c.csv": short, "d.csv.gz": b""}
    whole = gzip.compress("\n".join(sale(number) for number in range(200)).encode())
    damaged = {"e.csv.gz": b"not gzip", "f.csv.gz": whole[:40], "g.zip": b"PK\x03\x04junk", "h.parquet": b"junk"}
    for name, content in {**unknown, **damaged}.items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / "Code-Point_Open_Column_Headers.csv").write_text("PC,PQ,EA,NO\n")
    table, report = read_paper_sales(tmp_path)
    assert len(table) == 2
    assert report.left_out == {f"file of no known layout: {name}": 1 for name in unknown}
    assert report.rejected == {"damaged or cut off file; the rest of it is not read": 4}
    _, report = read_price_paid(tmp_path)
    assert report.left_out["no sales: a.csv"] == 1
    assert report.num_rejected == 3
    (tmp_path / "pp-2013.csv").unlink()
    for read in (read_paper_sales, read_price_paid):
        with pytest.raises(ValueError, match=r"no price paid file.*; damaged: .*e\.csv\.gz, .*f\.csv\.gz, .*g\.zip"):
            read(tmp_path)


def test_capitals_in_the_names_of_files_are_no_hindrance(tmp_path):
    write(tmp_path / "PP-2013.CSV", [sale(1), sale(2)])
    POSTCODES.to_parquet(tmp_path / "POSTCODES.PARQUET")
    table, report = read_paper_sales(tmp_path)
    assert len(table) == 2
    assert set(report.sources) == {"PP-2013.CSV", "POSTCODES.PARQUET"}


@pytest.mark.parametrize("rows", ["", "1,SW19 1AA,999,0\n"])
def test_a_postcode_table_without_a_postcode_is_said_to_be_one(tmp_path, rows):
    write(tmp_path / "pp-2013.csv", [sale(1)])
    (tmp_path / "ukpostcodes.csv").write_text(f"id,postcode,latitude,longitude\n{rows}")
    with pytest.raises(ValueError, match="table of postcodes without a postcode that can be used"):
        read_paper_sales(tmp_path)
    with pytest.raises(ValueError, match="postcodes is a table without a row"):
        read_price_paid(tmp_path, postcodes=POSTCODES.iloc[:0])


def test_files_of_no_known_layout(tmp_path):
    path = tmp_path / "other.csv"
    path.write_text("a,b,c\n1,2,3\n")
    with pytest.raises(ValueError, match="holds no price paid file"):
        read_price_paid(path)
    path.write_bytes(b"\0\1\r,\r\n\n\xff,\x00" * 100)
    with pytest.raises(ValueError, match="holds no price paid file"):
        read_price_paid(path)
    with pytest.raises(FileNotFoundError, match="no file or folder"):
        read_price_paid(tmp_path / "absent")
    with pytest.raises(ValueError, match="property_types must be among D, S, T, F, O"):
        read_price_paid(path, property_types=["X"])
    with pytest.raises(ValueError, match="holds no table of postcodes"):
        read_paper_sales(tmp_path)


def test_paper_selection_is_strict_where_the_paper_is(tmp_path):
    records = [
        sale(1, price=10, date="2015-01-02 00:00"),
        sale(2, price=11, date="2010-01-01 00:00"),
        sale(3, price=12, date="2010-01-02 00:00", postcode="PL1 1AA"),
        sale(4, price=13, date="2020-01-01 00:00"),
        sale(5, price=14, date="2019-12-31 00:00"),
        sale(6, price=15, date="2015-01-02 00:00", kind="S"),
        sale(7, price=16, date="2010-01-02 00:00"),
        sale(8, price=17, date="2010-01-02 00:00", postcode="N1 1AA"),
        sale(9, price=18, date="2010-01-02 00:00", postcode="E1 1AA"),
        sale(10, price=19, date="2015-01-02 00:00", postcode="SW191AA"),
    ]
    write(tmp_path / "pp-complete.csv", records)
    places = pd.concat(
        [POSTCODES, pd.DataFrame({"postcode": ["N11AA", "E11AA"], "lat": [56.0, 51.0], "lon": [0.0, 2.0]})]
    )
    places.to_parquet(tmp_path / "postcodes.parquet")
    table, report = read_paper_sales(tmp_path)
    assert_array_equal(table["price"], [12, 16, 10, 19, 14])
    assert_allclose(table["value"], np.log([12, 16, 10, 19, 14]))
    assert report.kept == 5
    everything, _ = read_price_paid(tmp_path, postcodes=places)
    pd.testing.assert_frame_equal(
        paper_sales(everything)[["time", "price", "value"]], table[["time", "price", "value"]]
    )


def test_real_paper_selection(raw, shared_data):
    table, _ = read_paper_sales(raw)
    prepared = pd.read_parquet(shared_data / "price_paid" / "flats_sw19_2010_2020.parquet")
    inside = prepared[(prepared["time"] > "2010-01-01") & (prepared["time"] < "2020-01-01")]
    assert len(table) == len(inside)
    assert_allclose(np.sort(table["value"]), np.sort(inside["value"]), rtol=1e-6)
