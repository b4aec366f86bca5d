"""Write what is made from the code in `docs/`: parts of pages, and the JSON Schemas.

    python scripts/reference_pages.py            # writes all of it
    python scripts/reference_pages.py --check    # only says what is not up to date; then it exits with 1

A page names a command between two comments, and the script puts the output of the command there:

    <!-- made by: cep schema stream --part source -->
    …
    <!-- end -->

All of it is in the repository, so that it can be read without building the site. `make docs` writes it before it builds
the site.
"""

from __future__ import annotations

import argparse
import re
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

from cep_pipeline.cli import cli
from cep_pipeline.errors import InputError

CHECKOUT = Path(__file__).resolve().parents[1]


def output_of(command: str) -> str:
    """Return what a `cep` command prints."""
    printed = StringIO()
    with redirect_stdout(printed):
        cli.main(shlex.split(command)[1:], prog_name="cep", standalone_mode=False)
    return printed.getvalue()


FILES: Mapping[str, Callable[[], str]] = {
    "schemas/stream.json": lambda: output_of("cep schema stream"),
    "schemas/pipeline.json": lambda: output_of("cep schema pipeline"),
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
