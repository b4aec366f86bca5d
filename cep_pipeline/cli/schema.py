"""`cep schema`: the settings of stream schemas and of `pipeline.yaml`, and the columns of the warehouse's tables."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cep_pipeline.cli.options import PATH, writing
from cep_pipeline.cli.terminal import say
from cep_pipeline.errors import InputError

if TYPE_CHECKING:
    from cep_pipeline.warehouse.layout import TableLayout


@click.command()
@click.argument("what", type=click.Choice(["stream", "pipeline", "tables"]))
@click.option("--markdown", is_flag=True, help="Tables in Markdown, in place of JSON.")
@click.option("--part", metavar="NAME", help="With --markdown: only this mapping of settings, or this table.")
@click.option("--out", type=PATH, help="File to write, in place of printing.")
def schema(what: str, markdown: bool, part: str | None, out: Path | None) -> None:
    """Print the JSON Schema of a stream schema or of pipeline.yaml, or the columns of the tables.

    An editor that knows the JSON Schema completes the settings and underlines what is wrong. For the YAML extension of
    VS Code, and for other editors with the same language server, this is the first line of the file:

    \b
      # yaml-language-server: $schema=stream.json

    The path is relative to the file that it stands in.

    \b
    Examples:
      cep schema stream --out streams/stream.json       for the files in streams/
      cep schema pipeline --out pipeline.json           for pipeline.yaml
      cep schema stream --markdown --part quality       the settings of quality, as a table
      cep schema tables --markdown --part matches       the columns of the table of matches
    """
    if part and not markdown:
        raise InputError("--part: only together with --markdown; the JSON holds everything")
    text = _tables(markdown, part) if what == "tables" else _document(what, markdown, part)
    if out is None:
        say(text, nl=False)
        return
    with writing(out):
        out.write_text(text, encoding="utf-8")


def _document(what: str, markdown: bool, part: str | None) -> str:
    from cep_pipeline.document_reference import as_json, json_schema, settings_page, settings_table
    from cep_pipeline.events.stream_document import StreamDocument
    from cep_pipeline.pipeline.configuration import PipelineSettings

    made = json_schema(StreamDocument if what == "stream" else PipelineSettings)
    if not markdown:
        return as_json(made)
    return (settings_page(made) if part is None else settings_table(made, part)) + "\n"


def _tables(markdown: bool, part: str | None) -> str:
    from cep_pipeline.document_reference import as_json
    from cep_pipeline.events.columns import events_columns
    from cep_pipeline.events.schema import StreamSchema
    from cep_pipeline.warehouse.layout import table_layouts

    plain = StreamSchema.from_dict({"type_attribute": "type", "attributes": {"type": "string"}}, "any")
    layouts = table_layouts(events_columns(plain))
    if not markdown:
        return as_json({name: _content(layout) for name, layout in layouts.items()})
    if part is None:
        return "\n".join(f"### `{name}`\n\n{_columns_table(layout)}\n" for name, layout in layouts.items())
    if part not in layouts:
        raise InputError(f"there is no table {part!r}; there are: {', '.join(layouts)}")
    return _columns_table(layouts[part]) + "\n"


_ATTRIBUTES = ("(attributes)", "as in the stream schema", "Attributes of the event, derived ones included.")


def _columns(layout: TableLayout) -> list[tuple[str, str, str]]:
    """Name, type and meaning of each column; the attributes of events are one entry."""
    kinds = {field.name: str(field.type).replace("extension<arrow.uuid>", "uuid") for field in layout.schema}
    meanings = [(name, kind, layout.meaning(name)) for name, kind in kinds.items()]
    return [_ATTRIBUTES if meaning is None else (name, kind, meaning) for name, kind, meaning in meanings]


def _content(layout: TableLayout) -> dict[str, Any]:
    columns = {name: {"type": kind, "meaning": meaning} for name, kind, meaning in _columns(layout)}
    return {"partitions": list(layout.partitions), "sorted_by": list(layout.sort), "columns": columns}


def _columns_table(layout: TableLayout) -> str:
    from cep_pipeline.document_reference import markdown_table

    rows = [row if row is _ATTRIBUTES else (f"`{row[0]}`", f"`{row[1]}`", row[2]) for row in _columns(layout)]
    return markdown_table(("column", "type", "meaning"), rows)
