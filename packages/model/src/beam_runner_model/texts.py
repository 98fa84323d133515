"""Text of user code, made fit for protos, databases and terminals."""

from __future__ import annotations

MOST_CHARACTERS = 256 << 10
"""Of one text: more than anybody reads, and little enough for a host that keeps what all its jobs say."""

_WORDS = 64
_SHOWN_BYTES = 100


def shortened(text: str, most: int) -> str:
    """The text, or so much of its begin, and dots, where it is longer.

    >>> shortened("abcdef", 3), shortened("abc", 3)
    ('abc...', 'abc')
    """
    return text if len(text) <= most else f"{text[:most]}..."


def shown_bytes(encoded: bytes) -> str:
    """What could not be decoded, or nobody knows the coder of: its first bytes in hex.

    >>> shown_bytes(b"\\x00\\xff")
    '00ff'
    """
    more = "..." if len(encoded) > _SHOWN_BYTES else ""
    return f"{encoded[:_SHOWN_BYTES].hex()}{more}"


def shown_timer(family: str, tag: str) -> str:
    """What a timer is called in messages, by the name that the user has given it.

    >>> shown_timer("ts-alarm", "a")
    "the timer 'alarm' with the tag 'a'"
    """
    # Python puts a prefix before it.
    name = f"the timer {family.removeprefix('ts-')!r}"
    return f"{name} with the tag {tag!r}" if tag else name


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
