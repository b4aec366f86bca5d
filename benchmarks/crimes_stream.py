"""A generated city: events in the manner of Chicago's open data on crimes, of 2001 to 2022.

Its types have about the shares of that city, its hours have a night, its years become quieter, and its places lie
around the middles of beats, the smallest areas of the police. Nothing is read; the draws are fixed.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa

from cep_pipeline.events.schema import StreamSchema

CITY_EVENTS = 7_000_000
"""Events of the whole city: about as many as the open data have."""
SEED = 2023
SHARES: Mapping[str, float] = {
    "THEFT": 21.1,
    "BATTERY": 18.3,
    "CRIMINAL DAMAGE": 11.4,
    "NARCOTICS": 9.6,
    "ASSAULT": 6.5,
    "OTHER OFFENSE": 6.2,
    "BURGLARY": 5.4,
    "MOTOR VEHICLE THEFT": 4.8,
    "DECEPTIVE PRACTICE": 4.5,
    "ROBBERY": 3.8,
    "CRIMINAL TRESPASS": 2.7,
    "WEAPONS VIOLATION": 1.3,
    "PROSTITUTION": 0.9,
    "OFFENSE INVOLVING CHILDREN": 0.7,
    "PUBLIC PEACE VIOLATION": 0.66,
    "SEX OFFENSE": 0.4,
    "CRIM SEXUAL ASSAULT": 0.37,
    "INTERFERENCE WITH PUBLIC OFFICER": 0.24,
    "GAMBLING": 0.2,
    "LIQUOR LAW VIOLATION": 0.19,
    "ARSON": 0.17,
    "HOMICIDE": 0.16,
    "KIDNAPPING": 0.095,
    "STALKING": 0.066,
    "INTIMIDATION": 0.06,
    "CONCEALED CARRY LICENSE VIOLATION": 0.015,
    "OBSCENITY": 0.011,
    "HUMAN TRAFFICKING": 0.0012,
}
"""Type -> per cent of the events, about."""
HOURS = (53, 32, 27, 22, 17, 15, 17, 24, 35, 44, 43, 45, 58, 48, 51, 54, 52, 54, 57, 59, 59, 57, 57, 46)
"""Weights of the hours of a day."""
BEATS = 274
LATITUDES, LONGITUDES = (41.65, 42.02), (-87.83, -87.53)
_FIRST_DAY, _DAYS = datetime(2001, 1, 1, tzinfo=UTC), 8_035
_MINUTE_US, _DAY_MINUTES = 60_000_000, 1_440


def generate_city(events: int = CITY_EVENTS, seed: int = SEED) -> pa.Table:
    """Events of the city in stream order; fewer events than the whole take fewer of its years, at about the same rate.

    Times are whole minutes, and every fifth is a full hour, so that many events share theirs.
    """
    rng = np.random.default_rng(seed)
    days = max(round(_DAYS * events / CITY_EVENTS), 1)
    quieter = np.linspace(1.3, 0.7, days)
    day = rng.choice(days, events, p=quieter / quieter.sum())
    hour = rng.choice(len(HOURS), events, p=np.array(HOURS) / sum(HOURS))
    minute = rng.integers(0, 60, events) * (rng.random(events) >= 0.2)
    times = np.sort(day * _DAY_MINUTES + hour * 60 + minute)
    shares = np.array(list(SHARES.values()))
    kinds = rng.choice(len(shares), events, p=shares / shares.sum()).astype(np.int32)

    busy = rng.gamma(4.0, size=BEATS)
    beat = rng.choice(BEATS, events, p=busy / busy.sum())
    places = {}
    for name, (low, high) in (("latitude", LATITUDES), ("longitude", LONGITUDES)):
        drawn = rng.uniform(low, high, BEATS)[beat] + rng.normal(0, 0.006, events)
        places[name] = np.round(np.clip(drawn, low, high), 6)
    first_us = int(_FIRST_DAY.timestamp()) * 1_000_000
    return pa.table(
        {
            "timestamp": pa.array(first_us + times * _MINUTE_US).cast(pa.timestamp("us", tz="UTC")),
            "seq": pa.array(np.arange(events, dtype=np.int64)),
            "primary_type": pa.DictionaryArray.from_arrays(pa.array(kinds), pa.array(list(SHARES))),
            **{name: pa.array(values) for name, values in places.items()},
            "beat": pa.array(beat),
        }
    )


def city_schema() -> StreamSchema:
    """Schema of the city: the base type is `Crime`, and the primary type is the type of an event."""
    attributes = {"primary_type": "string", "latitude": "float64", "longitude": "float64", "beat": "int64"}
    return StreamSchema.from_dict(
        {"base_type": "Crime", "type_attribute": "primary_type", "attributes": attributes}, name="crimes"
    )
