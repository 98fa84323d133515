"""Quarantine files: after each commit, the server writes the units that the commit quarantined to a
Parquet file. A unit is an element, a group or a timer.

The commit contains the units, so no file exists for an uncommitted bundle. The commit determines
the name of the file. If the server exits before it records that a file is written, the next server
writes the same file again.
"""

from __future__ import annotations

import logging
import queue
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from beam_runner_engine.scheduler.specs import Pauses
from beam_runner_model.jobs import Importance
from beam_runner_model.quarantine import QuarantinedUnit
from beam_runner_model.threads import start_helper_thread
from beam_runner_runtime.shutdown.limits import LIMITS
from beam_runner_storage.errors import StorageError
from beam_runner_storage.stores.spec import StoreSpec

from beam_runner_driver.ledger.ledger import JobLedger
from beam_runner_driver.ledger.quarantine import QuarantineSettings
from beam_runner_driver.ledger.retrying_journal import RetryingJournal
from beam_runner_driver.ports import RunReporter

SCHEMA = pa.schema(
    [
        ("step", pa.string()),
        ("error", pa.string()),
        ("traceback", pa.string()),
        ("kind", pa.string()),
        ("timestamp_ms", pa.int64()),
        ("windows", pa.list_(pa.string())),
        ("pane", pa.string()),
        ("timer", pa.string()),
        ("coder", pa.string()),
        ("element", pa.binary()),
        ("header", pa.binary()),
        ("attempts", pa.int32()),
        ("job_id", pa.string()),
    ]
)
"""Columns of a quarantine file; `docs/how-to/quarantine.md` describes the columns."""
_LOOK_SECONDS = 0.05
_PAUSES = Pauses(1_000, 15_000)
_LOGGER = logging.getLogger(__name__)


def build_quarantine_table(job_id: str, units: Sequence[QuarantinedUnit]) -> pa.Table:
    """Returns an Arrow table with a row for each failing unit (element, group or timer), in the
    format of quarantine files.
    """
    rows = [
        {
            "step": unit.step,
            "error": unit.error,
            "traceback": unit.trace,
            "kind": unit.kind.value,
            "timestamp_ms": unit.timestamp,
            "windows": list(unit.windows),
            "pane": unit.pane,
            "timer": unit.timer,
            "coder": unit.coder,
            "element": unit.value,
            "header": unit.header,
            "attempts": unit.attempts,
            "job_id": job_id,
        }
        for unit in units
    ]
    return pa.Table.from_pylist(rows, SCHEMA)


class QuarantineFiles:
    """Writer of a job's quarantine files (files of failing elements), on a separate thread.

    Only the job's thread calls the methods.

    Args:
        settings: rules of the quarantine; None if the job has no quarantine.
        journal: journal of the job, which records the written files in a snapshot.
    """

    def __init__(
        self, settings: QuarantineSettings | None, ledger: JobLedger, journal: RetryingJournal
    ) -> None:
        self._spec = None if settings is None else settings.spec
        self._ledger = ledger
        self._journal = journal
        self._work: queue.SimpleQueue[tuple[str, pa.Table] | None] = queue.SimpleQueue()
        self._written: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._queued: set[str] = set()
        self._thread: threading.Thread | None = None
        self._stops = threading.Event()

    def write_pending_files(self) -> None:
        """Queues files for the units (elements, groups, timers) that new commits sent to
        quarantine. Records the files that the thread has written since the last call.
        """
        pending = self._ledger.quarantine.pending
        if self._spec is None or not pending:
            return
        for name in pending.keys() - self._queued:
            self._queue_file(self._spec, name, pending[name])
        if written := self._pop_written_files():
            for name in written:
                pending.pop(name, None)
            self._journal.write_snapshot(self._ledger.encode_snapshot())

    def _pop_written_files(self) -> list[str]:
        """Returns the names of the files that were written since the last call."""
        names = []
        while not self._written.empty():
            names.append(self._written.get())
        return names

    def finish(self, reporter: RunReporter) -> None:
        """Waits until the remaining files are written, and reports the files that couldn't be written."""
        until = time.monotonic() + LIMITS.quarantine_seconds
        self.write_pending_files()
        pending = self._ledger.quarantine.pending
        while pending and self._spec is not None and time.monotonic() < until:
            time.sleep(_LOOK_SECONDS)
            self.write_pending_files()
        self._stops.set()
        self._work.put(None)
        if pending:
            text = (
                f"Can't write {len(pending)} files with quarantined elements:"
                f" {self._spec.url if self._spec else ''} is unavailable"
            )
            reporter.report_message(Importance.ERROR, text)

    def _queue_file(self, spec: StoreSpec, name: str, units: Sequence[QuarantinedUnit]) -> None:
        self._queued.add(name)
        job_id, _, _ = name.partition("/")
        self._work.put((name, build_quarantine_table(job_id, units)))
        if self._thread is None:
            self._thread = start_helper_thread(lambda: self._write_files(spec), "quarantine")

    def _write_files(self, spec: StoreSpec) -> None:
        store = spec.open_store()
        while (item := self._work.get()) is not None and not self._stops.is_set():
            name, table = item
            failures = 0
            with tempfile.TemporaryDirectory(prefix="beam-spark-quarantine-") as folder:
                path = Path(folder, "file")
                pq.write_table(table, path)
                while not self._stops.is_set():
                    try:
                        store.put_file(name, path)
                        self._written.put(name)
                        break
                    except (StorageError, OSError) as error:
                        failures += 1
                        _LOGGER.warning("Can't write %s to the quarantine now: %s", name, error)
                        self._stops.wait(_PAUSES.compute_retry_pause(failures) / 1000)
