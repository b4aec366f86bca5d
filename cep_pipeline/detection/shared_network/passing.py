"""What becomes of a tuple that passes at a node: it is held there, and it is a match where the node is a root.

Imported only where the kernel of shared networks is compiled.
"""

# mypy: disable-error-code="untyped-decorator,no-any-return"
from __future__ import annotations

from typing import Any

from numba import njit

from cep_pipeline.detection.instances.finished import add_match, found_at
from cep_pipeline.detection.instances.interpreter import code_at
from cep_pipeline.detection.instances.rules import in_window, rejected, rules_at
from cep_pipeline.detection.shared_network import codes as c
from cep_pipeline.detection.shared_network.machine import machine_at
from cep_pipeline.detection.shared_network.stores import push


@njit(error_model="numpy")
def passed(w: Any, node: int, first: int, row: int, key: int) -> int:
    """The tuple under test has passed at a node: put it out for those whose root it is, hold it for those above."""
    m = machine_at(w)
    n = node * c.NODE_WORDS
    m.counts[node * c.COUNTS + c.PASSES] += 1
    for output in range(m.nodes[n + c.N_OUTPUTS], m.nodes[n + c.N_OUTPUTS_END]):
        if not put_out(w, node, output, first, row):
            m.registers[c.SHORT_OF] = output
            return c.FOUND_FULL
    if m.nodes[n + c.N_KIND] != c.EVENTS and m.nodes[n + c.N_EDGES] < m.nodes[n + c.N_EDGES_END]:
        return c.FINISHED if push(w, node, first, row, key) else c.STORE_FULL
    return c.FINISHED


@njit(error_model="numpy")
def put_out(w: Any, node: int, output: int, first: int, row: int) -> bool:
    """Put the tuple under test out as a match of a member, if it is one; False where there is no room.

    It leaves what is shared here: the member's own window is asked, and the events that would reject it.
    """
    m = machine_at(w)
    o = output * c.OUTPUT_WORDS
    if row < m.outputs[o + c.O_FROM]:
        return True
    rules = rules_at(m.words, m.outputs[o + c.O_RULES])
    if not in_window(rules, first, row):
        return True
    n = node * c.NODE_WORDS
    own, places = m.nodes[n + c.N_PLACES], m.outputs[o + c.O_PLACES]
    for slot in range(m.nodes[n + c.N_WIDTH]):
        m.match[m.places[places + slot]] = m.bound[m.places[own + slot]]
    if rules.negations > 0:
        code = code_at(m.words, m.outputs[o + c.O_CODE])
        if rejected(rules, code, m.cells, m.match, 0, first, row):
            return True
    found = found_at(m.words, m.outputs[o + c.O_FOUND])
    r = m.registers
    if m.output_stamps[output] != r[c.EPOCH]:
        m.output_stamps[output] = r[c.EPOCH]
        m.touched_outputs[r[c.TOUCHED_OUTPUTS]] = output
        r[c.TOUCHED_OUTPUTS] += 1
        m.saved_outputs[2 * output] = found.used[0]
        m.saved_outputs[2 * output + 1] = found.used[1]
    return add_match(found, rules, m.cells, m.match, 0)
