"""`WriteToKafka`, which writes records once into topics, for readers of committed records.

One commit is one Kafka transaction. The transaction also stores the number of the commit, as an
offset of a consumer group without members. `init_transactions` ends an open transaction of an
earlier process of the shard. The committer reads the number of the last commit only after this
call.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import apache_beam as beam
import attrs
from apache_beam.pvalue import PCollection

from beam_spark_io.exactly_once.protocols import (
    CommitId,
    CommitMark,
    SinkUnavailable,
    is_committed,
)
from beam_spark_io.exactly_once.transform import WriteExactlyOnce
from beam_spark_io.kafka.client import check_config, ignore_error, is_unavailable

_SECONDS = 30.0
_PRODUCER = {
    "transaction.timeout.ms": 30_000,
    # Use a short retry pause: the first request after a commit fails because the previous
    # transaction still ends, and the default pause is 100 ms.
    "retry.backoff.ms": 5,
    "linger.ms": 5,
    # A delivery without an error needs no callback.
    "delivery.report.only.error": True,
    # Report an unknown topic early. After the time limit of a commit, the error wouldn't contain this reason.
    "topic.metadata.propagation.max.ms": 10_000,
}
_OF_CONNECTIONS = ("bootstrap.", "security.", "sasl.", "ssl.", "socket.", "client.", "broker.")
"""Prefixes of the connection properties that the consumer of commit marks shares with the producer."""


@attrs.frozen
class KafkaRecord:
    """Record for `WriteToKafka`.

    Attributes:
        value: the value; None is a tombstone.
        key: the key, which chooses the partition and the order.
        headers: pairs of a name and a value.
        topic: the topic; empty for the topic of the transform.
        partition: the partition; None lets the client choose by the key.
        timestamp: the time in milliseconds since 1970; None for the time of the commit.
    """

    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes], ...] = ()
    topic: str = ""
    partition: int | None = None
    timestamp: int | None = None

    def __reduce__(self) -> tuple[type[KafkaRecord], tuple[Any, ...]]:
        """Pickles the record as a call, because the state of an object with slots takes several times as long."""
        return KafkaRecord, attrs.astuple(self, recurse=False)


class WriteToKafka(beam.PTransform):
    """Transform that writes `KafkaRecord` elements, or pairs of a key and a value, once into Kafka.

    Readers must read committed records (``isolation.level=read_committed``). Records of one key have the
    order of the bundles. The retention of the broker's offsets must be longer than the longest outage of
    the job. The transform needs the extra ``kafka``.

    Args:
        config: properties of librdkafka, with ``bootstrap.servers``.
        topic: topic of records without a topic; must exist.
        shards: number of producers.
        options: further arguments of `WriteExactlyOnce`.

    Raises:
        ValueError: The configuration lacks the brokers, or has a property that the transform sets.
    """

    def __init__(
        self, config: Mapping[str, Any], topic: str, shards: int = 1, **options: Any
    ) -> None:
        super().__init__()
        check_config(config, "WriteToKafka", ("transactional.id",))
        self._write = WriteExactlyOnce(KafkaSink(dict(config), topic, shards), **options)

    def expand(self, records: PCollection[Any]) -> PCollection[Any]:
        """Returns the results of the commits; each has the number of records."""
        results: PCollection[Any] = records | "Records" >> self._write
        return results


class KafkaSink:
    """Sink of `WriteToKafka`."""

    def __init__(self, config: Mapping[str, Any], topic: str, shards: int) -> None:
        self.shards = shards
        self._config = config
        self._topic = topic
        self._next = 0

    def select_shard(self, element: KafkaRecord | tuple[bytes | None, bytes | None]) -> int:
        """Returns the shard of a record's key. Records without a key go to the shards in round-robin order."""
        key = _make_record(element).key
        if key is not None:
            return zlib.crc32(key) % self.shards
        self._next = (self._next + 1) % self.shards
        return self._next

    def create_committer(self, run: str, shard: int) -> KafkaCommitter:
        """Creates a committer with a producer, and ends an open transaction of an earlier producer of the shard."""
        return KafkaCommitter(self._config, self._topic, f"beam-{run}-{shard}")


class KafkaCommitter:
    """Committer of one shard, which writes the records of a commit in one Kafka transaction.

    Args:
        topic: default topic of records, and topic of the commit mark (record of the last commit).
        name: transactional ID, and name of the consumer group that stores the commit mark.
    """

    def __init__(self, config: Mapping[str, Any], topic: str, name: str) -> None:
        # User code of other sinks doesn't have the client.
        from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

        self._topic = topic
        self._partition = TopicPartition
        self._error = KafkaException
        self._producer: Any = None
        self._marks: Any = None
        shared = {key: value for key, value in config.items() if key.startswith(_OF_CONNECTIONS)}
        try:
            with _convert_errors():
                # Calls of the client report errors. Without this callback, the client would raise them
                # between two other callbacks.
                own = {"transactional.id": name, "error_cb": ignore_error}
                self._producer = Producer({**_PRODUCER, **config, **own})
                self._producer.init_transactions(_SECONDS)
                self._marks = Consumer(
                    {
                        **shared,
                        "group.id": name,
                        "isolation.level": "read_committed",
                        "enable.auto.commit": False,
                        "error_cb": ignore_error,
                    }
                )
                (found,) = self._marks.committed([TopicPartition(topic, 0)], _SECONDS)
                if found.error is not None:
                    # Without this check, the mark would seem to be lost.
                    raise KafkaException(found.error)
        except BaseException:
            self.close()
            raise
        has_mark = found.offset > 0
        digest = bytes.fromhex(found.metadata or "") if has_mark else b""
        self._mark = CommitMark(found.offset, digest) if has_mark else CommitMark()

    def commit(self, commit_id: CommitId, elements: Sequence[Any]) -> int:
        """Writes records and the commit's number in one transaction; returns the number of records."""
        if not is_committed(commit_id, self._mark):
            with _convert_errors():
                self._producer.begin_transaction()
                failures = self._produce_records(elements)
                mark = self._partition(
                    self._topic, 0, commit_id.number, metadata=commit_id.digest.hex()
                )
                group = self._marks.consumer_group_metadata()
                try:
                    self._producer.send_offsets_to_transaction([mark], group, _SECONDS)
                    self._producer.commit_transaction(_SECONDS)
                except self._error as error:
                    # Prefer the error of a record, because the error of its transaction is less specific.
                    raise (self._error(failures[0]) if failures else error) from error
            self._mark = CommitMark(commit_id.number, commit_id.digest)
        return len(elements)

    def close(self) -> None:
        """Ends the producer, and closes the consumer that reads commit marks (records of the last
        commits). The next producer of the shard ends an open transaction.
        """
        # Without references, the client ends the producer. The traceback of an error can refer to this
        # committer for long. The producer would still initialize itself after an outage, and fence its
        # successor.
        self._producer = None
        if self._marks is not None:
            self._marks.close()

    def _produce_records(self, elements: Sequence[Any]) -> list[Any]:
        """Hands records to the client; returns a list that gets the errors of deliveries."""
        failures: list[Any] = []

        def record_delivery(error: Any, _: Any) -> None:
            if error is not None:
                failures.append(error)

        for element in elements:
            record = _make_record(element)
            arguments: dict[str, Any] = {
                "topic": record.topic or self._topic,
                "value": record.value,
                "key": record.key,
                "headers": list(record.headers),
                "on_delivery": record_delivery,
                **({} if record.partition is None else {"partition": record.partition}),
                **({} if record.timestamp is None else {"timestamp": record.timestamp}),
            }
            while True:
                try:
                    self._producer.produce(**arguments)
                    break
                except BufferError:  # The queue of the client is full.
                    self._producer.poll(0.1)
        return failures


def _make_record(element: KafkaRecord | tuple[bytes | None, bytes | None]) -> KafkaRecord:
    return element if isinstance(element, KafkaRecord) else KafkaRecord(element[1], element[0])


@contextmanager
def _convert_errors() -> Iterator[None]:
    from confluent_kafka import KafkaException

    try:
        yield
    except (KafkaException, SystemError) as error:
        # After a fatal error, the Kafka client calls a callback while its KafkaException is already
        # pending. Python then raises SystemError, with the KafkaException as the cause.
        reason = error if isinstance(error, KafkaException) else error.__cause__
        if not isinstance(reason, KafkaException):
            raise
        found = reason.args[0]
        if not is_unavailable(found):
            raise
        raise SinkUnavailable(f"Kafka doesn't accept the commit: {found.str()}") from error
