"""Retries while an external system is unavailable, so that an outage doesn't count as a failed attempt at a bundle."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

_FIRST_PAUSE = 0.1
_LONGEST_PAUSE = 10.0
_SLEEP = 0.2
"""Maximum seconds of one sleep, so that a cancellation soon interrupts the wait."""

Result = TypeVar("Result")
Outage = TypeVar("Outage", bound=Exception)


def wait_until_available(
    call: Callable[[], Result],
    outage: type[Outage],
    patience: float | None,
    log_wait: Callable[[Outage, float], None],
) -> Result:
    """Calls a function until the external system that the function uses is available. Returns the
    result.

    Args:
        call: function that can be repeated after an outage.
        outage: type of the exception that the function raises while the system is unavailable.
        patience: maximum seconds of the wait; None waits without a limit.
        log_wait: function that logs an outage and the seconds of the wait until now.

    Raises:
        outage: The system was unavailable for longer than the patience.
    """
    began, pause = time.monotonic(), _FIRST_PAUSE
    while True:
        try:
            return call()
        except outage as error:
            waited = time.monotonic() - began
            if patience is not None and waited >= patience:
                raise
            log_wait(error, waited)
            _sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)


def _sleep(seconds: float) -> None:
    end = time.monotonic() + seconds
    while (rest := end - time.monotonic()) > 0:
        time.sleep(min(rest, _SLEEP))
