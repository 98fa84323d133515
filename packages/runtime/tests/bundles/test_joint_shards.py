"""Tests of a bundle with several small shards: it groups all shards, and gives away complete shards."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest
from beam_runner_data.rows.outputs import create_row_converter
from beam_runner_data.rows.written import RowBufferWriter
from beam_runner_data.state.shard_stores import ShardStores
from beam_runner_engine.scheduler.commands import Input
from beam_runner_engine.scheduler.data import Data
from beam_runner_model.buffers import BufferKind
from beam_runner_model.bundles import BundleSplit
from sample_buffers import buffer
from sample_chunks import keyed_chunk
from small_plans import bundle_of, plan_of, stage, values_of, work_of
from worker_doubles import FakeHarness

from beam_runner_runtime.bundles.bundle import LocalBundle
from beam_runner_runtime.bundles.bundle_data import FolderData
from beam_runner_runtime.bundles.inputs import read_element_chunks
from beam_runner_runtime.channel.messages import BundleReply, RunBundle

PLAN = plan_of(
    [stage("group", "pairs", {"one": "stored"}, groups=True)],
    [buffer("pairs", BufferKind.GROUPED), buffer("stored", BufferKind.STORED)],
)


def pairs(folder: Path, shard: int, name: str, *values: bytes) -> Data:
    """Returns data of a shard. The first byte of each value is its key."""
    output = RowBufferWriter(PLAN.buffers["pairs"], 1, folder, name)
    create_row_converter(BufferKind.GROUPED, 1, 0, output.write).write(keyed_chunk(values))
    (out,) = output.close()
    return attrs.evolve(out.data, facts=attrs.evolve(out.data.facts, shard=shard))


def start(folder: Path, harness: FakeHarness, *inputs: Data, budget: int = 1 << 30) -> LocalBundle:
    bundle = bundle_of(*inputs, stage="group", shard=inputs[0].facts.shard)
    work = attrs.evolve(work_of(PLAN, "group"), budget=budget)
    return LocalBundle(
        work, RunBundle(bundle, "1-7-1"), harness, ShardStores(folder), FolderData(folder)
    )


def grouping(splits: list[BundleSplit | None] | None = None) -> FakeHarness:
    kinds = {"one": BufferKind.STORED}
    return FakeHarness(lambda groups: {"one": groups}, kinds, splits=splits or [], processed=1.0)


def test_bundle_with_several_shards_groups_all_shards(tmp_path: Path) -> None:
    first = pairs(tmp_path, 3, "x", b"a1", b"b1")
    second, third = pairs(tmp_path, 1, "y", b"d1", b"d2"), pairs(tmp_path, 3, "z", b"a2")
    reply = start(tmp_path, grouping(), first, third, second).run()
    assert isinstance(reply, BundleReply), reply
    inputs = [Input(out.data) for out in reply.done.outputs]
    groups = [
        value
        for chunk in read_element_chunks(FolderData(tmp_path).read_rows, inputs)
        for value in values_of(chunk)
    ]
    assert sorted(groups) == [b"a=2", b"b=1", b"d=2"]


def test_bundle_with_several_shards_returns_unstarted_shards_at_split(tmp_path: Path) -> None:
    one, again = pairs(tmp_path, 0, "x", b"a1", b"b1"), pairs(tmp_path, 0, "y", b"b2")
    two, three = pairs(tmp_path, 1, "z", b"c1"), pairs(tmp_path, 2, "w", b"d1", b"e1")
    harness = grouping([BundleSplit(2, 3), BundleSplit(1, 2), None])
    running = start(tmp_path, harness, one, again, two, three)
    running.run()
    assert running.get_progress().fraction == pytest.approx(1 / 5)  # type: ignore[union-attr]
    later, earlier, nothing = (running.split(0.5).done for _ in range(3))
    assert harness.asked == [(0.5, 5, 2, 3), (0.5, 3, 2), (0.5, 2)]
    assert [given.data for given in later.residuals] == [three]
    assert [kept.data for kept in later.primary] == [one, again, two]
    assert [given.data for given in earlier.residuals] == [two]
    assert [kept.data for kept in earlier.primary] == [one, again]
    assert nothing.residuals == ()


def test_bundle_with_several_shards_above_memory_limit_is_not_split(tmp_path: Path) -> None:
    """All shards together are partitioned by key into files."""
    one = pairs(tmp_path, 0, "x", *[b"%d" % number for number in range(10, 60)])
    two = pairs(tmp_path, 1, "y", *[b"%d" % number for number in range(60, 99)])
    harness = grouping([BundleSplit(0, 1)])
    running = start(tmp_path, harness, one, two, budget=500)
    assert isinstance(running.run(), BundleReply)
    assert running.split(0.5).done.residuals == ()
    assert harness.asked == []
