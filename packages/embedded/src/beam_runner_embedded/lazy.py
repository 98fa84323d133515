"""Lazily decoded values, which user code can iterate over any number of times."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from apache_beam.coders import coder_impl
from beam_runner_model.value_pieces import ValuePieces


def decode_all(impl: coder_impl.CoderImpl, data: bytes) -> list[Any]:
    """Decodes all values in ``data``, which are concatenated nested encodings; takes linear time."""
    stream = coder_impl.create_InputStream(data)
    decode = impl.decode_from_stream
    size = stream.size
    values: list[Any] = []
    append = values.append
    while size() > 0:
        append(decode(stream, True))
    return values


class LazyValues:
    """Re-iterable over encoded values, which keeps only the encoded bytes in memory.

    If the values are `ValuePieces`, only the current part of the values is in memory. Each
    iteration decodes the values again. The object pickles as a list, and Beam's coders write it as
    an iterable, as for Beam's state-backed iterables.
    """

    __slots__ = ("_data", "_impl")

    def __init__(self, impl: coder_impl.CoderImpl, data: bytes | ValuePieces) -> None:
        self._impl = impl
        self._data = data

    def __iter__(self) -> Iterator[Any]:
        decode = self._impl.decode_from_stream
        for piece in self._read_value_pieces():
            stream = coder_impl.create_InputStream(piece)
            while stream.size() > 0:
                yield decode(stream, True)

    def _read_value_pieces(self) -> Iterator[bytes]:
        data = self._data
        if isinstance(data, bytes):
            yield data
            return
        for number in range(data.pieces):
            yield data.piece(number)

    def __reduce__(self) -> tuple[type[list[Any]], tuple[list[Any]]]:
        return (list, (list(self),))


coder_impl.FastPrimitivesCoderImpl.register_iterable_like_type(LazyValues)
