"""Tests that all descendants of a reaper exit with its owner, even if they detach themselves."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from processes import is_alive
from waiting import wait_until, wait_until_gone

from beam_runner_runtime.processes import reaper

pytestmark = pytest.mark.skipif(
    not reaper.is_reaper_supported(), reason="Linux alone has subreapers"
)

# Blocks in C code with Python's lock, so that no signal handler runs.
BLOCKED = "import ctypes; ctypes.PyDLL(None).sleep(600)"
PROGRAM = f"""
import os, signal, sys, time
from pathlib import Path
from beam_runner_runtime.processes import reaper
from beam_runner_runtime.shutdown.limits import LIMITS

def note(name):
    Path(sys.argv[1], name).write_text(str(os.getpid()))

def run():
    note("run")
    for name in sys.argv[3:]:
        if os.fork() == 0:
            if name == "worker":
                reaper.adopt_orphans()
            if os.fork() == 0:
                os.setsid()
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
                note(name)
                {BLOCKED}
            if name == "worker":
                note("its-worker")
                time.sleep(600)
            os._exit(0)
    time.sleep(600)

note("reaper")
reaper.run_with_reaper(run, [int(sys.argv[2])])
"""


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))


@pytest.fixture
def owner() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(["sleep", "600"])
    yield process
    process.kill()
    process.wait()


def start(folder: Path, owner: int, *names: str) -> subprocess.Popen[bytes]:
    program = PROGRAM.replace("def note", "LIMITS.orphan_seconds = 1.0\ndef note")
    return subprocess.Popen([sys.executable, "-c", program, str(folder), str(owner), *names])


def pid_of(folder: Path, name: str) -> int:
    file = folder / name
    wait_until(lambda: file.exists() and file.read_text(), 60, f"{name} starts")
    return int(file.read_text())


@pytest.mark.parametrize("ends", ["owner", "run", "reaper"])
def test_reaper_ends_all_processes_with_owner(
    ends: str, owner: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    process = start(tmp_path, owner.pid, "worker")
    found = [pid_of(tmp_path, name) for name in ("run", "its-worker", "worker")]
    {"owner": owner.kill, "run": lambda: os.kill(found[0], 9), "reaper": process.terminate}[ends]()
    owner.poll()
    assert process.wait(60) == 0
    for pid in found:
        wait_until_gone(pid)


def test_reaper_ends_orphans_but_not_children_of_live_worker(
    owner: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    process = start(tmp_path, owner.pid, "orphan", "worker")
    orphan, kept, worker = (pid_of(tmp_path, name) for name in ("orphan", "worker", "its-worker"))
    wait_until_gone(orphan)
    assert is_alive(kept)
    os.kill(worker, 9)
    wait_until_gone(kept)
    assert process.poll() is None
    process.terminate()
    assert process.wait(60) == 0
