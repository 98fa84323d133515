"""Streams of states and messages that continue after the connection to the server was lost."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

from beam_runner_model.jobs import JobMessage, StateEvent

from beam_runner_jobservices.errors import JobApiError
from beam_runner_jobservices.history import Entry

LOST = frozenset({"UNAVAILABLE", "CANCELLED"})
"""The statuses of a stream that ended because of its connection or server, and not because of the job."""

_FIRST_PAUSE = 0.1
_LONGEST_PAUSE = 2.0

_Item = TypeVar("_Item")


def follow_stream_with_reconnects(
    open_stream: Callable[[float | None], Iterator[_Item]],
    is_new: Callable[[_Item], bool],
    timeout: float | None,
    reconnect_seconds: float,
    pause: Callable[[float], bool],
) -> Iterator[_Item]:
    """Yields the new items of a stream, and opens the stream again each time the connection is lost.

    `open_stream` receives the remaining seconds of `timeout`. After a loss, the function opens the
    stream again after 0.1 s, and then at growing intervals of up to 2 s. The function gives up if
    no item arrives within `reconnect_seconds` after the loss. `pause` waits for the given number of
    seconds, and returns whether to give up.

    Raises:
        JobApiError: the stream ended for another reason, or the server was lost for too long.
    """
    deadline = None if timeout is None else time.monotonic() + timeout
    lost_since: float | None = None
    length = _FIRST_PAUSE
    while True:
        left = None if deadline is None else max(0.0, deadline - time.monotonic())
        try:
            for item in open_stream(left):
                lost_since, length = None, _FIRST_PAUSE
                if is_new(item):
                    yield item
            return
        except JobApiError as error:
            if error.code not in LOST:
                raise
            now = time.monotonic()
            lost_since = now if lost_since is None else lost_since
            wait = length * random.uniform(0.5, 1.0)
            if deadline is not None:
                wait = min(wait, max(0.0, deadline - now))
            if now + wait > lost_since + reconnect_seconds or pause(wait):
                raise
            length = min(2 * length, _LONGEST_PAUSE)


class NewEntryFilter:
    """Filter for the entries of a reopened stream that are new.

    A reopened stream of messages starts with the first message of the job; a reopened stream of
    states starts with the current state. The filter recognizes states by their times, and messages
    by their ids, which increase on servers of this package. If ids are not numbers, a message can
    be repeated.
    """

    def __init__(self) -> None:
        self._states: set[StateEvent] = set()
        self._last_id = -1

    def __call__(self, entry: Entry) -> bool:
        if isinstance(entry, JobMessage):
            return self._is_new_message(entry)
        known = entry in self._states
        self._states.add(entry)
        return not known

    def _is_new_message(self, message: JobMessage) -> bool:
        if not message.message_id.isdecimal():
            return True
        number = int(message.message_id)
        if number <= self._last_id:
            return False
        self._last_id = number
        return True
