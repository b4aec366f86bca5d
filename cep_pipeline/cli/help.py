"""`cep help` and `cep schema`: the manual in the terminal, the settings, and the columns of the warehouse's tables."""

from __future__ import annotations

import json
import re
from importlib.resources import files

import click
from rich.markdown import Markdown

from cep_pipeline.cli.terminal import Terminal, say
from cep_pipeline.errors import InputError
from cep_pipeline.foreign_text import did_you_mean

TOPICS = {
    "tour": "the pattern language in ten minutes, by ten patterns",
    "language": "the pattern language: each construct with an example, and how to choose a strategy",
    "patterns": "twenty patterns to start from, with what they find",
    "coming_from": "ten queries of Flink, Trino, Esper and SASE+ beside their patterns, and what is refused",
    "streams": "stream schemas: what raw files look like, setting by setting",
    "pipeline_yaml": "pipeline.yaml: streams, pattern sets, warehouse, setting by setting",
    "tables": "the tables of the warehouse, and queries that read them",
    "tutorial": "from a CSV file of your own to a pattern on a schedule",
    "operations": "schedules, backfills, stale days, recovery, clusters, logs, metrics, alerts",
    "runbook": "what an error, an exit code or a state means, and what to do",
    "glossary": "what the words of these pages, of messages and of tables mean",
}
"""Topic -> its line in the list of topics. The page of a topic has its name, in `docs`."""

WIDTH = 120
"""Widest text of a page, in characters; lines longer than this are hard to read."""

_HEADING = re.compile(r"^(?P<level>#{1,6}) (?P<title>(?:(?P<number>\d+(?:\.\d+)*)\.? )?.*)$", re.MULTILINE)
_FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_TABLE = re.compile(r"^`cep schema (?P<what>stream|pipeline|tables) --part (?P<part>\S+)`$", re.MULTILINE)
_LINK = re.compile(r"\[([^\]\n]*)\]\([^)\s]*\)")


@click.command(name="help")
@click.argument("topic", required=False)
@click.argument("section", required=False)
@click.pass_context
def help_command(ctx: click.Context, topic: str | None, section: str | None) -> None:
    """Show a page of the manual, or one section of it; without a topic, list the topics.

    On a terminal the page is laid out and opens in a pager. A file or a pipe gets the Markdown text.
    The name of a command shows the help of the command.

    \b
    Examples:
      cep help                    the topics
      cep help language           the pattern language
      cep help language 3.5       its section about negation
      cep help language > language.md
    """
    commands = ctx.find_root().command
    command = commands.get_command(ctx, topic) if topic and isinstance(commands, click.Group) else None
    if topic is None:
        say(_list_of_topics())
    elif topic in TOPICS:
        _show(_section_of(topic, with_tables(read_page(topic)), section))
    elif command is not None:
        with click.Context(command, info_name=topic, parent=ctx.find_root()) as inner:
            say(command.get_help(inner))
    else:
        raise InputError(f"no help topic is {topic!r}{did_you_mean(topic, TOPICS)}; the topics are {', '.join(TOPICS)}")


def read_page(topic: str) -> str:
    """The text of a topic's page as it is written; an InputError says that a copy of the package has none beside it.

    The pages are in `docs/` of the checkout, where people look for them. `cep_pipeline/docs` is a symbolic link to that
    folder, so that the package finds them in a checkout; a build follows the link, and an installed package has them as
    files of its own.
    """
    page = files("cep_pipeline").joinpath("docs", f"{topic}.md")
    if not page.is_file():
        raise InputError(f"the page of {topic!r} is missing: there is no file {page}")
    return page.read_text(encoding="utf-8")


def with_tables(page: str) -> str:
    """A page with the table of settings or columns in place of each line that names its command.

    Such a line has nothing but a command in backticks, as `cep schema stream --part source`.
    """
    return _TABLE.sub(lambda table: text_of(table["what"], table["part"]).rstrip("\n"), page)


def _list_of_topics() -> str:
    width = max(map(len, TOPICS))
    lines = [f"  cep help {topic:{width}}  {what}" for topic, what in TOPICS.items()]
    return "\n".join(["Pages of the manual:", *lines, "", "A section: cep help language 3.5. A command: cep help run."])


def _section_of(topic: str, page: str, section: str | None) -> str:
    """A section of a page with its subsections, or the whole page."""
    if section is None:
        return page
    number = section.rstrip(".")
    # A line of an example that begins with # is no heading.
    headings = list(_HEADING.finditer(_FENCED.sub(lambda example: " " * len(example.group()), page)))
    for index, heading in enumerate(headings):
        if heading["number"] == number:
            later = headings[index + 1 :]
            end = next((found.start() for found in later if len(found["level"]) <= len(heading["level"])), len(page))
            return page[heading.start() : end]
    known = ", ".join(heading["number"] for heading in headings if heading["number"])
    raise InputError(f"the page of {topic!r} has no section {section!r}; its sections are {known}")


def _show(text: str) -> None:
    """Print Markdown: laid out in a pager on a terminal, as it is elsewhere."""
    console = Terminal()
    if not console.is_terminal:
        say(text, nl=not text.endswith("\n"))
        return
    page = Terminal(force_terminal=True, width=min(console.width, WIDTH))
    with page.capture() as laid_out:
        # Links lead to places of the page and to files of the checkout: a terminal follows neither.
        page.print(Markdown(_LINK.sub(r"\1", text), code_theme="ansi_dark"))
    click.echo_via_pager(laid_out.get(), color=True)


@click.command()
@click.argument("what", type=click.Choice(["stream", "pipeline", "tables"]))
@click.option("--part", metavar="NAME", help="A mapping of settings, or a table of the warehouse, in Markdown.")
def schema(what: str, part: str | None) -> None:
    """Print the JSON Schema of a stream schema or of pipeline.yaml, or the columns of a table of the warehouse.

    An editor that knows the JSON Schema completes the settings and underlines what is wrong. For the YAML extension of
    VS Code, and for other editors with the same language server, this is the first line of the file:

    \b
      # yaml-language-server: $schema=stream.json

    The path is relative to the file that it stands in.

    \b
    Examples:
      cep schema stream > streams/stream.json           for the files in streams/
      cep schema pipeline > pipeline.json               for pipeline.yaml
      cep schema stream --part quality                  the settings of quality, as a table
      cep schema tables --part matches                  the columns of the table of matches
    """
    say(text_of(what, part), nl=False)


def text_of(what: str, part: str | None) -> str:
    """Return the text that `cep schema` prints."""
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
