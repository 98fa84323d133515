"""Order of the stages in a section (stages that run as one Spark job). The stages are divided into
levels; each level is one Spark stage.

All stages of a level run in the same Spark tasks, one after the other. So all output of a level
goes through one shuffle. With several shuffles, Spark would run the user code once for each
shuffle.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter

import attrs
from beam_runner_engine.scheduler.commands import Bundle, Input, SectionStageInput
from beam_runner_model.buffers import BufferKind
from beam_runner_planner.plan import JobPlan, StagePlan


@attrs.frozen
class SectionStage:
    """Stage of a section, with its level (the index of the Spark stage that runs it).

    Attributes:
        part: input of the stage from outside of the section.
        place: index of the stage in the section.
        level: index of the Spark stage that runs this stage.
        inner: whether the stage reads output of other stages in the section.
    """

    plan: StagePlan
    part: SectionStageInput
    place: int
    level: int
    inner: bool


@attrs.frozen
class SectionPlan:
    """Stages of a section (stages that run as one Spark job) by level; each level is one Spark
    stage.

    Attributes:
        levels: stages of each level, in order.
        tasks: number of tasks of each level: one per shard of the section, but on the first level
            at most one per input part.
        readers: stage of the section that reads a buffer, by buffer ID.
    """

    levels: tuple[tuple[SectionStage, ...], ...]
    tasks: tuple[int, ...]
    readers: Mapping[str, SectionStage]

    @classmethod
    def from_parts(
        cls, plan: JobPlan, parts: Sequence[SectionStageInput], shards: int
    ) -> SectionPlan:
        """Creates the plan of a section. In `parts`, each stage must come after the stages whose
        output it reads.
        """
        stages = [plan.stages[part.stage] for part in parts]
        written = {buffer for stage in stages for buffer in stage.outputs.values()}
        levels = _compute_levels(stages)
        made = [
            SectionStage(stage, part, place, levels[place], stage.input_buffer in written)
            for place, (stage, part) in enumerate(zip(stages, parts, strict=True))
        ]
        count = max(levels) + 1
        # Start few tasks for the first stages: most sections start with an impulse, and each task
        # costs about 20 ms in Spark, even without input.
        first = max(1, *(_count_possible_tasks(plan, one) for one in made if one.level == 0))
        return cls(
            tuple(tuple(one for one in made if one.level == level) for level in range(count)),
            (min(first, shards), *(shards for _ in range(count - 1))),
            {one.plan.input_buffer: one for one in made if one.inner and one.plan.input_buffer},
        )

    def format_level(self, level: int) -> str:
        """Returns the stage names of a level, separated by ``|``."""
        return " | ".join(stage.plan.spec.name for stage in self.levels[level])


def distribute_input(plan: JobPlan, stage: SectionStage, tasks: int) -> list[list[Input]]:
    """Distributes the input that a stage reads from outside of the section over the tasks.

    The data of a key shard goes to one task. Other data is distributed over all tasks, the largest
    first, so that the tasks have similar work. The order of the data within a task doesn't change.
    """
    inputs = list(enumerate(stage.part.inputs))
    dealt: list[list[tuple[int, Input]]] = [[] for _ in range(tasks)]
    if _is_keyed(plan, stage):
        turns = {shard: turn for turn, shard in enumerate(sorted(_list_shards(stage)))}
        for place, one in inputs:
            dealt[turns[one.data.facts.shard or 0] % tasks].append((place, one))
        for own in dealt:
            own.sort(key=lambda pair: pair[1].data.facts.shard or 0)
    else:
        least = [(0, task) for task in range(tasks)]
        for place, one in sorted(inputs, key=lambda pair: -_estimate_work(pair[1])):
            weight, task = least[0]
            dealt[task].append((place, one))
            heapq.heapreplace(least, (weight + _estimate_work(one) + 1, task))
        for own in dealt:
            own.sort(key=itemgetter(0))
    return [[one for _, one in own] for own in dealt]


def _estimate_work(one: Input) -> int:
    """Returns the estimated amount of work for an input: the size that restrictions report if
    known, otherwise the number of bytes.
    """
    facts = one.data.facts
    return facts.size if facts.work is None else facts.work


def _count_possible_tasks(plan: JobPlan, stage: SectionStage) -> int:
    """Returns the maximum number of tasks that can share the external input of a stage."""
    return len(_list_shards(stage) if _is_keyed(plan, stage) else stage.part.inputs)


def _is_keyed(plan: JobPlan, stage: SectionStage) -> bool:
    buffer = stage.plan.input_buffer
    return buffer is not None and plan.buffers[buffer].kind.is_keyed


def _list_shards(stage: SectionStage) -> set[int]:
    return {one.data.facts.shard or 0 for one in stage.part.inputs}


def explain_section_refusal(plan: JobPlan, parts: Iterable[SectionStageInput]) -> str:
    """Returns the reason why stages can't run as a section (one Spark job); empty if the stages
    can.
    """
    for part in parts:
        stage = plan.stages[part.stage]
        if stage.stable_input:
            return f"{stage.spec.name} requires stable input"
        if stage.callbacks:
            return f"{stage.spec.name} can register callbacks for the commit of its bundle"
        if any(one.truncate for one in part.inputs):
            return f"the restrictions of {stage.spec.name} must be truncated first"
        if any(one.windows is not None for one in part.inputs):
            return f"{stage.spec.name} reads only some windows of its input"
        side = BufferKind.SIDE_ITERABLE, BufferKind.SIDE_MULTIMAP
        source = stage.input_buffer
        if source is not None and plan.buffers[source].kind in side:
            return f"{stage.spec.name} reads a side input as its main input"
    return ""


def _compute_levels(stages: Sequence[StagePlan]) -> list[int]:
    """Returns the level (index of the Spark stage) of each stage.

    A stage without readers in the section gets the earliest possible level. Any other stage gets
    the level just before its first reader.
    """
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


def list_stage_ids(bundle: Bundle) -> tuple[str, ...]:
    """Returns the IDs of the stages that a bundle runs: several stages if the bundle is a section (one
    Spark job for several stages), otherwise one stage.
    """
    return tuple(part.stage for part in bundle.parts) or (bundle.stage,)
