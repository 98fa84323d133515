"""How large an element may be, and what is said of one that is larger."""

from __future__ import annotations

from beam_runner_worker.errors import BundleFailed
from beam_runner_worker.records import KeyedChunk, OutputChunk

MOST_ELEMENT_BYTES = 512 << 20
"""Elements up to this size are passed from stage to stage; protocol buffers end at 2 GiB."""


def check_elements(chunk: OutputChunk, before: int, transform: str) -> None:
    """Refuses a chunk of elements which can only be so large because one of them is.

    Args:
        chunk: elements that were put out.
        before: how many bytes there may have been before the last of them.
        transform: the full name of the transform that put them out.

    Raises:
        BundleFailed: the last element is too large.
    """
    if isinstance(chunk, KeyedChunk):
        size = len(chunk.key_data) + len(chunk.value_data)
    else:
        size = len(chunk.data)
    if size > MOST_ELEMENT_BYTES + before:
        raise BundleFailed(
            transform,
            f"ElementTooLarge: an element that it puts out takes {size} bytes, and the runner passes "
            f"on elements of up to {MOST_ELEMENT_BYTES}: put out smaller ones, or the name of a file",
            "",
        )
