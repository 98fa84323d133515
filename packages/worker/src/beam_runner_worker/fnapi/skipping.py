"""Compiler of coders into skip functions. A skip function finds the end of an encoded value without
decoding the value.

Only coders of the Beam model are supported, because their encoding is the same in every SDK. All
values are in Beam's *nested* context, as on the data and state channels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from beam_runner_model.lengths import COUNT_BYTES, Skip, decode_count, skip_length_prefixed
from beam_runner_model.varints import decode_varint, skip_varint
from beam_runner_model.window_coders import SKIP_WINDOW, WindowCoder, create_skip_function
from beam_runner_urns import coders as urns

from beam_runner_worker._protos import beam_runner_api_pb2

_DELIMITED_URNS = frozenset({urns.LENGTH_PREFIX, urns.BYTES, urns.STRING_UTF8})


class UnknownCoder(ValueError):
    """Error for a coder for whose values the runner can't find the end. The message names the URN of the coder."""


def compile_skip_function(coder_id: str, coders: Mapping[str, beam_runner_api_pb2.Coder]) -> Skip:
    """Returns the skip function of a coder, whose components are in ``coders``.

    Raises:
        UnknownCoder: The runner can't find the end of values of the coder or of a component.
    """
    if coder_id not in coders:
        raise UnknownCoder(f"the coder {coder_id!r} is missing from the descriptor")
    coder = coders[coder_id]
    urn = coder.spec.urn
    if urn in _LEAVES:
        return _LEAVES[urn]
    if urn not in _COMPOSITES:
        raise UnknownCoder(f"the coder {urn!r} doesn't expose the end of a value")
    return _COMPOSITES[urn](
        [compile_skip_function(each, coders) for each in coder.component_coder_ids]
    )


def make_counted_skip_function(item: Skip) -> Skip:
    """Returns a function that skips a count and the counted items."""

    def skip_counted_items(data: bytes, position: int) -> int:
        count = decode_count(data, position)
        position += COUNT_BYTES
        for _ in range(count):
            position = item(data, position)
        return position

    return skip_counted_items


def make_sequence_skip_function(parts: Sequence[Skip]) -> Skip:
    """Returns a function that skips several consecutive encoded values."""
    if len(parts) == 2:
        first, second = parts
        return lambda data, position: second(data, first(data, position))

    def skip_values(data: bytes, position: int) -> int:
        for part in parts:
            position = part(data, position)
        return position

    return skip_values


def _make_fixed_skip(size: int) -> Skip:
    return lambda data, position: position + size


def _make_custom_window_skip(parts: list[Skip]) -> Skip:
    """Returns a function that skips a custom window: its maximum timestamp, and then the encoding of its own coder."""
    (inner,) = parts
    return create_skip_function(inner)


def _make_nullable_skip(parts: list[Skip]) -> Skip:
    (inner,) = parts
    return lambda data, position: inner(data, position + 1) if data[position] else position + 1


def _make_sharded_key_skip(parts: list[Skip]) -> Skip:
    (key,) = parts
    return lambda data, position: key(data, skip_length_prefixed(data, position))


def _make_iterable_skip(parts: list[Skip]) -> Skip:
    """Returns a function that skips an iterable: a count and the items, or -1 and counted batches up
    to an empty batch.

    A batch count of -1 precedes a token, with which the SDK reads the remaining items as state.
    """
    (item,) = parts
    skip_known = make_counted_skip_function(item)

    def skip_iterable(data: bytes, position: int) -> int:
        if decode_count(data, position) >= 0:
            return skip_known(data, position)
        position += COUNT_BYTES
        while True:
            count, position = decode_varint(data, position)
            if count == 0:
                return position
            if count < 0:
                return skip_length_prefixed(data, position)
            for _ in range(count):
                position = item(data, position)

    return skip_iterable


_LEAVES: dict[str, Skip] = {
    **dict.fromkeys(_DELIMITED_URNS, skip_length_prefixed),
    urns.BOOL: _make_fixed_skip(1),
    urns.VARINT: skip_varint,
    urns.DOUBLE: _make_fixed_skip(8),
    urns.GLOBAL_WINDOW: SKIP_WINDOW[WindowCoder.GLOBAL],
    urns.INTERVAL_WINDOW: SKIP_WINDOW[WindowCoder.INTERVAL],
}

_COMPOSITES: dict[str, Callable[[list[Skip]], Skip]] = {
    urns.KV: make_sequence_skip_function,
    urns.ITERABLE: _make_iterable_skip,
    urns.STATE_BACKED_ITERABLE: _make_iterable_skip,
    urns.NULLABLE: _make_nullable_skip,
    urns.SHARDED_KEY: _make_sharded_key_skip,
    urns.CUSTOM_WINDOW: _make_custom_window_skip,
}
