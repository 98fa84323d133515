"""Tests that unencodable text ends a bundle with an error, even if the SDK can't send the error."""

from __future__ import annotations

import logging
import time

import apache_beam as beam
import pytest
from beam_runner_model.stages import Environment
from beam_runner_urns import environments as urns
from last_stage import LastStage
from tiny_host import Artifacts, Logs, TinyHost, create_job, elements, new_pipeline, pickle_by_value

from beam_runner_worker.errors import BundleError
from beam_runner_worker.fnapi import abandoned_bundles
from beam_runner_worker.fnapi import stage as stage_module
from beam_runner_worker.fnapi.server import FnApiServer

pytestmark = pytest.mark.timeout(120)
pickle_by_value(__name__)


def fail(_: object) -> None:
    raise ValueError("half a pair: \ud800")


def log_and_fail(_: object) -> None:
    logging.getLogger("mine").warning("a line: \udc80")
    try:
        fail(_)
    except ValueError:
        logging.getLogger("mine").exception("caught")
    fail(_)


def test_bundle_dropped_silently_by_sdk_fails(serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage_module, "_PROGRESS_SECONDS", 1.0)
    monkeypatch.setattr(abandoned_bundles, "_RESPONSE_SECONDS", 0.5)
    p = new_pipeline()
    p | beam.Impulse() | "Fail" >> beam.Map(fail)
    last = LastStage(p, serve)
    bundle = last.run([elements(b"0")])
    deadline = time.monotonic() + 60
    while bundle.running and time.monotonic() < deadline:
        last.stage.get_progress()
        time.sleep(0.1)
    with pytest.raises(BundleError, match=r"stopped processing the bundle.*Fail"):
        bundle.result()


def test_boot_program_sends_invalid_unicode_as_escaped_text() -> None:
    p = new_pipeline()
    p | beam.Impulse() | "Fail" >> beam.Map(log_and_fail)
    host = TinyHost(p)
    logs = Logs()
    there = Environment(urns.EMBEDDED_PYTHON, b"", ())
    job = create_job(there, environments=host.environment_ids)
    server = FnApiServer(job, Artifacts(), logs)
    try:
        with pytest.raises(BundleError, match=r"ValueError: half a pair: \\ud800.*Fail"):
            host.run(server.get_harness)
    finally:
        server.close()
    assert "a line: \\udc80" in logs.messages
    assert any("half a pair: \\ud800" in record.trace for record in logs.records)
