"""Tests that every text from user code can be encoded."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from beam_runner_model.texts import MOST_CHARACTERS, format_bytes, sanitize_text

ANY_TEXT = st.text(st.characters(exclude_categories=()))


@given(ANY_TEXT)
def test_encodable_text_is_unchanged(text: str) -> None:
    made = sanitize_text(text)
    made.encode()
    if all(not 0xD800 <= ord(c) < 0xE000 for c in text):
        assert made == text


def test_lone_surrogate_is_escaped() -> None:
    assert sanitize_text("a\ud800b ä") == "a\\ud800b ä"


@given(ANY_TEXT, st.integers(1, 3))
def test_truncated_text_contains_the_start_and_the_end(text: str, times: int) -> None:
    made = sanitize_text(f"begin{'x' * times * MOST_CHARACTERS}{text}end")
    assert made.startswith("beginx") and made.endswith(sanitize_text(f"{text}end"))
    assert "characters left out" in made
    assert made.count("\n") == text.count("\n")
    assert len(sanitize_text("x" * times * MOST_CHARACTERS)) <= MOST_CHARACTERS
    assert sanitize_text(sanitize_text("x" * 3 * MOST_CHARACTERS)) == sanitize_text(
        "x" * 3 * MOST_CHARACTERS
    )


def test_undecodable_bytes_are_shown_in_hex() -> None:
    assert format_bytes(b"\x00\xff") == "00ff"
    assert format_bytes(b"\x00" * 1000) == "00" * 100 + "..."
