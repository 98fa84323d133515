"""Splitting of encoded windowed values into elements.

The module ``beam_runner_model.windowed_values`` describes the layout. Elements without a window are
dropped. The loops avoid function calls for speed, because every output byte of an SDK passes
through them.
"""

from __future__ import annotations

import abc
from collections.abc import Iterator, Mapping

import attrs
from beam_runner_model.chunks import ElementChunk, OutputChunk
from beam_runner_model.lengths import Skip
from beam_runner_model.panes import skip_pane
from beam_runner_model.windowed_values import (
    TIME_BYTES,
    HeaderReader,
    compute_hold_time,
    find_earliest_event_time_in,
    skip_windows,
)
from beam_runner_urns import coders as urns

from beam_runner_worker._protos import beam_runner_api_pb2
from beam_runner_worker.fnapi.skipping import UnknownCoder, compile_skip_function

CHUNK_BYTES = 2 << 20


@attrs.frozen
class EdgeCoder:
    """Layout of the encoded windowed values of one input or output edge.

    Attributes:
        element: function that skips one encoded element.
        window: function that skips one encoded window.
        key: function that skips the key of a key-value pair; None for other elements.
        value: function that skips the value of a key-value pair; None for other elements.
    """

    element: Skip
    window: Skip
    key: Skip | None
    value: Skip | None


def compile_edge_coder(
    coder_id: str, coders: Mapping[str, beam_runner_api_pb2.Coder], where: str
) -> EdgeCoder:
    """Compiles the windowed coder of an edge into functions that find the ends of encoded parts.

    Args:
        coders: all coders of the descriptor.
        where: id of the edge's transform, for error messages.

    Raises:
        UnknownCoder: This coder doesn't show where an encoded element ends. The message names
            the transform and the URN.
    """
    coder = coders[coder_id]
    if coder.spec.urn != urns.WINDOWED_VALUE:
        raise UnknownCoder(
            f"the edge {where!r} has the coder {coder.spec.urn!r}; expected {urns.WINDOWED_VALUE!r}"
        )
    element_id, window_id = coder.component_coder_ids
    element = coders[element_id]
    try:
        window = compile_skip_function(window_id, coders)
        skip = compile_skip_function(element_id, coders)
        if element.spec.urn != urns.KV:
            return EdgeCoder(skip, window, None, None)
        key, value = (compile_skip_function(each, coders) for each in element.component_coder_ids)
        return EdgeCoder(skip, window, key, value)
    except UnknownCoder as error:
        raise UnknownCoder(
            f"Can't split the data of edge {where!r} into elements: {error}"
        ) from None


def skip_elements(coder: EdgeCoder, data: bytes, position: int, count: int) -> int:
    """Returns the position after ``count`` elements that begin at ``position``.

    Raises:
        ValueError: the data has fewer elements.
    """
    header = b""
    try:
        for _ in range(count):
            begin = position + TIME_BYTES
            if not header or not data.startswith(header, begin):
                header = data[begin : skip_pane(data, skip_windows(data, begin, coder.window))]
            position = coder.element(data, begin + len(header))
    except IndexError:
        position = len(data) + 1
    if position > len(data):
        raise ValueError(f"a chunk of {len(data)} bytes has fewer elements than its header states")
    return position


class Chunker(abc.ABC):
    """Splitter of an output's data stream into chunks of complete elements. The splitter buffers an
    incomplete last element.
    """

    def __init__(self, coder: EdgeCoder) -> None:
        self._coder = coder
        self._rest = b""
        self._headers = HeaderReader(coder.window)

    @property
    def incomplete_bytes(self) -> int:
        """Number of buffered bytes of an incomplete element; 0 if all elements are complete."""
        return len(self._rest)

    def split_chunks(self, data: bytes) -> Iterator[OutputChunk]:
        """Yields the chunks of about 2 MiB that ``data`` completes, in order.

        The caller must exhaust the iterator before the next call.
        """
        if self._rest:
            data = self._rest + data
        position, size = 0, len(data)
        while position < size:
            end, chunk = self._split_elements(data, position, min(size, position + CHUNK_BYTES))
            if end == position:
                break
            position = end
            if chunk is not None:
                yield chunk
        self._rest = data[position:]

    @abc.abstractmethod
    def _split_elements(self, data: bytes, start: int, stop: int) -> tuple[int, OutputChunk | None]:
        """Splits the data of all complete elements that begin in ``[start, stop)``.

        Returns:
            The position after these elements, and a chunk of the elements that have windows; None
            if no element has a window.
        """


class ElementChunker(Chunker):
    """Splitter into chunks of encoded elements, optionally with their earliest timestamp."""

    def __init__(self, coder: EdgeCoder, *, min_timestamp: bool) -> None:
        super().__init__(coder)
        self._wants_time = min_timestamp

    def _split_elements(self, data: bytes, start: int, stop: int) -> tuple[int, OutputChunk | None]:
        ends: list[int] = []
        append = ends.append
        skip = self._coder.element
        headers, size = self._headers, len(data)
        known, header_size = headers.known, headers.size
        position = start
        left_out: list[tuple[int, int]] = []
        seen: set[bytes] = set()
        timed, last = self._wants_time, None
        try:
            while position < stop:
                header = position + TIME_BYTES
                windows = known.get(data[header : header + header_size])
                if windows is None:
                    windows = headers.read(data, header)
                    header_size = headers.size
                    if not windows:
                        end = skip(data, header + header_size)
                        if end > size:
                            break
                        left_out.append((position, end))
                        position = end
                        continue
                end = skip(data, header + header_size)
                if end > size:
                    break
                if timed and windows is not last:
                    seen.update(windows)
                    last = windows
                append(end)
                position = end
        except IndexError:
            pass  # The data ends within an element. Its beginning is buffered until more data arrives.
        if not ends:
            return position, None
        if left_out:
            return position, self._create_chunk(
                seen, *_remove_ranges(left_out, data, start, position, ends)
            )
        relative = ends if start == 0 else [end - start for end in ends]
        return position, self._create_chunk(seen, data[start:position], relative)

    def _create_chunk(self, windows: set[bytes], data: bytes, ends: list[int]) -> ElementChunk:
        time = (
            compute_hold_time(find_earliest_event_time_in(data, ends), windows)
            if self._wants_time
            else None
        )
        return ElementChunk(len(ends), data, ends, time)


def _remove_ranges(
    left_out: list[tuple[int, int]], data: bytes, start: int, stop: int, ends: list[int]
) -> tuple[bytes, list[int]]:
    """Returns the data from ``start`` to ``stop`` without the dropped elements, and the end positions
    of the remaining elements.
    """
    pieces: list[bytes] = []
    moved: list[int] = []
    position, by = start, start
    for begin, end in (*left_out, (stop, stop)):
        pieces.append(data[position:begin])
        while len(moved) < len(ends) and ends[len(moved)] <= begin:
            moved.append(ends[len(moved)] - by)
        position = end
        by += end - begin
    return b"".join(pieces), moved
