"""A small kernel over instances: it binds the variables of given bindings one after another, and tests as it goes."""

# mypy: disable-error-code="untyped-decorator"
from __future__ import annotations

from typing import Any

from cep_pipeline.compiled.pointers import int32_at, int64_at, uint8_at
from cep_pipeline.detection.conditions.cells import append, cells_at
from cep_pipeline.detection.conditions.evaluator import code_at, group_holds

BINDINGS, VARIABLES, STARTS, ROWS, GROUPS, SLOTS, HOLDS, KLEENE, PROGRAM, CELLS = (*range(9), 17)


def bind_all(words: Any) -> int:
    """Bind the variables of `words[BINDINGS]` bindings in slot order.

    Binding m has for variable v the rows from `STARTS[m * variables + v]` on. `GROUPS` has three groups a variable: of
    the first event, of each further one, and of the complete list.
    """
    variables = words[VARIABLES]
    starts, rows, groups = int64_at(words[STARTS]), int32_at(words[ROWS]), int64_at(words[GROUPS])
    slots, holds, kleene = int32_at(words[SLOTS]), uint8_at(words[HOLDS]), uint8_at(words[KLEENE])
    code, cells = code_at(words, PROGRAM), cells_at(words, CELLS)
    for binding in range(words[BINDINGS]):
        passes = True
        for variable in range(variables):
            place = starts[binding * variables + variable]
            end = starts[binding * variables + variable + 1]
            if not kleene[variable]:
                slots[variable] = rows[place]
                passes = passes and group_holds(code, cells, groups[3 * variable], slots, 0)
                continue
            cell = -1
            first = place
            while place < end:
                cell = append(cells, variable, cell, rows[place], rows[place])
                if cell < 0:
                    return -1
                slots[variable] = cell
                group = groups[3 * variable] if place == first else groups[3 * variable + 1]
                passes = passes and group_holds(code, cells, group, slots, 0)
                place += 1
            passes = passes and group_holds(code, cells, groups[3 * variable + 2], slots, 0)
        holds[binding] = passes
    return 0
