"""Tests of the timing of progress reports of sources."""

from __future__ import annotations

from functools import partial
from itertools import pairwise

import attrs
from hypothesis import given
from hypothesis import strategies as st

from beam_runner_engine.dispatch.reporting import ReportTiming

SOONEST, LATEST, LOOK = 50, 500, 25
LOOKS = 200


@attrs.frozen
class Source:
    """State of a source at each check: busy or waiting, and with or without output."""

    busy: bool = False
    waits: bool = True
    output: bool = True

    @property
    def lingers(self) -> bool:
        return self.waits and self.output and not self.busy


SOURCES = st.builds(Source, st.booleans(), st.booleans(), st.booleans())
TURNS = st.sampled_from([0.0, 50.0, 200.0, 1000.0])


def told(sources: list[Source], turn: float = 0.0) -> list[tuple[int, Source]]:
    """Returns the times of reports, and the source's state at each, of a bundle that is checked
    every 25 ms and never split.
    """
    reports = ReportTiming(SOONEST, LATEST, turn)
    found = []
    for number, source in enumerate(sources, 1):
        ran = number * LOOK
        is_due = reports.is_check_due(ran, turn, partial(bool, source.busy))
        if is_due and reports.should_send_report(ran, turn, lingers=source.lingers):
            found.append((ran, source))
    return found


@given(st.lists(SOURCES, max_size=LOOKS), TURNS)
def test_progress_report_is_early_only_for_a_waiting_bundle_with_output(
    sources: list[Source], turn: float
) -> None:
    for ran, source in told(sources, turn):
        assert ran >= max(SOONEST, turn)
        assert source.lingers or ran >= max(LATEST, turn)


@given(st.lists(SOURCES, max_size=LOOKS), TURNS)
def test_progress_reports_of_an_unsplittable_bundle_have_growing_intervals(
    sources: list[Source], turn: float
) -> None:
    pauses = [later - before for (before, _), (later, _) in pairwise(told(sources, turn))]
    for number, pause in enumerate(pauses):
        assert pause >= min(LATEST, SOONEST * 2**number)


@given(st.lists(SOURCES, min_size=LOOKS, max_size=LOOKS), TURNS)
def test_progress_report_interval_has_a_maximum(sources: list[Source], turn: float) -> None:
    moments = [0.0, *(ran for ran, _ in told(sources, turn)), LOOKS * LOOK]
    longest = max(later - before for before, later in pairwise(moments))
    assert longest <= max(LATEST, turn) + LATEST + LOOK


def test_progress_report_of_a_busy_bundle_is_later_than_of_a_waiting_bundle() -> None:
    assert told([Source()] * LOOKS)[0][0] == SOONEST
    assert told([Source(busy=True)] * LOOKS)[0][0] == LATEST
    assert told([Source(output=False)] * LOOKS)[0][0] == LATEST
    assert told([Source()] * LOOKS, turn=200.0)[0][0] == 200


def test_progress_check_calls_is_busy_only_when_a_report_is_due() -> None:
    def is_busy() -> bool:
        raise AssertionError("to ask costs time")

    reports = ReportTiming(SOONEST, LATEST, 0.0)
    assert not reports.is_check_due(SOONEST - 1, 0.0, is_busy)
    assert reports.is_check_due(LATEST, 0.0, is_busy)
