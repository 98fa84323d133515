"""The time limits of shutdown and failure detection. All components read their limits from this
module.
"""

from __future__ import annotations

import attrs


@attrs.define
class ShutdownLimits:
    """Time limits of shutdown and failure detection, and limits of attempts.

    `LIMITS` is the only instance. Tests set its fields before a component reads them.

    Attributes:
        teardown_seconds: time for a job's processes to tear down their DoFns; then they get `ExitProcess`.
        abort_seconds: time for a job's processes to exit after `ExitProcess`; then the placement kills them.
        kill_seconds: the same on the server's machine; then the server kills the process.
        give_up_seconds: time for an SDK to stop its bundle after `AbandonBundle`; then the placement cancels the lanes.
        cancel_seconds: time for a job to end after a cancel request; then the placement cancels the lanes.
        lane_close_seconds: time for lanes to end after `CloseLane`; then the placement cancels the lanes.
        quarantine_seconds: time to write the last quarantine files of a job; then a message reports the missing files.
        suspend_seconds: time for running work to end when the server stops; then the next server continues it.
        external_stop_seconds: time for a worker pool to stop an SDK harness.
        job_look_seconds: longest pause between two rounds of a job.
        condition_look_seconds: pause between two checks of a job's processes.
        job_turn_seconds: pause between two checks of a job that waits for its start.
        keepalive_seconds: silence on a connection of the channel; then either side sends a ping.
        keepalive_answer_seconds: time to answer a ping; then the connection is closed.
        call_seconds: time for the server to answer a call of a worker process; then the call fails.
        beat_seconds: pause between two heartbeats in the vitals file of a worker process.
        beat_message_seconds: pause between two `Heartbeat` messages.
        exit_record_seconds: time to record the exit code of a lost worker process; then the code is unknown.
        silent_seconds: time without a message of a worker process; then the server reports it as silent and reads its vitals.
        mute_seconds: time for which a silent process still writes vitals; then the server kills the process.
        watchdog_seconds: time for which no process works on a sent bundle; then the bundle runs again elsewhere.
        watchdog_look_seconds: pause between two checks of the watchdog.
        watchdog_heard_seconds: maximum age of the last message of a process that the watchdog checks.
        orphan_seconds: time for orphans to exit; then the reaper kills them.
        reaper_look_seconds: pause between two checks for orphans.
        reaper_end_look_seconds: the same while the reaper stops.
        fork_server_start_seconds: time for the fork server to import modules; then the server fails to start.
        fork_server_stop_seconds: time for the fork server and its workers to exit; then the server kills them.
        fork_server_attempts: consecutive fork servers that exit before they are ready; then the server stops.
        lane_attempts: processes in which a lane is started; then the lane has failed.
        stand_by_seconds: time to answer a process that requests its next lane; then it repeats the request.
        stand_down_seconds: time for processes without a job to exit when the server stops.
        harness_connect_seconds: time for which an SDK harness neither connects nor runs nor waits for a core or a disk; then its start has failed.
        harness_unseen_seconds: the same if the process of the harness can't be observed.
        harness_start_seconds: time for an SDK harness to connect in any case.
        harness_prepare_seconds: extra time to install packages or fetch an image.
        harness_teardown_seconds: time for an SDK harness to tear down and exit; then it is killed.
        harness_interrupted_seconds: the same while a bundle runs in the harness.
        channel_stop_seconds: time for the server to close the streams of the channel.
        server_jobs_seconds: time for all jobs to end when the server stops; then the server exits without them.
        server_state_seconds: time for the state store to respond when the server stops.
        placement_look_seconds: pause between two checks of the placement.
        start_stop_seconds: time for a start to end after a signal.
        orphaned_hurry_seconds: time for a server whose parent has exited to stop in order; then it kills its processes and exits.
        repeated_signal_seconds: time for which a second SIGINT is ignored, unless a terminal sends it.
    """

    teardown_seconds: float = 10.0
    abort_seconds: float = 3.0
    kill_seconds: float = 1.0
    give_up_seconds: float = 0.5
    cancel_seconds: float = 1.5
    lane_close_seconds: float = 1.0
    quarantine_seconds: float = 20.0
    suspend_seconds: float = 1.0
    external_stop_seconds: float = 3.0
    job_look_seconds: float = 0.25
    condition_look_seconds: float = 0.5
    job_turn_seconds: float = 1.0
    keepalive_seconds: float = 10.0
    keepalive_answer_seconds: float = 10.0
    call_seconds: float = 60.0
    beat_seconds: float = 0.5
    beat_message_seconds: float = 2.0
    exit_record_seconds: float = 1.0
    silent_seconds: float = 6.0
    mute_seconds: float = 6.0
    watchdog_seconds: float = 60.0
    watchdog_look_seconds: float = 5.0
    watchdog_heard_seconds: float = 10.0
    orphan_seconds: float = 6.0
    reaper_look_seconds: float = 1.0
    reaper_end_look_seconds: float = 0.1
    fork_server_start_seconds: float = 120.0
    fork_server_stop_seconds: float = 10.0
    fork_server_attempts: int = 3
    lane_attempts: int = 4
    stand_by_seconds: float = 20.0
    stand_down_seconds: float = 2.0
    harness_connect_seconds: float = 60.0
    harness_unseen_seconds: float = 300.0
    harness_start_seconds: float = 900.0
    harness_prepare_seconds: float = 900.0
    harness_teardown_seconds: float = 5.0
    harness_interrupted_seconds: float = 2.0
    channel_stop_seconds: float = 5.0
    server_jobs_seconds: float = 10.0
    server_state_seconds: float = 5.0
    placement_look_seconds: float = 1.0
    start_stop_seconds: float = 10.0
    orphaned_hurry_seconds: float = 5.0
    repeated_signal_seconds: float = 10.0


LIMITS = ShutdownLimits()
"""Time limits of shutdown and failure detection, for every server and its processes."""
