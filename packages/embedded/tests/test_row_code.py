"""Tests that generated code for ``GroupBy`` and ``Select`` returns what Beam's functions return."""

from __future__ import annotations

from typing import Any

import apache_beam as beam
import pytest
from apache_beam.internal import pickler
from apache_beam.transforms import combiners, core
from beam_runner_worker.errors import BundleError
from hypothesis import given
from hypothesis import strategies as st
from mini_runner import MiniRunner

from beam_runner_embedded import row_code
from beam_runner_embedded.plain_dofns import _find_mapped_function
from beam_runner_embedded.row_code import make_row_mapper

FIELDS = ("store", "amount", "größe", "_private", "class", "x", "values", "Row", "call3")
ROWS = [
    beam.Row(**{name: make(n) for name, make in zip(FIELDS, (str, float, int) * 3, strict=True)})
    for n in range(3)
]


def count_characters(row: Any) -> int:
    return len(row.store)


expressions = st.one_of(
    st.sampled_from(FIELDS), st.sampled_from([count_characters, lambda row: (row.amount, None)])
)
names = st.sampled_from(["total", "größe", "best", "x"])


class MapCollector:
    """A PCollection that collects the transforms that are applied to it."""

    element_type = Any

    def __init__(self) -> None:
        self.transforms: list[Any] = []

    def __or__(self, transform: Any) -> MapCollector:
        self.transforms.append(getattr(transform, "transform", transform))
        return self


def find_mapped_function(transform: beam.PTransform) -> Any:
    """Returns the function of the first Map in a transform, as a worker unpickles it."""
    collector = MapCollector()
    transform.expand(collector)
    first = pickler.loads(pickler.dumps(collector.transforms[0].fn))
    mapped = _find_mapped_function(first.process)
    assert mapped is not None
    return mapped


def check_equal_results(transform: beam.PTransform) -> None:
    mapped = find_mapped_function(transform)
    map_rows = make_row_mapper(mapped)
    assert map_rows is not None
    expected = [mapped(row) for row in ROWS]
    results = map_rows(iter(ROWS))
    assert results == expected
    assert repr(results) == repr(expected)
    for result, other in zip(results, expected, strict=True):
        assert type(result) is type(other)
        assert [type(part) for part in result] == [type(part) for part in other]


@pytest.mark.parametrize(
    "name",
    ["_FIELD", "_KEY", "_KEY_TYPE", "_GROUPED", "_AGGREGATED", "_AGGREGATED_VALUES", "_SELECTED"],
)
def test_function_of_this_beam_version_is_known(name: str) -> None:
    assert getattr(row_code, name) is not None, f"Beam's lambda for {name} has other variables"


@pytest.mark.parametrize(
    "transform",
    [
        beam.GroupBy("store"),
        beam.GroupBy("store", "amount"),
        beam.GroupBy("store").force_tuple_keys(),
        beam.GroupBy(size=count_characters),
        beam.GroupBy("store").aggregate_field("amount", sum, "total"),
        beam.Select("store", size=count_characters),
    ],
)
def test_function_of_rows_is_recognized_in_this_beam_version(transform: beam.PTransform) -> None:
    check_equal_results(transform)


@given(
    st.lists(expressions, min_size=1, max_size=3),
    st.dictionaries(names, expressions),
    st.booleans(),
)
def test_groups_have_the_keys_of_beam(fields: Any, named: Any, forced: bool) -> None:
    grouping = beam.GroupBy(*fields, **named)
    if _has_valid_names(grouping):
        check_equal_results(grouping.force_tuple_keys() if forced else grouping)


@given(
    st.lists(expressions, min_size=1, max_size=2),
    st.lists(st.tuples(expressions, st.sampled_from([sum, combiners.MeanCombineFn()])), min_size=1),
)
def test_aggregations_have_the_pairs_of_beam(fields: Any, aggregations: Any) -> None:
    grouping = beam.GroupBy(*fields)
    if not _has_valid_names(grouping):
        return
    for place, (field, fn) in enumerate(aggregations):
        grouping = grouping.aggregate_field(field, fn, f"result{place}")
    check_equal_results(grouping)


def _has_valid_names(grouping: beam.GroupBy) -> bool:
    """Returns True if a named tuple can have the names of the key's fields."""
    found = [name for name, _ in grouping._key_fields]
    return len(set(found)) == len(found) and not {"class", "_private"} & set(found)


@given(
    st.lists(
        expressions.filter(lambda each: each not in ("class", "größe")), max_size=3, unique=True
    )
)
def test_selected_rows_are_those_of_beam(fields: Any) -> None:
    check_equal_results(beam.Select(*fields, best="amount", length=count_characters))


@pytest.mark.parametrize("fields", [("class",), ("größe",), ("store", "store")])
def test_row_with_a_name_that_code_cannot_contain_is_made_by_beam(fields: Any) -> None:
    assert make_row_mapper(find_mapped_function(beam.Select(*fields))) is None


@pytest.mark.parametrize(
    "function", [lambda x: (x, x), len, count_characters, beam.Row, core.GroupBy("store").expand]
)
def test_other_function_is_not_replaced(function: Any) -> None:
    assert make_row_mapper(function) is None


@pytest.mark.parametrize(
    "transform",
    [
        beam.GroupBy("store", "missing"),
        beam.GroupBy("store").aggregate_field("missing", sum, "total"),
        beam.Select("store", "missing"),
    ],
)
def test_row_without_a_field_is_named_in_error(transform: beam.PTransform) -> None:
    pipeline = beam.Pipeline()
    numbers = pipeline | beam.Create([None]) | beam.FlatMap(lambda _: list(range(200)))
    rows = numbers | "rows" >> beam.Map(
        lambda n: beam.Row(store=n) if n == 150 else beam.Row(store=n, missing=n)
    )
    _ = rows | "Failing" >> transform
    with pytest.raises(BundleError, match="missing") as failed:
        MiniRunner(pipeline).run()
    assert failed.value.element == "Row(store=150)"
    assert failed.value.transform.startswith("Failing/")
