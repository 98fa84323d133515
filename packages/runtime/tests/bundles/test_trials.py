"""Tests of an attempt that isolates failing elements: its reply, its failures, and its trials."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import pytest
from apache_beam.coders.coder_impl import create_InputStream
from apache_beam.coders.coders import BytesCoder, GlobalWindowCoder, WindowedValueCoder
from beam_runner_data.rows import written
from beam_runner_data.state.shard_stores import ShardStores
from beam_runner_engine.scheduler.commands import Input
from beam_runner_model.buffers import BufferKind
from beam_runner_model.bundles import BundleSplit
from beam_runner_model.chunks import ElementChunk
from beam_runner_model.quarantine import QuarantinedUnitKind
from beam_runner_worker.errors import BundleError
from sample_buffers import buffer
from small_plans import bundle_of, elements, plan_of, stage, values_of, work_of
from worker_doubles import FakeHarness

from beam_runner_runtime.bundles import isolation, trials
from beam_runner_runtime.bundles.bundle import LocalBundle
from beam_runner_runtime.bundles.bundle_data import FolderData
from beam_runner_runtime.bundles.inputs import read_element_chunks
from beam_runner_runtime.channel.attempts import BundleFailure, UserFailure
from beam_runner_runtime.channel.isolation import IsolationOrder
from beam_runner_runtime.channel.messages import BundleReply, RunBundle

PLAN = plan_of(
    [
        stage("stage", "in", {"out": "stored"}),
        stage("source", "in", {"out": "stored"}, splittable=True),
        attrs.evolve(stage("stable", "in", {"out": "stored"}), stable_input=True),
    ],
    [buffer("in", BufferKind.STORED), buffer("stored", BufferKind.STORED)],
)
NAME = "1-7-1"
ORDER = IsolationOrder(attempts=3, steps=(), room=10, limit="limit-option")
CODER = WindowedValueCoder(BytesCoder(), GlobalWindowCoder()).get_impl()
VALUES = [b"%d" % number for number in range(64)]


class Elements:
    """Reader of elements in the global window with bytes as values."""

    coder = "bytes"

    def __init__(self, spec: Any) -> None:
        pass

    def find_ends(self, chunk: ElementChunk) -> Sequence[int]:
        stream = create_InputStream(bytes(chunk.data))
        ends = []
        for _ in range(chunk.count):
            CODER.decode_from_stream(stream, True)
            ends.append(len(chunk.data) - stream.size())
        return ends


@pytest.fixture(autouse=True)
def _read_elements(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trials, "InputElements", Elements)
    monkeypatch.setattr(written, "INLINE_BYTES", -1)


def failing(*poisoned: bytes) -> FakeHarness:
    """Returns a harness that fails for poisoned values."""

    def transform(values: list[bytes]) -> Mapping[str, list[bytes]]:
        for value in values:
            if value in poisoned:
                raise BundleError("Fails", f"ValueError: {value.decode()}", "Trace")
        return {"out": values}

    return FakeHarness(transform, {"out": BufferKind.STORED})


def start(
    folder: Path, harness: FakeHarness, order: IsolationOrder = ORDER, stage_id: str = "stage"
) -> LocalBundle:
    bundle = bundle_of(elements("x", *VALUES), stage=stage_id)
    return LocalBundle(
        work_of(PLAN, stage_id),
        RunBundle(bundle, NAME, isolation=order),
        harness,
        ShardStores(folder),
        FolderData(folder),
    )


def fail(running: LocalBundle) -> UserFailure:
    reply = running.run()
    assert isinstance(reply, BundleFailure)
    assert reply.failure is not None
    return reply.failure


def test_failing_elements_are_quarantined_after_enough_attempts(tmp_path: Path) -> None:
    order = ORDER
    for attempt in (1, 2):
        failure = fail(start(tmp_path, failing(b"5", b"40"), order))
        assert [count for _, count in failure.isolated] == [attempt] * 2
        assert list(tmp_path.iterdir()) == []
        order = attrs.evolve(order, failures=failure.isolated)
    reply = start(tmp_path, failing(b"5", b"40"), order).run()
    assert isinstance(reply, BundleReply)
    inputs = [Input(out.data) for out in reply.done.outputs]
    chunks = read_element_chunks(FolderData(tmp_path).read_rows, inputs)
    values = [value for chunk in chunks for value in values_of(chunk)]
    assert values == [value for value in VALUES if value not in (b"5", b"40")]
    assert len(list(tmp_path.iterdir())) == 1
    assert [BytesCoder().get_impl().decode_nested(one.value) for one in reply.quarantined] == [
        b"5",
        b"40",
    ]
    first = reply.quarantined[0]
    assert (first.kind, first.step, first.error) == (
        QuarantinedUnitKind.ELEMENT,
        "Fails",
        "ValueError: 5",
    )
    assert (first.timestamp, first.windows, first.attempts) == (0, ("global",), 3)
    counts = {dict(one.labels).get("PTRANSFORM"): one.payload for one in reply.metrics}
    assert counts["Fails"] == b"\x02"


def test_stage_with_stable_input_does_not_isolate_failing_elements(tmp_path: Path) -> None:
    harness = failing(b"5")
    failure = fail(start(tmp_path, harness, attrs.evolve(ORDER, attempts=1), "stable"))
    assert failure.isolated == ()
    assert len(harness.bundles) == 1


def test_search_for_failing_element_takes_logarithmic_number_of_trials(tmp_path: Path) -> None:
    harness = failing(b"50")
    start(tmp_path, harness, attrs.evolve(ORDER, attempts=1)).run()
    assert len(harness.bundles) <= 3 + math.log2(len(VALUES))
    assert len(set(harness.bundles)) == len(harness.bundles)
    assert all(name.startswith(NAME) for name in harness.bundles)


def test_element_that_succeeds_again_loses_its_failure_count(tmp_path: Path) -> None:
    before = fail(start(tmp_path, failing(b"5", b"40"))).isolated
    order = attrs.evolve(ORDER, failures=before)
    after = fail(start(tmp_path, failing(b"40"), order)).isolated
    assert after == ((before[1][0], 2),)


def test_failure_outside_user_code_keeps_failure_counts_of_elements(tmp_path: Path) -> None:
    before = fail(start(tmp_path, failing(b"5"))).isolated
    order = attrs.evolve(ORDER, failures=before)
    assert fail(start(tmp_path, failing(*VALUES), order)).isolated == before


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"room": 0}, "limit-option"),
        ({"room": 1}, "limit-option"),
        ({"steps": ("Other",)}, "'Fails'"),
    ],
)
def test_failure_record_contains_reason_why_nothing_was_quarantined(
    tmp_path: Path, changes: dict[str, Any], text: str
) -> None:
    failure = fail(start(tmp_path, failing(b"5", b"6"), attrs.evolve(ORDER, attempts=1, **changes)))
    assert text in failure.quarantine
    assert failure.quarantine in failure.text
    assert failure.isolated == ()


@pytest.mark.parametrize("steps", [("Fails",), ("All",), ("Other", "All/Fails")])
def test_quarantine_option_with_composite_name_selects_all_its_steps(
    steps: tuple[str, ...],
) -> None:
    order = attrs.evolve(ORDER, steps=steps)
    assert order.applies_to_step("First + All/Fails" if "Fails" not in steps else "Fails")
    assert not order.applies_to_step("Alls/Fail")


def test_quarantine_does_not_isolate_restrictions(tmp_path: Path) -> None:
    harness = failing(b"5")
    failure = fail(start(tmp_path, harness, stage_id="source"))
    assert len(harness.bundles) == 1
    assert failure.quarantine == ""


def test_attempt_that_was_split_isolates_no_failing_element(tmp_path: Path) -> None:
    harness = failing(b"5")
    running = start(tmp_path, harness)
    harness.splits.append(BundleSplit(30, 31))
    harness.during = lambda chunk: running.split(0.5) and None  # type: ignore[func-returns-value]
    failure = fail(running)
    assert len(harness.bundles) == 1
    assert "split" in failure.quarantine


def test_bundle_is_not_split_during_the_search_for_failing_elements(tmp_path: Path) -> None:
    harness = failing(b"5")
    running = start(tmp_path, harness, attrs.evolve(ORDER, attempts=1))

    def split(chunk: Any) -> None:
        if len(harness.bundles) > 1:
            harness.splits.append(BundleSplit(30, 31))
            assert not running.split(0.5).done.residuals

    harness.during = split
    assert isinstance(running.run(), BundleReply)


def test_quarantine_does_not_accept_elements_above_size_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trials, "MOST_BYTES", 3)
    failure = fail(start(tmp_path, failing(b"5"), attrs.evolve(ORDER, attempts=1)))
    assert "maximum is 3" in failure.quarantine
    assert isolation.MOST_BYTES > 3
