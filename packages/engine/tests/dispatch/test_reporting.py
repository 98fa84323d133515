"""Tests of the timing of progress reports of sources."""

from __future__ import annotations

from functools import partial
from itertools import pairwise

import attrs
from hypothesis import given
from hypothesis import strategies as st

from beam_runner_engine.dispatch.reporting import SourceReports

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
    reports = SourceReports(SOONEST, LATEST, turn)
    found = []
    for number, source in enumerate(sources, 1):
        ran = number * LOOK
        is_due = reports.is_due(ran, turn, partial(bool, source.busy))
        if is_due and reports.tells(ran, turn, lingers=source.lingers):
            found.append((ran, source))
    return found


@given(st.lists(SOURCES, max_size=LOOKS), TURNS)
def test_it_tells_soon_only_what_lingers_and_never_before_its_turn(
    sources: list[Source], turn: float
) -> None:
    for ran, source in told(sources, turn):
        assert ran >= max(SOONEST, turn)
        assert source.lingers or ran >= max(LATEST, turn)


@given(st.lists(SOURCES, max_size=LOOKS), TURNS)
def test_one_that_can_not_be_split_is_asked_less_and_less_often(
    sources: list[Source], turn: float
) -> None:
    pauses = [later - before for (before, _), (later, _) in pairwise(told(sources, turn))]
    for number, pause in enumerate(pauses):
        assert pause >= min(LATEST, SOONEST * 2**number)


@given(st.lists(SOURCES, min_size=LOOKS, max_size=LOOKS), TURNS)
def test_whatever_it_does_it_tells_at_last_and_again(sources: list[Source], turn: float) -> None:
    moments = [0.0, *(ran for ran, _ in told(sources, turn)), LOOKS * LOOK]
    longest = max(later - before for before, later in pairwise(moments))
    assert longest <= max(LATEST, turn) + LATEST + LOOK


def test_one_that_waits_tells_at_once_and_one_that_is_busy_half_a_second_later() -> None:
    assert told([Source()] * LOOKS)[0][0] == SOONEST
    assert told([Source(busy=True)] * LOOKS)[0][0] == LATEST
    assert told([Source(output=False)] * LOOKS)[0][0] == LATEST
    assert told([Source()] * LOOKS, turn=200.0)[0][0] == 200


def test_one_that_is_not_due_is_not_asked_whether_it_is_busy() -> None:
    def is_busy() -> bool:
        raise AssertionError("to ask costs time")

    reports = SourceReports(SOONEST, LATEST, 0.0)
    assert not reports.is_due(SOONEST - 1, 0.0, is_busy)
    assert reports.is_due(LATEST, 0.0, is_busy)
