"""Fusion of steps into stages: a step joins the stage that produces the step's main input, unless
the step must start a new stage.

A step starts a new stage in three cases: it must be the first step of its stage, its environment
differs, or it reads a side input that depends on the stage. The step's input is then stored in a
buffer.

Each transform has one main input, so the main inputs form trees, and one walk down each tree is
enough. Bit masks, with one bit for each side input, record dependencies. Except for the masks, the
time is linear in the pipeline's size. The walk doesn't recurse.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import attrs

from beam_runner_planner.context import FusionContext
from beam_runner_planner.errors import InvalidPipeline
from beam_runner_planner.ordering import find_nodes_around_cycles, sort_by_dependencies
from beam_runner_planner.steps import Step, buffer_id, create_buffer_sink, create_buffer_source


@attrs.define(eq=False)
class StageSteps:
    """Steps that run together: a stage under construction.

    Attributes:
        source: the edge by which elements enter the stage.
        steps: the steps after the source, each after the step that produces its main input.
        environment_id: the SDK environment; None if no step needs an SDK.
        sides_behind: a bit mask of the side inputs that depend on the stage.
        sinks: the edges by which elements leave the stage.
    """

    source: Step
    steps: list[Step] = attrs.field(factory=list)
    environment_id: str | None = None
    sides_behind: int = 0
    sinks: list[Step] = attrs.field(factory=list)

    def add_step(self, step: Step) -> None:
        """Adds a step to the stage."""
        (self.sinks if step.writes_buffer else self.steps).append(step)
        self.environment_id = self.environment_id or step.transform.environment_id or None


def fuse_steps(steps: Sequence[Step], context: FusionContext) -> list[StageSteps]:
    """Returns the fused stages in topological order: each stage comes after the stages that produce
    its inputs.

    Args:
        steps: all steps; a step without an input reads the buffer of an impulse.
        context: the shared context. Data between stages gets a coder that shows where elements end.

    Raises:
        InvalidPipeline: steps depend on each other in a cycle.
    """
    graph = _StepGraph(steps)
    while True:
        stages = _build_stages(graph)
        stage_of = {step: stage for stage in stages for step in (*stage.steps, *stage.sinks)}
        stage_of |= {stage.source: stage for stage in stages}
        needed = {stage: _find_producing_stages(stage, graph, stage_of) for stage in stages}
        waiting = find_nodes_around_cycles(stages, needed.__getitem__)
        begin = [s for stage in waiting for s in stage.steps if s.sides and not s.begins]
        if not begin:
            break
        # If each of two stages waits for an output of the other stage, both stages wait forever.
        for step in begin:
            step.begins = True
    if waiting:
        names = sorted(step.name for stage in waiting for step in (stage.source, *stage.steps))
        raise InvalidPipeline(
            f"the transforms {', '.join(map(repr, names[:3]))} form a cycle: each waits"
            " for the output of another"
        )
    _add_stored_outputs(stages, graph, stage_of, context)
    return list(sort_by_dependencies(stages, needed.__getitem__))


class _StepGraph:
    """Index of the producers and readers of each PCollection."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self.steps = steps
        self.made_by = {p: step for step in steps for p in step.outputs}
        self.read_by: dict[str, list[Step]] = {}
        self.written_by: dict[bytes, list[Step]] = {}
        self.readers_of: dict[bytes, list[Step]] = {}
        for step in steps:
            if step.main is not None:
                self.read_by.setdefault(step.main, []).append(step)
            if step.writes_buffer:
                self.written_by.setdefault(step.buffer, []).append(step)
            if step.reads_buffer:
                self.readers_of.setdefault(step.buffer, []).append(step)
        sides = sorted({p for step in steps for p in step.sides})
        self._bits = {p: 1 << number for number, p in enumerate(sides)}
        self.sides_behind = self._find_dependent_side_inputs()

    def get_side_input_mask(self, pcollections: Iterable[str]) -> int:
        """Returns a bit mask of the side inputs among the given PCollections."""
        mask = 0
        for pcollection_id in pcollections:
            mask |= self._bits.get(pcollection_id, 0)
        return mask

    def _find_dependent_side_inputs(self) -> dict[Step, int]:
        if not self._bits:
            return {}
        of_sides: dict[str, list[Step]] = {}
        for step in self.steps:
            for pcollection_id in step.sides:
                of_sides.setdefault(pcollection_id, []).append(step)

        def find_direct_readers(step: Step) -> Iterator[Step]:
            for pcollection_id in step.outputs:
                yield from self.read_by.get(pcollection_id, ())
                yield from of_sides.get(pcollection_id, ())
            if step.writes_buffer:
                yield from self.readers_of.get(step.buffer, ())

        masks: dict[Step, int] = {}
        for step in sort_by_dependencies(self.steps, find_direct_readers):
            mask = self.get_side_input_mask(step.outputs)
            for other in find_direct_readers(step):
                mask |= masks.get(other, 0)
            masks[step] = mask
        return masks


def _build_stages(graph: _StepGraph) -> list[StageSteps]:
    """Returns the fused stages, ordered by the first step of each stage."""
    stages: list[StageSteps] = []
    trees: list[tuple[Step, StageSteps | None]]
    trees = [(step, None) for step in reversed(graph.steps) if step.main is None]
    while trees:
        step, stage = trees.pop()
        if step.reads_buffer:
            stage = StageSteps(step, sides_behind=graph.sides_behind.get(step, 0))
            stages.append(stage)
        else:
            assert stage is not None
            if not _can_join_stage(step, stage, graph):
                assert step.main is not None
                edge = create_buffer_source(
                    f"{step.main}/Read", buffer_id("materialize", step.main), step.main
                )
                stage = StageSteps(edge, sides_behind=graph.sides_behind.get(step, 0))
                stages.append(stage)
            stage.add_step(step)
        readers = [s for p in step.outputs for s in graph.read_by.get(p, ())]
        trees.extend((reader, stage) for reader in reversed(readers))
    return stages


def _can_join_stage(step: Step, stage: StageSteps, graph: _StepGraph) -> bool:
    environment_id = step.transform.environment_id
    one_environment = not (environment_id and stage.environment_id) or (
        environment_id == stage.environment_id
    )
    return (
        one_environment
        and not step.begins
        and not stage.sides_behind & graph.get_side_input_mask(step.sides)
    )


def _find_producing_stages(
    stage: StageSteps, graph: _StepGraph, stage_of: dict[Step, StageSteps]
) -> list[StageSteps]:
    """Returns the stages that produce the inputs of a stage."""
    makers = [graph.made_by[p] for step in stage.steps for p in step.sides]
    if _reads_stored_output(stage, graph):
        makers += [graph.made_by[p] for p in stage.source.outputs]
    else:
        makers += graph.written_by.get(stage.source.buffer, ())
    return list(dict.fromkeys(stage_of[maker] for maker in makers))


def _reads_stored_output(stage: StageSteps, graph: _StepGraph) -> bool:
    """Returns whether a step reads the stored output of another stage, and not a shuffle, a TestStream
    or an impulse.
    """
    return all(graph.made_by[p] is not stage.source for p in stage.source.outputs)


def _add_stored_outputs(
    stages: Sequence[StageSteps],
    graph: _StepGraph,
    stage_of: dict[Step, StageSteps],
    context: FusionContext,
) -> None:
    """Adds the edges that write the PCollections that other stages read."""
    read = dict.fromkeys(p for stage in stages for step in stage.steps for p in sorted(step.sides))
    for stage in stages:
        if _reads_stored_output(stage, graph):
            read |= dict.fromkeys(stage.source.outputs)
    for pcollection_id in read:
        context.length_prefix_pcoll_coders(pcollection_id)
        buffer = buffer_id("materialize", pcollection_id)
        maker = stage_of[graph.made_by[pcollection_id]]
        maker.add_step(create_buffer_sink(f"{pcollection_id}/Write", buffer, pcollection_id))
