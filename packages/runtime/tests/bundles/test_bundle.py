"""Tests of a bundle in its process: its input, its reply, and its files after a failure."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import patch

import attrs
import pytest
from beam_runner_data.rows import written
from beam_runner_data.rows.outputs import create_row_converter
from beam_runner_data.rows.refs import FileRows
from beam_runner_data.rows.written import RowBufferWriter
from beam_runner_data.state.shard_stores import ShardStores
from beam_runner_engine.scheduler.commands import Input
from beam_runner_engine.scheduler.data import Data
from beam_runner_model.buffers import BufferKind
from beam_runner_model.bundles import BundleProgress, BundleSplit, MonitoringInfo, ResidualElement
from beam_runner_model.summary import EMPTY_SUMMARY
from beam_runner_model.times import MAX_TIMESTAMP
from beam_runner_planner.plan import JobPlan
from beam_runner_urns import metrics as metric_urns
from beam_runner_worker.errors import BundleError, HarnessError
from sample_buffers import buffer
from sample_chunks import keyed_chunk
from small_plans import (
    bundle_of,
    chunk_of,
    cut,
    elements,
    encoded,
    plan_of,
    stage,
    values_of,
    work_of,
)
from worker_doubles import FakeHarness

from beam_runner_runtime.bundles.bundle import LocalBundle
from beam_runner_runtime.bundles.bundle_data import FolderData
from beam_runner_runtime.bundles.inputs import read_element_chunks
from beam_runner_runtime.channel.attempts import Attempt, BundleFailure, UserFailure
from beam_runner_runtime.channel.messages import BundleReply, RunBundle, SplitReply

PLAN = plan_of(
    [
        stage("stage", "in", {"one": "stored", "two": "dealt"}, splittable=True),
        stage("group", "pairs", {"one": "stored"}, groups=True),
        stage("panes", "triggered", {"one": "stored"}, groups=True),
        stage("last", "in"),
    ],
    [
        buffer("in", BufferKind.STORED),
        buffer("stored", BufferKind.STORED),
        buffer("dealt", BufferKind.DEALT),
        buffer("pairs", BufferKind.GROUPED),
        buffer("triggered", BufferKind.GROUPED, bulk=False),
    ],
)
KINDS = {"one": BufferKind.STORED, "two": BufferKind.DEALT}
NAME = "1-7-1"


def both(values: list[bytes]) -> dict[str, list[bytes]]:
    return {"one": values, "two": [value.upper() for value in values]}


def start(
    folder: Path,
    harness: FakeHarness,
    *inputs: Data | Input,
    stage_id: str = "stage",
    budget: int = 1 << 30,
    **more: Any,
) -> LocalBundle:
    bundle = bundle_of(*inputs, stage=stage_id, **more)
    work = attrs.evolve(work_of(PLAN, stage_id), budget=budget)
    return LocalBundle(
        work, RunBundle(bundle, NAME), harness, ShardStores(folder), FolderData(folder)
    )


def values_in(folder: Path, reply: BundleReply, collection: str) -> list[bytes]:
    inputs = [Input(out.data) for out in reply.done.outputs if out.collection == collection]
    return [
        value
        for chunk in read_element_chunks(FolderData(folder).read_rows, inputs)
        for value in values_of(chunk)
    ]


def answer(running: LocalBundle) -> BundleReply:
    reply = running.run()
    assert isinstance(reply, BundleReply), reply
    return reply


@pytest.mark.parametrize("limit", [-1, 10**9], ids=["files", "inline"])
def test_bundle_writes_its_outputs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    monkeypatch.setattr(written, "INLINE_BYTES", limit)
    harness = FakeHarness(both, KINDS)
    data = elements("x", b"a", b"b", b"c")
    reply = answer(start(tmp_path, harness, data, cut(elements("y", b"d", b"e", b"f"), 1, 2)))
    assert (reply.done.bundle, reply.done.attempt) == (7, 1)
    assert values_in(tmp_path, reply, "stored") == [b"a", b"b", b"c", b"e"]
    assert sorted(values_in(tmp_path, reply, "dealt")) == [b"A", b"B", b"C", b"E"]
    assert (reply.done.residuals, reply.done.summary, reply.state) == ((), None, None)
    assert not reply.done.finalize
    assert harness.bundles == [NAME]
    assert len(list(tmp_path.iterdir())) == (2 if limit < 0 else 0)
    assert all(path.name.startswith(f"{NAME}-") for path in tmp_path.iterdir())


def test_bundle_reply_contains_residuals_and_finalization(tmp_path: Path) -> None:
    residual = ResidualElement(encoded(b"rest", 40), 30, 20)
    harness = FakeHarness(both, KINDS, residuals=(residual,), finalizes=True)
    reply = answer(start(tmp_path, harness, elements("x", b"a")))
    assert reply.done.finalize
    (given,) = reply.done.residuals
    assert (given.delay, given.watermark, given.data.facts.min_timestamp) == (30, 20, 40)
    assert not given.untouched


def test_bundle_metrics_omit_elements_counted_by_producing_stage(tmp_path: Path) -> None:
    counted = attrs.evolve(PLAN.stages["last"], counted_elsewhere="pc1")
    plan = plan_of([counted], PLAN.buffers.values())
    ours, theirs = (
        MonitoringInfo("urn", metric_urns.SUM_INT64_TYPE, (("PCOLLECTION", name),), b"\x01")
        for name in ("pc0", "pc1")
    )

    @attrs.define(eq=False)
    class Counting(FakeHarness):
        def process_bundle(self, *arguments: Any) -> Any:
            return attrs.evolve(
                FakeHarness.process_bundle(self, *arguments), metrics=(theirs, ours)
            )

    order = RunBundle(bundle_of(elements("x", b"a"), stage="last"), NAME)
    harness = Counting(lambda values: {})
    running = LocalBundle(
        work_of(plan, "last"), order, harness, ShardStores(tmp_path), FolderData(tmp_path)
    )
    counted, took, costs = answer(running).metrics
    assert counted == ours
    labels = (("STAGE", "last"),)
    assert (took.urn, took.labels) == ("beam_spark:stage:bundle_msecs:v1", labels)
    assert (costs.urn, costs.labels) == ("beam_spark:stage:bundle_costs:v1", labels)


# Failures.


@pytest.mark.parametrize("limit", [-1, 10**9], ids=["files", "inline"])
@pytest.mark.parametrize(
    ("error", "failure", "reason"),
    [
        (
            BundleError("T", "ValueError: x", "trace"),
            UserFailure("T", "ValueError: x", "trace"),
            "",
        ),
        (HarnessError("the SDK is gone"), None, "HarnessError: the SDK is gone"),
        (OSError("disk full"), None, "OSError: disk full"),
    ],
)
def test_failed_bundle_leaves_no_file(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
    failure: UserFailure | None,
    reason: str,
    limit: int,
) -> None:
    monkeypatch.setattr(written, "INLINE_BYTES", limit)

    @attrs.define(eq=False)
    class Late(FakeHarness):
        def process_bundle(self, *arguments: Any) -> Any:
            FakeHarness.process_bundle(self, *arguments)
            raise error

    reply = start(tmp_path, Late(both, KINDS), elements("x", b"a")).run()
    assert reply == BundleFailure(Attempt(7, 1), failure, reason)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no disk that is always full")
def test_bundle_on_full_disk_fails_with_external_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Deleting the output file fails as well, and `run` still raises no error."""
    monkeypatch.setattr(written, "INLINE_BYTES", -1)
    (tmp_path / f"{NAME}-0.arrow").symlink_to("/dev/full")
    reply = start(tmp_path, FakeHarness(both, KINDS), elements("x", b"a" * 100_000)).run()
    assert isinstance(reply, BundleFailure) and reply.failure is None
    assert "No space left" in reply.reason
    assert list(tmp_path.iterdir()) == []


def test_bundle_with_missing_input_file_fails_with_external_failure(tmp_path: Path) -> None:
    data = attrs.evolve(elements("x", b"a"), ref=FileRows("gone", (0,)))
    reply = start(tmp_path, FakeHarness(both, KINDS), data).run()
    assert isinstance(reply, BundleFailure) and reply.failure is None
    assert "gone" in reply.reason


# Grouping.


def pairs(folder: Path, plan: JobPlan, collection: str, *values: bytes) -> Data:
    output = RowBufferWriter(plan.buffers[collection], 1, folder, "pairs")
    create_row_converter(BufferKind.GROUPED, 1, 0, output.write).write(keyed_chunk(values))
    (out,) = output.close()
    return out.data


@pytest.mark.parametrize("stage_id", ["group", "panes"])
def test_bundle_without_due_timers_and_elements_calls_no_user_code(
    tmp_path: Path, stage_id: str
) -> None:
    harness = FakeHarness(both, KINDS)
    reply = answer(start(tmp_path, harness, stage_id=stage_id, shard=2))
    assert harness.bundles == []
    assert reply.done.summary == EMPTY_SUMMARY
    assert reply.done.outputs == ()


def test_bundle_reply_contains_number_of_late_elements(tmp_path: Path) -> None:
    data = pairs(tmp_path, PLAN, "triggered", b"a1", b"b1", b"a2")
    closed = {"input_watermark": MAX_TIMESTAMP, "end_watermark": MAX_TIMESTAMP}
    reply = answer(
        start(tmp_path, FakeHarness(both, KINDS), data, stage_id="panes", shard=0, **closed)
    )
    (dropped,) = [info for info in reply.metrics if "dropped" in info.urn]
    assert (dropped.urn, dropped.payload) == ("beam_spark:stage:dropped_values:v1", b"\x03")
    assert dropped.labels == (("STAGE", "panes"),)


def test_bundle_of_complete_shard_processes_its_groups(tmp_path: Path) -> None:
    harness = FakeHarness(lambda groups: {"one": groups}, KINDS)
    data = pairs(tmp_path, PLAN, "pairs", b"a1", b"b1", b"a2")
    reply = answer(start(tmp_path, harness, data, stage_id="group", shard=0))
    assert sorted(values_in(tmp_path, reply, "stored")) == [b"a=2", b"b=1"]
    assert reply.done.summary == EMPTY_SUMMARY and reply.state is None


def test_bundle_of_shard_above_memory_limit_processes_its_groups(tmp_path: Path) -> None:
    values = [b"%d%d" % (number % 7, number) for number in range(200)]
    data = pairs(tmp_path, PLAN, "pairs", *values)
    kept = {path.name for path in tmp_path.iterdir()}
    replies = []
    for budget in (1 << 20, 500):
        harness = FakeHarness(lambda groups: {"one": groups}, KINDS)
        running = start(tmp_path, harness, data, stage_id="group", shard=0, budget=budget)
        replies.append(sorted(values_in(tmp_path, answer(running), "stored")))
    assert replies[0] == replies[1]
    assert len(replies[0]) == 7
    assert {path.name for path in tmp_path.iterdir()} == kept


def test_failed_bundle_leaves_no_spill_file(tmp_path: Path) -> None:
    def fail(groups: list[bytes]) -> dict[str, list[bytes]]:
        raise BundleError("Step", "ValueError: no", "")

    data = pairs(tmp_path, PLAN, "pairs", *[b"%d" % number for number in range(10, 99)])
    kept = {path.name for path in tmp_path.iterdir()}
    running = start(tmp_path, FakeHarness(fail, KINDS), data, stage_id="group", shard=0, budget=500)
    assert isinstance(running.run(), BundleFailure)
    assert {path.name for path in tmp_path.iterdir()} == kept


# Splits and progress.


def test_bundle_split_returns_primary_and_residual_input(tmp_path: Path) -> None:
    harness = FakeHarness(both, KINDS, splits=[BundleSplit(1, 2)])
    one, two = elements("x", b"a", b"b", b"c"), elements("y", b"d")
    running = start(tmp_path, harness, one, two)
    done = running.split(0.25).done
    assert harness.asked == [(0.25, 4)]
    assert [kept.data for kept in done.primary] == [cut_of(one, 0, 2)]
    assert [given.data for given in done.residuals] == [cut_of(one, 2, 3), two]


def cut_of(data: Data, first: int, last: int) -> Data:
    count = data.facts.count
    size = data.facts.size * (last - first) // count
    part = cut(data, first, last)
    return attrs.evolve(part, facts=attrs.evolve(part.facts, size=size))


@pytest.mark.parametrize("split", [None, BundleSplit(2, 3)])
def test_bundle_split_without_residual_is_refused(
    tmp_path: Path, split: BundleSplit | None
) -> None:
    harness = FakeHarness(both, KINDS, splits=[split])
    reply = start(tmp_path, harness, elements("x", b"a", b"b", b"c")).split(0.5)
    assert (reply.done.primary, reply.done.residuals) == ((), ())


def everything(*replies: SplitReply) -> list[bytes]:
    """Returns the remaining input after the last split, and the input that all splits gave away."""
    given = [residual.data for reply in replies for residual in reply.done.residuals]
    kept = [one.data for one in replies[-1].done.primary]
    inputs = map(Input, [*kept, *given])
    return [
        v
        for chunk in read_element_chunks(FolderData(Path()).read_rows, inputs)
        for v in values_of(chunk)
    ]


@pytest.mark.parametrize(
    ("splits", "expected"),
    [
        ([BundleSplit(3, 4), BundleSplit(1, 2)], b"abcdef"),
        (
            [
                BundleSplit(1, 3, (encoded(b"p"),), (ResidualElement(encoded(b"q")),)),
                BundleSplit(1, 3, (encoded(b"r"),), (ResidualElement(encoded(b"s")),)),
            ],
            b"abrqsdef",
        ),
        (
            [
                BundleSplit(3, 4),
                BundleSplit(1, 3, (encoded(b"p"),), (ResidualElement(encoded(b"q")),)),
            ],
            b"abpefdq",
        ),
        ([BundleSplit(4, 5), BundleSplit(3, 4), BundleSplit(0, 1)], b"abcdef"),
    ],
    ids=["between", "within one element", "between, then within", "three times"],
)
def test_bundle_splits_return_each_residual_input_once(
    tmp_path: Path, splits: list[BundleSplit], expected: bytes
) -> None:
    values = [bytes([each]) for each in b"abcdef"]
    harness = FakeHarness(both, KINDS, splits=list(splits))
    running = start(tmp_path, harness, elements("x", *values[:3]), elements("y", *values[3:]))
    replies = [running.split(0.5) for _ in splits]
    assert sorted(everything(*replies)) == sorted(bytes([each]) for each in expected)


def test_bundle_whose_sdk_is_lost_during_split_reports_the_loss(tmp_path: Path) -> None:
    """The thread that requests splits must survive, because it also tears down."""

    @attrs.define(eq=False)
    class Lost(FakeHarness):
        def split(self, keep: float, elements: int) -> Any:
            raise HarnessError("the SDK is gone")

    reply = start(tmp_path, Lost(both, KINDS), elements("x", b"a")).split(0.5)
    assert reply.done.residuals == ()


@pytest.mark.parametrize(
    ("processed", "fraction"), [(0.0, 0.0), (1.0, 0.25), (3.5, 0.875), (9.0, 1.0)]
)
def test_bundle_progress_is_reported(tmp_path: Path, processed: float, fraction: float) -> None:
    harness = FakeHarness(both, KINDS, processed=processed)
    running = start(tmp_path, harness, elements("x", b"a", b"b", b"c", b"d"))
    progress = running.get_progress()
    assert progress is not None
    assert (progress.attempt, progress.fraction) == (Attempt(7, 1), fraction)
    assert 0 <= progress.elapsed < 60_000


def test_bundle_progress_reports_starting_harness(tmp_path: Path) -> None:
    harness = FakeHarness(both, KINDS)
    running = start(tmp_path, harness, elements("x", b"a"))
    with patch.object(FakeHarness, "get_progress", lambda _: BundleProgress((), 0.0, starts=True)):
        progress = running.get_progress()
    assert progress is not None
    assert progress.starts
    assert progress.fraction == 0.0


def test_idle_process_reports_no_progress(tmp_path: Path) -> None:
    assert start(tmp_path, FakeHarness(both, KINDS), elements("x", b"a")).get_progress() is None


def test_chunk_encoded_by_these_tests_equals_chunk_of_sdk(tmp_path: Path) -> None:
    assert values_of(chunk_of([b"a", b"", b"ccc"], 77)) == [b"a", b"", b"ccc"]
