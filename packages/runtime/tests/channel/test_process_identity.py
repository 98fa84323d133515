"""Tests that a kill ends only the intended process, not another process with the same process ID."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest

from beam_runner_runtime.channel.process_identity import kill_process, read_process_identity

pytestmark = pytest.mark.skipif(not read_process_identity(1), reason="needs /proc")


@pytest.fixture
def running() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(["sleep", "600"])
    yield process
    process.kill()
    process.wait()


def test_kill_does_not_end_process_that_reuses_process_id(running: subprocess.Popen[bytes]) -> None:
    other = subprocess.Popen(["true"])
    birth = read_process_identity(other.pid)
    other.wait()
    assert read_process_identity(other.pid) == ""
    for wrong in ("", birth.replace(birth.split()[-1], "1"), "boot pid:[1] 1"):
        kill_process(running.pid, wrong)
    assert running.poll() is None
    kill_process(running.pid, read_process_identity(running.pid))
    assert running.wait(60) == -9
    kill_process(running.pid, birth)  # the process doesn't exist
