# SPDX-License-Identifier: MIT
"""Every number of a report against the model's own answers, computed again."""

import dataclasses
import hashlib

import numpy as np
import pandas as pd
import pytest
import scoringrules
from numpy.testing import assert_allclose
from scipy import stats

from weft.data.observations import Observations
from weft.inference.single import SinglePosterior
from weft.report.availability import shares_by_place
from weft.report.build import gather
from weft.report.canvas_map import chance_above, nice_threshold
from weft.report.packing import Packed, unpack
from weft.report.provenance import hash_of_rows
from weft.report.residuals import autocorrelation, last_rows, residuals_of, variogram
from weft.report.rows import kept_rows, rows_of_table, time_labels, values_by_place
from weft.report.validation import hide_rows

from .conftest import SIZE, Written

TARGET = "t<max>&"


def inverse_distance(known_at: np.ndarray, known: np.ndarray, at: np.ndarray) -> np.ndarray:
    distance = np.linalg.norm(known_at[None] - at[:, None], axis=2)
    nearest = np.argsort(distance, axis=1)[:, :8]
    weights = 1 / np.take_along_axis(distance, nearest, axis=1) ** 2
    return (weights * known[nearest]).sum(axis=1) / weights.sum(axis=1)


def half_step(packed: Packed) -> float:
    # Half a step of the packing, and a little for its rounding.
    return packed.step * 0.5001 + 1e-12


def assert_shown_alike(mine: object, theirs: object) -> None:
    """All the same, but that packed numbers may lie on either side of a rounding: other rows asked beside them are other sums."""
    if isinstance(mine, Packed) and isinstance(theirs, Packed):
        assert_allclose(unpack(mine), unpack(theirs), rtol=0, atol=1.0001 * theirs.step + 1e-12)
        assert_allclose([mine.low, mine.high], [theirs.low, theirs.high], rtol=1e-9)
    elif dataclasses.is_dataclass(theirs):
        assert type(mine) is type(theirs)
        for field in dataclasses.fields(theirs):
            assert_shown_alike(getattr(mine, field.name), getattr(theirs, field.name))
    elif isinstance(theirs, tuple):
        assert isinstance(mine, tuple)
        for one, other in zip(mine, theirs, strict=True):
            assert_shown_alike(one, other)
    else:
        assert mine == theirs


def test_map_frames_are_the_models_field(written: Written) -> None:
    content, gp = written.content.map, written.gp
    assert content is not None
    west, south, east, north = content.box
    x = west + (np.arange(content.width) + 0.5) / content.width * (east - west)
    y = north - (np.arange(content.height) + 0.5) / content.height * (north - south)
    at = np.array([(lon, lat) for lat in y for lon in x])
    stations = written.table.drop_duplicates(["lon", "lat"])
    height = inverse_distance(stations[["lon", "lat"]].to_numpy(), stations["height"].to_numpy(), at)
    layers = {layer.key: unpack(layer.numbers).reshape(len(content.times), -1) for layer in content.layers}
    for frame in (0, 3, len(content.times) - 1):
        table = pd.DataFrame(
            {"day": pd.Timestamp(content.times[frame]), "lon": at[:, 0], "lat": at[:, 1], "height": height}
        )
        field = gp.predict(table, of="field")
        chance = stats.norm.sf(13.0, field["mean"], field["latent_sd"])
        for key, expected in (("mean", field["mean"]), ("sd", field["latent_sd"]), ("probability", chance)):
            packed = next(layer.numbers for layer in content.layers if layer.key == key)
            assert_allclose(layers[key][frame], expected, atol=half_step(packed), rtol=0)


def test_map_shows_what_was_measured(written: Written) -> None:
    content = written.content.map
    assert content is not None
    observed = unpack(content.observed).reshape(len(content.times), -1)
    expected = written.table.pivot_table(index="day", columns="name", values=TARGET)
    names = [station.name for station in written.content.series.stations]
    for frame, time in enumerate(content.times):
        known = expected.loc[pd.Timestamp(time)].reindex(names).to_numpy()
        assert_allclose(observed[frame, : len(names)], known, atol=half_step(content.observed), rtol=0)


def test_series_are_the_models_predictions(written: Written) -> None:
    series = written.content.series
    times = pd.to_datetime(np.array(series.times), unit="s")
    for station in series.stations[::3]:
        place = written.table[written.table["name"] == station.name].iloc[0]
        table = pd.DataFrame({"day": times, "lon": place["lon"], "lat": place["lat"], "height": place["height"]})
        expected = written.gp.predict(table, quantiles=(0.05, 0.25, 0.75, 0.95))
        names = {"mean": "mean", "q05": "q0.05", "q25": "q0.25", "q75": "q0.75", "q95": "q0.95"}
        for ours, theirs in names.items():
            packed = getattr(station, ours)
            assert_allclose(unpack(packed), expected[theirs], atol=half_step(packed), rtol=0)
        own = written.table[written.table["name"] == station.name].set_index("day")[TARGET].reindex(times)
        assert_allclose(unpack(station.values), own, atol=half_step(station.values), rtol=0)
        assert station.num_rows == own.notna().sum()


def test_held_out_points_are_those_of_the_table(written: Written) -> None:
    for station in written.content.series.stations:
        own = written.held_out[(written.held_out["name"] == station.name) & written.held_out[TARGET].notna()]
        own = own.sort_values("day")
        assert len(station.held_out.times) == len(own)
        # Six digits are written.
        assert_allclose(station.held_out.values, own[TARGET], rtol=1e-5)
        if len(own):
            expected = written.gp.predict(own.drop(columns=TARGET))
            assert_allclose(station.held_out.low, expected["q0.05"], rtol=1e-5)
            assert_allclose(station.held_out.high, expected["q0.95"], rtol=1e-5)


def test_held_out_scores_are_the_models(written: Written) -> None:
    check = written.content.checks[0]
    scores = written.gp.score(written.held_out)
    assert check.by == "held_out"
    assert check.coverage_90 == pytest.approx(scores["coverage_90"])
    # The best baseline fits a variogram, which magnifies the rounding of values that have been to the model's units and back.
    assert check.skill == pytest.approx(scores["crps_skill"], rel=1e-5)
    assert check.lines[0].scores[:2] == (f"{scores['mean_crps']:.3f}", f"{scores['rmse']:.3f}")


def test_one_pass_answers_for_all_that_is_shown_of_the_model(written: Written, monkeypatch: pytest.MonkeyPatch) -> None:
    """Map, series, residuals and rows held out: on a long series, or one of many regions, each pass takes as long as all else."""
    asked: list[str] = []

    def counted(question: str) -> None:
        answer = getattr(SinglePosterior, question)

        def counting(self: SinglePosterior, *rows: np.ndarray) -> object:
            asked.append(question)
            return answer(self, *rows)

        monkeypatch.setattr(SinglePosterior, question, counting)

    counted("marginals")
    counted("components")
    gp, rest = written.gp, {"held_out": written.held_out, "threshold": 13.0, "seed": 1, "size": SIZE}
    content = gather(gp, written.table, checks=(), **rest)
    assert content.series == written.content.series
    assert content.map == written.content.map
    assert asked == ["marginals", "components"]
    # What has been scored is not predicted again, and is shown as it would have been.
    scored = gp.score_rows(written.held_out)
    asked.clear()
    again = gather(gp, written.table, checks=(), evaluated={"held_out": scored}, **rest)
    assert asked == ["marginals", "components"]
    (shown,), (expected,) = again.checks, content.checks
    # The best baseline fits a variogram, which magnifies the rounding of values that have been to the model's units and back.
    assert shown.skill == pytest.approx(expected.skill, rel=1e-5)
    ours = [next(line for line in each.lines if line.is_ours) for each in (shown, expected)]
    assert ours[0].scores == ours[1].scores
    same = {"skill": 0.0, "lines": ()}
    assert dataclasses.replace(shown, **same) == dataclasses.replace(expected, **same)
    assert_shown_alike(again.series, content.series)
    with pytest.raises(ValueError, match="give that table as held_out"):
        gather(gp, written.table, checks=(), evaluated={"held_out": scored}, size=SIZE)


def test_hidden_rows_are_predicted_from_the_others_alone(written: Written) -> None:
    gp, translation = written.gp, written.gp.fitted_.translation
    rows = rows_of_table(gp, written.table)
    hidden = hide_rows(gp.fitted_, rows, "station", seed=1)
    assert hidden is not None
    names = {rows.names[place] for place in np.unique(hidden.rows.place)}
    assert len(names) == 2
    known = written.table[~written.table["name"].isin(names) & written.table[TARGET].notna()]
    asked = written.table[written.table["name"].isin(names) & written.table[TARGET].notna()]

    def numbers(table: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
        days = (table["day"] - written.table["day"].min().normalize()).dt.days.to_numpy(dtype=float)
        return days, translation.scaling.forward({name: table[name].to_numpy() for name in gp.space})

    from weft.inference.single import condition

    values = (known[TARGET].to_numpy() - translation.target.centre) / translation.target.scale
    answer = condition(gp.model_, Observations(*numbers(known), values)).predict(*numbers(asked))
    mean = answer.mean * translation.target.scale + translation.target.centre
    sd = np.sqrt(answer.variance) * translation.target.scale
    crps = scoringrules.crps_normal(asked[TARGET].to_numpy(), mean, sd)
    assert_allclose(np.sort(hidden.scores["weft"].crps), np.sort(crps), rtol=1e-8)
    inside = np.abs(asked[TARGET].to_numpy() - mean) <= stats.norm.ppf(0.95) * sd
    check = next(check for check in written.content.checks if check.by == "station")
    assert check.coverage_90 == pytest.approx(inside.mean())


def test_shares_of_variance_add_up_and_are_the_posteriors(written: Written) -> None:
    gp = written.gp
    parts = {part.name: part for part in written.content.components}
    assert sum(part.share for part in parts.values()) == pytest.approx(1.0)
    present = written.table[written.table[TARGET].notna()]
    translation = gp.fitted_.translation
    places = translation.scaling.forward({name: present[name].to_numpy() for name in gp.space})
    days = (present["day"] - written.table["day"].min().normalize()).dt.days.to_numpy(dtype=float)
    moments = gp.posterior_.components(days, places)
    variances = [np.var(part.mean) + np.mean(part.variance) for part in moments] + [
        float(gp.model_.likelihood.variance)
    ]
    for name, variance in zip(("slow", "fast", "noise"), variances, strict=True):
        assert parts[name].share == pytest.approx(variance / sum(variances), rel=1e-9)
        assert parts[name].deviation == pytest.approx(np.sqrt(variance) * written.table[TARGET].std(ddof=0), rel=1e-9)


def test_parameters_are_in_kilometres_and_days(written: Written) -> None:
    lines = {(line.part, line.meaning): line for line in written.content.parameters}
    slow = written.gp.model_.kernel.components[0]
    east = lines["slow", "length scale, east"]
    assert east.unit == "km"
    assert float(east.value.replace(",", "")) == pytest.approx(float(slow.space.lengthscale[0]), rel=5e-3)
    in_time = lines["slow", "length scale in time"]
    assert in_time.unit == "days"
    assert float(in_time.value) == pytest.approx(float(slow.time.lengthscale), rel=5e-3)
    height = lines["slow", "length scale, height"]
    deviation = written.table.drop_duplicates(["lon", "lat"])["height"].std(ddof=0)
    assert float(height.value.replace(",", "")) == pytest.approx(float(slow.space.lengthscale[2]) * deviation, rel=5e-3)


def test_residual_curves_equal_loops_over_pairs(written: Written) -> None:
    gp = written.gp
    rows = last_rows(rows_of_table(gp, written.table), 10_000)
    table = written.table[written.table[TARGET].notna()]
    answer = gp.predict(table.drop(columns=TARGET))
    residuals = residuals_of(rows, gp.fitted_.prediction(rows.measured))
    assert_allclose(residuals, (table[TARGET] - answer["mean"]) / answer["sd"], rtol=1e-9)
    centred = residuals - residuals.mean()
    day, name = table["day"].to_numpy(), table["name"].to_numpy()
    lagged = [
        centred[i] * centred[j]
        for i in range(len(day))
        for j in range(len(day))
        if name[i] == name[j] and day[j] - day[i] == np.timedelta64(2, "D")
    ]
    found = autocorrelation(gp.fitted_, rows, residuals)
    assert found.lags[1] == 2.0
    assert found.correlation[1] == pytest.approx(np.mean(lagged) / np.var(residuals))
    places = gp.fitted_.translation.scaling.forward({name: table[name].to_numpy() for name in gp.space})[:, :2]
    pairs = [(i, j) for i in range(len(day)) for j in range(i) if day[i] == day[j]]
    distance = np.array([np.hypot(*(places[i] - places[j])) for i, j in pairs])
    half = np.array([(residuals[i] - residuals[j]) ** 2 / 2 for i, j in pairs])
    near = distance <= distance.max() / 2
    curve = variogram(gp.fitted_, rows, residuals, seed=0)
    assert curve.unit == "km"
    # Whatever the bins, each pair is in one: their total is that of all pairs.
    edge = np.quantile(distance[near], 1 / 12)
    first = near & (distance < edge)
    assert curve.distance[0] == pytest.approx(distance[first].mean())
    assert curve.gamma[0] == pytest.approx(half[first].mean() / residuals.var())


def test_availability_counts_times_with_a_value(written: Written) -> None:
    rows = rows_of_table(written.gp, written.table)
    distinct = np.unique(rows.times)
    shares = shares_by_place(rows, np.array([4, 1]), distinct, 7)
    width = np.bincount(np.arange(len(distinct)) * 7 // len(distinct))
    for line, place in zip(shares, (4, 1), strict=True):
        own = written.table[(written.table["name"] == rows.names[place]) & written.table[TARGET].notna()]
        number = (own["day"] - written.table["day"].min()).dt.days.to_numpy()
        expected = np.bincount(number * 7 // len(distinct), minlength=7) / width
        assert_allclose(line, expected)
    strip = written.content.data.strip
    assert sorted(strip.num_rows) == sorted(written.table.groupby("name")[TARGET].count())


def test_rows_the_model_kept_are_those_of_the_table(written: Written) -> None:
    kept, given = kept_rows(written.gp), rows_of_table(written.gp, written.table)
    given = given.take(given.present)
    order, other = (np.lexsort((rows.values, rows.times)) for rows in (kept, given))
    assert_allclose(kept.values[order], given.values[other], rtol=1e-12)
    assert np.array_equal(kept.times[order], given.times[other])
    for name in written.gp.space:
        assert_allclose(kept.measured.space[name][order], given.measured.space[name][other], rtol=1e-9)
    assert not kept.has_names
    assert given.has_names


def test_the_hash_is_of_the_rows_in_any_order(written: Written) -> None:
    rows = rows_of_table(written.gp, written.table)
    shuffled = rows_of_table(written.gp, written.table.sample(frac=1, random_state=5))
    assert hash_of_rows(rows) == hash_of_rows(shuffled)
    changed = dataclasses.replace(rows, values=np.where(np.arange(len(rows.values)) == 0, 1.5, rows.values))
    assert hash_of_rows(changed) != hash_of_rows(rows)
    present = written.table[written.table[TARGET].notna()]
    days = (present["day"] - written.table["day"].min().normalize()).dt.days.astype(float)
    plain = np.array(sorted(zip(days, present["lon"], present["lat"], present["height"], present[TARGET], strict=True)))
    assert hash_of_rows(rows) == hashlib.sha256(plain.T.astype("<f8").tobytes()).hexdigest()
    assert hash_of_rows(rows) in {fact.value for fact in written.content.reproduce.facts}


def test_the_chance_to_exceed_is_exact_for_gaussians_and_close_for_lognormals() -> None:
    from weft.report.canvas_map import _LEVELS

    mean, sd = np.array([0.0, 1.3, -2.0, 9.0]), np.array([1.0, 0.2, 1.4, 0.5])
    quantiles = mean[:, None] + sd[:, None] * stats.norm.ppf(_LEVELS)
    for threshold in (0.0, 1.1, 3.0):
        # Five deviations is as far as it looks; what lies beyond is less than a millionth.
        assert_allclose(chance_above(quantiles, threshold), stats.norm.sf(threshold, mean, sd), atol=1e-6)
        expected = stats.norm.sf(np.log(threshold + 1), mean, sd)
        # Straight lines over quarters of a deviation: to half a step of the map.
        assert_allclose(chance_above(np.exp(quantiles) - 1, threshold), expected, atol=2e-3)
    assert_allclose(chance_above(np.full((1, len(_LEVELS)), 2.0), 1.0), 1.0, atol=1e-4)


def test_thresholds_are_round() -> None:
    assert nice_threshold(np.linspace(0.0, 40.0, 401)) == 40.0
    assert nice_threshold(np.linspace(0.0, 0.004, 41)) == pytest.approx(0.004)
    assert nice_threshold(np.linspace(0.0, 30.0, 301)) == 27.0


def test_values_of_one_place_and_time_are_averaged(written: Written) -> None:
    twice = pd.concat([written.table, written.table.assign(**{TARGET: written.table[TARGET] + 3})])
    rows = rows_of_table(written.gp, twice)
    times = np.unique(rows.times)
    single = values_by_place(rows_of_table(written.gp, written.table), np.array([2, 0]), times[3:9])
    assert_allclose(values_by_place(rows, np.array([2, 0]), times[3:9]), single + 1.5)


def test_a_place_is_called_by_its_first_name_that_says_something(written: Written) -> None:
    table = written.table.copy()
    where = list(written.gp.space)
    stays, blank, nameless = (table.groupby(where).groups[key] for key in list(table.groupby(where).groups)[:3])
    expected = str(table.loc[stays[2], "name"])
    table.loc[stays[:2], "name"] = [None, "  "]
    table.loc[blank, "name"] = ""
    table.loc[nameless, "name"] = np.nan
    rows = rows_of_table(written.gp, table)
    named = {tuple(table.loc[index[0], where]): index[0] for index in (stays, blank, nameless)}
    called = [rows.names[rows.place[row]] for row in named.values()]
    assert called[0] == expected
    for name, row in zip(called[1:], list(named.values())[1:], strict=True):
        assert name == ", ".join(f"{column} {table.loc[row, column]:.5g}" for column in where)
    assert len(set(rows.names)) == rows.num_places


def test_times_are_written_as_people_do(written: Written) -> None:
    clock = written.gp.fitted_.translation.clock
    assert time_labels(clock, np.array([0.0, 9.0])) == ("2021-02-20", "2021-03-01")
    assert time_labels(clock, np.array([0.0, 0.5])) == ("2021-02-20 00:00", "2021-02-20 12:00")


def test_sizes_are_kept(written: Written) -> None:
    content = written.content
    assert content.map is not None
    assert len(content.map.times) == SIZE.max_frames
    assert content.map.width * content.map.height * len(content.map.times) <= SIZE.map_points
    assert len(content.series.stations) == SIZE.max_stations
    assert any("most observed of 10 places" in note for note in content.series.notes)


def test_an_evaluation_is_shown_as_it_was_found(written: Written) -> None:
    from weft.report.validation import describe_check, evaluated_rows

    gp = written.gp
    scored = gp.cross_validate(written.table, by="station", folds=2, output="rows")
    rows = rows_of_table(gp, written.table)
    hidden = evaluated_rows(rows, "station", scored)
    ours = scored[scored["model"] == "weft"].sort_values("row")
    assert_allclose(hidden.rows.values, written.table[TARGET].to_numpy()[ours["row"]])
    assert_allclose((hidden.low, hidden.high), ours[["low", "high"]].to_numpy().T)
    inside = (ours["value"] >= ours["low"]) & (ours["value"] <= ours["high"])
    check = describe_check(hidden, gp.target_sd_, "")
    assert check.title == "Whole stations hidden, 50 % at a time"
    assert check.coverage_90 == pytest.approx(inside.mean())
    crps = scored.groupby("model")["crps"].mean()
    assert check.skill == pytest.approx(1 - crps["weft"] / crps.drop("weft").min())
