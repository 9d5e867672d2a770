# SPDX-License-Identifier: MIT
"""The release checklist: builds, checks, and tries what was built as a newcomer would. Nothing leaves this machine without --publish.

    python .ci/release.py [--python python3.11 --python python3.13] [--only build] [--publish]

A line for each thing that must hold; the first that does not ends it. Needs `pip install --group release`. With `--publish`, on a clean
commit that is tagged v<version>, the last step uploads what was checked.
"""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from collections.abc import Iterable

import yaml
from version import ROOT, upcoming, version

LARGEST_WHEEL, LARGEST_SDIST = 3_000_000, 8_000_000
PACKAGES = ("weft/", "weft_experiments/")
# Never part of what is sent out.
STRAY = re.compile(r"__pycache__|\.pyc$|\.weft$|\.parquet$|\.DS_Store|\.ipynb_checkpoints|/\.git/|\.venv|(^|/)build/")
# Names that conda-forge spells otherwise.
ON_CONDA = {"matplotlib": "matplotlib-base"}
BLOCK = re.compile(r"^```(python|console)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# What a tutorial may show beside weft; what needs it is not tried here (the tests do).
BESIDE = "import blackjax"


class Failed(Exception):
    """Something that must hold does not."""


def require(holds: bool, what: str) -> None:
    if not holds:
        raise Failed(what)
    print(f"  ok  {what}", flush=True)


def run(*command: str | pathlib.Path, cwd: pathlib.Path = ROOT) -> str:
    done = subprocess.run([str(word) for word in command], cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Failed(f"{' '.join(map(str, command))} ended with status {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def check_texts(*, final: bool) -> None:
    """The changelog speaks of this version; the conda recipe asks for what pyproject.toml does."""
    heading = re.findall(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)[0]
    if final:
        require(
            heading.startswith(f"{version()} (20"), f"the changelog begins with {version()} and its date: {heading!r}"
        )
    else:
        print(f"  --  the changelog begins with {heading!r}; a release has its date there", flush=True)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = {"python" + project["requires-python"], *project["dependencies"]}
    recipe = yaml.safe_load((ROOT / "recipe" / "recipe.yaml").read_text(encoding="utf-8"))
    asked = {re.sub(r"^[\w-]+", lambda name: ON_CONDA.get(name[0], name[0]), line) for line in wanted}
    given = {line.replace(" ", "") for line in recipe["requirements"]["run"]}
    require(given == asked, "the conda recipe asks for what pyproject.toml does")
    require("weft = weft.cli:main" in recipe["build"]["python"]["entry_points"], "the conda recipe has the command")
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    require(citation["references"][0]["type"] == "conference-paper", "CITATION.cff names the software and the paper")


def read_recipe() -> None:
    """The conda recipe as rattler-build reads it. Building it takes conda-forge's packages, and is left to the feedstock."""
    try:
        import rattler_build
    except ImportError:
        print("  --  the conda recipe was not read by rattler-build: pip install py-rattler-build", flush=True)
        return
    (variant,) = rattler_build.Stage0Recipe.from_file(ROOT / "recipe" / "recipe.yaml").render()
    require(
        "package='weft'" in repr(variant),
        f"rattler-build reads the conda recipe, which is built on conda-forge: {variant!r}",
    )


def build(folder: pathlib.Path) -> tuple[pathlib.Path, pathlib.Path]:
    """The wheel, made from the sdist as installers do, and the sdist."""
    run(sys.executable, "-m", "build", "--outdir", folder, ROOT)
    wheel, sdist = next(folder.glob("*.whl")), next(folder.glob("*.tar.gz"))
    require(
        True, f"built {wheel.name} ({wheel.stat().st_size:,} bytes) and {sdist.name} ({sdist.stat().st_size:,} bytes)"
    )
    run(sys.executable, "-m", "twine", "check", "--strict", wheel, sdist)
    require(True, "twine finds nothing wrong")
    return wheel, sdist


def check_contents(wheel: pathlib.Path, sdist: pathlib.Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        packed = archive.namelist()
    with tarfile.open(sdist) as archive:
        source = [name.partition("/")[2] for name in archive.getnames()]
    own = [name for name in packed if ".dist-info/" not in name]
    require(all(name.startswith(PACKAGES) for name in own), "the wheel holds the two packages and nothing else")
    tracked = set(run("git", "ls-files").splitlines())
    missing = {name.removeprefix("src/") for name in tracked if name.startswith("src/")} - set(own)
    require(not missing, f"every file below src/ is in the wheel{_listed(missing)}")
    stray = [name for name in [*packed, *source] if STRAY.search(name)]
    require(not stray, f"no stray files{_listed(stray)}")
    unknown = set(filter(None, source)) - tracked - {"PKG-INFO", ".gitignore"}
    require(not unknown, f"the sdist holds tracked files alone{_listed(unknown)}")
    require(wheel.stat().st_size < LARGEST_WHEEL, f"the wheel is below {LARGEST_WHEEL:,} bytes")
    require(sdist.stat().st_size < LARGEST_SDIST, f"the sdist is below {LARGEST_SDIST:,} bytes")


def try_wheel(wheel: pathlib.Path, python: str, folder: pathlib.Path) -> None:
    """Install it into an empty environment and do what the first page says, outside the repository."""
    environment, work = folder / "environment", folder / "work"
    work.mkdir(parents=True)
    run(python, "-m", "venv", environment)
    binaries = environment / ("Scripts" if sys.platform == "win32" else "bin")
    run(binaries / "python", "-m", "pip", "install", "--quiet", wheel, cwd=work)
    spoken = run(binaries / "python", "--version").strip()
    # By the wheel's own name: the repository may have moved on meanwhile.
    require(run(binaries / "weft", "--version", cwd=work).strip() == wheel.name.split("-")[1], f"installed on {spoken}")
    try_page(ROOT / "docs" / "start.md", binaries, work)
    require((work / "model.weft").exists(), f"the first page's commands and code work on {spoken}")
    tutorials = sorted((ROOT / "docs" / "tutorials").glob("[!i]*.md"))
    for page in tutorials:
        place = work / page.stem
        place.mkdir()
        for data in (ROOT / "docs" / "data").glob("*.csv"):
            shutil.copy(data, place)
        try_page(page, binaries, place)
    require(True, f"the code of {len(tutorials)} tutorials works on {spoken}")
    run(binaries / "weft", "demo", "--output", work / "demo", cwd=work)
    require((work / "demo" / "report.html").exists(), f"weft demo works on {spoken}")


def try_page(page: pathlib.Path, binaries: pathlib.Path, work: pathlib.Path) -> None:
    """Type what a page says, in that order: lines that begin with `$ weft`, and Python, which remembers what came before."""
    code = ""
    for kind, text in BLOCK.findall(page.read_text(encoding="utf-8")):
        if kind == "python" and BESIDE not in text:
            code += text
        for line in text.splitlines():
            if kind == "console" and line.startswith("$ weft "):
                # What the page's Python writes may be what the command reads.
                run(binaries / "python", "-c", code, cwd=work)
                run(binaries / "weft", *line.removeprefix("$ weft ").split(), cwd=work)
    run(binaries / "python", "-c", code, cwd=work)


def pythons_here() -> list[str]:
    """The oldest and the newest that are allowed and found, on the path or among those that pyenv keeps beside each other."""
    kept = pathlib.Path(os.environ.get("PYENV_ROOT", pathlib.Path.home() / ".pyenv")) / "versions"
    found = []
    for minor in range(11, 30):
        names = [f"python3.{minor}", *(str(path / "bin" / "python") for path in sorted(kept.glob(f"3.{minor}.*")))]
        found += [name for name in names if _runs(name)][:1]
    return sorted({found[0], found[-1]}, key=found.index) if found else [sys.executable]


def _runs(name: str) -> bool:
    return (
        shutil.which(name) is not None
        and subprocess.run([name, "-V"], capture_output=True, check=False).returncode == 0
    )


def _listed(names: Iterable[str]) -> str:
    return "" if not names else ": " + ", ".join(sorted(names)[:10])


def checklist(pythons: list[str], only: str | None, *, publish: bool) -> None:
    print(f"weft {version()} (upcoming: {upcoming()})", flush=True)
    clean = run("git", "status", "--porcelain") == ""
    if publish:
        require(clean, "nothing uncommitted")
        require(run("git", "tag", "--points-at", "HEAD").split() == [f"v{version()}"], f"tagged v{version()}")
    check_texts(final=publish)
    read_recipe()
    with tempfile.TemporaryDirectory() as folder:
        made = pathlib.Path(folder)
        wheel, sdist = build(made / "dist")
        check_contents(wheel, sdist)
        if only is None and len(pythons) == 1:
            print(f"  --  the wheel is tried with one Python alone: {pythons[0]}", flush=True)
        for number, python in enumerate(pythons if only is None else ()):
            try_wheel(wheel, python, made / str(number))
        if publish:
            run(sys.executable, "-m", "twine", "upload", wheel, sdist)
            require(True, "uploaded; the release notes are the changelog's first section")


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument(
        "--python", action="append", help="try the wheel with this one; else the oldest and newest found"
    )
    options.add_argument("--only", choices=["build"], help="stop before the wheel is installed anywhere")
    options.add_argument(
        "--publish", action="store_true", help="upload, if all holds; without it nothing leaves this machine"
    )
    given = options.parse_args()
    try:
        checklist(given.python or pythons_here(), given.only, publish=given.publish)
    except Failed as failure:
        print(f"  NO  {failure}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
