"""The gRPC service of the Job API (`JobService`)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import grpc
from beam_runner_model.errors import Unavailable
from beam_runner_model.jobs import PipelineOption, StateEvent

from beam_runner_jobservices._protos import JobServicer
from beam_runner_jobservices.error_statuses import answering, streaming
from beam_runner_jobservices.errors import TooMany
from beam_runner_jobservices.finished_job import Ended
from beam_runner_jobservices.history import Entry, JobHistory
from beam_runner_jobservices.job import Job
from beam_runner_jobservices.metrics_answer import fitting
from beam_runner_jobservices.preparations import Peer, Preparations
from beam_runner_jobservices.registry import JobRegistry
from beam_runner_jobservices.wire import jobs as wire
from beam_runner_jobservices.wire.pipelines import prepare_request

_Entry = TypeVar("_Entry", bound=Entry)


class JobService(JobServicer):
    """The service that passes calls on to `preparations` and `registry`, and streams the histories of
    jobs.

    `endpoint` is the `host:port` that the service tells clients for artifacts.
    """

    def __init__(
        self,
        preparations: Preparations,
        registry: JobRegistry,
        options: tuple[PipelineOption, ...],
        endpoint: str,
        most_streams: int,
    ) -> None:
        self._preparations = preparations
        self._registry = registry
        self._options = options
        self._endpoint = endpoint
        self._most_streams = most_streams
        self._streams = threading.BoundedSemaphore(most_streams)

    @answering
    def Prepare(self, request: Any, context: grpc.ServicerContext) -> Any:
        preparation = self._preparations.add(prepare_request(request), Peer.of(context.peer()))
        return wire.prepared_message(
            wire.PreparedJob(preparation.preparation_id, self._endpoint, preparation.staging_token)
        )

    @answering
    def Run(self, request: Any, context: grpc.ServicerContext) -> Any:
        return wire.ran_message(job_id=self._registry.run(request.preparation_id, self._endpoint))

    @answering
    def GetJobs(self, request: Any, context: grpc.ServicerContext) -> Any:
        return wire.job_infos_message(job.info for job in self._registry.jobs())

    @answering
    def GetState(self, request: Any, context: grpc.ServicerContext) -> Any:
        return wire.state_message(self._registry.job(request.job_id).current)

    @answering
    def GetPipeline(self, request: Any, context: grpc.ServicerContext) -> Any:
        return wire.pipeline_message(self._registry.job(request.job_id).pipeline())

    @answering
    def GetJobMetrics(self, request: Any, context: grpc.ServicerContext) -> Any:
        return wire.metrics_message(fitting(self._registry.job(request.job_id).metrics()))

    @answering
    def DescribePipelineOptions(self, request: Any, context: grpc.ServicerContext) -> Any:
        return wire.options_message(self._options)

    @answering
    def Cancel(self, request: Any, context: grpc.ServicerContext) -> Any:
        return wire.cancelled_message(self._registry.job(request.job_id).cancel())

    @answering
    def Drain(self, request: Any, context: grpc.ServicerContext) -> Any:
        return wire.drained_message(self._registry.job(request.job_id).drain())

    @streaming
    def GetStateStream(self, request: Any, context: grpc.ServicerContext) -> Iterator[Any]:
        job = self._registry.job(request.job_id)
        history = job.history
        for event in self._follow(job, history, context, history.follow_states):
            yield wire.state_message(event)

    @streaming
    def GetMessageStream(self, request: Any, context: grpc.ServicerContext) -> Iterator[Any]:
        job = self._registry.job(request.job_id)
        history = job.history
        for entry in self._follow(job, history, context, history.follow):
            yield wire.entry_message(entry)

    def _follow(
        self,
        job: Job | Ended,
        history: JobHistory,
        context: grpc.ServicerContext,
        entries: Callable[[Callable[[], bool]], Iterator[_Entry]],
    ) -> Iterator[_Entry]:
        """Yields entries up to the terminal state, or until the client disconnects or the server stops."""
        with self._counted():
            context.add_callback(history.wake)
            for entry in entries(lambda: job.suspended or not context.is_active()):
                yield entry
                if isinstance(entry, StateEvent) and entry.state.is_terminal:
                    return
            if job.suspended:
                raise Unavailable(
                    "the job server is shutting down; the job resumes after the server"
                    " has restarted"
                )

    @contextmanager
    def _counted(self) -> Iterator[None]:
        if not self._streams.acquire(blocking=False):
            raise TooMany(
                f"{self._most_streams} state and message streams are open, which is the"
                " maximum; close some of them"
            )
        try:
            yield
        finally:
            self._streams.release()
