"""Write the JSON Schemas of `docs/schemas`, which editors read beside the files that they check.

    python scripts/reference_pages.py            # writes them
    python scripts/reference_pages.py --check    # only says what is not up to date; then it exits with 1

They are in the repository, so that an editor finds them in a checkout. `make docs` writes them before it builds the
site. The tables of settings and columns are made with the site, and by `cep help` (`cep_pipeline/cli/help.py`).
"""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

from cep_pipeline.cli import cli

CHECKOUT = Path(__file__).resolve().parents[1]


def output_of(command: str) -> str:
    """Return what a `cep` command prints."""
    printed = StringIO()
    with redirect_stdout(printed):
        cli.main(shlex.split(command)[1:], prog_name="cep", standalone_mode=False)
    return printed.getvalue()


FILES: Mapping[str, str] = {
    "schemas/stream.json": "cep schema stream",
    "schemas/pipeline.json": "cep schema pipeline",
}
"""Files below `docs/` -> the command that prints the text."""


def main(argv: Sequence[str] | None = None) -> int:
    """Write the files, or check them; returns the exit code. Without arguments here it takes those of the process."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit code 1 where something would change")
    parser.add_argument("--docs", type=Path, default=CHECKOUT / "docs", help="the folder of the pages")
    arguments = parser.parse_args(argv)
    made = [(arguments.docs / name, output_of(command)) for name, command in FILES.items()]
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
