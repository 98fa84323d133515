"""Expected end of a stream with killed processes: the stream is read completely, drained, and each
number arrived once.
"""

from __future__ import annotations

from beam_runner_jobservices.client import JobClient
from beam_runner_model.jobs import JobState
from jobs import Job
from lives import Lives
from waiting import wait_until


def arrives_once(running: Lives, job: Job, total: int, seconds: float, told: str) -> None:
    """Waits until a stream of `victims.check_stream`, behind ``Count("first")``, has read all its
    numbers, and drains it.

    Args:
        running: server of the job.
        job: job of the stream.
        total: count of numbers.
        seconds: limit for the read, seconds.
        told: description of the stream, with its seed, for error messages.
    """
    wait_until(
        lambda: job.counter("first") >= total,
        seconds,
        lambda: f"all of {total} are read: {job.counter('first')}",
    )
    with JobClient(running.address) as client:
        client.drain_job(job.job_id)
    assert job.wait() is JobState.DRAINED
    print(f"KILLS {told}: {dict(running.kills)}", flush=True)
    found = {name: job.counter(name) for name in ("first", "arrived", "lost", "doubled")}
    assert found == {"first": total, "arrived": total, "lost": 0, "doubled": 0}
