"""Figures of the house: how large the package is, how it hangs together, and how its words read.

    python scripts/house.py            a table of figures beside their bounds; exit code 1 where one is exceeded
    python scripts/house.py --list     also the places behind each figure

Everything is counted from the sources; nothing of the package is imported. Imports inside functions and those for type
annotations count like all others. `make check` ends with it. A bound is what the house has come to: whoever takes
something away lowers it, and whoever needs more takes something away first.
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import re
import subprocess
import sys
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

PACKAGE = "cep_pipeline"
NO_SUBJECT = re.compile(r"(What|Whether|How|Where|Of|Which|As|By|That|Those|When)\b")
"""Words with which a docstring does not begin: a clause without a noun says nothing to a stranger."""
SMALL = 150
"""Lines up to which a module that only its neighbour imports may as well be part of that one."""

SHIPPED_CODE = f"{PACKAGE}/compiled/shipped_code"
NO_CODE = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}

ROOMS: Mapping[str, tuple[tuple[str, ...], int]] = {
    "detection, questions": (("cep_pipeline/detection", "cep_pipeline/questions"), 18_400),
    "planning": (("cep_pipeline/planning",), 5_041),
    "warehouse": (("cep_pipeline/warehouse",), 3_276),
    "pipeline, spark, spark_jobs": (("cep_pipeline/pipeline", "cep_pipeline/spark", "spark_jobs"), 6_021),
    "cli": (("cep_pipeline/cli",), 3_561),
    "events": (("cep_pipeline/events",), 3_747),
    "adaptation": (("cep_pipeline/adaptation",), 1_629),
    "statistics": (("cep_pipeline/statistics",), 1_926),
    "language, patterns, expressions, slices": (
        tuple(f"cep_pipeline/{one}" for one in ("language", "patterns", "expressions", "slices")),
        6_965,
    ),
    "the rest of the package": (("cep_pipeline/compiled", "cep_pipeline/*.py"), 1_933),
    "benchmarks, scripts, dags, plugins": (("benchmarks", "scripts", "dags", "plugins"), 7_805),
}
"""Rooms of the house: their folders, and the most lines of code that they may have."""
FILES, THRESHOLDS, KERNELS, CHOOSERS = 259, 153, 20, 92
"""Bounds of the files of the package; in detection, of numbers, kernels, and functions that may answer None."""

Graph = Mapping[str, set[str]]


@dataclass(frozen=True)
class Module:
    """One file of the package, by its dotted name; that of a package for its `__init__`."""

    name: str
    file: Path
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    def thresholds(self) -> list[str]:
        """Numbers that have a name at the top of the module: limits, measured costs, codes."""
        assigned = (node for node in self.tree.body if isinstance(node, ast.Assign | ast.AnnAssign))
        return [ast.unparse(node) for node in assigned if node.value is not None and _is_number(node.value)]

    def choosers(self) -> list[str]:
        """Functions that may answer None: among them all that decline a case, for the next way to be asked."""
        functions = (node for node in ast.walk(self.tree) if isinstance(node, ast.FunctionDef) and node.returns)
        return [node.name for node in functions if "None" in (ast.unparse(node.returns or node)).split(" | ")[1:]]

    def docstrings(self) -> Iterator[tuple[str, str]]:
        """(name, docstring) of each class and function."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                text = ast.get_docstring(node)
                if text:
                    yield node.name, text


def code_lines(text: str) -> int:
    """Lines of a module that hold code: no docstring, comment or blank line."""
    texts, used = set[int](), set[int]()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            texts.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in NO_CODE:
            used.update(range(token.start[0], token.end[0] + 1))
    return len(used - texts)


class House:
    """The modules of the package in a checkout."""

    def __init__(self, checkout: Path) -> None:
        self.checkout = checkout
        self.modules: dict[str, Module] = {}
        for file in sorted((checkout / PACKAGE).rglob("*.py")):
            name = ".".join(file.relative_to(checkout).with_suffix("").parts).removesuffix(".__init__")
            self.modules[name] = Module(name, file, file.read_text(encoding="utf-8"))

    def room_lines(self, room: str) -> int:
        """Lines of code of a room of `ROOMS`."""
        found = 0
        for folder in ROOMS[room][0]:
            files = self.checkout.glob(folder) if folder.endswith(".py") else (self.checkout / folder).rglob("*.py")
            found += sum(code_lines(file.read_text(encoding="utf-8")) for file in files)
        return found

    @cached_property
    def imports(self) -> Graph:
        """Module -> the modules that it imports anywhere in its text."""
        ruff = Path(sys.executable).with_name("ruff")
        command = [ruff, "analyze", "graph", "--quiet", PACKAGE]
        found = json.loads(subprocess.run(command, cwd=self.checkout, capture_output=True, check=True).stdout)
        names = {str(module.file.relative_to(self.checkout)): name for name, module in self.modules.items()}
        imports = {names[file]: {names[one] for one in imported if one in names} for file, imported in found.items()}
        return {name: imported - {name} for name, imported in imports.items()}

    def package_imports(self) -> Graph:
        """Package right below the top -> the packages that it imports."""
        found: dict[str, set[str]] = defaultdict(set)
        for importer, imported in self.imports.items():
            for name in imported:
                one, other = (".".join(module.split(".")[:2]) for module in (importer, name))
                if PACKAGE not in (one, other) and one != other:
                    found[one].add(other)
        return found

    def small_neighbours(self) -> list[str]:
        """Small modules whose one importer lies beside them."""
        importers: dict[str, set[str]] = defaultdict(set)
        for importer, imported in self.imports.items():
            for name in imported:
                importers[name].add(importer)
        return [
            module.name
            for module in self.modules.values()
            if module.text.count("\n") <= SMALL
            and [one.rpartition(".")[0] for one in importers[module.name]] == [module.name.rpartition(".")[0]]
        ]

    def homonyms(self) -> list[str]:
        """Names of public classes that mean several things."""
        names = Counter(
            node.name
            for module in self.modules.values()
            for node in ast.walk(module.tree)
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
        )
        return sorted(name for name, count in names.items() if count > 1)

    def subjectless_docstrings(self) -> list[str]:
        """Classes and functions whose docstring begins with a relative clause."""
        return [
            f"{module.name}.{name}: {text.splitlines()[0]}"
            for module in self.modules.values()
            for name, text in module.docstrings()
            if NO_SUBJECT.match(text)
        ]

    def missing_pages(self) -> list[str]:
        """Pages that sources cite and that are not there."""
        missing = []
        for folder in (PACKAGE, "benchmarks", "dags", "plugins", "scripts", "tests"):
            for file in sorted((self.checkout / folder).rglob("*.py")):
                for page in re.findall(r"docs/[\w/\-]+\.md", file.read_text(encoding="utf-8")):
                    if not (self.checkout / page).exists():
                        missing.append(f"{file.relative_to(self.checkout)}: {page}")
        return missing


def _is_number(node: ast.expr) -> bool:
    if isinstance(node, ast.BinOp):
        return _is_number(node.left) and _is_number(node.right)
    if isinstance(node, ast.UnaryOp):
        return _is_number(node.operand)
    if isinstance(node, ast.Tuple):
        return bool(node.elts) and all(map(_is_number, node.elts))
    return isinstance(node, ast.Constant) and type(node.value) in (int, float)


def circles(graph: Graph) -> list[list[str]]:
    """A circle of nodes of which each reaches the next; none where there is no circle.

    Examples
    --------
    >>> circles({"a": {"b"}, "b": {"c"}, "c": set()})
    []
    """
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return [error.args[1]]
    return []


def figures(house: House) -> list[tuple[str, int, int, Iterable[str]]]:
    """(what, figure, bound, the places behind it) of each figure."""
    of_files = circles(house.imports)
    of_packages = circles(house.package_imports())
    subjectless, small, homonyms = house.subjectless_docstrings(), house.small_neighbours(), house.homonyms()
    missing = house.missing_pages()
    detection = [one for one in house.modules.values() if f"{one.name}.".startswith(f"{PACKAGE}.detection.")]
    numbers = sum(len(one.thresholds()) for one in detection)
    kernels = list((house.checkout / SHIPPED_CODE).glob("detection.*"))
    pages = sum(page.stat().st_size for page in (house.checkout / "docs").rglob("*.md"))
    return [
        *((f"code lines: {room}", house.room_lines(room), most, ()) for room, (_, most) in ROOMS.items()),
        ("files of the package", len(house.modules), FILES, ()),
        ("detection: numbers named at the top of modules", numbers, THRESHOLDS, ()),
        ("detection: kernels", len(kernels), KERNELS, ()),
        ("detection: functions that may answer None", sum(len(one.choosers()) for one in detection), CHOOSERS, ()),
        ("small modules with one importer beside them", len(small), 10, small),
        ("class names that mean several things", len(homonyms), 8, homonyms),
        ("docstrings without a subject", len(subjectless), 0, subjectless),
        ("circles of files", len(of_files), 0, map(" ".join, of_files)),
        ("circles of packages", len(of_packages), 0, map(" ".join, of_packages)),
        ("cited pages that are not there", len(missing), 0, missing),
        ("kB of pages", pages // 1000, 372, ()),
        ("bytes of the README", len((house.checkout / "README.md").read_bytes()), 10_000, ()),
    ]


def main() -> None:
    """Print the figures; exit code 1 where one is above its bound."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--list", action="store_true", help="also print the places behind each figure")
    shown = parser.parse_args()
    sys.stdout.write(f"{'the house':<56}{'now':>8}{'at most':>10}\n")
    exceeded = False
    for what, figure, bound, places in figures(House(Path(__file__).resolve().parents[1])):
        exceeded |= figure > bound
        sys.stdout.write(f"{what:<56}{figure:>8,}{bound:>10,}{'  EXCEEDED' * (figure > bound)}\n")
        for place in places if shown.list else ():
            sys.stdout.write(f"    {place}\n")
    sys.exit(exceeded)


if __name__ == "__main__":
    main()
