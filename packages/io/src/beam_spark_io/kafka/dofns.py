"""DoFns of `ReadFromKafka`: `DiscoverPartitions` finds the partitions of topics, and `ReadPartitions` reads them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any

import apache_beam as beam
import attrs
from apache_beam.io.watermark_estimators import ManualWatermarkEstimator
from apache_beam.transforms.window import TimestampedValue
from apache_beam.utils.timestamp import MIN_TIMESTAMP, Duration, Timestamp

from beam_spark_io.kafka.errors import BrokersUnavailable, KafkaReadError
from beam_spark_io.kafka.idle_pauses import IdlePauses
from beam_spark_io.kafka.partition_reader import PartitionReader, ReadSettings
from beam_spark_io.kafka.patience import log_outage, wait_for_brokers
from beam_spark_io.kafka.ports import Connect, Connection
from beam_spark_io.kafka.positions import EARLIEST, KafkaPosition, find_offset
from beam_spark_io.kafka.restrictions import (
    ENDLESS,
    OffsetRestrictions,
    PartitionRange,
    TopicRestrictions,
)
from beam_spark_io.kafka.timestamps import TimestampPolicy, advance_watermark

_LOGGER = logging.getLogger(__name__)
_FIRST_PAUSE = 0.02
_ESTIMATOR: Any = beam.DoFn.WatermarkEstimatorParam(ManualWatermarkEstimator.default_provider())
_PARTITIONS: Any = beam.DoFn.RestrictionParam(TopicRestrictions())
_OFFSETS: Any = beam.DoFn.RestrictionParam(OffsetRestrictions())
_FINALIZER: Any = beam.DoFn.BundleFinalizerParam


class ConnectedDoFn(beam.DoFn):
    """Base class of DoFns with one connection to Kafka, which is opened for the first element.

    Args:
        connect: function that makes the connection.
    """

    def __init__(self, connect: Connect) -> None:
        self._connect = connect

    def setup(self) -> None:
        """Initializes the DoFn without a connection."""
        self._connection: Connection | None = None

    def teardown(self) -> None:
        """Closes the connection."""
        if self._connection is not None:
            self._connection.close()

    def get_connection(self) -> Connection:
        """Returns the connection."""
        if self._connection is None:
            self._connection = self._connect()
        return self._connection


@attrs.frozen
class DiscoverySettings:
    """Settings of the discovery of partitions.

    Attributes:
        start: the position at which the first partitions start. Partitions that are created later
            start at the earliest offset.
        stop: the position at which they stop; None for a stream.
        every: seconds between two checks for new partitions; None for a single check.
        patience: seconds for which the first check waits for unavailable brokers.
    """

    start: KafkaPosition
    stop: KafkaPosition | None
    every: float | None
    policy: TimestampPolicy
    patience: float


class DiscoverPartitions(ConnectedDoFn):
    """Splittable DoFn that emits each partition of a topic once. Its restriction is a range of
    partition numbers.

    Args:
        connect: function that makes the connection.
    """

    def __init__(self, connect: Connect, settings: DiscoverySettings) -> None:
        super().__init__(connect)
        self._settings = settings

    def process(
        self, element: str, tracker: Any = _PARTITIONS, estimator: Any = _ESTIMATOR
    ) -> Iterator[TimestampedValue]:
        """Emits the partitions of a topic with the offsets at which they start and stop."""
        yield from self._discover_partitions(element, tracker, estimator)

    def _discover_partitions(
        self, topic: str, tracker: Any, estimator: Any
    ) -> Iterator[TimestampedValue]:
        known, settings = tracker.current_restriction()[0], self._settings
        checked_at = Timestamp.now()

        def request_partition_count() -> list[PartitionRange]:
            return self._list_new_partitions(topic, known)

        try:
            found = wait_for_brokers(request_partition_count, 0 if known else settings.patience)
        except BrokersUnavailable as away:
            if not known:
                raise
            log_outage(away)
            tracker.defer_remainder(Duration.of(max(1.0, settings.every or 0.0)))
            return
        # Set the watermark to the time of the previous check: partitions that are found by the next
        # check don't have older records.
        time = estimator.current_watermark() or MIN_TIMESTAMP
        if found:
            if not tracker.try_claim((known + len(found) - 1, 0)):
                return
            for one in found:
                yield TimestampedValue(one, time)
        if settings.every is None:
            tracker.try_claim((ENDLESS, 0))
            return
        watermark = settings.policy.compute_discovery_watermark(checked_at, settings.every)
        advance_watermark(estimator, watermark)
        tracker.defer_remainder(Duration.of(settings.every))

    def _list_new_partitions(self, topic: str, known: int) -> list[PartitionRange]:
        connection, settings = self.get_connection(), self._settings
        count = connection.count_partitions(topic)
        if count is None:
            raise KafkaReadError(
                f"topic {topic!r} doesn't exist in Kafka at {connection.addresses}: create it, or"
                " correct its name"
            )
        start = KafkaPosition(EARLIEST) if known else settings.start
        found = []
        for number in range(known, count):
            first = find_offset(connection, start, topic, number)
            stop = ENDLESS
            if settings.stop is not None:
                stop = max(first, find_offset(connection, settings.stop, topic, number))
            found.append((topic, number, first, stop))
        if known and found:
            _LOGGER.info("topic %r has %d new partitions", topic, len(found))
        return found


class DiscoverPartitionsForever(DiscoverPartitions):
    """Unbounded variant for streams."""

    @beam.DoFn.unbounded_per_element()
    def process(
        self, element: str, tracker: Any = _PARTITIONS, estimator: Any = _ESTIMATOR
    ) -> Iterator[TimestampedValue]:
        """Emits the partitions of a topic with the offsets at which they start."""
        yield from self._discover_partitions(element, tracker, estimator)


class ReadPartitions(ConnectedDoFn):
    """DoFn that reads partitions.

    Args:
        connect: function that makes the connection.
        commits: whether the DoFn stores offsets for the consumer group after the commit of a bundle.
    """

    def __init__(self, connect: Connect, settings: ReadSettings, *, commits: bool) -> None:
        super().__init__(connect)
        self._settings = settings
        self._commits = commits

    def setup(self) -> None:
        """Initializes the DoFn without a connection."""
        super().setup()
        self._pauses = IdlePauses(_FIRST_PAUSE, self._settings.poll_seconds)

    def process(
        self,
        element: PartitionRange,
        finalizer: Any = _FINALIZER,  # Beam passes the other two by name.
        tracker: Any = _OFFSETS,
        estimator: Any = _ESTIMATOR,
    ) -> Iterator[TimestampedValue]:
        """Emits the records of a partition."""
        yield from self._read_partition(element, tracker, estimator, finalizer)

    def _read_partition(
        self, element: PartitionRange, tracker: Any, estimator: Any, finalizer: Any
    ) -> Iterator[TimestampedValue]:
        connection = self.get_connection()
        reader = PartitionReader(
            self._settings, connection, self._pauses, element, tracker, estimator
        )
        first = reader.position
        yield from reader.read()
        if self._commits and reader.position > first:
            finalizer.register(make_offset_commit_callback(connection, element, reader.position))


class ReadPartitionsForever(ReadPartitions):
    """Unbounded variant for streams."""

    @beam.DoFn.unbounded_per_element()
    def process(
        self,
        element: PartitionRange,
        finalizer: Any = _FINALIZER,  # Beam passes the other two by name.
        tracker: Any = _OFFSETS,
        estimator: Any = _ESTIMATOR,
    ) -> Iterator[TimestampedValue]:
        """Emits the records of a partition."""
        yield from self._read_partition(element, tracker, estimator, finalizer)


def make_offset_commit_callback(
    connection: Connection, element: PartitionRange, offset: int
) -> Callable[[], None]:
    """Returns a callback that stores an offset for the consumer group."""
    topic, partition, _, _ = element

    def commit_offset() -> None:
        try:
            connection.commit(topic, partition, offset)
        except Exception:  # The offsets of the group inform others; the job doesn't need them.
            _LOGGER.warning("can't store offset %d of %s[%d]", offset, topic, partition)

    return commit_offset
