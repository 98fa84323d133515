"""State and timers of a stateful DoFn for the keys of one bundle, which the SDK reads and writes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import lru_cache
from typing import TypeVar

import attrs
from beam_runner_engine.keyed.state import (
    BagState,
    MultimapState,
    OrderedListState,
    State,
    ValueState,
)
from beam_runner_engine.keyed.stateful import StatefulShard
from beam_runner_engine.keyed.timers import TimeDomain
from beam_runner_engine.keyed.timers import Timer as EngineTimer
from beam_runner_model.chunks import StageTimer, StateCell
from beam_runner_model.panes import PaneInfo, decode_pane
from beam_runner_model.times import Timestamp, clamp_timestamp
from beam_runner_planner.plan import StatefulPlan
from beam_runner_worker.errors import HarnessError, TimerRefused

from beam_runner_runtime.clock import ProcessingClock

AnyState = TypeVar("AnyState", bound=State)


@attrs.define(eq=False)
class ShardUserState:
    """State and timers of one bundle (``beam_runner_worker.ports.UserState``).

    Args:
        plan: declarations of the transform.
        processing_time: processing time of the bundle (ms).
        clock: processing-time clock of the job.

    Attributes:
        shard: current shard, which owns the cells and timers; must be set before any other call.
    """

    _plan: StatefulPlan
    _processing_time: Timestamp
    _clock: ProcessingClock
    shard: StatefulShard = attrs.field(init=False)

    def read_bag(self, cell: StateCell) -> bytes:
        """Returns all encoded values of a bag, or of a value state, which the SDK reads as a bag."""
        state = self._open_bag(cell)
        if isinstance(state, ValueState):
            return state.read() or b""
        return b"".join(state.read())

    def append_to_bag(self, cell: StateCell, values: bytes) -> None:
        """Appends encoded values to a bag, or writes a value."""
        state = self._open_bag(cell)
        if isinstance(state, ValueState):
            # An SDK can send one value in several parts. Before the SDK writes another value, it
            # clears the cell.
            state.write((state.read() or b"") + values)
        else:
            state.add(values)

    def replace_bag(self, cell: StateCell, values: bytes) -> None:
        """Replaces the content of a bag with encoded values, or writes a value."""
        state = self._open_bag(cell)
        if not values:
            state.clear()
        elif isinstance(state, ValueState):
            state.write(values)
        else:
            state.clear()
            state.add(values)

    def clear_cell(self, cell: StateCell) -> None:
        """Clears a cell of any kind."""
        self._open_cell(cell, State).clear()

    def read_map_keys(self, cell: StateCell) -> bytes:
        """Returns the encoded keys of a multimap, ascending."""
        return b"".join(self._open_cell(cell, MultimapState).keys())

    def read_map_values(self, cell: StateCell, map_key: bytes) -> bytes:
        """Returns all encoded values of one key of a multimap."""
        return b"".join(self._open_cell(cell, MultimapState).get(map_key))

    def append_map_values(self, cell: StateCell, map_key: bytes, values: bytes) -> None:
        """Appends encoded values to one key of a multimap."""
        self._open_cell(cell, MultimapState).add(map_key, values)

    def remove_map_key(self, cell: StateCell, map_key: bytes) -> None:
        """Removes one key of a multimap."""
        self._open_cell(cell, MultimapState).remove(map_key)

    def read_ordered_values(
        self, cell: StateCell, start: int, end: int
    ) -> Iterator[tuple[int, bytes]]:
        """Yields the pairs of sort key and value with a sort key from ``start`` to before ``end``, ascending."""
        return self._open_cell(cell, OrderedListState).read(start, end)

    def insert_ordered_value(self, cell: StateCell, sort_key: int, value: bytes) -> None:
        """Adds a value to an ordered list."""
        self._open_cell(cell, OrderedListState).add(sort_key, value)

    def remove_ordered_values(self, cell: StateCell, start: int, end: int) -> None:
        """Removes the values with a sort key from ``start`` to before ``end``."""
        self._open_cell(cell, OrderedListState).clear_range(start, end)

    def set_timer(self, timer: StageTimer) -> None:
        """Sets a timer, or clears it if it has no firing time.

        Raises:
            HarnessError: The transform doesn't declare the timer family.
            TimerRefused: The window of the key is expiring in this bundle.
        """
        domain = self._plan.timers.get(timer.family)
        if domain is None:
            raise HarnessError(
                f"{timer.transform_id} sets a timer of the undeclared family {timer.family!r}"
            )
        for window in timer.windows:
            if timer.fire_at is None:
                self.shard.clear_timer(timer.key, window, timer.family, timer.tag)
                continue
            if self.shard.is_window_expiring(timer.key, window):
                raise TimerRefused(
                    f"the timer {timer.family!r} of {timer.transform_id} is set while its window "
                    "expires, and would never ring: let @on_window_expiration set no timers"
                )
            fire_time = self._convert_fire_time(domain, timer.fire_at)
            self.shard.set_timer(
                EngineTimer(
                    key=timer.key,
                    window=window,
                    family=timer.family,
                    tag=timer.tag,
                    domain=domain,
                    fire_time=fire_time,
                    hold=None if timer.hold is None else clamp_timestamp(timer.hold),
                    pane=_decode_pane(timer.pane),
                )
            )

    def _convert_fire_time(self, domain: TimeDomain, fire_at: Timestamp) -> Timestamp:
        """Returns the firing time of a timer by the job's clock, which can differ from the SDK's
        clock.

        SDKs take processing time from the wall clock, and can't read a scripted clock, which starts
        at 0. So the duration from the wall clock to the firing time is added to the job's
        processing time. Tests for a scripted clock count from 0, and their firing times are used
        unchanged.
        """
        if domain is TimeDomain.EVENT_TIME:
            return clamp_timestamp(fire_at)
        if not self._plan.scripted_clock:
            return clamp_timestamp(self._clock.from_wall_clock(fire_at))
        wall_clock = int(time.time() * 1000)
        if fire_at < wall_clock // 2:
            return clamp_timestamp(fire_at)
        return clamp_timestamp(fire_at - wall_clock + self._processing_time)

    def _open_bag(self, cell: StateCell) -> BagState | ValueState:
        if self._plan.states.get(cell.state_id) is ValueState:
            return self._open_cell(cell, ValueState)
        return self._open_cell(cell, BagState)

    def _open_cell(self, cell: StateCell, asked: type[AnyState]) -> AnyState:
        kind = self._plan.states.get(cell.state_id)
        if kind is None or not issubclass(kind, asked):
            raise HarnessError(
                f"{cell.transform_id} accesses the state {cell.state_id!r} as"
                f" {asked.__name__}, but declares it as {kind and kind.__name__}"
            )
        return self.shard.get_state(kind, cell.state_id, cell.key, cell.window)


@lru_cache(maxsize=1024)
def _decode_pane(encoded: bytes) -> PaneInfo:
    return decode_pane(encoded)[0]
