"""The error for an unavailable neighbour reports the neighbour and the reason, in any process."""

from __future__ import annotations

import pickle

from beam_runner_storage.unavailable import ExternalSystemUnavailable


def test_unpickled_unavailable_error_retains_service_and_reason() -> None:
    error = ExternalSystemUnavailable("the data store at s3://bucket", "timed out after 30 s")

    copy = pickle.loads(pickle.dumps(error))

    assert (copy.neighbour, copy.reason) == (
        "the data store at s3://bucket",
        "timed out after 30 s",
    )


def test_unavailable_error_text_names_service_and_reason() -> None:
    error = ExternalSystemUnavailable("the disk of /state", "no space left on device")

    assert str(error) == "the disk of /state is unavailable: no space left on device"
