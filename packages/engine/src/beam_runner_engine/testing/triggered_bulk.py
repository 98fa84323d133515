"""Bulk grouper on top of the engine's grouping with triggers, as a reference for other bulk groupers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from beam_runner_model.strategy import WindowingStrategy
from beam_runner_model.times import MAX_TIMESTAMP, Timestamp

from beam_runner_engine.keyed.grouping import TriggeredGrouper
from beam_runner_engine.keyed.groups import WindowPanes
from beam_runner_engine.keyed.now import CurrentTimes
from beam_runner_engine.keyed.ports import WindowMerger
from beam_runner_engine.testing.stores import MemoryCellStore


class TriggeredBulkGrouper:
    """`BulkGrouper` that adds all data first and then advances the watermark to the end.

    `merger` merges the windows that the engine can't merge.
    """

    def __init__(self, strategy: WindowingStrategy, merger: WindowMerger | None = None) -> None:
        self._grouper = TriggeredGrouper(strategy, MemoryCellStore(), merger)
        self._keys: list[bytes] = []
        self._windows: list[bytes] = []
        self._timestamps: list[Timestamp] = []
        self._values: list[Any] = []

    def add_elements(
        self,
        keys: Sequence[bytes],
        windows: Sequence[bytes],
        timestamps: Sequence[Timestamp],
        values: Sequence[Any],
    ) -> None:
        self._keys += keys
        self._windows += windows
        self._timestamps += timestamps
        self._values += values

    def build_groups(self) -> WindowPanes:
        columns = (self._keys, self._windows, self._timestamps, self._values)
        groups = self._grouper.process_elements(*columns, CurrentTimes())
        groups += self._grouper.advance_time(CurrentTimes(MAX_TIMESTAMP))
        return groups
