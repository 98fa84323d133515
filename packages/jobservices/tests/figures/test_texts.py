from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_runner_jobservices.figures import texts


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "–"),
        (0, "0"),
        (9_999, "9,999"),
        (12_345, "12.3 k"),
        (1_234_567, "1.23 M"),
        (0.5, "0.5"),
    ],
)
def test_large_numbers_are_formatted_with_units(value: float | None, shown: str) -> None:
    assert texts.format_count(value) == shown


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0, "0 s"),
        (0.01, "< 0.1 s"),
        (12.4, "12 s"),
        (200, "3 min 20 s"),
        (3600, "1 h"),
        (90_000, "1 d 1 h"),
        (None, "–"),
    ],
)
def test_durations_are_formatted_with_units(seconds: float | None, shown: str) -> None:
    assert texts.format_duration(seconds) == shown


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0.04, "0.0 core-seconds"),
        (42.4, "42 core-seconds"),
        (4_500, "1.25 core-hours"),
        (90_000, "25.0 core-hours"),
        (7_200_000, "2,000 core-hours"),
    ],
)
def test_core_times_are_formatted_with_units(seconds: float, shown: str) -> None:
    assert texts.format_core_time(seconds) == shown


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (None, "–"),
        (0, "0 s"),
        (0.00008, "80 µs"),
        (0.0014, "1.4 ms"),
        (0.00999, "10 ms"),
        (0.9994, "999 ms"),
        (0.9996, "1.0 s"),
        (75, "1 min 15 s"),
    ],
)
def test_short_durations_are_formatted_with_small_units(seconds: float | None, shown: str) -> None:
    assert texts.format_short_duration(seconds) == shown


def test_watermarks_at_minimum_and_maximum_timestamp_are_formatted_as_words() -> None:
    assert texts.format_watermark(-9_223_372_036_854_775, 0) == "start"
    assert texts.format_watermark(9_223_372_036_854_775, 0) == "end"
    assert texts.format_watermark(9_223_371_950_454_775, 0) == "end"
    assert texts.format_watermark(1_000_000, 1_012) == "12 s behind"


@given(st.text())
def test_displayed_text_contains_no_control_characters(text: str) -> None:
    found = texts.sanitize_for_display(text)
    assert not any(ord(c) < 32 and c not in "\n\t" for c in found)
    assert not set(found) & set("\x1b\x7f\u202e\u2066\u200f")
    found.encode("utf-8")


def test_long_text_is_truncated_with_mark() -> None:
    found = texts.sanitize_for_display("x" * 1_000_000)
    assert len(found) < 5_000 and "more characters" in found
