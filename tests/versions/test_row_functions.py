"""Tests that this version of Beam has the functions and classes that the runner replaces for rows."""

from __future__ import annotations

import apache_beam as beam
import pytest
from apache_beam.transforms import combiners
from apache_beam.typehints import arrow_type_compatibility
from beam_runner_embedded import row_code
from beam_runner_embedded.row_code import MapValues, make_row_mapper
from beam_runner_embedded.tuple_combines import make_tuple_adder

ROWS = [beam.Row(store="a", amount=2), beam.Row(store="b", amount=3)]


class MapCollector:
    """A PCollection that collects the transforms that are applied to it."""

    element_type = object

    def __init__(self) -> None:
        self.transforms: list[beam.ParDo] = []

    def __or__(self, transform: beam.PTransform) -> MapCollector:
        self.transforms.append(getattr(transform, "transform", transform))
        return self


def make_generated_function(transform: beam.PTransform) -> MapValues | None:
    """Returns the generated function for the first Map of a transform."""
    collector = MapCollector()
    transform.expand(collector)
    (mapped,) = (cell.cell_contents for cell in collector.transforms[0].fn.process.__closure__)
    return make_row_mapper(mapped)


@pytest.mark.parametrize(
    ("transform", "expected"),
    [
        (beam.GroupBy("store"), [(row.store, row) for row in ROWS]),
        (beam.GroupBy("store", "amount"), [(("a", 2), ROWS[0]), (("b", 3), ROWS[1])]),
        (
            beam.GroupBy("store").aggregate_field("amount", sum, "total"),
            [(("a",), [2]), (("b",), [3])],
        ),
        (beam.Select("store"), [beam.Row(store="a"), beam.Row(store="b")]),
    ],
)
def test_function_of_rows_is_replaced(transform: beam.PTransform, expected: object) -> None:
    map_rows = make_generated_function(transform)
    assert map_rows is not None, "Beam's function has another code object"
    assert map_rows(ROWS) == expected


def test_every_function_of_rows_is_known() -> None:
    codes = ("_FIELD", "_KEY", "_KEY_TYPE", "_GROUPED", "_AGGREGATED", "_AGGREGATED_VALUES")
    assert None not in [getattr(row_code, name) for name in (*codes, "_SELECTED")]


def test_additions_of_a_tuple_combine_are_replaced() -> None:
    assert make_tuple_adder(combiners.TupleCombineFn(sum, combiners.MeanCombineFn())) is not None


def test_converter_of_tables_has_the_used_attribute() -> None:
    assert arrow_type_compatibility.PyarrowBatchConverter(
        beam.typehints.row_type.RowTypeConstraint.from_fields([("store", str)])
    )._arrow_schema.names == ["store"]
