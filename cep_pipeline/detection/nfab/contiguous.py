"""Runs of a chain of single events that may skip no event: their events are one behind the other in the sequence."""

from __future__ import annotations

import numpy as np

from cep_pipeline.compiled.native import NativeKernel
from cep_pipeline.detection.instances import KERNEL_SOURCES
from cep_pipeline.detection.nfab.program import Program
from cep_pipeline.detection.nfab.stream import Sequence
from cep_pipeline.expressions.columns import Array

_follow = NativeKernel(
    "cep_pipeline.detection.nfab.contiguous_kernel",
    "follow",
    (
        *["int64"] * 6,
        *("int32*", "int64*", "int64*", "int32*", "uint8*"),
        *("float64*", "int64", "int64*", "int64", "int64*"),
        *("int32*", "int32*", "int32*", "int32*", "int32*", "int32*"),
        *("int64*", "int64", "float64*", "int64"),
    ),
    sources=(*KERNEL_SOURCES, "cep_pipeline.detection.nfab.kernel", "cep_pipeline.detection.nfab.codes"),
)


def follow_contiguous(
    sequence: Sequence,
    program: Program,
    options: int,
    width: int,
    end_row: int,
    times: Array,
    instants: Array,
    starts: Array,
    ends: Array,
    counts: Array,
) -> tuple[Array, Array, Array]:
    """Follow the runs of a chain of at least two variables, all of whose conditions are compiled.

    Parameters
    ----------
    sequence, program
        What the runs read, and their conditions.
    options, width, end_row
        The flags of `codes.py`, the most by which the instants of a match differ, and the row before which runs end.
    times, instants
        int64, of each place: its timestamp (none where ties do not matter) and its instant.
    starts, ends
        int32, of each run: the place of its first event, and the place behind the last that it may read.
    counts
        Candidates, passes and evaluations as `kernel.advance` counts them; they are added.

    Returns
    -------
    found : Array
        int32, shape (variables, matches): rows.
    ended : Array
        int32, of each run: the row of the event that it ended with.
    expired : Array
        The runs whose window or group ended before: `ended` is the last row that they read.
    """
    variables, size = sequence.fits.shape
    rows, runs = sequence.view.rows, len(starts)
    alive, ended, expired = np.empty(runs, np.int32), np.empty(runs, np.int32), np.empty(runs + 1, np.int32)
    matches = _follow(
        *(runs, variables, size, options, width, end_row),
        *(rows, times, instants, sequence.keys, sequence.fits),
        *(program.columns, len(program.columns), program.words, len(program.words), program.tests),
        *(starts, ends, alive, ended, expired, np.empty(variables, np.int32)),
        *(counts, len(counts) // 2, np.empty(program.depth + 1, np.float64), 0),
    )
    first = starts[alive[:matches]]
    found = np.empty((variables, matches), np.int32)
    for variable, own in enumerate(found):
        np.take(rows, first + variable, out=own, mode="clip")
    return found, ended, expired[1 : 1 + int(expired[0])]
