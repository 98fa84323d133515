"""Wake-ups of key shards and residuals: the event times and processing times at which work is due without new data."""

from __future__ import annotations

from beam_runner_model.summary import ShardSummary
from beam_runner_model.times import Duration, Timestamp, get_earliest_watermark_after

from beam_runner_engine.scheduler.commands import RequestTick
from beam_runner_engine.scheduler.delivery import queue_pending_work
from beam_runner_engine.scheduler.state import (
    RESIDUAL,
    SHARD,
    SchedulerState,
    ShardState,
    StageState,
    Work,
)


def get_event_time_wake_up(summary: ShardSummary) -> Timestamp | None:
    """Returns the watermark (ms) at which a shard has work to do, or None if no work is pending.

    Timers and triggers are due at the watermark in the shard's summary. Expiries are due when the
    watermark has passed them.
    """
    timer, expiry = summary.next_event_timer, summary.next_expiry
    if expiry is None:
        return timer
    expired = get_earliest_watermark_after(expiry)
    return expired if timer is None else min(timer, expired)


def is_shard_due(shard: ShardState, watermark: Timestamp, now: Timestamp) -> bool:
    """Returns whether a timer, trigger or expiry of a shard is due."""
    wake = get_event_time_wake_up(shard.summary)
    clock = shard.summary.next_processing_timer
    return (wake is not None and wake <= watermark) or (clock is not None and clock <= now)


def has_pending_wake_up(summary: ShardSummary) -> bool:
    """Returns whether a key shard has a pending timer, trigger or expiry."""
    return get_event_time_wake_up(summary) is not None or summary.next_processing_timer is not None


def set_shard_wake_ups(
    state: SchedulerState, stage: StageState, shard: int, summary: ShardSummary | None
) -> None:
    """Sets the wake-up times of a shard. `summary` is None while a bundle of the shard is open."""
    event = None if summary is None else get_event_time_wake_up(summary)
    clock = None if summary is None else summary.next_processing_timer
    stage.event_wakes.set_time(shard, event)
    state.clock_wakes.set_time((stage.number, SHARD, shard), clock)


def delay_work(state: SchedulerState, stage: StageState, work: Work, delay: Duration) -> None:
    """Delays a residual by `delay` ms of processing time."""
    stage.delayed[work.number] = work
    state.clock_wakes.set_time((stage.number, RESIDUAL, work.number), state.now + delay)


def resume_delayed_work(state: SchedulerState, stage: StageState) -> None:
    """Resumes the delayed residuals of a stage immediately, because a drain truncates these
    residuals.
    """
    for number, work in tuple(stage.delayed.items()):
        if not work.truncated:
            del stage.delayed[number]
            state.clock_wakes.set_time((stage.number, RESIDUAL, number), None)
            queue_pending_work(state, stage, work)


def request_next_tick(state: SchedulerState) -> None:
    """Requests a tick at the next wake-up time if this time has changed since the last request."""
    if state.scripted_clock or not state.clock_wakes:
        return
    time = state.clock_wakes.get_earliest_time()
    if time != state.wake_told:
        state.wake_told = time
        state.commands.append(RequestTick(time))
