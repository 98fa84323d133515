"""The operation at the head of a stage: feeds what the chunks hold to the fused transforms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from apache_beam.coders import coders
from apache_beam.metrics import monitoring_infos
from apache_beam.runners import common
from apache_beam.runners.worker import operations
from apache_beam.runners.worker.statesampler import StateSampler
from apache_beam.utils.counters import CounterFactory
from apache_beam.utils.windowed_value import WindowedValue

from beam_runner_worker._protos import metrics_pb2
from beam_runner_worker.embedded.elements import ElementDecoder
from beam_runner_worker.embedded.groups import GroupDecoder
from beam_runner_worker.records import InputChunk, InputEdge, InputKind


class Source(operations.Operation):
    """Feeds elements chunk by chunk, in the caller's thread.

    Elements are counted by the decoder and handed to a single consumer without Beam's consumer set
    between, which would sample every element's size: the host knows the bytes that it gave.
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
        self._decoder: ElementDecoder | GroupDecoder = (
            GroupDecoder(windowed_coder)
            if edge.kind is InputKind.GROUPS
            else ElementDecoder(windowed_coder)
        )

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
        self._direct = isinstance(receiver, operations.SingletonElementConsumerSet)

    def feed(self, chunk: InputChunk) -> None:
        """Decodes a chunk of the edge's kind and processes its elements, in order."""
        # Looked up for each chunk: a sink right behind gets another process for each bundle.
        emit: Callable[[WindowedValue], None] = (
            self._targets[0].process if self._direct else self.receivers[0].receive
        )
        self._decoder.feed(chunk, emit)  # type: ignore[arg-type]

    def pcollection_count_monitoring_infos(
        self, tag_to_pcollection_id: dict[str, str]
    ) -> dict[frozenset[Any], metrics_pb2.MonitoringInfo]:
        """The number of elements given so far, as the count of the PCollection read."""
        infos = {}
        for pcollection_id in tag_to_pcollection_id.values():
            info = monitoring_infos.int64_counter(
                monitoring_infos.ELEMENT_COUNT_URN,
                self._decoder.count,
                pcollection=pcollection_id,
            )
            infos[monitoring_infos.to_key(info)] = info
        return infos

    def reset(self) -> None:
        """Starts counting anew; called between bundles."""
        super().reset()
        self._decoder.restart()
