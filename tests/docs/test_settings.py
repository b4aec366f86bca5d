"""The pages of stream schemas and of pipeline.yaml: every example and every table says what the program does."""

from __future__ import annotations

import json
import re
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema
import pyarrow as pa
import pytest
import yaml
from pydantic import BaseModel, ValidationError

from cep_pipeline.documents import Document, json_schema, parts_of, settings_table
from cep_pipeline.errors import InputError
from cep_pipeline.events import stream_document
from cep_pipeline.events.casting import NumberSigns, cast_checked_to
from cep_pipeline.events.derived import Carry, derive
from cep_pipeline.events.event_files import read
from cep_pipeline.events.raw_files import PathTemplate, Period
from cep_pipeline.events.schema import ARROW_TYPES, StreamSchema
from cep_pipeline.events.stream_document import StreamDocument
from cep_pipeline.events.timestamps import check_format, read_timestamps
from cep_pipeline.patterns.expressions import ValueType
from cep_pipeline.pipeline import configuration
from cep_pipeline.pipeline.configuration import Configuration, PipelineSettings
from tests.docs.pages import CHECKOUT, DOCS, blocks, table_after
from tests.spark.ingester import Ingester, quarantine_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DAY = date(2025, 3, 4)
DOCUMENTS: dict[str, type[BaseModel]] = {"stream": StreamDocument, "pipeline": PipelineSettings}
SHIPPED = [("stream", path) for path in sorted((CHECKOUT / "streams").glob("*.yaml"))]
SHIPPED.append(("pipeline", CHECKOUT / "pipeline.yaml"))
STREAM_EXAMPLES = [block.text for block in blocks("streams.md", "yaml")]
PIPELINE_EXAMPLES = [block.text for block in blocks("pipeline_yaml.md", "yaml")]
SMALL: dict[str, Any] = yaml.safe_load(STREAM_EXAMPLES[0])


def validator(document: str) -> jsonschema.Draft202012Validator:
    """The JSON Schema that is in `docs/schemas`."""
    content = json.loads((DOCS / "schemas" / f"{document}.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(content)
    return jsonschema.Draft202012Validator(content)


@pytest.mark.parametrize(("document", "path"), SHIPPED, ids=[path.stem for _, path in SHIPPED])
def test_the_files_of_the_project_fit_their_json_schema_and_name_it(document: str, path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    validator(document).validate(yaml.safe_load(text))
    named = text.splitlines()[0].removeprefix("# yaml-language-server: $schema=")
    assert (path.parent / named).resolve() == DOCS / "schemas" / f"{document}.json"


@pytest.mark.parametrize(
    ("document", "changes", "names"),
    [
        ("stream", {"atributes": {}}, "atributes"),
        ("stream", {"attributes": {"price": "decimal"}}, "decimal"),
        ("stream", {"timestamp": {"column": "time", "fromat": "iso"}}, "fromat"),
        ("stream", {"source": {"format": "xml", "path": "x"}}, "xml"),
        ("stream", {"source": {"format": "csv", "path": "x", "delimiter": "::"}}, "::"),
        ("stream", {"on_missing": "ignore"}, "ignore"),
        ("stream", {"derived": {"d": {"history": {"of": "x", "length": 0}}}}, "0"),
        ("pipeline", {"stream": {}}, "stream"),
        ("pipeline", {"streams": {}}, "{}"),
        ("pipeline", {"streams": {"1st": {"schema": "a.yaml", "data": "a"}}}, "1st"),
        ("pipeline", {"streams": {"a": {"data": "a"}}}, "schema"),
        ("pipeline", {"planning": {"planner": "fastest"}}, "fastest"),
        ("pipeline", {"planning": {"sharing": "corner"}}, "corner"),
        ("pipeline", {"adaptation": {"decision": "sometimes"}}, "sometimes"),
        ("pipeline", {"adaptation": {"distance": -1}}, "-1"),
        ("pipeline", {"adaptation": {"k": 0}}, "0"),
        ("pipeline", {"statistics": {"epsilon": 0}}, "0"),
    ],
)
def test_a_mistake_is_one_by_the_json_schema_and_by_the_program(
    document: str, changes: dict[str, Any], names: str, tmp_path: Path
) -> None:
    base = SMALL if document == "stream" else yaml.safe_load(PIPELINE_EXAMPLES[0])
    validator(document).validate(base)
    wrong = {**base, **changes}
    messages = [str(error.message) for error in validator(document).iter_errors(wrong)]
    assert messages and any(names in message for message in messages)
    path = tmp_path / "wrong.yaml"
    path.write_text(yaml.safe_dump(wrong))
    with pytest.raises(InputError):
        StreamSchema.load(path) if document == "stream" else Configuration.load(path)


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_setting_has_a_meaning_and_an_example_that_is_right(document: str) -> None:
    model = DOCUMENTS[document]
    schema = json_schema(model)
    parts = parts_of(schema)
    names = [part.name for part in parts]
    assert len(names) == len(set(names)) > 5
    for part in parts:
        assert part.schema["description"].endswith("."), part.name
        for name, setting in part.schema["properties"].items():
            example = {**setting, "$defs": schema["$defs"]}
            jsonschema.Draft202012Validator(example).validate(setting["examples"][0])
            assert f"| `{name}` |" in settings_table(schema, part.name)


MODELS = {
    model.__name__: model
    for module in (stream_document, configuration)
    for model in vars(module).values()
    if isinstance(model, type) and issubclass(model, Document) and model is not Document
}


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_the_program_takes_the_example_of_every_setting(model: type[Document]) -> None:
    for name, field in model.model_fields.items():
        assert field.description and field.examples, name
        written = field.alias or name
        try:
            model.model_validate({written: field.examples[0]})
        except ValidationError as error:  # other settings are missing
            assert [fault for fault in error.errors() if fault["loc"][:1] == (written,)] == []


def test_an_unknown_part_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(InputError, match=r"no part 'sauce'; there are: document, .*source"):
        settings_table(json_schema(StreamDocument), "sauce")


@pytest.mark.parametrize("example", STREAM_EXAMPLES)
def test_examples_of_stream_schemas_are_right(example: str, tmp_path: Path) -> None:
    given = yaml.safe_load(example) or {}
    document = {**SMALL, **given}
    validator("stream").validate(document)
    path = tmp_path / "example.yaml"
    path.write_text(yaml.safe_dump(document, sort_keys=False))
    schema = StreamSchema.load(path)
    assert schema.name == "cold_rooms" and schema.source is not None


@pytest.mark.parametrize("example", PIPELINE_EXAMPLES)
def test_examples_of_pipelines_are_right(example: str, tmp_path: Path) -> None:
    document = yaml.safe_load(example)
    if document is None:
        assert example == "# yaml-language-server: $schema=docs/schemas/pipeline.json\n"
        return
    validator("pipeline").validate(document)
    path = tmp_path / "pipeline.yaml"
    path.write_text(example)
    assert "cold_rooms" in Configuration.load(path).stream_names()


def test_the_innermost_setting_counts_as_the_page_says(tmp_path: Path) -> None:
    (tmp_path / "cold_rooms.yaml").write_text(STREAM_EXAMPLES[0])
    for name in ("warming", "tests"):
        (tmp_path / f"{name}.sase").write_text(f"NAME {name} PATTERN Reading a WHERE a.temperature > 0 WITHIN 1 second")
    (tmp_path / "pipeline.yaml").write_text(next(text for text in PIPELINE_EXAMPLES if "tests.sase" in text))
    stream = Configuration.load(tmp_path / "pipeline.yaml").stream("cold_rooms")
    assert (stream.statistics.window, stream.statistics.epsilon) == ("20 minutes", 0.01)
    alarms, tests = (stream.pattern_set(name) for name in ("alarms", "tests"))
    assert (alarms.planner, alarms.adaptation.decision) == ("dp_left_deep", "invariant")
    assert (tests.planner, tests.adaptation.decision) == ("greedy", "static")


@pytest.mark.parametrize(("text_format", "text", "said"), table_after("streams.md", "format | in the file | read as"))
def test_times_are_read_as_the_page_says(text_format: str, text: str, said: str) -> None:
    form = text_format.strip("`")
    check_format(form)
    read = read_timestamps(pa.array([text.strip("`")]), form, "Europe/Copenhagen")
    (instant,) = read.utc.to_pylist()
    if said == "rejected":
        assert instant is None and (read.unreadable[0] or read.nonexistent[0])
    else:
        assert instant.isoformat() == datetime.fromisoformat(said.replace(" UTC", "+00:00")).isoformat()


@pytest.mark.parametrize(
    ("kind", "taken", "rejected"), table_after("streams.md", "type | values in a CSV file | rejected")
)
def test_values_are_read_as_the_page_says(kind: str, taken: str, rejected: str) -> None:
    target = ARROW_TYPES[ValueType(kind.strip("`"))]
    for texts, fails in ((re.findall("`([^`]+)`", taken), False), (re.findall("`([^`]+)`", rejected), True)):
        _, failed = cast_checked_to(pa.array(texts, pa.string()), target)
        assert failed.tolist() == [fails] * len(texts)


@pytest.mark.parametrize(
    ("decimal", "thousands", "text", "said"),
    table_after("streams.md", "decimal | thousands | in the file | read as"),
)
def test_numbers_are_read_as_the_page_says(decimal: str, thousands: str, text: str, said: str) -> None:
    signs = NumberSigns(decimal.strip("`"), thousands.strip("`") or None)
    values, failed = cast_checked_to(signs.with_point(pa.array([text.strip("`")])), pa.float64())
    assert (values.to_pylist(), failed.tolist()) == (
        ([None], [True]) if said == "rejected" else ([float(said)], [False])
    )


def test_the_file_with_other_signs_is_read_by_its_example(tmp_path: Path) -> None:
    example = next(text for text in STREAM_EXAMPLES if "decimal" in text)
    (tmp_path / "cold_rooms.yaml").write_text(yaml.safe_dump({**SMALL, **yaml.safe_load(example)}))
    (tmp_path / "day.csv").write_text(next(block.text for block in blocks("streams.md", "csv") if ";" in block.text))
    events = read(StreamSchema.load(tmp_path / "cold_rooms.yaml"), tmp_path / "day.csv")
    assert events.select(["temperature", "litres"]).to_pydict() == {
        "temperature": [-18.25, -18.5],
        "litres": [1250, 980],
    }


@pytest.mark.parametrize(("given", "content", "rows"), table_after("streams.md", "setting | the file | rows"))
def test_files_as_they_come_are_read_as_the_page_says(given: str, content: str, rows: str, tmp_path: Path) -> None:
    source = {"format": "csv", "path": "readings", **yaml.safe_load(given.strip("`"))}
    (tmp_path / "readings").write_text(content.strip("`").replace("⏎", "\n"), source.get("encoding", "utf-8"))
    document = {**SMALL, "timezone": "UTC", "type_attribute": None, "base_type": "Reading", "source": source}
    document |= {"timestamp": "time", "attributes": {"room": "string", "temperature": "float64"}}
    (tmp_path / "cold_rooms.yaml").write_text(yaml.safe_dump({name: its for name, its in document.items() if its}))
    [row] = read(StreamSchema.load(tmp_path / "cold_rooms.yaml"), tmp_path / "readings").to_pylist()
    time, room, temperature = yaml.safe_load(f"[{rows.strip('`')}]")
    assert row["timestamp"].isoformat() == "2025-03-04T09:00:00+00:00" and str(time).startswith("2025-03-04")
    assert (row["room"], row["temperature"]) == (room, temperature)


@pytest.mark.parametrize(
    ("path", "file", "covers"), table_after("streams.md", "path | file for 2025-03-04 | a file covers")
)
def test_paths_are_filled_in_as_the_page_says(path: str, file: str, covers: str) -> None:
    template = PathTemplate(path.strip("`"))
    period = template.period(DAY)
    assert template.pattern(DAY) == file.strip("`")
    assert {
        "a day": Period(DAY, DAY),
        "a month": Period(date(2025, 3, 1), date(2025, 3, 31)),
        "a year": Period(date(2025, 1, 1), date(2025, 12, 31)),
        "all time": Period(None, None),
    }[covers] == period


def test_derived_attributes_are_as_the_page_says(tmp_path: Path) -> None:
    example = next(text for text in STREAM_EXAMPLES if text.startswith("derived:"))
    path = tmp_path / "cold_rooms.yaml"
    path.write_text(STREAM_EXAMPLES[0] + example)
    schema = StreamSchema.load(path)
    rows = [
        [yaml.safe_load(cell) for cell in row] for row in table_after("streams.md", "temperature | rise | rises | last")
    ]
    events = pa.table(
        {"room": pa.array(["room-1"] * len(rows)), "temperature": pa.array([row[0] for row in rows], pa.float64())}
    )
    derived = derive(events, schema.derived, schema.type_attribute, Carry())
    assert [list(row.values()) for row in derived.drop_columns(["room"]).to_pylist()] == rows


def test_bad_rows_are_rejected_as_the_page_says(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "cold_rooms.yaml"
    path.write_text(STREAM_EXAMPLES[0] + "key: [room, timestamp]\nquality: {max_rejected_share: 1}\n")
    ingest = Ingester(spark, tmp_path)
    text = next(block.text for block in blocks("streams.md", "csv") if "broken" in block.text)
    (ingest.data / f"{DAY}.csv").write_text(text)
    result = ingest.day(StreamSchema.load(path), DAY)
    rejected = [[str(row["line"]), row["reason"]] for row in quarantine_of(result)]
    assert rejected == table_after("streams.md", "line | reason")
    assert result.staged.events == 1


def test_the_variables_of_the_project_are_named() -> None:
    named = set(re.findall(r"\$\{(CEP_\w+)", (CHECKOUT / "pipeline.yaml").read_text()))
    (sentence,) = re.findall(
        r"The `pipeline.yaml` of the project names (.*?)\.\s", (DOCS / "pipeline_yaml.md").read_text(), re.DOTALL
    )
    assert set(re.findall(r"`(\w+)`", sentence)) == named
