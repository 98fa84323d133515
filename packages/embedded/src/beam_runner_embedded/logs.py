"""Log handler that sends Python's log records to the runner in order, within about 100 ms."""

from __future__ import annotations

import logging
import sys
import threading
import traceback

from beam_runner_model.threads import start_essential_thread
from beam_runner_worker.log_records import LogRecord, Severity
from beam_runner_worker.ports import LogSink
from beam_runner_worker.prints import get_current_transform_id

_FLUSH_SECONDS = 0.05
_MAX_PENDING = 10_000


class LogSinkHandler(logging.Handler):
    """Handler for the root logger that converts log records and sends them to a sink.

    A background thread sends the queued records every 50 ms, and :meth:`flush` sends them
    immediately. If more than 10,000 records are queued, the handler drops and counts further
    records. The handler ignores records that the sink itself logs, so logging can't recurse.
    """

    def __init__(self, sink: LogSink) -> None:
        super().__init__()
        self._sink = sink
        self._pending: list[LogRecord] = []
        self._dropped = 0
        self._arrived = threading.Condition(threading.Lock())
        self._sending = threading.Lock()
        self._in_sink = threading.local()
        self._closed = False
        self._start_thread()

    def _start_thread(self) -> None:
        self._thread = start_essential_thread(
            self._send_in_background, "embedded-harness-logs", lambda _: self._start_thread()
        )

    @property
    def is_sending(self) -> bool:
        """Whether this thread passes records to the sink now."""
        return getattr(self._in_sink, "active", False)

    def emit(self, record: logging.LogRecord) -> None:
        """Queues a record for the background thread; never waits for the sink."""
        if self.is_sending:
            return
        self.queue_record(self._convert_record(record))

    def queue_record(self, entry: LogRecord) -> None:
        """Queues a converted record for the background thread; never waits for the sink."""
        with self._arrived:
            if len(self._pending) >= _MAX_PENDING:
                self._dropped += 1
                return
            self._pending.append(entry)
            if len(self._pending) == 1:
                self._arrived.notify()

    def flush(self) -> None:
        """Sends all records that were logged before this call."""
        with self._sending:
            with self._arrived:
                batch, self._pending = self._pending, []
                dropped, self._dropped = self._dropped, 0
            if dropped:
                batch.append(
                    LogRecord(
                        severity=Severity.WARN,
                        time_ms=batch[-1].time_ms,
                        message=(
                            f"{dropped} log records were dropped, because the rate was too high"
                        ),
                        location=__name__,
                    )
                )
            if batch:
                self._send_batch(batch)

    def close(self) -> None:
        """Sends the queued records and stops the background thread; idempotent."""
        with self._arrived:
            self._closed = True
            self._arrived.notify()
        if threading.current_thread() is not self._thread:
            self._thread.join(timeout=5)
        self.flush()
        super().close()

    def _send_batch(self, batch: list[LogRecord]) -> None:
        self._in_sink.active = True
        try:
            self._sink.log_records(batch)
        except Exception:
            print("Can't send log records to the runner:", file=sys.stderr)
            traceback.print_exc()
        finally:
            self._in_sink.active = False

    def _send_in_background(self) -> None:
        while True:
            with self._arrived:
                while not self._pending and not self._closed:
                    self._arrived.wait()
                if self._closed:
                    return
                self._arrived.wait(_FLUSH_SECONDS)
            self.flush()

    def _convert_record(self, record: logging.LogRecord) -> LogRecord:
        try:
            message = record.getMessage()
        except Exception:
            message = f"Can't format {record.msg!r} with {record.args!r}"
        trace = ""
        if record.exc_info and record.exc_info[0] is not None:
            trace = "".join(traceback.format_exception(*record.exc_info))
        elif record.exc_text:
            trace = record.exc_text
        return LogRecord(
            severity=_convert_level(record.levelno),
            time_ms=int(record.created * 1000),
            message=message,
            trace=trace,
            transform_id=get_current_transform_id(),
            location=f"{record.pathname or record.module}:{record.lineno or record.funcName}",
        )


def _convert_level(level: int) -> Severity:
    if level >= logging.CRITICAL:
        return Severity.CRITICAL
    if level >= logging.ERROR:
        return Severity.ERROR
    if level >= logging.WARNING:
        return Severity.WARN
    if level > logging.INFO:
        return Severity.NOTICE
    if level == logging.INFO:
        return Severity.INFO
    return Severity.DEBUG if level >= logging.DEBUG else Severity.TRACE
