"""Decoder of element chunks, which decodes runs of similar elements faster.

The decoder decodes consecutive elements with the same timestamp, windows and pane together. Other
elements are decoded one by one with Beam's coder.

A windowed value is a header (timestamp, windows, pane) and a value. In bounded pipelines thousands
of consecutive elements often have the same header. Comparing a header with the previous header
costs less than decoding it. All elements of a run share one tuple of windows, so that sinks can
compare windows by identity.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from operator import length_hint
from typing import Any

from apache_beam.coders import coder_impl, coders
from apache_beam.utils.windowed_value import WindowedValue
from beam_runner_model.chunks import ElementChunk
from beam_runner_model.value_pieces import PIECE_BYTES
from beam_runner_worker.errors import HarnessError

from beam_runner_embedded.claims import ElementClaims
from beam_runner_embedded.runs import ElementRunConsumer, ElementRunLengthController

_MAX_HEADER = 64
_PADDING = bytes(_MAX_HEADER)
"""Padding after the last element, because Beam's stream doesn't check bounds when it reads a header."""
_FREE_CHANGES = 4
_ELEMENTS_PER_CHANGE = 4096
"""Minimum mean number of elements per header. Each new header copies the rest of the chunk, so shorter
runs cost more time than they save.
"""


class ElementDecoder:
    """Decoder that claims the elements of a chunk one by one and passes them to a function, until a
    split of the bundle stops the claims.

    Args:
        windowed_coder: the coder of the elements.
        claims: record of the bundle's claimed elements.
    """

    def __init__(self, windowed_coder: coders.WindowedValueCoder, claims: ElementClaims) -> None:
        self._claims = claims
        self._coder = windowed_coder
        self._decode = windowed_coder.get_impl().decode_from_stream
        self._encode_header = (
            coders.WindowedValueCoder(coders.SingletonCoder(None), windowed_coder.window_coder)
            .get_impl()
            .encode_nested
        )
        self._header: bytes | None = None
        self._like: WindowedValue | None = None
        self._decode_like = self._decode
        self._decode_value = windowed_coder.wrapped_value_coder.get_impl().decode_from_stream

    def decode_chunk(
        self,
        chunk: ElementChunk,
        emit: Callable[[WindowedValue], None],
        target: ElementRunConsumer | None = None,
    ) -> None:
        """Decodes the selected elements of a chunk and emits them in order; stops at the position of a
        split.

        The method also decodes the elements before the selected range, to find where the range
        begins.

        Args:
            chunk: the elements.
            emit: function that receives one element.
            target: consumer of runs of elements; None if the consumers accept only single elements.

        Raises:
            HarnessError: the elements have another total size than the chunk, or the chunk lacks
                selected elements.
        """
        if not 0 <= chunk.first <= chunk.first + chunk.selected_count <= chunk.count:
            raise HarnessError(
                f"Can't read elements {chunk.first} to {chunk.last} of a chunk of"
                f" {chunk.count} elements"
            )
        data = b"".join((chunk.data, _PADDING))
        stream = coder_impl.create_InputStream(data)
        decode = self._decode
        for _ in range(chunk.first):
            decode(stream, True)
        left: Iterator[int] | None = self._claims.add_elements(chunk.selected_count)
        while left is not None:
            if type(self._coder) is coders.WindowedValueCoder:
                stream = self._decode_element_runs(data, stream, left, emit, target)
            for _ in left:
                emit(decode(stream, True))
            left = self._claims.get_remaining_claims()
        whole = chunk.first + chunk.selected_count == chunk.count and not self._claims.is_stopped
        if whole and stream.size() != _MAX_HEADER:
            raise HarnessError(
                f"A chunk of {chunk.count} elements has {len(chunk.data)} bytes, but with the coder "
                f"{self._coder} the elements take {len(data) - stream.size()}"
            )

    def read_last_claimed(self, chunk: ElementChunk) -> bytes:
        """Returns the encoded bytes of the last claimed element. If its end is unknown, the result
        includes the following data.

        The method decodes the earlier elements again, so it is slow. The harness calls the method
        only after a failure.

        Args:
            chunk: the chunk that was being decoded.
        """
        with self._claims.pause_claims() as held:
            number = chunk.first + chunk.selected_count - 1 - (held.announced - held.claimed)
        data = bytes(chunk.data)
        stream = coder_impl.create_InputStream(data + _PADDING)
        for _ in range(number):
            self._decode(stream, True)
        begin = len(data) + _MAX_HEADER - stream.size()
        return data[begin : None if chunk.ends is None else chunk.ends[number]]

    def decode_first(self, data: bytes) -> WindowedValue:
        """Returns the first element of the data."""
        return self._decode(coder_impl.create_InputStream(data + _PADDING), True)

    def _decode_element_runs(
        self,
        data: bytes,
        stream: coder_impl.create_InputStream,
        left: Iterator[int],
        emit: Callable[[WindowedValue], None],
        target: ElementRunConsumer | None,
    ) -> coder_impl.create_InputStream:
        """Emits runs: lists of consecutive elements with the same header (timestamp, windows, pane).
        Stops if the header changes too often, so that the caller emits the other elements one by one.

        Returns:
            The stream of the remaining elements.
        """
        changes_allowed = _FREE_CHANGES + length_hint(left) // _ELEMENTS_PER_CHANGE
        fits = max(1, PIECE_BYTES * length_hint(left) // len(data))
        for _ in range(changes_allowed):
            if target is None:
                changed = self._emit_element_run(stream, left, emit)
            else:
                changed = self._pass_element_run(stream, left, target, fits)
            if not changed:
                return stream
            # Create a new stream, because the header that was read can't be put back.
            length = len(self._header) if self._header is not None else 0
            data = data[len(data) - stream.size() - length :]
            stream = coder_impl.create_InputStream(data)
            element = self._decode(stream, True)
            self._cache_header(element)
            emit(element)
        return stream

    def _emit_element_run(
        self,
        stream: coder_impl.create_InputStream,
        left: Iterator[int],
        emit: Callable[[WindowedValue], None],
    ) -> bool:
        """Emits single elements until the header (timestamp, windows, pane) changes. Returns whether the
        header changed; the position of the stream is then after the new header.
        """
        header, decode, read = self._header, self._decode_like, stream.read
        length = len(header) if header is not None else 0
        for _ in left:
            if read(length) != header:
                return True
            emit(decode(stream, True))
        return False

    def _pass_element_run(
        self,
        stream: coder_impl.create_InputStream,
        left: Iterator[int],
        target: ElementRunConsumer,
        most: int,
    ) -> bool:
        """Passes elements to ``target`` in runs of at most ``most`` values until the header (timestamp,
        windows, pane) changes. Returns whether the header changed.
        """
        header, decode, read = self._header, self._decode_value, stream.read
        length = len(header) if header is not None else 0
        pace = ElementRunLengthController()
        values: list[Any] = []
        begin, enough = time.perf_counter(), 1
        for _ in left:
            if read(length) != header:
                if values:
                    target.process_element_run(self._like, values)
                return True
            values.append(decode(stream, True))
            if len(values) >= enough:
                target.process_element_run(self._like, values)
                now = time.perf_counter()
                pace.record_duration(now - begin, len(values))
                begin, enough = now, min(pace.values, most)
                values = []
        if values:
            target.process_element_run(self._like, values)
        return False

    def _cache_header(self, element: WindowedValue) -> None:
        self._like = element.with_value(None)
        header = self._encode_header(self._like)
        if len(header) > _MAX_HEADER:
            self._header = None
            return
        self._header = header
        self._decode_like = (
            coders.ParamWindowedValueCoder(
                header, (self._coder.wrapped_value_coder, self._coder.window_coder)
            )
            .get_impl()
            .decode_from_stream
        )
