"""Tests of user state and timers in this process: written values are read, and written once per key."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.coders import coders
from apache_beam.transforms import core, userstate
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.utils.timestamp import Timestamp
from beam_runner_model.chunks import StageTimer
from beam_runner_worker.errors import BundleError, HarnessError
from stateful_host import StatefulStage

VARINT = coders.VarIntCoder()
calls: list[str] = []


class Lists(core.CombineFn):
    """A combine function whose output is its accumulator."""

    def setup(self) -> None:
        calls.append("setup")

    def create_accumulator(self) -> list[int]:
        return []

    def add_input(self, accumulator: list[int], element: int) -> list[int]:
        accumulator.append(element)
        return accumulator

    def merge_accumulators(self, accumulators: Any) -> list[int]:
        return [value for accumulator in accumulators for value in accumulator]

    def extract_output(self, accumulator: list[int]) -> list[int]:
        return accumulator

    def teardown(self) -> None:
        calls.append("teardown")


class Everything(beam.DoFn):
    """A DoFn whose element names a method of one of its states. It yields the result of this method."""

    BAG = userstate.BagStateSpec("bag", VARINT)
    VALUE = userstate.ReadModifyWriteStateSpec("value", VARINT)
    SET = userstate.SetStateSpec("set", VARINT)
    LIST = userstate.CombiningValueStateSpec("combined", coders.FastPrimitivesCoder(), Lists())
    ORDERED = userstate.OrderedListStateSpec("ordered", coders.StrUtf8Coder())

    def process(
        self,
        element: Any,
        bag: Any = beam.DoFn.StateParam(BAG),  # noqa: B008
        value: Any = beam.DoFn.StateParam(VALUE),  # noqa: B008
        set_: Any = beam.DoFn.StateParam(SET),  # noqa: B008
        combined: Any = beam.DoFn.StateParam(LIST),  # noqa: B008
        ordered: Any = beam.DoFn.StateParam(ORDERED),  # noqa: B008
    ) -> Iterator[Any]:
        _, (name, method, *arguments) = element
        states = {"bag": bag, "value": value, "set": set_, "combined": combined}
        yield getattr({**states, "ordered": ordered}[name], method)(*arguments)


def everything() -> StatefulStage:
    return StatefulStage(Everything(), tuple[Any, Any])


def results(stage: StatefulStage, *steps: tuple[Any, ...], key: Any = "k") -> list[Any]:
    """Returns the results of the steps in one bundle."""
    chunk = stage.elements(*((key, step) for step in steps))
    return [element.value for element in stage.run(chunk)]


ADDED = (("bag", "add", 1), ("bag", "read"), ("bag", "add", 2), ("bag", "read"))


def test_bag_state_iterable_is_snapshot_of_read() -> None:
    stage = everything()
    assert results(stage, *ADDED)[1::2] == [[1], [1, 2]]
    assert results(stage, ("bag", "add", 3), ("bag", "read"))[1:] == [[1, 2, 3]]
    steps = (("bag", "read"), ("bag", "clear"), ("bag", "add", 4), ("bag", "read"))
    assert results(stage, *steps)[::3] == [[1, 2, 3], [4]]
    assert results(stage, ("bag", "read")) == [[4]]


def test_value_state_is_read_and_written() -> None:
    stage = everything()
    read, write = ("value", "read"), ("value", "write", 5)
    assert results(stage, read, write, read) == [None, None, 5]
    assert results(stage, read, ("value", "clear"), read) == [5, None, None]
    assert results(stage, read) == [None]


def test_set_state_contains_no_duplicates() -> None:
    stage = everything()
    read = ("set", "read")
    steps = (read, ("set", "add", 1), ("set", "add", 1), ("set", "add", 2), read)
    assert results(stage, *steps)[::4] == [set(), {1, 2}]
    assert results(stage, ("set", "add", 2), ("set", "add", 3), read)[2] == {1, 2, 3}
    assert sorted(stage.cells.bags.values()) == [b"\x01\x02\x03"]
    assert results(stage, ("set", "clear"), ("set", "add", 7), read)[2] == {7}
    assert results(stage, read) == [{7}]


def test_combining_state_result_does_not_change_later() -> None:
    calls.clear()
    stage = everything()
    read, add = ("combined", "read"), ("combined", "add", 1)
    # All of these lists are encoded after the last list exists.
    given = [value for value in results(stage, read, add, read, add, read) if value is not None]
    assert given == [[], [1], [1, 1]]
    assert results(stage, add, read)[1] == [1, 1, 1]
    assert results(stage, ("combined", "clear"), read)[1] == []
    stage.harness.close()
    assert calls == ["setup", "teardown"] * 3


def test_ordered_list_state_is_read_and_cleared() -> None:
    stage = everything()
    at = Timestamp
    steps = [("ordered", "add", (at(t), name)) for t, name in ((5, "b"), (1, "a"), (5, "c"))]
    ranged = ("ordered", "read_range", at(1), at(5))
    found = results(stage, *steps, ("ordered", "read"), ranged)
    assert found[3:] == [[(at(1), "a"), (at(5), "b"), (at(5), "c")], [(at(1), "a")]]
    cleared = ("ordered", "clear_range", at(0), at(2))
    assert results(stage, cleared, ("ordered", "read"))[1] == [(at(5), "b"), (at(5), "c")]
    assert results(stage, ("ordered", "clear"), ("ordered", "read"))[1] == []
    with pytest.raises(BundleError, match="outside of the range"):
        results(stage, ("ordered", "add", (Timestamp(micros=(1 << 63) - 1), "z")))


def test_state_of_key_is_read_and_written_once_for_consecutive_elements() -> None:
    stage = everything()
    chunk = stage.elements(*((key, step) for key in "ab" for step in (*ADDED, ("bag", "add", 9))))
    stage.run(chunk)
    assert stage.cells.log == ["read bag", "append bag"] * 2
    assert sorted(stage.cells.bags.values()) == [b"\x01\x02\x09"] * 2


@pytest.mark.parametrize(
    "keys",
    [(1, 1.0, True), ((1,), (1.0,)), (0.0, -0.0), ("1", b"1"), ([1], [1.0]), (None, "")],
)
def test_state_of_keys_with_different_encodings_is_separate(keys: tuple[Any, ...]) -> None:
    stage = everything()
    pairs = [(key, step) for _ in range(2) for key in keys for step in ADDED[:1]]
    stage.run(stage.elements(*pairs))
    cells = stage.cells.bags
    assert len({cell.key for cell in cells}) == len(cells) == len(set(map(repr, keys)))
    assert set(cells.values()) == {b"\x01\x01"}


def test_state_of_windows_is_separate() -> None:
    stage = everything()
    pair = ("k", ("bag", "add", 1))
    stage.run(stage.elements(pair), stage.elements(pair, start=10), stage.elements(pair))
    assert sorted(stage.cells.bags.values()) == [b"\x01", b"\x01\x01"]


def test_stateful_stage_without_state_raises_harness_error() -> None:
    stage = everything()
    stage.cells = None  # type: ignore[assignment]
    with pytest.raises(HarnessError, match="no state for its stateful DoFn"):
        results(stage, ("bag", "read"))


class Timers(beam.DoFn):
    """A DoFn that sets and clears the timers of its element. Timers emit their identity and set another timer."""

    BAG = userstate.BagStateSpec("bag", VARINT)
    EVENT = userstate.TimerSpec("event", TimeDomain.WATERMARK)
    CLOCK = userstate.TimerSpec("clock", TimeDomain.REAL_TIME)

    def process(
        self,
        element: Any,
        bag: Any = beam.DoFn.StateParam(BAG),  # noqa: B008
        event: Any = beam.DoFn.TimerParam(EVENT),  # noqa: B008
        clock: Any = beam.DoFn.TimerParam(CLOCK),  # noqa: B008
    ) -> None:
        _, (name, method, *arguments) = element
        bag.add(1)
        getattr({"event": event, "clock": clock}[name], method)(*arguments)

    @userstate.on_timer(EVENT)
    def ring(
        self,
        key: Any = beam.DoFn.KeyParam,
        at: Any = beam.DoFn.TimestampParam,
        place: Any = beam.DoFn.WindowParam,
        tag: Any = beam.DoFn.DynamicTimerTagParam,
        bag: Any = beam.DoFn.StateParam(BAG),  # noqa: B008
        event: Any = beam.DoFn.TimerParam(EVENT),  # noqa: B008
    ) -> Iterator[Any]:
        bag.add(2)
        event.set(at + 1, dynamic_timer_tag="next")
        yield key, int(at), int(place.start), tag, list(bag.read())

    @userstate.on_timer(CLOCK)
    def strike(self, at: Any = beam.DoFn.TimestampParam) -> Iterator[Any]:
        yield at.micros


def timers() -> StatefulStage:
    return StatefulStage(Timers(), tuple[str, Any])


def test_timer_is_passed_to_runner_with_its_watermark_hold() -> None:
    stage = timers()
    steps = (
        *(("event", "set", 7), ("event", "set", Timestamp(8), "tag")),
        *(("event", "clear"), ("clock", "set", 1000.5), ("clock", "clear", "tag")),
    )
    stage.run(stage.elements(*(("k", step) for step in steps), micros=3_000_000))
    set_ = [(t.family, t.tag, t.fire_at, t.hold) for t in stage.cells.timers]
    assert set_ == [
        ("ts-event", "", 7000, 7000),
        ("ts-event", "tag", 8000, 8000),
        ("ts-event", "", None, None),
        ("ts-clock", "", 1_000_500, 3000),
        ("ts-clock", "tag", None, None),
    ]
    places = {(t.transform_id, t.key, t.windows) for t in stage.cells.timers}
    assert len(places) == 1
    ((transform, key, (window,)),) = places
    assert transform.startswith(
        "Stateful"
    ) and key == coders.StrUtf8Coder().get_impl().encode_nested("k")
    assert window == coders.IntervalWindowCoder().encode(stage_window(stage))


def stage_window(stage: StatefulStage) -> Any:
    chunk = stage.elements(("k", 1))
    return stage.coder.get_impl().decode_nested(bytes(chunk.data)).windows[0]


def test_firing_timers_read_state_and_set_timers() -> None:
    stage = timers()
    given = stage.elements(("k", ("event", "set", 5, "x")), ("j", ("event", "set", 6)))

    def fire(number: int) -> Any:
        return lambda: stage.timer(stage.cells.timers[number])

    found = stage.run(given, fire(0), fire(1), fire(2))
    assert [element.value for element in found] == [
        ("k", 5, 0, "x", [1, 2]),
        ("j", 6, 0, "", [1, 2]),
        ("k", 6, 0, "next", [1, 2, 2]),
    ]
    assert [int(element.timestamp) for element in found] == [5, 6, 6]
    assert [(t.tag, t.fire_at) for t in stage.cells.timers[2:]] == [
        *(("next", 6000), ("next", 7000), ("next", 7000))
    ]


def test_timers_of_another_bundle_need_no_elements() -> None:
    stage = timers()
    stage.run(stage.elements(("k", ("clock", "set", 5))))
    (timer,) = stage.cells.timers
    assert [e.value for e in stage.run(stage.timer(timer))] == [5_000_000]


def test_user_error_in_timer_names_transform() -> None:
    class Failing(Timers):
        SPEC = userstate.TimerSpec("failing", TimeDomain.WATERMARK)

        def process(self, element: Any, spec: Any = beam.DoFn.TimerParam(SPEC)) -> None:  # type: ignore[override]  # noqa: B008
            spec.set(1)

        @userstate.on_timer(SPEC)
        def fail(self) -> None:
            raise ValueError("in a timer")

    stage = StatefulStage(Failing(), tuple[str, int])
    stage.run(stage.elements(("k", 1)))
    timer: StageTimer = stage.cells.timers[0]
    with pytest.raises(BundleError, match=r"in a timer \[while running 'Stateful'\]"):
        stage.run(stage.timer(timer))
