from __future__ import annotations

import json
from pathlib import Path

import pytest
from beam_runner_model.failures import FailedBundle, FailureCause
from beam_runner_model.jobs import JobState
from beam_runner_model.observation import (
    BundleProcessKind,
    Execution,
    ObservedBundle,
    StackFrame,
    StageTimeSeries,
    ThreadStack,
)
from beam_runner_model.observation import Execution as Record
from beam_runner_model.stories import BundleHistory, BundleStatus, DataPiece, HistoryEvent
from beam_runner_model.waits import Wait, WaitKind

from beam_runner_jobservices.client import JobClient
from beam_runner_jobservices.errors import JobApiError
from beam_runner_jobservices.observation_json import decode_json, encode_json, make_record
from beam_runner_jobservices.server import JobServer

from .fakes import Clock, FakeExecutor, FakeJob

BUNDLE = ObservedBundle(
    "s", 7, 2, ("A", "B"), "host", 12, 3.5, 1.25, 0.5, BundleProcessKind.HARNESS
)
USER, AWAY = FailureCause.USER_CODE, FailureCause.UNAVAILABLE
FAILED = (
    FailedBundle("s", 7, ("A", "B"), 3, USER, "B", "ValueError: no", "'x'", next_in=4.0),
    FailedBundle("s", 8, ("A",), kind=AWAY, error="full", neighbour="the disk", away=9.5),
)
WAITS = (
    Wait(WaitKind.NEIGHBOUR, neighbour="Spark", reason="no cores", seconds=61.0, until=8_000),
    Wait(WaitKind.SIDE_INPUT, "s", ("A",), side_input="A:x", givers=("B", "C"), watermark=-1),
)
EXECUTION = Execution((BUNDLE,), FAILED, WAITS, 7.5, 1_000, "http://spark:4040")
STACK = ThreadStack("host", 12, "main", (StackFrame("a.py", 3, "f", "x()"),))

SERIES = StageTimeSeries("s", ((1.5, 2, 3, 4, 5), (11.5, 12, 13, 14, 15)))


class Observed(FakeJob):
    """A job with observations."""

    def get_execution(self) -> Execution:
        return EXECUTION

    def get_stage_series(self) -> tuple[StageTimeSeries, ...]:
        return (SERIES,)

    def get_stacks(self) -> tuple[ThreadStack, ...]:
        return (STACK,)


def test_observation_client_returns_execution_as_reported(
    client: JobClient, executor: FakeExecutor, pipeline: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("packages.jobservices.tests.fakes.FakeJob", Observed)
    job_id = client.submit_job(pipeline)
    assert client.get_execution(job_id) == EXECUTION
    assert client.get_stacks(job_id) == (STACK,)
    assert client.get_stage_series(job_id) == (SERIES,)
    executor.job(job_id).reporter.report_state(JobState.CANCELLING)
    executor.job(job_id).reporter.report_state(JobState.CANCELLED)
    with pytest.raises(JobApiError, match="isn't running") as ended:
        client.get_execution(job_id)
    assert ended.value.code == "FAILED_PRECONDITION"


def test_observation_of_runner_without_observations_is_unimplemented(
    client: JobClient, pipeline: bytes
) -> None:
    job_id = client.submit_job(pipeline)
    for ask in (client.get_execution, client.get_stacks, client.get_stage_series):
        with pytest.raises(JobApiError) as refused:
            ask(job_id)
        assert refused.value.code == "UNIMPLEMENTED"


@pytest.mark.parametrize(
    "query",
    [5, {"before": "x"}, {"most": []}, {"before": float("inf")}, {"most": float("nan")}, [1]],
)
def test_invalid_observation_query_is_refused(
    client: JobClient, pipeline: bytes, query: object
) -> None:
    job_id = client.submit_job(pipeline)
    with pytest.raises(JobApiError) as refused:
        client._call_observation_service("GetLogs", {"job_id": job_id, "query": query})
    assert refused.value.code == "INVALID_ARGUMENT"


def test_observation_of_unknown_job_is_not_found(client: JobClient) -> None:
    with pytest.raises(JobApiError) as refused:
        client.get_execution("none")
    assert refused.value.code == "NOT_FOUND"


def test_observation_client_returns_job_times(
    client: JobClient, executor: FakeExecutor, clock: Clock, pipeline: bytes
) -> None:
    began = clock.now
    job_id = client.submit_job(pipeline)
    (times,) = client.get_job_times()
    assert (times.job_id, times.submitted, times.started, times.ended) == (
        job_id,
        began,
        None,
        None,
    )
    clock.now += 5
    reporter = executor.job(job_id).reporter
    reporter.report_state(JobState.RUNNING)
    clock.now += 7
    reporter.report_state(JobState.FAILED, "it broke\nhere")
    (times,) = client.get_job_times()
    assert (times.started, times.ended, times.error) == (began + 5, began + 12, "it broke")


def test_observation_client_ignores_unknown_fields_of_newer_server() -> None:
    sent = json.loads(encode_json(Execution((BUNDLE,))))
    sent["new"] = 1
    sent["bundles"][0]["new"] = 2
    del sent["bundles"][0]["pid"]
    sent["bundles"][0]["where"] = "a new place"
    sent["waits"] = [{"kind": "a new kind", "new": 3}]
    found = make_record(Record, decode_json(json.dumps(sent).encode()))
    assert (found.bundles[0].bundle, found.bundles[0].pid) == (7, 0)
    assert found.bundles[0].where is BundleProcessKind.PROCESS
    assert found.waits == (Wait(WaitKind.OTHER),)


def test_job_list_marks_finished_jobs_with_retained_state(tmp_path: Path, pipeline: bytes) -> None:
    kept: dict[str, float] = {}
    executor = FakeExecutor()
    with (
        JobServer(
            executor, artifacts_dir=tmp_path / "a", port=0, kept_until=lambda: kept
        ) as server,
        JobClient(server.address) as client,
    ):
        first, second = client.submit_job(pipeline), client.submit_job(pipeline)
        kept[first] = 1_700_000_000.5
        found = {one.job_id: one.kept_until for one in client.get_job_times()}
        assert found == {first: 1_700_000_000.5, second: None}


FAILED_STEP = HistoryEvent("failed", 5, 1, 900, 2, "host", 12, failure=FAILED[0])
STORY = BundleHistory(
    7,
    BundleStatus.COMMITTED,
    "s",
    ("A", "B"),
    3,
    (
        HistoryEvent("planned", 4, 1, 800, reads=(DataPiece("input", "a/b", 4, 99, -5),)),
        FAILED_STEP,
        HistoryEvent("committed", 9, 2, 1_000, 2, "host", 13, writes=(DataPiece("out"),)),
    ),
    4,
    20,
)


def test_observation_client_returns_bundle_story_as_reported(
    executor: FakeExecutor, pipeline: bytes, tmp_path: Path
) -> None:
    asked: list[tuple[str, int]] = []

    def get_history(job_id: str, bundle: int) -> BundleHistory:
        asked.append((job_id, bundle))
        return STORY

    server = JobServer(executor, artifacts_dir=tmp_path, port=0, tell_story=get_history)
    with JobClient(server.start()) as client:
        try:
            job_id = client.submit_job(pipeline)
            assert client.get_bundle_history(job_id, 7) == STORY
            assert asked == [(job_id, 7)]
            with pytest.raises(JobApiError, match="nothing") as unknown:
                client.get_bundle_history("nothing", 7)
            assert unknown.value.code == "NOT_FOUND"
            with pytest.raises(JobApiError, match="isn't a number") as wrong:
                client.get_bundle_history(job_id, "7")  # type: ignore[arg-type]
            assert wrong.value.code == "INVALID_ARGUMENT"
            ended = executor.job(job_id).reporter
            ended.report_state(JobState.CANCELLING)
            ended.report_state(JobState.CANCELLED)
            assert client.get_bundle_history(job_id, 8) == STORY, (
                "the journal of an ended job may be kept"
            )
        finally:
            server.stop()


def test_bundle_story_of_runner_without_journal_is_unimplemented(
    client: JobClient, pipeline: bytes
) -> None:
    with pytest.raises(JobApiError, match="record the history of bundles") as refused:
        client.get_bundle_history(client.submit_job(pipeline), 0)
    assert refused.value.code == "UNIMPLEMENTED"


def test_bundle_story_of_later_version_is_read_without_unknown_fields() -> None:
    found = decode_json(
        encode_json({"bundle": 1, "status": "new", "happened": [{"kind": "new", "x": 1}]})
    )
    assert make_record(BundleHistory, found) == BundleHistory(
        1, "unknown", happened=(HistoryEvent("other"),)
    )


def test_observation_client_returns_announced_web_pages(
    executor: FakeExecutor, tmp_path: Path
) -> None:
    server = JobServer(executor, artifacts_dir=tmp_path, port=0)
    with JobClient(server.start()) as client:
        try:
            assert client.get_pages_url() == ""
            server.door.announce_pages("http://localhost:8074")
            assert client.get_pages_url() == "http://localhost:8074"
        finally:
            server.stop()
