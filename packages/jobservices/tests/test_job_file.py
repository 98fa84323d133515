"""The file of jobs: what was recorded is read back, and what is damaged is not lost in silence."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing

import attrs
import pytest

from beam_runner_jobservices import (
    Artifact,
    Importance,
    JobMessage,
    JobMetrics,
    JobServicesError,
    JobSpec,
    JobState,
    MonitoringInfo,
    StateEvent,
    Unavailable,
)
from beam_runner_jobservices.job_file import FILE, JobFile
from beam_runner_jobservices.recorder import KeptJob

INFO = MonitoringInfo("urn", "type", b"\x00\xff", {"PTRANSFORM": "Léa"})
ARTIFACT = Artifact("file", "role", b"\x00\xff", "main.pickle", "ab" * 32, 7, "/a/b")


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
    return KeptJob(
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


def test_jobs_are_read_back_as_they_were_recorded(file, folder):
    assert file.jobs == file.damage == ()
    first, second = kept("z"), kept("a")
    file.add(first)
    file.add(second)
    file.taken_on("z")
    file.state("z", StateEvent(JobState.STARTING, 2.25))
    file.messages("z", [message(1)], 1)
    file.metrics("z", JobMetrics((INFO, INFO), (INFO,)))
    file.state("z", StateEvent(JobState.FAILED, 3.0))
    with reopened(file, folder) as again:
        states = [StateEvent(JobState.STARTING, 2.25), message(1), StateEvent(JobState.FAILED, 3.0)]
        ended = attrs.evolve(
            first,
            entries=(*first.entries, *states),
            taken_on=True,
            metrics=JobMetrics((INFO, INFO), (INFO,)),
        )
        assert again.jobs == (ended, second)
        assert again.jobs[0].last == StateEvent(JobState.FAILED, 3.0)
        assert again.damage == ()


def test_a_forgotten_job_leaves_nothing(file, folder):
    file.add(kept("a"))
    file.forget("a")
    with reopened(file, folder) as again:
        assert again.jobs == ()
    with closing(sqlite3.connect(folder / FILE)) as connection:
        assert connection.execute("SELECT count(*) FROM history").fetchone() == (0,)


def test_messages_that_are_not_kept_go_and_states_stay(file, folder):
    file.add(kept("a"))
    for first in range(1, 2_001, 8):
        numbers = range(first, min(first + 8, 2_001))
        file.messages("a", [message(number) for number in numbers], max(1, first - 92))
    with reopened(file, folder) as again:
        state, *messages = again.jobs[0].entries
        assert state.state is JobState.STOPPED
        assert [int(entry.message_id) for entry in messages] == list(range(1_901, 2_001))


def test_many_messages_at_once_cost_a_tenth(file):
    file.add(kept("a"))

    def cpu(batches):
        began = time.process_time()
        for batch in batches:
            file.messages("a", batch, 1)
        return time.process_time() - began

    one_by_one = cpu([[message(number)] for number in range(1, 801)])
    together = cpu([[message(number) for number in range(801, 1_601)]])
    assert together < one_by_one / 10


def test_a_folder_in_use_is_refused(file, folder):
    with pytest.raises(JobServicesError, match=f"state folder {folder} is in use"):
        JobFile(folder)


def test_a_job_that_cannot_be_recorded_is_refused(file, caplog):
    file.add(kept("a"))
    with pytest.raises(Unavailable, match="could not be recorded"):
        file.add(kept("a"))
    file.close()
    with pytest.raises(Unavailable, match="closed"):
        file.add(kept("b"))
    assert caplog.text == ""
    file.state("a", StateEvent(JobState.STARTING, 1.0))
    assert "a restart will not know of it" in caplog.text


@pytest.mark.parametrize("content", [b"", b"no database" * 500])
def test_a_file_that_is_none_is_set_aside(file, folder, content):
    file.add(kept("a"))
    file.close()
    (folder / FILE).write_bytes(content)
    with closing(JobFile(folder)) as again:
        assert again.jobs == ()
        (sentence,) = again.damage
        assert "the jobs in it are not known any more" in sentence
    assert (folder / f"{FILE}.damaged-1").read_bytes() == content


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE jobs SET pipeline = x'00' WHERE job_id = 'a'",
        "UPDATE jobs SET options = '{}' WHERE job_id = 'a'",
        "UPDATE jobs SET owner = 'me' WHERE job_id = 'a'",
        "UPDATE jobs SET metrics = x'ff' WHERE job_id = 'a'",
        "UPDATE history SET state = 99 WHERE job_id = 'a'",
        "UPDATE history SET state = NULL WHERE job_id = 'a'",
        "DELETE FROM history WHERE job_id = 'a'",
    ],
)
def test_only_the_damaged_job_is_lost_and_a_copy_is_kept(file, folder, statement):
    for job_id in ("a", "b"):
        file.add(kept(job_id))
    file.close()
    edit(folder, statement)
    with closing(JobFile(folder)) as again:
        assert again.jobs == (kept("b"),)
        (sentence,) = again.damage
        assert "job a " in sentence
    with closing(JobFile(folder)) as again:
        assert again.damage == ()
    with closing(sqlite3.connect(folder / f"{FILE}.damaged-1")) as copy:
        assert copy.execute("SELECT job_id FROM jobs").fetchall() == [("a",), ("b",)]
