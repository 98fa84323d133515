from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from beam_spark_executor.spark.health_check import SparkHealthCheck


@pytest.mark.parametrize("answer", [True, False])
def test_spark_health_check_returns_response_of_spark(answer: bool) -> None:
    pulse = SparkHealthCheck(lambda: answer, limit=60.0)
    assert [pulse.is_healthy(), pulse.is_healthy()] == [answer, answer]


def test_spark_health_check_returns_current_response() -> None:
    answers = iter([True, False])
    pulse = SparkHealthCheck(lambda: next(answers), limit=60.0)
    assert [pulse.is_healthy(), pulse.is_healthy()] == [True, False]


def test_spark_health_check_reports_unresponsive_spark_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    go_on = threading.Event()
    asking: list[threading.Thread] = []

    def ask() -> bool:
        asking.append(threading.current_thread())
        return go_on.wait()

    pulse = SparkHealthCheck(ask, limit=0.05)
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda _: pulse.is_healthy(), range(8))) == [None] * 8
    assert len(asking) == 1
    go_on.set()
    while pulse.is_healthy() is None:
        pass
    assert set(asking) == {asking[0]}
    told = [record.getMessage() for record in caplog.records]
    assert told[0] == "Spark's Java process has not responded for 0.05 s"
    assert told[-1] == "Spark's Java process responds again"


def test_spark_health_check_responds_after_query_thread_raised_error() -> None:
    questions: list[bool] = []

    def ask() -> bool:
        questions.append(True)
        if len(questions) == 1:
            raise SystemExit(0)
        return True

    pulse = SparkHealthCheck(ask, limit=0.5)
    assert pulse.is_healthy() is None
    while (answer := pulse.is_healthy()) is None:
        pass  # On a busy machine the new thread may need longer than the limit.
    assert answer
