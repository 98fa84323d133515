"""Tests of shadow runs: both programs are compared, effects don't happen, and the running job isn't disturbed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest
from beam_runner_jobservices.client import JobClient
from beam_runner_model.jobs import JobState
from beam_runner_model.shadows import ShadowReport, StepOutcome
from beam_runner_server.job_server import RunnerServer
from edited import KEYS, WINDOW, Edit
from jobs import Job, Pipelines
from lives import lives
from update_servers import create_pipelines, start_server
from updated import RUNNING_SECONDS, UpdatedStream, wait_for_state
from waiting import wait_until

pytestmark = pytest.mark.timeout(300)
SHADOW = "--beam_spark_update=shadow"
LONG = "--beam_spark_shadow_duration=5m"
"""A duration after the end of the streams of the tests, at which a shadow run ends."""


def list_shadow_data(folder: Path) -> list[Path]:
    """Returns the folders of programs and copies in a folder of job files."""
    return [*(folder / "state" / "jobs").glob("*-shadow-*")]


def wait_for_programs(folder: Path) -> None:
    """Waits until both programs of a shadow run write files."""
    wait_until(
        lambda: len([one for one in list_shadow_data(folder) if any(one.iterdir())]) == 2,
        RUNNING_SECONDS,
    )


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RunnerServer]:
    """Yields a server on plain processes with a state folder."""
    with start_server(tmp_path / "state") as served:
        yield served


def submit_with_other_log(updated: UpdatedStream, log: Path, edit: Edit, *flags: str) -> Job:
    """Submits a version of the pipeline whose checks append to another log."""
    copy = attrs.evolve(updated, stream=attrs.evolve(updated.stream, log=str(log)))
    return copy.submit(edit, *flags)


def read_shadow(server: RunnerServer, job: Job) -> ShadowReport:
    """Returns the report of the shadow run of a job."""
    with JobClient(server.address) as client:
        return client.get_succession(job.job_id).shadow


@pytest.mark.parametrize(
    ("edit", "state", "windows"),
    [
        (Edit(thins=True), JobState.FAILED, StepOutcome.DIFFERENT),
        pytest.param(Edit(inserted=1), JobState.DONE, StepOutcome.EQUAL, marks=pytest.mark.slow),
    ],
)
def test_shadow_run_reports_difference_in_the_changed_step_only(
    server: RunnerServer, tmp_path: Path, edit: Edit, state: JobState, windows: StepOutcome
) -> None:
    log = tmp_path / "shadow-results"
    updated = UpdatedStream.begin(create_pipelines(server), tmp_path, seconds=10)
    updated.wait_for_results()
    old = updated.jobs[0]
    new = submit_with_other_log(updated, log, edit, SHADOW, LONG)
    wait_for_programs(tmp_path)
    updated.release_end()
    assert new.wait() is state, new.messages()[-1].text
    found = {step.step: step for step in read_shadow(server, new).steps}
    outcomes = {name: step.outcome for name, step in found.items()}
    assert outcomes == {"Check windows": windows, "Check sums": StepOutcome.EQUAL}
    assert found["Check sums"].old_elements == found["Check sums"].new_elements == KEYS
    assert 0 < found["Check windows"].old_elements <= KEYS * updated.stream.seconds // WINDOW
    assert old.wait() is JobState.DONE
    assert not log.exists()
    updated.check_results()
    assert not list_shadow_data(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("environment", ["embedded", "LOOPBACK"])
def test_equal_shadow_run_is_followed_by_the_update(
    server: RunnerServer, tmp_path: Path, environment: str
) -> None:
    updated = UpdatedStream.begin(create_pipelines(server, environment), tmp_path, seconds=80)
    updated.wait_for_results()
    old = updated.jobs[0]
    for seconds in (8, 16, 32):
        # On a busy machine, no window can close during a short run.
        duration = f"--beam_spark_shadow_duration={seconds}s"
        new = updated.submit(Edit(inserted=1), "--update", SHADOW, duration)
        wait_until(lambda job=new: job.state() in (JobState.RUNNING, JobState.FAILED), 120)
        found = {one.step: one.outcome for one in read_shadow(server, new).steps}
        if found != {"Check windows": StepOutcome.EMPTY, "Check sums": StepOutcome.EMPTY}:
            break
    assert new.state() is JobState.RUNNING, new.messages()[-1].text
    assert found == {"Check windows": StepOutcome.EQUAL, "Check sums": StepOutcome.EMPTY}
    assert read_shadow(server, old) == read_shadow(server, new)
    assert old.state() is JobState.UPDATED
    updated.release_end()
    assert new.wait() is JobState.DONE
    updated.check_results()


@pytest.mark.slow
def test_shadow_run_begins_again_on_the_next_server(tmp_path: Path) -> None:
    with start_server(tmp_path / "state") as first:
        updated = UpdatedStream.begin(create_pipelines(first), tmp_path, seconds=40)
        updated.wait_for_results()
        log = tmp_path / "shadow-results"
        job = submit_with_other_log(updated, log, Edit(inserted=1), SHADOW, LONG)
        wait_for_programs(tmp_path)
    assert list_shadow_data(tmp_path)
    with start_server(tmp_path / "state") as second:
        updated.pipelines = create_pipelines(second)
        old = updated.jobs[0].job_id
        updated.release_end()
        wait_for_state(second.address, old, JobState.DONE, 2 * RUNNING_SECONDS)
        wait_for_state(second.address, job.job_id, JobState.DONE, 2 * RUNNING_SECONDS)
        with JobClient(second.address) as client:
            assert client.get_succession(job.job_id).shadow.is_equal
        assert not log.exists()
        results = updated.stream.results
        assert updated.stream.count_logged_results() == results
    assert not list_shadow_data(tmp_path)


@pytest.mark.slow
def test_cancelled_or_refused_shadow_run_leaves_the_running_job_unchanged(
    server: RunnerServer, tmp_path: Path
) -> None:
    updated = UpdatedStream.begin(create_pipelines(server), tmp_path, seconds=60)
    updated.wait_for_results()
    old = updated.jobs[0]
    log = tmp_path / "shadow-results"
    for edit, flags, text in (
        (Edit(sums="Totals"), (), "Sums"),
        (Edit(), ("--beam_spark_shadow_skip=Absent",), "'Absent'"),
    ):
        refused = submit_with_other_log(updated, log, edit, SHADOW, LONG, *flags)
        assert refused.wait() is JobState.FAILED
        assert text in refused.messages()[-1].text
    cancelled = submit_with_other_log(updated, log, Edit(inserted=1), SHADOW, LONG)
    wait_for_programs(tmp_path)
    cancelled.cancel()
    assert cancelled.wait() is JobState.CANCELLED
    updated.release_end()
    assert old.wait() is JobState.DONE
    assert not log.exists()
    updated.check_results()
    assert not list_shadow_data(tmp_path)


@pytest.mark.slow
def test_failing_program_ends_the_shadow_run_with_its_error(
    server: RunnerServer, tmp_path: Path
) -> None:
    updated = UpdatedStream.begin(create_pipelines(server), tmp_path, seconds=30)
    updated.wait_for_results()
    duration = "--beam_spark_shadow_duration=8s"
    job = submit_with_other_log(updated, tmp_path / "log", Edit(fails=True), SHADOW, duration)
    assert job.wait() is JobState.FAILED
    report = read_shadow(server, job)
    assert "this version fails" in report.new_failure
    assert not report.old_failure
    updated.release_end()
    assert updated.jobs[0].wait() is JobState.DONE
    updated.check_results()


@pytest.mark.slow
def test_running_job_survives_a_kill_of_the_server_during_a_shadow_run(
    temporary: Path, tmp_path: Path
) -> None:
    with lives(temporary, tmp_path / "state", "--without-spark=2") as running:
        pipelines = Pipelines(running.address, "embedded", [])
        updated = UpdatedStream.begin(pipelines, tmp_path, seconds=40)
        log = tmp_path / "shadow-results"
        job = submit_with_other_log(updated, log, Edit(inserted=1), SHADOW, LONG)
        wait_for_programs(tmp_path)
        assert running.kill("server")
        running.wait_until_gone()
        assert list_shadow_data(tmp_path)
        running.go_on()
        updated.release_end()
        for one in (updated.jobs[0], job):
            wait_for_state(running.address, one.job_id, JobState.DONE, 2 * RUNNING_SECONDS)
        assert not log.exists()
        assert updated.stream.count_logged_results() == updated.stream.results
        assert not list_shadow_data(tmp_path)
