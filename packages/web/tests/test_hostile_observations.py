"""Tests that pages escape all texts from user processes."""

from __future__ import annotations

import struct
import time
from typing import Any

import pytest
from beam_runner_jobservices.figures.samples import URN
from beam_runner_model.failures import FailedBundle
from beam_runner_model.jobs import JobMetrics, JobState, MetricCell
from beam_runner_model.observation import (
    Execution,
    ObservedBundle,
    StackFrame,
    StageTimeSeries,
    ThreadStack,
)
from beam_runner_model.waits import Wait, WaitKind
from starlette.testclient import TestClient

from .conftest import Observed, Server, stage, varint
from .html.test_pages import HOSTILE, dangers_of, text_of

PAGES = ("", "/stages", "/now", "/stacks", "/errors", "/report.html")


@pytest.fixture
def observed(server: Server) -> Any:
    server.kind = Observed
    return server.submit()


@pytest.mark.parametrize("text", [*HOSTILE, "x" * 1_000_000])
def test_web_pages_escape_texts_of_worker_observations(
    web: TestClient, observed: Any, text: str
) -> None:
    job = observed
    frame = StackFrame(f"/home/me/{text}.py", 3, text, text)
    job.runs = Execution(
        (ObservedBundle("s", 1, 2, (text, "Count"), text, 5, 30.0, 30.0, 0.5, text),),
        (FailedBundle("s", 2, (text,), 3, text, text, text, text, text, 5.0, 6.0),),
        tuple(
            Wait(kind, "s", (text,), 1, 1, 1, 1, 1, text, text, text, (text,), text, text, text)
            for kind in (WaitKind.SIDE_INPUT, WaitKind.NEIGHBOUR, WaitKind.PROCESS)
        ),
        30.0,
        1,
        text,
    )
    job.threads = (
        ThreadStack(text, 5, text, (frame,)),
        ThreadStack(text, 0, text, (frame,), sdk=text),
    )
    now = time.time()
    points = tuple((now - 600 + 10 * n, 1_790_000_000_000, n, 1, n) for n in range(5))
    job.past = (StageTimeSeries(text, points), StageTimeSeries("s", points))
    element = text.encode()
    payload = struct.pack(">i", 1) + varint(len(element)) + element
    job.given = JobMetrics(
        (
            MetricCell(URN, URN, payload, {"PCOLLECTION": "lines"}),
            stage("s", f"Count + {text}", "began", 1_790_000_000_000),
            stage("s", f"Count + {text}", "last_at_work", 1_790_000_009_000),
            stage("s", f"Count + {text}", "open_bundles", 1),
        )
    )
    _check(web, job, text)
    if text.isprintable():
        for page, times in (("/now", 1), ("/stacks?all=1", 2), ("?step=t3", 1)):
            shown = text_of(web.get(f"/jobs/{job.id}{page}").text)
            assert shown.count(text[:40]) >= times, page
    job.reporter.report_state(
        JobState.FAILED, f"ValueError: no [while running 'Count']\nThe element: {text}\nTraceback"
    )
    _check(web, job, text)


def _check(web: TestClient, job: Any, text: str) -> None:
    for page in PAGES:
        found = web.get(f"/jobs/{job.id}{page}", params={"step": "t3"})
        if page == "/stacks" and found.status_code == 409:
            continue  # the job has ended
        assert found.status_code == 200, page
        assert len(found.content) < 400_000, page
        for forbidden in ("<script>alert", "<img", "\x1b", "‮", "\x00", "\x07"):
            assert forbidden not in found.text, page
        assert not dangers_of(found.text), page
