"""Tests that unreachable Kafka brokers are reported immediately, and only then."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest
from beam_runner_planner.table_specs import InvalidTableSpec, TableSource

from beam_spark_io.spark.kafka import explain_kafka_failures


@pytest.fixture
def address() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"127.0.0.1:{listener.getsockname()[1]}"


@pytest.fixture
def nobody() -> str:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"127.0.0.1:{listener.getsockname()[1]}"


def at(servers: str, format: str = "kafka") -> TableSource:
    return TableSource(format, options={"Kafka.bootstrap.servers": servers})


def test_kafka_check_passes_if_one_broker_responds(address: str, nobody: str) -> None:
    with explain_kafka_failures(at(f"{nobody}, {address}")):
        pass


def test_kafka_check_without_response_reports_reason_of_each_broker(nobody: str) -> None:
    source = at(f"{nobody},no-port")
    with explain_kafka_failures(source, is_first_read=False):
        pass
    told = f"{nobody}: Connection refused; no-port: expected HOST:PORT"
    with pytest.raises(InvalidTableSpec, match=told), explain_kafka_failures(source):
        pytest.fail("the topic is read")


def test_kafka_check_ignores_sources_that_are_not_kafka(nobody: str) -> None:
    for source in (at(""), at(nobody, "other")):
        with pytest.raises(LookupError), explain_kafka_failures(source):
            raise LookupError(
                "does not host this topic-partition" if source.format == "other" else ""
            )


def test_kafka_check_names_missing_topic() -> None:
    source = TableSource("kafka", options={"subscribe": "orders"})
    with (
        pytest.raises(InvalidTableSpec, match="topic or partition doesn't exist in Kafka: orders"),
        explain_kafka_failures(source),
    ):
        raise RuntimeError("org.apache.kafka.common.errors.UnknownTopicOrPartitionException")
