"""The JSON Schemas are up to date; the pages name each table of settings and columns; `cep schema`."""

from __future__ import annotations

import json
import re
from pathlib import Path

import jsonschema
import pytest

from cep_pipeline.cli.help import with_tables
from cep_pipeline.documents import json_schema, parts_of
from cep_pipeline.events.columns import events_columns
from cep_pipeline.events.schema import StreamSchema
from cep_pipeline.events.stream_document import StreamDocument
from cep_pipeline.pipeline.configuration import PipelineSettings
from cep_pipeline.warehouse.layout import MEANINGS, table_layouts
from tests.cli.command_line import cep
from tests.docs.pages import CHECKOUT, DOCS

NAMED = {
    page: re.findall(r"^`cep schema \w+ --part (\S+)`$", (DOCS / page).read_text(), re.MULTILINE)
    for page in ("streams.md", "pipeline_yaml.md", "tables.md")
}


def test_a_line_with_nothing_but_a_command_becomes_its_table() -> None:
    page = "# Page\n\n`cep schema tables --part quarantine`\n\nSay `cep schema stream --part source`.\n"
    made = with_tables(page)
    assert made.startswith("# Page\n\n| column | type | meaning |\n| --- | --- | --- |\n| `day` | ")
    assert made.endswith(" |\n\nSay `cep schema stream --part source`.\n")


def test_the_pages_have_every_part_and_every_table_once() -> None:
    assert sorted(NAMED["streams.md"]) == sorted(part.name for part in parts_of(json_schema(StreamDocument)))
    assert sorted(NAMED["pipeline_yaml.md"]) == sorted(part.name for part in parts_of(json_schema(PipelineSettings)))
    assert sorted(NAMED["tables.md"]) == sorted(MEANINGS)


def test_every_column_of_the_tables_has_a_meaning() -> None:
    stream = StreamSchema.load(CHECKOUT / "streams" / "generated_trades.yaml")
    layouts = table_layouts(events_columns(stream.arrow_schema))
    assert set(layouts) == set(MEANINGS)
    for name, layout in layouts.items():
        columns = [field.name for field in layout.schema if field.name not in stream.attributes]
        assert sorted(columns) == sorted(MEANINGS[name]), name


@pytest.mark.parametrize("what", ["stream", "pipeline"])
def test_the_command_prints_the_json_schema(what: str, tmp_path: Path) -> None:
    printed = cep("schema", what, folder=tmp_path)
    assert (printed.code, printed.errors) == (0, "")
    assert printed.output == (DOCS / "schemas" / f"{what}.json").read_text(), "`make docs` writes it anew"
    jsonschema.Draft202012Validator.check_schema(json.loads(printed.output))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("streams",), "'stream', 'pipeline', 'tables'"),
        (("stream", "--part", "sauce"), "there is no part 'sauce'; there are: document, timestamp"),
        (("tables", "--part", "match"), "name a table with --part; there are: events, quarantine"),
        (("tables",), "name a table with --part; there are: events, quarantine"),
    ],
)
def test_what_there_is_not_is_refused_with_exit_code_2(arguments: tuple[str, ...], words: str, tmp_path: Path) -> None:
    done = cep("schema", *arguments, folder=tmp_path)
    assert (done.code, done.output) == (2, "")
    assert words in done.errors
