"""Tests that records are equal after encoding and decoding, also if the decoding version has other
fields. Unknown types are refused.
"""

from __future__ import annotations

import enum
import pickle
from collections import OrderedDict
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_runner_storage.journal.codec import RecordFormatError, RecordLayout, RecordRegistry


class Colour(enum.Enum):
    RED = "r"
    BLUE = "b"


@attrs.frozen
class Point:
    x: int
    y: Any = None


@attrs.define(eq=False)
class Box:
    _things: list[Any] = attrs.field(factory=list)
    named: dict[Any, Any] = attrs.field(factory=dict)


CLASSES: dict[str, type] = {"Point": Point, "Box": Box, "Colour": Colour, "int": int}


@attrs.frozen
class Only:
    pass


ONLY = Only()
REGISTRY = RecordRegistry({**CLASSES, "Only": Only}, (Box,), (ONLY,))

plain = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    st.text(),
    st.binary(),
    st.sampled_from(Colour),
    st.just(int),
)
values = st.recursive(
    plain,
    lambda inner: st.one_of(
        st.lists(inner).map(tuple),
        st.frozensets(plain),
        st.builds(Point, st.integers(0, 9), inner),
    ),
)


def there_and_back(
    value: Any, writer: RecordRegistry = REGISTRY, reader: RecordRegistry = REGISTRY
) -> Any:
    layout = RecordLayout.decode_layout(writer.layout.encoded)
    assert layout.digest == writer.layout.digest
    return reader.decode(writer.encode(value), layout)


@given(values)
def test_encoded_record_values_round_trip(value: Any) -> None:
    assert there_and_back(value) == value


@given(st.lists(values), st.dictionaries(plain, values))
def test_encoded_lists_and_dictionaries_round_trip_if_declared(
    things: list[Any], named: Any
) -> None:
    box = there_and_back(Box([things, (things,)], OrderedDict(named)))
    assert type(box.named) is OrderedDict
    assert (box._things, box.named) == ([things, (things,)], named)
    assert type(there_and_back(Box([], {1: [2]})).named) is dict


def test_shared_object_is_shared_after_decoding() -> None:
    inner = Box([1])
    one, other, box = there_and_back((inner, Box([1]), Box([inner, inner])))
    assert box._things[0] is box._things[1] is one
    assert one is not other


@pytest.mark.parametrize("value", [object(), {1, 2}, [Colour], 2**64, Point(1, object())])
def test_value_of_unregistered_type_is_not_encoded(value: Any) -> None:
    if isinstance(value, list):
        assert there_and_back(value) == (Colour,)
        return
    with pytest.raises((TypeError, OverflowError)):
        REGISTRY.encode(value)


def test_encoded_constant_is_decoded_to_same_object() -> None:
    assert there_and_back((ONLY, Point(1, ONLY)))[1].y is ONLY


@attrs.frozen
class PointWithMore:
    y: Any
    x: int
    z: str = "default"


@attrs.frozen
class PointThatNeedsMore:
    x: int
    y: Any
    z: str


@attrs.frozen
class PointWithLess:
    x: int


def test_record_fields_are_matched_by_name_and_new_fields_get_defaults() -> None:
    newer = RecordRegistry({"int": int, "Point": PointWithMore}, ())
    assert there_and_back(Point(1, "y"), reader=newer) == PointWithMore("y", 1, "default")


def test_removed_field_of_older_version_is_ignored() -> None:
    newer = RecordRegistry(
        {"int": int, "Point": PointWithLess}, (), removed={"Point": frozenset("y")}
    )
    assert there_and_back(Point(1, "y"), reader=newer) == PointWithLess(1)


@pytest.mark.parametrize(
    ("classes", "why"),
    [
        ({"Point": PointThatNeedsMore}, "missing 1 required positional argument: 'z'"),
        (
            {"Point": PointWithLess},
            "the record type Point has unknown fields: {'y'}; a newer version may have written it",
        ),
        ({"Place": Point}, "unknown record type Point; a newer version may have written it"),
    ],
)
def test_record_of_unknown_type_is_refused(classes: dict[str, type], why: str) -> None:
    with pytest.raises(RecordFormatError) as error:
        there_and_back(Point(1), reader=RecordRegistry(classes, ()))
    assert why in str(error.value)
    # Fields that aren't in the bytes don't matter.
    assert there_and_back(3, reader=RecordRegistry(classes, ())) == 3


def test_removed_enum_member_is_refused() -> None:
    class Less(enum.Enum):
        RED = "r"

    reader = RecordRegistry({"Colour": Less}, ())
    assert there_and_back(Colour.RED, reader=reader) is Less.RED
    with pytest.raises(RecordFormatError, match="BLUE"):
        there_and_back(Colour.BLUE, reader=reader)


@pytest.mark.parametrize("data", [b"", b"\xc1", pickle.dumps((1, 2)), b"\x81\x0f\x01", b"\x82"])
def test_malformed_record_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(RecordFormatError):
        REGISTRY.decode(data, REGISTRY.layout)
    with pytest.raises(RecordFormatError):
        RecordLayout.decode_layout(data)
