"""Tests that elements are shown in short one-line texts."""

from __future__ import annotations

from typing import Any

import pytest
from apache_beam.io.textio import ReadFromText

from beam_runner_embedded.shown_elements import format_element


class Lines:
    def __repr__(self) -> str:
        return "one\ntwo"


class Unprintable:
    def __repr__(self) -> str:
        raise RuntimeError("no text")


@pytest.mark.parametrize(
    "element",
    [
        b"x" * 10_000_000,
        "x" * 10_000_000,
        list(range(1_000_000)),
        dict.fromkeys(range(1000), "x" * 1000),
        10**5000,
        Unprintable(),
        "\n",
        Lines(),
    ],
    ids=["bytes", "str", "list", "dict", "int", "unprintable", "line", "lines"],
)
def test_element_text_is_short_and_on_one_line(element: Any) -> None:
    text = format_element(element)
    assert 0 < len(text) <= 400
    assert "\n" not in text


def test_source_is_shown_with_its_file_pattern() -> None:
    text = format_element(ReadFromText("/data/a*.txt", validate=False)._source)
    assert text.startswith("_TextSource(")
    assert "file_pattern='/data/a*.txt'" in text
