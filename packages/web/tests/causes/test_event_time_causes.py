"""Tests of the sentences about event time, for stages of a stream with one source."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from apache_beam.portability.api import beam_runner_api_pb2 as runner_api
from beam_runner_jobservices.figures.step_metrics import compute_figures
from beam_runner_jobservices.figures.step_tree import StepTree
from beam_runner_jobservices.figures.texts import MAX_TIMESTAMP
from beam_runner_jobservices.wire.descriptions import describe_pipeline
from beam_runner_model.jobs import JobInfo, JobMetrics, JobState, MetricCell, StateEvent

from beam_runner_web.causes.causes import find_causes
from beam_runner_web.causes.facts import Cause, CauseKind, CauseSeverity, JobFacts
from beam_runner_web.watch.snapshots import JobSnapshot, MetricSample

from ..conftest import add_step, count, stage, wall

NOW = 1_800_000_000.0
UNBOUNDED = runner_api.IsBounded.UNBOUNDED


def tree(*, unbounded: bool = True, lifted: bool = False) -> StepTree:
    """Returns a graph: Start, Topic (an unbounded source), Parse, Count (a grouping, or a combine that
    ends in the stage of Write), Write.
    """
    pipeline = runner_api.Pipeline(root_transform_ids=["r"])
    add_step(pipeline, "i", "Start", writes={"out": "start"})
    add_step(pipeline, "t", "Topic", reads={"in": "start"}, writes={"out": "messages"})
    add_step(pipeline, "p", "Parse", reads={"in": "messages"}, writes={"out": "parsed"})
    add_step(pipeline, "c", "Count", reads={"in": "parsed"}, writes={"out": "counts"})
    add_step(pipeline, "w", "Write", reads={"in": "counts"})
    add_step(pipeline, "r", "", parts=("i", "t", "p", "c", "w"))
    grouping = "c"
    if lifted:
        grouping = "c1"
        add_step(pipeline, "c1", "Count/Group", reads={"in": "parsed"}, writes={"out": "groups"})
        add_step(pipeline, "c2", "Count/Combine", reads={"in": "groups"}, writes={"out": "counts"})
        add_step(pipeline, "c", "Count", parts=("c1", "c2"))
    pipeline.components.transforms[grouping].spec.urn = "beam:transform:group_by_key:v1"
    if unbounded:
        for key in ("messages", "parsed", "counts"):
            pipeline.components.pcollections[key].is_bounded = UNBOUNDED
    windowing = pipeline.components.windowing_strategies["global"]
    windowing.window_coder_id = "bytes"
    windowing.window_fn.urn = "beam:window_fn:global_windows:v1"
    pipeline.components.coders["bytes"].spec.urn = "beam:coder:bytes:v1"
    return StepTree(describe_pipeline(pipeline.SerializeToString()))


def source(
    behind: float | None, worked: int = 0, read: int = MAX_TIMESTAMP, **more: int
) -> JobMetrics:
    """Returns metrics of the source stage with a watermark `behind` seconds before NOW, or without
    event time for None.

    `read` is the watermark of the source's input.
    """
    mark = -MAX_TIMESTAMP if behind is None else int((NOW - behind) * 1000)
    given = {"input_watermark": read, "output_watermark": mark, **more}
    name = "Topic + Parse"
    stages = (stage("s", name, *one) for one in given.items())
    return JobMetrics((*stages, wall("Parse", worked), count("messages", 1 + worked)))


def find_causes_of(
    *past: tuple[float, JobMetrics], unbounded: bool = True, lifted: bool = False
) -> list[Cause]:
    """Returns the causes of a job that has run for ten minutes.

    Each observation has its age in seconds. The current observation is the last.
    """
    steps = tree(unbounded=unbounded, lifted=lifted)
    samples = tuple(MetricSample(NOW - ago, compute_figures(given, steps)) for ago, given in past)
    running = JobInfo("words", "words", JobState.RUNNING)
    began = (StateEvent(JobState.RUNNING, NOW - 600),)
    snapshot = JobSnapshot(running, steps, began, (), samples[-1].figures, samples, NOW)
    return find_causes(JobFacts(snapshot, (), {}))


def list_kinds(causes: Sequence[Cause]) -> list[tuple[CauseSeverity, CauseKind, str]]:
    """Returns the severity, kind and step of each cause."""
    return [(one.weight, CauseKind(one.kind), one.step) for one in causes]


@pytest.mark.parametrize("read", [MAX_TIMESTAMP, -MAX_TIMESTAMP], ids=["all", "put off"])
def test_idle_source_that_holds_watermark_is_reported(read: int) -> None:
    said = find_causes_of((40, source(3_600, read=read)), (0, source(3_600, read=read)))
    assert list_kinds(said)[0] == (CauseSeverity.WARN, CauseKind.LATE, "t")
    assert "40 s" in said[0].text
    assert "1 h" in said[0].text


def test_briefly_idle_source_causes_no_warning() -> None:
    said = find_causes_of((10, source(60)), (0, source(60)))
    assert [(one.weight, one.kind) for one in said] == [
        (CauseSeverity.GOOD, CauseKind.WELL),
        (CauseSeverity.NOTE, CauseKind.LATE),
    ]
    assert "1 min" in said[1].text


def test_source_without_watermark_is_reported() -> None:
    said = find_causes_of((0, source(None, bundles_committed=5)))
    assert list_kinds(said) == [(CauseSeverity.WARN, CauseKind.LATE, "t")]


def test_slow_step_after_source_is_reported_as_not_keeping_up() -> None:
    said = find_causes_of((20, source(610, 10_000)), (0, source(600, 28_000)))
    assert list_kinds(said)[0] == (CauseSeverity.WARN, CauseKind.LATE, "p")
    assert "10 min" in said[0].text


def test_stream_that_catches_up_is_reported_with_estimated_time() -> None:
    said = find_causes_of((20, source(640, 10_000)), (0, source(600, 28_000)))
    assert said[0].kind == CauseKind.WELL
    assert list_kinds(said)[1] == (CauseSeverity.NOTE, CauseKind.LATE, "p")
    assert said[1].text.count("10 min") == 2  # The delay, and the time to catch up


@pytest.mark.parametrize(("behind", "told"), [(19, False), (40, True)])
def test_step_that_holds_watermark_is_reported(behind: int, told: bool) -> None:
    now = int(NOW * 1000)
    given = {"input_watermark": now, "output_watermark": now - 1000 * behind}
    said = find_causes_of(
        (0, JobMetrics(tuple(stage("c", "Count", *one) for one in given.items())))
    )
    assert (list_kinds(said) == [(CauseSeverity.WARN, CauseKind.LATE, "c")]) == told


def test_slow_step_with_waiting_input_is_reported() -> None:
    at_source, behind = int((NOW - 2) * 1000), int((NOW - 170) * 1000)
    slow = {"input_watermark": behind, "output_watermark": behind}
    slow |= {"commit_lag": 33_000, "open_bundles": 15}
    given = (
        stage("t", "Topic + Parse", "input_watermark", -MAX_TIMESTAMP),
        stage("t", "Topic + Parse", "output_watermark", at_source),
        *(stage("w", "Write", *one) for one in slow.items()),
        count("counts", 5),
    )
    slow_step = find_causes_of((0, JobMetrics(given)))[-1]
    assert list_kinds([slow_step]) == [(CauseSeverity.WARN, CauseKind.LATE, "w")]
    assert all(figure in slow_step.text for figure in ("2 min 50 s", "33 s", "15"))


def test_step_after_two_sources_is_not_reported_for_idle_source() -> None:
    marks = {"t": 1_200, "u": 2, "w": 1_200}
    names = {
        "t": "Topic + Parse",
        "u": "Parse",
        "w": "Write",
    }  # Parse joins both sources, in both stages
    given = [
        stage(key, names[key], field, int((NOW - behind) * 1000))
        for key, behind in marks.items()
        for field in ("input_watermark", "output_watermark")
    ]
    late = stage("w", "Write", "input_watermark", int((NOW - 1_000) * 1000))
    found = find_causes_of((0, JobMetrics((*given, late, count("counts", 5)))))
    assert not [one for one in found if one.step == "w"]


def test_watermark_of_bounded_data_is_not_reported() -> None:
    said = find_causes_of((40, source(3_600)), (0, source(3_600)), unbounded=False)
    assert not [one for one in said if one.kind == CauseKind.LATE]


def grouped(*more: MetricCell, name: str = "Write") -> JobMetrics:
    """Returns metrics of the stage of Write, with a watermark one second before NOW."""
    mark = int((NOW - 1) * 1000)
    given = {"input_watermark": mark, "output_watermark": mark}
    return JobMetrics((*(stage("w", name, *one) for one in given.items()), *more))


def test_step_after_source_without_watermark_is_not_reported() -> None:
    given = {"input_watermark": -MAX_TIMESTAMP, "output_watermark": -MAX_TIMESTAMP}
    after = JobMetrics(tuple(stage("p", "Parse", *one) for one in given.items()))
    assert [one.kind for one in find_causes_of((0, after))] == [CauseKind.WELL]


def test_dropped_late_elements_are_reported_for_their_group_by_key() -> None:
    dropped = stage("w", "Write", "dropped_values", 12)
    said = find_causes_of((0, grouped(count("counts", 1), dropped)))
    assert list_kinds(said) == [(CauseSeverity.WARN, CauseKind.DROPPED, "c")]
    assert "12" in said[0].text


def test_quarantined_elements_are_reported_for_their_stage() -> None:
    said = find_causes_of((0, grouped(count("counts", 1), stage("w", "Write", "quarantined", 3))))
    assert list_kinds(said) == [(CauseSeverity.WARN, CauseKind.QUARANTINED, "w")]
    assert "3" in said[0].text


@pytest.mark.parametrize(("taken", "given", "told"), [(9, 0, True), (9, 1, False), (0, 0, False)])
@pytest.mark.parametrize("lifted", [False, True])
def test_group_by_key_whose_windows_are_all_open_is_reported(
    taken: int, given: int, told: bool, lifted: bool
) -> None:
    counts = (count("parsed", taken), *([count("counts", given)] if given else []))
    name = "Count/Merge + Write" if lifted else "Write"
    said = find_causes_of((0, grouped(*counts, name=name)), lifted=lifted)
    assert said[0].kind == CauseKind.WELL
    open_windows = [(CauseSeverity.NOTE, CauseKind.GATHERS, "c")] if told else []
    assert list_kinds(said[1:]) == open_windows
