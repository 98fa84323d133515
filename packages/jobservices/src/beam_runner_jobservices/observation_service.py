"""Observation service: a gRPC service for reports about jobs that the Job API doesn't have, and for
savepoints, rollbacks and replays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import attrs
import grpc
from beam_runner_model.successions import RollbackRequest

from beam_runner_jobservices.error_statuses import convert_errors_to_status
from beam_runner_jobservices.errors import InvalidRequest, JobRejected
from beam_runner_jobservices.finished_job import FinishedJob
from beam_runner_jobservices.job import Job
from beam_runner_jobservices.job_log import LogQuery
from beam_runner_jobservices.observation_json import SERVICE, decode_json, encode_json, make_record
from beam_runner_jobservices.ports import (
    JobObserver,
    QuarantineReplayer,
    SavepointMaker,
    StoryTeller,
)
from beam_runner_jobservices.registry import JobRegistry
from beam_runner_jobservices.rollbacks import RollbackStarter
from beam_runner_jobservices.visible_jobs import OwnerLimit, VisibleJobs


class ObservationService:
    """The gRPC service for the progress, logs and errors of jobs. The data comes from `registry`, or
    from a job's handle if the handle is a `JobObserver`.

    `kept_until` returns the finished jobs whose state the runner stores, and the expiry times.
    `tell_story` returns the journal's records about a bundle, by the ids of the job and the bundle;
    None without records. `make_savepoint` copies the state of a stream, `replay_quarantine` feeds
    quarantined elements back into a job, and `rollbacks` replaces running jobs; None if the runner
    can't. `pages` returns the URL of web pages about the jobs, or an empty text. `find_owner_limit`
    returns the user to whose jobs a call is limited, and `find_user_name` the user who makes the
    call.
    """

    def __init__(
        self,
        registry: JobRegistry,
        kept_until: Callable[[], Mapping[str, float]] = dict,
        tell_story: StoryTeller | None = None,
        make_savepoint: SavepointMaker | None = None,
        replay_quarantine: QuarantineReplayer | None = None,
        rollbacks: RollbackStarter | None = None,
        pages: Callable[[], str] = str,
        find_owner_limit: OwnerLimit = lambda metadata: None,
        find_user_name: Callable[[Iterable[Any]], str] = lambda metadata: "",
    ) -> None:
        self._rollbacks = rollbacks
        self._find_user_name = find_user_name
        self._pages = pages
        self._visible = VisibleJobs(registry, find_owner_limit)
        self._tell_story = tell_story
        self._make_savepoint = make_savepoint
        self._replay_quarantine = replay_quarantine
        self._kept_until = kept_until

    def make_handlers(self) -> Any:
        """Returns the handlers to add to a gRPC server."""
        methods: dict[str, Callable[..., Any]] = {
            "ListJobs": self.ListJobs,
            "GetExecution": self.GetExecution,
            "GetSeries": self.GetSeries,
            "GetStacks": self.GetStacks,
            "GetErrors": self.GetErrors,
            "GetLogs": self.GetLogs,
            "GetStory": self.GetStory,
            "GetSuccession": self.GetSuccession,
            "GetPages": self.GetPages,
            "MakeSavepoint": self.MakeSavepoint,
            "ReplayQuarantine": self.ReplayQuarantine,
            "RollBack": self.RollBack,
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

    @convert_errors_to_status
    def ListJobs(self, request: bytes, context: grpc.ServicerContext) -> Any:
        kept = self._kept_until()
        times = (job.get_times() for job in self._visible.list_jobs(context))
        return {
            "jobs": [
                attrs.evolve(one, kept_until=kept[one.job_id]) if one.job_id in kept else one
                for one in times
            ]
        }

    @convert_errors_to_status
    def GetExecution(self, request: bytes, context: grpc.ServicerContext) -> Any:
        return self._find_observer(request, context).get_execution()

    @convert_errors_to_status
    def GetSeries(self, request: bytes, context: grpc.ServicerContext) -> Any:
        return {"series": self._find_job(request, context).get_stage_series()}

    @convert_errors_to_status
    def GetStacks(self, request: bytes, context: grpc.ServicerContext) -> Any:
        return {"stacks": self._find_observer(request, context).get_stacks()}

    @convert_errors_to_status
    def GetErrors(self, request: bytes, context: grpc.ServicerContext) -> Any:
        return self._find_job(request, context).history.collect_errors()

    @convert_errors_to_status
    def GetLogs(self, request: bytes, context: grpc.ServicerContext) -> Any:
        job = self._find_job(request, context)
        asked = decode_json(request).get("query", {})
        if not isinstance(asked, Mapping):
            raise InvalidRequest("the query isn't a JSON object")
        try:
            return job.history.query_logs(make_record(LogQuery, asked))
        except (TypeError, ValueError, OverflowError) as error:
            raise InvalidRequest(f"the query is invalid: {error}") from error

    @convert_errors_to_status
    def GetSuccession(self, request: bytes, context: grpc.ServicerContext) -> Any:
        return self._find_job(request, context).succession

    @convert_errors_to_status
    def GetPages(self, request: bytes, context: grpc.ServicerContext) -> Any:
        return {"url": self._pages()}

    @convert_errors_to_status
    def GetStory(self, request: bytes, context: grpc.ServicerContext) -> Any:
        self._find_job(request, context)
        asked = decode_json(request)
        bundle = asked.get("bundle")
        if not isinstance(bundle, int) or isinstance(bundle, bool):
            raise InvalidRequest("the bundle of the request isn't a number")
        if self._tell_story is None:
            raise JobRejected("this runner doesn't record the history of bundles")
        return self._tell_story(str(asked["job_id"]), bundle)

    @convert_errors_to_status
    def MakeSavepoint(self, request: bytes, context: grpc.ServicerContext) -> Any:
        job = self._find_job(request, context)
        url = _read_url(decode_json(request))
        if self._make_savepoint is None:
            raise JobRejected("this runner doesn't support savepoints")
        return self._make_savepoint(job.info, url)

    @convert_errors_to_status
    def RollBack(self, request: bytes, context: grpc.ServicerContext) -> Any:
        job = self._find_job(request, context)
        if self._rollbacks is None:
            raise JobRejected("this runner can't replace running jobs")
        try:
            asked = make_record(RollbackRequest, decode_json(request).get("request", {}))
        except (TypeError, ValueError, LookupError, AttributeError) as error:
            raise InvalidRequest(f"the request of the rollback is invalid: {error}") from error
        user = self._find_user_name(context.invocation_metadata())
        return {"job_id": self._rollbacks.begin_rollback(job, asked, user)}

    @convert_errors_to_status
    def ReplayQuarantine(self, request: bytes, context: grpc.ServicerContext) -> Any:
        job = self._find_job(request, context)
        asked = decode_json(request)
        if self._replay_quarantine is None:
            raise JobRejected("this runner has no quarantine")
        return self._replay_quarantine(job.info, _read_url(asked), asked.get("expired") is True)

    def _find_job(self, request: bytes, context: grpc.ServicerContext) -> Job | FinishedJob:
        try:
            job_id = str(decode_json(request)["job_id"])
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise InvalidRequest("the request isn't a JSON object with a job_id") from error
        return self._visible.get_job(job_id, context)

    def _find_observer(self, request: bytes, context: grpc.ServicerContext) -> JobObserver:
        return self._find_job(request, context).observer


def _read_url(asked: Mapping[str, Any]) -> str:
    url = asked.get("url")
    if not isinstance(url, str) or not url:
        raise InvalidRequest("the request has no URL")
    return url
