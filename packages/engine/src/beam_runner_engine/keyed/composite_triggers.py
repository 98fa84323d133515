"""State machines of composite triggers, and the factory of the state machine for any trigger.

A composite machine delegates to its subtriggers and combines their results. The state of a
composite machine contains the states of its subtriggers.
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
    AfterCountMachine,
    AfterProcessingTimeMachine,
    State,
    StatelessTriggerMachine,
    TriggerMachine,
    TriggerTime,
)


class ParallelTriggerMachine:
    """Machine of `AfterAll`, `AfterAny` and `OrFinally`, whose subtriggers all see every element.

    The state is a tuple of the subtriggers' states.

    | trigger | ready if these are ready | finished after firing if these finish |
    |---|---|---|
    | `AfterAll` | all subtriggers | all subtriggers |
    | `AfterAny` | any subtrigger | any subtrigger |
    | `OrFinally` | any subtrigger | any subtrigger |
    """

    def __init__(
        self, parts: Sequence[TriggerMachine], combine: Callable[[Iterable[bool]], bool]
    ) -> None:
        self._parts = tuple(parts)
        self._combine = combine
        self.initial_state: State = tuple(part.initial_state for part in parts)
        self.depends_on_window_end = any(part.depends_on_window_end for part in parts)

    def add_elements(self, state: State, count: int, at: TriggerTime) -> State:
        return tuple(
            [p.add_elements(s, count, at) for p, s in zip(self._parts, state, strict=True)]
        )

    def is_ready(self, state: State, at: TriggerTime) -> bool:
        return self._combine([p.is_ready(s, at) for p, s in zip(self._parts, state, strict=True)])

    def fire_trigger(self, state: State, at: TriggerTime) -> tuple[State, bool]:
        states = list(state)
        finished = []
        for number, part in enumerate(self._parts):
            if part.is_ready(states[number], at):
                states[number], done = part.fire_trigger(states[number], at)
                finished.append(done)
        return tuple(states), self._combine(finished)

    def merge_states(self, states: Sequence[State], at: TriggerTime) -> State:
        columns = zip(*states, strict=True)
        return tuple(
            p.merge_states(column, at) for p, column in zip(self._parts, columns, strict=True)
        )

    def reopen_trigger(self, at: TriggerTime) -> tuple[State] | None:
        """Returns the state after windows merge in which the trigger was finished, or None if the
        trigger stays finished.

        The state doesn't record which subtriggers finished. `AfterAny` and `OrFinally` therefore
        stay finished if any subtrigger would stay finished.
        """
        stays = self._combine([part.reopen_trigger(at) is None for part in self._parts])
        return None if stays else (self.initial_state,)

    def get_next_wake_up_time(self, state: State) -> Timestamp | None:
        return _find_earliest_wake_up_time(
            p.get_next_wake_up_time(s) for p, s in zip(self._parts, state, strict=True)
        )


class AfterEachMachine:
    """Machine of `AfterEach`. The state consists of the index of the current subtrigger and its
    state.
    """

    def __init__(self, parts: Sequence[TriggerMachine]) -> None:
        self._parts = tuple(parts)
        self.initial_state: State = (0, parts[0].initial_state)
        self.depends_on_window_end = any(part.depends_on_window_end for part in parts)

    def add_elements(self, state: State, count: int, at: TriggerTime) -> State:
        part = self._get_current_subtrigger(state)
        return state if part is None else (state[0], part.add_elements(state[1], count, at))

    def is_ready(self, state: State, at: TriggerTime) -> bool:
        part = self._get_current_subtrigger(state)
        return part is not None and part.is_ready(state[1], at)

    def fire_trigger(self, state: State, at: TriggerTime) -> tuple[State, bool]:
        index, of_part = state
        of_part, done = self._parts[index].fire_trigger(of_part, at)
        if not done:
            return (index, of_part), False
        if index + 1 == len(self._parts):
            return (index + 1, None), True
        return (index + 1, self._parts[index + 1].initial_state), False

    def merge_states(self, states: Sequence[State], at: TriggerTime) -> State:
        """Merges the states of merged windows.

        The current subtrigger becomes the furthest current subtrigger of all states, or an earlier
        subtrigger that reopens. A subtrigger reopens if it waits for the end of the window and the
        merged window has not ended.
        """
        furthest = max(state[0] for state in states)
        reopened = self._find_reopened_subtrigger(furthest, at)
        index = furthest if reopened is None else reopened[0]
        if index == len(self._parts):
            return (index, None)
        current = [state[1] for state in (*states, reopened) if state and state[0] == index]
        return (index, self._parts[index].merge_states(current, at))

    def reopen_trigger(self, at: TriggerTime) -> tuple[State] | None:
        state = self._find_reopened_subtrigger(len(self._parts), at)
        return None if state is None else (state,)

    def _find_reopened_subtrigger(self, stop: int, at: TriggerTime) -> State | None:
        """Returns the index and state of the first subtrigger below `stop` that reopens, or None."""
        for number, part in enumerate(self._parts[:stop]):
            if (of_part := part.reopen_trigger(at)) is not None:
                return (number, of_part[0])
        return None

    def get_next_wake_up_time(self, state: State) -> Timestamp | None:
        part = self._get_current_subtrigger(state)
        return None if part is None else part.get_next_wake_up_time(state[1])

    def _get_current_subtrigger(self, state: State) -> TriggerMachine | None:
        return self._parts[state[0]] if state[0] < len(self._parts) else None


class RepeatedTriggerMachine:
    """Machine of `Repeatedly`. The state is the subtrigger's state, which resets whenever the
    subtrigger finishes.
    """

    def __init__(self, part: TriggerMachine) -> None:
        self._part = part
        self.initial_state: State = part.initial_state
        self.depends_on_window_end = part.depends_on_window_end
        self.add_elements = part.add_elements
        self.is_ready = part.is_ready
        self.merge_states = part.merge_states
        self.get_next_wake_up_time = part.get_next_wake_up_time

    def fire_trigger(self, state: State, at: TriggerTime) -> tuple[State, bool]:
        state, done = self._part.fire_trigger(state, at)
        return (self.initial_state if done else state), False

    def reopen_trigger(self, at: TriggerTime) -> tuple[State] | None:
        return (self.initial_state,)


class EndOfWindowMachine:
    """State machine of the trigger `AfterEndOfWindow`.

    The state consists of a flag for the on-time firing, the early state and the late state.

    | on-time firing done | end of window passed | ready if | finished after firing |
    |---|---|---|---|
    | no | no | the early trigger is ready | no |
    | no | yes | always | if there is no late trigger |
    | yes | yes | the late trigger is ready | no |
    """

    depends_on_window_end = True

    def __init__(self, early: TriggerMachine | None, late: TriggerMachine | None) -> None:
        self._early = (
            RepeatedTriggerMachine(early)
            if early is not None
            else StatelessTriggerMachine(STATELESS_READINESS[Never])
        )
        self._late = RepeatedTriggerMachine(late) if late is not None else None
        self.initial_state: State = (
            False,
            self._early.initial_state,
            late.initial_state if late is not None else None,
        )

    def add_elements(self, state: State, count: int, at: TriggerTime) -> State:
        fired, early, late = state
        if fired and self._late is not None:
            return (True, early, self._late.add_elements(late, count, at))
        return (fired, self._early.add_elements(early, count, at), late)

    def is_ready(self, state: State, at: TriggerTime) -> bool:
        if state[0] and self._late is not None:
            return self._late.is_ready(state[2], at)
        return at.ended or self._early.is_ready(state[1], at)

    def fire_trigger(self, state: State, at: TriggerTime) -> tuple[State, bool]:
        fired, early, late = state
        if fired and self._late is not None:
            return (True, early, self._late.fire_trigger(late, at)[0]), False
        if at.ended:
            return (True, self._early.initial_state, late), self._late is None
        return (False, self._early.fire_trigger(early, at)[0], late), False

    def merge_states(self, states: Sequence[State], at: TriggerTime) -> State:
        """Merges the trigger states of merged windows. Forgets earlier on-time firings if the merged
        window hasn't ended.
        """
        early = self._early.merge_states([state[1] for state in states], at)
        late = None if self._late is None else self._late.merge_states([s[2] for s in states], at)
        if not at.ended:
            return (False, early, self.initial_state[2])
        return (any(state[0] for state in states), early, late)

    def reopen_trigger(self, at: TriggerTime) -> tuple[State] | None:
        return None if at.ended and self._late is None else (self.initial_state,)

    def get_next_wake_up_time(self, state: State) -> Timestamp | None:
        if state[0]:
            return None if self._late is None else self._late.get_next_wake_up_time(state[2])
        return self._early.get_next_wake_up_time(state[1])


@lru_cache(maxsize=256)
def create_machine(trigger: Trigger) -> TriggerMachine:
    """Returns the state machine of a trigger."""
    match trigger:
        case DefaultTrigger() | Always() | AfterSynchronizedProcessingTime() | Never():
            return StatelessTriggerMachine(STATELESS_READINESS[type(trigger)])
        case AfterCount(count):
            return AfterCountMachine(count)
        case AfterProcessingTime(transforms):
            return AfterProcessingTimeMachine(transforms)
        case AfterEndOfWindow(early, late):
            return EndOfWindowMachine(
                None if early is None else create_machine(early),
                None if late is None else create_machine(late),
            )
        case AfterAll(triggers):
            return ParallelTriggerMachine([create_machine(part) for part in triggers], all)
        case AfterAny(triggers):
            return ParallelTriggerMachine([create_machine(part) for part in triggers], any)
        case OrFinally(main, until):
            return ParallelTriggerMachine([create_machine(main), create_machine(until)], any)
        case AfterEach(triggers):
            return AfterEachMachine([create_machine(part) for part in triggers])
        case Repeatedly(part):
            return RepeatedTriggerMachine(create_machine(part))


def _find_earliest_wake_up_time(times: Iterable[Timestamp | None]) -> Timestamp | None:
    return min((time for time in times if time is not None), default=None)
