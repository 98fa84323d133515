"""The plan of a job: stages, the buffers between them, and scripted sources.

`beam_runner_planner` makes it once, and the runtime reads it. Nothing in it is a protocol buffer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import attrs
from beam_runner_engine.keyed.state import State
from beam_runner_engine.keyed.timers import TimeDomain
from beam_runner_model.buffers import BufferPlan, SideInputUse
from beam_runner_model.stages import JobContext, StageSpec


@attrs.frozen
class StatefulPlan:
    """What a stage that begins with a stateful transform declares.

    Attributes:
        transform_id: the stateful transform.
        states: the kind of each state by its local name.
        timers: the time domain of each timer family by its local name.
        expiration_family: the family that is told when a window expires; empty if none is.
        time_sorted: its elements must come in order of time.
        scripted_clock: processing time is scripted, and not that of the SDK's clock.
    """

    transform_id: str
    states: Mapping[str, type[State]]
    timers: Mapping[str, TimeDomain]
    expiration_family: str = ""
    time_sorted: bool = False
    scripted_clock: bool = False


@attrs.frozen
class TruncationPlan:
    """How the restrictions that a stage processes are truncated when the job drains.

    Attributes:
        spec: a stage of one transform, in which the SDK says what is left of them; None if the SDK
            does not know how to. Then they are dropped if they may be endless, else kept.
        endless: whether they may be without end.
    """

    spec: StageSpec | None
    endless: bool


@attrs.frozen
class TablePlan:
    """A stage that no SDK runs: Spark's own readers and writers do.

    Attributes:
        urn: what is done, one of ``beam_runner_urns.spark``.
        payload: with what, as ``tables`` reads it.
        pcollection: what comes of it.
    """

    urn: str
    payload: bytes = attrs.field(repr=False)
    pcollection: str


@attrs.frozen
class StagePlan:
    """A fused stage and what it is joined to.

    Attributes:
        spec: what the harness must know.
        embedded: whether it runs in the Spark Python worker itself or in an SDK over the Fn API.
        input_buffer: the buffer of its main input, or None for an impulse.
        impulse: the one encoded element of an impulse; empty otherwise.
        outputs: the buffer that each output edge (by transform id) writes to.
        side_inputs: every side input of every transform in it.
        counted_elsewhere: the PCollection that it reads, if another stage that produces it counts
            its elements already; else empty.
        truncation: how a drain ends it, if it begins with a splittable DoFn that processes
            restrictions.
        stable_input: its input must be committed before user code sees it.
        callbacks: its user code may ask to be called when its bundle is committed.
        stateful: what its stateful transform declares, if it begins with one.
        table: what Spark is to read or write, if that is all it does.
    """

    spec: StageSpec
    embedded: bool
    input_buffer: str | None
    impulse: bytes
    outputs: Mapping[str, str]
    side_inputs: tuple[SideInputUse, ...]
    counted_elsewhere: str = ""
    truncation: TruncationPlan | None = None
    stable_input: bool = False
    callbacks: bool = False
    stateful: StatefulPlan | None = None
    table: TablePlan | None = None

    @property
    def stage_id(self) -> str:
        """The stage's id."""
        return self.spec.stage_id

    @property
    def splittable(self) -> bool:
        """Whether it begins with a splittable DoFn that processes restrictions."""
        return self.truncation is not None


@attrs.frozen
class Elements:
    """A step of a scripted source: elements for a buffer, as its readers decode them."""

    buffer_id: str
    count: int
    data: bytes = attrs.field(repr=False)
    min_timestamp: int


@attrs.frozen
class Watermark:
    """A step of a scripted source: the watermark (ms) of a buffer advances."""

    buffer_id: str
    watermark: int


@attrs.frozen
class Clock:
    """A step of a scripted source: processing time advances by so many milliseconds."""

    duration: int


@attrs.frozen
class TestStreamPlan:
    """A scripted source (``beam:transform:teststream:v1``): its outputs and its steps in order."""

    __test__ = False

    name: str
    buffers: tuple[str, ...]
    steps: tuple[Elements | Watermark | Clock, ...]

    @property
    def scripts_clock(self) -> bool:
        """Whether it advances processing time: then the job has no other clock."""
        return any(isinstance(step, Clock) for step in self.steps)


@attrs.frozen
class JobPlan:
    """Everything there is to do for a job.

    Attributes:
        context: what all stages share.
        stages: by id, a stage after those that write what it reads.
        buffers: by id.
        test_streams: its scripted sources.
        streaming: whether anything in it is unbounded: then all data tells its event times.
        one_interpreter: whether all its user code runs in one Python process, the client's.
    """

    context: JobContext
    stages: Mapping[str, StagePlan]
    buffers: Mapping[str, BufferPlan]
    test_streams: tuple[TestStreamPlan, ...] = ()
    streaming: bool = False
    one_interpreter: bool = False

    @property
    def is_endless(self) -> bool:
        """Whether a source of it may give elements for ever: a splittable DoFn, or a stream of Spark's.

        A pipeline with a TestStream ends with it. A bounded pipeline that is sent with ``--streaming``
        ends, too.
        """
        sources = (stage.truncation for stage in self.stages.values())
        return not self.test_streams and any(one is not None and one.endless for one in sources)

    @property
    def needs_stable_input(self) -> bool:
        """Whether some stage's input must be committed before user code sees it."""
        return any(stage.stable_input for stage in self.stages.values())

    @property
    def has_tables(self) -> bool:
        """Whether some stage is Spark's own, which no worker process can run."""
        return any(stage.table is not None for stage in self.stages.values())

    @property
    def needs_sdks(self) -> bool:
        """Whether some stage runs in an SDK over the Fn API."""
        return not all(stage.embedded for stage in self.stages.values())

    @property
    def takes_turns(self) -> bool:
        """Whether bundles side by side would only take turns at its one interpreter.

        With state they don't: an SDK waits for the runner with each cell that it reads or writes.
        In a stream a bundle that has time must not wait for another one to show that it has, too.
        """
        stateful = any(stage.stateful is not None for stage in self.stages.values())
        return self.one_interpreter and not self.streaming and not stateful

    @property
    def scripts_clock(self) -> bool:
        """Whether its processing time is scripted, and no other clock counts."""
        return any(stream.scripts_clock for stream in self.test_streams)

    def sources(self) -> frozenset[str]:
        """The ids of the stages of which bundles may go on without end, and can be checkpointed."""
        if not self.streaming:
            return frozenset()
        return frozenset(s.stage_id for s in self.stages.values() if s.splittable)

    def joint(self) -> frozenset[str]:
        """The ids of the embedded stages of which a bundle may have several pieces that other lanes could have."""
        stages = ((s, s.input_buffer) for s in self.stages.values() if s.embedded)
        return frozenset(s.stage_id for s, name in stages if name and self.buffers[name].in_order)

    def embedded_specs(self) -> Iterator[StageSpec]:
        """The stages that run in the process that asks for them."""
        stages = self.stages.values()
        return (stage.spec for stage in stages if stage.embedded and stage.table is None)
