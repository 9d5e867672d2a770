# SPDX-License-Identifier: MIT
import csv
import gzip
import io
import tarfile
import zipfile
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from weft_experiments.originals import lines
from weft_experiments.originals.lines import Block, blocks, fixed_width, numbers_of, openings, parse_delimited

TEXT = b"first,1\r\nsecond,2\n\nfourth,4"


def tar_of(path, files, mode="w:gz"):
    with tarfile.open(path, mode) as archive:
        for name, data in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return path


def texts(found):
    return [found.data[start:end] for start, end in zip(found.starts, found.ends, strict=True)]


@pytest.mark.parametrize("kind", ["plain", "gz", "tar.gz", "tar", "zip", "tar of gz"])
def test_lines_are_the_same_however_packed(tmp_path, kind):
    path = tmp_path / {"plain": "a.csv", "gz": "a.csv.gz", "zip": "a.zip", "tar": "a.tar"}.get(kind, "a.tar.gz")
    if kind == "plain":
        path.write_bytes(b"\xef\xbb\xbf" + TEXT)
    elif kind == "gz":
        path.write_bytes(gzip.compress(TEXT))
    elif kind == "zip":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("in/a.csv", TEXT)
    elif kind == "tar of gz":
        tar_of(path, {"in/a.csv.gz": gzip.compress(TEXT)})
    else:
        tar_of(path, {"in/a.csv": TEXT}, mode="w" if kind == "tar" else "w:gz")
    (block,) = blocks(path)
    assert block.source.endswith("a.csv")
    assert texts(block) == [b"first,1", b"second,2", b"", b"fourth,4"]
    assert_array_equal(block.numbers, [1, 2, 3, 4])


def test_a_carriage_return_at_the_end_does_not_reach_the_first_line():
    assert texts(Block("a", 1, b"\nabc\r")) == [b"", b"abc"]


def test_only_wanted_members_are_read(tmp_path):
    path = tar_of(tmp_path / "a.tar.gz", {"x/one.dly": b"1\n", "x/two.dly": b"2\n", "x/three.dly": b"3\n"})
    assert [block.data for block in blocks(path, lambda name: "two" not in name)] == [b"1\n", b"3\n"]


def test_blocks_break_at_line_ends_and_go_on_counting(tmp_path, monkeypatch):
    monkeypatch.setattr(lines, "READ_BYTES", 7)
    path = tmp_path / "a.csv"
    wanted = [f"line {number}" for number in range(40)]
    path.write_text("\n".join(wanted))
    with path.open("rb") as stream:
        pieces = list(lines._line_blocks("a.csv", stream, 50))
    assert len(pieces) > 3
    assert [text.decode() for piece in pieces for text in texts(piece)] == wanted
    assert_array_equal(np.concatenate([piece.numbers for piece in pieces]), np.arange(1, 41))


def test_cut_off_gzip_gives_its_whole_lines_and_a_report(tmp_path):
    rows = [f"{number},{number**5 % 9973}" for number in range(20000)]
    packed = gzip.compress("\n".join(rows).encode())
    path = tmp_path / "a.csv.gz"
    path.write_bytes(packed[: len(packed) // 2])
    found = list(blocks(path))
    got = [text.decode() for block in found for text in texts(block)]
    assert 1000 < len(got) < 20000
    assert got == rows[: len(got)]
    assert found[-1].report.num_rejected == 1
    assert f"a.csv after line {len(got)}" in found[-1].report.examples[0].text


@pytest.mark.parametrize("name", ["a.csv.gz", "a.tar.gz", "a.zip"])
def test_rubbish_in_place_of_an_archive_is_reported(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(b"this is not an archive at all")
    (found,) = blocks(path)
    assert found.report.num_rejected == 1
    (opening,) = openings(path)
    assert opening.report == found.report


def test_cut_off_tar_gives_the_members_before(tmp_path):
    rng = np.random.default_rng(0)
    files = {f"{number}.dly": rng.bytes(30000).hex().encode() + b"\n" for number in range(6)}
    path = tar_of(tmp_path / "a.tar.gz", files)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    found = list(blocks(path))
    assert found[0].data == files["0.dly"]
    assert sum(block.report.num_rejected for block in found) == 1


def spoilt_tar(data, first, how):
    """An archive of two members, the second of which begins at `first`."""
    if how == "header":
        return data[: first + 20] + b"XXXX" + data[first + 24 :]
    if how == "zeroed header":
        return data[:first] + bytes(512) + data[first + 512 :]
    return data[: first + {"boundary": 0, "within header": 200, "within data": 900}[how]]


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("how", ["boundary", "within header", "within data", "header", "zeroed header"])
def test_a_tar_that_ends_before_its_end_is_reported(tmp_path, how, packed):
    files = {"0.dly": b"one\n" * 300, "1.dly": b"two\n" * 3000}
    path = tar_of(tmp_path / "a.tar", files, mode="w")
    data = spoilt_tar(path.read_bytes(), 512 + 3 * 512, how)
    path.write_bytes(gzip.compress(data) if packed else data)
    found = list(blocks(path))
    assert found[0].data == files["0.dly"]
    assert [block.report.num_rejected for block in found].count(1) == 1


def test_members_before_the_cut_of_a_gzipped_tar_are_whole(tmp_path):
    files = {"0.dly": b"one\n" * 3000, "1.dly": b"two\n" * 3000}
    data = tar_of(tmp_path / "a.tar", files, mode="w").read_bytes()
    packer = zlib.compressobj(wbits=31)
    # All of the first member, and of the second a part of the header.
    (tmp_path / "a.tar.gz").write_bytes(packer.compress(data[: 25 * 512 + 200]) + packer.flush(zlib.Z_SYNC_FLUSH))
    found = list(blocks(tmp_path / "a.tar.gz"))
    assert found[0].data == files["0.dly"]
    assert found[-1].report.num_rejected == 1


def test_a_gzipped_tar_without_its_last_bytes_is_reported(tmp_path):
    path = tar_of(tmp_path / "a.tar.gz", {"0.dly": b"one\n" * 300})
    path.write_bytes(path.read_bytes()[:-6])
    found = list(blocks(path))
    assert found[0].data == b"one\n" * 300
    assert found[-1].report.num_rejected == 1


@pytest.mark.parametrize(("place", "value"), [((6, 8), 1), ((8, 10), 9)])
def test_a_zip_that_cannot_be_unpacked_is_reported(tmp_path, place, value):
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.csv", TEXT)
    data = bytearray(path.read_bytes())
    # The mark of encryption, and of a packing that Python does not know, in both of the archive's headers.
    data[place[0]] = data[data.find(b"PK\x01\x02") + place[1]] = value
    path.write_bytes(data)
    (found,) = blocks(path)
    assert "a.csv cannot be unpacked" in found.report.examples[0].text


def test_a_binary_file_is_refused_in_one_sentence(tmp_path, monkeypatch):
    monkeypatch.setattr(lines, "LONGEST_LINE", 1000)
    path = tmp_path / "a.csv"
    path.write_bytes(b"x" * 2000)
    with path.open("rb") as stream, pytest.raises(ValueError, match="not a text file"):
        list(lines._line_blocks("a.csv", stream, 500))


def test_fixed_width_fills_short_lines():
    block = Block("a", 1, b"abcdef\nxy\n\nlonger line")
    found = fixed_width(block, np.array([0, 1, 3]), 4)
    assert [bytes(row) for row in found] == [b"abcd", b"xy  ", b"long"]


def test_bad_lines_are_refused_with_their_numbers():
    data = b"\n".join(
        [
            b"a,b,c",
            b'1,"x, y",3',
            b"short,2",
            b"",
            b"4,too,long,line",
            b'5,"open,6',
            b"7,caf\xe9,8",
            "9,café,10".encode(),
            b"11,nul\0,12",
        ]
    )
    rows, numbers, report = parse_delimited(
        Block("a.csv", 1, data), num_fields=3, columns={0: "first", 1: "second"}, first_row=1
    )
    assert_array_equal(numbers, [2, 8])
    assert rows.to_dict("list") == {"first": ["1", "9"], "second": ["x, y", "café"]}
    assert {example.line: example.reason for example in report.examples} == {
        3: "short line: fewer than 3 fields",
        5: "long line: more than 3 fields",
        6: "quotation mark without its partner",
        7: "not UTF-8 text",
        9: "not UTF-8 text",
    }


def test_quotation_marks_inside_fields_do_not_stop_the_reading():
    # Counted by pairs the second line has two fields; the parser of csv sees an unquoted 3" and a field more.
    data = b'a,b\n3" x, 4" y,c\nd,e\nf,g\rh\n'
    rows, numbers, report = parse_delimited(Block("a.csv", 1, data), num_fields=2, columns={0: "first", 1: "second"})
    assert rows["first"].tolist()[0] == "a"
    assert 3 in numbers
    assert len(numbers) + report.num_rejected == 4


@pytest.mark.parametrize("place", [0, 1])
def test_a_quotation_within_a_field_shifts_no_column(place):
    # By pairs of marks the line has four fields, as it should; by the rules of csv five.
    lines = [b"1,a,51.4,-0.1", b"2,c,51.5,-0.2"]
    lines.insert(place, b'3,b"x,51.5"z,52.4,-0.3')
    block = Block("a.csv", 1, b"\n".join(lines))
    rows, numbers, report = parse_delimited(block, num_fields=4, columns={0: "id", 2: "lat"})
    assert rows.to_dict("list") == {"id": ["1", "2"], "lat": ["51.4", "51.5"]}
    assert place + 1 not in numbers
    assert report.rejected == {"quotation mark or line end inside a field": 1}
    assert report.examples[0].text.startswith('3,b"x')


fields = st.text(alphabet='ab ,"é0', max_size=5)


@settings(deadline=None)
@given(st.lists(st.tuples(fields, fields, fields), min_size=1, max_size=12))
def test_what_csv_writes_is_read_back(records):
    text = io.StringIO()
    csv.writer(text, quoting=csv.QUOTE_ALL).writerows(records)
    rows, numbers, report = parse_delimited(
        Block("a.csv", 1, text.getvalue().encode()), num_fields=3, columns={0: "0", 1: "1", 2: "2"}
    )
    assert report.num_rejected == 0
    assert_array_equal(numbers, np.arange(1, len(records) + 1))
    assert list(rows.itertuples(index=False, name=None)) == records


def test_only_finite_numbers_are_numbers():
    import pandas as pd

    found = numbers_of(pd.Series([" 12 ", "-3.5", "", "x", "inf", "nan", "1e3"], dtype="str"))
    assert_array_equal(found, [12, -3.5, np.nan, np.nan, np.nan, np.nan, 1000])
