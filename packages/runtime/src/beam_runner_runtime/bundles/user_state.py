"""State and timers of a stateful DoFn for the keys of one bundle. The SDK reads and writes them through this module."""

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
    """Implementation of the SDK's state and timer requests for one bundle
    (``beam_runner_worker.ports.UserState``).

    Args:
        processing_time: processing time of the bundle (ms).

    Attributes:
        shard: current key shard, which stores the state and timers; must be set before any method
            is called.
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
        """Appends encoded values to a bag. For a value state, writes the value."""
        state = self._open_bag(cell)
        if isinstance(state, ValueState):
            # An SDK can send one value in several parts. Before it writes another value, the SDK clears the state.
            state.write((state.read() or b"") + values)
        else:
            state.add(values)

    def replace_bag(self, cell: StateCell, values: bytes) -> None:
        """Replaces the content of a bag with encoded values. For a value state, writes the value."""
        state = self._open_bag(cell)
        if not values:
            state.clear()
        elif isinstance(state, ValueState):
            state.write(values)
        else:
            state.clear()
            state.add(values)

    def clear_cell(self, cell: StateCell) -> None:
        """Clears the state of a key, of any kind (bag, value, map, ordered list)."""
        self._open_cell(cell, State).clear()

    def read_map_keys(self, cell: StateCell) -> bytes:
        """Returns the encoded keys of a multimap, ascending."""
        return b"".join(self._open_cell(cell, MultimapState).keys())

    def read_map_values(self, cell: StateCell, map_key: bytes) -> bytes:
        return b"".join(self._open_cell(cell, MultimapState).get(map_key))

    def append_map_values(self, cell: StateCell, map_key: bytes, values: bytes) -> None:
        self._open_cell(cell, MultimapState).add(map_key, values)

    def remove_map_key(self, cell: StateCell, map_key: bytes) -> None:
        self._open_cell(cell, MultimapState).remove(map_key)

    def read_ordered_values(
        self, cell: StateCell, start: int, end: int
    ) -> Iterator[tuple[int, bytes]]:
        return self._open_cell(cell, OrderedListState).read(start, end)

    def insert_ordered_value(self, cell: StateCell, sort_key: int, value: bytes) -> None:
        """Adds a value to an ordered list."""
        self._open_cell(cell, OrderedListState).add(sort_key, value)

    def remove_ordered_values(self, cell: StateCell, start: int, end: int) -> None:
        self._open_cell(cell, OrderedListState).clear_range(start, end)

    def set_timer(self, timer: StageTimer) -> None:
        """Sets a timer, or clears the timer if it has no firing time.

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
                    "expires, and would never fire: remove timers from the method "
                    "@on_window_expiration"
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

        SDKs read processing time from the wall clock. They can't read the clock of a TestStream,
        which starts at 0. So the duration from the wall clock to the firing time is added to the
        job's processing time. Tests with a TestStream set firing times relative to 0, and these
        times are used unchanged.
        """
        if domain is TimeDomain.EVENT_TIME:
            return clamp_timestamp(fire_at)
        if not self._plan.scripted_clock:
            return clamp_timestamp(self._clock.convert_wall_clock_time(fire_at))
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
