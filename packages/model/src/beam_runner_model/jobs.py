"""The values that cross this package's edges, as frozen records.

They mirror the messages of Beam's `beam_job_api.proto` and `metrics.proto`, so that a runner or a
user interface can be written without touching a proto. Job times are wall-clock seconds since the
epoch, as floats.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias

import attrs

from beam_runner_model.failures import Ending, FailedBundle


class JobState(enum.Enum):
    """State of a job; the values are the numbers of `JobState.Enum` in the Job API."""

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
        """Whether a job in this state has ended for good."""
        return self in _TERMINAL


_TERMINAL = frozenset(
    {JobState.DONE, JobState.FAILED, JobState.CANCELLED, JobState.UPDATED, JobState.DRAINED}
)


class Importance(enum.IntEnum):
    """Importance of a job message; the values are those of `JobMessage.MessageImportance`."""

    UNSPECIFIED = 0
    DEBUG = 1
    DETAILED = 2
    BASIC = 3
    WARNING = 4
    ERROR = 5


@attrs.frozen
class StateEvent:
    """A job entered `state` at `time` (wall-clock seconds since the epoch)."""

    state: JobState
    time: float


MessageRecord: TypeAlias = FailedBundle | Ending | None
"""What a message tells, for programs: an attempt that is followed by another, or why the job failed."""


@attrs.frozen
class JobMessage:
    """One line of a job's message stream.

    `message_id` is unique within the job and grows with the order of the messages. `time` is the
    server's text for the moment (ISO 8601, UTC, from our own server; other servers write what they
    like). `text` is what clients are shown, and begins with the name of the `transform` that it is about, in brackets.

    `transform`, by its full name, `worker`, the process that the line came from as `host:process`, and `record` are
    known where the message was made; they are not in the stream, and so empty in what a client reads there.
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
        """The text without the transform's name."""
        return self.text.removeprefix(f"[{self.transform}] ") if self.transform else self.text


class MessageLine(NamedTuple):
    """A line that a job logs: `transform` is a full name, `worker` the process in which the line was logged, as
    `host:process`; empty where there is none. `record` is what the text tells, for programs.
    """

    importance: Importance
    text: str
    transform: str = ""
    worker: str = ""
    record: MessageRecord = None


@attrs.frozen
class JobInfo:
    """What the list of jobs says about one job."""

    job_id: str
    job_name: str
    state: JobState
    options: Mapping[str, Any] = attrs.field(factory=dict)


@attrs.frozen
class StagedArtifact:
    """A file that an environment of the pipeline depends on, resolved into the artifact store.

    `path` is a file of the store that is never changed once it is there; `sha256` is the hash of
    its content in lower-case hexadecimal, `size` its length in bytes. `role_urn` and `role_payload`
    come from the client as they are; `staged_name` is the name in a `staging_to` role (else empty).
    It is the client's word: good for showing and for `pip`, and never to be joined to a path: see
    `file_name`.
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
        """The last part of `staged_name`, or the hash where there is none: safe within a folder."""
        name = self.staged_name.replace("\\", "/").rpartition("/")[2].replace("\0", "")
        return self.sha256 if name in ("", ".", "..") else name


@attrs.frozen
class JobSpec:
    """Everything an executor needs to run one job.

    - `job_name`: the user's name (`beam:option:job_name:v1` where given, else the name in Prepare).
    - `pipeline`: a serialized `beam_runner_api.Pipeline`, checked for dangling references, in which
      the dependencies of every environment (also of those inside an `anyof`) are
      `beam:artifact:type:file:v1` with path and sha256.
    - `options`: the pipeline options with their keys as sent (`beam:option:<name>:v1` from SDKs).
    - `options_json`: the same as the JSON text of the `Struct`, to be handed to SDK harnesses
      verbatim.
    - `artifacts`: per environment id the resolved artifacts, without duplicates; an `anyof`
      environment has those of all its alternatives (the pipeline says which alternative needs
      which).
    - `retrieval_endpoint`: `host:port` of the ArtifactRetrievalService, which serves any of these
      artifacts.
    - `resumed`: whether an executor has taken this job on before, in an earlier life of the server.
      A client has been told that it runs, so an executor that finds nothing of it has lost it.
    """

    job_id: str
    job_name: str
    pipeline: bytes = attrs.field(repr=False)
    options: Mapping[str, Any] = attrs.field(repr=False)
    options_json: str = attrs.field(repr=False)
    artifacts: Mapping[str, tuple[StagedArtifact, ...]] = attrs.field(repr=False)
    retrieval_endpoint: str
    resumed: bool = False


@attrs.frozen
class MetricCell:
    """One metric cell, as `MetricCell` in Beam's `metrics.proto`: `payload` is encoded as
    `type` says.
    """

    urn: str
    type: str
    payload: bytes
    labels: Mapping[str, str] = attrs.field(factory=dict)


@attrs.frozen
class JobMetrics:
    """A job's metrics: of everything tried (`attempted`) and of what was committed
    (`committed`).
    """

    attempted: tuple[MetricCell, ...] = ()
    committed: tuple[MetricCell, ...] = ()


class OptionType(enum.Enum):
    """Type of a runner's pipeline option; the values are those of `PipelineOptionType.Enum`."""

    STRING = 0
    BOOLEAN = 1
    INTEGER = 2
    NUMBER = 3
    ARRAY = 4
    OBJECT = 5


@attrs.frozen
class PipelineOption:
    """A pipeline option the runner understands, as DescribePipelineOptions lists it.

    SDKs drop options they do not know unless the server lists them. `name` is without dashes, as in
    `parallelism`; `default` is text (`"true"` makes a BOOLEAN one that the flag switches off in the
    Python SDK).
    """

    name: str
    type: OptionType
    description: str
    default: str = ""
    group: str = ""
