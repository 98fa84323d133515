"""Additions to the accumulators of Beam's TupleCombineFn, which ``GroupBy.aggregate_field`` uses.

Beam calls several functions for each aggregation of each element. A generated loop adds to the
accumulators of the usual aggregations without calls, with the same operations in the same order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from apache_beam.transforms import combiners, core

from beam_runner_embedded.generated_code import compile_function

AddPairs = Callable[[dict[Any, list[Any]], list[Any], Callable[[Any, Any], list[Any]]], None]
"""Function that adds pairs to a table. Its arguments are the table, the pairs, and a function that
creates the entry of a key in the table.
"""
_CALLABLES = (core.CallableWrapperCombineFn, core.NoSideInputsCallableWrapperCombineFn)


def make_tuple_adder(fn: core.CombineFn) -> AddPairs | None:
    """Returns a function that adds the values of pairs as ``TupleCombineFn.add_input`` does; None if
    the CombineFn has another class.

    Values that aren't lists or tuples of the expected length pass through ``add_input``.
    """
    if type(fn) is not combiners.TupleCombineFn or not fn._combiners:
        return None
    parts = list(fn._combiners)
    count = len(parts)
    known: dict[str, Any] = {"add_input": fn.add_input}
    known |= {f"fn{place}": part for place, part in enumerate(parts)}
    values = "".join(f"value{place}, " for place in range(count))
    lines = [
        "def add_tuples(table, pairs, create_entry):",
        " get = table.get",
        " for pair in pairs:",
        "  key, value = pair",
        "  entry = get(key)",
        "  if entry is None:",
        "   entry = create_entry(table, key)",
        "  sums = entry[0]",
        "  kind = type(value)",
        f"  if (kind is not list and kind is not tuple) or len(value) != {count}"
        f" or len(sums) != {count}:",
        "   entry[0] = add_input(sums, value)",
        "   continue",
        f"  {values}= value",
    ]
    for place, part in enumerate(parts):
        lines += (f"  {line}" for line in _make_addition(part, place))
    return compile_function("add_tuples", lines, known)


def _make_addition(part: core.CombineFn, place: int) -> tuple[str, ...]:
    """Returns the lines that add a value to an accumulator within the list ``sums``."""
    if type(part) in _CALLABLES:
        return (
            f"waiting = sums[{place}]",
            f"waiting.append(value{place})",
            f"if len(waiting) > fn{place}._buffer_size:",
            f" sums[{place}] = [fn{place}._fn(waiting)]",
        )
    if type(part) is combiners.MeanCombineFn:
        return (
            f"total, count = sums[{place}]",
            f"sums[{place}] = (total + value{place}, count + 1)",
        )
    if type(part) is combiners.CountCombineFn:
        return (f"sums[{place}] = sums[{place}] + 1",)
    return (f"sums[{place}] = fn{place}.add_input(sums[{place}], value{place})",)
