"""Jobs that only open and close lanes (worker processes), on a real placement (starter of worker
processes).
"""

from __future__ import annotations

import queue
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import attrs
from beam_runner_driver.ports import JobPlacement, Placement
from beam_runner_model.stages import JobContext
from beam_runner_planner.plan import JobPlan
from beam_runner_runtime.channel.messages import CloseLane, FromWorker, JobWork, LaneOpened
from beam_runner_runtime.channel.place import ChannelAddress
from beam_runner_runtime.channel.server import ChannelServer, WorkerLink
from beam_runner_storage.stores.spec import StoreSpec

SECONDS = 120


@attrs.define(eq=False)
class PlacedJob:
    """Job for the channel server, which records which process opens which lane."""

    job_id: str
    folder: Path
    opened: queue.SimpleQueue[tuple[int, WorkerLink]] = attrs.field(factory=queue.SimpleQueue)
    ended: queue.SimpleQueue[tuple[int, str]] = attrs.field(factory=queue.SimpleQueue)
    placed: JobPlacement = attrs.field(init=False)

    def make_job_work(self) -> JobWork:
        context = JobContext(
            job_id=self.job_id, job_name="name", options_json="{}", environments={}
        )
        return JobWork(JobPlan(context, {}, {}), 4, StoreSpec(str(self.folder)))

    def read_artifact(self, sha256: str) -> Iterator[bytes]:
        raise KeyError(sha256)

    def handle_worker_attached(self, link: WorkerLink) -> None:
        pass

    def handle_message(self, link: WorkerLink, message: FromWorker) -> None:
        if isinstance(message, LaneOpened):
            self.opened.put((message.lane, link))

    def handle_worker_detached(self, link: WorkerLink) -> None:
        pass

    def start(self, lane: int) -> None:
        """Requests a lane (worker process) from the placement."""
        self.placed.start_lane(lane, lambda number, error: self.ended.put((number, error)))

    def open(self, lane: int) -> WorkerLink:
        """Starts a lane, and returns the process that has opened the lane."""
        self.start(lane)
        return self.next_opened(lane)

    def next_opened(self, lane: int) -> WorkerLink:
        """Returns the next process that opens the lane. The process can be a retry of an earlier
        one.
        """
        number, link = self.opened.get(timeout=SECONDS)
        assert number == lane
        return link

    def close(self, lane: int, link: WorkerLink) -> None:
        """Closes a lane, as the server does after its last bundle."""
        link.send(CloseLane())
        assert self.ended.get(timeout=SECONDS) == (lane, "")


@attrs.define
class PlacedJobs:
    """Placement (starter of worker processes) with a channel server, and jobs on this placement."""

    placement: Placement
    jobs: dict[str, PlacedJob]
    folder: Path

    def job(self, job_id: str) -> PlacedJob:
        job = self.jobs[job_id] = PlacedJob(job_id, self.folder / job_id)
        job.folder.mkdir()
        job.placed = self.placement.create_job_placement(job_id, "name")
        return job

    def end(self) -> None:
        """Ends all jobs and the lanes of all jobs."""
        for job in self.jobs.values():
            job.placed.cancel()
            job.placed.close(workers_gone=False)
            self.placement.handle_job_end()
        self.jobs.clear()


@contextmanager
def served(placement: Placement) -> Iterator[dict[str, PlacedJob]]:
    """Yields a channel for the processes of a placement, with its jobs."""
    jobs: dict[str, PlacedJob] = {}
    server = ChannelServer(ChannelAddress(), jobs.get, placement.get_standby_order)
    server.start()
    placement.set_endpoints(server.endpoints)
    yield jobs
    placement.end_standby_processes()
    server.stop()
