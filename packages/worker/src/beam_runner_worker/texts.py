"""Text of user code, made fit for protos, databases and terminals."""

from __future__ import annotations

MOST_CHARACTERS = 256 << 10
"""Of one text: more than anybody reads, and little enough for a host that keeps what all its jobs say."""

_WORDS = 64


def shortened(text: str, most: int) -> str:
    """The text, or so much of its begin, and dots, where it is longer.

    >>> shortened("abcdef", 3), shortened("abc", 3)
    ('abc...', 'abc')
    """
    return text if len(text) <= most else f"{text[:most]}..."


def encodable(text: str) -> str:
    """The text with whatever UTF-8 can't encode, halves of surrogate pairs, as escapes; where it is long, its two ends.

    >>> encodable("a\\ud800b")
    'a\\\\ud800b'
    """
    if len(text) > MOST_CHARACTERS:
        half = (MOST_CHARACTERS - _WORDS) // 2
        text = f"{text[:half]} ... ({len(text) - 2 * half} characters left out) ... {text[-half:]}"
    if text.isascii():
        return text
    return text.encode("utf-8", "backslashreplace").decode()
