"""Tests that errors of the client survive pickling from another process."""

from __future__ import annotations

import pickle

from beam_runner_jobservices.errors import JobApiError


def test_client_error_survives_pickling() -> None:
    error = pickle.loads(pickle.dumps(JobApiError("NOT_FOUND", "no such job")))
    assert (str(error), error.code, error.text) == (
        "no such job (NOT_FOUND)",
        "NOT_FOUND",
        "no such job",
    )
