"""Retries of requests while Kafka brokers are unavailable."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

from beam_spark_io.kafka.errors import BrokersUnavailable
from beam_spark_io.patience import wait_until_available

_LOGGER = logging.getLogger(__name__)
Result = TypeVar("Result")


def wait_for_brokers(request: Callable[[], Result], patience: float) -> Result:
    """Returns the result of a request, which is repeated while brokers are unavailable.

    Args:
        patience: maximum seconds.

    Raises:
        BrokersUnavailable: The brokers were unavailable for longer.
    """
    return wait_until_available(
        request, BrokersUnavailable, patience, lambda away, _: log_outage(away)
    )


def log_outage(away: BrokersUnavailable) -> None:
    """Logs that a read waits for unavailable brokers."""
    _LOGGER.warning("The read waits: %s", away)
