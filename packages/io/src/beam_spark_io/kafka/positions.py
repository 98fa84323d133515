"""Start and stop positions of a read, and the conversion of these positions to offsets of a
partition.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TypeAlias

import attrs

from beam_spark_io.kafka.ports import Connection, OffsetBounds

EARLIEST = "earliest"
LATEST = "latest"
COMMITTED = "committed"
_TIME = "time"
_OFFSETS = "offsets"
KafkaOffsets: TypeAlias = Mapping[tuple[str, int], int]
"""Offsets by topic and partition."""


@attrs.frozen
class KafkaPosition:
    """Start or stop position of a read, for all partitions.

    Attributes:
        kind: ``earliest``, ``latest``, ``committed``, ``time`` or ``offsets``.
        time: milliseconds since 1970, for a time.
        offsets: offsets by topic and partition.
        default: the kind for partitions without an offset.
    """

    kind: str
    time: int = 0
    offsets: KafkaOffsets = attrs.field(factory=dict)
    default: str = EARLIEST


def make_position(
    name: str, value: str | datetime | KafkaOffsets, kinds: tuple[str, ...], default: str
) -> KafkaPosition:
    """Parses an argument of the transform.

    Args:
        name: the argument, for messages.
        value: one of the kinds, a time with a time zone, or offsets by topic and partition.
        kinds: the names that the argument accepts.
        default: the kind for partitions without an offset.

    Raises:
        ValueError: The value is no position.
    """
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise ValueError(f"{name} is {value!r}; expected a datetime with a time zone")
        return KafkaPosition(_TIME, time=round(1000 * value.timestamp()), default=default)
    if isinstance(value, Mapping):
        for key, offset in value.items():
            if not (isinstance(key, tuple) and len(key) == 2 and isinstance(offset, int)):
                raise ValueError(
                    f"{name} has {key!r}: {offset!r}; expected (topic, partition): offset"
                )
        return KafkaPosition(_OFFSETS, offsets=dict(value), default=default)
    if value not in kinds:
        raise ValueError(
            f"{name} is {value!r}; expected {', '.join(map(repr, kinds))}, a datetime, or offsets"
            " by topic and partition"
        )
    return KafkaPosition(value, default=default)


def find_offset(connection: Connection, position: KafkaPosition, topic: str, partition: int) -> int:
    """Returns the offset of a position in a partition.

    A time after the last record means the end. A partition without a committed or given offset has
    the default of the position.

    Raises:
        BrokersUnavailable: The brokers don't answer.
        KafkaReadError: The brokers refuse the request.
    """
    found: int | None = None
    kind = position.kind
    if kind == COMMITTED:
        found = connection.find_committed_offset(topic, partition)
    elif kind == _OFFSETS:
        found = position.offsets.get((topic, partition))
    elif kind == _TIME:
        found = connection.find_offset_at(topic, partition, position.time)
        kind = LATEST
    if found is not None:
        return found
    bounds: OffsetBounds = connection.find_bounds(topic, partition)
    latest = kind == LATEST or (kind != EARLIEST and position.default == LATEST)
    return bounds.end if latest else bounds.low
