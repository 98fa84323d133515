"""Tests that a TestStream with a service gets its events from the service during planning."""

from __future__ import annotations

from collections.abc import Iterator

import apache_beam as beam
import pytest
import samples
from apache_beam import coders
from apache_beam.testing.test_stream import TestStream as Stream
from apache_beam.testing.test_stream_service import TestStreamServiceController as Controller

from beam_runner_planner import _protos, script_services
from beam_runner_planner.errors import UnsupportedPipeline
from beam_runner_planner.plan import ScriptedClock, ScriptedElements, ScriptedWatermark
from beam_runner_planner.translate import plan_job

CODER = coders.StrUtf8Coder()


class Recorded:
    """A recording of events. Its timestamps are in microseconds."""

    def read_multiple(
        self, tags: list[tuple[str, str | None]]
    ) -> Iterator[_protos.TestStreamPayload.Event]:
        assert tags == [("full", None)]
        stream = Stream(coder=CODER).advance_watermark_to(2_000).add_elements(["a"])
        for event in stream.advance_processing_time(3_000)._events:
            yield event.to_runner_api(CODER)


def job(url: str) -> _protos.Pipeline:
    return samples.proto_of(
        lambda p: p | "Here" >> Stream(coder=CODER, endpoint=url) | beam.Map(str.upper)
    )


def test_test_stream_service_provides_events() -> None:
    service = Controller(Recorded())
    service.start()
    try:
        (stream,) = plan_job(samples.job_of(job(service.endpoint))).test_streams
    finally:
        service.stop()
    watermark, elements, clock = stream.steps
    assert isinstance(watermark, ScriptedWatermark) and watermark.watermark == 2_000
    assert isinstance(elements, ScriptedElements)
    assert (elements.count, elements.min_timestamp) == (1, 2_000)
    assert clock == ScriptedClock(3_000)


def test_test_stream_with_unreachable_service_is_reported() -> None:
    with pytest.raises(UnsupportedPipeline, match=r"'localhost:1'.*UNAVAILABLE.*\(in 'Here'\)"):
        plan_job(samples.job_of(job("localhost:1")))


def test_test_stream_service_above_size_limit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(script_services, "_MOST_BYTES", 20)
    service = Controller(Recorded())
    service.start()
    try:
        with pytest.raises(
            UnsupportedPipeline, match=r"more than 20 bytes of events \(in 'Here'\)"
        ):
            plan_job(samples.job_of(job(service.endpoint)))
    finally:
        service.stop()
