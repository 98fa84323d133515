"""Observers of the lifecycle of DoFn instances and of failing bundles."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import apache_beam as beam
import pytest

from beam_runner_worker.errors import HarnessError


def run_expecting_error(run: Callable[[], object]) -> tuple[threading.Thread, list[str]]:
    """Runs a function that must raise a :class:`HarnessError` in a thread. The returned list gets its text."""
    errors: list[str] = []

    def fail() -> None:
        with pytest.raises(HarnessError) as caught:
            run()
        errors.append(str(caught.value))

    thread = threading.Thread(target=fail)
    thread.start()
    return thread, errors


class LifecycleRecorder(beam.DoFn):
    """A DoFn that writes every setup and teardown to a file. Its teardown is slow."""

    def __init__(self, path: str, seconds: float = 0.5) -> None:
        self.path = path
        self.seconds = seconds

    def _note(self, what: str) -> None:
        with open(self.path, "a") as file:
            file.write(f"{what} {os.getpid()} {id(self)}\n")

    def setup(self):
        self._note("setup")

    def process(self, element):
        yield element

    def teardown(self):
        time.sleep(self.seconds)
        self._note("teardown")


def read_torn_down_processes(path: str | Path) -> list[int]:
    """Returns the process of each DoFn instance, and checks that each was torn down exactly once."""
    lines = [line.split() for line in Path(path).read_text().splitlines()]
    set_up = [tuple(line[1:]) for line in lines if line[0] == "setup"]
    torn_down = [tuple(line[1:]) for line in lines if line[0] == "teardown"]
    assert sorted(set_up) == sorted(torn_down)
    assert len(set(set_up)) == len(set_up)
    return [int(pid) for pid, _ in set_up]
