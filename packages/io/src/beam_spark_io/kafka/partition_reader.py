"""Reader of one Kafka partition in one bundle."""

from __future__ import annotations

import logging
import time
from collections.abc import Generator, Iterator
from typing import Any

import attrs
from apache_beam.metrics import Metrics
from apache_beam.transforms.window import TimestampedValue
from apache_beam.utils.timestamp import Duration, Timestamp

from beam_spark_io.kafka.errors import BrokersUnavailable, KafkaDataLoss
from beam_spark_io.kafka.idle_pauses import IdlePauses
from beam_spark_io.kafka.patience import log_outage, wait_for_brokers
from beam_spark_io.kafka.ports import Connection, OffsetBounds
from beam_spark_io.kafka.restrictions import ENDLESS, PartitionRange
from beam_spark_io.kafka.timestamps import PROCESSING_TIME, TimestampPolicy, advance_watermark

NAMESPACE = "kafka"
"""Namespace of the metrics."""
_LOGGER = logging.getLogger(__name__)
_FETCH_SECONDS = 1.0
"""Seconds without records after which the reader requests the first and the last offset of the
partition, if the end of the partition isn't known.
"""
_CHECK_SECONDS = 1.0
"""Seconds between two checks of the lag while records come."""
_OUTAGE_PAUSE = 2.0
"""Seconds before a stream tries unavailable brokers again. Meanwhile, the bundle is deferred and doesn't use a slot."""
_RETURN_SECONDS = 10.0
"""Seconds for which a new partition leader can report an end before the offset that was already read."""


@attrs.frozen
class ReadSettings:
    """Settings of a read.

    Attributes:
        poll_seconds: the longest pause before the next look at an idle partition.
        skips_lost: whether to continue after records that the broker has deleted before the read.
        patience: seconds for which a bounded read waits for unavailable brokers.
    """

    policy: TimestampPolicy
    poll_seconds: float
    skips_lost: bool
    patience: float


class PartitionReader:
    """Reader of one partition in one bundle.

    Args:
        tracker: Beam's restriction tracker.
        estimator: the watermark estimator.

    Attributes:
        position: the offset after the last claimed offset.
    """

    def __init__(
        self,
        settings: ReadSettings,
        connection: Connection,
        pauses: IdlePauses,
        element: PartitionRange,
        tracker: Any,
        estimator: Any,
    ) -> None:
        self._settings = settings
        self._connection = connection
        self._pauses = pauses
        self._topic, self._partition, _, stop = element
        self._is_endless = stop == ENDLESS
        self._where = f"topic {self._topic!r}, partition {self._partition}"
        self._tracker = tracker
        self._estimator = estimator
        self.position = int(tracker.current_restriction()[0])
        self._end = self.position
        self._lag = Metrics.gauge(NAMESPACE, f"lag of {self._topic}[{self._partition}]")

    def read(self) -> Iterator[TimestampedValue]:
        """Yields records until the end of the partition, or until a split removes the rest.

        Raises:
            KafkaDataLoss: The broker has deleted records that the read didn't skip.
            KafkaReadError: The brokers refuse the read.
            BrokersUnavailable: The brokers of a bounded read were unavailable for too long.
        """
        while self.position < self._tracker.current_restriction()[1]:
            checked_at = Timestamp.now()
            try:
                bounds = self._find_bounds()
                if not self._move_into_bounds(bounds):
                    return
                self._report_lag()
                if self.position >= bounds.end:
                    self._defer_rest(checked_at)
                    return
            except BrokersUnavailable as away:
                if not self._is_endless:
                    raise
                log_outage(away)
                self._tracker.defer_remainder(Duration.of(_OUTAGE_PAUSE))
                return
            is_stopped = yield from self._fetch_records()
            self._report_lag()
            if is_stopped:
                return

    def _find_bounds(self) -> OffsetBounds:
        """Returns the first and the last offset of the partition, and checks that the position is between them."""

        def request_bounds() -> OffsetBounds:
            return self._connection.find_bounds(self._topic, self._partition)

        patience = 0.0 if self._is_endless else self._settings.patience
        bounds = wait_for_brokers(request_bounds, patience)
        waited_until = time.monotonic() + _RETURN_SECONDS
        while bounds.end < self.position:
            if time.monotonic() > waited_until:
                raise KafkaDataLoss(
                    f"{self._where}, ends at offset {bounds.end}, but the job has read up to offset"
                    f" {self.position}: the topic was created again, or its brokers have lost"
                    " records. Start a new job"
                )
            time.sleep(0.2)
            bounds = wait_for_brokers(request_bounds, patience)
        self._end = bounds.end
        return bounds

    def _move_into_bounds(self, bounds: OffsetBounds) -> bool:
        """Moves the position to the first offset that the broker still has. Returns False if the
        restriction ends before it.

        Raises:
            KafkaDataLoss: The broker has deleted records that the job hasn't read.
        """
        lost = bounds.low - self.position
        if lost <= 0:
            return True
        text = (
            f"{self._where}, begins at offset {bounds.low}, so the offsets from {self.position} to"
            f" {bounds.low - 1} are lost: the broker deleted them before the job read them"
        )
        if not self._settings.skips_lost:
            raise KafkaDataLoss(
                f"{text}. Extend the retention of the topic, or continue with on_data_loss='skip'"
            )
        if not self._claim_offsets(bounds.low - 1):
            return False
        _LOGGER.error("%s. on_data_loss='skip' continues", text)
        Metrics.counter(NAMESPACE, "lost offsets").inc(lost)
        return True

    def _fetch_records(self) -> Generator[TimestampedValue, None, bool]:
        """Yields records up to the end of the partition. Returns whether a split removed the rest."""
        check_at = time.monotonic() + _CHECK_SECONDS
        while time.monotonic() < check_at:
            fetched = self._connection.fetch(
                self._topic, self._partition, self.position, _FETCH_SECONDS
            )
            read_at = Timestamp.now()
            latest: Timestamp | None = None
            for message in fetched.messages:
                if not self._claim_offsets(message.offset):
                    return True
                time_of_record = self._settings.policy.get_timestamp(message, read_at)
                if latest is None or time_of_record > latest:
                    latest = time_of_record
                yield TimestampedValue(message, time_of_record)
            if latest is not None:
                self._pauses.reset((self._topic, self._partition))
                advance_watermark(self._estimator, self._settings.policy.compute_watermark(latest))
            if fetched.end is not None:
                return fetched.end > self.position and not self._claim_offsets(fetched.end - 1)
            if not fetched.messages:
                return False
        return False

    def _defer_rest(self, checked_at: Timestamp) -> None:
        """Defers the rest of the restriction, because the partition had no further records at the last check."""
        policy = self._settings.policy
        is_idle = policy.kind == PROCESSING_TIME or not self._connection.has_hidden_records(
            self._topic, self._partition, self.position
        )
        if is_idle:
            advance_watermark(self._estimator, policy.compute_idle_watermark(checked_at))
        pause = self._pauses.take_next_pause((self._topic, self._partition))
        self._tracker.defer_remainder(Duration.of(pause))

    def _report_lag(self) -> None:
        self._lag.set(max(0, self._end - self.position))

    def _claim_offsets(self, offset: int) -> bool:
        """Claims all offsets up to the given offset. Returns False if a split has removed it from the restriction."""
        if not self._tracker.try_claim((offset, max(self._end, offset + 1))):
            return False
        self.position = offset + 1
        return True
