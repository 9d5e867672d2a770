# SPDX-License-Identifier: MIT
"""Large cities, to orient by on a map: names and places to a tenth of a degree, the larger before the smaller.

Facts that anybody may write down; written down here, from no data set.
"""

import functools
from typing import NamedTuple

from weft.report.coast import Box

__all__ = ["City", "cities_in_box"]

# name, latitude, longitude
_CITIES = """
Tokyo 35.7 139.7; Delhi 28.6 77.2; Shanghai 31.2 121.5; Sao Paulo -23.6 -46.6; Mexico City 19.4 -99.1; Cairo 30.0 31.2; Mumbai 19.1 72.9;
Beijing 39.9 116.4; Dhaka 23.8 90.4; Osaka 34.7 135.5; New York 40.7 -74.0; Karachi 24.9 67.0; Buenos Aires -34.6 -58.4; Istanbul 41.0 29.0;
Kolkata 22.6 88.4; Lagos 6.5 3.4; Kinshasa -4.3 15.3; Manila 14.6 121.0; Guangzhou 23.1 113.3; Rio de Janeiro -22.9 -43.2; Lahore 31.5 74.3;
Moscow 55.8 37.6; Bengaluru 13.0 77.6; Paris 48.9 2.4; Jakarta -6.2 106.8; Chennai 13.1 80.3; Lima -12.0 -77.0; Bangkok 13.8 100.5;
Seoul 37.6 127.0; Hyderabad 17.4 78.5; London 51.5 -0.1; Tehran 35.7 51.4; Chicago 41.9 -87.6; Chengdu 30.7 104.1; Saigon 10.8 106.7;
Luanda -8.8 13.2; Los Angeles 34.1 -118.2; Wuhan 30.6 114.3; Bogota 4.7 -74.1; Johannesburg -26.2 28.0; Hong Kong 22.3 114.2;
Riyadh 24.7 46.7; Baghdad 33.3 44.4; Santiago -33.4 -70.7; Madrid 40.4 -3.7; Toronto 43.7 -79.4; Singapore 1.4 103.8; Dallas 32.8 -96.8;
Houston 29.8 -95.4; Miami 25.8 -80.2; Atlanta 33.7 -84.4; Philadelphia 40.0 -75.2; Washington 38.9 -77.0; Boston 42.4 -71.1;
Phoenix 33.4 -112.1; San Francisco 37.8 -122.4; Seattle 47.6 -122.3; Detroit 42.3 -83.0; Minneapolis 45.0 -93.3; San Diego 32.7 -117.2;
Tampa 27.9 -82.5; Denver 39.7 -105.0; St. Louis 38.6 -90.2; Portland 45.5 -122.7; Montreal 45.5 -73.6; Barcelona 41.4 2.2;
St. Petersburg 59.9 30.3; Berlin 52.5 13.4; Rome 41.9 12.5; Milan 45.5 9.2; Naples 40.9 14.3; Athens 38.0 23.7; Lisbon 38.7 -9.1;
Vienna 48.2 16.4; Hamburg 53.6 10.0; Warsaw 52.2 21.0; Budapest 47.5 19.0; Munich 48.1 11.6; Kyiv 50.5 30.5; Bucharest 44.4 26.1;
Cologne 50.9 7.0; Frankfurt 50.1 8.7; Stuttgart 48.8 9.2; Leipzig 51.3 12.4; Dresden 51.1 13.7; Hanover 52.4 9.7; Nuremberg 49.5 11.1;
Bremen 53.1 8.8; Freiburg 48.0 7.8; Rostock 54.1 12.1; Kassel 51.3 9.5; Brussels 50.9 4.4; Amsterdam 52.4 4.9; Stockholm 59.3 18.1;
Oslo 59.9 10.8; Copenhagen 55.7 12.6; Helsinki 60.2 24.9; Prague 50.1 14.4; Dublin 53.3 -6.3; Birmingham 52.5 -1.9; Manchester 53.5 -2.2;
Glasgow 55.9 -4.3; Leeds 53.8 -1.5; Cardiff 51.5 -3.2; Bristol 51.5 -2.6; Edinburgh 56.0 -3.2; Lyon 45.8 4.8; Marseille 43.3 5.4;
Toulouse 43.6 1.4; Bordeaux 44.8 -0.6; Lille 50.6 3.1; Strasbourg 48.6 7.8; Zurich 47.4 8.5; Geneva 46.2 6.1; Turin 45.1 7.7;
Bologna 44.5 11.3; Florence 43.8 11.3; Venice 45.4 12.3; Palermo 38.1 13.4; Bari 41.1 16.9; Cagliari 39.2 9.1; Zagreb 45.8 16.0;
Split 43.5 16.4; Rijeka 45.3 14.4; Osijek 45.6 18.7; Ljubljana 46.1 14.5; Sarajevo 43.9 18.4; Belgrade 44.8 20.5; Sofia 42.7 23.3;
Valencia 39.5 -0.4; Seville 37.4 -6.0; Porto 41.1 -8.6; Bilbao 43.3 -2.9; Riga 56.9 24.1; Vilnius 54.7 25.3; Minsk 53.9 27.6;
Ankara 39.9 32.9; Tel Aviv 32.1 34.8; Beirut 33.9 35.5; Dubai 25.2 55.3; Kabul 34.5 69.2; Tashkent 41.3 69.3; Almaty 43.2 76.9;
Novosibirsk 55.0 82.9; Tianjin 39.1 117.2; Shenyang 41.8 123.4; Xi'an 34.3 108.9; Nanjing 32.1 118.8; Chongqing 29.6 106.6;
Taipei 25.0 121.5; Busan 35.2 129.1; Nagoya 35.2 136.9; Sapporo 43.1 141.4; Hanoi 21.0 105.8; Kuala Lumpur 3.1 101.7; Yangon 16.8 96.2;
Kathmandu 27.7 85.3; Colombo 6.9 79.9; Sydney -33.9 151.2; Melbourne -37.8 145.0; Brisbane -27.5 153.0; Perth -32.0 115.9;
Adelaide -34.9 138.6; Auckland -36.8 174.8; Wellington -41.3 174.8; Nairobi -1.3 36.8; Addis Ababa 9.0 38.7; Khartoum 15.6 32.5;
Dar es Salaam -6.8 39.3; Accra 5.6 -0.2; Abidjan 5.4 -4.0; Dakar 14.7 -17.4; Casablanca 33.6 -7.6; Algiers 36.8 3.1; Tunis 36.8 10.2;
Tripoli 32.9 13.2; Cape Town -33.9 18.4; Durban -29.9 31.0; Harare -17.8 31.1; Caracas 10.5 -66.9; Medellin 6.2 -75.6; Quito -0.2 -78.5;
La Paz -16.5 -68.1; Brasilia -15.8 -47.9; Manaus -3.1 -60.0; Recife -8.1 -34.9; Montevideo -34.9 -56.2; Havana 23.1 -82.4;
Guadalajara 20.7 -103.3; Monterrey 25.7 -100.3; Vancouver 49.3 -123.1; Calgary 51.0 -114.1; Winnipeg 49.9 -97.1; Halifax 44.6 -63.6;
Salt Lake City 40.8 -111.9; Las Vegas 36.2 -115.1; Sacramento 38.6 -121.5; Kansas City 39.1 -94.6; Indianapolis 39.8 -86.2;
Nashville 36.2 -86.8; Charlotte 35.2 -80.8; New Orleans 30.0 -90.1; Oklahoma City 35.5 -97.5; Albuquerque 35.1 -106.7; El Paso 31.8 -106.5;
Omaha 41.3 -96.0; Boise 43.6 -116.2; Spokane 47.7 -117.4; Eugene 44.1 -123.1; Yakima 46.6 -120.5; Billings 45.8 -108.5; Fargo 46.9 -96.8;
Anchorage 61.2 -149.9; Honolulu 21.3 -157.9; Reykjavik 64.1 -21.9; Nuuk 64.2 -51.7; Tromso 69.6 19.0; Murmansk 69.0 33.1
"""


class City(NamedTuple):
    name: str
    latitude: float
    longitude: float


def cities_in_box(box: Box, count: int) -> tuple[City, ...]:
    """Up to `count` cities within (west, south, east, north), the largest first, none close to another of them or to the rim."""
    west, south, east, north = box
    wide, high = east - west, north - south
    chosen: list[City] = []
    for city in _cities():
        # Longitudes may be counted from 0 to 360.
        longitude = next(
            (city.longitude + turn for turn in (0.0, 360.0, -360.0) if west <= city.longitude + turn <= east), None
        )
        if longitude is None or len(chosen) == count:
            continue
        x, y = (longitude - west) / wide, (city.latitude - south) / high
        inside = 0.03 < x < 0.97 and 0.1 < y < 0.95
        apart = all(
            abs(longitude - other.longitude) > 0.25 * wide or abs(city.latitude - other.latitude) > 0.08 * high
            for other in chosen
        )
        if inside and apart:
            chosen.append(city._replace(longitude=longitude))
    return tuple(chosen)


@functools.cache
def _cities() -> tuple[City, ...]:
    entries = (entry.rsplit(maxsplit=2) for entry in _CITIES.replace("\n", " ").split(";"))
    return tuple(City(name.strip(), float(latitude), float(longitude)) for name, latitude, longitude in entries)
