"""Tests that every kind of state request reads and changes the right state cell."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from apache_beam.portability.api import beam_fn_api_pb2, beam_runner_api_pb2
from beam_runner_model.chunks import InputChunk, StageTimer, StateCell
from beam_runner_model.value_pieces import PIECE_BYTES
from toy_state import ToyState

from beam_runner_worker.errors import BundleError, HarnessError, TimerRefused
from beam_runner_worker.fnapi.bundle_state import BundleStateStores
from beam_runner_worker.fnapi.side_inputs import (
    SideInputCoders,
    SideInputPages,
    UnsupportedStateRequest,
)
from beam_runner_worker.fnapi.state_coders import StateCoders
from beam_runner_worker.fnapi.user_state import UserStateCells, is_user_state_key

STRING, OPAQUE = "beam:coder:string_utf8:v1", "beam:coder:mine"
CELL = StateCell("t", "s", b"w", b"\x01k")
SIGN = 1 << 63


def coders_of(**spec: Any) -> StateCoders:
    coders = {
        name: beam_runner_api_pb2.Coder(spec=beam_runner_api_pb2.FunctionSpec(urn=urn))
        for name, urn in (("string", STRING), ("opaque", OPAQUE))
    }
    return StateCoders({("t", "s"): beam_runner_api_pb2.StateSpec(**spec)}, coders)


def key(kind: str, **fields: Any) -> beam_fn_api_pb2.StateKey:
    place = {"transform_id": "t", "user_state_id": "s", "window": b"w", "key": b"\x01k"}
    return beam_fn_api_pb2.StateKey(**{kind: place | fields})


def read_all(cells: UserStateCells, state_key: beam_fn_api_pb2.StateKey) -> list[bytes]:
    found, token = [], b""
    while True:
        data, token = cells.read_page(state_key, token)
        found.append(data)
        if not token:
            return found


BAG = key("bag_user_state")
KEYS = key("multimap_keys_user_state")
ENTRIES = key("multimap_entries_user_state")
ALL_ORDERED = key("ordered_list_user_state")


def of_map_key(map_key: bytes) -> beam_fn_api_pb2.StateKey:
    return key("multimap_user_state", map_key=map_key)


def ordered(start: int, end: int) -> beam_fn_api_pb2.StateKey:
    return key("ordered_list_user_state", range={"start": start, "end": end})


def test_bag_state_is_appended_and_cleared():
    state = ToyState()
    cells = UserStateCells(state, coders_of())
    cells.append_elements(BAG, b"\x01a\x01b")
    cells.append_elements(BAG, b"\x01c")
    assert read_all(cells, BAG) == [b"\x01a\x01b\x01c"]
    assert set(state.bags) == {CELL}
    cells.clear_cell(BAG)
    assert read_all(cells, BAG) == [b""]


def test_multimap_state_is_read_by_key():
    cells = UserStateCells(ToyState(), coders_of())
    cells.append_elements(of_map_key(b"\x01x"), b"\x01a")
    cells.append_elements(of_map_key(b"\x01y"), b"")
    cells.append_elements(of_map_key(b"\x01x"), b"\x01b")
    assert read_all(cells, KEYS) == [b"\x01x\x01y"]
    assert read_all(cells, of_map_key(b"\x01x")) == [b"\x01a\x01b"]
    assert read_all(cells, of_map_key(b"\x01z")) == [b""]
    cells.clear_cell(of_map_key(b"\x01x"))
    assert read_all(cells, KEYS) == [b"\x01y"]
    with pytest.raises(UnsupportedStateRequest, match="appended keys without values"):
        cells.append_elements(KEYS, b"\x01z")
    cells.clear_cell(KEYS)
    assert read_all(cells, KEYS) == [b""]


def filled(coders: StateCoders) -> UserStateCells:
    cells = UserStateCells(ToyState(), coders)
    cells.append_elements(of_map_key(b"\x01x"), b"\x01a\x01b")
    cells.append_elements(of_map_key(b"\x01y"), b"\x01c")
    return cells


def test_multimap_entries_are_pairs_of_key_and_iterable():
    known = coders_of(multimap_spec={"key_coder_id": "string", "value_coder_id": "string"})
    expected = b"\x01x\0\0\0\x02\x01a\x01b\x01y\0\0\0\x01\x01c"
    assert read_all(filled(known), ENTRIES) == [expected]
    cells = filled(known)
    cells.clear_cell(ENTRIES)
    assert read_all(cells, KEYS) == [b""]


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (
            {"map_spec": {"key_coder_id": "string", "value_coder_id": "opaque"}},
            b"\x01x\0\0\0\x01\x01a\x01b\x01y\0\0\0\x01\x01c",
        ),
        (
            {"set_spec": {"element_coder_id": "string"}},
            b"\x01x\0\0\0\x01\x01a\x01b\x01y\0\0\0\x01\x01c",
        ),
    ],
    ids=["map", "set"],
)
def test_map_and_set_state_has_one_value_per_key(spec: dict[str, Any], expected: bytes):
    assert read_all(filled(coders_of(**spec)), ENTRIES) == [expected]


@pytest.mark.parametrize(("key_coder", "value_coder"), [("string", "opaque"), ("opaque", "string")])
def test_multimap_entries_that_cannot_be_counted_are_refused(key_coder: str, value_coder: str):
    unknown = coders_of(multimap_spec={"key_coder_id": key_coder, "value_coder_id": value_coder})
    with pytest.raises(UnsupportedStateRequest, match="Can't read the entries"):
        filled(unknown).read_page(ENTRIES, b"")


def test_ordered_list_state_is_read_and_cleared_by_range():
    state = ToyState()
    cells = UserStateCells(state, coders_of())
    least, entry = b"\x80" * 9 + b"\x01", b"\x03abc"
    cells.append_elements(ALL_ORDERED, b"\x07" + entry + least + b"\0" + b"\x05\x01x")
    assert state.lists[CELL] == [(7, b"abc"), (-SIGN, b""), (5, b"x")]
    assert read_all(cells, ALL_ORDERED) == [least + b"\0" + b"\x05\x01x\x07" + entry]
    assert read_all(cells, ordered(5, 7)) == [b"\x05\x01x"]
    assert read_all(cells, ordered(-SIGN, SIGN - 1)) == read_all(cells, ALL_ORDERED)
    cells.clear_cell(ordered(-SIGN, 6))
    assert read_all(cells, ALL_ORDERED) == [b"\x07" + entry]
    cells.clear_cell(ALL_ORDERED)
    assert read_all(cells, ALL_ORDERED) == [b""]


VALUE = b"\xe8\x07" + b"x" * 1000


@pytest.mark.parametrize(
    ("spec", "paged"),
    [
        ({"bag_spec": {"element_coder_id": "string"}}, True),
        ({"combining_spec": {"accumulator_coder_id": "string"}}, True),
        ({"read_modify_write_spec": {"coder_id": "string"}}, True),
        ({"set_spec": {"element_coder_id": "string"}}, True),
        ({"bag_spec": {"element_coder_id": "opaque"}}, False),
        ({"bag_spec": {"element_coder_id": "missing"}}, False),
        ({}, False),
    ],
)
def test_state_pages_end_between_elements_if_coder_has_element_ends(
    spec: dict[str, Any], paged: bool
):
    state = ToyState()
    cells = UserStateCells(state, coders_of(**spec))
    cells.append_elements(BAG, VALUE * 5000)
    pages = read_all(cells, BAG)
    assert b"".join(pages) == VALUE * 5000
    assert len(pages) == (5 if paged else 1)
    assert all(len(page) % len(VALUE) == 0 for page in pages)
    assert not paged or max(map(len, pages)) < PIECE_BYTES + len(VALUE)
    assert state.gets == 1


def test_multimap_entries_and_ordered_lists_are_paged():
    spec = coders_of(multimap_spec={"key_coder_id": "string", "value_coder_id": "string"})
    cells = UserStateCells(ToyState(), spec)
    for number in range(10):
        cells.append_elements(of_map_key(b"\x01%d" % number), VALUE * 500)
    assert len(read_all(cells, ENTRIES)) == 4
    assert len(read_all(cells, of_map_key(b"\x011"))) == 1
    cells.append_elements(ALL_ORDERED, (b"\x01" + VALUE) * 5000)
    assert len(read_all(cells, ALL_ORDERED)) == 5


def test_repeated_state_read_returns_current_values():
    cells = UserStateCells(ToyState(), coders_of(bag_spec={"element_coder_id": "string"}))
    cells.append_elements(BAG, VALUE * 2000)
    first, token = cells.read_page(BAG, b"")
    cells.append_elements(BAG, VALUE)
    assert first + cells.read_page(BAG, token)[0] == VALUE * 2000
    cells.read_page(BAG, b"")
    cells.clear_cell(BAG)
    cells.append_elements(BAG, b"\x01a")
    assert read_all(cells, BAG) == [b"\x01a"]


def test_state_keys_of_unknown_kind_are_refused():
    assert is_user_state_key(BAG)
    assert not is_user_state_key(beam_fn_api_pb2.StateKey())
    for field in beam_fn_api_pb2.StateKey.DESCRIPTOR.oneofs_by_name["type"].fields:
        state_key = beam_fn_api_pb2.StateKey()
        getattr(state_key, field.name).SetInParent()
        assert is_user_state_key(state_key) == field.name.endswith("_user_state")


class NoSideInputs:
    def get_version(self, transform_id: str, tag: str) -> int:
        return 0

    def read_iterable(self, transform_id: str, tag: str, window: bytes) -> bytes:
        raise OSError("the file is gone")


def bundle_state(state: ToyState | None) -> BundleStateStores:
    coders = SideInputCoders(beam_fn_api_pb2.ProcessBundleDescriptor())
    pages = SideInputPages(NoSideInputs(), coders)  # type: ignore[arg-type]
    return BundleStateStores(pages, state, coders_of())


def request(kind: str, state_key: beam_fn_api_pb2.StateKey) -> beam_fn_api_pb2.StateRequest:
    asked = beam_fn_api_pb2.StateRequest(id="7", state_key=state_key)
    getattr(asked, kind).SetInParent()
    return asked


@pytest.mark.parametrize("kind", ["get", "append", "clear"])
def test_state_requests_get_matching_response(kind: str):
    answer = bundle_state(ToyState()).answer_request(request(kind, BAG), pytest.fail)
    assert (answer.id, answer.WhichOneof("response"), answer.error) == ("7", kind, "")


def test_state_request_error_of_runner_fails_bundle_unchanged():
    failures: list[Exception] = []
    answer = bundle_state(None).answer_request(request("append", BAG), failures.append)
    assert "runs without user state" in answer.error
    assert [type(failure) for failure in failures] == [HarnessError]
    given = bundle_state(ToyState())
    side = beam_fn_api_pb2.StateKey(iterable_side_input={"side_input_id": "i"})
    assert (
        "OSError: the file is gone"
        in given.answer_request(request("get", side), failures.append).error
    )
    assert "append iterable" in given.answer_request(request("append", side), failures.append).error
    group = beam_fn_api_pb2.StateKey(runner={"key": b"x"})
    assert "no group b'x'" in given.answer_request(request("get", group), failures.append).error
    unknown = beam_fn_api_pb2.StateKey()
    assert "'unknown'" in given.answer_request(request("get", unknown), failures.append).error
    assert [type(failure) for failure in failures] == [HarnessError, OSError, LookupError]


class Slow(ToyState):
    """A slow state that records the threads inside its methods."""

    def __init__(self) -> None:
        super().__init__()
        self.inside = 0
        self.most = 0

    def _visit(self) -> None:
        self.inside += 1
        self.most = max(self.most, self.inside)
        threading.Event().wait(0.002)
        self.inside -= 1

    def append_to_bag(self, cell: StateCell, values: bytes) -> None:
        self._visit()

    def set_timer(self, timer: StageTimer) -> None:
        self._visit()

    def pulled(self) -> Iterator[InputChunk]:
        for _ in range(20):
            self._visit()
            yield from ()


def test_user_state_is_accessed_by_one_thread_at_a_time():
    state = Slow()
    shared = bundle_state(state)
    timer = StageTimer("t", "f", "", b"k", (b"",), 1, 1, b"\x0f")

    def append() -> None:
        for _ in range(20):
            shared.answer_request(request("append", BAG), pytest.fail)

    def ring() -> None:
        for _ in range(20):
            shared.set_timer(timer)

    threads = [
        threading.Thread(target=each)
        for each in (
            append,
            ring,
            lambda: list(shared.read_chunks_between_requests(state.pulled())),
        )
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert state.most == 1


def test_timer_refused_by_runner_is_error_of_user_code() -> None:
    class Refusing(ToyState):
        def set_timer(self, timer: StageTimer) -> None:
            raise TimerRefused("not now")

    state = BundleStateStores(SideInputPages(None, {}), Refusing(), StateCoders({}, {}))  # type: ignore[arg-type]
    with pytest.raises(BundleError, match="TimerRefused: not now") as raised:
        state.set_timer(StageTimer("t", "f", "", b"k", (b"w",), 1, 1, b""))
    assert raised.value.transform == "t"
