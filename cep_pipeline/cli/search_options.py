"""Options of the planners of many patterns."""

from __future__ import annotations

from inspect import cleandoc
from typing import Any

import click

from cep_pipeline.cli.options import with_options
from cep_pipeline.errors import InputError


class CommandOfPlanners(click.Command):
    """A command whose help lists the planners and cost models in place of `{planners}`.

    The list is made from the planners' records when somebody reads it: it takes importing them.
    """

    _text: str | None = None

    @property
    def help(self) -> str | None:
        """The text of the command with the list."""
        if self._text is None or "{planners}" not in self._text:
            return self._text
        from cep_pipeline.planning import COSTS
        from cep_pipeline.planning.planners import planners_text

        return cleandoc(self._text).replace(
            "{planners}", f"\b\nPlanners\n{planners_text()}\n\nCost models: {', '.join(COSTS)}."
        )

    @help.setter
    def help(self, text: str | None) -> None:
        self._text = text


OPTIONS = {
    "neighbourhood": "--neighbourhood",
    "sharing": "--sharing",
    "time_limit_s": "--time-limit",
    "steps": "--steps",
    "idle_steps": "--idle-steps",
    "seed": "--seed",
}


search_options = with_options(
    click.option(
        "--neighbourhood",
        metavar="NAME",
        help="Of a search: edge, or vertex:K, which gives up to K patterns a subpattern in common at once."
        "  [default: edge]",
    ),
    click.option(
        "--sharing",
        type=click.Choice(["prefix", "subexpression"]),
        help="What patterns planned together share: beginnings of orders, or subtrees.  [default: subexpression, "
        "where the mechanisms run trees]",
    ),
    click.option(
        "--time-limit",
        "time_limit_s",
        type=click.FloatRange(min=0, min_open=True),
        metavar="SECONDS",
        help="End the search after this time, in which all patterns are compared first.  [default: 5, without --steps]",
    ),
    click.option(
        "--steps",
        type=click.IntRange(min=1),
        help="End the search after so many steps; without a time limit it finds the same plan each time.",
    ),
    click.option(
        "--idle-steps",
        type=click.IntRange(min=1),
        help="End the search when so many steps have found nothing cheaper.  [default: go on to the limit]",
    ),
    click.option("--seed", type=click.IntRange(min=0), help="Of the search's random choices.  [default: 0]"),
)
"""The options of `OPTIONS`; None where they are not given."""


def given_options(planner: str, options: dict[str, Any]) -> dict[str, Any]:
    """Take the options of searches out of a command's, as far as they are given.

    One with a planner of single patterns, or of a search with a planner that does not search, is an InputError.
    """
    from cep_pipeline.planning.planners import LOCAL_SEARCHES, MULTI_PATTERN_PLANNER_NAMES

    given = {name: options.pop(name) for name in OPTIONS}
    given = {name: value for name, value in given.items() if value is not None}
    if given and planner not in MULTI_PATTERN_PLANNER_NAMES:
        raise InputError(
            f"{', '.join(OPTIONS[name] for name in given)}: for planners of many patterns together, not for {planner}; "
            f"these are: {', '.join(MULTI_PATTERN_PLANNER_NAMES)}"
        )
    of_searches = [option for name, option in OPTIONS.items() if name in given and name != "sharing"]
    if of_searches and planner not in LOCAL_SEARCHES:
        raise InputError(
            f"{', '.join(of_searches)}: for searches, and {planner} is done when it is done; planners that search are: "
            f"{', '.join(sorted(LOCAL_SEARCHES))}"
        )
    return given
