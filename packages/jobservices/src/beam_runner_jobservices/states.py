"""Table of a job's states and the permitted transitions between them.

    STOPPED -> STARTING -> RUNNING -> DONE | FAILED | CANCELLED | DRAINED | UPDATED

CANCELLING and DRAINING come before the end if a client has requested it. A job that another job
replaces is UPDATED, even if the request to cancel or drain the job arrived too late. A job enters
exactly one terminal state.
"""

from __future__ import annotations

from collections.abc import Mapping

from beam_runner_model.jobs import JobState

from beam_runner_jobservices.errors import IllegalTransition

_S = JobState

TRANSITIONS: Mapping[JobState, frozenset[JobState]] = {
    _S.STOPPED: frozenset({_S.STARTING, _S.DRAINING, _S.CANCELLING, _S.FAILED}),
    _S.STARTING: frozenset(
        {_S.RUNNING, _S.DRAINING, _S.CANCELLING, _S.DONE, _S.FAILED, _S.CANCELLED, _S.UPDATED}
    ),
    _S.RUNNING: frozenset(
        {_S.DRAINING, _S.CANCELLING, _S.DONE, _S.FAILED, _S.CANCELLED, _S.UPDATED}
    ),
    _S.DRAINING: frozenset(
        {_S.CANCELLING, _S.DRAINED, _S.DONE, _S.FAILED, _S.CANCELLED, _S.UPDATED}
    ),
    _S.CANCELLING: frozenset({_S.CANCELLED, _S.DONE, _S.FAILED, _S.DRAINED, _S.UPDATED}),
    _S.DONE: frozenset(),
    _S.FAILED: frozenset(),
    _S.CANCELLED: frozenset(),
    _S.DRAINED: frozenset(),
    _S.UPDATED: frozenset(),
}
"""The states that may follow each state. UPDATING is part of the protocol, but no job of this package
enters it: clients of Beam's Python SDK fail with an error on this state.
"""

OVERTAKEN: Mapping[JobState, frozenset[JobState]] = {
    _S.RUNNING: frozenset({_S.STARTING}),
    _S.DRAINING: frozenset({_S.STARTING, _S.RUNNING}),
    _S.CANCELLING: frozenset({_S.STARTING, _S.RUNNING, _S.DRAINING}),
}
"""Reports that the server ignores because they arrive too late, such as RUNNING after a client's cancel."""


def should_enter_state(present: JobState, reported: JobState) -> bool:
    """Returns whether a job in state `present` enters the state `reported`.

    The server ignores a report of the same state, a report after the end, and a report that arrives
    too late.

    Raises:
        IllegalTransition: `reported` can't follow `present`; the text names both.
    """
    if present.is_terminal or present is reported or reported in OVERTAKEN.get(present, ()):
        return False
    if reported in TRANSITIONS[present]:
        return True
    legal = ", ".join(sorted(state.name for state in TRANSITIONS[present]))
    raise IllegalTransition(
        f"a job in state {present.name} can't become {reported.name}; legal next states: "
        f"{legal or 'none'}"
    )
