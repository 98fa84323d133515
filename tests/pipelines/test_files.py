"""Tests that files of any number and size are read and written on every core."""

from __future__ import annotations

import gzip
import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import apache_beam as beam
import pytest
from apache_beam.io import ReadFromText, WriteToText, fileio
from apache_beam.io.textio import WriteToJson
from apache_beam.runners.runner import PipelineState
from apache_beam.testing.util import assert_that, equal_to
from beam_runner_model.jobs import Importance, JobState
from beam_spark_executor import BeamSparkRunner
from jobs import Job, Pipelines


class ReportProcess(beam.DoFn):
    """DoFn that emits the id of the process that read a line, after a delay."""

    def process(self, line: str) -> Iterator[tuple[int, int]]:
        time.sleep(0.001)
        yield os.getpid(), 1


def test_many_small_files_are_read_exactly(pipelines: Pipelines, tmp_path: Path) -> None:
    for number in range(40):
        (tmp_path / f"{number}.txt").write_text(f"{number}\nmore\n")
    with pipelines.new() as p:
        lines = p | ReadFromText(f"{tmp_path}/*.txt")
        assert_that(lines, equal_to([*map(str, range(40)), *["more"] * 40]))


def test_read_without_a_match_succeeds_with_a_warning(embedded: Pipelines, tmp_path: Path) -> None:
    (tmp_path / "full").write_text("line\n")
    p = embedded.new()
    _ = p | "full" >> ReadFromText(f"{tmp_path}/f*")
    _ = p | "absent" >> ReadFromText(f"{tmp_path}/*.txt", validate=False)
    _ = p | "astray" >> ReadFromText("in-no-folder.txt", validate=False)
    _ = p | "match" >> fileio.MatchFiles(f"{tmp_path}/*.csv")
    job = embedded.job(p)
    assert job.wait() is JobState.DONE
    texts = [m.text for m in job.messages() if m.importance is Importance.WARNING]
    (misplaced,) = (text for text in texts if "sent no working directory" in text)
    assert "'astray/Read' reads './in-no-folder.txt'" in misplaced
    texts.remove(misplaced)
    assert len(texts) == 3, texts
    (absent,) = (text for text in texts if "'absent/Read'" in text)
    assert f"'{tmp_path}/*.txt' matches no files" in absent
    (astray,) = (text for text in texts if "'astray/Read'" in text)
    assert "in-no-folder.txt" in astray
    assert f"relative to the working directory of the workers, {os.getcwd()}" in astray
    assert any("'match/MatchAll/" in text and "matched no files" in text for text in texts)


@pytest.mark.parametrize("environment", ["embedded", "PROCESS"])
def test_relative_paths_refer_to_folder_of_each_client(
    environment: str,
    pipelines_in: Callable[[str], Pipelines],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Jobs of two programs run at the same time, each in the folder of its program."""
    pipelines = pipelines_in(environment)
    results = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        Path("in.txt").write_text(f"{name}\n")
        p = pipelines.new(runner=BeamSparkRunner())
        _ = (
            p
            | ReadFromText("in.txt")
            | beam.Reshuffle()
            | beam.Map(lambda line: f"{line} {os.getcwd()}")
            | WriteToText("out")
        )
        results.append(p.run())
    monkeypatch.chdir(tmp_path)
    for name, result in zip(("one", "two"), results, strict=True):
        assert result.wait_until_finish() == PipelineState.DONE
        (written,) = (tmp_path / name).glob("out-*")
        assert written.read_text() == f"{name} {tmp_path / name}\n"
        messages = Job(pipelines.address, result.job_id, result).messages()
        assert not any("working directory" in message.text for message in messages)


def test_large_file_is_read_by_several_processes(embedded: Pipelines, tmp_path: Path) -> None:
    count = 3_000
    (tmp_path / "big.txt").write_text(f"{'x' * 999}\n" * count)
    with embedded.new() as p:
        lines_of_processes = (
            p
            | ReadFromText(str(tmp_path / "big.txt"), min_bundle_size=100_000)
            | beam.ParDo(ReportProcess())
            | beam.CombinePerKey(sum)
            | beam.Values()
        )
        assert_that(
            lines_of_processes | beam.CombineGlobally(sum), equal_to([count]), label="all lines"
        )
        shared = lines_of_processes | beam.combiners.Count.Globally() | beam.Map(lambda n: n > 1)
        assert_that(shared, equal_to([(os.cpu_count() or 1) > 1]), label="several processes")


def test_compressed_files_with_headers_are_read_exactly(
    pipelines: Pipelines, tmp_path: Path
) -> None:
    with gzip.open(tmp_path / "a.csv.gz", "wt") as file:
        file.write("name,age\nann,1\nbob,2\n")
    with pipelines.new() as p:
        rows = p | ReadFromText(str(tmp_path / "a.csv.gz"), skip_header_lines=1)
        assert_that(rows, equal_to(["ann,1", "bob,2"]))


def test_written_text_file_is_complete(everywhere: Pipelines, tmp_path: Path) -> None:
    with everywhere.new() as p:
        lines = p | beam.Create([f"line {n}" for n in range(100)]) | beam.Reshuffle()
        lines | "shards" >> WriteToText(str(tmp_path / "shards"), ".txt", num_shards=3)
        lines | "one" >> WriteToText(str(tmp_path / "one"), header="header", shard_name_template="")
        lines | "free" >> WriteToText(str(tmp_path / "free"))
    expected = sorted(f"line {n}" for n in range(100))
    shards = sorted(tmp_path.glob("shards*"))
    assert [s.name for s in shards] == [f"shards-{n:05}-of-00003.txt" for n in range(3)]
    assert sorted("".join(s.read_text() for s in shards).splitlines()) == expected
    header, *rest = (tmp_path / "one").read_text().splitlines()
    assert header == "header" and sorted(rest) == expected
    free = "".join(s.read_text() for s in tmp_path.glob("free-*"))
    assert sorted(free.splitlines()) == expected
    assert not [path for path in tmp_path.iterdir() if "temp" in path.name]


def test_write_without_elements_creates_an_empty_file(pipelines: Pipelines, tmp_path: Path) -> None:
    with pipelines.new() as p:
        p | beam.Create([]) | WriteToText(str(tmp_path / "none"))
    (file,) = tmp_path.iterdir()
    assert file.read_text() == ""


def test_rows_are_written_as_json(embedded: Pipelines, tmp_path: Path) -> None:
    with embedded.new() as p:
        (
            p
            | beam.Create([beam.Row(a=1, b="x"), beam.Row(a=2, b="y")])
            | WriteToJson(str(tmp_path / "rows"))
        )
    rows = [
        json.loads(line)
        for file in tmp_path.glob("rows*")
        for line in file.read_text().splitlines()
    ]
    assert sorted(row["a"] for row in rows) == [1, 2]
