"""Tests of rollbacks: a running job is replaced by the program of the job before it."""

from __future__ import annotations

import hashlib

import attrs
import pytest
from beam_runner_model.jobs import JobState
from beam_runner_model.successions import RollbackRequest, Succession

from beam_runner_jobservices.errors import JobApiError, JobRejected

from .fakes import Clock, FakeJob, file_artifact, files_in, pipeline_proto
from .successors import Servers

KEPT = 3600.0
REQUEST = RollbackRequest(drop=("Step",))


class UpdatedJob:
    """A job that has replaced another job, on a server that can be restarted."""

    def __init__(self, folder) -> None:
        self.clock = Clock()
        self.servers = Servers(folder, clock=self.clock, plan_rollback=self._plan_rollback)
        self.folder = folder
        self.requests: list[RollbackRequest] = []
        self.refusal = ""
        self.client = self.servers.start()
        script = folder / "script.py"
        script.write_text("old program")
        pipeline = pipeline_proto()
        pipeline.components.environments["python"].dependencies.append(
            file_artifact(script, "script.py", hashlib.sha256(b"old program").hexdigest())
        )
        self.pipeline = pipeline.SerializeToString()
        self.old = self.client.submit_job(self.pipeline, {"beam:option:x:v1": 1}, "orders")
        self.new = self.client.submit_job(pipeline_proto().SerializeToString(), {}, "orders")

    def _plan_rollback(self, running, replaced, request):
        if self.refusal:
            raise JobRejected(self.refusal, unsupported=False)
        self.requests.append(request)
        return {**replaced.options, "replaces": running.job_id}

    def job(self, job_id) -> FakeJob:
        return self.servers.executor.job(job_id)

    def replace(self, seconds=KEPT) -> None:
        """Replaces the old job by the new job."""
        until = self.clock.now + seconds if seconds else 0.0
        old, new = self.job(self.old).reporter, self.job(self.new).reporter
        old.report_state(JobState.RUNNING)
        new.record_succession(Succession(predecessor=self.old))
        old.record_succession(Succession(successor=self.new, program_kept_until=until))
        old.report_state(JobState.UPDATED)
        new.report_state(JobState.RUNNING)

    def roll_back(self, job_id="") -> str:
        return self.client.roll_back(job_id or self.new, REQUEST)

    def refused(self, job_id="") -> str:
        """Returns the error of a rollback."""
        with pytest.raises(JobApiError) as error:
            self.roll_back(job_id)
        assert error.value.code in ("FAILED_PRECONDITION", "INVALID_ARGUMENT")
        return error.value.text

    def restart(self) -> None:
        self.client = self.servers.start()
        self.servers.resumed(self.new)


@pytest.fixture
def updated(tmp_path):
    made = UpdatedJob(tmp_path)
    yield made
    made.servers.stop()


@pytest.mark.parametrize("restarts", [0, 2])
def test_rollback_submits_the_replaced_program_with_its_files(updated, restarts) -> None:
    first = updated.job(updated.old).spec
    updated.replace()
    for _ in range(restarts):
        updated.restart()
    again = updated.job(updated.roll_back()).spec
    assert again.job_id not in (updated.old, updated.new)
    assert (again.job_name, again.pipeline) == ("orders", first.pipeline)
    assert again.options == {"beam:option:x:v1": 1, "replaces": updated.new}
    assert '"replaces"' in again.options_json
    assert updated.requests == [REQUEST]
    (artifact,) = again.artifacts["python"]
    assert b"".join(updated.client.read_artifact(artifact)) == b"old program"
    # The files belong to the new job now, whatever happens to the retained program.
    updated.clock.now += KEPT
    updated.job(updated.new).reporter.report_state(JobState.UPDATED)
    updated.servers.server._registry.remove_excess_jobs()
    assert b"".join(updated.client.read_artifact(artifact)) == b"old program"
    updated.job(again.job_id).reporter.report_state(JobState.CANCELLED)
    assert files_in(updated.folder / "artifacts") == []


def test_job_with_retained_program_stays_above_limit_of_finished_jobs(updated, pipeline) -> None:
    updated.servers.limits = attrs.evolve(updated.servers.limits, ended_jobs=1)
    updated.replace()
    updated.restart()
    for _ in range(3):
        job = updated.client.submit_job(pipeline)
        updated.job(job).reporter.report_state(JobState.DONE)
    assert updated.roll_back()


def test_rollback_without_update_is_refused(updated) -> None:
    updated.job(updated.new).reporter.report_state(JobState.RUNNING)
    assert "didn't replace another job" in updated.refused()


def test_rollback_of_job_that_does_not_run_is_refused(updated) -> None:
    updated.replace()
    assert f"roll back job {updated.new}" in updated.refused(updated.old)
    updated.job(updated.new).reporter.report_state(JobState.CANCELLED)
    assert "is CANCELLED" in updated.refused()


def test_rollback_of_rollback_is_refused(updated) -> None:
    updated.replace(seconds=0)
    assert "is a rollback" in updated.refused()


def test_rollback_after_the_retention_is_refused(updated) -> None:
    updated.replace()
    updated.clock.now += KEPT
    assert "retained the program" in updated.refused()
    updated.restart()
    assert "retained the program" in updated.refused()
    assert files_in(updated.folder / "artifacts") == []


def test_rollback_with_missing_artifacts_is_refused_with_their_names(updated) -> None:
    updated.replace()
    (file,) = files_in(updated.folder / "artifacts")
    file.unlink()
    assert "script.py" in updated.refused()


def test_rollback_that_the_runner_refuses_submits_no_job(updated) -> None:
    updated.replace()
    updated.refusal = "the program isn't reachable"
    assert updated.refused() == updated.refusal
    assert len(updated.client.list_jobs()) == 2


def test_files_of_job_that_the_executor_refuses_are_removed(updated) -> None:
    updated.replace()

    def refuse(job):
        raise JobRejected("no", unsupported=False)

    updated.servers.executor.on_start = refuse
    assert "was rejected: no" in updated.refused()
    updated.job(updated.new).reporter.report_state(JobState.CANCELLED)
    assert files_in(updated.folder / "artifacts") == []


def test_runner_without_updates_refuses_rollbacks(client, executor, pipeline) -> None:
    job_id = client.submit_job(pipeline)
    with pytest.raises(JobApiError, match="can't replace running jobs") as error:
        client.roll_back(job_id, RollbackRequest())
    assert error.value.code == "UNIMPLEMENTED"
