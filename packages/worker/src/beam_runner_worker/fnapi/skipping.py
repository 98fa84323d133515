"""Compiles a coder into a function that finds where an encoded value ends, without decoding it.

Only coders of the model can be walked: their bytes are the same in every SDK. All values are in
Beam's *nested* context, as they are on the data and state channels.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping

from beam_runner_urns import coders as urns

from beam_runner_worker._protos import beam_runner_api_pb2

Skip = Callable[[bytes, int], int]
"""Takes data and the position of a value and gives the position after it.

A value that is cut off by the end of the data raises IndexError or gives a position beyond it.
"""

_COUNT = struct.Struct(">i")
_DELIMITED_URNS = frozenset({urns.LENGTH_PREFIX, urns.BYTES, urns.STRING_UTF8})
_TIMESTAMP_BYTES = 8


class UnknownCoder(ValueError):
    """A coder whose encoded values have no end that this runner could find; names its URN."""


def is_delimited(coder: beam_runner_api_pb2.Coder) -> bool:
    """Whether the coder's values are a variable-length integer and so many bytes."""
    return coder.spec.urn in _DELIMITED_URNS


def compile_skip(coder_id: str, coders: Mapping[str, beam_runner_api_pb2.Coder]) -> Skip:
    """The skip function of a coder among ``coders``.

    Raises:
        UnknownCoder: the coder, or one inside it, is not of a shape that can be skipped.
    """
    if coder_id not in coders:
        raise UnknownCoder(f"the coder {coder_id!r} is missing from the descriptor")
    coder = coders[coder_id]
    urn = coder.spec.urn
    if urn in _LEAVES:
        return _LEAVES[urn]
    if urn not in _COMPOSITES:
        raise UnknownCoder(f"the coder {urn!r} gives no sign where a value ends")
    return _COMPOSITES[urn]([compile_skip(each, coders) for each in coder.component_coder_ids])


def skip_delimited(data: bytes, position: int) -> int:
    """Skips a variable-length integer and as many bytes as it says."""
    length = data[position]
    if length < 0x80:
        return position + 1 + length
    length &= 0x7F
    shift = 7
    while True:
        position += 1
        byte = data[position]
        length |= (byte & 0x7F) << shift
        if byte < 0x80:
            return position + 1 + length
        shift += 7


def skip_varint(data: bytes, position: int) -> int:
    """Skips a variable-length integer."""
    while data[position] >= 0x80:
        position += 1
    return position + 1


def skip_pane(data: bytes, position: int) -> int:
    """Skips a pane: a byte whose high half says how many indices follow (none, one or two)."""
    indices = data[position] >> 4
    position += 1
    for _ in range(indices):
        position = skip_varint(data, position)
    return position


def read_varint(data: bytes, position: int) -> tuple[int, int]:
    """A variable-length integer (as unsigned 64 bits) and the position after it."""
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7


def write_varint(value: int) -> bytes:
    """A variable-length integer of 64 bits, the encoding of negative ones as in two's complement."""
    value &= (1 << 64) - 1
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def read_count(data: bytes, position: int) -> int:
    """A signed 32-bit big-endian integer.

    Raises:
        IndexError: the data ends before it.
    """
    if position + _COUNT.size > len(data):
        raise IndexError("the data ends within a count")
    count: int = _COUNT.unpack_from(data, position)[0]
    return count


def _fixed(size: int) -> Skip:
    return lambda data, position: position + size


def _skip_interval_window(data: bytes, position: int) -> int:
    """End (8 bytes) and length (a variable-length integer)."""
    return skip_varint(data, position + _TIMESTAMP_BYTES)


def _skip_timestamp_prefixed(parts: list[Skip]) -> Skip:
    """A window of an SDK's own: its last moment (8 bytes), then its own encoding."""
    (inner,) = parts
    return lambda data, position: inner(data, position + _TIMESTAMP_BYTES)


def _skip_sequence(parts: list[Skip]) -> Skip:
    if len(parts) == 2:
        first, second = parts
        return lambda data, position: second(data, first(data, position))

    def skip(data: bytes, position: int) -> int:
        for part in parts:
            position = part(data, position)
        return position

    return skip


def _skip_nullable(parts: list[Skip]) -> Skip:
    (inner,) = parts
    return lambda data, position: inner(data, position + 1) if data[position] else position + 1


def _skip_sharded_key(parts: list[Skip]) -> Skip:
    (key,) = parts
    return lambda data, position: key(data, skip_delimited(data, position))


def _skip_iterable(parts: list[Skip]) -> Skip:
    """A count and the items; or -1 and counted batches until an empty one.

    A batch count of -1 instead stands for a token, by which the rest is read as state.
    """
    (item,) = parts

    def skip(data: bytes, position: int) -> int:
        count = read_count(data, position)
        position += _COUNT.size
        if count >= 0:
            for _ in range(count):
                position = item(data, position)
            return position
        while True:
            count, position = read_varint(data, position)
            if count == 0:
                return position
            if count >= 1 << 63:
                return skip_delimited(data, position)
            for _ in range(count):
                position = item(data, position)

    return skip


_LEAVES: dict[str, Skip] = {
    **dict.fromkeys(_DELIMITED_URNS, skip_delimited),
    urns.BOOL: _fixed(1),
    urns.VARINT: skip_varint,
    urns.DOUBLE: _fixed(8),
    urns.GLOBAL_WINDOW: _fixed(0),
    urns.INTERVAL_WINDOW: _skip_interval_window,
}

_COMPOSITES: dict[str, Callable[[list[Skip]], Skip]] = {
    urns.KV: _skip_sequence,
    urns.ITERABLE: _skip_iterable,
    urns.STATE_BACKED_ITERABLE: _skip_iterable,
    urns.NULLABLE: _skip_nullable,
    urns.SHARDED_KEY: _skip_sharded_key,
    urns.CUSTOM_WINDOW: _skip_timestamp_prefixed,
}
