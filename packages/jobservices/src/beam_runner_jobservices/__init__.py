"""The Beam Job API server and client, as a library for any runner.

`JobServer` serves jobs to a runner's `JobExecutor`; `JobClient` talks to any job server.
"""

from __future__ import annotations

from .channels import Credentials
from .client import JobClient
from .description import (
    EnvironmentDescription,
    PCollectionDescription,
    PipelineDescription,
    StepDescription,
)
from .door import Door
from .error_log import Errors, FailureGroup, grouped
from .errors import (
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
    Unavailable,
    Unguarded,
)
from .failures import Failure, Frame, is_retried, is_users
from .guard import Guard
from .job_log import LogQuery, LogRecord, Logs, select_logs
from .limits import Limits
from .metric_values import Distribution, Latest, MetricValue, metric_value
from .observation import (
    OUTSIDE,
    STARTING_HARNESS,
    UNAVAILABLE,
    USER_CODE,
    AwaitedNeighbour,
    Execution,
    FailedBundle,
    JobTimes,
    RunningBundle,
    SeriesPoint,
    StackFrame,
    StageSeries,
    ThreadStack,
)
from .ports import JobExecutor, JobHandle, JobObserver, JobReporter, MessageLine
from .records import (
    Artifact,
    Importance,
    JobInfo,
    JobMessage,
    JobMetrics,
    JobSpec,
    JobState,
    MonitoringInfo,
    OptionType,
    PipelineOption,
    StateEvent,
)
from .server import JobServer
from .step_names import StepNames
from .texts import seconds_of
from .wire.descriptions import describe_pipeline
from .wire.jobs import Prepared

__all__ = [
    "OUTSIDE",
    "STARTING_HARNESS",
    "UNAVAILABLE",
    "USER_CODE",
    "AddressError",
    "Artifact",
    "AwaitedNeighbour",
    "Credentials",
    "Distribution",
    "Door",
    "EnvironmentDescription",
    "Errors",
    "Execution",
    "ExecutorFailed",
    "FailedBundle",
    "Failure",
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
    "ThreadStack",
    "TooMany",
    "Unavailable",
    "Unguarded",
    "describe_pipeline",
    "grouped",
    "is_retried",
    "is_users",
    "metric_value",
    "seconds_of",
    "select_logs",
]
