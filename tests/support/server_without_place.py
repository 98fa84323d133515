"""Server that finds no data location while jobs wait for it: it can't start, and exits a moment later."""

from __future__ import annotations

import sys
import time

from beam_runner_server.job_folders import JobFolders
from beam_runner_server.job_server import RunnerServer
from beam_runner_storage.stores.ports import StoreError
from beam_spark_executor.cli import main

_SECONDS = 2

stop = RunnerServer.stop


def check(place: JobFolders) -> None:
    """Raises the error of a missing data location, in place of the server's check."""
    time.sleep(_SECONDS)
    raise StoreError("there is no place for data")


def stop_later(server: RunnerServer) -> None:
    """Delays the exit of the server, so that jobs receive the error first."""
    time.sleep(_SECONDS)
    stop(server)


JobFolders.check_store = check  # type: ignore[method-assign]
RunnerServer.stop = stop_later  # type: ignore[method-assign]
sys.exit(main())
