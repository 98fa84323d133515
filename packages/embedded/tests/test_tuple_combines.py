"""Tests that generated additions leave the accumulators that Beam's TupleCombineFn leaves."""

from __future__ import annotations

import decimal
from collections.abc import Callable
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.transforms import combiners, core
from beam_runner_worker.errors import BundleError
from hypothesis import given
from hypothesis import strategies as st
from mini_runner import MiniRunner

from beam_runner_embedded.tuple_combines import make_tuple_adder


class OwnMean(combiners.MeanCombineFn):
    """A CombineFn of a user, which derives from Beam's."""

    def add_input(self, sum_count: Any, element: Any) -> Any:
        total, count = super().add_input(sum_count, element)
        return total, count + 10


class Remembering(beam.CombineFn):
    """A CombineFn with its own state and a mutable accumulator."""

    def __init__(self) -> None:
        self.calls = 0

    def create_accumulator(self) -> list[Any]:
        return []

    def add_input(self, accumulator: list[Any], element: Any) -> list[Any]:
        self.calls += 1
        accumulator.append((self.calls, element))
        return accumulator


MAKE: dict[str, Callable[[], Any]] = {
    "sum": lambda: sum,
    "max": lambda: max,
    "list": lambda: list,
    "small buffer": lambda: core.CallableWrapperCombineFn(sum, buffer_size=1),
    "no side inputs": lambda: core.NoSideInputsCallableWrapperCombineFn(min),
    "mean": combiners.MeanCombineFn,
    "count": combiners.CountCombineFn,
    "own": OwnMean,
    "remembering": Remembering,
    "any": lambda: any,
    "tuple": lambda: combiners.TopCombineFn(2),
}
values = st.one_of(
    *(st.integers(), st.just(2**62), st.just(2**70), st.floats(), st.booleans(), st.just(1.0)),
    *(st.decimals(allow_nan=False), st.fractions(), st.none(), st.text(max_size=2)),
)
keys = st.sampled_from(["a", 1, 1.0, True, (0,), None])


@st.composite
def combines(draw: st.DrawFn) -> tuple[list[str], list[tuple[Any, Any]]]:
    """Draws the names of CombineFns, and pairs whose values mostly fit."""
    chosen = draw(st.lists(st.sampled_from(sorted(MAKE)), min_size=1, max_size=4))
    size = len(chosen)
    numbers = st.one_of(st.integers(), st.floats(), st.just(2**70))
    fitting = st.lists(draw(st.sampled_from([values, numbers])), min_size=size, max_size=size)
    kinds = st.one_of(fitting, fitting.map(tuple), fitting.map(iter))
    odd = st.one_of(kinds, st.lists(numbers, max_size=size + 1), st.just("ab"))
    return chosen, draw(
        st.lists(st.tuples(keys, odd if draw(st.booleans()) else kinds), max_size=30)
    )


def add_all(chosen: list[str], pairs: list[Any], *, generated: bool) -> tuple[str, str]:
    """Returns the accumulators and the error after all additions."""
    fn = combiners.TupleCombineFn(*(MAKE[name]() for name in chosen))
    table: dict[Any, list[Any]] = {}

    def create_entry(table: dict[Any, list[Any]], key: Any) -> list[Any]:
        entry = table[key] = [fn.create_accumulator()]
        return entry

    add = make_tuple_adder(fn)
    assert add is not None
    error = ""
    try:
        if generated:
            add(table, pairs, create_entry)
        else:
            for key, value in pairs:
                entry = table.get(key) or create_entry(table, key)
                entry[0] = fn.add_input(entry[0], value)
    except Exception as raised:
        return "", type(raised).__name__
    return repr(table), error


@given(combines())
def test_accumulators_are_those_of_beam(drawn: Any) -> None:
    chosen, pairs = drawn
    copied = [
        (key, list(value) if hasattr(value, "__next__") else value, hasattr(value, "__next__"))
        for key, value in pairs
    ]

    def copy_pairs() -> list[Any]:
        return [(key, iter(value) if once else value) for key, value, once in copied]

    in_beam = add_all(chosen, copy_pairs(), generated=False)
    assert add_all(chosen, copy_pairs(), generated=True) == in_beam


def test_accumulator_is_compacted_like_that_of_beam() -> None:
    pairs = [("a", [n, n]) for n in range(100)]
    assert add_all(["sum", "list"], pairs, generated=True) == add_all(
        ["sum", "list"], pairs, generated=False
    )


class OwnTuple(combiners.TupleCombineFn):
    """A CombineFn of a user, which derives from Beam's."""


@pytest.mark.parametrize(
    "fn",
    [
        OwnTuple(sum),
        combiners.TupleCombineFn(),
        combiners.SingleInputTupleCombineFn(sum),
        combiners.MeanCombineFn(),
        core.CallableWrapperCombineFn(sum),
    ],
)
def test_other_combine_fn_is_not_replaced(fn: Any) -> None:
    assert make_tuple_adder(fn) is None


def test_failing_addition_names_its_element() -> None:
    pipeline = beam.Pipeline()
    numbers = pipeline | beam.Create([None]) | beam.FlatMap(lambda _: list(range(200)))
    rows = numbers | "rows" >> beam.Map(
        lambda n: beam.Row(store=n % 2, amount=None if n == 151 else decimal.Decimal(n))
    )
    grouping = beam.GroupBy("store").aggregate_field("amount", combiners.MeanCombineFn(), "mean")
    _ = rows | "Failing" >> grouping
    with pytest.raises(BundleError, match="NoneType") as failed:
        MiniRunner(pipeline).run()
    assert failed.value.element == "(Key(store=1), [None])"
