"""Text of user code, made fit for protos, databases and terminals."""

from __future__ import annotations


def encodable(text: str) -> str:
    """The text with whatever UTF-8 can't encode, halves of surrogate pairs, as escapes.

    >>> encodable("a\\ud800b")
    'a\\\\ud800b'
    """
    if text.isascii():
        return text
    return text.encode("utf-8", "backslashreplace").decode()
