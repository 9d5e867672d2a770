# SPDX-License-Identifier: MIT
"""Tasks elsewhere: answers in order, errors as sentences, lost workers."""

import functools
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import psutil
import pytest

from tests.distributed.deadly import Deadly, busy, die, die_once, over, root, slow, threads
from weft.distributed import Processes, TaskError, executor_for
from weft.distributed.on_dask import OnDask, evened_out
from weft.inference.executor import Executor, Threads
from weft.inference.watching import tasks_shown

CASES = ["processes", "dask"]
distributed = pytest.importorskip("distributed")

NAMES = ["region 0", "region 1", "region 2"]


@pytest.fixture(scope="module")
def processes() -> Iterator[Processes]:
    with Processes(2) as executor:
        yield executor


@pytest.fixture(params=CASES)
def executor(request: pytest.FixtureRequest) -> Executor:
    if request.param == "processes":
        return request.getfixturevalue("processes")
    return executor_for(request.getfixturevalue("client"))


def test_answers_come_in_the_order_of_the_tasks_however_many_there_are(executor):
    held = executor.hold(16.0)
    assert executor.map(root, [held, 9.0, 4.0, 1.0, held]) == [4.0, 3.0, 2.0, 1.0, 4.0]
    assert executor.map(root, []) == []


def test_an_error_comes_back_as_a_sentence_that_names_the_task(executor):
    with pytest.raises(TaskError, match=r"^region 1, days 3 to 5 failed on a worker: -2 has no real root$"):
        executor.map(root, [4.0, -2.0], names=["region 0, days 1 to 2", "region 1, days 3 to 5"])
    assert executor.map(root, [4.0]) == [2.0]


def test_what_is_done_again_is_one_call_a_worker(client, monkeypatch):
    """Answers, errors and names are those of tasks, and Dask is given none."""
    executor = executor_for(client)
    held = [executor.hold(number) for number in (4.0, 9.0, 16.0, -1.0, 0.0)]
    assert executor.map(threads, held) == [(1, 1)] * 5
    with monkeypatch.context() as patched:
        patched.setattr(client, "map", None)
        assert executor.map(root, held[2::-1], again=True) == [4.0, 3.0, 2.0]
        assert executor.map(threads, held, again=True) == [(1, 1)] * 5
        with pytest.raises(ZeroDivisionError):
            executor.map(over, held, again=True)
        with pytest.raises(TaskError, match=r"^region 2 failed on a worker: -1 has no real root$"):
            executor.map(root, [held[0], held[1], held[3]], names=NAMES, again=True)
    # Those without a piece of their own are tasks.
    assert executor.map(root, [25.0, held[0], 36.0], again=True) == [5.0, 2.0, 6.0]


def test_work_is_shared_out_by_what_a_call_has_taken(client, addresses, monkeypatch):
    """Of pieces given out in turn one worker had all that take long: one of those goes to the other, and what is lost is made again."""
    executor = OnDask(client, addresses[:2])
    held = [executor.hold(seconds) for seconds in (0.3, 0.01, 0.3, 0.01)]
    everyone = executor.map(busy, held)
    first = executor.map(busy, held, again=True)
    assert len(set(everyone[::2])) == len(set(first[::2])) == 1
    copies = list(executor._copies.values())
    distributed.wait(copies)
    with monkeypatch.context() as patched:
        patched.setattr(client, "map", None)
        second = executor.map(busy, held, again=True)
        assert second[0] != second[2]
        assert executor.map(busy, held, again=True) == second
    assert list(executor._copies.values()) == copies
    # Whoever has the copy dies.
    os.kill(second[next(number for number in (0, 2) if second[number] != first[number])], signal.SIGKILL)
    assert len(set(executor.map(busy, held, again=True))) <= 3
    client.wait_for_workers(3)
    del held, copies
    assert not executor._copies
    assert not executor._places


@pytest.mark.parametrize(
    ("seconds", "ends"),
    [
        ((22, 17, 17, 17, 47, 31), [70, 81]),
        ((10, 1, 10, 1, 10, 1), [13, 20]),
        ((5, 5, 5, 5, 5, 5), [15, 15]),
        ((0, 0, 0, 0, 0, 0), [0, 0]),
    ],
)
def test_pieces_move_until_no_move_is_worth_while(seconds, ends):
    places = {number: "ab"[number % 2] for number in range(6)}
    found = evened_out(places, dict(enumerate(map(float, seconds))))
    assert sorted(sum(seconds[n] for n in found if found[n] == worker) for worker in "ab") == ends
    assert evened_out({}, {}) == {}


def test_a_worker_that_dies_in_a_call_costs_it_its_tasks_only(client, tmp_path):
    executor = executor_for(client)
    held = [executor.hold(number) for number in (4.0, 9.0, 16.0)]
    assert executor.map(root, held) == [2.0, 3.0, 4.0]
    task = functools.partial(die_once, root, tmp_path / "died", os.getpid())
    assert executor.map(task, [False, True, False], held, again=True) == [2.0, 3.0, 4.0]
    assert (tmp_path / "died").exists()
    assert executor.map(root, held, again=True) == [2.0, 3.0, 4.0]


def test_what_an_optimiser_survives_keeps_its_type(executor):
    with pytest.raises(ZeroDivisionError):
        executor.map(over, [2.0, 0.0])


def test_a_worker_that_dies_costs_its_task_only(executor, tmp_path):
    deadly = Deadly(executor, tmp_path / "died", "region 1")
    assert deadly.map(root, [4.0, 9.0, 16.0], names=[f"region {number}" for number in range(3)]) == [2.0, 3.0, 4.0]
    assert (tmp_path / "died").exists()


def test_a_task_has_one_thread_of_blas_and_of_the_engine(executor):
    assert executor.map(threads, [0, 1]) == [(1, 1), (1, 1)]


def test_how_far_tasks_are_is_said_where_they_take_long(executor, caplog, monkeypatch):
    with caplog.at_level(logging.INFO, "weft"), tasks_shown("log"):
        for each in (executor, Threads(1)):
            each.map(root, [4.0, 9.0, 16.0], names=NAMES)
        assert caplog.messages == []
        monkeypatch.setattr("weft.inference.watching.SECONDS_BEFORE", 0.0)
        for each in (executor, Threads(1)):
            caplog.clear()
            each.map(root, [4.0, 9.0, 16.0], names=NAMES)
            assert [said.rpartition(" about ")[0] for said in caplog.messages] == [
                "1 of 3 tasks done, the last region 0",
                "2 of 3 tasks done, the last region 1",
            ]
            assert all(said.endswith(" s left") for said in caplog.messages)
        caplog.clear()
        with tasks_shown(None):
            executor.map(root, [4.0, 9.0, 16.0])
    assert caplog.messages == []


def test_tasks_within_tasks_are_not_shown(caplog, monkeypatch):
    monkeypatch.setattr("weft.inference.watching.SECONDS_BEFORE", 0.0)
    with caplog.at_level(logging.INFO, "weft"), tasks_shown("log"):
        Threads(1).map(lambda number: Threads(1).map(root, [number, 4.0]), [9.0, 16.0], names=["fold 0", "fold 1"])
    assert [said.rpartition(" about ")[0] for said in caplog.messages] == ["1 of 2 tasks done, the last fold 0"]


def test_an_interrupt_leaves_nothing_running(executor, tmp_path):
    """What has begun may come to its end; of the rest nothing is done, and there are workers for others."""
    executor.map(root, [1.0])

    def interrupt() -> None:
        while not any(tmp_path.iterdir()):
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        executor.map(functools.partial(slow, tmp_path), range(30))
    assert executor.map(root, [25.0, 36.0]) == [5.0, 6.0]
    # Some workers had a task each, or were about to begin with it, which on a busy machine takes a while.
    begun, before = len(list(tmp_path.iterdir())), 0
    while begun > before:
        time.sleep(1.5)
        begun, before = len(list(tmp_path.iterdir())), begun
    assert 0 < begun < 20


@pytest.mark.parametrize("case", CASES)
def test_ctrl_c_on_a_terminal_goes_to_all_processes_and_only_the_first_is_interrupted(case, tmp_path):
    """They are in one group; the tasks under way would take a minute."""
    program = (
        "import sys, time\n"
        "if __name__ == '__main__':\n"
        "    if sys.argv[1] == 'processes':\n"
        "        sys.modules['dask'] = sys.modules['distributed'] = None\n"
        "    from weft.distributed import cluster, executor_for\n"
        "    with cluster(workers=2) as client:\n"
        "        executor = executor_for(client)\n"
        "        executor.map(time.sleep, [0.0])\n"
        "        print('begun', flush=True)\n"
        "        try:\n"
        "            executor.map(time.sleep, [60.0] * 3)\n"
        "        except KeyboardInterrupt:\n"
        "            print('interrupted', flush=True)\n"
    )
    (tmp_path / "program.py").write_text(program)
    command = [sys.executable, tmp_path / "program.py", case]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        assert process.stdout.readline() == "begun\n"
        others = psutil.Process(process.pid).children(recursive=True)
        assert len(others) >= 2
        time.sleep(0.5)
        os.killpg(process.pid, signal.SIGINT)
        said, errors = process.communicate(timeout=30)
    assert (process.returncode, said) == (0, "interrupted\n"), errors
    # Dask may still say that a worker in the middle of a task misses its scheduler.
    assert "KeyboardInterrupt" not in errors
    assert psutil.wait_procs(others, timeout=10)[1] == []


def test_a_task_that_kills_every_worker_is_given_up(processes):
    with pytest.raises(TaskError, match=r"^block 7 lost its process 4 times; .* fewer processes$"):
        processes.map(die, [0], names=["block 7"])
    assert processes.map(root, [25.0]) == [5.0]


def test_a_task_that_kills_every_worker_of_dask_is_given_up(client, monkeypatch):
    """Dask itself counts; that it does is not tried again here, since every worker would have to be started anew four times."""
    distributed = pytest.importorskip("distributed")

    def killed(*given, **options):
        raise distributed.KilledWorker("task", None, 3)

    monkeypatch.setattr(distributed, "wait", killed)
    with pytest.raises(TaskError, match=r"^block 7 lost its worker 4 times; .* fewer on a machine$") as caught:
        executor_for(client).map(root, [4.0], names=["block 7"])
    assert caught.value.for_people


def test_other_clients_are_refused_with_a_sentence():
    with pytest.raises(TypeError, match=r"client must be a dask\.distributed\.Client.*; it is a str"):
        executor_for("tcp://127.0.0.1:8786")


def test_without_dask_tables_are_fitted_and_answered_here():
    program = (
        "import sys\n"
        "sys.modules['dask'] = sys.modules['distributed'] = None\n"
        "import weft, weft.demo\n"
        "table = weft.demo.temperatures(stations=5, days=9)\n"
        "gp = weft.SpaceTimeGP(time='date', space=('lat', 'lon'), target='tmax', components=('slow',), habits=None,\n"
        "    max_iterations=1, engine='dense', regions=None, progress=None)\n"
        "gp.fit(table)\n"
        "print([len(answer) == len(table) for answer in (gp.predict(table), gp.fill(table), gp.sample(table, num=1))])\n"
        "print('rmse' in gp.score(table))\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert ended.stdout.splitlines() == ["[True, True, True]", "True"], ended.stderr


def test_without_dask_asking_for_a_client_says_what_to_install():
    program = (
        "import sys\n"
        "sys.modules['dask'] = sys.modules['distributed'] = None\n"
        "import weft.distributed as d\n"
        "with d.cluster(workers=2) as client:\n"
        "    print(type(client).__name__)\n"
        "try:\n"
        "    d.executor_for('tcp://here')\n"
        "except ImportError as error:\n"
        "    print(error)\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert ended.stdout.splitlines() == [
        "Processes",
        'client= needs dask and distributed, not installed here; run pip install "weft[dask]" first',
    ], ended.stderr
