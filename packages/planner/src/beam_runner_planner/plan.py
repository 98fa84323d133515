"""Plan of a job: stages, the buffers between them, and scripted sources.

`beam_runner_planner` makes the plan once, and the runtime reads it. The plan contains no protocol
buffers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import attrs
from beam_runner_engine.keyed.state import State
from beam_runner_engine.keyed.timers import TimeDomain
from beam_runner_model.buffers import BufferPlan, SideInputUse
from beam_runner_model.stages import HarnessStage, JobContext


@attrs.frozen
class StatefulPlan:
    """States, timers and options that a stateful transform declares, for the stage that begins with
    the transform.

    Attributes:
        transform_id: the id of the stateful transform.
        states: the kind of each state by its local name.
        timers: the time domain of each timer family by its local name.
        expiration_family: the timer family that fires when a window expires; empty if none exists.
        time_sorted: whether elements must arrive in the order of their timestamps.
        scripted_clock: whether a script sets the processing time, in place of the SDK's clock.
    """

    transform_id: str
    states: Mapping[str, type[State]]
    timers: Mapping[str, TimeDomain]
    expiration_family: str = ""
    time_sorted: bool = False
    scripted_clock: bool = False


@attrs.frozen
class TruncationPlan:
    """Plan of a drain for one stage: the truncation of the restrictions that the stage processes.

    Attributes:
        spec: a stage of one transform, in which the SDK truncates restrictions; None if the SDK
            can't truncate. In that case, a drain drops unbounded restrictions and processes bounded
            restrictions to their end.
        endless: whether the restrictions can be unbounded.
    """

    spec: HarnessStage | None
    endless: bool


@attrs.frozen
class TablePlan:
    """A stage that Spark's own readers and writers run, without an SDK.

    Attributes:
        urn: the operation, one of ``beam_runner_urns.spark``.
        payload: the arguments of the operation, which `tables` parses.
        pcollection: the output PCollection.
    """

    urn: str
    payload: bytes = attrs.field(repr=False)
    pcollection: str


@attrs.frozen
class StagePlan:
    """Plan of a fused stage, with the buffers that the stage reads and writes.

    Attributes:
        spec: the description of the stage, for the harness that runs its user code.
        embedded: whether the stage runs in the Spark Python worker, not in an SDK over the Fn API.
        input_buffer: the buffer of the main input, or None for an impulse.
        impulse: the single encoded element of an impulse; empty otherwise.
        outputs: by transform id of each output edge, the buffer that the edge writes to.
        side_inputs: the side inputs of all transforms in the stage.
        counted_elsewhere: the id of the input PCollection if the producing stage already counts its
            elements; otherwise empty.
        truncation: how a drain ends the stage, if it begins with a splittable DoFn that processes
            restrictions.
        stable_input: whether the input must be committed before user code sees it.
        callbacks: whether user code may register callbacks for the commit of its bundle.
        stateful: the declarations of the stateful transform, if the stage begins with one.
        table: the read or write of Spark, if the stage does nothing else.
        identity: the name by which an update finds the same stage in the plan of the edited
            pipeline; see `identities`. Empty in plans of old versions that couldn't update jobs.
    """

    spec: HarnessStage
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
    identity: str = ""

    @property
    def stage_id(self) -> str:
        """The id of the stage."""
        return self.spec.stage_id

    @property
    def splittable(self) -> bool:
        """Whether the stage begins with a splittable DoFn that processes restrictions."""
        return self.truncation is not None


@attrs.frozen
class ScriptedElements:
    """Step of a scripted source that adds encoded elements to a buffer."""

    buffer_id: str
    count: int
    data: bytes = attrs.field(repr=False)
    min_timestamp: int


@attrs.frozen
class ScriptedWatermark:
    """Step of a scripted source that advances the watermark (ms) of a buffer."""

    buffer_id: str
    watermark: int


@attrs.frozen
class ScriptedClock:
    """Step of a scripted source that advances processing time, in milliseconds."""

    duration: int


@attrs.frozen
class TestStreamPlan:
    """Plan of a scripted source (``beam:transform:teststream:v1``), with its outputs, and its steps in order."""

    __test__ = False

    name: str
    buffers: tuple[str, ...]
    steps: tuple[ScriptedElements | ScriptedWatermark | ScriptedClock, ...]

    @property
    def sets_clock(self) -> bool:
        """Whether the TestStream advances processing time. If so, the job has no other clock."""
        return any(isinstance(step, ScriptedClock) for step in self.steps)


@attrs.frozen
class JobPlan:
    """Complete plan of a job: the stages, the buffers between stages, and the TestStreams.

    Attributes:
        context: the data that all stages share.
        stages: the stages by id, each after the stages that write its input.
        buffers: the buffers by id.
        test_streams: the scripted sources.
        streaming: whether any PCollection is unbounded. If so, all data records its event times.
        one_interpreter: whether all user code runs in one Python process, which is the client's
            process.
    """

    context: JobContext
    stages: Mapping[str, StagePlan]
    buffers: Mapping[str, BufferPlan]
    test_streams: tuple[TestStreamPlan, ...] = ()
    streaming: bool = False
    one_interpreter: bool = False

    @property
    def is_endless(self) -> bool:
        """Whether a source can emit elements without end: a splittable DoFn, or a stream of Spark.

        A pipeline with a TestStream ends with the TestStream. A bounded pipeline that the user
        submits with ``--streaming`` ends, too.
        """
        sources = (stage.truncation for stage in self.stages.values())
        return not self.test_streams and any(one is not None and one.endless for one in sources)

    @property
    def needs_stable_input(self) -> bool:
        """Whether the input of some stage must be committed before user code sees it."""
        return any(stage.stable_input for stage in self.stages.values())

    @property
    def has_tables(self) -> bool:
        """Whether Spark itself runs some stage, which no worker process can run."""
        return any(stage.table is not None for stage in self.stages.values())

    @property
    def needs_sdks(self) -> bool:
        """Whether some stage runs in an SDK harness over the Fn API."""
        return not all(stage.embedded for stage in self.stages.values())

    @property
    def shares_one_interpreter(self) -> bool:
        """Whether parallel bundles save no time, because all bundles of the job share one Python
        interpreter.

        Parallel bundles with state gain time, because an SDK waits for the runner at each access to
        a state cell. In a stream, a short bundle must not wait for a long one.
        """
        stateful = any(stage.stateful is not None for stage in self.stages.values())
        return self.one_interpreter and not self.streaming and not stateful

    @property
    def has_identities(self) -> bool:
        """Whether stages and buffers have identities, by which an update finds the same stages and
        buffers in another plan.
        """
        stages, buffers = self.stages.values(), self.buffers.values()
        return all(stage.identity for stage in stages) and all(one.identity for one in buffers)

    @property
    def sets_clock(self) -> bool:
        """Whether a TestStream sets the processing time of the job, and no other clock counts."""
        return any(stream.sets_clock for stream in self.test_streams)

    def list_source_stage_ids(self) -> frozenset[str]:
        """The ids of the stages whose bundles may run without end and can be checkpointed."""
        if not self.streaming:
            return frozenset()
        return frozenset(s.stage_id for s in self.stages.values() if s.splittable)

    def list_embedded_specs(self) -> Iterator[HarnessStage]:
        """Returns the harness specifications of the stages that run in the worker process itself."""
        stages = self.stages.values()
        return (stage.spec for stage in stages if stage.embedded and stage.table is None)
