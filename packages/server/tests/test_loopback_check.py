from __future__ import annotations

import pytest
from beam_runner_model.jobs import JobSpec

from beam_runner_server.loopback_check import explain_unreachable_loopback


def job_of(environment_type: str) -> JobSpec:
    options = {"beam:option:environment_type:v1": environment_type}
    return JobSpec("job-1", "job", b"", options, "{}", {}, "localhost:1")


@pytest.mark.parametrize(
    ("environment_type", "elsewhere", "refused"),
    [
        ("LOOPBACK", {"worker-2", "worker-1"}, True),
        ("LOOPBACK", set(), False),
        ("PROCESS", {"worker-1"}, False),
        ("EXTERNAL", {"worker-1"}, False),
    ],
)
def test_loopback_job_is_refused_if_workers_are_on_other_machines(
    environment_type: str, elsewhere: set[str], refused: bool
) -> None:
    said = explain_unreachable_loopback(job_of(environment_type), elsewhere)
    assert bool(said) is refused
    assert ("such as worker-1," in said) is refused
