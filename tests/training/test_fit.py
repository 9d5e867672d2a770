# SPDX-License-Identifier: MIT
"""Fitting: against dense optima and known truths, and through interrupts, failures and kills."""

import json
import logging
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import jax
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize

import weft
from tests.oracles import dense
from tests.training.problem import two_components
from weft.engines.cpu import CpuEngine
from weft.training import fitting
from weft.training.parameters import make_space


@pytest.fixture(scope="module")
def problem():
    """A model with everything unequal, and its data: one object, so that the evidence is compiled once."""
    return two_components()


def test_reaches_the_optimum_of_a_dense_implementation(problem):
    """Eight parameters of two components, learned by SciPy from the dense bound and its complex-step gradient."""
    model, data = problem
    lower, upper = 0.01, 2.0

    def dense_problem(point):
        lengthscales, first_time, first_variance = np.exp(point[:2]), np.exp(point[2]), np.exp(point[3])
        second_space, second_time, second_variance = np.exp(point[4]), np.exp(point[5]), np.exp(point[6])
        noise = lower + (upper - lower) / (1 + np.exp(-point[7]))
        components = [
            dense.Component(
                first_variance,
                lambda x, y: dense.eq(x, y, lengthscales),
                lambda t, s: dense.matern32(t, s, first_time),
                model.pseudo_points[0],
            ),
            dense.Component(
                second_variance,
                lambda x, y: dense.matern32(x, y, second_space),
                lambda t, s: dense.matern12(t, s, second_time),
                model.pseudo_points[1],
            ),
        ]
        return dense.Problem(components, noise + data.noise_variance, data.row_times, data.row_places, data.values)

    def negative_bound(point):
        return -dense.power_ep(dense_problem(point), 0.0)

    start = np.log([0.9, 1.4, 3.0, 0.7, 0.6, 1.0, 0.5, (0.3 - lower) / (upper - 0.3)])
    result = weft.fit(model, data, bounds={"likelihood.variance": (lower, upper)})
    assert result.converged
    assert_allclose(result.history[0].log_evidence, -negative_bound(start), rtol=1e-9)
    assert_allclose(result.log_evidence, weft.log_evidence(result.model, data), rtol=1e-12)

    # The dense climb begins near by to be done soon; it is free to go elsewhere.
    found = make_space(result.model, bounds={"likelihood.variance": (lower, upper)}).start(result.model)
    expected = minimize(
        lambda point: (float(negative_bound(point)), dense.gradient(negative_bound, point)),
        found + 0.2 * np.array([1, -1, 1, -1, 1, 1, -1, -1]),
        jac=True,
        method="BFGS",
        options={"gtol": 1e-5},
    )
    assert_allclose(result.log_evidence, -expected.fun, atol=1e-5)
    # A gain of 1e-8 in evidence moves a parameter by about the root of that.
    assert_allclose(found, expected.x, atol=1e-3)


@pytest.fixture(scope="module")
def drawn():
    """Data drawn densely from a known model: 12 places through 60 times, some rows missing."""
    rng = np.random.default_rng(3)
    stations = rng.uniform(0, 4, (12, 2))
    times, places = np.repeat(np.arange(60.0), 12), np.tile(stations, (60, 1))
    truth = {
        "kernel.space.lengthscale": 1.4,
        "kernel.time.lengthscale": 6.0,
        "kernel.variance": 2.0,
        "likelihood.variance": 0.2,
    }
    covariance = 2.0 * dense.matern32(places, places, 1.4) * dense.matern12(times[:, None], times[:, None], 6.0)
    values = np.linalg.cholesky(covariance + 0.2 * np.eye(len(times))) @ rng.normal(size=len(times))
    values[rng.random(len(times)) < 0.1] = np.nan
    model = weft.Model(
        weft.Separable(space=weft.Matern32(0.5), time=weft.Matern12(1.0)), weft.Gaussian(1.0), pseudo_points=None
    )
    return model, weft.Observations(times, places, values), truth


def test_recovers_a_known_model_within_its_uncertainty(drawn):
    model, data, truth = drawn
    result = weft.fit(model, data)
    assert result.converged
    space = make_space(result.model)
    names, top = space.names, space.start(result.model)

    def gradient(point):
        return fitting._compiled_value_and_gradient(point, space, result.model, data, (), 0.0, CpuEngine(), None)[1]

    # Observed information by central differences of the gradient.
    step = 1e-4
    hessian = [(gradient(top + step * move) - gradient(top - step * move)) / (2 * step) for move in np.eye(len(top))]
    deviation = np.sqrt(np.diagonal(np.linalg.inv(-np.array(hessian))))
    error = top - np.log([truth[name] for name in names])
    assert np.all(deviation < 0.5)
    assert np.all(np.abs(error) < 2.5 * deviation)
    # Four standard normals together: the 99.9 % point of chi-squared with four degrees of freedom.
    assert error @ -np.array(hessian) @ error < 18.5


def test_same_seed_same_bits(problem):
    model, data = problem
    first, second = (weft.fit(model, data, restarts=1, seed=5, max_iterations=12) for _ in range(2))
    assert first.log_evidence == second.log_evidence
    assert first.starts == second.starts
    assert [step[:6] for step in first.history] == [step[:6] for step in second.history]
    for name, value in first.parameters.items():
        assert_array_equal(value, second.parameters[name])
    other = weft.fit(model, data, restarts=1, seed=6, max_iterations=12)
    assert other.starts[0] == first.starts[0]
    assert other.starts[1] != first.starts[1]


def test_restarts_keep_the_best(problem):
    model, data = problem
    result = weft.fit(model, data, restarts=2, seed=1, max_iterations=15)
    assert len(result.starts) == 3
    assert result.objective == max(result.starts)
    assert {step.start for step in result.history} == {0, 1, 2}


def test_history_and_callback(problem):
    model, data = problem
    seen = []
    result = weft.fit(model, data, max_iterations=6, callback=seen.append)
    assert tuple(seen) == result.history
    assert [step.iteration for step in seen] == list(range(7))
    evidences = [step.log_evidence for step in seen]
    assert evidences == sorted(evidences)
    assert result.history[-1].num_evaluations == result.num_evaluations
    assert not result.converged
    assert "6 iterations" in result.message


def test_frozen_stays_and_pseudo_points_move_only_on_request(problem):
    model, data = problem
    frozen = weft.fit(model, data, frozen=["kernel.components[1]", "*.time.*"], max_iterations=5)
    assert set(frozen.parameters) == {
        "kernel.components[0].space.lengthscale",
        "kernel.components[0].variance",
        "likelihood.variance",
    }
    assert jax.tree.all(jax.tree.map(np.array_equal, frozen.model.kernel.components[1], model.kernel.components[1]))
    assert_array_equal(frozen.model.pseudo_points[0], model.pseudo_points[0])
    learned = weft.fit(model, data, learn_pseudo_points=True, frozen=["kernel"], max_iterations=5)
    assert learned.log_evidence > weft.log_evidence(model, data)
    assert not np.allclose(learned.model.pseudo_points[0], model.pseudo_points[0])


def test_a_prior_moves_the_optimum_as_it_should(problem):
    """At the optimum the gradient of the evidence and that of the log prior cancel."""
    model, data = problem
    name = "kernel.components[0].space.lengthscale"
    # A module-level prior would be found again by the compiled function; any callable will do.
    result = weft.fit(
        model,
        data,
        priors={name: weft.LogNormalPrior(1.0, 0.2), "likelihood.*": lambda v: -3.0 * v},
        gradient_tolerance=1e-6,
        tolerance=1e-14,
    )
    gradient = jax.grad(weft.log_evidence)(result.model, data)
    lengthscale = result.parameters[name]
    assert_allclose(
        gradient.kernel.components[0].space.lengthscale, (1 + np.log(lengthscale) / 0.2**2) / lengthscale, atol=2e-5
    )
    assert_allclose(gradient.likelihood.variance, 3.0, atol=2e-5)
    log_prior = np.sum(-0.5 * (np.log(lengthscale) / 0.2) ** 2 - np.log(0.2 * np.sqrt(2 * np.pi) * lengthscale))
    expected = result.log_evidence + log_prior - 3.0 * result.parameters["likelihood.variance"]
    assert_allclose(result.objective, expected, rtol=1e-12)


def test_a_bound_that_presses_is_named(problem):
    model, data = problem
    result = weft.fit(model, data, bounds={"likelihood.variance": (0.2, 0.32)}, max_iterations=60)
    assert "likelihood.variance" in result.message
    assert_allclose(result.parameters["likelihood.variance"], 0.32, rtol=1e-3)


def test_failing_trial_points_are_survived(problem, monkeypatch):
    """The engine breaks down beyond a noise variance that a longer first step would pass, by error and by NaN."""
    model, data = problem
    expected = weft.fit(model, data)
    genuine = fitting._compiled_value_and_gradient
    failures = []

    def brittle(point, space, placed, *rest):
        noise = float(np.exp(point[-1]))
        lengthscale = float(np.exp(point[0]))
        if noise > 0.48 or lengthscale > 2.6:
            failures.append(noise)
            if len(failures) % 2:
                raise FloatingPointError("the filter broke down at time step 3")
            value, gradient, evidence = genuine(point, space, placed, *rest)
            return value * np.nan, gradient, evidence
        return genuine(point, space, placed, *rest)

    monkeypatch.setattr(fitting, "_compiled_value_and_gradient", brittle)
    steep = weft.Model(model.kernel, weft.Gaussian(0.45), model.pseudo_points)
    result = weft.fit(steep, data)
    assert failures
    assert result.converged
    assert_allclose(result.log_evidence, expected.log_evidence, atol=1e-5)


def test_errors_inside_compiled_code_are_survived(problem):
    """A prior's callback stands for the engine's: JAX wraps what it raises."""
    model, data = problem
    calls = []

    def raise_at_second(value):
        calls.append(1)
        if len(calls) == 2:
            raise FloatingPointError("the filter broke down at time step 3")
        return np.zeros(())

    def prior(value):
        silent = jax.lax.stop_gradient(value)
        return jax.pure_callback(raise_at_second, jax.ShapeDtypeStruct((), np.float64), silent)

    result = weft.fit(model, data, priors={"likelihood.variance": prior}, max_iterations=4)
    assert len(calls) > 2
    assert result.history[-1].log_evidence > result.history[0].log_evidence


def test_a_failing_start_is_an_error_and_a_failing_restart_is_left_out(problem, monkeypatch, caplog):
    model, data = problem
    genuine = fitting._compiled_value_and_gradient
    calls = []

    def fails_at(number):
        def evaluate(*arguments):
            calls.append(1)
            if len(calls) == number:
                raise FloatingPointError("the filter broke down at time step 3")
            return genuine(*arguments)

        calls.clear()
        monkeypatch.setattr(fitting, "_compiled_value_and_gradient", evaluate)

    fails_at(1)
    with pytest.raises(FloatingPointError, match="time step 3"):
        weft.fit(model, data)
    fails_at(2)
    with caplog.at_level(logging.WARNING, "weft"):
        result = weft.fit(model, data, restarts=1, max_iterations=0)
    assert result.starts[1] == -np.inf
    assert np.isfinite(result.log_evidence)
    assert "left out" in caplog.text


def test_ctrl_c_returns_the_best_so_far(problem):
    """A real signal, sent while an evaluation runs."""
    model, data = problem
    # A shell starts what runs in the background with Ctrl-C ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)

    def interrupt(step):
        if step.iteration == 3:
            threading.Thread(target=os.kill, args=(os.getpid(), signal.SIGINT)).start()
            time.sleep(0.2)

    result = weft.fit(model, data, callback=interrupt, restarts=3)
    assert not result.converged
    assert result.outcome is weft.Outcome.INTERRUPTED
    assert len(result.starts) == 1
    assert result.log_evidence == result.history[-1].log_evidence
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_large_problem_runs_outside_compiled_code_and_agrees(problem, monkeypatch):
    model, data = problem
    expected = weft.fit(model, data, max_iterations=2)
    monkeypatch.setattr(fitting, "LARGE", 0.0)
    monkeypatch.setattr(fitting, "_compiled_value_and_gradient", None)
    assert_allclose(weft.fit(model, data, max_iterations=2).log_evidence, expected.log_evidence, rtol=1e-8)


def test_resuming_goes_on_where_it_stopped(problem, tmp_path):
    model, data = problem
    file = tmp_path / "fit.checkpoint"
    whole = weft.fit(model, data, restarts=1, seed=2)
    part = weft.fit(model, data, restarts=1, seed=2, checkpoint=file, max_iterations=7)
    assert part.outcome is weft.Outcome.OUT_OF_ITERATIONS
    as_far = weft.fit(model, data, restarts=1, seed=2, checkpoint=file, resume=True, max_iterations=7)
    assert as_far.num_engine_calls == 0
    assert (as_far.log_evidence, as_far.message, as_far.history) == (part.log_evidence, part.message, part.history)
    resumed = weft.fit(model, data, restarts=1, seed=2, checkpoint=file, resume=True)
    assert_allclose(resumed.objective, whole.objective, atol=1e-5)
    again = weft.fit(model, data, restarts=1, seed=2, checkpoint=file, resume=True)
    assert again.num_evaluations == resumed.num_evaluations
    assert again.log_evidence == resumed.log_evidence
    assert again.history == resumed.history
    assert [path.name for path in tmp_path.iterdir()] == ["fit.checkpoint"]


def test_checkpoints_of_other_fits_and_damaged_ones_are_refused(problem, tmp_path):
    model, data = problem
    file = tmp_path / "fit.checkpoint"
    weft.fit(model, data, checkpoint=file, max_iterations=2)
    with pytest.raises(ValueError, match="another fit"):
        weft.fit(model, data, checkpoint=file, resume=True, frozen=["likelihood"])
    with pytest.raises(ValueError, match=r"another fit \(its data, .* differ\); remove it, or fit without resuming$"):
        weft.fit(model, two_components(seed=2)[1], checkpoint=file, resume=True)
    whole = file.read_bytes()
    for damaged in (whole[: len(whole) // 2], b"", b"nonsense", whole[:200] + b"\0" * 50 + whole[250:]):
        file.write_bytes(damaged)
        with pytest.raises(ValueError, match="not a checkpoint"):
            weft.fit(model, data, checkpoint=file, resume=True)
    with pytest.raises(FileNotFoundError, match="no folder"):
        weft.fit(model, data, checkpoint=tmp_path / "absent" / "fit.checkpoint")


KILLED = """
    import json, sys, time
    import jax
    jax.config.update("jax_enable_x64", True)
    import weft
    from tests.training.problem import two_components

    model, data = two_components()
    def slowly(step):
        print("step", flush=True)
        time.sleep({pause})
    result = weft.fit(model, data, checkpoint={file!r}, resume=True, callback=slowly, progress=None)
    history = result.history
    print(json.dumps([result.log_evidence, result.converged, history[0].iteration, len(history)]), flush=True)
"""


def test_kill_9_and_resume_reach_the_same_optimum(problem, tmp_path):
    model, data = problem
    expected = weft.fit(model, data)
    file = tmp_path / "fit.checkpoint"

    def start(pause):
        code = textwrap.dedent(KILLED).format(file=str(file), pause=pause)
        return subprocess.Popen(
            [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": "src:."}
        )

    process = start(pause=0.05)
    for _ in range(6):
        assert process.stdout.readline() == "step\n"
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    left = file.stat().st_size
    assert left > 0
    output, _ = start(pause=0.0).communicate(timeout=120)
    log_evidence, converged, first, length = json.loads(output.splitlines()[-1])
    assert converged
    assert_allclose(log_evidence, expected.log_evidence, atol=1e-5)
    # The history goes on from before the kill, and not all steps were taken again.
    assert first == 0
    assert output.count("step") == length - 6


def test_bad_options_are_refused(problem):
    model, data = problem
    with pytest.raises(ValueError, match="power"):
        weft.fit(model, data, power=2.0)
    with pytest.raises(ValueError, match="progress"):
        weft.fit(model, data, progress="loud")
    with pytest.raises(ValueError, match="engine"):
        weft.fit(model, data, engine="steam")
    with pytest.raises(KeyError, match="warp"):
        weft.fit(model, data, frozen=["kernel.warp"])


def test_a_warm_start_learns_with_few_pseudo_points_first(problem):
    model, data = problem
    result = weft.fit(model, data, warm_start=3)
    assert [len(points) for points in result.warm_start.model.pseudo_points] == [3, 3]
    for few, all_points in zip(result.warm_start.model.pseudo_points, model.pseudo_points, strict=True):
        assert {tuple(point) for point in few} <= {tuple(point) for point in all_points}
    assert_array_equal(result.model.pseudo_points[1], model.pseudo_points[1])
    assert_allclose(
        result.history[0].log_evidence,
        weft.log_evidence(
            weft.Model(result.warm_start.model.kernel, result.warm_start.model.likelihood, model.pseudo_points), data
        ),
        rtol=1e-9,
    )
    assert result.converged
    assert result.log_evidence > result.history[0].log_evidence
    with pytest.raises(ValueError, match="warm_start"):
        weft.fit(model, data, warm_start=0)


def test_counts_are_learned_through_the_variational_bound():
    """A Poisson likelihood: several engine calls an evaluation, and an optimum that no small move improves."""
    rng = np.random.default_rng(5)
    times, places = np.repeat(np.arange(10.0), 4), np.tile(rng.uniform(0, 3, (4, 2)), (10, 1))
    data = weft.Observations(times, places, rng.poisson(np.exp(1 + np.sin(times / 2))).astype(float))
    model = weft.Model(weft.Separable(space=weft.Matern32(2.0), time=weft.Matern32(3.0)), weft.Poisson(), places[:3])
    result = weft.fit(model, data, frozen=["kernel.space.lengthscale"])
    assert result.converged
    assert result.num_engine_calls > result.num_evaluations
    space = make_space(model, frozen=["kernel.space.lengthscale"])
    top = space.start(result.model)
    for move in 0.05 * np.concatenate([np.eye(len(top)), -np.eye(len(top))]):
        assert weft.log_evidence(space.place_numpy(model, top + move), data) < result.log_evidence
