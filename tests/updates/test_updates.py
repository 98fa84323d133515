"""Tests of updates of a running stream on plain processes: all numbers count once, and refused updates change nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest
from beam_runner_jobservices.client import JobClient
from beam_runner_model.jobs import JobState
from beam_runner_model.successions import RollbackRequest
from beam_runner_model.updates import FindingReason, FindingSubject
from beam_runner_server.flags import ServerSettings
from beam_runner_server.job_server import RunnerServer
from beam_runner_server.plain import PlainProcesses
from edited import Edit
from jobs import Job
from update_servers import create_pipelines, start_server
from updated import NAME, UpdatedStream, wait_for_state
from waiting import wait_until

pytestmark = pytest.mark.timeout(300)
CONSENT = ("--beam_spark_update_drop=Sums/seen", "--beam_spark_update_drop=Sums/remind")
MAPPING = '--transform_name_mapping={"Sums": "Totals"}'


@pytest.fixture(scope="module")
def started_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunnerServer]:
    """Yields a server on plain processes with a state folder."""
    with start_server(tmp_path_factory.mktemp("server") / "state") as served:
        yield served


@pytest.fixture
def server(started_server: RunnerServer) -> Iterator[RunnerServer]:
    """Yields the server, and cancels all jobs of the test at the end."""
    yield started_server
    with JobClient(started_server.address) as client:
        for job in client.list_jobs():
            if not job.state.is_terminal:
                client.cancel_job(job.job_id)
                client.wait_until_finish(job.job_id, 60)


@pytest.mark.parametrize(
    "environment", ["embedded", pytest.param("LOOPBACK", marks=pytest.mark.slow)]
)
def test_stream_updated_several_times_counts_each_number_once(
    server: RunnerServer, environment: str, tmp_path: Path
) -> None:
    updated = UpdatedStream.begin(create_pipelines(server, environment), tmp_path, seconds=12)
    for edit, flags in (
        (Edit(inserted=1), ()),
        (Edit(inserted=1, sums="Totals"), (MAPPING,)),
        (Edit(inserted=0, sums="Totals", is_shuffled=False), ()),
    ):
        updated.wait_for_numbers(2.0)
        updated.update(edit, *flags)
    updated.release_end()
    assert updated.jobs[-1].wait() is JobState.DONE
    assert updated.list_states() == [*[JobState.UPDATED] * 3, JobState.DONE]
    updated.check_results()
    with JobClient(server.address) as client:
        ids = [job.job_id for job in updated.jobs]
        found = {one.job_id: one for one in client.get_job_times()}
        assert [found[one].successor for one in ids] == [*ids[1:], ""]
        assert [found[one].predecessor for one in ids] == ["", *ids[:-1]]
        report = client.get_succession(ids[1]).report
        assert not report.is_refused


def test_rollback_with_more_key_shards_counts_each_number_once(
    server: RunnerServer, tmp_path: Path
) -> None:
    """The update leaves waiting elements to the new job, so that the key shard of these elements is
    split, too.
    """
    updated = UpdatedStream.begin(create_pipelines(server, "embedded"), tmp_path, seconds=10)
    updated.wait_for_numbers(1.5)
    shards = ("--beam_spark_key_shards=24", "--beam_spark_update_quiet=0s")
    new = updated.update(Edit(inserted=1, sums="Totals"), MAPPING, *shards)
    updated.wait_for_numbers(1.5)
    with JobClient(server.address) as client:
        kept = [one.reason for one in client.get_succession(new.job_id).report.kept_findings]
        back = client.roll_back(new.job_id, RollbackRequest())
    assert FindingReason.KEY_SHARDS in kept
    updated.release_end()
    wait_for_state(server.address, back, JobState.DONE, 60.0)
    assert new.state() is JobState.UPDATED
    updated.check_results()


def test_refused_update_leaves_running_job_unchanged(server: RunnerServer, tmp_path: Path) -> None:
    updated = UpdatedStream.begin(create_pipelines(server, "embedded"), tmp_path, seconds=8)
    updated.wait_for_results()
    old = updated.jobs[0]
    for edit, reason in (
        (Edit(sums="Totals"), FindingReason.REMOVED),
        (Edit(kind="text"), FindingReason.CODER),
    ):
        job = updated.submit(edit, "--update")
        assert job.wait() is JobState.FAILED
        with JobClient(server.address) as client:
            for one in (job, old):
                refused = client.get_succession(one.job_id).report.refused_findings
                assert [finding.reason for finding in refused] == [reason]
        assert job.messages()[-1].text.startswith(f"Can't replace job {old.job_id}")
        assert old.state() is JobState.RUNNING
    updated.release_end()
    assert old.wait() is JobState.DONE
    updated.check_results()


def test_update_check_reports_findings_and_replaces_no_job(
    server: RunnerServer, tmp_path: Path
) -> None:
    updated = UpdatedStream.begin(create_pipelines(server, "embedded"), tmp_path, seconds=8)
    updated.wait_for_results()
    ends = [
        updated.submit(edit, "--beam_spark_update=check").wait()
        for edit in (Edit(inserted=1), Edit(sums="Totals"))
    ]
    assert ends == [JobState.DONE, JobState.FAILED]
    assert updated.jobs[0].state() is JobState.RUNNING
    updated.release_end()
    assert updated.jobs[0].wait() is JobState.DONE
    updated.check_results()


@pytest.mark.slow
def test_update_replaces_a_step_that_always_fails(server: RunnerServer, tmp_path: Path) -> None:
    updated = UpdatedStream.begin(create_pipelines(server, "embedded"), tmp_path, seconds=20)
    updated.wait_for_numbers(1.0)
    updated.update(Edit(fails=True))
    updated.wait_for_numbers(2.0)
    updated.update(Edit(), "--beam_spark_update_quiet=1s")
    updated.release_end()
    assert updated.jobs[-1].wait() is JobState.DONE
    updated.check_results()


def test_update_can_drop_state_and_timers_with_consent(
    server: RunnerServer, tmp_path: Path
) -> None:
    """Timers of the dropped family are due at the end of the stream. The SDK doesn't know the
    family then, so a timer would fail the job.
    """
    updated = UpdatedStream.begin(
        create_pipelines(server, "embedded"), tmp_path, seconds=8, edit=Edit(reminds=True)
    )
    updated.wait_for_numbers(2.0)
    refused = updated.submit(Edit(), "--update")
    assert refused.wait() is JobState.FAILED
    with JobClient(server.address) as client:
        findings = client.get_succession(refused.job_id).report.refused_findings
    assert {finding.subject for finding in findings} == {FindingSubject.STATE, FindingSubject.TIMER}
    updated.update(Edit(), *CONSENT)
    updated.release_end()
    assert updated.jobs[-1].wait() is JobState.DONE
    updated.check_results()


def refuse(updated: UpdatedStream, *flags: str) -> str:
    """Submits an update, and returns the error of the Run call."""
    with pytest.raises(Exception) as refused:
        updated.submit(Edit(), *flags)
    return str(refused.value)


def test_update_with_wrong_options_is_refused_in_one_sentence(
    server: RunnerServer, tmp_path: Path
) -> None:
    pipelines = create_pipelines(server, "embedded")
    updated = UpdatedStream.begin(pipelines, tmp_path, seconds=20)
    first = updated.jobs[0].job_id
    assert "no running job has the name 'other'" in refuse(updated, "--update", "--job_name=other")
    assert "this server has no such job" in refuse(
        updated, "--update", "--beam_spark_update_job=nobody"
    )
    assert "expected check" in refuse(updated, "--beam_spark_update=now")
    assert "has no effect without --update" in refuse(updated, f"--beam_spark_update_job={first}")
    assert "expected a JSON object" in refuse(updated, "--update", "--transform_name_mapping=[]")
    for flag, reason in (
        ("--beam_spark_update_drop=nobody", FindingReason.UNKNOWN_NAME),
        ('--transform_name_mapping={"nobody": "Sums"}', FindingReason.UNKNOWN_OLD_NAME),
    ):
        job = updated.submit(Edit(), "--update", flag)
        assert job.wait() is JobState.FAILED
        assert reason in list_refusals(server, job)
    second = updated.submit(Edit())
    second.wait_for(JobState.RUNNING)
    text = refuse(updated, "--update")
    assert f"2 running jobs have the name {NAME!r}" in text
    assert first in text
    with JobClient(server.address) as client:
        client.drain_job(second.job_id)
    drained = refuse(updated, "--update", f"--beam_spark_update_job={second.job_id}")
    assert "another job can't replace it" in drained
    assert updated.jobs[0].state() is JobState.RUNNING


def list_refusals(server: RunnerServer, job: Job) -> list[FindingReason]:
    with JobClient(server.address) as client:
        return [
            finding.reason for finding in client.get_succession(job.job_id).report.refused_findings
        ]


def begin_endless_hold(updated: UpdatedStream) -> tuple[Job, Job]:
    """Begins an update of a job that never becomes quiet; returns the old job and the new job."""
    old = updated.update(Edit(fails=True))
    updated.wait_for_numbers(1.0)
    new = updated.submit(Edit(), "--update", "--beam_spark_update_quiet=60s")
    with JobClient(updated.pipelines.address) as client:
        wait_until(lambda: client.get_succession(old.job_id).compared == new.job_id, 20)
    return old, new


@pytest.mark.slow
def test_cancelled_update_releases_running_job(server: RunnerServer, tmp_path: Path) -> None:
    updated = UpdatedStream.begin(create_pipelines(server, "embedded"), tmp_path, seconds=20)
    old, new = begin_endless_hold(updated)
    new.cancel()
    assert new.wait() is JobState.CANCELLED
    assert old.state() is JobState.RUNNING
    updated.update(Edit(), "--beam_spark_update_quiet=0s")
    updated.release_end()
    assert updated.jobs[-1].wait() is JobState.DONE
    assert updated.count_results() == updated.stream.results


@pytest.mark.slow
def test_update_ends_if_the_running_job_is_cancelled(server: RunnerServer, tmp_path: Path) -> None:
    updated = UpdatedStream.begin(create_pipelines(server, "embedded"), tmp_path, seconds=20)
    old, new = begin_endless_hold(updated)
    second = updated.submit(Edit(), "--update")
    assert second.wait() is JobState.FAILED
    assert f"job {new.job_id} already replaces it" in second.messages()[-1].text
    old.cancel()
    assert old.wait() is JobState.CANCELLED
    assert new.wait() is JobState.FAILED
    assert new.messages()[-1].text == (
        f"Can't replace job {old.job_id}: a client cancelled the job"
    )


@pytest.mark.slow
def test_update_interrupted_by_a_stopped_server_is_left_to_the_next_server(tmp_path: Path) -> None:
    settings = ServerSettings(job_port=0, state_dir=tmp_path / "state", platform=PlainProcesses(2))
    first = RunnerServer(settings)
    try:
        first.start()
        pipelines = create_pipelines(first, "embedded")
        updated = UpdatedStream.begin(pipelines, tmp_path, seconds=20)
        old, new = begin_endless_hold(updated)
    finally:
        first.stop()
    second = RunnerServer(attrs.evolve(settings, platform=PlainProcesses(2)))
    try:
        second.start()
        with JobClient(second.address) as client:
            assert client.get_state(old.job_id).state is JobState.RUNNING
            client.cancel_job(new.job_id)
            assert client.wait_until_finish(new.job_id, 60) is JobState.CANCELLED
            assert client.get_state(old.job_id).state is JobState.RUNNING
    finally:
        second.stop()
