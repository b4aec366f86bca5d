"""Expressions over two variables that rise or fall with one value of one of them, such as `b.price - a.price`.

For an event of the other variable the pairs with a result of at least `r` are those whose value is on one side of a
bound, which is found by bisection over the distinct values. So "some match has a result of at least r" is a comparison
of the value's number with a number of the other event, and the greatest result is found by asking so for some r.
Results are computed as the language computes them, rounding included: to round changes no order.
"""

from __future__ import annotations

import numpy as np

from cep_pipeline.expressions.columns import Array, ColumnSource
from cep_pipeline.expressions.evaluate import expression_values
from cep_pipeline.patterns.expressions import Arithmetic, Element, Expression, Negative, Reference, variables_of, walk

_SIGN = np.int64(2**63 - 1)


def moving_value(expression: Expression) -> Reference | None:
    """The value with which an expression over two variables rises or falls, whatever the other one is; None: none.

    Examples
    --------
    >>> from cep_pipeline.patterns.expressions import ValueType
    >>> a, b = (Reference(name, "x", Element.ONLY, ValueType.INT64) for name in "ab")
    >>> gain = Arithmetic("/", Arithmetic("-", b, a, ValueType.INT64), a, ValueType.FLOAT64)
    >>> moving_value(gain).variable
    'b'
    """
    names = variables_of(expression)
    if len(names) != 2:
        return None
    for reference in (node for node in walk(expression) if isinstance(node, Reference)):
        alone = sum(getattr(node, "variable", None) == reference.variable for node in walk(expression)) == 1
        if alone and reference.element is Element.ONLY and reference.type.is_number and _moves(expression, reference):
            return reference
    return None


def _moves(expression: Expression, reference: Reference) -> bool:
    if expression == reference:
        return True
    match expression:
        case Negative(operand):
            return _moves(operand, reference)
        case Arithmetic("+" | "-" | "*", left, right):
            return _moves(right if reference.variable in variables_of(right) else left, reference)
        case Arithmetic("/", left, _):
            return _moves(left, reference)
    return False


class Monotone:
    """The results of an expression for events of one variable and the distinct values of the other one.

    Parameters
    ----------
    moving
        The value with which the expression moves.
    other, rows
        The other variable, and its events, by their rows.
    values
        An event of each distinct value, ascending, by their rows; one at least.

    Attributes
    ----------
    known
        bool: the events of the other variable for which there is a result.
    is_plain
        Whether there is a finite result for each value or for none; otherwise nothing is asked.
    """

    def __init__(
        self, expression: Expression, moving: Reference, other: str, source: ColumnSource, rows: Array, values: Array
    ) -> None:
        self._expression, self._source = expression, source
        self._other, self._moving, self._rows, self._values = other, moving.variable, rows, values
        first, known = self._results(np.zeros(len(rows), np.int64))
        last, also = self._results(np.full(len(rows), len(values) - 1))
        self.known = known
        self.is_plain = bool(
            (known == also).all() and np.isfinite(first[known]).all() and np.isfinite(last[known]).all()
        )
        self._rises = last >= first
        ends = np.concatenate((first[known], last[known]))
        self.least, self.greatest = (0, -1) if not len(ends) else (_key(ends.min()), _key(ends.max()))
        self._type = first.dtype

    def _results(self, numbers: Array) -> tuple[Array, Array]:
        rows = {self._other: self._rows, self._moving: self._values[numbers]}
        column = expression_values(self._expression, self._source, rows)
        return column.values, np.ones(len(column), bool) if column.valid is None else np.asarray(column.valid)

    def result(self, key: int) -> int | float:
        """The result with a key: keys are whole numbers in the order of the results."""
        if self._type != np.float64:
            return key
        bits = np.array(key if key >= 0 else -key, np.int64)
        size = float(bits.view(np.float64))
        return size if key >= 0 else -size

    def bounds(self, key: int, *, greatest: bool) -> tuple[Array, Array]:
        """The values with which each event has a result at least, or at most, as large as that of a key.

        Returns
        -------
        up : Array
            bool: whether they are all from a value on, not all up to one.
        bound : Array
            int64: the number of that value, which may be one beyond all.
        """
        result, up = self.result(key), self._rises if greatest else ~self._rises
        low, high = np.zeros(len(self._rows), np.int64), np.full(len(self._rows), len(self._values))
        while (open_ := low < high).any():
            middle = (low + high) // 2
            found, _ = self._results(np.minimum(middle, len(self._values) - 1))
            holds = (found >= result if greatest else found <= result) == up
            high = np.where(open_ & holds, middle, high)
            low = np.where(open_ & ~holds, middle + 1, low)
        return up, np.where(up, low, low - 1)


def _key(result: int | float) -> int:
    if not isinstance(result, np.float64):
        return int(result)
    bits = int(np.abs(result).view(np.int64) & _SIGN)
    return bits if result >= 0 else -bits
