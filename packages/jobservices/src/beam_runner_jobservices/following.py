"""Following a stream of a job server across the loss of the server and its return."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

from beam_runner_model.jobs import JobMessage, StateEvent

from beam_runner_jobservices.errors import JobApiError
from beam_runner_jobservices.history import Entry

LOST = frozenset({"UNAVAILABLE", "CANCELLED"})
"""Statuses of streams that end with their connection or their server, and not because of the job."""

_FIRST_PAUSE = 0.1
_LONGEST_PAUSE = 2.0

_Item = TypeVar("_Item")


def follow(
    open_stream: Callable[[float | None], Iterator[_Item]],
    is_new: Callable[[_Item], bool],
    timeout: float | None,
    reconnect_seconds: float,
    pause: Callable[[float], bool],
) -> Iterator[_Item]:
    """The items of a stream that are new, opening it again each time it is lost.

    `open_stream` is given the seconds that are left of `timeout`. After a loss it is called again,
    first after a tenth of a second, then up to every two seconds, until an item comes or
    `reconnect_seconds` have passed since. `pause` waits, and says whether to give up.

    Raises:
        JobApiError: the stream ended for another reason, or has been lost for too long.
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


class NewEntries:
    """Tells the entries of a stream that were not there before: one of messages that is opened again
    begins from the start of the job, one of states with the present one.

    States are told by their moment, messages by their ids, which grow on servers of this package;
    where ids are no numbers, messages may come twice.
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
