"""Source: the operation at the input of a stage, which passes the elements of chunks to the fused transforms."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

from apache_beam.coders import coders
from apache_beam.runners import common
from apache_beam.runners.worker import operations
from apache_beam.runners.worker.statesampler import StateSampler
from apache_beam.utils.counters import CounterFactory
from apache_beam.utils.windowed_value import WindowedValue
from beam_runner_model.chunks import ElementChunk, GroupChunk
from beam_runner_model.stages import InputEdge, InputKind
from beam_runner_worker.errors import BundleError

from beam_runner_embedded.claims import ElementClaims
from beam_runner_embedded.elements import ElementDecoder
from beam_runner_embedded.groups import GroupDecoder
from beam_runner_embedded.host_errors import HostErrorRecorder
from beam_runner_embedded.runs import (
    ElementRunCollector,
    ElementRunConsumer,
    create_input_target,
    is_user_code_error,
)

_LOGGER = logging.getLogger(__name__)


class ChunkSource(operations.Operation):
    """Input operation of a stage, which decodes chunks and passes their elements to the consumers in
    the caller's thread.

    A single consumer gets the elements directly, without Beam's consumer set. The consumer set
    would sample the sizes of elements a second time, after the stage that wrote them.

    Attributes:
        claims: record of the bundle's claimed elements.
        targets: the consumers.
        encode: encodes a windowed value with the coder of the input's elements.
        feeding: whether the consumers may still be processing the last claimed element.
        failed_split: error of a failed split that may have lost data, or None.
    """

    def __init__(
        self,
        name_context: common.NameContext,
        counter_factory: CounterFactory,
        state_sampler: StateSampler,
        windowed_coder: coders.WindowedValueCoder,
        edge: InputEdge,
        consumers: Sequence[operations.Operation],
        errors: HostErrorRecorder,
    ) -> None:
        super().__init__(name_context, None, counter_factory, state_sampler)
        self._windowed_coder = windowed_coder
        self.targets = list(consumers)
        self.encode: Callable[[WindowedValue], bytes] = windowed_coder.get_impl().encode_nested
        self.claims = ElementClaims()
        self.feeding = False
        self.failed_split: BundleError | None = None
        self._runs: ElementRunConsumer | None = None
        self._decoder: ElementDecoder | GroupDecoder = (
            GroupDecoder(windowed_coder, self.claims, errors)
            if edge.kind is InputKind.GROUPS
            else ElementDecoder(windowed_coder, self.claims)
        )

    def setup(self, data_sampler: Any = None) -> None:
        """Connects the source with its consumers; called once by the bundle processor."""
        super().setup(data_sampler)
        receiver = operations.ConsumerSet.create(
            counter_factory=self.counter_factory,
            step_name=self.name_context.step_name,
            output_index=0,
            consumers=self.targets,
            coder=self._windowed_coder,
            producer_type_hints=None,
            producer_batch_converter=None,
        )
        self.receivers = [receiver]
        self._direct = isinstance(receiver, operations.SingletonElementConsumerSet)
        self._runs = create_input_target(receiver, self.targets)

    def process_chunk(self, chunk: ElementChunk | GroupChunk) -> None:
        """Decodes a chunk and passes its elements to the consumers in order.

        The method skips elements that a split has removed from the bundle.
        """
        # Look ``process`` up for each chunk, because a sink directly after the source replaces its
        # ``process`` in each bundle.
        emit: Callable[[WindowedValue], None] = (
            self.targets[0].process if self._direct else self.receivers[0].receive
        )
        self.feeding = True
        if isinstance(self._decoder, ElementDecoder):
            self._decoder.decode_chunk(chunk, emit, self._runs)  # type: ignore[arg-type]
        elif self._runs is None:
            self._decoder.decode_chunk(chunk, emit)  # type: ignore[arg-type]
        else:
            collector = ElementRunCollector(self._runs, emit)
            self._decoder.decode_chunk(chunk, collector.add_element)  # type: ignore[arg-type]
            collector.flush_elements()
        self.feeding = False

    def end_input(self) -> None:
        """Ends the input of the bundle. Later splits are not possible.

        Raises:
            BundleError: A split has failed.
        """
        self.claims.end_input()
        if self.failed_split is not None:
            raise self.failed_split

    def get_current_progress(self) -> float | None:
        """Returns the completed fraction of the current element; None if its restriction tracker
        reports no progress.
        """
        try:
            progress = self.receivers[0].current_element_progress()
            return None if progress is None else min(1.0, max(0.0, progress.fraction_completed))
        except NotImplementedError:
            return None
        except BaseException as error:
            if not is_user_code_error(error):
                raise
            step = self.targets[0].name_context.step_name
            _LOGGER.warning(
                "The restriction tracker of %s returned no progress", step, exc_info=True
            )
            return None

    @property
    def processed_count(self) -> float:
        """Number of processed elements, with a fraction for the current element. Any thread may read it."""
        claimed = self.claims.claimed_count
        if claimed == 0 or not self.feeding:
            return claimed
        return claimed - 1 + (self.get_current_progress() or 0.0)

    @property
    def sampled_sizes(self) -> Sequence[int]:
        """Sizes of sampled groups in bytes; empty for a source of elements, whose writer has sampled their sizes."""
        return self._decoder.sampled if isinstance(self._decoder, GroupDecoder) else ()

    def reset(self) -> None:
        """Resets the element counters and the record of claimed elements; called between bundles."""
        super().reset()
        self.claims.start_bundle()
        if isinstance(self._decoder, GroupDecoder):
            self._decoder.sampled.clear()
        self.feeding = False
        self.failed_split = None
