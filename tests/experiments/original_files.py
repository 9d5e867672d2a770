# SPDX-License-Identifier: MIT
"""Small folders of made-up values in the publishers' own layouts, so that the experiments run where no real data are."""

import calendar
import datetime
import pathlib

import numpy as np

STATIONS = 9


def write_noaa(folder: pathlib.Path, seed: int = 0) -> None:
    """ghcnd-stations.txt, ghcnd-inventory.txt and a .dly file a station, September to December 2019, some values missing."""
    rng = np.random.default_rng(seed)
    folder.mkdir(parents=True)
    stations, inventory = [], []
    for number in range(STATIONS):
        name = f"USC004500{number:02d}"
        lat, lon, elevation = 47.2 + 0.2 * number, -122.1 - 0.3 * number, 5.0 + 90.0 * (number % 4)
        stations.append(f"{name} {lat:8.4f} {lon:9.4f} {elevation:6.1f}    {f'STATION {number}':<30}             \n")
        inventory.append(f"{name} {lat:8.4f} {lon:9.4f} TMAX 1990 2019\n")
        lines = []
        for month in (9, 10, 11, 12):
            values = []
            for day in range(1, 32):
                there = day <= calendar.monthrange(2019, month)[1] and rng.random() > 0.1
                warmth = 200 - 20 * (month - 9) - elevation / 10 + 30 * np.sin(day / 5 + number / 3) + 10 * rng.normal()
                values.append(f"{round(warmth) if there else -9999:5d}   ")
            lines.append(f"{name}2019{month:02d}TMAX{''.join(values)}\n")
        (folder / f"{name}.dly").write_text("".join(lines))
    (folder / "ghcnd-stations.txt").write_text("".join(stations))
    (folder / "ghcnd-inventory.txt").write_text("".join(inventory))


def write_land_registry(folder: pathlib.Path, seed: int = 0) -> None:
    """pp-complete.csv without a header, and a table of postcodes; flats and a few houses over forty days of 2015."""
    rng = np.random.default_rng(seed)
    folder.mkdir(parents=True)
    postcodes = [
        f"SW{number % 20} {1 + number % 9}{'ABDEFGHJLN'[number % 10]}{'PQRSTUWXYZ'[number // 10]}"
        for number in range(60)
    ]
    places = rng.uniform([51.3, -0.4], [51.7, 0.2], size=(60, 2))
    rows = [
        f"{number},{code},{lat:.6f},{lon:.6f}\n"
        for number, (code, (lat, lon)) in enumerate(zip(postcodes, places, strict=True))
    ]
    (folder / "ukpostcodes.csv").write_text("id,postcode,latitude,longitude\n" + "".join(rows))
    sales = []
    for number in range(400):
        where = rng.integers(60)
        date = datetime.date(2015, 1, 2) + datetime.timedelta(days=int(rng.integers(45)))
        price = round(1000 * np.exp(6 + 2 * (places[where, 0] - 51.5) + 0.3 * rng.normal()))
        kind = "F" if number % 10 else "T"
        fields = [
            f"{{{number:08X}-0000-0000-0000-000000000000}}",
            price,
            f"{date} 00:00",
            postcodes[where],
            kind,
            "N",
            "L",
        ]
        fields += ["1", "", "HIGH STREET", "", "LONDON", "MERTON", "GREATER LONDON", "A", "A"]
        sales.append(",".join(f'"{field}"' for field in fields) + "\n")
    (folder / "pp-complete.csv").write_text("".join(sales))
