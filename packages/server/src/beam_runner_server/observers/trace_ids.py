"""Generator of trace and span ids, which are computed from the ids of jobs and stages.

A server that continues a job of another server therefore continues the trace of the job.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager

from opentelemetry.sdk.trace.id_generator import RandomIdGenerator


class JobIdGenerator(RandomIdGenerator):
    """Generator of ids. Outside of `derive_ids_from_job`, ids are random. Not thread-safe."""

    def __init__(self) -> None:
        self._subject: tuple[str, str] | None = None

    @contextmanager
    def derive_ids_from_job(self, job_id: str, stage: str = "") -> Iterator[None]:
        """Makes spans that start within a ``with`` block get ids that are computed from the job and the stage."""
        self._subject = (job_id, stage)
        try:
            yield
        finally:
            self._subject = None

    def generate_span_id(self) -> int:
        if self._subject is None:
            return super().generate_span_id()
        return derive_span_id(*self._subject)

    def generate_trace_id(self) -> int:
        if self._subject is None:
            return super().generate_trace_id()
        return derive_trace_id(self._subject[0])


def derive_trace_id(job_id: str) -> int:
    """Returns the trace id of a job: the first 16 bytes of the SHA-256 hash of the job's id."""
    return int.from_bytes(hashlib.sha256(job_id.encode()).digest()[:16])


def derive_span_id(job_id: str, stage: str = "") -> int:
    """Returns the id of a job's span, or of the span of a stage."""
    return int.from_bytes(hashlib.sha256(f"{job_id}\0{stage}".encode()).digest()[:8])
