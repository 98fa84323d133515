"""Runs sessions of nox side by side: ``python3 tools/side_by_side.py [--at-once N] SESSION ...``.

Much of what sessions do is waiting, so one at a time leaves cores idle. The output of a session is printed as
a whole when the session ends. All sessions run, whatever becomes of the others; the last lines name those that failed.
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
"""The environment variable that says that what other sessions require has been made."""
PROCESSES = "BEAM_TEST_PROCESSES"
"""The environment variable with the number of processes that each session runs tests in."""


@dataclass(frozen=True)
class Ended:
    """A session that has ended.

    Attributes:
        name: of the session.
        code: exit code of its nox.
        seconds: how long it took.
        cpu: seconds of CPU that it and the processes it has waited for have used.
        output: all that it has printed.
    """

    name: str
    code: int
    seconds: float
    cpu: float
    output: str


def run_session(name: str, environment: Mapping[str, str]) -> Ended:
    """Runs a session in a nox of its own, and prints its output when it ends."""
    command = (sys.executable, "-m", "nox", "-f", str(ROOT / "noxfile.py"), "-s", name)
    began = time.monotonic()
    # A file and no pipe: what a session leaves running would keep a pipe open.
    with tempfile.TemporaryFile() as file:
        process = subprocess.Popen(
            command,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
        )
        # Popen's own methods don't tell what a process has used.
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        file.seek(0)
        output = file.read().decode("utf-8", "replace")
    cpu = used.ru_utime + used.ru_stime
    ended = Ended(name, process.returncode, time.monotonic() - began, cpu, output)
    sys.stdout.write(f"{ended.output}{told(ended)}\n")
    sys.stdout.flush()
    return ended


def told(ended: Ended) -> str:
    """Returns a line that says what became of a session."""
    result = "failed" if ended.code else "ended well"
    taken = f"{ended.seconds:.0f} s, {ended.cpu:.0f} s of CPU"
    return f"side by side > {ended.name} {result} after {taken}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs all sessions, begun in the order in which they are named; returns 1 if any fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--at-once", type=int, default=2, help="how many run side by side")
    parser.add_argument("sessions", nargs="+")
    options = parser.parse_args(arguments)
    environment = {
        PREPARED: "1",
        PROCESSES: str(max(2, (os.cpu_count() or 2) // options.at_once)),
        # This interpreter has nox and uv already.
        "NOX_SCRIPT_MODE": "none",
    }
    began = time.monotonic()
    with ThreadPoolExecutor(options.at_once) as threads:
        runs = threads.map(lambda name: run_session(name, environment), options.sessions)
        ended = list(runs)
    print(f"side by side > {len(ended)} sessions took {time.monotonic() - began:.0f} s:")
    for one in ended:
        print(told(one))
    return 1 if any(one.code for one in ended) else 0


if __name__ == "__main__":
    sys.exit(main())
