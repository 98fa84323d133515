"""Cuts a stream of encoded windowed values into elements, or into keys, values and windows.

A windowed value is encoded as its event time (8 bytes, big endian, milliseconds shifted so that
the order of bytes is the order of times), the number of its windows (4 bytes) and the windows, the
pane, and the element. Elements that follow each other mostly share windows and pane, so what was
parsed once is looked up by its bytes; such bytes end where they say they end, so equal bytes at
the same place mean the same thing.

The loops are written out for speed: this is the hot path of a harness over the Fn API.
"""

from __future__ import annotations

import abc
import struct
from collections.abc import Iterator, Mapping
from itertools import accumulate

import attrs
from beam_runner_urns import coders as urns

from beam_runner_worker._protos import beam_runner_api_pb2
from beam_runner_worker.fnapi.skipping import (
    Skip,
    UnknownCoder,
    compile_skip,
    is_delimited,
    read_count,
    skip_delimited,
    skip_pane,
)
from beam_runner_worker.records import ElementChunk, KeyedChunk, OutputChunk, OutputEdge, OutputKind

TIME_SHIFT = 1 << 63
"""Added to event times in milliseconds to make their encoding unsigned."""

_TIME_BYTES = 8
_COUNT_BYTES = 4
_CHUNK_BYTES = 2 << 20
_MAX_KNOWN_HEADERS = 10_000


@attrs.frozen
class EdgeCoder:
    """How the windowed values of one edge are laid out.

    Attributes:
        element: skips a whole element.
        window: skips one window.
        key: skips the key of an element that is a key-value pair; None for other elements.
        value: skips its value; None for other elements.
        delimited: key and value (or the whole element) begin with their length.
    """

    element: Skip
    window: Skip
    key: Skip | None
    value: Skip | None
    delimited: bool


def compile_edge(
    coder_id: str, coders: Mapping[str, beam_runner_api_pb2.Coder], where: str
) -> EdgeCoder:
    """Looks through the windowed coder of an edge.

    Args:
        coder_id: the edge's coder.
        coders: all coders of the descriptor.
        where: the edge's transform, for messages.

    Raises:
        UnknownCoder: elements of this coder can't be told apart; names transform and URN.
    """
    coder = coders[coder_id]
    if coder.spec.urn != urns.WINDOWED_VALUE:
        raise UnknownCoder(
            f"the edge {where!r} has the coder {coder.spec.urn!r}; "
            f"only {urns.WINDOWED_VALUE!r} can be read"
        )
    element_id, window_id = coder.component_coder_ids
    element = coders[element_id]
    try:
        window = compile_skip(window_id, coders)
        skip = compile_skip(element_id, coders)
        if element.spec.urn != urns.KV:
            return EdgeCoder(skip, window, None, None, is_delimited(element))
        key, value = (compile_skip(each, coders) for each in element.component_coder_ids)
        delimited = all(is_delimited(coders[each]) for each in element.component_coder_ids)
        return EdgeCoder(skip, window, key, value, delimited)
    except UnknownCoder as error:
        raise UnknownCoder(f"the elements of the edge {where!r} can't be cut: {error}") from None


def cutter_for(edge: OutputEdge, coder: EdgeCoder) -> Cutter:
    """The cutter that makes of an edge's data the chunks that the host asked for.

    Raises:
        UnknownCoder: the edge shall be cut into keys and values and has elements of another kind.
    """
    if edge.kind is OutputKind.ELEMENTS:
        return ElementCutter(coder, ends=False)
    if edge.kind is OutputKind.CUT_ELEMENTS:
        return ElementCutter(coder, ends=True)
    if edge.keyed_by_element:
        return KeyedCutter(coder, whole=True, timestamps=edge.timestamps)
    if coder.key is None:
        raise UnknownCoder(f"the elements of the edge {edge.transform_id!r} have no keys")
    return KeyedCutter(coder, whole=False, timestamps=edge.timestamps)


class Cutter(abc.ABC):
    """Takes an edge's data as it comes and gives chunks; keeps what is left of a cut-off element."""

    def __init__(self, coder: EdgeCoder) -> None:
        self._coder = coder
        self._rest = b""
        self._known: dict[bytes, tuple[bytes, ...]] = {}
        self._header_size = 0

    @property
    def rest(self) -> int:
        """Bytes that wait for the remainder of their element; 0 after whole elements."""
        return len(self._rest)

    def feed(self, data: bytes) -> Iterator[OutputChunk]:
        """The chunks of about 2 MiB that ``data`` completes, in order.

        Must be consumed to its end before it is called again.
        """
        if self._rest:
            data = self._rest + data
        position, size = 0, len(data)
        while position < size:
            end, chunk = self._cut(data, position, min(size, position + _CHUNK_BYTES))
            if chunk is None:
                break
            position = end
            yield chunk
        self._rest = data[position:]

    @abc.abstractmethod
    def _cut(self, data: bytes, start: int, stop: int) -> tuple[int, OutputChunk | None]:
        """Cuts every whole element that begins in ``[start, stop)``; gives the place after them."""

    def _header(self, data: bytes, position: int) -> tuple[bytes, ...]:
        """The windows of a header that begins at its window count; remembers its size.

        Raises:
            IndexError: the header is cut off.
        """
        count = read_count(data, position)
        end = position + _COUNT_BYTES
        windows = []
        for _ in range(count):
            begin, end = end, self._coder.window(data, end)
            windows.append(data[begin:end])
        end = skip_pane(data, end)
        if end > len(data):
            raise IndexError("the data ends within a header")
        if len(self._known) >= _MAX_KNOWN_HEADERS:
            self._known.clear()
        self._header_size = end - position
        return self._known.setdefault(data[position:end], tuple(windows))


class ElementCutter(Cutter):
    """Cuts into chunks of whole elements, with or without the place where each ends."""

    def __init__(self, coder: EdgeCoder, *, ends: bool) -> None:
        super().__init__(coder)
        self._wants_ends = ends

    def _cut(self, data: bytes, start: int, stop: int) -> tuple[int, OutputChunk | None]:
        ends: list[int] = []
        append = ends.append
        skip = self._coder.element
        known, header_size, size = self._known, self._header_size, len(data)
        position = start
        try:
            while position < stop:
                header = position + _TIME_BYTES
                if data[header : header + header_size] not in known:
                    self._header(data, header)
                    header_size = self._header_size
                end = skip(data, header + header_size)
                if end > size:
                    break
                append(end)
                position = end
        except IndexError:
            pass  # The data ends within an element: its begin is kept as the rest.
        if not ends:
            return start, None
        relative = ends if start == 0 else [end - start for end in ends]
        return position, ElementChunk(
            len(ends), data[start:position], relative if self._wants_ends else None
        )


class KeyedCutter(Cutter):
    """Cuts into columns of keys, values, windows and event times; a row for every window."""

    def __init__(self, coder: EdgeCoder, *, whole: bool, timestamps: bool) -> None:
        super().__init__(coder)
        self._whole = whole
        self._timestamps = timestamps

    def _cut(self, data: bytes, start: int, stop: int) -> tuple[int, OutputChunk | None]:
        rows = _Rows()
        if self._whole:
            position = self._cut_whole(data, start, stop, rows)
        elif self._coder.delimited:
            position = self._cut_delimited(data, start, stop, rows)
        else:
            position = self._cut_pairs(data, start, stop, rows)
        return position, rows.chunk(self._timestamps) if rows.values else None

    def _cut_delimited(self, data: bytes, position: int, stop: int, rows: _Rows) -> int:
        key, value, time, window = (
            rows.keys.append,
            rows.values.append,
            rows.times.append,
            rows.windows.append,
        )
        known, header_size, size = self._known, self._header_size, len(data)
        try:
            while position < stop:
                header = position + 8
                begin = header + header_size
                windows = known.get(data[header:begin])
                if windows is None:
                    windows = self._header(data, header)
                    header_size = self._header_size
                    begin = header + header_size
                length = data[begin]
                middle = begin + 1 + length if length < 0x80 else skip_delimited(data, begin)
                length = data[middle]
                end = middle + 1 + length if length < 0x80 else skip_delimited(data, middle)
                if end > size:
                    break
                key(data[begin:middle])
                value(data[middle:end])
                time(data[position:header])
                window(windows)
                position = end
        except IndexError:
            pass  # The data ends within an element: its begin is kept as the rest.
        return position

    def _cut_pairs(self, data: bytes, position: int, stop: int, rows: _Rows) -> int:
        skip_key, skip_value = self._coder.key, self._coder.value
        assert skip_key is not None
        assert skip_value is not None
        size = len(data)
        try:
            while position < stop:
                header = position + _TIME_BYTES
                windows = self._windows(data, header)
                begin = header + self._header_size
                middle = skip_key(data, begin)
                end = skip_value(data, middle)
                if end > size:
                    break
                rows.keys.append(data[begin:middle])
                rows.values.append(data[middle:end])
                rows.times.append(data[position:header])
                rows.windows.append(windows)
                position = end
        except IndexError:
            pass  # The data ends within an element: its begin is kept as the rest.
        return position

    def _cut_whole(self, data: bytes, position: int, stop: int, rows: _Rows) -> int:
        skip = self._coder.element
        size = len(data)
        try:
            while position < stop:
                header = position + _TIME_BYTES
                windows = self._windows(data, header)
                begin = header + self._header_size
                end = skip(data, begin)
                if end > size:
                    break
                rows.values.append(data[begin:end])
                rows.times.append(data[position:header])
                rows.windows.append(windows)
                position = end
        except IndexError:
            pass  # The data ends within an element: its begin is kept as the rest.
        rows.keys.extend([b""] * len(rows.values))
        return position

    def _windows(self, data: bytes, header: int) -> tuple[bytes, ...]:
        windows = self._known.get(data[header : header + self._header_size])
        return self._header(data, header) if windows is None else windows


class _Rows:
    """Columns while they grow: one entry for every element, however many windows it is in."""

    __slots__ = ("keys", "times", "values", "windows")

    def __init__(self) -> None:
        self.keys: list[bytes] = []
        self.values: list[bytes] = []
        self.times: list[bytes] = []
        self.windows: list[tuple[bytes, ...]] = []

    def chunk(self, timestamps: bool) -> KeyedChunk:
        """The rows so far, an element in several windows repeated for each."""
        first = self.windows[0]
        windows: bytes | list[bytes]
        if len(first) == 1 and self.windows.count(first) == len(self.windows):
            windows = first[0]
        elif max(map(len, self.windows)) == 1:
            windows = [only for (only,) in self.windows]
        else:
            self._repeat_for_windows()
            windows = [only for (only,) in self.windows]
        return KeyedChunk(
            key_data=b"".join(self.keys),
            key_ends=list(accumulate(map(len, self.keys))),
            value_data=b"".join(self.values),
            value_ends=list(accumulate(map(len, self.values))),
            windows=windows,
            timestamps=_decode_times(self.times) if timestamps else None,
        )

    def _repeat_for_windows(self) -> None:
        counts = list(map(len, self.windows))
        for name in ("keys", "values", "times"):
            column = getattr(self, name)
            setattr(self, name, [x for x, n in zip(column, counts, strict=True) for _ in range(n)])
        self.windows = [(window,) for windows in self.windows for window in windows]


def _decode_times(encoded: list[bytes]) -> list[int]:
    if encoded.count(encoded[0]) == len(encoded):
        return [int.from_bytes(encoded[0], "big") - TIME_SHIFT] * len(encoded)
    times = struct.unpack(f">{len(encoded)}Q", b"".join(encoded))
    return [time - TIME_SHIFT for time in times]
