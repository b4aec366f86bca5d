"""Names that are imported when they are first used, so that nobody waits for what is not asked for; the version."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

VERSION = "0.1.0"
"""The version of the project, which `pyproject.toml` has too."""


def lazy_names(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` of a package that lists its names in a block `if TYPE_CHECKING:`.

    The block has lines `from MODULE import NAME as NAME`. Type checkers see them as ordinary imports, and here they
    say where a name is found. A name must not be that of a module of the package, which would hide it.
    """
    module = sys.modules[package]
    homes: dict[str, str] = {}

    def names() -> dict[str, str]:
        if not homes:
            import ast  # here and not above: a program that asks for no name does not wait for it
            from linecache import getlines

            source = "".join(getlines(str(module.__file__), vars(module)))
            for statement in ast.walk(ast.parse(source)):
                if isinstance(statement, ast.ImportFrom) and statement.module:
                    homes.update({one.name: statement.module for one in statement.names if one.asname == one.name})
        return homes

    def find(name: str) -> Any:
        if name == "__all__":
            return listed()
        if name.startswith("__") or name not in names():
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        found = getattr(import_module(names()[name]), name)
        setattr(module, name, found)
        return found

    def listed() -> list[str]:
        return sorted([*names(), *(["__version__"] if hasattr(module, "__version__") else [])])

    return find, listed
