"""Tests of texts in gRPC messages."""

from __future__ import annotations

from urllib.parse import quote

import pytest

from beam_runner_jobservices.texts import (
    fit_status_text,
    format_exception,
    format_iso_time,
    truncate_middle,
)


def test_short_status_texts_are_unchanged():
    assert truncate_middle("text", 4) == fit_status_text("text") == "text"


@pytest.mark.parametrize("character", ["x", "é", "日", "\n", "🙂"])
def test_status_text_always_fits_into_grpc_trailers(character):
    text = fit_status_text(f"start {character * 50_000} end")
    assert len(quote(text)) <= 6_000
    assert text.startswith("start ")
    assert text.endswith(" end")
    assert "characters omitted" in text


def test_lone_surrogates_are_replaced():
    truncate_middle("\udcff", 10).encode("utf-8")


def test_text_is_reduced_to_one_line():
    assert format_exception(ValueError("two\nlines")) == "ValueError: two lines"
    assert format_exception(ValueError()) == "ValueError"


def test_timestamp_is_formatted_in_iso_8601():
    assert format_iso_time(0.25) == "1970-01-01T00:00:00.250+00:00"
