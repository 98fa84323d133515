"""The Beam Job API server and client, as a library for any runner.

`JobServer` passes jobs to a runner's `JobExecutor`. `JobClient` is a client of any job server.
"""

from __future__ import annotations

from beam_runner_model.errors import Unavailable
from beam_runner_model.failures import Ending, EndingKind, FailedBundle, FailureCause
from beam_runner_model.jobs import (
    Artifact,
    Importance,
    JobInfo,
    JobMessage,
    JobMetrics,
    JobSpec,
    JobState,
    MessageLine,
    MessageRecord,
    MonitoringInfo,
    OptionType,
    PipelineOption,
    StateEvent,
)
from beam_runner_model.observation import (
    BundlePlace,
    Execution,
    JobTimes,
    RunningBundle,
    SeriesPoint,
    StackFrame,
    StageSeries,
    ThreadStack,
)
from beam_runner_model.rendering import render, render_waits
from beam_runner_model.stories import (
    BundleStory,
    DataPiece,
    StoryKind,
    StoryStatus,
    StoryStep,
    render_piece,
    render_status,
    render_step,
    render_story,
)
from beam_runner_model.waits import Wait, WaitKind

from beam_runner_jobservices.channels import Credentials
from beam_runner_jobservices.client import JobClient
from beam_runner_jobservices.description import (
    EnvironmentDescription,
    PCollectionDescription,
    PipelineDescription,
    StepDescription,
)
from beam_runner_jobservices.door import Door
from beam_runner_jobservices.error_log import Errors, FailureGroup, errors_among
from beam_runner_jobservices.errors import (
    AddressError,
    ExecutorFailed,
    IllegalTransition,
    InvalidRequest,
    JobApiError,
    JobRejected,
    JobServicesError,
    NotFound,
    NotReady,
    TooMany,
    Unguarded,
)
from beam_runner_jobservices.failures import Failure, Frame, is_users
from beam_runner_jobservices.guard import Guard
from beam_runner_jobservices.job_log import LogQuery, LogRecord, Logs, select_logs
from beam_runner_jobservices.limits import Limits
from beam_runner_jobservices.metric_values import Distribution, Latest, MetricValue, metric_value
from beam_runner_jobservices.ports import (
    JobExecutor,
    JobHandle,
    JobObserver,
    JobReporter,
    StoryTeller,
)
from beam_runner_jobservices.server import JobServer
from beam_runner_jobservices.step_names import StepNames
from beam_runner_jobservices.texts import seconds_of
from beam_runner_jobservices.wire.descriptions import describe_pipeline
from beam_runner_jobservices.wire.jobs import Prepared
from beam_runner_jobservices.wire.pipelines import check_pipeline

__all__ = [
    "AddressError",
    "Artifact",
    "BundlePlace",
    "BundleStory",
    "Credentials",
    "DataPiece",
    "Distribution",
    "Door",
    "Ending",
    "EndingKind",
    "EnvironmentDescription",
    "Errors",
    "Execution",
    "ExecutorFailed",
    "FailedBundle",
    "Failure",
    "FailureCause",
    "FailureGroup",
    "Frame",
    "Guard",
    "IllegalTransition",
    "Importance",
    "InvalidRequest",
    "JobApiError",
    "JobClient",
    "JobExecutor",
    "JobHandle",
    "JobInfo",
    "JobMessage",
    "JobMetrics",
    "JobObserver",
    "JobRejected",
    "JobReporter",
    "JobServer",
    "JobServicesError",
    "JobSpec",
    "JobState",
    "JobTimes",
    "Latest",
    "Limits",
    "LogQuery",
    "LogRecord",
    "Logs",
    "MessageLine",
    "MessageRecord",
    "MetricValue",
    "MonitoringInfo",
    "NotFound",
    "NotReady",
    "OptionType",
    "PCollectionDescription",
    "PipelineDescription",
    "PipelineOption",
    "Prepared",
    "RunningBundle",
    "SeriesPoint",
    "StackFrame",
    "StageSeries",
    "StateEvent",
    "StepDescription",
    "StepNames",
    "StoryKind",
    "StoryStatus",
    "StoryStep",
    "StoryTeller",
    "ThreadStack",
    "TooMany",
    "Unavailable",
    "Unguarded",
    "Wait",
    "WaitKind",
    "check_pipeline",
    "describe_pipeline",
    "errors_among",
    "is_users",
    "metric_value",
    "render",
    "render_piece",
    "render_status",
    "render_step",
    "render_story",
    "render_waits",
    "seconds_of",
    "select_logs",
]
