"""Tests that the runner waits for a slowly starting harness while it uses the CPU or disk, and
gives up an idle harness.
"""

from __future__ import annotations

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_runner_worker.fnapi.starting import (
    HarnessActivity,
    HarnessStart,
    StartDecision,
    StartLimits,
)

LIMITS = StartLimits(idle_seconds=60.0, unseen=300.0, most=900.0)


@attrs.frozen
class Step:
    """The time between two checks: elapsed seconds, seconds on a core, and whether the process wants a
    core at the check.
    """

    seconds: float
    ran: float
    wants: bool


STEPS = st.lists(
    st.builds(Step, st.floats(0.1, 30.0), st.floats(0.0, 60.0), st.booleans()), max_size=200
)


def looks(
    steps: list[Step], limits: StartLimits = LIMITS
) -> tuple[HarnessStart, list[StartDecision]]:
    """Returns the result of each check, up to the check that abandons the start."""
    start = HarnessStart(limits, 1000.0)
    now, ran, said = 1000.0, 0.0, []
    for step in steps:
        now, ran = now + step.seconds, ran + step.ran
        said.append(start.check_activity(now, HarnessActivity(ran, step.wants)))
        if said[-1] is not StartDecision.MAY_COME:
            break
    return start, said


@given(STEPS)
def test_harness_start_is_abandoned_only_at_limits(steps: list[Step]) -> None:
    start, said = looks(steps)
    elapsed = sum(step.seconds for step in steps[: len(said)])
    stood = sum(max(0.0, s.seconds - s.ran) for s in steps[: len(said)] if not s.wants)
    last = said[-1] if said else StartDecision.MAY_COME
    assert start.elapsed == pytest.approx(elapsed)
    assert start.stood == pytest.approx(stood)
    assert start.stood <= start.elapsed + 1e-6
    assert last is not StartDecision.UNSEEN
    if last is StartDecision.ENDLESS:
        assert start.elapsed >= LIMITS.most
    elif last is StartDecision.STOOD_STILL:
        assert start.stood >= LIMITS.idle_seconds
    else:
        assert start.stood < LIMITS.idle_seconds
        assert start.elapsed < LIMITS.most


@given(STEPS, st.floats(0.0, 30.0), st.integers(0, 199))
def test_harness_start_with_more_cpu_use_is_not_abandoned_earlier(
    steps: list[Step], more: float, place: int
) -> None:
    if place < len(steps):
        eager = [*steps]
        eager[place] = attrs.evolve(steps[place], ran=steps[place].ran + more)
        assert len(looks(eager)[1]) >= len(looks(steps)[1])


@pytest.mark.parametrize("busy", [Step(1.0, 1.0, wants=False), Step(1.0, 0.0, wants=True)])
def test_harness_start_that_uses_or_awaits_cpu_is_abandoned_at_maximum_time(busy: Step) -> None:
    _, said = looks([busy] * 2000)
    assert len(said) == 900
    assert said[-1] is StartDecision.ENDLESS


def test_harness_start_without_cpu_use_is_abandoned_after_one_minute() -> None:
    _, said = looks([Step(1.0, 0.0, wants=False)] * 2000)
    assert len(said) == 60
    assert said[-1] is StartDecision.STOOD_STILL


def test_harness_start_that_only_polls_is_abandoned_soon_after_one_minute() -> None:
    """For example, a process that connects repeatedly to an address without a listener."""
    _, said = looks([Step(1.0, 0.002, wants=False)] * 2000)
    assert len(said) == 61


def test_harness_start_with_early_cpu_use_is_abandoned_when_idle_later() -> None:
    """For example, eight threads of a process that compiles code, and then wait for each other."""
    start, said = looks([Step(1.0, 8.0, wants=False)] * 10 + [Step(1.0, 0.0, wants=False)] * 2000)
    assert len(said) == 70
    assert start.stood == 60.0


def test_harness_start_on_another_machine_has_separate_limit() -> None:
    start = HarnessStart(LIMITS, 0.0)
    assert start.check_activity(299.9, None) is StartDecision.MAY_COME
    assert start.check_activity(300.0, None) is StartDecision.UNSEEN


def test_harness_start_without_process_data_does_not_count_as_idle() -> None:
    """The process has exited, or a response of the system was lost."""
    start = HarnessStart(LIMITS, 0.0)
    assert start.check_activity(1.0, HarnessActivity(0.9, wants=True)) is StartDecision.MAY_COME
    assert start.check_activity(400.0, None) is StartDecision.MAY_COME
    assert start.check_activity(900.0, None) is StartDecision.ENDLESS
