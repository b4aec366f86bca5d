"""Compiled code that is part of the package: it is that of the sources, and nobody needs Numba to run it."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import zlib
from ctypes import CFUNCTYPE, c_int64
from pathlib import Path

import pytest

from cep_pipeline.compiled import native, object_code
from cep_pipeline.compiled.native import NativeKernel
from cep_pipeline.errors import CepError

CHECKOUT = Path(__file__).parents[2]
SCRIPT = CHECKOUT / "scripts" / "compiled_kernels.py"
ANSWER = """
define i64 @answer(i64 %a, i64 %b) {
  %sum = add i64 %a, %b
  ret i64 %sum
}
"""
KERNEL = '''"""A kernel."""


def total(count, values):
    """The sum."""
    found = 0
    for at in range(count):
        found += values[at]
    return found
'''


def answer(code: bytes) -> int:
    function = object_code.load(code).function("answer", 2)
    assert isinstance(function, CFUNCTYPE(c_int64, c_int64, c_int64))
    return int(function(40, 2))


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of a module `summing` with a kernel."""
    file = tmp_path / "summing.py"
    file.write_text(KERNEL)
    monkeypatch.syspath_prepend(tmp_path)
    importlib.invalidate_caches()
    return file


def source() -> str:
    return native.source("summing", (), "total", ("int64", "int64*"))


def test_the_shipped_code_is_that_of_the_sources() -> None:
    done = subprocess.run([sys.executable, SCRIPT, "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr  # it names the command that makes the code anew


def test_every_kernel_runs_without_numba_and_without_a_place_to_keep_code(tmp_path: Path) -> None:
    no_folder = tmp_path / "file"
    no_folder.write_text("")
    code = """
import ctypes, sys
sys.path.insert(0, sys.argv[1])
sys.modules["numba"] = None
from compiled_kernels import kernels
from cep_pipeline.compiled import object_code
object_code._compiled = lambda *_: 1 / 0
found = kernels()
for kernel in found:
    kernel.compile()
print(len(found), len({ctypes.cast(kernel.function, ctypes.c_void_p).value for kernel in found}))
"""
    environment = {**os.environ, "CEP_CACHE_DIR": str(no_folder)}
    command = [sys.executable, "-c", code, str(SCRIPT.parent)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    number, loaded = map(int, done.stdout.split())
    assert number == loaded == len(list(native.FOLDER.glob("*.kernel"))) > 20


@pytest.mark.parametrize("fits", [True, False])
def test_code_comes_back_from_its_file_for_any_processor(
    module: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fits: bool
) -> None:
    monkeypatch.setenv("CEP_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(native, "FOLDER", tmp_path)
    monkeypatch.setattr(native, "runs_level", lambda: fits)
    file = native.file_of("cep_pipeline.summing", "total")
    file.write_bytes(native.pack(ANSWER, source(), "somebody").to_bytes())
    code = native.read_shipped("cep_pipeline.summing", "total")
    assert code and code.text == source() and code.made_by == "somebody"
    assert answer(code.object_code()) == 42
    monkeypatch.setattr(object_code, "_compiled", lambda *_: pytest.fail("it is kept"))
    assert answer(code.object_code()) == 42
    assert len(list(tmp_path.rglob("*.o"))) == (not fits)


def test_damaged_code_is_not_run(
    module: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(native, "FOLDER", tmp_path)
    whole = native.pack(ANSWER, source(), "somebody").to_bytes()
    file = native.file_of("cep_pipeline.summing", "total")
    for fits in (True, False):
        monkeypatch.setattr(native, "runs_level", lambda fits=fits: fits)
        place = whole.index(b"\n") + 40 if fits else len(whole) - 20
        file.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        code = native.read_shipped("cep_pipeline.summing", "total")
        assert code
        with pytest.raises(zlib.error):
            code.object_code()
    for cut in (0, 10):
        file.write_bytes(whole[:cut])
        assert native.read_shipped("cep_pipeline.summing", "total") is None
    assert "is damaged: install the package anew" in caplog.text
    assert native.read_shipped("cep_pipeline.summing", "no_such_kernel") is None


def test_code_stands_for_its_source(module: Path) -> None:
    code = native.pack(ANSWER, source(), "somebody")
    assert code.text != native.source("summing", (), "total", ("int64", "int32*"))
    module.write_text(KERNEL.replace("+=", "-="))
    assert code.text != source()


def test_a_changed_kernel_needs_numba_and_says_so(
    module: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CEP_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(native, "numba_version", lambda: "")
    monkeypatch.setattr("cep_pipeline.compiled.numba_ir.numba_version", lambda: "")
    with pytest.raises(CepError, match=r"no compiled code of the kernel total of summing .* and no Numba to make it"):
        NativeKernel("summing", "total", ("int64", "int64*")).compile()


def test_the_bitcode_of_a_kernel_becomes_code_of_another_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    llvm = object_code._llvm()
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    target = llvm.Target.from_triple("aarch64-unknown-linux-gnu")
    machine = target.create_target_machine(opt=2, reloc="pic", codemodel="jitdefault")
    code = native.read_shipped("cep_pipeline.statistics.sliding_window_kernel", "compress")
    assert code
    made = []
    monkeypatch.setattr(native, "runs_level", lambda: False)
    monkeypatch.setattr(native, "kept", lambda _, make: made.append(make()) or made[0])
    monkeypatch.setattr(object_code, "_target_machine", lambda: machine)
    found = code.object_code()
    assert found and found[:4] == b"\x7fELF" and found[18] == 183, "183 is the number of aarch64"
