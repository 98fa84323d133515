"""Runs sessions of nox in parallel: ``python3 tools/side_by_side.py [--at-once N] SESSION ...``.

Sessions wait much of their time, so sequential sessions leave cores idle. The output of a session
is printed when the session ends. All sessions run, even if a session fails. The last lines name the
failed sessions.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PREPARED = "BEAM_NOX_PREPARED"
"""Environment variable that marks a nox process whose required sessions have run already."""
PROCESSES = "BEAM_TEST_PROCESSES"
"""Environment variable with the number of test processes of each session."""


@dataclass(frozen=True)
class EndedSession:
    """Session that has exited.

    Attributes:
        name: name of the session.
        code: exit code of its nox process.
        seconds: elapsed time, seconds.
        cpu: CPU time of the session and its awaited child processes, seconds.
        output: printed text.
    """

    name: str
    code: int
    seconds: float
    cpu: float
    output: str


def run_session(name: str, environment: Mapping[str, str]) -> EndedSession:
    """Runs a session in a separate nox process, and prints its output after its exit."""
    command = (sys.executable, "-m", "nox", "-f", str(ROOT / "noxfile.py"), "-s", name)
    began = time.monotonic()
    # Write to a file instead of a pipe: a process that outlives the session would keep a pipe open.
    with tempfile.TemporaryFile() as file:
        process = subprocess.Popen(
            command,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
        )
        # Use wait4, because Popen's methods don't report the resource usage of a process.
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        file.seek(0)
        output = file.read().decode("utf-8", "replace")
    cpu = used.ru_utime + used.ru_stime
    ended = EndedSession(name, process.returncode, time.monotonic() - began, cpu, output)
    sys.stdout.write(f"{ended.output}{describe_outcome(ended)}\n")
    sys.stdout.flush()
    return ended


def describe_outcome(ended: EndedSession) -> str:
    """Returns a line with the outcome of a session."""
    result = "failed" if ended.code else "ended well"
    taken = f"{ended.seconds:.0f} s, {ended.cpu:.0f} s of CPU"
    return f"side by side > {ended.name} {result} after {taken}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs all sessions, started in the given order; returns 1 if a session fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--at-once", type=int, default=2, help="how many run side by side")
    parser.add_argument("sessions", nargs="+")
    options = parser.parse_args(arguments)
    environment = {
        PREPARED: "1",
        PROCESSES: str(max(2, (os.cpu_count() or 2) // options.at_once)),
        # Use this interpreter, because it already has nox and uv.
        "NOX_SCRIPT_MODE": "none",
    }
    began = time.monotonic()
    with ThreadPoolExecutor(options.at_once) as threads:
        runs = threads.map(lambda name: run_session(name, environment), options.sessions)
        ended = list(runs)
    print(f"side by side > {len(ended)} sessions took {time.monotonic() - began:.0f} s:")
    for one in ended:
        print(describe_outcome(one))
    return 1 if any(one.code for one in ended) else 0


if __name__ == "__main__":
    sys.exit(main())
