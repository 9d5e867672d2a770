# SPDX-License-Identifier: MIT
"""An option is declared once: arguments, weft.toml and the command line have it from there."""

import dataclasses
import inspect
import pathlib
import tomllib

import pytest
from sklearn.base import clone

from weft import SpaceTimeGP
from weft.cli.options import ColumnOptions, ModelOptions, argument, settings_from
from weft.options import Options, Written, written_options
from weft.project.settings import read_settings

ROOT = pathlib.Path(__file__).resolve().parents[2]
# What is written, what it means, and how it stands on the command line.
WRITTEN = {
    "time": ("when", "when", "when"),
    "space": (["x", "y"], ("x", "y"), "x, y"),
    "target": ("what", "what", "what"),
    "covariates": (["wind"], ("wind",), "wind"),
    "noise_variance": ("variance", "variance", "variance"),
    "missing": ([-9999.0, 99.5], (-9999.0, 99.5), "-9999,99.5"),
    "exposure": ("area", "area", "area"),
    "lower": ("least", "least", "least"),
    "upper": ("most", "most", "most"),
    "trials": ("tries", "tries", "tries"),
    "area": ("county", "county", "county"),
    # A file; its name is taken as it is where it says the folder.
    "areas": ("/maps/counties.geojson", "/maps/counties.geojson", "/maps/counties.geojson"),
    "time_step": ("exact", None, "exact"),
    "time_format": ("%d/%m/%Y", "%d/%m/%Y", "%d/%m/%Y"),
    "units": ("mm", "mm", "mm"),
    "components": (["slow", "local"], ("slow", "local"), "slow,local"),
    "habits": ("none", None, "none"),
    "likelihood": ("poisson", "poisson", "poisson"),
    "pseudo_points": ("exact", None, "exact"),
    "transform": ("sqrt", "sqrt", "sqrt"),
    "seasonality": (["yearly", 12.5], ("yearly", 12.5), "yearly,12.5"),
    "power": (0.5, 0.5, 0.5),
    "engine": ("scan", "scan", "scan"),
    "seed": (7, 7, 7),
    "max_iterations": (3, 3, 3),
    "learning_rows": ("all", None, "all"),
    "regions": ("none", None, "none"),
    "place_offsets": (False, False, False),
}


def test_the_estimator_has_every_option_and_nothing_else() -> None:
    parameters = inspect.signature(SpaceTimeGP).parameters
    assert list(parameters) == [field.name for field in dataclasses.fields(Options)]
    assert all(parameter.kind is inspect.Parameter.KEYWORD_ONLY for parameter in parameters.values())
    gp = SpaceTimeGP(time="t", space=("x",), target="y", max_iterations=7)
    assert list(gp.get_params()) == list(parameters)
    assert gp.max_iterations == 7
    assert clone(gp).get_params() == gp.get_params()
    with pytest.raises(ValueError, match="no argument 'max_iteration'; it has time, space"):
        gp.set_params(max_iteration=3)


def test_the_file_and_the_command_line_mean_the_same(tmp_path: pathlib.Path) -> None:
    assert set(WRITTEN) == set(written_options())
    lines = [f"{written_options()[name].section}.{name} = {toml(written)}" for name, (written, *_) in WRITTEN.items()]
    (tmp_path / "all.toml").write_text("\n".join(lines))
    from_file = read_settings(tmp_path / "all.toml").arguments()
    assert from_file == {name: meant for name, (_, meant, _) in WRITTEN.items()}
    columns, model = (
        made(**{name: WRITTEN[name][2] for name in written_options(section)})
        for made, section in ((ColumnOptions, "data"), (ModelOptions, "model"))
    )
    assert settings_from(None, None, columns, model).arguments() == from_file
    assert SpaceTimeGP(**from_file).get_params() | from_file == SpaceTimeGP(**from_file).get_params()


@pytest.mark.parametrize(
    ("text", "meant"), [("auto", "auto"), ("none", None), ("slow,fast", ("slow", "fast")), ("slow", ("slow",))]
)
def test_a_list_may_be_a_word(text: str, meant: object) -> None:
    """What options to come need: a word that stands for a choice, or a list."""
    parts = Written("model", tuple[str, ...] | str, "Parts.", "auto", {"auto": "auto", "none": None})
    assert argument(parts, text) == meant


def test_the_guide_shows_every_key() -> None:
    guide = (ROOT / "docs" / "guide" / "command-line.md").read_text(encoding="utf-8")
    shown = tomllib.loads(guide.partition("```toml\n")[2].partition("```")[0])
    for name, written in written_options().items():
        assert name in shown[written.section], f"[{written.section}] of the guide has no {name}"


def toml(value: object) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(toml, value))}]"
    return str(value).lower() if isinstance(value, bool) else repr(value)
