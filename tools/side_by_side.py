"""Runs sessions of nox in parallel: ``python3 tools/side_by_side.py [--waiting NAME,...] SESSION ...``.

Many sessions mostly wait, so few parallel sessions leave cores idle. One thread runs the sessions
that mostly compute, and the other threads run the sessions that mostly wait. The output of a session
is printed when the session ends. All sessions run, even if a session fails. At the end, the failed
tests of each failed session run once more, without other sessions in parallel. The last lines name
the failed sessions, and the tests that failed only once.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PREPARED = "BEAM_NOX_PREPARED"
"""Environment variable of a nox process. If it's set, the sessions that must run before others have already run."""
PROCESSES = "BEAM_TEST_PROCESSES"
"""Environment variable with the number of test processes of each session."""
REPEATED = "BEAM_TEST_REPEATED"
"""Environment variable of a session that runs only the tests that failed before."""
CACHES = ROOT / ".nox" / "kept" / "pytest"
"""Folder with pytest's cache of each session."""


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
    # Write the output to a file instead of a pipe: a child process that continues after the session
    # would keep a pipe open.
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


def read_failed_tests(session: str) -> list[str]:
    """Returns the tests that failed in the last run of a session; empty if the session runs no
    tests, or failed for another reason.
    """
    path = CACHES / session / "v" / "cache" / "lastfailed"
    return list(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else []


def repeat_failed_tests(ended: EndedSession, environment: Mapping[str, str]) -> EndedSession:
    """Runs the failed tests of a session again; returns the new outcome, or the old outcome if no
    test has failed.

    A test that fails only beside other sessions must not stop a change. CI names the test, because
    it shows a defect of the test or of the code.
    """
    failed = read_failed_tests(ended.name)
    if not failed:
        return ended
    repeated = run_session(ended.name, {**environment, REPEATED: "1"})
    if repeated.code == 0:
        for test in failed:
            print(f"side by side > FLAKY: {test} failed, and passed alone")
    return repeated


class SessionQueue:
    """Queue of sessions that have not started.

    Args:
        sessions: names of all sessions, in the order in which they start.
        waiting: names of the sessions that mostly wait.
    """

    def __init__(self, sessions: Sequence[str], waiting: Collection[str]) -> None:
        self._names = list(sessions)
        self._waiting = frozenset(waiting)
        self._lock = threading.Lock()

    def take_names(self, *, waiting: bool) -> Iterator[str]:
        """Yields the sessions for one thread. `waiting` decides whether sessions that mostly wait
        come first or last.
        """
        while True:
            with self._lock:
                if not self._names:
                    return
                preferred = (n for n in self._names if (n in self._waiting) is waiting)
                name = next(preferred, self._names[0])
                self._names.remove(name)
            yield name


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs all sessions; returns 1 if a session fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--at-once", type=int, default=3, help="how many run side by side")
    parser.add_argument("--waiting", default="", help="sessions that mostly wait: NAME,NAME,...")
    parser.add_argument("sessions", nargs="+")
    options = parser.parse_args(arguments)
    environment = {
        PREPARED: "1",
        PROCESSES: str(max(2, (os.cpu_count() or 2) // options.at_once)),
        # Use this interpreter, because it already has nox and uv.
        "NOX_SCRIPT_MODE": "none",
    }
    began = time.monotonic()
    queue = SessionQueue(options.sessions, options.waiting.split(","))

    def run_sessions(number: int) -> list[EndedSession]:
        return [run_session(name, environment) for name in queue.take_names(waiting=number > 0)]

    with ThreadPoolExecutor(options.at_once) as threads:
        ended = [one for part in threads.map(run_sessions, range(options.at_once)) for one in part]
    ended = [repeat_failed_tests(one, environment) if one.code else one for one in ended]
    ended.sort(key=lambda one: options.sessions.index(one.name))
    print(f"side by side > {len(ended)} sessions took {time.monotonic() - began:.0f} s:")
    for one in ended:
        print(describe_outcome(one))
    return 1 if any(one.code for one in ended) else 0


if __name__ == "__main__":
    sys.exit(main())
