"""In which order the stages of a section run: by levels, each of them one stage of Spark's.

All stages of a level run in the same Spark tasks, one after the other, so that what a stage writes for several others
goes through one shuffle: Spark would run its user code again for each shuffle more.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter

import attrs
from beam_runner_engine.scheduler.commands import Bundle, Input, SectionPart
from beam_runner_model.buffers import BufferKind
from beam_runner_planner.plan import JobPlan, StagePlan


@attrs.frozen
class SectionStage:
    """A stage of a section.

    Attributes:
        plan: the stage.
        part: what it reads from outside.
        place: its number in the section.
        level: the tasks of which level run it.
        inner: whether it reads what others of the section write.
    """

    plan: StagePlan
    part: SectionPart
    place: int
    level: int
    inner: bool


@attrs.frozen
class SectionPlan:
    """A section's stages.

    Attributes:
        levels: the stages of each level, in order.
        tasks: how many each level has: one for each of the section's shards, but on the first no more than have something to read.
        readers: by the id of a buffer within the section, the stage that reads it.
    """

    levels: tuple[tuple[SectionStage, ...], ...]
    tasks: tuple[int, ...]
    readers: Mapping[str, SectionStage]

    @classmethod
    def of(cls, plan: JobPlan, parts: Sequence[SectionPart], shards: int) -> SectionPlan:
        """That of these parts, in which none comes before what it reads."""
        stages = [plan.stages[part.stage] for part in parts]
        written = {buffer for stage in stages for buffer in stage.outputs.values()}
        levels = _levels(stages)
        made = [
            SectionStage(stage, part, place, levels[place], stage.input_buffer in written)
            for place, (stage, part) in enumerate(zip(stages, parts, strict=True))
        ]
        count = max(levels) + 1
        # Most sections begin with an impulse, and each task costs Spark some 20 ms, whatever it reads.
        first = max(1, *(_portions(plan, one) for one in made if one.level == 0))
        return cls(
            tuple(tuple(one for one in made if one.level == level) for level in range(count)),
            (min(first, shards), *(shards for _ in range(count - 1))),
            {one.plan.input_buffer: one for one in made if one.inner and one.plan.input_buffer},
        )

    def name(self, level: int) -> str:
        """The names of the stages of a level."""
        return " | ".join(stage.plan.spec.name for stage in self.levels[level])


def shares(plan: JobPlan, stage: SectionStage, tasks: int) -> list[list[Input]]:
    """The input from outside of a stage, by the task that reads it.

    Data of a key shard goes to one task; other data to as many as there are, the largest first, so that all have about as
    much to do. Within a task it keeps its order.
    """
    inputs = list(enumerate(stage.part.inputs))
    dealt: list[list[tuple[int, Input]]] = [[] for _ in range(tasks)]
    if _is_keyed(plan, stage):
        turns = {shard: turn for turn, shard in enumerate(sorted(_shards(stage)))}
        for place, one in inputs:
            dealt[turns[one.data.facts.shard or 0] % tasks].append((place, one))
        for own in dealt:
            own.sort(key=lambda pair: pair[1].data.facts.shard or 0)
    else:
        least = [(0, task) for task in range(tasks)]
        for place, one in sorted(inputs, key=lambda pair: -_weight(pair[1])):
            weight, task = least[0]
            dealt[task].append((place, one))
            heapq.heapreplace(least, (weight + _weight(one) + 1, task))
        for own in dealt:
            own.sort(key=itemgetter(0))
    return [[one for _, one in own] for own in dealt]


def _weight(one: Input) -> int:
    """How much there is to do: restrictions say it, of other data it is the bytes."""
    facts = one.data.facts
    return facts.size if facts.work is None else facts.work


def _portions(plan: JobPlan, stage: SectionStage) -> int:
    """How many tasks can share the input from outside of a stage."""
    return len(_shards(stage) if _is_keyed(plan, stage) else stage.part.inputs)


def _is_keyed(plan: JobPlan, stage: SectionStage) -> bool:
    buffer = stage.plan.input_buffer
    return buffer is not None and plan.buffers[buffer].kind.is_keyed


def _shards(stage: SectionStage) -> set[int]:
    return {one.data.facts.shard or 0 for one in stage.part.inputs}


def why_not(plan: JobPlan, parts: Iterable[SectionPart]) -> str:
    """Why stages can't be run as a section; empty if they can."""
    for part in parts:
        stage = plan.stages[part.stage]
        if stage.stable_input:
            return f"{stage.spec.name} wants its input to be stable"
        if stage.callbacks:
            return f"{stage.spec.name} may want to be told when its bundle is committed"
        if any(one.truncate for one in part.inputs):
            return f"the restrictions of {stage.spec.name} are to be truncated first"
        if any(one.windows is not None for one in part.inputs):
            return f"{stage.spec.name} reads some windows of its input only"
        side = BufferKind.SIDE_ITERABLE, BufferKind.SIDE_MULTIMAP
        source = stage.input_buffer
        if source is not None and plan.buffers[source].kind in side:
            return f"{stage.spec.name} reads a side input as its main one"
    return ""


def _levels(stages: Sequence[StagePlan]) -> list[int]:
    """As early as can be for stages that nobody in the section reads, and for all others just before the first who does."""
    writers: dict[str, list[int]] = {}
    for place, stage in enumerate(stages):
        for buffer in stage.outputs.values():
            writers.setdefault(buffer, []).append(place)
    before = [writers.get(stage.input_buffer or "", []) for stage in stages]
    levels = [0] * len(stages)
    for place, sources in enumerate(before):
        levels[place] = max((levels[source] + 1 for source in sources), default=0)
    readers: list[list[int]] = [[] for _ in stages]
    for place, sources in enumerate(before):
        for source in sources:
            readers[source].append(place)
    for place in reversed(range(len(stages))):
        if readers[place]:
            levels[place] = min(levels[reader] for reader in readers[place]) - 1
    return levels


def stages_of(bundle: Bundle) -> tuple[str, ...]:
    """The stages that a bundle is of: one, or all of a section."""
    return tuple(part.stage for part in bundle.parts) or (bundle.stage,)
