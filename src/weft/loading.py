# SPDX-License-Identifier: MIT
"""`weft.load`: whatever was saved, back again."""

import pathlib

from weft.data.archive import read_archive, refuse
from weft.inference import storage
from weft.inference.posterior import Posterior


def load(path: str | pathlib.Path) -> Posterior:
    """What `save` wrote to `path`. Reading runs no code of the file's."""
    path = pathlib.Path(path)
    kind, content, arrays = read_archive(path)
    if kind != storage.KIND:
        refuse(path, f"it holds a {kind!r}, which this weft does not know")
    try:
        return Posterior(**storage.from_plain_parts(content, arrays))
    except ValueError as error:
        if "float64 is off" in str(error):
            raise
        refuse(path, str(error))
