# SPDX-License-Identifier: MIT
"""Selections, starts, scores and refusals of the experiments on real data."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy.stats import norm

from tests.experiments.original_files import write_land_registry, write_noaa
from weft.inference.single import condition
from weft.kernels import Matern52
from weft_experiments import apartments, ghcn, ghcn_page, learning, run, temperatures
from weft_experiments.__main__ import main
from weft_experiments.options import RunOptions


def test_scores_by_all_conventions():
    rng = np.random.default_rng(0)
    values, mean, variance = rng.normal(size=7), rng.normal(size=7), rng.uniform(0.1, 2, 7)
    found = learning.scores(values, mean, variance, 0.3)
    assert_allclose(found["standardised_rmse"], np.sqrt(((values - mean) ** 2).mean()), rtol=1e-12)
    latent, noise = np.sqrt(variance), np.sqrt(0.3)
    for name, deviation in {
        "mean_negative_log_density": np.hypot(latent, noise),
        "mean_negative_log_density_deviations_added": latent + noise,
        "mean_negative_log_density_latent_only": latent,
    }.items():
        assert_allclose(found[name], -norm(mean, deviation).logpdf(values).mean(), rtol=1e-12)


def test_starts_are_the_scripts_and_the_texts():
    kernel = learning.start_kernel(*ghcn.STARTS["scripts"]["sum-separable"], 3, Matern52)
    assert_allclose([float(part.variance) for part in kernel.components], [0.49, 0.09])
    assert_allclose([part.space.lengthscale for part in kernel.components], [[1.0] * 3, [0.2] * 3])
    assert_allclose([float(part.time.lengthscale) for part in kernel.components], [100.0, 10.0])
    kernel = learning.start_kernel(*ghcn.STARTS["text"]["sum-separable"], 3, Matern52)
    assert_allclose([float(part.variance) for part in kernel.components], [0.7, 0.3])
    assert_allclose([float(part.time.lengthscale) for part in kernel.components], [1000.0, 10.0])


def test_subset_takes_the_first_station_of_each_cluster():
    places = np.array([[5.0, 5, 5], [0.2, 0, 0], [0.0, 0, 0], [5.1, 5, 5], [9.0, 9, 9]])
    centres = np.array([[5.0, 5, 5], [0.0, 0, 0], [9.0, 9, 9]])
    # Station 1 comes before 2, which is the centre itself.
    assert ghcn.first_of_each_cluster(places, centres).tolist() == [0, 1, 4]


def test_folder_of_noaa_files(tmp_path):
    write_noaa(tmp_path / "data")
    (found,) = temperatures.load_sets(RunOptions(output=tmp_path, data=tmp_path / "data"))
    assert len(found.stations) == 9
    assert found.num_days == 7305
    assert found.first_date.isoformat() == "2000-01-01T00:00:00"
    assert "99" in found.story
    last = found.last_days(10)
    assert last.first_date.isoformat() == "2019-12-22T00:00:00"
    assert last.num_days == 10
    assert np.array_equal(last.value, found.value[found.day >= 7295])
    assert np.array_equal(last.places[last.station], found.places[found.station[found.day >= 7295]])


@pytest.mark.long
def test_the_projects_samples(shared_data, tmp_path):
    folder = shared_data / "ghcn_pnw"
    narrow, large = temperatures.load_sets(RunOptions(output=tmp_path, data=folder))
    wide, _ = temperatures.load_sets(RunOptions(output=tmp_path, data=folder, variant="text"))
    # Of the 65 stations some lie west of the scripts' border, -125 degrees.
    assert len(narrow.stations) < len(wide.stations) == 65
    assert narrow.places[:, 1].min() > -125 > wide.places[:, 1].min()
    assert (len(large.stations), len(large.value)) == (103, 601_596)
    assert narrow.num_days == 7305
    assert narrow.elevations is not None
    assert narrow.elevations.elevation.shape == (len(narrow.elevations.latitudes), len(narrow.elevations.longitudes))
    sales = apartments.load(RunOptions(output=tmp_path, data=shared_data / "price_paid"))
    assert len(sales.value) == 164_268
    assert len(np.unique(sales.day)) == 2774
    assert sales.day.min() == 0


def test_what_was_refused_is_said_and_kept(tmp_path, capsys):
    folder = tmp_path / "noaa"
    write_noaa(folder)
    with (folder / "USC00450000.dly").open("a") as file:
        file.write("a line of nothing\n")
    (folder / "n48w123.hgt").write_bytes(b"not a tile")
    (found,) = temperatures.load_sets(RunOptions(output=tmp_path, data=folder))
    told = capsys.readouterr().err
    assert "refused 1: short line" in found.reading
    assert found.reading in told
    assert found.elevations is None
    assert "n48w123.hgt is not a height tile" in found.no_elevations
    described = ghcn.describe(found, None)
    section = "\n".join(ghcn_page.set_section(described, []))
    assert found.reading in section
    assert "No map: " in section
    assert "is not a height tile" in section
    folder = tmp_path / "land registry"
    write_land_registry(folder)
    (folder / "pp-2016.csv.gz").write_bytes(b"junk")
    sales = apartments.load(RunOptions(output=tmp_path, data=folder))
    assert "damaged or cut off file" in sales.reading
    assert sales.reading in capsys.readouterr().err


def test_an_empty_selection_says_why(tmp_path):
    folder = tmp_path / "noaa"
    write_noaa(folder)
    for path in folder.glob("*.dly"):
        path.write_text(path.read_text().replace("2019", "1979"))
    with pytest.raises(ValueError, match=r"(?s)no daily maximum of 2000 to 2019.*left out 9: station without a value"):
        temperatures.load_sets(RunOptions(output=tmp_path, data=folder))
    folder = tmp_path / "land registry"
    write_land_registry(folder)
    prices = folder / "pp-complete.csv"
    prices.write_text(prices.read_text().replace("2015-", "2005-"))
    with pytest.raises(ValueError, match=r"(?s)no sale of a flat .* 2010 to 2019.*kept 0 from 2 files"):
        apartments.load(RunOptions(output=tmp_path, data=folder))


def test_more_pseudo_points_than_stations(tmp_path, capsys):
    write_noaa(tmp_path / "data")
    (found,) = temperatures.load_sets(RunOptions(output=tmp_path, data=tmp_path / "data"))
    assert ghcn.fewer_than_stations(RunOptions(output=tmp_path), found) == (5,)
    assert "fewer than the 9 stations of noaa; left out: 10, 20, 50" in capsys.readouterr().err
    with pytest.raises(ValueError, match="fewer than the 9 stations of noaa; they are 20"):
        ghcn.fewer_than_stations(RunOptions(output=tmp_path, pseudo_points=(20,)), found)


def test_a_failed_run_leaves_no_empty_folder(tmp_path):
    (tmp_path / "data").mkdir()
    output = tmp_path / "new" / "out"
    for name in ("ghcn", "apartments"):
        with pytest.raises(ValueError, match="add"):
            run(name, data=tmp_path / "data", output=output)
    assert not (tmp_path / "new").exists()
    output.mkdir(parents=True)
    with pytest.raises(ValueError, match="add"):
        run("ghcn", data=tmp_path / "data", output=output)
    assert output.exists()


def test_sales_of_one_postcode_have_a_map(tmp_path):
    places = np.tile([51.5, -0.1], (12, 1))
    sales = apartments.Sales(np.arange(12.0), places, np.arange(12.0), pd.Timestamp("2015-01-02"), "")
    data = learning.Observations(sales.day, places, np.sin(sales.day))
    model = learning.make_model(learning.start_kernel(*apartments.STARTS["separable"], 2, Matern52), places[:1])
    shown = apartments.maps_of(
        sales, learning.Scale.of(sales.value), condition(model, data), places[:1], "separable", tmp_path
    )
    assert (tmp_path / shown["figure"]).exists()


def test_data_are_refused_where_none_are_read(tmp_path):
    with pytest.raises(ValueError, match="emission makes its own data"):
        run("emission", data=tmp_path, download=True, output=tmp_path / "out")
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(ValueError, match="is a file; give a folder to fetch ghcnd-stations"):
        run("ghcn", data=file, download=True, output=tmp_path / "out")


def test_absent_data_are_said_to_be_absent(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for name in ("ghcn", "apartments"):
        assert main([name, "--quick"]) == 2
        assert "give --data FOLDER" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"variant": "both"}, "variant must be"),
        ({"download": True}, "download needs data"),
        ({"pseudo_points": (5, 0)}, "pseudo_points must be positive"),
        ({"days": 1}, "days must be 2"),
    ],
)
def test_wrong_settings_are_refused(options, words, tmp_path):
    with pytest.raises(ValueError, match=words):
        run("benchmark", output=tmp_path, **options)


def test_unknown_names_are_refused(tmp_path):
    with pytest.raises(ValueError, match="experiment must be one of benchmark"):
        run("climate")
    (tmp_path / temperatures.SAMPLES["paper_box"]).touch()
    with pytest.raises(ValueError, match="sets must be among"):
        temperatures.load_sets(RunOptions(output=tmp_path, data=tmp_path, sets=("alaska",)))


def test_a_fit_ends_in_time():
    rng = np.random.default_rng(1)
    data = learning.Observations(np.repeat(np.arange(6.0), 3), rng.normal(size=(18, 3)), rng.normal(size=18))
    model = learning.make_model(learning.start_kernel(*ghcn.STARTS["scripts"]["separable"], 3, Matern52), None)
    result, _ = learning.learn(model, data, learning.Limits(50, 0.0))
    assert result["iterations"] == 0
    assert not result["converged"]
    assert "stopped after 0 seconds" in result["message"]
    result, _ = learning.learn(model, data, learning.Limits(50, None, max_processor_seconds=0.0))
    assert result["iterations"] == 0
    assert "stopped within 0.0 processor seconds" in result["message"]
