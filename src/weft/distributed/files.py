# SPDX-License-Identifier: MIT
"""Tables on Dask from files too large to read, and answers back into one ordinary file, holding a few pieces at a time."""

import itertools
import os
import pathlib
from collections.abc import Generator, Iterator
from typing import Any

import numpy as np

from weft.data.files import file_kind, read_table
from weft.data.parts import PartsAlike, is_of_parts
from weft.distributed.clients import num_workers
from weft.distributed.lazy import is_xarray
from weft.extras import require
from weft.inference.watching import watched

__all__ = ["computed_in_order", "open_lazily"]


def open_lazily(path: str | os.PathLike[str], *, num_pieces: int = 1) -> Any:
    """The table at `path` on Dask: many parquet files one by one, Zarr by its chunks; others are read, then cut into `num_pieces`.

    Files need not be alike: each is read with the columns of all, of one type, and those without rows are passed over.
    """
    require("dask", "a table that is read part by part")
    import dask.dataframe as dd

    if is_of_parts(path):
        files = PartsAlike(path)
        return dd.from_map(files.read, files.parts, meta=files.read(files.parts[0]).iloc[:0])
    kind = file_kind(path)
    if kind == "zarr" and pathlib.Path(path).exists():
        return _open_zarr(pathlib.Path(path).absolute())
    table = read_table(path)
    if kind in ("csv", "parquet"):
        return dd.from_pandas(table, npartitions=num_pieces, sort=False)
    widest = max(table.sizes, key=lambda dim: table.sizes[dim])
    return table.chunk({widest: -(-table.sizes[widest] // num_pieces)})


def _open_zarr(path: pathlib.Path) -> Any:
    import xarray as xr

    try:
        return xr.open_dataset(path, engine="zarr", chunks={}, consolidated=False)
    except Exception as error:
        raise ValueError(f"{str(path)!r} is not a Zarr store, or it is damaged ({error})") from error


def computed_in_order(answer: Any, client: Any) -> Generator[Any, None, None]:
    """The pieces of a lazy table one after another, a few of them computed ahead: rows of a frame, slices of a grid.

    Whoever may stop before the last closes it, while the client is there: what runs ahead is cancelled.
    """
    whole = list(_pieces(answer))
    pieces = iter(whole)
    ahead = 2 * max(1, num_workers(client))
    running = [client.compute(piece) for piece in itertools.islice(pieces, ahead)]
    try:
        with watched(len(whole)) as done:
            for number in range(len(whole)):
                yield running.pop(0).result()
                done(f"piece {number}")
                running.extend(client.compute(piece) for piece in itertools.islice(pieces, 1))
    finally:
        client.cancel(running)


def _pieces(answer: Any) -> Iterator[Any]:
    if not is_xarray(answer):
        yield from (answer.partitions[number] for number in range(answer.npartitions))
        return
    first = max(answer.data_vars.values(), key=lambda variable: variable.ndim).dims[0]
    ends = np.cumsum(answer.chunks[first])
    for start, end in zip(np.concatenate([[0], ends[:-1]]), ends, strict=True):
        yield answer.isel({first: slice(int(start), int(end))})
