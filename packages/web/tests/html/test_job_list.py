"""Tests of the list of jobs: order, filters, earlier runs, and health."""

from __future__ import annotations

import re
from typing import Any, cast

import pytest
from beam_runner_jobservices.client import JobClient
from beam_runner_jobservices.errors import JobApiError
from beam_runner_model.jobs import JobInfo, JobMetrics, JobState
from beam_runner_model.observation import Execution, JobTimes
from starlette.testclient import TestClient
from waiting import eventually

from beam_runner_web.html.job_health import add_job_health
from beam_runner_web.html.job_list import JobListLine, filter_jobs, read_job_lines

from ..conftest import Observed, Server, bundle, stage


class Client:
    """A client of a server without job times."""

    def __init__(self, *ids: str) -> None:
        self.ids = ids

    def list_jobs(self) -> tuple[JobInfo, ...]:
        return tuple(JobInfo(one, "name", JobState.DONE) for one in self.ids)

    def get_job_times(self) -> Any:
        raise JobApiError("UNIMPLEMENTED", "no")


@pytest.mark.parametrize(
    ("told", "shown"),
    [
        (("job-010", "job-002", "job-1"), ("job-1", "job-002", "job-010")),
        (("b-2", "a-1"), ("b-2", "a-1")),
        (("x", "job-1", "job-0"), ("x", "job-1", "job-0")),
        ((), ()),
    ],
)
def test_job_list_is_in_order_of_submission(told: tuple[str, ...], shown: tuple[str, ...]) -> None:
    client = cast("JobClient", Client(*told))
    assert tuple(line.id for line in read_job_lines(client)) == shown


class KeepingClient(Client):
    """A client of a server that retains the state of one job."""

    def get_job_times(self) -> Any:
        return (JobTimes("kept", 1.0, 2.0, 3.0, kept_until=99.0), JobTimes("gone", 1.0, 2.0, 3.0))


def test_job_list_line_with_retained_state_shows_expiry() -> None:
    client = cast("JobClient", KeepingClient("kept", "gone"))
    assert [line.kept_until for line in read_job_lines(client)] == [99.0, None]


def line(key: str, state: JobState, started: float, ended: float | None = None) -> JobListLine:
    return JobListLine(f"{key}-{started:.0f}", key, state, False, started, ended)


LINES = (
    line("b", JobState.RUNNING, 1.0),
    line("a", JobState.DONE, 2.0, 12.0),
    line("c", JobState.FAILED, 3.0, 4.0),
    line("a", JobState.CANCELLED, 5.0, 35.0),
    line("c", JobState.DRAINED, 6.0, 8.0),
)


@pytest.mark.parametrize(
    ("sort", "shown"),
    [
        ("", ["b-1", "c-6", "a-5", "c-3", "a-2"]),
        ("name", ["a-5", "a-2", "b-1", "c-6", "c-3"]),
        ("-started", ["c-6", "a-5", "c-3", "a-2", "b-1"]),
        ("took", ["c-3", "c-6", "a-2", "a-5", "b-1"]),
        ("nothing", ["b-1", "c-6", "a-5", "c-3", "a-2"]),
    ],
)
def test_job_list_shows_running_jobs_first_or_is_sorted(sort: str, shown: list[str]) -> None:
    assert [one.id for one in filter_jobs(LINES, sort=sort).lines] == shown


@pytest.mark.parametrize(
    ("state", "shown"),
    [
        ("running", ["b-1"]),
        ("done", ["c-6", "a-2"]),
        ("failed", ["c-3"]),
        ("cancelled", ["a-5"]),
        ("ended", ["c-6", "a-5", "c-3", "a-2"]),
    ],
)
def test_job_list_filter_selects_states_and_counts_them(state: str, shown: list[str]) -> None:
    found = filter_jobs(LINES, state)
    assert [one.id for one in found.lines] == shown
    assert found.counts[state] == len(shown)


def test_job_list_with_one_line_per_name_counts_its_jobs() -> None:
    found = filter_jobs(LINES, is_grouped=True)
    assert [(one.id, one.runs) for one in found.lines] == [("b-1", 1), ("c-6", 2), ("a-5", 2)]


class TimedClient(Client):
    """A client of a server with five jobs of the same name, of which the last runs."""

    def list_jobs(self) -> tuple[JobInfo, ...]:
        states = (JobState.DONE, JobState.FAILED, JobState.DONE, JobState.DONE, JobState.RUNNING)
        return tuple(JobInfo(f"x-{n}", "x", state) for n, state in enumerate(states))

    def get_job_times(self) -> Any:
        return tuple(JobTimes(f"x-{n}", 0.0, 0.0, 10.0 + n) for n in range(4))


def test_job_list_line_has_durations_of_earlier_successful_jobs_of_its_name() -> None:
    found = read_job_lines(cast("JobClient", TimedClient()))
    assert [one.earlier for one in found] == [
        (),
        (10.0,),
        (10.0,),
        (12.0, 10.0),
        (13.0, 12.0, 10.0),
    ]


def test_job_list_shows_health_and_progress_of_running_jobs(
    server: Server, web: TestClient
) -> None:
    server.kind = Observed
    hangs, well = server.submit(name="hangs"), server.submit(name="well")
    hangs.runs = Execution((bundle(7, 40.0, 39.0),), slots=4, busy_slots=1)
    well.given = JobMetrics((stage("s", "Count", "open_bundles", 1),))
    found: dict[str, Any] = {}

    def are_checked() -> bool:
        # On a busy machine, the checks of a list can exceed their time, and leave out a job.
        found.update({one["name"]: one for one in web.get("/api/v1/jobs").json()["jobs"]})
        return all(one["health"] for one in found.values())

    assert eventually(are_checked)
    assert found["hangs"]["health"]["mark"] == "warn"
    assert "without any progress" in found["hangs"]["health"]["text"]
    assert found["hangs"]["health"]["progress"] == "1 of 4 slots"
    assert found["well"]["health"]["mark"] == "good"
    pages: list[str] = []

    def shows_hang() -> bool:
        pages.append(web.get("/").text)
        return "has processed one bundle for 40 s, without any progress" in pages[-1]

    assert eventually(shows_hang)
    page = pages[-1]
    assert '<small class="block">1 of 4 slots</small>' in page
    assert re.search(r"(just now|min ago)</time>", page)
    hangs.reporter.report_state(JobState.DONE)
    assert eventually(lambda: "without any progress" not in web.get("/?sort=-name").text)
    grouped = web.get("/?group=name&name=w").text
    assert 'value="name" checked' in grouped and ">hangs</a>" not in grouped


def test_job_list_checks_limited_number_of_jobs() -> None:
    lines = [line("x", JobState.RUNNING, float(n)) for n in range(40)]
    asked: list[str] = []

    def refuse(job_id: str) -> Any:
        asked.append(job_id)
        raise JobApiError("UNAVAILABLE", "no")

    assert [one.health for one in add_job_health(lines, refuse)] == [None] * 40
    assert len(asked) == 12
