"""The parent of worker processes records their exits in their folders."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from beam_runner_model.process_exits import ProcessExit

from beam_runner_runtime.channel.exits import wait_for_exit

_PARENT = """
import os, pathlib, signal, sys
from beam_runner_runtime.channel import exits

recorder = exits.ExitRecorder()
recorder.install_fork_hooks()
child = os.fork()
if child == 0:
    {before}
    exits.send_folder_to_parent(pathlib.Path(sys.argv[1]))
    {end}
while not recorder.reap_children():
    pass
assert not recorder.has_children
"""


def _run_parent(folder: Path, end: str, before: str = "pass", **env: str) -> None:
    code = _PARENT.format(end=end, before=before)
    arguments = [sys.executable, "-c", code, str(folder)]
    subprocess.run(arguments, check=True, timeout=60, env={**os.environ, **env})


@pytest.mark.parametrize(
    ("end", "expected"),
    [
        ("os.kill(os.getpid(), signal.SIGSEGV)", ProcessExit(-signal.SIGSEGV)),
        ("os.kill(os.getpid(), signal.SIGKILL)", ProcessExit(-signal.SIGKILL)),
        ("os._exit(3)", ProcessExit(3)),
        ("os._exit(0)", None),
    ],
)
def test_parent_process_records_failed_exit_of_worker(
    tmp_path: Path, end: str, expected: ProcessExit | None
) -> None:
    _run_parent(tmp_path, end)
    assert wait_for_exit(tmp_path, 0) == expected


def test_worker_exit_near_memory_limit_is_recorded_as_out_of_memory(tmp_path: Path) -> None:
    _run_parent(tmp_path, "os.kill(os.getpid(), signal.SIGKILL)", BEAM_RUNNER_MEMORY="1000000")
    assert wait_for_exit(tmp_path, 0) == ProcessExit(-signal.SIGKILL, lacked_memory=True)


def test_exits_of_processes_forked_by_user_code_are_not_recorded(tmp_path: Path) -> None:
    before = "os.waitpid(os.fork() or os._exit(7), 0)"
    _run_parent(tmp_path, "os._exit(0)", before)
    assert wait_for_exit(tmp_path, 0) is None


def test_wait_for_exit_of_worker_without_folder_returns_immediately(tmp_path: Path) -> None:
    assert wait_for_exit(tmp_path / "gone", 1e9) is None
