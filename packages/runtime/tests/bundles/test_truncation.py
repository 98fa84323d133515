"""Tests that a bundle truncates restrictions before any other work."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import attrs
import pytest
from beam_runner_data.side_inputs.side_inputs import BundleSideInputs
from beam_runner_data.state.shard_stores import ShardStores
from beam_runner_engine.scheduler.commands import Input
from beam_runner_model.buffers import BufferKind
from beam_runner_model.bundles import BundleSplit, ResidualElement
from beam_runner_model.stages import OutputEdge, OutputKind
from beam_runner_model.windows import GLOBAL_WINDOW
from beam_runner_planner.plan import TruncationPlan
from beam_runner_worker.errors import BundleError
from sample_buffers import buffer
from small_plans import bundle_of, elements, encoded, plan_of, stage, values_of, work_of
from worker_doubles import FakeHarness, Transform

from beam_runner_runtime.bundles.bundle import LocalBundle
from beam_runner_runtime.bundles.bundle_data import FolderData
from beam_runner_runtime.bundles.truncation import InputTruncator
from beam_runner_runtime.channel.attempts import BundleFailure
from beam_runner_runtime.channel.messages import BundleReply, RunBundle

STAGE = stage("stage", "in", splittable=True)
PLAN = plan_of([STAGE], [buffer("in", BufferKind.STORED)])
SPEC = attrs.evolve(
    STAGE.spec, stage_id="truncate", outputs=(OutputEdge("left", OutputKind.ELEMENTS),)
)

ASKED = TruncationPlan(SPEC, endless=True)


@attrs.define
class Sdk:
    """An environment with one stage, which truncates."""

    transform: Transform

    def get_stage_harness(self, spec: Any, side_inputs: Any) -> FakeHarness:
        assert spec is SPEC
        return FakeHarness(self.transform, {"left": BufferKind.STORED})

    def close(self) -> None:
        pass


def shorter(values: list[bytes]) -> dict[str, list[bytes]]:
    """Removes a byte from each restriction, and drops restrictions of one byte."""
    return {"left": [value[:-1] for value in values if len(value) > 1]}


def running(
    folder: Path,
    inputs: Iterable[Input],
    harness: FakeHarness,
    *,
    transform: Transform = shorter,
    plan: TruncationPlan = ASKED,
) -> LocalBundle:
    order = RunBundle(bundle_of(*inputs, stage="stage"), "1-7-1")
    truncation = InputTruncator(plan, Sdk(transform), BundleSideInputs((), folder), folder)
    stores = ShardStores(folder)
    return LocalBundle(
        work_of(PLAN, "stage"), order, harness, stores, FolderData(folder), None, truncation
    )


def seen_by(harness: FakeHarness) -> list[bytes]:
    seen: list[bytes] = []
    harness.during = lambda chunk: seen.extend(values_of(chunk))
    return seen


GIVEN = (
    Input(elements("x", b"abc", b"d"), truncate=True),
    Input(elements("y", b"efg"), whole=True),
    Input(elements("z", b"h"), truncate=True),
)


@pytest.mark.parametrize(
    ("plan", "expected"),
    [
        (ASKED, [b"ab", b"efg"]),
        (TruncationPlan(None, endless=True), [b"efg"]),
        (TruncationPlan(None, endless=False), [b"abc", b"d", b"efg", b"h"]),
    ],
    ids=["as the SDK says", "dropped", "kept"],
)
def test_drained_bundle_returns_truncated_restrictions(
    tmp_path: Path, plan: TruncationPlan, expected: list[bytes]
) -> None:
    harness = FakeHarness(lambda values: {})
    seen = seen_by(harness)
    assert isinstance(running(tmp_path, GIVEN, harness, plan=plan).run(), BundleReply)
    assert seen == expected


def test_truncated_restrictions_keep_their_windows(tmp_path: Path) -> None:
    """A residual waits for side inputs by these windows."""
    (given, *_) = GIVEN
    windows = frozenset({GLOBAL_WINDOW})
    data = attrs.evolve(given.data, facts=attrs.evolve(given.data.facts, windows=windows))
    truncation = InputTruncator(ASKED, Sdk(shorter), BundleSideInputs((), tmp_path), tmp_path)
    (left,) = truncation.truncate_inputs([attrs.evolve(given, data=data)], "name")
    assert (left.data.facts.windows, left.data.facts.count) == (windows, 1)


def test_drained_bundle_has_no_input_if_truncation_leaves_no_restriction(
    tmp_path: Path,
) -> None:
    harness = FakeHarness(lambda values: {})
    reply = running(tmp_path, GIVEN[2:], harness).run()
    assert isinstance(reply, BundleReply) and not reply.done.outputs
    assert harness.bundles == []


def test_split_of_drained_bundle_truncates_each_restriction_once(tmp_path: Path) -> None:
    answers = []
    harness = FakeHarness(
        lambda values: {}, splits=[BundleSplit(-1, 1, primaries=(encoded(b"a"),))]
    )
    bundle = running(tmp_path, GIVEN, harness)
    harness.during = lambda chunk: answers or answers.append(bundle.split(0.5))
    bundle.run()
    assert harness.asked == [(0.5, 2)]
    done = answers[0].done
    assert [(one.truncate, one.whole) for one in done.primary] == [(False, True)]
    (rest,) = done.residuals
    assert (rest.data, rest.untouched, rest.whole) == (GIVEN[1].data, False, True)


@pytest.mark.parametrize("plan", [ASKED, TruncationPlan(None, endless=False)])
def test_drain_does_not_truncate_residuals_of_truncated_restrictions(
    tmp_path: Path, plan: TruncationPlan
) -> None:
    harness = FakeHarness(lambda values: {}, residuals=(ResidualElement(encoded(b"x"), 5_000),))
    reply = running(tmp_path, GIVEN[:1], harness, plan=plan).run()
    assert isinstance(reply, BundleReply)
    assert [(one.delay, one.whole) for one in reply.done.residuals] == [(5_000, True)]


def test_sdk_error_in_truncation_fails_bundle(tmp_path: Path) -> None:
    def broken(values: list[bytes]) -> dict[str, list[bytes]]:
        raise BundleError("Source", "ValueError: no", "trace")

    reply = running(tmp_path, GIVEN, FakeHarness(lambda values: {}), transform=broken).run()
    assert isinstance(reply, BundleFailure) and reply.failure is not None
    assert reply.failure.transform == "Source"
