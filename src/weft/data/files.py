# SPDX-License-Identifier: MIT
"""Tables from files and to files, by the file's name; written whole or not at all.

Text, parquet, NetCDF and Zarr are read and written; Excel, GeoPackage, GeoJSON and GeoTIFF are read.
"""

import os
import pathlib
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Literal, final

import numpy as np

from weft.data.atomic import whole_file, whole_folder
from weft.data.csv_text import read_csv, require_flat, write_csv
from weft.data.parts import PartsAlike, is_of_parts, joined_parts, parts_of, read_part
from weft.data.special import refuse_special
from weft.data.tables import as_table
from weft.data.valid_values import without_invalid
from weft.phases import timing

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa
    import xarray as xr

__all__ = [
    "ENDINGS",
    "READ_ONLY",
    "as_dataset",
    "file_kind",
    "read_table",
    "read_table_to_answer",
    "tables_to_answer",
    "write_pieces",
    "write_table",
]

ENDINGS = {
    ".csv": "csv",
    ".csv.gz": "csv",
    ".tsv": "csv",
    ".tsv.gz": "csv",
    ".txt": "csv",
    ".txt.gz": "csv",
    ".parquet": "parquet",
    ".nc": "netcdf",
    ".nc4": "netcdf",
    ".netcdf": "netcdf",
    ".zarr": "zarr",
    ".xlsx": "excel",
    ".xlsm": "excel",
    ".geojson": "points",
    ".gpkg": "points",
    ".tif": "raster",
    ".tiff": "raster",
}
READ_ONLY = frozenset({"excel", "points", "raster"})
# Names of the calendar people use, in the words of CF.
_CALENDARS = frozenset({"standard", "gregorian", "proleptic_gregorian"})
# Rows handled at a time: enough to be fast, 100 MB at a dozen columns.
_ROWS_AT_ONCE = 1_000_000
# Enough rows to see what a column of objects holds.
_ROWS_LOOKED_AT = 1000
# What one chunk of a gridded variable should hold: 1 MB, the usual advice for HDF5's chunk cache.
_CHUNK_VALUES = 131_072


def file_kind(path: str | os.PathLike[str], *, to_write: bool = False) -> str:
    """`csv` (any text), `parquet`, `netcdf`, `zarr`, `excel`, `points` or `raster`, by the ending of the name."""
    name = pathlib.Path(path).name.lower()
    allowed = {ending: kind for ending, kind in ENDINGS.items() if not (to_write and kind in READ_ONLY)}
    for ending, kind in allowed.items():
        if name.endswith(ending):
            return kind
    if name.endswith(".xls"):
        raise ValueError(f"{str(path)!r} is an Excel file of before 2007, which is not read; save it as xlsx or csv")
    if to_write and any(name.endswith(ending) for ending in ENDINGS):
        raise ValueError(
            f"{str(path)!r} is of a kind that is only read; write to a name that ends in {', '.join(allowed)}"
        )
    raise ValueError(f"cannot tell what kind of file {str(path)!r} is; its name must end in {', '.join(allowed)}")


@timing("read")
def read_table(path: str | os.PathLike[str]) -> "pd.DataFrame | xr.Dataset":
    """A pandas frame from text, parquet, Excel and points, an xarray Dataset from NetCDF, Zarr and GeoTIFF.

    Times in text stay text, exactly as written, and so do codes such as 007 and NA: nothing about them is guessed here. A folder of
    parquet files, or a pattern such as `2020-*.parquet`, is one table.
    """
    if is_of_parts(path):
        return joined_parts([read_part(part) for part in parts_of(path)])
    kind = file_kind(path)
    refuse_special(path, f"cannot read {str(path)!r}")
    place = pathlib.Path(path)
    if not place.exists():
        raise FileNotFoundError(f"there is no file {str(path)!r}")
    if kind != "zarr" and place.stat().st_size == 0:
        raise ValueError(f"{str(path)!r} is empty; give a file with a header and at least one row")
    table = _READERS[kind](place)
    if _is_pandas(table) and len(table) == 0:
        raise ValueError(f"{str(path)!r} has a header but no rows; give a table with at least one row")
    if kind in ("netcdf", "zarr") and not table.variables:
        raise ValueError(f"{str(path)!r} is not a table: it has no variables")
    return table


def read_table_to_answer(path: str | os.PathLike[str], output: str | os.PathLike[str]) -> "pd.DataFrame | xr.Dataset":
    """The table at `path`, as a Dataset where `output` is to be one, so that answers are described as those are."""
    return _to_answer(read_table(path), output)


def _to_answer(table: "pd.DataFrame | xr.Dataset", output: str | os.PathLike[str]) -> "pd.DataFrame | xr.Dataset":
    if file_kind(output) == "csv" and _is_pandas(table):
        # What the writer would refuse after the long work.
        require_flat(_as_arrow(table.head(_ROWS_LOOKED_AT)).schema)
    return as_dataset(table) if file_kind(output) in ("netcdf", "zarr") else table


def tables_to_answer(
    path: str | os.PathLike[str], output: str | os.PathLike[str]
) -> "Iterable[pd.DataFrame | xr.Dataset]":
    """The same as tables whose answers follow each other in `output`: many files one by one, each read when its turn comes."""
    return _FilesToAnswer(path, output) if is_of_parts(path) else (read_table_to_answer(path, output),)


@final
class _FilesToAnswer:
    """Those of many files that have rows, as parts of one table."""

    def __init__(self, path: str | os.PathLike[str], output: str | os.PathLike[str]):
        self.files = PartsAlike(path)
        self.output = output

    def __iter__(self) -> "Iterator[pd.DataFrame | xr.Dataset]":
        for part in self.files.parts:
            yield _to_answer(self.files.read(part), self.output)


@timing("write")
def write_table(data: Any, path: str | os.PathLike[str]) -> None:
    """A table of any kind to a file of any kind; points of a grid become rows where the file has no dimensions."""
    kind = file_kind(path, to_write=True)
    if kind == "parquet" and _is_pandas(data):
        import pyarrow as pa
        import pyarrow.parquet as pq

        # In one piece, because only so pandas' own notes on index and types reach the file.
        with whole_file(path) as part:
            pq.write_table(
                pa.Table.from_pandas(data), part, row_group_size=_ROWS_AT_ONCE, compression="zstd", store_schema=True
            )
        return
    if kind in ("netcdf", "zarr"):
        write_pieces([data], path)
        return
    table = as_table(data)
    starts = range(0, max(table.num_rows, 1), _ROWS_AT_ONCE)
    write_pieces((_native(table.rows(start, start + _ROWS_AT_ONCE)) for start in starts), path)


@timing("write")
def write_pieces(pieces: Iterable[Any], path: str | os.PathLike[str]) -> None:
    """Tables one after another into one file, holding one at a time.

    Frames follow each other by rows. Datasets follow each other along the first dimension of their widest variable.
    """
    kind = file_kind(path, to_write=True)
    if kind == "csv":
        name = str(path).lower()
        separator = "," if ".csv" in pathlib.Path(name).suffixes else "\t"
        with whole_file(path) as part:
            arrow = (_as_arrow(piece) for piece in pieces)
            write_csv(arrow, part, compressed=name.endswith(".gz"), separator=separator)
    elif kind == "parquet":
        with whole_file(path) as part:
            _write_parquet((_as_arrow(piece) for piece in pieces), part)
    elif kind == "netcdf":
        from weft.data.grids import write_netcdf

        with whole_file(path) as part:
            write_netcdf((as_dataset(piece) for piece in pieces), part, _CHUNK_VALUES)
    else:
        from weft.data.grids import write_zarr

        with whole_folder(path) as part:
            write_zarr((as_dataset(piece) for piece in pieces), part, _CHUNK_VALUES)


def _read_csv(path: pathlib.Path) -> "pd.DataFrame":
    return read_csv(path).to_pandas(split_blocks=True, self_destruct=True)


def _read_parquet(path: pathlib.Path) -> "pd.DataFrame":
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        names = pq.read_schema(path).names
        repeated = sorted({name for name in names if names.count(name) > 1})
        if not repeated:
            return pq.read_table(path).to_pandas(split_blocks=True, self_destruct=True)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise ValueError(f"{str(path)!r} is not a parquet file, or it is damaged; write it again") from error
    raise ValueError(f"{str(path)!r} has more than one column {repeated[0]!r}; give each a name of its own")


def _read_netcdf(path: pathlib.Path) -> "xr.Dataset":
    import xarray as xr

    with path.open("rb") as file:
        engine: Literal["scipy", "h5netcdf"] = "scipy" if file.read(3) == b"CDF" else "h5netcdf"
    try:
        loaded = xr.load_dataset(path, engine=engine)
    except MemoryError:
        raise
    except Exception as error:
        # Whatever a library says of bytes it cannot make sense of: there is no list of it.
        _refuse_calendar(path, engine)
        raise ValueError(f"{str(path)!r} is not a NetCDF file, or it is damaged ({_first_line(error)})") from error
    return without_invalid(loaded, str(path))


def _read_zarr(path: pathlib.Path) -> "xr.Dataset":
    import xarray as xr

    try:
        with xr.open_dataset(path, engine="zarr", chunks=None, consolidated=False) as dataset:
            loaded = dataset.load()
    except MemoryError:
        raise
    except Exception as error:
        _refuse_calendar(path, "zarr")
        raise ValueError(f"{str(path)!r} is not a Zarr store, or it is damaged ({_first_line(error)})") from error
    return without_invalid(loaded, str(path))


def _read_excel(path: pathlib.Path) -> "pd.DataFrame":
    from weft.data.spreadsheets import read_workbook

    return read_workbook(path)


def _read_points(path: pathlib.Path) -> "pd.DataFrame":
    from weft.data.geographic_files import read_points

    return read_points(path)


def _read_raster(path: pathlib.Path) -> "xr.Dataset":
    from weft.data.geographic_files import read_raster

    return read_raster(path)


_READERS: dict[str, Callable[[pathlib.Path], Any]] = {
    "csv": _read_csv,
    "parquet": _read_parquet,
    "netcdf": _read_netcdf,
    "zarr": _read_zarr,
    "excel": _read_excel,
    "points": _read_points,
    "raster": _read_raster,
}


def _refuse_calendar(path: pathlib.Path, engine: Literal["scipy", "h5netcdf", "zarr"]) -> None:
    """Raise if what cannot be read are the times only, because their calendar is that of a climate model."""
    import xarray as xr

    more: dict[str, Any] = {"consolidated": False} if engine == "zarr" else {}
    try:
        with xr.open_dataset(path, engine=engine, decode_times=False, chunks=None, **more) as dataset:
            calendars = {name: variable.attrs.get("calendar") for name, variable in dataset.variables.items()}
    except Exception:
        return
    for name, calendar in calendars.items():
        if calendar is not None and str(calendar).lower() not in _CALENDARS:
            raise ValueError(
                f"{str(path)!r} has times ({str(name)!r}) in the calendar {calendar!r}, which has other days than ours; "
                "convert them first with xarray's .convert_calendar('standard') (it needs cftime)"
            )


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def _write_parquet(pieces: Iterable["pa.Table"], path: pathlib.Path) -> None:
    import pyarrow.parquet as pq

    writer = None
    try:
        for piece in pieces:
            if writer is None:
                writer = pq.ParquetWriter(path, piece.schema, compression="zstd")
            writer.write_table(_of_types(piece, writer.schema))
    finally:
        if writer is not None:
            writer.close()
    if writer is None:
        raise ValueError("there is nothing to write: no piece of a table came")


def _of_types(piece: "pa.Table", schema: "pa.Schema") -> "pa.Table":
    """A piece with the types of those before it."""
    import pyarrow as pa

    try:
        return piece.cast(schema)
    except (pa.ArrowException, ValueError) as error:
        raise ValueError(
            f"parts of the table have columns of other types, which one parquet file cannot hold ({_first_line(error)}); give "
            "each column one type in all parts"
        ) from error


def _is_pandas(data: Any) -> bool:
    return type(data).__module__.partition(".")[0] == "pandas"


def _native(table: Any) -> Any:
    if table.kind == "xarray":
        import pandas as pd

        return pd.DataFrame({name: table.column(name) for name in table.names})
    return table.frame.to_native()


def _as_arrow(piece: Any) -> "pa.Table":
    """A piece as an Arrow table; an index that says something comes first, as columns."""
    import pyarrow as pa

    if isinstance(piece, pa.Table):
        return piece
    if _is_pandas(piece):
        import pandas as pd

        if not isinstance(piece.index, pd.RangeIndex):
            piece = piece.reset_index()
        return pa.Table.from_pandas(piece, preserve_index=False).replace_schema_metadata(None)
    table = as_table(piece)
    if table.kind == "xarray":
        return _as_arrow(_native(table))
    return table.frame.to_arrow()  # type: ignore[attr-defined]


def as_dataset(data: Any) -> "xr.Dataset":
    """A table as a Dataset; rows of a frame lie along a dimension `row`, and its plain attributes are kept."""
    import pandas as pd
    import xarray as xr

    if isinstance(data, xr.DataArray):
        return data.to_dataset(name=data.name or "value")
    if isinstance(data, xr.Dataset):
        return data
    table = as_table(data)
    variables = {}
    for name in table.names:
        column = table.column(name)
        attributes = {}
        if isinstance(column.dtype, pd.DatetimeTZDtype):
            # NetCDF has no time zones: the instants are kept, in UTC, and the zone is noted.
            attributes["time_zone"] = str(column.dt.tz)
            column = column.dt.tz_convert("UTC").dt.tz_localize(None)
        elif isinstance(column.dtype, pd.CategoricalDtype | pd.StringDtype) or column.dtype == object:
            column = column.astype(object).where(column.notna(), "").astype(str).astype(object)
        elif pd.api.types.is_extension_array_dtype(column.dtype):
            column = column.astype(np.float64)
        variables[name] = ("row", column.to_numpy(), attributes)
    return xr.Dataset(variables, attrs={"Conventions": "CF-1.11"} | _attributes(data))


def _attributes(data: Any) -> dict[str, str | int | float]:
    """What a frame says of itself that a file can hold."""
    import pyarrow as pa

    if isinstance(data, pa.Table):
        noted = (data.schema.metadata or {}).get(b"of")
        return {} if noted is None else {"of": noted.decode()}
    if not _is_pandas(data):
        return {}
    return {str(name): value for name, value in data.attrs.items() if isinstance(value, str | int | float)}
