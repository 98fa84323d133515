"""A placement of worker processes on Dask (`beam_runner_server.placement_service.PlacementService`)."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import dask
from beam_runner_model.errors import Unavailable
from beam_runner_runtime.channel.endpoints import EndpointFactory, make_job_scope
from beam_runner_runtime.channel.messages import Endpoint
from beam_runner_runtime.channel.stand_by import LaneRef
from beam_runner_runtime.processes.lanes_only import SingleMachineJob, SingleMachinePlacement
from distributed import Client, Future, LocalCluster
from lanes import kill_lanes, run_lane

_LANES_PER_CORE = 4
"""A lane that waits uses no core, so there is room for more lanes than cores."""


class DaskPlacement(SingleMachinePlacement):
    """Placement that runs each lane as a Dask task with a separate process.

    Args:
        cores: number of bundles that use a core at the same time.
    """

    name = "Dask"
    loss_message = "Dask's scheduler has ended unexpectedly"

    def __init__(self, cores: int) -> None:
        self.cores = cores
        self.slots = cores * _LANES_PER_CORE
        self._client: Client | None = None
        self._endpoints: EndpointFactory | None = None

    @property
    def where(self) -> str:
        return "this machine" if self._client is None else str(self._client.scheduler.address)

    @property
    def is_alive(self) -> bool:
        return self._client is not None and self._client.status == "running"

    def start(self) -> None:
        """Starts a scheduler and one worker, whose process may start child processes."""
        dask.config.set({"distributed.worker.daemon": False})
        try:
            cluster = LocalCluster(
                n_workers=1, threads_per_worker=self.slots, dashboard_address=None
            )
            self._client = Client(cluster)
        except (OSError, RuntimeError) as error:
            raise Unavailable(f"Dask does not start: {error}") from error

    def set_endpoints(self, endpoints: EndpointFactory) -> None:
        self._endpoints = endpoints

    def create_job_placement(self, job_id: str, name: str) -> DaskJob:
        assert self._client is not None
        assert self._endpoints is not None
        return DaskJob(self._client, job_id, self._endpoints.make_endpoint(make_job_scope(job_id)))

    def stop(self) -> None:
        """Stops Dask; further calls do nothing."""
        client, self._client = self._client, None
        if client is not None:
            client.shutdown()

    kill = stop


class DaskJob(SingleMachineJob):
    """Lanes of one job (`beam_runner_driver.ports.JobPlacement`)."""

    loss_message = DaskPlacement.loss_message

    def __init__(self, client: Client, job_id: str, endpoint: Endpoint) -> None:
        self._client = client
        self._job_id = job_id
        self._endpoint = endpoint
        self._keys = itertools.count()
        self._lanes: list[Future] = []

    @property
    def is_alive(self) -> bool:
        return bool(self._client.status == "running")

    def start_lane(self, number: int, on_end: Callable[[int, str], None]) -> None:
        key = f"{self._job_id}-{next(self._keys)}"
        ref = LaneRef(self._endpoint, self._job_id, number)
        lane = self._client.submit(run_lane, ref, key=key, pure=False)
        lane.add_done_callback(lambda done: on_end(number, _error_of(done)))
        self._lanes.append(lane)

    def cancel(self) -> None:
        self._client.cancel(self._lanes, force=True)
        self._client.run(kill_lanes, self._job_id)

    def close(self, *, workers_gone: bool) -> None:
        if not workers_gone:
            self._client.run(kill_lanes, self._job_id)


def _error_of(lane: Future) -> str:
    if lane.status == "finished":
        return str(lane.result())
    return "" if lane.status == "cancelled" else f"Dask: {lane.exception()}"
