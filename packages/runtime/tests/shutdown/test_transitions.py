from __future__ import annotations

import enum

import pytest

from beam_runner_runtime.channel import messages
from beam_runner_runtime.shutdown import states
from beam_runner_runtime.shutdown.causes import ShutdownEvent, ShutdownMessage
from beam_runner_runtime.shutdown.detections import Detector
from beam_runner_runtime.shutdown.kills import KILLS
from beam_runner_runtime.shutdown.life import VARIABLE, StateMachine, UnexpectedTransition
from beam_runner_runtime.shutdown.limits import LIMITS
from beam_runner_runtime.shutdown.states import JobPhase, WorkerState
from beam_runner_runtime.shutdown.transitions import TRANSITIONS

KINDS = [
    one
    for one in vars(states).values()
    if isinstance(one, type) and one.__doc__ != enum.Enum.__doc__
]
STATES = [state for kind in KINDS if issubclass(kind, enum.Enum) for state in kind]
WITHOUT_PROCESS = (states.JobPhase, states.SectionLifecycle)
NEVER_KILLED = {"GONE", "LOST"}


def test_shutdown_transitions_have_one_next_state_for_each_state_and_cause() -> None:
    pairs = [(row.before, row.cause) for row in TRANSITIONS]
    assert len(set(pairs)) == len(pairs)


def test_shutdown_transitions_stay_within_one_kind_of_state() -> None:
    assert [row for row in TRANSITIONS if type(row.before) is not type(row.after)] == []


def test_shutdown_transitions_reach_every_state_and_end_in_gone() -> None:
    after: dict[enum.Enum, set[enum.Enum]] = {}
    for row in TRANSITIONS:
        after.setdefault(row.before, set()).add(row.after)
    for kind in {type(state) for state in STATES}:
        first, *others = kind
        reached, new = {first}, {first}
        while new:
            new = {state for one in new for state in after.get(one, ())} - reached
            reached |= new
        assert reached == set(kind), kind
        stuck = [one for one in others if one.name not in NEVER_KILLED and not after.get(one)]
        assert stuck == []


def test_shutdown_messages_are_named_after_channel_classes() -> None:
    for message in ShutdownMessage:
        kind = getattr(messages, message.name)
        is_from_worker = message.value.startswith("worker")
        assert kind in (messages.FromWorker if is_from_worker else messages.FromServer).__args__


def test_shutdown_detections_name_existing_limits() -> None:
    for one in Detector:
        assert all(hasattr(LIMITS, name) for name in one.value.limits), one


def test_table_of_kills_has_row_for_every_process_state() -> None:
    killable = {
        state
        for state in STATES
        if state.name not in NEVER_KILLED and not isinstance(state, WITHOUT_PROCESS)
    }
    rows = [row.state for row in KILLS]
    assert len(set(rows)) == len(rows)
    assert set(rows) == killable


def test_shutdown_limits_after_abort_leave_time_for_preceding_kill() -> None:
    assert LIMITS.give_up_seconds < LIMITS.kill_seconds < LIMITS.abort_seconds
    assert LIMITS.abort_seconds < LIMITS.teardown_seconds
    assert LIMITS.harness_teardown_seconds < LIMITS.orphan_seconds < LIMITS.fork_server_stop_seconds
    assert LIMITS.lane_close_seconds < LIMITS.abort_seconds
    assert LIMITS.beat_message_seconds < LIMITS.silent_seconds < LIMITS.watchdog_heard_seconds


def test_state_machine_with_unlisted_transition_raises_in_tests_and_keeps_state(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    life = StateMachine(WorkerState.TEARING_DOWN, "worker process 7")
    monkeypatch.setenv(VARIABLE, "1")
    with pytest.raises(UnexpectedTransition, match="7 is TEARING_DOWN and can't take WORK_SENT"):
        life.apply_cause(ShutdownEvent.WORK_SENT)
    monkeypatch.delenv(VARIABLE)
    assert life.apply_cause(ShutdownEvent.WORK_SENT) is WorkerState.TEARING_DOWN
    assert life.state is WorkerState.TEARING_DOWN
    assert "this is a defect of the runner" in caplog.text


def test_state_machine_of_job_permits_orderly_and_immediate_end() -> None:
    life = StateMachine(JobPhase.WAITING, "job")
    for cause in (
        ShutdownEvent.BEGUN,
        ShutdownEvent.IN_ORDER,
        ShutdownEvent.LATE,
        ShutdownEvent.ALL_GONE,
    ):
        life.apply_cause(cause)
    assert life.state is JobPhase.GONE
