"""Tests of the record of the jobs that replace each other."""

from __future__ import annotations

from contextlib import closing

import attrs
import pytest
from beam_runner_model.jobs import JobMetrics, JobSpec, JobState, StateEvent
from beam_runner_model.successions import Succession
from beam_runner_model.updates import Finding, FindingReason, FindingVerdict, UpdateReport

from beam_runner_jobservices.archive import Archive, pack_archive, unpack_archive
from beam_runner_jobservices.job_file import JobFile
from beam_runner_jobservices.recorder import FinishedJobSummary, UnfinishedJob

REPORT = UpdateReport(
    (Finding(FindingVerdict.REFUSED, FindingReason.CODER, step="Sums", before="a"),)
)
FOUND = Succession("job-1", "job-3", "job-3", REPORT)
JOB = UnfinishedJob(
    JobSpec("job-2", "job", b"pipeline", {}, "{}", {}, ""),
    "preparation",
    "owner",
    (StateEvent(JobState.STOPPED, 1.0),),
)


def test_merged_succession_records_have_the_latest_values() -> None:
    first = Succession().merge(Succession(predecessor="job-1"))
    compared = first.merge(Succession(compared="job-3", report=REPORT))
    assert compared == Succession("job-1", "", "job-3", REPORT)
    assert compared.merge(Succession(successor="job-3")) == FOUND
    without = compared.merge(Succession(compared="job-4"))
    assert without == Succession("job-1", "", "job-4")


def test_record_of_replaced_jobs_of_unfinished_job_is_read_after_restart(tmp_path) -> None:
    with closing(JobFile(tmp_path)) as file:
        file.add_job(JOB)
        file.put_succession("job-2", Succession(predecessor="job-0"))
        file.put_succession("job-2", FOUND)
    with closing(JobFile(tmp_path)) as file:
        assert file.jobs == (attrs.evolve(JOB, succession=FOUND),)


def test_record_of_replaced_jobs_of_finished_job_is_read_after_restart(tmp_path) -> None:
    entries = (*JOB.entries, StateEvent(JobState.UPDATED, 2.0))
    archive = Archive(b"pipeline", entries, JobMetrics(), succession=FOUND)
    with closing(JobFile(tmp_path)) as file:
        file.add_job(JOB)
        file.end_job(JOB.spec, archive)
        file.put_succession("job-2", Succession("too late"))
    with closing(JobFile(tmp_path)) as file:
        (found,) = file.jobs
        assert isinstance(found, FinishedJobSummary)
        assert (found.times.predecessor, found.times.successor) == ("job-1", "job-3")
        assert file.read_archive("job-2").succession == FOUND


@pytest.mark.parametrize("succession", [Succession(), FOUND])
def test_encoded_record_of_replaced_jobs_round_trips(succession: Succession) -> None:
    archive = Archive(b"pipeline", JOB.entries, JobMetrics(), succession=succession)
    assert unpack_archive(pack_archive(archive)) == archive
