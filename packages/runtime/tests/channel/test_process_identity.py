"""Tests that a kill ends only the intended process, not another process with the same process ID."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest

from beam_runner_runtime.channel.process_identity import kill, process_start_of

pytestmark = pytest.mark.skipif(not process_start_of(1), reason="needs /proc")


@pytest.fixture
def running() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(["sleep", "600"])
    yield process
    process.kill()
    process.wait()


def test_kill_ends_only_process_with_same_birth(running: subprocess.Popen[bytes]) -> None:
    other = subprocess.Popen(["true"])
    birth = process_start_of(other.pid)
    other.wait()
    assert process_start_of(other.pid) == ""
    for wrong in ("", birth.replace(birth.split()[-1], "1"), "boot pid:[1] 1"):
        kill(running.pid, wrong)
    assert running.poll() is None
    kill(running.pid, process_start_of(running.pid))
    assert running.wait(60) == -9
    kill(running.pid, birth)  # the process doesn't exist
