"""Progress of a submission and its job, for the user of the program."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import attrs

from beam_spark_executor.client.displays import Display
from beam_spark_executor.client.following import JobAddress

if TYPE_CHECKING:
    from beam_runner_jobservices.client import JobClient
    from beam_runner_model.jobs import JobMetrics

_TICK_SECONDS = 0.5
_PHASE_SECONDS = 2.0
"""Seconds after which a display without a status line reports the current phase of the submission."""
_PAGE_SECONDS = 15.0
"""Seconds for which the client waits for the address of the pages, which start after the server."""
_CALL_SECONDS = 5.0
_STILL_SECONDS = 5.0
_COST_FACTOR = 20
"""Ratio of the pause between two requests to the duration of a request, to limit the server's load."""
_LOCAL = ("localhost", "127.0.0.1", "[::1]")


@attrs.frozen
class JobCounts:
    """Counts of a job.

    Attributes:
        stages: the number of stages; 0 if the server doesn't report stages.
        finished: the number of finished stages.
        elements: the number of elements in all PCollections.
    """

    stages: int = 0
    finished: int = 0
    elements: int = 0

    @classmethod
    def of(cls, metrics: JobMetrics, *, is_done: bool = False) -> JobCounts:
        """Returns the counts in the metrics of a job; all stages of a job that is done are finished."""
        from beam_runner_jobservices.description import PipelineDescription
        from beam_runner_jobservices.figures.step_metrics import compute_figures
        from beam_runner_jobservices.figures.step_tree import StepTree

        figures = compute_figures(metrics, StepTree(PipelineDescription((), {}, {}, {})))
        finished = sum(one.is_finished or is_done for one in figures.stages)
        return cls(len(figures.stages), finished, sum(figures.counts.values()))

    def __str__(self) -> str:
        from beam_runner_jobservices.figures.texts import format_count

        parts = [f"{self.finished} of {self.stages} stages finished"] if self.stages else []
        return ", ".join((*parts, f"{format_count(self.elements)} elements"))


class JobProgress:
    """Progress of one submission and its job on a display. Thread-safe."""

    def __init__(self, display: Display) -> None:
        self._display = display
        self._began = time.monotonic()
        self._state = ""
        self._page = ""
        self._ended = threading.Event()

    @contextlib.contextmanager
    def phase(self, text: str) -> Iterator[None]:
        """Shows the current phase of a submission on the display, until the context ends."""
        ended = threading.Event()
        ticker = threading.Thread(
            target=self._show_phase, args=(text, ended), name="job-progress", daemon=True
        )
        ticker.start()
        try:
            yield
        finally:
            ended.set()
            ticker.join()
            self._display.set_status("")

    def _show_phase(self, text: str, ended: threading.Event) -> None:
        began = time.monotonic()
        is_written = False
        while not ended.wait(_TICK_SECONDS):
            seconds = time.monotonic() - began
            self._display.set_status(f"{text}, {seconds:.0f} s")
            if seconds >= _PHASE_SECONDS and not self._display.is_live and not is_written:
                is_written = True
                self._display.write_line(text)

    def submitted(self, address: JobAddress) -> None:
        """Shows that the job has started, and the address of its web page if the server has pages."""
        self._began = time.monotonic()
        self._display.write_line(f"job {address.job_id} runs on {address.endpoint}")

    def interrupted(self, text: str) -> None:
        """Shows one line about a running job after the user has stopped waiting for the job."""
        self._ended.set()
        self._display.set_status("")
        self._display.write_line(text)

    def set_state(self, state: str) -> None:
        """Sets the state of the job."""
        self._state = state

    def pause(self) -> contextlib.AbstractContextManager[None]:
        """Returns a context in which other code can write to the terminal."""
        return self._display.pause()

    @contextlib.contextmanager
    def watch(self, address: JobAddress) -> Iterator[None]:
        """Shows the progress of a job until the context ends, and then the end of the job."""
        ended = threading.Event()
        watching = threading.Thread(
            target=self._watch, args=(address, ended), name="job-progress", daemon=True
        )
        watching.start()
        try:
            yield
        finally:
            ended.set()
            watching.join(_CALL_SECONDS)
            self._display.set_status("")

    def show_end(self, address: JobAddress) -> None:
        """Shows the final state of a job, and its counts."""
        from beam_runner_jobservices.client import JobClient
        from beam_runner_jobservices.errors import JobApiError

        seconds = time.monotonic() - self._began
        text = f"job {address.job_id} is {self._state} after {seconds:.1f} s"
        is_done = self._state in ("DONE", "DRAINED")
        with contextlib.suppress(JobApiError), JobClient(address.endpoint, _CALL_SECONDS) as client:
            counts = JobCounts.of(client.metrics(address.job_id), is_done=is_done)
            text = f"{text}: {counts}"
        self._display.write_line(text)

    def _watch(self, address: JobAddress, ended: threading.Event) -> None:
        from beam_runner_jobservices.client import JobClient

        began = time.monotonic()
        pause, last = 0.0, _LastCounts()
        with JobClient(address.endpoint, _CALL_SECONDS) as client:
            while not ended.wait(pause) and not self._ended.is_set():
                asked = time.monotonic()
                if not self._page and asked - began < _PAGE_SECONDS:
                    self._find_page(client, address)
                if self._display.is_live:
                    self._show_counts(client, address, last)
                elif self._page or asked - began >= _PAGE_SECONDS:
                    return
                pause = max(_TICK_SECONDS, _COST_FACTOR * (time.monotonic() - asked))

    def _find_page(self, client: JobClient, address: JobAddress) -> None:
        from beam_runner_jobservices.errors import JobApiError

        with contextlib.suppress(JobApiError):
            url = client.pages()
            # If the server is on another machine, its pages can have a localhost address that
            # doesn't work on this machine.
            if url and address.endpoint.rpartition(":")[0] in _LOCAL:
                self._page = f"{url.rstrip('/')}/jobs/{address.job_id}"
                self._display.write_line(f"page of the job: {self._page}")

    def _show_counts(self, client: JobClient, address: JobAddress, last: _LastCounts) -> None:
        from beam_runner_jobservices.errors import JobApiError

        seconds = time.monotonic() - self._began
        text = f"{self._state or 'STARTING'}, {seconds:.0f} s"
        try:
            counts = JobCounts.of(client.metrics(address.job_id))
            text = f"{text}: {counts}{last.describe_standstill(client, address, counts)}"
        except JobApiError:
            text = f"{text}: the server doesn't respond"
        self._display.set_status(text)


@attrs.define
class _LastCounts:
    """Latest counts of a job, and the time at which the counts changed."""

    counts: JobCounts = JobCounts()
    changed: float = attrs.field(factory=time.monotonic)

    def describe_standstill(self, client: JobClient, address: JobAddress, now: JobCounts) -> str:
        """Returns the reason why a job makes no progress; empty while its counts change."""
        from beam_runner_jobservices.errors import JobApiError
        from beam_runner_jobservices.figures.texts import sanitize_for_display
        from beam_runner_model.rendering import render_waits

        if now != self.counts:
            self.counts, self.changed = now, time.monotonic()
        if time.monotonic() - self.changed < _STILL_SECONDS:
            return ""
        with contextlib.suppress(JobApiError):
            execution = client.execution(address.job_id)
            if execution.still and execution.waits:
                waits = " ".join(render_waits(execution.waits, now=execution.now).split())
                return f"; no progress for {execution.still:.0f} s: {sanitize_for_display(waits)}"
        return ""
