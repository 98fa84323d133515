"""The operations at the ends of a stage: encode elements into chunks and write them to ports."""

from __future__ import annotations

import abc
from collections.abc import Generator
from typing import Any

from apache_beam.coders import coder_impl, coders
from apache_beam.runners import common
from apache_beam.runners.worker import operations
from apache_beam.runners.worker.statesampler import StateSampler
from apache_beam.utils import windowed_value
from apache_beam.utils.counters import CounterFactory
from apache_beam.utils.timestamp import MIN_TIMESTAMP
from apache_beam.utils.windowed_value import WindowedValue

from beam_runner_worker.ports import OutputPort
from beam_runner_worker.records import ElementChunk, KeyedChunk, OutputChunk, OutputEdge, OutputKind

MAX_BYTES = 1024 * 1024
"""A chunk is written as soon as it holds this many bytes ..."""
MAX_ROWS = 65_536
"""... or this many rows."""
_MIN_MILLIS = MIN_TIMESTAMP.micros // 1000

Encoder = Generator[None, WindowedValue | None, None]


class Sink(operations.Operation, metaclass=abc.ABCMeta):
    """Encodes the elements of one output; :meth:`connect` it to a port before each bundle.

    The encoding loop is a coroutine, and ``process`` is its ``send``: its state lives in local
    variables, and no Python function is called per element. ``None`` makes it write what is left.

    Attributes:
        port_error: what the port raised, if it did: the host's error, not user code's.
    """

    def __init__(
        self,
        name_context: common.NameContext,
        counter_factory: CounterFactory,
        state_sampler: StateSampler,
        windowed_coder: coders.WindowedValueCoder,
    ) -> None:
        super().__init__(name_context, None, counter_factory, state_sampler)
        self.port_error: BaseException | None = None
        self._windowed_coder = windowed_coder
        self._port: OutputPort | None = None

    def connect(self, port: OutputPort) -> None:
        """Writes to ``port`` from now on."""
        self._port = port
        encoder = self._encoder()
        next(encoder)
        self.process = encoder.send

    def finish(self) -> None:
        """Writes what is left; called once at the end of a bundle."""
        super().finish()
        self.process(None)

    @abc.abstractmethod
    def _encoder(self) -> Encoder:
        """Takes elements for ever, and writes a chunk when one is full or None comes."""

    def _write(self, chunk: OutputChunk) -> None:
        if self._port is None:
            raise RuntimeError(f"{self.name_context.step_name} is not connected to a port")
        try:
            self._port.write(chunk)
        except BaseException as error:
            self.port_error = error
            raise


class ElementSink(Sink):
    """Writes :class:`ElementChunk` without ends."""

    def _encoder(self) -> Encoder:
        encode = self._windowed_coder.get_impl().encode_to_stream
        while True:
            stream = coder_impl.create_OutputStream()
            size = stream.size
            count = 0
            while (element := (yield)) is not None:
                encode(element, stream, True)
                count += 1
                if size() >= MAX_BYTES or count >= MAX_ROWS:
                    break
            if count:
                self._write(ElementChunk(count, stream.get()))


class CutElementSink(Sink):
    """Writes :class:`ElementChunk` with the end of each element."""

    def _encoder(self) -> Encoder:
        encode = self._windowed_coder.get_impl().encode_to_stream
        while True:
            stream = coder_impl.create_OutputStream()
            size = stream.size
            ends: list[int] = []
            append = ends.append
            while (element := (yield)) is not None:
                encode(element, stream, True)
                append(end := size())
                if end >= MAX_BYTES or len(ends) >= MAX_ROWS:
                    break
            if ends:
                self._write(ElementChunk(len(ends), stream.get(), ends))


class KeyedSink(Sink):
    """Writes :class:`KeyedChunk`: key, value and window apart, a row for each window."""

    def __init__(self, *args: Any, keyed_by_element: bool, timestamps: bool) -> None:
        super().__init__(*args)
        coder = self._windowed_coder.wrapped_value_coder
        self._with_timestamps = timestamps
        self._encode_key = None
        if not keyed_by_element:
            self._encode_key = coder.key_coder().get_impl().encode_to_stream
            coder = coder.value_coder()
        self._encode_value = coder.get_impl().encode_to_stream
        self._encode_window = self._windowed_coder.window_coder.get_impl().encode_nested

    def _encoder(self) -> Encoder:
        # Most elements hold the very tuple of windows and the timestamp of the one before them, so
        # both are worked out only when they change.
        encode_key, encode_value = self._encode_key, self._encode_value
        windows, window, micros, millis, key_end = None, b"", None, 0, 0
        pending: list[WindowedValue] = []
        while True:
            keys, values = coder_impl.create_OutputStream(), coder_impl.create_OutputStream()
            key_size, value_size = keys.size, values.size
            rows = _Rows([], [], None, [] if self._with_timestamps else None)
            add_key_end, add_value_end = rows.key_ends.append, rows.value_ends.append
            key_end = 0
            while (element := pending.pop() if pending else (yield)) is not None:
                if element.windows is not windows:
                    if len(element.windows) != 1:
                        pending = _one_window_each(element)
                        continue
                    encoded = self._encode_window(element.windows[0])
                    if encoded != window:
                        rows.window_changes(window)
                        window = encoded
                    # A list could be changed in place.
                    windows = element.windows if type(element.windows) is tuple else None
                if encode_key is None:
                    encode_value(element.value, values, True)
                else:
                    key, value = element.value
                    encode_key(key, keys, True)
                    encode_value(value, values, True)
                    key_end = key_size()
                add_key_end(key_end)
                add_value_end(value_end := value_size())
                if rows.windows is not None:
                    rows.windows.append(window)
                if rows.timestamps is not None:
                    if element.timestamp_micros != micros:
                        micros = element.timestamp_micros
                        millis = to_millis(micros)
                    rows.timestamps.append(millis)
                if key_end + value_end >= MAX_BYTES or len(rows.key_ends) >= MAX_ROWS:
                    break
            if rows.key_ends:
                self._write(rows.chunk(keys.get(), values.get(), window))


class _Rows:
    """The columns of a keyed chunk while it grows."""

    __slots__ = ("key_ends", "timestamps", "value_ends", "windows")

    def __init__(
        self,
        key_ends: list[int],
        value_ends: list[int],
        windows: list[bytes] | None,
        timestamps: list[int] | None,
    ) -> None:
        self.key_ends = key_ends
        self.value_ends = value_ends
        self.windows = windows
        self.timestamps = timestamps

    def window_changes(self, until_now: bytes) -> None:
        """From here on rows differ in their windows, unless there is no row yet."""
        if self.windows is None and self.key_ends:
            self.windows = [until_now] * len(self.key_ends)

    def chunk(self, key_data: bytes, value_data: bytes, window: bytes) -> KeyedChunk:
        """The chunk; ``window`` is that of every row if they do not differ."""
        return KeyedChunk(
            key_data=key_data,
            key_ends=self.key_ends,
            value_data=value_data,
            value_ends=self.value_ends,
            windows=window if self.windows is None else self.windows,
            timestamps=self.timestamps,
        )


def _one_window_each(element: WindowedValue) -> list[WindowedValue]:
    """A copy of the element for each of its windows, last first."""
    return [
        windowed_value.create(element.value, element.timestamp_micros, (window,), element.pane_info)
        for window in reversed(element.windows)
    ]


def to_millis(micros: int) -> int:
    """Event time in milliseconds exactly as Beam's windowed coder writes it: towards zero."""
    if micros >= 0:
        return micros // 1000
    return max(_MIN_MILLIS, -(-micros // 1000))


def create_sink(
    name_context: common.NameContext,
    counter_factory: CounterFactory,
    state_sampler: StateSampler,
    windowed_coder: coders.WindowedValueCoder,
    edge: OutputEdge,
) -> Sink:
    """The sink which writes the kind of chunks that the edge asks for."""
    arguments = (name_context, counter_factory, state_sampler, windowed_coder)
    if edge.kind is OutputKind.KEYED:
        return KeyedSink(
            *arguments, keyed_by_element=edge.keyed_by_element, timestamps=edge.timestamps
        )
    if edge.kind is OutputKind.CUT_ELEMENTS:
        return CutElementSink(*arguments)
    return ElementSink(*arguments)
