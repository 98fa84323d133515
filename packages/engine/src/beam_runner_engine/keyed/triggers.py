"""Triggers that stand alone, as state machines whose states are plain immutable values.

Every machine answers the same questions about a state; `composite_triggers` puts them together. An
`Instant` tells all that a trigger may know about time. The methods:

- `initial`: the state before the first element.
- `add(state, count, at)`: the state after `count` more elements.
- `ready(state, at)`: whether the trigger fires now.
- `fire(state, at)`: the state after it fired, and whether the trigger is finished.
- `merge(states, at)`: the state of the window that windows in these states merge into.
- `reopened(at)`: what is its state where windows merge in which it was finished, in a tuple; None if
  it stays finished. One that never is finished has a state.
- `wake(state)`: the next processing time (ms) that may make it ready, None if none may.
- `watches_end`: whether passing the end of the window may make it ready.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias

from beam_runner_model.times import Timestamp, clamp, next_aligned, plus
from beam_runner_model.triggers import (
    AfterSynchronizedProcessingTime,
    AlignTo,
    Always,
    DefaultTrigger,
    Delay,
    Never,
)

State: TypeAlias = Any
"""A machine's state: None, a number, or a tuple of states."""


class Instant(NamedTuple):
    """What a trigger knows of time: whether its window has ended, and processing time (ms)."""

    ended: bool
    processing_time: Timestamp


class Machine(Protocol):
    """What every trigger's state machine can do; the module says what the members mean."""

    @property
    def initial(self) -> State: ...
    @property
    def watches_end(self) -> bool: ...
    def add(self, state: State, count: int, at: Instant) -> State: ...
    def ready(self, state: State, at: Instant) -> bool: ...
    def fire(self, state: State, at: Instant) -> tuple[State, bool]: ...
    def merge(self, states: Sequence[State], at: Instant) -> State: ...
    def reopened(self, at: Instant) -> tuple[State] | None: ...
    def wake(self, state: State) -> Timestamp | None: ...


STATELESS: dict[type, tuple[bool, bool]] = {
    DefaultTrigger: (False, True),
    Always: (True, True),
    AfterSynchronizedProcessingTime: (True, True),
    Never: (False, False),
}
"""Whether a trigger that remembers nothing is ready before and after the end of the window."""


class Stateless:
    """The machine of triggers that remember nothing and are never finished; see `STATELESS`."""

    initial: State = None

    def __init__(self, ready: tuple[bool, bool]) -> None:
        self._ready = ready
        self.watches_end = ready == (False, True)

    def add(self, state: State, count: int, at: Instant) -> State:
        return None

    def ready(self, state: State, at: Instant) -> bool:
        return self._ready[at.ended]

    def fire(self, state: State, at: Instant) -> tuple[State, bool]:
        return None, False

    def merge(self, states: Sequence[State], at: Instant) -> State:
        return None

    def reopened(self, at: Instant) -> tuple[State] | None:
        return (None,)

    def wake(self, state: State) -> Timestamp | None:
        return None


class CountMachine:
    """After count: the state is the number of elements so far."""

    initial: State = 0
    watches_end = False

    def __init__(self, count: int) -> None:
        self._count = count

    def add(self, state: State, count: int, at: Instant) -> State:
        return state + count

    def ready(self, state: State, at: Instant) -> bool:
        return bool(state >= self._count)

    def fire(self, state: State, at: Instant) -> tuple[State, bool]:
        return state, True

    def merge(self, states: Sequence[State], at: Instant) -> State:
        return sum(states)

    def reopened(self, at: Instant) -> tuple[State] | None:
        return None

    def wake(self, state: State) -> Timestamp | None:
        return None


class ProcessingTimeMachine:
    """After processing time: the state is the time (ms) it fires at, None before the first
    element.
    """

    initial: State = None
    watches_end = False

    def __init__(self, transforms: tuple[Delay | AlignTo, ...]) -> None:
        self._transforms = transforms

    def add(self, state: State, count: int, at: Instant) -> State:
        return self._firing_time(at.processing_time) if state is None else state

    def ready(self, state: State, at: Instant) -> bool:
        return state is not None and at.processing_time >= state

    def fire(self, state: State, at: Instant) -> tuple[State, bool]:
        return state, True

    def merge(self, states: Sequence[State], at: Instant) -> State:
        return min((state for state in states if state is not None), default=None)

    def reopened(self, at: Instant) -> tuple[State] | None:
        return None

    def wake(self, state: State) -> Timestamp | None:
        return state

    def _firing_time(self, time: Timestamp) -> Timestamp:
        for transform in self._transforms:
            match transform:
                case Delay(delay):
                    time = plus(time, delay)
                case AlignTo(period, offset):
                    time = clamp(next_aligned(time, period, offset))
        return time
