"""Comparison of row schemas: whether rows that one schema wrote can be read with another schema."""

from __future__ import annotations

from itertools import zip_longest

import attrs

from beam_runner_planner import _protos


@attrs.frozen
class SchemaChange:
    """Difference between two schemas.

    Attributes:
        before: the first field that differs, in the old schema; or "no field".
        after: the field in the new schema; or "no field".
        is_readable: whether the new schema reads all rows of the old schema.
    """

    before: str
    after: str
    is_readable: bool


_NO_FIELD = "no field"


def compare_schemas(old: bytes, new: bytes) -> SchemaChange | None:
    """Returns the difference between two serialized schemas; None if rows of both schemas have the
    same encoding.

    The ids of schemas are random, so they don't count. A row contains its number of fields, so a
    schema with additional nullable fields at the end can read older rows.
    """
    return _compare_rows(_protos.Schema.FromString(old), _protos.Schema.FromString(new))


def _compare_rows(old: _protos.Schema, new: _protos.Schema) -> SchemaChange | None:
    added: list[str] = []
    nested: list[SchemaChange] = []
    for before, after in zip_longest(
        _list_fields_with_positions(old), _list_fields_with_positions(new)
    ):
        if (
            before is None
            and after is not None
            and _is_optional_added_field(after, len(old.fields))
        ):
            added.append(_describe_field(after))
        elif before is None or after is None or not _is_compatible_field(before, after):
            change = _compare_row_fields(before, after)
            if change is None or not change.is_readable:
                return change or SchemaChange(
                    _describe_field(before), _describe_field(after), is_readable=False
                )
            nested.append(change)
    if added:
        return SchemaChange(_NO_FIELD, ", ".join(added), is_readable=True)
    return nested[0] if nested else None


def _is_optional_added_field(field: _protos.Field, known: int) -> bool:
    """Returns whether a field after the known fields has no value in older rows."""
    return bool(field.type.nullable) and field.encoding_position >= known


def _compare_row_fields(
    before: _protos.Field | None, after: _protos.Field | None
) -> SchemaChange | None:
    """Returns the difference between two fields that contain rows; None if the fields differ in
    other ways.
    """
    if before is None or after is None or not _has_same_position(before, after):
        return None
    both = (before.type, after.type)
    if before.type.nullable != after.type.nullable or any(
        one.WhichOneof("type_info") != "row_type" for one in both
    ):
        return None
    return _compare_rows(before.type.row_type.schema, after.type.row_type.schema)


def _list_fields_with_positions(schema: _protos.Schema) -> list[_protos.Field]:
    """Returns the fields of a schema with each field's position in the encoding.

    The order of the fields counts as well, because the bits for null values have this order.
    """
    if schema.encoding_positions_set:
        return list(schema.fields)
    fields = []
    for position, field in enumerate(schema.fields):
        copy = _protos.Field()
        copy.CopyFrom(field)
        copy.encoding_position = position
        fields.append(copy)
    return fields


def _has_same_position(before: _protos.Field, after: _protos.Field) -> bool:
    places = [(field.name, field.encoding_position) for field in (before, after)]
    return places[0] == places[1]


def _is_compatible_field(before: _protos.Field, after: _protos.Field) -> bool:
    return _has_same_position(before, after) and _get_type_content(
        before.type
    ) == _get_type_content(after.type)


def _get_type_content(field_type: _protos.FieldType) -> bytes:
    """Returns the content of a type without the ids of schemas."""
    copy = _protos.FieldType()
    copy.CopyFrom(field_type)
    _remove_ids(copy)
    content: bytes = copy.SerializeToString(deterministic=True)
    return content


def _remove_ids(field_type: _protos.FieldType) -> None:
    """Removes IDs and other properties that don't affect the encoding from a type and its component
    types.
    """
    match field_type.WhichOneof("type_info"):
        case "array_type":
            _remove_ids(field_type.array_type.element_type)
        case "iterable_type":
            _remove_ids(field_type.iterable_type.element_type)
        case "map_type":
            _remove_ids(field_type.map_type.key_type)
            _remove_ids(field_type.map_type.value_type)
        case "logical_type":
            # The argument of a logical type can contain a nested type, but no id.
            _remove_ids(field_type.logical_type.representation)
        case "row_type":
            schema = field_type.row_type.schema
            schema.ClearField("id")
            schema.ClearField("options")
            for field in schema.fields:
                for unused in ("id", "description", "options"):
                    field.ClearField(unused)
                _remove_ids(field.type)


def _describe_field(field: _protos.Field | None) -> str:
    if field is None:
        return _NO_FIELD
    nullable = "nullable " if field.type.nullable else ""
    return f"{field.name}: {nullable}{_describe_type(field.type)}"


def _describe_type(field_type: _protos.FieldType) -> str:
    match field_type.WhichOneof("type_info"):
        case "atomic_type":
            return str(_protos.AtomicType.Name(field_type.atomic_type)).lower()
        case "array_type":
            return f"array<{_describe_type(field_type.array_type.element_type)}>"
        case "iterable_type":
            return f"iterable<{_describe_type(field_type.iterable_type.element_type)}>"
        case "map_type":
            kinds = (field_type.map_type.key_type, field_type.map_type.value_type)
            return f"map<{', '.join(map(_describe_type, kinds))}>"
        case "logical_type":
            return str(field_type.logical_type.urn)
        case "row_type":
            names = ", ".join(map(_describe_field, field_type.row_type.schema.fields))
            return f"row<{names}>"
        case _:
            return "unknown type"
