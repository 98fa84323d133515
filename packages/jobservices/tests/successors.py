"""Servers that replace each other."""

from __future__ import annotations

import time

from waiting import eventually

from beam_runner_jobservices.channels import Credentials
from beam_runner_jobservices.client import JobClient
from beam_runner_jobservices.limits import ServerLimits
from beam_runner_jobservices.server import JobServer

from .fakes import LIMIT, FakeExecutor


class Servers:
    """A sequence of servers with separate executors.

    All servers use the same folders, or each server uses another machine and persists its state
    elsewhere.
    """

    def __init__(
        self, folder, elsewhere=None, guard=None, token="", clock=time.time, plan_rollback=None
    ):
        self.clock = clock
        self.plan_rollback = plan_rollback
        self.guard = guard
        self.credentials = Credentials(token=token)
        self.folder = folder
        self.elsewhere = elsewhere
        self.limits = ServerLimits(ended_jobs=3)
        self.executor = FakeExecutor()
        self.server = None

    def start(self, on_start=lambda job: None):
        self.stop()
        self.executor = FakeExecutor()
        self.executor.on_start = on_start
        if self.elsewhere is not None:
            self.folder = self.folder / "next"
        self.server = JobServer(
            self.executor,
            artifacts_dir=self.folder / "artifacts",
            state_dir=self.folder / "state",
            elsewhere=self.elsewhere,
            port=0,
            limits=self.limits,
            guard=self.guard,
            clock=self.clock,
            plan_rollback=self.plan_rollback,
        )
        self.server.start()
        self.client = JobClient(self.server.address, timeout=LIMIT, credentials=self.credentials)
        return self.client

    def stop(self):
        if self.server is not None:
            self.client.close()
            self.server.stop()
            self.server = None

    def resumed(self, job_id):
        """Returns the job that this server's executor resumes."""
        assert eventually(lambda: any(job.spec.job_id == job_id for job in self.executor.jobs))
        return self.executor.job(job_id)
