"""Object code: compiled, shipped, kept on disk, and never trusted blindly."""

from __future__ import annotations

import ctypes
import hashlib
import hmac
import math
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cep_pipeline.compiled import object_code, own_folder

ANSWER = "define i64 @answer(i64 %x) {\n  %y = add i64 %x, 41\n  ret i64 %y\n}\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A cache folder of the test's own, and no library loaded before."""
    monkeypatch.setenv("CEP_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(own_folder, "_checked", {})
    monkeypatch.setattr(own_folder, "_told", set())
    object_code.library.cache_clear()
    yield tmp_path / "cep_pipeline" / "kernels"
    object_code.library.cache_clear()


def no_compiler(_ir: str) -> bytes:
    raise AssertionError("nothing should be compiled here")


def test_code_is_compiled_once_and_kept_for_the_user_alone(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert object_code.library(ANSWER).function("answer", 1)(1) == 42
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {file.name for file in folder.iterdir()} == {f"{object_code.code_key(ANSWER)}.mac.o", "key"}
    assert {stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()} == {0o600}
    object_code.library.cache_clear()
    monkeypatch.setattr(object_code, "compile_ir", no_compiler)
    assert object_code.library(ANSWER).function("answer", 1)(2) == 43


@pytest.mark.parametrize("damage", [lambda data: data[:100], lambda data: data[:-1] + b"\x00\x01", lambda _: b""])
def test_a_damaged_file_is_compiled_anew(folder: Path, damage: Any) -> None:
    object_code.library(ANSWER)
    (file,) = folder.glob("*.o")
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


@pytest.fixture
def planted() -> bytes:
    """Object code that another user would like to see run: its answer is another one."""
    return object_code.compile_ir(ANSWER.replace("41", "666"))


def seal(secret: bytes, key: str, code: bytes) -> bytes:
    return hmac.digest(secret, key.encode() + b"\0" + code, "sha256") + code


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o722])
@pytest.mark.parametrize("above", [False, True])
def test_a_folder_that_others_could_write_is_emptied(
    folder: Path, planted: bytes, caplog: pytest.LogCaptureFixture, mode: int, above: bool
) -> None:
    """A secret, code, links and folders that lie there are all gone, and what a link leads to is not."""
    key = object_code.code_key(ANSWER)
    folder.mkdir(parents=True)
    (folder / "key").write_bytes(bytes(32))
    (folder / "key").chmod(0o600)
    for name in (f"{key}.o", f"{key}.mac.o"):
        (folder / name).write_bytes(seal(bytes(32), key, planted))
    outside = folder.parents[1] / "outside"
    outside.mkdir()
    (outside / "file").touch()
    (folder / "linked").symlink_to(outside)
    (folder / "inner").mkdir()
    (folder / "inner" / "linked").symlink_to(outside)
    (folder.parent if above else folder).chmod(mode)
    for _ in range(3):
        assert object_code.library(ANSWER).function("answer", 1)(1) == 42
        object_code.library.cache_clear()
    assert {file.name for file in folder.iterdir()} == {f"{key}.mac.o", "key"}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert not stat.S_IMODE(folder.parent.stat().st_mode) & 0o022
    assert (outside / "file").exists()
    (warning,) = caplog.messages
    assert "is emptied: others could write in" in warning


@pytest.mark.parametrize("mode", [0o777, 0o775])
def test_no_folder_is_used_that_others_can_replace(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, mode: int
) -> None:
    """With the sticky bit nobody can; the user's own group has nobody else in it."""
    shared = tmp_path / "shared"
    shared.mkdir(mode=0o700)
    monkeypatch.setenv("CEP_CACHE_DIR", str(shared / "mine"))
    monkeypatch.setattr(own_folder, "_has_nobody_else", lambda _group: False)
    assert object_code.cache_folder() == shared / "mine" / "cep_pipeline" / "kernels"
    monkeypatch.setattr(own_folder, "_checked", {})
    shared.chmod(mode)
    for _ in range(2):
        assert object_code.cache_folder() is None
        assert object_code.library(ANSWER).function("answer", 1)(1) == 42
        object_code.library.cache_clear()
    (warning,) = caplog.messages
    assert f"others may write in {shared}" in warning and "CEP_CACHE_DIR" in warning
    shared.chmod(mode | stat.S_ISVTX)
    assert object_code.cache_folder() is not None
    monkeypatch.setattr(own_folder, "_checked", {})
    monkeypatch.setattr(own_folder, "_has_nobody_else", lambda _group: True)
    shared.chmod(mode)
    assert (object_code.cache_folder() is not None) is (mode == 0o775)


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

    for name in ("lstat", "fstat"):
        monkeypatch.setattr(own_folder.os, name, seen_by(getattr(os, name)))


@pytest.mark.parametrize("how", ["chown", "simulated"])
@pytest.mark.parametrize("depth", [0, 1, 2])
def test_no_folder_of_another_user_is_used(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, depth: int, how: str
) -> None:
    folder.mkdir(parents=True, mode=0o700)
    (folder / "file").touch()
    belong_to_another((folder, *folder.parents)[depth], how, monkeypatch)
    assert object_code.cache_folder() is None
    assert "is not kept in" in caplog.text
    assert (folder / "file").exists(), "it is not ours to empty"


@pytest.mark.parametrize("how", ["chown", "simulated"])
@pytest.mark.parametrize("what", ["key", "code"])
def test_no_file_of_another_user_is_used(
    folder: Path, planted: bytes, monkeypatch: pytest.MonkeyPatch, what: str, how: str
) -> None:
    object_code.library(ANSWER)
    object_code.library.cache_clear()
    key = object_code.code_key(ANSWER)
    file = folder / f"{key}.mac.o"
    secret = bytes(32) if what == "key" else (folder / "key").read_bytes()
    (folder / "key").write_bytes(secret)
    file.write_bytes(seal(secret, key, planted))
    assert object_code.read_cached(key) == planted, "all that is wrong is whose the file is"
    foreign = folder / "key" if what == "key" else file
    belong_to_another(foreign, how, monkeypatch)
    assert object_code.read_cached(key) is None
    assert object_code.library(ANSWER).function("answer", 1)(1) == 42
    if how == "chown":  # a file that only looks so may have its number again when it is made anew
        assert foreign.stat().st_uid == os.getuid()


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
@pytest.mark.parametrize("what", ["key", "code"])
def test_only_plain_files_of_the_user_alone_are_read(folder: Path, tmp_path: Path, replace: Any, what: str) -> None:
    object_code.library(ANSWER)
    object_code.library.cache_clear()
    file = folder / f"{object_code.code_key(ANSWER)}.mac.o"
    before = file.read_bytes()
    path = folder / "key" if what == "key" else file
    outside = tmp_path / "outside"
    outside.mkdir()
    replace(path, outside)
    assert object_code.read_cached(object_code.code_key(ANSWER)) is None
    assert object_code.library(ANSWER).function("answer", 1)(1) == 42
    assert not path.is_symlink() and stat.S_IMODE(path.stat().st_mode) == 0o600
    assert (file.read_bytes() == before) is (what == "code"), "another secret, another authentication code"


@pytest.mark.parametrize("level", [0, 1])
def test_no_link_stands_for_the_folder(folder: Path, tmp_path: Path, level: int) -> None:
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "kernels").mkdir(parents=True, mode=0o700)
    place = (folder, folder.parent)[level]
    place.parent.mkdir(exist_ok=True, mode=0o700)
    place.symlink_to(elsewhere)
    assert object_code.cache_folder() is None
    assert object_code.library(ANSWER).function("answer", 1)(1) == 42
    assert [*elsewhere.rglob("*.o")] == []


def test_code_of_another_key_or_without_the_secret_is_deleted_and_compiled_anew(folder: Path, planted: bytes) -> None:
    object_code.library(ANSWER)
    key = object_code.code_key(ANSWER)
    file, secret = folder / f"{key}.mac.o", (folder / "key").read_bytes()
    own = file.read_bytes()
    assert own == seal(secret, key, own[32:])
    for wrong in (
        seal(secret, "another key", planted),
        seal(bytes(32), key, planted),
        hashlib.sha256(planted).digest() + planted,
        planted,
        own[:-1] + bytes([own[-1] ^ 1]),
        bytes([own[0] ^ 1]) + own[1:],
        b"",
    ):
        file.write_bytes(wrong)
        assert object_code.read_cached(key) is None
        assert not file.exists()
        object_code.library.cache_clear()
        assert object_code.library(ANSWER).function("answer", 1)(1) == 42
        assert file.read_bytes() == own
    file.write_bytes(seal(secret, key, planted))
    object_code.library.cache_clear()
    assert object_code.library(ANSWER).function("answer", 1)(1) == 667, "the other cases would have run it"


def test_code_of_an_earlier_version_is_not_run(folder: Path, planted: bytes) -> None:
    key = object_code.code_key(ANSWER)
    assert object_code.cache_folder() == folder
    (folder / f"{key}.o").write_bytes(hashlib.sha256(planted).digest() + planted)
    assert object_code.read_cached(key) is None
    assert object_code.library(ANSWER).function("answer", 1)(1) == 42


PROCESS = """
import sys, time
from pathlib import Path
import cep_pipeline.compiled.object_code as object_code
start, name = Path(sys.argv[1]), sys.argv[2]
print("ready", flush=True)
while not start.exists():
    time.sleep(0.001)
object_code.write_cached(name, name.encode() * 1000)
print(object_code.read_cached(name) == name.encode() * 1000, flush=True)
"""


def test_processes_that_begin_at_once_agree_on_the_secret(folder: Path, tmp_path: Path) -> None:
    """What each of them keeps, all others can read."""
    names = [f"of{number}" for number in range(6)]
    start = tmp_path / "start"
    running = [
        subprocess.Popen([sys.executable, "-c", PROCESS, start, name], stdout=subprocess.PIPE, text=True)
        for name in names
    ]
    for process in running:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    start.touch()
    assert [process.communicate(timeout=60)[0] for process in running] == ["True\n"] * len(names)
    assert [object_code.read_cached(name) for name in names] == [name.encode() * 1000 for name in names]
    assert {file.name for file in folder.iterdir()} == {"key", *(f"{name}.mac.o" for name in names)}


@pytest.mark.parametrize("variables", [{"HOME": "/proc/none"}, {"CEP_CACHE_DIR": "/proc/none", "HOME": "/proc/none"}])
def test_a_home_that_cannot_be_written_keeps_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, variables: dict[str, str]
) -> None:
    monkeypatch.delenv("CEP_CACHE_DIR")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert object_code.cache_folder() is None
    assert object_code.library(ANSWER).function("answer", 1)(1) == 42
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
    old = os.umask(0)
    try:
        assert object_code.cache_folder() == tmp_path / "home" / ".cache" / "cep_pipeline" / "kernels"
    finally:
        os.umask(old)
    made = [tmp_path / "home", tmp_path / "home" / ".cache", tmp_path / "home" / ".cache" / "cep_pipeline"]
    assert {stat.S_IMODE(one.stat().st_mode) for one in made} == {0o700}, "whatever the umask says"


def test_numba_keeps_nothing_on_disk() -> None:
    """Its own cache is made of pickles, which run what they are told to, in folders that it does not check."""
    package = Path(object_code.__file__).parents[1]
    assert [file for file in package.rglob("*.py") if "cache=True" in file.read_text(encoding="utf-8")] == []


def test_the_folder_does_not_grow_for_ever(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_code, "MOST_FILES", 4)
    for place in range(5):
        object_code.write_cached(f"key{place}", b"code")
        os.utime(folder / f"key{place}.mac.o", (place, place))
    assert sorted(file.name for file in folder.glob("*.o")) == ["key2.mac.o", "key3.mac.o", "key4.mac.o"]
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
