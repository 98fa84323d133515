"""Common part of streams of Delta and Iceberg tables: each version of a table is one position."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import attrs
from apache_beam.transforms.window import TimestampedValue
from apache_beam.utils.timestamp import Duration, Timestamp

from beam_spark_io.tables.outages import TableUnavailable, log_wait

MOST_VERSIONS = 100
"""Maximum number of versions that one bundle lists."""


@attrs.frozen
class TableVersion:
    """Version of a table.

    Attributes:
        number: position of the version in the stream.
        time: time of the version; None if its writer hasn't recorded one.
        tasks: descriptions of the files that the version adds.
    """

    number: int
    time: Timestamp | None
    tasks: Sequence[Any]


def check_poll_seconds(poll_seconds: float) -> None:
    """Refuses a negative pause.

    Raises:
        ValueError: The pause is negative.
    """
    if poll_seconds < 0:
        raise ValueError(f"poll_seconds is {poll_seconds}; expected at least 0")


def emit_version_tasks(
    versions: Iterable[TableVersion], tracker: Any, estimator: Any, poll_seconds: float
) -> Iterator[TimestampedValue]:
    """Yields the tasks of versions in order, and defers the later versions.

    Args:
        versions: the next versions, at most `MOST_VERSIONS`.
        tracker: tracker of the positions.
        estimator: estimator of the watermark.
        poll_seconds: pause before the next look for a new version.
    """
    now, count = Timestamp.now(), 0
    try:
        for version in versions:
            if not tracker.try_claim(version.number):
                return
            # A later version can have an earlier time, so the watermark is the lower limit.
            time = max(version.time or now, estimator.current_watermark() or now)
            for task in version.tasks:
                yield TimestampedValue(task, time)
            estimator.set_watermark(time)
            count += 1
    except TableUnavailable as away:
        log_wait(away)
        tracker.defer_remainder(Duration.of(poll_seconds))
        return
    if count < MOST_VERSIONS:
        estimator.set_watermark(max(now, estimator.current_watermark() or now))
    tracker.defer_remainder(Duration.of(poll_seconds if count < MOST_VERSIONS else 0))
