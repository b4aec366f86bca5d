"""Generated days of a trading stream as a vendor delivers them: a folder a day, in it one gzipped CSV file."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv

from cep_pipeline.errors import InputError
from cep_pipeline.generate.market import Market as Market


def is_trading_day(day: date) -> bool:
    """Return True from Monday to Friday; a generated market has no other holidays."""
    return day.weekday() < 5


FILE_NAME = "trades.csv.gz"
_ROWS_AT_ONCE = 1 << 18


@dataclass(frozen=True)
class GeneratedDay:
    """A day that was made; `path` is None and `events` 0 on a day without trading."""

    day: date
    path: Path | None
    events: int


def generate_days(
    root: str | Path,
    days: Iterable[date],
    *,
    progress: Callable[[GeneratedDay], None] | None = None,
    **market: Any,
) -> list[GeneratedDay]:
    """Write `<root>/<DATE>/trades.csv.gz` for each trading day; weekends have no file.

    The folder is made where it is missing, and a day that is there already is replaced. The settings are those of
    `Market`. `progress` is called with each day once it is written. Returned is one
    `GeneratedDay` for each day, in their order; a wrong setting, or a folder that cannot be written, is an InputError.
    The same settings give the same bytes (with one version of NumPy and zlib), whichever days are made together.
    """
    made_by = Market(**market)
    generated = []
    for day in days:
        made = _generate_day(Path(root), day, made_by) if is_trading_day(day) else GeneratedDay(day, None, 0)
        generated.append(made)
        if progress is not None:
            progress(made)
    return generated


def _generate_day(root: Path, day: date, market: Market) -> GeneratedDay:
    trades = market.trades(day)
    path = root / day.isoformat() / FILE_NAME
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _write(trades, path)
    except OSError as error:
        raise InputError(f"{path}: the generated day cannot be written: {error.strerror or error}") from error
    return GeneratedDay(day, path, trades.num_rows)


def _write(trades: pa.Table, path: Path) -> None:
    """Write the whole file or nothing: it is made under another name that no reader takes for a day's file."""
    part = path.with_name(f".{path.name}.part")
    try:
        # No file name and no time in the header: equal days are equal bytes.
        with part.open("wb") as raw, gzip.GzipFile("", "wb", compresslevel=1, fileobj=raw, mtime=0) as file:
            options = pyarrow.csv.WriteOptions(batch_size=_ROWS_AT_ONCE)
            pyarrow.csv.write_csv(trades, file, options)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
