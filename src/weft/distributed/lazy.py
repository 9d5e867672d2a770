# SPDX-License-Identifier: MIT
"""Questions to a fitted object about tables on Dask, answered partition by partition when they are computed.

A dask DataFrame gives a dask DataFrame, a Dataset on Dask a Dataset on Dask. The object asked is one entry of the graph, however many
partitions there are, and a worker holds one partition and its answer at a time.
"""

import functools
import itertools
import operator
import pickle
import secrets
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.distributed.clients import active_client
from weft.distributed.tasks import run_task
from weft.distributed.worker_memory import keep_within_limit

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["answer_lazily", "answers_of_parts", "as_dataset", "chunks_of", "in_one_piece", "is_on_dask", "is_xarray"]


def is_on_dask(table: Any) -> bool:
    """Whether a table is a collection of Dask; none is where nobody has imported it."""
    dask = sys.modules.get("dask")
    return dask is not None and bool(dask.is_dask_collection(table))


def in_one_piece(table: Any) -> Any:
    """The same table as one partition, for answers that belong to all rows together."""
    return table.chunk(-1) if is_xarray(table) else table.repartition(npartitions=1)


def answer_lazily(asked: Any, verb: str, table: Any, *, replaced: Sequence[str] = (), **options: Any) -> Any:
    """`asked.verb(partition, **options)` of each partition, whose answer has as many rows as the partition.

    `replaced` are variables of a Dataset that the answer has other values of; those it repeats are not computed again.
    What the answer looks like is told by that for a table without rows.
    """
    if is_xarray(table):
        return _on_chunks(asked, verb, table, replaced, options)
    from dask.dataframe.dispatch import make_meta

    looks_like = getattr(asked, verb)(make_meta(table), **options)
    return table.map_partitions(_answer, _in_graph(asked), verb, options, meta=looks_like, enforce_metadata=False)


def answers_of_parts(asked: Any, verb: str, table: Any, **options: Any) -> list[Any]:
    """`asked.verb(partition, **options)` of each partition, whatever that is, computed and brought here."""
    from dask.base import compute
    from dask.delayed import delayed

    model, answer = _in_graph(asked), delayed(_answer, pure=False)
    parts = chunks_of(as_dataset(table)) if is_xarray(table) else table.to_delayed()
    return list(compute(*(answer(part, model, verb, options) for part in parts)))


def _answer(partition: Any, asked: Any, verb: str, options: Mapping[str, Any]) -> Any:
    asked = _unpacked(asked) if isinstance(asked, bytes) else asked
    answer = run_task(operator.methodcaller(verb, partition, **options), asked)
    keep_within_limit()
    return answer


# The partitions of one table come one after another, and ask the same object.
@functools.lru_cache(maxsize=1)
def _unpacked(packed: bytes) -> Any:
    return pickle.loads(packed)


def _in_graph(asked: Any) -> Any:
    """The object as one entry of a graph, by a name made up: to find one by its content would take as long as to send it.

    To workers it goes packed, and the first task that needs it unpacks it. A worker that did so on arrival would import weft first, for
    some seconds, and meanwhile read partition upon partition that nobody can answer for yet.
    """
    from dask.delayed import delayed

    carried = asked if active_client() is None else pickle.dumps(asked, protocol=pickle.HIGHEST_PROTOCOL)
    return delayed(carried, name=f"{type(asked).__name__}-{secrets.token_hex(8)}", traverse=False)


def is_xarray(table: Any) -> bool:
    return type(table).__module__.partition(".")[0] == "xarray"


def _on_chunks(
    asked: Any, verb: str, given: "xr.Dataset | xr.DataArray", replaced: Sequence[str], options: Mapping[str, Any]
) -> "xr.Dataset":
    import dask.array as da
    import xarray as xr
    from dask.delayed import delayed

    dataset = as_dataset(given)
    looks_like = getattr(asked, verb)(_without_points(dataset), **options)
    chunks = {dim: dataset.chunks.get(dim, (size,)) for dim, size in dataset.sizes.items()}
    answers = [name for name in looks_like.data_vars if name in replaced or name not in dataset.variables]
    # What has no dimension is the same of any points, as the description of a grid of latitudes and longitudes.
    computed = [name for name in answers if looks_like[name].ndim]
    # Every answer is at all points, so one of them says over which dimensions a block reaches.
    along = [dim for dim in looks_like[computed[0]].dims if dim in dataset.sizes]
    model, answer = _in_graph(asked), delayed(_answer, pure=False)
    numbered = list(itertools.product(*(range(len(chunks[dim])) for dim in along)))
    starts = {dim: np.concatenate([[0], np.cumsum(chunks[dim])]) for dim in along}
    blocks = {}
    for numbers in numbered:
        inside = {dim: slice(*starts[dim][[k, k + 1]]) for dim, k in zip(along, numbers, strict=True)}
        blocks[numbers] = answer(dataset.isel(inside), model, verb, dict(options))

    def assembled(name: Any) -> "xr.DataArray":
        variable = looks_like[name]

        def piece(numbers: tuple[int, ...]) -> Any:
            size = {dim: chunks[dim][k] for dim, k in zip(along, numbers, strict=True)}
            shape = tuple(size.get(dim, variable.sizes[dim]) for dim in variable.dims)
            return da.from_delayed(delayed(_values, pure=False)(blocks[numbers], name), shape, variable.dtype)

        def nested(numbers: tuple[int, ...]) -> Any:
            if len(numbers) == len(along):
                return piece(numbers)
            return [nested((*numbers, k)) for k in range(len(chunks[along[len(numbers)]]))]

        return xr.DataArray(da.block(nested(())), dims=variable.dims, attrs=variable.attrs)

    def kept(name: Any) -> "xr.DataArray":
        if name in answers:
            return xr.DataArray(looks_like[name].variable)
        found = dataset[name].variable.transpose(*looks_like[name].dims).copy(deep=False)
        found.attrs = dict(looks_like[name].attrs)
        return xr.DataArray(found)

    return xr.Dataset(
        {name: assembled(name) if name in computed else kept(name) for name in looks_like.data_vars},
        {name: kept(name) for name in looks_like.coords},
        looks_like.attrs,
    )


def as_dataset(given: "xr.Dataset | xr.DataArray") -> "xr.Dataset":
    """A grid as a Dataset whose variables are cut alike: stores are read in chunks that need not be."""
    import xarray as xr

    dataset = given.to_dataset(name=given.name or "value") if isinstance(given, xr.DataArray) else given
    return dataset.unify_chunks()


def chunks_of(dataset: "xr.Dataset") -> Iterator["xr.Dataset"]:
    """The parts of a grid along those dimensions that are in chunks."""
    ends = {dim: np.cumsum(sizes) for dim, sizes in dataset.chunks.items()}
    slices = [
        [(dim, slice(int(end - size), int(end))) for end, size in zip(ends[dim], sizes, strict=True)]
        for dim, sizes in dataset.chunks.items()
    ]
    for inside in itertools.product(*slices):
        yield dataset.isel(dict(inside))


def _values(answer: "xr.Dataset", name: Any) -> np.ndarray:
    return answer[name].to_numpy()


def _without_points(dataset: "xr.Dataset") -> "xr.Dataset":
    """The same variables with no point along any dimension; nothing is computed for it."""
    empty = dataset.isel(dict.fromkeys(dataset.sizes, slice(0, 0)))
    lazy = [name for name, variable in empty.variables.items() if variable.chunks is not None]
    return empty.assign(
        {name: (empty[name].dims, np.empty(empty[name].shape, empty[name].dtype), empty[name].attrs) for name in lazy}
    )
