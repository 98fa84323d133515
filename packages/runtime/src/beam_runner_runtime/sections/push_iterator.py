"""Conversion of a function that pushes items into an iterator. The function runs in a separate thread."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from typing import TypeVar

import attrs
from beam_runner_model.threads import start_essential_thread

Item = TypeVar("Item")

_AHEAD = 8
_LOOK_SECONDS = 0.2


class ConsumerGoneError(Exception):
    """Raised in the producing function after the consumer of the iterator has stopped."""


@attrs.frozen
class _EndMarker:
    """Last item in the queue, with the error of the producing function, if any."""

    error: BaseException | None


def iterate_pushed_items(produce: Callable[[Callable[[Item], None]], None]) -> Iterator[Item]:
    """Yields the items that ``produce`` passes to the push function that it gets.

    ``produce`` runs in a separate thread, and blocks while `_AHEAD` items aren't consumed. After
    the consumer stops, the next push raises `ConsumerGoneError` in that thread.

    Raises:
        Exception: ``produce`` raised this exception.
    """
    items: queue.Queue[Item | _EndMarker] = queue.Queue(_AHEAD)
    given_up = threading.Event()

    def queue_item(item: Item | _EndMarker) -> None:
        while not given_up.is_set():
            try:
                items.put(item, timeout=_LOOK_SECONDS)
                return
            except queue.Full:
                continue
        raise ConsumerGoneError

    def run_producer() -> None:
        error: BaseException | None = None
        try:
            produce(queue_item)
        except ConsumerGoneError:
            return
        except BaseException as raised:
            error = raised
        try:
            queue_item(_EndMarker(error))
        except ConsumerGoneError:
            return

    start_essential_thread(run_producer, "section")
    try:
        while not isinstance(item := items.get(), _EndMarker):
            yield item
        if item.error is not None:
            raise item.error
    finally:
        given_up.set()
