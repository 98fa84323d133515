"""A stream waits for a sink that is away for a minute: no attempt fails, and each number is written once."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from beam_runner_jobservices.client import JobClient
from beam_runner_model.jobs import JobMessage
from disturbances import check_numbers, drain
from jobs import Pipelines
from lives import lives
from sinks_under_test import SINKS
from streams_into_sinks import build_stream
from waiting import wait_until

pytestmark = pytest.mark.timeout(600)
_AWAY_SECONDS = 60.0
_MORE = 200


@contextmanager
def lock_database(outside: Path) -> Iterator[None]:
    """Locks the database, so that other connections can't write."""
    connection = sqlite3.connect(outside / "numbers.db", timeout=30)
    connection.execute("BEGIN IMMEDIATE")
    yield
    connection.rollback()
    connection.close()


@contextmanager
def replace_folder(outside: Path) -> Iterator[None]:
    """Replaces the folder by a file, so that no file can be created in the folder."""
    away = outside.with_name("away")
    outside.rename(away)
    outside.touch()
    yield
    outside.unlink()
    away.rename(outside)


_OUTAGES = {"sql": lock_database, "files": replace_folder, "windows": replace_folder}


@pytest.mark.parametrize("name", _OUTAGES)
def test_stream_waits_for_an_unavailable_sink(name: str, temporary: Path, tmp_path: Path) -> None:
    tested = SINKS[name]
    outside = tmp_path / "outside"
    outside.mkdir()
    sink = tested.make(outside)

    def wait_for_more(count: int) -> None:
        wait_until(lambda: len(tested.read(outside)) > count, 120, f"more than {count} elements")

    with lives(temporary, tmp_path / "state", "--without-spark") as running:
        pipelines = Pipelines(running.address, "embedded", ())
        pipeline = pipelines.new("--streaming")
        build_stream(pipeline, sink, tested.every, tested.name_window)
        job = pipelines.job(pipeline)
        wait_for_more(_MORE)
        with _OUTAGES[name](outside):
            time.sleep(_AWAY_SECONDS)
            with JobClient(running.address) as client:
                assert client.get_execution(job.job_id).failed == ()
        wait_for_more(len(tested.read(outside)) + _MORE)
        drain(running.address, job.job_id)
        with JobClient(running.address) as client:
            messages = [
                m for m in client.follow_messages(job.job_id, 5) if isinstance(m, JobMessage)
            ]
    texts = [message.text for message in messages]
    assert not any("retried" in text for text in texts)
    assert any("a sink is unavailable, so commit" in text for text in texts)
    found = tested.read(outside)
    check_numbers(found)
    tested.check(outside)
    print(f"OUTAGE {json.dumps({'sink': name, 'elements': len(found)})}")
