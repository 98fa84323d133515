"""Tests of bundle finalization callbacks of DoFns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import apache_beam as beam
import pytest
from beam_runner_model.chunks import ElementChunk
from beam_runner_worker.awaiting_commit import KEPT_SECONDS, MOST_KEPT
from beam_runner_worker.errors import BundleError
from mini_runner import IMPULSE
from one_restriction import TRACKER
from one_stage import OneStage, create_chunk

from beam_runner_embedded.finalizers import FinalizationCallback, StageFinalizers

calls: list[str] = []
FINALIZER = beam.DoFn.BundleFinalizerParam


@pytest.fixture(autouse=True)
def no_calls() -> None:
    calls.clear()


class Committed(beam.DoFn):
    """A DoFn that registers two callbacks per element. The first callback raises a given error."""

    def __init__(self, name: str, error: type[BaseException] | None = None) -> None:
        self._name, self._error = name, error

    def process(self, element: bytes, finalizer: Any = FINALIZER) -> Iterator[bytes]:
        text = f"{self._name} {element.decode()}"
        finalizer.register(lambda: self._call(text))
        finalizer.register(lambda: calls.append(text))
        if element == b"13":
            raise ValueError("boom")
        yield element

    def _call(self, text: str) -> None:
        if self._error is not None:
            raise self._error(text)
        calls.append(text)


def stage_of(*transforms: beam.PTransform) -> OneStage:
    pipeline = beam.Pipeline()
    result = pipeline | beam.Impulse()
    for transform in transforms:
        result |= transform
    return OneStage(pipeline)


def test_finalization_callbacks_of_bundle_run_once() -> None:
    with stage_of("A" >> beam.ParDo(Committed("a")), "B" >> beam.ParDo(Committed("b"))) as one:
        assert one.run([create_chunk([1])], "first").requires_finalization
        assert one.run([create_chunk([2, 3])], "second").requires_finalization
        assert not one.run([], "none").requires_finalization
        one.stage.finalize_bundle("none")
        one.stage.finalize_bundle("unknown")
        assert calls == []
        one.stage.finalize_bundle("second")
        assert sorted(calls) == sorted(["a 2", "a 3", "b 2", "b 3"] * 2)
        one.stage.finalize_bundle("first")
        assert sorted(calls[8:]) == sorted(["a 1", "b 1"] * 2)
        one.stage.finalize_bundle("first")
        one.stage.finalize_bundle("second")
        assert len(calls) == 12


def test_failed_bundle_is_never_finalized() -> None:
    with stage_of(beam.ParDo(Committed("a"))) as one:
        one.run([create_chunk([1])], "good")
        with pytest.raises(BundleError):
            one.run([create_chunk([13])], "bad")
        one.stage.finalize_bundle("bad")
        assert calls == []
        one.stage.finalize_bundle("good")
        assert calls == ["a 1", "a 1"]


def test_finalization_callbacks_of_later_attempt_replace_earlier_callbacks() -> None:
    with stage_of(beam.ParDo(Committed("a"))) as one:
        one.run([create_chunk([1])], "same")
        one.run([create_chunk([2])], "same")
        one.stage.finalize_bundle("same")
        assert calls == ["a 2", "a 2"]


@pytest.mark.parametrize("kind", [KeyError, SystemExit])
def test_finalization_callback_error_is_logged_and_other_callbacks_run(
    kind: type[BaseException],
) -> None:
    with stage_of("Bad" >> beam.ParDo(Committed("a", kind))) as one:
        one.run([create_chunk([1, 2])], "some bundle")
        one.stage.finalize_bundle("some bundle")
        assert calls == ["a 1", "a 2"]
    errors = [record for record in one.logs.records if "some bundle" in record.message]
    assert len(errors) == 2
    assert all("Bad" in record.message and kind.__name__ in record.trace for record in errors)


class CommittedCounting(beam.DoFn):
    def process(
        self, element: Any, finalizer: Any = FINALIZER, tracker: Any = TRACKER
    ) -> Iterator[int]:
        position = tracker.current_restriction().start
        finalizer.register(lambda: calls.append(f"to {position}"))
        if tracker.try_claim(position):
            yield position
            tracker.defer_remainder()


def test_splittable_dofn_is_finalized_up_to_committed_output() -> None:
    with stage_of(beam.ParDo(CommittedCounting())) as one:
        result = one.run(one.inputs(), "0")
        (residual,) = result.residuals
        one.run([ElementChunk(1, residual.element)], "1")
        one.stage.finalize_bundle("0")
        assert calls == ["to 0"]
        one.stage.finalize_bundle("1")
        assert calls == ["to 0", "to 1"]


def test_stages_without_finalization_have_no_callbacks() -> None:
    with stage_of(beam.Map(lambda x: x)) as one:
        assert not one.run([ElementChunk(1, IMPULSE)]).requires_finalization


def test_finalization_callbacks_expire(caplog: pytest.LogCaptureFixture) -> None:
    now = 0.0
    kept = StageFinalizers(lambda: now)
    kept.store_bundle_data("early", [FinalizationCallback("Step", lambda: calls.append("early"))])
    now += KEPT_SECONDS - 1
    kept.store_bundle_data("late", [FinalizationCallback("Step", lambda: calls.append("late"))])
    now += 1
    kept.run_callbacks("late")
    kept.run_callbacks("early")
    assert calls == ["late"]
    (record,) = caplog.records
    assert "Bundle early was not finalized in time: dropped 1 finalization" in record.getMessage()
    assert "Step" in record.getMessage()


def test_finalization_callback_store_has_limited_size() -> None:
    kept = StageFinalizers()
    for number in range(MOST_KEPT + 5):
        kept.store_bundle_data(
            str(number), [FinalizationCallback("Step", lambda n=number: calls.append(str(n)))]
        )
    kept.run_callbacks("4")
    assert calls == []
    kept.run_callbacks("5")
    assert calls == ["5"]
