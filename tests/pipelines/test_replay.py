"""A stream whose quarantined elements are replayed after a correction: each element counts once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
import pyarrow.parquet as pq
import pytest
from apache_beam.testing.util import assert_that
from beam_runner_jobservices.client import JobClient
from beam_runner_jobservices.errors import JobApiError
from beam_runner_model.jobs import JobState
from beam_runner_model.replays import ReplayProblem, ReplayReport
from failing_streams import COUNT, CountPerKey, NumberSource, check_ordinals, count_by_key
from job_server import JobServerProcess
from jobs import Job, Pipelines, pickle_by_value
from waiting import wait_until

POISONED = frozenset({3, 77, 78, 200})
END = COUNT - 10
"""Number before which the source waits, so that the stream doesn't end."""


class FailForPoison(beam.DoFn):
    """DoFn that fails for poisoned numbers until a file exists."""

    def __init__(self, corrected: Path) -> None:
        self._corrected = corrected

    def process(self, number: int) -> Iterator[int]:
        if number in POISONED and not self._corrected.exists():
            raise ValueError(f"poison {number}")
        yield number


class CountGoodNumbers(CountPerKey):
    """Stateful DoFn that fails for poisoned numbers until a file exists."""

    def __init__(self, corrected: Path) -> None:
        self._check = FailForPoison(corrected)

    def process(
        self, pair: tuple[int, int], seen: Any = beam.DoFn.StateParam(CountPerKey.SEEN)
    ) -> Iterator[tuple[int, int, int]]:
        yield from CountPerKey.process(self, pair, seen)
        for _ in self._check.process(pair[1]):
            pass


def wait_for_files(folder: Path, count: int) -> None:
    """Waits until the quarantine contains this number of failed elements."""

    def count_rows() -> int:
        return sum(pq.read_metadata(file).num_rows for file in folder.rglob("*.parquet"))

    wait_until(lambda: count_rows() >= count, 60, lambda: f"{count_rows()} elements in quarantine")


def replay(job: Job, folder: Path) -> ReplayReport:
    with JobClient(job.address) as client:
        return client.replay_quarantine(job.job_id, str(folder))


@pytest.mark.slow_in("LOOPBACK")
@pytest.mark.parametrize("is_stateful", [False, True])
def test_quarantine_replay_counts_elements_once(
    streams: Pipelines, tmp_path: Path, is_stateful: bool
) -> None:
    folder, corrected, gate = tmp_path / "quarantine", tmp_path / "corrected", tmp_path / "gate"
    pipeline = streams.new(
        "--streaming",
        f"--beam_spark_quarantine={folder}",
        "--beam_spark_quarantine_attempts=1",
    )
    numbers = pipeline | beam.Create([COUNT]) | beam.ParDo(NumberSource(END, gate))
    if is_stateful:
        pairs = numbers | beam.Map(lambda n: (n % 8, n)).with_output_types(tuple[int, int])
        counted = pairs | "Fails" >> beam.ParDo(CountGoodNumbers(corrected))
    else:
        counted = count_by_key(numbers | "Fails" >> beam.ParDo(FailForPoison(corrected)))
    assert_that(counted, check_ordinals)
    job = streams.job(pipeline)
    wait_for_files(folder, len(POISONED))
    corrected.touch()
    first = replay(job, folder)
    assert (first.replayed, first.earlier, first.problems) == (len(POISONED), 0, ())
    assert replay(job, folder) == ReplayReport(earlier=len(POISONED))
    gate.touch()
    assert job.wait() is JobState.DONE, [message.text for message in job.messages()][-3:]
    (message,) = (one.text for one in job.messages() if one.text.startswith("replayed"))
    assert message.split()[1] == str(len(POISONED))


def test_replay_reports_missing_files_and_refuses_an_ended_job(
    patient: JobServerProcess, tmp_path: Path
) -> None:
    folder, gate = tmp_path / "quarantine", tmp_path / "gate"
    pipeline = Pipelines(patient.address, "embedded", []).new(
        "--streaming",
        f"--beam_spark_quarantine={folder}",
        "--beam_spark_quarantine_attempts=1",
    )
    numbers = pipeline | beam.Create([COUNT]) | beam.ParDo(NumberSource(END, gate))
    numbers | "Fails" >> beam.ParDo(FailForPoison(tmp_path / "never"))
    job = Pipelines(patient.address, "embedded", []).job(pipeline)
    wait_for_files(folder, len(POISONED))
    missing = replay(job, tmp_path / "elsewhere")
    assert {one.problem for one in missing.problems} == {ReplayProblem.NO_FILE}
    assert sum(one.count for one in missing.problems) == len(POISONED)
    job.cancel()
    assert job.wait() is JobState.CANCELLED
    with pytest.raises(JobApiError, match="FAILED_PRECONDITION"):
        replay(job, folder)


pickle_by_value(__name__)
