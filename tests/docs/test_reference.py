"""The JSON Schemas are up to date; the pages name each table of settings and columns; `cep schema`."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from io import StringIO
from pathlib import Path
from types import ModuleType

import jsonschema
import pytest

from cep_pipeline.cli.help import with_tables
from cep_pipeline.documents import json_schema, parts_of
from cep_pipeline.events.columns import events_columns
from cep_pipeline.events.schema import StreamSchema
from cep_pipeline.events.stream_document import StreamDocument
from cep_pipeline.pipeline.configuration import PipelineSettings
from cep_pipeline.warehouse.layout import MEANINGS, table_layouts
from tests.cli.command_line import Done, cep
from tests.docs.pages import CHECKOUT, DOCS

NAMED = {
    page: re.findall(r"^`cep schema \w+ --part (\S+)`$", (DOCS / page).read_text(), re.MULTILINE)
    for page in ("streams.md", "pipeline_yaml.md", "tables.md")
}


def reference_pages(*arguments: str | Path) -> Done:
    """Call the script as the command line does, but in this process: each start takes seconds."""
    output, errors = StringIO(), StringIO()
    with redirect_stdout(output), redirect_stderr(errors):
        code = _script().main([str(argument) for argument in arguments])
    return Done(code, output.getvalue(), errors.getvalue())


@cache
def _script() -> ModuleType:
    path = CHECKOUT / "scripts" / "reference_pages.py"
    spec = importlib.util.spec_from_file_location("reference_pages", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.long
def test_the_json_schemas_are_up_to_date() -> None:
    done = reference_pages("--check")
    assert (done.code, done.output) == (0, ""), done.output + done.errors


def test_a_schema_that_is_not_up_to_date_is_found_and_written_anew(tmp_path: Path) -> None:
    shutil.copytree(DOCS / "schemas", tmp_path / "schemas")
    stream, pipeline = (tmp_path / "schemas" / f"{name}.json" for name in ("stream", "pipeline"))
    fine = stream.read_text()
    stream.write_text(fine.replace('"timezone"', '"time_zone"'))
    pipeline.unlink()
    found = reference_pages("--check", "--docs", tmp_path)
    assert found.code == 1
    assert "stream.json: is not up to date" in found.output and "pipeline.json: is not up to date" in found.output
    assert not pipeline.exists()
    assert reference_pages("--docs", tmp_path).code == 0
    assert stream.read_text() == fine
    assert reference_pages("--check", "--docs", tmp_path).output == ""


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
    assert printed.output == (DOCS / "schemas" / f"{what}.json").read_text()
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
