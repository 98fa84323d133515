"""Tests of the time for which threads wanted a core, from the system's data."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from beam_runner_worker.core_times import core_time, core_times

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/schedstat").exists(), reason="only Linux tells it"
)


def test_core_time_of_current_thread_is_known() -> None:
    told = core_time(threading.get_native_id())
    assert told is not None
    assert told.wanted > 0
    assert core_time(1) is None, "no thread of this process"
    assert core_times().keys() >= {threading.get_native_id()}


def test_core_time_of_missing_process_is_unknown() -> None:
    assert core_times(process=2**22 + 1) == {}
