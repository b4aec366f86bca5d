"""Write what is made from the code in `docs/`: two pages as a whole, parts of other pages, and the JSON Schemas.

    python scripts/reference_pages.py            # writes all of it
    python scripts/reference_pages.py --check    # only says what is not up to date; then it exits with 1

`docs/commands.md` and `docs/python.md` are made as a whole. Another page names a command between two comments, and the
script puts the output of the command there:

    <!-- made by: cep schema stream --markdown --part source -->
    …
    <!-- end -->

All of it is in the repository, so that it can be read without building the site. `make docs` writes it before it builds
the site.
"""

from __future__ import annotations

import argparse
import inspect
import itertools
import re
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import click
import griffe

import cep_pipeline as cep
from cep_pipeline.cli import COMMAND_GROUPS, cli
from cep_pipeline.errors import InputError

CHECKOUT = Path(__file__).resolve().parents[1]
MADE = "This page is made by `python scripts/reference_pages.py`; its words come from the code. -->"

NAME_GROUPS = {
    "Streams and patterns": ("StreamSchema", "read", "parse_patterns", "format_pattern", "Pattern"),
    "What is published": ("open", "PublishedWarehouse", "PublishedStream"),
    "Detection": ("detect", "Matches", "detect_batches", "expand", "Metrics", "NodeCounts", "MECHANISMS"),
    "Why, and why not": ("why", "Explanation", "RuleCheck", "why_not", "WhyNot"),
    "Statistics and plans": (
        "estimate_statistics",
        "StatisticsSnapshot",
        "plan",
        "Plan",
        "PatternPlan",
        "ClausePlan",
        "PLANNERS",
        "COSTS",
    ),
    "Plans that follow the data": (
        "detect_adaptively",
        "AdaptiveDetection",
        "AdaptationReport",
        "scan_distance",
        "ScannedDistance",
        "decision_function",
        "DECISION_FUNCTIONS",
    ),
    "Errors and warnings": (
        "CepError",
        "PatternError",
        "UnsupportedPattern",
        "PlanError",
        "InputError",
        "TooManyMatches",
        "DataError",
        "BusyError",
        "PatternWarning",
        "DataWarning",
    ),
}
"""Headings of the page of the Python interface. A name that no group has comes under `OTHER_NAMES`."""
OTHER_NAMES = "Other names"


# --- commands ---------------------------------------------------------------------------------------------------------


def commands_page() -> str:
    """The page of the commands: what each does, its options, and examples."""
    context = click.Context(cli, info_name="cep", max_content_width=100)
    lines = [
        "# Commands",
        "",
        f"<!-- {MADE}",
        "",
        *_help_text(inspect.cleandoc(cli.help or "")),
        *_options(cli, context),
    ]
    for heading, names in COMMAND_GROUPS.items():
        lines += [f"## {heading}", ""]
        for name in names:
            command = cli.get_command(context, name)
            assert command is not None
            lines += _command(command, click.Context(command, info_name=name, parent=context))
    return _page(lines)


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


# --- Python -----------------------------------------------------------------------------------------------------------


def python_page() -> str:
    """The page of the Python interface: each public name with its signature and its docstring."""
    package = griffe.load("cep_pipeline", search_paths=[CHECKOUT], docstring_parser="numpy", allow_inspection=False)
    lines = ["# Python", "", f"<!-- {MADE}", "", *PYTHON_INTRODUCTION.strip().split("\n"), ""]
    grouped = {name for names in NAME_GROUPS.values() for name in names}
    others = {OTHER_NAMES: tuple(name for name in dir(cep) if name not in grouped | {"__version__"})}
    for heading, names in (NAME_GROUPS | others).items():
        if names:
            lines += [f"## {heading}", ""]
            for name in names:
                found = package[name]
                lines += _documented(found.final_target if found.is_alias else found, f"cep.{name}", "###")
    return _page(lines)


PYTHON_INTRODUCTION = """
```python
import cep_pipeline as cep
```

These names are the whole interface. They are imported when they are first used, so `import cep_pipeline` itself takes
some hundredths of a second. Types show themselves in one line; `dir(cep)` lists all names.
[A notebook](notebook.ipynb) goes from a CSV file to matches, a plan and a warehouse.
"""


def _documented(found: griffe.Object | griffe.Alias, name: str, heading: str) -> Iterator[str]:
    yield from (f"{heading} {name}", "")
    if found.is_function or (found.is_class and not _is_error(found)):
        yield from ("```python", _signature(found, name), "```", "")
    elif found.is_attribute and found.annotation is not None:
        yield from (f"`{name}: {found.annotation}`", "")
    if found.docstring is not None:
        for section in found.docstring.parsed:
            yield from _section(section)
    if found.is_attribute and isinstance(known := getattr(cep, found.name, None), Mapping):
        yield from (f"Names: {', '.join(f'`{key}`' for key in known)}.", "")
    if found.is_class:
        if found.bases:
            yield from (f"Derived from: {', '.join(f'`{base}`' for base in found.bases)}.", "")
        for member in _methods(found):
            yield from _documented(member, f"{name}.{member.name}".removeprefix("cep."), f"{heading}#")


def _is_error(found: griffe.Object | griffe.Alias) -> bool:
    return any("Error" in str(base) or "Warning" in str(base) or str(base) == "Exception" for base in found.bases)


def _methods(found: griffe.Object | griffe.Alias) -> list[griffe.Object | griffe.Alias]:
    """The public methods and properties that the class itself documents, in the order of the file."""
    own = [
        member
        for name, member in found.members.items()
        if not name.startswith("_")
        and not member.is_alias
        and member.docstring is not None
        and (member.is_function or "property" in member.labels)
    ]
    return sorted(own, key=lambda member: member.lineno or 0)


def _signature(found: griffe.Object | griffe.Alias, name: str) -> str:
    """The call with its parameters, one a line where they would not fit."""
    parameters: list[str] = []
    keyword_only = griffe.ParameterKind.keyword_only
    star = False
    for parameter in found.parameters:
        if parameter.name in ("self", "cls"):
            continue
        starred = parameter.kind in (griffe.ParameterKind.var_positional, griffe.ParameterKind.var_keyword)
        if parameter.kind is keyword_only and not star:
            parameters.append("*")
            star = True
        prefix = {"variadic positional": "*", "variadic keyword": "**"}.get(parameter.kind.value, "") if starred else ""
        annotation = f": {parameter.annotation}" if parameter.annotation is not None else ""
        default = f" = {parameter.default}" if parameter.default is not None and not starred else ""
        parameters.append(f"{prefix}{parameter.name}{annotation}{default}")
    returns = f" -> {found.returns}" if found.is_function and found.returns is not None else ""
    short = f"{name}({', '.join(parameters)}){returns}"
    return short if len(short) <= 100 else f"{name}(\n" + "".join(f"    {one},\n" for one in parameters) + f"){returns}"


def _section(section: griffe.DocstringSection) -> Iterator[str]:
    kind = griffe.DocstringSectionKind
    titles = {
        kind.parameters: "Parameters",
        kind.other_parameters: "Other parameters",
        kind.attributes: "Attributes",
        kind.raises: "Raises",
        kind.warns: "Warns",
        kind.returns: "Returns",
        kind.yields: "Yields",
    }
    if section.kind is kind.text:
        yield from (_escaped(section.value), "")
    elif section.kind is kind.admonition:
        yield from (f"**{section.title}.** {_escaped(section.value.description)}", "")
    elif section.kind is kind.examples:
        yield from ("**Example.**", "")
        for part, text in section.value:
            yield from ((text, "") if part is kind.text else ("```pycon", text, "```", ""))
    elif section.kind in titles:
        yield from (f"**{titles[section.kind]}**", "")
        named = [(getattr(item, "name", "") or str(item.annotation or ""), item.description) for item in section.value]
        for description, items in itertools.groupby(named, key=lambda one: one[1]):
            texts = [name for name, _ in items]
            if section.kind not in (kind.returns, kind.yields):
                texts = [part for text in texts for part in text.strip("()").split(", ")]
            names = ", ".join(f"`{text}`" for text in texts)
            yield f"- {names}: {_escaped(' '.join(description.split()))}"
        yield ""
    else:
        raise AssertionError(f"a docstring has a section that the page does not know: {section.kind}")


# --- both -------------------------------------------------------------------------------------------------------------


def _escaped(text: str) -> str:
    """Text in which Markdown finds no emphasis and no tags, outside of code."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(part if part.startswith("`") else re.sub(r"([*<])", r"\\\1", part) for part in parts)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _page(lines: Sequence[str]) -> str:
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).rstrip("\n") + "\n"


# --- files ------------------------------------------------------------------------------------------------------------


def output_of(command: str) -> str:
    """Return what a `cep` command prints."""
    printed = StringIO()
    with redirect_stdout(printed):
        cli.main(shlex.split(command)[1:], prog_name="cep", standalone_mode=False)
    return printed.getvalue()


FILES: Mapping[str, Callable[[], str]] = {
    "schemas/stream.json": lambda: output_of("cep schema stream"),
    "schemas/pipeline.json": lambda: output_of("cep schema pipeline"),
    "commands.md": commands_page,
    "python.md": python_page,
}
"""Files below `docs/` that are made as a whole -> what makes the text."""

_MADE = re.compile(r"(<!-- made by: (?P<command>cep [^\n]*?) -->\n)(?:(?!<!-- made by: ).)*?(<!-- end -->)", re.S)


def written(docs: Path) -> Iterator[tuple[Path, str]]:
    """Each file that is made, or has a part that is made, and what the file should hold."""
    for page in sorted(docs.rglob("*.md")):
        text = page.read_text(encoding="utf-8")
        if any(text.count(mark) != len(_MADE.findall(text)) for mark in ("<!-- made by: ", "<!-- end -->")):
            raise InputError(f"{page}: each `<!-- made by: cep … -->` needs an `<!-- end -->` of its own")
        if _MADE.search(text):
            yield page, _MADE.sub(lambda part: f"{part[1]}\n{output_of(part['command'])}\n{part[3]}", text)
    for name, made in FILES.items():
        yield docs / name, made()


def main(argv: Sequence[str] | None = None) -> int:
    """Write the files, or check them; returns the exit code. Without arguments here it takes those of the process."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit code 1 where something would change")
    parser.add_argument("--docs", type=Path, default=CHECKOUT / "docs", help="the folder of the pages")
    arguments = parser.parse_args(argv)
    try:
        made = list(written(arguments.docs))
    except InputError as error:
        sys.stderr.write(f"error: {error}\n")
        return error.exit_code
    differing = [(file, text) for file, text in made if not file.exists() or file.read_text(encoding="utf-8") != text]
    for file, text in differing:
        if not arguments.check:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        sys.stdout.write(f"{file}: {'is not up to date' if arguments.check else 'written'}\n")
    if differing and arguments.check:
        sys.stdout.write("python scripts/reference_pages.py writes them anew\n")
    return int(bool(differing) and arguments.check)


if __name__ == "__main__":
    sys.exit(main())
