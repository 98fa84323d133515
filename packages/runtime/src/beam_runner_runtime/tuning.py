"""Tuning constants of the scheduling: they decide which work runs next, on which lane, and how long.

Results are the same with any values. ``docs/tuning.md`` contains a table of this record.
"""

from __future__ import annotations

import attrs


@attrs.frozen
class Tuning:
    """All tuning constants. Units are in the names, and durations are elapsed times.

    Attributes:
        slots_per_core: number of concurrent lanes per core on one machine; more than one, so that a lane that is blocked in user code or waits for its next bundle doesn't leave a core idle.
        lanes_per_core: maximum number of lanes of one job per core.
        lane_idle_seconds: time that an idle lane retains its slot on the cluster.
        lane_failures: number of consecutive lanes that Spark couldn't run; then the job fails.
        blocked_seconds: time without progress after which a bundle counts as blocked, so that it uses no core.
        preparing_seconds: the same before the first report of a bundle; a bundle whose SDK harness is starting never counts as blocked.
        unheard_seconds: the same for a bundle that shares the GIL and hasn't reported whether it leaves time to others.
        source_seconds: maximum lead of a source's bundle over a later bundle that still runs first.
        yield_seconds: minimum time that a source occupies its lane while other bundles wait for a lane.
        slot_patience_seconds: time that a job waits for its first slots before other jobs make room.
        job_turn_seconds: maximum time that a starting job delays the start of other jobs.
        loop_bytes: maximum bytes of all inputs for the loop inside a task.
        loop_bundle_ms: maximum duration of a bundle inside the loop.
        loop_source_ms: the same for a source's bundle, whose output becomes visible only at its end.
        loop_parallel_ms: usual bundle duration above which several waiting bundles run in parallel.
        loop_usual_weight: weight of the last bundle in the usual duration.
        loop_waiting_bytes: waiting bytes above which the loop ends.
        loop_nap_ms: maximum time that the loop waits for an alarm.
        loop_report_ms: maximum time between two commits of the loop.
        loop_report_entries: maximum number of entries between two commits of the loop.
        loop_watch_seconds: interval of the loop's watch thread.
        loop_outgrown_pause_seconds: time that lanes get after a short loop; a loop that lasted this long was worth its start.
        loop_broken_pause_seconds: the same after a loop that was lost with its process, so that the runner can find the bundle at fault.
        progress_seconds: interval of a bundle's progress reports.
        progress_in_turns_ms: the same if bundles share the GIL of one interpreter.
        lingers_ms: time after which an idle source's output is passed on.
        source_look_seconds: interval of the checks of a source.
        source_busy_share: share of time for which the source's thread requests a core; a source above this share is busy.
        hold_seconds: time that a worker process of a stream retains a finished bundle while a store or disk for its files is unavailable; after that the bundle runs again later.
        hold_in_batch_seconds: the same in a batch job.
        section_tasks_per_core: number of Spark tasks per core in each level of a section, or one per key shard if that is fewer; on one machine one per core, because all tasks run at once in separate processes.
    """

    slots_per_core: int = 6
    lanes_per_core: int = 4
    lane_idle_seconds: float = 5.0
    lane_failures: int = 4
    blocked_seconds: float = 0.7
    preparing_seconds: float = 10.0
    unheard_seconds: float = 3.0
    source_seconds: float = 0.25
    yield_seconds: float = 0.1
    slot_patience_seconds: float = 0.3
    job_turn_seconds: float = 10.0
    loop_bytes: int = 256 << 10
    loop_bundle_ms: int = 200
    loop_source_ms: int = 50
    loop_parallel_ms: int = 15
    loop_usual_weight: float = 0.2
    loop_waiting_bytes: int = 1 << 20
    loop_nap_ms: int = 20
    loop_report_ms: int = 300
    loop_report_entries: int = 2000
    loop_watch_seconds: float = 0.02
    loop_outgrown_pause_seconds: float = 0.5
    loop_broken_pause_seconds: float = 30.0
    progress_seconds: float = 0.5
    progress_in_turns_ms: int = 100
    lingers_ms: int = 50
    source_look_seconds: float = 0.025
    source_busy_share: float = 0.5
    hold_seconds: float = 900.0
    hold_in_batch_seconds: float = 60.0
    section_tasks_per_core: int = 4


TUNING = Tuning()
"""Tuning constants of every server."""
