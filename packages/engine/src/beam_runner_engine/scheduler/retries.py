"""Failed attempts at bundles: the count of each kind of failure, and the time of the next attempt.

| failure | counts as | pause before the next attempt | job fails |
|---|---|---|---|
| `USER` | one attempt | `pauses` | after `user_attempts` failures |
| `OUTSIDE` | one attempt | none after the first failure, then `pauses` | after `outside_attempts` failures |
| `UNAVAILABLE` | no attempt | `outage_pauses` | after an outage of `outage_limit` |
| `PERMANENT` | one attempt | | immediately |

The names in the last two columns are fields of `Limits`. Each kind has a separate count. A failure
of another kind ends an outage, because the external system responded. The first `OUTSIDE` failure
has no pause, because a lost process says nothing about the bundle.

A scripted clock doesn't advance while a bundle is open. Therefore, a job with a scripted clock has
no pauses, an outage counts as an `OUTSIDE` failure, and the default limit is
`MAX_ATTEMPTS_WITHOUT_CLOCK` attempts.

A paused bundle stays open: it keeps its work, side inputs and key shard, and holds watermarks. A
paused bundle uses no slot, and all other bundles continue.
"""

from __future__ import annotations

from beam_runner_model.times import Duration, Timestamp

from beam_runner_engine.scheduler.events import BundleFailed, FailureKind
from beam_runner_engine.scheduler.specs import Limits
from beam_runner_engine.scheduler.state import BundleRecord, FailureRecord, SchedulerState

MAX_ATTEMPTS_WITHOUT_CLOCK = 4
MAX_CAUSES = 8
"""Maximum number of causes that are stored per list; a bundle with unlimited attempts can fail
often.
"""


def record_failure(record: BundleRecord, event: BundleFailed, now: Timestamp) -> None:
    """Records a failed attempt at a bundle, at processing time `now` (ms)."""
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
        failures.user_detail = event.detail
        causes = record.user_failures
    else:
        failures.outside += 1
        causes = record.outside_failures
    causes.append(event.cause)
    del causes[:-MAX_CAUSES]


def is_final_failure(state: SchedulerState, failures: FailureRecord) -> bool:
    """Returns whether the latest failure fails the job."""
    assert failures.last is not None
    limits, kind = state.limits, failures.last.kind
    if kind is FailureKind.PERMANENT:
        return True
    if state.scripted_clock:
        return _is_final_with_scripted_clock(limits, failures, kind)
    match kind:
        case FailureKind.USER:
            return _is_attempt_limit_reached(limits.user_attempts, failures.user)
        case FailureKind.OUTSIDE:
            return _is_attempt_limit_reached(limits.outside_attempts, failures.outside)
        case FailureKind.UNAVAILABLE:
            assert failures.outage_since is not None
            return _is_attempt_limit_reached(limits.outage_limit, state.now - failures.outage_since)


def compute_retry_pause(state: SchedulerState, failures: FailureRecord) -> Duration:
    """Returns the pause (ms) between the latest failure and the next attempt."""
    assert failures.last is not None
    limits = state.limits
    if state.scripted_clock:
        return 0
    match failures.last.kind:
        case FailureKind.USER:
            return limits.pauses.compute_retry_pause(failures.user)
        case FailureKind.OUTSIDE:
            return limits.pauses.compute_retry_pause(failures.outside - 1)
        case FailureKind.UNAVAILABLE:
            return limits.outage_pauses.compute_retry_pause(failures.outages)
        case FailureKind.PERMANENT:
            raise AssertionError("A permanent failure has no next attempt")


def _is_attempt_limit_reached(limit: int | None, value: int) -> bool:
    return limit is not None and value >= limit


def _is_final_with_scripted_clock(
    limits: Limits, failures: FailureRecord, kind: FailureKind
) -> bool:
    if kind is FailureKind.USER:
        return failures.user >= (limits.user_attempts or MAX_ATTEMPTS_WITHOUT_CLOCK)
    lost = failures.outside + failures.outages
    return lost >= (limits.outside_attempts or MAX_ATTEMPTS_WITHOUT_CLOCK)
