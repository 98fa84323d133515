"""Decoder of groups (a key with its values). Small groups are decoded completely, and large groups
lazily.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeGuard

from apache_beam.coders import coder_impl, coders
from apache_beam.utils import windowed_value
from apache_beam.utils.windowed_value import WindowedValue
from beam_runner_model.chunks import GroupChunk
from beam_runner_model.value_pieces import GroupValues, ValuePieces
from beam_runner_worker.errors import HarnessError

from beam_runner_embedded.claims import ElementClaims
from beam_runner_embedded.host_errors import HostErrorRecorder, record_piece_errors
from beam_runner_embedded.lazy import LazyValues

_EAGER_BYTES = 64 * 1024
"""Maximum encoded size in bytes of the values of a small group. The values of larger groups stay
encoded until user code reads the values (see ``lazy``).
"""
_COUNT_BYTES = 4
_PANES = coder_impl.PaneInfoCoderImpl()


class GroupDecoder:
    """Decoder that claims groups one by one and passes them to a function as ``KV<key,
    Iterable<value>>``, until a split stops the claims.

    Args:
        windowed_coder: a windowed coder of ``KV<key, Iterable<value>>``.
        claims: record of the bundle's claimed groups.
        errors: stores errors of the runner while user code reads values of large groups.

    Attributes:
        sampled: sizes in bytes of the first group of each chunk since the last reset.

    Raises:
        HarnessError: The element coder isn't ``KV<key, Iterable<value>>``.
    """

    def __init__(
        self,
        windowed_coder: coders.WindowedValueCoder,
        claims: ElementClaims,
        errors: HostErrorRecorder,
    ) -> None:
        self._claims = claims
        self._errors = errors
        self.sampled: list[int] = []
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

    def decode_chunk(self, chunk: GroupChunk, emit: Callable[[WindowedValue], None]) -> None:
        """Decodes the groups of a chunk and emits them in order; stops at the position of a split.

        Raises:
            HarnessError: the chunk's columns differ in length.
        """
        columns = [chunk.timestamps, chunk.counts, chunk.values]
        if not isinstance(chunk.windows, bytes):
            columns.append(chunk.windows)
        if any(len(column) != len(chunk.keys) for column in columns):
            raise HarnessError("The columns of a chunk of groups differ in length")
        if chunk.keys:
            self.sampled.append(len(chunk.keys[0]) + _COUNT_BYTES + len(chunk.values[0]))
        create = windowed_value.create
        pane = _PANES.decode_nested(chunk.pane)
        stream = coder_impl.create_InputStream(_join_small_groups(chunk))
        decode = self._decode_element
        groups = zip(
            chunk.keys, self._decode_windows(chunk), chunk.timestamps, chunk.values, strict=False
        )
        left: Iterator[int] | None = self._claims.add_elements(len(chunk.keys))
        while left is not None:
            # Claim before reading a group, because an unclaimed group may belong to a residual.
            for _, (key, window, timestamp, values) in zip(left, groups, strict=False):
                if _is_small_group(values):
                    element = decode(stream, True)
                else:
                    later = LazyValues(self._value_impl, self._retain_values(values))
                    element = (self._decode_key(key), later)
                emit(create(element, timestamp * 1000, window, pane))
            left = self._claims.get_remaining_claims()

    def _retain_values(self, values: GroupValues) -> bytes | ValuePieces:
        """Returns the encoded values of a large group in a form that user code may read later, even
        after the chunk is released.
        """
        if isinstance(values, (bytes, memoryview)):
            return bytes(values)
        return record_piece_errors(values, self._errors)

    def _decode_windows(self, chunk: GroupChunk) -> Iterator[tuple[Any]]:
        """Yields the decoded windows of each group (a key with its values). Consecutive groups in
        the same window share a tuple.
        """
        if isinstance(chunk.windows, bytes):
            windows = (self._decode_window(chunk.windows),)
            while True:
                yield windows
        last: bytes | None = None
        for encoded in chunk.windows:
            if encoded != last:
                last, windows = encoded, (self._decode_window(encoded),)
            yield windows


def _join_small_groups(chunk: GroupChunk) -> bytes:
    """Returns the small groups of a chunk in Beam's encoding, so that Beam's compiled coder can decode them."""
    pieces: list[bytes | memoryview] = []
    for key, count, values in zip(chunk.keys, chunk.counts, chunk.values, strict=True):
        if _is_small_group(values):
            pieces += (key, count.to_bytes(_COUNT_BYTES), values)
    return b"".join(pieces)


def _is_small_group(values: GroupValues) -> TypeGuard[bytes | memoryview]:
    return len(values) <= _EAGER_BYTES and isinstance(values, (bytes, memoryview))
