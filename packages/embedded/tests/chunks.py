"""Chunk decoding and grouping in plain Python."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from apache_beam.coders import coder_impl
from apache_beam.transforms import window
from apache_beam.utils.windowed_value import WindowedValue
from beam_runner_model.chunks import ElementChunk, GroupChunk, KeyedChunk


def decode_elements(impl: Any, chunk: ElementChunk) -> list[WindowedValue]:
    """Returns the elements of a chunk, decoded by Beam's coder. Checks the count and the end of the chunk."""
    stream = coder_impl.create_InputStream(bytes(chunk.data))
    elements, ends = [], []
    while stream.size() > 0:
        elements.append(impl.decode_from_stream(stream, True))
        ends.append(len(chunk.data) - stream.size())
    assert chunk.count == len(elements)
    assert chunk.ends is None or list(chunk.ends) == ends
    return elements


def split_at_ends(data: bytes, ends: Iterable[int]) -> list[bytes]:
    pieces, start = [], 0
    for end in ends:
        pieces.append(data[start:end])
        start = end
    return pieces


def read_rows(chunk: KeyedChunk) -> Iterator[tuple[bytes, bytes, bytes, int | None]]:
    """Returns the key, value, window and timestamp of every row."""
    count = chunk.count
    windows = [chunk.windows] * count if isinstance(chunk.windows, bytes) else chunk.windows
    times = chunk.timestamps if chunk.timestamps is not None else [None] * count
    yield from zip(
        split_at_ends(chunk.key_data, chunk.key_ends),
        split_at_ends(chunk.value_data, chunk.value_ends),
        windows,
        times,
        strict=True,
    )


def group_rows(
    chunks: Iterable[KeyedChunk], window_coder: Any, sessions: bool = False
) -> GroupChunk:
    """Groups rows by encoded key and window, as a runner does."""
    impl = window_coder.get_impl()
    by_key: dict[bytes, list[tuple[Any, bytes]]] = {}
    for chunk in chunks:
        for key, value, encoded, _ in read_rows(chunk):
            by_key.setdefault(key, []).append((impl.decode_nested(encoded), value))
    groups: list[tuple[bytes, Any, list[bytes]]] = []
    for key, pairs in by_key.items():
        merged: dict[Any, list[bytes]] = {}
        for own, value in pairs:
            if sessions:
                own = _merge_windows(own, [w for w, _ in pairs])
            merged.setdefault(own, []).append(value)
        groups.extend((key, w, values) for w, values in merged.items())
    return GroupChunk(
        keys=[key for key, _, _ in groups],
        windows=[impl.encode_nested(w) for _, w, _ in groups],
        timestamps=[w.max_timestamp().micros // 1000 for _, w, _ in groups],
        counts=[len(values) for _, _, values in groups],
        values=[b"".join(values) for _, _, values in groups],
        pane=b"\x0f",
    )


def _merge_windows(own: Any, everyone: list[Any]) -> Any:
    """Returns the union of the windows that overlap this window, as for sessions."""
    grown = True
    while grown:
        touching = [w for w in everyone if w.start < own.end and own.start < w.end]
        union = window.IntervalWindow(min(w.start for w in touching), max(w.end for w in touching))
        grown, own = union != own, union
    return own
