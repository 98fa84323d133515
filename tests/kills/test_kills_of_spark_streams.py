"""Tests that each row of a Spark stream arrives once if any process is killed."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable
from pathlib import Path

import apache_beam as beam
import pytest
from apache_beam.utils.timestamp import Timestamp
from beam_spark_io import ReadStreamFromSpark
from chaos import strike
from endings import arrives_once
from jobs import Pipelines, pickle_by_value
from lives import Lives, lives
from rounds import ROUND_SECONDS
from victims import Count, check_stream
from waiting import wait_until

pickle_by_value(__name__)
KINDS = ("worker", "java", "server", "worker")
FILES = 8
"""Between kills."""
ROWS = 25
"""In a file."""
PAUSE_SECONDS = 1.5

PipelinesOf = Callable[[Lives, str], Pipelines]


def counted(pipeline: beam.Pipeline, folder: Path) -> None:
    """Counts the numbers of files by random keys as they arrive, and all together at the end."""
    from pyspark.sql.types import LongType, StructField, StructType, TimestampType

    schema = StructType([StructField("id", LongType()), StructField("at", TimestampType())])
    pairs = (
        pipeline
        | ReadStreamFromSpark(
            "json",
            path=str(folder),
            schema=schema,
            timestamp="at",
            poll_seconds=0.1,
            options={"maxFilesPerTrigger": 3},
        )
        | beam.ParDo(Count("first"))
        | beam.Map(lambda row: (random.randrange(5), row.id))
    )
    check_stream(pairs, 50)


def arrives(folder: Path, number: int) -> None:
    """Adds a file, the number-th, with numbers at as many seconds."""
    ids = range(number * ROWS, (number + 1) * ROWS)
    lines = [json.dumps({"id": each, "at": Timestamp(each).to_rfc3339()}) for each in ids]
    waiting = folder.parent / f"{number}.json"
    waiting.write_text("\n".join(lines))
    waiting.rename(folder / waiting.name)


@pytest.mark.slow
@pytest.mark.timeout(ROUND_SECONDS)
def test_spark_stream_rows_arrive_exactly_once_with_killed_processes(
    temporary: Path, tmp_path: Path, pipelines_of: PipelinesOf, seed: int
) -> None:
    chance = random.Random(seed)
    folder = tmp_path / "in"
    folder.mkdir()
    number = 0
    with lives(temporary, tmp_path / "state") as running:
        pipelines = pipelines_of(running, "embedded")
        pipeline = pipelines.new()
        counted(pipeline, folder)
        job = pipelines.job(pipeline)
        for kind in (*KINDS, ""):
            for _ in range(FILES):
                arrives(folder, number)
                number += 1
                time.sleep(chance.uniform(0.0, PAUSE_SECONDS / FILES))
            if kind:
                wait_until(lambda: job.counter("first"), 60, "something is committed")
                strike(running, kind, chance.randrange(100))
        total = number * ROWS
        arrives_once(running, job, total, 120, f"seed {seed} of a stream of Spark's")
