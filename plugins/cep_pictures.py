"""Drawings of the pages, each an SVG: charts by Vega-Lite, and by hand the days of a stream and networks of plans."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any
from zoneinfo import ZoneInfo

from cep_pipeline.match_chart import quoted
from cep_pipeline.planning.clause_plans import ClausePlan, PlanStep, SharedPlanNode, Sharing
from cep_pipeline.planning.numbers.logarithms import format_ln, format_number
from cep_pipeline.planning.trees import Join, Tree, leaves_of, nodes_of
from cep_pipeline.vega import GRID, INK, PALETTE, clock_ms, layer, rendered, time_axis
from cep_pipeline.warehouse.records import RunStep

RED, GREEN, BLUE, AMBER, VIOLET = PALETTE[:5]
STATES: Mapping[str, tuple[str, str]] = {
    "published": (GREEN, "all is published and fits its inputs"),
    "waiting": (BLUE, "matches wait for events of later days"),
    "limited": (VIOLET, "a pattern reached a limit, so its matches are not published"),
    "stale": (AMBER, "an input has changed since the day was published"),
    "failed": (RED, "the latest run of the day has failed"),
    "running": (PALETTE[5], "a run is at it"),
    "nothing": (GRID, "nothing is published"),
}
"""State of a day -> its colour and meaning."""
CELL = 20
MOST_NODES = 80
"""Plans of more nodes are not drawn."""


@dataclass(frozen=True)
class DayCell:
    """A day of the strip: its state, the sentence that explains it, and the page that it leads to ("" for none)."""

    day: date
    state: str
    says: str
    link: str


def day_strip(cells: Sequence[DayCell]) -> str:
    """Draw the days of a stream as a row of squares that lead to their runs."""
    parts = []
    for place, cell in enumerate(cells):
        x = place * CELL
        colour = STATES[cell.state][0]
        opacity = 0.2 if cell.state == "nothing" else 1
        letter = "" if cell.state in ("nothing", "published") else cell.state[0].upper()
        square = (
            f'<rect x="{x + 1}" y="1" width="{CELL - 3}" height="{CELL - 3}" rx="3" fill="{colour}" '
            f'fill-opacity="{opacity}"><title>{quoted(f"{cell.day}: {cell.says}")}</title></rect>'
        ) + text_at(x + CELL / 2 - 0.5, 14, letter, anchor="middle", size=11, weight="bold", fill="white")
        parts.append(f'<a href="{quoted(cell.link)}">{square}</a>' if cell.link else square)
        if place == 0 or cell.day.day == 1:
            parts.append(text_at(x, CELL + 12, f"{cell.day:%d %b}", size=10))
    return svg(max(len(cells) * CELL, 60), CELL + 16, parts, "the latest days of the stream")


def steps_chart(steps: Sequence[RunStep]) -> str:
    """Draw the steps of a run one after the other on a line of seconds."""
    rows, begun = list[dict[str, Any]](), 0.0
    for step in steps:
        counts = ", ".join(f"{name} {number:,}" for name, number in step.counts.items())
        seconds = f"{step.seconds:.1f} s"
        tip = f"{step.name}: {seconds} {counts}"
        rows.append({"step": step.name, "from": begun, "to": begun + step.seconds, "seconds": seconds, "tip": tip})
        begun += step.seconds
    y = {"field": "step", "type": "nominal", "sort": None}
    bar = {"type": "bar", "color": BLUE, "aria": True, "cornerRadius": 2}
    tips = {"field": "tip", "type": "nominal"}
    label = {"type": "text", "align": "left", "dx": 4, "color": INK}
    layers = [
        layer(rows, bar, x="from", x2={"field": "to"}, y=y, description=tips),
        layer(rows, label, x="to", y=y, text={"field": "seconds", "type": "nominal"}),
    ]
    spec = {"width": 700, "height": {"step": 24}, "layer": layers}
    return rendered(spec, "the steps of the run on a line of seconds")


def histogram(edges_us: Sequence[int], counts: Sequence[int], timezone: str) -> str:
    """Draw how many there were between instants."""
    clocks = [datetime.fromtimestamp(one / 1e6, ZoneInfo(timezone)).replace(tzinfo=None) for one in edges_us]
    rows = [
        {"at": clock_ms(begin), "to": clock_ms(end), "count": count, "tip": f"{count:,} from {begin} on"}
        for begin, end, count in zip(clocks, clocks[1:], counts, strict=False)
        if count
    ]
    axis = time_axis("at", clock_ms(clocks[0]), clock_ms(clocks[-1]))
    bar = {"type": "rect", "color": BLUE, "aria": True}
    tips = {"field": "tip", "type": "nominal"}
    bars = layer(rows, bar, x=axis, x2={"field": "to"}, y="count", y2={"datum": 0}, description=tips)
    return rendered({"width": 780, "height": 110, **bars}, "matches over the time of their last event")


def count_line(counts: Sequence[int], band: tuple[int, int] | None) -> str:
    """Draw numbers of matches day by day as a small line, with the band in which the last one was expected."""
    most = max([*counts, *(band or ()), 1])

    def y(value: float) -> float:
        return 24 - value / most * 22

    step = 150 / max(len(counts) - 1, 1)
    parts = []
    if band is not None:
        parts.append(
            f'<rect x="0" y="{y(band[1]):.1f}" width="160" height="{max(y(band[0]) - y(band[1]), 1):.1f}" '
            f'fill="{GREEN}" fill-opacity="0.25"/>'
        )
    way = " ".join(f"{5 + place * step:.1f},{y(count):.1f}" for place, count in enumerate(counts))
    parts.append(f'<polyline points="{way}" fill="none" stroke="{BLUE}" stroke-width="1.5"/>')
    usual = band is None or band[0] <= counts[-1] <= band[1]
    last = 5 + (len(counts) - 1) * step
    parts.append(f'<circle cx="{last:.1f}" cy="{y(counts[-1]):.1f}" r="3" fill="{BLUE if usual else RED}"/>')
    return svg(160, 26, parts, "numbers of matches of the latest days")


@dataclass
class _Box:
    """A node of a drawn plan: its variables in the first clause that uses it, the nodes below it, and its users."""

    clause: ClausePlan
    node: Tree
    below: list[int]
    serves: list[str]
    matches: list[str]
    counted: tuple[int, int] | None = None
    column: int = 0
    level: float = 0.0


def plan_network(
    clauses: Sequence[tuple[str, ClausePlan]],
    passed: Mapping[str, Mapping[frozenset[str], tuple[int, int]]],
    sharing: Sharing = "none",
    shared: Sequence[SharedPlanNode] = (),
) -> str | None:
    """Draw the orders or trees of clauses from their first variables, at the left, to their matches, at the right.

    Each clause has the name of its pattern. `passed` has, by pattern and the variables bound at a node, the candidates
    that detection tested there, and those that passed. The nodes that clauses share by the rule `sharing` are drawn
    once, with the number of patterns that each serves. None for more nodes than can be read.
    """
    boxes = _boxes(clauses, passed, sharing, shared)
    if len(boxes) > MOST_NODES:
        return None
    _place(boxes)
    several = any(box.serves for box in boxes)
    wide, high = (245, 65) if several else (215, 50)
    apart = high + 12

    def corner(box: _Box) -> tuple[float, float]:
        return 10 + box.column * (wide + 34), 10 + box.level * apart

    parts = list[str]()
    for place, box in enumerate(boxes):
        x, y = corner(box)
        bend = x - 17 if not several else x - 6 - 5 * (place % 5)  # so that no two lines are one
        for side in dict.fromkeys(box.below):
            left, top = corner(boxes[side])
            parts.append(
                f'<path d="M{left + wide:.1f},{top + 24:.1f} H{bend:.1f} V{y + 24:.1f} H{x:.1f}" fill="none" '
                f'stroke="{INK}"/>'
            )
    for box in boxes:
        parts.extend(_drawn_box(box, *corner(box), wide, high))
    size = max(box.column for box in boxes) + 1, max(box.level for box in boxes) + 1
    drawn = ", ".join(dict.fromkeys(name for name, _ in clauses))
    return svg(20 + size[0] * (wide + 34) - 34, 4 + size[1] * apart, parts, f"the plan of {drawn}")


def _boxes(
    clauses: Sequence[tuple[str, ClausePlan]],
    passed: Mapping[str, Mapping[frozenset[str], tuple[int, int]]],
    sharing: Sharing,
    shared: Sequence[SharedPlanNode],
) -> list[_Box]:
    """The nodes of clauses, those below before those above; a node that clauses share is there once."""
    one_of = {(use.pattern, use.clause, frozenset(use.variables)): node for node in shared for use in node.uses}
    boxes, places = list[_Box](), dict[Any, int]()
    for pattern, clause in clauses:
        tree: Tree = clause.order[0] if clause.tree is None else clause.tree
        if clause.tree is None:
            for variable in clause.order[1:]:
                tree = Join(tree, variable)
        nodes = [
            one for one in nodes_of(tree) if sharing != "prefix" or isinstance(one, Join) or one == clause.order[0]
        ]
        own = {}
        for node in nodes:
            bound = frozenset(leaves_of(node))
            common = one_of.get((pattern, clause.clause, bound))
            key: Any = (pattern, clause.clause, bound) if common is None else id(common)
            if key not in places:
                places[key] = len(boxes)
                sides = (node.left, node.right) if isinstance(node, Join) else ()
                below = [own[side] for side in sides if side in own]
                serves = [] if common is None else list(dict.fromkeys(use.pattern for use in common.uses))
                boxes.append(_Box(clause, node, below, serves, []))
            own[node] = places[key]
            box = boxes[places[key]]
            box.counted = box.counted or passed.get(pattern, {}).get(bound)
        if sharing != "none":
            boxes[own[tree]].matches.append(pattern)
    return boxes


def _place(boxes: Sequence[_Box]) -> None:
    """Give each node its column, behind those below it, and its place in the column, at the height of those below."""
    free: dict[int, float] = {}
    for box in boxes:
        box.column = max((boxes[side].column + 1 for side in box.below), default=0)
    for column in range(max(box.column for box in boxes) + 1):
        members = [box for box in boxes if box.column == column]
        for box in members:
            levels = [boxes[side].level for side in box.below]
            box.level = sum(levels) / len(levels) if levels else 0.0
        for box in sorted(members, key=lambda one: one.level):
            box.level = max(box.level, free.get(column, 0.0))
            free[column] = box.level + 1


def _drawn_box(box: _Box, x: float, y: float, wide: float, high: float) -> Iterable[str]:
    clause, node, names = box.clause, box.node, leaves_of(box.node)
    # In an order the expectations of a step stand under all that is bound then, in a tree under what is below a node.
    shown = clause.expected.get(names) if isinstance(node, Join) or clause.tree is not None else None
    step = next((one for one in clause.steps if isinstance(node, str) and one.variable == node), None)
    if shown is None and step is not None and node == clause.order[0]:
        shown = step
    title = ", ".join(names)
    conditions = "; ".join(one.text for one in shown.conditions) if shown is not None else ""
    tip = [f"{title}: {conditions}" if conditions else f"{title}: no condition is tested here"]
    if box.counted is not None:
        tip.append(f"{box.counted[0]:,} candidates, {box.counted[1]:,} of them passed on the latest day")
    tip += [f"serves {', '.join(box.serves)}"] if box.serves else []
    tip += [f"matches of {', '.join(box.matches)}"] if box.matches else []
    colour = VIOLET if box.serves else BLUE
    shape = f'<rect x="{x:.1f}" y="{y:.1f}" width="{wide}" height="{high}" rx="6"'
    yield f'{shape} fill="Canvas"/>'  # lines from further left pass behind it
    yield (
        f'{shape} fill="{colour}" fill-opacity="0.12" stroke="{colour}"><title>{quoted("; ".join(tip))}</title></rect>'
    )
    yield text_at(x + 8, y + 16, _short(title, 26), size=13, weight="bold")
    if isinstance(step, PlanStep):
        yield text_at(x + 8, y + 31, _short(f"{step.leaf}, {format_number(step.rate_per_s)}/s", 35), size=11)
    elif conditions:
        yield text_at(x + 8, y + 31, _short(conditions, 35), size=11)
    if shown is not None:
        text = f"{format_ln(shown.ln_partial_matches)} expected"
        if box.counted is not None and box.counted[0]:
            text += f"; {box.counted[1] / box.counted[0]:.3g} passed"
        yield text_at(x + 8, y + 45, _short(text, 36), size=11, fill=GREEN)
    says = [f"for {len(box.serves):,} patterns"] if box.serves else []
    says += [f"matches of {', '.join(box.matches)}"] if box.matches else []
    yield text_at(x + 8, y + 59, _short("; ".join(says), 42), size=11, fill=VIOLET)


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def svg(width: float, height: float, parts: Sequence[str], label: str) -> str:
    """Make an `svg` element of parts; it shrinks to the room that it has."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" '
        f'height="{height:g}" role="img" aria-label="{quoted(label)}" font-family="system-ui, sans-serif" '
        f'style="max-width:100%;height:auto">{"".join(parts)}</svg>'
    )


def text_at(
    x: float, y: float, text: str, *, anchor: str = "start", size: int = 13, weight: str = "normal", fill: str = INK
) -> str:
    """Make a `text` element; nothing of the text is read as markup."""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" font-weight="{weight}" '
        f'fill="{fill}">{quoted(text)}</text>'
    )
