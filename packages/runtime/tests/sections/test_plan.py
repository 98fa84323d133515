"""Tests of the number of Spark tasks of a section (stages in one Spark job), and of the input of
each task.
"""

from __future__ import annotations

import pytest
from beam_runner_engine.scheduler.commands import Input, SectionStageInput
from beam_runner_engine.scheduler.data import Data
from beam_runner_model.buffers import BufferKind
from beam_runner_model.facts import DataStatistics
from beam_runner_model.times import MIN_TIMESTAMP
from sample_buffers import buffer
from small_plans import plan_of, stage

from beam_runner_runtime.sections.plan import SectionPlan, distribute_input

SHARDS = 8


def plan_from(
    kind: BufferKind | None, *portions: int | None
) -> tuple[SectionPlan, list[list[str]]]:
    """Returns a section of two stages that reads these portions, with or without key shards, and the
    input of each task.
    """
    source = None if kind is None else "source"
    plan = plan_of(
        [stage("read", source, {"out": "pairs"}), stage("count", "pairs", groups=True)],
        [buffer("pairs", BufferKind.GROUPED), *([] if kind is None else [buffer("source", kind)])],
    )
    inputs = tuple(
        Input(Data(f"{number}", DataStatistics(1, 10, 0, shard)))
        for number, shard in enumerate(portions)
    )
    parts = [
        SectionStageInput("read", inputs, (), MIN_TIMESTAMP),
        SectionStageInput("count", (), (), MIN_TIMESTAMP),
    ]
    section = SectionPlan.from_parts(plan, parts, SHARDS)
    dealt = distribute_input(plan, section.levels[0][0], section.tasks[0])
    return section, [[str(one.data.ref) for one in own] for own in dealt]


@pytest.mark.parametrize(
    ("kind", "portions", "first"),
    [
        (None, [None], 1),
        (BufferKind.DEALT, [], 1),
        (BufferKind.DEALT, [None] * 3, 3),
        (BufferKind.DEALT, [None] * 20, SHARDS),
        (BufferKind.GROUPED, [3, 11, 3], 2),
        (BufferKind.GROUPED, list(range(20)), SHARDS),
    ],
    ids=["impulse", "nothing", "a few", "many", "two shards", "many shards"],
)
def test_first_section_level_has_at_most_one_task_per_readable_input(
    kind: BufferKind | None, portions: list[int | None], first: int
) -> None:
    section, dealt = plan_from(kind, *portions)
    assert section.tasks == (first, SHARDS)
    assert all(dealt) or not portions
    assert sorted(one for own in dealt for one in own) == sorted(map(str, range(len(portions))))


def test_section_task_gets_all_data_of_its_key_shards() -> None:
    _, dealt = plan_from(BufferKind.GROUPED, 3, 11, 3, 11)
    assert dealt == [["0", "2"], ["1", "3"]]


def test_section_restrictions_are_distributed_by_declared_size() -> None:
    plan = plan_of([stage("read", "source")], [buffer("source", BufferKind.DEALT)])
    said = (1, 900, 2, 900, 3)
    inputs = tuple(
        Input(Data(f"{number}", DataStatistics(1, 10, 0, work=work)))
        for number, work in enumerate(said)
    )
    section = SectionPlan.from_parts(
        plan, [SectionStageInput("read", inputs, (), MIN_TIMESTAMP)], SHARDS
    )
    dealt = distribute_input(plan, section.levels[0][0], 3)
    assert [[one.data.ref for one in own] for own in dealt] == [["1"], ["3"], ["0", "2", "4"]]
