"""Merging of custom windows: asks the SDK, in a bundle of a stage made for it.

The elements of that stage are told in ``beam_runner_planner.merging``.
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
    """A ``beam_runner_engine.keyed.ports.WindowMerger`` on the SDK that knows the window function.

    Each question is a bundle, whose thread is the caller's.

    Args:
        harness: of the merging stage.
        output: the transform id of that stage's only output.
        coder: how its windows are encoded.
    """

    def __init__(self, harness: StageHarness, output: str, coder: WindowCoder) -> None:
        self._harness = harness
        self._output = output
        self._coder = coder
        self._asked = 0

    def merge(
        self, windows_of_keys: Sequence[Collection[Window]]
    ) -> Sequence[Mapping[Window, Window]]:
        """The merged window of each window that becomes part of another, for each key.

        Raises:
            BundleFailed: the window function raised.
            HarnessError: the SDK was lost.
        """
        self._asked += 1
        answers: list[dict[Window, Window]] = [{} for _ in windows_of_keys]
        port = _Answers(self._coder, answers)
        questions = _questions(windows_of_keys)
        self._harness.process_bundle(f"merge-{self._asked}", questions, {self._output: port})
        return answers


def _questions(windows_of_keys: Sequence[Collection[Window]]) -> Iterator[ElementChunk]:
    """An element for each key, with the key's place as nonce."""
    for first in range(0, len(windows_of_keys), _KEYS_IN_CHUNK):
        chunk = windows_of_keys[first : first + _KEYS_IN_CHUNK]
        parts: list[bytes] = []
        for place, windows in enumerate(chunk, first):
            nonce = encode_varint(place)
            parts += (_HEADER, encode_varint(len(nonce)), nonce, encode_count(len(windows)))
            parts += map(encode_window, windows)
        yield ElementChunk(len(chunk), b"".join(parts))


class _Answers:
    """The output port of a merging stage: puts each answer to its key's place."""

    def __init__(self, coder: WindowCoder, answers: list[dict[Window, Window]]) -> None:
        self._coder = coder
        self._answers = answers

    def write(self, chunk: OutputChunk) -> None:
        """Takes whole answers."""
        assert isinstance(chunk, ElementChunk)
        reader = _Reader(self._coder, bytes(chunk.data))
        for _ in range(chunk.count):
            answer = self._answers[reader.nonce()]
            for _ in reader.items():
                reader.window()
            for _ in reader.items():
                result = reader.window()
                for _ in reader.items():
                    answer[reader.window()] = result


class _Reader:
    """Reads encoded answers from first to last."""

    def __init__(self, coder: WindowCoder, data: bytes) -> None:
        self._coder = coder
        self._data = data
        self._position = 0

    def nonce(self) -> int:
        """Begins the next answer; the place of the key that it is for."""
        _, self._position = decode_pane(self._data, self._position + WINDOWS_AT)
        size = self._varint()
        place, _ = decode_varint(self._data, self._position)
        self._position += size
        return place

    def window(self) -> Window:
        """The next window."""
        window, self._position = decode_window_at(self._coder, self._data, self._position)
        return window

    def items(self) -> Iterator[int]:
        """Begins an iterable; each of its items is to be read before the next is asked for."""
        count = decode_count(self._data, self._position)
        self._position += COUNT_BYTES
        if count >= 0:
            yield from range(count)
        else:
            # Of unknown length: batches that tell theirs, up to an empty one.
            while batch := self._varint():
                yield from range(batch)

    def _varint(self) -> int:
        value, self._position = decode_varint(self._data, self._position)
        return value
