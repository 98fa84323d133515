"""Records of jobs: states, messages, artifacts, specifications, metrics and pipeline options.

The records mirror the messages of Beam's `beam_job_api.proto` and `metrics.proto`, so runners and
user interfaces don't need protos. Job times are wall-clock seconds since the Unix epoch, as floats.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias

import attrs

from beam_runner_model.failures import FailedBundle, JobFailure


class JobState(enum.Enum):
    """State of a job. The values are the numbers of `JobState.Enum` in the Job API."""

    UNSPECIFIED = 0
    STOPPED = 1
    RUNNING = 2
    DONE = 3
    FAILED = 4
    CANCELLED = 5
    UPDATED = 6
    DRAINING = 7
    DRAINED = 8
    STARTING = 9
    CANCELLING = 10
    UPDATING = 11

    @property
    def is_terminal(self) -> bool:
        """Whether the state is final: a job in this state never changes its state again."""
        return self in _TERMINAL


_TERMINAL = frozenset(
    {JobState.DONE, JobState.FAILED, JobState.CANCELLED, JobState.UPDATED, JobState.DRAINED}
)


class Importance(enum.IntEnum):
    """Importance of a job message. The values are the numbers of `JobMessage.MessageImportance`."""

    UNSPECIFIED = 0
    DEBUG = 1
    DETAILED = 2
    BASIC = 3
    WARNING = 4
    ERROR = 5


@attrs.frozen
class StateEvent:
    """Transition of a job to `state` at `time` (wall-clock seconds since the Unix epoch)."""

    state: JobState
    time: float


MessageRecord: TypeAlias = FailedBundle | JobFailure | None
"""Structured content of a message: a failed attempt, the reason of a failed job, or None."""


@attrs.frozen
class JobMessage:
    """Line of a job's message stream.

    The message stream of the Job API has no fields for `transform`, `worker` and `record`. Clients
    that read the stream therefore see the default values.

    Attributes:
        message_id: an ID that is unique in the job and increases with the order of messages.
        time: the time of the message as text. This project's server writes ISO 8601 in UTC; other
            servers can use other formats.
        importance: the importance of the message.
        text: the text for users, which starts with the name of `transform` in brackets.
        transform: the full name of the transform that the message concerns; empty if unknown.
        worker: the process that logged the line, as ``host:process``; empty if unknown.
        record: the structured content of the message, for programs.
    """

    message_id: str
    time: str
    importance: Importance
    text: str
    transform: str = ""
    worker: str = ""
    record: MessageRecord = None

    @property
    def line(self) -> str:
        """Text of the message without the name of the transform."""
        return self.text.removeprefix(f"[{self.transform}] ") if self.transform else self.text


PRINT_PREFIX = "print: "
"""The start of the text of a message with a line that user code printed."""


class MessageLine(NamedTuple):
    """Line that a job logs, before the server assigns an ID and a time.

    Attributes:
        importance: the importance of the line.
        text: the text for users.
        transform: the full name of the transform; empty if unknown.
        worker: the process that logged the line, as ``host:process``; empty if unknown.
        record: the structured content of the line, for programs.
    """

    importance: Importance
    text: str
    transform: str = ""
    worker: str = ""
    record: MessageRecord = None


@attrs.frozen
class JobInfo:
    """Entry of a job in the list of jobs."""

    job_id: str
    job_name: str
    state: JobState
    options: Mapping[str, Any] = attrs.field(factory=dict)


@attrs.frozen
class StagedArtifact:
    """File that an environment of the pipeline depends on, stored in the artifact store.

    Attributes:
        type_urn: the URN of the artifact type.
        role_urn: the URN of the artifact role, as the client sent it.
        role_payload: the payload of the role, as the client sent it.
        staged_name: the file name in a `staging_to` role; empty for other roles. The client chooses
            the name, so never join it to a path; use `file_name` instead.
        sha256: the SHA-256 hash of the content, in lower-case hexadecimal.
        size: the size of the content in bytes.
        path: the path of the file in the store. The file never changes after it is stored.
    """

    type_urn: str
    role_urn: str
    role_payload: bytes
    staged_name: str
    sha256: str
    size: int
    path: str

    @property
    def file_name(self) -> str:
        """Last path component of `staged_name`, or the hash if the component is empty; safe to use
        in a folder.
        """
        name = self.staged_name.replace("\\", "/").rpartition("/")[2].replace("\0", "")
        return self.sha256 if name in ("", ".", "..") else name


@attrs.frozen
class JobSpec:
    """Specification of a job for an executor.

    Attributes:
        job_id: the unique ID of the job.
        job_name: the user's name of the job: the value of `beam:option:job_name:v1`, or the name in
            the Prepare request.
        pipeline: a serialized `beam_runner_api.Pipeline` without dangling references. All
            dependencies of its environments, including alternatives of an `anyof`, have type
            `beam:artifact:type:file:v1` with a path and an SHA-256 hash.
        options: the pipeline options with the keys that the client sent (`beam:option:<name>:v1`
            from SDKs).
        options_json: the same options as the JSON text of the `Struct`, to pass to SDK harnesses
            unchanged.
        artifacts: the resolved artifacts of each environment, by environment ID, without
            duplicates. An `anyof` environment has the artifacts of all its alternatives.
        retrieval_endpoint: the address (`host:port`) of the ArtifactRetrievalService that serves
            the artifacts.
        resumed: whether an earlier run of the server already passed this job to an executor. If the
            executor has no record of such a job, the job is lost.
        user: the name of the user who submitted the job; empty if the server has no users.
    """

    job_id: str
    job_name: str
    pipeline: bytes = attrs.field(repr=False)
    options: Mapping[str, Any] = attrs.field(repr=False)
    options_json: str = attrs.field(repr=False)
    artifacts: Mapping[str, tuple[StagedArtifact, ...]] = attrs.field(repr=False)
    retrieval_endpoint: str
    resumed: bool = False
    user: str = ""


@attrs.frozen
class MetricCell:
    """Metric cell, as `MonitoringInfo` in Beam's `metrics.proto`. The `type` is the URN of the
    encoding of `payload`.
    """

    urn: str
    type: str
    payload: bytes
    labels: Mapping[str, str] = attrs.field(factory=dict)


@attrs.frozen
class JobMetrics:
    """Metrics of a job: `attempted` covers all attempts, `committed` covers only committed work."""

    attempted: tuple[MetricCell, ...] = ()
    committed: tuple[MetricCell, ...] = ()


class OptionType(enum.Enum):
    """Type of a pipeline option. The values are the numbers of `PipelineOptionType.Enum`."""

    STRING = 0
    BOOLEAN = 1
    INTEGER = 2
    NUMBER = 3
    ARRAY = 4
    OBJECT = 5


@attrs.frozen
class PipelineOption:
    """Pipeline option that the runner supports, as the Job API's DescribePipelineOptions lists the
    option.

    SDKs drop unknown options unless the server lists the options.

    Attributes:
        name: the name without dashes, for example `parallelism`.
        type: the type of the value.
        description: a description for users.
        default: the default value as text. In the Python SDK, the flag of a BOOLEAN option with the
            default `"true"` sets the option to false.
        group: the heading under which the option is listed.
    """

    name: str
    type: OptionType
    description: str
    default: str = ""
    group: str = ""
