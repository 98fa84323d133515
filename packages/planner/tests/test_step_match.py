"""Tests of the correspondence of step names in two pipelines."""

from __future__ import annotations

from beam_runner_model.updates import FindingReason

from beam_runner_planner.updates.names import StepMatch

LINE_12 = "CombinePerKey(<lambda at job.py:12>)"
LINE_15 = "CombinePerKey(<lambda at job.py:15>)"
LINE_20 = "CombinePerKey(<lambda at job.py:20>)"


def test_steps_of_two_pipelines_without_a_mapping_correspond_by_name() -> None:
    match = StepMatch(["a", "gone"], ["a", "new"], {})
    assert match.translate_step("a") == "a"
    assert match.translate_step("gone") is None
    assert match.translate_step("unknown") is None


def test_name_mapping_of_a_composite_applies_to_the_steps_in_it() -> None:
    match = StepMatch(["A/x", "A/y/z", "Ab"], ["B/x", "B/y/z", "Ab"], {"A": "B"})
    assert [match.translate_step(step) for step in ("A/x", "A/y/z", "Ab")] == ["B/x", "B/y/z", "Ab"]
    assert not list(match.list_mapping_problems())


def test_name_mapping_entry_with_the_longest_prefix_takes_precedence() -> None:
    match = StepMatch(["A/x", "A/y"], ["B/x", "C"], {"A": "B", "A/y": "C"})
    assert [match.translate_step(step) for step in ("A/x", "A/y")] == ["B/x", "C"]


def test_name_mapping_can_exchange_the_names_of_two_steps() -> None:
    match = StepMatch(["a", "b"], ["a", "b"], {"a": "b", "b": "a"})
    assert [match.translate_step(step) for step in ("a", "b")] == ["b", "a"]
    assert not list(match.list_mapping_problems())


def test_name_mapping_to_the_name_of_another_step_is_reported() -> None:
    match = StepMatch(["a", "b"], ["b"], {"a": "b"})
    (problem,) = match.list_mapping_problems()
    assert (problem.reason, problem.step, problem.before) == (FindingReason.TWO_OLD_NAMES, "a", "b")


def test_name_mapping_of_two_steps_to_the_same_name_is_reported() -> None:
    match = StepMatch(["a", "b"], ["c"], {"a": "c", "b": "c"})
    assert {problem.step for problem in match.list_mapping_problems()} == {"a", "b"}


def test_name_mapping_with_unknown_names_is_reported() -> None:
    match = StepMatch(["a", "b"], ["c"], {"x": "c", "a": "y"})
    reasons = {problem.step: problem.reason for problem in match.list_mapping_problems()}
    assert reasons == {"x": FindingReason.UNKNOWN_OLD_NAME, "a": FindingReason.UNKNOWN_NEW_NAME}


def test_name_mapping_to_an_empty_name_removes_the_step() -> None:
    match = StepMatch(["a"], ["a"], {"a": ""})
    assert match.translate_step("a") is None
    assert not list(match.list_mapping_problems())


def test_step_named_after_a_lambda_matches_if_only_the_line_changed() -> None:
    match = StepMatch([f"{LINE_12}/Group"], [f"{LINE_15}/Group"], {})
    assert match.translate_step(f"{LINE_12}/Group") == f"{LINE_15}/Group"


def test_step_named_after_a_lambda_does_not_match_a_lambda_in_another_file() -> None:
    assert (
        StepMatch([LINE_12], [LINE_12.replace("job", "other")], {}).translate_step(LINE_12) is None
    )


def test_steps_named_after_moved_lambdas_with_the_same_label_do_not_match() -> None:
    """The lambda of line 12 moves to line 15, and line 12 has a new lambda."""
    match = StepMatch([LINE_12, LINE_20], [LINE_12, LINE_15], {})
    assert match.translate_step(LINE_12) is None
    assert match.translate_step(LINE_20) is None


def test_steps_named_after_unmoved_lambdas_with_the_same_label_match() -> None:
    match = StepMatch([LINE_12, LINE_20], [LINE_20, LINE_12], {})
    assert match.translate_step(LINE_12) == LINE_12
    assert match.translate_step(LINE_20) == LINE_20


def test_name_mapping_selects_among_lambdas_with_the_same_label() -> None:
    match = StepMatch([LINE_12, LINE_20], [LINE_12, LINE_15], {LINE_12: LINE_15})
    assert match.translate_step(LINE_12) == LINE_15
    assert match.translate_step(LINE_20) == LINE_12
