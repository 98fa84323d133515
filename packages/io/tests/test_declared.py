"""Tests that the columns of rows come from the session on which the pipeline will run."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from beam_spark_io.declared import list_dataframe_columns
from beam_spark_io.schemas import convert_arrow_to_spark

COLUMNS = pa.schema([("id", pa.int64())])


def frame_of(session: Any) -> Any:
    return SimpleNamespace(
        schema=SimpleNamespace(json=lambda: convert_arrow_to_spark(session.columns))
    )


def test_declared_columns_come_from_session_of_another_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Notebooks and web servers build pipelines in threads without an active session."""
    context = object()
    session = SimpleNamespace(sparkContext=context, columns=COLUMNS)
    kind = SimpleNamespace(getActiveSession=lambda: None, _instantiatedSession=session)
    sql = SimpleNamespace(SparkSession=kind)
    core = SimpleNamespace(SparkContext=SimpleNamespace(_active_spark_context=context))
    monkeypatch.setitem(sys.modules, "pyspark", core)
    monkeypatch.setitem(sys.modules, "pyspark.sql", sql)
    monkeypatch.setitem(sys.modules, "pyspark.sql.session", sql)
    assert list_dataframe_columns(frame_of) == COLUMNS


def test_declared_columns_without_session_are_unknown_and_start_no_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delitem(sys.modules, "pyspark.sql.session", raising=False)
    assert list_dataframe_columns(frame_of) is None
