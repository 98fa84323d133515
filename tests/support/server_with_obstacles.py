"""Server on plain processes in which files in a folder block the journal, all lanes (worker
processes), or the scheduler loop in a worker process.

The environment variable ``OBSTACLES`` names the folder. While the file ``journal`` exists, no
journal can be written. While the file ``lanes`` exists, no job gets a worker process. While the
file ``loop`` exists, all bundles run on lanes.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from beam_runner_engine.dispatch.lease import SchedulerLease
from beam_runner_runtime.processes.placement import ProcessPlacement
from beam_runner_storage.journal.errors import JournalUnavailable
from beam_runner_storage.journal.journal import Journal
from beam_runner_storage.unavailable import ExternalSystemUnavailable
from beam_spark_executor.cli import main

NEIGHBOUR = "the disk of /obstacle"
_FOLDER = Path(os.environ.get("OBSTACLES", ""))
_append, _start_lane, _may_begin = (
    Journal.append_entries,
    ProcessPlacement.start_lane,
    SchedulerLease.can_start_loop,
)


def append(journal: Journal, entries: Sequence[bytes]) -> None:
    """Appends to the journal; fails while the obstacle ``journal`` exists."""
    if (_FOLDER / "journal").exists():
        raise JournalUnavailable(ExternalSystemUnavailable(NEIGHBOUR, "it is full"))
    _append(journal, entries)


def start_lane(placement: ProcessPlacement, lane: Any) -> None:
    """Starts a lane (worker process) after the obstacle ``lanes`` is removed."""

    def start() -> None:
        while (_FOLDER / "lanes").exists():
            time.sleep(0.05)
        _start_lane(placement, lane)

    threading.Thread(target=start, daemon=True).start()


def may_begin(lease: SchedulerLease, now: float) -> bool:
    """Refuses to lend the scheduler to a worker process (the loop inside a task) while the obstacle
    ``loop`` exists.
    """
    return not (_FOLDER / "loop").exists() and _may_begin(lease, now)


if __name__ == "__main__":
    Journal.append_entries = append  # type: ignore[method-assign]
    ProcessPlacement.start_lane = start_lane  # type: ignore[method-assign]
    SchedulerLease.can_start_loop = may_begin  # type: ignore[method-assign]
    sys.exit(main())
