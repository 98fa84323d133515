"""The operation at the head of a stage: decodes chunks and feeds the elements to its consumers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from apache_beam.coders import coder_impl, coders
from apache_beam.metrics import monitoring_infos
from apache_beam.runners import common
from apache_beam.runners.worker import operations
from apache_beam.runners.worker.statesampler import StateSampler
from apache_beam.utils import windowed_value
from apache_beam.utils.counters import CounterFactory

from beam_runner_worker._protos import metrics_pb2
from beam_runner_worker.embedded.lazy import LazyValues, decode_all
from beam_runner_worker.errors import HarnessError
from beam_runner_worker.records import ElementChunk, GroupChunk, InputChunk, InputEdge, InputKind

_EAGER_BYTES = 64 * 1024
"""Values of a group that are decoded at once; above that they stay encoded (see ``lazy``)."""
_CACHED_WINDOWS = 4096


class Source(operations.Operation):
    """Feeds elements to the fused transforms; ``chunk`` by ``chunk``, in the caller's thread.

    Elements are counted here and handed to a single consumer without Beam's consumer set between,
    which would sample every element's size anew: the host knows the bytes that it gave.
    """

    def __init__(
        self,
        name_context: common.NameContext,
        counter_factory: CounterFactory,
        state_sampler: StateSampler,
        windowed_coder: coders.WindowedValueCoder,
        edge: InputEdge,
        consumers: Sequence[operations.Operation],
    ) -> None:
        super().__init__(name_context, None, counter_factory, state_sampler)
        self._windowed_coder = windowed_coder
        self._targets = list(consumers)
        self._count = 0
        self._windows = _WindowDecoder(windowed_coder)
        if edge.kind is InputKind.GROUPS:
            self._key_impl, self._value_impl = _group_impls(windowed_coder)

    def setup(self, data_sampler: Any = None) -> None:
        """Connects the consumers; called once by the bundle processor."""
        super().setup(data_sampler)
        receiver = operations.ConsumerSet.create(
            counter_factory=self.counter_factory,
            step_name=self.name_context.step_name,
            output_index=0,
            consumers=self._targets,
            coder=self._windowed_coder,
            producer_type_hints=None,
            producer_batch_converter=None,
        )
        self.receivers = [receiver]
        direct = isinstance(receiver, operations.SingletonElementConsumerSet)
        self._emit: Callable[[windowed_value.WindowedValue], None] = (
            self._targets[0].process if direct else receiver.receive
        )

    def feed(self, chunk: InputChunk) -> None:
        """Decodes a chunk and processes its elements, in order."""
        if isinstance(chunk, GroupChunk):
            self._feed_groups(chunk)
        else:
            self._feed_elements(chunk)

    def _feed_elements(self, chunk: ElementChunk) -> None:
        stream = coder_impl.create_InputStream(bytes(chunk.data))
        decode = self._windowed_coder.get_impl().decode_from_stream
        emit = self._emit
        for self._count in range(self._count + 1, self._count + 1 + chunk.count):
            emit(decode(stream, True))

    def _feed_groups(self, chunk: GroupChunk) -> None:
        decode_key = self._key_impl.decode_nested
        value_impl = self._value_impl
        windows = self._windows
        create = windowed_value.create
        emit = self._emit
        pane = coder_impl.PaneInfoCoderImpl().decode_nested(chunk.pane)
        constant = windows.decode(chunk.windows) if isinstance(chunk.windows, bytes) else None
        for index, (key, timestamp, data) in enumerate(
            zip(chunk.keys, chunk.timestamps, chunk.values, strict=True)
        ):
            data = bytes(data)
            values = (
                decode_all(value_impl, data)
                if len(data) <= _EAGER_BYTES
                else LazyValues(value_impl, data)
            )
            window = constant if constant is not None else windows.decode(chunk.windows[index])
            self._count += 1
            emit(create((decode_key(key), values), timestamp * 1000, window, pane))

    def pcollection_count_monitoring_infos(
        self, tag_to_pcollection_id: dict[str, str]
    ) -> dict[frozenset[Any], metrics_pb2.MonitoringInfo]:
        """The number of elements given so far, as the count of the PCollection read."""
        infos = {}
        for pcollection_id in tag_to_pcollection_id.values():
            info = monitoring_infos.int64_counter(
                monitoring_infos.ELEMENT_COUNT_URN, self._count, pcollection=pcollection_id
            )
            infos[monitoring_infos.to_key(info)] = info
        return infos

    def reset(self) -> None:
        """Starts counting anew; called between bundles."""
        super().reset()
        self._count = 0


class _WindowDecoder:
    """Decodes a window to the tuple that a windowed value holds; equal bytes, same tuple."""

    def __init__(self, windowed_coder: coders.WindowedValueCoder) -> None:
        self._impl = windowed_coder.window_coder.get_impl()
        self._known: dict[bytes, tuple[Any]] = {}

    def decode(self, encoded: bytes) -> tuple[Any]:
        windows = self._known.get(encoded)
        if windows is None:
            if len(self._known) >= _CACHED_WINDOWS:
                self._known.clear()
            windows = self._known[encoded] = (self._impl.decode_nested(encoded),)
        return windows


def _group_impls(
    windowed_coder: coders.WindowedValueCoder,
) -> tuple[coder_impl.CoderImpl, coder_impl.CoderImpl]:
    """The implementations of the key's and the single value's coder."""
    element_coder = windowed_coder.wrapped_value_coder
    values_coder = element_coder.value_coder() if element_coder.is_kv_coder() else None
    if not isinstance(values_coder, coders.ListLikeCoder):
        raise HarnessError(
            f"A stage that reads groups needs the coder KV<key, Iterable<value>>, not "
            f"{element_coder}"
        )
    return element_coder.key_coder().get_impl(), values_coder.value_coder().get_impl()
