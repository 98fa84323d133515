"""Tests that the activity of a process and its descendants is visible from outside."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from beam_runner_worker.fnapi.activity import measure_process_activity
from beam_runner_worker.fnapi.starting import HarnessActivity

pytestmark = [
    pytest.mark.timeout(60),
    pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="only Linux tells it"),
]
BURN = "while True: pass"
Begin = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture
def begin() -> Iterator[Begin]:
    """Starts commands, and kills them with their descendants after the test."""
    begun = []

    def start(*command: str) -> subprocess.Popen[bytes]:
        begun.append(subprocess.Popen(command, process_group=0))
        return begun[-1]

    yield start
    for process in begun:
        os.killpg(process.pid, 9)
        process.wait()


def seen_until(process: int, wanted: Callable[[HarnessActivity], bool]) -> HarnessActivity:
    deadline = time.monotonic() + 30
    while True:
        activity = measure_process_activity(process)
        assert activity is not None
        if wanted(activity):
            return activity
        assert time.monotonic() < deadline, activity
        time.sleep(0.05)


@pytest.mark.parametrize(
    "command",
    [
        (sys.executable, "-c", BURN),
        ("/bin/sh", "-c", f"'{sys.executable}' -c '{BURN}'; true"),
        (sys.executable, "-c", f"import threading\ndef burn():\n    {BURN}\nthreading.Thread(target=burn).start()"),
    ],
    ids=["itself", "beneath it", "another thread"],
)  # fmt: skip
def test_busy_process_is_running(command: tuple[str, ...], begin: Begin) -> None:
    process = begin(*command)
    seen_until(process.pid, lambda activity: activity.ran > 0.5)
    assert seen_until(process.pid, lambda activity: activity.wants).wants


def test_finished_child_processes_count_as_activity(begin: Begin) -> None:
    burn = f"'{sys.executable}' -c 'import time\nwhile time.process_time() < 0.5: pass'"
    process = begin("/bin/sh", "-c", f"{burn}; exec sleep 600")
    seen_until(process.pid, lambda activity: activity.ran >= 0.45)
    still = seen_until(process.pid, lambda activity: not activity.wants)
    assert still.ran >= 0.45


def test_sleeping_process_is_idle(begin: Begin) -> None:
    process = begin("sleep", "600")
    seen_until(process.pid, lambda activity: not activity.wants)
    time.sleep(0.3)
    activity = measure_process_activity(process.pid)
    assert activity is not None
    assert activity.ran < 0.1
    assert not activity.wants


def test_exited_process_has_no_activity() -> None:
    process = subprocess.Popen(["true"])
    process.wait()
    assert measure_process_activity(process.pid) is None
