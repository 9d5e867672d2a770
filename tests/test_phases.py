# SPDX-License-Identifier: MIT
"""What each phase took: disjoint phases that add up, whoever does the work, and nothing where nobody asks."""

import concurrent.futures
import contextlib
import copy
import itertools
import pathlib
import pickle
import time

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

import weft
from weft import phases
from weft.distributed import Processes
from weft.phases import Spent, Timings, add_processor_seconds, on_other_threads, recording, spent_so_far, timing


@pytest.fixture
def ticks(monkeypatch):
    """Clocks that are set by hand: `ticks(processor, clock, resident, highest)` goes on by so much, memory being what is said."""
    now = [0.0, 0.0, 0, 0]
    monkeypatch.setattr(phases, "_of_process", lambda: phases._Reading(*now))

    def advance(processor, clock, resident=0, highest=0):
        now[:] = now[0] + processor, now[1] + clock, resident or now[2], max(highest, now[3])

    return advance


def test_time_belongs_to_the_innermost_phase_alone(ticks):
    with recording("learn") as account:
        ticks(1.0, 2.0)
        with timing("read"):
            ticks(0.25, 0.5)
            with timing("compile"):
                ticks(8.0, 4.0)
            ticks(0.5, 0.125)
        ticks(16.0, 32.0)
    found = account.so_far()
    assert {name: spent[:2] for name, spent in found.items()} == {
        "compile": (8.0, 4.0),
        "read": (0.75, 0.625),
        "learn": (17.0, 34.0),
    }
    assert found.total[:2] == (25.75, 38.625)


def test_memory_is_the_record_of_the_phase_that_set_it_and_else_what_was_held(ticks):
    with recording("learn") as account:
        ticks(1, 1, resident=50, highest=70)
        with timing("read"):
            ticks(1, 1, resident=90, highest=400)
        ticks(1, 1, resident=80)
    assert {name: spent.peak_bytes for name, spent in account.so_far().items()} == {"read": 400, "learn": 80}


def test_a_recording_within_another_goes_on_with_it(ticks):
    with recording() as whole:
        ticks(1, 1)
        with recording("predict") as inner:
            ticks(2, 2)
    assert inner is whole
    assert {name: spent[0] for name, spent in whole.so_far().items()} == {"predict": 2, "other": 1}


def test_a_phase_that_fails_is_left(ticks):
    with recording("learn") as account:
        with contextlib.suppress(KeyError), timing("read"):
            ticks(1, 1)
            raise KeyError
        ticks(2, 2)
    assert account.so_far()["learn"][:2] == (2, 2)


def test_without_a_recording_nothing_is_kept():
    with timing("read"):
        pass
    add_processor_seconds(3.0)
    assert len(spent_so_far()) == 0

    def work():
        return 3

    assert on_other_threads(work) is work


def test_timings_add_and_subtract():
    one = Timings({"read": Spent(1.0, 2.0, 30), "learn": Spent(4.0, 8.0, 10)})
    more = Timings({"learn": Spent(0.5, 0.25, 70), "write": Spent(3.0, 3.0, 5)})
    both = one + more
    assert list(both) == ["read", "learn", "write"]
    assert both["learn"] == Spent(4.5, 8.25, 70)
    assert dict(both - one) == {"learn": Spent(0.5, 0.25, 70), "write": Spent(3.0, 3.0, 5)}
    assert both.total == Spent(8.5, 13.25, 70)
    lines = str(both).splitlines()
    assert [line.split()[0] for line in lines] == ["phase", "read", "learn", "write", "total"]
    assert lines[2].split() == ["learn", "4.50", "s", "8.25", "s", "0", "MB"]
    assert "<td>8.25 s</td>" in both._repr_html_()


def test_what_jax_compiles_is_told_from_what_it_computes():
    counter = itertools.count()

    def work(x):
        next(counter)
        time.sleep(0.05)
        return jax.jit(lambda y: y @ y + 1.7)(x)

    with recording("learn") as account:
        compiled = jax.jit(work)
        first = compiled(jnp.ones((3, 3)))
        after_one = account.so_far()
        again = compiled(jnp.ones((3, 3)))
        after_two = account.so_far()
    np.testing.assert_array_equal(first, again)
    assert next(counter) == 1
    # Tracing slept, which takes the clock's seconds and not the processor's; a second call does not compile.
    assert after_one["compile"].clock_seconds >= 0.05
    assert after_two["compile"] == after_one["compile"]


def test_threads_that_work_for_a_phase_move_what_they_compile_out_of_it():
    def work(number):
        with timing("compile"):
            end = time.thread_time() + 0.02 * number
            while time.thread_time() < end:
                pass

    with recording("learn") as account:
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            list(pool.map(on_other_threads(work), [1, 2]))
        found = account.so_far()
    assert 0.06 <= found["compile"].processor_seconds <= found.total.processor_seconds
    assert found["compile"].clock_seconds == 0.0
    assert found["learn"].clock_seconds >= 0.04


def _busy(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass
    return seconds


def test_processes_are_counted_by_the_phase_that_waits_for_them():
    with Processes(1) as executor, recording("learn") as account:
        begun = time.process_time()
        with timing("evaluate"):
            assert executor.map(_busy, [0.2, 0.3]) == [0.2, 0.3]
        here = time.process_time() - begun
        found = account.so_far()
    assert found["evaluate"].processor_seconds >= 0.5
    assert found.total.processor_seconds >= here + 0.5


@pytest.fixture(scope="module")
def fitted():
    generator = np.random.default_rng(3)
    places = generator.uniform(0, 3, size=(4, 2))
    table = pd.DataFrame(
        {"t": np.repeat(np.arange(9.0), 4), "x": np.tile(places[:, 0], 9), "y": np.tile(places[:, 1], 9)}
    )
    table["value"] = np.sin(table["t"]) + 0.3 * table["x"] + 0.1 * generator.normal(size=len(table))
    gp = weft.SpaceTimeGP(
        time="t", space=("x", "y"), target="value", components=("slow",), max_iterations=2, progress=None
    )
    return gp.fit(table), table


def test_an_estimator_has_timings_of_its_fit_and_of_every_question_since(fitted):
    gp, table = copy.deepcopy(fitted[0]), fitted[1]
    fit = gp.timings_
    assert {"read", "learn", "condition"} <= set(fit)
    assert not {"predict", "evaluate", "report", "import"} & set(fit)
    gp.predict(table)
    gp.score(table)
    found = gp.timings_
    assert found["predict"].clock_seconds > 0
    assert found["evaluate"].clock_seconds > 0
    assert found["learn"] == fit["learn"]
    gp.fit(table)
    assert not {"predict", "evaluate"} & set(gp.timings_)


def test_what_a_question_asks_on_the_way_is_counted_once(fitted, tmp_path):
    gp = copy.deepcopy(fitted[0])
    begun = gp.timings_.total.clock_seconds
    clock = time.perf_counter()
    gp.report(tmp_path / "report.html", checks=("random",))
    took = time.perf_counter() - clock
    assert gp.timings_.total.clock_seconds - begun <= took
    assert gp.timings_["report"].clock_seconds > 0
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    block = page[page.index('id="reproduce"') :]
    for name in ("learn", "condition", "report", "total"):
        assert f'<th scope="row">{name}</th>' in block


def test_timings_go_where_an_estimator_goes(fitted, tmp_path):
    gp = fitted[0]
    assert dict(pickle.loads(pickle.dumps(gp)).timings_) == dict(gp.timings_)
    assert not hasattr(weft.SpaceTimeGP(**gp.get_params()), "timings_")
    gp.save(tmp_path / "model.weft")
    # What was spent on another day, perhaps elsewhere, is not this process's.
    assert dict(weft.load(tmp_path / "model.weft").timings_) == {}
    with pytest.raises(ValueError, match="not learned"):
        weft.SpaceTimeGP(**gp.get_params()).score(fitted[1])


def test_a_question_that_fails_leaves_no_trace(fitted):
    gp = copy.deepcopy(fitted[0])
    before = gp.timings_
    with pytest.raises(KeyError):
        gp.predict(fitted[1][["t", "x"]])
    assert gp.timings_ is before


def test_every_phase_is_told_on_its_page():
    page = pathlib.Path(__file__).parents[1] / "docs" / "how-to" / "see-where-time-goes.md"
    lines = [line.split("|")[1] for line in page.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    assert [name.strip() for line in lines[1:] for name in line.split(",")] == list(phases.PHASES)
