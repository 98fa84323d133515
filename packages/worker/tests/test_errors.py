"""Tests that an error and a log record with any text can be encoded."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from beam_runner_worker.errors import BundleError
from beam_runner_worker.log_records import LogRecord, Severity

ANY_TEXT = st.text(st.characters(exclude_categories=()))


@given(ANY_TEXT)
def test_errors_and_log_records_can_be_encoded(text: str) -> None:
    failed = BundleError(text, text, text)
    record = LogRecord(Severity.INFO, 0, text, text, location=text)
    for each in (failed.transform, failed.summary, failed.trace, str(failed)):
        each.encode()
    for each in (record.message, record.trace, record.location):
        each.encode()
