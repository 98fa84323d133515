"""Tests of the sentences about event time, for stages of a stream with one source."""

from __future__ import annotations

import pytest
from apache_beam.portability.api import beam_runner_api_pb2 as runner_api
from beam_runner_jobservices.figures.step_metrics import compute_figures
from beam_runner_jobservices.figures.step_tree import StepTree
from beam_runner_jobservices.figures.texts import MAX_TIMESTAMP
from beam_runner_jobservices.wire.descriptions import describe_pipeline
from beam_runner_model.jobs import JobInfo, JobMetrics, JobState, MetricCell, StateEvent

from beam_runner_web.causes.causes import find_causes
from beam_runner_web.causes.facts import JobFacts
from beam_runner_web.watch.watching import JobSnapshot, MetricSample

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


def sentences(
    *past: tuple[float, JobMetrics], unbounded: bool = True, lifted: bool = False
) -> list[str]:
    """Returns the sentences of a job that has run for ten minutes.

    Each observation has its age in seconds. The current observation is the last.
    """
    steps = tree(unbounded=unbounded, lifted=lifted)
    samples = tuple(MetricSample(NOW - ago, compute_figures(given, steps)) for ago, given in past)
    running = JobInfo("words", "words", JobState.RUNNING)
    began = (StateEvent(JobState.RUNNING, NOW - 600),)
    snapshot = JobSnapshot(running, steps, began, (), samples[-1].figures, samples, NOW)
    causes = find_causes(JobFacts(snapshot, (), {}))
    return [f"{one.weight.name} {one.text}" for one in causes]


@pytest.mark.parametrize("read", [MAX_TIMESTAMP, -MAX_TIMESTAMP], ids=["all", "put off"])
def test_idle_source_that_holds_event_time_is_reported(read: int) -> None:
    said = sentences((40, source(3_600, read=read)), (0, source(3_600, read=read)))
    assert said[0] == (
        "WARN Topic holds event time back: its watermark has been 2027-01-15 07:00:00 UTC for 40 s, 1 h behind, and later windows after it can't close"
    )


def test_briefly_idle_source_is_no_warning() -> None:
    said = sentences((10, source(60)), (0, source(60)))
    assert said[0].startswith("GOOD No problems")
    assert said[1] == "NOTE Topic is late: its output is 1 min behind"


def test_source_without_event_time_is_reported() -> None:
    said = sentences((0, source(None, bundles_committed=5)))
    assert said == ["WARN Topic has not reported a watermark yet: windows after it can't close"]


def test_slow_step_after_source_is_reported_as_not_keeping_up() -> None:
    said = sentences((20, source(610, 10_000)), (0, source(600, 28_000)))
    assert said[0] == (
        "WARN Parse doesn't keep up with its source: its output is 10 min behind, and doesn't catch up"
    )


def test_stream_that_catches_up_is_reported_with_estimate() -> None:
    said = sentences((20, source(640, 10_000)), (0, source(600, 28_000)))
    assert said[0].startswith("GOOD No problems")
    assert said[1] == (
        "NOTE Parse catches up: its output is 10 min behind, and at this rate it needs 10 min"
    )


@pytest.mark.parametrize(("behind", "told"), [(19, False), (40, True)])
def test_step_that_holds_event_time_is_reported(behind: int, told: bool) -> None:
    now = int(NOW * 1000)
    given = {"input_watermark": now, "output_watermark": now - 1000 * behind}
    said = sentences((0, JobMetrics(tuple(stage("c", "Count", *one) for one in given.items()))))
    wanted = "WARN Count holds event time back: its output is 40 s behind"
    assert (said == [wanted]) == told


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
    assert sentences((0, JobMetrics(given)))[-1] == (
        "WARN Write doesn't keep up: its output is 2 min 50 s behind, and its oldest bundle has run for "
        "33 s (15 are not done)"
    )


def test_step_after_two_sources_is_not_blamed_for_idle_source() -> None:
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
    found = sentences((0, JobMetrics((*given, late, count("counts", 5)))))
    assert not [text for text in found if "Write" in text]


def test_event_time_of_bounded_data_is_not_reported() -> None:
    said = sentences((40, source(3_600)), (0, source(3_600)), unbounded=False)
    assert [text for text in said if "behind" in text] == []


def grouped(*more: MetricCell, name: str = "Write") -> JobMetrics:
    """Returns metrics of the stage of Write, with a watermark one second before NOW."""
    mark = int((NOW - 1) * 1000)
    given = {"input_watermark": mark, "output_watermark": mark}
    return JobMetrics((*(stage("w", name, *one) for one in given.items()), *more))


def test_step_after_source_without_event_time_is_not_blamed() -> None:
    given = {"input_watermark": -MAX_TIMESTAMP, "output_watermark": -MAX_TIMESTAMP}
    after = JobMetrics(tuple(stage("p", "Parse", *one) for one in given.items()))
    assert sentences((0, after)) == [
        "GOOD No problems: no step waits, fails or delays other steps."
    ]


def test_late_values_are_reported_for_their_grouping() -> None:
    dropped = stage("w", "Write", "dropped_values", 12)
    said = sentences((0, grouped(count("counts", 1), dropped)))
    assert said == [
        "WARN Count has dropped 12 values as late, after their windows had closed, or after the last firing of their trigger"
    ]


@pytest.mark.parametrize(("taken", "given", "told"), [(9, 0, True), (9, 1, False), (0, 0, False)])
@pytest.mark.parametrize("lifted", [False, True])
def test_grouping_with_all_windows_open_is_reported(
    taken: int, given: int, told: bool, lifted: bool
) -> None:
    counts = (count("parsed", taken), *([count("counts", given)] if given else []))
    name = "Count/Merge + Write" if lifted else "Write"
    said = sentences((0, grouped(*counts, name=name)), lifted=lifted)
    wanted = "NOTE Count collects values, and has not emitted a group yet: no window has closed so far (global windows)"
    assert said[0].startswith("GOOD No problems")
    assert said[1:] == ([wanted] if told else [])
