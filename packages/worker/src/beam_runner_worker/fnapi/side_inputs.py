"""Answers a bundle's reads of side inputs, a page of about 1 MiB at a time.

Pages end between elements, for SDKs decode every page by itself. Where the coder does not show
the ends of elements, all is one page. A continuation token is the place where the next page
begins, so a page can be read again; what is being paged is kept, the last few only.
"""

from __future__ import annotations

import struct
from collections import OrderedDict
from collections.abc import Callable, Mapping

from beam_runner_urns import coders as coder_urns

from beam_runner_worker._protos import beam_fn_api_pb2, beam_runner_api_pb2
from beam_runner_worker.fnapi.skipping import Skip, UnknownCoder, compile_skip
from beam_runner_worker.ports import SideInputReader

PAGE_BYTES = 1 << 20
_PAGED_AT_ONCE = 4
_COUNT = struct.Struct(">i")


class UnsupportedState(Exception):
    """A state request of a kind that this runner does not serve; the text names it."""


class SideInputCoders:
    """Finds the ends of elements, keys and values of the side inputs of one stage.

    Args:
        descriptor: the stage's.
    """

    def __init__(self, descriptor: beam_fn_api_pb2.ProcessBundleDescriptor) -> None:
        self._descriptor = descriptor
        self._skips: dict[tuple[str, str, str], Skip | None] = {}

    def skip(self, transform_id: str, tag: str, part: str) -> Skip | None:
        """Skips an ``element``, ``key`` or ``value`` of a side input; None if it can't be told."""
        place = (transform_id, tag, part)
        if place not in self._skips:
            self._skips[place] = self._compile(*place)
        return self._skips[place]

    def _compile(self, transform_id: str, tag: str, part: str) -> Skip | None:
        coders: Mapping[str, beam_runner_api_pb2.Coder] = self._descriptor.coders
        pcollection = self._descriptor.transforms[transform_id].inputs[tag]
        coder_id = self._descriptor.pcollections[pcollection].coder_id
        if coders[coder_id].spec.urn == coder_urns.WINDOWED_VALUE:
            coder_id = coders[coder_id].component_coder_ids[0]
        try:
            if part == "element":
                return compile_skip(coder_id, coders)
            coder = coders[coder_id]
            if coder.spec.urn != coder_urns.KV:
                return None
            return compile_skip(coder.component_coder_ids[part == "value"], coders)
        except UnknownCoder:
            return None


class SideInputPages:
    """The side inputs of one stage as one bundle reads them; for one thread at a time.

    Args:
        reader: where the bytes are.
        coders: of the same stage.
    """

    def __init__(self, reader: SideInputReader, coders: SideInputCoders) -> None:
        self._reader = reader
        self._coders = coders
        self._kept: OrderedDict[bytes, bytes] = OrderedDict()

    def page(self, key: beam_fn_api_pb2.StateKey, token: bytes) -> tuple[bytes, bytes]:
        """A page of what ``key`` names, and the token of the next one (empty after the last).

        Raises:
            UnsupportedState: the key is not one of a side input.
        """
        kind = key.WhichOneof("type") or "unknown"
        if kind not in _READERS:
            raise UnsupportedState(
                f"state requests of the kind {kind!r} are not supported by this runner"
            )
        read, part = _READERS[kind]
        begin = int(token) if token else 0
        name = key.SerializeToString()
        data = self._kept.pop(name, None)
        if data is None:
            data = bytes(read(self._reader, key))
        if len(data) - begin <= PAGE_BYTES:
            return data[begin:], b""
        place = getattr(key, kind)
        skip = self._skip(place.transform_id, place.side_input_id, part)
        end = len(data) if skip is None else _page_end(data, begin, skip)
        if end >= len(data):
            return data[begin:], b""
        self._kept[name] = data
        if len(self._kept) > _PAGED_AT_ONCE:
            self._kept.popitem(last=False)
        return data[begin:end], b"%d" % end

    def _skip(self, transform_id: str, tag: str, part: str) -> Skip | None:
        if part != "group":
            return self._coders.skip(transform_id, tag, part)
        key = self._coders.skip(transform_id, tag, "key")
        value = self._coders.skip(transform_id, tag, "value")
        return None if key is None or value is None else _group_skip(key, value)


def _page_end(data: bytes, begin: int, skip: Skip) -> int:
    end, wanted, size = begin, begin + PAGE_BYTES, len(data)
    while end < wanted and end < size:
        end = skip(data, end)
    return end


def _group_skip(key: Skip, value: Skip) -> Skip:
    def skip(data: bytes, position: int) -> int:
        position = key(data, position)
        count: int = _COUNT.unpack_from(data, position)[0]
        position += _COUNT.size
        for _ in range(count):
            position = value(data, position)
        return position

    return skip


def _iterable(reader: SideInputReader, key: beam_fn_api_pb2.StateKey) -> bytes:
    place = key.iterable_side_input
    return reader.iterable(place.transform_id, place.side_input_id, place.window)


def _multimap(reader: SideInputReader, key: beam_fn_api_pb2.StateKey) -> bytes:
    place = key.multimap_side_input
    return reader.values(place.transform_id, place.side_input_id, place.window, place.key)


def _multimap_keys(reader: SideInputReader, key: beam_fn_api_pb2.StateKey) -> bytes:
    place = key.multimap_keys_side_input
    return reader.keys(place.transform_id, place.side_input_id, place.window)


def _multimap_groups(reader: SideInputReader, key: beam_fn_api_pb2.StateKey) -> bytes:
    """Every key with an iterable of its values, as ``KV<K, Iterable<V>>``."""
    place = key.multimap_keys_values_side_input
    parts: list[bytes] = []
    for each, count, values in reader.groups(place.transform_id, place.side_input_id, place.window):
        parts += (each, _COUNT.pack(count), values)
    return b"".join(parts)


_READERS: dict[str, tuple[Callable[[SideInputReader, beam_fn_api_pb2.StateKey], bytes], str]] = {
    "iterable_side_input": (_iterable, "element"),
    "multimap_side_input": (_multimap, "value"),
    "multimap_keys_side_input": (_multimap_keys, "key"),
    "multimap_keys_values_side_input": (_multimap_groups, "group"),
}
