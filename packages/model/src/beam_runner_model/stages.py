"""What a harness must know of a job: fused stages, their edges, environments.

Protocol buffers are here as bytes that nobody but a harness reads.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping

import attrs

_MOST_NAMED = 6
"""Messages name all transforms of a stage that has no more."""


class InputKind(enum.Enum):
    """How the elements of a stage's main input arrive."""

    ELEMENTS = "elements"
    """:class:`ElementChunk`: concatenated windowed values."""
    GROUPS = "groups"
    """:class:`GroupChunk`: keys with all their values, the result of a GroupByKey."""


class OutputKind(enum.Enum):
    """How the elements of one output of a stage leave."""

    ELEMENTS = "elements"
    """:class:`ElementChunk`: stored, then read in the same order, or dealt out one by one."""
    KEYED = "keyed"
    """:class:`KeyedChunk`: key, value and window apart: for a GroupByKey or a keyed side input."""


@attrs.frozen
class InputEdge:
    """The one main input of a stage.

    Attributes:
        transform_id: the data-source transform in the stage's descriptor.
        kind: the chunks that will be given.
    """

    transform_id: str
    kind: InputKind


@attrs.frozen
class OutputEdge:
    """One output of a stage.

    Attributes:
        transform_id: the data-sink transform in the stage's descriptor; names the output.
        kind: the chunks that are wanted.
        keyed_by_element: for ``KEYED``: the element is not a key-value pair that shall be cut;
            the whole element is the value and the key is empty (an iterable side input).
        whole_elements: for ``KEYED``: the value is the whole key-value pair, as a windowed value
            in the row's one window, encoded as for ``ELEMENTS`` (the input of a stateful stage).
        timestamps: for ``KEYED``: whether each row's event time is needed. Without it
            ``KeyedChunk.timestamps`` is None, which saves the cost of keeping it.
        min_timestamp: for the other kinds: whether each chunk must tell its earliest event time.
        windows: for the other kinds: whether each chunk must be of one window, and tell it. An
            element in several windows is then one in each.
    """

    transform_id: str
    kind: OutputKind
    keyed_by_element: bool = False
    whole_elements: bool = False
    timestamps: bool = True
    min_timestamp: bool = False
    windows: bool = False


@attrs.frozen
class HarnessStage:
    """Everything a harness must know of one fused stage.

    Attributes:
        stage_id: unique within the job; also the id of the bundle descriptor.
        name: all of the stage's transforms, with `` + `` between them; see :attr:`title`.
        environment_id: the key of the environment in the pipeline.
        descriptor: a serialized ``ProcessBundleDescriptor`` without any endpoint. Its data sources
            and sinks are the transforms ``beam:runner:source:v1`` and ``beam:runner:sink:v1``
            named by ``input`` and ``outputs``; their payload is a ``RemoteGrpcPort`` which holds
            the windowed coder's id and no address. Each harness puts its own there.
        input: the main input.
        outputs: every output, in a fixed order; may be empty.
    """

    stage_id: str
    name: str
    environment_id: str
    descriptor: bytes
    input: InputEdge
    outputs: tuple[OutputEdge, ...]

    @property
    def title(self) -> str:
        """Its transforms for messages: of many the first, the last, and how many they are."""
        names = self.name.split(" + ")
        if len(names) <= _MOST_NAMED:
            return self.name
        return f"{names[0]} ... {names[-1]} ({len(names):,} transforms)"


@attrs.frozen
class Artifact:
    """A file that the environment needs, by its content.

    Attributes:
        role_urn: Beam's role (``beam:artifact:role:staging_to:v1`` for staged files).
        role_payload: the serialized role payload.
        type_urn: Beam's type as the retrieval service shall report it.
        type_payload: the serialized type payload, which the harness hands back when it asks.
        staged_name: the name under which an SDK expects the file; never used as a path as it is.
        sha256: hex digest of the content: what :class:`~beam_runner_worker.ports.ArtifactReader`
            is asked for.
    """

    role_urn: str
    role_payload: bytes
    type_urn: str
    type_payload: bytes
    staged_name: str
    sha256: str


@attrs.frozen
class Environment:
    """An SDK environment, its ``anyof`` already resolved to one kind.

    Attributes:
        urn: for instance ``beam:env:external:v1``.
        payload: the serialized payload of that kind.
        artifacts: what must be staged for it.
    """

    urn: str
    payload: bytes
    artifacts: tuple[Artifact, ...] = ()


@attrs.frozen
class JobContext:
    """What every stage of a job shares.

    Attributes:
        job_id: unique for the server's life.
        job_name: for people.
        options_json: the pipeline options as the client sent them: a JSON object, the keys with
            or without ``beam:option:...:v1`` around them.
        environments: by environment id.
    """

    job_id: str
    job_name: str
    options_json: str
    environments: Mapping[str, Environment]
