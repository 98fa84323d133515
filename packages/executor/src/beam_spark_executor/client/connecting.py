"""Connection to a Job API, with a message while the client waits, and an error if no server answers."""

from __future__ import annotations

import logging
import threading
from typing import Any

import grpc
from apache_beam.runners.portability.job_server import ExternalJobServer

_PATIENCE_SECONDS = 5.0

log = logging.getLogger("beam_runner_server")


def connect_to_job_service(endpoint: str, seconds: float) -> Any:
    """Returns a stub of the Job API after a server answers at the address.

    Raises:
        RuntimeError: no server answers within the limit.
    """
    waiting = threading.Timer(
        _PATIENCE_SECONDS,
        log.warning,
        ("no job server responds at %s; waiting up to %.0f seconds", endpoint, seconds),
    )
    waiting.start()
    try:
        return ExternalJobServer(endpoint, seconds).start()
    except grpc.FutureTimeoutError:
        raise RuntimeError(
            f"no job server responded at {endpoint} within {seconds:.0f} seconds"
            " (--job_server_timeout): check that the server runs, and that the address"
            " is correct"
        ) from None
    finally:
        waiting.cancel()
