"""The Job API at an address: whoever waits for it is told so, and in the end that nobody is there."""

from __future__ import annotations

import logging
import threading
from typing import Any

import grpc
from apache_beam.runners.portability.job_server import ExternalJobServer

_PATIENCE_SECONDS = 5.0

log = logging.getLogger("beam_runner_server")


def service_at(endpoint: str, seconds: float) -> Any:
    """A stub of the Job API; waits until somebody answers there.

    Raises:
        RuntimeError: nobody does within the limit.
    """
    waiting = threading.Timer(
        _PATIENCE_SECONDS,
        log.warning,
        ("no job server answers at %s; waiting up to %.0f seconds for it", endpoint, seconds),
    )
    waiting.start()
    try:
        return ExternalJobServer(endpoint, seconds).start()
    except grpc.FutureTimeoutError:
        raise RuntimeError(
            f"no job server has answered at {endpoint} within {seconds:.0f} seconds (--job_server_timeout): is it"
            " running, and is that its address?"
        ) from None
    finally:
        waiting.cancel()
