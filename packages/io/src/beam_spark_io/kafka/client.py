"""Checks of librdkafka's properties and errors, which the Kafka source and sink share."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

_AWAY = (
    *("_TRANSPORT", "_ALL_BROKERS_DOWN", "_TIMED_OUT", "_MSG_TIMED_OUT", "_FENCED", "_RESOLVE"),
    *("PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH", "CONCURRENT_TRANSACTIONS", "NOT_COORDINATOR"),
    *("COORDINATOR_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS", "NOT_ENOUGH_REPLICAS"),
    *("LEADER_NOT_AVAILABLE", "NOT_LEADER_FOR_PARTITION", "REQUEST_TIMED_OUT", "_STATE"),
    *("BROKER_NOT_AVAILABLE", "REPLICA_NOT_AVAILABLE", "NOT_ENOUGH_REPLICAS_AFTER_APPEND"),
    *("NETWORK_EXCEPTION", "KAFKA_STORAGE_ERROR", "UNSTABLE_OFFSET_COMMIT", "_TIMED_OUT_QUEUE"),
    # The transaction was lost, for example because a broker without its state took over.
    *("INVALID_TXN_STATE", "INVALID_PRODUCER_ID_MAPPING", "UNKNOWN_PRODUCER_ID"),
    *("OUT_OF_ORDER_SEQUENCE_NUMBER", "TRANSACTION_ABORTABLE", "TRANSACTION_COORDINATOR_FENCED"),
    "_FATAL",  # An earlier call has reported the reason.
)
"""Error codes after which the request can be repeated with a new client."""


def check_config(config: Mapping[str, Any], user: str, own: Collection[str]) -> None:
    """Checks properties of librdkafka when the pipeline is built.

    Args:
        config: the properties.
        user: the transform, for messages.
        own: properties that the transform sets.

    Raises:
        ValueError: The brokers are missing, or the user sets a property of the transform.
    """
    if not config.get("bootstrap.servers"):
        raise ValueError("config lacks bootstrap.servers, the addresses of the brokers")
    for name in own:
        if name in config:
            raise ValueError(f"config has {name}, which {user} sets itself; remove it")


def is_unavailable(error: Any) -> bool:
    """Returns whether an error of the client means that brokers don't respond."""
    away = {getattr(error, name) for name in _AWAY if hasattr(error, name)}
    return error.code() in away or error.retriable()


def ignore_error(_: Any) -> None:
    """Ignores an error that the client reports by a callback, because later calls report the same error."""
