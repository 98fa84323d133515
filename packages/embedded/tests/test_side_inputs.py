"""Tests that side inputs are read and decoded once per stage, by encoded key, and never as state."""

from __future__ import annotations

import collections
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.coders import coders
from apache_beam.internal import pickler
from apache_beam.transforms import window
from beam_runner_model.chunks import ElementChunk
from beam_runner_worker.errors import HarnessError
from mini_runner import IMPULSE, EmptyArtifacts, Logs, Plan, Port, job
from pieces import Pieces

from beam_runner_embedded import side_inputs
from beam_runner_embedded._protos import beam_fn_api_pb2
from beam_runner_embedded.harness import EmbeddedHarness
from beam_runner_embedded.side_inputs import IterableView, MultimapView
from beam_runner_embedded.state_handler import StateHandler

ANY = coders.FastPrimitivesCoder().get_impl()
PLACE = ("transform", "tag", b"")
SEEN: list[Any] = []


class Reader:
    """Side inputs in memory, with counted reads."""

    def __init__(self, values: list[Any], by_key: dict[Any, list[Any]] | None = None) -> None:
        self.data = b"".join(map(ANY.encode_nested, values))
        self.by_key = {
            ANY.encode_nested(key): b"".join(map(ANY.encode_nested, of_key))
            for key, of_key in (by_key or {}).items()
        }
        self.calls: collections.Counter[Any] = collections.Counter()
        self.now = 1

    def get_version(self, transform_id: str, tag: str) -> int:
        return self.now

    def read_iterable(self, transform_id: str, tag: str, window: bytes) -> bytes:
        self.calls["iterable"] += 1
        return self.data

    def read_values(self, transform_id: str, tag: str, window: bytes, key: bytes) -> bytes:
        self.calls[key] += 1
        return self.by_key.get(key, b"")

    def read_keys(self, transform_id: str, tag: str, window: bytes) -> bytes:
        raise AssertionError("unexpected call")

    def read_groups(self, *_: Any) -> bytes:
        raise AssertionError("unexpected call")


def test_iterable_side_input_is_read_once_on_first_use() -> None:
    reader = Reader([1, "a", None])
    view = IterableView(StateHandler(reader, "stage"), PLACE, ANY)
    assert reader.calls["iterable"] == 0
    assert list(view) == list(view) == [1, "a", None]
    assert reader.calls["iterable"] == 1
    assert pickler.loads(pickler.dumps(view)) == [1, "a", None]
    assert list(ANY.decode(ANY.encode(view))) == [1, "a", None]


def test_large_iterable_side_input_is_decoded_lazily(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(side_inputs, "KEPT_BYTES", 10)
    reader = Reader(list(range(100)))
    view = IterableView(StateHandler(reader, "stage"), PLACE, ANY)
    assert list(view) == list(view) == list(range(100))
    assert isinstance(view._values, side_inputs.LazyValues)
    assert reader.calls["iterable"] == 1


def pieces_of(*pieces: list[Any]) -> Pieces:
    return Pieces(*(b"".join(map(ANY.encode_nested, piece)) for piece in pieces))


def test_decoded_parts_of_small_side_input_are_cached() -> None:
    reader = Reader([])
    pieces = pieces_of([1, "a"], [None])
    reader.data = pieces  # type: ignore[assignment]
    view = IterableView(StateHandler(reader, "stage"), PLACE, ANY)
    assert list(view) == list(view) == [1, "a", None]
    assert len(pieces.read) == 2
    assert view.kept_bytes == len(pieces)


def test_parts_of_large_side_input_are_read_on_each_iteration(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(side_inputs, "KEPT_BYTES", 10)
    reader = Reader([])
    pieces = pieces_of(list(range(50)), list(range(50, 100)))
    reader.data = pieces  # type: ignore[assignment]
    view = IterableView(StateHandler(reader, "stage"), PLACE, ANY)
    assert next(iter(view)) == 0
    assert len(pieces.read) == 1
    assert list(view) == list(view) == list(range(100))
    assert len(pieces.read) == 5
    assert view.kept_bytes == 0


def test_side_input_error_during_lazy_read_is_runner_error() -> None:
    reader = Reader([])
    pieces = pieces_of([1])
    pieces.piece = lambda number: 1 / 0  # type: ignore[assignment, method-assign, return-value]
    reader.data = pieces  # type: ignore[assignment]
    handler = StateHandler(reader, "stage")
    with pytest.raises(ZeroDivisionError):
        list(IterableView(handler, PLACE, ANY))
    assert isinstance(handler.errors.first, ZeroDivisionError)


def test_multimap_side_input_is_read_by_encoded_key() -> None:
    reader = Reader([], {1: ["int"], "a": [1, 2]})
    reader.by_key[ANY.encode_nested(True)] = ANY.encode_nested("bool")
    reader.by_key[ANY.encode_nested([1])] = ANY.encode_nested("list")
    view = MultimapView(StateHandler(reader, "stage"), PLACE, ANY, ANY)
    for _ in range(2):
        assert view[1] == ["int"]
        assert view[True] == ["bool"]
        assert view[1.0] == []
        assert view["a"] == [1, 2]
        assert view[[1]] == ["list"]
    assert set(reader.calls.values()) == {1}
    with pytest.raises(TypeError, match="can't be pickled"):
        pickler.dumps(view)


def test_multimap_side_input_caches_limited_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(side_inputs, "KEPT_BYTES", 1000)
    reader = Reader([], {key: ["v" * 100] for key in range(100)})
    view = MultimapView(StateHandler(reader, "stage"), PLACE, ANY, ANY)
    for _ in range(2):
        assert all(view[key] == ["v" * 100] for key in range(100))
    assert len(view._known) < 15
    assert view.kept_bytes < 1300


def one_stage(transform: Any, reader: Any) -> tuple[EmbeddedHarness, Any, dict[str, Port]]:
    pipeline = beam.Pipeline()
    side = pipeline | "side" >> beam.Impulse()
    pipeline | "main" >> beam.Impulse() | transform(side)
    plan = Plan(pipeline)
    planned = next(stage for stage in plan.stages if stage.side_inputs)
    harness = EmbeddedHarness(job(), EmptyArtifacts(), Logs())
    ports = {name: Port() for name in planned.output_buffers}
    return harness, harness.get_stage_harness(planned.spec, reader), ports


class BytesReader(Reader):
    def __init__(self) -> None:
        super().__init__([])
        impl = coders.BytesCoder().get_impl()
        self.data = b"".join(map(impl.encode_nested, [b"ab", b"cd"]))


def look(element: bytes, pairs: Any) -> None:
    SEEN.append(pairs)


def look_per_window(element: bytes, pairs: Any, w: Any = beam.DoFn.WindowParam) -> None:
    SEEN.append(pairs)


@pytest.mark.parametrize("function", [look, look_per_window])
def test_side_input_views_are_built_once_for_many_bundles(function: Any) -> None:
    SEEN.clear()
    reader = BytesReader()
    harness, stage, ports = one_stage(
        lambda side: beam.Map(function, beam.pvalue.AsDict(side)), reader
    )
    for _ in range(3):
        stage.process_bundle("b", [ElementChunk(2, IMPULSE * 2)], ports)
    harness.close()
    assert SEEN == [{97: 98, 99: 100}] * 6
    assert len({id(view) for view in SEEN}) == 1
    assert reader.calls["iterable"] == 1


def test_changed_side_input_is_read_again_by_next_bundle() -> None:
    SEEN.clear()
    reader = BytesReader()
    harness, stage, ports = one_stage(lambda side: beam.Map(look, beam.pvalue.AsDict(side)), reader)
    for version in (1, 1, 2, 2, 3):
        reader.now = version
        stage.process_bundle("b", [ElementChunk(2, IMPULSE * 2)], ports)
    harness.close()
    assert reader.calls["iterable"] == 3
    assert [id(a) == id(b) for a, b in zip(SEEN[1:], SEEN, strict=False)] == [
        *(True, True, True),
        *(False, True, True, True),
        *(False, True),
    ]


def test_excess_side_input_views_are_dropped_between_bundles(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(side_inputs, "KEPT_VIEWS", 3)
    reader = BytesReader()
    data = beam.pvalue.SideInputData("beam:side_input:iterable:v1", lambda w: w, list)
    coder = coders.WindowedValueCoder(coders.BytesCoder(), coders.IntervalWindowCoder())
    views = side_inputs.SideInputMap(StateHandler(reader, "stage"), "t", "tag", data, coder)
    windows = [window.IntervalWindow(i, i + 1) for i in range(4)]
    for asked, expected in ((windows[:3], 3), (windows[:3], 3), (windows, 4), (windows, 8)):
        for w in asked:
            assert views[w] == [b"ab", b"cd"]
        assert reader.calls["iterable"] == expected
        views.reset()


def test_main_input_windows_are_mapped_to_side_input_windows_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(side_inputs, "KEPT_VIEWS", 3)
    asked: list[Any] = []

    def mapping(main_window: Any) -> Any:
        asked.append(main_window)
        return window.IntervalWindow(0, 10)

    reader = BytesReader()
    data = beam.pvalue.SideInputData("beam:side_input:iterable:v1", mapping, list)
    coder = coders.WindowedValueCoder(coders.BytesCoder(), coders.IntervalWindowCoder())
    views = side_inputs.SideInputMap(StateHandler(reader, "stage"), "t", "tag", data, coder)
    windows = [window.IntervalWindow(i, i + 1) for i in range(4)]
    for w in (*windows[:3], *windows[:3], windows[3], windows[3], windows[0]):
        assert views[w] == [b"ab", b"cd"]
    assert asked == [*windows, windows[0]]
    assert reader.calls["iterable"] == 1
    reader.now += 1
    reader.data = b""
    views.reset()
    assert views[windows[0]] == views[windows[1]] == []


def test_state_request_for_side_input_is_refused_by_name() -> None:
    key = beam_fn_api_pb2.StateKey(
        bag_user_state=beam_fn_api_pb2.StateKey.BagUserState(transform_id="Stateful")
    )
    handler = StateHandler(Reader([]), "stage")
    for ask in (
        lambda: handler.blocking_get(key, ANY),
        lambda: handler.extend(key, ANY, []),
        lambda: handler.clear(key),
    ):
        with pytest.raises(HarnessError, match="Stateful requested state of the kind bag_user"):
            ask()
