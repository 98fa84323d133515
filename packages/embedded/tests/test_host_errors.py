"""Tests that a bundle fails with the error that the runner raised, even if user code catches the
error.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.coders import coders
from apache_beam.transforms import userstate
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.utils.timestamp import Timestamp
from beam_runner_model.chunks import GroupChunk, StageTimer, StateCell
from beam_runner_model.stages import InputKind
from beam_runner_model.value_pieces import ValuePieces
from beam_runner_worker.errors import BundleError, TimerRefused
from mini_runner import EmptyArtifacts, Logs, Plan, Port, job
from random_elements import ANY
from stateful_host import RecordingUserState, StatefulStage

from beam_runner_embedded.harness import EmbeddedHarness
from beam_runner_embedded.host_errors import ErrorRecordingState, HostErrorRecorder

VARINT = coders.VarIntCoder()
CELL = StateCell("t", "s", b"w", b"k")


class Away(Exception):
    """An error that the runner raises."""


class Careful(beam.DoFn):
    """A DoFn that does the action of its element, and continues after any error."""

    raises = False

    BAG = userstate.BagStateSpec("bag", VARINT)
    VALUE = userstate.ReadModifyWriteStateSpec("value", VARINT)
    SET = userstate.SetStateSpec("set", VARINT)
    SUM = userstate.CombiningValueStateSpec("sum", VARINT, sum)
    ORDERED = userstate.OrderedListStateSpec("ordered", VARINT)
    TIMER = userstate.TimerSpec("timer", TimeDomain.WATERMARK)

    def process(
        self,
        element: Any,
        bag: Any = beam.DoFn.StateParam(BAG),  # noqa: B008
        value: Any = beam.DoFn.StateParam(VALUE),  # noqa: B008
        set_: Any = beam.DoFn.StateParam(SET),  # noqa: B008
        sum_: Any = beam.DoFn.StateParam(SUM),  # noqa: B008
        ordered: Any = beam.DoFn.StateParam(ORDERED),  # noqa: B008
        timer: Any = beam.DoFn.TimerParam(TIMER),  # noqa: B008
    ) -> Iterator[Any]:
        _, (name, method, *arguments) = element
        params = {"bag": bag, "value": value, "set": set_, "sum": sum_}
        params |= {"ordered": ordered, "timer": timer}
        try:
            yield getattr(params[name], method)(*arguments)
        except Exception as error:
            if self.raises:
                raise
            yield type(error).__name__

    @userstate.on_timer(TIMER)
    def rings(self) -> None:
        """Does nothing."""


class Raising(Careful):
    """A DoFn that doesn't catch errors."""

    raises = True


AT = Timestamp(1)
CALLS = [
    ("read_bag", ("bag", "read")),
    ("read_bag", ("value", "read")),
    ("read_bag", ("set", "read")),
    ("read_bag", ("sum", "read")),
    ("read_bag", ("sum", "add", 1)),
    ("read_ordered_values", ("ordered", "read")),
    ("read_ordered_values", ("ordered", "read_range", AT, AT)),
    ("insert_ordered_value", ("ordered", "add", (AT, 1))),
    ("remove_ordered_values", ("ordered", "clear_range", AT, AT)),
    ("clear_cell", ("ordered", "clear")),
    ("set_timer", ("timer", "set", 5)),
    ("set_timer", ("timer", "clear")),
]


@pytest.mark.parametrize(("port", "step"), CALLS, ids=[f"{step[0]}-{step[1]}" for _, step in CALLS])
def test_runner_error_caught_by_user_code_in_state_or_timer_fails_bundle(
    port: str, step: tuple[Any, ...]
) -> None:
    error = Away("no state")

    def fail(*_: Any) -> Any:
        raise error

    stage = StatefulStage(Careful(), tuple[Any, Any])
    whole = stage.cells
    stage.cells = RecordingUserState()
    setattr(stage.cells, port, fail)
    with pytest.raises(Away) as raised:
        stage.run(stage.elements(("k", step)))
    assert raised.value is error
    stage.cells = whole
    assert stage.run(stage.elements(("k", ("bag", "read"))))[0].value == []


def test_user_code_error_caught_by_user_code_fails_no_bundle() -> None:
    stage = StatefulStage(Careful(), tuple[Any, Any])
    too_late = Timestamp(micros=(1 << 63) - 1)
    (found,) = stage.run(stage.elements(("k", ("ordered", "add", (too_late, 1)))))
    assert found.value == "ValueError"


def test_timer_refused_by_runner_is_error_of_user_code() -> None:
    def refuse(_: StageTimer) -> None:
        raise TimerRefused("not now")

    step = ("timer", "set", 5)
    stage = StatefulStage(Careful(), tuple[Any, Any])
    stage.cells.set_timer = refuse  # type: ignore[method-assign]
    assert stage.run(stage.elements(("k", step)))[0].value == "TimerRefused"
    raising = StatefulStage(Raising(), tuple[Any, Any])
    raising.cells.set_timer = refuse  # type: ignore[method-assign]
    with pytest.raises(BundleError, match=r"not now \[while running 'Stateful'\]"):
        raising.run(raising.elements(("k", step)))


def test_ordered_values_with_error_are_not_returned_in_part() -> None:
    class Half(RecordingUserState):
        def read_ordered_values(
            self, cell: StateCell, start: int, end: int
        ) -> Iterator[tuple[int, bytes]]:
            yield 1, b"\x01"
            raise Away("the second")

    errors = HostErrorRecorder()
    with pytest.raises(Away):
        ErrorRecordingState(Half(), errors).read_ordered_values(CELL, 0, 9)
    assert isinstance(errors.first, Away)


def test_first_runner_error_is_reported() -> None:
    errors = HostErrorRecorder()
    for text in ("first", "second"):
        with pytest.raises(Away), errors:
            raise Away(text)
    assert str(errors.first) == "first"


def read_or_give_up(group: tuple[Any, Any]) -> list[Any]:
    try:
        return list(group[1])
    except Away:
        return []


def test_runner_error_caught_by_user_code_in_large_group_fails_bundle() -> None:
    def fail(number: int) -> bytes:
        raise Away("no values")

    pipeline = beam.Pipeline()
    pairs = pipeline | beam.Create([("k", 1)])
    _ = pairs | beam.GroupByKey() | beam.Map(read_or_give_up) | beam.Map(str)
    plan = Plan(pipeline)
    (planned,) = (s for s in plan.stages if s.spec.input.kind is InputKind.GROUPS)
    harness = EmbeddedHarness(job(), EmptyArtifacts(), Logs())
    stage = harness.get_stage_harness(planned.spec, None)  # type: ignore[arg-type]
    key = ANY.get_impl().encode_nested("k")
    lost = ValuePieces(size=1 << 20, pieces=1, piece=fail)
    chunk = GroupChunk(
        keys=[key], windows=b"", timestamps=[0], counts=[1], values=[lost], pane=b"\x0f"
    )
    ports = {name: Port() for name in planned.output_buffers}
    with pytest.raises(Away, match="^no values$"):
        stage.process_bundle("b", [chunk], ports)
    harness.close()
