# SPDX-License-Identifier: MIT
"""Datasets written to NetCDF and Zarr in chunks, one piece after another along their first dimension."""

import errno
import os
import pathlib
import shutil
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["write_netcdf", "write_zarr"]

_EPOCH = "1970-01-01"
# What HDF5 may need beyond the values: headers, indices of chunks, chunks filled in part.
_OVERHEAD_BYTES = 131_072
_OVERHEAD_SHARE = 0.02


def write_netcdf(pieces: Iterable["xr.Dataset"], path: pathlib.Path, chunk_values: int) -> None:
    """Pieces of a Dataset into one NetCDF-4 file; only one is held at a time."""
    import h5netcdf

    remaining = iter(pieces)
    first = _first(remaining)
    along = _growing_dimension(first)
    second = next(remaining, None)
    encoding = _encoding(first, chunk_values, "chunksizes")
    unlimited = [along] if second is not None and along is not None else []
    _reserve(path, first)
    first.to_netcdf(path, engine="h5netcdf", encoding=encoding, unlimited_dims=unlimited)
    if second is None:
        return
    if along is None:
        raise ValueError("a Dataset without dimensions cannot be continued by another")
    with h5netcdf.File(path, "a") as file:
        for piece in _chain(second, remaining):
            _check_alike(first, piece, along)
            _reserve(path, piece)
            start = file.dimensions[along].size
            stop = start + piece.sizes[along]
            file.resize_dimension(along, stop)
            for name, variable in piece.variables.items():
                if along in variable.dims:
                    axis = variable.dims.index(along)
                    slab = tuple(slice(start, stop) if k == axis else slice(None) for k in range(variable.ndim))
                    file.variables[name][slab] = _raw(variable, encoding[str(name)])


def write_zarr(pieces: Iterable["xr.Dataset"], path: pathlib.Path, chunk_values: int) -> None:
    """Pieces of a Dataset into one Zarr store; only one is held at a time."""
    remaining = iter(pieces)
    first = _first(remaining)
    along = _growing_dimension(first)
    first.to_zarr(path, mode="w", encoding=_encoding(first, chunk_values, "chunks"), consolidated=False)
    for piece in remaining:
        if along is None:
            raise ValueError("a Dataset without dimensions cannot be continued by another")
        _check_alike(first, piece, along)
        # Zarr checks what does not grow against what is there; it is there already.
        grown = piece.drop_vars([name for name in piece.variables if along not in piece[name].dims])
        grown.to_zarr(path, append_dim=along, consolidated=False)


def _reserve(path: pathlib.Path, dataset: "xr.Dataset") -> None:
    """Raise the system's own error unless the disk has room for `dataset`: HDF5 ends the process when it finds none."""
    stored = sum(_stored_bytes(variable) for variable in dataset.variables.values())
    needed = int(stored * (1 + _OVERHEAD_SHARE)) + _OVERHEAD_BYTES
    if not hasattr(os, "posix_fallocate"):
        # Neither macOS nor Windows sets room aside; what is free may be taken by others meanwhile.
        if shutil.disk_usage(path.parent).free < needed:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        return
    trial = path.with_name(f"{path.name}.room")
    handle = os.open(trial, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    try:
        os.posix_fallocate(handle, 0, needed)
    finally:
        os.close(handle)
        os.unlink(trial)


def _stored_bytes(variable: Any) -> int:
    if variable.dtype.kind in "OTU":
        # A reference of 16 bytes and the text, in a heap of its own.
        return sum(32 + 4 * len(str(text)) for text in variable.to_numpy().ravel())
    return int(variable.size) * max(int(variable.dtype.itemsize), 1)


def _first(pieces: Iterator["xr.Dataset"]) -> "xr.Dataset":
    first = next(pieces, None)
    if first is None:
        raise ValueError("there is nothing to write: no piece of a Dataset came")
    return first


def _chain(second: "xr.Dataset", rest: Iterator["xr.Dataset"]) -> Iterator["xr.Dataset"]:
    yield second
    yield from rest


def _growing_dimension(dataset: "xr.Dataset") -> str | None:
    widest = max(dataset.data_vars.values(), key=lambda variable: variable.ndim, default=None)
    return None if widest is None or widest.ndim == 0 else str(widest.dims[0])


def _check_alike(first: "xr.Dataset", piece: "xr.Dataset", along: str) -> None:
    if set(first.variables) != set(piece.variables):
        had, has = (sorted(map(str, dataset.variables)) for dataset in (first, piece))
        raise ValueError(f"the pieces of a Dataset differ: {had}, then {has}")
    others = {dim: size for dim, size in first.sizes.items() if dim != along}
    if others != {dim: size for dim, size in piece.sizes.items() if dim != along}:
        raise ValueError(f"the pieces of a Dataset differ in size: {dict(first.sizes)}, then {dict(piece.sizes)}")


def _encoding(dataset: "xr.Dataset", chunk_values: int, chunks_name: str) -> dict[str, dict[str, Any]]:
    """Chunks of about `chunk_values` values that keep whole slices of the last dimensions; times in whole seconds."""
    encoding: dict[str, dict[str, Any]] = {}
    for name, variable in dataset.variables.items():
        settings: dict[str, Any] = {}
        if variable.ndim and variable.size:
            settings[chunks_name] = _chunk_shape(variable.shape, chunk_values)
        if np.issubdtype(variable.dtype, np.datetime64):
            values = variable.to_numpy()
            whole = bool(np.all(np.isnat(values) | (values == values.astype("datetime64[s]"))))
            unit = "seconds" if whole else "microseconds"
            settings |= {"units": f"{unit} since {_EPOCH}", "calendar": "proleptic_gregorian", "dtype": "int64"}
            if np.isnat(values).any():
                settings |= {"_FillValue": np.iinfo(np.int64).min}
        elif np.issubdtype(variable.dtype, np.floating) and name not in dataset.coords:
            settings["_FillValue"] = np.nan
        elif np.issubdtype(variable.dtype, np.floating):
            settings["_FillValue"] = None
        encoding[str(name)] = settings
    return encoding


def _chunk_shape(shape: tuple[int, ...], chunk_values: int) -> tuple[int, ...]:
    chunk = []
    room = chunk_values
    for size in reversed(shape):
        chunk.append(max(1, min(size, room)))
        room //= chunk[-1]
    return tuple(reversed(chunk))


def _raw(variable: Any, settings: dict[str, Any]) -> np.ndarray:
    """Values as they lie in the file."""
    values = variable.to_numpy()
    if not np.issubdtype(values.dtype, np.datetime64):
        return values
    unit = "s" if settings["units"].startswith("seconds") else "us"
    raw = values.astype(f"datetime64[{unit}]")
    if np.any((raw != values) & ~np.isnat(values)):
        raise ValueError("the pieces of a Dataset differ: times in whole seconds, then in parts of a second")
    return raw.astype(np.int64)
