# SPDX-License-Identifier: MIT
"""The cpu engine under stress: failures, threads, processes, interrupts, its cache on disk."""

import concurrent.futures
import copy
import dataclasses
import logging
import multiprocessing
import os
import pathlib
import signal
import subprocess
import sys
import textwrap
import threading
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numba
import numpy as np
import pytest
import threadpoolctl
from numba.core.codegen import JITCodeLibrary
from numpy.testing import assert_allclose

from tests.engines import chains
from tests.oracles import chain as oracle
from weft.engines.cpu import CpuEngine, FilterFailure, Limits, by_numba, compiled, interrupts, machine_code, threads
from weft.engines.cpu.by_numba import OPTIONS, inlined_options
from weft.engines.cpu.rows import Observed
from weft.engines.cpu.switches import Met, Switches, find_switches, make_switches
from weft.state_space.chain import Rows

ROOT = pathlib.Path(__file__).resolve().parents[2]


def function_of_values(dense, engine=CpuEngine()):  # noqa: B008
    chain, weights, rows = jax.tree.map(jnp.asarray, chains.for_engine(dense))
    return lambda value: engine.log_normaliser(chain, weights, Rows(rows.layout, rows.place, value, rows.precision))


def blas_threads():
    return [library["num_threads"] for library in threadpoolctl.threadpool_info() if library["user_api"] == "blas"]


def with_transition(dense, number):
    """The same with one bad number in the transition of step 2, first used at time 3."""
    part = dense.parts[1]
    transition = part.transition.copy()
    transition[2] = number
    parts = (dense.parts[0], dataclasses.replace(part, transition=transition))
    return dataclasses.replace(dense, parts=parts, step_number=np.array([0, 1, 3, 2, 1, 1, 2, 3, 2, 1]))


@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_numbers_that_are_not_finite_are_named(number):
    with pytest.raises(FilterFailure, match="transition of component 1 is not finite at time step 3"):
        CpuEngine().log_normaliser(*chains.for_engine(with_transition(chains.stationary(), number)))


def test_a_failed_factorisation_names_its_time_step():
    """A process noise with a negative eigenvalue makes I + E P E' indefinite some steps later."""
    dense = chains.stationary()
    part = dense.parts[1]
    noise = part.process_noise.copy()
    noise[1] = -50 * np.eye(len(noise[1]))
    broken = dataclasses.replace(dense, parts=(dense.parts[0], dataclasses.replace(part, process_noise=noise)))
    for threads_used in (1, 2):
        with pytest.raises(FilterFailure, match=r"time step \d+ of 10 .*process noise"):
            CpuEngine(Limits(threads=threads_used)).log_normaliser(*chains.for_engine(broken))
    with pytest.raises(FilterFailure, match="time step"):
        jax.grad(function_of_values(broken))(jnp.asarray(dense.value))
    before = blas_threads()
    logging.disable(logging.ERROR)  # JAX logs what a callback raised
    try:
        with pytest.raises(Exception, match="time step"):
            jax.jit(jax.grad(function_of_values(broken)))(jnp.asarray(dense.value))
    finally:
        logging.disable(logging.NOTSET)
    assert blas_threads() == before


def test_negative_precision_and_wrong_shapes_are_refused():
    dense = chains.ragged()
    chain, weights, rows = chains.for_engine(dense)
    with pytest.raises(FilterFailure, match="precisions that are negative"):
        CpuEngine().log_normaliser(chain, weights, Rows(rows.layout, rows.place, rows.value, -rows.precision))
    with pytest.raises(ValueError, match="weights must be"):
        CpuEngine().log_normaliser(chain, weights[:, 1:], rows)
    with pytest.raises(ValueError, match="places must lie in"):
        CpuEngine().log_normaliser(chain, weights[:3], rows)
    with pytest.raises(ValueError, match="threads must be 1 or more"):
        Limits(threads=0)


def test_a_row_of_no_precision_still_has_a_gradient():
    dense = chains.stationary()
    precision = dense.precision.copy()
    precision[[2, 7, 20]] = 0.0
    dense = dataclasses.replace(dense, precision=precision)
    chain, weights, rows = jax.tree.map(jnp.asarray, chains.for_engine(dense))
    found = jax.grad(lambda p: CpuEngine().log_normaliser(chain, weights, Rows(rows.layout, rows.place, rows.value, p)))
    expected = np.empty(3)
    for k, row in enumerate((2, 7, 20)):
        for_row = []
        for step in (1e-6, 2e-6):
            moved = precision.copy()
            moved[row] = step
            for_row.append(oracle.log_normaliser(dataclasses.replace(dense, precision=moved)))
        at_zero = oracle.log_normaliser(dense)
        expected[k] = (4 * for_row[0] - for_row[1] - 3 * at_zero) / 2e-6
    # A one-sided difference (the square root has no complex step at 0) is good to the rounding of a value of 100 over 1e-6.
    assert_allclose(np.asarray(found(rows.precision))[[2, 7, 20]], expected, rtol=1e-5)


def test_jit_and_grad_and_vmap_compose_also_under_a_scoped_float64():
    dense = chains.stationary()
    value = function_of_values(dense)
    expected = oracle.log_normaliser(dense)
    at = jnp.asarray(dense.value)
    found, slope = jax.jit(jax.value_and_grad(lambda v: 2 * value(v)))(at)
    assert_allclose(found, 2 * expected, rtol=1e-11)
    assert_allclose(slope, 2 * oracle.gradient_in(dense, "value"), rtol=1e-9, atol=1e-12)
    both = jax.vmap(value)(jnp.stack([at, 2 * at]))
    assert_allclose(both[0], expected, rtol=1e-11)


MANY_CALLS = """
    import jax, jax.numpy as jnp, numpy as np, threading, threadpoolctl
    jax.config.update("jax_enable_x64", True)
    from tests.engines import chains
    from weft.engines.cpu import CpuEngine
    from weft.state_space.chain import Rows

    rng = np.random.default_rng(0)
    part = chains.matern(0, 2.0, np.array([0.0, 1.0]), 1)
    dense = chains.with_rows(rng, [part], [1, 1], 2, step_number=np.array([0, 1]))
    chain, weights, rows = jax.tree.map(jnp.asarray, chains.for_engine(dense))
    call = jax.jit(
        jax.value_and_grad(lambda v: CpuEngine().log_normaliser(chain, weights, Rows(rows.layout, rows.place, v, rows.precision)))
    )
    blas_threads = lambda: [library["num_threads"] for library in threadpoolctl.threadpool_info()]
    first, before, alive = float(call(rows.value)[0]), blas_threads(), threading.active_count()
    for _ in range(10_000):
        found, _ = call(rows.value)
    assert float(found) == first
    assert blas_threads() == before
    assert threading.active_count() <= alive + 1
    print("done")
"""


def python_process(source, *arguments):
    """A Python of its own, where shapes are not checked at every call."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(source), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environment,
    )


@pytest.mark.long
def test_ten_thousand_calls():
    """Neither a deadlock nor a leak of threads nor a lost BLAS setting nor a changed number."""
    with python_process(MANY_CALLS) as process:
        output, _ = process.communicate(timeout=400)
    assert output == "done\n"


def test_two_python_threads_at_once():
    """Each starts from both ends: four threads, and BLAS as found afterwards."""
    both_ends = CpuEngine(Limits(threads=2, seconds_for_two=-1e3))
    dense = [chains.stationary(seed) for seed in (1, 2)]
    calls = [jax.jit(jax.value_and_grad(function_of_values(each, both_ends))) for each in dense]
    expected = [float(call(jnp.asarray(each.value))[0]) for call, each in zip(calls, dense, strict=True)]
    before = blas_threads()

    def many(number):
        at = jnp.asarray(dense[number].value)
        return {float(calls[number](at)[0]) for _ in range(100)}

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        assert list(pool.map(many, (0, 1))) == [{expected[0]}, {expected[1]}]
    assert blas_threads() == before


def test_blas_threads_are_held_and_put_back():
    before = blas_threads()
    with threads.single_blas_thread():
        assert set(blas_threads()) == {1}
        with threads.single_blas_thread():
            pass
        assert set(blas_threads()) == {1}
    assert blas_threads() == before
    with pytest.raises(RuntimeError, match="inside"), threads.single_blas_thread():
        raise RuntimeError("inside")
    assert blas_threads() == before


def worker_value(queue, seed):
    """What a worker process computes: with NumPy alone, since JAX itself does not survive a fork."""
    queue.put(CpuEngine().last_state(*chains.for_engine(chains.stationary(seed)))[1])


@pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning", "ignore:This process:DeprecationWarning")
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_worker_processes(method):
    dense = chains.stationary(5)
    expected = float(CpuEngine().log_normaliser(*chains.for_engine(dense)))
    context = multiprocessing.get_context(method)
    queue = context.Queue()
    worker = context.Process(target=worker_value, args=(queue, 5))
    worker.start()
    found = queue.get(timeout=120)
    worker.join(timeout=60)
    assert worker.exitcode == 0
    assert_allclose(found, expected, rtol=1e-12)


LONG_CALL = """
    import signal, sys
    signal.signal(signal.SIGINT, signal.default_int_handler)
    import jax, jax.numpy as jnp, numpy as np, threading, time
    jax.config.update("jax_enable_x64", True)
    from tests.engines import chains
    from weft.engines.cpu import CpuEngine
    from weft.state_space.chain import Rows

    rng = np.random.default_rng(0)
    count = 200_000
    numbers = np.ones(count, dtype=int)
    numbers[0] = 0
    dense = chains.with_rows(rng, [chains.matern(1, 7.0, np.array([0.0, 1.0]), 200)], [10] * count, 20, step_number=numbers)
    chain, weights, rows = jax.tree.map(jnp.asarray, chains.for_engine(dense))
    CpuEngine().log_normaliser(*chains.for_engine(chains.stationary()))

    def value(v):
        return CpuEngine().log_normaliser(chain, weights, Rows(rows.layout, rows.place, v, rows.precision))

    # Two calls in one compiled function: JAX runs them on threads of its own.
    call = {"eager": jax.grad(value), "jit": jax.jit(jax.grad(value)), "threads": jax.jit(lambda v: value(v) + value(2 * v))}
    print("ready", flush=True)
    try:
        try:
            jax.block_until_ready(call[sys.argv[1]](rows.value))
        except Exception:
            time.sleep(5)
        print("not interrupted", flush=True)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
"""


@pytest.mark.parametrize("way", ["eager", "jit", "threads"])
def test_interrupt_ends_a_long_call(way):
    """The call would take a minute; KeyboardInterrupt comes within seconds of the signal, on whichever thread JAX runs it."""
    with python_process(LONG_CALL, way) as process:
        try:
            assert process.stdout.readline() == "ready\n"
            threading.Event().wait(3)
            process.send_signal(signal.SIGINT)
            output, _ = process.communicate(timeout=25)
        finally:
            process.kill()
    assert output == "interrupted\n"


ONE_PROCESSOR = """
    import os
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    import equinox, jax, numpy as np
    jax.config.update("jax_enable_x64", True)
    import weft

    rng = np.random.default_rng(0)
    times, places = np.repeat(np.arange(1000) * 0.1, 45), rng.uniform(0, 3, (45_000, 1))
    data = weft.Observations(times, places, rng.normal(size=45_000))
    kernel = weft.Separable(space=weft.EQ(1.0), time=weft.Matern32(2.0))
    model = weft.Model(kernel, weft.Gaussian(0.1), np.linspace(0, 3, 5)[:, None])
    compiled = equinox.filter_jit(weft.log_evidence)
    found = [float(compiled(model, data)) for _ in range(20)]
    np.testing.assert_allclose(found, float(weft.log_evidence(model, data)), rtol=1e-12)
    print("done")
"""


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="only Linux lets a process choose its processors")
def test_a_compiled_call_does_not_wait_for_itself_where_there_is_one_processor():
    with python_process(ONE_PROCESSOR) as process:
        try:
            output, _ = process.communicate(timeout=150)
        finally:
            process.kill()
    assert output == "done\n"


def test_watching_leaves_another_watcher_alone():
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    before = signal.set_wakeup_fd(writer)
    try:
        watch = interrupts._Watch()
        watch.start()
        assert watch.reader == -1
        assert signal.set_wakeup_fd(writer) == writer
    finally:
        signal.set_wakeup_fd(before)
        os.close(reader)
        os.close(writer)


def test_kernels_are_cached_where_the_user_can_write(tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "given"))
    assert compiled.cache_folder() == tmp_path / "given" / f"kernels-{compiled.source_digest()}"
    monkeypatch.delenv("NUMBA_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert compiled.cache_folder().is_relative_to(tmp_path / "cache")
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert compiled.cache_folder() is None


def test_the_cache_is_found_again():
    """The kernels of this very process came from, or went to, the folder: a process after it does not compile."""
    compiled.kernels()
    folder = compiled.cache_folder()
    assert compiled._is_kept(folder, "run_forward")
    assert compiled._is_kept(folder, "run_backward")
    assert not compiled._is_kept(folder, "run")


def test_a_kernel_is_compiled_by_another_process_meanwhile(tmp_path, monkeypatch):
    """And by this one where the other could not; nothing that lies where somebody works is run for it."""
    started = []

    def start(command, *, env, **quiet):
        started.append((command, env["NUMBA_CACHE_DIR"]))
        return subprocess.Popen([sys.executable, "-c", "raise SystemExit(1)"], **quiet)

    monkeypatch.setattr(compiled, "processors_of_process", lambda: 2)
    monkeypatch.setattr(compiled, "subprocess", SimpleNamespace(Popen=start, DEVNULL=subprocess.DEVNULL))
    folder = tmp_path / "kernels-0"
    with compiled._compiled_meanwhile(folder, "run_backward"):
        pass
    ((command, root),) = started
    assert root == str(tmp_path)
    assert "keep_backward" in command[-1]
    (tmp_path / "random.py").write_text("raise SystemExit('not the one of Python')")
    subprocess.run([*command[:-1], "import random"], cwd=tmp_path, check=True)
    (folder / "cpu").mkdir(parents=True)
    (folder / "cpu" / "adjoint.run_backward-1.py311.nbi").touch()
    with compiled._compiled_meanwhile(folder, "run_backward"):
        pass
    assert len(started) == 1, "what is there already is not compiled again"


@pytest.mark.skipif(compiled.fcntl is None, reason="files cannot be locked here")
def test_processes_that_start_together_compile_a_kernel_once(tmp_path):
    """Another kernel waits for nobody, nor does anyone where there is no folder."""
    folder, entered = tmp_path, []

    def enter(where, name):
        with compiled._alone(where, name):
            entered.append(name)

    with compiled._alone(folder, "run_forward"):
        # A lock is of the file as it was opened: a thread waits as a process does.
        waiting = threading.Thread(target=enter, args=(folder, "run_forward"))
        waiting.start()
        waiting.join(0.2)
        enter(folder, "run_backward")
        enter(None, "run_forward at once")
        assert entered == ["run_backward", "run_forward at once"]
    waiting.join(20)
    assert entered[2:] == ["run_forward"]


def test_who_stops_waiting_for_kernels_leaves_no_process_behind(tmp_path, monkeypatch):
    processes = []

    def start(command, *, env, **quiet):
        processes.append(subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], **quiet))
        return processes[0]

    monkeypatch.setattr(compiled, "processors_of_process", lambda: 2)
    monkeypatch.setattr(compiled, "subprocess", SimpleNamespace(Popen=start, DEVNULL=subprocess.DEVNULL))
    with pytest.raises(KeyboardInterrupt), compiled._compiled_meanwhile(tmp_path, "run_backward"):
        raise KeyboardInterrupt
    assert processes[0].returncode is not None


def _twice(number):
    return 2 * number


def test_a_numba_that_was_not_tried_compiles_its_own_way():
    assert set(inlined_options("0.61.2")) == {"pipeline_class"}
    assert inlined_options("0.69.0rc1") == inlined_options("1.0.0") == {}


@pytest.mark.skipif(not inlined_options(numba.__version__), reason="tried with older versions of numba only")
def test_what_kernels_inline_becomes_machine_code_within_them_alone(monkeypatch):
    """Else every function is optimised and compiled once more for each that calls it: twice the wait for an engine."""
    made = []
    finalize = JITCodeLibrary._finalize_specific
    monkeypatch.setattr(
        JITCodeLibrary, "_finalize_specific", lambda library: (made.append(library.name), finalize(library))
    )
    inner = numba.njit(**OPTIONS)(_twice)

    def outer(number):
        return inner(number) + inner(number + 1)

    compiled_outer = numba.njit(**OPTIONS | {"no_cpython_wrapper": False, "pipeline_class": None})(outer)
    assert compiled_outer(3) == 14
    assert any(name.endswith("outer") for name in made)
    assert not any(name.endswith("_twice") for name in made)


@pytest.fixture
def crowded():
    """Rows of which some places are seen twice, and where it is told which rows change when."""
    row_start, row_stop = np.array([0, 3, 6]), np.array([3, 6, 9])
    place = np.array([0, 1, 2, 0, 1, 3, 0, 2, 3])
    rng = np.random.default_rng(5)
    observed = Observed(place, rng.normal(size=9), np.full(9, 1.5), rng.normal(size=4 * 2))
    return observed, 2, Met(np.zeros(4, dtype=np.int64), np.zeros(4)), make_switches(row_start, row_stop, 2, 4)


KINDS_OF_FIND = (Observed, int, Met, Switches)


def found_by(find, crowded):
    """What `find_switches` gives back and leaves behind."""
    given = copy.deepcopy(crowded)
    return find(*given), given


@pytest.mark.skipif(not machine_code.may_be_kept(), reason="machine code is kept by numba here")
def test_machine_code_that_was_kept_does_what_numba_does(tmp_path, monkeypatch, capfd, crowded):
    """Said to be compiled once; after that it is there without numba, and what is cut short or of another kind is not run."""
    monkeypatch.setattr(by_numba, "_notice", by_numba._Notice())
    total, left = found_by(compiled._compile(tmp_path, find_switches, KINDS_OF_FIND, "q"), crowded)
    assert "compiling the cpu engine, once on this machine" in capfd.readouterr().err
    by_numba_total, by_numba_left = found_by(
        by_numba.compile_by_numba(find_switches, KINDS_OF_FIND, str(tmp_path / "by numba")), crowded
    )
    assert total == by_numba_total > 0
    jax.tree.map(np.testing.assert_array_equal, left, by_numba_left)
    capfd.readouterr()
    (path,) = tmp_path.glob("find_switches-*.code")
    takes = machine_code.words_of(KINDS_OF_FIND, "q")
    code = machine_code.MachineCode.read(path, takes)
    again = compiled._compile(tmp_path, find_switches, KINDS_OF_FIND, "q")
    assert "compiling" not in capfd.readouterr().err
    assert found_by(again, crowded)[0] == total
    observed, *others = crowded
    with pytest.raises(TypeError, match="takes 1 dimensions of float64"):
        again(observed._replace(value=observed.value.astype(np.float32)), *others)
    with pytest.raises(TypeError, match="takes a Observed here; it is given a Met"):
        again(others[1], *others)
    assert machine_code.MachineCode.read(path, machine_code.words_of(KINDS_OF_FIND[1:], "q")) is None
    assert machine_code.MachineCode.read(path, machine_code.words_of(KINDS_OF_FIND, "d")) is None
    path.write_bytes(path.read_bytes()[:-1])
    assert machine_code.MachineCode.read(path, takes) is None
    assert machine_code.MachineCode.read(tmp_path / "nothing", takes) is None
    assert code is not None
    assert code.symbol


def test_kernels_of_the_same_source_are_kept_by_names_of_their_own():
    """Sweeps by switches are those of time by time with other functions in them: one must never be found in place of the other."""
    kernels = [value for value in vars(compiled).values() if callable(value) and value.__name__.startswith("run_")]
    assert len(kernels) == 7
    # Of each its own files, however they are kept: numba names them after the qualified name.
    for name in ("__name__", "__qualname__"):
        assert len({getattr(kernel, name) for kernel in kernels}) == 7


@pytest.mark.skipif(not machine_code.may_be_kept(), reason="machine code is kept by numba here")
def test_who_finds_kernels_needs_no_numba():
    compiled.kernels()
    code = (
        "import sys; from weft.engines.cpu import compiled; compiled.kernels(); "
        "print(sorted({name.partition('.')[0] for name in sys.modules} & {'numba', 'cffi'}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
