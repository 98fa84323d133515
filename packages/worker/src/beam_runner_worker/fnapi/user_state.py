"""Answers to an SDK's requests for user state (get, append and clear).

The runner doesn't decode the values, and an SDK reads them page by page. Some SDKs read set state
as a bag, and other SDKs read set state as the keys of a multimap. A map is a multimap with one
value for each key.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from beam_runner_model.chunks import StateCell
from beam_runner_model.lengths import Skip, encode_count, skip_length_prefixed
from beam_runner_model.varints import decode_varint, encode_varint, skip_varint

from beam_runner_worker._protos import beam_fn_api_pb2
from beam_runner_worker.fnapi.paging import Pager
from beam_runner_worker.fnapi.side_inputs import UnsupportedStateRequest
from beam_runner_worker.fnapi.skipping import (
    make_counted_skip_function,
    make_sequence_skip_function,
)
from beam_runner_worker.fnapi.state_coders import StateCoders
from beam_runner_worker.ports import UserState

_SIGN = 1 << 63


class UserStateCells:
    """User state of one bundle, in the form of state requests. Only one thread at a time may use it."""

    def __init__(self, state: UserState, coders: StateCoders) -> None:
        self._state = state
        self._coders = coders
        self._pages = Pager()

    def read_page(self, key: beam_fn_api_pb2.StateKey, token: bytes) -> tuple[bytes, bytes]:
        """Returns a page of the data that a state key names, and the token of the next page (empty
        after the last page).

        Raises:
            UnsupportedStateRequest: the data doesn't support this kind of request.
        """
        kind, cell, place = _parse_state_key(key)
        return self._pages.read_page(
            key.SerializeToString(),
            token,
            lambda: bytes(kind.read_elements(self._state, cell, place, self._coders)),
            lambda: kind.get_skip_function(cell, self._coders),
        )

    def append_elements(self, key: beam_fn_api_pb2.StateKey, data: bytes) -> None:
        """Appends encoded elements to the cell that a state key names.

        The Go SDK may append an element to a bag or multimap in several parts.

        Raises:
            UnsupportedStateRequest: the cell doesn't support appends.
        """
        kind, cell, place = _parse_state_key(key)
        kind.append_elements(self._state, cell, place, data)

    def clear_cell(self, key: beam_fn_api_pb2.StateKey) -> None:
        """Clears the cell that a state key names."""
        kind, cell, place = _parse_state_key(key)
        kind.clear_cell(self._state, cell, place)


def is_user_state_key(key: beam_fn_api_pb2.StateKey) -> bool:
    """Returns True if a state key belongs to user state."""
    return key.WhichOneof("type") in _KINDS


class _StateRequestKind(Protocol):
    """Requests for one kind of state key. ``place`` is the message inside the state key."""

    def read_elements(
        self, state: UserState, cell: StateCell, place: Any, coders: StateCoders
    ) -> bytes: ...

    def get_skip_function(self, cell: StateCell, coders: StateCoders) -> Skip | None:
        """Returns a function that skips one element of the data; None if the runner can't find the end."""

    def append_elements(
        self, state: UserState, cell: StateCell, place: Any, data: bytes
    ) -> None: ...

    def clear_cell(self, state: UserState, cell: StateCell, place: Any) -> None: ...


class _BagValues:
    def read_elements(
        self, state: UserState, cell: StateCell, place: Any, coders: StateCoders
    ) -> bytes:
        return state.read_bag(cell)

    def get_skip_function(self, cell: StateCell, coders: StateCoders) -> Skip | None:
        return coders.get_skip_function(cell, "element")

    def append_elements(self, state: UserState, cell: StateCell, place: Any, data: bytes) -> None:
        state.append_to_bag(cell, data)

    def clear_cell(self, state: UserState, cell: StateCell, place: Any) -> None:
        state.clear_cell(cell)


class _MultimapKeys:
    """Requests for all keys of a multimap."""

    def read_elements(
        self, state: UserState, cell: StateCell, place: Any, coders: StateCoders
    ) -> bytes:
        return state.read_map_keys(cell)

    def get_skip_function(self, cell: StateCell, coders: StateCoders) -> Skip | None:
        return coders.get_skip_function(cell, "key")

    def append_elements(self, state: UserState, cell: StateCell, place: Any, data: bytes) -> None:
        raise UnsupportedStateRequest(
            f"the SDK appended keys without values to the multimap {cell.state_id!r}"
        )

    def clear_cell(self, state: UserState, cell: StateCell, place: Any) -> None:
        state.clear_cell(cell)


class _MultimapValues:
    """Requests for the values of one key of a multimap."""

    def read_elements(
        self, state: UserState, cell: StateCell, place: Any, coders: StateCoders
    ) -> bytes:
        return state.read_map_values(cell, place.map_key)

    def get_skip_function(self, cell: StateCell, coders: StateCoders) -> Skip | None:
        return coders.get_skip_function(cell, "value")

    def append_elements(self, state: UserState, cell: StateCell, place: Any, data: bytes) -> None:
        state.append_map_values(cell, place.map_key, data)

    def clear_cell(self, state: UserState, cell: StateCell, place: Any) -> None:
        state.remove_map_key(cell, place.map_key)


class _MultimapEntries(_MultimapKeys):
    """Requests for all entries of a multimap: each key with an iterable of its values, as ``KV<K, Iterable<V>>``."""

    def read_elements(
        self, state: UserState, cell: StateCell, place: Any, coders: StateCoders
    ) -> bytes:
        skip_key = self._require_skip_function(cell, coders, "key")
        skip_value = (
            None
            if coders.has_single_values(cell)
            else self._require_skip_function(cell, coders, "value")
        )
        parts: list[bytes] = []
        for key in _split_items(state.read_map_keys(cell), skip_key):
            values = state.read_map_values(cell, key)
            count = 1 if skip_value is None else sum(1 for _ in _split_items(values, skip_value))
            parts += (key, encode_count(count), values)
        return b"".join(parts)

    def get_skip_function(self, cell: StateCell, coders: StateCoders) -> Skip | None:
        skip_key, skip_value = (
            coders.get_skip_function(cell, "key"),
            coders.get_skip_function(cell, "value"),
        )
        if skip_key is None or skip_value is None:
            return None
        return make_sequence_skip_function((skip_key, make_counted_skip_function(skip_value)))

    @staticmethod
    def _require_skip_function(cell: StateCell, coders: StateCoders, part: str) -> Skip:
        skip = coders.get_skip_function(cell, part)
        if skip is None:
            raise UnsupportedStateRequest(
                f"Can't read the entries of the multimap {cell.state_id!r} at once,"
                f" because the coder of its {part}s doesn't expose the end of a value;"
                " read the keys first and then the values of each key, or use a coder"
                " of the Beam model"
            )
        return skip


class _OrderedListValues:
    """Requests for an ordered list: pairs of a sort key and a length-prefixed value."""

    def read_elements(
        self, state: UserState, cell: StateCell, place: Any, coders: StateCoders
    ) -> bytes:
        start, end = -_SIGN, _SIGN
        if place.HasField("range"):
            start, end = place.range.start, place.range.end
        parts: list[bytes] = []
        for sort_key, value in state.read_ordered_values(cell, start, end):
            parts += (encode_varint(sort_key), encode_varint(len(value)), value)
        return b"".join(parts)

    def get_skip_function(self, cell: StateCell, coders: StateCoders) -> Skip | None:
        return lambda data, position: skip_length_prefixed(data, skip_varint(data, position))

    def append_elements(self, state: UserState, cell: StateCell, place: Any, data: bytes) -> None:
        position = 0
        while position < len(data):
            sort_key, position = decode_varint(data, position)
            length, position = decode_varint(data, position)
            value = data[position : position + length]
            position += length
            state.insert_ordered_value(cell, sort_key, value)

    def clear_cell(self, state: UserState, cell: StateCell, place: Any) -> None:
        if place.HasField("range"):
            state.remove_ordered_values(cell, place.range.start, place.range.end)
        else:
            state.clear_cell(cell)


_KINDS: dict[str | None, _StateRequestKind] = {
    "bag_user_state": _BagValues(),
    "multimap_keys_user_state": _MultimapKeys(),
    "multimap_entries_user_state": _MultimapEntries(),
    "multimap_user_state": _MultimapValues(),
    "ordered_list_user_state": _OrderedListValues(),
}


def _parse_state_key(key: beam_fn_api_pb2.StateKey) -> tuple[_StateRequestKind, StateCell, Any]:
    kind = key.WhichOneof("type")
    place = getattr(key, kind)
    cell = StateCell(place.transform_id, place.user_state_id, place.window, place.key)
    return _KINDS[kind], cell, place


def _split_items(data: bytes, skip: Skip) -> Iterator[bytes]:
    position = 0
    while position < len(data):
        end = skip(data, position)
        yield data[position:end]
        position = end
