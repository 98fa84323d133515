"""Tests of the conversion between DataFrames and PCollections without running a pipeline.

Tests in `tests/doors` run pipelines.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.runners.runner import PipelineResult, PipelineRunner, PipelineState
from beam_runner_planner.table_specs import VIEW, InvalidTableSpec, TableSource
from beam_runner_storage.temporary import remove_stale_folders

from beam_spark_io import frames, from_dataframe, to_dataframe
from beam_spark_io.spark.frames import read_frame


class Ends(PipelineRunner):
    """A runner that ends every pipeline in a given state without running it."""

    def __init__(self, state: str) -> None:
        self.state = state

    def run_pipeline(self, pipeline: beam.Pipeline, options: Any) -> PipelineResult:
        result = PipelineResult(self.state)
        result.wait_until_finish = lambda duration=None: self.state  # type: ignore[method-assign]
        return result


def rows(state: str) -> beam.PCollection:
    return beam.Pipeline(runner=Ends(state)) | beam.Create([beam.Row(n=1)])


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    made = SimpleNamespace(
        sparkContext=SimpleNamespace(master="local[2]"),
        read=SimpleNamespace(parquet=lambda folder: f"rows of {folder}"),
    )
    monkeypatch.setattr(frames, "find_session", lambda: made)
    return made


def test_dataframe_returns_rows_of_finished_pipeline(session: SimpleNamespace) -> None:
    given = str(to_dataframe(rows(PipelineState.DONE), "out/"))
    again = str(to_dataframe(rows(PipelineState.DONE), "out"))
    assert given.startswith("rows of out/rows-") and again.startswith("rows of out/rows-")
    assert given != again
    assert "beam-spark-frames-" in str(to_dataframe(rows(PipelineState.DONE)))


def test_dataframe_rows_of_killed_program_are_removed_at_next_start(
    session: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    killed = os.fork()
    if killed == 0:
        try:
            to_dataframe(rows(PipelineState.DONE))
        finally:
            os._exit(0)
    os.waitpid(killed, 0)
    (folder,) = (path for path in tmp_path.iterdir() if path.is_dir())
    assert folder.stat().st_mode & 0o777 == 0o700
    remove_stale_folders()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("state", [PipelineState.CANCELLED, PipelineState.DRAINED])
def test_dataframe_of_unfinished_pipeline_is_refused(session: SimpleNamespace, state: str) -> None:
    with pytest.raises(RuntimeError, match=f"because the pipeline is in state {state}"):
        to_dataframe(rows(state), "out")


@pytest.mark.parametrize("master", ["yarn", "spark://host:7077", "local-cluster[2,1,1024]"])
def test_dataframe_path_is_required_if_spark_runs_on_other_machines(
    session: SimpleNamespace, master: str
) -> None:
    session.sparkContext.master = master
    with pytest.raises(InvalidTableSpec, match="pass to_dataframe a path="):
        to_dataframe(rows(PipelineState.DONE))


def test_dataframe_without_spark_session_raises_clear_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(frames, "find_session", lambda: None)
    with pytest.raises(InvalidTableSpec, match="but this program has none"):
        to_dataframe(rows(PipelineState.DONE))


def frame(**told: Any) -> SimpleNamespace:
    made = {"isStreaming": False, "columns": ["n"], "createGlobalTempView": pytest.fail}
    return SimpleNamespace(**{**made, **told})


@pytest.mark.parametrize(
    ("given", "refused"),
    [
        ([1, 2], "needs a Spark DataFrame, but got a list"),
        (frame(isStreaming=True), "is a stream"),
        (frame(columns=["n", "m", "n"]), "two columns 'n'"),
    ],
)
def test_dataframe_argument_of_wrong_type_is_refused(given: Any, refused: str) -> None:
    with pytest.raises(InvalidTableSpec, match=refused):
        from_dataframe(given)


def test_pcollection_argument_of_wrong_type_is_refused() -> None:
    with pytest.raises(InvalidTableSpec, match="needs a PCollection, but got a list"):
        to_dataframe([1])  # type: ignore[arg-type]


def test_dataframe_of_another_spark_session_is_refused_in_one_sentence() -> None:
    catalog = SimpleNamespace(tableExists=lambda name: False)
    session: Any = SimpleNamespace(read=SimpleNamespace(options=dict), catalog=catalog)
    with pytest.raises(InvalidTableSpec, match="belongs to another Spark than the server's"):
        read_frame(session, TableSource(table=f"global_temp.{VIEW}12"))
