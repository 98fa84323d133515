"""Limits of the size of elements, and errors for elements that exceed the limits."""

from __future__ import annotations

from collections.abc import Sequence

from beam_runner_model.chunks import KeyedChunk, OutputChunk

from beam_runner_worker.errors import BundleError

MOST_ELEMENT_BYTES = 512 << 20
"""Maximum size in bytes of an element between stages; protocol buffers end at 2 GiB."""


def check_chunk_size(chunk: OutputChunk, before: int, transform: str) -> None:
    """Raises BundleError if the size of a chunk proves that an element of the chunk is too large."""
    if isinstance(chunk, KeyedChunk):
        size = len(chunk.key_data) + len(chunk.value_data)
    else:
        size = len(chunk.data)
    check_size(size, before, transform)


def check_size(size: int, before: int, transform: str) -> None:
    """Raises BundleError if the size of encoded data proves that the last element in the data is
    too large. ``before`` is the maximum size of the data before the last element.
    """
    if size > MOST_ELEMENT_BYTES + before:
        raise BundleError(
            transform, f"ElementTooLarge: {_describe_size('in the output', 'emit', size)}", trace=""
        )


class ElementTooLarge(Exception):
    """Error for user code that stores an element above the size limit in state."""


def check_state_values(values: Sequence[bytes]) -> None:
    """Raises an error if an encoded value is too large for user state. Called before the values are
    copied.

    Raises:
        ElementTooLarge: A value exceeds the limit.
    """
    largest = max(map(len, values), default=0)
    if largest > MOST_ELEMENT_BYTES:
        raise ElementTooLarge(_describe_size("in state", "store", largest))


def _describe_size(place: str, verb: str, size: int) -> str:
    return (
        f"an element {place} has {size} bytes; the maximum is {MOST_ELEMENT_BYTES}: {verb} smaller "
        "elements, or the name of a file"
    )
