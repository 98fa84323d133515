"""Tests of rollbacks of a stream on plain processes: all numbers count once, with the program before the update."""

from __future__ import annotations

from pathlib import Path

import pytest
from beam_runner_jobservices.client import JobClient
from beam_runner_model.jobs import JobState
from beam_runner_model.updates import FindingSubject
from edited import Edit
from update_servers import create_pipelines, list_jobs, roll_back, start_server
from updated import RUNNING_SECONDS, UpdatedStream, wait_for_state

pytestmark = pytest.mark.timeout(300)
MAPPING = '--transform_name_mapping={"Sums": "Totals"}'
CONSENT = ("--drop", "Sums/seen", "--drop", "Sums/remind")


@pytest.mark.slow
def test_rollback_after_restart_counts_each_number_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with start_server(tmp_path / "state") as first:
        updated = UpdatedStream.begin(create_pipelines(first), tmp_path, seconds=40)
        updated.wait_for_numbers(1.0)
        assert roll_back(first.address) == 1
        assert "didn't replace another job" in capsys.readouterr().err
        updated.update(Edit(inserted=1, sums="Totals", reminds=True), MAPPING)
        updated.wait_for_numbers(1.0)
    with start_server(tmp_path / "state") as second:
        updated.pipelines = create_pipelines(second)
        old, new = (job.job_id for job in list_jobs(second))
        wait_for_state(second.address, new, JobState.RUNNING, RUNNING_SECONDS)
        assert roll_back(second.address, "--check") == roll_back(second.address) == 1
        with JobClient(second.address) as client:
            refused = client.get_succession(new).report.refused_findings
        assert {one.subject for one in refused} == {FindingSubject.STATE, FindingSubject.TIMER}
        assert roll_back(second.address, *CONSENT) == 0
        back = list_jobs(second)[-1].job_id
        capsys.readouterr()
        assert roll_back(second.address, *CONSENT) == 1
        assert f"job {back} is a rollback" in capsys.readouterr().err
        updated.release_end()
        wait_for_state(second.address, back, JobState.DONE, 2 * RUNNING_SECONDS)
        states = {job.job_id: job.state for job in list_jobs(second)}
        assert (states[old], states[new]) == (JobState.UPDATED, JobState.UPDATED)
        updated.check_results()
    assert not [*(tmp_path / "state" / "artifacts").glob("sha256/*/*")]


@pytest.mark.slow
def test_rollback_to_a_loopback_program_that_still_runs_counts_each_number_once(
    tmp_path: Path,
) -> None:
    with start_server(tmp_path / "state") as server:
        pipelines = create_pipelines(server, "LOOPBACK")
        updated = UpdatedStream.begin(pipelines, tmp_path, seconds=30)
        updated.wait_for_results()
        updated.update(Edit(inserted=1))
        updated.wait_for_numbers(1.0)
        assert roll_back(server.address) == 0
        back = list_jobs(server)[-1].job_id
        updated.release_end()
        wait_for_state(server.address, back, JobState.DONE, 2 * RUNNING_SECONDS)
        updated.check_results()
