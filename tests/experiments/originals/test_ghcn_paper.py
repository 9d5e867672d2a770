# SPDX-License-Identifier: MIT
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from weft_experiments.originals.boxes import Box
from weft_experiments.originals.ghcn_paper import (
    PAPER_BOXES,
    paper_stations,
    paper_temperatures,
    read_paper_temperatures,
)

INVENTORY = pd.DataFrame(
    [
        ("OLDANDGOING", 48.0, -123.0, "TMAX", 1931, 2024),
        ("OLDANDENDED", 48.0, -123.0, "TMAX", 1931, 1979),
        ("NEWANDGOING", 48.0, -123.0, "TMAX", 2005, 2024),
        ("AFTERWARDS1", 48.0, -123.0, "TMAX", 2021, 2024),
        ("ENDED000080", 48.0, -123.0, "TMAX", 1900, 1980),
        ("RAINONLY001", 48.0, -123.0, "PRCP", 1990, 2000),
        ("FARWEST0001", 48.0, -126.0, "TMAX", 1990, 2000),
        ("ONTHEBORDER", 49.0, -123.0, "TMAX", 1990, 2000),
        ("ONTHEWEST01", 48.0, -125.0, "TMAX", 1990, 2000),
    ],
    columns=["station", "lat", "lon", "element", "first_year", "last_year"],
)


def test_the_years_rule_keeps_stations_that_go_on_after_2020():
    # A last year of 2024 is outside 1980..2020, so unclipped the rule would lose the station that began in 1931.
    assert paper_stations(INVENTORY) == ["OLDANDGOING", "NEWANDGOING", "ENDED000080"]


def test_the_text_and_the_scripts_have_their_own_western_border():
    assert paper_stations(INVENTORY, "text") == [
        "OLDANDGOING",
        "NEWANDGOING",
        "ENDED000080",
        "FARWEST0001",
        "ONTHEWEST01",
    ]
    assert PAPER_BOXES["text"].west == -127
    assert paper_stations(INVENTORY, Box(south=48.5, north=49.5, west=-124.0, east=-122.0)) == ["ONTHEBORDER"]
    with pytest.raises(ValueError, match="box must be one of scripts, text or a Box"):
        paper_stations(INVENTORY, "paper")
    with pytest.raises(ValueError, match="south < north"):
        Box(south=2.0, north=1.0, west=0.0, east=1.0)


def test_window_and_inputs():
    stations = pd.DataFrame(
        {
            "station": ["B", "A", "OLD", "NOHEIGHT", "NEVER"],
            "lat": [47.1, 48.2, 48.3, 48.4, 48.5],
            "lon": [-122.1, -123.2, -123.3, -123.4, -123.5],
            "elevation": [150.3, 12.0, 7.0, np.nan, 9.0],
        }
    )
    days = [
        "1979-12-31",
        "1990-06-01",
        "1999-12-31",
        "2000-01-01",
        "2000-01-01",
        "2019-12-31",
        "2020-01-01",
        "2001-01-01",
    ]
    values = pd.DataFrame(
        {
            "time": pd.to_datetime(days),
            "station": pd.Categorical(["NEVER", "OLD", "A", "A", "B", "A", "NEVER", "NOHEIGHT"]),
            "value": np.arange(8.0),
        }
    )
    selection, report = paper_temperatures(values, stations)
    assert selection.num_days == 7305
    assert selection.stations["station"].tolist() == ["B", "A", "OLD"]
    assert selection.table["station"].tolist() == ["B", "A", "A"]
    assert_array_equal(selection.table["value"], [4.0, 3.0, 5.0])
    assert_array_equal(selection.table["day"], [0, 0, 7304])
    assert_array_equal(selection.table["lat"], np.array([47.1, 48.2, 48.2], dtype=np.float32).astype(float))
    assert_array_equal(selection.table["height"], np.array([150.3, 12.0, 12.0], dtype=np.float32).astype(float) / 100)
    assert report.left_out == {"station without a value from 1980 to 2019": 1, "station without an elevation": 1}


def test_real_folder_without_an_inventory(shared_data):
    raw = shared_data / "ghcn_pnw" / "raw"
    selection, report = read_paper_temperatures(raw)
    assert any("no ghcnd-inventory.txt" in note for note in report.notes)
    assert set(selection.table["station"]) <= set(selection.stations["station"])
    assert selection.table["lon"].between(-125, -122).all()
    assert selection.table["lat"].between(47, 49).all()
    assert selection.table["time"].min() == pd.Timestamp("2000-01-01")
    assert selection.table["time"].max() == pd.Timestamp("2019-12-31")
    honoured, _ = read_paper_temperatures(raw, keep_flagged=False)
    # Flags are not looked at in the paper, so flagged values within the bounds are there and only there.
    assert len(selection.table) > len(honoured.table) > 40000
    prepared = pd.read_parquet(shared_data / "ghcn_pnw" / "paper_box_tmax.parquet")
    both = honoured.table.merge(prepared, on=["time", "station"], suffixes=("", "_prepared"))
    assert len(both) == len(honoured.table)
    # The prepared table is in single precision.
    assert_allclose(both["value"], both["value_prepared"], rtol=1e-6)


def test_folder_with_an_inventory(shared_data, tmp_path):
    raw = shared_data / "ghcn_pnw" / "raw"
    for name in ("USC00457507", "USC00450729"):
        (tmp_path / f"{name}.dly").write_bytes((raw / "dly" / f"{name}.dly").read_bytes())
    (tmp_path / "ghcnd-stations.txt").write_bytes((raw / "ghcnd-stations.txt").read_bytes())
    (tmp_path / "ghcnd-inventory.txt").write_text(
        "USC00457507  48.4961 -122.2350 TMAX 1896 2024\n"
        "USC00450729  48.9947 -122.7619 TMAX 1893 1970\n"
        "USC00000000  48.0000 -123.0000 TMAX 1990 2024\n"
    )
    selection, report = read_paper_temperatures(tmp_path)
    assert selection.stations["station"].tolist() == ["USC00457507"]
    assert set(selection.table["station"]) == {"USC00457507"}
    assert report.left_out["station of the inventory that is not in the station list"] == 1
    (tmp_path / "ghcnd-stations.txt").rename(tmp_path / "elsewhere.txt")
    with pytest.raises(ValueError, match=r"has no ghcnd-stations\.txt"):
        read_paper_temperatures(tmp_path)
