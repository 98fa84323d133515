"""The life of a job as a table: which state may follow which.

    STOPPED -> STARTING -> RUNNING -> DONE | FAILED | CANCELLED | DRAINED

with CANCELLING and DRAINING on the way to the end where someone asked for it. A job enters exactly
one terminal state.
"""

from __future__ import annotations

from collections.abc import Mapping

from beam_runner_model.jobs import JobState

from beam_runner_jobservices.errors import IllegalTransition

_S = JobState

TRANSITIONS: Mapping[JobState, frozenset[JobState]] = {
    _S.STOPPED: frozenset({_S.STARTING, _S.DRAINING, _S.CANCELLING, _S.FAILED}),
    _S.STARTING: frozenset(
        {_S.RUNNING, _S.DRAINING, _S.CANCELLING, _S.DONE, _S.FAILED, _S.CANCELLED}
    ),
    _S.RUNNING: frozenset({_S.DRAINING, _S.CANCELLING, _S.DONE, _S.FAILED, _S.CANCELLED}),
    _S.DRAINING: frozenset({_S.CANCELLING, _S.DRAINED, _S.DONE, _S.FAILED, _S.CANCELLED}),
    _S.CANCELLING: frozenset({_S.CANCELLED, _S.DONE, _S.FAILED, _S.DRAINED}),
    _S.DONE: frozenset(),
    _S.FAILED: frozenset(),
    _S.CANCELLED: frozenset(),
    _S.DRAINED: frozenset(),
}
"""The states that each state leads to. UPDATING and UPDATED are of the protocol, but no job of ours
enters them.
"""

OVERTAKEN: Mapping[JobState, frozenset[JobState]] = {
    _S.RUNNING: frozenset({_S.STARTING}),
    _S.DRAINING: frozenset({_S.STARTING, _S.RUNNING}),
    _S.CANCELLING: frozenset({_S.STARTING, _S.RUNNING, _S.DRAINING}),
}
"""Reports that come too late through no fault of the reporter, such as RUNNING after somebody asked
to cancel.
"""


def is_entered(present: JobState, reported: JobState) -> bool:
    """Whether a job in state `present` of which `reported` is said enters that.

    A report of the same state again, one that comes after the end, and one that is overtaken are
    ignored.

    Raises:
        IllegalTransition: `present` does not lead to `reported`; the text names both.
    """
    if present.is_terminal or present is reported or reported in OVERTAKEN.get(present, ()):
        return False
    if reported in TRANSITIONS[present]:
        return True
    legal = ", ".join(sorted(state.name for state in TRANSITIONS[present]))
    raise IllegalTransition(
        f"a job in state {present.name} cannot become {reported.name};"
        f" from there it can become {legal}"
    )
