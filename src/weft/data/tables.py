# SPDX-License-Identifier: MIT
"""Tables of any kind as columns of equal length, and new columns back in the same kind, index and order.

A table is a pandas, polars or pyarrow frame or a relation of a database (one path, by narwhals), or an xarray Dataset or
DataArray, whose rows are the points of the grid its columns span. Whatever the kind, a column is read as a pandas Series,
because that is the one type which holds every kind of time without loss.
"""

import abc
import dataclasses
import difflib
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, final

import numpy as np
from jaxtyping import Bool, Float, Int

from weft.data.number_text import advice_for, is_missing_word

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr
    from narwhals.typing import IntoDataFrame

__all__ = [
    "LARGEST",
    "SMALLEST",
    "AnyTable",
    "FrameTable",
    "GridTable",
    "Table",
    "as_table",
    "distinct_rows",
    "frame_of_kind",
    "name_rows",
    "numbers",
    "require_spread",
    "time_columns",
]

# A table as its owner has it; what is answered is of the same kind.
AnyTable = TypeVar("AnyTable", bound="Table | IntoDataFrame | xr.Dataset | xr.DataArray")

# Fourth powers of numbers in a column, and those of their deviation, are within float64's range.
LARGEST, SMALLEST = 1e75, 1e-75
_DATABASES = frozenset({"duckdb", "ibis", "sqlframe", "pyspark"})


class Table(abc.ABC):
    """Columns of equal length, by name. `parsed` is where readers keep what they made of a column, to make it once."""

    parsed: dict[str, Any]

    @property
    @abc.abstractmethod
    def kind(self) -> str:
        """`pandas`, `polars`, `pyarrow` or `xarray`."""

    @property
    @abc.abstractmethod
    def names(self) -> tuple[str, ...]: ...

    @property
    @abc.abstractmethod
    def num_rows(self) -> int: ...

    @abc.abstractmethod
    def column(self, name: str) -> "pd.Series":
        """One column, numbered from 0 whatever the table's index; KeyError names the columns there are."""

    @abc.abstractmethod
    def rows(self, start: int, stop: int) -> "Table":
        """The rows from `start` up to `stop`, without copying the table."""

    @abc.abstractmethod
    def with_columns(self, columns: Mapping[str, np.ndarray], *, keep: Iterable[str] | None = None) -> Any:
        """A native table of the same kind, index and order: the columns to `keep` (default: all), then the new."""

    @abc.abstractmethod
    def with_replaced(self, name: str, values: np.ndarray, more: Mapping[str, np.ndarray]) -> Any:
        """A native table of the same kind, index and order: other `values` in the place of a column, then `more` columns."""


def as_table(data: Any, columns: Sequence[str] | None = None) -> Table:
    """`data` seen as a table.

    `columns` are the ones that will be asked for. For frames they are only checked; for xarray they also say what a row
    is: one point of the grid spanned by their dimensions.
    """
    if isinstance(data, Table):
        return data
    if _is_xarray(data):
        table: Table = _grid_table(data, columns)
    else:
        table = _frame_table(data)
    for name in columns or ():
        for part in time_columns(table.names, name):
            if part not in table.names:
                raise KeyError(_no_column(part, table.names))
    return table


def time_columns(names: Iterable[str], time: str) -> tuple[str, ...]:
    """The columns of a table that hold a time of this name: one, or those it is joined from, as in "year,month,day"."""
    return (time,) if "," not in time or time in names else tuple(part.strip() for part in time.split(","))


@final
@dataclasses.dataclass(frozen=True)
class FrameTable(Table):
    """A pandas, polars or pyarrow table; for pandas, named levels of the index are columns too."""

    frame: Any  # a narwhals DataFrame
    parsed: dict[str, Any] = dataclasses.field(default_factory=dict, compare=False, repr=False)

    @property
    def kind(self) -> str:
        return str(self.frame.implementation.value)

    @property
    def names(self) -> tuple[str, ...]:
        columns = tuple(self.frame.columns)
        return columns + tuple(name for name in self._index_names() if name not in columns)

    @property
    def num_rows(self) -> int:
        return len(self.frame)

    def column(self, name: str) -> "pd.Series":
        if name in self.frame.columns:
            return _as_pandas(self.frame[name].to_native(), self.kind)
        if name in self._index_names():
            return self.frame.to_native().index.get_level_values(name).to_series(index=range(self.num_rows))
        raise KeyError(_no_column(name, self.names))

    def rows(self, start: int, stop: int) -> "FrameTable":
        return FrameTable(self.frame[start:stop])

    def with_columns(self, columns: Mapping[str, np.ndarray], *, keep: Iterable[str] | None = None) -> Any:
        import narwhals.stable.v2 as nw

        # Index levels stay where they are: in the index.
        kept = [name for name in (self.names if keep is None else keep) if name in self.frame.columns]
        _refuse_collisions(columns, kept)
        for name, values in columns.items():
            _check_length(name, len(values), self.num_rows)
        backend = self.frame.implementation
        new = [nw.new_series(name, np.asarray(values), backend=backend) for name, values in columns.items()]
        if self.kind != "pandas":
            return self.frame.select(kept).with_columns(*new).to_native() if kept else _join_series(new)
        # pandas aligns on the index, which may hold duplicates, so the values go in without one.
        native = self.frame.to_native()
        added = type(native)({name: np.asarray(values) for name, values in columns.items()}, index=native.index)
        import pandas as pd

        return pd.concat([native[kept], added], axis=1) if kept else added

    def with_replaced(self, name: str, values: np.ndarray, more: Mapping[str, np.ndarray]) -> Any:
        import narwhals.stable.v2 as nw

        _refuse_collisions(more, self.names)
        columns = {name: values, **more}
        if self.kind == "pandas":
            # Arrays, so that an index with duplicates does not matter.
            return self.frame.to_native().assign(**columns)
        backend = self.frame.implementation
        new = [nw.new_series(each, np.asarray(array), backend=backend) for each, array in columns.items()]
        return self.frame.with_columns(*new).to_native()

    def _index_names(self) -> tuple[str, ...]:
        if self.kind != "pandas":
            return ()
        return tuple(name for name in self.frame.to_native().index.names if isinstance(name, str))


@final
@dataclasses.dataclass(frozen=True)
class GridTable(Table):
    """The points of an xarray grid as rows, the last dimension running fastest; rows `start` up to `stop` of them.

    What only describes a map (CF's grid mappings) is no column. Times are in the zone that the attribute `time_zone`
    names, where there is one: the Dataset holds them in UTC.
    """

    dataset: "xr.Dataset"
    dims: tuple[str, ...]
    start: int
    stop: int
    parsed: dict[str, Any] = dataclasses.field(default_factory=dict, compare=False, repr=False)

    @property
    def kind(self) -> str:
        return "xarray"

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.dataset.sizes[dim] for dim in self.dims)

    @property
    def names(self) -> tuple[str, ...]:
        along = [dim for dim in self.dims if dim in self.dataset.coords]
        others = [name for name in (*self.dataset.coords, *self.dataset.data_vars) if name not in along]
        mappings = _grid_mappings(self.dataset)
        inside = [str(name) for name in others if set(self.dataset[name].dims) <= set(self.dims)]
        return (*along, *(name for name in inside if name not in mappings))

    @property
    def num_rows(self) -> int:
        return self.stop - self.start

    def column(self, name: str) -> "pd.Series":
        import pandas as pd

        if name not in self.names:
            raise KeyError(_no_column(name, self.names))
        variable = self.dataset[name]
        index = np.unravel_index(np.arange(self.start, self.stop), self.shape) if self.dims else ()
        own = tuple(index[self.dims.index(dim)] for dim in variable.dims)
        values = variable.to_numpy()
        if values.dtype.kind in "TU":
            values = values.astype(object)
        column = pd.Series(values[own] if own else np.full(self.num_rows, values), name=name)
        zone = variable.attrs.get("time_zone")
        return column if zone is None or values.dtype.kind != "M" else _in_zone(column, str(zone), name)

    def rows(self, start: int, stop: int) -> "GridTable":
        return GridTable(self.dataset, self.dims, min(self.start + start, self.stop), min(self.start + stop, self.stop))

    def with_columns(self, columns: Mapping[str, np.ndarray], *, keep: Iterable[str] | None = None) -> "xr.Dataset":
        if self.num_rows != math.prod(self.shape):
            raise ValueError(
                f"a Dataset needs all {math.prod(self.shape)} points of the grid; these are {self.num_rows} of them"
            )
        kept = (*(self.names if keep is None else keep), *_grid_mappings(self.dataset))
        variables = [name for name in kept if name in self.dataset.data_vars]
        _refuse_collisions(columns, [*variables, *map(str, self.dataset.coords)])
        new = {}
        for name, values in columns.items():
            _check_length(name, len(values), self.num_rows)
            new[name] = (self.dims, np.asarray(values).reshape(self.shape))
        # Coordinates along other dimensions (a target's quantile axis, say) do not belong to these rows.
        coordinates = [name for name in self.dataset.coords if not set(self.dataset[name].dims) <= set(self.dims)]
        unwanted = [name for name in self.dataset.data_vars if name not in variables]
        return self.dataset.drop_vars([*coordinates, *unwanted]).assign(new)

    def with_replaced(self, name: str, values: np.ndarray, more: Mapping[str, np.ndarray]) -> "xr.Dataset":
        import xarray as xr

        _refuse_collisions(more, [*map(str, self.dataset.variables)])
        before = self.dataset[name]
        spanned = {
            each: xr.DataArray(np.asarray(array).reshape(self.shape), dims=self.dims)
            for each, array in {name: values, **more}.items()
        }
        # Dimensions stay in the order they had; those that the column lacks come first.
        order = [dim for dim in self.dims if dim not in before.dims] + list(before.dims)
        replaced = {each: array.transpose(*order) for each, array in spanned.items()}
        replaced[name].attrs = dict(before.attrs)
        return self.dataset.assign(replaced)


def frame_of_kind(frame: "pd.DataFrame", kind: str) -> Any:
    """A pandas frame as a frame of this kind; a Dataset's kind of frame is pandas."""
    if kind in ("pandas", "xarray"):
        return frame
    import narwhals.stable.v2 as nw
    import pyarrow as pa

    arrow = pa.Table.from_pandas(frame, preserve_index=False).replace_schema_metadata(None)
    return arrow if kind == "pyarrow" else nw.DataFrame.from_arrow(arrow, backend="polars").to_native()


def numbers(column: "pd.Series", name: str) -> Float[np.ndarray, " row"]:
    """`column` as float64, NaN where a value is missing; text, times and infinities are refused by row and value."""
    import pandas as pd

    if pd.api.types.is_datetime64_any_dtype(column.dtype) or pd.api.types.is_timedelta64_dtype(column.dtype):
        raise TypeError(f"column {name!r} holds times where numbers are needed; give a column of numbers")
    if pd.api.types.is_complex_dtype(column.dtype):
        raise TypeError(f"column {name!r} holds complex numbers; give a column of real numbers")
    if pd.api.types.is_numeric_dtype(column.dtype) or pd.api.types.is_bool_dtype(column.dtype):
        values = column.to_numpy(dtype=np.float64, na_value=np.nan)
    else:
        column = column.astype(object)
        values = np.array(pd.to_numeric(column, errors="coerce"), dtype=np.float64)
        unread = np.flatnonzero(np.isnan(values) & ~column.isna().to_numpy())
        words = [row for row in unread if not is_missing_word(str(column.iloc[row]))]
        if words:
            bad = np.isin(np.arange(len(values)), words)
            advice = advice_for(str(column.iloc[words[0]]))
            raise ValueError(f"column {name!r} must hold numbers; {name_rows(bad, column.to_numpy())}: {advice}")
    if np.any(np.isinf(values)):
        raise ValueError(f"column {name!r} must hold finite numbers; {name_rows(np.isinf(values), values)}")
    if np.any(np.abs(values) > LARGEST):
        large = np.abs(values) > LARGEST
        raise ValueError(
            f"column {name!r} holds numbers too large to compute with, beyond {LARGEST:g}; {name_rows(large, values)}: give it in "
            "other units"
        )
    return values


def require_spread(spread: float, name: str) -> None:
    """Raise where the numbers of a column, or the steps between them, are too small to compute with."""
    if not spread >= SMALLEST:
        raise ValueError(
            f"column {name!r} holds numbers that differ by {spread:.3g}, too little to compute with (below {SMALLEST:g}); give "
            "it in other units"
        )


def name_rows(bad: Bool[np.ndarray, " row"], values: np.ndarray) -> str:
    """The first bad row and its value, and how many more there are, for the end of an error's sentence."""
    rows = np.flatnonzero(bad)
    value = values[rows[0]]
    shown = repr(str(value)) if isinstance(value, str) else f"{value}"
    more = "" if len(rows) == 1 else f", and {len(rows) - 1} more row{'s' if len(rows) > 2 else ''}"
    return f"row {rows[0]} (counting from 0) has {shown}{more}"


def distinct_rows(columns: Sequence[np.ndarray]) -> tuple[Int[np.ndarray, " distinct"], Int[np.ndarray, " row"]]:
    """Where each distinct row of `columns` first occurs, and which of those every row is; NaN equals NaN. O(rows)."""
    import pandas as pd

    codes = np.zeros(len(columns[0]), dtype=np.int64)
    for column in columns:
        more, values = pd.factorize(np.asarray(column), use_na_sentinel=False)
        # Renumbered after each column, so the product of counts stays below rows^2 and never overflows.
        codes, _ = pd.factorize(codes * max(len(values), 1) + more)
    num_distinct = int(codes.max()) + 1 if len(codes) else 0
    first = np.full(num_distinct, -1, dtype=np.int64)
    first[codes[::-1]] = np.arange(len(codes) - 1, -1, -1)
    return first, codes.astype(np.int64)


def _is_xarray(data: Any) -> bool:
    return type(data).__module__.partition(".")[0] == "xarray"


def _frame_table(data: Any) -> FrameTable:
    import narwhals.stable.v2 as nw

    if type(data).__name__ == "LazyFrame":
        raise TypeError("the table is a LazyFrame, which has no rows yet; call .collect() on it first")
    try:
        found = nw.from_native(data)
        # A relation of a database has its rows there; they come as Arrow has them.
        relation = isinstance(found, nw.LazyFrame) and str(found.implementation.value) in _DATABASES
        frame = found.collect("pyarrow") if relation else nw.from_native(data, eager_only=True)
    except TypeError:
        frame = None
    except nw.exceptions.DuplicateError as error:
        raise ValueError(
            f"two columns of the table have one name; rename one ({' '.join(str(error).split())})"
        ) from error
    if frame is None or not (
        frame.implementation.is_pandas() or str(frame.implementation.value) in ("polars", "pyarrow")
    ):
        if type(data).__module__.partition(".")[0] == "dask":
            raise TypeError(
                "fit, predict, fill, sample and score take a table on Dask; this needs all rows together: "
                "give table.compute() where they fit into memory"
            )
        raise TypeError(
            f"a table must be a pandas, polars or pyarrow table or an xarray Dataset or DataArray; "
            f"this is a {type(data).__module__}.{type(data).__name__}"
        )
    return FrameTable(frame)


def _grid_table(data: Any, columns: Sequence[str] | None) -> GridTable:
    import xarray as xr

    if isinstance(data, xr.DataArray):
        data = data.to_dataset(name=data.name or "value")
    if not isinstance(data, xr.Dataset):
        raise TypeError(f"of xarray's types a table may be a Dataset or DataArray; this is a {type(data).__name__}")
    asked = [name for name in (data.variables if columns is None else columns) if name in data.variables]
    spanned = {dim for name in asked for dim in data[name].dims}
    dims = tuple(str(dim) for dim in _dimension_order(data) if dim in spanned)
    return GridTable(data, dims, 0, math.prod(data.sizes[dim] for dim in dims))


def _dimension_order(dataset: "xr.Dataset") -> list[Any]:
    """Dimensions in the order of the widest variable, so that a map stays (time, lat, lon); then the rest as listed."""
    widest = max(dataset.variables.values(), key=lambda variable: variable.ndim, default=None)
    first = list(widest.dims) if widest is not None and widest.ndim > 1 else []
    return first + [dim for dim in dataset.sizes if dim not in first]


def _grid_mappings(dataset: "xr.Dataset") -> tuple[str, ...]:
    """Variables without values that say how a map is drawn, by their own attributes or because others name them."""
    named = {variable.attrs.get("grid_mapping") for variable in dataset.variables.values()}
    return tuple(
        str(name)
        for name, variable in dataset.variables.items()
        if variable.ndim == 0 and (name in named or {"grid_mapping_name", "crs_wkt"} & set(variable.attrs))
    )


def _in_zone(column: "pd.Series", zone: str, name: str) -> "pd.Series":
    try:
        return column.dt.tz_localize("UTC").dt.tz_convert(zone)
    except (KeyError, ValueError) as error:
        raise ValueError(f"the attribute time_zone of {name!r} must name a time zone; it is {zone!r}") from error


def _as_pandas(series: Any, kind: str) -> "pd.Series":
    if kind == "pandas":
        return series.reset_index(drop=True)
    if kind == "pyarrow":
        import pyarrow as pa

        if pa.types.is_decimal(series.type):
            # What databases keep as decimals are numbers here.
            series = series.cast(pa.float64())
        # Through a table: a bare chunked array loses its time zone in some versions.
        return pa.table({"column": series}).to_pandas(date_as_object=False)["column"]
    return series.to_pandas()


def _join_series(series: Sequence[Any]) -> Any:
    first, *others = series
    return first.to_frame().with_columns(*others).to_native()


def _no_column(name: str, names: Sequence[str]) -> str:
    close = difflib.get_close_matches(str(name), [str(other) for other in names], n=1, cutoff=0.75)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    return f"table has no column {name!r}; it has {list(names)}{hint}"


def _refuse_collisions(columns: Mapping[str, np.ndarray], kept: Sequence[str]) -> None:
    clashing = [name for name in columns if name in kept]
    if clashing:
        raise ValueError(f"the table already has a column {clashing[0]!r}, which is written here; rename it first")


def _check_length(name: str, length: int, num_rows: int) -> None:
    if length != num_rows:
        raise ValueError(f"column {name!r} has {length} values for {num_rows} rows; give one value a row")
