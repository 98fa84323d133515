"""The numbers by which is decided what of a job runs next, where, and for how long.

Results are the same with any of them. ``docs/reference/scheduling-constants.md`` has them as a table, made of this record.
"""

from __future__ import annotations

import attrs


@attrs.frozen
class Tuning:
    """All of them; units are in the names, times are elapsed ones.

    Attributes:
        slots_per_core: so many lanes run at once for each core, where all is on one machine: one that is blocked in user code, or waits for its next bundle, should not keep a core idle.
        lanes_per_core: so many of them one job has at most.
        lane_idle_seconds: how long a lane keeps its place on the cluster without work.
        lane_failures: so many lanes that Spark could not run, one after the other, fail the job.
        blocked_seconds: a bundle that has come no further for so long counts as one that uses no core.
        preparing_seconds: the same for one of which nothing was heard yet; one of which its process tells that its harness is still being started never does.
        unheard_seconds: the same for one that takes turns and has not told whether it leaves time to others.
        source_seconds: how much later a bundle may come and still run before that of a source.
        yield_seconds: how long a source keeps its lane at least while others wait for one.
        slot_patience_seconds: how long a job waits for its first slots before others make room.
        job_turn_seconds: how long a job that has begun keeps others from beginning, at most.
        loop_bytes: inputs that are together no larger are for the loop inside a task.
        loop_bundle_ms: a bundle that takes longer leaves the loop.
        loop_source_ms: the same for that of a source, whose outputs are seen only after its end, and of one of several pieces, for which idle lanes may wait.
        loop_parallel_ms: where several bundles wait and usual ones take longer, they run side by side.
        loop_usual_weight: how much the last bundle counts in what is usual.
        loop_waiting_bytes: more data that waits than that leaves the loop.
        loop_nap_ms: for an alarm that is so near the loop waits.
        loop_report_ms: how long a loop goes on before it has committed what it has done.
        loop_report_entries: after so many entries it does not wait for that.
        loop_watch_seconds: how often it is looked at from the side.
        loop_outgrown_pause_seconds: lanes that soon did better than a loop have so long; a loop that lasted as long was worth it.
        loop_broken_pause_seconds: the same after a loop that was lost with its process, that the bundle to blame can be told.
        progress_seconds: how often a bundle reports how far it is.
        progress_in_turns_ms: the same where bundles take turns at one interpreter.
        joint_seconds: one of several pieces tells as soon as it was on a core for so long, and leaves to idle lanes what it has not begun.
        lingers_ms: what a source that waits has put out by then is handed on.
        source_look_seconds: how often a source is looked at.
        source_busy_share: one whose thread wanted a core for more of the time is busy.
        hold_seconds: a worker process of a stream keeps a finished bundle for so long while a store or a disk that must take its files is away; after that the bundle runs again later.
        hold_in_batch_seconds: the same in a batch.
        section_tasks_per_core: so many Spark tasks has each level of a section for a core, or one for each key shard if these are fewer; on one machine, where all of them run at once and each in a process of its own, one for a core.
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
    joint_seconds: float = 0.1
    lingers_ms: int = 50
    source_look_seconds: float = 0.025
    source_busy_share: float = 0.5
    hold_seconds: float = 900.0
    hold_in_batch_seconds: float = 60.0
    section_tasks_per_core: int = 4


TUNING = Tuning()
"""What holds on every server."""
