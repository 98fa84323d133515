"""The operations at the ends of a stage: encode elements into chunks and write them to ports."""

from __future__ import annotations

import abc
from typing import Any

from apache_beam.coders import coder_impl, coders
from apache_beam.runners import common
from apache_beam.runners.worker import operations
from apache_beam.runners.worker.statesampler import StateSampler
from apache_beam.utils.counters import CounterFactory
from apache_beam.utils.timestamp import MIN_TIMESTAMP
from apache_beam.utils.windowed_value import WindowedValue

from beam_runner_worker.ports import OutputPort
from beam_runner_worker.records import ElementChunk, KeyedChunk, OutputChunk, OutputEdge, OutputKind

MAX_BYTES = 1024 * 1024
"""A chunk is written as soon as it holds this many bytes ..."""
MAX_ROWS = 65_536
"""... or this many rows."""
_CACHED_WINDOWS = 4096
_MIN_MILLIS = MIN_TIMESTAMP.micros // 1000


class Sink(operations.Operation, metaclass=abc.ABCMeta):
    """Encodes the elements of one output; :meth:`connect` it to a port before each bundle.

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

    def finish(self) -> None:
        """Writes what is left; called once at the end of a bundle."""
        super().finish()
        self.flush()

    @abc.abstractmethod
    def flush(self) -> None:
        """Writes what has gathered, if anything."""

    def write(self, chunk: OutputChunk) -> None:
        """Hands a chunk to the port, and remembers if the port failed."""
        if self._port is None:
            raise RuntimeError(f"{self.name_context.step_name} is not connected to a port")
        try:
            self._port.write(chunk)
        except BaseException as error:
            self.port_error = error
            raise


class ElementSink(Sink):
    """Writes :class:`ElementChunk`: windowed values by the edge's coder."""

    def __init__(self, *args: Any, with_ends: bool) -> None:
        super().__init__(*args)
        self._encode = self._windowed_coder.get_impl().encode_to_stream
        self._stream = coder_impl.create_OutputStream()
        self._count = 0
        self._ends: list[int] | None = [] if with_ends else None

    def process(self, element: WindowedValue) -> None:
        """Encodes one element."""
        stream = self._stream
        self._encode(element, stream, True)
        self._count += 1
        size = stream.size()
        if self._ends is not None:
            self._ends.append(size)
        if size >= MAX_BYTES or self._count >= MAX_ROWS:
            self.flush()

    def flush(self) -> None:
        """Writes what has gathered, if anything."""
        if not self._count:
            return
        chunk = ElementChunk(count=self._count, data=self._stream.get(), ends=self._ends)
        self._stream = coder_impl.create_OutputStream()
        self._count = 0
        if self._ends is not None:
            self._ends = []
        self.write(chunk)


class KeyedSink(Sink):
    """Writes :class:`KeyedChunk`: key, value and window apart, a row for each window."""

    def __init__(self, *args: Any, keyed_by_element: bool, timestamps: bool) -> None:
        super().__init__(*args)
        element_coder = self._windowed_coder.wrapped_value_coder
        self._windows = _WindowEncoder(self._windowed_coder)
        self._keyed_by_element = keyed_by_element
        self._with_timestamps = timestamps
        if keyed_by_element:
            self._encode_value = element_coder.get_impl().encode_to_stream
        else:
            self._encode_key = element_coder.key_coder().get_impl().encode_to_stream
            self._encode_value = element_coder.value_coder().get_impl().encode_to_stream
        self._start()

    def _start(self) -> None:
        self._key_stream = coder_impl.create_OutputStream()
        self._value_stream = coder_impl.create_OutputStream()
        self._key_ends: list[int] = []
        self._value_ends: list[int] = []
        self._row_windows: list[bytes] = []
        self._timestamps: list[int] = []

    def process(self, element: WindowedValue) -> None:
        """Encodes one element, once for each of its windows."""
        for window in element.windows:
            if self._keyed_by_element:
                self._encode_value(element.value, self._value_stream, True)
            else:
                key, value = element.value
                self._encode_key(key, self._key_stream, True)
                self._encode_value(value, self._value_stream, True)
            self._key_ends.append(self._key_stream.size())
            self._value_ends.append(self._value_stream.size())
            self._row_windows.append(self._windows.encode(window))
            if self._with_timestamps:
                self._timestamps.append(to_millis(element.timestamp_micros))
            if (
                len(self._key_ends) >= MAX_ROWS
                or self._key_ends[-1] + self._value_ends[-1] >= MAX_BYTES
            ):
                self.flush()

    def flush(self) -> None:
        """Writes what has gathered, if anything."""
        if not self._key_ends:
            return
        first = self._row_windows[0]
        same = self._row_windows.count(first) == len(self._row_windows)
        chunk = KeyedChunk(
            key_data=self._key_stream.get(),
            key_ends=self._key_ends,
            value_data=self._value_stream.get(),
            value_ends=self._value_ends,
            windows=first if same else self._row_windows,
            timestamps=self._timestamps if self._with_timestamps else None,
        )
        self._start()
        self.write(chunk)


def to_millis(micros: int) -> int:
    """Event time in milliseconds exactly as Beam's windowed coder writes it: towards zero."""
    if micros >= 0:
        return micros // 1000
    return max(_MIN_MILLIS, -(-micros // 1000))


class _WindowEncoder:
    """Encodes windows (nested), each distinct one once."""

    def __init__(self, windowed_coder: coders.WindowedValueCoder) -> None:
        self._impl = windowed_coder.window_coder.get_impl()
        self._known: dict[Any, bytes] = {}

    def encode(self, window: Any) -> bytes:
        encoded = self._known.get(window)
        if encoded is None:
            if len(self._known) >= _CACHED_WINDOWS:
                self._known.clear()
            encoded = self._known[window] = self._impl.encode_nested(window)
        return encoded


def create_sink(
    name_context: common.NameContext,
    counter_factory: CounterFactory,
    state_sampler: StateSampler,
    windowed_coder: coders.WindowedValueCoder,
    edge: OutputEdge,
) -> Sink:
    """The sink which writes the kind of chunks that the edge asks for."""
    common_arguments = (name_context, counter_factory, state_sampler, windowed_coder)
    if edge.kind is OutputKind.KEYED:
        return KeyedSink(
            *common_arguments,
            keyed_by_element=edge.keyed_by_element,
            timestamps=edge.timestamps,
        )
    return ElementSink(*common_arguments, with_ends=edge.kind is OutputKind.CUT_ELEMENTS)
