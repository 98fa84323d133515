"""Progress of a submission and its job, for the user of the program."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import attrs

from beam_spark_executor.client.displays import Display
from beam_spark_executor.client.following import JobConnection

if TYPE_CHECKING:
    from beam_runner_jobservices.client import JobClient
    from beam_runner_jobservices.figures.estimates import ProgressEstimates
    from beam_runner_jobservices.figures.step_metrics import JobFigures
    from beam_runner_jobservices.figures.step_tree import StepTree
    from beam_runner_model.observation import Execution

_TICK_SECONDS = 0.5
_PHASE_SECONDS = 2.0
"""Seconds after which a phase of the submission is reported on a display without a status line."""
_PAGE_SECONDS = 15.0
"""Seconds for which the client waits for the URL of the web UI. The web UI starts after the server.
"""
_CALL_SECONDS = 5.0
_STILL_SECONDS = 5.0
_COST_FACTOR = 20
"""The pause between two requests is this factor times the duration of a request, to limit the server's load."""
_LOCAL = ("localhost", "127.0.0.1", "[::1]")


@attrs.frozen
class JobCounts:
    """Number of stages and elements that a job has processed.

    Attributes:
        stages: the number of stages; 0 if the server doesn't report stages.
        elements: the number of elements in all PCollections.
    """

    stages: int = 0
    finished: int = 0
    elements: int = 0

    @classmethod
    def from_figures(cls, figures: JobFigures, *, is_done: bool = False) -> JobCounts:
        """Computes the counts from the metrics of a job. If `is_done` is true, all stages count as finished."""
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
    def show_phase(self, text: str) -> Iterator[None]:
        """Shows the current phase of a submission on the display, within a ``with`` block."""
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

    def show_submitted_job(self, address: JobConnection) -> None:
        """Shows that the job has started, and the address of its web page if the server has pages."""
        self._began = time.monotonic()
        self._display.write_line(f"job {address.job_id} runs on {address.endpoint}")

    def show_interruption(self, text: str) -> None:
        """Shows one line about a running job after the user has stopped waiting for the job."""
        self._ended.set()
        self._display.set_status("")
        self._display.write_line(text)

    def set_state(self, state: str) -> None:
        """Sets the state of the job."""
        self._state = state

    def pause(self) -> contextlib.AbstractContextManager[None]:
        """Returns a context manager, within which other code can write to the terminal."""
        return self._display.pause()

    @contextlib.contextmanager
    def watch(self, address: JobConnection) -> Iterator[None]:
        """Shows the progress of a job within a ``with`` block, and the final state at its end."""
        ended = threading.Event()
        watching = threading.Thread(
            target=self._poll_job, args=(address, ended), name="job-progress", daemon=True
        )
        watching.start()
        try:
            yield
        finally:
            ended.set()
            watching.join(_CALL_SECONDS)
            self._display.set_status("")

    def show_end(self, address: JobConnection) -> None:
        """Shows the final state of a job, and the job's element counts."""
        from beam_runner_jobservices.client import JobClient
        from beam_runner_jobservices.errors import JobApiError

        seconds = time.monotonic() - self._began
        text = f"job {address.job_id} is {self._state} after {seconds:.1f} s"
        is_done = self._state in ("DONE", "DRAINED")
        with contextlib.suppress(JobApiError), JobClient(address.endpoint, _CALL_SECONDS) as client:
            figures = _EstimatedJob().read_figures(client, address)
            text = f"{text}: {JobCounts.from_figures(figures, is_done=is_done)}"
        self._display.write_line(text)

    def _poll_job(self, address: JobConnection, ended: threading.Event) -> None:
        from beam_runner_jobservices.client import JobClient

        began = time.monotonic()
        pause, last, estimated = 0.0, _LastCounts(), _EstimatedJob()
        with JobClient(address.endpoint, _CALL_SECONDS) as client:
            while not ended.wait(pause) and not self._ended.is_set():
                asked = time.monotonic()
                if not self._page and asked - began < _PAGE_SECONDS:
                    self._find_web_page(client, address)
                if self._display.is_live:
                    self._show_counts(client, address, last, estimated)
                elif self._page or asked - began >= _PAGE_SECONDS:
                    return
                pause = max(_TICK_SECONDS, _COST_FACTOR * (time.monotonic() - asked))

    def _find_web_page(self, client: JobClient, address: JobConnection) -> None:
        from beam_runner_jobservices.errors import JobApiError

        with contextlib.suppress(JobApiError):
            url = client.get_pages_url()
            # If the server is on another machine, a localhost URL of its web UI doesn't work on this machine.
            if url and address.endpoint.rpartition(":")[0] in _LOCAL:
                self._page = f"{url.rstrip('/')}/jobs/{address.job_id}"
                self._display.write_line(f"page of the job: {self._page}")

    def _show_counts(
        self,
        client: JobClient,
        address: JobConnection,
        last: _LastCounts,
        estimated: _EstimatedJob,
    ) -> None:
        from beam_runner_jobservices.errors import JobApiError

        seconds = time.monotonic() - self._began
        text = f"{self._state or 'STARTING'}, {seconds:.0f} s"
        try:
            figures = estimated.read_figures(client, address)
            counts = JobCounts.from_figures(figures)
            still = last.describe_standstill(client, address, counts)
            progress = still or estimated.describe(client, address, figures, self._state)
            text = f"{text}: {counts}{progress}"
        except JobApiError:
            text = f"{text}: the server doesn't respond"
        self._display.set_status(text)


@attrs.define
class _EstimatedJob:
    """Job whose progress is estimated. The tree is empty until the server returns the job's pipeline."""

    tree: StepTree = attrs.field(factory=lambda: _make_empty_tree())
    estimates: ProgressEstimates = attrs.field(factory=lambda: _make_estimates())
    began: float = attrs.field(factory=time.monotonic)

    def read_figures(self, client: JobClient, address: JobConnection) -> JobFigures:
        """Returns the current metrics of the job."""
        from beam_runner_jobservices.errors import JobApiError
        from beam_runner_jobservices.figures.step_metrics import compute_figures
        from beam_runner_jobservices.figures.step_tree import StepTree
        from beam_runner_jobservices.wire.descriptions import describe_pipeline

        if not self.tree.steps:
            with contextlib.suppress(JobApiError):
                self.tree = StepTree(describe_pipeline(client.get_pipeline(address.job_id)))
        return compute_figures(client.get_metrics(address.job_id), self.tree)

    def describe(
        self, client: JobClient, address: JobConnection, figures: JobFigures, state: str
    ) -> str:
        """Returns the progress of the job as the page of the job shows it; leaves out unknown values."""
        from beam_runner_jobservices.figures.progress_texts import describe_progress
        from beam_runner_model.jobs import JobState

        self.estimates.record_sample(figures, self.tree)
        progress = self.estimates.estimate_progress(
            figures,
            self.tree,
            self._find_execution(client, address),
            seconds=time.monotonic() - self.began,
        )
        parts = describe_progress(progress, JobState.__members__.get(state, JobState.RUNNING))
        return "".join(f", {one}" for one in parts)

    def _find_execution(self, client: JobClient, address: JobConnection) -> Execution | None:
        from beam_runner_jobservices.errors import JobApiError

        with contextlib.suppress(JobApiError):  # Ignore servers that don't report bundles
            return client.get_execution(address.job_id)
        return None


def _make_empty_tree() -> StepTree:
    from beam_runner_jobservices.description import PipelineDescription
    from beam_runner_jobservices.figures.step_tree import StepTree

    return StepTree(PipelineDescription((), {}, {}, {}))


def _make_estimates() -> ProgressEstimates:
    from beam_runner_jobservices.figures.estimates import ProgressEstimates

    return ProgressEstimates()


@attrs.define
class _LastCounts:
    """Latest counts of a job, and the time at which they last changed."""

    counts: JobCounts = JobCounts()
    changed: float = attrs.field(factory=time.monotonic)

    def describe_standstill(self, client: JobClient, address: JobConnection, now: JobCounts) -> str:
        """Returns the reason why a job makes no progress; empty while the job's counts change."""
        from beam_runner_jobservices.errors import JobApiError
        from beam_runner_jobservices.figures.texts import sanitize_for_display
        from beam_runner_model.rendering import render_waits

        if now != self.counts:
            self.counts, self.changed = now, time.monotonic()
        if time.monotonic() - self.changed < _STILL_SECONDS:
            return ""
        with contextlib.suppress(JobApiError):
            execution = client.get_execution(address.job_id)
            if execution.still and execution.waits:
                waits = " ".join(render_waits(execution.waits, now=execution.now).split())
                return f"; no progress for {execution.still:.0f} s: {sanitize_for_display(waits)}"
        return ""
