"""The loops of local search over shared plans (MCEP [0164]-[0167]), written in Numba. Imported to be compiled only.

A step draws a neighbour and evaluates it (`search_state_kernel`).
"""

# mypy: disable-error-code="untyped-decorator,no-any-return"
from __future__ import annotations

import math
from typing import Any

from numba import carray, njit

from cep_pipeline.compiled.pointers import float64_at, further, int64_at
from cep_pipeline.planning.multi_pattern.neighbours_kernel import Groups, draw_share
from cep_pipeline.planning.multi_pattern.node_table_kernel import Canon, Members, Terms, cost_of_all
from cep_pipeline.planning.multi_pattern.plans_around_kernel import Room
from cep_pipeline.planning.multi_pattern.search_codes import (
    ADDRESSES,
    AMOUNT,
    ANNEAL,
    BEST,
    CAPACITY,
    CHAINS,
    COOLING,
    COST,
    COUNT,
    COUNTED,
    FACTOR,
    GROUPS,
    LARGEST,
    NEIGHBOURS,
    PLAN_HASH,
    PROBE,
    RANDOM,
    ROOM,
    START,
    STEPS,
    TABU_CHAINS,
    TABU_COUNT,
    TABU_LENGTH,
    TABU_NEXT,
    TASK,
    THRESHOLD,
    TOGETHER,
    WIDTH,
    WINDOWS,
)
from cep_pipeline.planning.multi_pattern.search_state_kernel import (
    Search,
    accept_neighbour,
    apply_neighbour,
    copy_plans,
    hash_change,
    next_neighbour,
    nodes_at,
    plans_at,
    start_table,
    undo_neighbour,
)


@njit(error_model="numpy")
def _probe(s: Search, steps: int) -> None:
    """Look at neighbours for the largest difference of cost among them."""
    for _ in range(steps):
        count = next_neighbour(s)
        change = apply_neighbour(s, count)
        s.measures[LARGEST] = max(s.measures[LARGEST], abs(change))
        undo_neighbour(s, count)
        s.registers[STEPS] += 1


@njit(error_model="numpy")
def _anneal(s: Search, steps: int) -> None:
    """Simulated annealing: a dearer neighbour is taken with probability exp(-difference / threshold)."""
    cooling = s.numbers[COOLING]
    for _ in range(steps):
        count = next_neighbour(s)
        change = apply_neighbour(s, count)
        s.registers[STEPS] += 1
        if change <= 0.0 or change < -s.measures[THRESHOLD] * math.log(draw_share(s.registers)):
            accept_neighbour(s, count, change)
        else:
            undo_neighbour(s, count)
        s.registers[COUNTED] += 1
        if s.registers[COUNTED] >= cooling:
            s.registers[COUNTED] = 0
            s.measures[THRESHOLD] *= s.measures[FACTOR]


@njit(error_model="numpy")
def _is_tabu(s: Search, plan: int) -> bool:
    at = s.heads[plan & (s.numbers[TABU_CHAINS] - 1)]
    while at >= 0 and s.hashes[at] != plan:
        at = s.following[at]
    return at >= 0


@njit(error_model="numpy")
def _remember(s: Search, plan: int) -> None:
    """Put a plan on the tabu list in place of the oldest one, if it is full."""
    at = s.registers[TABU_NEXT]
    if s.registers[TABU_COUNT] == s.numbers[TABU_LENGTH]:
        chain = s.hashes[at] & (s.numbers[TABU_CHAINS] - 1)
        if s.heads[chain] == at:
            s.heads[chain] = s.following[at]
        else:
            earlier = s.heads[chain]
            while s.following[earlier] != at:
                earlier = s.following[earlier]
            s.following[earlier] = s.following[at]
    else:
        s.registers[TABU_COUNT] += 1
    chain = plan & (s.numbers[TABU_CHAINS] - 1)
    s.hashes[at], s.following[at], s.heads[chain] = plan, s.heads[chain], at
    s.registers[TABU_NEXT] = (at + 1) % s.numbers[TABU_LENGTH]


@njit(error_model="numpy")
def _tabu(s: Search, steps: int) -> None:
    """Tabu search: of some neighbours that were not visited yet the cheapest is the next plan, dearer or not."""
    if s.registers[TABU_COUNT] == 0:
        _remember(s, s.registers[PLAN_HASH])
    done = 0
    while done < steps:
        least, chosen = math.inf, 0
        for _ in range(s.numbers[NEIGHBOURS]):
            state = s.registers[RANDOM]
            count = next_neighbour(s)
            change = apply_neighbour(s, count)
            if change < least and not _is_tabu(s, s.registers[PLAN_HASH] ^ hash_change(s, count)):
                least, chosen = change, state
            undo_neighbour(s, count)
            done += 1
            s.registers[STEPS] += 1
        if least < math.inf:
            state = s.registers[RANDOM]
            s.registers[RANDOM] = chosen  # the same neighbour once more
            count = next_neighbour(s)
            accept_neighbour(s, count, apply_neighbour(s, count))
            s.registers[RANDOM] = state
            _remember(s, s.registers[PLAN_HASH])


def search(words_at: Any) -> int:
    """Do the task that `numbers` names, by the addresses that `local_search.LocalSearch` writes."""
    words = carray(words_at, ADDRESSES)
    n = int64_at(words[0])
    count, width, windows = n[COUNT], n[WIDTH], n[WINDOWS]
    capacity, chains, together = n[CAPACITY], n[CHAINS], n[TOGETHER]
    m = Members(
        width,
        windows,
        int64_at(words[3]),
        int64_at(words[4]),
        int64_at(words[5]),
        Terms(float64_at(words[6]), float64_at(words[7]), float64_at(words[8])),
        int64_at(words[9]),
        int64_at(words[10]),
        int64_at(words[11]),
        int64_at(words[12]),
        int64_at(words[13]),
        int64_at(words[14]),
        int64_at(words[15]),
        int64_at(words[16]),
        int64_at(words[17]),
        int64_at(words[18]),
    )
    g = Groups(
        together,
        n[GROUPS],
        float64_at(words[19]),
        int64_at(words[20]),
        int64_at(words[21]),
        int64_at(words[22]),
        int64_at(words[23]),
    )
    drawn, canon, tabu = int64_at(words[31]), int64_at(words[33]), int64_at(words[34])
    items = further(drawn, 2 * together)
    s = Search(
        n,
        int64_at(words[1]),
        float64_at(words[2]),
        m,
        g,
        nodes_at(int64_at(words[24]), float64_at(words[25]), capacity, chains, windows),
        nodes_at(int64_at(words[26]), float64_at(words[27]), capacity, chains, windows),
        plans_at(int64_at(words[28]), count, width),
        plans_at(int64_at(words[29]), count, width),
        plans_at(int64_at(words[30]), together + 1, width),
        Room(
            drawn,
            further(drawn, together),
            items,
            further(items, width),
            float64_at(words[32]),
            further(items, width + n[ROOM]),
        ),
        Canon(canon, further(canon, width), further(canon, 2 * width)),
        tabu,
        further(tabu, n[TABU_CHAINS]),
        further(tabu, n[TABU_CHAINS] + n[TABU_LENGTH]),
    )
    if n[TASK] == START:
        start_table(s)
        s.measures[BEST] = s.measures[COST]
        copy_plans(s, s.plans, s.best)
    else:
        s.measures[COST] = cost_of_all(s.t)  # sums of differences drift
        if n[TASK] == PROBE:
            _probe(s, n[AMOUNT])
        elif n[TASK] == ANNEAL:
            _anneal(s, n[AMOUNT])
        else:
            _tabu(s, n[AMOUNT])
    return 0
