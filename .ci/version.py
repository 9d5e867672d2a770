# SPDX-License-Identifier: MIT
"""The version of a build: that of the tag it is made at, else a development version of what the changelog says comes next.

hatch-vcs would call a clone without tags 0.1.dev, which installers take for older than every release.
"""

import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[1]


def version() -> str:
    packed = ROOT / "PKG-INFO"
    if packed.exists():
        # An unpacked sdist knows what it is, and has no tags.
        return re.findall(r"^Version: (.*)$", packed.read_text(encoding="utf-8"), re.MULTILINE)[0]
    if tag := _git("describe", "--tags", "--exact-match", "--match", "v[0-9]*"):
        return tag.removeprefix("v")
    newest = _git("describe", "--tags", "--abbrev=0", "--match", "v[0-9]*")
    number = _git("rev-list", "--count", f"{newest}..HEAD" if newest else "HEAD") or "0"
    commit = _git("rev-parse", "--short=9", "HEAD")
    return f"{upcoming()}.dev{number}" + (f"+g{commit}" if commit else "")


def upcoming() -> str:
    """The version at the top of the changelog."""
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    return re.findall(r"^## (\d+\.\d+\.\d+)", changes, re.MULTILINE)[0]


def _git(*arguments: str) -> str:
    """What git says, or nothing: there may be no git, no repository, or no tag."""
    try:
        done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
