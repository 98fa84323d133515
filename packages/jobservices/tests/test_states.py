"""Tests of the table of job states."""

from __future__ import annotations

import pytest
from beam_runner_model.jobs import JobState

from beam_runner_jobservices.errors import IllegalTransition
from beam_runner_jobservices.states import OVERTAKEN, TRANSITIONS, should_enter_state

UNUSED = {JobState.UNSPECIFIED, JobState.UPDATING}


def test_job_states_have_transitions_and_reach_terminal_state():
    assert set(TRANSITIONS) == set(JobState) - UNUSED
    for state in TRANSITIONS:
        reached = {state}
        while more := {after for each in reached for after in TRANSITIONS[each]} - reached:
            reached |= more
        assert any(end.is_terminal for end in reached), state


def test_terminal_job_states_have_no_transition():
    for state, after in TRANSITIONS.items():
        assert state.is_terminal == (not after)


def test_late_job_reports_that_are_ignored_are_not_legal_transitions():
    for state, late in OVERTAKEN.items():
        assert not late & TRANSITIONS[state]


@pytest.mark.parametrize("present", list(TRANSITIONS))
@pytest.mark.parametrize("reported", list(JobState))
def test_should_enter_state_agrees_with_transition_table(present, reported):
    if present.is_terminal or present is reported or reported in OVERTAKEN.get(present, ()):
        assert not should_enter_state(present, reported)
    elif reported in TRANSITIONS[present]:
        assert should_enter_state(present, reported)
    else:
        with pytest.raises(IllegalTransition, match=rf"{present.name}.*{reported.name}"):
            should_enter_state(present, reported)
