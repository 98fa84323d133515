"""The gRPC service of the Job API (`JobService`)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import grpc
from beam_runner_model.errors import Unavailable
from beam_runner_model.jobs import PipelineOption, StateEvent

from beam_runner_jobservices._protos import JobServicer
from beam_runner_jobservices.error_statuses import (
    convert_errors_to_status,
    convert_stream_errors_to_status,
)
from beam_runner_jobservices.errors import LimitExceeded
from beam_runner_jobservices.finished_job import FinishedJob
from beam_runner_jobservices.history import Entry, JobHistory
from beam_runner_jobservices.job import Job
from beam_runner_jobservices.metrics_response import (
    select_fitting_metrics,
    select_requested_metrics,
)
from beam_runner_jobservices.preparations import ClientConnection, PreparationRegistry
from beam_runner_jobservices.registry import JobRegistry
from beam_runner_jobservices.visible_jobs import OwnerLimit, VisibleJobs
from beam_runner_jobservices.wire import jobs as wire
from beam_runner_jobservices.wire.pipelines import decode_prepare_request

_Entry = TypeVar("_Entry", bound=Entry)


class JobService(JobServicer):
    """The gRPC service of the Job API: passes calls on to `preparations` and `registry`, and streams
    the histories of jobs.

    `endpoint` is the `host:port` of the artifact services, which Prepare returns to clients.
    `find_user_name` returns the name of the user who makes a call, from the metadata of the call,
    and `find_owner_limit` the user to whose jobs the call is limited.
    """

    def __init__(
        self,
        preparations: PreparationRegistry,
        registry: JobRegistry,
        options: tuple[PipelineOption, ...],
        endpoint: str,
        most_streams: int,
        find_user_name: Callable[[Iterable[Any]], str] = lambda metadata: "",
        find_owner_limit: OwnerLimit = lambda metadata: None,
    ) -> None:
        self._find_user_name = find_user_name
        self._visible = VisibleJobs(registry, find_owner_limit)
        self._preparations = preparations
        self._registry = registry
        self._options = options
        self._endpoint = endpoint
        self._most_streams = most_streams
        self._streams = threading.BoundedSemaphore(most_streams)

    @convert_errors_to_status
    def Prepare(self, request: Any, context: grpc.ServicerContext) -> Any:
        preparation = self._preparations.add_preparation(
            decode_prepare_request(request), ClientConnection.from_peer_name(context.peer())
        )
        return wire.encode_prepared_job(
            wire.PreparedJob(preparation.preparation_id, self._endpoint, preparation.staging_token)
        )

    @convert_errors_to_status
    def Run(self, request: Any, context: grpc.ServicerContext) -> Any:
        user = self._find_user_name(context.invocation_metadata())
        job_id = self._registry.run_job(request.preparation_id, self._endpoint, user)
        return wire.ran_message(job_id=job_id)

    @convert_errors_to_status
    def GetJobs(self, request: Any, context: grpc.ServicerContext) -> Any:
        return wire.encode_job_infos(job.info for job in self._visible.list_jobs(context))

    @convert_errors_to_status
    def GetState(self, request: Any, context: grpc.ServicerContext) -> Any:
        return wire.encode_state_event(self._visible.get_job(request.job_id, context).current)

    @convert_errors_to_status
    def GetPipeline(self, request: Any, context: grpc.ServicerContext) -> Any:
        return wire.encode_pipeline(self._visible.get_job(request.job_id, context).get_pipeline())

    @convert_errors_to_status
    def GetJobMetrics(self, request: Any, context: grpc.ServicerContext) -> Any:
        metrics = self._visible.get_job(request.job_id, context).get_metrics()
        requested = select_requested_metrics(metrics, context.invocation_metadata())
        return wire.encode_metrics(select_fitting_metrics(requested))

    @convert_errors_to_status
    def DescribePipelineOptions(self, request: Any, context: grpc.ServicerContext) -> Any:
        return wire.encode_options(self._options)

    @convert_errors_to_status
    def Cancel(self, request: Any, context: grpc.ServicerContext) -> Any:
        return wire.encode_cancel_response(self._visible.get_job(request.job_id, context).cancel())

    @convert_errors_to_status
    def Drain(self, request: Any, context: grpc.ServicerContext) -> Any:
        return wire.encode_drain_response(self._visible.get_job(request.job_id, context).drain())

    @convert_stream_errors_to_status
    def GetStateStream(self, request: Any, context: grpc.ServicerContext) -> Iterator[Any]:
        job = self._visible.get_job(request.job_id, context)
        history = job.history
        for event in self._follow_entries(job, history, context, history.follow_states):
            yield wire.encode_state_event(event)

    @convert_stream_errors_to_status
    def GetMessageStream(self, request: Any, context: grpc.ServicerContext) -> Iterator[Any]:
        job = self._visible.get_job(request.job_id, context)
        history = job.history
        for entry in self._follow_entries(job, history, context, history.follow_entries):
            yield wire.encode_entry(entry)

    def _follow_entries(
        self,
        job: Job | FinishedJob,
        history: JobHistory,
        context: grpc.ServicerContext,
        entries: Callable[[Callable[[], bool]], Iterator[_Entry]],
    ) -> Iterator[_Entry]:
        """Yields entries up to the terminal state, or until the client disconnects or the server stops."""
        with self._count_stream():
            context.add_callback(history.wake_waiting_readers)
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
    def _count_stream(self) -> Iterator[None]:
        if not self._streams.acquire(blocking=False):
            raise LimitExceeded(
                f"{self._most_streams} state and message streams are open, which is the"
                " maximum; close some of them"
            )
        try:
            yield
        finally:
            self._streams.release()
