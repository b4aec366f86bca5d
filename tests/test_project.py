"""The project itself: what the lock, the Makefile and the layers promise."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from scripts.house import House, Module, code_lines

CHECKOUT = Path(__file__).resolve().parents[1]
TARGETS = ["run", "test", "test-all", "check", "docs", "bench", "airflow"]


def locked() -> dict[str, tuple[str, str]]:
    """Name -> (version, the lines of its entry) of `requirements.lock`."""
    text = (CHECKOUT / "requirements.lock").read_text()
    entries = re.findall(r"^([a-z0-9][\w.-]*)(?:\[[^\]]*\])?==(\S+)((?:.*\\\n)(?:    --hash=.*\n)*)", text, re.M)
    return {name: (version, rest) for name, version, rest in entries}


def test_the_lock_is_hashed_and_names_no_host() -> None:
    text = (CHECKOUT / "requirements.lock").read_text()
    assert "://" not in text and "index-url" not in text and "find-links" not in text
    entries = locked()
    assert len(entries) == len(re.findall(r"^[a-z0-9].*==", text, re.M)) > 100
    for name, (_, lines) in entries.items():
        assert "--hash=sha256:" in lines, name


def test_the_lock_holds_every_dependency_of_the_project() -> None:
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
    needed = [*project["dependencies"], *(d for extra in project["optional-dependencies"].values() for d in extra)]
    names = {re.split(r"[\[<>=~! ]", dependency, maxsplit=1)[0].lower() for dependency in needed}
    assert names - {"cep-pipeline"} <= set(locked())


def test_spark_and_its_client_are_of_one_version() -> None:
    # Their files lie in the same places: with unequal versions the one that was installed last wins.
    assert locked()["pyspark"][0] == locked()["pyspark-client"][0]


def make(*arguments: str, folder: Path = CHECKOUT) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["make", *arguments], cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("target", TARGETS)
def test_each_target_is_listed_with_what_it_does(target: str) -> None:
    assert re.search(rf"^  make {target} +\S.+", make("help").stdout, re.M)


def test_all_cases_are_tried_by_one_target() -> None:
    commands = {target: make("--dry-run", target).stdout for target in ("test", "test-all")}
    assert [commands["test-all"].count(part) for part in ("CEP_TEST_ALL=1", "-m pytest", "-m long")] == [2, 2, 1]
    assert [commands["test"].count(part) for part in ("CEP_TEST_ALL=1", "-m pytest")] == [0, 1]


def test_another_python_is_refused_with_what_to_do(tmp_path: Path) -> None:
    shutil.copy(CHECKOUT / "Makefile", tmp_path)
    (tmp_path / "requirements.lock").touch()
    (tmp_path / "pyproject.toml").touch()
    done = make("setup", "PYTHON=/bin/false", folder=tmp_path)
    assert done.returncode == 2
    assert "Python 3.11 is needed, and /bin/false is not it" in done.stderr
    assert "make PYTHON=" in done.stderr
    assert not (tmp_path / ".venv").exists()


def imports(folder: str) -> Iterator[tuple[Path, str]]:
    """(file, imported module) of every import in a folder, those inside functions too."""
    for file in sorted((CHECKOUT / folder).rglob("*.py")):
        yield from ((file, module) for module in imported(file))


@cache
def imported(file: Path) -> list[str]:
    """The modules that a file imports."""
    modules: list[str] = []
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            modules.extend(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            modules.append(node.module)
    return modules


def test_only_dags_and_plugins_know_airflow() -> None:
    assert [(str(f), m) for f, m in imports("cep_pipeline") if m.split(".")[0] == "airflow"] == []


def test_only_the_spark_layer_knows_spark() -> None:
    spark = CHECKOUT / "cep_pipeline" / "spark"
    knowing = {file for file, module in imports("cep_pipeline") if module.split(".")[0] == "pyspark"}
    unexpected = {
        str(file.relative_to(CHECKOUT))
        for file in knowing
        if not file.is_relative_to(spark) and not _only_for_annotations(file)
    }
    assert unexpected == set()


def _only_for_annotations(file: Path) -> bool:
    """Whether every import of pyspark is under TYPE_CHECKING: it is not loaded when the module runs."""
    tree = ast.parse(file.read_text())
    hidden = [
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for inner in ast.walk(node)
    ]
    return all(
        node in hidden
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("pyspark")
    )


@pytest.fixture(scope="module")
def house() -> House:
    return House(CHECKOUT)


def test_packages_import_only_those_above_them_in_the_page_of_the_architecture(house: House) -> None:
    page = (CHECKOUT / "docs" / "architecture.md").read_text()
    rows = re.findall(r"^\| (`.*?) \| .* \|$", page.partition("| package | is |")[2].partition("\n\n")[0], re.M)
    level = {name: number for number, row in enumerate(rows) for name in re.findall(r"`(\w+)`", row)}
    imports = house.package_imports()
    packages = {name.split(".")[1] for name in house.modules if name.count(".")}
    assert packages == set(level)
    assert [
        f"{importer} imports {imported}"
        for importer, names in imports.items()
        for imported in names
        if level[imported.split(".")[1]] > level[importer.split(".")[1]]
    ] == []


CHOOSING = re.compile(
    r"^_?(FEW|FEWEST|SAMPLED?|WORTH|LONG_LISTS|SAVED|CLEARLY|UNEVEN)(_|\b)|_(NS|S)\b|(?<!MAY)_SHARE\b"
)
"""Names of numbers by which one way is taken in place of another: counts that are few, shares, and times."""


def test_thresholds_of_a_choice_stand_in_one_file(house: House) -> None:
    named = {
        (name.rpartition(".")[2], number)
        for name, module in house.modules.items()
        if ".detection." in name
        for line in module.thresholds()
        for number in line.partition(" = ")[0].replace("(", "").split(", ")
    }
    assert len(house.modules["cep_pipeline.detection.costs"].thresholds()) <= 30
    assert {(file, number) for file, number in named if CHOOSING.search(number) and file != "costs"} <= {
        ("limits", "LOOK_S"),  # seconds between two looks at a limit
        ("negation", "FEW_NUMBERS"),
        ("partial", "_FEW"),
    }


def test_sizes_are_those_of_the_code_alone() -> None:
    text = (
        '"""What it is."""\nMOST, LEAST = 1 << 4, (-2, 3)\nFEW = 7  # few\n\n\ndef of(a: int) -> int | None:\n    ...\n'
    )
    module = Module("of", CHECKOUT / "of.py", text)
    assert (code_lines(text), len(module.thresholds()), module.choosers()) == (4, 2, ["of"])
