"""Tests that a guarded command leaves no process, not even zombies."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

pytestmark = [
    pytest.mark.timeout(120),
    pytest.mark.skipif(sys.platform != "linux", reason="Linux alone has subreapers"),
]


@pytest.mark.parametrize(
    ("command", "ends"),
    [
        ("exec sleep 600", False),
        ("sleep 600 & exec sleep 600", False),
        ("exit 3", True),
        ("trap : TERM; while :; do sleep 0.1; done", False),
    ],
    ids=["sleeps", "has a child", "has ended", "does not hear"],
)
def test_guarded_process_leaves_no_orphan_in_subreaper(command: str, ends: bool) -> None:
    """Worker processes are subreapers: an orphaned descendant becomes a child of the subreaper."""
    program = textwrap.dedent(f"""
        import ctypes, os, subprocess
        from beam_runner_worker.fnapi.guarded import GuardedProcess
        ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
        other = subprocess.Popen(["sh", "-c", "exit 7"])
        process = GuardedProcess(print)
        process.start(["/bin/sh", "-c", {command!r}], os.environ, "true")
        if {ends}:
            assert process.wait(60) == 3
        process.stop()
        assert other.wait() == 7, "the children of others are theirs"
        try:
            print("left:", os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT))
        except ChildProcessError:
            print("nothing is left")
    """)
    told = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert told.stdout.endswith("nothing is left\n"), told.stdout + told.stderr
