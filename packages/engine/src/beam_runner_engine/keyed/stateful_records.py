"""Records of stateful processing: the states and timers of a stage, the elements that aren't late,
and due work.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import attrs
from beam_runner_model.strategy import WindowingStrategy
from beam_runner_model.times import Timestamp

from beam_runner_engine.keyed.state import State
from beam_runner_engine.keyed.timers import Timer


@attrs.frozen
class StatefulSpec:
    """State cells, timers and options of a stateful stage, as its user code declares them.

    Attributes:
        strategy: the windowing strategy of the input.
        states: the kind of each state cell, by name.
        on_window_expiration: whether user code runs when a window expires.
        time_sorted_input: whether elements must arrive in timestamp order.
        timers: whether user code can set timers.
        timer_families: the timer families that user code declares. The engine removes timers of
            other families, which an earlier version of the user code declared. None to remove no
            timers.
        may_result_from_split: whether an update may have created the shard by splitting another key shard,
            see `division`.
    """

    strategy: WindowingStrategy
    states: dict[str, type[State]] = attrs.field(factory=dict)
    on_window_expiration: bool = False
    time_sorted_input: bool = False
    timers: bool = True
    timer_families: frozenset[str] | None = None
    may_result_from_split: bool = False

    @states.validator
    def _check_state_names(self, attribute: Any, states: dict[str, type[State]]) -> None:
        for name in states:
            if name.startswith("~"):
                raise ValueError(
                    f"Can't declare the state {name!r}: names that start with ~ are reserved for the engine"
                )


@attrs.frozen
class AdmittedElements:
    """Elements of a stateful bundle that aren't late (admitted elements). User code processes them
    immediately.

    Attributes:
        rows: the row numbers of the elements.
        windows: the encoded window of each row; the merged window if windows merge.
    """

    rows: Sequence[int]
    windows: Sequence[bytes]


@attrs.frozen
class FiredTimer:
    """Timer to fire: user code of the timer family must run, at the output timestamp `timer.hold`
    if set.
    """

    timer: Timer


@attrs.frozen
class SortedElements:
    """Time-sorted elements to process now, with the same key, window and timestamp (ms)."""

    key: bytes
    window: bytes
    timestamp: Timestamp
    values: Sequence[Any]


@attrs.frozen
class ExpiredWindow:
    """Expired window of a key: user code must run once more, at the window's last timestamp (ms)."""

    key: bytes
    window: bytes
    timestamp: Timestamp


DueWork: TypeAlias = FiredTimer | SortedElements | ExpiredWindow
"""Work of user code that a stateful shard returns."""
