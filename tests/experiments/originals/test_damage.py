# SPDX-License-Identifier: MIT
"""Whatever bytes of a file are spoilt, it is read to its end, and every line is kept, refused or left out."""

import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from weft_experiments.originals.ghcn import read_ghcn, read_inventory, read_stations
from weft_experiments.originals.postcodes import read_postcodes
from weft_experiments.originals.price_paid import read_price_paid

STATIONS = pd.DataFrame({"station": ["USW00024233"], "lon": [-122.3], "lat": [47.4], "elevation": [112.8]})


def dly():
    cells = "".join(f"{value:5d}  W" for value in range(-150, 160, 10))
    return [f"USW00024233{year}01TMAX{cells}" for year in range(2001, 2013)]


def by_year():
    return [f"USW00024233,200101{day:02d},TMAX,{day * 7},,,W,2400" for day in range(1, 29)]


def by_station():
    header = '"STATION","DATE","LATITUDE","LONGITUDE","ELEVATION","NAME","TMAX","TMAX_ATTRIBUTES"'
    return [header] + [
        f'"USW00024233","2001-01-{day:02d}","47.4","-122.3","112.8","SEATTLE, WA","{day * 7:5d}",",,W"'
        for day in range(1, 29)
    ]


def sales():
    rest = '"2012-03-04 00:00","SW19 1AA","F","N","L","1, A","","B","","C","D","E","A","A"'
    return [f'"{{{number:08X}-0-0}}","{1000 * number + 1}",{rest}' for number in range(20)]


def postcodes():
    return ["id,postcode,latitude,longitude"] + [f"{number},SW19 {number}AA,51.{number},-0.1" for number in range(10)]


def stations():
    return [f"USW0002423{number}  47.4444 -122.3138  112.8 WA SEATTLE" for number in range(10)]


def inventory():
    return [f"USW0002423{number}  47.4444 -122.3138 TMAX 1948 2024" for number in range(10)]


READERS = {
    "a.dly": (dly, lambda path: read_ghcn(path, stations=STATIONS)),
    "2001.csv": (by_year, lambda path: read_ghcn(path, stations=STATIONS)),
    "USW00024233.csv": (by_station, lambda path: read_ghcn(path, stations=STATIONS)),
    "pp-complete.csv": (sales, read_price_paid),
    "ukpostcodes.csv": (postcodes, read_postcodes),
    "ghcnd-stations.txt": (stations, read_stations),
    "ghcnd-inventory.txt": (inventory, read_inventory),
}
SPOILS = st.lists(
    st.tuples(st.floats(0, 1, exclude_max=True), st.sampled_from(["set", "insert", "cut"]), st.integers(0, 255)),
    max_size=6,
)


def spoilt(text, spoils, first):
    data = bytearray(text)
    for where, kind, byte in spoils:
        place = first + int(where * (len(data) - first))
        if kind == "set":
            data[place : place + 1] = bytes([byte])
        elif kind == "insert":
            data[place:place] = bytes([byte, byte])
        else:
            del data[place : place + byte]
    return bytes(data)


@pytest.mark.parametrize("name", READERS)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25, deadline=None)
@given(spoils=SPOILS)
def test_spoilt_files_are_read_to_their_end(tmp_path, name, spoils):
    lines_of, read = READERS[name]
    lines = lines_of()
    # The first two lines stay, so that the file's layout can be told.
    text = spoilt("\n".join(lines).encode(), spoils, first=len("\n".join(lines[:2])) + 1)
    path = tmp_path / name
    path.write_bytes(text)
    table, report = read(path)
    assert len(table) == report.kept
    if name == "pp-complete.csv":
        num_lines = sum(1 for line in text.split(b"\n") if line.removesuffix(b"\r"))
        assert report.kept + report.num_rejected + report.num_left_out == num_lines
    if not spoils:
        assert report.num_rejected == 0
