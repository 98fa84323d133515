"""Encoder of groups as the windowed values of ``KV<K, Iterable<V>>`` that an SDK reads.

The parts of a group (timestamp, window, pane, key and values) are already encoded, and this module
joins them. For a large group, the SDK gets a token with which it reads the values as state.
"""

from __future__ import annotations

from collections.abc import Iterator

from beam_runner_model.chunks import GroupChunk
from beam_runner_model.lengths import encode_count
from beam_runner_model.value_pieces import GroupValues
from beam_runner_model.window_coders import encode_instant
from beam_runner_model.windowed_values import encode_windows_and_pane

from beam_runner_worker.fnapi.large_groups import LARGE_BYTES, LargeGroups, join_values

_MOST_BYTES = 1 << 30
"""Maximum size in bytes of the values in one message: half of the limit of protocol buffers."""


def encode_groups(
    chunk: GroupChunk, size_wanted: int, large: LargeGroups | None = None
) -> Iterator[tuple[bytes, int]]:
    """Encodes the groups of a chunk in order, in byte strings (pieces) of at least ``size_wanted``
    bytes. The last piece may be smaller.

    Values that the SDK reads as state count towards the size of a piece, so that the SDK gets only
    groups that it processes soon.

    Args:
        size_wanted: the minimum size of a piece in bytes.
        large: store for the values of large groups; None if the SDK can't read values as state.

    Raises:
        ValueError: The values of a group exceed the size limit of a message.

    Yields:
        The bytes of a piece, and the number of groups in the piece.
    """
    parts: list[bytes | memoryview] = []
    size = begin = 0
    same_window = isinstance(chunk.windows, bytes)
    header = (
        encode_windows_and_pane(chunk.windows, chunk.pane)
        if isinstance(chunk.windows, bytes)
        else b""
    )
    for row, (key, time, count, values) in enumerate(
        zip(chunk.keys, chunk.timestamps, chunk.counts, chunk.values, strict=True)
    ):
        if not same_window:
            header = encode_windows_and_pane(chunk.windows[row], chunk.pane)  # type: ignore[arg-type]
        parts += (encode_instant(time), header, key)
        if large is not None and len(values) > LARGE_BYTES:
            parts.append(large.add_group(values))
        else:
            parts += (encode_count(count), _join_sendable_values(values))
        size += len(header) + len(key) + len(values) + 12
        if size >= size_wanted:
            yield b"".join(parts), row + 1 - begin
            parts, size, begin = [], 0, row + 1
    if parts:
        yield b"".join(parts), len(chunk.keys) - begin


def _join_sendable_values(values: GroupValues) -> bytes | memoryview:
    if len(values) > _MOST_BYTES:
        raise ValueError(
            f"the values of a key take {len(values)} bytes; the maximum is"
            f" {_MOST_BYTES} for this SDK, which doesn't have the capability of"
            " state-backed iterables"
        )
    return join_values(values)
