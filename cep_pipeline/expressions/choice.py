"""`least`, `greatest` and `coalesce`: functions that give one of their arguments, vectorized.

Their columns are of equal length or of length 1 (a constant), as those of `arithmetic`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from cep_pipeline.expressions.columns import Array, Column
from cep_pipeline.patterns.expressions import ValueType


def coalesce(kind: ValueType, arguments: list[Column]) -> Column:
    """The first of the arguments that is not null."""
    return _folded(kind, arguments, lambda held, _: np.zeros(len(held), dtype=bool))


def extreme(kind: ValueType, arguments: list[Column], *, smaller: bool) -> Column:
    """The least or the greatest of the arguments that are not null; NaN where one of them is NaN."""
    return _folded(kind, arguments, partial(is_exceeded, smaller=smaller))


def is_exceeded(held: Array, new: Array, *, smaller: bool) -> Array:
    """Where a new value takes the place of the extreme one that is held: a NaN does, and gives it to none."""
    exceeded: Array = (new < held) if smaller else (new > held)
    if new.dtype.kind == "f":
        exceeded = (exceeded | np.isnan(new)) & ~np.isnan(held)
    return exceeded


def _folded(kind: ValueType, arguments: list[Column], replaces: Callable[[Array, Array], Array]) -> Column:
    """The first argument, in whose place each next one comes where it is null, and where the rule says."""
    count = next((len(argument) for argument in arguments if len(argument) != 1), 1)
    dictionary = None
    if kind is ValueType.STRING:
        arguments, dictionary = _of_one_dictionary(arguments)
    dtype = np.float64 if kind is ValueType.FLOAT64 else arguments[0].values.dtype
    held, some = np.zeros(count, dtype), np.zeros(count, dtype=bool)
    for argument in arguments:
        new = np.broadcast_to(argument.values.astype(dtype, copy=False), count)
        present = np.ones(count, dtype=bool) if argument.valid is None else np.broadcast_to(argument.valid, count)
        taken = present & (~some | replaces(held, new))
        held, some = np.where(taken, new, held), some | present
    return Column(kind, held, None if some.all() else some, dictionary)


def _of_one_dictionary(arguments: list[Column]) -> tuple[list[Column], Array]:
    """String columns with their ranks in one dictionary."""
    dictionaries = [argument.dictionary for argument in arguments if argument.dictionary is not None]
    dictionary = np.array(sorted({text for one in dictionaries for text in one}), dtype=object)
    columns = []
    for argument, own in zip(arguments, dictionaries, strict=True):
        ranks = np.searchsorted(dictionary, own).astype(np.int32)
        values = ranks[argument.values] if len(own) else np.zeros(len(argument), np.int32)
        columns.append(Column(ValueType.STRING, values, argument.valid, dictionary))
    return columns, dictionary


CHOICES: dict[str, Callable[[ValueType, list[Column]], Column]] = {
    "least": partial(extreme, smaller=True),
    "greatest": partial(extreme, smaller=False),
    "coalesce": coalesce,
}
"""The functions by the names that the language gives them."""
