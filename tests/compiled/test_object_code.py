"""Object code: compiled, and kept on disk for later processes."""

from __future__ import annotations

import ctypes
import math
import os
import stat
from pathlib import Path

import pytest

from cep_pipeline.compiled import object_code

ANSWER = "define i64 @answer(i64 %x) {\n  %y = add i64 %x, 41\n  ret i64 %y\n}\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder of the test's own."""
    monkeypatch.setenv("CEP_CACHE_DIR", str(tmp_path))
    return tmp_path / "cep_pipeline" / "kernels"


def library() -> object_code.Library:
    """The code of `ANSWER`: kept from before, or compiled now."""
    return object_code.load(object_code.kept(object_code.code_key(ANSWER), lambda: object_code.compile_ir(ANSWER)))


def no_compiler(_ir: str) -> bytes:
    raise AssertionError("nothing should be compiled here")


def test_code_is_compiled_once_and_kept_for_the_user_alone(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert library().function("answer", 1)(1) == 42
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {file.name for file in folder.iterdir()} == {f"{object_code.code_key(ANSWER)}.o"}
    assert {stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()} == {0o600}
    monkeypatch.setattr(object_code, "compile_ir", no_compiler)
    assert library().function("answer", 1)(2) == 43


def test_without_a_usable_folder_code_stays_in_memory(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("no folder")
    monkeypatch.setenv("CEP_CACHE_DIR", str(blocked))
    assert object_code.cache_folder() is None
    assert library().function("answer", 1)(1) == 42


def test_no_folder_of_another_user_is_used(folder: Path) -> None:
    if os.getuid() != 0:
        pytest.skip("only root can give folders away")
    folder.mkdir(parents=True, mode=0o700)
    os.chown(folder, 65_534, 65_534)
    assert object_code.cache_folder() is None
    assert library().function("answer", 1)(1) == 42
    assert [*folder.iterdir()] == []


@pytest.mark.parametrize("variables", [{"HOME": "/proc/none"}, {"CEP_CACHE_DIR": "/proc/none", "HOME": "/proc/none"}])
def test_a_home_that_cannot_be_written_keeps_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, variables: dict[str, str]
) -> None:
    monkeypatch.delenv("CEP_CACHE_DIR")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert object_code.cache_folder() is None
    assert library().function("answer", 1)(1) == 42
    assert caplog.messages == []


def test_the_folder_of_caches_is_the_home_s_or_the_configured_one(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert object_code.cache_folder() == folder
    monkeypatch.delenv("CEP_CACHE_DIR")
    assert object_code.cache_folder() == tmp_path / "xdg" / "cep_pipeline" / "kernels"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert object_code.cache_folder() == tmp_path / "home" / ".cache" / "cep_pipeline" / "kernels"


def test_numba_keeps_nothing_on_disk() -> None:
    """Its own cache is made of pickles, which run what they are told to, in folders that it does not check."""
    package = Path(object_code.__file__).parents[1]
    assert [file for file in package.rglob("*.py") if "cache=True" in file.read_text(encoding="utf-8")] == []


def test_the_key_tells_code_and_target_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = {object_code.code_key(ANSWER), object_code.code_key(ANSWER + "\n")}
    triple, _, features = object_code.host_target()
    monkeypatch.setattr(object_code, "host_target", lambda: (triple, "another-cpu", features))
    assert len(keys | {object_code.code_key(ANSWER)}) == 3


def test_an_unknown_function_is_an_error() -> None:
    with pytest.raises(KeyError):
        library().function("question", 1)


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
