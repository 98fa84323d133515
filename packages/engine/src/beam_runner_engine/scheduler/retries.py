"""Failed attempts at bundles: what each kind of failure counts, and when the next attempt begins.

| failure | counts | pause before the next attempt | the job fails |
|---|---|---|---|
| `USER` | one attempt | `pauses` | after `user_attempts` failures |
| `OUTSIDE` | one attempt | none after the first failure, then `pauses` | after `outside_attempts` failures |
| `UNAVAILABLE` | nothing | `outage_pauses` | after an outage of `outage_limit` |
| `PERMANENT` | one attempt | | at once |

The names in the other columns are those of `Limits`. Each kind is counted by itself. An attempt that
fails by another kind ends an outage: the neighbour answered. The first failure from outside has no
pause, because a lost process says nothing about the bundle.

A scripted clock doesn't advance while a bundle is open. So a job with a scripted clock has no
pauses, an outage counts as a failure from outside, and `MOST_WITHOUT_CLOCK` attempts are the limit
where no other limit is set.

A paused bundle stays open. It keeps its work, its side inputs and its key shard, and it holds
watermarks. It takes no place of the host, and all other bundles go on.
"""

from __future__ import annotations

from beam_runner_model.times import Duration, Timestamp

from beam_runner_engine.scheduler.events import BundleFailed, FailureKind
from beam_runner_engine.scheduler.specs import Limits
from beam_runner_engine.scheduler.state import BundleRecord, FailureRecord, SchedulerState

MOST_WITHOUT_CLOCK = 4
KEPT_CAUSES = 8
"""How many causes of each list are kept: a bundle without a last attempt has many failures."""


def note_failure(record: BundleRecord, event: BundleFailed, now: Timestamp) -> None:
    """Counts a failure at processing time `now` (ms)."""
    failures = record.failures
    failures.last = event
    if event.kind is FailureKind.UNAVAILABLE:
        if failures.outage_since is None:
            failures.outage_since = now
        failures.outages += 1
        return
    failures.outages, failures.outage_since = 0, None
    if event.kind is FailureKind.USER:
        failures.user += 1
        causes = record.user_failures
    else:
        failures.outside += 1
        causes = record.outside_failures
    causes.append(event.cause)
    del causes[:-KEPT_CAUSES]


def is_last(state: SchedulerState, failures: FailureRecord) -> bool:
    """Whether the latest failure ends the job."""
    assert failures.last is not None
    limits, kind = state.limits, failures.last.kind
    if kind is FailureKind.PERMANENT:
        return True
    if state.scripted_clock:
        return _is_last_without_clock(limits, failures, kind)
    match kind:
        case FailureKind.USER:
            return _is_reached(limits.user_attempts, failures.user)
        case FailureKind.OUTSIDE:
            return _is_reached(limits.outside_attempts, failures.outside)
        case FailureKind.UNAVAILABLE:
            assert failures.outage_since is not None
            return _is_reached(limits.outage_limit, state.now - failures.outage_since)


def pause_after(state: SchedulerState, failures: FailureRecord) -> Duration:
    """Returns the pause (ms) between the latest failure and the next attempt."""
    assert failures.last is not None
    limits = state.limits
    if state.scripted_clock:
        return 0
    match failures.last.kind:
        case FailureKind.USER:
            return limits.pauses.after(failures.user)
        case FailureKind.OUTSIDE:
            return limits.pauses.after(failures.outside - 1)
        case FailureKind.UNAVAILABLE:
            return limits.outage_pauses.after(failures.outages)
        case FailureKind.PERMANENT:
            raise AssertionError("a permanent failure is the last")


def _is_reached(limit: int | None, value: int) -> bool:
    return limit is not None and value >= limit


def _is_last_without_clock(limits: Limits, failures: FailureRecord, kind: FailureKind) -> bool:
    if kind is FailureKind.USER:
        return failures.user >= (limits.user_attempts or MOST_WITHOUT_CLOCK)
    lost = failures.outside + failures.outages
    return lost >= (limits.outside_attempts or MOST_WITHOUT_CLOCK)
