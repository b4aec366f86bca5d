"""Events and their values in words, for a person: a time as the clock of a zone shows it, a type, a few attributes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from cep_pipeline.events.columns import ORDER_COLUMNS, SEQ_PER_DAY

MOST_SHOWN = 3
"""Values of a list, and attributes of an event, that are told."""
_NO_ATTRIBUTES = ("pattern", "match_id", "variable", *ORDER_COLUMNS)


def value_in_words(value: Any, timezone: str = "UTC") -> str:
    """Return a value of an attribute, a time as a zone shows it; a list shows its last values, the latest last."""
    if isinstance(value, datetime):
        return local_time(value, timezone)
    if isinstance(value, list):
        return f"[{'…, ' if len(value) > MOST_SHOWN else ''}{', '.join(map(value_in_words, value[-MOST_SHOWN:]))}]"
    return "null" if value is None else f"{value:.10g}" if isinstance(value, float) else str(value)


def event_name(seq: int) -> str:
    """Return an event by its position in its day, with the day.

    Examples
    --------
    >>> event_name(735113 * SEQ_PER_DAY + 57), event_name(3)
    ('2013-09-02/57', '3')
    """
    ordinal, position = divmod(seq, SEQ_PER_DAY)
    return f"{date.fromordinal(ordinal)}/{position}" if 0 < ordinal <= date.max.toordinal() else str(seq)


def events_in_words(
    events: Iterable[Mapping[str, Any]], timezone: str, type_attribute: str | None = None
) -> Iterator[str]:
    """Yield the events of a match as people know them: variable, time, type, and the first few attributes with values.

    A date is written where it is another one than that of the event before.

    Parameters
    ----------
    events
        Rows of `match_events`.
    type_attribute
        The attribute whose value needs no name.

    Examples
    --------
    >>> row = {"variable": "low", "timestamp": 1_000, "seq": 3, "kind": "SPY", "price": 168.41}
    >>> rows = [row, {**row, "variable": "high"}]
    >>> list(events_in_words(rows, "UTC", "kind"))
    ['low 1970-01-01 00:00:00.001 SPY price 168.41', 'high 00:00:00.001 SPY price 168.41']
    """
    before = ""
    for event in events:
        if event["timestamp"] is None:
            yield f"{event['variable']} {event_name(event['seq'])}"
            continue
        time = local_time(event["timestamp"], timezone)
        values = {name: value for name, value in event.items() if name not in _NO_ATTRIBUTES}
        yield " ".join(
            [event["variable"], time.removeprefix(f"{before} "), *values_in_words(values, type_attribute, timezone)]
        )
        before = time.partition(" ")[0]


def values_in_words(values: Mapping[str, Any], type_attribute: str | None, timezone: str) -> list[str]:
    """Return the type of an event and its first few attributes, with their names, without those that are null."""
    known = {name: value_in_words(value, timezone) for name, value in values.items() if value is not None}
    kind = [known.pop(name) for name in (type_attribute,) if name in known]
    return [*kind, *[f"{name} {value}" for name, value in known.items()][:MOST_SHOWN]]


def local_time(instant: int | datetime, timezone: str) -> str:
    """Return an instant, in microseconds or as a time, as the clocks of a zone show it."""
    if not isinstance(instant, datetime):
        try:
            instant = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=instant)
        except OverflowError:
            return f"{instant} us"
    there = instant.astimezone(ZoneInfo(timezone)).replace(tzinfo=None)
    return there.isoformat(" ", "microseconds" if there.microsecond % 1000 else "milliseconds")
