"""Raw files: where those of a day lie (path templates with date directives), which days a file covers, its hash."""

from __future__ import annotations

import calendar
import fnmatch
import hashlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.fs as pafs

from cep_pipeline.errors import InputError
from cep_pipeline.guarded import brief
from cep_pipeline.storage import folder_exists, open_filesystem, storage_errors

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.table import FileScanTask

_DATE = re.compile(r"\{([^{}]*)\}")
_TYPE = "{type}"
_DIRECTIVES = {"%Y": r"\d{4}", "%y": r"\d{2}", "%m": r"\d{2}", "%d": r"\d{2}", "%j": r"\d{3}"}
_DIRECTIVES |= {"%-m": r"\d{1,2}", "%-d": r"\d{1,2}"}
_WHERE_DATA_LIE = (
    "name the folder under which the raw files lie, with --data or as `data` of the stream in pipeline.yaml "
    "(`cep generate` makes days of trades to begin with)"
)
JSON_ENDINGS = (".json", ".jsonl", ".ndjson")
_OTHER_FORMATS = {
    **dict.fromkeys(JSON_ENDINGS, "JSON"),
    **dict.fromkeys((".arrow", ".feather", ".ipc"), "Arrow"),
    **dict.fromkeys((".xls", ".xlsx", ".ods"), "spreadsheet"),
    ".avro": "Avro",
    ".orc": "ORC",
    ".xml": "XML",
}
"""Endings of files that analysts have, and that would be read as CSV."""
_GLOB = re.compile(r"[*?\[]")
_EXAMPLE = "such as {day:%Y-%m-%d}/trades.csv.gz or {day:%Y-%m}.parquet"


@dataclass(frozen=True)
class Period:
    """The days, both included, whose rows a file may hold; None is an open end.

    It may have rows of some days `before` and `after` them, too: each of its own days needs it, and these look into it.
    """

    first: date | None
    last: date | None
    before: int = 0
    after: int = 0

    @property
    def is_one_day(self) -> bool:
        return self.first is not None and self.first == self.last

    def has(self, day: date) -> bool:
        """True if a day is one of its own."""
        return (self.first or date.min) <= day <= (self.last or date.max)

    def __str__(self) -> str:
        if self.first is None or self.last is None:
            return "all time"
        days = f"{self.first}" if self.is_one_day else f"{self.first} to {self.last}"
        around = ((self.before, "before"), (self.after, "after"))
        return days + "".join(f", {number} days {way}" for number, way in around if number)


UNBOUNDED = Period(None, None)


@dataclass(frozen=True)
class PathTemplate:
    """A path relative to the data folder, with date directives in `{day:…}` and the wildcards of a shell.

    The finest directive says what period one file covers: `%d` or `%j` a day, `%m` a month, `%Y` a year, none all time.
    `%-m` and `%-d` are without leading zeros. A folder `**` stands for any folders, also none, but for those that begin
    with `_` or `.`. `{type}` stands for the type of the events of a file: any text within one folder or name. A
    template that leaves its folder, has an unknown directive, or leaves out a coarser one is an InputError. A file may
    have rows of so many days `before` and `after` its period.

    Examples
    --------
    >>> template = PathTemplate("{day:%Y-%m}.parquet")
    >>> template.pattern(date(2014, 8, 3)), str(template.period(date(2014, 8, 3)))
    ('2014-08.parquet', '2014-08-01 to 2014-08-31')
    """

    text: str
    before: int = 0
    after: int = 0

    def __post_init__(self) -> None:
        if not self.text or self.text.startswith("/") or "://" in self.text or ".." in self.text.split("/"):
            raise InputError(f"path {self.text!r} must be relative to the data folder and stay in it")
        if self.text.count(_TYPE) > 1:
            raise InputError(f"path {self.text!r}: {_TYPE} stands in a path once")
        for one in _DATE.findall(self.wild):
            if not one.startswith("day:") or not _known_directives(one[4:]):
                raise InputError(
                    f"path {self.text!r}: {{{one}}} is no date; write {{day:FORMAT}} with the directives "
                    f"{', '.join(_DIRECTIVES)}, {_EXAMPLE}; {{type}} stands for the event type"
                )
        if re.search(r"[{}]", _DATE.sub("", self.text)):
            raise InputError(f"path {self.text!r} has an unpaired brace; a date is written {_EXAMPLE}")
        used = self._directives
        day, month, year = used & {"%d", "%j"}, "%m" in used or "%j" in used, used & {"%Y", "%y"}
        if (day and not month) or (month and not year):
            raise InputError(f"path {self.text!r}: a day needs month and year, and a month needs a year, {_EXAMPLE}")

    @property
    def names_type(self) -> bool:
        """True if the names of the files tell the event type."""
        return _TYPE in self.text

    @property
    def wild(self) -> str:
        """The text with a wildcard in place of the type."""
        return self.text.replace(_TYPE, "*")

    @property
    def any_day(self) -> str:
        """The path with wildcards in place of the dates, too."""
        return _DATE.sub("*", self.wild)

    def type_in(self, path: str) -> str | None:
        """Return the event type that the path of a file tells, None where the path does not fit.

        Only the part of the template is compared in which the type stands, and what comes behind it.

        Examples
        --------
        >>> PathTemplate("{day:%Y-%m}/pollution-{type}.csv").type_in("data/2014-08/pollution-158324.csv")
        '158324'
        """
        dated = _DATE.sub(
            lambda found: _TYPE if found[0] == _TYPE else "/".join("*" * (found[0].count("/") + 1)), self.text
        )
        parts = dated[dated.rfind("/", 0, dated.index(_TYPE)) + 1 :].split(_TYPE)
        found = re.search(f"(?:^|/){'([^/]+)'.join(map(fnmatch_expression, parts))}$", path)
        return found[1] if found else None

    @property
    def _directives(self) -> set[str]:
        fields = _DATE.findall(self.wild)
        return {found.replace("-", "") for field in fields for found in re.findall(r"%-?.", field)}

    def pattern(self, day: date) -> str:
        """Return the path, maybe with wildcards, of the file that holds a day."""
        return _DATE.sub(lambda match: day.strftime(match[1][4:]), self.wild)

    def period(self, day: date) -> Period:
        """Return the period of the file that holds a day."""
        used = self._directives
        if used & {"%d", "%j"}:
            first, last = day, day
        elif "%m" in used:
            first, last = day.replace(day=1), day.replace(day=calendar.monthrange(day.year, day.month)[1])
        elif used:
            first, last = date(day.year, 1, 1), date(day.year, 12, 31)
        else:
            return UNBOUNDED
        return Period(first, last, self.before, self.after)

    def periods_in(self, paths: Sequence[str]) -> set[Period]:
        """Return the periods of those of these paths that fit the template."""
        directives: list[str] = []
        expression, position = "", 0
        for match in _DATE.finditer(self.wild):
            parts = re.findall(r"%-?.|[^%]+", match[1][4:])
            directives += [part for part in parts if part in _DIRECTIVES]
            expression += fnmatch_expression(self.wild[position : match.start()])
            expression += "".join(
                f"({_DIRECTIVES[part]})" if part in _DIRECTIVES else re.escape(part) for part in parts
            )
            position = match.end()
        compiled = re.compile(expression + fnmatch_expression(self.wild[position:]))
        fits = [fit.groups() for path in paths if (fit := compiled.fullmatch(path))]
        if not directives:
            return {UNBOUNDED} if fits else set()
        days = (_date_of(dict(zip(directives, groups, strict=True))) for groups in fits)
        return {self.period(day) for day in days if day}


def fnmatch_expression(text: str) -> str:
    """Return a regular expression of shell wildcards that stay within one folder."""
    parts = [fnmatch.translate(part)[4:-3].replace(".*", "[^/]*") for part in text.replace("**/", "\0").split("/")]
    return "/".join(parts).replace("\0", "(?:[^/._][^/]*/)*")


def _known_directives(text: str) -> bool:
    return bool(text) and "*" not in text and all(part in _DIRECTIVES for part in re.findall(r"%-?.?", text))


def _date_of(parts: Mapping[str, str]) -> date | None:
    """The first day of what directives say; None where there is no such day."""
    try:
        return datetime.strptime(" ".join(parts.values()), " ".join(parts).replace("%-", "%")).date()
    except ValueError:
        return None


@dataclass(frozen=True)
class TableFile:
    """The part that a raw file has in a snapshot of an Iceberg table: it is the data file of `task`, with its deletes.

    `ids` are those of the columns that are read, and `values` those that they have where the file lacks them. `mapping`
    has the ids of a file that does not say them. `digest` changes with whatever the rows follow from.
    """

    io: FileIO
    task: FileScanTask
    ids: Mapping[str, int]
    values: Mapping[str, pa.Scalar]
    mapping: Mapping[str, int]
    digest: str


@dataclass(frozen=True)
class SourceFile:
    """A raw file: its name relative to the data folder, its full path, its size, and the days it may hold.

    `of_table` is given for a data file of an Iceberg table.
    """

    name: str
    path: str
    size: int
    period: Period
    of_table: TableFile | None = field(default=None, compare=False, repr=False)

    @property
    def folder_values(self) -> dict[str, str | None]:
        """The columns that the names of the folders tell, as `symbol=SPY` does, and the value of each.

        Examples
        --------
        >>> SourceFile("dt=2025-03-04/room=hall%2F1/a.parquet", "", 0, UNBOUNDED).folder_values
        {'dt': '2025-03-04', 'room': 'hall/1'}
        """
        told = (part.partition("=") for part in self.name.split("/")[:-1] if "=" in part)
        return {name: None if value == _NO_VALUE else unquote(value) for name, _, value in told}


_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"


def files_of_day(templates: Sequence[PathTemplate], root: str, day: date) -> tuple[list[SourceFile], list[str]]:
    """Find the raw files that may hold rows of a day of the stream's time zone.

    They are sorted by name, which is the order of arrival. Behind them are the paths, filled in for the day, that no
    file has. Files of other days, which may have rows of this one, are looked for beside a file of the day. An
    InputError says that the data folder does not exist, or that one file fits two templates of different periods.
    """
    filesystem, folder = _open_folder(root, templates)
    files: dict[str, SourceFile] = {}
    missing: list[str] = []
    for template in templates:
        pattern = template.pattern(day)
        found = _matching(filesystem, folder, pattern)
        if not found:
            missing.append(pattern)
        dated = [(template.period(day), one) for one in found]
        for away in range(-template.after, template.before + 1) if found else ():
            other = day + timedelta(days=away)
            dated += [(template.period(other), one) for one in _matching(filesystem, folder, template.pattern(other))]
        for period, (name, size) in dated:
            path = f"{root.rstrip('/')}/{name}"
            if name in files and files[name].period != period:
                raise InputError(f"{path}: two paths of the source fit this file and give it different periods")
            files[name] = SourceFile(name, path, size, period)
    return [files[name] for name in sorted(files)], missing


def periods_of(templates: Sequence[PathTemplate], root: str) -> list[Period]:
    """Return the periods that the files present cover, in order of time, each once."""
    filesystem, folder = _open_folder(root, templates)
    paths = [name for name, _ in _walk(filesystem, folder, "")]
    periods = {period for template in templates for period in template.periods_in(paths)}
    return sorted(periods, key=lambda period: period.first or date.min)


def _open_folder(root: str, templates: Sequence[PathTemplate]) -> tuple[pafs.FileSystem, str]:
    if not folder_exists(root):
        place = root if "://" in root else str(Path(root).absolute())
        files = " and ".join(f"{place.rstrip('/')}/{template.text}" for template in templates)
        raise InputError(f"{root}: no such data folder; the raw files were looked for as {files}; {_WHERE_DATA_LIE}")
    return open_filesystem(root)


def _matching(filesystem: pafs.FileSystem, folder: str, pattern: str) -> list[tuple[str, int]]:
    if not _GLOB.search(pattern):
        info = filesystem.get_file_info(f"{folder}/{pattern}")
        return [(pattern, info.size)] if info.type == pafs.FileType.File else []
    fixed = pattern[: _GLOB.search(pattern).start()].rpartition("/")[0]  # type: ignore[union-attr]
    expression = re.compile(fnmatch_expression(pattern))
    return [entry for entry in _walk(filesystem, folder, fixed) if expression.fullmatch(entry[0])]


def _walk(filesystem: pafs.FileSystem, folder: str, below: str) -> list[tuple[str, int]]:
    base = f"{folder}/{below}" if below else folder
    with storage_errors(f"listing {base}"):
        infos = filesystem.get_file_info(pafs.FileSelector(base, recursive=True, allow_not_found=True))
    prefix = folder.rstrip("/") + "/"
    try:
        return sorted((info.path.removeprefix(prefix), info.size) for info in infos if info.type == pafs.FileType.File)
    except UnicodeDecodeError as error:
        raise InputError(f"{os.fsdecode(error.object)}: the name is not valid UTF-8; rename the file") from error


@contextmanager
def readable(path: str | Path, what: str = "the file is truncated or corrupt") -> Iterator[None]:
    """Turn what is said of a broken file into an InputError that names the file."""
    try:
        yield
    except (OSError, pa.ArrowException, UnicodeError) as error:
        raise InputError(f"{path}: {what} ({brief(error)}); have it delivered again") from error


def refuse_other_formats(path: Path, known: str) -> None:
    """Refuse a file whose name says that it is of no known format, with an InputError that tells what to do."""
    other = _OTHER_FORMATS.get(path.suffix.lower())
    if other == "JSON" and known in ("csv", "parquet"):
        raise InputError(f"{path}: a JSON file is not read as {known}; write `format: jsonl` in `source` of the schema")
    if other is not None and other != "JSON":
        raise InputError(
            f"{path}: {other} files are not read; CSV, JSON lines, logs and Parquet are: write its rows as one of "
            f"these, such as {path.with_suffix('.parquet').name}"
        )


def open_raw(path: str, of_table: TableFile | None = None) -> pa.NativeFile:
    """Open a raw file for reading from its start; an InputError says that it cannot be."""
    try:
        if of_table is not None:
            return of_table.io.new_input(path).open()
        filesystem, inner = open_filesystem(path)
        return filesystem.open_input_file(inner)
    except (OSError, pa.ArrowException) as error:
        advice = "check its path and permissions" if of_table is None else "if its snapshot has expired, run again"
        raise InputError(f"{path}: the raw file cannot be read: {error}; {advice}") from error


@dataclass(frozen=True)
class RawFile:
    """One raw input file: its name without folder, size in bytes, and sha256 in hex."""

    name: str
    size: int
    sha256: str


def fingerprint_file(file: SourceFile) -> RawFile:
    """Size and sha256 of a raw file, under its name relative to the data folder.

    A data file of a table never changes: in place of its contents, `TableFile.digest` stands for it.
    """
    if file.of_table is not None:
        return RawFile(file.name, file.size, file.of_table.digest)
    with open_raw(file.path) as stream:
        return RawFile(file.name, stream.size(), hashlib.file_digest(stream, "sha256").hexdigest())
