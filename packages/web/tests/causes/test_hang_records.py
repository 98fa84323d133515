"""Table of hangs and waits as records of a job server: the first answer of the JSON API names the reason.

`tests/contracts/test_hangs.py` makes hangs of real jobs.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
import pytest
from apache_beam.portability.api import beam_runner_api_pb2 as runner_api
from beam_runner_model.failures import FailedBundle, FailureCause
from beam_runner_model.jobs import JobMetrics, JobState, MetricCell
from beam_runner_model.observation import BundleProcessKind, Execution, StageTimeSeries
from beam_runner_model.waits import Wait, WaitKind
from starlette.testclient import TestClient

from beam_runner_web.causes.facts import CauseKind

from ..conftest import Observed, Server, bundle, stage, varint, waits, word_count

NOW = time.time()
FULL_DISK = Wait(WaitKind.NEIGHBOUR, neighbour="the disk of /data", reason="it is full", seconds=9)
STUCK_STORE = Wait(WaitKind.NEIGHBOUR, neighbour="s3://jobs", reason="no answer", seconds=400)
FAILED = FailedBundle("s", 1, ("Count",), 7, FailureCause.USER_CODE, error="ValueError: no")
AWAY = FailedBundle(
    "s",
    1,
    ("Count",),
    2,
    FailureCause.UNAVAILABLE,
    error="no answer",
    neighbour="db.example:5432",
    away=20.0,
)
LOST = FailedBundle("s", 1, ("Count",), 7, FailureCause.LOST_PROCESS, error="lost", host="node")
OPEN = stage("s", "Count", "open_bundles", 1)
WAITING = stage("s", "Count", "backlog_bytes", 90_000)
STANDING = bundle(7, 40.0, 40.0)
STARTING = bundle(7, 90.0, 90.0, BundleProcessKind.STARTING_HARNESS)


def still(kind: WaitKind, **more: Any) -> Execution:
    """Returns the activity of a job that has committed nothing for 40 s because of a wait."""
    return Execution(waits=(Wait(kind, "s", ("Count",), count=1, **more),), still=40.0)


def usual_durations(seconds: float) -> MetricCell:
    msecs = varint(int(seconds * 1000))
    payload = varint(1) + msecs + msecs + msecs
    labels = {"STAGE": "s", "PTRANSFORM": "Count"}
    urn = "beam_spark:stage:bundle_msecs:v1"
    return MetricCell(urn, "beam:metrics:distribution_int64:v1", payload, labels)


def mark(seconds: float) -> MetricCell:
    return stage("s", "Read/Lines", "output_watermark", int((NOW - seconds) * 1000))


def series(*points: tuple[float, float, int]) -> StageTimeSeries:
    """Returns the history of a stage. A point has its age and lag in seconds, and the waiting bytes."""
    return StageTimeSeries(
        "s", tuple((NOW - age, int((NOW - lag) * 1000), size, 1, 0) for age, lag, size in points)
    )


@attrs.frozen
class Case:
    """Records of a server about a job, and the kind of the reason in the first answer."""

    kind: CauseKind | WaitKind
    runs: Execution = attrs.field(factory=Execution)
    metrics: tuple[MetricCell, ...] = (OPEN,)
    past: tuple[StageTimeSeries, ...] = ()
    state: JobState = JobState.RUNNING
    streaming: bool = False


CASES: Mapping[str, Case] = {
    "full disk": Case(WaitKind.NEIGHBOUR, Execution(waits=(FULL_DISK,))),
    "stuck store": Case(WaitKind.NEIGHBOUR, Execution(waits=(STUCK_STORE,))),
    "no cores": Case(WaitKind.SLOT, Execution(waits=(Wait(WaitKind.SLOT, count=4),))),
    "harness that never starts": Case(
        WaitKind.HARNESS,
        Execution((STARTING,), waits=(Wait(WaitKind.HARNESS, count=1, seconds=90.0),)),
    ),
    "silent process": Case(WaitKind.PROCESS, still(WaitKind.PROCESS, seconds=9.0)),
    "side input that never comes": Case(
        WaitKind.SIDE_INPUT, Execution(waits=(waits("s", "Count", "Read"),)), (WAITING,)
    ),
    "watermark hold": Case(WaitKind.HOLD, still(WaitKind.HOLD, until=1, shard=2), (WAITING,)),
    "tasks of a section": Case(WaitKind.TASKS, still(WaitKind.TASKS, done=3)),
    "end of the input": Case(WaitKind.END_OF_INPUT, still(WaitKind.END_OF_INPUT)),
    "bundles": Case(WaitKind.BUNDLES, still(WaitKind.BUNDLES)),
    "unknown wait": Case(WaitKind.OTHER, still(WaitKind.OTHER)),
    "bundle without progress": Case(CauseKind.STANDING_BUNDLE, Execution((STANDING,))),
    "hot key": Case(
        CauseKind.LONG_BUNDLE, Execution((bundle(7, 40.0, 0.1),)), (OPEN, usual_durations(0.1))
    ),
    "element that always fails": Case(CauseKind.FAILED_BUNDLE, Execution(failed=(FAILED,))),
    "process that dies again and again": Case(CauseKind.FAILED_BUNDLE, Execution(failed=(LOST,))),
    "sink that is away": Case(WaitKind.NEIGHBOUR, Execution(failed=(AWAY,))),
    "quarantined element": Case(
        CauseKind.QUARANTINED, metrics=(OPEN, stage("s", "Count", "quarantined", 1))
    ),
    "drain of an endless bundle": Case(
        CauseKind.DRAIN, Execution((STANDING,)), state=JobState.DRAINING
    ),
    "source that never advances": Case(
        CauseKind.LATE,
        metrics=(mark(300), stage("s", "Read/Lines", "input_watermark", 9_223_372_036_854_775)),
        past=(series(*((age, 300.0, 0) for age in range(120, 0, -10))),),
        streaming=True,
    ),
    "backlog that grows": Case(
        CauseKind.BACKLOG,
        metrics=(mark(1), stage("s", "Count", "pending_bytes", 80_000_000)),
        past=(series(*((age, 1.0, 8_000_000 // (age + 1)) for age in range(120, 0, -10))),),
        streaming=True,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_first_answer_about_hung_job_names_reason(
    server: Server, web: TestClient, name: str
) -> None:
    case = CASES[name]
    server.kind = Observed
    pipeline = word_count()
    if case.streaming:
        # The step Read/Lines is the source: it reads files, and its lines have no end.
        for collection in ("lines", "counts"):
            unbounded = runner_api.IsBounded.UNBOUNDED
            pipeline.components.pcollections[collection].is_bounded = unbounded
    job = server.submit(pipeline, streaming=case.streaming)
    job.runs, job.given, job.past = case.runs, JobMetrics(case.metrics), case.past
    if case.state is not JobState.RUNNING:
        job.reporter.report_state(case.state)
    causes = web.get(f"/api/v1/jobs/{job.id}").json()["causes"]
    assert case.kind in {cause["kind"] for cause in causes}, causes
    assert causes[0]["weight"] in ("BAD", "WARN")
    (line,) = web.get("/api/v1/jobs").json()["jobs"]
    assert line["health"]["mark"] in ("bad", "warn")


@pytest.mark.parametrize("kind", sorted({case.kind for case in CASES.values()} - {WaitKind.OTHER}))
def test_kind_of_each_hang_is_documented(kind: str) -> None:
    page = Path(__file__).parents[4] / "docs/how-to/monitoring.md"
    assert f"`{kind.value}`" in page.read_text(encoding="utf-8")
