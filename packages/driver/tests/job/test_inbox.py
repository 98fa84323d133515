"""Tests that the inbox of a job's thread preserves the order of events."""

from __future__ import annotations

import threading
import time

from beam_runner_driver.job.inbox import EventQueue
from beam_runner_driver.job.job_events import (
    CancelRequested,
    DrainRequested,
    StartPossible,
    SuspendRequested,
)


def test_job_event_queue_returns_all_events_in_order() -> None:
    inbox = EventQueue()
    assert inbox.take_events(0.0) == []
    assert inbox.wait_for_event(0.0) is None
    items = [DrainRequested(), StartPossible(), CancelRequested()]
    for item in items:
        inbox.add_event(item)
    assert inbox.wait_for_event(1.0) == items[0]
    assert inbox.take_events(1.0) == items[1:]


def test_job_event_queue_wakes_only_for_end_requests_and_retains_all_events() -> None:
    inbox = EventQueue()
    inbox.add_event(DrainRequested())
    began = time.monotonic()
    assert inbox.wait_without_end_request(0.05)
    assert time.monotonic() >= began + 0.05
    threading.Timer(0.05, lambda: inbox.add_event(SuspendRequested())).start()
    began = time.monotonic()
    assert not inbox.wait_without_end_request(60)
    assert time.monotonic() < began + 30
    assert not inbox.wait_without_end_request(60)
    inbox.add_event(StartPossible())
    assert inbox.wait_for_event(1.0) == DrainRequested()
    assert inbox.take_events(1.0) == [SuspendRequested(), StartPossible()]
