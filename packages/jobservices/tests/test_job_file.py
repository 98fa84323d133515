"""Tests of the job file: recorded jobs are read back, and damage is reported."""

from __future__ import annotations

import os
import sqlite3
import time
import tracemalloc
from contextlib import closing
from unittest.mock import patch

import attrs
import pytest
from beam_runner_model.errors import RunnerError, Unavailable
from beam_runner_model.failures import FailedBundle, FailureCause, JobFailure, JobFailureKind
from beam_runner_model.jobs import (
    Importance,
    JobMessage,
    JobMetrics,
    JobSpec,
    JobState,
    MetricCell,
    StagedArtifact,
    StateEvent,
)
from beam_runner_model.observation import JobTimes
from beam_runner_model.waits import Wait, WaitKind

from beam_runner_jobservices import message_records
from beam_runner_jobservices.archive import Archive, pack_archive, unpack_archive
from beam_runner_jobservices.error_log import ErrorLog, JobErrors
from beam_runner_jobservices.errors import DamagedData, NotFound
from beam_runner_jobservices.job_file import FILE, JobFile
from beam_runner_jobservices.recorder import FinishedJobSummary, UnfinishedJob
from beam_runner_jobservices.step_names import StepNames

INFO = MetricCell("urn", "type", b"\x00\xff", {"PTRANSFORM": "Léa"})
ARTIFACT = StagedArtifact("file", "role", b"\x00\xff", "main.pickle", "ab" * 32, 7, "/a/b")


def spec(job_id):
    return JobSpec(
        job_id=job_id,
        job_name="Wörter",
        pipeline=b"\x00pipeline\xff",
        options={"beam:option:x:v1": 3, "y": [True]},
        options_json='{"beam:option:x:v1": 3, "y": [true]}',
        artifacts={"python": (ARTIFACT,), "java": ()},
        retrieval_endpoint="",
    )


def kept(job_id):
    return UnfinishedJob(
        spec(job_id),
        f"preparation-of-{job_id}",
        f"owner-{job_id}",
        (StateEvent(JobState.STOPPED, 1.5),),
    )


def message(number, text="text"):
    return JobMessage(str(number), "2024-01-01T00:00:00.000+00:00", Importance.WARNING, text)


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "deep" / "state"


@pytest.fixture
def file(folder):
    with closing(JobFile(folder)) as opened:
        yield opened


def reopened(file, folder):
    file.close()
    return closing(JobFile(folder))


def edit(folder, statement):
    with closing(sqlite3.connect(folder / FILE, isolation_level=None)) as connection:
        connection.execute(statement)


def end(file, job, *entries, metrics=JobMetrics()):  # noqa: B008
    last = StateEvent(JobState.FAILED, 3.0)
    return file.end_job(
        job.spec, Archive(job.spec.pipeline, (*job.entries, *entries, last), metrics)
    )


def test_job_file_returns_jobs_as_recorded(file, folder):
    assert file.jobs == file.damage == ()
    first, second = kept("z"), kept("a")
    file.add_job(first)
    file.add_job(second)
    file.add_messages("z", [message(1)], 1, JobErrors())
    file.add_state("z", StateEvent(JobState.STARTING, 2.25))
    with reopened(file, folder) as again:
        entries = (*first.entries, message(1), StateEvent(JobState.STARTING, 2.25))
        assert again.jobs == (attrs.evolve(first, entries=entries), second)
        again.add_state("z", StateEvent(JobState.RUNNING, 2.5))
        entries = (*entries, StateEvent(JobState.RUNNING, 2.5))
        with reopened(again, folder) as last:
            assert last.jobs == (attrs.evolve(first, entries=entries, was_running=True), second)
            assert last.damage == ()


FAILED = FailedBundle("s", 7, ("A", "B"), 3, FailureCause.USER_CODE, "B", "no", "'x'", next_in=4.0)
STUCK = JobFailure(
    JobFailureKind.STUCK, "stuck", waits=(Wait(WaitKind.HOLD, "s", ("A",), shard=3),)
)


@pytest.mark.parametrize("record", [FAILED, STUCK, JobFailure(JobFailureKind.BUNDLE, "no", FAILED)])
def test_job_file_returns_message_records_of_running_and_finished_jobs(file, folder, record):
    job = kept("a")
    told = attrs.evolve(message(1), worker="host:12", record=record)
    file.add_job(job)
    file.add_messages("a", [told], 1, JobErrors())
    with reopened(file, folder) as again:
        assert again.jobs[0].entries[-1] == told
        end(again, job, told)
    with closing(JobFile(folder)) as again:
        assert told in again.read_archive("a").entries


def test_job_file_skips_message_record_of_unknown_kind(file, folder):
    job, told = kept("a"), attrs.evolve(message(1), record=FAILED)
    file.add_job(job)
    with patch.dict(message_records._KINDS, {"tomorrow": FailedBundle}, clear=True):
        file.add_messages("a", [told], 1, JobErrors())
    with reopened(file, folder) as again:
        assert again.jobs[0].entries[-1] == message(1)
        assert again.damage == ()


def test_job_file_returns_messages_of_older_version(file, folder):
    """Older messages have no record, in the file of a running job and in the archive of a finished job."""
    job, told = kept("a"), attrs.evolve(message(1), transform="A", worker="host:12")
    file.add_job(job)
    file.add_messages("a", [told], 1, JobErrors())
    with closing(sqlite3.connect(folder / FILE)) as connection:
        (origin,) = connection.execute(
            "SELECT origin FROM history WHERE text IS NOT NULL"
        ).fetchone()
    assert origin == '["A", "host:12"]'
    last = StateEvent(JobState.DONE, 3.0)
    assert unpack_archive(pack_archive(Archive(b"", (told, last), JobMetrics()))).entries == (
        told,
        last,
    )


def test_job_file_loads_finished_jobs_only_on_request(file, folder):
    job, metrics = kept("a"), JobMetrics((INFO, INFO), (INFO,))
    file.add_job(job)
    states = (message(1), StateEvent(JobState.RUNNING, 2.0), message(2, "zwei\n🙂"))
    for entry in states:
        if isinstance(entry, JobMessage):
            file.add_messages("a", [entry], 1, JobErrors())
        else:
            file.add_state("a", entry)
    size = end(file, job, *states, metrics=metrics)
    for _ in range(2):
        with reopened(file, folder) as again:
            last = StateEvent(JobState.FAILED, 3.0)
            options = job.spec.options
            times = JobTimes("a", 1.5, 2.0, 3.0, "")
            expected = FinishedJobSummary(
                "a", "Wörter", options, job.preparation_id, last, times, size
            )
            assert again.jobs == (expected,)
            found = again.read_archive("a")
            assert found == Archive(b"\x00pipeline\xff", (*job.entries, *states, last), metrics)
            again.replace_metrics("a", JobMetrics((INFO,)))
            assert again.read_archive("a").metrics == JobMetrics((INFO,))
            again.replace_metrics("a", metrics)
            with pytest.raises(NotFound):
                again.read_archive("b")


def test_job_file_raises_not_found_for_removed_job(file, folder):
    file.add_job(kept("a"))
    file.delete_job("a")
    with reopened(file, folder) as again:
        assert again.jobs == ()
    with closing(sqlite3.connect(folder / FILE)) as connection:
        for table in ("jobs", "contents", "history"):
            assert connection.execute(f"SELECT count(*) FROM {table}").fetchone() == (0,)


def test_job_file_deletes_dropped_messages_and_keeps_states(file, folder):
    file.add_job(kept("a"))
    for first in range(1, 2_001, 8):
        numbers = range(first, min(first + 8, 2_001))
        file.add_messages(
            "a", [message(number) for number in numbers], max(1, first - 92), JobErrors()
        )
    with reopened(file, folder) as again:
        assert again.damage == ()
        state, *messages = again.jobs[0].entries
        assert state.state is JobState.STOPPED
        assert [int(entry.message_id) for entry in messages] == list(range(1_901, 2_001))


def test_job_file_writes_batch_of_messages_faster_than_single_messages(file):
    file.add_job(kept("a"))

    def cpu(batches):
        began = time.process_time()
        for batch in batches:
            file.add_messages("a", batch, 1, JobErrors())
        return time.process_time() - began

    one_by_one = cpu([[message(number)] for number in range(1, 801)])
    together = cpu([[message(number) for number in range(801, 1_601)]])
    assert together < one_by_one / 5


def test_job_file_in_folder_in_use_is_refused(file, folder):
    with pytest.raises(RunnerError, match=f"state folder {folder} is in use"):
        JobFile(folder)


def test_job_file_refuses_job_that_cannot_be_recorded(file, caplog):
    file.add_job(kept("a"))
    with pytest.raises(Unavailable, match="can't be recorded"):
        file.add_job(kept("a"))
    file.close()
    with pytest.raises(Unavailable, match="closed"):
        file.add_job(kept("b"))
    assert caplog.text == ""
    file.add_state("a", StateEvent(JobState.STARTING, 1.0))
    assert "after a restart, the server won't know this change" in caplog.text


@pytest.mark.parametrize("content", [b"", b"no database" * 500])
def test_invalid_job_file_is_moved_aside(file, folder, content):
    file.add_job(kept("a"))
    file.close()
    (folder / FILE).write_bytes(content)
    with closing(JobFile(folder)) as again:
        assert again.jobs == ()
        (sentence,) = again.damage
        assert "the jobs in the file are lost" in sentence
    assert (folder / f"{FILE}.damaged-1").read_bytes() == content


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE contents SET content = x'00' WHERE job_id = 'a'",
        "DELETE FROM contents WHERE job_id = 'a'",
        "UPDATE jobs SET item = 7 WHERE job_id = 'a'",
        "UPDATE jobs SET taken_on = 1 WHERE job_id = 'a'",
        "UPDATE jobs SET options = '{}' WHERE job_id = 'a'",
        "UPDATE jobs SET owner = 'me' WHERE job_id = 'a'",
        "UPDATE history SET state = 99 WHERE job_id = 'a'",
        "UPDATE history SET state = NULL WHERE job_id = 'a'",
        "DELETE FROM history WHERE job_id = 'a'",
    ],
)
def test_damaged_job_file_loses_only_damaged_job_and_keeps_copy(file, folder, statement):
    for job_id in ("a", "b"):
        file.add_job(kept(job_id))
    file.close()
    edit(folder, statement)
    with closing(JobFile(folder)) as again:
        assert again.jobs == (kept("b"),)
        assert any("job a " in sentence for sentence in again.damage)
    with closing(JobFile(folder)) as again:
        assert again.damage == ()
    with closing(sqlite3.connect(folder / f"{FILE}.damaged-1")) as copy:
        assert copy.execute("SELECT job_id FROM jobs").fetchall() == [("a",), ("b",)]


@pytest.mark.parametrize("missing", [1, 5, 9, 10])
def test_missing_message_before_last_state_is_reported_and_job_continues(file, folder, missing):
    file.add_job(kept("a"))
    file.add_messages("a", [message(number) for number in range(1, 11)], 1, JobErrors())
    file.add_state("a", StateEvent(JobState.RUNNING, 2.0))
    file.close()
    edit(folder, f"DELETE FROM history WHERE message_id = {missing} AND state IS NULL")
    with closing(JobFile(folder)) as again:
        assert again.damage == (f"messages of job a in {folder / FILE} are missing or damaged",)
        assert len(again.jobs) == 1


def test_missing_job_file_is_reported_if_its_other_files_exist(file, folder):
    file.add_job(kept("a"))
    file.close()
    for path in folder.glob(f"{FILE}*"):
        path.unlink()
    with closing(JobFile(folder)) as again:
        (sentence,) = again.damage
        assert "is missing, although a server has used this folder before" in sentence
    with closing(JobFile(folder)) as again:
        assert again.damage == ()


def test_record_of_finished_job_is_verified_on_read(file, folder):
    file.add_job(kept("a"))
    end(file, kept("a"))
    file.close()
    edit(folder, "UPDATE contents SET content = zeroblob(length(content))")
    with closing(JobFile(folder)) as again:
        assert [job.job_id for job in again.jobs] == ["a"]
        with pytest.raises(DamagedData, match="the record of job a in .* is damaged"):
            again.read_archive("a")


def test_job_file_does_not_read_messages_of_finished_jobs_at_start(file, folder):
    """500 jobs with 10,000 messages each cost a server 2.4 GB and 22 s."""
    job = kept("a")
    file.add_job(job)
    messages = [message(number, f"message {number} " * 5) for number in range(1, 10_001)]
    assert end(file, job, *messages) < 100_000
    file.close()
    tracemalloc.start()
    with closing(JobFile(folder)) as again:
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
        tracemalloc.stop()
        assert len(again.read_archive("a").entries) == 10_002


def test_job_file_frees_disk_space_of_removed_jobs(file, folder):
    for number in range(20):
        job = kept(f"job-{number}")
        spec = attrs.evolve(job.spec, pipeline=os.urandom(100_000))
        file.add_job(attrs.evolve(job, spec=spec))
    for number in range(20):
        file.delete_job(f"job-{number}")
    file.close()
    before = (folder / FILE).stat().st_size
    with closing(JobFile(folder)):
        pass
    assert before > 2_000_000
    assert (folder / FILE).stat().st_size < 100_000


def errors_of(*messages):
    return ErrorLog(lambda: StepNames({})).read_messages(messages)


def failed(number):
    return attrs.evolve(message(number, "ValueError: no"), importance=Importance.ERROR)


def test_job_file_returns_errors_of_dropped_messages_after_restart(file, folder):
    job = kept("a")
    file.add_job(job)
    early = errors_of(failed(1))
    for first in range(1, 3_001, 100):
        messages = [message(number) for number in range(first, first + 100)]
        file.add_messages("a", messages, max(1, first - 900), early if first > 901 else JobErrors())
    with reopened(file, folder) as again:
        (found,) = again.jobs
        assert found.errors == early
        assert again.damage == ()
        archive = Archive(
            b"", (*found.entries, StateEvent(JobState.DONE, 3.0)), JobMetrics(), early
        )
        again.end_job(found.spec, archive)
        assert again.read_archive("a") == archive


def test_damaged_error_notes_in_job_file_are_reported_and_job_continues(file, folder):
    job = kept("a")
    file.add_job(job)
    file.add_messages(
        "a", [message(number) for number in range(1, 2_001)], 1_000, errors_of(failed(1))
    )
    file.close()
    edit(folder, "UPDATE notes SET content = x'00ff'")
    with closing(JobFile(folder)) as again:
        assert [one.spec.job_id for one in again.jobs] == ["a"]
        assert again.jobs[0].errors == JobErrors()
        assert any("errors" in told and "damaged" in told for told in again.damage)


def test_damaged_message_origin_is_reported(file, folder):
    file.add_job(kept("a"))
    file.add_messages("a", [attrs.evolve(message(1), worker="host:12")], 1, JobErrors())
    file.close()
    edit(folder, """UPDATE history SET origin = '["", "host:13"]' WHERE state IS NULL""")
    with closing(JobFile(folder)) as again:
        assert any("missing or damaged" in told for told in again.damage)
