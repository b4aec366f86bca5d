"""The parts of the pages that commands make are up to date; `cep schema`; the script that writes the pages."""

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

from cep_pipeline.document_reference import json_schema, parts_of
from cep_pipeline.events.columns import events_columns
from cep_pipeline.events.schema import StreamSchema
from cep_pipeline.events.stream_document import StreamDocument
from cep_pipeline.pipeline.configuration import PipelineSettings
from cep_pipeline.warehouse.layout import MEANINGS, table_layouts
from tests.cli.command_line import Done, cep
from tests.docs.pages import CHECKOUT, DOCS

MADE = {
    page: re.findall(r"<!-- made by: cep schema \w+ --part (\S+) -->", (DOCS / page).read_text())
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
def test_the_pages_and_the_json_schemas_are_up_to_date() -> None:
    done = reference_pages("--check")
    assert (done.code, done.output) == (0, ""), done.output + done.errors


def test_a_page_that_is_not_up_to_date_is_found_and_written_anew(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    shutil.copytree(DOCS / "schemas", docs / "schemas")
    for page in MADE:
        shutil.copy(DOCS / page, docs)
    fine = (docs / "streams.md").read_text()
    (docs / "streams.md").write_text(fine.replace("| `timezone` |", "| `time_zone` |"))
    (docs / "schemas" / "pipeline.json").unlink()
    found = reference_pages("--check", "--docs", docs)
    assert found.code == 1
    assert "streams.md: is not up to date" in found.output and "pipeline.json: is not up to date" in found.output
    assert "tables.md" not in found.output and not (docs / "schemas" / "pipeline.json").exists()
    assert reference_pages("--docs", docs).code == 0
    assert (docs / "streams.md").read_text() == fine
    assert reference_pages("--check", "--docs", docs).output == ""


@pytest.mark.parametrize("mark", ["<!-- end -->", "<!-- made by: cep schema stream --part source -->"])
def test_a_page_with_half_a_mark_is_refused_as_it_is(mark: str, tmp_path: Path) -> None:
    page = tmp_path / "streams.md"
    page.write_text((DOCS / "streams.md").read_text().replace(mark, "", 1))
    before = page.read_text()
    done = reference_pages("--docs", tmp_path)
    assert done.code == 2 and "streams.md: each" in done.errors
    assert page.read_text() == before


def test_the_pages_have_every_part_and_every_table_once() -> None:
    assert sorted(MADE["streams.md"]) == sorted(part.name for part in parts_of(json_schema(StreamDocument)))
    assert sorted(MADE["pipeline_yaml.md"]) == sorted(part.name for part in parts_of(json_schema(PipelineSettings)))
    assert sorted(MADE["tables.md"]) == sorted(MEANINGS)


def test_every_column_of_the_tables_has_a_meaning() -> None:
    stream = StreamSchema.load(CHECKOUT / "streams" / "generated_trades.yaml")
    layouts = table_layouts(events_columns(stream))
    assert set(layouts) == set(MEANINGS)
    for name, layout in layouts.items():
        columns = [field.name for field in layout.schema if field.name not in stream.attributes]
        assert sorted(columns) == sorted(MEANINGS[name]), name


@pytest.mark.parametrize("what", ["stream", "pipeline"])
def test_the_command_prints_and_writes_the_json_schema(what: str, tmp_path: Path) -> None:
    printed = cep("schema", what, folder=tmp_path)
    assert (printed.code, printed.errors) == (0, "")
    assert printed.output == (DOCS / "schemas" / f"{what}.json").read_text()
    jsonschema.Draft202012Validator.check_schema(json.loads(printed.output))
    written = cep("schema", what, "--out", "schema.json", folder=tmp_path)
    assert (written.code, written.output) == (0, "")
    assert (tmp_path / "schema.json").read_text() == printed.output


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("streams",), "'stream', 'pipeline', 'tables'"),
        (("stream", "--part", "sauce"), "there is no part 'sauce'; there are: document, timestamp"),
        (("tables", "--part", "match"), "name a table with --part; there are: events, quarantine"),
        (("tables",), "name a table with --part; there are: events, quarantine"),
        (("stream", "--out", "none/schema.json"), "none/schema.json: cannot be written"),
    ],
)
def test_what_there_is_not_is_refused_with_exit_code_2(arguments: tuple[str, ...], words: str, tmp_path: Path) -> None:
    done = cep("schema", *arguments, folder=tmp_path)
    assert (done.code, done.output) == (2, "")
    assert words in done.errors
