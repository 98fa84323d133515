"""Tests that side inputs are returned in pages that end between elements."""

from __future__ import annotations

import pytest
from apache_beam.portability.api import beam_fn_api_pb2, beam_runner_api_pb2
from beam_runner_model.value_pieces import PIECE_BYTES
from pieces import Pieces

from beam_runner_worker.fnapi.side_inputs import (
    SideInputCoders,
    SideInputPages,
    UnsupportedStateRequest,
)

PREFIX, KV, OPAQUE = "beam:coder:length_prefix:v1", "beam:coder:kv:v1", "beam:coder:mine"
ELEMENT = b"\xe8\x07" + b"x" * 1000
COUNT = 5000


class Reader:
    """A reader with the same values for every request, and with counted requests."""

    def __init__(self) -> None:
        self.reads = 0

    def get_version(self, transform_id: str, tag: str) -> int:
        return 0

    def read_iterable(self, transform_id: str, tag: str, window: bytes) -> bytes:
        self.reads += 1
        return ELEMENT * COUNT

    def read_values(self, transform_id: str, tag: str, window: bytes, key: bytes) -> bytes:
        self.reads += 1
        return key * 0 + ELEMENT * COUNT

    def read_keys(self, transform_id: str, tag: str, window: bytes) -> bytes:
        return b"\x01a\x01b"

    def read_groups(self, transform_id: str, tag: str, window: bytes) -> bytes:
        group = COUNT.to_bytes(4) + ELEMENT * COUNT
        return b"\x01a" + group + b"\x01b" + group + b"\x01c" + bytes(4)


def pages_of(coder_urn: str = PREFIX) -> tuple[Reader, SideInputPages]:
    descriptor = beam_fn_api_pb2.ProcessBundleDescriptor()
    descriptor.transforms["t"].inputs["side"] = "pc"
    descriptor.transforms["t"].inputs["pairs"] = "kvs"
    descriptor.pcollections["pc"].coder_id = "element"
    descriptor.pcollections["kvs"].coder_id = "kv"
    descriptor.coders["element"].spec.urn = coder_urn
    descriptor.coders["kv"].CopyFrom(
        beam_runner_api_pb2.Coder(
            spec=beam_runner_api_pb2.FunctionSpec(urn=KV),
            component_coder_ids=["element", "element"],
        )
    )
    reader = Reader()
    return reader, SideInputPages(reader, SideInputCoders(descriptor))


def pieces_of(values: Pieces, coder_urn: str = PREFIX) -> SideInputPages:
    reader, pages = pages_of(coder_urn)
    reader.read_iterable = lambda *_: values  # type: ignore[assignment, method-assign]
    return pages


def key(kind: str, **fields: str | bytes) -> beam_fn_api_pb2.StateKey:
    state_key = beam_fn_api_pb2.StateKey()
    getattr(state_key, kind).transform_id = "t"
    for name, value in fields.items():
        setattr(getattr(state_key, kind), name, value)
    return state_key


def read_all(pages: SideInputPages, state_key: beam_fn_api_pb2.StateKey) -> list[bytes]:
    found, token = [], b""
    while True:
        data, token = pages.read_page(state_key, token)
        found.append(data)
        if not token:
            return found


@pytest.mark.parametrize(
    "state_key",
    [
        key("iterable_side_input", side_input_id="side"),
        key("multimap_side_input", side_input_id="pairs", key=b"k"),
    ],
    ids=["iterable", "multimap"],
)
def test_side_input_elements_arrive_in_pages(state_key: beam_fn_api_pb2.StateKey):
    reader, pages = pages_of()
    found = read_all(pages, state_key)
    assert b"".join(found) == ELEMENT * COUNT
    assert len(found) == 5
    assert all(len(page) % len(ELEMENT) == 0 for page in found)
    assert all(len(page) < PIECE_BYTES + len(ELEMENT) for page in found)
    assert reader.reads == 1


def test_side_input_page_can_be_read_again():
    _, pages = pages_of()
    state_keys = [
        key("multimap_side_input", side_input_id="pairs", key=bytes([i])) for i in range(20)
    ]
    first = [pages.read_page(state_key, b"") for state_key in state_keys]
    second = [pages.read_page(k, token) for k, (_, token) in zip(state_keys, first, strict=True)]
    assert {data for data, _ in second} == {first[0][0]}


def test_parts_of_large_side_input_are_read_one_by_one():
    values = Pieces(ELEMENT * 3, ELEMENT * COUNT, ELEMENT)
    pages = pieces_of(values)
    state_key = key("iterable_side_input", side_input_id="side")
    first, token = pages.read_page(state_key, b"")
    assert (first, values.read) == (ELEMENT * 3, [0])
    found = read_all(pages, state_key)
    assert b"".join(found) == ELEMENT * (3 + COUNT + 1)
    assert all(len(page) < 2 * PIECE_BYTES + len(ELEMENT) for page in found)
    assert values.read == [0, 0, 1, 2], "a large piece is split and read once"
    again, _ = pages.read_page(state_key, token)
    assert again == found[1]


def test_side_input_parts_without_element_ends_become_pages():
    values = Pieces(ELEMENT * COUNT, ELEMENT)
    found = read_all(pieces_of(values, OPAQUE), key("iterable_side_input", side_input_id="side"))
    assert found == [ELEMENT * COUNT, ELEMENT]


def test_parts_of_large_side_input_can_be_read_concurrently():
    pages = pieces_of(Pieces(ELEMENT, ELEMENT))
    state_keys = [
        key("iterable_side_input", side_input_id="side", window=bytes([i])) for i in range(40)
    ]
    tokens = [pages.read_page(state_key, b"")[1] for state_key in state_keys]
    for state_key, token in zip(state_keys, tokens, strict=True):
        assert pages.read_page(state_key, token) == (ELEMENT, b"")


def test_empty_side_input_is_one_empty_page():
    pages = pieces_of(Pieces())
    assert read_all(pages, key("iterable_side_input", side_input_id="side")) == [b""]


def test_side_input_elements_without_end_marker_fit_one_page():
    _, pages = pages_of(OPAQUE)
    assert read_all(pages, key("iterable_side_input", side_input_id="side")) == [ELEMENT * COUNT]


def test_side_input_groups_are_pairs_of_key_and_iterable():
    _, pages = pages_of()
    found = read_all(pages, key("multimap_keys_values_side_input", side_input_id="pairs"))
    count = COUNT.to_bytes(4, "big")
    group = count + ELEMENT * COUNT
    assert b"".join(found) == b"\x01a" + group + b"\x01b" + group + b"\x01c\0\0\0\0"
    assert len(found) == 3


def test_side_input_keys_are_listed():
    _, pages = pages_of()
    assert read_all(pages, key("multimap_keys_side_input", side_input_id="pairs")) == [
        b"\x01a\x01b"
    ]


def test_state_key_that_is_no_side_input_is_refused_by_name():
    _, pages = pages_of()
    with pytest.raises(UnsupportedStateRequest, match="bag_user_state"):
        pages.read_page(key("bag_user_state", user_state_id="s"), b"")
