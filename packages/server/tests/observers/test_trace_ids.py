"""Ids of traces follow from jobs, so that another server continues a trace."""

from __future__ import annotations

from beam_runner_server.observers.trace_ids import JobIdGenerator, derive_span_id, derive_trace_id


def test_trace_ids_are_derived_from_job_and_stage_only_in_with_block() -> None:
    ids = JobIdGenerator()
    with ids.derive_ids_from_job("job-1", "stage-1"):
        assert ids.generate_trace_id() == derive_trace_id("job-1")
        assert ids.generate_span_id() == derive_span_id("job-1", "stage-1")
    assert ids.generate_span_id() != ids.generate_span_id()
    assert derive_span_id("job-1") != derive_span_id("job-1", "stage-1")
