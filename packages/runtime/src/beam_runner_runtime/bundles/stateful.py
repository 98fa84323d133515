"""Bundles of a stateful DoFn: process the elements of one key shard, and the timers that are due.

The bundle passes the elements to the harness key by key. Then it flushes the harness
(`FlushBarrier`), to receive all timers that user code has set. After that, it passes the due timers
of each key and window, and flushes again, until nothing is due.

If the input is bounded, a bundle contains the complete input of its key shard, and the watermark
advances to the end of time within the bundle. So the bundle processes some keys completely before
it starts with others, and holds only their state in memory.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from beam_runner_data.grouping.key_runs import (
    KeySortedElements,
    join_elements_to_chunk,
    sort_by_key,
)
from beam_runner_engine.keyed.cells import CellId
from beam_runner_engine.keyed.now import CurrentTimes
from beam_runner_engine.keyed.ports import CellStore, WindowMerger
from beam_runner_engine.keyed.stateful import StatefulShard
from beam_runner_engine.keyed.stateful_records import (
    DueWork,
    ExpiredWindow,
    FiredTimer,
    SortedElements,
    StatefulSpec,
)
from beam_runner_engine.keyed.timers import Timer as DueTimer
from beam_runner_model.chunks import ElementChunk, FlushBarrier, InputChunk, StageTimer, TimerChunk
from beam_runner_model.panes import NO_FIRING, encode_pane
from beam_runner_model.strategy import WindowingStrategy
from beam_runner_model.summary import EMPTY_SUMMARY
from beam_runner_model.window_coders import SKIP_WINDOW
from beam_runner_model.windowed_values import TIME_BYTES, WINDOWS_AT, replace_window, skip_windows
from beam_runner_planner.plan import StatefulPlan
from beam_runner_worker.errors import BundleError

from beam_runner_runtime.bundles.keyed import KeyedStore, KeyedStoreProvider, ShardCommit
from beam_runner_runtime.bundles.units import UnitSelection
from beam_runner_runtime.bundles.user_state import ShardUserState
from beam_runner_runtime.channel.messages import RunBundle
from beam_runner_runtime.clock import ProcessingClock

_DUE_TOGETHER = 10_000


class StatefulBundle:
    """Bundle of a stateful DoFn for one key shard (hash partition of keys), with the shard's state
    and timers.

    The caller must read all chunks of ``read_chunks`` before it calls ``commit_state``.

    Args:
        stores: state of key shards; None if the input is bounded, because no state remains after
            the bundle.
        merger: merger of windows that the engine can't merge.
        settling_is_dear: whether a flush of the harness takes milliseconds.
        units: selection of the elements to process; None for all elements.

    Attributes:
        user_state: the state that user code reads and writes.
    """

    def __init__(
        self,
        plan: StatefulPlan,
        strategy: WindowingStrategy,
        order: RunBundle,
        stores: KeyedStoreProvider | None,
        merger: WindowMerger | None = None,
        clock: ProcessingClock | None = None,
        *,
        settling_is_dear: bool = False,
        units: UnitSelection | None = None,
    ) -> None:
        bundle = order.bundle
        # If a stage sorts its input by time, elements are counted when they are due, not here.
        self._units = None if plan.time_sorted else units
        self._merger = merger
        self._looks_past = settling_is_dear
        assert bundle.shard is not None
        self._plan = plan
        self._store: KeyedStore | None = None
        if stores is not None:
            self._store = stores.open(bundle.stage, bundle.shard, order.state)
        self._spec = StatefulSpec(
            strategy,
            states=dict(plan.states),
            on_window_expiration=bool(plan.expiration_family),
            time_sorted_input=plan.time_sorted,
            timers=bool(plan.timers),
            timer_families=frozenset(plan.timers),
            may_result_from_split=self._store is not None and self._store.may_result_from_split,
        )
        time = (bundle.processing_time, bundle.output_watermark, bundle.draining)
        self._now = CurrentTimes(bundle.input_watermark, *time)
        self._end = CurrentTimes(bundle.end_watermark, *time)
        self.user_state = ShardUserState(plan, bundle.processing_time, clock or ProcessingClock())
        self._dropped = 0
        self._start_shard()

    def read_chunks(
        self,
        batches: Iterable[pa.RecordBatch],
        parts: Callable[[Iterable[pa.RecordBatch]], Iterator[KeySortedElements]] = sort_by_key,
    ) -> Iterator[InputChunk]:
        """Yields the chunks of elements and timers that user code must process. Yields nothing if no
        element or timer is due.

        Args:
            batches: the elements.
        """
        sorted_parts = parts(batches)
        if self._units is not None:
            sorted_parts = self._units.select_rows(sorted_parts)
        for part in sorted_parts:
            elements = self._admit_elements(part)
            if elements is not None:
                yield elements
                yield FlushBarrier()
            if self._store is None and part.ends_key:
                yield from self._process_due_work()
                self._dropped += self._shard.dropped_count
                self._start_shard()
        yield from self._process_due_work()

    def commit_state(self, name: str) -> ShardCommit:
        """Writes the shard's changed state to files named after ``name``."""
        if self._store is None:
            return ShardCommit(EMPTY_SUMMARY, dropped=self._dropped + self._shard.dropped_count)
        commit = self._shard.finish_bundle()
        state = self._store.write_commit(commit.deltas, name)
        return ShardCommit(commit.summary, state, commit.dropped)

    def _start_shard(self) -> None:
        store: CellStore = _EmptyCellStore() if self._store is None else self._store
        self._shard = self.user_state.shard = StatefulShard(self._spec, store, self._merger)

    def _admit_elements(self, part: KeySortedElements) -> ElementChunk | None:
        """Adds elements to the state of their keys. Returns the elements that user code must
        process now; None without such elements.

        Raises:
            BundleFailed: Windows of a key merge, but the DoFn has a kind of state that can't be
                merged.
        """
        strategy = self._spec.strategy
        if isinstance(part.windows, bytes) and not (strategy.needs_merge or self._plan.time_sorted):
            # All elements are in the same window and expire together. Therefore, the state needs
            # only one entry for each key.
            count = len(part.keys)
            times = part.timestamps[:count].tolist()
            first = self._shard.accept_elements(
                part.keys, [part.windows] * count, times, times, self._now, part.counts
            )
            return join_elements_to_chunk(part.values) if first.rows else None
        windows = part.expand_windows()
        values = part.values.to_pylist()
        try:
            admitted = self._shard.accept_elements(
                part.expand_keys(), windows, part.timestamps.tolist(), values, self._now
            )
        except ValueError as error:
            trace = "".join(traceback.format_exception(error))
            raise BundleError(self._plan.transform_id, f"ValueError: {error}", trace) from None
        if not admitted.rows:
            return None
        if strategy.needs_merge:
            return self._rewindow_elements(
                [values[row] for row in admitted.rows],
                [windows[row] for row in admitted.rows],
                admitted.windows,
            )
        if len(admitted.rows) == len(part):
            return join_elements_to_chunk(part.values)
        return join_elements_to_chunk(part.values.take(pa.array(admitted.rows)))

    def _process_due_work(self) -> Iterator[InputChunk]:
        """Yields all due timers and elements, including timers that user code sets meanwhile."""
        while due := self._shard.take_due_work(
            self._end, _DUE_TOGETHER, looks_past=self._looks_past
        ):
            yield from self._read_due_chunks(due)
            yield FlushBarrier()

    def _read_due_chunks(self, due: Sequence[DueWork]) -> Iterator[InputChunk]:
        """Yields the due elements of several keys and windows, and then the due timers of these
        keys and windows.
        """
        timers: list[StageTimer] = []
        for one in due:
            match one:
                case FiredTimer(timer):
                    timers.append(self._convert_timer(timer))
                case SortedElements(_, window, _, values):
                    yield self._rewindow_elements(values, None, [window] * len(values))
                case ExpiredWindow() as expired:
                    timers.append(self._make_expiration_timer(expired))
        if timers:
            yield TimerChunk(tuple(timers))

    def _convert_timer(self, timer: DueTimer) -> StageTimer:
        return StageTimer(
            transform_id=self._plan.transform_id,
            family=timer.family,
            tag=timer.tag,
            key=timer.key,
            windows=(timer.window,),
            fire_at=timer.fire_time,
            hold=timer.hold,
            pane=encode_pane(timer.pane),
        )

    def _make_expiration_timer(self, expired: ExpiredWindow) -> StageTimer:
        return StageTimer(
            transform_id=self._plan.transform_id,
            family=self._plan.expiration_family,
            tag="",
            key=expired.key,
            windows=(expired.window,),
            fire_at=expired.timestamp,
            hold=expired.timestamp,
            pane=_NO_PANE,
        )

    def _rewindow_elements(
        self, values: Sequence[bytes], before: Sequence[bytes] | None, windows: Sequence[bytes]
    ) -> ElementChunk:
        """Returns a chunk with the same elements, in other windows.

        Args:
            before: encoded windows of the elements before the change; None if unknown.
            windows: encoded windows of the elements after the change.
        """
        skip_window = SKIP_WINDOW[self._spec.strategy.window_coder]
        parts: list[bytes] = []
        for number, (value, window) in enumerate(zip(values, windows, strict=True)):
            if before is None:
                pane_at = skip_windows(value, TIME_BYTES, skip_window)
            else:
                pane_at = WINDOWS_AT + len(before[number])
            parts += replace_window(value, pane_at, window)
        return ElementChunk(len(values), b"".join(parts))


class _EmptyCellStore:
    """Empty state store, for bounded input, whose keys have no earlier state."""

    def read_values(self, cell: CellId, subkey: bytes) -> Sequence[Any] | None:
        return None

    def scan_subkeys(
        self, cell: CellId, start: bytes, end: bytes | None
    ) -> Iterator[tuple[bytes, Sequence[Any]]]:
        return iter(())


_NO_PANE = encode_pane(NO_FIRING)
