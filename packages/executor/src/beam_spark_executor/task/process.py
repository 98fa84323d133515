"""The worker process: serves one job for its whole life, one task at a time.

Beam keeps options, modules and coders per process; so a process never serves two jobs. It exits
when its job ends, and Spark forks a fresh one from the warm daemon for the next.
"""

from __future__ import annotations

import os
import socket
import tempfile
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import attrs
from beam_runner_worker.embedded import EmbeddedHarness
from beam_runner_worker.fnapi import FnApiServer
from beam_runner_worker.ports import Harness, StageHarness
from beam_runner_worker.records import LogRecord

from beam_spark_executor.channel.client import ChannelClient
from beam_spark_executor.channel.messages import (
    Abort,
    Closed,
    EndJob,
    Endpoint,
    ExternalWorkerStarted,
    FromServer,
    Goodbye,
    Hello,
    Logged,
    Progress,
    StageWork,
    TaskName,
)
from beam_spark_executor.python_daemon import register_exit_hook
from beam_spark_executor.task.side_inputs import FileSideInputs

_PROGRESS_SECONDS = 0.5


@attrs.frozen
class _Running:
    """The task that a process is busy with."""

    task: TaskName
    stage: StageHarness


class WorkerProcess:
    """This process, bound to a job. Use :func:`bind`."""

    def __init__(self, endpoint: Endpoint, job_id: str) -> None:
        self.job_id = job_id
        self.channel = ChannelClient(endpoint, job_id)
        self.channel.attach(
            Hello(job_id, socket.gethostname(), os.getpid()), self._obey, self._server_is_gone
        )
        self._context = self.channel.context()
        self._harnesses: dict[str, Harness] = {}
        self._fnapi: FnApiServer | None = None
        self._works: dict[tuple[str, str], StageWork] = {}
        self._busy = threading.Lock()
        self._running: _Running | None = None
        self._closed = False
        threading.Thread(target=self._report_progress, name="progress", daemon=True).start()

    def work(self, section: str, stage_id: str) -> StageWork:
        """The work of a stage in an attempt at a section; asked for once."""
        key = (section, stage_id)
        if key not in self._works:
            self._works[key] = self.channel.stage_work(section, stage_id)
        return self._works[key]

    def stage(self, work: StageWork) -> StageHarness:
        """The harness of a stage, built on first use."""
        stage = work.stage
        side_inputs = FileSideInputs(stage.side_inputs, work.side_inputs)
        with _temporary_files_in(work.folder):
            return self._harness(work).stage(stage.spec, side_inputs)

    @contextmanager
    def running(self, task: TaskName, stage: StageHarness) -> Iterator[None]:
        """Marks the process as busy with a task: its progress is reported, teardown waits."""
        with self._busy:
            self._running = _Running(task, stage)
            try:
                yield
            finally:
                self._running = None

    def log(self, records: Iterable[LogRecord]) -> None:
        """Sends log records to the server (``beam_runner_worker.ports.LogSink``)."""
        self.channel.send(Logged(tuple(records)))

    def close(self) -> None:
        """Tears down all DoFns; idempotent."""
        with self._busy:
            if self._closed:
                return
            self._closed = True
            for harness in self._harnesses.values():
                harness.close()
            if self._fnapi is not None:
                self._fnapi.close()
            self.channel.send(Closed())

    def _harness(self, work: StageWork) -> Harness:
        environment_id = work.stage.spec.environment_id
        # All embedded environments of a job are one: there is only one interpreter here.
        key = "" if work.stage.embedded else environment_id
        if key not in self._harnesses:
            if work.stage.embedded:
                self._harnesses[key] = EmbeddedHarness(self._context, self.channel, self)
            else:
                self._harnesses[key] = self._fnapi_server().harness(environment_id)
        return self._harnesses[key]

    def _fnapi_server(self) -> FnApiServer:
        if self._fnapi is None:
            self._fnapi = FnApiServer(
                self._context, self.channel, self, on_external_worker=self._external_worker
            )
        return self._fnapi

    def _external_worker(self, endpoint: str, worker_id: str) -> None:
        self.channel.send(ExternalWorkerStarted(endpoint, worker_id))

    def _report_progress(self) -> None:
        waiting = threading.Event()
        while not waiting.wait(_PROGRESS_SECONDS):
            running = self._running
            if running is not None:
                metrics = running.stage.progress()
                if metrics:
                    self.channel.send(Progress(running.task, metrics))

    def _obey(self, command: FromServer) -> None:
        match command:
            case Abort():
                os._exit(1)
            case EndJob():
                self.close()
            case Goodbye():
                os._exit(0)

    def _server_is_gone(self) -> None:
        if not self._closed:
            os._exit(1)


@contextmanager
def _temporary_files_in(folder: str) -> Iterator[None]:
    """Lets temporary files be made in the job's folder, which goes with the job.

    A harness keeps staged files in such a folder and removes it when it is closed; but a process
    that is aborted never closes anything.
    """
    os.makedirs(folder, exist_ok=True)
    usual = tempfile.tempdir
    tempfile.tempdir = folder
    try:
        yield
    finally:
        tempfile.tempdir = usual


_process: WorkerProcess | None = None
_process_lock = threading.Lock()


def bind(endpoint: Endpoint, job_id: str) -> WorkerProcess:
    """This process, bound to the job from the first call on.

    Raises:
        RuntimeError: it is bound to another job: the pools of workers were mixed up.
    """
    global _process
    with _process_lock:
        if _process is None:
            _process = WorkerProcess(endpoint, job_id)
            register_exit_hook(_process.close)
        if _process.job_id != job_id:
            raise RuntimeError(
                f"worker process {os.getpid()} serves job {_process.job_id!r}, not {job_id!r}"
            )
        return _process
