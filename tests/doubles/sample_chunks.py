"""Chunks of keyed elements for tests."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate

from beam_runner_model.chunks import KeyedChunk
from beam_runner_model.window_coders import encode_window
from beam_runner_model.windows import GLOBAL_WINDOW

GLOBAL = encode_window(GLOBAL_WINDOW)


def keyed_chunk(values: Iterable[bytes], timestamp_ms: int = 0) -> KeyedChunk:
    """Returns rows whose key is the first byte of their value."""
    listed = list(values)
    ends = list(accumulate(map(len, listed)))
    keys = b"".join(value[:1] for value in listed)
    return KeyedChunk(
        keys, range(1, len(keys) + 1), b"".join(listed), ends, GLOBAL, [timestamp_ms] * len(listed)
    )
