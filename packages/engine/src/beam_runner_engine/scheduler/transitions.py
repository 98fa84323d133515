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


def _create_act(*to: enum.Enum) -> Transition:
    return Transition(Reaction.ACT, to)


def _create_ignore(state: enum.Enum) -> Transition:
    return Transition(Reaction.IGNORE, (state,))


def _build_job_table() -> dict[tuple[Phase, type], Transition]:
    new, running, draining = Phase.NEW, Phase.RUNNING, Phase.DRAINING
    done, drained, cancelled, failed = Phase.DONE, Phase.DRAINED, Phase.CANCELLED, Phase.FAILED
    table: dict[tuple[Phase, type], Transition] = {
        (new, Start): _create_act(running, done, failed),
        (new, Cancel): _create_act(cancelled),
        (new, Abort): _create_act(failed),
        (running, Tick): _create_act(running, done, failed),
        (running, BundleDone): _create_act(running, done, failed),
        (running, BundleFailed): _create_act(running, failed),
        (running, AttemptsLost): _create_act(running, failed),
        (running, SectionRefused): _create_act(running, failed),
        (running, Progress): _create_act(running, failed),
        (running, GiveWay): _create_act(running),
        (running, SplitDone): _create_act(running, failed),
        (running, Drain): _create_act(draining, drained, failed),
        (running, Cancel): _create_act(cancelled),
        (running, Abort): _create_act(failed),
        (draining, Tick): _create_act(draining, drained, failed),
        (draining, BundleDone): _create_act(draining, drained, failed),
        (draining, BundleFailed): _create_act(draining, failed),
        (draining, AttemptsLost): _create_act(draining, failed),
        (draining, SectionRefused): _create_act(draining, failed),
        (draining, Progress): _create_act(draining, failed),
        (draining, GiveWay): _create_act(draining),
        (draining, SplitDone): _create_act(draining, failed),
        (draining, Drain): _create_ignore(draining),
        (draining, Cancel): _create_act(cancelled),
        (draining, Abort): _create_act(failed),
    }
    for phase in (done, drained, cancelled, failed):
        for event in (Tick, *_BUNDLE_EVENTS, AttemptsLost, Drain, Cancel, Abort):
            table[phase, event] = _create_ignore(phase)
    return table


JOB_TABLE: dict[tuple[Phase, type], Transition] = _build_job_table()
"""Transition for each event in each phase of a job. `Start` occurs once."""

BUNDLE_TABLE: dict[tuple[BundleState, type], Transition] = {
    (BundleState.RUNNING, BundleDone): _create_act(BundleState.CLOSED),
    (BundleState.RUNNING, BundleFailed): _create_act(BundleState.CLOSED),
    (BundleState.RUNNING, SectionRefused): _create_act(BundleState.CLOSED),
    (BundleState.RUNNING, Progress): _create_act(BundleState.RUNNING, BundleState.SPLITTING),
    (BundleState.RUNNING, GiveWay): _create_act(BundleState.RUNNING, BundleState.SPLITTING),
    (BundleState.SPLITTING, BundleDone): _create_act(BundleState.CLOSED),
    (BundleState.SPLITTING, BundleFailed): _create_act(BundleState.CLOSED),
    (BundleState.SPLITTING, Progress): _create_ignore(BundleState.SPLITTING),
    (BundleState.SPLITTING, GiveWay): _create_ignore(BundleState.SPLITTING),
    (BundleState.SPLITTING, SplitDone): _create_act(BundleState.RUNNING),
    **{(BundleState.CLOSED, event): _create_ignore(BundleState.CLOSED) for event in _BUNDLE_EVENTS},
}
"""Transition for each event and each state of an attempt at a bundle.

The next attempt starts as `RUNNING`, or as `PAUSED` if a pause comes first. A `Tick` at the end of
the pause or a `Drain` changes the state to `RUNNING`. The host gets the attempt's number only then,
so no event can name a paused attempt.
"""
