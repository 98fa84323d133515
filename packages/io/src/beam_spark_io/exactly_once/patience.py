"""Waits for sinks that are unavailable."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

from beam_spark_io.exactly_once.protocols import SinkUnavailable
from beam_spark_io.patience import wait_until_available

_LOGGER = logging.getLogger(__name__)
Result = TypeVar("Result")


def wait_for_sink(call: Callable[[], Result], step: str, patience: float | None) -> Result:
    """Calls a function of a sink until the sink is available; returns the result.

    Args:
        call: function that can be repeated after a `SinkUnavailable`.
        step: the step that waits, for the log.
        patience: maximum seconds of the wait; None waits without a limit.

    Raises:
        SinkUnavailable: The sink was unavailable for longer than the patience.
    """

    def log_wait(away: SinkUnavailable, waited: float) -> None:
        _LOGGER.warning(
            "a sink is unavailable, so %s waits (%.0f s until now): %s", step, waited, away
        )

    return wait_until_available(call, SinkUnavailable, patience, log_wait)
