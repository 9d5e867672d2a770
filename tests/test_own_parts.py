# SPDX-License-Identifier: MIT
"""A kernel and a likelihood of someone else's package are learned and saved as weft's own are."""

import dataclasses
import pathlib
import sys
import tomllib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array, Float
from numpy.testing import assert_allclose, assert_array_equal

import weft
from weft.domains import fixed
from weft.training.parameters import parameters_of

PACKAGE = pathlib.Path(__file__).resolve().parents[1] / "examples" / "own_parts"


@pytest.fixture
def own_parts(tmp_path, monkeypatch):
    """The example's package, as if installed: its module and what pip would write down of its entry points."""
    project = tomllib.loads((PACKAGE / "pyproject.toml").read_text())["project"]
    folder = tmp_path / "installed"
    info = folder / f"own_parts-{project['version']}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    lines = []
    for group, entries in project["entry-points"].items():
        lines += [f"[{group}]", *(f"{name} = {value}" for name, value in entries.items())]
    (info / "entry_points.txt").write_text("\n".join(lines))
    (folder / "own_parts.py").write_text((PACKAGE / "own_parts.py").read_text())
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.delitem(sys.modules, "own_parts", raising=False)
    import own_parts

    yield own_parts
    sys.modules.pop("own_parts", None)


def rows(seed=5):
    rng = np.random.default_rng(seed)
    times, places = np.sort(rng.uniform(0, 12, 60)), rng.normal(size=(9, 2))[rng.integers(0, 9, 60)]
    return weft.Observations(times, places, np.sin(times) + places[:, 0] + 0.3 * rng.normal(size=60))


def model_of(space, likelihood):
    return weft.Model(0.8 * weft.Separable(space=space, time=weft.Matern32(3.0)), likelihood)


def test_learned_as_the_built_in_ones_are(own_parts):
    model = model_of(own_parts.Spherical(2.5), weft.Gaussian(0.2))
    result = weft.fit(model, rows(), max_iterations=8, progress=None)
    assert result.log_evidence > weft.log_evidence(model, rows())
    assert result.model.kernel.space.reach > 0
    assert abs(result.model.kernel.space.reach - 2.5) > 0.01
    # One of two variances of a component is enough, in a kernel of one's own too.
    assert result.model.kernel.space.variance == 1.0


def test_saved_by_the_name_its_package_gives(own_parts, tmp_path, monkeypatch):
    data = rows()
    posterior = weft.condition(model_of(own_parts.Spherical(2.5), own_parts.Logistic(0.2)), data)
    path = tmp_path / "own.weft"
    posterior.save(path)
    again = weft.load(path)
    assert type(again.model.kernel.space) is own_parts.Spherical
    assert type(again.model.likelihood) is own_parts.Logistic
    where = np.array([1.0, 30.0]), np.array([[0.1, 0.2], [1.0, -1.0]])
    for found, expected in zip(again.marginals(*where), posterior.marginals(*where), strict=True):
        assert_array_equal(found, expected)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if not entry.endswith("installed")])
    with pytest.raises(ValueError, match=r"it needs 'spherical' of the package 'own-parts', which is not installed"):
        weft.load(path)


def test_what_no_package_registers_is_neither_saved_nor_loaded(own_parts, tmp_path):
    class Unregistered(own_parts.Logistic):
        pass

    posterior = weft.condition(model_of(weft.EQ(1.0), Unregistered(0.2)), rows())
    with pytest.raises(TypeError, match=r"Unregistered is not one of weft's own classes, .* entry points"):
        posterior.save(tmp_path / "own.weft")
    assert not list(tmp_path.glob("*.weft"))


@pytest.mark.parametrize(
    ("named", "sentence"),
    [
        ({"group": "console_scripts", "name": "pip", "package": "pip"}, "group 'console_scripts', which weft does not"),
        ({"group": "weft.kernels", "name": "os:system", "package": "os"}, "'os:system' of the package 'os', which is"),
        ({"group": "weft.kernels", "name": "spherical", "package": "other"}, "of the package 'other', which is not"),
    ],
)
def test_a_file_can_ask_for_nothing_that_is_not_registered(own_parts, named, sentence):
    from weft.inference.plain import from_plain

    with pytest.raises(ValueError, match=sentence):
        from_plain({"registered": named, "fields": {}}, [])


class Undeclared(weft.Kernel):
    """Fields that say nothing of their domain."""

    lengthscale: float
    tilt: Float[Array, " column"]
    knots: np.ndarray = fixed()
    order: int = 2
    label: str = "plain"

    def covariance(self, xs, ys):
        lags = (xs[:, None, :] - ys[None, :, :]) / self.lengthscale
        return jnp.exp(-jnp.sum(lags**2, axis=-1)) + jnp.outer(xs @ self.tilt, ys @ self.tilt)

    def variances(self, xs):
        return 1 + (xs @ self.tilt) ** 2

    def check_width(self, width):
        pass


def test_float_fields_that_say_nothing_are_learned():
    model = model_of(Undeclared(1.5, jnp.array([0.3, -0.2]), np.arange(3.0)), weft.Gaussian(0.2))
    found = {parameter.name: parameter for parameter in parameters_of(model)}
    assert [name for name in found if name.startswith("kernel.space")] == [
        "kernel.space.lengthscale",
        "kernel.space.tilt",
    ]
    assert str(found["kernel.space.lengthscale"].domain) == "positive"
    assert str(found["kernel.space.tilt"].domain) == "finite"
    result = weft.fit(model, rows(), max_iterations=6, progress=None)
    assert abs(result.model.kernel.space.lengthscale - 1.5) > 1e-3
    assert np.all(np.abs(result.model.kernel.space.tilt - [0.3, -0.2]) > 1e-3)
    assert_allclose(result.model.kernel.space.knots, np.arange(3.0))


def test_numbers_that_cannot_be_learned_are_named():
    model = model_of(
        dataclasses.replace(Undeclared(1.5, jnp.zeros(2), np.zeros(1)), label=(0.5, 2.0)), weft.Gaussian(0.2)
    )
    with pytest.raises(TypeError, match=r"kernel.space.label\[0\] keeps numbers inside a tuple.* weft.domains.fixed"):
        weft.fit(model, rows(), max_iterations=1, progress=None)


def test_a_graph_keeps_its_laplacian():
    graph = weft.Graph(np.array([[1.0, -1.0], [-1.0, 1.0]]))
    model = weft.Model(weft.Separable(space=graph, time=weft.Matern32(3.0)), weft.Gaussian(0.2))
    names = {parameter.name for parameter in parameters_of(model)}
    assert names >= {"kernel.space.lengthscale", "kernel.space.smoothness"}
    assert not any("eigen" in name for name in names)
    assert jax.tree.leaves(graph)
