"""Decodes group chunks into keys with their values, small groups at once and large ones lazily."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import length_hint
from typing import Any

from apache_beam.coders import coder_impl, coders
from apache_beam.utils import windowed_value
from apache_beam.utils.windowed_value import WindowedValue

from beam_runner_worker.embedded.lazy import LazyValues
from beam_runner_worker.errors import HarnessError
from beam_runner_worker.records import GroupChunk

_EAGER_BYTES = 64 * 1024
"""Values of a group that are decoded at once; above that they stay encoded (see ``lazy``)."""
_PANES = coder_impl.PaneInfoCoderImpl()


class GroupDecoder:
    """Feeds groups to a function as ``KV<key, Iterable<value>>``; knows how many were given.

    Args:
        windowed_coder: a windowed coder of ``KV<key, Iterable<value>>``.

    Raises:
        HarnessError: it is another coder.
    """

    def __init__(self, windowed_coder: coders.WindowedValueCoder) -> None:
        element_coder = windowed_coder.wrapped_value_coder
        values_coder = element_coder.value_coder() if element_coder.is_kv_coder() else None
        if not isinstance(values_coder, coders.ListLikeCoder):
            raise HarnessError(
                "A stage that reads groups needs the coder KV<key, Iterable<value>>, not "
                f"{element_coder}"
            )
        self._decode_element = element_coder.get_impl().decode_from_stream
        self._decode_key = element_coder.key_coder().get_impl().decode_nested
        self._value_impl = values_coder.value_coder().get_impl()
        self._decode_window = windowed_coder.window_coder.get_impl().decode_nested
        self._announced = 0
        self._left: Iterator[int] = iter(())

    @property
    def count(self) -> int:
        """How many groups were given since :meth:`restart`; right from any thread."""
        return self._announced - length_hint(self._left)

    def restart(self) -> None:
        """Counts from zero again."""
        self._announced = 0
        self._left = iter(())

    def feed(self, chunk: GroupChunk, emit: Callable[[WindowedValue], None]) -> None:
        """Decodes all groups and emits them in order.

        Raises:
            HarnessError: the chunk's columns differ in length.
        """
        columns = [chunk.timestamps, chunk.counts, chunk.values]
        if not isinstance(chunk.windows, bytes):
            columns.append(chunk.windows)
        if any(len(column) != len(chunk.keys) for column in columns):
            raise HarnessError("The columns of a chunk of groups differ in length")
        create = windowed_value.create
        pane = _PANES.decode_nested(chunk.pane)
        stream = coder_impl.create_InputStream(_small_groups(chunk))
        decode = self._decode_element
        windows = self._windows(chunk)
        left = self._left = iter(range(len(chunk.keys)))
        self._announced += len(chunk.keys)
        for index, window, timestamp, values in zip(
            left, windows, chunk.timestamps, chunk.values, strict=False
        ):
            if len(values) <= _EAGER_BYTES:
                element = decode(stream, True)
            else:
                key = self._decode_key(chunk.keys[index])
                element = (key, LazyValues(self._value_impl, bytes(values)))
            emit(create(element, timestamp * 1000, window, pane))

    def _windows(self, chunk: GroupChunk) -> Iterator[tuple[Any]]:
        """The windows of each group; neighbours in the same window get the same tuple."""
        if isinstance(chunk.windows, bytes):
            windows = (self._decode_window(chunk.windows),)
            while True:
                yield windows
        last: bytes | None = None
        for encoded in chunk.windows:
            if encoded != last:
                last, windows = encoded, (self._decode_window(encoded),)
            yield windows


def _small_groups(chunk: GroupChunk) -> bytes:
    """The small groups as an SDK would have encoded them, to be decoded at native speed."""
    pieces: list[bytes | memoryview] = []
    for key, count, values in zip(chunk.keys, chunk.counts, chunk.values, strict=True):
        if len(values) <= _EAGER_BYTES:
            pieces += (key, count.to_bytes(4), values)
    return b"".join(pieces)
