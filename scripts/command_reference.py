"""The reference of the commands, from their help texts: the site's build puts it on its page (`site_pages.py`)."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator

import click

from cep_pipeline.cli import COMMAND_GROUPS, cli


def command_reference() -> str:
    """What each command does, its options, and examples, by groups of commands, as Markdown."""
    context = click.Context(cli, info_name="cep", max_content_width=100)
    lines = [*_help_text(inspect.cleandoc(cli.help or "")), *_options(cli, context)]
    for heading, names in COMMAND_GROUPS.items():
        lines += [f"## {heading}", ""]
        for name in names:
            command = cli.get_command(context, name)
            assert command is not None
            lines += _command(command, click.Context(command, info_name=name, parent=context))
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines))


def _command(command: click.Command, context: click.Context) -> Iterator[str]:
    yield from (f"### {context.command_path}", "")
    yield from ("```text", f"{context.command_path} {' '.join(command.collect_usage_pieces(context))}", "```", "")
    yield from _help_text(inspect.cleandoc(command.help or ""))
    yield from _options(command, context)


def _help_text(text: str) -> Iterator[str]:
    """Paragraphs of a help text; those that click keeps as they are become blocks of code."""
    for paragraph in text.split("\n\n"):
        kept = paragraph.lstrip("\n").startswith("\b")
        lines = [line.rstrip() for line in paragraph.replace("\b", "").strip("\n").split("\n")]
        if not kept:
            yield from (_escaped(" ".join(line.strip() for line in lines)), "")
            continue
        if not lines[0].startswith(" "):
            yield from (_escaped(lines.pop(0)), "")
        yield from ("```text", *inspect.cleandoc("\n".join(lines)).split("\n"), "```", "")


def _options(command: click.Command, context: click.Context) -> Iterator[str]:
    records = [param.get_help_record(context) for param in command.get_params(context)]
    rows = [(names, text) for names, text in filter(None, records) if not names.endswith("--help")]
    if rows:
        yield from ("| option | what it does |", "| --- | --- |")
        yield from (f"| {_cell(f'`{names}`')} | {_cell(_escaped(text))} |" for names, text in rows)
        yield ""


def _escaped(text: str) -> str:
    """Text in which Markdown finds no emphasis and no tags, outside of code."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(part if part.startswith("`") else re.sub(r"([*<\[])", r"\\\1", part) for part in parts)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
