"""Tests of the reference model, the generated sources and the result check of random pipelines."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import apache_beam as beam
import attrs
import pytest
from apache_beam.options.pipeline_options import PipelineOptions

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
sys.path.insert(0, str(Path(__file__).parents[1] / "differential"))
sys.path.insert(0, str(Path(__file__).parent))

from comparing import simpler
from generator import KINDS, random_spec
from graphs import build, modelled
from judging import Tally, dropped_differ, judge
from partitions import truncated, watermarks
from refused_operations import REFUSED, refusal_of
from spec import Spec, Step, from_text
from stream_jobs import Outcome

PARTITION = (
    0,
    (
        ("element", "a", 1, 1000),
        ("checkpoint",),
        ("element", "a", 2, 1020),
        ("element", "a", 3, 1008),
        ("element", "b", 4, 1009),
    ),
)
SOURCE = Step("source", (), {"partitions": (PARTITION,)})
SESSIONS = Spec(
    (SOURCE, Step("window", (0,), {"fn": ("sessions", 10), "combiner": "end"}), Step("group", (1,)))
)


def outcome(spec: Spec, drained: bool = False) -> Outcome:
    rows = modelled(spec, "p")
    return Outcome(rows, dict(rows), 0, drained)


def told(spec: Spec, found: Outcome) -> str:
    return "\n".join(judge("p", spec, found, True, Tally()))


def test_reference_model_watermark_is_the_minimum_timestamp_of_later_elements() -> None:
    assert watermarks(PARTITION) == [1000, 1008, 1008, 1008, 1009]
    assert watermarks((5, PARTITION[1]))[1] == 1003


def test_reference_model_merges_sessions_of_each_key() -> None:
    assert modelled(SESSIONS, "p")["p/2"] == {
        "('a', (1, 3)) [1000-1018] @1017 pane 1 0 0 11": 1,
        "('a', (2,)) [1020-1030] @1029 pane 1 0 0 11": 1,
        "('b', (4,)) [1009-1019] @1018 pane 1 0 0 11": 1,
    }


def test_random_pipelines_are_reproducible_from_their_seed_and_printable() -> None:
    specs = [random_spec(f"7/{number}") for number in range(60)]
    assert specs == [random_spec(f"7/{number}") for number in range(60)]
    assert [from_text(str(spec)) for spec in specs] == specs
    used = {step.op for spec in specs for step in spec.steps}
    assert used >= {"source", "bounded", "panes", "admitted", "detour", *KINDS, *REFUSED}
    for spec in specs:
        assert refusal_of(spec) or modelled(spec, "p")
        for step in spec.steps:
            assert step not in simpler(step)


def test_operation_that_a_stream_refuses_follows_a_group_in_the_global_window() -> None:
    spec = Spec((SOURCE, Step("group", (0,)), Step("mixed", (1,))))
    pipeline = beam.Pipeline(options=PipelineOptions(["--allow_unsafe_triggers"]))
    build(pipeline, {"p": spec}, "", as_batch=False)
    steps = pipeline.to_runner_api().components.transforms.values()
    assert any(step.unique_name.endswith("mixed/Flatten") for step in steps)


@pytest.mark.parametrize(
    "change", [Counter({"('a', (2,)) [1020-1030] @1029 pane 1 0 0 11": 1}), Counter({"more": -1})]
)
def test_result_check_reports_a_lost_or_additional_row(change: Counter[str]) -> None:
    right = outcome(SESSIONS)
    assert not told(SESSIONS, right)
    rows = Counter(right.rows["p/2"])
    rows.subtract(change)
    wrong = {**right.rows, "p/2": +rows}
    assert "p/2" in told(SESSIONS, attrs.evolve(right, rows=wrong, attempts=wrong))


def test_result_check_reports_an_attempt_without_a_result() -> None:
    right = outcome(SESSIONS)
    twice = {**right.attempts, "p/2": right.rows["p/2"] + right.rows["p/2"]}
    wrong = attrs.evolve(right, attempts=twice)
    assert "attempts" in told(SESSIONS, wrong)
    assert not list(judge("p", SESSIONS, wrong, False, Tally()))


def test_result_check_requires_a_prefix_from_a_drained_source() -> None:
    assert truncated(PARTITION, {1, 2}) == (0, PARTITION[1][:3])
    assert truncated(PARTITION, set()) == (0, ())
    assert truncated(PARTITION, {1, 3}) is None
    part = Step("source", (), {"partitions": ((0, PARTITION[1][:3]),)})
    cut = Spec((part, *SESSIONS.steps[1:]))
    assert not told(SESSIONS, outcome(cut, drained=True))
    assert told(SESSIONS, outcome(cut))
    hole = Step("source", (), {"partitions": ((0, (PARTITION[1][0], *PARTITION[1][3:])),)})
    assert "prefix" in told(SESSIONS, outcome(Spec((hole, *SESSIONS.steps[1:])), drained=True))


def test_result_check_reports_a_missing_element_that_was_not_counted_as_dropped() -> None:
    late = (0, (*PARTITION[1], ("late", "a", 5, 1001)))
    args = {"fn": ("fixed", 10, 0), "lateness": 0}
    spec = Spec((Step("source", (), {"partitions": (late,)}), Step("admitted", (0,), args)))
    rows = modelled(spec, "p")
    admitted = Counter({f"('a', {value}) [1000-1010]": 1 for value in (1, 3)})
    admitted += Counter(["('a', 2) [1020-1030]", "('b', 4) [1000-1010]"])
    found = Outcome({**rows, "p/1": admitted}, {**rows, "p/1": admitted}, 1, False)
    assert not told(spec, found)
    assert dropped_differ({"p": spec}, found) is None
    assert dropped_differ({"p": spec}, attrs.evolve(found, dropped=0)) is not None
    lost = {**rows, "p/1": admitted - Counter(["('a', 3) [1000-1010]"])}
    assert "value 3" in told(spec, attrs.evolve(found, rows=lost, attempts=lost))
