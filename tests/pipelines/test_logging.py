"""Tests that logs and prints of user code reach only the message stream of their job."""

from __future__ import annotations

import logging

import apache_beam as beam
import pytest
from beam_runner_model.jobs import Importance, JobState
from job_server import JobServerProcess
from jobs import Pipelines


class Say(beam.DoFn):
    def __init__(self, word: str) -> None:
        self._word = word

    def process(self, element: int) -> None:
        logger = logging.getLogger("says")
        logger.warning("warning %s %d", self._word, element)
        logger.error("error %s %d", self._word, element)
        logger.info("info %s %d", self._word, element)
        try:
            raise ValueError(f"caught {self._word}")
        except ValueError:
            logger.exception("exception %s", self._word)


@pytest.mark.parametrize("everywhere", ["embedded", "PROCESS"], indirect=True)
def test_log_records_reach_the_message_stream(
    everywhere: Pipelines, server: JobServerProcess
) -> None:
    """Over LOOPBACK, the SDK's workers write their log to the console of the submitting process."""
    jobs = {}
    for word in ("apple", "pear"):
        pipeline = everywhere.new()
        pipeline | beam.Create([1, 2]) | "Say it" >> beam.ParDo(Say(word))
        jobs[word] = everywhere.job(pipeline)
    for word, other in (("apple", "pear"), ("pear", "apple")):
        assert jobs[word].wait() is JobState.DONE
        messages = jobs[word].messages()
        weighty = [m for m in messages if m.importance >= Importance.WARNING]
        texts = "\n".join(message.text for message in messages)
        assert other not in texts
        for number in (1, 2):
            # Printed text of a process arrives, too, as details.
            (warning,) = (m for m in weighty if f"warning {word} {number}" in m.text)
            assert warning.importance is Importance.WARNING
            assert "Say it" in warning.text
            (error,) = (m for m in weighty if f"error {word} {number}" in m.text)
            assert error.importance is Importance.ERROR
            # Python's client shows that at INFO, as in-process runners do.
            basic = [m for m in messages if m.importance is Importance.BASIC]
            assert len([m for m in basic if f"info {word} {number}" in m.text]) == 1
        assert f"ValueError: caught {word}" in texts
        assert not [line for line in server.log if f"warning {word}" in line]
