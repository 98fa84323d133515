"""Answers to an SDK's requests for side inputs, page by page."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping

from beam_runner_model.lengths import Skip
from beam_runner_model.value_pieces import PIECE_BYTES, ValuePieces
from beam_runner_urns import coders as coder_urns

from beam_runner_worker._protos import beam_fn_api_pb2, beam_runner_api_pb2
from beam_runner_worker.fnapi.paging import Pager, find_page_end
from beam_runner_worker.fnapi.skipping import (
    UnknownCoder,
    compile_skip_function,
    make_counted_skip_function,
    make_sequence_skip_function,
)
from beam_runner_worker.ports import SideInputReader

_PIECED_AT_ONCE = 16
_PIECE, _OFFSET = b"p", b"+"
_NO_PIECE = (b"", -1, b"")


class UnsupportedStateRequest(Exception):
    """Error for a state request of an unsupported kind, which the message names."""


class SideInputCoders:
    """Skip functions for the elements, keys and values of the side inputs of one stage. A skip
    function returns the end of an encoded value.
    """

    def __init__(self, descriptor: beam_fn_api_pb2.ProcessBundleDescriptor) -> None:
        self._descriptor = descriptor
        self._skips: dict[tuple[str, str, str], Skip | None] = {}

    def get_skip_function(self, transform_id: str, tag: str, part: str) -> Skip | None:
        """Returns a function that skips an encoded ``element``, ``key`` or ``value`` of a side input;
        None if the runner can't find the end.
        """
        place = (transform_id, tag, part)
        if place not in self._skips:
            self._skips[place] = self._compile_skip(*place)
        return self._skips[place]

    def _compile_skip(self, transform_id: str, tag: str, part: str) -> Skip | None:
        coders: Mapping[str, beam_runner_api_pb2.Coder] = self._descriptor.coders
        pcollection = self._descriptor.transforms[transform_id].inputs[tag]
        coder_id = self._descriptor.pcollections[pcollection].coder_id
        if coders[coder_id].spec.urn == coder_urns.WINDOWED_VALUE:
            coder_id = coders[coder_id].component_coder_ids[0]
        try:
            if part == "element":
                return compile_skip_function(coder_id, coders)
            coder = coders[coder_id]
            if coder.spec.urn != coder_urns.KV:
                return None
            return compile_skip_function(coder.component_coder_ids[part == "value"], coders)
        except UnknownCoder:
            return None


class SideInputPages:
    """Reader of side inputs in pages, for one bundle. Only one thread at a time may use it."""

    def __init__(self, reader: SideInputReader, coders: SideInputCoders) -> None:
        self._reader = reader
        self._coders = coders
        self._pages = Pager()
        self._pieced: OrderedDict[bytes, ValuePieces] = OrderedDict()
        self._last: tuple[bytes, int, bytes] = _NO_PIECE

    def read_page(self, key: beam_fn_api_pb2.StateKey, token: bytes) -> tuple[bytes, bytes]:
        """Returns a page of the data that a state key names, and the token of the next page (empty
        after the last page).

        Raises:
            UnsupportedStateRequest: The state key doesn't belong to a side input.
        """
        kind = key.WhichOneof("type") or "unknown"
        if kind not in _READERS:
            raise UnsupportedStateRequest(
                f"this runner doesn't support state requests of the kind {kind!r}"
            )
        read, part = _READERS[kind]
        place = getattr(key, kind)
        name = key.SerializeToString()

        def get_skip_function() -> Skip | None:
            return self._get_skip_function(place.transform_id, place.side_input_id, part)

        def read_whole_value() -> bytes:
            values = read(self._reader, key)
            assert isinstance(values, bytes), "what is read stays the same within a bundle"
            return values

        if token.startswith(_PIECE):
            values = self._pieced.get(name) or read(self._reader, key)
            assert not isinstance(values, bytes), "what is read stays the same within a bundle"
            number, _, begin = token[len(_PIECE) :].partition(_OFFSET)
            return self._read_piece_page(name, values, int(number), int(begin), get_skip_function)
        if token:
            return self._pages.read_page(name, token, read_whole_value, get_skip_function)
        first = read(self._reader, key)
        if isinstance(first, bytes):
            return self._pages.read_page(name, token, lambda: first, get_skip_function)
        return self._read_piece_page(name, first, 0, 0, get_skip_function)

    def _read_piece_page(
        self,
        name: bytes,
        values: ValuePieces,
        number: int,
        begin: int,
        skip: Callable[[], Skip | None],
    ) -> tuple[bytes, bytes]:
        """Returns the page of a `ValuePieces` that begins at a position of a piece. A piece above 2
        MiB is split into several pages.
        """
        if number >= values.pieces:
            return b"", b""
        self._pieced[name] = values
        if len(self._pieced) > _PIECED_AT_ONCE:
            self._pieced.popitem(last=False)
        if self._last[:2] != (name, number):
            self._last = (name, number, values.piece(number))
        data = self._last[2]
        end = len(data)
        if end - begin > 2 * PIECE_BYTES and (skip_element := skip()) is not None:
            end = find_page_end(data, begin, skip_element)
        if end < len(data):
            return data[begin:end], b"%s%d%s%d" % (_PIECE, number, _OFFSET, end)
        self._last = _NO_PIECE
        following = number + 1
        if following < values.pieces:
            return data[begin:], b"%s%d%s0" % (_PIECE, following, _OFFSET)
        return data[begin:], b""

    def _get_skip_function(self, transform_id: str, tag: str, part: str) -> Skip | None:
        if part != "group":
            return self._coders.get_skip_function(transform_id, tag, part)
        key = self._coders.get_skip_function(transform_id, tag, "key")
        value = self._coders.get_skip_function(transform_id, tag, "value")
        return (
            None
            if key is None or value is None
            else make_sequence_skip_function((key, make_counted_skip_function(value)))
        )


def _read_iterable(reader: SideInputReader, key: beam_fn_api_pb2.StateKey) -> bytes | ValuePieces:
    place = key.iterable_side_input
    return reader.read_iterable(place.transform_id, place.side_input_id, place.window)


def _read_multimap_values(
    reader: SideInputReader, key: beam_fn_api_pb2.StateKey
) -> bytes | ValuePieces:
    place = key.multimap_side_input
    return reader.read_values(place.transform_id, place.side_input_id, place.window, place.key)


def _read_multimap_keys(
    reader: SideInputReader, key: beam_fn_api_pb2.StateKey
) -> bytes | ValuePieces:
    place = key.multimap_keys_side_input
    return reader.read_keys(place.transform_id, place.side_input_id, place.window)


def _read_multimap_groups(
    reader: SideInputReader, key: beam_fn_api_pb2.StateKey
) -> bytes | ValuePieces:
    place = key.multimap_keys_values_side_input
    return reader.read_groups(place.transform_id, place.side_input_id, place.window)


_Read = Callable[[SideInputReader, beam_fn_api_pb2.StateKey], bytes | ValuePieces]
_READERS: dict[str, tuple[_Read, str]] = {
    "iterable_side_input": (_read_iterable, "element"),
    "multimap_side_input": (_read_multimap_values, "value"),
    "multimap_keys_side_input": (_read_multimap_keys, "key"),
    "multimap_keys_values_side_input": (_read_multimap_groups, "group"),
}
