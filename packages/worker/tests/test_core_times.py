"""Tests of the time for which threads wanted a core, from the system's data."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from beam_runner_worker.core_times import read_thread_time, read_thread_times

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/schedstat").exists(), reason="only Linux tells it"
)


def test_cpu_time_of_current_thread_is_measured() -> None:
    told = read_thread_time(threading.get_native_id())
    assert told is not None
    assert told.demanded_seconds > 0
    assert read_thread_time(1) is None, "no thread of this process"
    assert read_thread_times().keys() >= {threading.get_native_id()}


def test_cpu_time_of_missing_process_is_unknown() -> None:
    assert read_thread_times(process=2**22 + 1) == {}
