"""Jobs that run on this server."""

from __future__ import annotations

import attrs
from beam_runner_driver.job.job import RunningJob
from beam_runner_jobservices.ports import JobReporter
from beam_runner_model.jobs import JobSpec


@attrs.frozen
class StartedJob:
    """Job that runs on this server, with its specification and the receiver of its reports."""

    spec: JobSpec
    reporter: JobReporter
    running: RunningJob
