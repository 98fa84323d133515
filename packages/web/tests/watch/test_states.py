from __future__ import annotations

from beam_runner_jobservices.wire.descriptions import describe_pipeline
from beam_runner_model.jobs import JobState

from beam_runner_web.watch.figures import Figures, StageFigures
from beam_runner_web.watch.states import StepState, step_states
from beam_runner_web.watch.steps import StepTree

from ..conftest import word_count

END = 9_223_372_036_854_775


def states(
    *stages: StageFigures, state: JobState = JobState.RUNNING, failed: str = ""
) -> dict[str, str]:
    tree = StepTree(describe_pipeline(word_count().SerializeToString()))
    wrong = frozenset([failed]) if failed else frozenset()
    found = step_states(tree, Figures(stages=stages), state, wrong, frozenset({"t3"}))
    return {key: one.value for key, one in found.items()}


def test_a_composite_is_as_the_worst_of_its_parts() -> None:
    one = StageFigures("a", "", ("t1",), output_watermark=END)
    other = StageFigures("b", "", ("t2",), backlog_bytes=5)
    found = states(one, other)
    assert (found["t1"], found["t2"], found["t0"]) == ("done", "waiting", "waiting")


def test_a_composite_is_done_when_all_that_is_told_of_it_is() -> None:
    assert states(StageFigures("b", "", ("t2",), output_watermark=END))["t0"] == "done"
    quiet = StageFigures("b", "", ("t2",), output_watermark=0)
    assert states(StageFigures("a", "", ("t1",), output_watermark=END), quiet)["t0"] == "idle"


def test_what_elements_come_out_of_runs() -> None:
    assert states(StageFigures("b", "", ("t3", "t4")))["t3"] == StepState.RUNNING.value


def test_after_the_end_only_the_failing_step_is_red() -> None:
    found = states(
        StageFigures("b", "", ("t3",), open_bundles=1), state=JobState.FAILED, failed="t2"
    )
    assert (found["t2"], found["t0"], found["t3"]) == ("failed", "failed", "idle")
    assert set(states(state=JobState.DONE).values()) == {"done"}


def test_what_no_stage_runs_is_as_the_steps_that_read_from_it() -> None:
    # As a grouping between two stages, or an impulse.
    found = states(StageFigures("a", "", ("t3",), open_bundles=1))
    assert (found["t1"], found["t2"], found["t0"], found["t3"]) == ("running",) * 4
    done = StageFigures("b", "", ("t4",), output_watermark=END)
    assert states(done)["t3"] == "done"
