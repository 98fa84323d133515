"""Word count of real text with Beam's own wordcount, on Spark.

The program starts `beam-spark-jobserver`, submits `apache_beam.examples.wordcount` unchanged, and
shows its progress. It prints the most frequent words and the equivalent commands.

    python examples/wordcount.py --input '/path/to/*.txt' --output /tmp/counts
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import glob
import logging
import os
import queue
import shlex
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

START_LIMIT_SECONDS = 180.0
STOP_LIMIT_SECONDS = 20.0
WORDS_SHOWN = 20
_SHOWN = ("Read", "Split")
"""Transforms of Beam's wordcount whose outputs the progress line counts: lines, and words."""


class Failed(Exception):
    """Raised if the job fails; the text names the cause."""


def main() -> int:
    """Runs the job; returns 0 if the job succeeds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--input",
        metavar="GLOB",
        default=str(Path(sysconfig.get_path("stdlib"), "*.py")),
        help="the text files to read (default: the source files of Python's standard library)",
    )
    parser.add_argument(
        "--output",
        metavar="PREFIX",
        help="where to write the counts (default: a temporary folder, removed at the end)",
    )
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, _interrupt)
    logging.disable(logging.WARNING)  # Beam logs missing optional packages
    try:
        with tempfile.TemporaryDirectory(prefix="beam-wordcount-") as folder:
            output = arguments.output or str(Path(folder, "counts"))
            _count(arguments.input, output, Path(folder))
    except Failed as error:
        print(f"wordcount: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nwordcount: stopped", file=sys.stderr)
        return 1
    return 0


def _interrupt(number: int, frame: Any) -> None:
    raise KeyboardInterrupt


def _count(pattern: str, output: str, folder: Path) -> None:
    from beam_spark_executor.spark.java import check_java
    from beam_spark_executor.spark.settings import SparkUnavailable

    try:
        check_java()
    except SparkUnavailable as error:
        raise Failed(str(error)) from None
    files = glob.glob(pattern)
    if not files:
        raise Failed(f"no file matches {pattern}")
    print(f"Counting the words of {len(files)} files: {pattern}")
    started = time.monotonic()
    with _server(folder / "server.log") as address:
        print(f"[{time.monotonic() - started:5.1f} s] {address.line}")
        _run(address, pattern, output, folder, started)
    counts = _read_counts(output)
    print(f"\n{sum(counts.values()):,} words, {len(counts):,} different ones; the commonest:\n")
    for word, count in counts.most_common(WORDS_SHOWN):
        print(f"{count:>10,}  {word}")
    print(_by_hand(pattern))


class _Address:
    """Addresses in the server's first line."""

    def __init__(self, line: str) -> None:
        self.line = line
        self.endpoint = line.partition(" at ")[2].split()[0]
        self.pages = line.partition("; its jobs are shown at ")[2].partition(";")[0]
        """URL of the web interface; empty without a web interface."""


@contextlib.contextmanager
def _server(log: Path) -> Iterator[_Address]:
    """Starts a job server, and stops it at the end of the block."""
    command = [sys.executable, "-P", "-m", "beam_spark_executor.cli", "--job-port", "0"]
    print("Starting beam-spark-jobserver: Spark takes some seconds ...", flush=True)
    with log.open("w") as errors, _process(command, subprocess.PIPE, errors) as process:
        lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        assert process.stdout is not None
        threading.Thread(target=_pass_on, args=(process.stdout, lines), daemon=True).start()
        try:
            line = lines.get(timeout=START_LIMIT_SECONDS)
        except queue.Empty:
            line = ""
        if not line:
            raise Failed(f"the server did not start:\n{_tail(log)}")
        yield _Address(line.strip())


def _pass_on(stream: IO[str], lines: queue.SimpleQueue[str]) -> None:
    """Returns the first line of a stream, or an empty line at its end."""
    lines.put(stream.readline())


@contextlib.contextmanager
def _process(
    command: list[str], stdout: Any, stderr: Any, **environment: str
) -> Iterator[subprocess.Popen[str]]:
    """Starts a process that doesn't get the terminal's Ctrl-C, so that the program can stop it in order."""
    process = subprocess.Popen(
        command,
        stdout=stdout,
        stderr=stderr,
        text=True,
        start_new_session=True,
        env={**os.environ, **environment},
    )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(STOP_LIMIT_SECONDS)
        except subprocess.TimeoutExpired:
            process.terminate()  # a second signal makes the server exit at once
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(STOP_LIMIT_SECONDS)
            process.kill()
            process.wait()


def _wordcount(pattern: str, output: str, endpoint: str) -> list[str]:
    return [
        *("-m", "apache_beam.examples.wordcount"),
        *("--input", pattern, "--output", output),
        *("--runner", "PortableRunner", "--job_endpoint", endpoint),
    ]


def _run(address: _Address, pattern: str, output: str, folder: Path, started: float) -> None:
    """Runs Beam's wordcount to its end, with a line of progress every second."""
    from beam_runner_jobservices.client import JobClient
    from beam_runner_jobservices.errors import JobApiError

    endpoint, pages = address.endpoint, address.pages
    log = folder / "wordcount.log"
    command = [sys.executable, "-P", *_wordcount(pattern, output, endpoint)]
    with JobClient(endpoint) as client, log.open("w") as lines:
        progress = _Progress(client, started, pages)
        with _process(command, lines, lines, TMPDIR=str(folder)) as process:
            while process.poll() is None and not progress.is_over():
                with contextlib.suppress(
                    JobApiError
                ):  # the next poll will succeed, or the loop ends
                    progress.show()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(1)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(STOP_LIMIT_SECONDS)
        if not progress.is_over():
            progress.show()
        # gRPC can hang or abort at the client's exit (grpc/grpc#40620). In this case the state of
        # the job decides.
        if process.returncode > 0 or not progress.is_done():
            raise Failed(f"the pipeline failed:\n{progress.errors() or _tail(log)}")


class _Progress:
    """Job API's view of the only job of this server."""

    def __init__(self, client: Any, started: float, pages: str) -> None:
        self._client = client
        self._pages = pages
        self._started = started
        self._job_id: str | None = None
        self._state: Any = None
        self._shown: dict[str, str] = {}

    def is_over(self) -> bool:
        """Whether the job was seen in a terminal state."""
        return self._state is not None and self._state.is_terminal

    def is_done(self) -> bool:
        """Whether the job was seen in the state DONE."""
        return self._state is not None and self._state.name == "DONE"

    def show(self) -> None:
        """Prints a line: the job's state, and the numbers of elements read and written."""
        seconds = time.monotonic() - self._started
        text = f"[{seconds:5.1f} s] "
        if self._job_id is None:
            self._find()
        if self._job_id is None:
            text += "the pipeline is being built"
        else:
            state = self._state = self._client.get_state(self._job_id).state
            counts = self._element_counts()
            text += (
                f"{state.name:<8} lines read: {counts['Read']:>9,}   words: {counts['Split']:>11,}"
            )
        if sys.stdout.isatty():
            print(f"\r{text}\033[K", end="", flush=True)
        else:
            print(text, flush=True)

    def errors(self) -> str:
        """Returns the job's error messages."""
        from beam_runner_model.jobs import Importance, JobMessage

        if self._job_id is None:
            return ""
        return "\n".join(
            entry.text
            for entry in self._client.follow_messages(self._job_id, timeout=10)
            if isinstance(entry, JobMessage) and entry.importance >= Importance.ERROR
        )

    def _find(self) -> None:
        """Finds the job, and the PCollections of its pipeline that the progress line shows."""
        from apache_beam.portability.api import beam_runner_api_pb2

        for job in self._client.list_jobs():
            pipeline = beam_runner_api_pb2.Pipeline.FromString(
                self._client.get_pipeline(job.job_id)
            )
            for transform in pipeline.components.transforms.values():
                if transform.unique_name in _SHOWN:
                    for pcollection in transform.outputs.values():
                        self._shown[pcollection] = transform.unique_name
            self._job_id = job.job_id
            if self._pages:
                print(f"The job's page: {self._pages}jobs/{job.job_id}", flush=True)

    def _element_counts(self) -> dict[str, int]:
        """Returns the current element counts in the outputs of the shown transforms."""
        from apache_beam.coders import VarIntCoder

        counts = dict.fromkeys(_SHOWN, 0)
        for info in self._client.get_metrics(self._job_id).attempted:
            name = self._shown.get(info.labels.get("PCOLLECTION", ""))
            if name is not None and info.urn == "beam:metric:element_count:v1":
                counts[name] += VarIntCoder().decode(info.payload)
        return counts


def _read_counts(output: str) -> collections.Counter[str]:
    """Returns the counts that wordcount wrote: lines of ``word: count`` in several files."""
    counts: collections.Counter[str] = collections.Counter()
    for name in glob.glob(glob.escape(output) + "-*-of-*"):
        for line in Path(name).read_text(encoding="utf-8").splitlines():
            word, _, count = line.rpartition(": ")
            counts[word] += int(count)
    if not counts:
        raise Failed(f"the job has written no counts to {output}")
    return counts


def _tail(log: Path) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-15:])


def _by_hand(pattern: str) -> str:
    python = shlex.quote(sys.executable)
    command = shutil.which("beam-spark-jobserver", path=sysconfig.get_path("scripts"))
    server = shlex.quote(command) if command else f"{python} -m beam_spark_executor.cli"
    wordcount = shlex.join(_wordcount(pattern, "/tmp/counts", "localhost:8099"))
    return f"""
The same by hand, in two terminals:

    {server} --job-port 8099
    {python} {wordcount}
"""


if __name__ == "__main__":
    sys.exit(main())
