"""The plan of a job: stages, the buffers between them, and the sections that run as one Spark job.

Made once by ``translation`` and read by ``driver`` and ``task``; nothing in it is a protocol buffer.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping

import attrs
from beam_runner_engine.values.strategy import WindowingStrategy
from beam_runner_worker.records import JobContext, StageSpec


class BufferKind(enum.Enum):
    """What happens to elements between the stages that write a buffer and those that read it."""

    STORED = "stored"
    """Kept in files as they are and read in the same order: at fan-outs and where stages can't fuse."""
    DEALT = "dealt"
    """Dealt out evenly over tasks, element by element: Reshuffle, Redistribute, splits of a source."""
    GROUPED = "grouped"
    """Grouped by key and window: GroupByKey."""
    SIDE_ITERABLE = "side_iterable"
    """Kept in files by window, as a side input that is read as a whole."""
    SIDE_MULTIMAP = "side_multimap"
    """Kept in files by window and key, as a side input that is looked up by key."""

    @property
    def is_shuffle(self) -> bool:
        """Whether Spark shuffles the buffer's rows to the tasks that read it."""
        return self in (BufferKind.DEALT, BufferKind.GROUPED)


@attrs.frozen
class BufferPlan:
    """A buffer: written by some stages, read by others.

    Attributes:
        buffer_id: unique in the job.
        kind: what happens in it.
        strategy: the windowing strategy to group by, for GROUPED only.
    """

    buffer_id: str
    kind: BufferKind
    strategy: WindowingStrategy | None = None


@attrs.frozen
class SideInputUse:
    """A stage's transform reads a buffer as the side input named by a tag."""

    transform_id: str
    tag: str
    buffer_id: str


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
    """

    spec: StageSpec
    embedded: bool
    input_buffer: str | None
    impulse: bytes
    outputs: Mapping[str, str]
    side_inputs: tuple[SideInputUse, ...]
    counted_elsewhere: str = ""

    @property
    def stage_id(self) -> str:
        """The stage's id."""
        return self.spec.stage_id


@attrs.frozen
class SectionPlan:
    """Stages that run as one Spark job, joined by shuffles; the last one's outputs are committed.

    Attributes:
        section_id: the id of its last stage.
        stages: the ids of its stages, a stage after all those it reads from.
        needs: the sections whose committed outputs it reads.
    """

    section_id: str
    stages: tuple[str, ...]
    needs: frozenset[str]


@attrs.frozen
class JobPlan:
    """Everything there is to do for a job."""

    context: JobContext
    stages: Mapping[str, StagePlan]
    buffers: Mapping[str, BufferPlan]
    sections: Mapping[str, SectionPlan]

    def writers(self, buffer_id: str) -> tuple[StagePlan, ...]:
        """The stages that write a buffer, in a fixed order."""
        return tuple(s for s in self.stages.values() if buffer_id in s.outputs.values())
