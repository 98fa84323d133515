"""Tests of a stream with failing elements: the elements go to the quarantine, and all other results are exact."""

from __future__ import annotations

from pathlib import Path

import apache_beam as beam
import grpc
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from apache_beam.coders.coders import FastPrimitivesCoder, LengthPrefixCoder
from apache_beam.testing.util import assert_that, equal_to
from beam_runner_jobservices.client import JobClient
from beam_runner_jobservices.metric_values import decode_metric_value
from beam_runner_model.jobs import JobState
from failing_streams import COUNT, KEYS, CountPerKey, NumberSource
from job_server import JobServerProcess
from jobs import Job, Pipelines, pickle_by_value
from waiting import wait_until

POISONED = frozenset({3, 77, 78, 200, COUNT - 1})


def fail_for_poison(number: int) -> int:
    if number in POISONED:
        raise ValueError(f"poison {number}")
    return number


def read_quarantine(folder: Path) -> pa.Table:
    return pa.concat_tables(pq.read_table(file) for file in sorted(folder.rglob("*.parquet")))


def wait_for_failures(job: Job, attempts: int) -> None:
    """Waits until a bundle of the failing step has failed so often."""

    def has_failed() -> bool:
        with JobClient(job.address) as client:
            failed = client.get_execution(job.job_id).failed
        return any(one.step == "Fails" and one.attempts >= attempts for one in failed)

    wait_until(has_failed, 60, "a bundle waits")


def test_failing_elements_are_written_to_the_quarantine(streams: Pipelines, tmp_path: Path) -> None:
    pipeline = streams.new(
        "--streaming",
        f"--beam_spark_quarantine={tmp_path}",
        "--beam_spark_quarantine_attempts=2",
    )
    numbers = pipeline | beam.Create([COUNT]) | beam.ParDo(NumberSource())
    counted = (
        numbers
        | "Fails" >> beam.Map(fail_for_poison)
        | beam.Map(lambda n: (n % KEYS, n))
        | "Count" >> beam.ParDo(CountPerKey())
        | beam.Map(lambda value: value[2])
    )
    assert_that(counted, equal_to([n for n in range(COUNT) if n not in POISONED]))
    job = streams.job(pipeline)
    assert job.wait() is JobState.DONE
    table = read_quarantine(tmp_path)
    rows = table.to_pylist()
    assert sorted(row["timestamp_ms"] // 1000 for row in rows) == sorted(POISONED)
    coder = LengthPrefixCoder(FastPrimitivesCoder()).get_impl()
    assert {coder.decode_nested(row["element"]) for row in rows} == POISONED
    assert {row["step"] for row in rows} == {"Fails"}
    assert {row["attempts"] for row in rows} == {2}
    assert all(f"poison {row['timestamp_ms'] // 1000}" in row["traceback"] for row in rows)
    assert any("in quarantine" in message.text for message in job.messages())
    with JobClient(job.address) as client:
        metrics = client.get_metrics(job.job_id).committed
    (counted_by_step,) = (one for one in metrics if one.urn == "beam_spark:step:quarantined:v1")
    assert counted_by_step.labels["PTRANSFORM"] == "Fails"
    assert decode_metric_value(counted_by_step) == len(POISONED)


@pytest.mark.slow_in("LOOPBACK")
def test_stream_with_a_full_quarantine_waits(streams: Pipelines, tmp_path: Path) -> None:
    pipeline = streams.new(
        "--streaming",
        f"--beam_spark_quarantine={tmp_path}",
        "--beam_spark_quarantine_attempts=1",
        "--beam_spark_quarantine_limit=1",
    )
    numbers = pipeline | beam.Create([COUNT]) | beam.ParDo(NumberSource())
    numbers | "Fails" >> beam.Map(fail_for_poison)
    job = streams.job(pipeline)

    wait_for_failures(job, 2)
    job.cancel()
    assert job.wait() is JobState.CANCELLED
    assert any("--beam_spark_quarantine_limit" in message.text for message in job.messages())
    assert read_quarantine(tmp_path).num_rows == 1


@pytest.mark.slow_in("LOOPBACK")
def test_failing_elements_of_steps_without_a_quarantine_stop_the_stream(
    streams: Pipelines, tmp_path: Path
) -> None:
    pipeline = streams.new(
        "--streaming",
        f"--beam_spark_quarantine={tmp_path}",
        "--beam_spark_quarantine_attempts=1",
        "--beam_spark_quarantine_steps=Other",
    )
    numbers = pipeline | beam.Create([COUNT]) | beam.ParDo(NumberSource())
    numbers | "Fails" >> beam.Map(fail_for_poison)
    numbers | "Other" >> beam.Map(lambda number: number)
    job = streams.job(pipeline)
    wait_for_failures(job, 1)
    job.cancel()
    assert job.wait() is JobState.CANCELLED
    assert any("isn't selected for quarantine" in message.text for message in job.messages())
    assert not list(tmp_path.rglob("*.parquet"))


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        (["--beam_spark_quarantine_limit=5"], "--beam_spark_quarantine=URL"),
        (["--beam_spark_quarantine=relative/folder"], "absolute path"),
        (["--beam_spark_quarantine=ftp://host/x"], "--beam_spark_quarantine"),
        (["--beam_spark_quarantine=/proc/none"], "Can't write to --beam_spark_quarantine"),
        (["--beam_spark_quarantine=/tmp/q", "--beam_spark_quarantine_limit=0"], "from 1 to"),
        (
            ["--beam_spark_quarantine=/tmp/q", "--beam_spark_quarantine_steps=Fail"],
            "did you mean 'Fails'",
        ),
        (
            ["--beam_spark_quarantine=/tmp/q", "--beam_spark_task_attempts=3"],
            "--beam_spark_quarantine_attempts",
        ),
    ],
)
def test_wrong_quarantine_option_is_refused(
    patient: JobServerProcess, flags: list[str], text: str
) -> None:
    pipeline = Pipelines(patient.address, "embedded", []).new("--streaming", *flags)
    numbers = pipeline | beam.Create([COUNT]) | beam.ParDo(NumberSource())
    numbers | "Fails" >> beam.Map(fail_for_poison)
    assert text in reason_of_refusal(pipeline)


def test_bounded_pipeline_refuses_a_quarantine(patient: JobServerProcess, tmp_path: Path) -> None:
    flags = ("--streaming", f"--beam_spark_quarantine={tmp_path}")
    pipeline = Pipelines(patient.address, "embedded", []).new(*flags)
    pipeline | beam.Create([1]) | "Fails" >> beam.Map(fail_for_poison)
    assert "only for streams" in reason_of_refusal(pipeline)


def reason_of_refusal(pipeline: beam.Pipeline) -> str:
    with pytest.raises(grpc.RpcError) as refused:
        pipeline.run()
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    return str(refused.value.details())


pickle_by_value(__name__)
