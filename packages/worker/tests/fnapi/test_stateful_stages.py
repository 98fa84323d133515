"""Tests that user code over the Fn API reads the state that it wrote, by key and window, and that
the runner stores this state.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import apache_beam as beam
import desk as desk_module
import pytest
from apache_beam import coders
from apache_beam.coders import coders as beam_coders
from apache_beam.runners.worker import sdk_worker
from apache_beam.transforms import userstate, window
from apache_beam.utils.timestamp import Timestamp
from beam_runner_model.chunks import StateCell
from beam_runner_model.value_pieces import PIECE_BYTES
from desk import Desk
from named_windows import NamedWindows
from tiny_host import Rows, new_pipeline, pickle_by_value
from toy_state import StatefulHost, ToyState

from beam_runner_worker.errors import BundleError

pytestmark = pytest.mark.timeout(120)
pickle_by_value(__name__)
pickle_by_value(desk_module.__name__)

VARINT = coders.VarIntCoder()


class Steps(beam.DoFn):
    """A DoFn whose elements are pairs of a key and a step. It runs the step and records the result."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk

    def note(self, key: object, *found: object) -> None:
        self.desk.record_and_wait(" ".join(map(str, (key, *found))))


def run(
    dofn: beam.DoFn, steps: Iterable[tuple[str, Any]], serve: Any, *, one_by_one: bool = False
) -> StatefulHost:
    """Runs all steps, in one bundle or in one bundle each."""
    p = new_pipeline()
    steps = p | beam.Impulse() | beam.FlatMap(lambda _, all=list(steps): all)
    keyed = steps | beam.Map(lambda step: step).with_output_types(tuple[str, Any])
    keyed | "Steps" >> beam.ParDo(dofn)
    host = StatefulHost(p, one_by_one=one_by_one)
    host.run(serve(host).get_harness)
    return host


class Bags(Steps):
    BAG = userstate.BagStateSpec("bag", VARINT)

    def process(self, element, bag=beam.DoFn.StateParam(BAG)):  # noqa: B008
        key, step = element
        if step == "clear":
            bag.clear()
        elif step != "read":
            bag.add(step)
        self.note(key, *bag.read())


def test_sdks_without_identity_on_state_stream_are_served(serve, tmp_path, monkeypatch):
    """The Python SDK before 2.63 behaves like this."""

    def nameless(state: sdk_worker.GrpcStateHandlerFactory, **arguments: Any) -> None:
        init(state, **arguments)
        state._worker_id = ""

    init = sdk_worker.GrpcStateHandlerFactory.__init__
    monkeypatch.setattr(sdk_worker.GrpcStateHandlerFactory, "__init__", nameless)
    desk = Desk(tmp_path)
    run(Bags(desk), [("a", 1), ("b", 7), ("a", 300)], serve, one_by_one=True)
    assert desk.notes() == ["a 1", "b 7", "a 1 300"]


def test_bag_state_is_stored(serve, tmp_path):
    desk = Desk(tmp_path)
    steps = [("a", 1), ("b", 7), ("a", 300), ("a", "clear"), ("a", 3), ("b", "read")]
    host = run(Bags(desk), steps, serve)
    assert desk.notes() == ["a 1", "b 7", "a 1 300", "a", "a 3", "b 7"]
    kept = {cell.key: data for cell, data in host.state.bags.items() if data}
    assert kept == {b"\x01a": b"\x03", b"\x01b": b"\x07"}
    assert {cell.state_id for cell in host.state.bags} == {"bag"}
    assert {cell.window for cell in host.state.bags} == {b""}


class Lists(Steps):
    LIST = userstate.OrderedListStateSpec("list", coders.StrUtf8Coder())

    def process(self, element, held=beam.DoFn.StateParam(LIST)):  # noqa: B008
        key, (what, *times) = element
        if what == "add":
            for time in times:
                held.add((Timestamp(time), f"v{time}"))
        elif what == "clear":
            held.clear_range(*map(Timestamp, times)) if times else held.clear()
        found = held.read_range(*map(Timestamp, times)) if what == "read" else held.read()
        self.note(key, *(f"{time.micros // 1_000_000}{value}" for time, value in found))


def test_ordered_list_state_is_stored(serve, tmp_path):
    """The list spans several bundles, so the SDK sends most values to the runner and reads them
    again.
    """
    desk = Desk(tmp_path)
    steps = [
        ("a", ("add", 5, -3, 4)),
        ("a", ("add", 4)),
        ("a", ("read", -3, 5)),
        ("a", ("clear", 4, 5)),
        ("b", ("add", 1)),
        ("a", ("read", -9, 9)),
        ("a", ("clear",)),
        ("a", ("add", 2)),
    ]
    host = run(Lists(desk), steps, serve, one_by_one=True)
    assert desk.notes() == [
        "a -3v-3 4v4 5v5",
        "a -3v-3 4v4 4v4 5v5",
        "a -3v-3 4v4 4v4",
        "a -3v-3 5v5",
        "b 1v1",
        "a -3v-3 5v5",
        "a",
        "a 2v2",
    ]
    held = {cell.key: pairs for cell, pairs in host.state.lists.items() if pairs}
    assert held == {b"\x01a": [(2_000_000, b"v2")], b"\x01b": [(1_000_000, b"v1")]}


class Key:
    """A key whose coder no runner knows."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Key) and other.name == self.name

    def __hash__(self) -> int:
        return hash(self.name)


class KeyCoder(beam_coders.FastCoder):
    def _create_impl(self) -> Any:
        return beam_coders.coder_impl.CallbackCoderImpl(
            lambda key: key.name.encode(), lambda data: Key(data.decode())
        )

    def is_deterministic(self) -> bool:
        return True


coders.registry.register_coder(Key, KeyCoder)


class NamesKeys(Bags):
    def process(self, element, bag=beam.DoFn.StateParam(Bags.BAG), at=beam.DoFn.WindowParam):  # noqa: B008
        key, number = element
        bag.add(number)
        self.note(key.name, at.start.micros // 1_000_000, *bag.read())


@pytest.mark.parametrize(
    "windows", [window.FixedWindows(60), NamedWindows()], ids=["fixed", "of its own coder"]
)
def test_state_cells_have_the_key_and_window_bytes_of_keyed_rows(serve, tmp_path, windows):
    desk = Desk(tmp_path)
    p = new_pipeline()
    pairs = (
        p
        | beam.Impulse()
        | beam.FlatMap(lambda _: [("a", 1), ("b", 2), ("a", 61), ("a", 3)])
        | beam.Map(lambda pair: window.TimestampedValue(pair, pair[1]))
        | beam.WindowInto(windows)
        | beam.Map(lambda pair: (Key(pair[0]), pair[1])).with_output_types(tuple[Key, int])
    )
    pairs | beam.GroupByKey() | beam.Map(len)
    pairs | "Steps" >> beam.ParDo(NamesKeys(desk))
    host = StatefulHost(p)
    host.run(serve(host).get_harness)
    assert desk.notes() == ["a 0 1", "b 0 2", "a 60 61", "a 0 1 3"]
    (rows,) = (each for each in host.buffers.values() if isinstance(each, Rows))
    keys_and_windows = {(key, at) for key, _, at, _ in rows.rows}
    assert {(cell.key, cell.window) for cell in host.state.bags} == keys_and_windows
    assert len(keys_and_windows) == 3


class Hoards(Steps):
    """A DoFn that adds values of one kilobyte, and reads all values."""

    KNOWN = userstate.BagStateSpec("known", coders.BytesCoder())
    OPAQUE = userstate.BagStateSpec("opaque", coders.PickleCoder())

    def process(
        self,
        element,
        known=beam.DoFn.StateParam(KNOWN),  # noqa: B008
        opaque=beam.DoFn.StateParam(OPAQUE),  # noqa: B008
    ):
        key, count = element
        for number in range(count):
            known.add(b"%1000d" % number)
            opaque.add("%1000d" % number)  # noqa: UP031
        if not count:
            for values in (known, opaque):
                for _ in range(2):
                    self.note(key, sum(1 for _ in values.read()), sum(map(int, values.read())))


def test_long_bags_are_paged_and_can_be_read_again(serve, tmp_path):
    desk = Desk(tmp_path)
    host = run(Hoards(desk), [("a", 5000), ("a", 0)], serve, one_by_one=True)
    assert desk.notes() == [f"a 5000 {sum(range(5000))}"] * 4
    assert {len(data) > 4 * PIECE_BYTES for data in host.state.bags.values()} == {True}


class Full(ToyState):
    """A state that can't store further values, or can't find stored values."""

    def __init__(self, *broken: str) -> None:
        super().__init__()
        self.broken = broken

    def append_to_bag(self, cell: StateCell, values: bytes) -> None:
        if "append" in self.broken:
            raise OSError("no space left")
        super().append_to_bag(cell, values)

    def read_bag(self, cell: StateCell) -> bytes:
        if "bag" in self.broken:
            raise OSError("the state is gone")
        return super().read_bag(cell)


class Careless(Steps):
    """A DoFn that continues after state errors."""

    BAG = userstate.BagStateSpec("bag", VARINT)

    def process(self, element, bag=beam.DoFn.StateParam(BAG)):  # noqa: B008
        if element[1] == 13:
            raise ValueError("user code's own trouble")
        try:
            self.note("found", *bag.read())
        except RuntimeError:
            self.note("nothing")
        bag.add(1)


def test_state_error_is_runner_error_and_leaves_harness_usable(serve, tmp_path):
    desk = Desk(tmp_path)
    p = new_pipeline()
    p | beam.Impulse() | beam.Map(lambda x: ("a", 1)) | "Steps" >> beam.ParDo(Careless(desk))
    host = StatefulHost(p)
    server = serve(host)
    first, spec = host.specs
    host.run_stage(first, server.get_harness(first.environment_id))
    stage = server.get_harness(spec.environment_id).get_stage_harness(spec, host.side_inputs(spec))
    for _ in range(2):
        with pytest.raises(OSError, match="no space left"):
            stage.process_bundle("b", host.inputs(spec), {}, Full("append"))
        with pytest.raises(OSError, match="the state is gone"):
            stage.process_bundle("b", host.inputs(spec), {}, Full("bag"))
        state = ToyState()
        stage.process_bundle("b", host.inputs(spec), {}, state)
        assert list(state.bags.values()) == [b"\x01"]
    # The SDK may still record a result after the runner abandons the bundle.
    assert sorted(desk.notes()) == sorted(["found", "nothing", "found"] * 2)


def test_user_code_error_is_reported_with_transform(serve, tmp_path):
    with pytest.raises(BundleError, match="own trouble") as caught:
        run(Careless(Desk(tmp_path)), [("a", 13)], serve)
    assert caught.value.transform == "Steps"
