"""A job server with a counting runner: ``server_to_kill.py FOLDER PORT``. The process prints its
address.

A job counts to 300 in steps of about 10 ms. Each step sends a message, then writes a number to a
file of the job. After a restart of the server the job continues at this number. SIGTERM stops the
server cleanly.
"""

from __future__ import annotations

import signal
import sys
import threading
import time
from pathlib import Path

from beam_runner_model.jobs import Importance, JobMetrics, JobSpec, JobState

from beam_runner_jobservices.ports import JobReporter
from beam_runner_jobservices.server import JobServer

GOAL = 300
STOPPING = threading.Event()


def write_whole(file: Path, text: str) -> None:
    """Replaces the file atomically: a kill in the middle leaves the previous content, never a part."""
    new = file.with_suffix(".new")
    new.write_text(text)
    new.rename(file)


class CountingJob:
    def __init__(self, journal: Path, reporter: JobReporter) -> None:
        self.journal = journal
        self.reporter = reporter
        self.cancelled = threading.Event()
        self.thread = threading.Thread(target=self.count, daemon=True)
        self.thread.start()

    def count(self) -> None:
        self.reporter.report_state(JobState.RUNNING)
        for number in range(int(self.journal.read_text()) + 1, GOAL + 1):
            if STOPPING.is_set():
                return
            if self.cancelled.wait(0.01):
                self.reporter.report_state(JobState.CANCELLED)
                return
            self.reporter.report_message(Importance.BASIC, str(number))
            write_whole(self.journal, str(number))
        self.reporter.report_state(JobState.DONE)

    def cancel(self) -> None:
        self.cancelled.set()

    def drain(self) -> None:
        pass

    def get_metrics(self) -> JobMetrics:
        return JobMetrics()


def main(folder: Path, port: int) -> None:
    jobs = []

    def executor(job: JobSpec, reporter: JobReporter) -> CountingJob:
        journal = folder / f"{job.job_id}.count"
        assert journal.exists() or not job.resumed
        if not journal.exists():
            write_whole(journal, "0")
        jobs.append(CountingJob(journal, reporter))
        return jobs[-1]

    signal.signal(signal.SIGTERM, lambda *_: STOPPING.set())
    server = JobServer(
        executor, artifacts_dir=folder / "artifacts", state_dir=folder / "state", port=port
    )
    print(server.start(), flush=True)
    while not STOPPING.is_set():
        time.sleep(0.05)
    for job in jobs:
        job.thread.join()
    server.stop()


main(Path(sys.argv[1]), int(sys.argv[2]))
