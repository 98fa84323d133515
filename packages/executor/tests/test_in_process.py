from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any

import pytest

from beam_spark_executor import in_process
from beam_spark_executor.in_process import InProcessServerNotStarted, start_in_process_server
from beam_spark_executor.spark.existing_session import SUBMITTED
from beam_spark_executor.spark.settings import SparkSettings

SESSION: Any = SimpleNamespace()


@pytest.fixture(autouse=True)
def started(monkeypatch: pytest.MonkeyPatch) -> list[tuple[tuple[str, ...], SparkSettings]]:
    """Records the arguments of started servers, in a program without Spark."""
    found: list[tuple[tuple[str, ...], SparkSettings]] = []

    def start(flags: Any, spark: SparkSettings) -> Any:
        found.append((tuple(flags), spark))
        return SESSION

    monkeypatch.setattr(in_process, "InProcessServer", start)
    monkeypatch.setattr(in_process, "find_session", lambda: None)
    for name in (SUBMITTED, "SPARK_REMOTE"):
        monkeypatch.delenv(name, raising=False)
    return found


def test_in_process_server_uses_active_session_unless_flags_name_another_spark(
    monkeypatch: pytest.MonkeyPatch, started: Any
) -> None:
    monkeypatch.setattr(in_process, "find_session", lambda: SESSION)
    assert start_in_process_server(["--state-dir=/x"], "/here") is SESSION
    assert started == [(("--state-dir=/x",), SparkSettings(session=SESSION, python_path="/here"))]
    assert start_in_process_server(["--spark-master-url=local"], "") is None
    assert start_in_process_server(["--spark-conf=spark.a=b"], "") is None


def test_in_process_server_of_spark_submit_program_uses_its_spark(
    monkeypatch: pytest.MonkeyPatch, started: Any
) -> None:
    assert start_in_process_server([], "") is None
    monkeypatch.setenv(SUBMITTED, "1")
    assert start_in_process_server(["--spark-conf=spark.a=b"], "") is SESSION
    assert started == [(("--spark-conf=spark.a=b",), SparkSettings())]


def test_in_process_server_refuses_spark_connect_session(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SPARK_REMOTE", "sc://h")
    with pytest.raises(InProcessServerNotStarted, match="SPARK_REMOTE=sc://h"):
        start_in_process_server([], "")
    assert start_in_process_server(["--spark-master-url=local"], "") is None


def test_in_process_server_reports_wrong_flag(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    with pytest.raises(InProcessServerNotStarted, match="unknown flag --wrong"):
        in_process.InProcessServer(["--wrong"], SparkSettings())
    assert os.environ.get(SUBMITTED) is None
