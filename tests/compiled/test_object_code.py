"""Object code: compiled, shipped, kept on disk, and never trusted blindly."""

from __future__ import annotations

import ctypes
import math
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cep_pipeline.compiled import object_code
from cep_pipeline.detection.fused.clause import run_clause, shapes_of
from cep_pipeline.detection.fused.generator import generate
from cep_pipeline.detection.fused.kernel import compile_shapes
from tests.detection.fused.running import pattern_of, prepare
from tests.streams import events_table

ANSWER = "define i64 @answer(i64 %x) {\n  %y = add i64 %x, 41\n  ret i64 %y\n}\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A cache folder of the test's own, and no library loaded before."""
    monkeypatch.setenv("CEP_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(object_code, "_adopted", {})
    object_code.library.cache_clear()
    yield tmp_path / "cep_pipeline" / "kernels"
    object_code.library.cache_clear()


def no_compiler(_ir: str) -> bytes:
    raise AssertionError("nothing should be compiled here")


def test_code_is_compiled_once_and_kept_for_the_user_alone(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert object_code.library(ANSWER).function("answer", 1)(1) == 42
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert [file.name for file in folder.iterdir()] == [f"{object_code.code_key(ANSWER)}.o"]
    object_code.library.cache_clear()
    monkeypatch.setattr(object_code, "compile_ir", no_compiler)
    assert object_code.library(ANSWER).function("answer", 1)(2) == 43


@pytest.mark.parametrize("damage", [lambda data: data[:100], lambda data: data[:-1] + b"\x00\x01", lambda _: b""])
def test_a_damaged_file_is_compiled_anew(folder: Path, damage: Any) -> None:
    object_code.library(ANSWER)
    (file,) = folder.iterdir()
    whole = file.read_bytes()
    file.write_bytes(damage(whole))
    object_code.library.cache_clear()
    assert object_code.library(ANSWER).function("answer", 1)(1) == 42
    assert len(file.read_bytes()) == len(whole)


def test_without_a_usable_folder_code_stays_in_memory(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("no folder")
    monkeypatch.setenv("CEP_CACHE_DIR", str(blocked))
    assert object_code.cache_folder() is None
    assert object_code.library(ANSWER).function("answer", 1)(1) == 42


def test_a_folder_that_others_may_write_is_closed_to_them(folder: Path) -> None:
    folder.mkdir(parents=True)
    folder.chmod(0o777)
    assert object_code.cache_folder() == folder
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_the_folder_does_not_grow_for_ever(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_code, "MOST_FILES", 4)
    for place in range(5):
        object_code.write_cached(f"key{place}", b"code")
        os.utime(folder / f"key{place}.o", (place, place))
    assert sorted(file.stem for file in folder.iterdir()) == ["key2", "key3", "key4"]
    assert object_code.read_cached("key4") == b"code"


def test_the_key_tells_code_and_target_apart() -> None:
    host = object_code.host_target()
    other = object_code.Target(host.package, host.llvm, host.triple, "another-cpu", host.features)
    assert (
        len({object_code.code_key(ANSWER), object_code.code_key(ANSWER + "\n"), object_code.code_key(ANSWER, other)})
        == 3
    )


def test_an_unknown_function_is_an_error() -> None:
    with pytest.raises(KeyError):
        object_code.library(ANSWER).function("question", 1)


@pytest.mark.parametrize(
    "text",
    [
        "PATTERN SEQ(A a, B b, C c) WHERE a.x < b.x AND b.s = c.s WITHIN 5 us",
        "PATTERN AND(A a, B b, A c) WHERE a.x + b.x > c.y WITHIN 5 us TIES ANY",
        "PATTERN SEQ(A a, B b, C c) WHERE [id] AND a.x % b.x = 1 WITHIN 5 us",
    ],
)
def test_a_task_runs_the_code_that_the_driver_compiled(
    folder: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    rows = [
        {"timestamp": n, "kind": "ABC"[n % 3], "x": n % 5, "y": n / 2, "s": "pq"[n % 2], "id": 1} for n in range(40)
    ]
    pattern = pattern_of(text)
    (clause,) = pattern.clauses
    events = prepare(pattern, events_table(rows))
    list(run_clause(pattern, clause, "abc", events))  # the routines of the preparation, too
    codes = compile_shapes(shapes_of(pattern, clause, "abc"))
    object_code.library.cache_clear()
    generate.cache_clear()
    monkeypatch.setattr(object_code, "read_cached", lambda key: None)
    monkeypatch.setattr(object_code, "compile_ir", no_compiler)
    object_code.adopt(codes)
    for owned in ((None, None), ((10, 0), None)):
        assert sum(len(block) for block in run_clause(pattern, clause, "abc", events, owned)) > 0


def test_a_pattern_of_one_event_needs_no_code() -> None:
    pattern = pattern_of("PATTERN A a WITHIN 1 second")
    assert shapes_of(pattern, pattern.clauses[0], "a") == frozenset()


def test_loaded_code_finds_functions_of_the_c_library() -> None:
    ir = """
    declare double @log(double)
    define double @natural(double %x) {
      %result = call double @log(double %x)
      ret double %result
    }
    """
    loaded = object_code.load(object_code.compile_ir(ir))
    function = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(loaded.engine.get_function_address("natural"))
    assert function(math.e) == 1.0
