"""Lines that user code prints in Beam's Python harness, as log records with the running transform."""

from __future__ import annotations

import logging
import sys

from apache_beam.runners.worker.log_handler import FnApiLogRecordHandler

from beam_runner_worker.log_records import LogRecord
from beam_runner_worker.prints import PrintCapture


def capture_prints() -> None:
    """Replaces ``sys.stdout`` of this process, which becomes a harness."""
    sys.stdout = PrintCapture(sys.stdout, _HarnessLog())


class _HarnessLog:
    """The log of the harness. Implements `beam_runner_worker.prints.RecordQueue`."""

    is_sending = False

    def queue_record(self, entry: LogRecord) -> None:
        """Passes a record to the harness's log handler, whatever the log level is."""
        record = logging.makeLogRecord(
            {
                "name": entry.location,
                "pathname": entry.location,
                "levelno": logging.INFO,
                "msg": "%s",
                "args": (entry.message,),
            }
        )
        for handler in logging.getLogger().handlers:
            if isinstance(handler, FnApiLogRecordHandler):
                handler.emit(record)
