"""Parser of the thread dumps that Beam's SDK harnesses for Python and Go return as text."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterable, Iterator

from beam_runner_model.observation import StackFrame, ThreadStack
from beam_runner_worker.fnapi.server import FnApiServer
from beam_runner_worker.fnapi.status import SdkStatus

_ANSWER_SECONDS = 2.0  # shorter than a job's wait for its processes
_MOST_THREADS = 50
_MOST_FRAMES = 60
_LONGEST_LINE = 300

_PYTHON_THREAD = re.compile(
    r"^--- Thread #\d+ name: (?P<name>.*?) (?:and other (?P<more>\d+) threads)?---$"
)
_PYTHON_FRAME = re.compile(r'^  File "(?P<file>.+)", line (?P<line>\d+), in (?P<function>.+)$')
_GO_THREAD = re.compile(r"^goroutine (?P<number>\d+) .*?\[(?P<state>[^\]]*)\]:$")
_GO_FRAME = re.compile(r"^\t(?P<file>\S.*):(?P<line>\d+)(?: \+0x[0-9a-f]+)?$")


def collect_harness_stacks(server: FnApiServer | None) -> tuple[ThreadStack, ...]:
    """Returns the threads of the harnesses of `server`. Waits for the harnesses for up to 2 s."""
    return (
        () if server is None else parse_harness_stacks(server.request_sdk_status(_ANSWER_SECONDS))
    )


def parse_harness_stacks(statuses: Iterable[SdkStatus]) -> tuple[ThreadStack, ...]:
    """Returns the threads of all harnesses. Skips dumps in an unknown format."""
    host = socket.gethostname()
    return tuple(
        ThreadStack(host, status.process or 0, name, frames[-_MOST_FRAMES:], status.environment)
        for status in statuses
        for name, frames in list(_parse_threads(status.text))[:_MOST_THREADS]
    )


def _parse_threads(text: str) -> Iterator[tuple[str, tuple[StackFrame, ...]]]:
    """Yields the name and the frames of each thread, with the innermost frame last."""
    name, frames, turned = "", list[StackFrame](), False
    before = ""
    for line in text.splitlines():
        python, go = _PYTHON_THREAD.match(line), _GO_THREAD.match(line)
        if python or go:
            if frames:
                yield name, tuple(reversed(frames) if turned else frames)
            frames, turned = [], go is not None
        if python:
            more = python["more"]
            name = f"{python['name']} and {more} more" if more else python["name"]
        elif go:
            name = f"goroutine {go['number']}, {go['state']}"
        elif found := _PYTHON_FRAME.match(line):
            frames.append(StackFrame(found["file"], int(found["line"]), found["function"]))
        elif turned and (found := _GO_FRAME.match(line)):
            # In a Go stack, a frame looks like `main.run(0x1, ...)`. A `created by` line has no
            # arguments.
            started = before.startswith("created by ")
            function = before.removeprefix("created by ") if started else before.rpartition("(")[0]
            frames.append(StackFrame(found["file"], int(found["line"]), function))
        elif line.startswith("    ") and frames and not turned and not frames[-1].code:
            last = frames[-1]
            frames[-1] = StackFrame(
                last.file, last.line, last.function, line.strip()[:_LONGEST_LINE]
            )
        before = line
    if frames:
        yield name, tuple(reversed(frames) if turned else frames)
