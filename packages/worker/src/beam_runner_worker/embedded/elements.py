"""Decodes element chunks: runs of elements under one header cheaply, everything else as Beam does.

A windowed value is a header (timestamp, windows, pane) and a value. In bounded pipelines thousands
of elements in a row often have one and the same header. Comparing it with the one before costs less
than decoding it, and gives all of the run the same tuple of windows, which sinks then recognise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import length_hint

from apache_beam.coders import coder_impl, coders
from apache_beam.utils.windowed_value import WindowedValue

from beam_runner_worker.errors import HarnessError
from beam_runner_worker.records import ElementChunk

_MAX_HEADER = 64
_PADDING = bytes(_MAX_HEADER)
"""Beam's stream does not check bounds: behind the last element a header can still be read."""
_FREE_CHANGES = 4
_ELEMENTS_PER_CHANGE = 4096
"""A change of header costs a copy of the chunk's rest; runs must be long enough to pay for it."""


class ElementDecoder:
    """Feeds the elements of chunks to a function, and knows at any time how many were given.

    Args:
        windowed_coder: what the elements are encoded with.
    """

    def __init__(self, windowed_coder: coders.WindowedValueCoder) -> None:
        self._coder = windowed_coder
        self._decode = windowed_coder.get_impl().decode_from_stream
        self._encode_header = (
            coders.WindowedValueCoder(coders.SingletonCoder(None), windowed_coder.window_coder)
            .get_impl()
            .encode_nested
        )
        self._header: bytes | None = None
        self._decode_value = self._decode
        self._announced = 0
        self._left: Iterator[int] = iter(())

    @property
    def count(self) -> int:
        """How many elements were given since :meth:`restart`; right from any thread."""
        return self._announced - length_hint(self._left)

    def restart(self) -> None:
        """Counts from zero again."""
        self._announced = 0
        self._left = iter(())

    def feed(self, chunk: ElementChunk, emit: Callable[[WindowedValue], None]) -> None:
        """Decodes all elements and emits them in order.

        Raises:
            HarnessError: the elements do not take as many bytes as the chunk has.
        """
        data = b"".join((chunk.data, _PADDING))
        stream = coder_impl.create_InputStream(data)
        # Whoever wants the count asks how far this iterator is, so counting costs nothing.
        left = self._left = iter(range(chunk.count))
        self._announced += chunk.count
        if type(self._coder) is coders.WindowedValueCoder:
            stream = self._feed_runs(data, stream, left, emit)
        decode = self._decode
        for _ in left:
            emit(decode(stream, True))
        if stream.size() != _MAX_HEADER:
            raise HarnessError(
                f"A chunk of {chunk.count} elements has {len(chunk.data)} bytes, but with the coder "
                f"{self._coder} the elements take {len(data) - stream.size()}"
            )

    def _feed_runs(
        self,
        data: bytes,
        stream: coder_impl.create_InputStream,
        left: Iterator[int],
        emit: Callable[[WindowedValue], None],
    ) -> coder_impl.create_InputStream:
        """Emits elements as long as their headers do not change too often.

        Returns:
            the stream of the elements that are left.
        """
        changes_allowed = _FREE_CHANGES + length_hint(left) // _ELEMENTS_PER_CHANGE
        for _ in range(changes_allowed):
            header, decode_value, read = self._header, self._decode_value, stream.read
            length = len(header) if header is not None else 0
            for _ in left:
                if read(length) != header:
                    break
                emit(decode_value(stream, True))
            else:
                return stream
            # What was read does not go back into the stream.
            data = data[len(data) - stream.size() - length :]
            stream = coder_impl.create_InputStream(data)
            element = self._decode(stream, True)
            self._learn_header(element)
            emit(element)
        return stream

    def _learn_header(self, element: WindowedValue) -> None:
        header = self._encode_header(element.with_value(None))
        if len(header) > _MAX_HEADER:
            self._header = None
            return
        self._header = header
        self._decode_value = (
            coders.ParamWindowedValueCoder(
                header, (self._coder.wrapped_value_coder, self._coder.window_coder)
            )
            .get_impl()
            .decode_from_stream
        )
