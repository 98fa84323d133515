"""Tests that a job that continues from an older copy of its state folder fails, and writes nothing twice."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path

import pytest
from beam_runner_jobservices.client import JobClient
from beam_runner_model.jobs import JobMessage, JobState
from disturbances import check_numbers
from jobs import Pipelines
from lives import lives
from sinks_under_test import SINKS
from streams_into_sinks import build_stream
from tables_under_test import TABLES
from waiting import wait_until

pytestmark = pytest.mark.timeout(600)
_MORE = 200
_TESTED = {**SINKS, **TABLES}


@pytest.mark.parametrize("name", _TESTED)
def test_job_started_with_an_old_copy_of_its_state_fails_and_keeps_the_state(
    name: str, temporary: Path, tmp_path: Path
) -> None:
    tested = _TESTED[name]
    outside, state, copy = tmp_path / "outside", tmp_path / "state", tmp_path / "copy"
    outside.mkdir()
    sink = tested.make(outside)

    def wait_for_more(count: int) -> None:
        wait_until(lambda: len(tested.read(outside)) > count, 120, f"more than {count} elements")

    with lives(temporary, state, "--without-spark") as running:
        pipelines = Pipelines(running.address, "embedded", ())
        pipeline = pipelines.new("--streaming")
        build_stream(pipeline, sink, tested.every, tested.name_window)
        job = pipelines.job(pipeline)
        wait_for_more(_MORE)
        running.kill("server")
        running.wait_until_gone()
        shutil.copytree(state, copy)
        running.go_on()
        wait_for_more(len(tested.read(outside)) + _MORE)
        running.kill("server")
        running.wait_until_gone()
        before = Counter(tested.read(outside))
        shutil.rmtree(state)
        copy.rename(state)
        running.go_on()
        with JobClient(running.address) as client:
            ended = client.wait_until_finish(job.job_id, 120)
            messages = [
                m for m in client.follow_messages(job.job_id, 5) if isinstance(m, JobMessage)
            ]
        assert ended is JobState.FAILED
        texts = [message.text for message in messages]
        assert any("CommitConflict: commit " in text for text in texts), texts[-3:]
        assert any("the state of this stream is kept until" in text for text in texts)
        assert (state / "jobs" / job.job_id).is_dir()
        found = tested.read(outside)
    assert Counter(found) == before
    assert set(before.values()) == {1}
    if name in SINKS:
        # Bundles of a table's writers run side by side, so a kill leaves gaps that a later commit fills.
        check_numbers(found)
    print(f"OLD COPY {json.dumps({'sink': name, 'elements': len(found)})}")
