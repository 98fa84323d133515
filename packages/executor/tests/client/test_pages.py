"""Tests that the documentation examples about submission, tables and streams build pipelines, without a server."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.runners.runner import PipelineResult, PipelineRunner, PipelineState
from pyspark.sql import SparkSession
from pyspark.sql.types import StringType, StructField, StructType

import beam_spark_executor

FOLDER = Path(__file__).parents[4] / "docs" / "how-to"
PAGES = [FOLDER / f"{name}.md" for name in ("submit-jobs", "spark-tables", "spark-streams")]


class Built(PipelineRunner):
    """A runner that records each built pipeline and doesn't run it."""

    pipelines: list[beam.Pipeline] = []  # noqa: RUF012 - examples make runners themselves

    def run_pipeline(self, pipeline: beam.Pipeline, options: Any) -> PipelineResult:
        self.pipelines.append(pipeline)
        return Done(PipelineState.DONE)


class Done(PipelineResult):
    """A result that is done."""

    def wait_until_finish(self, duration: int | None = None) -> str:
        return str(self._state)


class Session(SimpleNamespace):
    """A Spark session with one table, which records the queries."""

    def __init__(self) -> None:
        super().__init__(sparkContext=SimpleNamespace(master="local[1]"), read=self, views=[])
        self.isStreaming, self.columns = False, ["user"]
        self.schema = StructType([StructField("user", StringType(), False)])

    def table(self, name: str) -> Session:
        return self

    where = parquet = table

    def createGlobalTempView(self, name: str) -> None:
        self.views.append(name)

    def groupBy(self, column: str) -> Session:
        return self

    count = show = lambda self: self


class Options(SparkSession.Builder):
    """A session builder that records its options."""

    def getOrCreate(self) -> Any:
        return dict(self._options)


def test_documentation_examples_build_their_pipelines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(beam_spark_executor, "BeamSparkRunner", Built)
    monkeypatch.setattr(Built, "pipelines", [])
    # Without this patch, the session of another test would be asked for columns of example tables.
    monkeypatch.setattr("beam_spark_io.declared.find_session", lambda: None)
    collected: list[object] = []
    session = Session()
    monkeypatch.setattr("beam_spark_io.frames.find_session", lambda: session)
    names: dict[str, Any] = {
        "SparkSession": SimpleNamespace(builder=Options()),
        "ib": SimpleNamespace(collect=collected.append),
        "session": session,
        "counts": "counts",
    }
    text = "".join(page.read_text("utf-8") for page in PAGES)
    for example in re.findall(r"^```python\n(.*?)^```", text, re.M | re.S):
        exec(compile(example, "page", "exec", dont_inherit=True), names)
    assert importlib.import_module(names["spark"]["spark.python.daemon.module"])
    assert collected == ["counts"]
    empty, tables, catalog, database, frames, streams, kafka = Built.pipelines
    assert not empty.transforms_stack[0].parts
    assert len(tables.transforms_stack[0].parts) == 3
    assert len(catalog.transforms_stack[0].parts) == 2
    assert len(database.transforms_stack[0].parts) == 2
    assert len(streams.transforms_stack[0].parts) == 5
    assert len(kafka.transforms_stack[0].parts) == 1
    first, _, last = (part.full_label for part in frames.transforms_stack[0].parts)
    assert (first, last.partition("(")[0]) == ("from_dataframe", "to_dataframe")
    assert len(session.views) == 1
