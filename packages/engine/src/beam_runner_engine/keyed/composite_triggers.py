"""State machines of composite triggers, and the factory of the state machine for any trigger.

A composite machine delegates to its subtriggers and combines their results. Its state contains the
states of its subtriggers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache

from beam_runner_model.times import Timestamp
from beam_runner_model.triggers import (
    AfterAll,
    AfterAny,
    AfterCount,
    AfterEach,
    AfterEndOfWindow,
    AfterProcessingTime,
    AfterSynchronizedProcessingTime,
    Always,
    DefaultTrigger,
    Never,
    OrFinally,
    Repeatedly,
    Trigger,
)

from beam_runner_engine.keyed.triggers import (
    STATELESS_READINESS,
    CountMachine,
    Instant,
    Machine,
    ProcessingTimeMachine,
    State,
    StatelessMachine,
)


class ParallelMachine:
    """Machine of `AfterAll`, `AfterAny` and `OrFinally`, whose subtriggers all see every element.

    The state is a tuple of the subtriggers' states.

    | trigger | ready if these are ready | finished after firing if these finish |
    |---|---|---|
    | `AfterAll` | all subtriggers | all subtriggers |
    | `AfterAny` | any subtrigger | any subtrigger |
    | `OrFinally` | any subtrigger | any subtrigger |
    """

    def __init__(self, parts: Sequence[Machine], combine: Callable[[Iterable[bool]], bool]) -> None:
        self._parts = tuple(parts)
        self._combine = combine
        self.initial: State = tuple(part.initial for part in parts)
        self.watches_end = any(part.watches_end for part in parts)

    def add(self, state: State, count: int, at: Instant) -> State:
        return tuple([p.add(s, count, at) for p, s in zip(self._parts, state, strict=True)])

    def ready(self, state: State, at: Instant) -> bool:
        return self._combine([p.ready(s, at) for p, s in zip(self._parts, state, strict=True)])

    def fire(self, state: State, at: Instant) -> tuple[State, bool]:
        states = list(state)
        finished = []
        for number, part in enumerate(self._parts):
            if part.ready(states[number], at):
                states[number], done = part.fire(states[number], at)
                finished.append(done)
        return tuple(states), self._combine(finished)

    def merge(self, states: Sequence[State], at: Instant) -> State:
        columns = zip(*states, strict=True)
        return tuple(p.merge(column, at) for p, column in zip(self._parts, columns, strict=True))

    def reopen(self, at: Instant) -> tuple[State] | None:
        """Returns the state after windows merge in which the trigger was finished, or None if the
        trigger stays finished.

        The state doesn't record which subtriggers finished. `AfterAny` and `OrFinally` therefore
        stay finished if any subtrigger would stay finished.
        """
        stays = self._combine([part.reopen(at) is None for part in self._parts])
        return None if stays else (self.initial,)

    def next_wake(self, state: State) -> Timestamp | None:
        return _find_earliest(p.next_wake(s) for p, s in zip(self._parts, state, strict=True))


class AfterEachMachine:
    """Machine of `AfterEach`. The state consists of the index of the current subtrigger and its
    state.
    """

    def __init__(self, parts: Sequence[Machine]) -> None:
        self._parts = tuple(parts)
        self.initial: State = (0, parts[0].initial)
        self.watches_end = any(part.watches_end for part in parts)

    def add(self, state: State, count: int, at: Instant) -> State:
        part = self._get_current(state)
        return state if part is None else (state[0], part.add(state[1], count, at))

    def ready(self, state: State, at: Instant) -> bool:
        part = self._get_current(state)
        return part is not None and part.ready(state[1], at)

    def fire(self, state: State, at: Instant) -> tuple[State, bool]:
        index, of_part = state
        of_part, done = self._parts[index].fire(of_part, at)
        if not done:
            return (index, of_part), False
        if index + 1 == len(self._parts):
            return (index + 1, None), True
        return (index + 1, self._parts[index + 1].initial), False

    def merge(self, states: Sequence[State], at: Instant) -> State:
        """Merges states: the current subtrigger is the furthest current subtrigger, or an earlier
        one that reopens.

        A subtrigger reopens if it waits for the end of the window and the merged window has not
        ended.
        """
        furthest = max(state[0] for state in states)
        reopened = self._reopen(furthest, at)
        index = furthest if reopened is None else reopened[0]
        if index == len(self._parts):
            return (index, None)
        current = [state[1] for state in (*states, reopened) if state and state[0] == index]
        return (index, self._parts[index].merge(current, at))

    def reopen(self, at: Instant) -> tuple[State] | None:
        state = self._reopen(len(self._parts), at)
        return None if state is None else (state,)

    def _reopen(self, stop: int, at: Instant) -> State | None:
        """Returns the index and state of the first subtrigger below `stop` that reopens, or None."""
        for number, part in enumerate(self._parts[:stop]):
            if (of_part := part.reopen(at)) is not None:
                return (number, of_part[0])
        return None

    def next_wake(self, state: State) -> Timestamp | None:
        part = self._get_current(state)
        return None if part is None else part.next_wake(state[1])

    def _get_current(self, state: State) -> Machine | None:
        return self._parts[state[0]] if state[0] < len(self._parts) else None


class RepeatedlyMachine:
    """Machine of `Repeatedly`. The state is the subtrigger's state, which resets whenever the
    subtrigger finishes.
    """

    def __init__(self, part: Machine) -> None:
        self._part = part
        self.initial: State = part.initial
        self.watches_end = part.watches_end
        self.add = part.add
        self.ready = part.ready
        self.merge = part.merge
        self.next_wake = part.next_wake

    def fire(self, state: State, at: Instant) -> tuple[State, bool]:
        state, done = self._part.fire(state, at)
        return (self.initial if done else state), False

    def reopen(self, at: Instant) -> tuple[State] | None:
        return (self.initial,)


class EndOfWindowMachine:
    """Machine of `AfterEndOfWindow`.

    The state consists of a flag for the on-time firing, the early state and the late state.

    | on-time firing done | end of window passed | ready if | finished after firing |
    |---|---|---|---|
    | no | no | the early trigger is ready | no |
    | no | yes | always | if there is no late trigger |
    | yes | yes | the late trigger is ready | no |
    """

    watches_end = True

    def __init__(self, early: Machine | None, late: Machine | None) -> None:
        self._early = (
            RepeatedlyMachine(early)
            if early is not None
            else StatelessMachine(STATELESS_READINESS[Never])
        )
        self._late = RepeatedlyMachine(late) if late is not None else None
        self.initial: State = (
            False,
            self._early.initial,
            late.initial if late is not None else None,
        )

    def add(self, state: State, count: int, at: Instant) -> State:
        fired, early, late = state
        if fired and self._late is not None:
            return (True, early, self._late.add(late, count, at))
        return (fired, self._early.add(early, count, at), late)

    def ready(self, state: State, at: Instant) -> bool:
        if state[0] and self._late is not None:
            return self._late.ready(state[2], at)
        return at.ended or self._early.ready(state[1], at)

    def fire(self, state: State, at: Instant) -> tuple[State, bool]:
        fired, early, late = state
        if fired and self._late is not None:
            return (True, early, self._late.fire(late, at)[0]), False
        if at.ended:
            return (True, self._early.initial, late), self._late is None
        return (False, self._early.fire(early, at)[0], late), False

    def merge(self, states: Sequence[State], at: Instant) -> State:
        """Merges the trigger states of merged windows. Forgets earlier on-time firings if the merged
        window hasn't ended.
        """
        early = self._early.merge([state[1] for state in states], at)
        late = None if self._late is None else self._late.merge([s[2] for s in states], at)
        if not at.ended:
            return (False, early, self.initial[2])
        return (any(state[0] for state in states), early, late)

    def reopen(self, at: Instant) -> tuple[State] | None:
        return None if at.ended and self._late is None else (self.initial,)

    def next_wake(self, state: State) -> Timestamp | None:
        if state[0]:
            return None if self._late is None else self._late.next_wake(state[2])
        return self._early.next_wake(state[1])


@lru_cache(maxsize=256)
def create_machine(trigger: Trigger) -> Machine:
    """Returns the state machine of a trigger."""
    match trigger:
        case DefaultTrigger() | Always() | AfterSynchronizedProcessingTime() | Never():
            return StatelessMachine(STATELESS_READINESS[type(trigger)])
        case AfterCount(count):
            return CountMachine(count)
        case AfterProcessingTime(transforms):
            return ProcessingTimeMachine(transforms)
        case AfterEndOfWindow(early, late):
            return EndOfWindowMachine(
                None if early is None else create_machine(early),
                None if late is None else create_machine(late),
            )
        case AfterAll(triggers):
            return ParallelMachine([create_machine(part) for part in triggers], all)
        case AfterAny(triggers):
            return ParallelMachine([create_machine(part) for part in triggers], any)
        case OrFinally(main, until):
            return ParallelMachine([create_machine(main), create_machine(until)], any)
        case AfterEach(triggers):
            return AfterEachMachine([create_machine(part) for part in triggers])
        case Repeatedly(part):
            return RepeatedlyMachine(create_machine(part))


def _find_earliest(times: Iterable[Timestamp | None]) -> Timestamp | None:
    return min((time for time in times if time is not None), default=None)
