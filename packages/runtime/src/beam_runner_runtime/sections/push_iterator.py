"""Conversion of a push interface into an iterator: one thread pushes items, and another thread pulls them."""

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
    """Error in the producer after the consumer of the iterator has stopped."""


@attrs.frozen
class _EndMarker:
    """Marker for the end of the items, with the error of the producer, if any."""

    error: BaseException | None


def iterate_pushed_items(produce: Callable[[Callable[[Item], None]], None]) -> Iterator[Item]:
    """Yields the items that ``produce`` passes to its push function.

    ``produce`` runs in a separate thread, and blocks while it is `_AHEAD` items ahead. After the
    consumer stops, the next push raises `ConsumerGoneError` in that thread.

    Raises:
        Exception: ``produce`` raised this exception.
    """
    items: queue.Queue[Item | _EndMarker] = queue.Queue(_AHEAD)
    given_up = threading.Event()

    def push(item: Item | _EndMarker) -> None:
        while not given_up.is_set():
            try:
                items.put(item, timeout=_LOOK_SECONDS)
                return
            except queue.Full:
                continue
        raise ConsumerGoneError

    def run() -> None:
        error: BaseException | None = None
        try:
            produce(push)
        except ConsumerGoneError:
            return
        except BaseException as raised:
            error = raised
        try:
            push(_EndMarker(error))
        except ConsumerGoneError:
            return

    start_essential_thread(run, "section")
    try:
        while not isinstance(item := items.get(), _EndMarker):
            yield item
        if item.error is not None:
            raise item.error
    finally:
        given_up.set()
