from __future__ import annotations

import os
import queue
import subprocess
import sys
import tempfile

import pytest

from beam_runner_server import parent_watch

if sys.platform != "linux":
    pytest.skip("needs what Linux has", allow_module_level=True)


@pytest.fixture
def reasons() -> queue.SimpleQueue[str]:
    return queue.SimpleQueue()


def test_parent_watch_with_output_pipe_without_reader_reports_loss(
    reasons: queue.SimpleQueue[str],
) -> None:
    read, written = os.pipe()
    parent_watch.watch_output_and_process(written, None, reasons.put)
    os.write(written, b"something is read, or waits to be")
    with pytest.raises(queue.Empty):
        reasons.get(timeout=0.2)
    os.close(read)
    assert reasons.get(timeout=10) == "no process reads the server's standard output"
    os.close(written)


def test_parent_watch_of_process_that_exits_reports_loss(reasons: queue.SimpleQueue[str]) -> None:
    sleeper = subprocess.Popen(["sleep", "60"])
    with tempfile.TemporaryFile() as file:
        parent_watch.watch_output_and_process(file.fileno(), sleeper.pid, reasons.put)
        with pytest.raises(queue.Empty):
            reasons.get(timeout=0.2)
        sleeper.kill()
        assert reasons.get(timeout=10) == f"the process {sleeper.pid} exited"
        sleeper.wait()


def test_parent_watch_of_process_that_does_not_exist_reports_loss(
    reasons: queue.SimpleQueue[str],
) -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    with pytest.raises(parent_watch.ParentAlreadyExited, match=str(ended.pid)):
        parent_watch.watch_output_and_process(1, ended.pid, reasons.put)


def test_parent_watch_ignores_output_that_was_closed_at_start(
    reasons: queue.SimpleQueue[str],
) -> None:
    with tempfile.TemporaryFile() as file:
        closed = file.fileno()
    parent_watch.watch_output_and_process(closed, None, reasons.put)
    with pytest.raises(queue.Empty):
        reasons.get(timeout=0.2)
