"""State machines of simple triggers; the states are immutable plain values.

All machines implement the protocol `TriggerMachine`, and `composite_triggers` combines them. A
`TriggerTime` holds everything that a trigger knows about time. The members of a machine:

- `initial_state`: the state before the first element.
- `add_elements(state, count, at)`: returns the state after `count` more elements.
- `is_ready(state, at)`: returns whether the trigger fires now.
- `fire_trigger(state, at)`: returns the state after a firing, and whether the trigger is finished.
- `merge_states(states, at)`: returns the state of a merged window, from the states of the windows
  that merge.
- `reopen_trigger(at)`: returns the state, in a tuple, if the trigger was finished in windows that
  merge; None if the trigger stays finished. A trigger that never finishes returns a state.
- `get_next_wake_up_time(state)`: returns the next processing time (ms) at which the trigger can become
  ready; None if no such time exists.
- `depends_on_window_end`: whether the trigger can become ready at the end of the window.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias

from beam_runner_model.times import (
    Timestamp,
    add_clamped_duration,
    align_time_after,
    clamp_timestamp,
)
from beam_runner_model.triggers import (
    AfterSynchronizedProcessingTime,
    AlignTo,
    Always,
    DefaultTrigger,
    Delay,
    Never,
)

State: TypeAlias = Any
"""State of a machine: None, a number, or a tuple of states."""


class TriggerTime(NamedTuple):
    """Time as a trigger sees it: whether the window has ended, and the processing time (ms)."""

    ended: bool
    processing_time: Timestamp


class TriggerMachine(Protocol):
    """State machine of a trigger. The module docstring describes the members."""

    @property
    def initial_state(self) -> State: ...
    @property
    def depends_on_window_end(self) -> bool: ...
    def add_elements(self, state: State, count: int, at: TriggerTime) -> State: ...
    def is_ready(self, state: State, at: TriggerTime) -> bool: ...
    def fire_trigger(self, state: State, at: TriggerTime) -> tuple[State, bool]: ...
    def merge_states(self, states: Sequence[State], at: TriggerTime) -> State: ...
    def reopen_trigger(self, at: TriggerTime) -> tuple[State] | None: ...
    def get_next_wake_up_time(self, state: State) -> Timestamp | None: ...


STATELESS_READINESS: dict[type, tuple[bool, bool]] = {
    DefaultTrigger: (False, True),
    Always: (True, True),
    AfterSynchronizedProcessingTime: (True, True),
    Never: (False, False),
}
"""For each stateless trigger: whether it is ready before the end of the window, and whether it is
ready after the end.
"""


class StatelessTriggerMachine:
    """Machine of triggers without state that never finish, see `STATELESS_READINESS`."""

    initial_state: State = None

    def __init__(self, ready: tuple[bool, bool]) -> None:
        self._ready = ready
        self.depends_on_window_end = ready == (False, True)

    def add_elements(self, state: State, count: int, at: TriggerTime) -> State:
        return None

    def is_ready(self, state: State, at: TriggerTime) -> bool:
        return self._ready[at.ended]

    def fire_trigger(self, state: State, at: TriggerTime) -> tuple[State, bool]:
        return None, False

    def merge_states(self, states: Sequence[State], at: TriggerTime) -> State:
        return None

    def reopen_trigger(self, at: TriggerTime) -> tuple[State] | None:
        return (None,)

    def get_next_wake_up_time(self, state: State) -> Timestamp | None:
        return None


class AfterCountMachine:
    """Machine of `AfterCount`. The state is the number of elements so far."""

    initial_state: State = 0
    depends_on_window_end = False

    def __init__(self, count: int) -> None:
        self._count = count

    def add_elements(self, state: State, count: int, at: TriggerTime) -> State:
        return state + count

    def is_ready(self, state: State, at: TriggerTime) -> bool:
        return bool(state >= self._count)

    def fire_trigger(self, state: State, at: TriggerTime) -> tuple[State, bool]:
        return state, True

    def merge_states(self, states: Sequence[State], at: TriggerTime) -> State:
        return sum(states)

    def reopen_trigger(self, at: TriggerTime) -> tuple[State] | None:
        return None

    def get_next_wake_up_time(self, state: State) -> Timestamp | None:
        return None


class AfterProcessingTimeMachine:
    """Machine of `AfterProcessingTime`. The state is the firing time (processing time, ms), or None
    before the first element.
    """

    initial_state: State = None
    depends_on_window_end = False

    def __init__(self, transforms: tuple[Delay | AlignTo, ...]) -> None:
        self._transforms = transforms

    def add_elements(self, state: State, count: int, at: TriggerTime) -> State:
        return self._compute_firing_time(at.processing_time) if state is None else state

    def is_ready(self, state: State, at: TriggerTime) -> bool:
        return state is not None and at.processing_time >= state

    def fire_trigger(self, state: State, at: TriggerTime) -> tuple[State, bool]:
        return state, True

    def merge_states(self, states: Sequence[State], at: TriggerTime) -> State:
        return min((state for state in states if state is not None), default=None)

    def reopen_trigger(self, at: TriggerTime) -> tuple[State] | None:
        return None

    def get_next_wake_up_time(self, state: State) -> Timestamp | None:
        return state

    def _compute_firing_time(self, time: Timestamp) -> Timestamp:
        for transform in self._transforms:
            match transform:
                case Delay(delay):
                    time = add_clamped_duration(time, delay)
                case AlignTo(period, offset):
                    time = clamp_timestamp(align_time_after(time, period, offset))
        return time
