"""Tests that a section with rows lost, duplicated or mixed by Spark isn't committed, unlike a section
with repeated tasks only.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from beam_runner_data.rows.shuffle_blocks import ShuffleBlockKind, read_header
from plans import Build, make_plan
from section_runs import SHARDS, Host, Parcels, Run, order_of

from beam_runner_runtime.sections.replies import SectionReply
from beam_runner_runtime.sections.shuffle_consistency import (
    ExchangeError,
    find_level_with_mixed_input,
    format_section_refusal,
)


def random_keys(p: beam.Pipeline) -> None:
    some = p | beam.Create(range(100)) | beam.Reshuffle()
    keyed = some | "key" >> beam.Map(lambda n: (str(uuid.uuid4()), n)) | beam.GroupByKey()
    keyed | "again" >> beam.Reshuffle() | "last" >> beam.Map(str)


def fixed_keys(p: beam.Pipeline) -> None:
    some = p | beam.Create(range(100)) | beam.Reshuffle()
    keyed = some | "key" >> beam.Map(lambda n: (n % 7, n)) | beam.GroupByKey()
    keyed | "again" >> beam.Reshuffle() | "last" >> beam.Map(str)


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Callable[[Build], Run]]:
    hosts: list[Host] = []

    def make(build: Build) -> Run:
        plan = make_plan(build)
        hosts.append(Host(plan, tmp_path))
        return Run(hosts[-1], order_of(plan))

    yield make
    for host in hosts:
        host.close()


def mixed(run: Run, level: int) -> SectionReply:
    """Makes half of the tasks after a level read other attempts of all its tasks than the other half."""
    parcels: Parcels = [[] for _ in range(SHARDS)]
    for number in range(run.levels):
        after = run.level(number, parcels)
        if number == level:
            again = run.level(number, parcels)
            after = [*after[: SHARDS // 2], *again[SHARDS // 2 :]]
        parcels = after
    return run.gathered(parcels[0])


def level_of(run: Run, name: str) -> int:
    return next(
        level for level in range(run.levels) if name in run.prepared.plan.format_level(level)
    )


def test_shuffle_check_reports_tasks_that_read_different_versions_of_output(run: Any) -> None:
    one = run(random_keys)
    level = level_of(one, "key")
    reply = mixed(one, level)
    assert reply.end is None
    assert find_level_with_mixed_input(reply, one.tasks) == level + 1
    names = one.prepared.plan.format_level(level)
    assert format_section_refusal(names).startswith(
        f"Spark mixed two versions of the output of {names}"
    )


@pytest.mark.parametrize("level", [0, 1, 2])
def test_shuffle_check_accepts_attempts_with_equal_bytes(run: Any, level: int) -> None:
    one = run(fixed_keys)
    assert find_level_with_mixed_input(mixed(one, level), one.tasks) is None


def test_shuffle_check_reports_retried_reader_with_different_input(run: Any) -> None:
    """Some tasks read its first attempt, and others read its second attempt: their input differs."""
    one = run(random_keys)
    random = level_of(one, "key")
    before: Parcels = [[] for _ in range(SHARDS)]
    for level in range(random):
        before = one.level(level, before)
    first, second = one.level(random, before), one.level(random, before)
    after: Parcels = [[] for _ in range(SHARDS)]
    for number in range(SHARDS):
        for shard, parcel in one.task(random + 1, number, (first if number else second)[number]):
            after[shard].append(parcel)
    for level in range(random + 2, one.levels):
        after = one.level(level, after)
    assert find_level_with_mixed_input(one.gathered(after[0]), one.tasks) == random + 1


def of_kind(kind: ShuffleBlockKind, some: list[bytes]) -> list[bytes]:
    return [parcel for parcel in some if read_header(parcel).kind is kind]


def lose(kind: ShuffleBlockKind) -> Callable[[list[bytes]], list[bytes]]:
    return lambda some: [one for one in some if one is not of_kind(kind, some)[0]]


def double(kind: ShuffleBlockKind) -> Callable[[list[bytes]], list[bytes]]:
    return lambda some: [*some, of_kind(kind, some)[0]]


def change(some: list[bytes]) -> list[bytes]:
    """Flips one bit of the last row."""
    victim = of_kind(ShuffleBlockKind.ROWS, some)[0]
    changed = victim[:-17] + bytes([victim[-17] ^ 1]) + victim[-16:]
    return [changed if one is victim else one for one in some]


def lose_a_source(some: list[bytes]) -> list[bytes]:
    source = read_header(some[0]).source
    return [one for one in some if read_header(one).source != source]


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (lose(ShuffleBlockKind.ROWS), "delivered other rows than task"),
        (lose(ShuffleBlockKind.TOLD), "lost the output of 1 tasks of"),
        (lose_a_source, "lost the output of 1 tasks of"),
        (double(ShuffleBlockKind.ROWS), "delivered a parcel of task .* twice"),
        (double(ShuffleBlockKind.TOLD), "delivered the declaration of task .* twice"),
        (change, "delivered other rows than task"),
    ],
    ids=["rows lost", "end lost", "task lost", "rows doubled", "end doubled", "rows changed"],
)
def test_damaged_parcel_from_shuffle_is_refused(run: Any, damage: Any, told: str) -> None:
    one = run(fixed_keys)
    parcels: Parcels = [[] for _ in range(SHARDS)]
    group = level_of(one, "Group")
    for level in range(group):
        parcels = one.level(level, parcels)
    victim = next(n for n in range(SHARDS) if of_kind(ShuffleBlockKind.ROWS, parcels[n]))
    with pytest.raises(ExchangeError, match=told):
        one.task(group, victim, damage(parcels[victim]))


def test_shuffle_check_reports_missing_task_reply(run: Any) -> None:
    one = run(fixed_keys)
    parcels: Parcels = [[] for _ in range(SHARDS)]
    for level in range(one.levels):
        parcels = one.level(level, parcels)
    with pytest.raises(ExchangeError, match="delivered other rows"):
        one.gathered(lose(ShuffleBlockKind.REPLY)(parcels[0]))
