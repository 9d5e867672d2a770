# SPDX-License-Identifier: MIT
"""Saving and loading: the same bits in a new process, and one clear sentence for any other file."""

import pickle
import subprocess
import sys
import zipfile

import numpy as np
import pytest

import weft
from tests.problems import sum_separable

TIMES = np.array([5.5, -1.0, 0.3, 1.5, 2.0, 4.2])
PLACES = np.random.default_rng(1).uniform(0, 3, (6, 2))

PREDICT_ELSEWHERE = """
import sys
import jax
jax.config.update("jax_enable_x64", True)
import numpy as np, weft
asked = np.load(sys.argv[2])
posterior = weft.load(sys.argv[1])
marginals = posterior.marginals(asked[:, 0], asked[:, 1:])
np.save(sys.argv[3], np.stack([marginals.mean, marginals.variance, posterior.sample(asked[:, 0], asked[:, 1:], seed=3)[0]]))
"""


@pytest.mark.parametrize("exact", [False, True])
def test_a_new_process_gives_the_same_bits(tmp_path, exact):
    twin = sum_separable(exact=exact)
    posterior = weft.condition(twin.model, twin.data)
    posterior.save(tmp_path / "model.weft")
    np.save(tmp_path / "asked.npy", np.column_stack([TIMES, PLACES]))
    subprocess.run(
        [
            sys.executable,
            "-c",
            PREDICT_ELSEWHERE,
            *(tmp_path / name for name in ("model.weft", "asked.npy", "got.npy")),
        ],
        check=True,
    )
    marginals = posterior.marginals(TIMES, PLACES)
    expected = np.stack([marginals.mean, marginals.variance, posterior.sample(TIMES, PLACES, seed=3)[0]])
    np.testing.assert_array_equal(np.load(tmp_path / "got.npy"), expected)


def all_kernels():
    ring = np.diag([2.0] * 4) - np.roll(np.eye(4), 1, axis=0) - np.roll(np.eye(4), -1, axis=0)
    time = weft.Matern12(1.0) + 2.0 * weft.Cosine(3.0) * weft.Periodic(2.0, 1.0) + weft.EQ(2.0) + weft.Constant(0.5)
    return weft.Separable(space=weft.Graph(ring, 0.7), time=time) + 0.3 * weft.Separable(
        space=weft.Linear(0.1) + weft.RationalQuadratic(1.0), time=weft.Wiener(0.2) + weft.Linear(0.1)
    )


def test_every_part_of_a_model_survives(tmp_path):
    model = weft.Model(all_kernels(), weft.Gaussian(0.2), mean=weft.LinearMean(5.0, 2.0))
    data = weft.Observations([0.1, 0.2, 0.7], [[0.0], [1.0], [3.0]], [1.0, np.nan, 2.0], noise_variance=0.1)
    posterior = weft.condition(model, data)
    posterior.save(tmp_path / "all.weft", rows=True)
    again = weft.load(tmp_path / "all.weft")
    np.testing.assert_array_equal(again.marginals([0.4], [[2.0]]).mean, posterior.marginals([0.4], [[2.0]]).mean)
    assert again.batches[0].times.tolist() == [0.1, 0.2, 0.7]
    assert again.update(weft.Observations([0.9], [[2.0]], [1.0])).log_evidence == pytest.approx(
        posterior.update(weft.Observations([0.9], [[2.0]], [1.0])).log_evidence, rel=1e-12
    )


def test_rows_are_inside_only_if_asked_for(tmp_path):
    twin = sum_separable()
    posterior = weft.condition(twin.model, twin.data)
    posterior.save(tmp_path / "without.weft")
    posterior.save(tmp_path / "with.weft", rows=True)
    assert weft.load(tmp_path / "without.weft").batches == ()
    assert (tmp_path / "with.weft").stat().st_size > (tmp_path / "without.weft").stat().st_size
    np.testing.assert_array_equal(weft.load(tmp_path / "with.weft").batches[0].values, twin.data.values)


class Evil:
    def __reduce__(self):
        return (print, ("this must never run",))


def spoil(path, how):
    whole = path.read_bytes()
    with zipfile.ZipFile(path) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    if how == "cut short":
        path.write_bytes(whole[: len(whole) // 2])
        return
    if how == "flipped bits":
        position = whole.index(b"NUMPY") + 200
        path.write_bytes(
            whole[:position] + bytes(255 - byte for byte in whole[position : position + 8]) + whole[position + 8 :]
        )
        return
    if how == "not a zip":
        path.write_bytes(b"time,lat,lon\n1,2,3\n")
        return
    if how == "empty":
        path.write_bytes(b"")
        return
    kind = zipfile.ZIP_DEFLATED if how == "zip bomb" else zipfile.ZIP_STORED
    if how == "newer":
        entries["manifest.json"] = entries["manifest.json"].replace(b'"schema": 1', b'"schema": 99')
    elif how == "foreign":
        entries = {"readme.txt": b"hello"}
    elif how == "path outside":
        entries["../outside.npy"] = entries["arrays/0.npy"]
    elif how == "object array":
        header = b"{'descr': '|O', 'fortran_order': False, 'shape': (1,), }"
        header += b" " * (64 - (10 + len(header) + 1) % 64) + b"\n"
        entries["arrays/0.npy"] = (
            b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + pickle.dumps([Evil()])
        )
    elif how == "unknown class":
        entries["manifest.json"] = entries["manifest.json"].replace(b'"EQ"', b'"Popen"')
    elif how == "negative length scale":
        entries["manifest.json"] = (
            entries["manifest.json"].replace(b'"Matern32"', b'"Matern12"').replace(b'"tuple"', b'"value"')
        )
    elif how == "zip bomb":
        entries["arrays/0.npy"] = bytes(50_000_000)
    with zipfile.ZipFile(path, "w", kind) as archive:
        for name, content in entries.items():
            archive.writestr(name, content)


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("cut short", "damaged, cut short"),
        ("flipped bits", "damaged|cannot be read"),
        ("not a zip", "no weft file at all"),
        ("empty", "no weft file at all"),
        ("newer", "newer weft .schema 99"),
        ("foreign", "readme.txt"),
        ("path outside", r"\.\./outside.npy"),
        ("object array", "cannot be read"),
        ("unknown class", "does not know"),
        ("negative length scale", "does not know"),
        ("zip bomb", "compressed"),
    ],
)
def test_any_other_file_gets_one_clear_sentence(tmp_path, capsys, how, message):
    twin = sum_separable()
    path = tmp_path / "model.weft"
    weft.condition(twin.model, twin.data).save(path)
    spoil(path, how)
    with pytest.raises(ValueError, match=message) as caught:
        weft.load(path)
    assert str(caught.value).startswith("model.weft is not a file weft can read")
    assert "must never run" not in capsys.readouterr().out
    assert [entry.name for entry in tmp_path.iterdir()] == ["model.weft"]


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no file gone.weft"):
        weft.load(tmp_path / "gone.weft")
