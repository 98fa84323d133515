"""Merging of custom windows: the SDK merges them in bundles of a separate merging stage.

``beam_runner_planner.merging`` describes the elements of that stage.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from beam_runner_model.chunks import ElementChunk, OutputChunk
from beam_runner_model.lengths import COUNT_BYTES, decode_count, encode_count
from beam_runner_model.panes import NO_FIRING, decode_pane, encode_pane
from beam_runner_model.varints import decode_varint, encode_varint
from beam_runner_model.window_coders import (
    WindowCoder,
    decode_window_at,
    encode_window,
)
from beam_runner_model.windowed_values import WINDOWS_AT, encode_header
from beam_runner_model.windows import GLOBAL_WINDOW, Window
from beam_runner_worker.ports import StageHarness

_KEYS_IN_CHUNK = 1000
_HEADER = encode_header(0, encode_window(GLOBAL_WINDOW), encode_pane(NO_FIRING))


class SdkMerger:
    """Window merger that calls the window function in the SDK.

    Implements ``beam_runner_engine.keyed.ports.WindowMerger``. Each call of `merge_windows` runs one bundle
    in the caller's thread.

    Args:
        output: transform ID of the only output of the merging stage.
    """

    def __init__(self, harness: StageHarness, output: str, coder: WindowCoder) -> None:
        self._harness = harness
        self._output = output
        self._coder = coder
        self._asked = 0

    def merge_windows(
        self, windows_of_keys: Sequence[Collection[Window]]
    ) -> Sequence[Mapping[Window, Window]]:
        """Returns, for each key, a map from each merged window to the window that replaces it.

        Raises:
            BundleFailed: The window function raised an exception.
            HarnessError: The connection to the SDK was lost.
        """
        self._asked += 1
        answers: list[dict[Window, Window]] = [{} for _ in windows_of_keys]
        port = _MergeResultPort(self._coder, answers)
        questions = _encode_merge_requests(windows_of_keys)
        self._harness.process_bundle(f"merge-{self._asked}", questions, {self._output: port})
        return answers


def _encode_merge_requests(windows_of_keys: Sequence[Collection[Window]]) -> Iterator[ElementChunk]:
    """Yields an encoded merge request for each key. The request's nonce is the index of the key."""
    for first in range(0, len(windows_of_keys), _KEYS_IN_CHUNK):
        chunk = windows_of_keys[first : first + _KEYS_IN_CHUNK]
        parts: list[bytes] = []
        for place, windows in enumerate(chunk, first):
            nonce = encode_varint(place)
            parts += (_HEADER, encode_varint(len(nonce)), nonce, encode_count(len(windows)))
            parts += map(encode_window, windows)
        yield ElementChunk(len(chunk), b"".join(parts))


class _MergeResultPort:
    """Output port of a stage that merges windows. Stores the merged windows of each key by the
    index of the key.
    """

    def __init__(self, coder: WindowCoder, answers: list[dict[Window, Window]]) -> None:
        self._coder = coder
        self._answers = answers

    def write(self, chunk: OutputChunk) -> None:
        """Decodes the results of a chunk."""
        assert isinstance(chunk, ElementChunk)
        reader = _MergeResultReader(self._coder, bytes(chunk.data))
        for _ in range(chunk.count):
            answer = self._answers[reader.read_key_index()]
            for _ in reader.iterate_items():
                reader.read_window()
            for _ in reader.iterate_items():
                result = reader.read_window()
                for _ in reader.iterate_items():
                    answer[reader.read_window()] = result


class _MergeResultReader:
    """Parser of encoded merge results."""

    def __init__(self, coder: WindowCoder, data: bytes) -> None:
        self._coder = coder
        self._data = data
        self._position = 0

    def read_key_index(self) -> int:
        """Starts the next result and returns the index of its key."""
        _, self._position = decode_pane(self._data, self._position + WINDOWS_AT)
        size = self._read_varint()
        place, _ = decode_varint(self._data, self._position)
        self._position += size
        return place

    def read_window(self) -> Window:
        """Reads the next window."""
        window, self._position = decode_window_at(self._coder, self._data, self._position)
        return window

    def iterate_items(self) -> Iterator[int]:
        """Parses an encoded iterable, and yields the index of each item. The caller must read the
        item before it requests the next index.
        """
        count = decode_count(self._data, self._position)
        self._position += COUNT_BYTES
        if count >= 0:
            yield from range(count)
        else:
            # An iterable of unknown length consists of batches, each with a count. An empty batch
            # ends the iterable.
            while batch := self._read_varint():
                yield from range(batch)

    def _read_varint(self) -> int:
        value, self._position = decode_varint(self._data, self._position)
        return value
