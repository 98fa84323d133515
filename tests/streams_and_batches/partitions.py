"""Partitions of an unbounded source as data, and the splittable DoFn that plays them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

import apache_beam as beam
from apache_beam.io.restriction_trackers import OffsetRange, OffsetRestrictionTracker
from apache_beam.io.watermark_estimators import ManualWatermarkEstimator
from apache_beam.transforms.core import RestrictionProvider
from apache_beam.transforms.window import TimestampedValue
from apache_beam.utils.timestamp import MAX_TIMESTAMP, Duration, Timestamp

Action: TypeAlias = tuple[Any, ...]
"""An action of a source.

- ``("element", key, value, time)``: returns an element; the time is in milliseconds.
- ``("late", key, value, time)``: returns an element that the watermark doesn't wait for.
- ``("sleep", milliseconds)``: waits in the call.
- ``("defer", milliseconds)``: returns from the call, to be resumed after this delay.
- ``("checkpoint",)``: the same without a delay.
- ``("wait", path)``: waits until a file exists, with checkpoints.
"""
Partition: TypeAlias = tuple[int, tuple[Action, ...]]
"""The slack of the watermark in milliseconds, and the actions of one restriction."""
RETURNS = ("element", "late")
"""Kinds of actions that return an element."""
_LOOK_SECONDS = 0.05
"""Pause between two looks at a file."""


def elements(partition: Partition) -> list[Action]:
    """Returns the actions of a partition that return an element."""
    return [action for action in partition[1] if action[0] in RETURNS]


def watermarks(partition: Partition) -> list[int | None]:
    """Returns the watermark (ms) that holds before each action; None at the end of time.

    The watermark is the least timestamp of all later elements that it waits for, minus the slack.
    If only late elements and waits follow, it is beyond all timestamps of the partition.
    """
    slack, actions = partition
    last = max((action[3] for action in elements(partition)), default=0)
    least: int | None = None
    found: list[int | None] = []
    for action in reversed(actions):
        if action[0] == "element":
            least = action[3] if least is None else min(least, action[3])
        elif action[0] in ("late", "wait") and least is None:
            least = last + 1
        found.append(None if least is None else least - slack)
    return found[::-1]


def truncated(partition: Partition, values: set[int]) -> Partition | None:
    """Returns the partition up to the last of the given values; None if these values aren't a prefix."""
    found = [position for position, action in enumerate(partition[1]) if _is_given(action, values)]
    actions = partition[1][: found[-1] + 1 if found else 0]
    if len(found) != len(elements((0, actions))):
        return None
    return partition[0], actions


def _is_given(action: Action, values: set[int]) -> bool:
    return action[0] in RETURNS and action[2] in values


class Tracker(OffsetRestrictionTracker):
    """Tracker of offsets with an unknown end, so that a drain truncates them."""

    def is_bounded(self) -> bool:
        """Returns False."""
        return False


class Actions(RestrictionProvider):
    """The offsets of a partition's actions."""

    def initial_restriction(self, element: Partition) -> OffsetRange:
        """Returns all offsets."""
        return OffsetRange(0, len(element[1]))

    def create_tracker(self, restriction: OffsetRange) -> Tracker:
        """Returns a tracker that claims one offset after the other."""
        return Tracker(restriction)

    def restriction_size(self, element: Partition, restriction: OffsetRange) -> int:
        """Returns the number of actions."""
        return restriction.size()


class Play(beam.DoFn):
    """Plays partitions: returns their elements, waits, and reports the watermark."""

    @beam.DoFn.unbounded_per_element()
    def process(
        self,
        element: Partition,
        tracker: Any = beam.DoFn.RestrictionParam(Actions()),
        estimator: Any = beam.DoFn.WatermarkEstimatorParam(
            ManualWatermarkEstimator.default_provider()
        ),
    ) -> Iterator[TimestampedValue]:
        _, actions = element
        marks = [*watermarks(element), None]
        position = tracker.current_restriction().start
        if position < len(actions) and _is_waiting(actions[position]):
            tracker.defer_remainder(Duration.of(_LOOK_SECONDS))
            return
        while tracker.try_claim(position):
            action = actions[position]
            position += 1
            delay: int | None = None
            match action:
                case ("element" | "late", key, value, at):
                    yield TimestampedValue((key, value), _timestamp(at))
                case ("sleep", milliseconds):
                    time.sleep(milliseconds / 1000)
                case ("defer", milliseconds):
                    delay = milliseconds
                case ("checkpoint",):
                    delay = 0
            mark = marks[position]
            estimator.set_watermark(MAX_TIMESTAMP if mark is None else _timestamp(mark))
            if position < len(actions) and _is_waiting(actions[position]):
                delay = delay or int(1000 * _LOOK_SECONDS)
            if delay is not None and position < len(actions):
                tracker.defer_remainder(Duration.of(delay / 1000))
                return


def _is_waiting(action: Action) -> bool:
    return action[0] == "wait" and not Path(action[1]).exists()


def _timestamp(milliseconds: int) -> Timestamp:
    return Timestamp(micros=1000 * milliseconds)
