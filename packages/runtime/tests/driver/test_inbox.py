"""Tests that the inbox of a job's thread preserves the order of events."""

from __future__ import annotations

import threading
import time

from beam_runner_runtime.driver.inbox import EventQueue
from beam_runner_runtime.driver.job_events import (
    CancelRequested,
    DrainRequested,
    StartPossible,
    SuspendRequested,
)


def test_inbox_returns_all_items_in_order() -> None:
    inbox = EventQueue()
    assert inbox.all(0.0) == []
    assert inbox.next(0.0) is None
    items = [DrainRequested(), StartPossible(), CancelRequested()]
    for item in items:
        inbox.put(item)
    assert inbox.next(1.0) == items[0]
    assert inbox.all(1.0) == items[1:]


def test_inbox_is_silent_until_job_must_end_and_retains_all_items() -> None:
    inbox = EventQueue()
    inbox.put(DrainRequested())
    began = time.monotonic()
    assert inbox.is_quiet(0.05)
    assert time.monotonic() >= began + 0.05
    threading.Timer(0.05, lambda: inbox.put(SuspendRequested())).start()
    began = time.monotonic()
    assert not inbox.is_quiet(60)
    assert time.monotonic() < began + 30
    assert not inbox.is_quiet(60)
    inbox.put(StartPossible())
    assert inbox.next(1.0) == DrainRequested()
    assert inbox.all(1.0) == [SuspendRequested(), StartPossible()]
