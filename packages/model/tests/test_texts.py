"""Tests that every text from user code can be encoded."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from beam_runner_model.texts import MOST_CHARACTERS, encodable, shown_bytes

ANY_TEXT = st.text(st.characters(exclude_categories=()))


@given(ANY_TEXT)
def test_every_text_can_be_encoded_and_good_ones_stay(text: str) -> None:
    made = encodable(text)
    made.encode()
    if all(not 0xD800 <= ord(c) < 0xE000 for c in text):
        assert made == text


def test_halves_of_pairs_are_shown() -> None:
    assert encodable("a\ud800b ä") == "a\\ud800b ä"


@given(ANY_TEXT, st.integers(1, 3))
def test_long_texts_keep_their_ends_and_stay_one_line(text: str, times: int) -> None:
    made = encodable(f"begin{'x' * times * MOST_CHARACTERS}{text}end")
    assert made.startswith("beginx") and made.endswith(encodable(f"{text}end"))
    assert "characters left out" in made
    assert made.count("\n") == text.count("\n")
    assert len(encodable("x" * times * MOST_CHARACTERS)) <= MOST_CHARACTERS
    assert encodable(encodable("x" * 3 * MOST_CHARACTERS)) == encodable("x" * 3 * MOST_CHARACTERS)


def test_bytes_that_nobody_can_decode() -> None:
    assert shown_bytes(b"\x00\xff") == "00ff"
    assert shown_bytes(b"\x00" * 1000) == "00" * 100 + "..."
