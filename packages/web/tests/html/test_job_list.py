from __future__ import annotations

from typing import Any, cast

import pytest
from beam_runner_jobservices.client import JobClient
from beam_runner_jobservices.errors import JobApiError
from beam_runner_model.jobs import JobInfo, JobState
from beam_runner_model.observation import JobTimes

from beam_runner_web.html.job_list import read_job_lines


class Client:
    """A client of a server without job times."""

    def __init__(self, *ids: str) -> None:
        self.ids = ids

    def jobs(self) -> tuple[JobInfo, ...]:
        return tuple(JobInfo(one, "name", JobState.DONE) for one in self.ids)

    def job_times(self) -> Any:
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

    def job_times(self) -> Any:
        return (JobTimes("kept", 1.0, 2.0, 3.0, kept_until=99.0), JobTimes("gone", 1.0, 2.0, 3.0))


def test_job_list_line_with_retained_state_shows_expiry() -> None:
    client = cast("JobClient", KeepingClient("kept", "gone"))
    assert [line.kept_until for line in read_job_lines(client)] == [99.0, None]
