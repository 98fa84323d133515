"""Timestamp policies of the Kafka source: the event time of records, and the watermark of a
partition.

| policy | time of a record | watermark while records come | watermark of an idle partition |
|---|---|---|---|
| ``ProcessingTime`` | when the job reads it | the same | time of the last check |
| ``LogAppendTime`` | when the broker appended it | time of the last record | time of the last check, less a second |
| ``CreateTime``, a function | when its producer made it, or the result of the function | latest time, less `max_delay` | time of the last check, less `max_delay` |

A partition is idle if a check found no new records.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import attrs
from apache_beam.utils.timestamp import Duration, Timestamp

from beam_spark_io.kafka.errors import KafkaReadError
from beam_spark_io.kafka.messages import APPEND_TIME, CREATE_TIME, KafkaMessage

PROCESSING_TIME = "ProcessingTime"
_CLOCK_SKEW = 1.0
"""Tolerated clock difference between brokers and workers in seconds, by which the watermark of an
idle partition is delayed.
"""
TimestampFunction: TypeAlias = Callable[[KafkaMessage], Any]
"""Function that returns the time of a record, in seconds since 1970 or as a `Timestamp`."""


@attrs.frozen
class TimestampPolicy:
    """Policy for event times and watermarks.

    Attributes:
        kind: the name of the policy; empty for a function.
        function: the function.
        max_delay: maximum seconds by which a record's time is behind the latest time before it.
        idle_delay: seconds by which the watermark of an idle partition is behind the clock.
    """

    kind: str
    function: TimestampFunction | None
    max_delay: float
    idle_delay: float

    def get_timestamp(self, message: KafkaMessage, read_at: Timestamp) -> Timestamp:
        """Returns the event time of a record.

        Raises:
            KafkaReadError: The record doesn't have the time of the policy.
        """
        if self.kind == PROCESSING_TIME:
            return read_at
        if self.function is not None:
            return Timestamp.of(self.function(message))
        wrong = self.kind == APPEND_TIME and message.timestamp_type != APPEND_TIME
        if message.timestamp is None or wrong:
            raise KafkaReadError(
                f"the record {message.offset} of topic {message.topic!r}, partition"
                f" {message.partition}, has no {self.kind}, but"
                f" {message.timestamp_type or 'no time'}: choose another timestamp_policy, or set"
                " message.timestamp.type of the topic"
            )
        return Timestamp(micros=1000 * message.timestamp)

    def compute_watermark(self, latest: Timestamp) -> Timestamp:
        """Returns the watermark after records up to a latest event time."""
        return latest - Duration.of(self.max_delay)

    def compute_idle_watermark(self, checked_at: Timestamp) -> Timestamp:
        """Returns the watermark of a partition that had no further records at a time."""
        return checked_at - Duration.of(self.idle_delay)

    def compute_discovery_watermark(self, checked_at: Timestamp, pause: float) -> Timestamp:
        """Returns a watermark that is before all records of partitions that are created after a
        check.

        Args:
            checked_at: the time of the check.
            pause: the seconds to the next check.
        """
        if self.kind == PROCESSING_TIME:
            return checked_at + Duration.of(pause)
        return self.compute_idle_watermark(checked_at)


def make_timestamp_policy(policy: str | TimestampFunction, max_delay: float) -> TimestampPolicy:
    """Returns the policy of the arguments of the transform.

    Raises:
        ValueError: The policy is unknown, or doesn't have a delay.
    """
    if max_delay < 0:
        raise ValueError(f"max_delay is {max_delay!r}; expected at least 0 seconds")
    if not isinstance(policy, str):
        return TimestampPolicy("", policy, max_delay, max_delay)
    if policy == CREATE_TIME:
        return TimestampPolicy(policy, None, max_delay, max_delay)
    if policy not in (PROCESSING_TIME, APPEND_TIME):
        raise ValueError(
            f"timestamp_policy is {policy!r}; expected {PROCESSING_TIME!r}, {APPEND_TIME!r},"
            f" {CREATE_TIME!r}, or a function of a KafkaMessage"
        )
    if max_delay:
        raise ValueError(f"max_delay is {max_delay!r}; {policy} has no delay")
    return TimestampPolicy(policy, None, 0.0, 0.0 if policy == PROCESSING_TIME else _CLOCK_SKEW)


def advance_watermark(estimator: Any, watermark: Timestamp) -> None:
    """Sets the watermark of an estimator, unless the estimator's watermark is already later."""
    known = estimator.current_watermark()
    if known is None or watermark > known:
        estimator.set_watermark(watermark)
