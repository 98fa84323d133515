"""Tests of the records and sentences about waits and failures, from a real server to the web page.

Two kinds of waits are made elsewhere: tasks of a section need Spark, and a hold without a timer comes from no
pipeline of Beam's SDKs (`packages/engine/tests/scheduler/test_reports.py`).
"""

from __future__ import annotations

import os
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import apache_beam as beam
import pytest
from apache_beam.coders import VarIntCoder
from apache_beam.transforms import userstate
from apache_beam.transforms.window import FixedWindows
from beam_runner_jobservices.client import JobClient
from beam_runner_jobservices.errors import JobApiError
from beam_runner_model.failures import FailureCause
from beam_runner_model.jobs import JobState
from beam_runner_model.observation import BundleProcessKind, Execution
from beam_runner_model.waits import Wait, WaitKind
from beam_runner_web.app import create_app
from beam_runner_web.causes.facts import CauseKind
from beam_runner_web.settings import WebSettings
from failing_streams import NumberSource
from job_server import job_server, wait_until
from jobs import Job, Pipelines, pickle_by_value
from server_with_obstacles import NEIGHBOUR
from starlette.testclient import TestClient

PROGRAM = (str(Path(__file__).parents[1] / "support" / "server_with_obstacles.py"),)
SECONDS = 120.0
FOR_THEIR_TIME = {WaitKind.RESUMPTION, WaitKind.TIMER, WaitKind.WATERMARK, WaitKind.UPSTREAM}
Found = TypeVar("Found")


class UntilThere(beam.DoFn):
    """Waits for a file at each element that is not positive."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def process(self, element: int) -> Iterator[int]:
        while element <= 0 and not self._file.exists():
            time.sleep(0.05)
        yield element


class StopsOnce(beam.DoFn):
    """Stops its process the first time, with the process's id in a file."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def process(self, element: int) -> Iterator[int]:
        if not self._file.exists():
            self._file.write_text(str(os.getpid()))
            os.kill(os.getpid(), signal.SIGSTOP)
        yield element


class Raises(beam.DoFn):
    def process(self, element: int) -> Iterator[int]:
        raise ValueError(f"no {element}")
        yield element


class InAnHour(beam.DoFn):
    """Sets a timer in processing time."""

    TIMER = userstate.TimerSpec("timer", userstate.TimeDomain.REAL_TIME)
    STATE = userstate.ReadModifyWriteStateSpec("state", VarIntCoder())

    def process(
        self,
        element: tuple[int, int],
        timer: Any = beam.DoFn.TimerParam(TIMER),
        state: Any = beam.DoFn.StateParam(STATE),
    ) -> None:
        state.write(1)
        timer.set(time.time() + 3_600)

    @userstate.on_timer(TIMER)
    def fired(self) -> None:
        pass


@pytest.fixture(autouse=True, scope="module")
def _send_along() -> None:
    pickle_by_value(__name__)


@pytest.fixture(scope="module")
def obstacles(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("obstacles")


@pytest.fixture(scope="module")
def address(obstacles: Path) -> Iterator[str]:
    with (
        tempfile.TemporaryDirectory(prefix="t") as folder,
        job_server(
            Path(folder),
            "--without-spark",
            environment={"OBSTACLES": str(obstacles)},
            program=PROGRAM,
        ) as server,
    ):
        yield server.address


@pytest.fixture
def pipelines(address: str) -> Pipelines:
    return Pipelines(address, "embedded", [])


@pytest.fixture(scope="module")
def web(address: str) -> Iterator[TestClient]:
    with TestClient(create_app(WebSettings(address)), base_url="http://localhost") as client:
        yield client


class Seen:
    """A job as scripts see it; cancelled at the end of a ``with`` block, if it runs then."""

    def __init__(self, job: Job, web: TestClient) -> None:
        self.job = job
        self._web = web
        self._client = JobClient(job.address)

    def __enter__(self) -> Seen:
        return self

    def __exit__(self, *_: object) -> None:
        with self._client:
            self._client.cancel_job(self.job.job_id)
            self._client.wait_until_finish(self.job.job_id, SECONDS)

    def get_execution(self) -> Execution:
        """Returns the current execution; empty before the start of the job."""
        try:
            return self._client.get_execution(self.job.job_id)
        except JobApiError:
            return Execution()

    def until(self, find: Callable[[Execution], Found | None], what: str) -> Found:
        """Waits until a function finds a result in the execution."""
        found: list[Found] = []

        def is_found() -> bool:
            one = find(self.get_execution())
            found.extend([] if one is None else [one])
            return bool(found)

        wait_until(is_found, SECONDS, lambda: f"{what} in {self.get_execution()}")
        return found[0]

    def wait(self, kind: WaitKind) -> Wait:
        """Waits for the first wait of a kind, and returns it."""
        return self.until(
            lambda now: next((one for one in now.waits if one.kind is kind), None), kind
        )

    def kinds(self) -> set[str]:
        """Returns the kinds of the job's reported waits."""
        told = self._web.get(f"/api/v1/jobs/{self.job.job_id}").json()["causes"]
        return {cause["kind"] for cause in told}

    def tells(self, kind: str) -> None:
        """Waits until the page has a sentence of a kind."""
        wait_until(lambda: kind in self.kinds(), SECONDS, lambda: f"{kind} in {self.kinds()}")


def test_wait_for_a_pending_side_input_and_a_stuck_bundle_is_reported(
    pipelines: Pipelines, web: TestClient, tmp_path: Path
) -> None:
    pipeline = pipelines.new()
    side = pipeline | "Side" >> beam.Create([0]) | "Slow" >> beam.ParDo(UntilThere(tmp_path / "go"))
    _ = (
        pipeline
        | "Main" >> beam.Create([1, 2])
        | "Use" >> beam.Map(lambda value, more: (value, more), beam.pvalue.AsList(side))
    )
    with Seen(pipelines.job(pipeline), web) as seen:
        wait = seen.wait(WaitKind.SIDE_INPUT)
        assert wait.steps == ("Use",)
        assert "Slow" in " ".join(wait.givers)
        assert wait.side_input.startswith("Use:")
        assert wait.count > 0
        seen.tells(WaitKind.SIDE_INPUT)
        runs = seen.wait(WaitKind.BUNDLES)
        assert "Slow" in runs.steps
        assert seen.until(lambda now: now.still or None, "a time without a commit") >= 5
        seen.tells(CauseKind.STANDING_BUNDLE)
        (tmp_path / "go").touch()
        assert seen.job.wait() is JobState.DONE


def test_wait_for_an_unresponsive_and_lost_process_is_reported(
    pipelines: Pipelines, web: TestClient, tmp_path: Path, obstacles: Path
) -> None:
    (obstacles / "loop").touch()
    file = tmp_path / "pid"
    pipeline = pipelines.new()
    _ = pipeline | beam.Create([1]) | "Stops" >> beam.ParDo(StopsOnce(file))
    with Seen(pipelines.job(pipeline), web) as seen:
        wait = seen.wait(WaitKind.PROCESS)
        pid = int(file.read_text())
        assert (wait.pid, bool(wait.host)) == (pid, True)
        assert wait.seconds >= 6
        seen.tells(WaitKind.PROCESS)
        os.kill(pid, signal.SIGKILL)
        assert seen.job.wait() is JobState.DONE
        with JobClient(seen.job.address) as client:
            (group,) = client.get_errors(seen.job.job_id).groups
        assert group.failure.cause == FailureCause.LOST_PROCESS
        assert group.retried == 1
        seen.tells(CauseKind.ERROR)


def test_wait_of_a_failed_bundle_for_its_next_attempt_is_reported(
    pipelines: Pipelines, web: TestClient
) -> None:
    pipeline = pipelines.new("--streaming")
    numbers = pipeline | beam.Create([100]) | beam.ParDo(NumberSource())
    _ = numbers | beam.Reshuffle() | "Fails" >> beam.ParDo(Raises())
    with Seen(pipelines.job(pipeline), web) as seen:
        wait = seen.wait(WaitKind.RETRY)
        assert (wait.count > 0, "Fails" in wait.steps) == (True, True)
        failed = seen.until(lambda now: next(iter(now.failed), None), "a failed bundle")
        assert (failed.kind, failed.step) == (FailureCause.USER_CODE, "Fails")
        assert failed.error.startswith("ValueError: no ")
        seen.tells(CauseKind.FAILED_BUNDLE)
        assert WaitKind.RETRY not in seen.kinds()


def test_wait_for_a_source_that_holds_the_watermark_is_reported(
    pipelines: Pipelines, web: TestClient, tmp_path: Path
) -> None:
    pipeline = pipelines.new("--streaming")
    numbers = (
        pipeline | beam.Create([100]) | beam.ParDo(NumberSource(wait_at=5, file=tmp_path / "never"))
    )
    pairs = numbers | beam.Map(lambda number: (number % 2, number))
    _ = pairs | "Later" >> beam.ParDo(InAnHour())
    groups = pairs | beam.WindowInto(FixedWindows(10)) | "Group" >> beam.GroupByKey()
    _ = groups | beam.Map(lambda pair: (pair[0], 1)) | beam.GroupByKey() | "Last" >> beam.Map(len)
    with Seen(pipelines.job(pipeline), web) as seen:
        watermark = seen.wait(WaitKind.WATERMARK)
        assert watermark.until is not None
        assert watermark.watermark is not None
        assert watermark.shard is not None
        assert watermark.watermark < watermark.until
        timer = seen.wait(WaitKind.TIMER)
        assert timer.until is not None
        assert timer.until > 1000 * time.time()
        assert "Later" in timer.steps
        assert seen.wait(WaitKind.RESUMPTION).count > 0
        upstream = seen.wait(WaitKind.UPSTREAM)
        assert (bool(upstream.collection), upstream.steps) == (True, ("Last",))
        assert not FOR_THEIR_TIME & seen.kinds()


def test_wait_for_an_unavailable_service_is_reported(
    pipelines: Pipelines, web: TestClient, obstacles: Path
) -> None:
    (obstacles / "journal").touch()
    pipeline = pipelines.new()
    _ = pipeline | beam.Create([1]) | beam.Map(print)
    with Seen(pipelines.job(pipeline), web) as seen:
        wait = seen.wait(WaitKind.NEIGHBOUR)
        assert (wait.neighbour, wait.reason) == (NEIGHBOUR, "it is full")
        assert wait.until is not None
        seen.tells(WaitKind.NEIGHBOUR)
        (obstacles / "journal").unlink()
        assert seen.job.wait() is JobState.DONE


def test_wait_for_occupied_slots_is_reported(
    pipelines: Pipelines, web: TestClient, obstacles: Path
) -> None:
    (obstacles / "lanes").touch()
    pipeline = pipelines.new()
    _ = pipeline | beam.Create([1]) | beam.Map(print)
    with Seen(pipelines.job(pipeline), web) as seen:
        assert seen.wait(WaitKind.SLOT).count > 0
        seen.tells(WaitKind.SLOT)
        (obstacles / "lanes").unlink()
        assert seen.job.wait() is JobState.DONE


def test_wait_for_a_starting_harness_is_reported(
    pipelines: Pipelines, web: TestClient, tmp_path: Path
) -> None:
    command = tmp_path / "boot"
    command.write_text("#!/bin/sh\nexec sleep 1000\n")
    command.chmod(0o755)
    pipeline = pipelines.new(
        "--environment_type=PROCESS", f"--environment_options=process_command={command}"
    )
    _ = pipeline | beam.Create([1]) | beam.Map(print)
    with Seen(pipelines.job(pipeline), web) as seen:
        wait = seen.wait(WaitKind.HARNESS)
        assert (wait.count > 0, wait.seconds > 0) == (True, True)
        (bundle, *_) = seen.get_execution().bundles
        assert bundle.where is BundleProcessKind.STARTING_HARNESS
        seen.tells(WaitKind.HARNESS)


def test_wait_of_a_grouping_for_the_end_of_its_input_is_reported(
    pipelines: Pipelines, web: TestClient, tmp_path: Path
) -> None:
    pipeline = pipelines.new()
    _ = (
        pipeline
        | beam.Create(range(200))
        | beam.Reshuffle()
        | "Slow" >> beam.ParDo(UntilThere(tmp_path / "go"))
        | beam.Map(lambda number: (number % 3, number))
        | "Group" >> beam.GroupByKey()
        | "After" >> beam.Map(len)
    )
    with Seen(pipelines.job(pipeline), web) as seen:
        wait = seen.wait(WaitKind.END_OF_INPUT)
        assert "After" in wait.steps
        (tmp_path / "go").touch()
        assert seen.job.wait() is JobState.DONE


def test_failed_job_reports_the_bundle_that_caused_the_failure(
    pipelines: Pipelines, web: TestClient
) -> None:
    pipeline = pipelines.new()
    _ = pipeline | beam.Create([1]) | "Fails" >> beam.ParDo(Raises())
    seen = Seen(pipelines.job(pipeline), web)
    assert seen.job.wait() is JobState.FAILED
    with JobClient(seen.job.address) as client:
        (group,) = client.get_errors(seen.job.job_id).groups
    failure = group.failure
    assert (failure.cause, failure.text) == (FailureCause.USER_CODE, "no 1")
    assert failure.element
    assert seen.kinds() == {CauseKind.FAILED}
