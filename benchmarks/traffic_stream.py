"""The traffic stream of W7: a month of road sensors where it is there, else its generated twin."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa

from cep_pipeline.events.event_files import load_events
from cep_pipeline.events.schema import StreamSchema, schema_of
from cep_pipeline.events.stream_document import StreamDocument

MONTH = Path("aarhus_traffic/2014-08.parquet")
"""The file of readings in the folder of public data."""
SENSORS, EVERY_S = 449, 300
SEED = 7
SPEEDS, VEHICLES = ("avg_speed",), ("avg_speed", "vehicle_count")
"""The attributes of readings: of W7, and of the experiments."""
_FIRST_US = 1_406_865_000_000_000
_SCHEMA = {
    "name": "aarhus_traffic",
    "timezone": "Europe/Copenhagen",
    "base_type": "Reading",
    "type_attribute": "report_id",
    "timestamp": "timestamp",
    "key": ["report_id", "timestamp"],
    "source": {"format": "parquet", "path": "{day:%Y-%m}.parquet"},
}


@dataclass(frozen=True)
class Traffic:
    """Readings in stream order, and a sentence that says where they are from."""

    events: pa.Table
    description: str


def traffic_schema(attributes: Sequence[str] = SPEEDS) -> StreamSchema:
    """Schema of the readings, raw and generated, with the integer attributes that are wanted beside the sensor."""
    listed = dict.fromkeys(("report_id", *attributes), "int64")
    return schema_of(StreamDocument.model_validate({**_SCHEMA, "attributes": listed}))


def traffic_stream(data: Path | None, looks: int = 8_000) -> Traffic:
    """The month of readings in a folder of public data, or a twin with so many looks at each sensor."""
    events = month_of_readings(data)
    if events is not None:
        return Traffic(events, f"W7: {events.num_rows:,} readings of the city of Aarhus in August 2014.")
    events = generate_traffic(looks)
    return Traffic(events, f"W7: {events.num_rows:,} generated readings; the real month was not there.")


@cache
def month_of_readings(data: Path | None, attributes: tuple[str, ...] = SPEEDS) -> pa.Table | None:
    """The readings of road sensors in August 2014, or None where the folder of public data lacks them."""
    if data is None or not (data / MONTH).is_file():
        return None
    return load_events(traffic_schema(attributes), [data / MONTH]).events


def generate_traffic(looks: int, sensors: int = SENSORS, seed: int = SEED) -> pa.Table:
    """Readings of all sensors every five minutes: in about half of the looks the speed is the one before.

    The columns timestamp, seq, report_id and avg_speed (km/h) are in stream order.
    """
    rng = np.random.default_rng(seed)
    usual = rng.uniform(20, 90, sensors)
    speed = np.empty((looks, sensors), np.int64)
    now = usual.copy()
    for look in range(looks):
        changed = rng.random(sensors) < 0.46
        drawn = now + 0.25 * (usual - now) + rng.normal(0, 9, sensors)
        now = np.where(changed, np.clip(drawn, 0, 150), now)
        speed[look] = np.rint(now)
    timestamp = np.repeat(_FIRST_US + np.arange(looks, dtype=np.int64) * EVERY_S * 1_000_000, sensors)
    return pa.table(
        {
            "timestamp": pa.array(timestamp).cast(pa.timestamp("us", tz="UTC")),
            "seq": pa.array(np.arange(looks * sensors, dtype=np.int64)),
            "report_id": pa.array(np.tile(158_000 + np.arange(sensors, dtype=np.int64), looks)),
            "avg_speed": pa.array(speed.reshape(-1)),
        }
    )
