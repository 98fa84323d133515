"""The frozen records that cross the border between a harness and its host.

Protocol buffers never leave this package: a stage comes in as a :class:`StageSpec`, data comes in
and goes out as chunks of encoded elements, and what a bundle has to say comes back as a
:class:`BundleResult`. All event times are integers in milliseconds since the epoch.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence

import attrs

from beam_runner_worker.values import GroupValues

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
class StageSpec:
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


@attrs.frozen
class ElementChunk:
    """Windowed values, each encoded (nested) by the edge's windowed coder, one after the other.

    Attributes:
        count: how many.
        data: the bytes.
        ends: where each element ends in ``data`` (the last equals its length); on the way in it may
            be None, which has an input that is not processed whole read once more.
        min_timestamp: on the way out the earliest event time (ms) of all elements, or a moment in
            the first of their windows to end if that is earlier (`held_until` of the engine's
            windowed values); None where the edge did not ask for it.
        window: on the way out the encoded window of all elements, or None where the edge did not
            ask for it.
        first: on the way in, the number of the first element to process; those before it are
            skipped.
        last: on the way in, the number after the last element to process; None is ``count``.
    """

    count: int
    data: bytes | memoryview
    ends: Sequence[int] | None = None
    min_timestamp: int | None = None
    window: bytes | None = None
    first: int = 0
    last: int | None = None

    @property
    def meant(self) -> int:
        """How many of the elements are to be processed."""
        return (self.count if self.last is None else self.last) - self.first


@attrs.frozen
class KeyedChunk:
    """Rows of key, value, window and event time, in columns.

    Row *i* is in exactly one window: an element in three windows is three rows.
    Keys and values are the *nested* encodings by the component coders of the edge's KV coder, so
    that equal keys have equal bytes whichever harness wrote them.

    Attributes:
        key_data: all keys, concatenated.
        key_ends: where each key ends in ``key_data``.
        value_data: all values, concatenated.
        value_ends: where each value ends in ``value_data``.
        windows: one encoded window for every row, or a single ``bytes`` if all are the same.
        timestamps: event time in milliseconds of every row, or None if the edge does not want it.
    """

    key_data: bytes
    key_ends: Sequence[int]
    value_data: bytes
    value_ends: Sequence[int]
    windows: bytes | Sequence[bytes]
    timestamps: Sequence[int] | None

    @property
    def count(self) -> int:
        """Number of rows."""
        return len(self.key_ends)


@attrs.frozen
class GroupChunk:
    """Groups: each a key and window with all its values; columns of equal length.

    A harness makes of group *i* the element ``KV<key, Iterable<value>>`` in window ``windows[i]``
    at event time ``timestamps[i]`` with pane ``pane``.

    Attributes:
        keys: nested encodings of the keys.
        windows: encoded windows, or a single ``bytes`` if all are the same.
        timestamps: event times in milliseconds.
        counts: number of values of each group.
        values: the nested encodings of the values of each group, concatenated or in pieces.
        pane: the encoded pane info of all of them (the last byte(s) of a windowed value's header).
    """

    keys: Sequence[bytes]
    windows: bytes | Sequence[bytes]
    timestamps: Sequence[int]
    counts: Sequence[int]
    values: Sequence[GroupValues]
    pane: bytes


@attrs.frozen
class Timer:
    """A timer of a stateful stage, set by user code or due.

    Attributes:
        transform_id: the stateful transform.
        family: the timer family's local name.
        tag: the dynamic tag; empty for a plain timer.
        key: the nested encoding of the key.
        windows: the encoded windows, as the SDK wrote them one after the other; one as a rule.
        fire_at: when it fires (ms, of its family's time domain); None clears the timer.
        hold: the event time (ms) of its output, which holds the watermark until it fires; None if it
            holds nothing and has no output.
        pane: the encoded pane info.
    """

    transform_id: str
    family: str
    tag: str
    key: bytes
    windows: tuple[bytes, ...]
    fire_at: int | None
    hold: int | None
    pane: bytes


@attrs.frozen
class TimerChunk:
    """Timers that fire now, in order."""

    timers: tuple[Timer, ...]


@attrs.frozen
class Settle:
    """All that was given before must have been processed before the next chunk is asked for.

    What comes next depends on it: on the timers that user code has set until then.
    """


InputChunk = ElementChunk | GroupChunk | TimerChunk | Settle
OutputChunk = ElementChunk | KeyedChunk


@attrs.frozen
class StateCell:
    """One state cell of user code: of a key and a window.

    Attributes:
        transform_id: the stateful transform.
        state_id: the state's local name.
        window: the encoded window.
        key: the nested encoding of the key.
    """

    transform_id: str
    state_id: str
    window: bytes
    key: bytes


@attrs.frozen
class MonitoringInfo:
    """One metric as the SDK reported it (``metrics.proto``), its payload still encoded.

    Attributes:
        urn: what it measures.
        type: how the payload is encoded and added up.
        labels: sorted pairs, ``PTRANSFORM``, ``PCOLLECTION``, ``NAMESPACE``, ``NAME``, ...
        payload: the value.
    """

    urn: str
    type: str
    labels: tuple[tuple[str, str], ...]
    payload: bytes


@attrs.frozen
class ResidualElement:
    """What a splittable DoFn has left of an element (``DelayedBundleApplication``).

    Attributes:
        element: a windowed value as the stage's input edge encodes them, restriction included.
        delay_ms: not to be resumed before so many milliseconds of processing time have passed.
        watermark: event time (ms) before which the rest will put out nothing, the earliest of all
            outputs; None if there is no watermark estimator.
    """

    element: bytes
    delay_ms: int = 0
    watermark: int | None = None


@attrs.frozen
class BundleSplit:
    """What a running bundle keeps and what it gives away (``ProcessBundleSplitResponse``).

    Elements of the input are numbered from 0 in the order in which the bundle is given them,
    skipped ones not counted.

    Attributes:
        last_primary: the number of the last element that the bundle processes whole; -1 for none.
        first_residual: the number of the first element that it does not touch. It is
            ``last_primary + 1``, or one more where the element between was split.
        primaries: what the bundle still does of the split element.
        residuals: the rest of the split element.
    """

    last_primary: int
    first_residual: int
    primaries: tuple[bytes, ...] = ()
    residuals: tuple[ResidualElement, ...] = ()


@attrs.frozen
class BundleProgress:
    """How far a running bundle is.

    Attributes:
        metrics: its monitoring infos so far.
        processed: how many of its input elements are done, with a fraction for the one that is
            being processed, where its restriction tracker can tell.
        waits: whether its user code leaves time to others in its interpreter; None if that is not
            known.
        starts: whether it waits for its SDK harness, which is still being started.
    """

    metrics: tuple[MonitoringInfo, ...]
    processed: float
    waits: bool | None = None
    starts: bool = False


@attrs.frozen
class BundleResult:
    """What a finished bundle says besides its data.

    Attributes:
        metrics: all monitoring infos of this bundle alone.
        requires_finalization: user code registered callbacks to run after the commit.
        residuals: what splittable DoFns deferred: input of a later bundle of the same stage.
    """

    metrics: tuple[MonitoringInfo, ...]
    requires_finalization: bool = False
    residuals: tuple[ResidualElement, ...] = ()
