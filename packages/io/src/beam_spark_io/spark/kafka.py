"""Early checks of Kafka sources. Spark's Kafka client would retry for minutes and then print a stack trace."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from urllib.parse import urlsplit

from beam_runner_planner.table_specs import InvalidTableSpec, TableSource, find_table_option

_KAFKA = "kafka"
_ADDRESSES = "kafka.bootstrap.servers"
_SECONDS = 3.0
_NO_TOPIC = ("UnknownTopicOrPartition", "does not host this topic-partition")


@contextlib.contextmanager
def explain_kafka_failures(source: TableSource, *, is_first_read: bool = True) -> Iterator[None]:
    """Converts Spark's errors about a Kafka source, within a ``with`` block, to clear errors. Does
    nothing for other sources.

    Args:
        source: the source of the read.
        is_first_read: whether the read starts from the beginning. If so, a broker must respond immediately.
            A running stream tolerates an outage.

    Raises:
        InvalidTableSpec: no broker responds at any of the addresses, or the topic doesn't exist.
    """
    if source.format.lower() != _KAFKA:
        yield
        return
    if is_first_read:
        _check_any_broker_answers(find_table_option(source.options, _ADDRESSES))
    try:
        yield
    except Exception as error:
        if not any(sign in str(error) for sign in _NO_TOPIC):
            raise
        topics = find_table_option(source.options, "subscribe") or find_table_option(
            source.options, "assign"
        )
        raise InvalidTableSpec(
            f"the topic or partition doesn't exist in Kafka: {topics}"
        ) from error


def _check_any_broker_answers(addresses: str) -> None:
    reasons = []
    for address in filter(None, map(str.strip, addresses.split(","))):
        if (reason := _find_connection_problem(address)) is None:
            return
        reasons.append(f"{address}: {reason}")
    if reasons:
        raise InvalidTableSpec(
            f"Can't connect to Kafka at any address of {_ADDRESSES} ({'; '.join(reasons)})"
        )


def _find_connection_problem(address: str) -> str | None:
    try:
        place = urlsplit(f"//{address}")
        host, port = place.hostname, place.port
        if not host or not port:
            return "expected HOST:PORT"
        with socket.create_connection((host, port), _SECONDS):
            return None
    except (OSError, ValueError) as error:
        return str(getattr(error, "strerror", None) or error)
