"""The time limits of shutdown and failure detection; each component reads its limits here."""

from __future__ import annotations

import attrs


@attrs.define
class ShutdownLimits:
    """All limits. `LIMITS` is the only instance; tests change its fields before the component reads them.

    Attributes:
        teardown_seconds: all processes of a job tear down their DoFns and report `Closed`; then they get `ExitNow`.
        abort_seconds: all processes of a job exit after `ExitNow`; then the placement kills them.
        kill_seconds: a process on the server's machine exits after `ExitNow`; then the server kills the process.
        give_up_seconds: an SDK in another process stops its bundle after `GiveUp`; then the placement cancels the lanes.
        cancel_seconds: the job ends after a cancel request; then the placement cancels the lanes.
        lane_close_seconds: lanes of a finished job end after `CloseLane`; then the placement cancels the lanes.
        suspend_seconds: running work ends after the server begins to stop; then the job is left to the next server.
        external_stop_seconds: a worker pool outside answers the request to stop an SDK harness.
        job_look_seconds: longest pause between two rounds of a job.
        condition_look_seconds: pause between two looks of a job at its processes and waits.
        job_turn_seconds: pause between two looks of a job that waits for its turn to begin.
        keepalive_seconds: silence on a connection of the channel; then either side sends a ping.
        keepalive_answer_seconds: the other side answers a ping; then the connection is closed.
        call_seconds: the server answers a call of a worker process; then the call fails.
        beat_seconds: pause between two heartbeats of a worker process in its vitals file.
        beat_message_seconds: pause between two `Beat` messages.
        silent_seconds: a worker process sends no message; then the server reports the process as silent and reads its vitals.
        mute_seconds: a silent process continues to write vitals; then the server kills the process, because its channel is broken.
        watchdog_seconds: no process works on a bundle that the server has sent; then the bundle runs again elsewhere.
        watchdog_look_seconds: pause between two looks of the watchdog.
        watchdog_heard_seconds: age of the last message of a process; the watchdog ignores processes with an older one.
        orphan_seconds: orphans, and processes beneath a reaper that ends, exit by themselves; then the reaper kills them.
        reaper_look_seconds: pause between two looks of a reaper for orphans.
        reaper_end_look_seconds: the same while the reaper ends.
        fork_server_start_seconds: the fork server imports the modules that workers need; then the server fails to start.
        fork_server_stop_seconds: the fork server and its workers exit; then the server kills them.
        fork_server_attempts: number of fork servers in a row that exit before they are ready; then the server stops.
        lane_attempts: number of processes in which a lane is tried; then the lane has failed.
        stand_by_seconds: the server answers a process that asks for its next lane; the process then asks again.
        stand_down_seconds: processes without a job exit when the server stops.
        harness_connect_seconds: an SDK harness neither runs nor waits for a core or a disk before it connects; then it has failed to start.
        harness_unseen_seconds: an SDK harness connects if its process can't be observed.
        harness_start_seconds: an SDK harness connects, whatever it does.
        harness_prepare_seconds: added to the limits above if packages must be installed or an image must be fetched.
        harness_teardown_seconds: an SDK harness tears down and exits; then it is killed.
        harness_interrupted_seconds: the same if a bundle is still running in the SDK harness.
        channel_stop_seconds: the server closes all streams of the channel.
        server_jobs_seconds: all jobs end when the server stops; then the server exits without them.
        server_state_seconds: the store of state answers when the server stops.
        placement_look_seconds: pause between two checks of the server that its placement is alive.
        start_stop_seconds: a start that is interrupted by a signal ends.
        orphaned_hurry_seconds: a server whose parent has exited stops in order; then it kills its processes and exits.
        repeated_signal_seconds: a second SIGINT is ignored if no terminal has sent it.
    """

    teardown_seconds: float = 10.0
    abort_seconds: float = 3.0
    kill_seconds: float = 1.0
    give_up_seconds: float = 0.5
    cancel_seconds: float = 1.5
    lane_close_seconds: float = 1.0
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
"""The limits of every server and its processes."""
