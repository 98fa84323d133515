"""Sinks: operations at the outputs of a stage, which encode elements into chunks and pass the chunks to the runner."""

from __future__ import annotations

import abc
from collections.abc import Callable, Generator, Iterator
from operator import length_hint
from typing import Any

from apache_beam.coders import coder_impl, coders
from apache_beam.runners import common
from apache_beam.runners.worker import operations
from apache_beam.runners.worker.statesampler import StateSampler
from apache_beam.utils.counters import CounterFactory
from apache_beam.utils.timestamp import MAX_TIMESTAMP, MIN_TIMESTAMP
from apache_beam.utils.windowed_value import WindowedValue
from beam_runner_model.chunks import ElementChunk, OutputChunk
from beam_runner_model.value_pieces import PIECE_BYTES
from beam_runner_worker.limits import check_chunk_size, check_size
from beam_runner_worker.ports import OutputPort

MAX_ROWS = 65_536
"""Maximum number of rows in a chunk. The sink writes a chunk when the chunk reaches this number of
rows or `PIECE_BYTES`.
"""
_MIN_MILLIS = MIN_TIMESTAMP.micros // 1000

Run = tuple[WindowedValue, Iterator[Any]]
"""Header with the timestamp, windows and pane of a run, and an iterator over the values that are not
yet encoded (see ``runs``).
"""
Encoder = Generator[None, WindowedValue | Run | None, None]


class Sink(operations.Operation, metaclass=abc.ABCMeta):
    """Base of operations that encode the elements of one output and write them to a port.
    :meth:`connect_port` must be called before each bundle.

    The encoding loop is a coroutine, and ``process`` is the ``send`` method of the coroutine. So
    the state of the loop is in local variables, and no Python function is called for each element.
    If the coroutine receives ``None``, it writes the remaining elements.

    Attributes:
        port_error: the exception that the port raised, which is an error of the runner, not of user
            code.
        writer: full name of the transform whose output the sink writes.
    """

    takes_runs = True

    def __init__(
        self,
        name_context: common.NameContext,
        counter_factory: CounterFactory,
        state_sampler: StateSampler,
        windowed_coder: coders.WindowedValueCoder,
    ) -> None:
        super().__init__(name_context, None, counter_factory, state_sampler)
        self.port_error: BaseException | None = None
        self.writer = name_context.step_name
        self._windowed_coder = windowed_coder
        self._port: OutputPort | None = None

    def connect_port(self, port: OutputPort) -> None:
        """Sets the port to which the sink writes the output of the next bundle."""
        self._port = port
        encoder = self._encode_items()
        next(encoder)
        self.process = encoder.send

    def process_element_run(self, like: WindowedValue, values: list[Any]) -> None:
        """Encodes a run of elements (elements that differ only in their values)."""
        self.process((like, iter(values)))

    def finish(self) -> None:
        """Writes the remaining elements; called once at the end of a bundle."""
        super().finish()
        self.process(None)

    @abc.abstractmethod
    def _encode_items(self) -> Encoder:
        """Receives elements and runs in an endless loop. Writes a chunk when the chunk is full, or
        when None arrives.
        """

    def check_size(self, size: int) -> None:
        """Raises BundleError if an encoded element exceeds the size limit. Called before the data is copied."""
        check_size(size, PIECE_BYTES, self.writer)

    def _write_chunk(self, chunk: OutputChunk) -> None:
        if self._port is None:
            raise RuntimeError(f"{self.name_context.step_name} is not connected to a port")
        check_chunk_size(chunk, PIECE_BYTES, self.writer)
        try:
            self._port.write(chunk)
        except BaseException as error:
            self.port_error = error
            raise


class ElementSink(Sink):
    """Sink that writes :class:`ElementChunk`."""

    def __init__(self, *args: Any, min_timestamp: bool) -> None:
        super().__init__(*args)
        self._with_min_timestamp = min_timestamp
        self._encode_element_run = _make_element_run_encoder(self._windowed_coder)

    def _encode_items(self) -> Encoder:
        encode = self._windowed_coder.get_impl().encode_to_stream
        timed = self._with_min_timestamp
        unfinished: list[Run] = []
        while True:
            stream = coder_impl.create_OutputStream()
            size = stream.size
            ends: list[int] = []
            append = ends.append
            earliest, last = MAX_TIMESTAMP.micros, None
            while (item := unfinished.pop() if unfinished else (yield)) is not None:
                element: Any = item
                if type(item) is tuple:
                    self._encode_element_run(item, stream, ends)
                    if length_hint(item[1]):
                        unfinished.append(item)
                    element = item[0]
                else:
                    encode(element, stream, True)
                    append(size())
                if timed:
                    if element.timestamp_micros < earliest:
                        earliest = element.timestamp_micros
                    if element.windows is not last:
                        # An element holds back the watermark at most until the end of the element's
                        # window, see `compute_hold_time`.
                        last = element.windows
                        for window in last:
                            earliest = min(earliest, window.max_timestamp().micros)
                if size() >= PIECE_BYTES or len(ends) >= MAX_ROWS:
                    break
            if ends:
                self.check_size(size())
                time = round_down_to_millis(earliest) if timed else None
                self._write_chunk(ElementChunk(len(ends), stream.get(), ends, time))


def round_down_to_millis(micros: int) -> int:
    """Returns an event time in milliseconds, rounded down, so that the result is never later than the element."""
    return max(micros // 1000, _MIN_MILLIS)


RunEncoder = Callable[[Run, coder_impl.create_OutputStream, list[int]], None]
"""Function that encodes values of a run until the chunk is full, and appends the end position of each
element to a list.
"""


def _make_element_run_encoder(coder: coders.WindowedValueCoder) -> RunEncoder:
    """Returns a function that encodes many values as windowed values with the same timestamp, windows and pane."""
    if type(coder) is not coders.WindowedValueCoder:
        encode_element = coder.get_impl().encode_to_stream

        def encode_elements(
            run: Run, stream: coder_impl.create_OutputStream, ends: list[int]
        ) -> None:
            like, values = run
            for value in values:
                encode_element(like.with_value(value), stream, True)
                ends.append(stream.size())
                if ends[-1] >= PIECE_BYTES or len(ends) >= MAX_ROWS:
                    break

        return encode_elements
    encode_value = coder.wrapped_value_coder.get_impl().encode_to_stream
    header_of = HeaderEncoder(coder).encode_header

    def encode(run: Run, stream: coder_impl.create_OutputStream, ends: list[int]) -> None:
        like, values = run
        size, write, append, header = stream.size, stream.write, ends.append, header_of(like)
        room = MAX_ROWS - len(ends)
        for value in values:
            write(header)
            encode_value(value, stream, True)
            append(end := size())
            room -= 1
            if not room or end >= PIECE_BYTES:
                break

    return encode


class HeaderEncoder:
    """Encoder of the headers (timestamp, windows, pane) of windowed values, which caches the last header."""

    def __init__(self, coder: coders.WindowedValueCoder) -> None:
        self._encode = (
            coders.WindowedValueCoder(coders.SingletonCoder(None), coder.window_coder)
            .get_impl()
            .encode_nested
        )
        self._like: WindowedValue | None = None
        self._header = b""

    def encode_header(self, like: WindowedValue) -> bytes:
        """Returns the encoded timestamp, windows and pane of an element."""
        known = self._like
        if (
            known is None
            or known.windows is not like.windows
            or known.timestamp_micros != like.timestamp_micros
            or known.pane_info != like.pane_info
        ):
            # Cache only tuples, because the caller could change a list later.
            self._like = like if type(like.windows) is tuple else None
            self._header = self._encode(like.with_value(None))
        return self._header
