"""Detection of sections: trees of bounded stages that pass all their output to each other, and can
therefore run as one bundle.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import attrs

from beam_runner_engine.scheduler.graph import Graph, Section
from beam_runner_engine.scheduler.specs import StageSpec


@attrs.define(eq=False)
class _SectionGroup:
    """Group of stages that will form one section: they can run as one bundle.

    If another group waits for this group, this group has the lower `rank`. Therefore, no two groups
    wait for each other.
    """

    stages: list[int]
    rank: int
    inner: list[str] = attrs.field(factory=list)
    awaited: bool = False
    """Whether another group reads an output of the group, and therefore has a higher rank."""


def find_sections(graph: Graph, most_exchanges: int) -> tuple[Section, ...]:
    """Returns the sections of a graph, ordered by their first stages, in time proportional to the
    graph.

    A stage joins the section of its upstream stages under these conditions. All its inputs are
    written by stages with `spans` and have no other reader, including side inputs. The stage waits
    for no other group that waits for the section. The section has at most `most_exchanges`
    collections in a row.
    """
    if not any(stage.spans for stage in graph.stages):
        return ()
    group_of: list[_SectionGroup] = []
    levels: list[int] = []
    for number, stage in enumerate(graph.stages):
        level = 1 + max(
            (levels[writer] for writer in _find_writing_stages(graph, stage.inputs)), default=-1
        )
        group = _assign_group(graph, group_of, number, stage, may_join=level <= most_exchanges)
        group_of.append(group)
        levels.append(level if len(group.stages) > 1 else 0)
    groups = dict.fromkeys(group for group in group_of if group.inner)
    return tuple(_build_section(graph, group) for group in groups)


def _assign_group(
    graph: Graph, group_of: list[_SectionGroup], number: int, stage: StageSpec, *, may_join: bool
) -> _SectionGroup:
    before = _find_section_groups(graph, group_of, stage.inputs)
    sides = _find_section_groups(graph, group_of, (side.collection for side in stage.side_inputs))
    for group in sides:
        group.awaited = True
    if _can_follow_in_section(graph, stage) and not any(group in sides for group in before):
        rank = max(*(group.rank for group in before), *(side.rank + 1 for side in sides), 0)
        inner = [*(name for group in before for name in group.inner), *stage.inputs]
        movable = all(group.rank == rank or not group.awaited for group in before)
        if movable and may_join:
            return _join_section_groups(group_of, before, number, rank, inner)
    for group in before:
        group.awaited = True
    return _SectionGroup([number], 1 + max((group.rank for group in (*before, *sides)), default=-1))


def _join_section_groups(
    group_of: list[_SectionGroup],
    before: Iterable[_SectionGroup],
    number: int,
    rank: int,
    inner: list[str],
) -> _SectionGroup:
    first, *others = before
    for other in others:
        first.awaited |= other.awaited
        for member in other.stages:
            group_of[member] = first
        first.stages += other.stages
    first.stages.append(number)
    first.rank, first.inner = rank, inner
    return first


def _find_section_groups(
    graph: Graph, group_of: list[_SectionGroup], names: Iterable[str]
) -> list[_SectionGroup]:
    """Returns the groups of the stages that write the collections, without duplicates."""
    return list(dict.fromkeys(group_of[writer] for writer in _find_writing_stages(graph, names)))


def _find_writing_stages(graph: Graph, names: Iterable[str]) -> Iterator[int]:
    """Returns the stages that write the collections."""
    writers = (writer for name in names for writer in graph.collections[name].producers)
    return (writer for writer in writers if writer >= 0)


def _can_follow_in_section(graph: Graph, stage: StageSpec) -> bool:
    """Returns whether a stage can read its main input from other stages in the same section."""
    return (
        stage.spans
        and not stage.splittable
        and all(_can_be_inner_collection(graph, name) for name in stage.inputs)
    )


def _can_be_inner_collection(graph: Graph, name: str) -> bool:
    node = graph.collections[name]
    return (
        len(node.consumers) == 1
        and not node.side_consumers
        and all(writer >= 0 and graph.stages[writer].spans for writer in node.producers)
    )


def _build_section(graph: Graph, group: _SectionGroup) -> Section:
    inner = set(group.inner)
    stages = tuple(sorted(group.stages))
    outputs = (name for number in stages for name in graph.stages[number].outputs)
    return Section(
        stages=stages,
        heads=tuple(number for number in stages if inner.isdisjoint(graph.stages[number].inputs)),
        inner=tuple(group.inner),
        outputs=tuple(dict.fromkeys(name for name in outputs if name not in inner)),
    )
