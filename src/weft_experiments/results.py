# SPDX-License-Identifier: MIT
"""What every experiment writes: its numbers (`expected.json`), its page (`README.md`), and where they were measured.

A page is a function of the numbers alone, so nothing on it is typed in.
"""

import contextlib
import dataclasses
import datetime
import importlib.metadata
import json
import logging
import os
import pathlib
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import ModuleType
from typing import Any

import jax
import numpy as np

from weft import __version__
from weft.data.atomic import write_whole
from weft.engines.cpu.threads import num_processors
from weft.phases import peak_memory
from weft_experiments.options import RunOptions

__all__ = [
    "Results",
    "Steps",
    "carry_out",
    "check",
    "checks_table",
    "company",
    "number",
    "provenance",
    "reading_section",
    "say",
    "table",
]

# Plain JSON: dictionaries, lists, text, numbers, None.
Results = dict[str, Any]

logger = logging.getLogger("weft")

NUMBERS_FILE, PAGE_FILE, STEPS_FILE = "expected.json", "README.md", "steps.json"
# The share of its own cores above which a run's times are its own, whatever runs on the others.
UNDISTURBED = 0.95
PACKAGES = ("numpy", "scipy", "jax", "numba", "equinox")


def carry_out(name: str, experiment: ModuleType, options: RunOptions) -> pathlib.Path:
    """Measure, then write numbers and page; double precision holds within it. A run that fails leaves no empty folder."""
    with made(options.output):
        return measured_page(name, experiment, options)


@contextlib.contextmanager
def made(folder: pathlib.Path) -> Iterator[None]:
    """Make a folder, and take it away again if what follows fails before anything is in it."""
    new = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    try:
        yield
    except BaseException:
        for path in new:
            if any(path.iterdir()):
                break
            path.rmdir()
        raise


def measured_page(name: str, experiment: ModuleType, options: RunOptions) -> pathlib.Path:
    begun, stopwatch = datetime.datetime.now(datetime.UTC), time.perf_counter()
    steps = Steps(name, options)
    before = steps.spent
    load = load_average(1)
    with jax.enable_x64(True):
        results = experiment.measure(options)
    results = {
        "experiment": name,
        "command": command(name, options),
        "variant": options.variant,
        "quick": options.quick,
        "seed": options.seed,
        **results,
        "measured": {
            "date": begun.date().isoformat(),
            "seconds": before["seconds"] + time.perf_counter() - stopwatch,
            "processor_seconds": before["processor_seconds"] + time.process_time(),
            "peak_memory_bytes": max(before["peak_memory_bytes"], peak_memory()),
            "machine": machine(),
            "load_before": load,
            "load_after": load_average(15),
            "versions": versions(steps.commits),
        },
    }
    numbers = options.output / NUMBERS_FILE
    write_whole(numbers, json.dumps(results, indent=1, default=plain) + "\n")
    page = options.output / PAGE_FILE
    # From the file, so that the page can be made again from it to the letter.
    write_whole(page, experiment.page(json.loads(numbers.read_text())))
    steps.path.unlink(missing_ok=True)
    return page


class Steps:
    """What a run has finished, kept in its output folder, so that the same command goes on where it was cut off."""

    def __init__(self, name: str, options: RunOptions) -> None:
        self.path = options.output / STEPS_FILE
        self.begun = time.perf_counter()
        self.kept: dict[str, Any] = {
            "command": command(name, options),
            "spent": {"seconds": 0.0, "processor_seconds": 0.0, "peak_memory_bytes": 0},
            "done": {},
        }
        if self.path.exists():
            found = json.loads(self.path.read_text())
            if found["command"] == self.kept["command"]:
                self.kept = found
        # Of the runs before this one.
        self.spent = dict(self.kept["spent"])
        self.commit = current_commit()

    @property
    def commits(self) -> list[str]:
        """Those whose code measured the steps, the one that is checked out now last."""
        before = [commit for commit in self.kept.get("commits", []) if commit != self.commit]
        return before if self.commit is None else [*before, self.commit]

    def once(self, step: str, work: Callable[[], Results]) -> Results:
        """What `work` gives, or gave in a run that was cut off."""
        if step not in self.kept["done"]:
            found = work()
            self.kept["done"][step] = found
            self.kept["commits"] = self.commits
            self.kept["spent"] = {
                "seconds": self.spent["seconds"] + time.perf_counter() - self.begun,
                "processor_seconds": self.spent["processor_seconds"] + time.process_time(),
                "peak_memory_bytes": max(self.spent["peak_memory_bytes"], peak_memory()),
            }
            write_whole(self.path, json.dumps(self.kept, default=plain))
        return self.kept["done"][step]


def command(name: str, options: RunOptions) -> str:
    """The command line of these options; where data were read from and written to is the user's own."""
    words = ["weft reproduce", name]
    for field in dataclasses.fields(options):
        value = getattr(options, field.name)
        if field.name in ("output", "data", "download") or value == field.default:
            continue
        words.append(f"--{field.name.replace('_', '-')}")
        if not isinstance(value, bool):
            words.extend(f"{part}" for part in (value if isinstance(value, tuple) else (value,)))
    return " ".join(words)


def plain(value: Any) -> Any:
    """NumPy's numbers and arrays as Python's."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, pathlib.PurePath):
        return str(value)
    raise TypeError(f"results hold a {type(value).__name__}, which JSON cannot")


def say(text: str) -> None:
    """Some words about how far a run is; runs take minutes."""
    print(text, file=sys.stderr, flush=True)


def load_average(minutes: int) -> float | None:
    """How many processes wanted a processor in the last 1, 5 or 15 minutes, where the system counts them."""
    return os.getloadavg()[(1, 5, 15).index(minutes)] if hasattr(os, "getloadavg") else None


def machine() -> dict[str, Any]:
    return {
        "processor": processor_name(),
        "cores": num_processors(),
        "all_cores": os.cpu_count(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else None,
        "system": f"{platform.system()} {platform.machine()}",
    }


def processor_name() -> str:
    listing = pathlib.Path("/proc/cpuinfo")
    if listing.exists():
        for line in listing.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def versions(commits: Sequence[str]) -> dict[str, str]:
    found = {"weft": __version__, "python": platform.python_version()}
    found |= {package: importlib.metadata.version(package) for package in PACKAGES}
    # A run that was cut off may have gone on with other code: a page that says one commit was made by one.
    return found | {"commit": " and ".join(commits)} if commits else found


def current_commit() -> str | None:
    """The commit of the working copy this package is in, if it is in one."""
    try:
        answer = subprocess.run(
            ["git", "rev-parse", "--short", "HEAD"],
            cwd=pathlib.Path(__file__).parent,
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return answer.stdout.strip()


# --- pages -------------------------------------------------------------------------------------------------------------------


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table; the first column is set left, the others right."""
    lines = [f"| {' | '.join(header)} |", f"|---|{'---:|' * (len(header) - 1)}"]
    lines += [f"| {' | '.join(number(cell) for cell in row)} |" for row in rows]
    return "\n".join(lines)


def number(value: object, digits: int = 4) -> str:
    """A number for a reader; a dash where there is none."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.{digits}g}" if abs(value) < 10**digits else f"{value:,.0f}"
    if isinstance(value, int):
        return f"{value:,}"
    return str(value)


def check(claim: str, holds: bool | None, measured: str) -> dict[str, Any]:
    """One thing the experiment should show; `holds` is None where this run cannot tell."""
    return {"claim": claim, "holds": None if holds is None else bool(holds), "measured": measured}


def checks_table(checks: Iterable[dict[str, Any]]) -> str:
    words = {True: "yes", False: "**no**", None: "not tested in this run"}
    return table(
        ("what should show", "shown", "measured"), [(c["claim"], words[c["holds"]], c["measured"]) for c in checks]
    )


def reading_section(described: Results) -> list[str]:
    """What the reader of the original files kept, refused and left out; nothing where no such file was read."""
    if "reading" not in described:
        return []
    return [f"What was read:\n\n```text\n{described['reading']}\n```"]


def company(measured: Results) -> list[str]:
    """What else ran on the machine, and what share of its own processors the run had for itself."""
    load = measured["load_before"]
    if load is None or load <= 0.5:
        return []
    after = measured.get("load_after")
    later = "" if after is None else f", {after:.1f} in its last quarter of an hour, itself included"
    wanted = f"{load:.1f} processes wanted a processor when this began{later}"
    cores, everything = measured["machine"]["cores"], measured["machine"].get("all_cores")
    share = measured["processor_seconds"] / (cores * measured["seconds"])
    if everything and cores < everything and share >= UNDISTURBED:
        return [
            f"It was held to {cores} of {everything} cores and had {share:.0%} of that for itself; other work ran on the rest ({wanted})."
        ]
    return [f"Other work was running on it ({wanted}), so times are upper limits and only their ratios say much."]


def provenance(results: Results) -> str:
    """The last section of every page: how to run it again, on what it ran, how long, how much memory."""
    measured = results["measured"]
    hardware, memory = measured["machine"], measured["machine"]["memory_bytes"]
    cores = f"{hardware['cores']} core{'' if hardware['cores'] == 1 else 's'}"
    lines = [
        f"Made by `{results['command']}` on {measured['date']} in {number(measured['seconds'], 3)} s "
        f"({number(measured['processor_seconds'], 3)} s of processor time), "
        f"with {measured['peak_memory_bytes'] / 1e9:.2f} GB of memory at the most.",
        f"Machine: {hardware['processor']}, {cores}"
        + (f", {memory / 1e9:.0f} GB" if memory else "")
        + f", {hardware['system']}.",
    ]
    lines.extend(company(measured))
    lines.append("Versions: " + ", ".join(f"{name} {version}" for name, version in measured["versions"].items()) + ".")
    lines.append(f"All numbers of this page are in [{NUMBERS_FILE}]({NUMBERS_FILE}), from which it is made.")
    return "## Where this was measured\n\n" + "\n".join(lines) + "\n"
