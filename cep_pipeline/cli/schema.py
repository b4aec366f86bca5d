"""`cep schema`: the settings of stream schemas and of `pipeline.yaml`, and the columns of the warehouse's tables."""

from __future__ import annotations

import json
from pathlib import Path

import click

from cep_pipeline.cli.options import PATH, writing
from cep_pipeline.cli.terminal import say
from cep_pipeline.errors import InputError


@click.command()
@click.argument("what", type=click.Choice(["stream", "pipeline", "tables"]))
@click.option("--part", metavar="NAME", help="A mapping of settings, or a table of the warehouse, in Markdown.")
@click.option("--out", type=PATH, help="File to write, in place of printing.")
def schema(what: str, part: str | None, out: Path | None) -> None:
    """Print the JSON Schema of a stream schema or of pipeline.yaml, or the columns of a table of the warehouse.

    An editor that knows the JSON Schema completes the settings and underlines what is wrong. For the YAML extension of
    VS Code, and for other editors with the same language server, this is the first line of the file:

    \b
      # yaml-language-server: $schema=stream.json

    The path is relative to the file that it stands in.

    \b
    Examples:
      cep schema stream --out streams/stream.json       for the files in streams/
      cep schema pipeline --out pipeline.json           for pipeline.yaml
      cep schema stream --part quality                  the settings of quality, as a table
      cep schema tables --part matches                  the columns of the table of matches
    """
    text = text_of(what, part)
    if out is None:
        say(text, nl=False)
        return
    with writing(out):
        out.write_text(text, encoding="utf-8")


def text_of(what: str, part: str | None) -> str:
    """What `cep schema` prints."""
    return _columns_table(part) if what == "tables" else _document(what, part)


def _document(what: str, part: str | None) -> str:
    from cep_pipeline.documents import json_schema, settings_table
    from cep_pipeline.events.stream_document import StreamDocument
    from cep_pipeline.pipeline.configuration import PipelineSettings

    made = json_schema(StreamDocument if what == "stream" else PipelineSettings)
    return json.dumps(made, indent=2, ensure_ascii=False) + "\n" if part is None else settings_table(made, part) + "\n"


def _columns_table(name: str | None) -> str:
    """The columns of a table; the attributes of events are one row."""
    from cep_pipeline.documents import markdown_table
    from cep_pipeline.events.columns import events_columns
    from cep_pipeline.events.schema import StreamSchema
    from cep_pipeline.warehouse.layout import table_layouts

    plain = StreamSchema.from_dict({"type_attribute": "type", "attributes": {"type": "string"}}, "any")
    layouts = table_layouts(events_columns(plain.arrow_schema))
    if name not in layouts:
        raise InputError(f"name a table with --part; there are: {', '.join(layouts)}")
    rows = []
    for field in layouts[name].schema:
        kind = str(field.type).replace("extension<arrow.uuid>", "uuid")
        meaning = layouts[name].meaning(field.name)
        rows.append(_ATTRIBUTES if meaning is None else (f"`{field.name}`", f"`{kind}`", meaning))
    return markdown_table(("column", "type", "meaning"), rows) + "\n"


_ATTRIBUTES = ("(attributes)", "as in the stream schema", "Attributes of the event, derived ones included.")
