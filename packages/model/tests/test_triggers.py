"""Tests of static trigger properties. `keyed/test_triggers.py` tests that triggers have these
properties.
"""

from __future__ import annotations

import pytest

from beam_runner_model import triggers as t

LATE = t.AfterEndOfWindow(late=t.AfterCount(1))


@pytest.mark.parametrize(
    ("trigger", "early"),
    [
        (t.DefaultTrigger(), False),
        (t.Never(), False),
        (t.Always(), True),
        (t.AfterCount(1), True),
        (t.AfterProcessingTime(), True),
        (LATE, False),
        (t.AfterEndOfWindow(early=t.AfterCount(1)), True),
        (t.Repeatedly(t.AfterEndOfWindow()), False),
        (t.AfterAll((t.AfterCount(1), t.AfterEndOfWindow())), False),
        (t.AfterAny((t.AfterCount(1), t.AfterEndOfWindow())), True),
        (t.AfterEach((t.AfterEndOfWindow(), t.AfterCount(1))), False),
        (t.OrFinally(t.Never(), t.AfterCount(1)), True),
    ],
    ids=str,
)
def test_may_fire_early_matches_the_trigger(trigger: t.Trigger, early: bool) -> None:
    assert t.may_fire_early(trigger) is early


@pytest.mark.parametrize("trigger", [t.DefaultTrigger(), t.Never(), t.AfterEndOfWindow(), LATE])
def test_fires_once_is_true_for_single_firing_triggers(trigger: t.Trigger) -> None:
    assert t.fires_exactly_once(trigger)


@pytest.mark.parametrize(
    "trigger", [t.Repeatedly(t.AfterCount(1)), t.AfterEndOfWindow(early=t.AfterCount(1))]
)
def test_fires_once_is_false_for_repeating_triggers(trigger: t.Trigger) -> None:
    assert not t.fires_exactly_once(trigger)
