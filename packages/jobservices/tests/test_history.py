"""Tests of histories: replay, following and limits."""

from __future__ import annotations

import threading

import pytest
from beam_runner_model.jobs import Importance, JobMessage, JobState, StateEvent

from beam_runner_jobservices.history import JobHistory
from beam_runner_jobservices.limits import ServerLimits

from .fakes import LIMIT


def history(limits=None):
    return JobHistory(limits or ServerLimits(), [StateEvent(JobState.STOPPED, 1.0)])


def add(told, importance, text, time):
    told.add_messages([told.create_message(importance, text, time)])


def never():
    return False


def shown(entries):
    return [entry.state.name if isinstance(entry, StateEvent) else entry.text for entry in entries]


def test_job_history_reader_gets_all_entries_in_order_until_end():
    told = history()
    add(told, Importance.BASIC, "one", 2.0)
    told.add_state(JobState.STARTING, 3.0)
    add(told, Importance.ERROR, "two", 4.0)
    told.add_state(JobState.FAILED, 5.0)
    expected = ["STOPPED", "one", "STARTING", "two", "FAILED"]
    assert shown(told.follow_entries(never)) == expected
    assert shown(told.follow_entries(never)) == expected


def test_job_history_messages_have_numbers_and_timestamps():
    told = history()
    add(told, Importance.WARNING, "one", 0.5)
    add(told, Importance.BASIC, "two", 1.0)
    told.add_state(JobState.DONE, 2.0)
    messages = [entry for entry in told.follow_entries(never) if isinstance(entry, JobMessage)]
    assert messages == [
        JobMessage("1", "1970-01-01T00:00:00.500+00:00", Importance.WARNING, "one"),
        JobMessage("2", "1970-01-01T00:00:01.000+00:00", Importance.BASIC, "two"),
    ]


def test_state_stream_starts_with_current_state():
    told = history()
    told.add_state(JobState.STARTING, 2.0)
    told.add_state(JobState.RUNNING, 3.0)
    states = told.follow_states(never)
    assert next(states).state is JobState.RUNNING
    told.add_state(JobState.CANCELLING, 4.0)
    told.add_state(JobState.CANCELLED, 5.0)
    assert shown(states) == ["CANCELLING", "CANCELLED"]
    assert shown(told.follow_states(never)) == ["CANCELLED"]


def test_waiting_job_history_reader_gets_each_new_entry():
    told = history()
    seen = []
    reader = threading.Thread(target=lambda: seen.extend(told.follow_entries(never)))
    reader.start()
    for number in range(1000):
        add(told, Importance.BASIC, str(number), 2.0)
    told.add_state(JobState.DONE, 3.0)
    reader.join(LIMIT)
    assert shown(seen) == ["STOPPED", *map(str, range(1000)), "DONE"]


@pytest.mark.parametrize("follow", ["follow_entries", "follow_states"])
def test_closed_job_history_reader_ends_after_next_entry(follow):
    told = history()
    gone = threading.Event()
    reader = threading.Thread(target=lambda: list(getattr(told, follow)(gone.is_set)))
    reader.start()
    gone.set()
    told.wake_waiting_readers()
    reader.join(LIMIT)
    assert not reader.is_alive()


def test_job_history_drops_old_messages_and_reports_their_number():
    told = history(ServerLimits(messages=100))
    told.add_state(JobState.RUNNING, 2.0)
    for number in range(1000):
        add(told, Importance.BASIC, str(number), 2.0)
    told.add_state(JobState.DONE, 3.0)
    first, second, gap, *rest, last = shown(told.follow_entries(never))
    assert (first, second, last) == ("STOPPED", "RUNNING", "DONE")
    assert 90 <= len(rest) <= 100
    assert rest == [str(number) for number in range(1000 - len(rest), 1000)]
    assert gap == f"({1000 - len(rest)} earlier messages were discarded)"


def test_slow_job_history_reader_misses_dropped_messages_but_no_state():
    told = history(ServerLimits(messages=100))
    reader = told.follow_entries(never)
    assert next(reader).state is JobState.STOPPED
    for number in range(500):
        add(told, Importance.BASIC, str(number), 2.0)
    told.add_state(JobState.CANCELLING, 3.0)
    for number in range(500, 1000):
        add(told, Importance.BASIC, str(number), 2.0)
    told.add_state(JobState.CANCELLED, 3.0)
    state, gap, *rest, end = shown(reader)
    assert (state, end) == ("CANCELLING", "CANCELLED")
    assert gap == f"({1000 - len(rest)} earlier messages were discarded)"


def test_job_history_limit_includes_length_of_messages():
    told = history(ServerLimits(message_chars=1000))
    for _ in range(100):
        add(told, Importance.BASIC, "x" * 300, 2.0)
    told.add_state(JobState.DONE, 3.0)
    assert 2 <= shown(told.follow_entries(never)).count("x" * 300) <= 3


def test_job_history_message_above_size_limit_is_truncated():
    told = history(ServerLimits(message_chars=10, text_chars=100))
    add(told, Importance.ERROR, "a" * 500 + "b" * 500, 2.0)
    told.add_state(JobState.FAILED, 3.0)
    _, text, _ = shown(told.follow_entries(never))
    assert text == "a" * 50 + "\n... (900 characters omitted) ...\n" + "b" * 50


def test_wait_for_end_of_job_history_has_timeout():
    told = history()
    assert not told.wait_until_ended(0.01)
    told.add_state(JobState.DONE, 2.0)
    assert told.wait_until_ended(0.01)
