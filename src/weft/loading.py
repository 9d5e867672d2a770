# SPDX-License-Identifier: MIT
"""`weft.load`: whatever was saved, back again."""

import pathlib

import jax

from weft.arrays import require_own_process
from weft.data.archive import read_archive, refuse
from weft.estimator import storage as estimator_storage
from weft.inference.posterior import KIND, Posterior
from weft.inference.storage import read_posterior
from weft.phases import timing
from weft.space_time_gp import SpaceTimeGP


@timing("read")
def load(path: str | pathlib.Path) -> Posterior | SpaceTimeGP:
    """What `save` wrote to `path`, a posterior or an estimator. Reading runs no code of the file's."""
    require_own_process()
    path = pathlib.Path(path)
    kind, content, arrays = read_archive(path)
    try:
        if kind == KIND:
            return read_posterior(content, arrays)
        if kind == estimator_storage.KIND:
            # An estimator needs no setting of JAX's, so loading it needs none either.
            with jax.enable_x64(True):
                return SpaceTimeGP.from_stored(estimator_storage.from_plain_estimator(content, arrays))
    except ValueError as error:
        if "float64 is off" in str(error):
            raise
        refuse(path, str(error))
    refuse(path, f"it holds a {kind!r}, which this weft does not know")


def load_estimator(path: str | pathlib.Path) -> SpaceTimeGP:
    """The estimator in a file; a posterior saved by hand has no columns to work with and is refused."""
    loaded = load(path)
    if not isinstance(loaded, SpaceTimeGP):
        raise ValueError(f"{str(path)!r} holds a {type(loaded).__name__}, not a model of a table; make one with fit")
    return loaded
