"""Kernels as cached object code: what they accept, and what a process that finds it does not need."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from cep_pipeline.detection.match_ids import MatchIdentity, _describe_matches

WATCHED = """
from cep_pipeline.compiled import native
compiled, make = [], native.numba_ir
native.numba_ir = lambda *kernel: compiled.append(kernel) or make(*kernel)
import numpy as np
"""
PROGRAM = f"""{WATCHED}
from cep_pipeline.detection.match_ids import MatchIdentity
from cep_pipeline.detection.match_ids import ids_array
from cep_pipeline.detection.ordering import OrderedLists
match = OrderedLists(("a",), np.array([0, 1]), np.zeros(1, np.int32), np.zeros(1, np.int32))
found = MatchIdentity(bytes(32), ("a",)).rows_of(match, np.array([5]), np.array([7]))
print(ids_array(found.ids)[0].as_py(), bool(compiled))
"""


LIBRARY_PROGRAM = f"""{WATCHED}
from cep_pipeline.compiled.native import NativeKernel
kernel = NativeKernel("tests.compiled.library_kernel", "logarithms", ("int64", "float64*", "int32*"))
values, flags = np.full(1000, np.e), np.zeros(1000, np.int32)
kernel(1000, values, flags)
print(values[999], flags.sum(), bool(compiled))
"""


def run(folder: Path, program: str = PROGRAM, *arguments: str) -> list[str]:
    environment = {**os.environ, "CEP_CACHE_DIR": str(folder)}
    result = subprocess.run(
        [sys.executable, "-c", program, *arguments], env=environment, capture_output=True, text=True, check=True
    )
    return result.stdout.split()


OTHER_PROCESSOR = "from cep_pipeline.compiled import native\nnative.runs_level = lambda: False\n"


@pytest.mark.parametrize("before", ["", OTHER_PROCESSOR])
def test_no_process_of_a_user_needs_numba(tmp_path: Path, before: str) -> None:
    assert run(tmp_path, before + PROGRAM) == [str(MatchIdentity(bytes(32), ("a",)).id_of([("a", 7)])), "False"]


def test_only_the_first_process_compiles_a_kernel_that_is_not_shipped(tmp_path: Path) -> None:
    assert run(tmp_path, LIBRARY_PROGRAM) == ["1.0", "-1000", "True"]
    assert run(tmp_path, LIBRARY_PROGRAM) == ["1.0", "-1000", "False"], "it finds the functions of the C library, too"


def test_arrays_of_another_type_or_layout_are_refused() -> None:
    numbers, words = np.zeros(4, np.int64), np.zeros(6, np.uint64)
    rows = np.zeros(4, np.int32)
    rest = [numbers, numbers, numbers, words, words, words, numbers, numbers, numbers]
    with pytest.raises(TypeError, match=r"takes a contiguous int64\*, not float64"):
        _describe_matches(1, 0, 1, numbers.astype(float), rows, rows, *rest)
    with pytest.raises(TypeError, match=r"contiguous int32\*"):
        _describe_matches(1, 0, 1, numbers, np.zeros(8, np.int32)[::2], rows, *rest)
    with pytest.raises(ValueError, match="argument"):
        _describe_matches(1, 0, 1, numbers, rows, rows, numbers)
