# SPDX-License-Identifier: MIT
import zipfile

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from weft_experiments.originals.boxes import Box
from weft_experiments.originals.nasadem import elevation_at, read_elevation_map, read_tile, tile_name

SMALL = 1201


def heights(lat, lon):
    """A tilted plane in whole metres, steeper to the east than to the north, below zero in the south-west."""
    return np.rint(600 * (lat - 47.5) + 1200 * (lon + 124)).astype(np.int64)


def write_tile(folder, south, west, side=SMALL, void=None, packed=False):
    lat = south + np.arange(side)[::-1] / (side - 1)
    lon = west + np.arange(side) / (side - 1)
    metres = heights(lat[:, None], lon[None, :])
    if void is not None:
        metres[void] = -32768
    content = metres.astype(">i2").tobytes()
    name = tile_name(south, west)
    if packed:
        with zipfile.ZipFile(folder / f"NASADEM_HGT_{name}.zip", "w") as archive:
            archive.writestr(f"{name}.num", b"count")
            archive.writestr(f"{name}.hgt", content)
        return folder / f"NASADEM_HGT_{name}.zip"
    (folder / f"{name.upper()}.hgt").write_bytes(content)
    return folder / f"{name.upper()}.hgt"


@pytest.mark.parametrize(("south", "west", "name"), [(47, -125, "n47w125"), (-3, 7, "s03e007"), (0, 0, "n00e000")])
def test_tiles_are_named_after_their_south_west_corner(tmp_path, south, west, name):
    assert tile_name(south, west) == name
    tile = read_tile(write_tile(tmp_path, south, west), every=100)
    assert (tile.south, tile.west) == (south, west)


@pytest.mark.parametrize("packed", [False, True])
def test_rows_run_north_and_columns_east_and_voids_are_nan(tmp_path, packed):
    path = write_tile(tmp_path, 47, -124, void=(0, 3), packed=packed)
    tile = read_tile(path)
    assert tile.elevation.shape == (SMALL, SMALL)
    assert np.isnan(tile.elevation[SMALL - 1, 3])
    assert np.isnan(tile.elevation).sum() == 1
    assert tile.elevation[0, 0] == heights(47.0, -124.0)
    assert tile.elevation[SMALL - 1, 0] == heights(48.0, -124.0)
    assert tile.elevation[0, SMALL - 1] == heights(47.0, -123.0)


def test_one_arc_second_tile_keeps_every_eighth_sample_with_its_borders(tmp_path):
    tile = read_tile(write_tile(tmp_path, 47, -124, side=3601), every=8)
    grid = np.arange(451) / 450
    assert_array_equal(tile.elevation, heights(47 + grid[:, None], -124 + grid[None, :]))


def test_mosaic_is_one_map_cut_to_the_box(tmp_path):
    for south, west, packed in [(47, -125, True), (47, -124, False), (48, -124, True)]:
        write_tile(tmp_path, south, west, packed=packed, void=(SMALL - 1, SMALL - 1) if west == -125 else None)
    box = Box(south=47.25, north=48.75, west=-124.5, east=-123.0)
    found = read_elevation_map(tmp_path, box, every=8)
    assert found.absent_tiles == ("n48w125",)
    assert_allclose(found.latitudes[[0, -1]], [47.25 + 1 / 300, 48.75 - 1 / 300], atol=1 / 300 + 1e-12)
    lat, lon = np.meshgrid(found.latitudes, found.longitudes, indexing="ij")
    absent = (lat > 48) & (lon < -124)
    assert_array_equal(np.isnan(found.elevation), absent)
    assert_allclose(found.elevation[~absent], heights(lat[~absent], lon[~absent]))
    at_sea = read_elevation_map(tmp_path, box, every=8, absent_elevation=0.0)
    assert_array_equal(at_sea.elevation[absent], 0)


def test_nearest_sample(tmp_path):
    write_tile(tmp_path, 47, -124)
    found = read_elevation_map(tmp_path, Box(south=47.0, north=48.0, west=-124.0, east=-123.0), every=8)
    step = 1 / 150
    rng = np.random.default_rng(5)
    lat, lon = rng.uniform(47, 48, (4, 50)), rng.uniform(-124, -123, (4, 50))
    nearest = heights(47 + np.rint((lat - 47) / step) * step, -124 + np.rint((lon + 124) / step) * step)
    assert_allclose(elevation_at(found, lat, lon), nearest)
    outside = elevation_at(found, np.array([46.9, 47.5, np.nan, 47.5]), np.array([-123.5, -122.9, -123.5, -123.5]))
    assert_array_equal(np.isnan(outside), [True, True, True, False])


def test_files_that_are_not_tiles(tmp_path):
    path = tmp_path / "n47w124.hgt"
    path.write_bytes(b"\0" * 1000)
    with pytest.raises(ValueError, match=r"is not a height tile: it holds 1,000 bytes, not 25,934,402 or 2,884,802"):
        read_tile(path)
    (tmp_path / "place.hgt").write_bytes(b"")
    with pytest.raises(ValueError, match="not named after its south-west corner"):
        read_tile(tmp_path / "place.hgt")
    (tmp_path / "n47w124.zip").write_bytes(b"rubbish")
    with pytest.raises(ValueError, match="damaged zip archive"):
        read_tile(tmp_path / "n47w124.zip")
    packed = tmp_path / "n49w124.zip"
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("n49w124.hgt", bytes(range(256)) * 100)
    whole = packed.read_bytes()
    for place, value in ((45, 255), (6, 1), (8, 9)):
        data = bytearray(whole)
        data[place] = value
        if place < 10:
            # The mark of encryption or of the kind of packing stands in a second header too.
            data[data.find(b"PK\x01\x02") + place + 2] = value
        packed.write_bytes(data)
        with pytest.raises(ValueError, match=r"n49w124\.zip is a damaged zip archive"):
            read_tile(packed)
    with zipfile.ZipFile(tmp_path / "n48w124.zip", "w") as archive:
        archive.writestr("readme.txt", "nothing")
    with pytest.raises(ValueError, match=r"holds 0 \.hgt files"):
        read_tile(tmp_path / "n48w124.zip")
    with pytest.raises(ValueError, match=r"every must divide 1200"):
        read_tile(write_tile(tmp_path, 10, 10), every=7)
    with pytest.raises(ValueError, match="holds none of the height tiles n30e030"):
        read_elevation_map(tmp_path, Box(south=30.0, north=31.0, west=30.0, east=31.0))
    with pytest.raises(ValueError, match="narrower than two samples"):
        read_elevation_map(tmp_path, Box(south=10.1, north=10.101, west=10.0, east=11.0))
    write_tile(tmp_path, 10, 11, side=3601)
    with pytest.raises(ValueError, match="one resolution"):
        read_elevation_map(tmp_path, Box(south=10.0, north=11.0, west=10.0, east=12.0))
