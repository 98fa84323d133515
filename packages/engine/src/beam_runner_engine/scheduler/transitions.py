"""Transition tables of the scheduler: the allowed events in each state, and the next states.

`Scheduler.handle_event` uses these tables, the documentation prints them, and tests check every entry. An
event without an entry is illegal.
"""

from __future__ import annotations

import enum

import attrs

from beam_runner_engine.scheduler.events import (
    Abort,
    AttemptsLost,
    BundleDone,
    BundleFailed,
    Cancel,
    Drain,
    Hold,
    Progress,
    Redeliver,
    SectionRefused,
    SplitDone,
    Start,
    Tick,
    YieldRequested,
)


class Phase(enum.Enum):
    """Phase of a job, from its creation to its end."""

    NEW = "new"
    RUNNING = "running"
    DRAINING = "draining"
    DONE = "done"
    DRAINED = "drained"
    CANCELLED = "cancelled"
    FAILED = "failed"

    @property
    def has_ended(self) -> bool:
        """Whether the job has ended in this phase."""
        return self in _ENDED


_ENDED = frozenset({Phase.DONE, Phase.DRAINED, Phase.CANCELLED, Phase.FAILED})


class BundleState(enum.Enum):
    """State of an attempt at a bundle."""

    RUNNING = "running"
    SPLITTING = "splitting"
    """A split request is pending."""
    PAUSED = "paused"
    """The previous attempt failed, and this attempt starts after a pause."""
    CLOSED = "closed"
    """The attempt was committed or discarded, or a later attempt replaced it."""


class Reaction(enum.Enum):
    """Reaction of the scheduler to an event."""

    ACT = "act"
    IGNORE = "ignore"


@attrs.frozen
class Transition:
    """Reaction to an event, and the possible next states.

    The next states include the current state if the state can stay the same.
    """

    reaction: Reaction
    to: tuple[enum.Enum, ...]


_BUNDLE_EVENTS = (BundleDone, BundleFailed, SectionRefused, Progress, YieldRequested, SplitDone)


def _accept_event(*to: enum.Enum) -> Transition:
    return Transition(Reaction.ACT, to)


def _ignore_event(state: enum.Enum) -> Transition:
    return Transition(Reaction.IGNORE, (state,))


def _build_job_table() -> dict[tuple[Phase, type], Transition]:
    new, running, draining = Phase.NEW, Phase.RUNNING, Phase.DRAINING
    done, drained, cancelled, failed = Phase.DONE, Phase.DRAINED, Phase.CANCELLED, Phase.FAILED
    table: dict[tuple[Phase, type], Transition] = {
        (new, Start): _accept_event(running, done, failed),
        (new, Cancel): _accept_event(cancelled),
        (new, Abort): _accept_event(failed),
        (running, Tick): _accept_event(running, done, failed),
        (running, BundleDone): _accept_event(running, done, failed),
        (running, BundleFailed): _accept_event(running, failed),
        (running, AttemptsLost): _accept_event(running, failed),
        (running, SectionRefused): _accept_event(running, failed),
        (running, Progress): _accept_event(running, failed),
        (running, YieldRequested): _accept_event(running),
        (running, SplitDone): _accept_event(running, failed),
        (running, Hold): _accept_event(running, done, failed),
        (running, Redeliver): _accept_event(running, failed),
        (running, Drain): _accept_event(draining, drained, failed),
        (running, Cancel): _accept_event(cancelled),
        (running, Abort): _accept_event(failed),
        (draining, Tick): _accept_event(draining, drained, failed),
        (draining, BundleDone): _accept_event(draining, drained, failed),
        (draining, BundleFailed): _accept_event(draining, failed),
        (draining, AttemptsLost): _accept_event(draining, failed),
        (draining, SectionRefused): _accept_event(draining, failed),
        (draining, Progress): _accept_event(draining, failed),
        (draining, YieldRequested): _accept_event(draining),
        (draining, SplitDone): _accept_event(draining, failed),
        (draining, Hold): _ignore_event(draining),
        (draining, Drain): _ignore_event(draining),
        (draining, Cancel): _accept_event(cancelled),
        (draining, Abort): _accept_event(failed),
    }
    for phase in (done, drained, cancelled, failed):
        for event in (Tick, *_BUNDLE_EVENTS, AttemptsLost, Hold, Drain, Cancel, Abort):
            table[phase, event] = _ignore_event(phase)
    return table


JOB_TABLE: dict[tuple[Phase, type], Transition] = _build_job_table()
"""Transition for each event in each phase of a job. `Start` occurs once per job."""

BUNDLE_TABLE: dict[tuple[BundleState, type], Transition] = {
    (BundleState.RUNNING, BundleDone): _accept_event(BundleState.CLOSED),
    (BundleState.RUNNING, BundleFailed): _accept_event(BundleState.CLOSED),
    (BundleState.RUNNING, SectionRefused): _accept_event(BundleState.CLOSED),
    (BundleState.RUNNING, Progress): _accept_event(BundleState.RUNNING, BundleState.SPLITTING),
    (BundleState.RUNNING, YieldRequested): _accept_event(
        BundleState.RUNNING, BundleState.SPLITTING
    ),
    (BundleState.SPLITTING, BundleDone): _accept_event(BundleState.CLOSED),
    (BundleState.SPLITTING, BundleFailed): _accept_event(BundleState.CLOSED),
    (BundleState.SPLITTING, Progress): _ignore_event(BundleState.SPLITTING),
    (BundleState.SPLITTING, YieldRequested): _ignore_event(BundleState.SPLITTING),
    (BundleState.SPLITTING, SplitDone): _accept_event(BundleState.RUNNING),
    **{(BundleState.CLOSED, event): _ignore_event(BundleState.CLOSED) for event in _BUNDLE_EVENTS},
}
"""Transition for each event and each state of an attempt at a bundle.

The next attempt starts as `RUNNING`, or as `PAUSED` if a pause comes first. A `Tick` at the end of
the pause or a `Drain` changes the state to `RUNNING`. The caller learns the attempt's number only
then, so no event can name a paused attempt.
"""
