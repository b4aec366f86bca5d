"""`--planner` and `--set`: settings of planning and adaptation, as `pipeline.yaml` has them, for one command."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, TypeVar

import click

from cep_pipeline.cli.options import with_options
from cep_pipeline.errors import InputError

if TYPE_CHECKING:
    from cep_pipeline.pipeline.configuration import AdaptationSettings, PatternSet, PlanningSettings

Settings = TypeVar("Settings", "PlanningSettings", "AdaptationSettings")

planner_options = with_options(
    click.option(
        "--planner",
        metavar="NAME",
        help="Planner.  [default: that of the pattern set; over files dp_left_deep, for patterns worth planning]",
    ),
    click.option(
        "--set",
        "settings",
        multiple=True,
        metavar="NAME=VALUE",
        help="A setting of planning, as pipeline.yaml has it: cost or alpha; for planners of many patterns "
        "neighbourhood, sharing, time_limit_s, steps, idle_steps or seed. As often as wanted.",
    ),
)
"""`--planner`, and the other settings of planning (`read_settings`)."""


def read_settings(given: tuple[str, ...], planner: str | None) -> tuple[PlanningSettings, AdaptationSettings]:
    """The settings that `--planner` and `--set` give, by the rules of `pipeline.yaml`; wrong ones are an InputError."""
    from cep_pipeline.pipeline.configuration import AdaptationSettings, PlanningSettings

    values: dict[str, Any] = {} if planner is None else {"planner": planner}
    known = {*PlanningSettings.model_fields, *AdaptationSettings.model_fields} - {"planner"}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or name not in known:
            raise InputError(f"--set {text!r}: write it as NAME=VALUE; the settings are: {', '.join(sorted(known))}")
        values[name] = _number_or_text(value)
    return _checked(PlanningSettings, values), _checked(AdaptationSettings, values)


def _number_or_text(value: str) -> float | str:
    for kind in (int, float):
        try:
            return kind(value)
        except ValueError:
            continue
    return value


def _checked(model: type[Settings], values: dict[str, Any]) -> Settings:
    """Those of the values that are settings of a model."""
    from pydantic import ValidationError

    try:
        return model.model_validate({name: value for name, value in values.items() if name in model.model_fields})
    except ValidationError as error:
        fault = error.errors()[0]
        name, said = fault["loc"][0], fault["msg"].removeprefix("Value error, ").replace("Input should", "it should")
        option = "--planner" if name == "planner" else f"--set {name}={values[str(name)]}"
        raise InputError(f"{option}: {said}") from error


def planner_of(given: PlanningSettings, own: PatternSet | None = None) -> tuple[str, str | None, float, dict[str, Any]]:
    """The planner, its cost model, its weight of latency and its search: as given, else as those of a pattern set."""
    from cep_pipeline.pipeline.configuration import PlanningSettings, search_settings
    from cep_pipeline.planning.planners import DEFAULT_PLANNER

    planner = given.planner or (DEFAULT_PLANNER if own is None else own.planner)
    cost = given.cost or (None if own is None else own.cost)
    alpha = given.alpha if given.alpha is not None else 0.0 if own is None else own.alpha
    search = search_settings(planner, cost, alpha, given, PlanningSettings())
    return planner, cost, alpha, search if own is None else {**own.search, **search}


def following_settings(given: AdaptationSettings, every: str | None, *, adapt: bool) -> dict[str, Any]:
    """The settings of the loop that the options ask for; none where there is no `--adapt`.

    Options without `--adapt`, or settings that the decision function does not have, are an InputError.
    """
    from cep_pipeline.adaptation.decisions import decision_function

    asked = given.model_dump(exclude_unset=True)
    if not adapt:
        if asked or every:
            option = f"--set {next(iter(asked))}" if asked else "--every"
            raise InputError(f"{option} says how plans follow the stream: it goes with --adapt")
        return {}
    settings: dict[str, Any] = {"minimum_gain": asked.pop("minimum_gain", None)}
    if every is not None:
        of_events = re.fullmatch(r"([1-9][0-9]{0,17}) +events?", every.strip())
        settings |= {"every_events": int(of_events[1])} if of_events else {"every": every}
    if "k" in asked:
        asked["k"] = given.most_invariants
    return {**settings, "decision": decision_function(asked.pop("decision", "invariant"), **asked)}
