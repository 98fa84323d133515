"""Elements of `ReadFromKafka`, and the coder of these elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from apache_beam.coders import coder_impl, coders
from apache_beam.coders.typecoders import registry

APPEND_TIME = "LogAppendTime"
CREATE_TIME = "CreateTime"


class KafkaHeader(NamedTuple):
    """Header of a record.

    Attributes:
        name: the name; names can repeat.
        value: the value.
    """

    name: str
    value: bytes | None


class KafkaMessage(NamedTuple):
    """Record that `ReadFromKafka` emits.

    Attributes:
        topic: the topic.
        partition: the number of the partition.
        offset: the position in the partition.
        key: the key, if the record has one.
        value: the value; None is a tombstone.
        headers: the headers in order.
        timestamp: the time in milliseconds since 1970; None if the record has no time.
        timestamp_type: the meaning of the time: ``CreateTime``, ``LogAppendTime``, or empty.
    """

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[KafkaHeader]
    timestamp: int | None
    timestamp_type: str


class KafkaMessageCoder(coders.FastCoder):
    """Coder of `KafkaMessage`, as a tuple of its fields.

    Beam's `RowCoder` takes ten times as long.
    """

    def _create_impl(self) -> coder_impl.CoderImpl:
        return KafkaMessageCoderImpl(_FIELDS.get_impl())

    def is_deterministic(self) -> bool:
        """Returns True."""
        return True

    def to_type_hint(self) -> type:
        """Returns the type of the elements."""
        return KafkaMessage

    def __eq__(self, other: object) -> bool:
        """Returns whether the other object is a `KafkaMessageCoder`."""
        return isinstance(other, KafkaMessageCoder)

    def __hash__(self) -> int:
        """Returns the hash of the type."""
        return hash(KafkaMessageCoder)


class KafkaMessageCoderImpl(coder_impl.StreamCoderImpl):
    """Implementation of the coder."""

    def __init__(self, fields: coder_impl.CoderImpl) -> None:
        self._fields = fields

    def encode_to_stream(self, value: Any, stream: Any, nested: bool) -> None:
        """Writes a record."""
        self._fields.encode_to_stream(value, stream, True)

    def decode_from_stream(self, stream: Any, nested: bool) -> KafkaMessage:
        """Reads a record."""
        found = self._fields.decode_from_stream(stream, True)
        topic, partition, offset, key, value, headers, timestamp, kind = found
        named = [KafkaHeader._make(one) for one in headers]
        return KafkaMessage(topic, partition, offset, key, value, named, timestamp, kind)


_TEXT, _NUMBER = coders.StrUtf8Coder(), coders.VarIntCoder()
_BYTES, _TIME = coders.NullableCoder(coders.BytesCoder()), coders.NullableCoder(_NUMBER)
_HEADERS = coders.ListCoder(coders.TupleCoder([_TEXT, _BYTES]))
_FIELDS = coders.TupleCoder([_TEXT, _NUMBER, _NUMBER, _BYTES, _BYTES, _HEADERS, _TIME, _TEXT])
registry.register_coder(KafkaMessage, KafkaMessageCoder)
