"""Stages, edges and environments of a job, as a harness needs them.

Only harnesses read the protocol buffers, which are `bytes` in these records.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping

import attrs

_MOST_NAMED = 6
"""Maximum number of transforms that messages list by name."""


class InputKind(enum.Enum):
    """Form of the chunks with which a stage receives its main input: single elements, or groups of a
    key with its values.
    """

    ELEMENTS = "elements"
    """:class:`ElementChunk`: concatenated windowed values."""
    GROUPS = "groups"
    """:class:`GroupChunk`: keys with all their values, the result of a GroupByKey."""


class OutputKind(enum.Enum):
    """Form of the chunks with which a stage emits an output: encoded elements, or columns of keys,
    values and windows.
    """

    ELEMENTS = "elements"
    """:class:`ElementChunk`: for data that is stored and read in the same order, or rebalanced."""
    KEYED = "keyed"
    """:class:`KeyedChunk`: columns of key, value and window, for a GroupByKey or a keyed side
    input.
    """


@attrs.frozen
class InputEdge:
    """Main input of a stage: the transform that receives the data, and the form of the chunks.

    Attributes:
        transform_id: the data-source transform in the stage's descriptor.
        kind: the kind of chunks that the stage receives.
    """

    transform_id: str
    kind: InputKind


@attrs.frozen
class OutputEdge:
    """Output of a stage: the transform that names the output, and the form of the chunks.

    Attributes:
        transform_id: the data-sink transform in the stage's descriptor, which names the output.
        kind: the kind of chunks that the stage emits.
        keyed_by_element: for ``KEYED``: whether the complete element is the value and the key is
            empty, without splitting into key and value (an iterable side input).
        whole_elements: for ``KEYED``: whether the value is the complete key-value pair, as a
            windowed value in the row's window, encoded as for ``ELEMENTS`` (the input of a stateful
            stage).
        timestamps: for ``KEYED``: whether the event time of each row is needed. If False,
            ``KeyedChunk.timestamps`` is None, which saves storage.
        min_timestamp: for ``ELEMENTS``: whether each chunk reports its earliest event time.
        windows: for ``ELEMENTS``: whether each chunk contains and reports a single window. An
            element in several windows then appears once in each window.
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
    """Specification of a fused stage for a harness.

    Attributes:
        stage_id: unique ID in the job, also the ID of the bundle descriptor.
        name: the names of all transforms of the stage, joined by ``"+"`` with a space on each side; see :attr:`title`.
        environment_id: the key of the environment in the pipeline.
        descriptor: a serialized ``ProcessBundleDescriptor`` without endpoints. ``input`` and
            ``outputs`` name its data sources (``beam:runner:source:v1``) and sinks
            (``beam:runner:sink:v1``). The payload of each is a ``RemoteGrpcPort`` with the ID of
            the windowed coder. Each harness adds its address.
        input: the main input.
        outputs: all outputs, in a fixed order; can be empty.
    """

    stage_id: str
    name: str
    environment_id: str
    descriptor: bytes
    input: InputEdge
    outputs: tuple[OutputEdge, ...]

    @property
    def title(self) -> str:
        """Names of the transforms for messages; for a long list, the first, the last and the number
        of transforms.
        """
        names = self.name.split(" + ")
        if len(names) <= _MOST_NAMED:
            return self.name
        return f"{names[0]} ... {names[-1]} ({len(names):,} transforms)"


@attrs.frozen
class Artifact:
    """File that an environment needs, identified by its content.

    Attributes:
        role_urn: the URN of the artifact role (``beam:artifact:role:staging_to:v1`` for staged
            files).
        role_payload: the serialized payload of the role.
        type_urn: the URN of the artifact type that the retrieval service reports.
        type_payload: the serialized payload of the type, which the harness returns in its requests.
        staged_name: the file name that the SDK expects. Don't use the name as a path without
            checking.
        sha256: the SHA-256 hash of the content in hexadecimal, which
            :class:`~beam_runner_worker.ports.ArtifactReader` takes.
    """

    role_urn: str
    role_payload: bytes
    type_urn: str
    type_payload: bytes
    staged_name: str
    sha256: str


@attrs.frozen
class Environment:
    """SDK environment with a single kind; an ``anyof`` environment is already resolved.

    Attributes:
        urn: the URN of the kind, for example ``beam:env:external:v1``.
        payload: the serialized payload of the kind.
        artifacts: the artifacts that the environment needs.
    """

    urn: str
    payload: bytes
    artifacts: tuple[Artifact, ...] = ()


@attrs.frozen
class JobContext:
    """Properties of a job that all its stages share.

    Attributes:
        job_id: unique ID for the lifetime of the server.
        job_name: the user's name of the job, for display.
        options_json: the pipeline options as the client sent them. The text is a JSON object, with
            or without ``beam:option:...:v1`` in its keys.
        environments: the environments, by environment ID.
    """

    job_id: str
    job_name: str
    options_json: str
    environments: Mapping[str, Environment]
