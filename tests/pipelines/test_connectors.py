"""Beam's connectors in Python that need no service: formats of files, and polled folders."""

from __future__ import annotations

import importlib
from pathlib import Path

import apache_beam as beam
from apache_beam.io import fileio
from apache_beam.io.avroio import ReadAllFromAvro, ReadFromAvro, WriteToAvro
from apache_beam.io.parquetio import ReadFromParquet, WriteToParquet
from apache_beam.io.textio import ReadFromCsv, ReadFromJson, WriteToCsv, WriteToJson
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.utils.timestamp import Timestamp
from beam_runner_model.jobs import JobState
from jobs import Pipelines
from waiting import wait_until

SCHEMA = {"type": "record", "name": "Sale", "fields": [{"name": "id", "type": "long"}]}
IDS = list(range(20))


def test_files_of_each_format_are_written_and_read(embedded: Pipelines, tmp_path: Path) -> None:
    with embedded.new() as p:
        records = p | beam.Create([{"id": number} for number in IDS])
        rows = records | "Rows" >> beam.Map(lambda record: beam.Row(id=int(record["id"])))
        _ = records | WriteToAvro(f"{tmp_path}/avro", SCHEMA)
        _ = rows | WriteToCsv(f"{tmp_path}/csv")
        _ = rows | WriteToJson(f"{tmp_path}/json")
        pyarrow = importlib.import_module("pyarrow")
        _ = records | WriteToParquet(
            f"{tmp_path}/parquet", pyarrow.schema([("id", pyarrow.int64())])
        )
    with embedded.new() as p:
        found = {
            "avro": p | ReadFromAvro(f"{tmp_path}/avro*") | "1" >> beam.Map(lambda one: one["id"]),
            "each avro": p
            | beam.Create([f"{tmp_path}/avro*"])
            | ReadAllFromAvro()
            | "2" >> beam.Map(lambda one: one["id"]),
            "csv": p | ReadFromCsv(f"{tmp_path}/csv*") | "4" >> beam.Map(lambda one: one.id),
            "json": p | ReadFromJson(f"{tmp_path}/json*") | "5" >> beam.Map(lambda one: one.id),
            "parquet": p
            | ReadFromParquet(f"{tmp_path}/parquet*")
            | "6" >> beam.Map(lambda one: one["id"]),
        }
        for name, numbers in found.items():
            assert_that(numbers, equal_to(IDS), label=name)


def test_folder_is_polled_until_its_end(embedded: Pipelines, tmp_path: Path) -> None:
    (tmp_path / "1.txt").write_text("a\nb\n")
    now = Timestamp.now()
    p = embedded.new("--streaming")
    _ = (
        p
        | fileio.MatchContinuously(
            f"{tmp_path}/*.txt", interval=0.5, start_timestamp=now, stop_timestamp=now + 2
        )
        | fileio.ReadMatches()
        | beam.FlatMap(lambda file: file.read_utf8().split())
        | beam.Map(lambda line: (tmp_path / f"line-{line}").open("a").write("once"))
    )
    job = embedded.job(p)
    wait_until(lambda: (tmp_path / "line-b").exists(), 60, "the first file is read")
    (tmp_path / "2.txt").write_text("c\n")
    assert job.wait() is JobState.DONE
    found = {file.name: file.read_text() for file in tmp_path.glob("line-*")}
    assert found.pop("line-c", "once") == "once"  # the polling can end before
    assert found == {"line-a": "once", "line-b": "once"}
