"""Attempt at a bundle: reads the input, runs user code, and returns the reply that the server commits."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from functools import partial

import attrs
import pyarrow as pa
from beam_runner_data.grouping.groups import group_into_chunks
from beam_runner_data.grouping.key_runs import sort_large_shard_by_key
from beam_runner_data.grouping.large_shards import LargeShard
from beam_runner_data.grouping.small_shards import group_shards_into_chunks
from beam_runner_data.rows.columns import decode_batch
from beam_runner_data.rows.key_partitioning import (
    ROW_BYTES,
    SpillFiles,
    create_key_rules,
    partition_rows_to_fit_memory,
)
from beam_runner_data.rows.outputs import RowConverter, create_row_converter
from beam_runner_engine.keyed.ports import WindowMerger
from beam_runner_engine.scheduler.commands import Input
from beam_runner_engine.scheduler.events import BundleDone, Residual, SplitDone
from beam_runner_model.buffers import BufferKind
from beam_runner_model.bundles import BundleSplit, MonitoringInfo
from beam_runner_model.chunks import InputChunk
from beam_runner_model.summary import EMPTY_SUMMARY
from beam_runner_worker.errors import HarnessError
from beam_runner_worker.ports import StageHarness

from beam_runner_runtime.bundles.bundle_data import BufferWriter, BundleData
from beam_runner_runtime.bundles.checked_times import TimestampCheckingPort, check_row_timestamps
from beam_runner_runtime.bundles.cost_meter import CostMeter
from beam_runner_runtime.bundles.cuts import find_unchanged_primaries
from beam_runner_runtime.bundles.failed_attempts import describe_failed_attempt
from beam_runner_runtime.bundles.inputs import (
    count_elements,
    list_remaining_inputs,
    make_residual_inputs,
    read_element_chunks,
    split_inputs,
)
from beam_runner_runtime.bundles.joint_shards import MultiShardInput
from beam_runner_runtime.bundles.keyed import KeyedStoreProvider, ShardGrouping
from beam_runner_runtime.bundles.stage_context import StageContext
from beam_runner_runtime.bundles.stage_metrics import (
    drop_duplicate_counts,
    make_dropped_values_metric,
)
from beam_runner_runtime.bundles.stateful import StatefulBundle
from beam_runner_runtime.bundles.trials import ProcessedInput, create_bundle_trials
from beam_runner_runtime.bundles.truncation import InputTruncator
from beam_runner_runtime.bundles.units import UnitSelection
from beam_runner_runtime.channel.attempts import BundleFailure
from beam_runner_runtime.channel.messages import (
    BundleProgressed,
    BundleReply,
    RunBundle,
    SplitReply,
)


class LocalBundle:
    """Attempt at a bundle in this worker process. One thread calls ``run``; other methods are
    thread-safe.

    Args:
        merger: merger of the input's windows; None if the engine merges them.
        truncation: truncates restrictions for a drain; None for a stage without restrictions.
        on_begin: function that is called with the stage ID before user code gets the input.

    Attributes:
        attempt: number of the bundle and of the attempt.
        thread: native ID of the thread that created the bundle and runs it.
    """

    def __init__(
        self,
        work: StageContext,
        order: RunBundle,
        harness: StageHarness,
        stores: KeyedStoreProvider,
        data: BundleData,
        merger: WindowMerger | None = None,
        truncation: InputTruncator | None = None,
        on_begin: Callable[[str], None] | None = None,
    ) -> None:
        bundle = order.bundle
        self._on_begin = on_begin
        self._merger = merger
        self._truncation = truncation
        self._truncated = False
        self._defers_whole = False
        self.attempt = order.attempt
        self._work = work
        self._order = order
        self._harness = harness
        self._stores = stores
        self._data = data
        self._name = order.name
        self._elements = count_elements(bundle.inputs)
        self._inputs = bundle.inputs
        self._splits = 0
        self._joint: MultiShardInput | None = None
        self._meter = CostMeter(self.stage_id, is_embedded=self.is_embedded)
        self.thread = self._meter.thread
        self._written: list[BufferWriter] = []
        self._spilled = SpillFiles(data.scratch, order.name)
        self._trials = create_bundle_trials(
            work, order, self._run_trial, self._build_reply, self._describe_failure
        )

    @property
    def bundle_id(self) -> str:
        """The ID under which the harness knows this bundle."""
        return self._name

    @property
    def stage_id(self) -> str:
        """ID of the bundle's stage."""
        return self._work.stage.stage_id

    @property
    def is_embedded(self) -> bool:
        """Whether user code runs in the bundle's thread, and not in a separate SDK process."""
        return self._work.stage.embedded

    def run(self) -> BundleReply | BundleFailure:
        """Runs the bundle and returns the reply to the server. Never raises for a failure of the
        bundle.
        """
        try:
            reply = self._run_stage()
        except Exception as error:
            reply = self._describe_failure(error)
        self._spilled.remove_all_files()
        if isinstance(reply, BundleFailure):
            self._discard_outputs()
        return reply

    def _describe_failure(self, error: Exception) -> BundleFailure:
        return describe_failed_attempt(
            self.attempt,
            error,
            self._data.scratch,
            hides_elements=self._work.hides_elements,
            is_loopback=self._work.is_loopback,
        )

    def get_progress(self) -> BundleProgressed | None:
        """Returns the progress of the bundle; None while the harness doesn't run the bundle."""
        now = self._harness.get_progress()
        if now is None:
            return None
        joint = self._joint
        most = count_elements(self._inputs) if joint is None else joint.group_count
        fraction = min(1.0, now.processed / max(1, most))
        metrics = drop_duplicate_counts(now.metrics, self._work.stage.counted_elsewhere)
        metrics = (*metrics, self._meter.make_progress_metric())
        return BundleProgressed(
            self.attempt, fraction, self.elapsed, metrics, now.waits, starts=now.starts
        )

    @property
    def elapsed(self) -> int:
        """Elapsed time of the bundle in milliseconds."""
        return int(self._meter.elapsed_seconds * 1000)

    def split(self, keep: float) -> SplitReply:
        """Splits the bundle if possible, and returns the residuals: the input that the bundle gives up."""
        if self._trials is not None:
            return self._trials.split_unless_searching(lambda: self._split_input(keep))
        return self._split_input(keep)

    def _split_input(self, keep: float) -> SplitReply:
        attempt = self.attempt
        nothing = SplitReply(SplitDone(attempt.bundle, attempt.attempt))
        joint = self._joint
        if joint is None and self._order.bundle.shard is not None:
            return nothing  # Only bundles whose shards fit into memory together can be split.
        try:
            if joint is None:
                split = self._harness.split(keep, self._elements)
            else:
                split = self._harness.split(keep, joint.group_count, joint.split_points)
        except HarnessError:
            # Ignore the error here: the thread that runs the bundle gets the same error, and reports it.
            return nothing
        if split is None:
            return nothing
        if joint is None:
            kept, given = self._apply_sdk_split(split, keep)
        else:
            kept, given = joint.split_before_group(split.first_residual)
        if not given:
            return nothing
        return SplitReply(SplitDone(attempt.bundle, attempt.attempt, kept, given))

    def _apply_sdk_split(
        self, split: BundleSplit, keep: float
    ) -> tuple[tuple[Input, ...], tuple[Residual, ...]]:
        """Applies a split of the harness, and returns the retained inputs and the residuals."""
        self._splits += 1
        name = f"{self._name}/split-{self._splits}"
        windows = self._work.windows
        uncut = find_unchanged_primaries(split, self._inputs, self._data.read_rows, windows)
        # A split doesn't change the indexes of elements, which count from the start of the bundle.
        kept, given = split_inputs(
            self._inputs, split, name, windows, truncated=self._truncated, uncut=uncut
        )
        if given:
            is_cut = not uncut.issuperset(split.primaries)
            self._inputs = list_remaining_inputs(split, self._inputs, is_cut=is_cut)
            # After a checkpoint, the primary of the restriction is finished. After other splits,
            # elements of the bundle can still checkpoint, and the SDK doesn't report which did.
            self._defers_whole |= is_cut and keep > 0
        return kept, given

    def _run_stage(self) -> BundleReply | BundleFailure:
        self._truncate_input()
        if self._trials is None:
            return self._build_reply(self._process_input())
        return self._trials.run_attempt()

    def _process_input(self, units: UnitSelection | None = None) -> ProcessedInput:
        """Passes the input to the harness, or only the selected units (elements, groups, timers) of the input."""
        keyed = self._open_keyed_state(units)
        chunks = self._read_input_chunks() if keyed is None else self._read_keyed_chunks(keyed)
        if units is not None:
            chunks = units.select_chunks(chunks)
        metrics: tuple[MonitoringInfo, ...] = ()
        bundle = self._order.bundle
        done = BundleDone(bundle.number, bundle.attempt)
        first = next(chunks, None)
        if self._on_begin is not None:
            self._on_begin(self.stage_id)
            self._on_begin = None
        if first is not None or (units is not None and units.is_empty):
            state = keyed.user_state if isinstance(keyed, StatefulBundle) else None
            inputs = iter(()) if first is None else itertools.chain((first,), chunks)
            result = self._harness.process_bundle(
                self.bundle_id, inputs, self._open_output_ports(), state
            )
            metrics = drop_duplicate_counts(result.metrics, self._work.stage.counted_elsewhere)
            outputs = tuple(out for written in self._written for out in written.close())
            done = BundleDone(
                bundle.number,
                bundle.attempt,
                outputs,
                make_residual_inputs(
                    result.residuals,
                    f"{self._name}/residual",
                    self._work.windows,
                    whole=self._defers_whole,
                ),
                finalize=result.requires_finalization,
            )
        return ProcessedInput(done, keyed, metrics)

    def _run_trial(self, name: str, units: UnitSelection) -> ProcessedInput:
        """Discards the results of the previous trial, and runs the bundle again with the selected
        units (elements, groups, timers).
        """
        self._discard_outputs()
        self._name = name
        return self._process_input(units)

    def _truncate_input(self) -> None:
        """Truncates the restrictions that a drain marked, before user code processes any element."""
        if any(one.truncate for one in self._inputs):
            assert self._truncation is not None
            self._truncated = True
            self._inputs = self._truncation.truncate_inputs(self._inputs, self._name)
            self._elements = count_elements(self._inputs)
        self._defers_whole = all(one.whole for one in self._inputs)

    def _build_reply(self, processed: ProcessedInput) -> BundleReply:
        done, keyed = processed.done, processed.keyed
        metrics = (*processed.metrics, *self._meter.make_final_metrics())
        if self._order.bundle.shard is None:
            return BundleReply(done, None, metrics)
        if keyed is None:
            return BundleReply(attrs.evolve(done, summary=EMPTY_SUMMARY), None, metrics)
        commit = keyed.commit_state(self._name)
        if commit.dropped:
            metrics = (*metrics, make_dropped_values_metric(self.stage_id, commit.dropped))
        return BundleReply(attrs.evolve(done, summary=commit.summary), commit.state, metrics)

    def _open_keyed_state(
        self, units: UnitSelection | None
    ) -> ShardGrouping | StatefulBundle | None:
        """Returns the object that stores the state of keys; None if the stage doesn't store state,
        or if this bundle groups the complete input.
        """
        source, stateful = self._work.input_buffer, self._work.stage.stateful
        if source is None or not source.kind.is_keyed:
            return None
        assert source.strategy is not None
        if stateful is not None:
            stores = None if source.bulk else self._stores
            return StatefulBundle(
                stateful,
                source.strategy,
                self._order,
                stores,
                self._merger,
                self._work.clock,
                settling_is_dear=not self.is_embedded,
                units=units,
            )
        if source.bulk:
            return None
        stage = self._work.stage.spec.title if self._work.checks_watermarks else None
        return ShardGrouping(source.strategy, self._order, self._stores, self._merger, stage)

    def _read_input_chunks(self) -> Iterator[InputChunk]:
        source = self._work.input_buffer
        if source is None or source.kind is not BufferKind.GROUPED:
            yield from read_element_chunks(self._data.read_rows, self._inputs)
            return
        assert source.strategy is not None
        weight, budget = self._estimate_input_size(), self._work.budget
        if weight > budget:
            shard = LargeShard(
                source.strategy, self._merger, budget, self._work.shards, self._spilled
            )
            yield from shard.group_into_chunks(self._read_batches(self._inputs), weight)
            return
        inputs = self._order.bundle.inputs
        if all(one.data.facts.shard == inputs[0].data.facts.shard for one in inputs):
            yield from group_into_chunks(
                [*self._read_batches(inputs)], source.strategy, self._merger
            )
        else:
            group = partial(group_shards_into_chunks, strategy=source.strategy, merger=self._merger)
            self._joint = MultiShardInput(inputs, self._read_batches, group)
            yield from self._joint.chunks

    def _read_keyed_chunks(self, keyed: ShardGrouping | StatefulBundle) -> Iterator[InputChunk]:
        weight, budget = self._estimate_input_size(), self._work.budget
        source = self._work.input_buffer
        assert source is not None
        fits = weight <= budget or not source.whole
        rules = create_key_rules(budget, self._spilled, self._work.shards)
        if isinstance(keyed, StatefulBundle):
            if fits or not source.bulk:
                return keyed.read_chunks(self._read_batches(self._inputs))
            return keyed.read_chunks(
                self._read_batches(self._inputs),
                lambda batches: sort_large_shard_by_key(batches, weight, rules),
            )
        if fits:
            return keyed.read_chunks([self._read_batches(self._inputs)])
        runs = partition_rows_to_fit_memory(rules, self._read_batches(self._inputs), weight)
        return keyed.read_chunks(run.read_batches() for run in runs)

    def _estimate_input_size(self) -> int:
        """Returns the approximate size (bytes) of the input rows in memory."""
        inputs = self._order.bundle.inputs
        return sum(one.data.facts.size for one in inputs) + ROW_BYTES * count_elements(inputs)

    def _read_batches(self, inputs: Iterable[Input]) -> Iterator[pa.RecordBatch]:
        for one in inputs:
            for _, data in self._data.read_rows(one.data.ref):
                batch = decode_batch(data)
                if self._work.checks_watermarks:
                    check_row_timestamps(batch, one.data, self._work.stage.spec.title)
                yield batch

    def _open_output_ports(self) -> dict[str, RowConverter]:
        ports: dict[str, RowConverter] = {}
        work = self._work
        for place, (transform_id, buffer) in enumerate(work.output_buffers.items()):
            written = self._data.open_writer(buffer, work.shards, f"{self._name}-{place}")
            self._written.append(written)
            turn = self._data.choose_first_partition(self._order.bundle)
            port = create_row_converter(
                buffer.kind,
                written.shards,
                turn,
                written.write,
                windows=buffer.windows,
                restrictions=buffer.restrictions,
            )
            if work.checks_watermarks and buffer.strategy is not None:
                port = TimestampCheckingPort(port, buffer.strategy.window_coder, buffer.buffer_id)
            ports[transform_id] = port
        return ports

    def _discard_outputs(self) -> None:
        for written in self._written:
            written.discard()
        self._written.clear()
