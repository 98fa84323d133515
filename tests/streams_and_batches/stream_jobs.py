"""Runs pipelines on a server: to their end, or until a drain, while processes are killed or not."""

from __future__ import annotations

import fcntl
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import attrs
from apache_beam.coders import VarIntCoder
from beam_runner_jobservices.client import JobClient
from beam_runner_jobservices.errors import JobApiError
from beam_runner_model.jobs import Importance, JobMessage, JobState
from runners import Built, Refused, Server
from tapping import Outputs, attempted, committed

_JOB_SECONDS = 240.0
_LOOK_SECONDS = 0.1
_AWAY_SECONDS = 90.0
_FEW_ATTEMPTS = "--beam_spark_task_attempts=3"
_Result = TypeVar("_Result")
_DROPPED = "beam_spark:stage:dropped_values:v1"


@attrs.frozen
class Way:
    """Way to run pipelines.

    Attributes:
        server: server and environment.
        drains: share of jobs that are drained at a random time.
        flags: pipeline options; None for random options.
        as_batch: whether the same elements also run as batches.
        gate: file that is locked while processes must not be killed; None without kills.
    """

    server: Server
    drains: float = 0.0
    flags: tuple[str, ...] | None = None
    as_batch: bool = False
    gate: Path | None = None


@attrs.frozen
class Outcome:
    """Result of a job.

    Attributes:
        rows: committed rows.
        attempts: rows that bundles returned, committed or not.
        dropped: number of dropped elements, by the job's own count.
        drained: whether the job was drained before the end of its sources.
    """

    rows: Outputs
    attempts: Outputs
    dropped: int
    drained: bool


def run(built: Built, way: Way, rng: random.Random) -> Outcome:
    """Runs a job; raises Refused if it isn't done or drained in time."""
    flags = random_flags(rng, way.as_batch) if way.flags is None else way.flags
    # By default a stream has no last attempt: its errors would show only as a job without an end.
    attempts = () if way.gate else (_FEW_ATTEMPTS,)
    with closed(way.gate, exclusive=False):
        result = way.server.submit(built, "--allow_unsafe_triggers", *attempts, *flags)
    job_id: str = result._job_id
    try:
        if rng.random() < way.drains:
            _drain(way.server.address, job_id, built.folder, rng)
        with JobClient(way.server.address) as client:
            state = _wait(client, job_id)
            if state not in (JobState.DONE, JobState.DRAINED):
                raise Refused(f"the job is {state.name}: {_errors(client, job_id)}")
            dropped = _dropped(client, job_id)
    finally:
        result._cleanup()
    rows, attempts = committed(built.folder), attempted(built.folder)
    return Outcome(rows, attempts, dropped, state is JobState.DRAINED)


def random_flags(rng: random.Random, as_batch: bool) -> tuple[str, ...]:
    """Returns pipeline options that change the optimizations of Beam's client."""
    if not as_batch and rng.random() < 0.6:
        return ("--streaming",)
    return (f"--experiments=pre_optimize={rng.choice(['all_except_fusion', 'default', 'none'])}",)


@contextmanager
def closed(gate: Path | None, exclusive: bool) -> Iterator[None]:
    """Prevents kills of processes; in exclusive mode, prevents submissions of jobs."""
    if gate is None:
        yield
        return
    with gate.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH)
        yield


def _drain(address: str, job_id: str, folder: Path, rng: random.Random) -> None:
    """Drains the job some time after its first output."""
    begun = time.monotonic()
    while not any(folder.iterdir()) and time.monotonic() - begun < _AWAY_SECONDS:
        time.sleep(_LOOK_SECONDS)
    time.sleep(rng.choice([0.0, rng.uniform(0.0, 0.5), rng.uniform(0.0, 3.0)]))
    with JobClient(address) as client:
        _patiently(lambda: client.get_state(job_id).state.is_terminal or client.drain_job(job_id))


def _patiently(call: Callable[[], _Result]) -> _Result:
    """Calls the server until it responds, because it can be unavailable; returns the response."""
    deadline = time.monotonic() + _AWAY_SECONDS
    while True:
        try:
            return call()
        except JobApiError:
            if time.monotonic() > deadline:
                raise
        time.sleep(_LOOK_SECONDS)


def _wait(client: JobClient, job_id: str) -> JobState:
    """Returns the terminal state."""
    try:
        return client.wait_until_finish(job_id, _JOB_SECONDS, _AWAY_SECONDS)
    except JobApiError as error:
        _patiently(lambda: client.cancel_job(job_id))
        raise Refused(f"the job has not ended after {_JOB_SECONDS:.0f} s: {error}") from error


def _errors(client: JobClient, job_id: str) -> str:
    entries = _patiently(lambda: list(client.follow_messages(job_id, _AWAY_SECONDS)))
    messages = [entry for entry in entries if isinstance(entry, JobMessage)]
    return " ".join(m.text for m in messages if m.importance >= Importance.ERROR)[-3000:]


def _dropped(client: JobClient, job_id: str) -> int:
    metrics = _patiently(lambda: client.get_metrics(job_id)).committed
    return sum(VarIntCoder().decode(info.payload) for info in metrics if info.urn == _DROPPED)
