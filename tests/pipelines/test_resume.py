"""Tests of the jobs, the state folder and the clients of a killed server after its restart."""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.io.restriction_trackers import OffsetRange
from apache_beam.metrics import Metrics
from apache_beam.transforms.window import FixedWindows, TimestampedValue
from apache_beam.utils.timestamp import Timestamp
from beam_runner_jobservices.client import JobClient
from beam_runner_model.jobs import JobMessage, JobState
from job_server import WITHOUT_PLACE, ServerEnded
from jobs import Job, Pipelines
from offsets import WATERMARK, Offsets
from server_lives import GONE_SECONDS, ServerLives, server_lives
from waiting import wait_until


@pytest.fixture
def new_lives(tmp_path: Path, placement: tuple[str, ...]) -> Iterator[ServerLives]:
    """Yields a server that has run no job."""
    with server_lives(tmp_path / "state", placement) as running:
        yield running


class Wait(beam.DoFn):
    """DoFn that counts elements, and waits at the first element for a permission."""

    def __init__(self, begun: Path, go_on: Path) -> None:
        self._begun = begun
        self._go_on = go_on
        self._count = Metrics.counter("resume", "waited")

    def process(self, element: int) -> Iterator[int]:
        self._count.inc()
        if element == 0:
            self._begun.touch()
        while element == 0 and not self._go_on.exists():
            time.sleep(0.05)
        yield element


class Count(beam.DoFn):
    def __init__(self, name: str) -> None:
        self._count = Metrics.counter("resume", name)

    def process(self, element: object) -> Iterator[object]:
        self._count.inc()
        yield element


def waiting(pipeline: beam.Pipeline, folder: Path) -> tuple[Path, Path]:
    """Builds two stages, the second of which waits; returns the files that signal its start and its
    permission to continue.
    """
    begun, go_on = folder / "begun", folder / "go-on"
    _ = (
        pipeline
        | beam.Create(range(10))
        | beam.ParDo(Count("before"))
        | beam.Reshuffle()
        | beam.ParDo(Wait(begun, go_on))
        | "again" >> beam.Reshuffle()
        | "after" >> beam.ParDo(Count("after"))
    )
    return begun, go_on


def counts(job: Job) -> tuple[int, int, int]:
    return job.counter("before"), job.counter("waited"), job.counter("after")


class Follower:
    """A client that reads a job's messages to their end, whatever happens to the server."""

    def __init__(self, job: Job) -> None:
        self.heard: list[str] = []
        self.states: list[JobState] = []
        self._job = job
        self.thread = threading.Thread(target=self._follow, daemon=True)
        self.thread.start()

    def _follow(self) -> None:
        with JobClient(self._job.address) as client:
            for entry in client.follow_messages(self._job.job_id, 200, reconnect_seconds=120):
                if isinstance(entry, JobMessage):
                    self.heard.append(entry.text)
                else:
                    self.states.append(entry.state)


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_server_that_cannot_start_leaves_jobs_to_the_next_server(
    lives: ServerLives, tmp_path: Path
) -> None:
    pipelines = lives.embedded
    pipeline = pipelines.new()
    begun, go_on = waiting(pipeline, tmp_path)
    job = pipelines.job(pipeline)
    wait_until(begun.exists, 60, "the second stage has begun")
    lives.kill_server_process()
    with pytest.raises(ServerEnded) as ended:
        lives.start_next_process(program=WITHOUT_PLACE)
    ended.value.server.process.wait(GONE_SECONDS)
    lives.start_next_process()
    go_on.touch()
    assert job.wait() is JobState.DONE, [message.text for message in job.messages()]
    assert counts(job) == (10, 10, 10)


@pytest.mark.timeout(240)
def test_running_jobs_resume_on_the_next_server(
    lives: ServerLives, flags_of: Callable[[str], list[str]], tmp_path: Path
) -> None:
    """Jobs of every environment resume. Their clients get the earlier messages, the notice of the
    resume, and the end of the job.
    """
    jobs: list[Job] = []
    for environment in ("embedded", "LOOPBACK", "PROCESS"):
        pipelines = Pipelines(lives.address, environment, flags_of(environment))
        pipeline = pipelines.new()
        (tmp_path / environment).mkdir()
        begun, _ = waiting(pipeline, tmp_path / environment)
        jobs.append(pipelines.job(pipeline))
        wait_until(begun.exists, 60, f"the second stage of {environment} has begun")
    followers = [Follower(job) for job in jobs]
    lives.kill_server_process()
    lives.start_next_process()
    assert {job.state() for job in jobs} <= {JobState.STARTING, JobState.RUNNING}
    for begun in tmp_path.glob("*/begun"):
        begun.with_name("go-on").touch()
    for job, follower in zip(jobs, followers, strict=True):
        assert job.wait(60) is JobState.DONE, [m.text for m in job.messages()][-3:]
        assert counts(job) == (10, 10, 10)
        follower.thread.join(60)
        assert not follower.thread.is_alive()
        assert follower.states[-1] is JobState.DONE
        assert follower.states.count(JobState.DONE) == 1
        assert sum("has restarted" in text for text in follower.heard) == 1


@pytest.mark.timeout(240)
def test_job_history_survives_a_restart(
    new_lives: ServerLives,
    tmp_path: Path,
    limit: Callable[[float], float],
) -> None:
    """Finished jobs stay unchanged. Jobs that are cancelled after the restart become CANCELLED."""
    pipelines = new_lives.embedded
    done, failed, running = (pipelines.new() for _ in range(3))
    _, go_on = waiting(done, tmp_path)
    go_on.touch()
    _ = failed | beam.Create([0]) | "Divide" >> beam.Map(lambda n: 1 // n)
    begun, _ = waiting(running, Path(tempfile.mkdtemp(dir=tmp_path)))
    jobs = [pipelines.job(one) for one in (done, failed, running)]
    assert [job.wait(60) for job in jobs[:2]] == [JobState.DONE, JobState.FAILED]
    wait_until(begun.exists, 60, "the third job waits")
    new_lives.kill_server_process()
    new_lives.start_next_process()
    assert jobs[0].state() is JobState.DONE
    assert counts(jobs[0]) == (10, 10, 10)
    assert jobs[1].state() is JobState.FAILED
    assert any("ZeroDivisionError" in message.text for message in jobs[1].messages())
    state, seconds = jobs[2].cancel_and_measure()
    assert state is JobState.CANCELLED and seconds < limit(10)
    wait_until(lambda: not list((new_lives.state / "jobs").glob("*/")), 60, "no data stays")
    new_lives.server.process.send_signal(signal.SIGTERM)
    assert new_lives.server.process.wait(60) == 0


class Endless(Offsets):
    """Restriction provider whose truncation returns nothing."""

    def truncate(self, element: int, restriction: OffsetRange) -> None:
        return None


class Source(beam.DoFn):
    """Source of numbers, one per second of event time; slow after a file exists."""

    def __init__(self, go_on: Path) -> None:
        self._go_on = go_on

    @beam.DoFn.unbounded_per_element()
    def process(
        self,
        element: int,
        tracker: Any = beam.DoFn.RestrictionParam(Endless()),
        estimator: Any = WATERMARK,
    ) -> Iterator[TimestampedValue]:
        position = tracker.current_restriction().start
        while tracker.try_claim(position):
            estimator.set_watermark(Timestamp(position))
            yield TimestampedValue(position, position)
            position += 1
            time.sleep(0.4 if self._go_on.exists() else 0.02)


class HoldFirstBundle(beam.DoFn):
    """Holds the bundle with the number 0 at its end until it may go on."""

    def __init__(self, go_on: Path) -> None:
        self._go_on = go_on
        self._is_first = False

    def process(self, element: int) -> Iterator[int]:
        self._is_first |= element == 0
        yield element

    def finish_bundle(self) -> None:
        while self._is_first and not self._go_on.exists():
            time.sleep(0.02)


class Gaps(beam.DoFn):
    """DoFn that counts the arrived numbers, and the missing numbers between them."""

    def process(self, element: tuple[None, Iterable[int]]) -> None:
        numbers = list(element[1])
        Metrics.counter("resume", "given").inc(len(numbers))
        Metrics.counter("resume", "missing").inc(max(numbers) + 1 - len(set(numbers)))


@pytest.mark.timeout(240)
def test_source_output_has_no_gap_if_the_server_is_killed_in_a_drain(
    lives: ServerLives, tmp_path: Path
) -> None:
    """When the server is killed, the first part of a restriction is not committed, and a later part is committed."""
    go_on = tmp_path / "go-on"
    pipelines = lives.embedded
    pipeline = pipelines.new("--streaming")
    (
        pipeline
        | beam.Create([10**9])
        | beam.ParDo(Source(go_on))
        | beam.ParDo(HoldFirstBundle(go_on))
        | beam.Reshuffle()
        | "committed" >> beam.ParDo(Count("committed"))
        | beam.WindowInto(FixedWindows(10**10))
        | beam.WithKeys(None)
        | beam.GroupByKey()
        | beam.ParDo(Gaps())
    )
    job = pipelines.job(pipeline)
    wait_until(lambda: job.counter("committed"), 60, "a later part is committed")
    with JobClient(lives.address) as client:
        assert client.drain_job(job.job_id) is JobState.DRAINING
    lives.kill_server_process()
    go_on.touch()
    lives.start_next_process()
    assert job.wait(120) is JobState.DRAINED
    assert (job.counter("missing"), job.counter("given") > 0) == (0, True)


CLIENT = """
import pathlib, sys, time
import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions

def wait(n):
    pathlib.Path(sys.argv[1]).touch()
    time.sleep(100)

p = beam.Pipeline(options=PipelineOptions(sys.argv[2:]))
p | beam.Create([1]) | beam.Map(wait)
p.run().wait_until_finish()
"""


@pytest.mark.timeout(240)
def test_loopback_job_with_a_vanished_client_fails_with_that_reason(
    lives: ServerLives, tmp_path: Path
) -> None:
    begun = tmp_path / "begun"
    (tmp_path / "client.py").write_text(CLIENT)
    flags = ["--runner=PortableRunner", f"--job_endpoint={lives.address}"]
    with JobClient(lives.address) as jobs:
        before = {info.job_id for info in jobs.list_jobs()}
    client = subprocess.Popen(
        [
            *(sys.executable, str(tmp_path / "client.py"), str(begun)),
            *(*flags, "--environment_type=LOOPBACK"),
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_until(begun.exists, 60, "the client's code runs")
    finally:
        client.kill()
        client.wait(10)
    lives.kill_server_process()
    lives.start_next_process()
    with JobClient(lives.address) as jobs:
        (job_id,) = {info.job_id for info in jobs.list_jobs()} - before
        assert jobs.wait_until_finish(job_id, 100) is JobState.FAILED
        texts = [m.text for m in jobs.follow_messages(job_id) if isinstance(m, JobMessage)]
    assert "with LOOPBACK, the pool is the program that submitted the job" in texts[-1]


@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    "name", ["journal.sqlite", pytest.param("jobs.sqlite", marks=pytest.mark.slow)]
)
def test_damaged_state_file_is_moved_aside_and_reported(
    new_lives: ServerLives, tmp_path: Path, name: str
) -> None:
    pipelines = new_lives.embedded
    pipeline = pipelines.new()
    begun, _ = waiting(pipeline, tmp_path)
    job = pipelines.job(pipeline)
    wait_until(begun.exists, 60, "the job is at work")
    new_lives.kill_server_process()
    for log in new_lives.state.glob(f"{name}-*"):
        log.unlink()
    damaged = b"not what was written " * 1000
    (new_lives.state / name).write_bytes(damaged)
    new_lives.start_next_process()
    told = [line for line in new_lives.server.log if f"{name} is damaged" in line]
    assert len(told) == 1
    assert [file.read_bytes() for file in new_lives.state.glob(f"{name}.damaged*")] == [damaged]
    with JobClient(new_lives.address) as client:
        if name == "jobs.sqlite":
            assert client.list_jobs() == ()
        else:
            assert client.wait_until_finish(job.job_id, 60) is JobState.FAILED
            texts = [
                m.text for m in client.follow_messages(job.job_id) if isinstance(m, JobMessage)
            ]
            assert "journal" in texts[-1]
            assert "is missing" in texts[-1]
    # The server itself is well.
    again = pipelines.new()
    (tmp_path / "again").mkdir()
    _, go_on = waiting(again, tmp_path / "again")
    go_on.touch()
    assert pipelines.job(again).wait(60) is JobState.DONE
