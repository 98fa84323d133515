"""Tests of each trigger's state machine: readiness, finishing and merging."""

from __future__ import annotations

import pickle

import pytest
from beam_runner_model import triggers as t
from beam_runner_model.times import MAX_TIMESTAMP
from beam_runner_model.triggers import Trigger, may_fire_early
from hypothesis import given
from hypothesis import strategies as st

from beam_runner_engine.keyed.composite_triggers import create_machine
from beam_runner_engine.keyed.triggers import State, TriggerMachine, TriggerTime

from .test_oracle import TRIGGERS

BEFORE = TriggerTime(ended=False, processing_time=0)
AFTER = TriggerTime(ended=True, processing_time=0)
EACH = t.Repeatedly(t.AfterCount(1))


def _firings(trigger: Trigger, *steps: TriggerTime | int) -> str:
    """Runs a trigger and returns one letter per step: `.` not ready, `f` fired, `!` fired and
    finished.

    An integer step adds this number of elements, and an `TriggerTime` step changes the time.
    """
    of_trigger = create_machine(trigger)
    state, at, out = of_trigger.initial_state, BEFORE, ""
    for step in steps:
        if isinstance(step, TriggerTime):
            at = step
            state, letter = _ask(of_trigger, state, at)
            out += letter
        else:
            for _ in range(step):
                state = of_trigger.add_elements(state, 1, at)
                state, letter = _ask(of_trigger, state, at)
                out += letter
    return out


def _ask(of_trigger: TriggerMachine, state: State, at: TriggerTime) -> tuple[State, str]:
    if not of_trigger.is_ready(state, at):
        return state, "."
    state, finished = of_trigger.fire_trigger(state, at)
    return state, "!" if finished else "f"


@pytest.mark.parametrize(
    ("trigger", "steps", "expected"),
    [
        (t.DefaultTrigger(), (2, AFTER, 2), "..fff"),
        (t.Always(), (2, AFTER, 1), "ffff"),
        (t.AfterSynchronizedProcessingTime(), (1,), "f"),
        (t.Never(), (2, AFTER, 1), "...."),
        (t.AfterCount(2), (2,), ".!"),
        (t.Repeatedly(t.AfterCount(2)), (5,), ".f.f."),
        (t.AfterEndOfWindow(), (1, AFTER), ".!"),
        (t.AfterEndOfWindow(early=t.AfterCount(2)), (3, AFTER), ".f.!"),
        (t.AfterEndOfWindow(late=t.AfterCount(2)), (1, AFTER, 4), ".f.f.f"),
        (t.AfterAll((t.AfterCount(1), t.AfterCount(3))), (3,), "..!"),
        (t.AfterAny((t.AfterCount(2), t.AfterCount(3))), (2,), ".!"),
        (t.AfterEach((t.AfterCount(1), t.AfterCount(2))), (4,), "f.!."),
        (t.OrFinally(t.Repeatedly(t.AfterCount(2)), t.AfterCount(3)), (3,), ".f!"),
        (t.OrFinally(t.Repeatedly(t.AfterCount(2)), t.Always()), (2,), "ff"),
        (t.OrFinally(t.Repeatedly(t.AfterCount(2)), t.Repeatedly(t.AfterCount(3))), (4,), ".fff"),
        (t.OrFinally(t.Repeatedly(t.AfterCount(2)), t.AfterEndOfWindow()), (1, AFTER), ".!"),
        (
            t.OrFinally(t.Repeatedly(t.AfterCount(2)), t.AfterEndOfWindow(late=t.AfterCount(1))),
            (1, AFTER, 2),
            ".fff",
        ),
        (t.OrFinally(t.AfterCount(2), t.AfterCount(5)), (2,), ".!"),
        (
            t.AfterEach(
                (
                    t.OrFinally(t.Repeatedly(t.AfterCount(2)), t.AfterCount(3)),
                    t.OrFinally(t.Repeatedly(t.AfterCount(5)), t.AfterCount(10)),
                )
            ),
            (13,),
            ".ff....f....!",
        ),
        (t.AfterEach((t.AfterEndOfWindow(), EACH)), (1, AFTER, 2), ".fff"),
        (t.AfterEach((EACH, t.AfterCount(1))), (3,), "fff"),
        (t.AfterEach((t.AfterAny((t.AfterCount(2), t.Never())), t.AfterCount(1))), (3,), ".f!"),
        (t.Repeatedly(t.AfterEach((t.AfterCount(1), t.AfterCount(2)))), (6,), "f.ff.f"),
        (t.Repeatedly(t.AfterAll((t.AfterCount(1), t.AfterCount(2)))), (4,), ".f.f"),
        (t.Repeatedly(t.AfterAny((t.AfterCount(3), t.AfterCount(2)))), (4,), ".f.f"),
        (t.Repeatedly(t.OrFinally(t.AfterCount(3), t.AfterCount(2))), (4,), ".f.f"),
        (
            t.Repeatedly(t.OrFinally(t.Repeatedly(t.AfterCount(2)), t.AfterCount(3))),
            (6,),
            ".ff.ff",
        ),
        (
            t.OrFinally(t.AfterEach((t.AfterCount(1), EACH)), t.AfterEndOfWindow()),
            (2, AFTER),
            "ff!",
        ),
    ],
)
def test_trigger_fires_as_expected(
    trigger: Trigger, steps: tuple[TriggerTime | int, ...], expected: str
) -> None:
    assert _firings(trigger, *steps) == expected


@pytest.mark.parametrize(
    ("transforms", "fires_at"),
    [
        ((), 103),
        ((t.Delay(10),), 113),
        ((t.AlignTo(10),), 110),
        ((t.AlignTo(10, 4),), 104),
        ((t.Delay(7), t.AlignTo(10)), 120),
    ],
)
def test_processing_time_delay_starts_at_the_first_element(
    transforms: tuple[t.Delay | t.AlignTo, ...], fires_at: int
) -> None:
    of_trigger = create_machine(t.AfterProcessingTime(transforms))
    assert of_trigger.get_next_wake_up_time(of_trigger.initial_state) is None
    state = of_trigger.add_elements(of_trigger.initial_state, 1, TriggerTime(False, 103))
    assert of_trigger.add_elements(state, 1, TriggerTime(False, 150)) == state
    assert of_trigger.get_next_wake_up_time(state) == fires_at
    assert not of_trigger.is_ready(state, TriggerTime(False, fires_at - 1))
    assert of_trigger.is_ready(state, TriggerTime(False, fires_at))


@pytest.mark.parametrize("before_the_end", [0, 1, 5, 9])
def test_trigger_firing_time_is_clamped_at_the_maximum(before_the_end: int) -> None:
    of_trigger = create_machine(t.AfterProcessingTime((t.AlignTo(10), t.Delay(3), t.AlignTo(10))))
    state = of_trigger.add_elements(
        of_trigger.initial_state, 1, TriggerTime(False, MAX_TIMESTAMP - before_the_end)
    )
    assert of_trigger.get_next_wake_up_time(state) == MAX_TIMESTAMP


def test_composite_trigger_wake_time_is_that_of_its_earliest_subtrigger() -> None:
    soon, later = t.AfterProcessingTime((t.Delay(5),)), t.AfterProcessingTime((t.Delay(9),))
    for trigger in (
        t.AfterAll((later, soon)),
        t.AfterEach((soon, later)),
        t.Repeatedly(soon),
        t.AfterEndOfWindow(early=soon, late=later),
    ):
        of_trigger = create_machine(trigger)
        assert (
            of_trigger.get_next_wake_up_time(
                of_trigger.add_elements(of_trigger.initial_state, 1, BEFORE)
            )
            == 5
        )
    of_trigger = create_machine(t.AfterEndOfWindow(late=soon))
    state, _ = of_trigger.fire_trigger(of_trigger.initial_state, AFTER)
    assert of_trigger.get_next_wake_up_time(state) is None
    assert of_trigger.get_next_wake_up_time(of_trigger.add_elements(state, 1, AFTER)) == 5
    finished, _ = create_machine(t.AfterEndOfWindow()).fire_trigger(
        create_machine(t.AfterEndOfWindow()).initial_state, AFTER
    )
    assert create_machine(t.AfterEndOfWindow()).get_next_wake_up_time(finished) is None


def test_merged_trigger_states_are_combined() -> None:
    count = create_machine(t.AfterCount(5))
    assert count.merge_states([2, 3], BEFORE) == 5
    each = create_machine(t.AfterEach((t.AfterCount(1), t.AfterCount(5))))
    assert each.merge_states([(0, 0), (1, 2), (1, 1)], BEFORE) == (1, 3)
    assert each.merge_states([(0, 0), (2, None)], BEFORE) == (2, None)
    assert each.get_next_wake_up_time((2, None)) is None
    end = create_machine(t.AfterEndOfWindow(late=t.AfterCount(3)))
    fired = end.add_elements(end.fire_trigger(end.initial_state, AFTER)[0], 2, AFTER)
    assert end.merge_states([fired, end.initial_state], AFTER) == fired
    assert end.merge_states([fired, end.initial_state], BEFORE) == end.initial_state
    time = create_machine(t.AfterProcessingTime((t.Delay(3),)))
    assert time.merge_states([None, 7, 5], BEFORE) == 5
    assert time.merge_states([None], BEFORE) is None


END = t.AfterEndOfWindow()


@pytest.mark.parametrize(
    "first",
    [
        END,
        t.AfterEndOfWindow(early=t.AfterCount(2)),
        t.AfterAny((t.AfterEndOfWindow(), t.Never())),
        t.AfterAll((END, t.AfterCount(1))),
        t.OrFinally(EACH, END),
        t.AfterEach((END, t.AfterCount(1))),
    ],
)
def test_after_each_reopens_a_finished_subtrigger_if_the_merged_window_has_not_ended(
    first: Trigger,
) -> None:
    each = create_machine(t.AfterEach((first, EACH)))
    state = each.initial_state
    while state[0] == 0:
        state = each.add_elements(state, 1, AFTER)
        assert each.is_ready(state, AFTER)
        state, _ = each.fire_trigger(state, AFTER)
    assert each.merge_states([each.initial_state, state], AFTER) == state
    assert each.merge_states([each.initial_state, state], BEFORE) == each.initial_state


def test_after_each_reopens_the_first_unfinished_subtrigger() -> None:
    for counted_then_ended in (
        t.AfterEach((t.AfterCount(1), END, EACH)),
        t.AfterEach((t.AfterEach((t.AfterCount(1), END)), EACH)),
        t.AfterEach((t.AfterCount(1), t.AfterEach((END, EACH)))),
    ):
        each = create_machine(counted_then_ended)
        state = each.add_elements(each.initial_state, 1, BEFORE)
        at_the_end, _ = each.fire_trigger(state, BEFORE)
        state, finished = each.fire_trigger(at_the_end, AFTER)
        assert (finished, each.merge_states([state, each.initial_state], BEFORE)) == (
            False,
            at_the_end,
        )
    counted = create_machine(t.AfterEach((t.AfterAny((t.AfterCount(1), END)), EACH)))
    state, _ = counted.fire_trigger(counted.add_elements(counted.initial_state, 1, BEFORE), BEFORE)
    assert counted.merge_states([state, counted.initial_state], BEFORE) == state


@given(
    TRIGGERS, TRIGGERS, TRIGGERS, st.lists(st.integers(0, 3) | st.sampled_from([AFTER]), max_size=9)
)
def test_nested_after_each_equals_flat_after_each(
    a: Trigger, b: Trigger, c: Trigger, steps: list[TriggerTime | int]
) -> None:
    """Checks the equivalence that Beam's Java SDK documents for `AfterEach`."""
    flat = _firings(t.AfterEach((a, b, c)), *steps)
    assert _firings(t.AfterEach((t.AfterEach((a, b)), c)), *steps) == flat
    assert _firings(t.AfterEach((a, t.AfterEach((b, c)))), *steps) == flat
    assert _firings(t.AfterEach((t.Repeatedly(a), b)), *steps) == _firings(t.Repeatedly(a), *steps)


@given(TRIGGERS)
def test_trigger_machine_and_state_can_be_pickled(trigger: Trigger) -> None:
    of_trigger = create_machine(trigger)
    state = of_trigger.add_elements(of_trigger.initial_state, 1, BEFORE)
    copy: TriggerMachine = pickle.loads(pickle.dumps(of_trigger))
    assert pickle.loads(pickle.dumps(state)) == state
    assert copy.is_ready(state, AFTER) == of_trigger.is_ready(state, AFTER)


@given(TRIGGERS, st.lists(st.integers(0, 5)), st.integers(0, 1_000))
def test_trigger_fires_before_the_window_end_only_if_may_fire_early(
    trigger: Trigger, merged: list[int], time: int
) -> None:
    """Uses any number and order of elements and merges."""
    if may_fire_early(trigger):
        return
    of_trigger = create_machine(trigger)
    at = TriggerTime(ended=False, processing_time=time)
    state = of_trigger.initial_state
    for count in merged:
        state = of_trigger.merge_states(
            [state, of_trigger.add_elements(of_trigger.initial_state, count, BEFORE)], at
        )
        state = of_trigger.add_elements(state, count, at)
        assert not of_trigger.is_ready(state, at)
