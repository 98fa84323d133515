"""Connection to the brokers by `confluent_kafka`: requests about offsets, and fetches of one partition.

One Kafka consumer reads all partitions of a DoFn, one at a time. It never joins its group: the
runner assigns partitions, and the job's journal has the offsets.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from beam_spark_io.kafka.client import is_unavailable
from beam_spark_io.kafka.errors import BrokersUnavailable, KafkaReadError
from beam_spark_io.kafka.messages import APPEND_TIME, CREATE_TIME, KafkaHeader, KafkaMessage
from beam_spark_io.kafka.ports import FetchResult, OffsetBounds

OWN_PROPERTIES = ("enable.auto.commit", "auto.offset.reset", "enable.partition.eof")
"""Properties that the connection sets."""
_DEFAULTS = {
    "group.id": "beam",  # The client requires a group, also if it stores no offsets.
    "isolation.level": "read_committed",
    # Limit the time of a fetch at the end of a partition, because it delays the first fetch of the next partition.
    "fetch.wait.max.ms": 50,
    # Limit the prefetch, because records that the client has fetched in advance are dropped when
    # the partition changes.
    "queued.min.messages": 20_000,
    "queued.max.messages.kbytes": 16_384,
}
_OWN = {
    "enable.auto.commit": False,
    # Raise an error if the broker has deleted records. By default, the client would silently
    # continue at another offset.
    "auto.offset.reset": "error",
    "enable.partition.eof": True,
}
_SECONDS = 5.0
_MOST = 1000
"""Maximum number of records of one fetch."""
_TIMESTAMP_TYPES = {1: CREATE_TIME, 2: APPEND_TIME}


class KafkaConnection:
    """Connection of one DoFn to the brokers."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        # Import here, because the Kafka client is an optional dependency.
        import confluent_kafka

        self.addresses = str(config["bootstrap.servers"])
        self._kafka = confluent_kafka
        self._config = {**_DEFAULTS, **config, **_OWN}
        self._reason = ""
        self._consumer = self._create_consumer(self._config)
        self._probe: Any = None
        self._next: tuple[str, int, int] | None = None
        """Topic, partition and offset of the next fetch."""

    def count_partitions(self, topic: str) -> int | None:
        return self._update_topic(self._consumer, topic)

    def find_bounds(self, topic: str, partition: int) -> OffsetBounds:
        return self._request_bounds(self._consumer, topic, partition)

    def has_hidden_records(self, topic: str, partition: int, end: int) -> bool:
        if self._config["isolation.level"] != "read_committed":
            return False
        if self._probe is None:
            self._probe = self._create_consumer(
                {**self._config, "isolation.level": "read_uncommitted"}
            )
        return self._request_bounds(self._probe, topic, partition).end > end

    def find_offset_at(self, topic: str, partition: int, time: int) -> int | None:
        asked = self._kafka.TopicPartition(topic, partition, time)
        with self._convert_errors(f"topic {topic!r}, partition {partition}"):
            (found,) = self._consumer.offsets_for_times([asked], _SECONDS)
            return self._read_offset(found)

    def find_committed_offset(self, topic: str, partition: int) -> int | None:
        asked = self._kafka.TopicPartition(topic, partition)
        with self._convert_errors(f"the group {self._config['group.id']!r}"):
            (found,) = self._consumer.committed([asked], _SECONDS)
            return self._read_offset(found)

    def fetch(self, topic: str, partition: int, offset: int, seconds: float) -> FetchResult:
        """Returns records from an offset on, as soon as there are any, or nothing after a time."""
        if self._next != (topic, partition, offset):
            self._consumer.assign([self._kafka.TopicPartition(topic, partition, offset)])
        first = self._consumer.poll(seconds)
        events = [] if first is None else [first, *self._consumer.consume(_MOST, 0)]
        messages = []
        end: int | None = None
        for event in events:
            if event.error() is None:
                messages.append(_make_message(event))
                offset, end = event.offset() + 1, None
            elif event.error().code() == self._kafka.KafkaError._PARTITION_EOF:
                end = event.offset()
            else:
                self._check_event(event.error(), topic, partition)
                self._next = None
                return FetchResult(messages)
        self._next = (topic, partition, offset if end is None else max(offset, end))
        return FetchResult(messages, end)

    def commit(self, topic: str, partition: int, offset: int) -> None:
        self._consumer.commit(offsets=[self._kafka.TopicPartition(topic, partition, offset)])

    def close(self) -> None:
        self._consumer.close()
        if self._probe is not None:
            self._probe.close()

    def _create_consumer(self, config: Mapping[str, Any]) -> Any:
        try:
            return self._kafka.Consumer({**config, "error_cb": self._record_error})
        except self._kafka.KafkaException as failure:
            reason = failure.args[0].str()
            raise KafkaReadError(f"librdkafka refuses the config: {reason}") from failure

    def _record_error(self, error: Any) -> None:
        self._reason = error.str()

    def _update_topic(self, consumer: Any, topic: str) -> int | None:
        """Updates the client's copy of the partitions of a topic, and returns their number."""
        with self._convert_errors(f"topic {topic!r}"):
            found = consumer.list_topics(topic, _SECONDS).topics[topic]
            if found.error is not None:
                if found.error.code() in self._list_missing_codes():
                    return None
                raise self._kafka.KafkaException(found.error)
            return len(found.partitions)

    def _request_bounds(self, consumer: Any, topic: str, partition: int) -> OffsetBounds:
        try:
            return self._try_bounds(consumer, topic, partition)
        except KafkaReadError:
            # Update the client's metadata, because by default the client finds new partitions only
            # every five minutes.
            count = self._update_topic(consumer, topic)
            if count is None or partition >= count:
                raise
        return self._try_bounds(consumer, topic, partition)

    def _try_bounds(self, consumer: Any, topic: str, partition: int) -> OffsetBounds:
        asked = self._kafka.TopicPartition(topic, partition)
        with self._convert_errors(f"topic {topic!r}, partition {partition}"):
            found = consumer.get_watermark_offsets(asked, _SECONDS)
            if found is None:
                raise BrokersUnavailable(self._describe_outage("no answer"))
            return OffsetBounds(*found)

    def _read_offset(self, found: Any) -> int | None:
        """Returns an offset of an answer; None for the client's negative codes."""
        if found.error is not None:
            raise self._kafka.KafkaException(found.error)
        return found.offset if found.offset >= 0 else None

    def _check_event(self, error: Any, topic: str, partition: int) -> None:
        """Raises the error that a fetch reported, unless a request for the partition's offsets
        gives a clearer error.
        """
        kafka = self._kafka.KafkaError
        known = (kafka._AUTO_OFFSET_RESET, kafka.OFFSET_OUT_OF_RANGE, *self._list_missing_codes())
        if error.code() not in known and not is_unavailable(error):
            raise KafkaReadError(
                f"Kafka refuses to read topic {topic!r}, partition {partition}: {error.str()}"
            )

    def _list_missing_codes(self) -> tuple[int, ...]:
        kafka = self._kafka.KafkaError
        return kafka.UNKNOWN_TOPIC_OR_PART, kafka._UNKNOWN_TOPIC, kafka._UNKNOWN_PARTITION

    def _describe_outage(self, text: str) -> str:
        # The poll calls `_record_error`. The poll can drop a record, so the next fetch must seek.
        self._next = None
        self._consumer.poll(0)
        return f"Kafka is unavailable at {self.addresses}: {self._reason or text}"

    @contextmanager
    def _convert_errors(self, what: str) -> Iterator[None]:
        try:
            yield
            self._reason = ""
        except self._kafka.KafkaException as failure:
            error = failure.args[0]
            if error.code() in self._list_missing_codes():
                raise KafkaReadError(
                    f"{what} doesn't exist in Kafka at {self.addresses}: create it, or correct its"
                    " name"
                ) from failure
            if is_unavailable(error):
                raise BrokersUnavailable(self._describe_outage(error.str())) from failure
            raise KafkaReadError(f"Kafka refuses to read {what}: {error.str()}") from failure


def _make_message(event: Any) -> KafkaMessage:
    kind, time = event.timestamp()
    name = _TIMESTAMP_TYPES.get(kind, "")
    headers = [KafkaHeader(*one) for one in event.headers() or ()]
    return KafkaMessage(
        event.topic(),
        event.partition(),
        event.offset(),
        event.key(),
        event.value(),
        headers,
        time if name else None,
        name,
    )
