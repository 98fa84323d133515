"""Has what is pushed by one thread pulled by another, a few items ahead."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from typing import TypeVar

import attrs
from beam_runner_model.threads import start_essential

Item = TypeVar("Item")

_AHEAD = 8
_LOOK_SECONDS = 0.2


class NobodyPullsError(Exception):
    """What was to be pushed is not wanted any more."""


@attrs.frozen
class _End:
    """Nothing follows; what the pushing ended with, if it was an error."""

    error: BaseException | None


def pushed(produce: Callable[[Callable[[Item], None]], None]) -> Iterator[Item]:
    """What ``produce`` gives to the function that it is called with, as it comes.

    It runs in a thread of its own, and waits while it is a few items ahead. Once nobody pulls any more, it finds
    `NobodyPullsError` where it pushes next.

    Raises:
        Exception: what ``produce`` raised.
    """
    items: queue.Queue[Item | _End] = queue.Queue(_AHEAD)
    given_up = threading.Event()

    def push(item: Item | _End) -> None:
        while not given_up.is_set():
            try:
                items.put(item, timeout=_LOOK_SECONDS)
                return
            except queue.Full:
                continue
        raise NobodyPullsError

    def run() -> None:
        error: BaseException | None = None
        try:
            produce(push)
        except NobodyPullsError:
            return
        except BaseException as raised:
            error = raised
        try:
            push(_End(error))
        except NobodyPullsError:
            return

    start_essential(run, "section")
    try:
        while not isinstance(item := items.get(), _End):
            yield item
        if item.error is not None:
            raise item.error
    finally:
        given_up.set()
