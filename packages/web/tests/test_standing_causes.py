"""What is said of a job in which nothing is committed: it stands, is drained, has lost a process, or waits for one to start."""

from __future__ import annotations

from typing import Any

import pytest
from beam_runner_jobservices import STARTING_HARNESS, Execution, Importance, JobMetrics, JobState
from starlette.testclient import TestClient

from .conftest import Observed, Server, bundle, causes, eventually, stage


@pytest.fixture
def job(server: Server) -> Any:
    server.kind = Observed
    return server.submit()


@pytest.mark.parametrize(
    ("reasons", "told"),
    [
        ("'Count' has bundles running: 1", False),
        ("Python worker 47 on node has not answered for 9 s; 'Count' has bundles running: 1", True),
    ],
)
def test_that_nothing_is_committed_is_not_said_twice(
    web: TestClient, job: Any, reasons: str, told: bool
) -> None:
    job.reporter.message(Importance.BASIC, f"nothing has been committed for 10 s: {reasons}")
    found = [text for _, text in causes(web, job)]
    assert any(text.startswith("Nothing has been committed") for text in found)
    job.runs = Execution((bundle(7, 23.0, 21.5),))
    assert eventually(lambda: causes(web, job)[0][1].startswith("Count has worked"))
    found = [text for _, text in causes(web, job)]
    assert any(text.startswith("Nothing has been committed") for text in found) == told


def test_a_drain_that_waits_for_a_bundle_that_never_ends_says_so_first(
    web: TestClient, job: Any
) -> None:
    job.given = JobMetrics((stage("s", "Count", "open_bundles", 1),))
    job.reporter.state(JobState.DRAINING)
    assert eventually(lambda: causes(web, job)[0][1].startswith("The job is being drained: what"))
    assert causes(web, job)[0][1].endswith("Count at work, 0 of 1 stages done.")
    job.runs = Execution((bundle(7, 23.0, 21.5),))
    assert eventually(lambda: causes(web, job)[0][0] == "WARN")
    first, second, *_ = [text for _, text in causes(web, job)]
    assert first.startswith("The drain waits for Count: what runs there goes on until it returns")
    assert first.endswith("if it never does, cancel the job")
    assert second.startswith("Count has worked on one bundle for 23 s, without coming any further")


def test_a_stream_whose_source_and_timers_wait_is_not_said_to_stand(
    server: Server, web: TestClient
) -> None:
    server.kind = Observed
    job = server.submit(streaming=True)
    job.runs = Execution((bundle(7, 7.0, 1.0),))
    reasons = "'Read' has bundles running: 1; 'Count' has a timer in shard 2 for 179553 ms; "
    reasons += "'Count' waits in shard 2 for the watermark 99 ms; it is 5 ms"
    for more, told in (("", False), ("; 'Write' waits for the end", True)):
        job.reporter.message(
            Importance.BASIC, f"nothing has been committed for 7 s: {reasons}{more}"
        )
        end = f"came after it{more}"
        job.reporter.message(Importance.WARNING, end)
        assert eventually(lambda end=end: any(t.endswith(end) for _, t in causes(web, job)))
        assert any("committed" in text for _, text in causes(web, job)) == told


def test_a_process_that_was_lost_is_told_with_what_may_have_ended_it(
    web: TestClient, job: Any
) -> None:
    text = "the worker process 47 on node was lost"
    job.reporter.message(
        Importance.WARNING, f"attempt 1 at a bundle failed, and it is tried again: {text}"
    )
    told = web.get(f"/api/v1/jobs/{job.id}").json()["causes"][0]
    assert told["text"] == f"An error came once, and what it stopped was tried again: {text}"
    assert "where memory was short" in told["more"]


def test_a_bundle_that_waits_for_its_harness_is_not_told_as_one_that_stands(
    web: TestClient, job: Any
) -> None:
    job.runs = Execution((bundle(7, 90.0, 90.0, STARTING_HARNESS),))
    told = web.get(f"/api/v1/jobs/{job.id}").json()["causes"][0]
    assert "waits for its SDK harness, which has been starting for" in told["text"]
    assert "(process 47 on node)" in told["text"]
    assert "prints" in told["more"]


@pytest.mark.parametrize("where", ["an SDK harness", "this process"])
def test_where_to_look_is_told_of_a_harness_that_cannot_be_asked(
    web: TestClient, job: Any, where: str
) -> None:
    job.runs = Execution((bundle(7, 23.0, 21.5, where),))
    told = web.get(f"/api/v1/jobs/{job.id}").json()["causes"][0]
    assert "without coming any further (process 47 on node)" in told["text"]
    assert ("LOOPBACK" in told["more"]) == (where == "an SDK harness")
