# SPDX-License-Identifier: MIT
"""Several targets at once: against a dense Gaussian process of both, and against a model of each."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

import weft
from tests.oracles import coregionalised
from weft import project

DAYS, PLACES = 30, 6
OPTIONS = {"time": "time", "space": ("x", "y"), "max_iterations": 8, "progress": None}


def two_targets(*, related: bool) -> pd.DataFrame:
    """A field that changes from day to day; the second target falls with the first, in other units, or is its own."""
    rng = np.random.default_rng(8)
    places = rng.uniform(0.0, 5.0, (PLACES, 2))
    day, place = (each.ravel() for each in np.meshgrid(np.arange(float(DAYS)), np.arange(PLACES), indexing="ij"))
    apart = np.linalg.norm(places[:, None] - places[None], axis=2)
    shape = np.linalg.cholesky(np.exp(-apart / 4.0) + 1e-9 * np.eye(PLACES))
    fields = []
    for _ in range(2):
        field = np.zeros((DAYS, PLACES))
        for number in range(DAYS):
            before = 0.8 * field[number - 1] if number else 0.0
            field[number] = before + 0.6 * shape @ rng.normal(size=PLACES)
        fields.append(field.ravel())
    second = -fields[0] + 0.25 * fields[1] if related else fields[1]
    table = pd.DataFrame({"time": day, "x": places[place, 0], "y": places[place, 1]})
    table["low"] = 5.0 + 2.0 * fields[0] + 0.3 * rng.normal(size=len(table))
    table["high"] = np.exp(1.0 + 0.3 * second + 0.06 * rng.normal(size=len(table)))
    return table


@pytest.fixture(scope="module")
def related() -> tuple[pd.DataFrame, np.ndarray, weft.SpaceTimeGP]:
    """The table, its rows where the second target was taken away, and what was learned without these."""
    table = two_targets(related=True)
    hidden = np.random.default_rng(1).random(len(table)) < 0.4
    known = table.assign(high=table["high"].where(~hidden))
    gp = weft.SpaceTimeGP(target=("low", "high"), transform=("identity", "log"), **OPTIONS).fit(known)
    return table, hidden, gp


def test_one_target_is_filled_in_from_the_other(related):
    table, hidden, gp = related
    assert gp.rank_ == 1
    assert "go together" in gp.summary()
    known = table.assign(high=table["high"].where(~hidden))
    alone = weft.SpaceTimeGP(target="high", transform="log", **OPTIONS).fit(known)
    together = gp.predict(table[hidden])
    error = np.sqrt(np.mean((together["high_mean"] - table["high"][hidden]) ** 2))
    assert error < 0.85 * alone.score(table[hidden])["rmse"]
    inside = (table["high"][hidden] > together["high_q0.05"]) & (table["high"][hidden] < together["high_q0.95"])
    assert 0.8 < inside.mean() < 1.0
    filled = gp.fill(known)
    assert_allclose(filled["high"][hidden], together["high_mean"], rtol=1e-12)
    assert_allclose(filled["low"], table["low"], rtol=1e-12)
    assert (filled["high_filled"] == hidden).all()
    assert not filled["low_filled"].any()
    scores = gp.score(table[hidden])
    assert scores["high_rmse"] == pytest.approx(error, rel=1e-9)
    assert scores.item() == pytest.approx(
        -np.mean([scores[f"{name}_mean_crps"] / known[name].std(ddof=0) for name in ("low", "high")]), rel=1e-9
    )


def test_predictions_equal_a_dense_process_of_both_targets(related):
    table, hidden, gp = related
    views = [gp.only(name).fitted_ for name in ("low", "high")]
    p = gp.only("low").result_.parameters
    parts = []
    for number in (0, 1):
        component = f"kernel.components[{number}]"
        together = f"{component}.space.second.kernel"
        parts.append(
            coregionalised.Part(
                loadings=p[f"{together}.first.loadings"],
                own=p[f"{together}.second.variance"],
                space_length=p[f"{component}.space.first.kernel.lengthscale"],
                time_length=float(p[f"{component}.time.lengthscale"]),
                is_rough=number == 1,
            )
        )
    places = table[["x", "y"]].drop_duplicates()

    def rows(frame: pd.DataFrame, output: int) -> tuple[np.ndarray, ...]:
        where = (frame[["x", "y"]] - places.mean()) / places.std(ddof=0)
        return frame["time"].to_numpy(), where.to_numpy(), np.full(len(frame), output)

    def joined(*several: tuple[np.ndarray, ...]) -> coregionalised.Rows:
        return coregionalised.Rows(*(np.concatenate(columns) for columns in zip(*several, strict=True)))

    kept = [table, table[~hidden]]
    values = [table["low"].to_numpy(), np.log(kept[1]["high"].to_numpy())]
    scales = [(view.translation.target.centre, view.translation.target.scale) for view in views]
    new = table.iloc[[3, 50, 51, 120]].assign(x=lambda frame: frame["x"] + 0.1)
    mean, covariance = coregionalised.posterior(
        parts,
        float(p["likelihood.variance"]),
        joined(rows(kept[0], 0), rows(kept[1], 1)),
        np.concatenate([(each - centre) / scale for each, (centre, scale) in zip(values, scales, strict=True)]),
        joined(rows(new, 0), rows(new, 1)),
    )
    posterior, asked = views[0].posterior, [view.read(new.assign(low=0.0, high=1.0)) for view in views]
    times = np.concatenate([view.translation.times(each) for view, each in zip(views, asked, strict=True)])
    at = np.concatenate([view.translation.places(each) for view, each in zip(views, asked, strict=True)])
    with weft_float64():
        found = posterior.marginals(times, at)
        # The engine's covariances carry a relative jitter of 1e-12, which the conditioning of the problem raises.
        assert_allclose(found.mean, mean, rtol=1e-7, atol=1e-9)
        assert_allclose(posterior.covariance(times, at), covariance, rtol=1e-6, atol=1e-9)
    answer = gp.predict(new, of="field")
    assert_allclose(answer["low_mean"], mean[:4] * scales[0][1] + scales[0][0], rtol=1e-7)
    assert_allclose(answer["low_latent_sd"], np.sqrt(np.diag(covariance)[:4]) * scales[0][1], rtol=1e-6)


def weft_float64():
    import jax

    return jax.enable_x64(True)


def test_draws_of_both_targets_go_together(related):
    table, hidden, gp = related
    rows = table[hidden][:20]
    draws = gp.sample(rows, num=200, seed=3, of="field")
    low, high = (draws.filter(like=f"{name}_draw").to_numpy() for name in ("low", "high"))
    assert low.shape == high.shape == (20, 200)
    answer = gp.predict(rows, of="field")
    assert_allclose(low.std(axis=1), answer["low_latent_sd"], rtol=0.3)
    assert_allclose(high.mean(axis=1), answer["high_mean"], rtol=0.1)
    correlation = [np.corrcoef(*pair)[0, 1] for pair in zip(low, high, strict=True)]
    assert np.mean(correlation) < -0.2


def test_a_file_and_an_update_know_of_all_targets(related, tmp_path):
    table, hidden, gp = related
    gp.save(tmp_path / "two.weft")
    again = weft.load(tmp_path / "two.weft")
    before = gp.predict(table[hidden])
    pd.testing.assert_frame_equal(again.predict(table[hidden]), before)
    # The file has the rows of both targets once.
    assert again.only("low").posterior_ is again.only("high").posterior_
    again.update(table[hidden].assign(low=np.nan))
    assert again.only("high").num_rows_ == len(table) + hidden.sum()
    after = again.predict(table[hidden])
    assert (after["high_latent_sd"] < before["high_latent_sd"]).all()
    assert np.mean(after["low_latent_sd"]) < np.mean(before["low_latent_sd"])


def test_one_of_several_targets_answers_every_question(related):
    table, _, gp = related
    low = gp.only("low")
    by_hand = gp.predict(table)
    assert_allclose(low.predict(table)["mean"], by_hand["low_mean"], rtol=1e-12)
    ahead = gp.forecast(2)
    assert len(ahead) == 2 * PLACES
    assert_allclose(low.forecast(2)["mean"], ahead["low_mean"], rtol=1e-6)
    point = {"x": 1.0, "y": 2.0}
    assert_allclose(gp.point(point)["high_mean"], gp.only("high").point(point)["mean"], rtol=1e-12)
    with pytest.raises(ValueError, match=r"several targets, low, high; ask about one of them: gp.only\('low'\)"):
        gp.effects()
    with pytest.raises(ValueError, match="no target 'rain' among several"):
        gp.only("rain")


@pytest.mark.long
def test_one_of_several_targets_is_held_out_and_audited_given_the_others(related):
    table, _, gp = related
    low = gp.only("low")
    held_out = low.cross_validate(table, by="random", folds=2)
    crps = held_out.query("model == 'weft' and score == 'mean_crps' and fold == 'all'")["value"].item()
    # The other target stays, so that what is held out is told by it.
    assert crps < 0.5 * table["low"].std()
    wrong = table["low"].copy()
    wrong.iloc[77] = 40.0
    assert low.audit(table.assign(low=wrong))["row"].iloc[0] == 77


@pytest.mark.long
def test_targets_that_have_nothing_to_do_with_each_other_get_a_model_each():
    table = two_targets(related=False)
    # Climbs that end: one that is cut off finds more the longer it is given.
    options = OPTIONS | {"components": "fast", "max_iterations": 40}
    gp = weft.SpaceTimeGP(target=("low", "high"), **options).fit(table)
    alone = weft.SpaceTimeGP(target="high", **options).fit(table)
    answer, expected = gp.predict(table[:40]), alone.predict(table[:40])
    assert_allclose(answer["high_mean"], expected["mean"], rtol=0.01)
    assert_allclose(answer["high_sd"], expected["sd"], rtol=0.01)
    assert len(gp.sample(table[:5], num=3).filter(like="high_draw").columns) == 3


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"covariates": "x2"}, "do not go with covariates yet"),
        ({"pseudo_points": 5}, "do not go with pseudo_points of your own yet"),
        ({"likelihood": "student_t"}, "Gaussian likelihood alone"),
        ({"target": ("low", "low")}, "distinct names of columns"),
        ({"transform": ("log",)}, "there are 1 and 2 targets"),
    ],
)
def test_what_several_targets_do_not_go_with_is_refused(arguments, words):
    with pytest.raises(ValueError, match=words):
        weft.SpaceTimeGP(**{"target": ("low", "high"), **OPTIONS, **arguments}).fit(two_targets(related=True))


@pytest.mark.long
def test_several_targets_from_file_to_file(related, tmp_path):
    table, hidden, gp = related
    model, rows, out = tmp_path / "two.weft", tmp_path / "rows.csv", tmp_path / "out.csv"
    gp.save(model)
    table.assign(high=table["high"].where(~hidden)).to_csv(rows, index=False)
    project.predict_file(model, rows, out, (0.5,), "observation")
    assert {"low_mean", "low_q0.5", "high_latent_sd"} <= set(pd.read_csv(out).columns)
    assert project.fill_file(model, rows, out, "observation") == hidden.sum()
    assert {"low weft", "high weft"} <= set(project.score_file(model, rows))
    assert project.aggregate_file(model, rows, out, by=(), target="high") == 1
    with pytest.raises(ValueError, match="--target low on the command line"):
        project.audit_file(model, rows, out, rate=0.01)


def test_a_survey_takes_several_targets_by_commas():
    found = weft.survey(two_targets(related=True), target="low, high")
    assert found.settings.options["target"] == ("low", "high")
    assert found.settings.options["transform"] == ("identity", "sqrt")
    assert found.estimator().target == ("low", "high")
    with pytest.raises(KeyError, match="no column 'mid'"):
        weft.survey(two_targets(related=True), target="low,mid")
