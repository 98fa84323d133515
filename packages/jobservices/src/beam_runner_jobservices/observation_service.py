"""The gRPC service for reports beyond the Job API; see `observation`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import attrs
import grpc

from beam_runner_jobservices.error_statuses import answer_errors
from beam_runner_jobservices.errors import InvalidRequest, JobRejected
from beam_runner_jobservices.finished_job import FinishedJob
from beam_runner_jobservices.job import Job
from beam_runner_jobservices.job_log import LogQuery
from beam_runner_jobservices.observation_json import SERVICE, decode_json, encode_json, make_record
from beam_runner_jobservices.ports import JobObserver, StoryTeller
from beam_runner_jobservices.registry import JobRegistry


class ObservationService:
    """The gRPC service for the progress, logs and errors of jobs. The data comes from `registry`, or
    from a job's handle if the handle is a `JobObserver`.

    `kept_until` returns the finished jobs whose state the runner stores, and the expiry times.
    `tell_story` returns the journal's records about a bundle, by the ids of the job and the bundle;
    None without records. `pages` returns the URL of web pages about the jobs, or an empty text.
    """

    def __init__(
        self,
        registry: JobRegistry,
        kept_until: Callable[[], Mapping[str, float]] = dict,
        tell_story: StoryTeller | None = None,
        pages: Callable[[], str] = str,
    ) -> None:
        self._pages = pages
        self._registry = registry
        self._tell_story = tell_story
        self._kept_until = kept_until

    def handlers(self) -> Any:
        """Returns the handlers to add to a gRPC server."""
        methods: dict[str, Callable[..., Any]] = {
            "ListJobs": self.ListJobs,
            "GetExecution": self.GetExecution,
            "GetSeries": self.GetSeries,
            "GetStacks": self.GetStacks,
            "GetErrors": self.GetErrors,
            "GetLogs": self.GetLogs,
            "GetStory": self.GetStory,
            "GetPages": self.GetPages,
        }
        return grpc.method_handlers_generic_handler(
            SERVICE,
            {
                name: grpc.unary_unary_rpc_method_handler(
                    method, request_deserializer=bytes, response_serializer=encode_json
                )
                for name, method in methods.items()
            },
        )

    @answer_errors
    def ListJobs(self, request: bytes, context: grpc.ServicerContext) -> Any:
        kept = self._kept_until()
        times = (job.times() for job in self._registry.list_jobs())
        return {
            "jobs": [
                attrs.evolve(one, kept_until=kept[one.job_id]) if one.job_id in kept else one
                for one in times
            ]
        }

    @answer_errors
    def GetExecution(self, request: bytes, context: grpc.ServicerContext) -> Any:
        return self._find_observer(request).execution()

    @answer_errors
    def GetSeries(self, request: bytes, context: grpc.ServicerContext) -> Any:
        return {"series": self._find_job(request).get_stage_series()}

    @answer_errors
    def GetStacks(self, request: bytes, context: grpc.ServicerContext) -> Any:
        return {"stacks": self._find_observer(request).stacks()}

    @answer_errors
    def GetErrors(self, request: bytes, context: grpc.ServicerContext) -> Any:
        return self._find_job(request).history.collect_errors()

    @answer_errors
    def GetLogs(self, request: bytes, context: grpc.ServicerContext) -> Any:
        job = self._find_job(request)
        asked = decode_json(request).get("query", {})
        if not isinstance(asked, Mapping):
            raise InvalidRequest("the query isn't a JSON object")
        try:
            return job.history.query_logs(make_record(LogQuery, asked))
        except (TypeError, ValueError, OverflowError) as error:
            raise InvalidRequest(f"the query is invalid: {error}") from error

    @answer_errors
    def GetPages(self, request: bytes, context: grpc.ServicerContext) -> Any:
        return {"url": self._pages()}

    @answer_errors
    def GetStory(self, request: bytes, context: grpc.ServicerContext) -> Any:
        self._find_job(request)
        asked = decode_json(request)
        bundle = asked.get("bundle")
        if not isinstance(bundle, int) or isinstance(bundle, bool):
            raise InvalidRequest("the bundle of the request isn't a number")
        if self._tell_story is None:
            raise JobRejected("this runner has no journal of bundles")
        return self._tell_story(str(asked["job_id"]), bundle)

    def _find_job(self, request: bytes) -> Job | FinishedJob:
        try:
            job_id = str(decode_json(request)["job_id"])
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise InvalidRequest("the request isn't a JSON object with a job_id") from error
        return self._registry.get_job(job_id)

    def _find_observer(self, request: bytes) -> JobObserver:
        return self._find_job(request).observer
