# SPDX-License-Identifier: MIT
"""What is known of a table before a fit; Python and the command line make one model of one table."""

import pathlib

import numpy as np
import pandas as pd
import pytest

import weft
from weft import project
from weft.cli import main
from weft.data import clock
from weft.demo import temperatures


@pytest.fixture
def skewed(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pd.DataFrame:
    """A table in the file skewed.csv of the working directory, whose target asks for a transform."""
    monkeypatch.chdir(tmp_path)
    table = temperatures(stations=6, days=25)
    days, stations = (table[name].factorize()[0] for name in ("date", "station"))
    table["tmax"] = 10.0 ** (stations % 3) * 1.5 ** ((days * 7 + stations * 3) % 5 - 2.0)
    table.to_csv("skewed.csv", index=False)
    return table


def test_python_and_the_command_line_make_one_model_of_one_table(skewed: pd.DataFrame) -> None:
    few = {"max_iterations": 2, "pseudo_points": 3}
    assert main(["fit", "skewed.csv", "--max-iterations", "2", "--pseudo-points", "3", "-o", "by_command.weft"]) == 0
    by_command = weft.load("by_command.weft")
    by_python = weft.survey(skewed, **few).estimator().fit(skewed)
    assert by_python.get_params() == by_command.get_params()
    assert by_python.transform == "log"
    assert_same_model(by_python, by_command)
    assert main(["init", "skewed.csv"]) == 0
    config = pathlib.Path("weft.toml")
    shorter = {"[model]": "[model]\nmax_iterations = 2\npseudo_points = 3\n", "# folds = 5": "folds = 2"}
    text = config.read_text()
    for before, after in shorter.items():
        assert before in text
        text = text.replace(before, after, 1)
    config.write_text(text)
    assert main(["run", "weft.toml"]) == 0
    assert_same_model(by_python, weft.load("model.weft"))
    done = project.run(project.read_settings(config))
    assert_same_model(by_python, done.gp)
    assert set(done.files) == {"model", "scores", "report"}


def assert_same_model(first: weft.SpaceTimeGP, second: weft.SpaceTimeGP) -> None:
    assert first.result_.parameters.keys() == second.result_.parameters.keys()
    for name, value in first.result_.parameters.items():
        np.testing.assert_array_equal(value, second.result_.parameters[name], err_msg=name)
    assert first.result_.log_evidence == second.result_.log_evidence


def test_a_survey_says_what_it_found(skewed: pd.DataFrame) -> None:
    found = weft.survey(skewed)
    assert found.settings.options == {
        "time": "date",
        "space": ("lon", "lat", "elevation"),
        "target": "tmax",
        "transform": "log",
    }
    assert found.counts is not None
    assert (found.counts.num_places, found.counts.num_rows) == (6, len(skewed))
    assert "time is date: column 'date' is named like a time" in str(found)
    assert "usual step" in str(found)
    page = found._repr_html_()
    assert "<tr><th>places</th><td>6</td></tr>" in page
    assert "&#x27;date&#x27;" in page
    assert found.objection is None
    assert weft.survey(skewed, transform="sqrt").settings.options["transform"] == "sqrt"
    with pytest.raises(TypeError, match="no argument 'tranform'"):
        weft.survey(skewed, tranform="sqrt")


def test_a_survey_says_what_it_cannot_tell() -> None:
    found = weft.survey(pd.DataFrame({"lat": [1.0, 2.0], "lon": [3.0, 4.0], "value": [0.5, 0.7]}))
    assert "no column looks like the time" in found.unknown["time"]
    assert "no column looks like the time" in str(found)
    assert found.counts is None
    assert "<li>no column looks like the time" in found._repr_html_()
    with pytest.raises(ValueError, match="cannot tell which column is the time; name it with time="):
        found.estimator()


def test_a_survey_of_copies_objects(skewed: pd.DataFrame) -> None:
    twice = pd.concat([skewed, skewed[:2]])
    found = weft.survey(twice)
    assert found.objection is not None
    assert f"2 of {len(twice)} rows repeat another" in found.objection
    assert found.to_json()["num_copies"] == 2
    assert "fit and run refuse this table" in str(found)


def test_times_are_parsed_once(skewed: pd.DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the survey to the report, held-out rows included."""
    pathlib.Path("weft.toml").write_text(
        "[data]\ntable = 'skewed.csv'\ntime = 'date'\nspace = ['lon', 'lat']\ntarget = 'tmax'\ntime_step = '1D'\n"
        "[model]\nmax_iterations = 1\npseudo_points = 3\n[evaluate]\nfolds = 2\n"
    )
    parsed = []
    really_read = clock.read_time_text

    def counting(column: pd.Series, *given: object) -> object:
        parsed.append(len(column))
        return really_read(column, *given)

    monkeypatch.setattr(clock, "read_time_text", counting)
    project.run(project.read_settings("weft.toml"))
    # The report asks for predictions at times of its own; of those none are as many.
    assert parsed.count(len(skewed)) == 1


def test_columns_that_could_be_covariates_are_offered_and_copies_of_the_target_are_not(
    skewed: pd.DataFrame,
) -> None:
    rng = np.random.default_rng(2)
    table = skewed.assign(
        price=np.log(skewed["tmax"]) * 3.0 - 1.0,
        soil=rng.choice(["clay", "sand"], size=len(skewed)),
        damp=rng.random(len(skewed)) < 0.4,
        note=[f"note {number}" for number in range(len(skewed))],
        wind=rng.normal(size=len(skewed)),
    )
    table.to_csv("more.csv", index=False)
    known = {"time": "date", "space": ("lon", "lat"), "target": "tmax"}
    offers = weft.survey(table, target="tmax").offers
    assert (offers.categories, offers.copies) == (("soil", "damp"), ("price",))
    assert "wind" in offers.numbers
    assert main(["init", "more.csv", "-o", "more.toml"]) == 0
    text = pathlib.Path("more.toml").read_text()
    assert "text with few levels that could be covariates: soil, damp" in text
    assert "price must not be a covariate: it is a function of 'tmax'" in text
    named = weft.survey(table, covariates=("price", "soil"), **known)
    assert any("price must not be a covariate" in note for note in named.notes)
    assert weft.survey(table, covariates=("soil",), **known).offers.copies == ()
