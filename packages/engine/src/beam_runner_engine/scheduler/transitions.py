"""Transition tables of the scheduler: the allowed events in each state, and the next states.

`Scheduler.handle` uses these tables, the documentation prints them, and tests check every entry. An
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
    GiveWay,
    Progress,
    SectionRefused,
    SplitDone,
    Start,
    Tick,
)


class Phase(enum.Enum):
    """Phase of a job."""

    NEW = "new"
    RUNNING = "running"
    DRAINING = "draining"
    DONE = "done"
    DRAINED = "drained"
    CANCELLED = "cancelled"
    FAILED = "failed"

    @property
    def ended(self) -> bool:
        """Whether the phase is final."""
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
    """Reaction to an event and the possible next states. The current state is listed if the state
    can stay the same.
    """

    reaction: Reaction
    to: tuple[enum.Enum, ...]


_BUNDLE_EVENTS = (BundleDone, BundleFailed, SectionRefused, Progress, GiveWay, SplitDone)


def _act(*to: enum.Enum) -> Transition:
    return Transition(Reaction.ACT, to)


def _ignore(state: enum.Enum) -> Transition:
    return Transition(Reaction.IGNORE, (state,))


def _job_table() -> dict[tuple[Phase, type], Transition]:
    new, running, draining = Phase.NEW, Phase.RUNNING, Phase.DRAINING
    done, drained, cancelled, failed = Phase.DONE, Phase.DRAINED, Phase.CANCELLED, Phase.FAILED
    table: dict[tuple[Phase, type], Transition] = {
        (new, Start): _act(running, done, failed),
        (new, Cancel): _act(cancelled),
        (new, Abort): _act(failed),
        (running, Tick): _act(running, done, failed),
        (running, BundleDone): _act(running, done, failed),
        (running, BundleFailed): _act(running, failed),
        (running, AttemptsLost): _act(running, failed),
        (running, SectionRefused): _act(running, failed),
        (running, Progress): _act(running, failed),
        (running, GiveWay): _act(running),
        (running, SplitDone): _act(running, failed),
        (running, Drain): _act(draining, drained, failed),
        (running, Cancel): _act(cancelled),
        (running, Abort): _act(failed),
        (draining, Tick): _act(draining, drained, failed),
        (draining, BundleDone): _act(draining, drained, failed),
        (draining, BundleFailed): _act(draining, failed),
        (draining, AttemptsLost): _act(draining, failed),
        (draining, SectionRefused): _act(draining, failed),
        (draining, Progress): _act(draining, failed),
        (draining, GiveWay): _act(draining),
        (draining, SplitDone): _act(draining, failed),
        (draining, Drain): _ignore(draining),
        (draining, Cancel): _act(cancelled),
        (draining, Abort): _act(failed),
    }
    for phase in (done, drained, cancelled, failed):
        for event in (Tick, *_BUNDLE_EVENTS, AttemptsLost, Drain, Cancel, Abort):
            table[phase, event] = _ignore(phase)
    return table


JOB_TABLE: dict[tuple[Phase, type], Transition] = _job_table()
"""Transition for each event in each phase of a job. `Start` occurs once."""

BUNDLE_TABLE: dict[tuple[BundleState, type], Transition] = {
    (BundleState.RUNNING, BundleDone): _act(BundleState.CLOSED),
    (BundleState.RUNNING, BundleFailed): _act(BundleState.CLOSED),
    (BundleState.RUNNING, SectionRefused): _act(BundleState.CLOSED),
    (BundleState.RUNNING, Progress): _act(BundleState.RUNNING, BundleState.SPLITTING),
    (BundleState.RUNNING, GiveWay): _act(BundleState.RUNNING, BundleState.SPLITTING),
    (BundleState.SPLITTING, BundleDone): _act(BundleState.CLOSED),
    (BundleState.SPLITTING, BundleFailed): _act(BundleState.CLOSED),
    (BundleState.SPLITTING, Progress): _ignore(BundleState.SPLITTING),
    (BundleState.SPLITTING, GiveWay): _ignore(BundleState.SPLITTING),
    (BundleState.SPLITTING, SplitDone): _act(BundleState.RUNNING),
    **{(BundleState.CLOSED, event): _ignore(BundleState.CLOSED) for event in _BUNDLE_EVENTS},
}
"""Transition for each event and each state of an attempt at a bundle.

The next attempt starts as `RUNNING`, or as `PAUSED` if a pause comes first. A `Tick` at the end of
the pause or a `Drain` changes the state to `RUNNING`. The host gets the attempt's number only then,
so no event can name a paused attempt.
"""
