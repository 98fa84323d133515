"""Tests that log records of Python code reach the runner soon, in order, and with the running
transform.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable, Iterator

import apache_beam as beam
import pytest
from beam_runner_worker.log_records import LogRecord, Severity
from mini_runner import Logs, MiniRunner

from beam_runner_embedded.logs import LogSinkHandler

USER = logging.getLogger("user.code")


@pytest.fixture
def sink() -> Logs:
    return Logs()


@pytest.fixture
def logger(sink: Logs) -> Iterator[logging.Logger]:
    handler = LogSinkHandler(sink)
    logger = logging.getLogger("test_logs")
    logger.setLevel(1)
    logger.addHandler(handler)
    yield logger
    logger.removeHandler(handler)
    handler.close()


def wait_for(sink: Logs, count: int) -> None:
    limit = time.monotonic() + 60
    while len(sink.records) < count and time.monotonic() < limit:
        time.sleep(0.005)
    assert len(sink.records) == count


def test_log_records_arrive_without_flush(sink: Logs, logger: logging.Logger) -> None:
    start = time.time()
    logger.warning("hello %s", "there")
    wait_for(sink, 1)
    (record,) = sink.records
    assert (record.severity, record.message) == (Severity.WARN, "hello there")
    assert record.location.startswith(__file__)
    assert start * 1000 - 1 <= record.time_ms <= time.time() * 1000
    assert time.time() - start < 30


@pytest.mark.parametrize(
    ("level", "severity"),
    [
        (5, Severity.TRACE),
        (logging.DEBUG, Severity.DEBUG),
        (15, Severity.DEBUG),
        (logging.INFO, Severity.INFO),
        (25, Severity.NOTICE),
        (logging.ERROR, Severity.ERROR),
        (logging.CRITICAL, Severity.CRITICAL),
    ],
)
def test_log_severities_are_mapped(
    sink: Logs, logger: logging.Logger, level: int, severity: Severity
) -> None:
    logger.log(level, "x")
    logger.handlers[-1].flush()
    assert sink.records[0].severity is severity


def test_log_records_with_exception_or_bad_format_are_sent(
    sink: Logs, logger: logging.Logger
) -> None:
    try:
        raise ValueError("boom")
    except ValueError:
        logger.exception("failed")
    bad = {"msg": "%d", "args": ("no number",), "levelno": logging.INFO}
    logger.handlers[-1].handle(logging.makeLogRecord(bad))
    logger.handlers[-1].flush()
    assert "ValueError: boom" in sink.records[0].trace
    assert sink.records[0].message == "failed"
    assert "no number" in sink.records[1].message


class LoggingSink(Logs):
    """A sink of log records that logs when it receives records, as a runner can."""

    def log_records(self, records: Iterable[LogRecord]) -> None:
        logging.getLogger("test_logs").info("taking records")
        super().log_records(records)


class FailingSink(Logs):
    def log_records(self, records: Iterable[LogRecord]) -> None:
        raise OSError("gone")


def test_log_sink_that_writes_log_records_does_not_recurse() -> None:
    sink = LoggingSink()
    handler = LogSinkHandler(sink)
    logger = logging.getLogger("test_logs")
    logger.setLevel(1)
    logger.addHandler(handler)
    logger.info("once")
    wait_for(sink, 1)
    time.sleep(0.2)
    logger.removeHandler(handler)
    handler.close()
    assert [record.message for record in sink.records] == ["once"]


def test_failing_log_sink_raises_no_error(capsys: pytest.CaptureFixture[str]) -> None:
    handler = LogSinkHandler(FailingSink())
    handler.handle(logging.makeLogRecord({"msg": "lost", "levelno": 20}))
    handler.flush()
    handler.close()
    assert "OSError: gone" in capsys.readouterr().err


class SlowSink(Logs):
    def __init__(self) -> None:
        super().__init__()
        self.may_go_on = threading.Event()

    def log_records(self, records: Iterable[LogRecord]) -> None:
        assert self.may_go_on.wait(30)
        super().log_records(records)


def test_excess_log_records_are_dropped_and_counted() -> None:
    sink = SlowSink()
    handler = LogSinkHandler(sink)
    for _ in range(25_000):
        handler.handle(logging.makeLogRecord({"msg": "x", "levelno": 20}))
    sink.may_go_on.set()
    handler.close()
    told = [record.message for record in sink.records if "dropped" in record.message]
    assert told
    dropped = sum(int(message.split()[0]) for message in told)
    assert len(sink.records) - len(told) + dropped == 25_000


def log_it(element: bytes) -> bytes:
    USER.info("in process")
    return element


class LogEverywhere(beam.DoFn):
    def setup(self) -> None:
        USER.warning("in setup")

    def process(self, element: bytes) -> Iterator[bytes]:
        yield element

    def finish_bundle(self) -> None:
        USER.error("in finish")

    def teardown(self) -> None:
        USER.info("in teardown")


def test_log_records_name_running_transform() -> None:
    pipeline = beam.Pipeline()
    (
        pipeline
        | beam.Impulse()
        | "First" >> beam.Map(log_it)
        | "Second" >> beam.ParDo(LogEverywhere())
    )
    runner = MiniRunner(pipeline).run()
    seen = {r.message: r.transform_id for r in runner.logs.records if r.message.startswith("in ")}
    assert set(seen) == {"in process", "in setup", "in finish", "in teardown"}
    assert "First" in seen.pop("in process")
    assert all("Second" in transform_id for transform_id in seen.values())


def test_log_levels_follow_options() -> None:
    pipeline = beam.Pipeline()
    pipeline | beam.Impulse() | beam.Map(log_it)
    quiet = MiniRunner(pipeline, default_sdk_harness_log_level="WARNING").run()
    assert not any(r.message == "in process" for r in quiet.logs.records)
    one = MiniRunner(
        pipeline,
        **{
            "beam:option:default_sdk_harness_log_level:v1": "WARNING",
            "beam:option:sdk_harness_log_level_overrides:v1": {"user.code": "DEBUG"},
        },
    ).run()
    assert any(r.message == "in process" for r in one.logs.records)
    USER.setLevel(logging.NOTSET)
