"""Beam's bundle processor without channels and threads, whose set-up can be undone after a failure."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator

from apache_beam.runners.worker import bundle_processor, operations
from apache_beam.runners.worker.bundle_processor import BundleProcessor
from apache_beam.runners.worker.data_sampler import DataSampler
from apache_beam.utils.counters import CounterFactory
from beam_runner_model.bundles import MonitoringInfo
from beam_runner_model.chunks import StageTimer
from beam_runner_worker.ports import UserState
from beam_runner_worker.totals import is_empty_distribution

from beam_runner_embedded._protos import beam_fn_api_pb2
from beam_runner_embedded.combine_tables import TABLE_BYTES
from beam_runner_embedded.counts import ElementCounts
from beam_runner_embedded.edges import StageEdges
from beam_runner_embedded.finalizers import FinalizationCallback, take_finalization_callbacks
from beam_runner_embedded.function_handover import hand_over_functions
from beam_runner_embedded.replacing import replace_attribute
from beam_runner_embedded.run_operations import use_element_run_operations
from beam_runner_embedded.runs import is_user_code_error
from beam_runner_embedded.side_inputs import SideInputMap
from beam_runner_embedded.sinks import Sink
from beam_runner_embedded.source import ChunkSource
from beam_runner_embedded.state_handler import StateHandler
from beam_runner_embedded.times import ExecutionTimes
from beam_runner_embedded.user_state import UserStateContext

_LOGGER = logging.getLogger(__name__)


class StageProcessor(BundleProcessor):
    """Operations of a stage, which are built once (1 to 3 ms) and used for many bundles.

    Beam's constructor also sets up every DoFn. If a set-up fails, the other DoFns can't be torn
    down. So this constructor only builds the operations, and :meth:`set_up_operations` sets them
    up.

    Attributes:
        running: the operation whose set-up, start, finish or timer is being processed, or None.
        host: the access to the runner's side inputs and state.
        source: the operation that takes the input.
        sinks: the operations that write the outputs, by transform id.
    """

    def __init__(
        self,
        descriptor: beam_fn_api_pb2.ProcessBundleDescriptor,
        host: StateHandler,
        edges: StageEdges,
        sampler: DataSampler | None = None,
        table_bytes: int = TABLE_BYTES,
    ) -> None:
        # Don't call Beam's constructor, because it creates a thread to unpickle DoFns for each
        # stage.
        self.runner_capabilities: frozenset[str] = frozenset()
        self.process_bundle_descriptor = descriptor
        self.state_handler = self.host = host
        self.data_channel_factory = edges
        self.data_sampler = sampler
        self.counter_factory = CounterFactory()
        self.state_sampler = self.times = ExecutionTimes({edges.input.transform_id, *edges.outputs})
        self.running: operations.Operation | None = None
        self._are_set_up: list[operations.Operation] = []
        self._counts: ElementCounts | None = None
        bundle_processor._verify_descriptor_created_in_a_compatible_env(descriptor)
        with (
            hand_over_functions(),
            replace_attribute(bundle_processor, "StateBackedSideInputMap", SideInputMap),
            replace_attribute(bundle_processor, "FnApiUserStateContext", UserStateContext),
            use_element_run_operations(table_bytes),
        ):
            self.ops = self.create_execution_tree(descriptor)
        (self.source,) = (op for op in self.ops.values() if isinstance(op, ChunkSource))
        self.sinks = {name: op for name, op in self.ops.items() if isinstance(op, Sink)}

    def set_up_operations(self) -> None:
        """Sets up all operations, consumers first. Exceptions of user code propagate."""
        for op in reversed(self.ops.values()):
            self.running = op
            with hand_over_functions():
                op.setup(self.data_sampler)
            self._are_set_up.append(op)
            # Metrics of `setup` belong to no bundle. Beam's own harness drops them.
            op.metrics_container.metrics.clear()
        self.running = None

    def set_user_state(self, user_state: UserState | None) -> None:
        """Sets the user state that stateful DoFns read and write in the next bundle."""
        self.host.set_user_state(user_state)

    def process_timers(self, timers: Iterable[StageTimer]) -> None:
        """Fires timers in order: user code processes each timer."""
        for timer in timers:
            self.running = op = self.ops[timer.transform_id]
            due = self.host.cells[timer.transform_id].convert_due_timer(timer)
            op.process_timer(timer.family, due)
        self.running = None

    def flush_state(self) -> None:
        """Writes all state changes of user code to the runner."""
        for transform_id, cells in self.host.cells.items():
            self.running = self.ops[transform_id]
            cells.flush()
        self.running = None

    def has_current_side_inputs(self) -> bool:
        """Returns True if the cached side inputs are still current."""
        return all(views.is_current() for views in self.host.views)

    def collect_metrics(self) -> Iterator[MonitoringInfo]:
        """Returns all metrics of the operations since the last reset, without empty distributions.

        Beam's own method also requests the progress of restriction trackers, and fails if a tracker
        can't report its progress. So this method doesn't call Beam's method. The source reports the
        progress of a bundle.
        """
        if self._counts is None:
            self._counts = ElementCounts(self.process_bundle_descriptor, self.ops)
        yield from self._counts.monitoring_infos()
        yield from self.times.monitoring_infos()
        for transform_id, op in self.ops.items():
            for info in op.user_monitoring_infos(transform_id).values():
                labels = tuple(sorted(info.labels.items()))
                record = MonitoringInfo(info.urn, info.type, labels, info.payload)
                if not is_empty_distribution(record):
                    yield record

    def take_finalization_callbacks(self) -> list[FinalizationCallback]:
        """Returns the finalization callbacks that DoFns registered during the last bundle."""
        return (
            take_finalization_callbacks(self.ops.values()) if self.requires_finalization() else []
        )

    def tear_down(self) -> None:
        """Tears down each operation that was set up, once. After an error in one operation, the others
        are still torn down.
        """
        ops, self._are_set_up = self._are_set_up, []
        for op in reversed(ops):
            try:
                op.teardown()
            except BaseException as error:
                if not is_user_code_error(error):
                    raise
                _LOGGER.exception("Teardown of %s failed", op.name_context.step_name)
