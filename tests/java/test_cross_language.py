"""Tests of Python pipelines with Java transforms from Beam's expansion service: sequences, JdbcIO and KafkaIO."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from pathlib import Path

import apache_beam as beam
import pytest
from apache_beam.io.kafka import ReadFromKafka, WriteToKafka
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms.external import (
    ExternalTransform,
    ImplicitSchemaPayloadBuilder,
    SchemaAwareExternalTransform,
)
from expansion_service import expansion_service, h2_database, run_sql
from harness_commands import boot_command
from job_server import JobServerProcess
from jobs import pickle_by_value
from kafka.admin import KafkaAdminClient, NewTopic
from kafka_broker import KafkaBroker

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(autouse=True, scope="module")
def _send_along() -> None:
    pickle_by_value(__name__)


@pytest.fixture(scope="module")
def service(class_path: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yields the address of an expansion service."""
    with expansion_service(tmp_path_factory.mktemp("expansion"), class_path) as address:
        yield address


@pytest.fixture(params=["embedded", "LOOPBACK", "PROCESS"])
def options(
    request: pytest.FixtureRequest, server: JobServerProcess, tmp_path: Path
) -> PipelineOptions:
    """Returns the options of a pipeline whose Python code runs in each environment."""
    flags = ["--runner=PortableRunner", f"--job_endpoint={server.address}"]
    if request.param != "embedded":
        flags.append(f"--environment_type={request.param}")
    if request.param == "PROCESS":
        # Beam's expansion service refuses `--environment_options` together with an explicit
        # environment.
        config = {"command": str(boot_command(tmp_path))}
        flags.append(f"--environment_config={json.dumps(config)}")
    return PipelineOptions(flags)


def java_transform(service: str, name: str, **config: object) -> SchemaAwareExternalTransform:
    """Returns a schema transform of the expansion service by the last part of its URN."""
    return SchemaAwareExternalTransform(
        f"beam:schematransform:org.apache.beam:{name}:v1",
        expansion_service=service,
        rearrange_based_on_discovery=True,
        **config,
    )


def test_java_sequence_is_summed_by_python(service: str, options: PipelineOptions) -> None:
    with beam.Pipeline(options=options) as pipeline:
        sums = (
            pipeline
            | java_transform(service, "generate_sequence", start=0, end=1_000)
            | beam.Map(lambda row: (row.value % 2, row.value))
            | beam.CombinePerKey(sum)
        )
        assert_that(sums, equal_to([(0, 249_500), (1, 250_000)]))


def test_jdbc_io_writes_and_reads_each_row_once(
    service: str, options: PipelineOptions, class_path: str, tmp_path: Path
) -> None:
    with h2_database(tmp_path, class_path) as url:
        run_sql(class_path, url, "create table words(id bigint, word varchar(20))")
        database = {
            "jdbc_url": url,
            "driver_class_name": "org.h2.Driver",
            "username": "sa",
            "password": "",
        }
        with beam.Pipeline(options=options) as pipeline:
            rows = [beam.Row(id=number, word=f"word {number}") for number in range(200)]
            write = java_transform(service, "jdbc_write", location="words", **database)
            _ = pipeline | beam.Create(rows) | write
        with beam.Pipeline(options=options) as pipeline:
            query = "select id, word from words"
            read = java_transform(service, "jdbc_read", read_query=query, **database)
            assert_that(pipeline | read | beam.Map(tuple), equal_to(list(map(tuple, rows))))


def read_from_kafka(
    service: str, consumer: dict[str, str], topic: str, count: int
) -> ExternalTransform:
    """Returns a read of `count` records, as Beam's `ReadFromKafka` makes it.

    The read lacks the fields that the Java version of the expansion service doesn't know yet.
    """
    config = {
        "consumer_config": consumer,
        "topics": [topic],
        "key_deserializer": ReadFromKafka.byte_array_deserializer,
        "value_deserializer": ReadFromKafka.byte_array_deserializer,
        "max_num_records": count,
        "commit_offset_in_finalize": False,
        "timestamp_policy": ReadFromKafka.processing_time_policy,
    }
    builder = ImplicitSchemaPayloadBuilder(config)
    return ExternalTransform(ReadFromKafka.URN_WITHOUT_METADATA, builder, service)


def test_kafka_io_writes_and_reads_each_record_once(
    service: str, options: PipelineOptions, broker: KafkaBroker
) -> None:
    topic = f"words-{uuid.uuid4().hex}"
    admin = KafkaAdminClient(bootstrap_servers=broker.address)
    admin.create_topics([NewTopic(topic, num_partitions=2, replication_factor=1)])
    admin.close()
    client = {"bootstrap.servers": broker.address}
    records = [(f"key {number}".encode(), f"{number}".encode()) for number in range(200)]
    with beam.Pipeline(options=options) as pipeline:
        written = pipeline | beam.Create(records).with_output_types(tuple[bytes, bytes])
        _ = written | WriteToKafka(client, topic, expansion_service=service)
    with beam.Pipeline(options=options) as pipeline:
        consumer = {**client, "auto.offset.reset": "earliest"}
        read = pipeline | read_from_kafka(service, consumer, topic, len(records))
        assert_that(read, equal_to(records))
