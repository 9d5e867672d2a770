# SPDX-License-Identifier: MIT
"""Units: coordinates in kilometres or standard deviations, numbers of kinds, a target of mean 0 and variance 1, and the way back.

Longitude and latitude become kilometres. Within 1000 km of the middle of the data they are projected (azimuthal
equidistant on the WGS 84 ellipsoid, centred there: a distance is off by at most c / sin c - 1 = 0.4 %). Wider data lie
on a sphere of the Earth's mean radius, as three columns whose distance is the chord, for which every kernel of
space is valid; treating geodetic latitude as spherical costs at most 0.6 % of a distance. Neither has a seam at the
antimeridian nor a weak spot at the poles.
"""

import dataclasses
import re
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, final

import numpy as np
from jaxtyping import Float

from weft.data.areas import Areas
from weft.data.categories import MISSING, Category, Labels, learn_category
from weft.data.moments import NO_MOMENTS, MomentsOf, moments_of
from weft.data.schema import require_choice, require_finite
from weft.data.tables import SMALLEST, distinct_rows, name_rows, require_spread
from weft.data.transforms import Transform, log_density, quantiles, transform_named

__all__ = [
    "EARTH_RADIUS_KM",
    "HEIGHT_WORDS",
    "Dimension",
    "Geography",
    "Marks",
    "Plane",
    "Scaling",
    "TargetScaling",
    "centre_and_scale",
    "find_easting_northing",
    "find_lon_lat",
    "find_plane",
    "learn_scaling",
    "learn_target",
]

EARTH_RADIUS_KM = 6371.0088  # the mean radius (2 a + b) / 3 of WGS 84
_NARROW_RADIUS_KM = 1000.0
# Also as weather services of other countries name them, without accents.
_LONGITUDE_WORDS = frozenset(
    {"lon", "long", "lng", "longitude", "longitud", "longitudine", "decimallongitude"}
    | {"lange", "laenge", "langengrad", "laengengrad", "geolange", "geolaenge", "lengtegraad"}
)
_LATITUDE_WORDS = frozenset(
    {"lat", "latitude", "latitud", "latitudine", "decimallatitude"}
    | {"breite", "breitengrad", "geobreite", "breedtegraad"}
)
HEIGHT_WORDS = frozenset(
    {"elevation", "elev", "altitude", "alt", "height", "dem", "z", "altitud", "altitudine", "quota", "hoogte"}
    | {"hohe", "hoehe", "stationshohe", "stationshoehe", "meereshohe", "meereshoehe"}
)
_EASTING_WORDS, _NORTHING_WORDS = {"easting", "eastings", "rechtswert"}, {"northing", "northings", "hochwert"}
_PLANE = ("x", "y")
# What may stand beside x and y in a name.
_PLANE_WORDS = frozenset(
    {
        "",
        "utm",
        "m",
        "coord",
        "coords",
        "coordinate",
        "metres",
        "meters",
        "proj",
        "point",
        "centroid",
        "pos",
        "position",
    }
)
# No map in degrees or kilometres is so wide, and none in metres so narrow.
_FEWEST_METRES = 1000.0
_UNIT = re.compile(r".*[\s_(\[](km|m|ft|feet|metres|meters)[)\]]?", re.IGNORECASE)
# Heights that differ by less are hardly in metres.
_LEAST_RELIEF = 10.0

# Of space: numbers, or the kind of each row.
Column = Float[np.ndarray, " row"] | Labels


@final
@dataclasses.dataclass(frozen=True)
class Dimension:
    """One column of scaled coordinates; a length of 1 along it is `scale` `unit`s of what people measure.

    Dimensions of the same `group` are directions of one space, so one length scale for all of them makes sense.
    """

    name: str
    unit: str
    scale: float
    group: str


@final
@dataclasses.dataclass(frozen=True)
class Geography:
    """Two columns measured in kilometres.

    `method` is "projected" (degrees, near the centre), "sphere" (degrees, anywhere) or "plane" (metres already).
    """

    method: str
    first: str  # longitude or easting
    second: str  # latitude or northing
    centre_longitude: float = 0.0
    centre_latitude: float = 0.0
    longitudes_from: float = -180.0  # whether people write 190 or -170

    @property
    def dimensions(self) -> tuple[Dimension, ...]:
        names = ("x", "y", "z") if self.method == "sphere" else ("east", "north")
        return tuple(Dimension(name, "km", 1.0, "map") for name in names)

    def forward(
        self, first: Float[np.ndarray, " row"], second: Float[np.ndarray, " row"]
    ) -> Float[np.ndarray, "row dim"]:
        if self.method == "plane":
            return np.stack([first, second], axis=1) / 1000.0
        _check_degrees(first, self.first, -180.0, 360.0)
        _check_degrees(second, self.second, -90.0, 90.0)
        # Stations repeat: a projection costs a microsecond a point, looking a place up far less.
        kept, inverse = distinct_rows([first, second])
        first, second = first[kept], second[kept]
        if self.method == "sphere":
            return (EARTH_RADIUS_KM * _unit_vectors(first, second))[inverse]
        east, north = self._projection()(first, second)
        return np.stack([east, north], axis=1)[inverse]

    def inverse(
        self, places: Float[np.ndarray, "row dim"]
    ) -> tuple[Float[np.ndarray, " row"], Float[np.ndarray, " row"]]:
        if self.method == "plane":
            return places[:, 0] * 1000.0, places[:, 1] * 1000.0
        if self.method == "sphere":
            x, y, z = places.T
            longitude, latitude = np.degrees(np.arctan2(y, x)), np.degrees(np.arctan2(z, np.hypot(x, y)))
        else:
            longitude, latitude = self._projection()(places[:, 0], places[:, 1], inverse=True)
        turned = np.mod(longitude - self.longitudes_from, 360.0) + self.longitudes_from
        # mod leaves a last-digit difference where nothing had to turn.
        unturned = (longitude >= self.longitudes_from) & (longitude <= self.longitudes_from + 360.0)
        return np.where(unturned, longitude, turned), np.asarray(latitude)

    def along_the_ground(self, lengths: Float[np.ndarray, " dim"]) -> dict[str, tuple[float, str]]:
        """Length scales of the three columns of a sphere as those to the east and north at the middle of the data, in km."""
        lon, lat = np.radians(self.centre_longitude), np.radians(self.centre_latitude)
        east = np.array([-np.sin(lon), np.cos(lon), 0.0])
        north = np.array([-np.sin(lat) * np.cos(lon), -np.sin(lat) * np.sin(lon), np.cos(lat)])
        return {
            name: (float(1 / np.sqrt(np.sum((direction / lengths) ** 2))), "km")
            for name, direction in (("east", east), ("north", north))
        }

    def _projection(self) -> Any:
        import pyproj

        return pyproj.Proj(
            proj="aeqd", lon_0=self.centre_longitude, lat_0=self.centre_latitude, ellps="WGS84", units="km"
        )


@final
@dataclasses.dataclass(frozen=True)
class Scaling:
    """How the columns of space become coordinates, in the order of `columns`, and back.

    Columns that say of which kind a place is come last, whatever their order: the number of the kind. Where rows may be means over
    `areas` one more column has the number of the area, -1 at a place; the others are then those of its middle.
    """

    columns: tuple[str, ...]
    geography: Geography | None
    centres: dict[str, float]  # of the columns that are standardised
    scales: dict[str, float]
    kinds: tuple[Category, ...] = ()
    areas: Areas | None = None

    @property
    def dimensions(self) -> tuple[Dimension, ...]:
        """One for each column of coordinates, those of kinds and of areas included."""
        marks = [*(kind.name for kind in self.kinds), *(() if self.areas is None else (self.areas.column,))]
        return (*self.ordered, *(Dimension(name, "kinds", 1.0, name) for name in marks))

    @property
    def marks(self) -> "Marks":
        """What the columns of coordinates are that follow the ordered ones."""
        return Marks(tuple(kind.num_levels for kind in self.kinds), self.areas)

    @property
    def ordered(self) -> tuple[Dimension, ...]:
        """Those along which there is near and far."""
        found: list[Dimension] = []
        for column in self.columns:
            if column in self.centres:
                found.append(Dimension(column, _unit_of(column, self.scales[column]), self.scales[column], column))
            elif self.geography is not None and not any(dimension.group == "map" for dimension in found):
                found.extend(self.geography.dimensions)
        return tuple(found)

    @property
    def map_dimensions(self) -> list[int]:
        """Which columns of the coordinates are kilometres on the map; all of them where nothing is."""
        on_map = [k for k, dimension in enumerate(self.ordered) if dimension.group == "map"]
        return on_map or list(range(len(self.ordered)))

    @property
    def alike(self) -> list[int]:
        """Which columns of the coordinates are directions of one map: those of a geography, or columns called x and y."""
        dimensions = self.ordered
        on_map = [k for k, dimension in enumerate(dimensions) if dimension.group == "map"]
        plane = [k for k, dimension in enumerate(dimensions) if dimension.name.lower() in _PLANE]
        return on_map or (plane if len(plane) == len(_PLANE) else [])

    def forward(self, values: Mapping[str, Column]) -> Float[np.ndarray, "row dim"]:
        """Coordinates of the rows; missing ones are refused by row, and so are degrees that cannot be."""
        if self.areas is not None:
            return self._with_areas(self.areas, values)
        kinds = {kind.name: kind for kind in self.kinds}
        for column in self.columns:
            if column not in kinds:
                _check_present(values[column], column)
        blocks: list[np.ndarray] = []
        mapped = False
        for column in self.columns:
            if column in self.centres:
                blocks.append(((values[column] - self.centres[column]) / self.scales[column])[:, None])
            elif self.geography is not None and not mapped:
                blocks.append(self.geography.forward(values[self.geography.first], values[self.geography.second]))
                mapped = True
        blocks += [kind.numbers(values[name])[:, None] for name, kind in kinds.items()]
        num_rows = len(values[self.columns[0]]) if self.columns else 0
        return np.concatenate(blocks, axis=1) if blocks else np.empty((num_rows, 0))

    def _with_areas(self, areas: Areas, values: Mapping[str, Column]) -> Float[np.ndarray, "row dim"]:
        """The same, of rows of which some have no coordinates but those of their area's middle."""
        num_rows = len(values[self.columns[0]])
        labels = values[areas.column] if areas.column in values else np.full(num_rows, MISSING)
        number = areas.numbers(labels)
        is_area, without = number >= 0, dataclasses.replace(self, areas=None)
        middles = without.inverse(areas.middles)
        # A row of an area need not say where it is.
        filled = {name: np.where(is_area, middles[name][number], values[name]) for name in self.columns}
        places = np.append(without.forward(filled), number[:, None].astype(np.float64), axis=1)
        places[is_area, :-1] = areas.middles[number[is_area]]
        return places

    def inverse(self, places: Float[np.ndarray, "row dim"]) -> dict[str, Column]:
        """The columns people know, from coordinates."""
        groups = [dimension.group for dimension in self.dimensions]
        found: dict[str, np.ndarray] = {
            kind.name: kind.labels(places[:, groups.index(kind.name)]) for kind in self.kinds
        }
        if self.geography is not None:
            on_map = self.geography.inverse(places[:, self.map_dimensions])
            found[self.geography.first], found[self.geography.second] = on_map
        for column, centre in self.centres.items():
            found[column] = places[:, groups.index(column)] * self.scales[column] + centre
        named = {} if self.areas is None else {self.areas.column: self.areas.labels(places[:, -1])}
        return {column: found[column] for column in self.columns} | named

    def lengths(self, lengthscales: Float[np.ndarray, " dim"] | float) -> dict[str, tuple[float, str]]:
        """Length scales by dimension, each with its unit: `{"east": (84.0, "km"), "elevation": (410.0, ...)}`."""
        each = np.broadcast_to(np.asarray(lengthscales, dtype=np.float64), (len(self.ordered),))
        found: dict[str, tuple[float, str]] = {}
        for dimension, length in zip(self.ordered, each, strict=True):
            if dimension.group == "map" and self.geography is not None and self.geography.method == "sphere":
                found |= self.geography.along_the_ground(each[self.map_dimensions])
            else:
                found[dimension.name] = (float(length) * dimension.scale, dimension.unit)
        return found

    def to_json(self) -> dict[str, Any]:
        return {
            "columns": list(self.columns),
            "geography": None if self.geography is None else dataclasses.asdict(self.geography),
            "centres": dict(self.centres),
            "scales": dict(self.scales),
            "kinds": [kind.to_json() for kind in self.kinds],
            "areas": None if self.areas is None else self.areas.to_json(),
        }

    @classmethod
    def from_json(cls, record: dict[str, Any]) -> "Scaling":
        """The scaling of `to_json`; ValueError where its parts are not of the same columns."""
        geography = None if record["geography"] is None else Geography(**record["geography"])
        # Version 0.1 knew neither kinds nor areas.
        kinds = tuple(Category.from_json(kind) for kind in record.get("kinds", ()))
        areas = None if record.get("areas") is None else Areas.from_json(record["areas"])
        made = cls(tuple(record["columns"]), geography, dict(record["centres"]), dict(record["scales"]), kinds, areas)
        if areas is not None and areas.points.shape[2] != len(made.dimensions) - 1:
            raise ValueError(f"the points of its areas are not of its columns {made.columns}")
        on_map: tuple[str, ...] = ()
        if geography is not None:
            require_choice("geography.method", geography.method, ("projected", "sphere", "plane"))
            for number in (geography.centre_longitude, geography.centre_latitude, geography.longitudes_from):
                require_finite("geography", number)
            on_map = (geography.first, geography.second)
        if (
            sorted(made.columns) != sorted((*on_map, *made.centres, *(kind.name for kind in kinds)))
            or made.centres.keys() != made.scales.keys()
        ):
            raise ValueError(f"its units are not of its columns {made.columns}")
        for column in made.centres:
            require_finite(f"centre of {column}", made.centres[column])
            _require_scale(f"scale of {column}", made.scales[column])
        return made


class Marks(NamedTuple):
    """Columns of coordinates that say what a place is and not where: its kind, of so many `levels` a column, and the number of its area."""

    levels: tuple[int, ...] = ()
    areas: Areas | None = None

    @property
    def num_columns(self) -> int:
        return len(self.levels) + (self.areas is not None)


@final
@dataclasses.dataclass(frozen=True)
class TargetScaling:
    """A target, transformed, then of mean 0 and variance 1: z = (forward(y) - centre) / scale.

    Means, deviations, quantiles and densities of a Gaussian z come back for y.
    """

    transform: Transform
    centre: float
    scale: float

    def forward(self, values: Float[np.ndarray, " row"], name: str = "the target") -> Float[np.ndarray, " row"]:
        """z, NaN where a value is missing; values outside the transform's domain are refused by row."""
        self.transform.check(values, name)
        return (self.transform.forward(values) - self.centre) / self.scale

    def inverse(self, standardised: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
        return self.transform.inverse(standardised * self.scale + self.centre)

    def moments(
        self, mean: Float[np.ndarray, " row"], sd: Float[np.ndarray, " row"]
    ) -> tuple[Float[np.ndarray, " row"], Float[np.ndarray, " row"]]:
        """Mean and standard deviation of y."""
        expected, variance = self.transform.moments(*self._unscaled(mean, sd))
        return expected, np.sqrt(variance)

    def quantiles(
        self,
        mean: Float[np.ndarray, " row"],
        sd: Float[np.ndarray, " row"],
        levels: Sequence[float] | Float[np.ndarray, " level"],
    ) -> Float[np.ndarray, "row level"]:
        return quantiles(self.transform, *self._unscaled(mean, sd), levels)

    def log_density(
        self, values: Float[np.ndarray, " row"], mean: Float[np.ndarray, " row"], sd: Float[np.ndarray, " row"]
    ) -> Float[np.ndarray, " row"]:
        return log_density(self.transform, values, *self._unscaled(mean, sd))

    def to_json(self) -> dict[str, Any]:
        return {"transform": self.transform.name, "centre": self.centre, "scale": self.scale}

    @classmethod
    def from_json(cls, record: dict[str, Any]) -> "TargetScaling":
        made = cls(transform_named(record["transform"]), float(record["centre"]), float(record["scale"]))
        require_finite("centre of the target", made.centre)
        _require_scale("scale of the target", made.scale)
        return made

    def _unscaled(
        self, mean: Float[np.ndarray, " row"], sd: Float[np.ndarray, " row"]
    ) -> tuple[Float[np.ndarray, " row"], Float[np.ndarray, " row"]]:
        return mean * self.scale + self.centre, sd * self.scale


def _require_scale(name: str, scale: float) -> None:
    require_finite(name, scale)
    if not scale > 0:
        raise ValueError(f"its {name!r} is {scale}, not positive")


def centre_and_scale(values: Float[np.ndarray, " value"]) -> tuple[float, float]:
    """Mean and deviation of a column that is to have mean 0 and variance 1, or any scale where it never changes."""
    if len(values) == 0:
        return 0.0, 1.0
    deviation = float(np.std(values))
    # Values that differ by rounding only say nothing.
    rounding = 1e-12 * float(np.max(np.abs(values)))
    return float(np.mean(values)), deviation if deviation > max(rounding, SMALLEST) else 1.0


def learn_scaling(values: Mapping[str, Column]) -> Scaling:
    """The scaling of columns of space, by their names and values; those of text are kinds.

    A longitude and a latitude, an easting and a northing (taken to be in metres), or x and y in metres, become kilometres; the rest is
    standardised over distinct places, so that a station which reports often does not weigh more.
    """
    kinds = tuple(learn_category(column, name) for name, column in values.items() if column.dtype.kind == "U")
    numbers = {name: column for name, column in values.items() if column.dtype.kind != "U"}
    if kinds and not numbers:
        raise ValueError(
            f"space has kinds alone ({', '.join(kind.name for kind in kinds)}), which say nothing of near and far; name columns "
            "that say where beside them, such as lon and lat"
        )
    for column in numbers:
        _check_present(numbers[column], column)
    geography = _learn_geography(numbers)
    on_map = () if geography is None else (geography.first, geography.second)
    others = [column for column in numbers if column not in on_map]
    kept = distinct_rows(list(numbers.values()))[0] if numbers else np.empty(0, dtype=np.int64)
    centres, scales = {}, {}
    for column in others:
        centres[column], scales[column] = centre_and_scale(numbers[column][kept])
    return Scaling(tuple(values), geography, centres, scales, kinds)


def learn_target(
    values: Float[np.ndarray, " row"],
    transform: str | None = None,
    *,
    name: str = "the target",
    standardise: bool = True,
) -> TargetScaling:
    """The scaling of a target; one without values, or whose values are all the same, is refused."""
    chosen = transform_named(transform)
    present = values[~np.isnan(values)]
    if len(present) == 0:
        raise ValueError(f"{name!r} has no values: all {len(values)} are missing; choose another column")
    chosen.check(values, name)
    transformed = moments_of(chosen.forward(present)) if standardise else NO_MOMENTS
    return target_of_moments(moments_of(present), transformed, transform, name=name, standardise=standardise)


def target_of_moments(
    values: MomentsOf, transformed: MomentsOf, transform: str | None, *, name: str, standardise: bool
) -> TargetScaling:
    """The same from what is known of the values, of which there are some, and of the transformed ones."""
    chosen = transform_named(transform)
    largest = max(abs(values.lowest), abs(values.highest))
    if not standardise:
        if largest > 0:
            require_spread(largest, name)
        return TargetScaling(chosen, 0.0, 1.0)
    if values.lowest == values.highest:
        which = "its only value is" if values.num == 1 else f"all its {values.num} values are"
        raise ValueError(f"{name!r} never changes: {which} {values.lowest:g}, so there is nothing to learn")
    require_spread(transformed.deviation, name)
    return TargetScaling(chosen, transformed.mean, transformed.deviation)


def find_lon_lat(names: Sequence[str]) -> tuple[str, str] | None:
    """The columns that are a longitude and a latitude by their names, or None unless there is one of each."""
    longitudes = [name for name in names if _words(name) & _LONGITUDE_WORDS]
    latitudes = [name for name in names if _words(name) & _LATITUDE_WORDS]
    return (longitudes[0], latitudes[0]) if len(longitudes) == len(latitudes) == 1 else None


def find_easting_northing(names: Sequence[str]) -> tuple[str, str] | None:
    eastings = [name for name in names if _words(name) & _EASTING_WORDS]
    northings = [name for name in names if _words(name) & _NORTHING_WORDS]
    return (eastings[0], northings[0]) if len(eastings) == len(northings) == 1 else None


class Plane(NamedTuple):
    """Two columns named like coordinates on a plane, and whether their numbers are metres."""

    columns: tuple[str, str]
    in_metres: bool


def find_plane(values: Mapping[str, Float[np.ndarray, " row"]]) -> Plane | None:
    """Columns called x and y, with or without a word such as utm; metres where they span more than degrees or kilometres do."""
    found = {}
    for letter in _PLANE:
        named = [name for name in values if letter in _words(name) and _words(name) - {letter} <= _PLANE_WORDS]
        if len(named) != 1:
            return None
        found[letter] = named[0]
    spans = [float(np.nanmax(values[name]) - np.nanmin(values[name])) for name in found.values() if len(values[name])]
    return Plane((found["x"], found["y"]), max(spans, default=0.0) > _FEWEST_METRES)


def _unit_of(column: str, scale: float) -> str:
    """The unit of a column of space, by its name; a height is in metres where it varies by tens."""
    match = _UNIT.fullmatch(column)
    if match is not None:
        return {"feet": "ft", "metres": "m", "meters": "m"}.get(match[1].lower(), match[1].lower())
    return "m" if _words(column) & HEIGHT_WORDS and scale >= _LEAST_RELIEF else f"units of {column}"


def _words(name: str) -> set[str]:
    """What a name is made of, in small letters without accents."""
    letters = unicodedata.normalize("NFKD", str(name).lower())
    return set(re.split(r"[^a-z]+", "".join(letter for letter in letters if not unicodedata.combining(letter))))


def _learn_geography(values: Mapping[str, Float[np.ndarray, " row"]]) -> Geography | None:
    degrees = find_lon_lat(list(values))
    if degrees is None:
        metres = find_easting_northing(list(values))
        plane = find_plane(values) if metres is None else None
        if plane is not None and plane.in_metres:
            metres = plane.columns
        return None if metres is None else Geography("plane", *metres)
    longitude, latitude = (values[name] for name in degrees)
    _check_degrees(longitude, degrees[0], -180.0, 360.0)
    _check_degrees(latitude, degrees[1], -90.0, 90.0, swapped=bool(np.all(np.abs(longitude) <= 90.0)))
    kept, _ = distinct_rows([longitude, latitude])
    vectors = _unit_vectors(longitude[kept], latitude[kept])
    middle = vectors.mean(axis=0) if len(kept) else np.array([1.0, 0.0, 0.0])
    length = float(np.linalg.norm(middle))
    longitudes_from = 0.0 if np.any(longitude > 180.0) else -180.0
    # Half the width is the angle to the farthest place; the arctangent keeps its digits for small angles.
    middle = middle / length if length > 1e-3 else np.array([1.0, 0.0, 0.0])
    aside = np.linalg.norm(np.cross(vectors, middle), axis=1)
    radius = EARTH_RADIUS_KM * float(np.max(np.arctan2(aside, vectors @ middle), initial=0.0))
    return Geography(
        "sphere" if length <= 1e-3 or radius > _NARROW_RADIUS_KM else "projected",
        *degrees,
        centre_longitude=float(np.degrees(np.arctan2(middle[1], middle[0]))),
        centre_latitude=float(np.degrees(np.arctan2(middle[2], np.hypot(middle[0], middle[1])))),
        longitudes_from=longitudes_from,
    )


def _unit_vectors(
    longitude: Float[np.ndarray, " row"], latitude: Float[np.ndarray, " row"]
) -> Float[np.ndarray, "row 3"]:
    lon, lat = np.radians(longitude), np.radians(latitude)
    return np.stack([np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)], axis=1)


def _check_present(values: Float[np.ndarray, " row"], name: str) -> None:
    bad = ~np.isfinite(values)
    if bad.any():
        raise ValueError(
            f"column {name!r} must hold a number in every row; {name_rows(bad, values)}: fill it in or leave the row out"
        )


def _check_degrees(
    values: Float[np.ndarray, " row"], name: str, lowest: float, highest: float, *, swapped: bool = False
) -> None:
    bad = (values < lowest) | (values > highest)
    if bad.any():
        advice = (
            "; if latitude and longitude are swapped, swap the names of their columns"
            if swapped
            else ": mend or leave out such rows; if all are metres, call the columns easting and northing"
        )
        raise ValueError(
            f"column {name!r} must hold degrees between {lowest:g} and {highest:g}; {name_rows(bad, values)}{advice}"
        )
