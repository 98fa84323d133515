"""Text from user code, made safe for protos, databases and terminals."""

from __future__ import annotations

MOST_CHARACTERS = 256 << 10
"""Maximum length of a text in characters. The limit bounds the memory for the messages of all jobs of a server."""

_WORDS = 64
_SHOWN_BYTES = 100


def truncate_text(text: str, most: int) -> str:
    """Returns the text, cut to `most` characters and an ellipsis if the text is longer.

    >>> truncate_text("abcdef", 3), truncate_text("abc", 3)
    ('abc...', 'abc')
    """
    return text if len(text) <= most else f"{text[:most]}..."


def format_bytes(encoded: bytes) -> str:
    """Returns the first 100 bytes of encoded data in hexadecimal, for data that can't be decoded.

    >>> format_bytes(b"\\x00\\xff")
    '00ff'
    """
    more = "..." if len(encoded) > _SHOWN_BYTES else ""
    return f"{encoded[:_SHOWN_BYTES].hex()}{more}"


def is_step_or_in_composite(step: str, name: str) -> bool:
    """Returns whether a step has a full name, or is in the composite with this name.

    >>> is_step_or_in_composite("a/b", "a"), is_step_or_in_composite("a", "a"), is_step_or_in_composite("ab", "a")
    (True, True, False)
    """
    return step == name or step.startswith(f"{name}/")


def format_timer(family: str, tag: str) -> str:
    """Returns the name of a timer for messages, with the family name that the user chose.

    >>> format_timer("ts-alarm", "a")
    "the timer 'alarm' with the tag 'a'"
    """
    # The Python SDK adds the prefix "ts-" to the name of a timer.
    name = f"the timer {family.removeprefix('ts-')!r}"
    return f"{name} with the tag {tag!r}" if tag else name


def sanitize_text(text: str) -> str:
    """Returns text that UTF-8 can encode: lone surrogates are escaped, and the middle of a long text is omitted.

    >>> sanitize_text("a\\ud800b")
    'a\\\\ud800b'
    """
    if len(text) > MOST_CHARACTERS:
        half = (MOST_CHARACTERS - _WORDS) // 2
        text = f"{text[:half]} ... ({len(text) - 2 * half} characters left out) ... {text[-half:]}"
    if text.isascii():
        return text
    return text.encode("utf-8", "backslashreplace").decode()
