"""Job server that translates pipelines as the real server does, and reports that they have run,
without Spark. Tests attack it as a separate process. It prints its address, and exits when its
standard input closes.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from beam_runner_jobservices.errors import JobRejected
from beam_runner_jobservices.ports import JobReporter
from beam_runner_jobservices.server import JobServer
from beam_runner_model.jobs import JobMetrics, JobSpec, JobState
from beam_runner_planner.errors import InvalidPipeline, UnsupportedPipeline
from beam_runner_planner.translate import plan_job
from beam_runner_runtime import logs


class Done:
    """A job that has ended at once."""

    def cancel(self) -> None: ...

    def drain(self) -> None: ...

    def get_metrics(self) -> JobMetrics:
        return JobMetrics()


def run(job: JobSpec, reporter: JobReporter) -> Done:
    """Translates, and reports that all is done."""
    try:
        plan_job(job)
    except UnsupportedPipeline as refusal:
        raise JobRejected(str(refusal)) from refusal
    except InvalidPipeline as refusal:
        raise JobRejected(str(refusal), unsupported=False) from refusal
    reporter.report_state(JobState.RUNNING)
    reporter.report_state(JobState.DONE)
    return Done()


def main() -> None:
    """Serves until the standard input closes."""
    logs.configure_logging("info", "text")
    with tempfile.TemporaryDirectory(prefix="hostile") as folder:
        state = Path(folder, "state")
        with JobServer(run, artifacts_dir=Path(folder, "a"), state_dir=state, port=0) as server:
            print(server.address, flush=True)
            sys.stdin.read()


if __name__ == "__main__":
    main()
