"""Conversion of input chunks to messages for an SDK, of about 1 MiB each.

A message contains only complete elements. Each message has the number of elements, because splits
refer to element indexes.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence

import attrs
from beam_runner_model.chunks import ElementChunk, FlushBarrier, GroupChunk, InputChunk, TimerChunk
from beam_runner_model.value_pieces import PIECE_BYTES

from beam_runner_worker.fnapi.chunking import EdgeCoder, skip_elements
from beam_runner_worker.fnapi.groups import encode_groups
from beam_runner_worker.fnapi.large_groups import LargeGroups

DataChunk = ElementChunk | GroupChunk | TimerChunk
_Piece = tuple[bytes | memoryview, int]


@attrs.frozen
class InputMessage:
    """Encoded elements of the input, with the number of elements."""

    data: bytes
    count: int


def split_at_flushes(inputs: Iterable[InputChunk]) -> Iterator[Iterator[DataChunk]]:
    """Yields one iterator over the input for each segment between two
    :class:`~beam_runner_model.chunks.FlushBarrier` chunks.

    The caller must exhaust a segment before it requests the next segment. Only the first segment
    may be empty, so that at least one segment exists.
    """
    rest = iter(inputs)

    def read_segment(begin: tuple[DataChunk, ...]) -> Iterator[DataChunk]:
        yield from begin
        for chunk in rest:
            if isinstance(chunk, FlushBarrier):
                return
            yield chunk

    yield read_segment(())
    for chunk in rest:
        if not isinstance(chunk, FlushBarrier):
            yield read_segment((chunk,))


def create_input_messages(
    chunks: Iterable[DataChunk], coder: EdgeCoder | None, large: LargeGroups | None = None
) -> Iterator[InputMessage | TimerChunk]:
    """Yields the input as messages of about 1 MiB and chunks of timers, in order.

    Small chunks are joined, and large chunks are split.

    Args:
        chunks: the input. The function reads only the chunks that the next message needs.
        coder: the coder of the input's elements; None if the input is groups.
        large: store for the values of large groups; None if the SDK can't read values as state.

    Raises:
        ValueError: A chunk has fewer elements than its header states, or a group is too large to
            send.
    """
    parts: list[bytes | memoryview] = []
    size = count = 0
    for chunk in chunks:
        if isinstance(chunk, TimerChunk):
            if parts:
                yield InputMessage(b"".join(parts), count)
                parts, size, count = [], 0, 0
            yield chunk
            continue
        for piece, elements in _encode_chunk(chunk, coder, large):
            parts.append(piece)
            size += len(piece)
            count += elements
            if size >= PIECE_BYTES:
                yield InputMessage(b"".join(parts), count)
                parts, size, count = [], 0, 0
    if parts:
        yield InputMessage(b"".join(parts), count)


def _encode_chunk(
    chunk: ElementChunk | GroupChunk, coder: EdgeCoder | None, large: LargeGroups | None
) -> Iterator[_Piece]:
    if isinstance(chunk, GroupChunk):
        yield from encode_groups(chunk, PIECE_BYTES, large)
    elif chunk.ends is not None:
        yield from _split_elements(chunk, chunk.ends)
    elif chunk.selected_count == chunk.count:
        yield chunk.data, chunk.count
    elif chunk.selected_count > 0:
        if coder is None:
            raise ValueError("the stage reads groups, but a chunk of elements arrived")
        data = bytes(chunk.data)
        begin = skip_elements(coder, data, 0, chunk.first)
        end = skip_elements(coder, data, begin, chunk.selected_count)
        yield data[begin:end], chunk.selected_count


def _split_elements(chunk: ElementChunk, ends: Sequence[int]) -> Iterator[_Piece]:
    """Yields the selected elements of a chunk. If the elements have more than 2 MiB in total, the
    function yields parts of about 1 MiB.
    """
    if chunk.selected_count <= 0:
        return
    data = memoryview(chunk.data)
    begin = ends[chunk.first - 1] if chunk.first else 0
    first, stop = chunk.first, chunk.first + chunk.selected_count
    if ends[stop - 1] - begin > 2 * PIECE_BYTES:
        while ends[stop - 1] - begin > PIECE_BYTES and first + 1 < stop:
            # Take all elements that fit into a part, but at least one element.
            cut = max(bisect_right(ends, begin + PIECE_BYTES, first, stop), first + 1)
            yield data[begin : ends[cut - 1]], cut - first
            begin, first = ends[cut - 1], cut
    yield data[begin : ends[stop - 1]], stop - first
