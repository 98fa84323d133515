"""Tests of clients that follow a job across the loss of its server."""

from __future__ import annotations

import itertools
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from beam_runner_model.jobs import Importance, JobMessage, JobState, StateEvent

from beam_runner_jobservices.client import JobClient
from beam_runner_jobservices.errors import JobApiError
from beam_runner_jobservices.resumed_streams import NewEntryFilter, follow_stream_with_reconnects

from .fakes import LIMIT, pipeline_proto

LONG = 300.0
"""Timeout in seconds for several server starts, each of which takes seconds on a busy machine."""


def lost(code="UNAVAILABLE"):
    return JobApiError(code, "gone")


def streams(*attempts):
    """Returns a function that opens the given streams in order: each yields its items, then raises its error."""
    given = iter(attempts)

    def open_stream(left):
        for item in next(given):
            if isinstance(item, Exception):
                raise item
            yield item

    return open_stream


def everything(item):
    return True


def follow_all(open_stream, is_new=everything, timeout=None, reconnect_seconds=60.0):
    return list(
        follow_stream_with_reconnects(
            open_stream, is_new, timeout, reconnect_seconds, lambda wait: False
        )
    )


class TestFollow:
    def test_lost_response_stream_is_reopened(self):
        attempts = [[1, 2, lost()], [lost()], [lost("CANCELLED")], [3, lost()], [4]]
        assert follow_all(streams(*attempts)) == [1, 2, 3, 4]

    @pytest.mark.parametrize("code", ["NOT_FOUND", "INTERNAL", "DEADLINE_EXCEEDED"])
    def test_response_stream_error_other_than_loss_is_raised(self, code):
        with pytest.raises(JobApiError, match=code):
            follow_all(streams([1, lost(code)], [2]))

    def test_lost_response_stream_without_reconnect_time_raises_immediately(self):
        with pytest.raises(JobApiError):
            follow_all(streams([1, lost()], [2]), reconnect_seconds=0.0)

    def test_reconnect_time_restarts_at_each_loss_and_pauses_grow(self):
        pauses = []
        opened = streams(*[[lost()]] * 8, [1, lost()], *[[lost()]] * 1000)

        def pause(wait):
            pauses.append(wait)
            time.sleep(0.01)
            return False

        with pytest.raises(JobApiError):
            list(follow_stream_with_reconnects(opened, everything, None, 2.1, pause))
        before, after = pauses[:8], pauses[8:]
        for some in (before, after):
            assert 0.05 <= some[0] <= 0.1
            assert max(some) <= 2.0
            assert some[3] > some[0]
        assert len(after) >= 5

    def test_pause_callback_that_returns_true_stops_reconnecting(self):
        with pytest.raises(JobApiError):
            list(
                follow_stream_with_reconnects(
                    streams([lost()], [1]), everything, None, 60.0, lambda wait: True
                )
            )

    def test_response_stream_timeout_applies_to_all_attempts_together(self):
        lefts = []

        def open_stream(left):
            lefts.append(left)
            time.sleep(0.01)
            raise lost() if left else lost("DEADLINE_EXCEEDED")
            yield

        def pause(wait):
            time.sleep(wait)
            return False

        with pytest.raises(JobApiError, match="DEADLINE_EXCEEDED"):
            list(follow_stream_with_reconnects(open_stream, everything, 1.0, 60.0, pause))
        assert lefts == sorted(lefts, reverse=True)
        assert 0.5 < lefts[0] <= 1.0


def message(number, text="text"):
    return JobMessage(str(number), "", Importance.BASIC, text)


STARTING, RUNNING = StateEvent(JobState.STARTING, 1.0), StateEvent(JobState.RUNNING, 2.0)
DONE = StateEvent(JobState.DONE, 3.0)


def test_reopened_response_stream_repeats_no_entry():
    first = [STARTING, message(1), RUNNING, message(2), message(3)]
    attempts = [[*first, lost()], [*first, message(4), DONE]]
    assert follow_all(streams(*attempts), NewEntryFilter()) == [*first, message(4), DONE]


def test_gap_of_dropped_messages_is_reported_once():
    gap = message(0, "(3 earlier messages were discarded)")
    attempts = [[STARTING, gap, message(4), lost()], [STARTING, gap, message(5), DONE]]
    shown = follow_all(streams(*attempts), NewEntryFilter())
    assert shown == [STARTING, gap, message(4), message(5), DONE]


def test_reopened_response_stream_returns_all_messages_without_numbers():
    attempts = [[message("x"), lost()], [message("x"), message("")]]
    shown = follow_all(streams(*attempts), NewEntryFilter())
    assert shown == [message("x"), message("x"), message("")]


def test_reopened_response_stream_repeats_no_state():
    attempts = [[STARTING, RUNNING, lost()], [RUNNING, lost()], [DONE]]
    assert follow_all(streams(*attempts), NewEntryFilter()) == [STARTING, RUNNING, DONE]


class Process:
    """The server of `server_to_kill.py`, restarted repeatedly on the same port."""

    def __init__(self, folder):
        self.folder = folder
        self.port = 0
        self.start()

    def start(self):
        script = Path(__file__).with_name("server_to_kill.py")
        self.process = subprocess.Popen(
            [sys.executable, str(script), str(self.folder), str(self.port)],
            stdout=subprocess.PIPE,
            text=True,
        )
        self.address = self.process.stdout.readline().strip()
        self.port = int(self.address.rpartition(":")[2])

    def end(self, number):
        self.process.send_signal(number)
        code = self.process.wait(LIMIT)
        self.process.stdout.close()
        return code


@pytest.fixture
def process(tmp_path):
    running = Process(tmp_path)
    yield running
    if running.process.poll() is None:
        running.end(signal.SIGKILL)


@pytest.mark.timeout(2 * LONG)
def test_client_follows_job_across_kills_and_stops_of_server(process):
    with JobClient(process.address) as client, ThreadPoolExecutor(3) as pool:
        job_id = client.submit_job(pipeline_proto().SerializeToString())
        entries = pool.submit(lambda: list(client.follow_messages(job_id, LONG, LONG)))
        states = pool.submit(lambda: list(client.follow_states(job_id, LONG, LONG)))
        end = pool.submit(client.wait_until_finish, job_id, LONG, LONG)
        for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGKILL):
            time.sleep(0.3)
            assert process.end(number) == (0 if number == signal.SIGTERM else -number)
            process.start()
        assert end.result(LONG) is JobState.DONE
        followed = entries.result(LIMIT)
        assert followed == list(client.follow_messages(job_id, LIMIT))
        heard = [event.state for event in states.result(LIMIT)]
        assert heard[-2:] == [JobState.RUNNING, JobState.DONE]
        assert len(heard) == len(set(heard))
    messages = [entry for entry in followed if isinstance(entry, JobMessage)]
    ids = [int(entry.message_id) for entry in messages]
    assert all(after > before for before, after in itertools.pairwise(ids))
    assert sum("restarted" in entry.text for entry in messages) == 3
    counted = [int(entry.text) for entry in messages if entry.text.isdecimal()]
    assert sorted(set(counted)) == list(range(1, 301))
    # Only a step that was killed between its message and its file is repeated.
    assert len(counted) <= 300 + 3
    assert process.end(signal.SIGTERM) == 0


@pytest.mark.timeout(240)
def test_acknowledged_run_survives_kill_of_server(process):
    pipeline = pipeline_proto().SerializeToString()
    with JobClient(process.address) as client:
        ids = [client.submit_job(pipeline)]
        killer = threading.Timer(0.2, process.process.kill)
        killer.start()
        with pytest.raises(JobApiError):
            for _ in range(100_000):
                ids.append(client.submit_job(pipeline))
        process.end(signal.SIGKILL)
        process.start()
    with JobClient(process.address) as client:
        there = [info.job_id for info in client.list_jobs()]
        assert there[: len(ids)] == ids
        assert len(there) - len(ids) <= 1
        for job_id in there:
            assert client.wait_until_finish(job_id, 60) is JobState.DONE


def test_server_that_lost_the_job_returns_clear_error(process, tmp_path):
    with JobClient(process.address) as client:
        job_id = client.submit_job(pipeline_proto().SerializeToString())
        process.end(signal.SIGKILL)
        process.folder = tmp_path / "another"
        process.folder.mkdir()
        process.start()
        with pytest.raises(JobApiError) as raised:
            client.wait_until_finish(job_id, LIMIT)
        assert raised.value.code == "NOT_FOUND"


def test_reconnecting_ends_at_time_limit_or_with_client(process):
    client = JobClient(process.address)
    job_id = client.submit_job(pipeline_proto().SerializeToString())
    states = client.follow_states(job_id, reconnect_seconds=1.0)
    next(states)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(client.wait_until_finish, job_id)
        process.end(signal.SIGKILL)
        started = time.monotonic()
        with pytest.raises(JobApiError) as raised:
            list(states)
        assert raised.value.code == "UNAVAILABLE"
        assert time.monotonic() - started < 30.0
        assert not waiting.done()
        client.close()
        with pytest.raises(JobApiError):
            waiting.result(LIMIT)
