"""Object code: compiled, shipped, kept on disk, and never trusted blindly."""

from __future__ import annotations

import ctypes
import math
import os
import stat
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cep_pipeline.compiled import cache, object_code

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
    assert {file.name for file in folder.iterdir()} == {f"{object_code.code_key(ANSWER)}.sum.o"}
    assert {stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()} == {0o600}
    monkeypatch.setattr(object_code, "compile_ir", no_compiler)
    assert library().function("answer", 1)(2) == 43


@pytest.mark.parametrize("damage", [lambda data: data[:100], lambda data: data[:-1] + b"\x00\x01", lambda _: b""])
def test_a_damaged_file_is_compiled_anew(folder: Path, damage: Any) -> None:
    library()
    (file,) = folder.glob("*.o")
    whole = file.read_bytes()
    file.write_bytes(damage(whole))
    assert library().function("answer", 1)(1) == 42
    assert len(file.read_bytes()) == len(whole)


def test_without_a_usable_folder_code_stays_in_memory(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("no folder")
    monkeypatch.setenv("CEP_CACHE_DIR", str(blocked))
    assert cache.cache_folder() is None
    assert library().function("answer", 1)(1) == 42


@pytest.fixture
def planted() -> bytes:
    """Object code that another user would like to see run: its answer is another one."""
    return object_code.compile_ir(ANSWER.replace("41", "666"))


def test_only_what_is_kept_under_its_own_key_is_run(folder: Path, planted: bytes) -> None:
    key = object_code.code_key(ANSWER)
    cache.write_cached("another", planted)
    (folder / "another.sum.o").rename(folder / f"{key}.sum.o")
    assert library().function("answer", 1)(1) == 42
    cache.write_cached(key, planted)
    assert library().function("answer", 1)(1) == 667, "the other case would have run it"


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o722])
def test_a_folder_that_others_could_write_is_closed_to_them(folder: Path, mode: int) -> None:
    folder.mkdir(parents=True)
    folder.chmod(mode)
    assert cache.cache_folder() == folder
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def belong_to_another(path: Path, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give a file to another user, or let it look so, which takes no rights."""
    if how == "chown":
        if os.getuid() != 0:
            pytest.skip("only root can give files away")
        os.chown(path, 65_534, 65_534, follow_symlinks=False)
        return
    inode = path.lstat().st_ino

    def seen_by(look: Any) -> Any:
        def seen(*arguments: Any, **more: Any) -> Any:
            found = look(*arguments, **more)
            if found.st_ino != inode:
                return found
            values = {name: getattr(found, name) for name in dir(found) if name.startswith("st_")}
            return SimpleNamespace(**{**values, "st_uid": os.getuid() + 1})

        return seen

    monkeypatch.setattr(cache.os, "fstat", seen_by(os.fstat))
    monkeypatch.setattr(Path, "lstat", seen_by(Path.lstat))


@pytest.mark.parametrize("how", ["chown", "simulated"])
def test_no_folder_of_another_user_is_used(folder: Path, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    folder.mkdir(parents=True, mode=0o700)
    belong_to_another(folder, how, monkeypatch)
    assert cache.cache_folder() is None
    assert library().function("answer", 1)(1) == 42
    assert [*folder.iterdir()] == []


@pytest.mark.parametrize("how", ["chown", "simulated"])
def test_no_file_of_another_user_is_used(
    folder: Path, planted: bytes, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    key = object_code.code_key(ANSWER)
    cache.write_cached(key, planted)
    assert cache.read_cached(key) == planted, "all that is wrong is whose the file is"
    file = folder / f"{key}.sum.o"
    belong_to_another(file, how, monkeypatch)
    assert cache.read_cached(key) is None
    assert library().function("answer", 1)(1) == 42
    if how == "chown":  # a file that only looks so may have its number again when it is made anew
        assert file.stat().st_uid == os.getuid()


def replace_by_link(path: Path, outside: Path) -> None:
    path.replace(outside / path.name)
    path.symlink_to(outside / path.name)


def replace_by_hard_link(path: Path, outside: Path) -> None:
    os.link(path, outside / path.name)


def replace_by_pipe(path: Path, outside: Path) -> None:
    path.replace(outside / path.name)
    os.mkfifo(path)


def open_to_others(path: Path, outside: Path) -> None:
    path.chmod(0o666)


@pytest.mark.parametrize("replace", [replace_by_link, replace_by_hard_link, replace_by_pipe, open_to_others])
def test_only_plain_files_of_the_user_alone_are_read(folder: Path, tmp_path: Path, replace: Any) -> None:
    library()
    file = folder / f"{object_code.code_key(ANSWER)}.sum.o"
    before = file.read_bytes()
    outside = tmp_path / "outside"
    outside.mkdir()
    replace(file, outside)
    assert cache.read_cached(object_code.code_key(ANSWER)) is None
    assert library().function("answer", 1)(1) == 42
    assert not file.is_symlink() and stat.S_IMODE(file.stat().st_mode) == 0o600
    assert file.read_bytes() == before


def test_no_link_stands_for_the_folder(folder: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    folder.parent.mkdir()
    folder.symlink_to(elsewhere)
    assert cache.cache_folder() is None
    assert library().function("answer", 1)(1) == 42
    assert [*elsewhere.iterdir()] == []


@pytest.mark.parametrize("variables", [{"HOME": "/proc/none"}, {"CEP_CACHE_DIR": "/proc/none", "HOME": "/proc/none"}])
def test_a_home_that_cannot_be_written_keeps_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, variables: dict[str, str]
) -> None:
    monkeypatch.delenv("CEP_CACHE_DIR")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert cache.cache_folder() is None
    assert library().function("answer", 1)(1) == 42
    assert caplog.messages == []


def test_the_folder_of_caches_is_the_home_s_or_the_configured_one(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache.cache_folder() == folder
    monkeypatch.delenv("CEP_CACHE_DIR")
    assert cache.cache_folder() == tmp_path / "xdg" / "cep_pipeline" / "kernels"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache.cache_folder() == tmp_path / "home" / ".cache" / "cep_pipeline" / "kernels"


def test_numba_keeps_nothing_on_disk() -> None:
    """Its own cache is made of pickles, which run what they are told to, in folders that it does not check."""
    package = Path(object_code.__file__).parents[1]
    assert [file for file in package.rglob("*.py") if "cache=True" in file.read_text(encoding="utf-8")] == []


def test_the_folder_does_not_grow_for_ever(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "MOST_FILES", 4)
    for place in range(5):
        cache.write_cached(f"key{place}", b"code")
        os.utime(folder / f"key{place}.sum.o", (place, place))
    assert sorted(file.name for file in folder.glob("*.o")) == ["key2.sum.o", "key3.sum.o", "key4.sum.o"]
    assert cache.read_cached("key4") == b"code"


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
