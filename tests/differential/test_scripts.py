"""Tests of the reference model of state and timers."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from scripts import Model, foretold

END = 2_000_000


def test_reference_model_fires_event_time_timers_in_order_and_processing_time_timers_last() -> None:
    rung = clocks = 0
    for number in range(200):
        calls = [text.split()[:3] for text in foretold(number, 1_000_000, END)]
        assert calls[0] == ["element", str(number), "0"]
        alarms = [int(time) for cause, _, time in calls if cause == "alarm"]
        assert alarms == sorted(alarms) and all(1_000_000 < time < END for time in alarms)
        first_clock = next((n for n, call in enumerate(calls) if call[0] == "clock"), len(calls))
        until_then = [call[0] for call in calls[1:first_clock]]
        assert until_then == ["alarm"] * (first_clock - 1)
        rung, clocks = rung + len(alarms), clocks + len(calls) - first_clock
    assert rung > 200 and clocks > 20


def test_reference_model_fires_a_timer_once_after_the_watermark_passes() -> None:
    for number in range(50):
        model = Model(END)
        model.element(number, 1_000_000)
        texts = [text for minute in range(17) for text in model.ring(60_000 * minute)]
        assert not texts
        whole = list(model.ring(END))
        assert not list(model.ring(END))
        again = list(foretold(number, 1_000_000, END))
        assert again[1 : len(whole) + 1] == whole
