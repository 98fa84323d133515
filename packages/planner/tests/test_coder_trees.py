"""Tests of the comparison of coders and row schemas."""

from __future__ import annotations

from typing import Any

import pytest
from apache_beam.coders import RowCoder
from beam_runner_urns import coders as coder_urns
from update_samples import Order, OrderWithNote

from beam_runner_planner import _protos
from beam_runner_planner.updates.coders import CoderTree, build_coder_tree, compare_coders

VARINT = CoderTree("beam:coder:varint:v1", b"")
BYTES = CoderTree("beam:coder:bytes:v1", b"")
STRING, INT64 = _protos.AtomicType.Value("STRING"), _protos.AtomicType.Value("INT64")


def kv(key: CoderTree, value: CoderTree) -> CoderTree:
    return CoderTree(coder_urns.KV, b"", (key, value))


def field(name: str, kind: int = STRING, nullable: bool = False, position: int = 0) -> Any:
    field_type = _protos.FieldType(atomic_type=kind, nullable=nullable)
    return _protos.Field(name=name, type=field_type, encoding_position=position)


def row(*fields: Any, schema_id: str = "", positions: bool = False) -> CoderTree:
    schema = _protos.Schema(fields=fields, id=schema_id, encoding_positions_set=positions)
    return CoderTree(coder_urns.ROW, schema.SerializeToString())


def nested(*fields: Any, schema_id: str = "", nullable: bool = False) -> Any:
    schema = _protos.Schema(fields=fields, id=schema_id)
    field_type = _protos.FieldType(nullable=nullable)
    field_type.row_type.schema.CopyFrom(schema)
    return _protos.Field(name="inner", type=field_type)


def test_coder_trees_with_other_coder_ids_are_equal() -> None:
    def tree(prefix: str) -> CoderTree:
        coders = {
            f"{prefix}1": _protos.Coder(spec=_protos.FunctionSpec(urn=VARINT.urn)),
            f"{prefix}2": _protos.Coder(
                spec=_protos.FunctionSpec(urn=coder_urns.KV),
                component_coder_ids=[f"{prefix}1", f"{prefix}1"],
            ),
        }
        return build_coder_tree(f"{prefix}2", coders)

    assert tree("a") == tree("b") == kv(VARINT, VARINT)


def test_coder_tree_of_a_coder_that_contains_itself_ends() -> None:
    coder = _protos.Coder(
        spec=_protos.FunctionSpec(urn=coder_urns.ITERABLE), component_coder_ids=["a"]
    )
    assert build_coder_tree("a", {"a": coder}).parts[0].parts == ()


def test_coder_change_names_the_component_that_differs() -> None:
    change = compare_coders(kv(BYTES, kv(BYTES, VARINT)), kv(BYTES, kv(BYTES, BYTES)))
    assert change is not None
    assert (change.before, change.after, change.is_readable) == ("varint", "bytes", False)
    assert str(kv(BYTES, VARINT)) == "kv<bytes, varint>"


def test_coders_with_different_payloads_differ() -> None:
    pickled = [CoderTree("beam:coder:pickled_python:v1", payload) for payload in (b"1", b"2")]
    assert compare_coders(pickled[0], pickled[0]) is None
    assert compare_coders(*pickled) is not None


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (row(field("a"), schema_id="1"), row(field("a"), schema_id="2")),
        (
            row(nested(field("a"), schema_id="1")),
            row(nested(field("a"), schema_id="2")),
        ),
        (
            row(field("a", position=0), field("b", position=1), positions=True),
            row(field("a"), field("b")),
        ),
    ],
    ids=["ids", "ids-of-nested-rows", "positions"],
)
def test_row_coders_with_equal_encodings_are_equal(old: CoderTree, new: CoderTree) -> None:
    assert compare_coders(old, new) is None


@pytest.mark.parametrize(
    ("old", "new", "added"),
    [
        (row(field("a")), row(field("a"), field("b", nullable=True)), "b: nullable string"),
        (
            row(nested(field("a"))),
            row(nested(field("a"), field("b", INT64, nullable=True))),
            "b: nullable int64",
        ),
        (
            row(field("a")),
            row(
                field("a", position=0),
                field("b", nullable=True, position=1),
                positions=True,
            ),
            "b: nullable string",
        ),
    ],
    ids=["at-the-end", "in-a-nested-row", "at-the-end-of-the-encoding"],
)
def test_row_coder_with_added_nullable_fields_can_read_older_rows(
    old: CoderTree, new: CoderTree, added: str
) -> None:
    change = compare_coders(old, new)
    assert change is not None and change.is_readable
    assert change.after == added


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (row(field("a")), row(field("b", nullable=True), field("a"))),
        (
            row(field("a")),
            row(field("b", nullable=True, position=1), field("a", position=0), positions=True),
        ),
        (
            row(field("a", position=1), field("b", position=0), positions=True),
            row(field("b"), field("a")),
        ),
        (row(field("a")), row(field("a"), field("b"))),
        (row(field("a"), field("b")), row(field("a"))),
        (row(field("a")), row(field("b"))),
        (row(field("a")), row(field("a", INT64))),
        (row(field("a")), row(field("a", nullable=True))),
        (row(nested(field("a"))), row(nested(field("a"), field("b")))),
        (row(nested(field("a"))), row(nested(field("a"), nullable=True))),
    ],
    ids=[
        "nullable-in-front",
        "nullable-in-front-with-null-bits-in-front",
        "other-order-of-null-bits",
        "required-at-the-end",
        "removed",
        "renamed",
        "type",
        "nullability",
        "required-in-a-nested-row",
        "nullability-of-a-nested-row",
    ],
)
def test_row_coder_with_other_changes_cannot_read_older_rows(
    old: CoderTree, new: CoderTree
) -> None:
    change = compare_coders(old, new)
    assert change is not None and not change.is_readable


def test_coder_comparison_reports_an_unreadable_change_before_a_readable_change() -> None:
    added = row(field("a"), field("b", nullable=True))
    change = compare_coders(kv(row(field("a")), VARINT), kv(added, BYTES))
    assert change is not None and not change.is_readable


def test_row_coder_with_a_damaged_schema_cannot_read_older_rows() -> None:
    change = compare_coders(row(field("a")), CoderTree(coder_urns.ROW, b"\xff"))
    assert change is not None and not change.is_readable


def test_beam_reads_older_rows_that_the_comparison_calls_readable() -> None:
    old, new = RowCoder.from_type_hint(Order, None), RowCoder.from_type_hint(OrderWithNote, None)
    trees = [CoderTree(coder_urns.ROW, one.schema.SerializeToString()) for one in (old, new)]
    change = compare_coders(*trees)
    assert change is not None and change.is_readable
    assert new.decode(old.encode(Order("pen", 5))) == OrderWithNote("pen", 5, None)
