"""Tests of the text of waits, failures and endings."""

from __future__ import annotations

import attrs
import pytest

from beam_runner_model.failures import FailedBundle, FailureCause, JobFailure, JobFailureKind
from beam_runner_model.rendering import render_record, render_waits
from beam_runner_model.times import MAX_TIMESTAMP, MIN_TIMESTAMP
from beam_runner_model.waits import Wait, WaitKind

FAILED = FailedBundle("s", 1, ("A", "B"), 3, FailureCause.USER_CODE, "B", "no", "'x'", next_in=4.2)


@pytest.mark.parametrize("kind", list(WaitKind))
def test_wait_of_each_kind_has_a_text(kind: WaitKind) -> None:
    text = render_record(Wait(kind, "s", ("A", "B"), 7, 5, 3, until=9, watermark=2))
    assert text and not text.endswith(".")
    assert (text == render_record(Wait(WaitKind.OTHER, "s", ("A", "B")))) == (
        kind is WaitKind.OTHER
    )


def test_unknown_wait_kind_of_another_version_becomes_other() -> None:
    assert Wait("tomorrow's kind").kind is WaitKind.OTHER
    assert attrs.evolve(FAILED, kind="tomorrow's kind").kind is FailureCause.OUTSIDE
    assert JobFailure("tomorrow's kind").kind is JobFailureKind.OTHER


def test_wait_text_names_the_argument_the_steps_or_the_stage() -> None:
    wait = Wait(WaitKind.BUNDLES, "s", ("A", "B"), count=2)
    assert render_record(wait) == "'A + B' has running bundles: 2"
    assert render_record(wait, who="A") == "A has running bundles: 2"
    assert render_record(attrs.evolve(wait, steps=())) == "stage 's' has running bundles: 2"
    many = attrs.evolve(wait, steps=tuple("ABCDEFGH"))
    assert render_record(many) == "'A ... H (8 transforms)' has running bundles: 2"


@pytest.mark.parametrize(
    ("time", "text"),
    [
        (MIN_TIMESTAMP, "the minimum timestamp"),
        (MAX_TIMESTAMP + 1, "the maximum timestamp"),
        (7, "7 ms"),
    ],
)
def test_minimum_and_maximum_timestamps_are_rendered_in_words(time: int, text: str) -> None:
    assert render_record(Wait(WaitKind.TIMER, "s", shard=0, until=time)).endswith(f"for {text}")


def test_text_of_several_waits_omits_waits_that_follow_from_others() -> None:
    upstream = Wait(WaitKind.UPSTREAM, "t", collection="c", watermark=3)
    causes = [Wait(WaitKind.BUNDLES, "s", count=number) for number in range(10)]
    text = render_waits([upstream, *causes])
    assert text.startswith("stage 's' has running bundles: 0; stage 's' has running bundles: 1; ")
    assert text.endswith("running bundles: 7; 2 more like these")
    assert render_waits([upstream]) == render_record(upstream)


def test_failed_bundle_text_has_attempts_pause_error_and_element() -> None:
    assert render_record(FAILED) == (
        "attempt 3 at a bundle of 'A + B' failed and will be retried in 4 s: no, while processing the"
        " element 'x'"
    )
    lost = attrs.evolve(FAILED, kind=FailureCause.LOST_PROCESS, next_in=None, element="")
    assert render_record(lost, who="A").startswith(
        "attempt 3 at a bundle of A failed outside of user code and will be retried: no"
    )


def test_unavailable_failure_text_counts_no_attempt() -> None:
    away = attrs.evolve(FAILED, kind=FailureCause.UNAVAILABLE, neighbour="the disk", away=9.0)
    assert "waits for the disk, which has been unavailable for 9 s" in render_record(away)
    assert "without counting an attempt" in render_record(away)


def test_text_of_a_wait_for_an_unavailable_service_has_the_next_attempt_if_known() -> None:
    wait = Wait(WaitKind.NEIGHBOUR, neighbour="the disk", reason="full", seconds=61.4, until=9_000)
    told = "the job waits for the disk, which has been unavailable for 61 s: full"
    assert render_record(wait, now=1_000) == f"{told}; the next attempt starts in 8 s"
    assert render_record(wait) == told


def test_text_of_a_job_failure_is_its_reason() -> None:
    assert render_record(JobFailure(JobFailureKind.STUCK, "nothing can move")) == "nothing can move"
