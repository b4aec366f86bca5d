"""Write the parts of the pages in `docs/` anew that commands make, and the JSON Schemas beside them.

A page names the command, between two comments, and the script puts the command's output there:

    <!-- made by: cep schema stream --markdown --part source -->
    …
    <!-- end -->

`--check` writes nothing, and ends with exit code 1 where something would change.
"""

from __future__ import annotations

import argparse
import re
import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

from cep_pipeline.cli import cli
from cep_pipeline.errors import InputError

DOCS = Path(__file__).resolve().parents[1] / "docs"
FILES = {"schemas/stream.json": "cep schema stream", "schemas/pipeline.json": "cep schema pipeline"}
"""Files below `docs/` that are as a whole the output of a command."""

_MADE = re.compile(r"(<!-- made by: (?P<command>cep [^\n]*?) -->\n)(?:(?!<!-- made by: ).)*?(<!-- end -->)", re.S)


def output_of(command: str) -> str:
    """Return what a `cep` command prints."""
    printed = StringIO()
    with redirect_stdout(printed):
        cli.main(shlex.split(command)[1:], prog_name="cep", standalone_mode=False)
    return printed.getvalue()


def written(docs: Path) -> Iterator[tuple[Path, str]]:
    """Each file with a part that a command makes, and what the file should hold."""
    for name, command in FILES.items():
        yield docs / name, output_of(command)
    for page in sorted(docs.rglob("*.md")):
        text = page.read_text(encoding="utf-8")
        if any(text.count(mark) != len(_MADE.findall(text)) for mark in ("<!-- made by: ", "<!-- end -->")):
            raise InputError(f"{page}: each `<!-- made by: cep … -->` needs an `<!-- end -->` of its own")
        if _MADE.search(text):
            yield page, _MADE.sub(lambda part: f"{part[1]}\n{output_of(part['command'])}\n{part[3]}", text)


def main(argv: Sequence[str] | None = None) -> int:
    """Write the files, or check them; returns the exit code. Without arguments here it takes those of the process."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit code 1 where something would change")
    parser.add_argument("--docs", type=Path, default=DOCS, help="the folder of the pages")
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
        sys.stdout.write("python scripts/write_reference.py writes them anew\n")
    return int(bool(differing) and arguments.check)


if __name__ == "__main__":
    sys.exit(main())
