"""Double of the module `confluent_kafka`: transactions and offsets of one broker in memory.

As in Kafka, a new producer of a transactional ID fences the earlier one and aborts its transaction.
"""

from __future__ import annotations

import weakref
from types import ModuleType
from typing import Any


class KafkaError:
    """Error with a code."""

    _FENCED = -144
    _TRANSPORT = -195

    def __init__(self, code: int = _FENCED, text: str = "a newer producer fenced this one") -> None:
        self._code, self._text = code, text

    def code(self) -> int:
        return self._code

    def retriable(self) -> bool:
        return False

    def str(self) -> str:
        return self._text


class KafkaException(Exception):
    """Exception of the client."""


class TopicPartition:
    """Position in a partition."""

    def __init__(self, topic: str, partition: int, offset: int = -1001, metadata: str = "") -> None:
        self.topic, self.partition, self.offset, self.metadata = topic, partition, offset, metadata
        self.error: KafkaError | None = None


class Broker:
    """Committed records and offsets, and the latest epoch of each transactional ID.

    Attributes:
        failing: name of the client's method that finds the broker unavailable; empty without an outage.
        offset_error: error of the next answers about committed offsets.
        producers: producers that the program still refers to.
    """

    def __init__(self) -> None:
        self.failing = ""
        self.offset_error: KafkaError | None = None
        self.values: list[bytes] = []
        self.offsets: dict[str, TopicPartition] = {}
        self.epochs: dict[str, int] = {}
        self.producers: weakref.WeakSet[Any] = weakref.WeakSet()

    def fail(self, method: str) -> None:
        """Raises the client's error for brokers that don't respond, if this method finds an outage."""
        if method == self.failing:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT, "all brokers are down"))

    def create_module(self) -> ModuleType:
        """Returns the client of this broker."""
        broker = self

        class Producer:
            """Producer with transactions."""

            def __init__(self, config: dict[str, Any]) -> None:
                self._id = config["transactional.id"]
                broker.producers.add(self)

            def init_transactions(self, _: float) -> None:
                broker.fail("init_transactions")
                self._epoch = broker.epochs[self._id] = broker.epochs.get(self._id, 0) + 1

            def begin_transaction(self) -> None:
                self._values: list[bytes] = []

            def produce(self, value: bytes, **_: Any) -> None:
                self._values.append(value)

            def send_offsets_to_transaction(
                self, offsets: list[TopicPartition], group: str, _: float
            ) -> None:
                broker.fail("send_offsets_to_transaction")
                self._group, (self._offset,) = group, offsets

            def commit_transaction(self, _: float) -> None:
                broker.fail("commit_transaction")
                if broker.epochs[self._id] != self._epoch:
                    raise KafkaException(KafkaError())
                broker.values += self._values
                broker.offsets[self._group] = self._offset

        class Consumer:
            """Reader of committed offsets."""

            def __init__(self, config: dict[str, Any]) -> None:
                self._group = config["group.id"]

            def committed(self, partitions: list[TopicPartition], _: float) -> list[TopicPartition]:
                broker.fail("committed")
                found = [broker.offsets.get(self._group, one) for one in partitions]
                for one in found:
                    one.error = broker.offset_error
                return found

            def consumer_group_metadata(self) -> str:
                return str(self._group)

            def close(self) -> None:
                """Does nothing."""

        module = ModuleType("confluent_kafka")
        for kind in (Producer, Consumer, TopicPartition, KafkaError, KafkaException):
            setattr(module, kind.__name__, kind)
        return module
