"""Tests of calls in separate threads, also if the system can't start another thread."""

from __future__ import annotations

import threading

import pytest
from waiting import eventually

from beam_runner_jobservices.threads import ThreadPerCall

from .fakes import LIMIT, threads


def test_calls_in_separate_threads_run_concurrently_and_leave_no_thread():
    pool = ThreadPerCall("per-call-a")
    release = threading.Event()
    blocked = [pool.submit(release.wait, LIMIT) for _ in range(300)]
    assert pool.submit(lambda: "answer").result(LIMIT) == "answer"
    release.set()
    assert all(future.result(LIMIT) for future in blocked)
    assert eventually(lambda: threads("per-call-a") == 0)


def test_future_of_call_raises_its_error_including_system_exit():
    def leave():
        raise SystemExit(3)

    with pytest.raises(SystemExit):
        ThreadPerCall("per-call-b").submit(leave).result(LIMIT)


def test_call_without_available_system_thread_waits(monkeypatch):
    pool = ThreadPerCall("per-call-c")
    release = threading.Event()
    first = pool.submit(release.wait, LIMIT)

    def no_more(thread):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", no_more)
    later = [pool.submit(lambda number=number: number) for number in range(3)]
    assert not any(future.done() for future in later)
    release.set()
    assert [future.result(LIMIT) for future in later] == [0, 1, 2]
    assert first.result(LIMIT)
    assert eventually(lambda: threads("per-call-c") == 0)
    with pytest.raises(RuntimeError):
        pool.submit(release.wait)
