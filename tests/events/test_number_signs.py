"""Numbers with other signs than a decimal point are the numbers that they are with one."""

from __future__ import annotations

import csv
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cep_pipeline.errors import InputError
from cep_pipeline.events.casting import WAYS, NumberSigns, find_signs, settings_for
from tests.events.raw import read_csv, trades
from tests.thoroughness import examples

NUMBERS = st.one_of(
    st.integers(-(10**15), 10**15).map(str),
    st.decimals(-(10**9), 10**9, places=4).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.sampled_from(["", "NaN", "inf", "-.5", "7.", "1.5.2", "x", " 8 "]),
)
BETWEEN = {" ": " \u00a0\u202f", "'": "'\u2019"}


def written(number: str, signs: NumberSigns, grouped: bool, draw: st.DrawFn) -> str:
    """A number with a point as these signs write it."""
    whole, point, rest = number.partition(".")
    digits = whole.strip("-")
    if grouped and signs.thousands is not None and digits.isdigit() and digits[0] != "0" and len(digits) > 3:
        between = draw(st.sampled_from(BETWEEN.get(signs.thousands, signs.thousands)))
        whole = whole.replace(digits, f"{int(digits):,}".replace(",", between))
    return whole + point.replace(".", signs.decimal) + rest.replace(".", signs.decimal)


@settings(max_examples=examples(200), deadline=None)
@given(st.data(), st.sampled_from([*WAYS, NumberSigns("\u066b", "_")]), st.sampled_from(",;\t"))
def test_a_file_is_read_as_the_same_file_with_points(data: st.DataObject, signs: NumberSigns, delimiter: str) -> None:
    rows = data.draw(st.lists(st.tuples(NUMBERS, NUMBERS, st.booleans()), min_size=1, max_size=12))
    with TemporaryDirectory() as name:
        folder, read = Path(name), []
        for one, grouped in ((NumberSigns(), False), (signs, True)):
            source = {"format": "csv", "path": "x.csv", "delimiter": delimiter, **one.given}
            schema = trades(folder, source=source, derived=None)
            with (folder / "x.csv").open("w", newline="") as file:
                lines = csv.writer(file, delimiter=delimiter, lineterminator="\n")
                lines.writerow(["symbol", "timestamp", "price", "size"])
                for price, size, group in rows:
                    numbers = (written(text, one, group and grouped, data.draw) for text in (price, size))
                    lines.writerow(["SPY", "2013-03-10 00:00:00", *numbers])
            events, reasons, _ = read_csv(folder / "x.csv", schema)
            read.append((events.select(["price", "size", "_line"]) if events.num_rows else None, sorted(reasons)))
    (plain, bad), (other, also_bad) = read
    assert bad == also_bad
    assert (plain is None) == (other is None)
    if plain is not None:  # NaN equals NaN as text
        assert str(plain.to_pydict()) == str(other.to_pydict())


@pytest.mark.parametrize(
    ("signs", "text"),
    [
        ((",", "."), "1.2.3,5"),
        ((",", "."), "12.34,5"),
        ((",", "."), "1234.567,5"),
        ((",", "."), "0.125"),
        ((",", "."), "1,234.5"),
        ((",", "."), ".125"),
        ((",", "."), "1..250"),
        ((",", None), "1.5"),
        ((",", " "), "1.5"),
        ((",", " "), "1 25"),
        ((".", ","), "1.250,5"),
    ],
)
def test_signs_at_other_places_make_no_number(signs: tuple[str, str | None], text: str, tmp_path: Path) -> None:
    own = NumberSigns(*signs)
    schema = trades(tmp_path, source={"format": "csv", "path": "x.csv", "delimiter": ";", **own.given})
    path = tmp_path / "x.csv"
    path.write_text(f"symbol;timestamp;price;size\nSPY;2013-03-10 00:00:00;1;2\nSPY;2013-03-10 00:00:00;{text};2\n")
    events, reasons, _ = read_csv(path, schema)
    assert events.num_rows == 1
    assert reasons == {3: f"column 'price': {text!r} is no float64 with `{own.settings}`"}


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        ("230,95", '`decimal: ","`'),
        ("1.250,50", '`decimal: ",", thousands: "."`'),
        ("1,234", '`decimal: ","` or `thousands: ","`'),
        ("1,234.5", '`thousands: ","`'),
        ("1\u202f234", '`thousands: " "`'),
        ("1'234", '`thousands: "\'"`'),
        ("-1,5e3", '`decimal: ","`'),
        ("12 %", ""),
        ("n/a", ""),
        ("1,2,3", ""),
    ],
)
def test_a_rejected_number_says_the_settings_it_needs(text: str, settings: str, tmp_path: Path) -> None:
    assert settings_for(text) == settings
    path = tmp_path / "x.csv"
    path.write_text(f'symbol,timestamp,price,size\nSPY,2013-03-10 00:00:00,"{text}",2\n')
    _, reasons, _ = read_csv(path, trades(tmp_path))
    hint = f"; it is a number with {settings} in `source` of the schema" if settings else ""
    assert reasons == {2: f"column 'price': {text!r} is no float64{hint}"}


def test_the_usual_signs_leave_the_digest_of_a_stream_as_it_was(tmp_path: Path) -> None:
    source = {"format": "csv", "path": "x.csv"}
    plain = trades(tmp_path, source=source).digest
    assert trades(tmp_path, source={**source, "decimal": "."}).digest == plain
    assert trades(tmp_path, source={**source, "decimal": ","}).digest != plain


@pytest.mark.parametrize(
    ("columns", "chosen", "other"),
    [
        ({"x": ["1,5", "22,75"]}, (",", None), None),
        ({"x": ["1.234", "5.678"], "y": ["0,5"]}, (",", "."), None),
        ({"x": ["1,234", "5"]}, (",", None), (".", ",")),
        ({"x": ["1,234,567", "5"]}, (".", ","), None),
        ({"x": ["1.234", "5.678"]}, (".", None), (",", ".")),
        ({"x": ["1.234", "5.67"]}, (".", None), None),
        ({"x": ["1.234", "0.678"]}, (".", None), None),
        ({"x": ["1 234", "0,5"]}, (",", " "), None),
        ({"x": ["1,234"] * 200 + ["1,5"]}, (",", None), None),
        ({"x": ["a", "b"], "y": ["192.168.0.1"]}, (".", None), None),
    ],
)
def test_signs_are_found_by_all_values(
    columns: dict[str, list[str]], chosen: tuple[str, str | None], other: tuple[str, str | None] | None
) -> None:
    found = find_signs({name: pa.array(values) for name, values in columns.items()})
    assert found.chosen == NumberSigns(*chosen)
    assert found.other == (None if other is None else NumberSigns(*other))


@pytest.mark.parametrize(
    "signs", [(",", ","), (" ", None), ("5", None), (",", "-"), (",", ""), (",,", None), ("'", "\u2019")]
)
def test_signs_that_no_number_can_have_are_refused(signs: tuple[str, str | None]) -> None:
    with pytest.raises(InputError, match=r"cannot be this sign of a number|is the decimal sign too"):
        NumberSigns(*signs)
