"""Makes of input chunks the data messages for an SDK, about 1 MiB each.

A group becomes one windowed value of ``KV<K, Iterable<V>>``: its event time, its window, its pane,
the key, the number of values and the values, all of which are encoded already and only joined here.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator

from beam_runner_worker.fnapi.cutting import TIME_SHIFT
from beam_runner_worker.records import GroupChunk, InputChunk

MESSAGE_BYTES = 1 << 20
"""A message is closed when it holds at least as much; elements are never split over messages."""

_TIME = struct.Struct(">Q")
_COUNT = struct.Struct(">i")
_ONE_WINDOW = _COUNT.pack(1)


def data_messages(chunks: Iterable[InputChunk]) -> Iterator[bytes]:
    """The chunks' elements in order, joined or taken apart into messages of useful size."""
    parts: list[bytes | memoryview] = []
    size = 0
    for chunk in chunks:
        for piece in _pieces(chunk):
            parts.append(piece)
            size += len(piece)
            if size >= MESSAGE_BYTES:
                yield b"".join(parts)
                parts, size = [], 0
    if parts:
        yield b"".join(parts)


def _pieces(chunk: InputChunk) -> Iterator[bytes | memoryview]:
    if isinstance(chunk, GroupChunk):
        yield from encode_groups(chunk)
    elif chunk.ends is None or len(chunk.data) <= 2 * MESSAGE_BYTES:
        yield chunk.data
    else:
        yield from _split_elements(chunk.data, chunk.ends)


def _split_elements(data: bytes | memoryview, ends: Iterable[int]) -> Iterator[bytes | memoryview]:
    begin = last = 0
    for end in ends:
        if end - begin > MESSAGE_BYTES and last > begin:
            yield data[begin:last]
            begin = last
        last = end
    yield data[begin:last]


def encode_groups(chunk: GroupChunk) -> Iterator[bytes]:
    """The groups as windowed values of ``KV<K, Iterable<V>>``, in pieces of about 1 MiB."""
    parts: list[bytes | memoryview] = []
    size = 0
    same_window = isinstance(chunk.windows, bytes)
    header = _ONE_WINDOW + chunk.windows + chunk.pane if isinstance(chunk.windows, bytes) else b""
    for row, (key, time, count, values) in enumerate(
        zip(chunk.keys, chunk.timestamps, chunk.counts, chunk.values, strict=True)
    ):
        if not same_window:
            header = b"".join((_ONE_WINDOW, chunk.windows[row], chunk.pane))  # type: ignore[arg-type]
        parts += (_TIME.pack(time + TIME_SHIFT), header, key, _COUNT.pack(count), values)
        size += len(header) + len(key) + len(values) + 12
        if size >= MESSAGE_BYTES:
            yield b"".join(parts)
            parts, size = [], 0
    if parts:
        yield b"".join(parts)
