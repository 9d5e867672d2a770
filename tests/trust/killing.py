# SPDX-License-Identifier: MIT
"""Processes killed at random moments, and what is there afterwards: `python -m tests.trust.killing writers|fits SEED KILLS`.

This process computes nothing itself, so that those it forks can: one works and is killed, another looks at what it left. It ends with
status 0 where every look found whole files, and says how many there were.
"""

import collections
import contextlib
import os
import pathlib
import random
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable

import weft
from tests.estimator.tables import station_table
from tests.trust.formats import FORMATS
from weft.cli import main as command_line
from weft.data.atomic import check_output

FIT = ("fit", "t.csv", "--time", "time", "--space", "lon,lat,elevation", "--target", "value", "--pseudo-points", "3")
FIT = (*FIT, "--components", "slow,fast", "--habits", "none", "--max-iterations", "12", "-o", "m.weft")


def in_child(work: Callable[[], None]) -> int:
    """A forked process that does `work`, and its number."""
    process = os.fork()
    if process == 0:
        status = 1
        try:
            work()
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    return process


def finish(process: int) -> None:
    _, status = os.waitpid(process, 0)
    if status != 0:
        raise SystemExit(f"a process ended with status {status}")


def kill_after(process: int, seconds: float) -> bool:
    """Kill it then, with no warning; False if it had ended well before."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        done, status = os.waitpid(process, os.WNOHANG)
        if done:
            assert status == 0, f"it failed by itself, with status {status}"
            return False
        time.sleep(0.001)
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    return True


def write_for_ever() -> None:
    version = 1
    while True:
        version += 1
        for name, kind in FORMATS.items():
            kind.write(pathlib.Path(name), version)


def look_at_writers() -> None:
    for name, kind in FORMATS.items():
        assert kind.read(pathlib.Path(name)) >= 1
        check_output(name, is_folder=name.endswith(".zarr"))
    assert sorted(os.listdir()) == sorted(FORMATS), os.listdir()


def kill_writers(rng: random.Random, kills: int) -> collections.Counter[str]:
    def first() -> None:
        for name, kind in FORMATS.items():
            kind.write(pathlib.Path(name), 1)

    finish(in_child(first))
    for _ in range(kills):
        kill_after(in_child(write_for_ever), rng.uniform(0.05, 0.8))
        finish(in_child(look_at_writers))
    return collections.Counter(writers_killed=kills)


def fit(*more: str) -> None:
    with open("out", "w") as out, contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        status = command_line([*FIT, *more])
    assert status == 0, pathlib.Path("out").read_text()


def look_at_fit() -> None:
    if os.path.exists("m.weft"):
        assert isinstance(weft.load("m.weft"), weft.SpaceTimeGP)
    check_output("m.weft")
    check_output("m.weft.checkpoint")
    assert set(os.listdir()) <= {"t.csv", "out", "m.weft", "m.weft.checkpoint", "expected.weft"}, os.listdir()


def look_at_end() -> None:
    found, expected = weft.load("m.weft"), weft.load("expected.weft")
    assert not os.path.exists("m.weft.checkpoint")
    # The search forgets its curvatures when it is resumed, so it may end elsewhere, but no worse.
    worse = expected.posterior_.log_evidence - found.posterior_.log_evidence
    assert worse < 0.5, f"resumed, the fit came to a log evidence that is {worse} lower"


def kill_fits(rng: random.Random, kills: int) -> collections.Counter[str]:
    """One fit after another, each resumed until it is done."""
    counts: collections.Counter[str] = collections.Counter()
    station_table().to_csv("t.csv", index=False)
    # The first one compiles; the second says how long one takes.
    finish(in_child(fit))
    started = time.monotonic()
    finish(in_child(fit))
    duration = time.monotonic() - started
    os.replace("m.weft", "expected.weft")
    while counts["fits_killed"] < kills:
        patience = duration
        while kill_after(in_child(lambda: fit("--resume")), rng.uniform(0.3, 1.3) * patience):
            # Machines get slower while others work on them; a fit must be done some day.
            patience *= 1.2
            counts["fits_killed"] += 1
            counts["with_a_checkpoint"] += os.path.exists("m.weft.checkpoint")
            finish(in_child(look_at_fit))
        counts["fits_finished"] += 1
        finish(in_child(look_at_end))
        os.unlink("m.weft")
    return counts


def main(kind: str, seed: str, kills: str) -> None:
    cache = os.environ.get("JAX_COMPILATION_CACHE_DIR")
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as own_cache:
        os.environ["JAX_COMPILATION_CACHE_DIR"] = cache or own_cache
        os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
        os.chdir(folder)
        done = {"writers": kill_writers, "fits": kill_fits}[kind](random.Random(int(seed)), int(kills))
        os.chdir("/")
    print(dict(done))


if __name__ == "__main__":
    main(*sys.argv[1:])
