"""Side inputs are given out in pages that end between elements."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from apache_beam.portability.api import beam_fn_api_pb2, beam_runner_api_pb2

from beam_runner_worker.fnapi.side_inputs import (
    PAGE_BYTES,
    SideInputCoders,
    SideInputPages,
    UnsupportedState,
)

PREFIX, KV, OPAQUE = "beam:coder:length_prefix:v1", "beam:coder:kv:v1", "beam:coder:mine"
ELEMENT = b"\xe8\x07" + b"x" * 1000
COUNT = 5000


class Reader:
    """Holds the same values for every question, and counts the questions."""

    def __init__(self) -> None:
        self.reads = 0

    def iterable(self, transform_id: str, tag: str, window: bytes) -> bytes:
        self.reads += 1
        return ELEMENT * COUNT

    def values(self, transform_id: str, tag: str, window: bytes, key: bytes) -> bytes:
        self.reads += 1
        return key * 0 + ELEMENT * COUNT

    def keys(self, transform_id: str, tag: str, window: bytes) -> bytes:
        return b"\x01a\x01b"

    def groups(
        self, transform_id: str, tag: str, window: bytes
    ) -> Iterator[tuple[bytes, int, bytes]]:
        yield b"\x01a", COUNT, ELEMENT * COUNT
        yield b"\x01b", COUNT, ELEMENT * COUNT
        yield b"\x01c", 0, b""


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


def key(kind: str, **fields: str | bytes) -> beam_fn_api_pb2.StateKey:
    state_key = beam_fn_api_pb2.StateKey()
    getattr(state_key, kind).transform_id = "t"
    for name, value in fields.items():
        setattr(getattr(state_key, kind), name, value)
    return state_key


def read_all(pages: SideInputPages, state_key: beam_fn_api_pb2.StateKey) -> list[bytes]:
    found, token = [], b""
    while True:
        data, token = pages.page(state_key, token)
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
def test_elements_come_in_pages(state_key: beam_fn_api_pb2.StateKey):
    reader, pages = pages_of()
    found = read_all(pages, state_key)
    assert b"".join(found) == ELEMENT * COUNT
    assert len(found) == 5
    assert all(len(page) % len(ELEMENT) == 0 for page in found)
    assert all(len(page) < PAGE_BYTES + len(ELEMENT) for page in found)
    assert reader.reads == 1


def test_a_page_can_be_read_again_after_others():
    _, pages = pages_of()
    state_keys = [
        key("multimap_side_input", side_input_id="pairs", key=bytes([i])) for i in range(20)
    ]
    first = [pages.page(state_key, b"") for state_key in state_keys]
    second = [pages.page(k, token) for k, (_, token) in zip(state_keys, first, strict=True)]
    assert {data for data, _ in second} == {first[0][0]}


def test_elements_without_ends_come_in_one_page():
    _, pages = pages_of(OPAQUE)
    assert read_all(pages, key("iterable_side_input", side_input_id="side")) == [ELEMENT * COUNT]


def test_groups_are_pairs_of_key_and_iterable():
    _, pages = pages_of()
    found = read_all(pages, key("multimap_keys_values_side_input", side_input_id="pairs"))
    count = COUNT.to_bytes(4, "big")
    group = count + ELEMENT * COUNT
    assert b"".join(found) == b"\x01a" + group + b"\x01b" + group + b"\x01c\0\0\0\0"
    assert len(found) == 3


def test_keys():
    _, pages = pages_of()
    assert read_all(pages, key("multimap_keys_side_input", side_input_id="pairs")) == [
        b"\x01a\x01b"
    ]


def test_other_state_is_refused_by_name():
    _, pages = pages_of()
    with pytest.raises(UnsupportedState, match="bag_user_state"):
        pages.page(key("bag_user_state", user_state_id="s"), b"")
