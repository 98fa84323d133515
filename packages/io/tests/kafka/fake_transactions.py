"""Double of the module `confluent_kafka`: transactions and offsets of one broker in memory.

As in Kafka, a new producer of a transactional ID fences the earlier one and aborts its transaction.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any


class KafkaError:
    """Error with a code."""

    _FENCED = -144

    def code(self) -> int:
        return self._FENCED

    def retriable(self) -> bool:
        return False

    def str(self) -> str:
        return "a newer producer fenced this one"


class KafkaException(Exception):
    """Exception of the client."""


class TopicPartition:
    """Position in a partition."""

    def __init__(self, topic: str, partition: int, offset: int = -1001, metadata: str = "") -> None:
        self.topic, self.partition, self.offset, self.metadata = topic, partition, offset, metadata


class Broker:
    """Committed records and offsets, and the latest epoch of each transactional ID."""

    def __init__(self) -> None:
        self.values: list[bytes] = []
        self.offsets: dict[str, TopicPartition] = {}
        self.epochs: dict[str, int] = {}

    def create_module(self) -> ModuleType:
        """Returns the client of this broker."""
        broker = self

        class Producer:
            """Producer with transactions."""

            def __init__(self, config: dict[str, Any]) -> None:
                self._id = config["transactional.id"]

            def init_transactions(self, _: float) -> None:
                self._epoch = broker.epochs[self._id] = broker.epochs.get(self._id, 0) + 1

            def begin_transaction(self) -> None:
                self._values: list[bytes] = []

            def produce(self, value: bytes, **_: Any) -> None:
                self._values.append(value)

            def send_offsets_to_transaction(
                self, offsets: list[TopicPartition], group: str, _: float
            ) -> None:
                self._group, (self._offset,) = group, offsets

            def commit_transaction(self, _: float) -> None:
                if broker.epochs[self._id] != self._epoch:
                    raise KafkaException(KafkaError())
                broker.values += self._values
                broker.offsets[self._group] = self._offset

        class Consumer:
            """Reader of committed offsets."""

            def __init__(self, config: dict[str, Any]) -> None:
                self._group = config["group.id"]

            def committed(self, partitions: list[TopicPartition], _: float) -> list[TopicPartition]:
                return [broker.offsets.get(self._group, one) for one in partitions]

            def consumer_group_metadata(self) -> str:
                return str(self._group)

            def close(self) -> None:
                """Does nothing."""

        module = ModuleType("confluent_kafka")
        for kind in (Producer, Consumer, TopicPartition, KafkaError, KafkaException):
            setattr(module, kind.__name__, kind)
        return module
