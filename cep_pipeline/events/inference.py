"""A stream schema proposed from a raw file: its columns and their types, its times, and the attribute with the type."""

from __future__ import annotations

import csv
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from cep_pipeline.documents import as_yaml
from cep_pipeline.errors import InputError
from cep_pipeline.events.casting import SignsFound, cast_checked_to, find_signs, most_stray
from cep_pipeline.events.columns import EVENT_TYPE, SEQ, TIMESTAMP
from cep_pipeline.events.raw_files import JSON_ENDINGS, readable, refuse_other_formats
from cep_pipeline.events.readers import COMPRESSIONS, is_utf8, members_of, open_text, without_dictionary
from cep_pipeline.events.timestamps import (
    EPOCH,
    EPOCH_UNITS,
    check_timezone,
    expression_of,
    read_timestamps,
    timestamps_of,
)
from cep_pipeline.foreign_text import listed

SAMPLE_CHARACTERS = 8 << 20
"""Text of a CSV file that is looked at."""
SAMPLE_ROWS = 200_000
"""Rows of a Parquet file that are looked at."""
BASE_TYPE = "Event"
_OLD_DAYS = 31
"""Days after which a file is one of the past, and no new one is waited for."""
_MOST_ODD = 3
"""Rows below a header that may be no events, such as units."""
_DELIMITERS = ",;\t|"
_TIME_NAME = re.compile(r"time|date|stamp|zeit|datum|fecha|heure|hora|^ts$|^dt|^at$|yyyy|minute|when", re.IGNORECASE)
_TYPE_NAMES = tuple(
    re.compile(rf"(^|_|\b)({words})", re.IGNORECASE)
    for words in (
        "type|event|kind|activity|action|metric|category|symbol|ticker|.+_type$",
        "app$|level|severity|status|state|method|operation|sensor|code|name$",
        "station|machine|device|room|source|report|.*id$",
    )
)
"""What columns are called whose values are types: kinds of events before what they are about, and whose they are."""
_ACCESS_LOG = (
    r"(?P<ip>\S+) \S+ (?P<user>\S+) \[(?P<time>[^]]+)\] "
    r'"(?P<method>\S+) (?P<page>[^"]*)" (?P<status>\d+) (?P<bytes>\S+).*'
)
"""A line of the access log of a web server."""
_NO_VALUES = ("-", "NA", "N/A", "n/a", "null", "NULL", "None", "\\N", "?")
_TRUTHS = (
    *(
        ("J", "N"),
        ("Y", "N"),
        ("T", "F"),
        ("S", "N"),
        ("yes", "no"),
        ("Yes", "No"),
        ("YES", "NO"),
        ("ja", "nein"),
        ("Ja", "Nein"),
    ),
    *(("oui", "non"), ("si", "no"), ("on", "off")),
)
"""Words for true and false."""
_EPOCHS = {10: "epoch_s", 13: "epoch_ms", 16: "epoch_us", 19: "epoch_ns"}
_DIGITS = {8: "%Y%m%d", 12: "%Y%m%d%H%M", 14: "%Y%m%d%H%M%S"}
"""Number of the digits of a time -> its format."""
_CLOCKS = ("%H:%M", "%H:%M:%S", "%H:%M:%S.%f", "%I:%M %p", "%I:%M:%S %p", "%I:%M%p", "%H%M", "%H%M%S")
_NUMBERED_DATES = ("%Y-%m-%d", "%d-%m-%Y", "%m-%d-%Y", "%d-%m-%y", "%m-%d-%y", "%d-%b-%Y", "%d-%b-%y")
_DATES = (
    *(one.replace("-", mark) for one in _NUMBERED_DATES for mark in "-/."),
    *("%d %b %Y", "%d. %B %Y", "%d %B %Y", "%b %d, %Y", "%B %d, %Y", "%a, %d %b %Y"),
)
_WRITTEN = (
    *_DATES,
    *(
        f"{day}{mark}{clock}{zone}"
        for day in _DATES
        for mark in " T:,"
        for clock in _CLOCKS[:6]
        for zone in ("", " %z")
    ),
    "%a %b %d %H:%M:%S %Y",
)
"""Formats of times that are written with marks, or with names of months, the likelier ones first."""
_DATED = (
    (r"\d{4}-\d{2}-\d{2}", "%Y-%m-%d"),
    (r"\d{4}_\d{2}_\d{2}", "%Y_%m_%d"),
    (r"(?<!\d)\d{8}(?!\d)", "%Y%m%d"),
    (r"(?<!\d)\d{4}-\d{2}(?![-\d])", "%Y-%m"),
)


@dataclass(frozen=True)
class SampledFile:
    """The first rows of a raw file, as they stand in it, and how the file is written (the settings of `source`).

    They are the `whole` file, or its beginning. Lists and structures are left out.
    """

    path: Path
    columns: Mapping[str, pa.Array]
    rows: int
    whole: bool
    layout: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class InferredSchema:
    """A proposed schema: its document, comments on settings of it by their names, and what was seen on the way.

    `gap_us` is the usual time between two events of one type. The days are those of the `sample`, ascending.
    """

    head: str
    document: Mapping[str, Any]
    comments: Mapping[str, str]
    gap_us: int
    days: tuple[date, ...]
    sample: SampledFile

    @property
    def name(self) -> str:
        """The name of the stream."""
        return str(self.document["name"])

    @property
    def type_column(self) -> str | None:
        """The attribute with the type, None where all events have one, the `base_type`."""
        return self.document.get("type_attribute")

    @property
    def numbers(self) -> list[str]:
        """The attributes that are numbers, the type not among them."""
        kinds = {
            name: its["type"] if isinstance(its, dict) else its for name, its in self.document["attributes"].items()
        }
        return [name for name, kind in kinds.items() if kind in ("int64", "float64") and name != self.type_column]

    @property
    def path(self) -> str:
        """The template of the path of a file, relative to the data folder."""
        return str(self.document["source"]["path"])

    @property
    def dated(self) -> bool:
        """True if the names of files tell their days."""
        return "{day:" in self.path

    @property
    def text(self) -> str:
        """The YAML text, with comments."""
        lines = [(f"# {self.head}", "")]
        for name, value in self.document.items():
            inner = value if isinstance(value, dict) and name != "timestamp" else {}
            lines.append((f"{name}:" if inner else f"{name}: {yaml_scalar(value)}", self.comments.get(name, "")))
            for setting, its in inner.items():
                comment = self.comments.get(f"{name}.{setting}", "")
                lines.append((f"  {yaml_scalar(setting)}: {yaml_scalar(its)}", comment))
        wide = max((len(setting) for setting, comment in lines if comment and len(setting) <= 44), default=0)
        return "".join(
            f"{setting.ljust(wide)}  # {comment}".rstrip() + "\n" if comment else f"{setting}\n"
            for setting, comment in lines
        )


def infer_schema(
    path: Path,
    *,
    timezone: str | None = None,
    name: str | None = None,
    time_column: str | None = None,
    type_column: str | None = None,
) -> InferredSchema:
    """Propose a stream schema for a file of CSV, JSON lines or Parquet, or an access log.

    The time zone is that of times that do not say theirs, and of the stream's days. A name is made from that of the
    file, and the columns with the time and the type are found by their values and names, where they are not given. An
    InputError says that the file cannot be read, has no column of times, or has times without a zone where none is
    given.
    """
    if timezone is not None:
        check_timezone(timezone)
    refuse_other_formats(path, "jsonl")
    if not path.is_file():
        raise InputError(f"{path}: there is no such file")
    endings = [one.lower() for one in path.suffixes if one.lower() not in COMPRESSIONS]
    reads = {".parquet": _read_parquet, ".pq": _read_parquet, **dict.fromkeys(JSON_ENDINGS, _read_json)}
    sample = reads.get(endings[-1] if endings else "", _read_csv)(path)
    for given in (time_column, type_column):
        if given is not None and given not in sample.columns:
            raise InputError(f"{path}: there is no column {given!r}; the file has: {listed(sample.columns)}")
    sample = _with_words(sample)
    times = _times_of(sample, time_column)
    if times.local and timezone is None:
        raise InputError(
            f"{path}: the times in column {' and '.join(map(repr, times.columns))}, such as {times.example}, "
            "do not say their time zone; "
            'give it: --timezone Europe/Copenhagen, or --timezone UTC; in Python timezone="UTC"'
        )
    zone = timezone or "UTC"
    others = {column: values for column, values in sample.columns.items() if column not in times.columns}
    signs = find_signs(others, point_first=sample.layout.get("delimiter", ",") == ",")
    kinds = {column: _kind_of(signs.chosen.with_point(values)) for column, values in others.items()}
    truths = {column: pair for column, values in others.items() if (pair := _truths_of(values))}
    kinds |= dict.fromkeys(truths, ("bool", 0))
    words = {
        name: sorted({pair[at] for pair in truths.values()}) for at, name in enumerate(("true_words", "false_words"))
    }
    typed = type_column or _type_column(sample, kinds)
    later = {one.columns[0]: one for one in times.others if one.columns[0] != typed}
    kinds |= dict.fromkeys(later, ("timestamp", 0))
    names = _attribute_names(kinds, {TIMESTAMP, SEQ, "day", *([EVENT_TYPE] if typed is None else [])})
    stamps = read_timestamps(timestamps_of(sample.columns, times.columns), times.format, zone)
    numbers = np.unique(stamps.local_day[np.asarray(pc.is_valid(stamps.utc))]).tolist()
    days = [date.fromordinal(number + date(1970, 1, 1).toordinal()) for number in numbers]
    place, of_place, around = _path_template(sample.path, days)
    odd = int(stamps.unreadable.sum()) + sum(stray for _, stray in kinds.values())
    share = max(0.01, math.ceil(200 * odd / sample.rows) / 100)
    is_old = "{day:" in place and date.today() - days[-1] > timedelta(days=_OLD_DAYS)

    def form_of(one: _Times) -> dict[str, str]:
        return {} if pa.types.is_temporal(sample.columns[one.columns[0]].type) else {"format": one.format}

    def settings_of(column: str) -> str | dict[str, str]:
        form = form_of(later[column]) if column in later and later[column].format != times.format else {}
        named = {} if names[column] == column else {"column": column}
        return {"type": kinds[column][0], **named, **form} if named or form else kinds[column][0]

    document = {
        "name": name or _stream_name(path),
        "timezone": zone,
        "base_type": BASE_TYPE,
        **({} if typed is None else {"type_attribute": names[typed]}),
        "timestamp": {"column": times.columns[0] if len(times.columns) == 1 else list(times.columns)} | form_of(times),
        "attributes": {names[column]: settings_of(column) for column in kinds},
        **({"on_missing": "skip"} if is_old else {}),
        "source": {**sample.layout, **signs.chosen.given, **(words if truths else {}), "path": place, **around},
        "quality": {"max_rejected_share": share},
    }
    others_said = f"; other columns with times: {', '.join(map(_shown, later))}" if later else ""
    unsure = f"; {times.note}" if times.note and "{day:" not in place else ""  # the name of the file tells it
    comments = {
        "timezone": "of times without an offset, and of the days of the stream",
        "base_type": f"every row is an event of this type: a pattern asks for any by `{BASE_TYPE} e`"
        + ("; no column looks like another type" if typed is None else ""),
        "type_attribute": "" if typed is None else _said_of_types(sample.columns[typed]),
        "timestamp": f"such as {_shown(times.example)}{unsure}{others_said}",
        "attributes": "int64, float64, bool, string or timestamp; a column that is not listed is left out",
        **{f"attributes.{names[column]}": _said_of(sample, column, *kinds[column], signs) for column in kinds},
        "on_missing": "a day without a file is passed over: the files are of the past",
        "source": _shown(signs.said, 200) if signs.chosen.given or signs.other is not None else "",
        "source.path": of_place,
        "source.days_after": "the file has rows of the next day, too" if around else "",
        "source.days_before": "the file has rows of the day before, too" if around else "",
        "quality.max_rejected_share": "a day with more bad rows is refused"
        + (f"; of those looked at, up to {odd:,} are bad" if odd else ""),
    }
    looked = f"{'all' if sample.whole else 'the first'} {sample.rows:,} rows of {_shown(sample.path.name)}"
    head = f"A stream schema proposed from {looked}: read it, and correct what is wrong."
    gap_us = _usual_gap(stamps.utc, None if typed is None else sample.columns[typed])
    return InferredSchema(head, document, comments, gap_us, tuple(days), sample)


def _said_of_types(column: pa.Array) -> str:
    distinct = pc.unique(pc.drop_null(column))
    few = ", ".join(_shown(str(value)) for value in distinct.slice(0, 4).to_pylist())
    return f"an event has the type that stands here: {few}{', …' if len(distinct) > 4 else ''} ({len(distinct):,})"


def _said_of(sample: SampledFile, column: str, kind: str, stray: int, signs: SignsFound) -> str:
    said = [f"{stray:,} of the values are no {kind}; their rows are rejected"] if stray else []
    if signs.of.get(column, signs.chosen) != signs.chosen:
        said.append(f"its numbers need {signs.of[column].settings or 'a decimal point'}, unlike others in the file")
    if sample.columns[column].null_count == sample.rows:
        said.append("it has no values here")
    return "; ".join(said)


# -- reading ----------------------------------------------------------------------------------------------------------


def _read_parquet(path: Path) -> SampledFile:
    with readable(path), pq.ParquetFile(path) as file:
        schema, total = file.schema_arrow, file.metadata.num_rows
        flat = [one.name for one in schema if not pa.types.is_nested(one.type)]
        batches = list(islice(file.iter_batches(SAMPLE_ROWS, columns=flat), 1))
    if not batches or not batches[0].num_rows:
        raise InputError(f"{path}: the file has no rows; give one with events")
    columns = dict(zip(batches[0].schema.names, map(without_dictionary, batches[0].columns), strict=True))
    rows = batches[0].num_rows
    return SampledFile(path, columns, rows, rows == total, {"format": "parquet"})


def _read_csv(path: Path) -> SampledFile:
    read, whole, encoding = _read_text(path)
    is_log = bool(read) and re.fullmatch(_ACCESS_LOG, read[0].rstrip("\r\n")) is not None
    taken = [found for line in read if is_log and (found := re.fullmatch(_ACCESS_LOG, line.rstrip("\r\n"))) is not None]
    if 10 * len(taken) > 9 * len(read):
        columns = {
            name: pa.array([None if one[name] == "-" else one[name] for one in taken], pa.string())
            for name in taken[0].groupdict()
        }
        layout: dict[str, object] = {"format": "regex", "pattern": _ACCESS_LOG, "null_words": ["-"]}
        return SampledFile(path, columns, len(taken), whole, layout)
    numbered = [(number, line) for number, line in enumerate(read) if line.strip()]
    mark = next((one[0] for _, one in numbered[:1] if one[0] in "#%"), None)
    plain = [line for _, line in numbered if line[0] != mark]
    delimiter = _delimiter_of(plain[:1000] or [""])
    wide = len(next(csv.reader(plain[:1], delimiter=delimiter), ()))
    marked = csv.reader((line for _, line in numbered if line[0] == mark), delimiter=delimiter)
    # A header may begin with the mark.
    comment = None if mark is None or not plain or any(len(row) == wide > 1 for row in marked) else mark
    lines = [line for _, line in numbered] if comment is None else plain
    if not lines:
        raise InputError(f"{path}: the file is empty; give one with events")
    delimiter = _delimiter_of(lines[:1000])
    try:
        rows = [row for row in csv.reader(lines, delimiter=delimiter) if row]
    except csv.Error as error:
        raise InputError(f"{path}: the file is no CSV text: {error}") from error
    width = Counter(len(row) for row in rows[:1000]).most_common(1)[0][0]
    if width > 1 and not any(row[-1] for row in rows if len(row) == width):  # a delimiter ends the lines
        rows = [row[:-1] if len(row) == width else row for row in rows]
        width -= 1
    begin = next(place for place, row in enumerate(rows) if len(row) == width)
    skipped = 0 if begin == 0 else next(number for number, line in numbered if line == lines[begin])
    rows = [row for row in rows[begin:] if len(row) == width]
    header = _has_header(rows, width)
    names = rows[0] if header else [f"column_{number}" for number in range(1, width + 1)]
    if len(set(names)) < len(names):
        raise InputError(f"{path}: the header names a column twice: {listed(names)}; name each once")
    body = [row for row in rows[1 if header else 0 :] if row != names]
    if not body:
        raise InputError(f"{path}: the file has no rows below its header; give one with events")
    odd = next((place for place, row in enumerate(body) if any(map(_is_value, row))), 0)
    body = body[odd:] if odd <= _MOST_ODD else body
    columns = {
        name: pa.array([value or None for value in values], pa.string())
        for name, values in zip(names, zip(*body, strict=True), strict=True)
        if name  # that of a row's number has none
    }
    layout = {"format": "csv"}
    if not header:
        layout |= {"header": False, "columns": names}
    given = {"delimiter": delimiter, "encoding": encoding, "skip_lines": skipped, "comment": comment}
    usual = {"delimiter": ",", "encoding": "utf-8", "skip_lines": 0, "comment": None}
    layout |= {name: value for name, value in given.items() if value != usual[name]}
    return SampledFile(path, columns, len(body), whole, layout)


def _read_text(path: Path) -> tuple[list[str], bool, str]:
    """The first lines of a file of text, whether they are all, and its encoding: UTF-8, UTF-16 or cp1252."""
    for encoding in ("utf-8", "utf-16", "cp1252"):
        with ExitStack() as opened:
            text = open_text(str(path), opened, encoding)
            try:
                with readable(path):
                    read, whole = text.readlines(SAMPLE_CHARACTERS), not text.read(1)
            except InputError:
                if encoding != "utf-16":
                    raise
                continue
        if is_utf8("".join(read)) and (encoding != "utf-16" or any(line.isascii() for line in read[:100])):
            return read, whole, encoding
    raise InputError(f"{path}: the file is no text in UTF-8, UTF-16 or cp1252; write it anew as UTF-8")


def _with_words(sample: SampledFile) -> SampledFile:
    """The sample without the words for no value in columns of numbers, which its layout names."""
    words: dict[str, None] = {}
    for values in sample.columns.values():
        distinct = pc.unique(pc.drop_null(values)).to_pylist() if pa.types.is_string(values.type) else []
        none = [one for one in distinct if one in _NO_VALUES]
        if none and len(none) < len(distinct) and all(_is_value(one) for one in distinct if one not in none):
            words |= dict.fromkeys(none)
    if not words:
        return sample
    no_value = pa.array(list(words))
    columns = {
        name: pc.if_else(pc.is_in(values, no_value), pa.scalar(None, pa.string()), values)
        if pa.types.is_string(values.type)
        else values
        for name, values in sample.columns.items()
    }
    return replace(sample, columns=columns, layout={**sample.layout, "null_words": list(words)})


def _read_json(path: Path) -> SampledFile:
    rows: list[dict[str, str | None]] = []
    with ExitStack() as opened, readable(path):
        text = open_text(str(path), opened)
        read, whole = text.readlines(SAMPLE_CHARACTERS), not text.read(1)
    for number, line in enumerate(read, start=1):
        try:
            rows += [members_of(line)] if line.strip() else []
        except (ValueError, RecursionError) as error:
            if number > 1:
                continue  # one odd line
            raise InputError(f"{path}:1: {error}; JSON lines have an object on each line, not a list of them") from None
    if not rows:
        raise InputError(f"{path}: the file is empty; give one with events")
    names = dict.fromkeys(name for row in rows for name in row)
    columns = {name: pa.array([row.get(name) or None for row in rows], pa.string()) for name in names}
    return SampledFile(path, columns, len(rows), whole, {"format": "jsonl"})


def _delimiter_of(lines: Sequence[str]) -> str:
    """The delimiter by which the most lines have the same number of fields, more than one."""

    def fit(delimiter: str) -> tuple[float, int]:
        try:
            widths = Counter(len(row) for row in csv.reader(lines, delimiter=delimiter))
        except csv.Error:  # a field of megabytes
            return (0, 0)
        width, number = widths.most_common(1)[0]
        return (number / len(lines) if width > 1 else 0, width)

    return max(_DELIMITERS, key=fit)


def _has_header(rows: Sequence[Sequence[str]], width: int) -> bool:
    """True unless the first row looks like those below it."""
    first = [value.strip() for value in rows[0]]
    if len(first) != width or "" in first[1:] or not any(first):
        return False
    if any(_is_value(value) for value in first):
        return False
    below = [row for row in rows[1:1001] if len(row) == width]
    typed = any(_is_value(value) for row in below[:100] for value in row)
    return typed or not any(value in {row[place] for row in below} for place, value in enumerate(first))


def _is_value(text: str) -> bool:
    """True for a number or a time, which no column is named."""
    return re.fullmatch(r"[-+]?[\d.,:/T \-]*\d[\d.,:/T Z+\-]*([eE][-+]?\d+)?", text.strip()) is not None


# -- times ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Times:
    columns: tuple[str, ...]
    format: str
    local: bool
    example: str
    others: tuple[_Times, ...] = ()
    also: tuple[str, ...] = ()

    @property
    def note(self) -> str:
        """A sentence on other formats that fit as well; empty where none does."""
        return f"day and month may be the other way round ({self.also[0]}): no value tells" if self.also else ""


def _times_of(sample: SampledFile, wanted: str | None) -> _Times:
    found: dict[str, _Times] = {}
    for column, values in sample.columns.items():
        if times := _time_format(column, values, wanted == column):
            found[column] = times
    found = _alike(found)
    chosen = [one for name, one in found.items() if wanted in (None, name)]
    if not chosen:
        shown = ", ".join(f"{name} ({values[0]})" for name, values in sample.columns.items())
        what = f"column {wanted!r} has no times that can be read" if wanted else "no column has times that can be read"
        raise InputError(
            f"{sample.path}: {what}; the columns, with the first values, are: {shown}. Tried were: ISO 8601, a number "
            "of seconds, ms, us or ns since 1970, digits such as 202503040930, dates such as 04.03.2025, 3/4/25 and "
            "4 Mar 2025, with and without a time of day, and a date and a time in two columns"
        )

    def is_to_the_minute(one: _Times) -> bool:
        return not one.local or re.search("%[MSf]", one.format) is not None or ":" in one.example

    best = max(chosen, key=lambda one: (is_to_the_minute(one), _TIME_NAME.search(one.columns[0]) is not None))
    if not is_to_the_minute(best):
        best = next((one for name in sample.columns if (one := _with_clock(sample, best, name))), best)
    others = tuple(one for name, one in found.items() if name not in best.columns)
    return replace(best, others=others)


def _alike(found: Mapping[str, _Times]) -> dict[str, _Times]:
    """The times of columns, with day and month in the order that other columns of the file show, where one does not."""

    def day_first(form: str) -> bool:
        return form.find("%d") < form.find("%m")

    certain = {
        day_first(one.format) for one in found.values() if not one.also and re.search("%d.*%m|%m.*%d", one.format)
    }
    alike = dict(found)
    for name, one in found.items():
        fits = [form for form in (one.format, *one.also) if one.also and {day_first(form)} == certain]
        if fits:
            alike[name] = replace(one, format=fits[0], also=())
    return alike


def _with_clock(sample: SampledFile, dates: _Times, column: str) -> _Times | None:
    """The times of dates and a column of times of day; None if the column has none."""
    values = sample.columns[column]
    example = next((one for one in values.to_pylist() if one is not None), None)
    named = _TIME_NAME.search(column) is not None
    if column in dates.columns or not isinstance(example, str) or not (named or ":" in example):
        return None
    columns = (*dates.columns, column)
    texts = timestamps_of(sample.columns, columns)
    for clock in _CLOCKS:
        form = f"{'%Y-%m-%d' if dates.format == 'iso' else dates.format} {clock}"
        if int(read_timestamps(texts, form, "UTC").unreadable.sum()) <= most_stray(len(texts)):
            return _Times(columns, form, True, f"{dates.example} {example}", also=dates.also)
    return None


def _time_format(column: str, values: pa.Array, wanted: bool = False) -> _Times | None:
    """The format in which nearly all values of a column are times, None where they are none.

    Numbers are times in a column that is named like one, or is wanted as one.
    """
    example = next((str(value) for value in values.to_pylist() if value is not None), None)
    if example is None:
        return None
    if pa.types.is_timestamp(values.type):
        return _Times((column,), "iso", values.type.tz is None, example)
    if pa.types.is_date(values.type):
        return _Times((column,), "iso", True, example)
    if not (
        pa.types.is_string(values.type) or pa.types.is_large_string(values.type) or pa.types.is_integer(values.type)
    ):
        return None
    texts = pc.drop_null(values).slice(0, 20_000)
    named = wanted or _TIME_NAME.search(column) is not None
    likely = _formats_like(example, named)
    if likely and likely[0] in EPOCH_UNITS:
        sizes = set(pc.unique(pc.utf8_length(pc.cast(texts, pa.string()))).to_pylist())
        likely = [EPOCH] if len(sizes & _EPOCHS.keys()) > 1 else likely  # the unit changes
    stray = {one: int(read_timestamps(texts, one, "UTC").unreadable.sum()) for one in likely}
    best, *others = sorted(stray, key=lambda one: stray[one]) or [""]
    if not best or stray[best] > most_stray(len(texts)):
        return None
    local = best not in (EPOCH, *EPOCH_UNITS) and not best.endswith("%z")
    if best == "iso":
        local = re.search(r"(Z|[+-]\d{2}:?\d{2})$", example.strip()) is None
    also = [one for one in others if stray[one] == stray[best]]
    return _Times((column,), best, local, example, also=tuple(also))


def _formats_like(example: str, named: bool) -> list[str]:
    """The formats that an example may be written in, the likelier ones first.

    A number is a time only in a column that is named like one, or with a length that no other number is likely to have.
    """
    text = example.strip()
    if re.fullmatch(r"\d{10}\.\d+|\d{13}\.\d+", text) and (named or text[10] != "."):
        return [_EPOCHS[text.index(".")]]
    if text.isdigit():
        if len(text) in _EPOCHS and (named or len(text) > 10):
            return [_EPOCHS[len(text)]]
        plausible = re.match(r"(19|20)\d\d(0[1-9]|1[0-2])([0-2]\d|3[01])", text) is not None
        return [_DIGITS[len(text)]] if len(text) in _DIGITS and plausible and (named or len(text) > 8) else []
    if re.match(r"\d{4}-\d{2}-\d{2}([ T]|$)", text):
        return ["iso"]
    if not re.match(r"\d{1,4}[-/.]\d{1,2}[-/.]\d{2,4}|([A-Za-z]{3},? )?(\d{1,2}\.?[-/. ])?[A-Za-z]{3,9}[-/. ]\d", text):
        return []
    alike = [one for one in _WRITTEN if re.match(expression_of(one), text)]
    return [one for one in alike if not read_timestamps(pa.array([text]), one, "UTC").unreadable[0]]


# -- types of values --------------------------------------------------------------------------------------------------


def _kind_of(values: pa.Array) -> tuple[str, int]:
    """The type of a column's values, and how many of them are not of it."""
    kind = values.type
    if pa.types.is_boolean(kind):
        return "bool", 0
    if pa.types.is_integer(kind):
        return "int64", 0
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return "float64", 0
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        return "string", 0
    present = pc.drop_null(values)
    if not len(present):
        return "string", 0
    distinct = {value.strip().lower() for value in pc.unique(present).to_pylist()}
    if distinct <= {"true", "false"}:
        return "bool", 0
    if any(re.fullmatch(r"0\d+", one) for one in distinct):  # a code, whose zeros count
        return "string", 0
    for name, target in (("int64", pa.int64()), ("float64", pa.float64())):
        _, failed = cast_checked_to(present, target)
        if int(failed.sum()) <= most_stray(len(present)):
            return name, int(failed.sum())
    return "string", 0


def _truths_of(values: pa.Array) -> tuple[str, str] | None:
    """The words for true and false that a column has alone, both of them; None if it has others."""
    distinct = set(pc.unique(pc.drop_null(values)).to_pylist()) if pa.types.is_string(values.type) else set()
    return next((pair for pair in _TRUTHS if distinct == {*pair}), None)


def _type_column(sample: SampledFile, kinds: Mapping[str, tuple[str, int]]) -> str | None:
    """The column whose values divide the events best into types: texts or codes that come again and again."""
    found: list[tuple[tuple[int, bool, int], str]] = []
    for place, (column, (kind, _)) in enumerate(kinds.items()):
        named = next((len(_TYPE_NAMES) - at for at, one in enumerate(_TYPE_NAMES) if one.search(column)), 0)
        values = sample.columns[column]
        lacking = values.null_count > most_stray(sample.rows)
        if kind not in ("string", "int64") or lacking or (kind == "int64" and not named):
            continue
        if kind == "string" and _time_format(column, values):
            continue
        distinct = len(pc.unique(values))
        if distinct * 2 <= sample.rows and (named or distinct > 1) and (named or distinct <= 1000):
            found.append(((named if distinct > 1 else 0, distinct > 1, -place), column))
    return max(found)[1] if found else None


def _attribute_names(columns: Mapping[str, object], reserved: set[str]) -> dict[str, str]:
    """A name that an attribute can have for each column."""
    names: dict[str, str] = {}
    taken = set(reserved)
    for column in columns:
        name = re.sub(r"\W+", "_", column).strip("_") or "column"
        if name[0].isdigit() or name.lower() in reserved:
            name = f"source_{name}"
        base, number = name, 1
        while name.lower() in taken:
            number += 1
            name = f"{base}_{number}"
        names[column] = name
        taken.add(name.lower())
    return names


# -- the text ---------------------------------------------------------------------------------------------------------


def _path_template(path: Path, days: Sequence[date]) -> tuple[str, str, dict[str, int]]:
    """The path of a day's file: with the date where the name of the file, or of its folder, is the date of its rows.

    Behind it are words on it, and the settings for a file that has rows of the day before or after its own, too.
    """
    escaped = {part: re.sub(r"([\[*?])", r"[\1]", part) for part in (path.absolute().parent.name, path.name)}
    for place, part in enumerate((path.name, path.absolute().parent.name)):
        for expression, text_format in _DATED:
            found = re.search(expression, part)
            if found is None:
                continue
            try:
                at = datetime.strptime(found[0], text_format).date()
            except ValueError:
                continue
            whole_month = "%d" not in text_format
            beside = {at - timedelta(days=1): "days_before", at + timedelta(days=1): "days_after"}
            around = {} if whole_month or at not in days else {beside[day]: 1 for day in days if day in beside}
            own = [day for day in days if not around or day not in beside]
            if own and all((day.replace(day=1) if whole_month else day) == at for day in own):
                dated = escaped[part].replace(found[0], f"{{day:{text_format}}}")
                one = "month" if whole_month else "day"
                return (
                    dated if place == 0 else f"{dated}/{escaped[path.name]}",
                    f"one file a {one}, in the data folder",
                    around,
                )
    return escaped[path.name], 'one file of all days; a file a day is written "{day:%Y-%m-%d}.csv"', {}


def _usual_gap(instants: pa.Array, kinds: pa.Array | None) -> int:
    """The median time between two events of one type, in microseconds."""
    stamps = pc.cast(instants, pa.int64())
    codes = pa.repeat(pa.scalar(0), len(stamps)) if kinds is None else kinds.dictionary_encode().indices
    there = np.asarray(pc.and_(pc.is_valid(stamps), pc.is_valid(codes)))
    at, of = (np.asarray(pc.fill_null(one, 0))[there] for one in (stamps, codes))
    order = np.lexsort([at, of])
    gaps = np.diff(at[order])[np.diff(of[order]) == 0]
    gaps = gaps[gaps > 0]
    return int(np.median(gaps)) if len(gaps) else 1_000_000


def _stream_name(path: Path) -> str:
    stem = path.name.partition(".")[0]
    for expression, _ in _DATED:
        stem = re.sub(expression, "", stem)
    stem = re.sub(r"\W+", "_", stem).strip("_").lower()
    if not re.search(r"[a-z]", stem) and path.absolute().parent.name:
        stem = re.sub(r"\W+", "_", path.absolute().parent.name).strip("_").lower()
    stem = stem.encode("ascii", "ignore").decode()
    return stem if re.match(r"[a-z]", stem) else f"stream_{stem}".rstrip("_")


def yaml_scalar(value: object) -> str:
    """A text, or another value, as YAML has it within a line, in quotes where it needs them."""
    return as_yaml([value])[1:-1]


def _shown(text: str, most: int = 60) -> str:
    """A text for a comment, which it does not end."""
    plain = "".join(one if one.isprintable() else ascii(one)[1:-1] for one in text)
    return plain if len(plain) <= most else f"{plain[:most]}…"
