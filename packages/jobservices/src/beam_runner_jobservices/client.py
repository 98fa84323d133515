"""Client of the Beam Job API, for any job server."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import grpc
from beam_runner_model.jobs import (
    JobInfo,
    JobMetrics,
    JobState,
    PipelineOption,
    StagedArtifact,
    StateEvent,
)
from beam_runner_model.observation import Execution, JobTimes, StageTimeSeries, ThreadStack
from beam_runner_model.replays import ReplayReport
from beam_runner_model.savepoints import Savepoint
from beam_runner_model.stories import BundleHistory
from beam_runner_model.successions import RollbackRequest, Succession

from beam_runner_jobservices._protos import JobStub, RetrievalStub, StagingStub
from beam_runner_jobservices.channels import CHANNEL_OPTIONS, Credentials, open_channel
from beam_runner_jobservices.error_log import JobErrors
from beam_runner_jobservices.errors import JobApiError, JobServicesError
from beam_runner_jobservices.history import Entry
from beam_runner_jobservices.job_log import LogAnswer, LogQuery
from beam_runner_jobservices.metrics_response import ALL_METRICS
from beam_runner_jobservices.observation_json import SERVICE, decode_json, encode_json, make_record
from beam_runner_jobservices.resumed_streams import NewEntryFilter, follow_stream_with_reconnects
from beam_runner_jobservices.staging import (
    ArtifactDependency,
    ContentChunk,
    ContentRequest,
    EmbeddedArtifact,
    ResolveAnswer,
)
from beam_runner_jobservices.wire import artifacts as artifact_wire
from beam_runner_jobservices.wire import jobs as wire
from beam_runner_jobservices.wire.jobs import PreparedJob
from beam_runner_jobservices.wire.pipelines import find_dependencies

_Record = TypeVar("_Record")
_CHUNK = 2 << 20
_OPTIONS = (
    *CHANNEL_OPTIONS,
    # Short intervals between attempts and pings find a restarted server, and detect a lost server.
    ("grpc.initial_reconnect_backoff_ms", 100),
    # The minimum is also gRPC's limit for an attempt, which a busy machine or a slow network needs.
    ("grpc.min_reconnect_backoff_ms", 5_000),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    # Without a separate subchannel pool, a new client inherits the backoff of another client of its process.
    ("grpc.use_local_subchannel_pool", 1),
)


class JobClient:
    """A client of the job server at `address` (`host:port`). Thread-safe; a context manager.

    Every call takes up to `timeout` seconds, except `run`, streams and staging, which take as long
    as the job needs. All methods raise `JobApiError`. `credentials` are for a server that requires
    some.
    """

    def __init__(
        self, address: str, timeout: float = 60.0, credentials: Credentials | None = None
    ) -> None:
        self._credentials = credentials or Credentials()
        self._channel = open_channel(address, self._credentials, _OPTIONS)
        self._closed = threading.Event()
        self._jobs = JobStub(self._channel)
        self._retrieval = RetrievalStub(self._channel)
        self._timeout = timeout

    def prepare_job(
        self, pipeline: bytes, options: Mapping[str, Any] | None = None, job_name: str = "job"
    ) -> PreparedJob:
        """Prepares a serialized `beam_runner_api.Pipeline`. Option keys are `beam:option:<name>:v1`."""
        return wire.decode_prepared_job(
            self._call_server(
                self._jobs.Prepare, wire.encode_prepare_request(job_name, pipeline, options or {})
            )
        )

    def stage_artifacts(self, prepared: PreparedJob, pipeline: bytes) -> None:
        """Sends the artifacts that the prepared pipeline depends on, which are files of this machine.

        The client sends only files that the pipeline names, whatever the server requests. The
        method also raises OSError if a file can't be read.
        """
        offered = find_dependencies(pipeline)
        questions: queue.SimpleQueue[Any] = queue.SimpleQueue()
        failures: list[Exception] = []

        def iterate_answers() -> Iterator[Any]:
            yield artifact_wire.encode_staging_token(prepared.staging_token)
            try:
                for question in iter(questions.get, None):
                    for answer in _answer_staging_request(question, offered):
                        yield artifact_wire.encode_staging_answer(answer)
            except Exception as error:
                failures.append(error)
                raise

        with open_channel(prepared.staging_endpoint, self._credentials) as channel:
            call = StagingStub(channel).ReverseArtifactRetrievalService(iterate_answers())
            try:
                for question in call:
                    questions.put(question)
            except grpc.RpcError as error:
                raise (failures[0] if failures else _convert_rpc_error(error)) from None
            finally:
                questions.put(None)

    def run_job(self, prepared: PreparedJob) -> str:
        """Runs the prepared job, and returns the job's id."""
        request = wire.run_message(preparation_id=prepared.preparation_id)
        return str(self._call_server(self._jobs.Run, request, timeout=None).job_id)

    def submit_job(
        self, pipeline: bytes, options: Mapping[str, Any] | None = None, job_name: str = "job"
    ) -> str:
        """Prepares, stages and runs a job; returns the job's id."""
        prepared = self.prepare_job(pipeline, options, job_name)
        self.stage_artifacts(prepared, pipeline)
        return self.run_job(prepared)

    def list_jobs(self) -> tuple[JobInfo, ...]:
        """Returns the jobs that the server knows."""
        return wire.decode_job_infos(self._call_server(self._jobs.GetJobs, wire.jobs_message()))

    def get_state(self, job_id: str) -> StateEvent:
        """Returns the job's current state."""
        return wire.decode_state_event(
            self._call_server(self._jobs.GetState, wire.state_request(job_id=job_id))
        )

    def get_pipeline(self, job_id: str) -> bytes:
        """Returns the job's serialized `beam_runner_api.Pipeline`."""
        response = self._call_server(self._jobs.GetPipeline, wire.pipeline_request(job_id=job_id))
        return bytes(response.pipeline.SerializeToString())

    def cancel_job(self, job_id: str) -> JobState:
        """Requests the cancellation of the job; returns the job's state, usually CANCELLING."""
        request = wire.cancel_request(job_id=job_id)
        return JobState(self._call_server(self._jobs.Cancel, request).state)

    def drain_job(self, job_id: str) -> JobState:
        """Requests a drain of the job; returns the job's state, usually DRAINING.

        The sources of the job stop. The job processes all data that the sources have emitted, and
        then becomes DRAINED.
        """
        request = wire.drain_request(job_id=job_id)
        return JobState(self._call_server(self._jobs.Drain, request).state)

    def get_metrics(self, job_id: str) -> JobMetrics:
        """Returns the job's current metrics, including the runner's own series."""
        request = wire.metrics_request(job_id=job_id)
        return wire.decode_metrics(
            self._call_server(self._jobs.GetJobMetrics, request, metadata=(ALL_METRICS,))
        )

    def get_job_times(self) -> tuple[JobTimes, ...]:
        """Returns the submission, start and end times of each job.

        Raises UNIMPLEMENTED if the server lacks the observation service, as Beam's own job server
        does.
        """
        found = self._call_observation_service("ListJobs", {})
        return tuple(make_record(JobTimes, one) for one in found["jobs"])

    def get_execution(self, job_id: str) -> Execution:
        """Returns the running bundles, failed bundles and waits of a job.

        Raises UNIMPLEMENTED if the server lacks the observation service, and FAILED_PRECONDITION if
        the job isn't running.
        """
        return self._get_record(Execution, "GetExecution", {"job_id": job_id})

    def get_stage_series(self, job_id: str) -> tuple[StageTimeSeries, ...]:
        """Returns the history of a job's stages over the last hour.

        Raises UNIMPLEMENTED and FAILED_PRECONDITION in the same cases as `execution`.
        """
        found = self._call_observation_service("GetSeries", {"job_id": job_id})
        return tuple(make_record(StageTimeSeries, one) for one in found["series"])

    def get_errors(self, job_id: str) -> JobErrors:
        """Returns the errors of a job by type, step and line, including the errors in dropped
        messages.

        Raises UNIMPLEMENTED if the server lacks the observation service.
        """
        return self._get_record(JobErrors, "GetErrors", {"job_id": job_id})

    def query_logs(self, job_id: str, query: LogQuery | None = None) -> LogAnswer:
        """Returns a part of a job's log, by default the latest lines.

        Raises UNIMPLEMENTED if the server lacks the observation service.
        """
        request = {"job_id": job_id, "query": query or LogQuery()}
        return self._get_record(LogAnswer, "GetLogs", request)

    def get_stacks(self, job_id: str) -> tuple[ThreadStack, ...]:
        """Returns the stacks of all threads of a job's worker processes.

        Raises UNIMPLEMENTED and FAILED_PRECONDITION in the same cases as `execution`.
        """
        found = self._call_observation_service("GetStacks", {"job_id": job_id})
        return tuple(make_record(ThreadStack, one) for one in found["stacks"])

    def get_bundle_history(self, job_id: str, bundle: int) -> BundleHistory:
        """Returns the history of a bundle from the job's journal.

        The call also works for a finished job, as long as the server retains its journal. Raises
        UNIMPLEMENTED if the server has no journals.
        """
        return self._get_record(BundleHistory, "GetStory", {"job_id": job_id, "bundle": bundle})

    def get_succession(self, job_id: str) -> Succession:
        """Returns a job's predecessor, successor and latest comparison with another job.

        Raises UNIMPLEMENTED if the server doesn't support updates.
        """
        return self._get_record(Succession, "GetSuccession", {"job_id": job_id})

    def get_pages_url(self) -> str:
        """Returns the URL of the server's web pages, or an empty text.

        Raises UNIMPLEMENTED if the server has no such call.
        """
        return str(self._call_observation_service("GetPages", {})["url"])

    def describe_options(self) -> tuple[PipelineOption, ...]:
        """Returns the runner's own pipeline options."""
        request = wire.describe_request()
        return wire.decode_options(self._call_server(self._jobs.DescribePipelineOptions, request))

    def make_savepoint(self, job_id: str, url: str) -> Savepoint:
        """Copies the committed state of a stream to a folder of the server, or to a store.

        A running stream continues. The call waits without a limit until the copy is complete. Raises
        UNIMPLEMENTED if the server makes no savepoints.
        """
        request = {"job_id": job_id, "url": url}
        return self._get_record(Savepoint, "MakeSavepoint", request, timeout=None)

    def replay_quarantine(self, job_id: str, url: str, *, expired: bool = False) -> ReplayReport:
        """Feeds quarantined (failed) elements back into a running job, each element once.

        With `expired`, also replays elements of expired windows. Raises UNIMPLEMENTED without a
        quarantine.
        """
        request = {"job_id": job_id, "url": url, "expired": expired}
        return self._get_record(ReplayReport, "ReplayQuarantine", request, timeout=None)

    def roll_back(self, job_id: str, request: RollbackRequest) -> str:
        """Rolls back an update of the running job, and returns the id of the new job.

        Raises UNIMPLEMENTED if the server doesn't support updates.
        """
        asked = {"job_id": job_id, "request": request}
        return str(self._call_observation_service("RollBack", asked, timeout=None)["job_id"])

    def follow_states(
        self, job_id: str, timeout: float | None = None, reconnect_seconds: float = 0.0
    ) -> Iterator[StateEvent]:
        """Yields the current and all later states of a job, up to the terminal state.

        `timeout` limits the whole iteration, in seconds. If the connection breaks, the client waits
        up to `reconnect_seconds` for the server, and goes on without repeating an item. States of
        the meantime are included if the server sends them. Closing the iterator ends the stream.
        """

        def open_stream(left: float | None) -> Iterator[StateEvent]:
            call = self._jobs.GetStateStream(wire.state_request(job_id=job_id), timeout=left)
            return (wire.decode_state_event(message) for message in _read_stream(call))

        return follow_stream_with_reconnects(
            open_stream, NewEntryFilter(), timeout, reconnect_seconds, self._closed.wait
        )

    def follow_messages(
        self,
        job_id: str,
        timeout: float | None = None,
        reconnect_seconds: float = 0.0,
        pause: Callable[[float], bool] | None = None,
    ) -> Iterator[Entry]:
        """Yields states and messages from the job's start to its terminal state.

        See `states` for `timeout` and `reconnect_seconds`. If the connection is lost, the client calls
        `pause` before each attempt to reconnect. `pause` waits for the given number of seconds, and
        returns whether to give up.
        """

        def open_stream(left: float | None) -> Iterator[Entry]:
            call = self._jobs.GetMessageStream(wire.messages_request(job_id=job_id), timeout=left)
            return (wire.decode_entry(message) for message in _read_stream(call))

        return follow_stream_with_reconnects(
            open_stream, NewEntryFilter(), timeout, reconnect_seconds, pause or self._closed.wait
        )

    def wait_until_finish(
        self, job_id: str, timeout: float | None = None, reconnect_seconds: float = 60.0
    ) -> JobState:
        """Waits for the job's terminal state. Raises DEADLINE_EXCEEDED after `timeout` seconds.

        The wait survives restarts of the server that take up to `reconnect_seconds` each.
        """
        last = JobState.UNSPECIFIED
        for event in self.follow_states(job_id, timeout, reconnect_seconds):
            last = event.state
        return last

    def read_artifact(self, artifact: StagedArtifact) -> Iterator[bytes]:
        """Yields the content of an artifact of an unfinished job in chunks."""
        request = artifact_wire.encode_artifact_request(artifact)
        for message in _read_stream(self._retrieval.GetArtifact(request)):
            yield message.data

    def close(self) -> None:
        """Ends all calls and streams."""
        self._closed.set()
        self._channel.close()

    def __enter__(self) -> JobClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _call_observation_service(self, method: str, request: Any, **more: Any) -> Any:
        call = self._channel.unary_unary(f"/{SERVICE}/{method}")
        return decode_json(self._call_server(call, encode_json(request), **more))

    def _get_record(self, kind: type[_Record], method: str, request: Any, **more: Any) -> _Record:
        return make_record(kind, self._call_observation_service(method, request, **more))

    def _call_server(self, method: Any, request: Any, **overrides: Any) -> Any:
        try:
            return method(request, **{"timeout": self._timeout, **overrides})
        except grpc.RpcError as error:
            raise _convert_rpc_error(error) from None


def _read_stream(call: Any) -> Iterator[Any]:
    try:
        yield from call
    except grpc.RpcError as error:
        raise _convert_rpc_error(error) from None
    finally:
        call.cancel()


def _convert_rpc_error(error: Any) -> JobApiError:
    return JobApiError(error.code().name, error.details() or "no details")


def _answer_staging_request(
    message: Any, offered: frozenset[ArtifactDependency]
) -> Iterator[ContentChunk | ResolveAnswer]:
    """Yields the answers to one request of a server that collects artifacts."""
    request = artifact_wire.decode_staging_request(message)
    if request is None or request.dependency not in offered:
        raise JobServicesError("the server requests an artifact that the pipeline doesn't name")
    item = request.dependency
    if not isinstance(request, ContentRequest):
        yield ResolveAnswer((item,))
    elif isinstance(item.source, EmbeddedArtifact):
        yield ContentChunk(item.source.data, True)
    elif path := artifact_wire.get_file_path(item):
        with Path(path).open("rb") as file:
            while chunk := file.read(_CHUNK):
                yield ContentChunk(chunk, False)
        yield ContentChunk(b"", True)
    else:
        raise JobServicesError(f"this client can't send the artifact {item}")


def read_times_by_job(client: JobClient) -> dict[str, JobTimes]:
    """Returns the times of the jobs of a server by job id; none if the server doesn't report times.

    Raises:
        JobApiError: the server doesn't answer.
    """
    try:
        return {one.job_id: one for one in client.get_job_times()}
    except JobApiError as error:
        if error.code != "UNIMPLEMENTED":
            raise
        return {}
