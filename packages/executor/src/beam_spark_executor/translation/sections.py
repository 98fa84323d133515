"""Cuts the graph of stages into sections: each is one Spark job with a durable end."""

from __future__ import annotations

from collections.abc import Mapping

from beam_spark_executor.plan import BufferPlan, SectionPlan, StagePlan

MAX_SHUFFLES = 4
"""Shuffles within one section. A plan of hundreds overflows the JVM's stack; a few amortize the job."""


def cut_sections(
    stages: Mapping[str, StagePlan], buffers: Mapping[str, BufferPlan]
) -> dict[str, SectionPlan]:
    """The sections, each after those it needs.

    A stage flows on into the stage that reads its only output if that is a shuffle; any other stage
    ends a section: one with several outputs, with side inputs for others, with none at all, and one
    that is the last of too many shuffles in a row.

    Args:
        stages: by id, a stage after those that write what it reads.
        buffers: by id.
    """
    readers = {s.input_buffer: s.stage_id for s in stages.values() if s.input_buffer is not None}
    flows_into: dict[str, str] = {}
    shuffles_before: dict[str, int] = dict.fromkeys(stages, 0)
    for stage in stages.values():
        only_buffer = next(iter(stage.outputs.values())) if len(stage.outputs) == 1 else None
        if (
            only_buffer is not None
            and buffers[only_buffer].kind.is_shuffle
            and shuffles_before[stage.stage_id] < MAX_SHUFFLES
        ):
            reader = readers[only_buffer]
            flows_into[stage.stage_id] = reader
            shuffles_before[reader] = max(
                shuffles_before[reader], shuffles_before[stage.stage_id] + 1
            )
    return _sections(stages, flows_into)


def _sections(
    stages: Mapping[str, StagePlan], flows_into: Mapping[str, str]
) -> dict[str, SectionPlan]:
    section_of: dict[str, str] = {}
    for stage_id in reversed(list(stages)):
        consumer = flows_into.get(stage_id)
        section_of[stage_id] = stage_id if consumer is None else section_of[consumer]
    members: dict[str, list[str]] = {}
    for stage_id in stages:
        members.setdefault(section_of[stage_id], []).append(stage_id)
    committed_by: dict[str, set[str]] = {}
    for stage_id, stage in stages.items():
        if stage_id not in flows_into:
            for buffer_id in stage.outputs.values():
                committed_by.setdefault(buffer_id, set()).add(section_of[stage_id])
    sections = {}
    for stage_id in stages:
        if section_of[stage_id] != stage_id:
            continue
        needs: set[str] = set()
        for member in members[stage_id]:
            stage = stages[member]
            read = [use.buffer_id for use in stage.side_inputs]
            if stage.input_buffer is not None:
                read.append(stage.input_buffer)
            for buffer_id in read:
                needs |= committed_by.get(buffer_id, set())
        sections[stage_id] = SectionPlan(
            stage_id, tuple(members[stage_id]), frozenset(needs - {stage_id})
        )
    return sections
