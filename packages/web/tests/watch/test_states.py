from __future__ import annotations

from beam_runner_jobservices.figures.step_metrics import JobFigures, StageFigures
from beam_runner_jobservices.figures.step_tree import StepTree
from beam_runner_jobservices.wire.descriptions import describe_pipeline
from beam_runner_model.jobs import JobState

from beam_runner_web.watch.states import StepState, compute_step_states

from ..conftest import word_count

END = 9_223_372_036_854_775


def states(
    *stages: StageFigures, state: JobState = JobState.RUNNING, failed: str = ""
) -> dict[str, str]:
    tree = StepTree(describe_pipeline(word_count().SerializeToString()))
    wrong = frozenset([failed]) if failed else frozenset()
    found = compute_step_states(tree, JobFigures(stages=stages), state, wrong, frozenset({"t3"}))
    return {key: one.value for key, one in found.items()}


def test_composite_step_has_worst_state_of_its_parts() -> None:
    one = StageFigures("a", "", ("t1",), output_watermark=END)
    other = StageFigures("b", "", ("t2",), backlog_bytes=5)
    found = states(one, other)
    assert (found["t1"], found["t2"], found["t0"]) == ("done", "waiting", "waiting")


def test_composite_step_is_done_if_all_its_parts_with_known_state_are_done() -> None:
    assert states(StageFigures("b", "", ("t2",), output_watermark=END))["t0"] == "done"
    quiet = StageFigures("b", "", ("t2",), output_watermark=0)
    assert states(StageFigures("a", "", ("t1",), output_watermark=END), quiet)["t0"] == "idle"


def test_step_with_output_elements_is_running() -> None:
    assert states(StageFigures("b", "", ("t3", "t4")))["t3"] == StepState.RUNNING.value


def test_graph_of_failed_job_marks_only_failing_step_as_failed() -> None:
    found = states(
        StageFigures("b", "", ("t3",), open_bundles=1), state=JobState.FAILED, failed="t2"
    )
    assert (found["t2"], found["t0"], found["t3"]) == ("failed", "failed", "idle")
    assert set(states(state=JobState.DONE).values()) == {"done"}


def test_step_without_stage_has_state_of_steps_that_read_it() -> None:
    # For example, a grouping between two stages, or an impulse.
    found = states(StageFigures("a", "", ("t3",), open_bundles=1))
    assert (found["t1"], found["t2"], found["t0"], found["t3"]) == ("running",) * 4
    done = StageFigures("b", "", ("t4",), output_watermark=END)
    assert states(done)["t3"] == "done"
