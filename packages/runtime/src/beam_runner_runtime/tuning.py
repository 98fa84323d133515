"""Constants of scheduling: which bundle runs next, where, and for how long.

The results of a job don't depend on these constants.
"""

from __future__ import annotations

import attrs


@attrs.frozen
class SchedulingConstants:
    """Constants of scheduling. The field names contain the units, and all times are durations.

    Attributes:
        slots_per_core: Lanes that run at once per core, if Spark runs on one machine. More than one, so that a blocked or waiting lane leaves no core idle.
        lanes_per_core: Lanes per core that one job can have.
        lane_idle_seconds: Time after which a lane without work exits.
        lane_failures: Failed starts of lanes in a row that fail the job.
        blocked_seconds: Time without progress after which a bundle counts as blocked and uses no core.
        preparing_seconds: The same for a bundle that has not reported yet. A bundle whose harness is still starting never counts as blocked.
        unheard_seconds: The same for a bundle that shares an interpreter and has not reported whether it leaves time to others.
        source_seconds: A bundle that opens up to this much later than a bundle of a source runs before it.
        yield_seconds: Minimum time that a source keeps its lane while others wait for a lane.
        slot_patience_seconds: Time that a job waits for its first slots before other jobs release some.
        job_turn_seconds: Maximum time that a starting job delays the start of others.
        loop_bytes: Maximum total size of the inputs to start a loop.
        loop_bundle_ms: A bundle that runs longer leaves the loop.
        loop_source_ms: The same for a bundle of a source, whose output is visible only after its end.
        loop_parallel_ms: If several bundles wait and usual bundles take longer, they run in parallel on lanes.
        loop_usual_weight: Weight of the last bundle in the average run time.
        loop_waiting_bytes: If more data waits, the loop ends.
        loop_nap_ms: The loop waits for an alarm that is due within this time.
        loop_report_ms: Time between reports of a loop, which are committed.
        loop_report_entries: Number of entries after which a loop reports earlier.
        loop_watch_seconds: Interval at which a thread checks the loop.
        loop_outgrown_pause_seconds: Minimum time on lanes after a loop that was shorter than this time.
        loop_broken_pause_seconds: Time on lanes after a loop was lost with its process, to find the failing bundle.
        progress_seconds: Interval of progress reports of a bundle.
        progress_in_turns_ms: The same for bundles that share an interpreter.
        lingers_ms: Time after which the output of a waiting source is passed on.
        source_look_seconds: Interval at which the activity of a source is measured.
        source_busy_share: A source whose thread needed a core for a larger share of the time is busy.
        hold_seconds: Time that a worker of a stream holds a finished bundle while the store or disk for its files is unavailable. After that, the bundle is retried.
        hold_in_batch_seconds: The same in a batch job.
        section_tasks_per_core: Spark tasks per core and level of a section, or one per key shard if that is less. On one machine, where all tasks run at once in separate processes, one per core.
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


TUNING = SchedulingConstants()
"""Scheduling constants, the same on every server."""
