"""Steps that know elements by their fields: rows, grouped and selected, and data frames."""

from __future__ import annotations

import random
from typing import Any, Optional

import apache_beam as beam
import attrs
import numpy
import pyarrow as pa
from apache_beam.transforms import combiners
from apache_beam.typehints.row_type import RowTypeConstraint
from elements import Point
from typed import Collection, digits
from values import Kind, digest


def random_by_fields(rng: random.Random) -> dict[str, Any]:
    return {"by": rng.choice(["field", "fields", "function", "named", "tuple"]), "as": _rng(rng)}


def _rng(rng: random.Random) -> str:
    return rng.choice(["groups", "sums", "means"])


def by_fields(one: Collection, *, by: str, **how: str) -> Collection:
    """Groups rows by one or several of their fields."""
    rows = _rows(one)
    grouping: Any = {
        "field": lambda: beam.GroupBy("label"),
        "fields": lambda: beam.GroupBy("label", "x"),
        "function": lambda: beam.GroupBy(_parity),
        "named": lambda: beam.GroupBy("label", parity=_parity),
        "tuple": lambda: beam.GroupBy("x").force_tuple_keys(),
    }[by]()
    if how["as"] == "groups":
        grouped = rows.apply("GroupBy", grouping, "mixed")
        return grouped.map("Groups", _group, ("tuple", "str", ("bag", "int")))
    grouping = grouping.aggregate_field("y", sum, "total")
    if how["as"] == "means":
        grouping = grouping.aggregate_field(_tenfold, combiners.MeanCombineFn(), "mean")
        grouping = grouping.aggregate_field("y", combiners.CountCombineFn(), "count")
    return rows.apply("GroupBy", grouping, "mixed").map("Fields", _fields_of, "str")


def random_select(rng: random.Random) -> dict[str, Any]:
    return {"way": rng.choice(["names", "functions", "point", "nested"])}


def select(one: Collection, *, way: str) -> Collection:
    """Rows of other fields."""
    rows = _rows(one)
    if way == "point":
        return rows.map("Points", _point, "point")
    chosen = beam.Select("label", "x")
    if way == "functions":
        chosen = beam.Select(x="y", label=_label)
    if way == "nested":
        nested = rows.apply("Nested", beam.Select(inner=_inner, z="x"), "mixed")
        return nested.map("Fields", _fields_of, "str")
    return rows.apply("Select", chosen, "row")


def random_frame(rng: random.Random) -> dict[str, Any]:
    return {"way": rng.choice(["sums", "filter", "column"])}


def frame(one: Collection, *, way: str) -> Collection:
    """Makes a data frame of rows, which groups the rows or computes with its columns."""
    from apache_beam.dataframe.convert import to_dataframe, to_pcollection

    rows = _rows(one)
    made = to_dataframe(rows.pc, label=f"{one.label}/Frame")
    if way == "sums":
        result = made.groupby("label").sum()
        told = to_pcollection(result, include_indexes=True, label=f"{one.label}/Back")
    elif way == "filter":
        told = to_pcollection(made[made.x > 1], label=f"{one.label}/Back")
    else:
        made["x"] = made.x + made.y
        told = to_pcollection(made, label=f"{one.label}/Back")
    return attrs.evolve(rows, pc=told, kind="mixed").map("Fields", _numbers_of, "str")


def random_row_batches(rng: random.Random) -> dict[str, Any]:
    return {"way": rng.choice(["tables", "frames", "chain", "beside"])}


def row_batches(one: Collection, *, way: str) -> Collection:
    """Makes an Arrow table or a data frame of each element; the next steps read its rows."""
    make: beam.DoFn = NumbersToFrames() if way == "frames" else NumbersToTables()
    rows = digits(one, 50).apply("Batches", beam.ParDo(make), "mixed")
    if way in ("chain", "beside"):
        doubled = rows.apply("Double", beam.ParDo(DoubledTables()), "mixed")
        if way == "chain":
            return doubled.map("Fields", _fields_of, "str")
        both = (rows.pc, doubled.pc) | f"{one.label}/Both" >> beam.Flatten()
        rows = attrs.evolve(rows, pc=both)
    chosen = rows.apply("Select", beam.Select("label", size=_number_or_zero), "mixed")
    return chosen.map("Fields", _fields_of, "str")


# Beam's schemas don't know unions with None.
_MEASURED = RowTypeConstraint.from_fields(
    [
        ("number", Optional[numpy.int64]),  # noqa: UP045
        ("label", Optional[str]),  # noqa: UP045
        ("share", Optional[float]),  # noqa: UP045
    ]
)


class NumbersToTables(beam.DoFn):
    """Numbers become Arrow tables of three rows, in two chunks."""

    def get_input_batch_type(self, input_element_type: Any) -> Any:
        return None

    def get_output_batch_type(self, input_element_type: Any) -> Any:
        return pa.Table

    def infer_output_type(self, input_element_type: Any) -> Any:
        return _MEASURED

    @beam.DoFn.yields_batches
    def process(self, number: int) -> Any:
        first = pa.table(_columns([number, None], ["a", None], [number / 2, None]))
        yield pa.concat_tables([first, pa.table(_columns([-number], [""], [float("nan")]))])


class NumbersToFrames(NumbersToTables):
    """Numbers become data frames of three rows."""

    def get_output_batch_type(self, input_element_type: Any) -> Any:
        import pandas

        return pandas.DataFrame

    @beam.DoFn.yields_batches
    def process(self, number: int) -> Any:
        import pandas

        columns = _columns([number, None, -number], ["a", None, ""], [number / 2, None, 0.0])
        yield pandas.DataFrame(columns).astype({"number": "Int64", "label": "string"})


class DoubledTables(beam.DoFn):
    """Arrow tables with their rows twice."""

    def get_input_batch_type(self, input_element_type: Any) -> Any:
        return pa.Table

    def get_output_batch_type(self, input_element_type: Any) -> Any:
        return pa.Table

    def infer_output_type(self, input_element_type: Any) -> Any:
        return _MEASURED

    def process_batch(self, batch: Any) -> Any:
        yield pa.concat_tables([batch, batch])


def _columns(numbers: list[Any], labels: list[Any], shares: list[Any]) -> dict[str, Any]:
    return {"number": numbers, "label": labels, "share": shares}


def _number_or_zero(row: Any) -> int:
    return int(row.number or 0)


def _rows(one: Collection) -> Collection:
    made = beam.Map(_row, one.kind).with_output_types(
        RowTypeConstraint.from_fields([("x", int), ("y", int), ("label", str)])
    )
    return one.apply("Rows", made, "mixed")


def _row(element: Any, kind: Kind) -> beam.Row:
    number = digest(kind, element)
    return beam.Row(x=number % 3, y=number % 11, label="abc"[number % 2])


def _parity(row: Any) -> int:
    parity: int = row.y % 2
    return parity


def _tenfold(row: Any) -> int:
    tenfold: int = 10 * row.y
    return tenfold


def _label(row: Any) -> str:
    return f"{row.label}{row.x}"


def _inner(row: Any) -> beam.Row:
    return beam.Row(label=row.label, y=row.y)


def _point(row: Any) -> Point:
    return Point(row.x, row.label)


def _group(pair: Any) -> tuple[str, list[int]]:
    key, rows = pair
    return _key(key), [100 * row.x + row.y for row in rows]


def _key(key: Any) -> str:
    return str(tuple(key)) if isinstance(key, tuple) else _value(key)


def _value(value: Any) -> str:
    fields = getattr(value, "_fields", None) or getattr(value, "__dict__", None)
    return _fields_of(value) if fields else repr(value)


def _fields_of(row: Any) -> str:
    fields = row.as_dict() if isinstance(row, beam.Row) else row._asdict()
    return ", ".join(f"{name}={_value(value)}" for name, value in fields.items())


def _numbers_of(row: Any) -> str:
    fields = row.as_dict() if isinstance(row, beam.Row) else row._asdict()
    told = (
        f"{name}={value if isinstance(value, str) else int(value)}"
        for name, value in fields.items()
    )
    return ", ".join(told)
